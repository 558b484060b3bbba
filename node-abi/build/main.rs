//! Names the sources that are built: what was built of others must not meet it in one job, also if both call themselves
//! the same version.

mod sources;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build");
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where this package is")).join("..");
    for path in sources::places(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rustc-env=RINGWATCH_SOURCES={}", sources::name(&root));
}
