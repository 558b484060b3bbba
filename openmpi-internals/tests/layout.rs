//! What ringwatch says of Open MPI's structs is what the headers of the installed release say: the C compiler compares
//! each line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use openmpi_internals::v5_0::layout::FACTS;
use openmpi_internals::v5_0::layout::fact::Fact;

/// Names the folder with Open MPI's source where it is in an unusual place.
const SOURCE: &str = "RINGWATCH_OPENMPI_SOURCE";

/// What `mpicc` would search for `mpi.h`.
fn installed_headers() -> PathBuf {
    let answer = Command::new("mpicc").arg("--showme:incdirs").output();
    let answer = answer.expect("mpicc cannot be run: install the package libopenmpi-dev");
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let folders: Vec<PathBuf> = text.split_whitespace().map(PathBuf::from).collect();
    let is_complete = |folder: &&PathBuf| folder.join("openmpi/ompi/communicator/communicator.h").exists();
    let found = folders.iter().find(is_complete);
    found
        .unwrap_or_else(|| panic!("no internal headers of Open MPI in {text}: install the package libopenmpi-dev"))
        .clone()
}

/// The number that a header of Open MPI gives a part of its release.
fn release_part(headers: &Path, part: &str) -> String {
    let text = std::fs::read_to_string(headers.join("mpi.h")).expect("mpi.h can be read");
    let name = format!("#define OMPI_{part}_VERSION ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).expect("mpi.h has the release");
    line.trim().to_owned()
}

/// Open MPI's source of the installed release, for what the development package leaves out.
fn source_headers(release: &str) -> PathBuf {
    let usual = || PathBuf::from(format!("/usr/src/openmpi-{release}"));
    let folder = std::env::var_os(SOURCE).map_or_else(usual, PathBuf::from);
    assert!(
        folder.join("opal/mca/btl/tcp/btl_tcp.h").exists(),
        "the source of Open MPI {release} is not in {}: unpack it there (apt-get source --download-only openmpi, with a line deb-src \
         in the list of sources), or name its folder in {SOURCE}",
        folder.display()
    );
    folder
}

/// Has the C compiler compare facts of one source file, or of headers. Returns what it complains of.
fn compare(includes: &[PathBuf], headers: &[&str], facts: &[&Fact]) -> Result<(), String> {
    let mut text = String::from("#include \"ompi_config.h\"\n#include <stddef.h>\n");
    for header in headers {
        let _ = writeln!(text, "#include \"{header}\"");
    }
    for fact in facts {
        let (expression, value) = (fact.expression, fact.value);
        let _ = writeln!(text, "_Static_assert(({expression}) == {value}, \"{expression} is not {value}\");");
    }
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("layout-{}-{}.c", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).expect("a file can be written");
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-fsyntax-only", "-w"]);
    includes.iter().for_each(|folder| _ = compiler.arg("-I").arg(folder));
    let answer = compiler.arg(&file).output().expect("gcc cannot be run: install it");
    std::fs::remove_file(&file).expect("the file can be removed");
    let complaints = String::from_utf8_lossy(&answer.stderr).into_owned();
    if answer.status.success() { Ok(()) } else { Err(complaints) }
}

/// The folders in which headers of the installed release are looked for.
fn includes() -> Vec<PathBuf> {
    let installed = installed_headers();
    let release = ["MAJOR", "MINOR", "RELEASE"].map(|part| release_part(&installed, part)).join(".");
    let source = source_headers(&release);
    // What is installed comes first: it has the configuration that the libraries were built with.
    vec![
        installed.join("openmpi"),
        installed,
        source.clone(),
        source.join("opal/include"),
        source.join("ompi/include"),
        source.join("ompi/mca/coll/ftagree"),
        PathBuf::from(format!("/usr/lib/{}-linux-gnu/pmix2/include", std::env::consts::ARCH)),
    ]
}

/// Compares facts with the installed release.
fn compare_all<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Vec<String> {
    let includes = includes();
    let mut by_unit: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        // A source file has names that others have, too.
        let unit = if fact.header.ends_with(".c") { fact.header } else { "" };
        by_unit.entry(unit).or_default().push(fact);
    }
    let results = by_unit.values().map(|facts| {
        let mut headers: Vec<&str> = facts.iter().map(|fact| fact.header).collect();
        headers.dedup();
        compare(&includes, &headers, facts)
    });
    results.filter_map(Result::err).collect()
}

#[test]
fn each_line_is_what_the_headers_of_the_installed_release_say() {
    let complaints = compare_all(FACTS.iter().copied().flatten());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A struct of c-shims, which declares what Open MPI calls by itself: its name and Open MPI's, and members by both
/// names.
struct Declared {
    own: &'static str,
    stock: &'static str,
    members: &'static [(&'static str, &'static str)],
}

const COMPONENTS: &[Declared] = &[
    Declared {
        own: "struct base",
        stock: "mca_base_component_2_1_0_t",
        members: &[
            ("project", "mca_project_name"),
            ("type", "mca_type_name"),
            ("type_major", "mca_type_major_version"),
            ("name", "mca_component_name"),
            ("open", "mca_open_component"),
            ("close", "mca_close_component"),
            ("query", "mca_query_component"),
            ("register_parameters", "mca_register_component_params"),
            ("flags", "mca_component_flags"),
        ],
    },
    Declared {
        own: "struct data",
        stock: "mca_base_component_data_2_0_0_t",
        members: &[("parameters", "param_field")],
    },
    Declared {
        own: "struct hook",
        stock: "ompi_hook_base_component_1_0_0_t",
        members: &[
            ("data", "hookm_data"),
            ("init_bottom", "hookm_mpi_init_bottom"),
            ("finalize_top", "hookm_mpi_finalize_top"),
            ("finalize_bottom", "hookm_mpi_finalize_bottom"),
        ],
    },
    Declared {
        own: "struct coll",
        stock: "mca_coll_base_component_2_4_0_t",
        members: &[("data", "collm_data"), ("init_query", "collm_init_query"), ("comm_query", "collm_comm_query")],
    },
    Declared {
        own: "struct osc",
        stock: "ompi_osc_base_component_2_0_0_t",
        members: &[
            ("data", "osc_data"),
            ("init", "osc_init"),
            ("query", "osc_query"),
            ("select", "osc_select"),
            ("finalize", "osc_finalize"),
        ],
    },
    Declared {
        own: "struct io",
        stock: "mca_io_base_component_2_0_0_t",
        members: &[
            ("data", "io_data"),
            ("init_query", "io_init_query"),
            ("file_query", "io_file_query"),
            ("delete_query", "io_delete_query"),
            ("delete_select", "io_delete_select"),
            ("register_representation", "io_register_datarep"),
        ],
    },
    Declared {
        own: "struct file_module",
        stock: "mca_io_base_module_2_0_0_t",
        members: &[("open", "io_module_file_open"), ("close", "io_module_file_close")],
    },
];

#[test]
fn components_are_declared_as_open_mpi_has_them() {
    let headers = ["ompi/mca/hook/hook.h", "ompi/mca/coll/coll.h", "ompi/mca/osc/osc.h", "ompi/mca/io/io.h"];
    let shims = concat!(env!("CARGO_MANIFEST_DIR"), "/../c-shims/src/ompi.c");
    let mut lines = Vec::new();
    for Declared { own, stock, members } in COMPONENTS {
        lines.push(format!("sizeof({own}) == sizeof({stock})"));
        lines
            .extend(members.iter().map(|(one, other)| format!("offsetof({own}, {one}) == offsetof({stock}, {other})")));
    }
    let facts: Vec<Fact> =
        lines.iter().map(|line| Fact { header: shims, expression: line.clone().leak(), value: 1 }).collect();
    let all: Vec<&str> = headers.into_iter().chain([shims]).collect();
    let result = compare(&includes(), &all, &facts.iter().collect::<Vec<_>>());
    assert_eq!(result, Ok(()));
}

#[test]
fn a_wrong_offset_is_found() {
    for header in ["ompi/communicator/communicator.h", "opal/mca/btl/tcp/btl_tcp.h", "ompi/communicator/comm_request.c"]
    {
        let right = FACTS
            .iter()
            .copied()
            .flatten()
            .find(|fact| fact.header == header && fact.expression.starts_with("offsetof"));
        let right = right.expect("such a line is there");
        let wrong = Fact { header, expression: right.expression, value: right.value + 8 };
        let complaints = compare_all(&[wrong]);
        assert!(complaints.iter().any(|text| text.contains("is not")), "{header}: {complaints:?}");
    }
}
