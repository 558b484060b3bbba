#!/bin/bash
# systems-build.sh: builds, inside a container, what whole-system tests need: what a user installs, the tests, and another
# release of the plugin and the daemon for the tests of mixed installations. Exit status: 0 all is built, else cargo's.
set -euo pipefail
cargo build --quiet --release --workspace --exclude fuzz --exclude structure
cargo test --quiet --no-run -p system-tests
# What is the same in both releases is not built again.
if [[ ! -d target/trixie/other ]]; then
    rm -rf target/trixie/other.new
    mkdir -p target/trixie/other.new/debug/deps
    cp -a target/trixie/debug/{.fingerprint,build} target/trixie/other.new/debug
    cp -a target/trixie/debug/deps/*.{rlib,rmeta,so,d} target/trixie/other.new/debug/deps
    mv target/trixie/other.new target/trixie/other
fi
RINGWATCH_RELEASE=0.0.0-other cargo build --quiet --target-dir target/trixie/other -p pmix-plugin -p rdma-heartbeat
