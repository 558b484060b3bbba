//! Keeps the component tables, which are written in C, visible in the shared object.

fn main() {
    println!("cargo:rerun-if-changed=exports.map");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={folder}/exports.map");
}
