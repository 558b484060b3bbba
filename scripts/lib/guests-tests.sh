#!/bin/bash
# Runs a test program in both of two virtual machines at the same time: `cargo test` has it as the runner.
#   guests-tests.sh PROGRAM [ARGUMENT...]    makes the machines
#   guests-tests.sh guest PROGRAM [ARGUMENT...]    what runs in each of them
set -euo pipefail

if [[ $1 != guest ]]; then
    exec rw-guests --guests 2 --time 600 -- "$0" guest "$@"
fi
shift
# A machine that comes back runs this again, and goes on where it went down. That of the last test does not come back.
[[ -e /run/guests/went-down ]] || "$@" --skip whole_guest
"$@" whole_guest_comes_back
"$@" whole_guest_dies
