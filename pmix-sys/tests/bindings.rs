//! The committed bindings are those of the installed headers.

use std::fs;
use std::path::{Path, PathBuf};

/// What is taken of pmix_common.h.
const TYPES: &str =
    "pmix_(value|info|pdata|proc|status|key|nspace|rank|data_type|data_buffer|byte_object|iof_channel)_t";
const CONSTANTS: &str = "PMIX_(BYTE|MAX_NSLEN|MAX_KEYLEN|STRING|PERSIST|PERSIST_FIRST_READ|SUCCESS|ERROR|ERR_NOT_FOUND|ERR_PROC_TERM_WO_SYNC|ERR_LOST_CONNECTION|ERR_PARTIAL_SUCCESS|OPERATION_SUCCEEDED|RANK_WILDCARD|FWD_STDOUT_CHANNEL)";

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/v5.rs")
}

/// The folder of PMIx's headers, and that of the compiler's own, which libclang alone has not.
fn folders() -> [String; 2] {
    let of_compiler = |words: &[&str]| {
        let output = std::process::Command::new("gcc").args(words).output().expect("gcc is installed");
        String::from_utf8(output.stdout).expect("a path").trim().to_owned()
    };
    let machine = of_compiler(&["-dumpmachine"]);
    let builtin = of_compiler(&["-print-file-name=include"]);
    // Debian's "-gnu" folders have the name of the machine without its vendor.
    [format!("/usr/lib/{machine}/pmix2/include"), builtin]
}

fn fresh() -> String {
    let [pmix, builtin] = folders();
    bindgen::Builder::default()
        .header(format!("{pmix}/pmix_common.h"))
        .clang_args([format!("-I{pmix}"), format!("-I{builtin}")])
        .allowlist_type(TYPES)
        .allowlist_var(CONSTANTS)
        .default_macro_constant_type(bindgen::MacroTypeVariation::Signed)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(82, 0).expect("a stable release"))
        .raw_line("// Made by bindgen of pmix_common.h of PMIx 5.0.")
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("pmix_common.h can be read")
        .to_string()
}

#[test]
fn they_are_those_of_the_installed_headers() {
    let committed = fs::read_to_string(committed()).expect("they are committed");
    assert!(committed == fresh(), "make them anew: cargo test -p pmix-sys -- --ignored");
}

#[test]
#[ignore = "writes the bindings anew"]
fn write() {
    fs::write(committed(), fresh()).expect("the source can be written");
}
