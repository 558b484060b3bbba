//! A job that did not ask for fault tolerance runs exactly as with stock Open MPI: no process, no thread, no variable,
//! no changed parameter, the same output and the same status.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use system_tests::lab::run;
use system_tests::process::{environment, threads};
use system_tests::programs::compile;
use system_tests::{Job, Lab, in_lab};

/// Takes ringwatch off the system and puts it back.
struct Uninstalled {
    files: PathBuf,
}

impl Uninstalled {
    fn new(lab: &Lab) -> Self {
        let files = lab.folder();
        let folder = |program: &str| {
            let text = run(program, &["--path", "pkglibdir"]);
            PathBuf::from(text.lines().next().unwrap_or_default().trim().rsplit(' ').next().unwrap_or_default())
        };
        let programs = PathBuf::from("/usr/bin");
        let library = PathBuf::from(run("find", &["/usr/lib", "-name", "libringwatch.so"]).trim());
        let libraries = library.parent().expect("libringwatch.so is installed").to_owned();
        for (from, name, as_built) in [
            (folder("pmix_info"), "pmix_mca_psensor_ringwatch.so", "libringwatch_pmix.so"),
            (folder("pmix_info"), "ringwatch/clocks.so", "libringwatch_clocks.so"),
            (folder("ompi_info"), "mca_hook_ringwatch.so", "libringwatch_mpi.so"),
            (libraries, "libringwatch.so", "libringwatch.so"),
            (programs.clone(), "ringwatchd", "ringwatchd"),
            (programs, "ringwatch", "ringwatch"),
        ] {
            let path = from.join(name);
            fs::copy(&path, files.join(as_built)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        run(&script("uninstall"), &[]);
        assert!(!Path::new("/usr/bin/ringwatchd").exists(), "scripts/uninstall removes ringwatchd");
        let left = run("find", &["/usr", "-name", "*ringwatch*"]);
        assert!(left.trim().is_empty(), "scripts/uninstall leaves nothing, not {left}");
        Self { files }
    }
}

impl Drop for Uninstalled {
    fn drop(&mut self) {
        run(&script("install"), &["--from", &self.files.display().to_string()]);
    }
}

fn script(name: &str) -> String {
    format!("{}/../scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A text without the numbers that differ from one run to the next.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for part in text.split(|c: char| c.is_ascii_digit()) {
        if !(part.is_empty() && result.ends_with('#')) {
            result += part;
            result.push('#');
        }
    }
    result
}

/// What can be seen of a job without fault tolerance.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Names of processes by host, with their threads.
    processes: Vec<(String, String, usize)>,
    /// Variables of the ranks by rank.
    variables: Vec<BTreeMap<String, String>>,
    /// Signals that they ignore and handle.
    signals: Vec<Vec<String>>,
    /// Files that they have in their memory.
    files: Vec<BTreeSet<String>>,
    /// Names of MPI's parameters, and the values that are the same in two runs.
    parameters: (BTreeSet<String>, BTreeMap<String, String>),
    /// Output, errors and status of jobs.
    ends: Vec<(Vec<String>, Vec<String>, i32)>,
}

/// Output, messages and status of a job of a shell script.
fn end_of(lab: &Lab, script: &str) -> (Vec<String>, Vec<String>, i32) {
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(without_numbers).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    let run = || Job::new().without_fault_tolerance().program(&["sh", "-c", script]).run(lab);
    let mut outcome = run();
    // Stock's prterun crashes in one of some hundred jobs whose ranks fail.
    if outcome.status == -libc::SIGSEGV {
        outcome = run();
    }
    (lines(&outcome.stdout), lines(&outcome.stderr), outcome.status)
}

fn parameters(lab: &Lab) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let program = compile("cvars", "mpicc");
    let run = || -> BTreeMap<String, String> {
        let job = Job::new().without_fault_tolerance().program(&[program.to_str().expect("a plain name")]);
        let outcome = job.run(lab);
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        let pairs = outcome.stdout.lines().filter_map(|line| line.split_once(" = "));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (mut all, other) = (run(), run());
    let names = all.keys().filter(|name| !name.contains("ringwatch")).cloned().collect();
    // Open MPI 5.0.7 registers it with a variable on its stack.
    all.retain(|name, value| other.get(name) == Some(value) && name != "mpi_ft_verbose");
    (names, all)
}

fn look(lab: &Lab) -> Seen {
    let mut job = Job::new().without_fault_tolerance().arguments(&["--op", "allreduce", "--hold"]).start(lab);
    job.wait_until_blocked();
    let mut processes: Vec<_> =
        job.processes().into_iter().map(|one| (one.host.clone(), one.name.clone(), threads(one.pid))).collect();
    processes.sort();
    let variables = job
        .ranks()
        .into_iter()
        .map(|rank| {
            let all = environment(job.pid(rank)).into_iter();
            all.map(|(name, value)| (name, without_numbers(&value))).collect()
        })
        .collect();
    let of_ranks = |name: &str| -> Vec<String> {
        let file = |rank| fs::read_to_string(format!("/proc/{}/{name}", job.pid(rank))).unwrap_or_default();
        job.ranks().into_iter().map(file).collect()
    };
    let is_signal = |line: &&str| line.starts_with("SigIgn:") || line.starts_with("SigCgt:");
    let signals = of_ranks("status");
    let signals = signals.iter().map(|text| text.lines().filter(is_signal).map(Into::into).collect()).collect();
    let path = |line: &str| line.find('/').map(|start| line[start..].to_owned());
    // Of memory that processes share the names have numbers, and two ranks do not have it all at the same time.
    let is_file = |path: &String| path.starts_with("/usr/");
    let files = of_ranks("maps");
    let files = files.iter().map(|text| text.lines().filter_map(path).filter(is_file).collect()).collect();
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    let scripts = ["echo hello from $PMIX_RANK", "echo error of $PMIX_RANK >&2; exit 3", "kill -9 $$"];
    // Stock's mpirun hangs in one of ten jobs whose ranks end while it still starts others.
    let ends = scripts.map(|script| end_of(lab, &format!("sleep 0.5; {script}"))).into();
    Seen { processes, variables, signals, files, parameters: parameters(lab), ends }
}

#[test]
fn a_job_without_fault_tolerance_is_as_with_stock() {
    in_lab(|lab| {
        let with = look(lab);
        let stock = {
            let _uninstalled = Uninstalled::new(lab);
            look(lab)
        };
        assert_eq!(with.processes, stock.processes, "the same processes with as many threads");
        for (rank, (with, stock)) in with.variables.iter().zip(&stock.variables).enumerate() {
            assert_eq!(with, stock, "the same environment in rank {rank}");
            let own = |name: &String| name.to_lowercase().contains("ringwatch") && std::env::var(name).is_err();
            assert!(!with.keys().any(own), "no variable of ringwatch in rank {rank}: {with:?}");
        }
        assert_eq!(with.signals, stock.signals, "the same signals are ignored and handled");
        assert_eq!(with.files, stock.files, "the same libraries are loaded");
        let (names, values) = &stock.parameters;
        assert!(values.len() > 500, "Open MPI tells its parameters: {}", values.len());
        assert_eq!(&with.parameters.0, names, "the same parameters");
        for (name, value) in values {
            let own = with.parameters.1.get(name);
            assert!(own.is_none_or(|own| own == value), "the parameter {name} is {value}, not {own:?}");
        }
        for (with, stock) in with.ends.iter().zip(&stock.ends) {
            assert_eq!(with.0, stock.0, "the same output");
            assert_eq!(with.2, stock.2, "the same status");
            // Of its own messages about a job that fails stock prints some or none, as chance will have it.
            let told = with.1.iter().find(|line| line.contains("ringwatch"));
            assert_eq!(told, None, "no message of ringwatch");
        }
    });
}

/// Parameters of ringwatch in a file for all users must not disturb who does not use it.
#[test]
fn parameters_are_ignored_without_fault_tolerance() {
    in_lab(|lab| {
        let job = Job::new().without_fault_tolerance().environment("PMIX_MCA_psensor_ringwatch_period", "nonsense");
        let outcome = job.arguments(&["--op", "none"]).run(lab);
        outcome.finished_without(&[]);
        outcome.require(outcome.sentences().is_empty(), "ringwatch says nothing");
    });
}

/// Stock's ranks die with their job: the first failure ends it, and the status says so.
#[test]
fn a_failure_without_fault_tolerance_ends_the_job_as_ever() {
    in_lab(|lab| {
        let mut job = Job::new().without_fault_tolerance().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(5, libc::SIGKILL);
        let outcome = job.finish();
        outcome.require(outcome.status != 0, "mpirun's status is not 0");
        outcome.require(outcome.sentences().is_empty(), "ringwatch says nothing");
        outcome.require(outcome.diaries.all("done").next().is_none(), "no rank comes to its end");
        outcome.left_nothing();
    });
}

/// Whoever mistypes the folder of another Open MPI keeps what is installed in the system's own.
#[test]
fn a_wrong_prefix_changes_nothing() {
    in_lab(|_| {
        for name in ["install", "uninstall"] {
            let output = std::process::Command::new(script(name)).args(["--prefix", "/nowhere"]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("there is no ompi_info in /nowhere/bin"), "{said}");
            assert!(Path::new("/usr/bin/ringwatchd").exists(), "scripts/{name} changes nothing");
        }
    });
}

/// For packages: all of it below a folder, under the names that the files will really have, and nothing is left of it.
#[test]
fn installed_below_a_folder_and_taken_away() {
    in_lab(|lab| {
        let below = lab.folder().join("package");
        let below = below.to_str().expect("the folder has a plain name");
        run(&script("install"), &["--destdir", below, "--from", "/src/target/trixie/release"]);
        let files = || run("find", &[below, "-not", "-type", "d", "-printf", "/%P\n"]);
        assert!(files().contains("/bin/ringwatchd\n"), "{}", files());
        for file in files().lines() {
            let folder = Path::new(file).parent().expect("a file has a folder");
            let real = fs::canonicalize(folder).expect("the folder is that of the installed MPI");
            assert_eq!(folder, real, "no package may bring a file through a link such as /lib");
        }
        run(&script("uninstall"), &["--destdir", below]);
        assert_eq!(files(), "", "scripts/uninstall leaves nothing");
    });
}

/// With `--prefix` the programs go beside those of the Open MPI in that folder, and nothing of them is left.
#[test]
fn installed_beside_the_open_mpi_of_a_prefix_and_taken_away() {
    in_lab(|lab| {
        let folder = lab.folder();
        let [prefix, below] = ["mpi", "package"].map(|name| folder.join(name));
        let programs = prefix.join("bin");
        fs::create_dir_all(&programs).expect("the folder is ours");
        for program in ["ompi_info", "pmix_info", "prted"] {
            symlink(Path::new("/usr/bin").join(program), programs.join(program)).expect("the folder is ours");
        }
        let words = |folder: &Path| folder.to_str().expect("the folder has a plain name").to_owned();
        let [prefix, below, programs] = [words(&prefix), words(&below), words(&programs)];
        let files = || run("find", &[&below, "-not", "-type", "d", "-printf", "/%P\n"]);
        let release = ["--prefix", &prefix, "--destdir", &below, "--from", "/src/target/trixie/release"];
        run(&script("install"), &release);
        for program in ["ringwatchd", "ringwatch"] {
            assert!(files().contains(&format!("{programs}/{program}\n")), "beside prted in {}", files());
        }
        assert!(!files().contains("\n/usr/bin/"), "nothing beside the system's own in {}", files());
        assert!(files().contains("mca_coll_ringwatch.so\n"), "{}", files());
        run(&script("uninstall"), &["--prefix", &prefix, "--destdir", &below]);
        assert_eq!(files(), "", "scripts/uninstall leaves nothing");
    });
}

/// Switched off, ringwatch starts nothing for a fault-tolerant job, either.
#[test]
fn switched_off_there_is_no_daemon() {
    in_lab(|lab| {
        let job = Job::new().parameter("enable", "false").arguments(&["--op", "allreduce", "--hold"]);
        let mut job = job.start(lab);
        job.wait_until_blocked();
        if job.processes().iter().any(|one| one.name == "ringwatchd") {
            job.fail("there is no ringwatchd");
        }
        let variables = environment(job.pid(3));
        if variables.keys().any(|name| name.starts_with("RINGWATCH")) {
            job.fail(&format!("the ranks have no variable of ringwatch: {variables:?}"));
        }
        job.end();
        let outcome = job.finish();
        outcome.require(outcome.diaries.all("done").count() == 8, "every rank comes to its end");
    });
}

/// Nor has a rank of a fault-tolerant job a thread more for it, with the library for programs or without.
#[test]
fn no_rank_has_another_thread() {
    in_lab(|lab| {
        let threads_of_ranks = |options: &[&str]| -> Vec<usize> {
            let mut job = Job::new().options(options).arguments(&["--op", "allreduce", "--hold"]).start(lab);
            job.wait_until_blocked();
            let counts = job.ranks().into_iter().map(|rank| threads(job.pid(rank))).collect();
            job.end();
            job.finish().finished_without(&[]);
            counts
        };
        let kept_out = ["hook", "coll", "osc", "io"].map(|framework| ["--mca", framework, "^ringwatch"]).concat();
        let without = threads_of_ranks(&kept_out);
        assert_eq!(threads_of_ranks(&[]), without);
        assert_eq!(threads_of_ranks(&["-x", "LD_PRELOAD=libringwatch.so"]), without);
    });
}
