#!/bin/bash
# oldest-compiler.sh: builds all that is installed, and checks all other code, with Debian 13's own cargo and rustc, the
# oldest that the workspace declares (rust-version). Nothing is optimised, as that takes most of the time and refuses no
# code. Exit status: 0 it compiles, else cargo's; 2 a prerequisite is missing.
set -euo pipefail
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/container.sh
. "$lib/container.sh"
# shellcheck source=scripts/lib/root.sh
. "$lib/root.sh"

container_rights
root_prepare
# Without /opt/rust, where a newer compiler may be lent to the container.
for command in "build --release" "check --workspace --all-targets"; do
    say "cargo $command, with Debian's own compiler"
    # shellcheck disable=SC2086
    container_run "$rw_root" host env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo $command --quiet --locked --target-dir target/oldest
done
