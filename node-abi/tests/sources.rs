//! What a build calls its sources, which is a part of its release: nodes with others are refused.

#[path = "../build/sources.rs"]
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use node_abi::versions::RELEASE;

/// A tree with two sources, and a file that is not installed.
fn tree(folder: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sources").join(folder);
    let _ = fs::remove_dir_all(&root);
    for (path, text) in [
        ("Cargo.lock", "version = 4"),
        ("propagation/src/lib.rs", "mod graph;"),
        ("mpi-layer/src/deep/er.rs", "fn f() {}"),
        ("propagation/tests/all.rs", "fn t() {}"),
    ] {
        fs::create_dir_all(root.join(path).parent().expect("it is in a folder")).expect("the folder can be written");
        fs::write(root.join(path), text).expect("the folder can be written");
    }
    root
}

#[test]
fn the_same_sources_have_one_name_wherever_they_are() {
    let (here, there) = (tree("here"), tree("there"));
    fs::write(there.join("propagation/tests/all.rs"), "fn u() {}").expect("the folder can be written");
    assert_eq!(sources::name(&here), sources::name(&there));
}

#[test]
fn other_sources_have_another_name() {
    let changes: [fn(&Path) -> std::io::Result<()>; 4] = [
        |root| fs::write(root.join("mpi-layer/src/deep/er.rs"), "fn f() { }"),
        |root| fs::write(root.join("Cargo.lock"), "version = 5"),
        |root| fs::rename(root.join("propagation/src/lib.rs"), root.join("propagation/src/other.rs")),
        |root| fs::write(root.join("propagation/src/new.rs"), ""),
    ];
    let stock = sources::name(&tree("stock"));
    for (number, change) in changes.iter().enumerate() {
        let root = tree("changed");
        change(&root).expect("the folder can be written");
        assert_ne!(sources::name(&root), stock, "change {number}");
    }
}

#[test]
fn a_release_tells_its_version_and_its_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let expected = format!("{}+{}", env!("CARGO_PKG_VERSION"), sources::name(&root));
    assert_eq!(RELEASE, option_env!("RINGWATCH_RELEASE").unwrap_or(&expected));
}
