//! The programs of this package, compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::lab::{FOLDER, run};

/// A program may have a function of PMIx's of its own that only other libraries call.
const MAY_REPLACE: &str = "-Wl,--export-dynamic-symbol=PMIx_Lookup";

/// The compiled survivor.
pub fn survivor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("survivor", "mpicc"))
}

/// Compiles one of the programs of this package.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile(name: &str, compiler: &str) -> PathBuf {
    let target = compiled(name);
    let source = format!("{}/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let new = target.with_extension("new");
    let new_text = new.display().to_string();
    run(
        compiler,
        &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &new_text, &source, "-lpthread", MAY_REPLACE],
    );
    fs::rename(&new, &target).expect("/tmp can be written");
    target
}

/// Compiles one of the examples that users find.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile_example(name: &str) -> PathBuf {
    let target = compiled(name);
    let source = format!("{}/../examples/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let words =
        ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &target.display().to_string(), &source, "-lm"];
    run("mpicc", &words);
    target
}

/// Compiles one of the programs of this package that speak to PMIx and not to MPI.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile_for_pmix(name: &str) -> PathBuf {
    let target = compiled(name);
    let source = format!("{}/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let words = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &target.display().to_string(), &source];
    run("pmixcc", &words);
    target
}

/// Compiles one of the libraries of this package that are there to be preloaded.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile_library(name: &str, compiler: &str) -> PathBuf {
    let target = compiled(&format!("{name}.so"));
    let source = format!("{}/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let target_text = target.display().to_string();
    let options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
    run(compiler, &[&options[..], &["-o", &target_text, &source]].concat());
    target
}

/// Compiles one of the Fortran programs of this package, with `BINDING` defined as this number: 1 is mpif.h, 2 is "use
/// mpi", 3 is "use mpi_f08".
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn compile_fortran(name: &str, binding: u32, options: &[&str]) -> PathBuf {
    let target = compiled(&format!("{name}.{binding}"));
    let source = format!("{}/programs/{name}.F90", env!("CARGO_MANIFEST_DIR"));
    let (output, define) = (target.display().to_string(), format!("-DBINDING={binding}"));
    // The compiler that libopenmpi-dev brings along, which need not be the system's default.
    let words = ["OMPI_FC=gfortran-14", "mpifort", "-O1", "-Wall", "-Werror", &define, "-o", &output, &source];
    run("env", &[&words, options].concat());
    target
}

/// Where a program of this name is put, by tests that have no lab yet, too.
fn compiled(name: &str) -> PathBuf {
    fs::create_dir_all(FOLDER).expect("/tmp can be written");
    Path::new(FOLDER).join(name)
}
