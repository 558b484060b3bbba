#!/bin/bash
# build.sh [CARGO ARGUMENT]...: runs cargo (build --release, if nothing is said)
# in the container. With the host's network: cargo may have to download crates.
set -euo pipefail
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/container.sh
. "$lib/container.sh"
# shellcheck source=scripts/lib/root.sh
. "$lib/root.sh"

(($# > 0)) || set -- build --release
container_rights
root_prepare
space_for_build "$rw_built_kib"
status=0
container_run "$rw_root" host cargo "$@" || status=$?
exit $status
