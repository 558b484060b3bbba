#!/bin/bash
# systems.sh TAKEN PART... [-- ARGUMENT...]: whole-system tests inside a container, on four virtual hosts of its own: of
# each PART of tests/tests, a folder or folder/file, that no other container has taken, one after the other. TAKEN is a folder
# that the containers share; the container that makes a part's folder there has taken the part. ARGUMENTs are for the test
# programs. What a part's tests print comes when they have ended. Exit status: 0 all passed, 1 something did not.
set -euo pipefail
taken=$1
shift
parts=()
while (($#)) && [[ $1 != -- ]]; do
    parts+=("$1")
    shift
done
(($# == 0)) || shift

/src/scripts/install --from /src/target/trixie/release
rw-hosts up 4
status=0
for part in "${parts[@]}"; do
    mark=${part/\//.}
    if ! mkdir "$taken/$mark" 2>/dev/null; then
        [[ -d $taken/$mark ]] || { echo "systems.sh: $taken cannot be written, so nobody knows who tests $part" >&2; exit 1; }
        continue
    fi
    # The tests of a file are those of a module of its folder's program.
    [[ $part == */* ]] && of_file=("${part#*/}::") || of_file=()
    began=$SECONDS
    cargo test --offline -p system-tests --test "${part%/*}" -- --test-threads=1 "${of_file[@]}" "$@" >"/tmp/$mark" 2>&1 || status=1
    echo "$part took $((SECONDS - began)) s" >>"/tmp/$mark"
    # One at a time: the others print, too. A part without a test of the name that was asked for has nothing to say.
    grep -q '^running 0 tests' "/tmp/$mark" || flock "$taken" sed '/Blocking waiting for/d; /Finished .test. profile/d' "/tmp/$mark"
done
exit $status
