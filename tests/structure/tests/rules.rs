//! The rules of the sources: who may import whom, and who may know what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use structure::imports::{Graph, circles, graph, importers_of_root, without_root};
use structure::sources::modules;
use structure::workspace::{Target, Workspace};

/// Packages with files that import each other in a circle, and how many files at most. May only shrink.
const IN_CIRCLES: [(&str, usize); 0] = [];

/// Packages with files that import something of the first file of their crate, and how many at most. May only shrink.
const IMPORT_ROOTS: [(&str, usize); 0] = [];

/// The rooms of mpi-layer. Each imports those before it only.
const ROOMS: [&str; 8] =
    ["failure", "cid", "messages", "agreement", "properties", "uniform", "onesided", "constructors"];

/// Packages that must not be built of another one, directly or by others.
const NEVER_BUILT_OF: [(&str, &str); 17] = [
    // Ranks and runtime daemons do not carry the daemon's code.
    ("mpi-layer", "rdma-heartbeat"),
    ("ishrink", "rdma-heartbeat"),
    ("pmix-plugin", "rdma-heartbeat"),
    // Either library works without the other.
    ("ishrink", "mpi-layer"),
    ("mpi-layer", "ishrink"),
    // The daemon does without what only the command line tool needs.
    ("rdma-heartbeat", "cli"),
    ("rdma-heartbeat", "simulator"),
    // The layer knows no protocol that stands behind it, and these do not know each other.
    ("virtual-ranks", "message-logging"),
    ("virtual-ranks", "replicated-ranks"),
    ("message-logging", "replicated-ranks"),
    ("replicated-ranks", "message-logging"),
    // They know no job.
    ("platform", "node-abi"),
    ("platform", "propagation"),
    // The tests of a group need no MPI and no daemon.
    ("group-client", "openmpi-internals"),
    ("group-client", "node-abi"),
    ("mpi-entry", "platform"),
    ("mpi-entry", "node-abi"),
];

/// Crates of protocols. They have no clock and no socket, and nothing in them is unsafe.
const PROTOCOLS: [&str; 4] = ["propagation", "event-log", "recommended-group", "replication"];

/// Words that the sources of [`PROTOCOLS`] must not have.
const NOT_IN_PROTOCOLS: [&str; 9] =
    ["unsafe", "Instant", "SystemTime", "TcpStream", "UdpSocket", "UnixStream", "libc", "nix", "platform"];

/// The files of a crate, as in the tree.
fn shown(files: &BTreeSet<PathBuf>) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is here");
    let names = files.iter().map(|file| format!("\n    {}", file.strip_prefix(&top).unwrap_or(file).display()));
    names.collect()
}

/// Fails with the files that break a rule where a package has more of them than it may.
fn expect_at_most(allowed: &[(&str, usize)], found: &BTreeMap<String, BTreeSet<PathBuf>>, rule: &str) {
    let allowed: BTreeMap<&str, usize> = allowed.iter().copied().collect();
    let mut broken = String::new();
    for (package, files) in found {
        let most = allowed.get(package.as_str()).copied().unwrap_or(0);
        if files.len() > most {
            broken += &format!("\n{package}: {} files {rule}, and at most {most} may:{}", files.len(), shown(files));
        }
    }
    assert!(broken.is_empty(), "{broken}");
}

/// What `find` finds in the crates of each package.
fn in_packages(find: impl Fn(&Target, Graph) -> Vec<PathBuf>) -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut found: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for target in Workspace::read().targets {
        let files = find(&target, graph(&modules(&target.root)));
        found.entry(target.package).or_default().extend(files);
    }
    assert!(found.len() > 10, "the packages are here: {found:?}");
    found
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let found = in_packages(|target, graph| {
        circles(&without_root(graph, &target.root)).into_iter().flatten().map(Path::to_owned).collect()
    });
    expect_at_most(&IN_CIRCLES, &found, "import each other in circles");
}

/// The place in [`ROOMS`] of a file in one of these folders.
fn room(file: &Path) -> Option<usize> {
    let folder = file.parent()?.file_name()?;
    ROOMS.iter().position(|room| *room == folder)
}

#[test]
fn no_room_of_mpi_layer_imports_a_higher_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mpi-layer/src/lib.rs");
    let graph = graph(&modules(&root));
    let mut broken = BTreeSet::new();
    for (file, imported) in &graph {
        broken.extend(imported.iter().filter(|other| room(file) < room(other)).map(|other| (file, other)));
    }
    let in_rooms = graph.keys().filter(|file| room(file).is_some()).count();
    assert!(in_rooms > 40, "the files are in rooms, not {in_rooms}");
    broken.retain(|(file, _)| room(file).is_some());
    assert!(broken.is_empty(), "they import a higher room: {broken:#?}");
}

#[test]
fn nobody_imports_the_root_of_its_crate() {
    let found =
        in_packages(|target, graph| if target.is_test { Vec::new() } else { importers_of_root(&graph, &target.root) });
    expect_at_most(&IMPORT_ROOTS, &found, "import the first file of their crate");
}

#[test]
fn nobody_is_built_of_what_it_must_not_know() {
    let workspace = Workspace::read();
    let broken: Vec<_> =
        NEVER_BUILT_OF.iter().filter(|(package, other)| workspace.built_of(package).contains(other)).collect();
    assert!(broken.is_empty(), "built of what they must not know: {broken:?}");
}

#[test]
fn no_protocol_has_a_clock_a_socket_or_unsafe_code() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut broken = String::new();
    for protocol in PROTOCOLS {
        for module in modules(&top.join(protocol).join("src/lib.rs")).values() {
            for word in module.words.iter().filter(|word| NOT_IN_PROTOCOLS.contains(&word.as_str())) {
                broken += &format!("\n{word} in {}", module.file.display());
            }
        }
    }
    assert!(broken.is_empty(), "{broken}");
}

/// README is read in one sitting, and what people search in is found by a line.
#[test]
fn the_manual_is_short_where_people_read_and_has_short_lines_where_they_search() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &Path| std::fs::read_to_string(file).expect("the manual is here");
    assert!(read(&top.join("README.md")).lines().count() <= 160, "README has at most 160 lines");
    let decisions = std::fs::read_dir(top.join("docs/decisions")).expect("the decisions are here");
    let mut files: Vec<PathBuf> = decisions.map(|entry| entry.expect("it can be read").path()).collect();
    files.push(top.join("docs/limits.md"));
    assert!(files.len() > 10, "a page for each subject: {files:?}");
    for file in files {
        for (number, line) in (1..).zip(read(&file).lines()) {
            assert!(line.chars().count() <= 400, "{}: line {number} has more than 400 characters", file.display());
        }
    }
}
