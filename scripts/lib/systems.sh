#!/bin/bash
# systems.sh TAKEN FILE... [-- ARGUMENT...]: whole-system tests inside a container, on four virtual hosts of its own: of
# each FILE of tests/tests that no other container has taken, one after the other. TAKEN is a folder that the containers
# share, in which who makes a file's folder has taken the file. ARGUMENTs are for the test programs. What a file's tests
# print comes when they have ended. Exit status: 0 all passed, 1 something did not.
set -euo pipefail
taken=$1
shift
files=()
while (($#)) && [[ $1 != -- ]]; do
    files+=("$1")
    shift
done
(($# == 0)) || shift

/src/scripts/install --from /src/target/trixie/release
rw-hosts up 4
status=0
for file in "${files[@]}"; do
    if ! mkdir "$taken/$file" 2>/dev/null; then
        [[ -d $taken/$file ]] || { echo "systems.sh: $taken cannot be written, so nobody knows who tests $file" >&2; exit 1; }
        continue
    fi
    cargo test --offline -p system-tests --test "$file" -- --test-threads=1 "$@" >"/tmp/$file" 2>&1 || status=1
    # One at a time: the others print, too. A file without a test of the name that was asked for has nothing to say.
    grep -q '^running 0 tests' "/tmp/$file" || flock "$taken" sed '/Blocking waiting for/d; /Finished .test. profile/d' "/tmp/$file"
done
exit $status
