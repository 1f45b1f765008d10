#!/bin/sh
# Runs builds one at a time on this machine: build.sh cargo test
set -eu

# The machine's name is in the key, so that machines with a common store do not wait for each other.
exec tenure run --wait 2h --note "$PWD" "build/$(uname -n)" -- "$@"
