//! Finds the installed PMIx, says which package is missing, and compiles the C shims against its headers.
//!
//! `RINGWATCH_PMIX_INCLUDE` names the folder of `pmix.h` when it is in an unusual place.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// A header that only PMIx's development package with its internal headers has.
const PMIX_INTERNAL: &str = "pmix/src/mca/psensor/psensor.h";

fn main() {
    println!("cargo:rerun-if-env-changed=RINGWATCH_PMIX_INCLUDE");
    for file in ["pmix.c", "prte.c", "prte_nodes.c", "prte3.h", "ompi.c", "ringwatch_shims.h"] {
        println!("cargo:rerun-if-changed=src/{file}");
    }
    let include = pmix_include();
    let mut pmix = cc::Build::new();
    pmix.std("gnu11").warnings(true).extra_warnings(true).flag("-Wno-unused-parameter");
    for folder in [include.join("pmix"), include.clone(), include.join("..")] {
        pmix.flag("-isystem").flag(folder.to_str().expect("include folders are printable"));
    }
    pmix.file("src/pmix.c").file("src/prte.c").file("src/prte_nodes.c").compile("ringwatch_pmix_shims");
    cc::Build::new()
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .file("src/ompi.c")
        .compile("ringwatch_ompi_shims");
}

/// Folder with `pmix.h` and, below `pmix/`, the internal headers.
fn pmix_include() -> PathBuf {
    let mut candidates = Vec::new();
    if let Ok(folder) = env::var("RINGWATCH_PMIX_INCLUDE") {
        candidates.push(PathBuf::from(folder));
    } else {
        candidates.extend(asked_of_pmix_info());
        candidates.push(PathBuf::from("/usr/include"));
        candidates.push(PathBuf::from("/usr/local/include"));
    }
    if let Some(found) = candidates.iter().find(|folder| folder.join(PMIX_INTERNAL).exists()) {
        return found.clone();
    }
    let looked: Vec<_> = candidates.iter().map(|folder| folder.display().to_string()).collect();
    let missing = match candidates.iter().find(|folder| folder.join("pmix.h").exists()) {
        Some(folder) => format!(
            "{} has pmix.h but not {PMIX_INTERNAL}: this PMIx was installed without its internal \
                                 headers (--with-devel-headers)",
            folder.display()
        ),
        None => format!(
            "no PMIx headers in {}: install the package libpmix-dev (Debian) or pmix-devel (Fedora), or set \
                         RINGWATCH_PMIX_INCLUDE to the folder of pmix.h",
            looked.join(", ")
        ),
    };
    eprintln!("ringwatch: {missing}");
    exit(1);
}

fn asked_of_pmix_info() -> Option<PathBuf> {
    let output = Command::new("pmix_info").args(["--path", "incdir"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = text.split_once("Incdir:")?.1.lines().next()?.trim();
    Path::new(folder).exists().then(|| PathBuf::from(folder))
}
