//! The sort that lives on the group of recommended processes: whatever processes are killed, stopped or slowed down in
//! whatever round, its output is sorted and has the numbers of the beginning.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use system_tests::clock::wait_until;
use system_tests::lab::run;
use system_tests::outcome::Outcome;
use system_tests::programs::{compile, compile_fortran};
use system_tests::{Job, Lab, Running, in_lab, process};

const RANKS: u32 = 16;
const ROUNDS: u32 = 4;
const NAME: &str = "hyperquicksort";
const LIMIT: Duration = Duration::from_secs(90);
/// How long others work, at most: by then whoever waits for a processor has left the group, or the sort has ended.
const OTHERS_WORK: Duration = Duration::from_secs(20);
/// Milliseconds.
const INTERVAL: &str = "100";
/// What place 0 prints of a round in which all take part.
const ALL_IN: &str = ": 16 of 16 processes";

/// What makes a process one that nobody recommends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Kill,
    Stop,
    Load,
}

/// Compiles a program with the library.
fn linked(name: &str, source: &str) -> PathBuf {
    let target = PathBuf::from("/tmp/system-tests").join(name);
    let output = target.display().to_string();
    let warnings = ["-Wall", "-Wextra", "-Werror"];
    run("mpicc", &[&["-std=gnu11", "-O2", "-o", &output, source, "-lringwatch", "-lpthread"], &warnings[..]].concat());
    target
}

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| linked(NAME, concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hyperquicksort.c")))
}

/// A cell of the table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    mode: &'static str,
    fault: Fault,
    /// How many processes are struck.
    count: usize,
    returns: bool,
    /// Least time of a round in milliseconds: a process that has not answered for some intervals is out within it.
    round_ms: u32,
    /// Whether `ringwatch group` is asked while they are struck.
    looks: bool,
}

fn job(lab: &Lab, cell: &Cell) -> Job {
    let slots = lab.folder().join("slots");
    std::fs::create_dir_all(&slots).expect("/tmp can be written");
    let (program, slots) = (program().display().to_string(), slots.display().to_string());
    let (round, returns) = (cell.round_ms.to_string(), cell.returns.to_string());
    let words = [&*program, cell.mode, &slots, "2000", &round, &returns, INTERVAL];
    let options = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"];
    let job = Job::new().on(&["h1", "h2", "h3", "h4"], RANKS / 4).options(&options).limit(LIMIT).program(&words);
    // A stopped process is to come back.
    job.parameter("stop_timeout", if cell.mode == "group" { "off" } else { "400ms" })
}

/// Processes of these ranks.
fn of_ranks(job: &Running, ranks: &[u32]) -> Vec<i32> {
    let named = job.processes().into_iter().filter(|process| process.name == NAME);
    let rank = |pid: i32| process::environment(pid).get("PMIX_RANK").and_then(|rank| rank.parse::<u32>().ok());
    named.map(|process| process.pid).filter(|pid| rank(*pid).is_some_and(|rank| ranks.contains(&rank))).collect()
}

/// Other work on all processors, for which these processes have to wait.
struct Load(Vec<Child>);

/// Sets the policy of the scheduler for all threads of these processes.
fn schedule(processes: &[i32], policy: &str) {
    for pid in processes.iter().filter(|pid| process::lives(**pid)) {
        run("chrt", &["--all-tasks", policy, "--pid", "0", &pid.to_string()]);
    }
}

impl Load {
    fn on(processes: &[i32]) -> Self {
        schedule(processes, "--idle");
        let busy = || {
            let mut command = Command::new("bash");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("bash starts")
        };
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self((0..2 * processors).map(|_| busy()).collect())
    }
}

/// Whether a round began in which not all take part.
fn has_left(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("round ") && !line.contains(ALL_IN))
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a job has left for whoever looks.
struct Sorted {
    /// What place 0 of each round has printed.
    text: String,
    /// Who was struck.
    victims: Vec<u32>,
    /// Its history.
    history: PathBuf,
}

/// Waits until a process that is well shows all victims as evicted.
fn shows_evicted(job: &Running, victims: &[u32], healthy: u32, what: &str) {
    let (host, by) = (format!("h{}", healthy / (RANKS / 4) + 1), healthy.to_string());
    let is_shown = || {
        let text = run("rw-on", &[&host, "ringwatch", "group", "--by", &by]);
        let rows = text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
        let evicted: Vec<u32> =
            rows.filter(|row| row.get(1) == Some(&"evicted")).flat_map(|row| row[0].parse()).collect();
        victims.iter().all(|rank| evicted.contains(rank))
    };
    if !wait_until(LIMIT, is_shown) {
        job.fail(&format!("{what}: ringwatch group shows who was evicted"));
    }
}

/// Strikes as many ranks as the cell says in a round, which ones the seed says, and lets stopped and slow ones be well
/// again when the others go on without them.
fn sorts(lab: &Lab, cell: Cell, round: u32, seed: u32) -> Sorted {
    let what = format!("{cell:?} in round {round}, seed {seed}");
    let mut random = Pcg64Mcg::seed_from_u64(seed.into());
    let mut ranks: Vec<u32> = (0..RANKS).collect();
    for place in 0..cell.count {
        let other = place + random.next_u32() as usize % (ranks.len() - place);
        ranks.swap(place, other);
    }
    let history = lab.folder().join("history");
    let job = job(lab, &cell).parameter("events", &history.display().to_string()).start(lab);
    if !wait_until(LIMIT, || job.stdout().contains(&format!("round {round} of {ROUNDS}: "))) {
        job.fail_hanging(&format!("{what}: the round begins"));
    }
    let victims = of_ranks(&job, &ranks[..cell.count]);
    let goes_on = || {
        let text = job.stdout();
        has_left(&text) || text.contains(" lists: ")
    };
    let all = |signal: i32| victims.iter().for_each(|pid| process::signal(*pid, signal));
    match cell.fault {
        Fault::Kill => all(libc::SIGKILL),
        Fault::Stop => {
            all(libc::SIGSTOP);
            let went_on = wait_until(LIMIT, goes_on);
            if went_on && cell.looks {
                shows_evicted(&job, &ranks[..cell.count], ranks[cell.count], &what);
            }
            all(libc::SIGCONT);
            if !went_on {
                job.fail_hanging(&format!("{what}: the others go on"));
            }
        }
        Fault::Load => {
            let load = Load::on(&victims);
            // It may be that nobody is late, which is the scheduler's choice: `b12` requires it of one job at least.
            let _ = wait_until(OTHERS_WORK, goes_on);
            drop(load);
            schedule(&victims, "--other");
        }
    }
    let outcome = job.finish();
    let end = "32000 numbers in 16 lists: sorted, all there";
    outcome.require(outcome.stdout.contains(end), &format!("{what}: the output is sorted, and all numbers are there"));
    outcome.require(!outcome.stdout.contains("NOT"), &format!("{what}: whoever looks finds that"));
    if cell.mode == "group" && (cell.fault != Fault::Kill || cell.count == 0) {
        // Those that are complete leave one after the other.
        let events = run("ringwatch", &["events", &history.display().to_string()]);
        assert!(!events.contains("it is dead"), "{what}: nobody dies: {events}");
    }
    ranks.truncate(cell.count);
    Sorted { text: outcome.stdout.clone(), victims: ranks, history }
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_sort_goes_on_without_half_of_its_processes_and_takes_them_back() {
    let cell = Cell { mode: "group", fault: Fault::Stop, count: 8, returns: true, round_ms: 1200, looks: true };
    in_lab(|lab| {
        for seed in lab.seeds(1) {
            let Sorted { text, victims, history } = sorts(lab, cell, 1, seed);
            let mut rounds = text.lines().filter(|line| line.starts_with("round ")).map(|line| line.contains(ALL_IN));
            assert!(rounds.any(|all| !all) && rounds.any(|all| all), "some leave, and all come back: {text}");
            let (history, picture) = (history.display().to_string(), history.with_extension("svg"));
            let events = run("ringwatch", &["events", &history]);
            for rank in victims {
                let has = |what: &str| events.contains(&format!("  rank {rank} {what} the group, says rank "));
                assert!(has("leaves") && has("comes back to"), "the history has both of rank {rank}: {events}");
            }
            run("ringwatch", &["group", "--out", &picture.display().to_string(), &history]);
            let drawn = std::fs::read_to_string(&picture).expect("it is there");
            assert!(drawn.contains("Members of the group of rank 0, of 16") && drawn.contains("comes back"), "{drawn}");
        }
    });
}

#[test]
fn b11_with_ulfm_alone_the_dead_are_left_out_and_the_sort_is_right() {
    let cell = Cell { mode: "ulfm", fault: Fault::Kill, count: 8, returns: false, round_ms: 400, looks: false };
    in_lab(|lab| {
        for seed in lab.seeds(1) {
            let Sorted { text, victims, .. } = sorts(lab, cell, 1 + seed % ROUNDS, seed);
            assert!(victims.iter().all(|rank| text.contains(&format!(", dead {rank}"))), "{victims:?}: {text}");
        }
    });
}

/// Seconds that a sort without failures takes.
fn takes(lab: &Lab, mode: &'static str) -> f64 {
    let cell = Cell { mode, fault: Fault::Kill, count: 0, returns: false, round_ms: 0, looks: false };
    let outcome = job(lab, &cell).options(&["-x", "TELL_TIME=yes"]).run(lab);
    outcome.require(outcome.status == 0, "it ends well");
    let told = outcome.stderr.split_once("hyperquicksort: ").and_then(|(_, rest)| rest.split_once(" s\n"));
    told.and_then(|(seconds, _)| seconds.parse().ok()).expect("it says how long it took")
}

/// The paper has 9 %; `scripts/bench group --part jobs` measures it.
#[test]
#[ignore = "half a minute"]
fn b13_without_failures_a_sort_with_the_group_takes_about_as_long_as_with_ulfm_alone() {
    in_lab(|lab| {
        let mut ratios: Vec<f64> = (0..5).map(|_| takes(lab, "group") / takes(lab, "ulfm")).collect();
        ratios.sort_by(f64::total_cmp);
        assert!(ratios[2] < 1.5, "{ratios:?}");
    });
}

/// A power cut leaves some bytes of what was being written.
#[test]
fn a30_a_slot_file_that_is_cut_at_any_byte_or_swept_away_is_none_and_the_older_one_is_whole() {
    in_lab(|lab| {
        let (program, folder) = (compile("slots", "mpicc"), lab.folder());
        let text = run(&program.display().to_string(), &[&folder.display().to_string()]);
        let result = format!("the result is in {}/slot-*.epoch-3", folder.display());
        let expected = format!("20 numbers in 1 lists: sorted, all there\n{result}\n176 cuts\n");
        assert_eq!(text, expected, "20 numbers, their number and a checksum");
    });
}

/// What four processes print when the first round is done twice.
fn has_three_rounds(outcome: &Outcome) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = outcome.stdout.lines().map(words).collect();
    lines.sort();
    let rounds = [(0, 2, 0), (1, 3, 2), (2, 4, 3)];
    let line = |(round, epoch, base)| format!("round {round} epoch {epoch} base {base} members 0 1 2 3 lost 0");
    let mut expected: Vec<String> = rounds.into_iter().flat_map(|round| vec![line(round); 4]).collect();
    expected.insert(0, "end".into());
    outcome.require(outcome.status == 0 && lines == expected, &format!("the output is {expected:?}"));
    outcome.left_nothing();
}

#[test]
fn a_program_in_fortran_or_python_works_in_rounds_with_a_test_of_its_own() {
    in_lab(|lab| {
        // The bindings differ in the headers only, which all of them compile.
        let programs = [1, 2, 3].map(|binding| compile_fortran("recommended", binding, &["-lringwatch"]));
        let python = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/recommended.py");
        for words in [&[&*programs[2].display().to_string()][..], &["python3", "-B", python]] {
            let job = Job::new().on(&["h1", "h2"], 2).options(&["--bind-to", "none"]).limit(LIMIT).program(words);
            has_three_rounds(&job.run(lab));
        }
    });
}

#[test]
fn calls_beside_the_rounds_wait_for_nobody_and_tell_who_is_complete_and_none_works_after_mpi_finalize() {
    in_lab(|lab| {
        let program = linked("group_calls", concat!(env!("CARGO_MANIFEST_DIR"), "/programs/group_calls.c"));
        let words = [&*program.display().to_string()];
        let job = Job::new().on(&["h1", "h2"], 2).options(&["--bind-to", "none"]).limit(LIMIT).program(&words);
        let outcome = job.run(lab);
        let left: String = (1..4).map(|rank| format!("rank {rank} has left, evictions 0\n")).collect();
        let expected = format!("{left}after MPI_Finalize{}\n", " other".repeat(7));
        outcome.require(outcome.status == 0 && outcome.stdout == expected, &format!("the output is {expected:?}"));
        let key = "RW_Group_join: there is no key \"rw_intervall\": rw_interval may be meant";
        outcome.require(outcome.stderr.contains(key), "the misspelt key is named");
        outcome.left_nothing();
    });
}

#[test]
fn joins_in_python_that_fail_change_nothing_and_the_test_in_use_stays() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/rejoin.py");
    in_lab(|lab| {
        for test in ["own", "none"] {
            let words = ["python3", "-B", program, test];
            let job = Job::new().on(&["h1", "h2"], 2).options(&["--bind-to", "none"]).limit(LIMIT).program(&words);
            let outcome = job.run(lab);
            let (other, states) = (["MPI_ERR_OTHER"; 2].join(" "), ["member"; 4].join(" "));
            let line = format!("{other} MPI_ERR_INFO_VALUE {} 0 {states}", ["MPI_ERR_OTHER"; 5].join(" "));
            let count = |line: &str| outcome.stdout.lines().filter(|one| *one == line).count();
            outcome.require(outcome.status == 0 && count(&line) == 4, &format!("four times {line:?}, test {test}"));
            outcome.require(count("left: MPI_ERR_OTHER") == 4, "whoever has left gets an error");
            outcome.left_nothing();
        }
    });
}

/// All cells of the table: 0, 1, N/2 and N-1 processes, by each fault, with and without return, and with ULFM alone.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for count in [0, 1, 8, 15] {
        let mut add = |mode, fault, returns| {
            cells.push(Cell { mode, fault, count, returns, round_ms: 400, looks: false });
        };
        for fault in [Fault::Kill, Fault::Stop, Fault::Load] {
            if count > 0 || fault == Fault::Kill {
                [true, false].iter().for_each(|returns| add("group", fault, *returns));
            }
        }
        add("ulfm", Fault::Kill, false);
    }
    cells
}

/// Whether a round began without one of these.
fn is_without(text: &str, ranks: &[u32]) -> bool {
    let outside: Vec<String> = ranks.iter().map(|rank| format!("out {rank}")).collect();
    text.lines().flat_map(|line| line.split(", ")).any(|word| outside.iter().any(|one| one == word))
}

/// Each cell fails in a round that its place and the seed say. In one of them at least a process must have left that
/// had to wait for the work of others: else nothing was tested there.
#[test]
fn b12_a_sort_is_right_whatever_processes_are_killed_stopped_or_slow() {
    in_lab(|lab| {
        for seed in lab.seeds(1) {
            let mut loads = Vec::new();
            for (place, cell) in cells().into_iter().enumerate() {
                let sorted = sorts(lab, cell, 1 + (place as u32 + seed) % ROUNDS, seed);
                if cell.fault == Fault::Load {
                    loads.push((cell, is_without(&sorted.text, &sorted.victims)));
                }
            }
            assert!(loads.iter().any(|(_, left)| *left), "a process leaves that waits for a processor: {loads:?}");
        }
    });
}
