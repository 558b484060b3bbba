//! Processes that are spawned in place of the dead: there is room for them where there is, and an error where there is
//! not.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::diary::Entry;
use system_tests::outcome::Outcome;
use system_tests::programs::compile;
use system_tests::{Job, Lab, in_lab, process};

const LIMIT: Duration = Duration::from_secs(20);
/// The first number of those that `spawns` spawns.
const FIRST_NUMBER: u32 = 100;
/// What is spawned is bound otherwise, and the machine has fewer processors than there are ranks.
const UNBOUND: [&str; 5] = ["--bind-to", "none", "--prtemca", "rmaps_default_inherit", "1"];

fn replacements() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("replacements", "mpicc"))
}

fn spawns() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("spawns", "mpicc"))
}

/// The host of a process with a diary.
fn host_of(outcome: &Outcome, number: u32) -> String {
    let started = outcome.diaries.first(number, "started").map(Entry::text).unwrap_or_default();
    started.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn texts(outcome: &Outcome, number: u32, event: &str) -> Vec<String> {
    outcome.diaries.of(number).filter(|entry| entry.event == event).map(Entry::text).collect()
}

fn ended(outcome: &Outcome, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        let finalized = texts(outcome, number, "finalized");
        outcome.require(finalized == ["0"], &format!("{number} has finalized once, not {finalized:?}"));
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").without_the_output().left_nothing();
}

/// All slots are taken, and whoever is spawned comes as soon as the survivors know of the death: into the place of the
/// dead, on its host.
fn replace(lab: &Lab, job: Job, rounds: u32) {
    replace_with(lab, job, rounds, &[]);
}

fn replace_with(lab: &Lab, job: Job, rounds: u32, options: &[&str]) {
    let size =
        u32::try_from(job.hosts().iter().map(|host| job.ranks_on(host).len()).sum::<usize>()).expect("a few ranks");
    let rounds_text = rounds.to_string();
    let arguments = [&["--rounds", &*rounds_text], options].concat();
    let outcome = job.diarist(replacements()).arguments(&arguments).run(lab);
    // Who is in which place.
    let mut places: Vec<u32> = (0..size).collect();
    for round in 0..rounds {
        let (victim, number) = ((round * 3 % size) as usize, size + round);
        let host = host_of(&outcome, places[victim]);
        places[victim] = number;
        let placed = texts(&outcome, number, "placed");
        outcome.require(placed == [victim.to_string()], &format!("{number} is in place {victim}, not in {placed:?}"));
        let there = host_of(&outcome, number);
        outcome.require(there == host, &format!("{number} is on {host}, where there is room, not on '{there}'"));
    }
    let sum = format!("0 {}", size * (size - 1) / 2);
    for number in &places {
        let born = number.saturating_sub(size - 1).min(rounds);
        let sums = texts(&outcome, *number, "sum");
        let expected = rounds - born + u32::from(*number >= size);
        let is_right = sums.len() == expected as usize && sums.iter().all(|one| *one == sum);
        outcome.require(is_right, &format!("{number} has the sum '{sum}' {expected} times, not {sums:?}"));
    }
    ended(&outcome, places);
}

#[test]
fn the_slots_of_the_dead_are_free() {
    in_lab(|lab| {
        replace(lab, Job::new().on(&["h1", "h2", "h3", "h4"], 1), 5);
        replace(lab, Job::new().on(&["h1"], 4).options(&UNBOUND), 5);
    });
}

/// The runtime counts the end of a dead process after its replacement has been launched on its node, whose daemon drops
/// the job of the dead then. The other processes of that job can still be reached from there.
#[test]
fn the_runtime_is_late_with_the_end_of_the_dead() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).limit(LIMIT);
        replace_with(lab, job, 4, &["--child", "150"]);
    });
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn two_hundred_are_replaced() {
    // Once is enough, however often others are repeated.
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).limit(Duration::from_secs(600));
        replace(&Lab::open(), job, 200);
    });
}

/// The node h2 is lost with two of six ranks. Whoever spawns has this class at all survivors, and there are so many
/// then.
fn lose_a_node(lab: &Lab, job: Job, class: &str, count: u32) {
    let job = job.options(&UNBOUND).options(&["--map-by", "ppr:2:node"]).ranks(6);
    let mut job = job.start(lab);
    job.wait_for("ready", &[0, 1, 2, 3, 4, 5]);
    job.loses("h2");
    process::signal(job.runtime("h2"), libc::SIGKILL);
    let outcome = job.finish();
    for rank in [0, 1, 4, 5] {
        let (spawned, sum) = (texts(&outcome, rank, "spawned"), texts(&outcome, rank, "sum"));
        outcome.require(spawned == [class], &format!("{rank} has the class {class}, not {spawned:?}"));
        outcome.require(sum == [format!("0 {count}")], &format!("{count} are there, not {sum:?} at {rank}"));
    }
    for number in (FIRST_NUMBER..).take(count as usize - 4) {
        let host = host_of(&outcome, number);
        outcome.require(["h1", "h3"].contains(&&*host), &format!("{number} is on h1 or h3, not on '{host}'"));
    }
    ended(&outcome, [0, 1, 4, 5]);
}

/// `MPI_ERR_UNKNOWN`, as without ringwatch.
const NO_ROOM: &str = "14";

fn spawning(case: &str) -> Job {
    Job::new().diarist(spawns()).arguments(&["--case", case])
}

#[test]
fn nothing_is_spawned_on_a_lost_node() {
    in_lab(|lab| {
        let hosts = ["h1", "h2", "h3"];
        lose_a_node(lab, spawning("dead").on(&hosts, 4), "0", 6);
        lose_a_node(lab, spawning("dead").on(&hosts, 2), NO_ROOM, 4);
        lose_a_node(lab, spawning("host").on(&hosts, 4), NO_ROOM, 4);
    });
}

/// The node of `mpirun` hears of the death last: its `ringwatchd` is stopped and has to be replaced, and the runtime
/// daemon that would report it is stopped, too. What the survivors spawn waits for that.
#[test]
fn the_launcher_hears_of_a_death_after_the_spawn() {
    in_lab(|lab| {
        let job = spawning("dead").with_default_times().on(&["h2", "h3"], 2).launched_from("h1");
        let mut job = job.start(lab);
        job.wait_for("ready", &[0, 1, 2, 3]);
        let (runtime, watcher) = (job.runtime("h3"), job.watcher("h1").pid);
        process::signal(runtime, libc::SIGSTOP);
        process::signal(watcher, libc::SIGSTOP);
        let _ = job.signal_rank(3, libc::SIGKILL);
        let is_replaced = wait_until(LIMIT, || !process::lives(watcher));
        process::signal(runtime, libc::SIGCONT);
        job.wait("everybody has spawned", LIMIT, |diaries| (0..3).all(|rank| diaries.has(rank, "spawned")));
        let outcome = job.finish();
        for rank in [0, 1, 2] {
            let (spawned, sum) = (texts(&outcome, rank, "spawned"), texts(&outcome, rank, "sum"));
            outcome.require(spawned == ["0"] && sum == ["0 4"], &format!("{rank} has four: {spawned:?} {sum:?}"));
        }
        outcome.require(is_replaced, "the ringwatchd of h1 is replaced");
        let host = host_of(&outcome, FIRST_NUMBER);
        outcome.require(host == "h3", &format!("the new one is on h3, not on '{host}'"));
        ended(&outcome, [0, 1, 2]);
    });
}

/// More than can be watched, and a directive that the runtime does not know: an error at all, and the job goes on.
#[test]
fn a_spawn_that_is_refused_is_an_error_at_all() {
    in_lab(|lab| {
        for case in ["many", "bad"] {
            // The one who asks is on the node of mpirun, and on another one.
            for job in [spawning(case).on(&["h1"], 3), spawning(case).on(&["h2"], 3).launched_from("h1")] {
                let host = job.hosts()[0];
                let outcome = job.options(&UNBOUND).run(lab);
                let expected = texts(&outcome, 0, "spawned");
                outcome.require(expected.len() == 1 && expected != ["0"], &format!("an error, not {expected:?}"));
                for rank in 0..3 {
                    let (spawned, sum) = (texts(&outcome, rank, "spawned"), texts(&outcome, rank, "sum"));
                    let has = spawned == expected || (case == "many" && rank > 0);
                    outcome.require(has, &format!("{expected:?} at {rank}, not {spawned:?}"));
                    outcome.require(sum == ["0 3"], &format!("three go on, not {sum:?} at {rank}"));
                }
                let words = format!("5000 processes were to be spawned on {host}");
                let said = outcome.sentences().iter().any(|one| one.contains(&words));
                outcome.require(said == (case == "many"), &format!("whether '{words}' is said"));
                ended(&outcome, 0..3);
            }
        }
    });
}
