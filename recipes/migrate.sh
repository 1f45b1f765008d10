#!/bin/sh
# Runs the migration of a version once, in whichever instance starts first: VERSION=v42 migrate.sh ./migrate up
#
# The other instances wait for its end. If it fails, the next instance runs it again; with `--retry fail` none does.
set -eu

exec tenure once migrate --wait 30m --slot "${VERSION:?the name of the version that is deployed}" --keep 365d -- "$@"
