//! Message logging: a killed rank is replaced by a spare, nobody rolls back, and the output is that of an undisturbed
//! run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use system_tests::lab::run;
use system_tests::outcome::Outcome;
use system_tests::programs::{compile, compile_fortran};
use system_tests::{Job, Lab, in_lab};

const RANKS: u32 = 6;
const LIMIT: Duration = Duration::from_secs(25);

fn logged() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("logged", "mpicc"))
}

/// A job under message logging with spares behind its ranks.
fn job(lab: &Lab, spares: u32, words: &[&str]) -> Job {
    let spares_text = spares.to_string();
    let options = [
        "--bind-to",
        "none",
        "--mca",
        "hook_ringwatch_recovery",
        "log",
        "--mca",
        "hook_ringwatch_spares",
        &spares_text,
    ];
    let folder = lab.folder().display().to_string();
    let words: Vec<&str> = words.iter().map(|word| if *word == "FOLDER" { &*folder } else { *word }).collect();
    let job = Job::new().on(&["h1", "h2", "h3", "h4"], 3).ranks(RANKS + spares).options(&options).limit(LIMIT);
    job.program(&words)
}

/// What the program has printed.
fn printed(outcome: &Outcome) -> Vec<&str> {
    outcome.stdout.lines().collect()
}

/// The output of a run without deaths.
fn undisturbed(lab: &Lab) -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| {
        let outcome = job(lab, 0, &[&logged().display().to_string(), "FOLDER", "300"]).run(lab);
        let lines: Vec<String> = printed(&outcome).into_iter().map(str::to_owned).collect();
        outcome.require(lines.len() == 6 && lines[5].starts_with("end "), "the run without deaths has an end");
        lines
    })
}

/// The words of the program with these deaths.
fn words(deaths: &[(u32, u32)]) -> Vec<String> {
    let numbers = deaths.iter().flat_map(|death| [death.0.to_string(), death.1.to_string()]);
    [logged().display().to_string(), "FOLDER".into(), "300".into()].into_iter().chain(numbers).collect()
}

/// Runs the program with these deaths. The output is that of a run without any.
fn replaced(lab: &Lab, spares: u32, deaths: &[(u32, u32)]) {
    replaced_with(lab, spares, deaths, &[]);
}

/// The same, with options of mpirun. Each may mean one more process that is lost.
fn replaced_with(lab: &Lab, spares: u32, deaths: &[(u32, u32)], options: &[&str]) {
    let (expected, words) = (undisturbed(lab), words(deaths));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = job(lab, spares, &words).options(options).run(lab);
    gives_the_same(&outcome, expected, deaths.len() + options.len() / 2);
}

fn gives_the_same(outcome: &Outcome, expected: &[String], lost: usize) {
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    let losses = outcome.losses().len();
    outcome.require(losses == lost, &format!("{lost} processes were lost, not {losses}"));
    outcome.require(printed(outcome) == expected, &format!("the output is {expected:?}"));
    outcome.left_nothing();
}

#[test]
fn a_killed_rank_is_replaced_and_nobody_rolls_back() {
    in_lab(|lab| {
        // The master in the middle of receives from any source, and in the middle of collective operations; a worker.
        replaced(lab, 1, &[(0, 150)]);
        replaced(lab, 1, &[(0, 420)]);
        replaced(lab, 1, &[(3, 20)]);
    });
}

#[test]
fn the_history_has_the_replacement_and_the_end_of_its_replay() {
    in_lab(|lab| {
        let (program, history) = (logged().display().to_string(), lab.folder().join("history"));
        let words: &[&str] = &[&program, "FOLDER", "300", "0", "150"];
        let outcome = job(lab, 1, words).parameter("events", &history.display().to_string()).run(lab);
        let text = fs::read_to_string(&history).expect("the history is written");
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of = |name: &str| records.clone().find(|record| record["event"] == name).unwrap_or_default();
        let (replaced, repeated) = (of("replaced"), of("repeated"));
        outcome.require(replaced["rank"] == 0 && replaced["spare"] == 1, &format!("spare 1 is rank 0: {replaced}"));
        // It has received from any source until it died.
        let events = repeated["events"].as_u64().unwrap_or(0);
        outcome.require(repeated["rank"] == 0 && events >= 100, &format!("its events are repeated: {repeated}"));
        outcome.left_nothing();
    });
}

#[test]
fn ranks_are_replaced_together_one_after_the_other_and_again() {
    in_lab(|lab| {
        replaced(lab, 2, &[(0, 100), (4, 30)]);
        // The spare dies as the rank.
        replaced(lab, 2, &[(2, 50), (2, 70)]);
        replaced(lab, 3, &[(1, 130), (0, 420), (5, 180)]);
    });
}

#[test]
fn a_replacement_is_spawned_where_no_spare_is_left() {
    in_lab(|lab| {
        replaced(lab, 0, &[(3, 20)]);
        replaced(lab, 0, &[(0, 150)]);
        // A spare, then two that are spawned.
        replaced(lab, 1, &[(1, 130), (0, 420), (5, 180)]);
    });
}

#[test]
fn spawned_processes_replace_ranks_together_and_again() {
    in_lab(|lab| {
        replaced(lab, 0, &[(2, 50), (2, 70), (2, 90)]);
        replaced(lab, 0, &[(0, 100), (4, 30)]);
        // The second one while it replays, and one before it has come to MPI_Init.
        replaced(lab, 0, &[(2, 70), (1002, 20)]);
        let file = lab.folder().join("started").display().to_string();
        replaced_with(lab, 0, &[(1, 40)], &["-x", &format!("DIE_AT_START={file}")]);
    });
}

/// Without options that make room or say how to bind.
#[test]
fn a_replacement_is_spawned_on_full_hosts() {
    in_lab(|lab| {
        for (hosts, each, options) in
            [(&["h1", "h2", "h3", "h4"][..], 1, &[][..]), (&["h1"], 4, &["--bind-to", "none"])]
        {
            let run = |deaths| {
                let folder = lab.folder().display().to_string();
                let words: Vec<String> =
                    words(deaths).into_iter().map(|word| word.replace("FOLDER", &folder)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let logging = ["--mca", "hook_ringwatch_recovery", "log"];
                let job = Job::new().on(hosts, each).options(&logging).options(options);
                job.limit(LIMIT).program(&words).run(lab)
            };
            let expected: Vec<String> = printed(&run(&[])).into_iter().map(str::to_owned).collect();
            gives_the_same(&run(&[(2, 50)]), &expected, 1);
        }
    });
}

/// The time from one to the next does not grow.
#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn a_hundred_are_spawned_one_after_another() {
    // Once is enough, however often others are repeated.
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let lab = &Lab::open();
        let (expected, deaths) = (undisturbed(lab), (0..100).map(|count| (3, 100 + count)).collect::<Vec<_>>());
        let (words, history) = (words(&deaths), lab.folder().join("history"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let job = job(lab, 0, &words).parameter("events", &history.display().to_string());
        let outcome = job.limit(Duration::from_secs(600)).run(lab);
        let text = fs::read_to_string(&history).expect("the history is written");
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let replaced = records.filter(|record| record["event"] == "replaced");
        let times: Vec<u64> = replaced.filter_map(|record| record["at_us"].as_u64()).collect();
        let median = |times: &[u64]| {
            let mut steps: Vec<u64> = times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).collect();
            steps.sort_unstable();
            steps.get(steps.len() / 2).copied().unwrap_or(0)
        };
        gives_the_same(&outcome, expected, 100);
        outcome.require(times.len() == 100, &format!("100 are replaced, not {}", times.len()));
        let (first, last) = (median(&times[..25]), median(&times[75..]));
        println!("from one replacement to the next: {first} us at first, {last} us at last");
        outcome.require(last < 2 * first, &format!("{first} us from one to the next at first, {last} us at last"));
    });
}

/// Kills the node of ranks 3 to 5, where an event logger is, while rank 4 waits.
fn node_is_lost(lab: &Lab, spares: u32) {
    let expected = undisturbed(lab);
    let program = logged().display().to_string();
    let folder = lab.folder();
    let mut job = job(lab, spares, &[&program, &folder.display().to_string(), "300", "4", "-150"]).start(lab);
    let waits = folder.join("ended.4.150");
    job.wait("rank 4 stops", LIMIT, |_| waits.exists());
    job.wait("ringwatch status shows the sender logs of ranks 0 to 2", LIMIT, |_| {
        let text = run("rw-on", &["h1", "ringwatch", "status", "--json"]);
        let reports: Value = serde_json::from_str(&text).expect("JSON");
        let logs = reports[0]["sender_logs"].as_array().cloned().unwrap_or_default();
        let mut ranks: Vec<_> =
            logs.iter().filter(|log| log["bytes"].as_u64() > Some(0)).map(|log| &log["rank"]).collect();
        ranks.sort_by_key(|rank| rank.as_u64());
        ranks == [0, 1, 2]
    });
    job.kill_host("h2");
    let outcome = job.finish();
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    outcome.require(printed(&outcome) == expected, &format!("the output is {expected:?}")).left_nothing();
}

#[test]
fn a_lost_node_with_three_ranks_and_an_event_logger_is_replaced() {
    in_lab(|lab| node_is_lost(lab, 3));
}

#[test]
fn processes_are_spawned_for_a_lost_node_with_three_ranks() {
    in_lab(|lab| node_is_lost(lab, 0));
}

/// A rank that keeps more than it may goes on, and a later death is no wrong result.
#[test]
fn where_the_log_is_full_protection_ends_with_a_sentence() {
    in_lab(|lab| {
        let program = logged().display().to_string();
        let limited = |tasks: &str, deaths: &[&str]| {
            let words = [&[&*program, "FOLDER", tasks], deaths].concat();
            job(lab, 1, &words).options(&["--mca", "hook_ringwatch_log_limit", "1"]).run(lab)
        };
        let said = "message logging repairs no death from now on: the messages that rank";
        let outcome = limited("300", &[]);
        outcome.require(outcome.stderr.contains(said) && outcome.status == 0, "it is said, and the job goes on");
        outcome.require(printed(&outcome) == undisturbed(lab), "the output is the same").left_nothing();
        // Long after that: of few tasks no rank has many, however they are shared out.
        let outcome = limited("20", &["3", "200"]);
        let told = outcome.stderr.contains("rank 3 is dead and is not replaced");
        outcome
            .require(outcome.stderr.contains(said) && told && outcome.status != 0, "the death is an error")
            .left_nothing();
    });
}

/// Lower-case functions of mpi4py take messages out of what has arrived.
#[test]
fn a_rank_in_python_is_replaced_and_prints_once() {
    in_lab(|lab| {
        let program = format!("{}/programs/logged.py", env!("CARGO_MANIFEST_DIR"));
        let words = |victim| ["python3", program.as_str(), "FOLDER", victim, "60"];
        let expected = job(lab, 0, &words("-1")).run(lab);
        expected.require(printed(&expected).len() == 5, "the run without deaths has an end");
        gives(lab, 1, &expected, &words("0"));
        gives(lab, 0, &expected, &words("1"));
    });
}

/// Runs a program with one death; without spares a process is spawned. The output is this.
fn gives(lab: &Lab, spares: u32, expected: &Outcome, words: &[&str]) {
    let outcome = job(lab, spares, words).run(lab);
    outcome
        .require(outcome.status == 0 && outcome.losses().len() == 1, "one rank is lost, and mpirun's exit status is 0");
    outcome.require(printed(&outcome) == printed(expected), &format!("the output is {}", expected.stdout));
    outcome.left_nothing();
}

/// Collective operations without blocking, persistent and with neighbours, messages of all modes, communicators and
/// groups.
#[test]
fn functions_give_what_open_mpi_gives_also_when_a_rank_is_replaced() {
    in_lab(|lab| {
        let program = compile("functions", "mpicc").display().to_string();
        let folder = lab.folder().display().to_string();
        let alone = Job::new().on(&["h1", "h2", "h3", "h4"], 3).ranks(RANKS).options(&["--bind-to", "none"]);
        let expected = alone.limit(LIMIT).program(&[&program, &folder, "4"]).run(lab);
        expected.require(printed(&expected).len() == 4, "Open MPI by itself comes to the end");
        // While operations are under way: of all ranks, and of every second one.
        gives(lab, 1, &expected, &[&program, "FOLDER", "4", "0", "10"]);
        gives(lab, 0, &expected, &[&program, "FOLDER", "4", "3", "17"]);
    });
}

#[test]
fn a_rank_in_fortran_is_replaced() {
    in_lab(|lab| {
        let programs = [1, 2, 3].map(|binding| compile_fortran("logged", binding, &[]).display().to_string());
        let expected = job(lab, 0, &[&programs[0], "FOLDER", "-1", "0"]).run(lab);
        expected.require(printed(&expected).len() == 2, "the run without deaths has an end");
        for (program, (spares, death)) in programs.iter().zip([(1, ["0", "250"]), (0, ["3", "120"]), (1, ["0", "520"])])
        {
            gives(lab, spares, &expected, &[program, "FOLDER", death[0], death[1]]);
        }
    });
}

#[test]
fn where_nothing_may_be_spawned_a_death_without_a_spare_is_an_error_of_mpi() {
    in_lab(|lab| {
        let program = logged().display().to_string();
        let job = job(lab, 0, &[&program, "FOLDER", "300", "3", "20"]);
        let outcome = job.options(&["--mca", "hook_ringwatch_spawn", "false"]).run(lab);
        let told = outcome.stderr.contains("rank 3 is dead and no spare is left");
        outcome.require(told && outcome.stderr.contains("MPI_ERR_PROC_FAILED"), "the others are told why they end");
        outcome.require(outcome.status != 0, "mpirun's exit status is not 0").left_nothing();
    });
}

/// Spares would be ranks of the program.
#[test]
fn a_job_that_cannot_have_message_logging_ends_with_a_sentence() {
    in_lab(|lab| {
        let program = logged().display().to_string();
        let words: &[&str] = &[&program, "FOLDER", "300"];
        let ended = |job: Job, why: &str| {
            let outcome = job.run(lab);
            let said = outcome.stderr.matches(why).count();
            outcome.require(
                said == 1 && outcome.status != 0 && outcome.stdout.is_empty(),
                &format!("'{why}' is said once"),
            );
            outcome.left_nothing();
        };
        ended(job(lab, 1, words).without_fault_tolerance(), "in a job without --with-ft ulfm");
        ended(job(lab, 1, words).parameter("enable", "0"), "where psensor_ringwatch_enable is off");
        ended(job(lab, 6, words).ranks(6), "6 of 6 processes are to be spares");
        let global = ["--mca", "coll_ringwatch_error_scope", "global"];
        ended(job(lab, 1, words).options(&global), "with another error scope than local");
    });
}

#[test]
fn a_function_that_is_not_covered_is_refused_with_a_sentence() {
    in_lab(|lab| {
        let program = compile("uncovered", "mpicc").display().to_string();
        let outcome = job(lab, 1, &[&program]).run(lab);
        outcome
            .require(outcome.stdout == "refused\n" && outcome.status == 0, "the call fails, and the program goes on");
        let said = outcome.stderr.matches("message logging does not cover MPI_Win_create").count();
        outcome.require(said > 0, "a sentence names the function").left_nothing();
    });
}
