#!/bin/sh
# Runs a command with a port and an empty database of its own, at most 8 at once: test-database.sh cargo test
set -eu

# The killed user of a number may have left its database and its connections.
# shellcheck disable=SC2016 # the inner shell expands the variables
exec tenure run --wait 2h --permits 1/8 test-database -- sh -euc '
    export PORT="$((5500 + TENURE_PERMIT))" PGDATABASE="test_$TENURE_PERMIT"
    psql -d postgres -qc "drop database if exists $PGDATABASE with (force)" -c "create database $PGDATABASE"
    exec "$@"' sh "$@"
