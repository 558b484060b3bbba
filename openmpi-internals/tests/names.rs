//! Open MPI's inside has one place: no other crate has a name of it, or an offset. And the installed release has all
//! names.

use std::ffi::{CStr, c_void};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use openmpi_internals::{functions, variables};

/// What the names of Open MPI's functions, variables and classes begin with.
const PREFIXES: [&str; 3] = ["\"ompi_", "\"opal_", "\"mca_"];

/// The source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder can be read");
    for path in entries.map(|entry| entry.expect("an entry can be read").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The other crates of the workspace that are installed.
fn other_crates() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in its workspace");
    let text = read_to_string(workspace.join("Cargo.toml")).expect("the workspace has a manifest");
    let list =
        text.lines().find_map(|line| line.strip_prefix("default-members = ")).expect("it lists what is installed");
    let names = list.split('"').skip(1).step_by(2).filter(|name| *name != env!("CARGO_PKG_NAME"));
    names.map(|name| workspace.join(name)).collect()
}

/// What a line says without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether a line has the name of something that Open MPI has inside.
fn has_name(line: &str) -> bool {
    // Files of components, also in a sentence, and the command `ompi_info` are no secret.
    let is_public =
        |rest: &str| rest.split([' ', '"']).next().is_some_and(|name| name.ends_with(".so") || name == "info");
    PREFIXES.iter().any(|prefix| code(line).match_indices(prefix).any(|(at, _)| !is_public(&line[at + prefix.len()..])))
}

/// Whether a line has a place in a struct as a number: a constant, or one that is added to an address.
fn has_offset(line: &str) -> bool {
    let line = code(line);
    let is_number = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let is_constant = line.contains("const ") && line.contains(": usize") && line.contains("= 0x");
    let is_list = line.contains("const ") && line.contains(": [usize") && line.contains("0x");
    let is_added = line.split(".byte_add(").skip(1).any(is_number);
    is_constant || is_list || is_added
}

/// Lines of which something is so, each with its place, in those crates that `is_meant`.
fn lines(is_meant: impl Fn(&Path) -> bool, is_so: impl Fn(&str) -> bool) -> (usize, Vec<String>) {
    let mut files = Vec::new();
    other_crates().iter().filter(|folder| is_meant(folder)).for_each(|folder| sources(&folder.join("src"), &mut files));
    let mut found = Vec::new();
    for file in &files {
        let text = read_to_string(file).expect("a source file can be read");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_so(line)) {
            found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
        }
    }
    (files.len(), found)
}

#[test]
fn no_other_crate_has_a_name_of_open_mpis_inside() {
    let (files, found) = lines(|_| true, has_name);
    assert!(files > 100, "{files} source files");
    assert!(found.is_empty(), "names belong into openmpi-internals/src/v5_0:\n{}", found.join("\n"));
    assert!(has_name("let size = library.symbol(c\"ompi_comm_size\");") && !has_name("// \"ompi_comm_size\""));
    assert!(!has_name("folder.join(\"mca_coll_ringwatch.so\")"));
}

#[test]
fn no_other_crate_that_uses_this_one_has_an_offset() {
    let uses_this = |folder: &Path| {
        let manifest = read_to_string(folder.join("Cargo.toml")).expect("a crate has a manifest");
        manifest.contains("openmpi-internals.workspace")
    };
    let (files, found) = lines(uses_this, has_offset);
    assert!(files > 50, "{files} source files");
    assert!(found.is_empty(), "offsets belong into openmpi-internals/src/v5_0/layout.rs:\n{}", found.join("\n"));
    assert!(has_offset("const RANK: usize = 0xdc;") && has_offset("comm.byte_add(220).cast::<i32>()"));
    assert!(!has_offset("comm.byte_add(C_MY_RANK).cast::<i32>()"));
}

/// The address of what the installed release has by a name, or null.
fn address(name: &CStr) -> *mut c_void {
    // SAFETY: Open MPI's library starts nothing by itself; its symbols are looked up and not used.
    unsafe {
        let library = libc::dlopen(c"libmpi.so.40".as_ptr(), libc::RTLD_LAZY);
        assert!(!library.is_null(), "libmpi.so.40 cannot be loaded: install the package libopenmpi-dev");
        libc::dlsym(library, name.as_ptr())
    }
}

#[test]
fn the_installed_release_has_every_name() {
    let all = functions::NAMES.iter().chain(variables::NAMES);
    let lacking: Vec<_> = all.filter(|name| address(name).is_null()).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

#[test]
fn frames_that_a_hopeless_wait_leaves_can_be_unwound() {
    unsafe extern "C" {
        /// The unwinder's own search (unwind-dw2-fde.h of GCC): the entry for the function of an address, or null.
        fn _Unwind_Find_FDE(address: *const c_void, bases: *mut [usize; 3]) -> *const c_void;
    }
    let ends = [variables::OSC_RDMA_BEGINS, variables::OSC_RDMA_ENDS, variables::OSC_SM_BEGINS, variables::OSC_SM_ENDS];
    for name in ends.map(|end| end.name()).into_iter().chain([functions::OPAL_PROGRESS.name()]) {
        let mut bases = [0; 3];
        // SAFETY: an address in a function that is loaded, and room for three addresses.
        let entry = unsafe { _Unwind_Find_FDE(address(name).wrapping_byte_add(1), &mut bases) };
        assert!(!entry.is_null(), "{name:?} has no unwind table");
    }
    // SAFETY: as above, and no function is there.
    assert!(unsafe { _Unwind_Find_FDE(&raw const ends as *const c_void, &mut [0; 3]) }.is_null());
}
