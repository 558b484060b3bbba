//! The name under which programs that are linked with the library ask for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Raised when a function loses or changes an argument.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libringwatch.so.0");
}
