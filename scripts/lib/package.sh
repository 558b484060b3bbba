#!/bin/bash
# package.sh REVISION OUT FORMAT...: makes packages (deb, rpm) of the release build for the Open MPI of the system on which it
# runs, in the folder OUT, and prints their names. Called by scripts/package.
set -euo pipefail
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/say.sh
. "$lib/say.sh"
# shellcheck source=scripts/lib/places.sh
. "$lib/places.sh"
# shellcheck source=scripts/lib/package-parts.sh
. "$lib/package-parts.sh"

revision=$1 out=$2
shift 2
source=$(cd "$lib/../.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# stripped FOLDER: the build without symbols that only a debugger reads.
stripped() {
    local file
    mkdir "$1"
    for file in libringwatch_pmix.so libringwatch_clocks.so libringwatch_mpi.so libringwatch.so ringwatchd ringwatch; do
        [[ -f $built/$file ]] || give_up "$built/$file does not exist: build first with 'cargo build --release'"
        strip --strip-unneeded -R .comment -R .note -o "$1/$file" "$built/$file"
    done
}

# tree FOLDER PYTHON: what is installed, below FOLDER, with the Python module in the folder PYTHON.
tree() {
    RINGWATCH_PYTHON=$2 "$lib/../install" --destdir "$1" --from "$work/stripped" 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
    # Of those who may run this one it is told in the maintainer's script.
    install -m 750 "$work/stripped/ringwatchd" "$1$program_folder/ringwatchd-priority"
    # Libraries are no programs.
    find "$1" -name '*.so*' -type f -exec chmod 644 {} +
}

built=${CARGO_TARGET_DIR:-$source/target}/release
find_places
stripped "$work/stripped"
for format; do
    case $format in
    deb) make_deb "$work/deb" ;;
    rpm) make_rpm "$work/rpm" ;;
    esac
done
