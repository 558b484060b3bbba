//! Checkpoints of the program: a replacement goes on from the last whole one of its rank, and without message logging
//! all ranks do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::lab::run;
use system_tests::outcome::Outcome;
use system_tests::programs::compile_fortran;
use system_tests::{Job, Lab, in_lab, process};

const RANKS: u32 = 6;
const LIMIT: Duration = Duration::from_secs(25);
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

fn saves() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = PathBuf::from("/tmp/system-tests/saves");
        let (source, output) = (format!("{PROGRAMS}/saves.c"), target.display().to_string());
        run("mpicc", &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &output, &source, "-lringwatch"]);
        target
    })
}

/// An empty folder for checkpoints.
fn checkpoints(lab: &Lab) -> PathBuf {
    let path = lab.folder().join("checkpoints");
    fs::create_dir_all(&path).expect("it can be made");
    path
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none())
}

/// A job that saves in this folder.
fn job(program: &[&str], saved: &Path) -> Job {
    let options = ["--bind-to", "none", "--mca", "hook_ringwatch_checkpoints", &saved.display().to_string()];
    Job::new().on(&["h1", "h2", "h3", "h4"], 3).ranks(RANKS).options(&options).limit(LIMIT).program(program)
}

/// The same under message logging.
fn logged(program: &[&str], saved: &Path, spares: u32) -> Job {
    let text = spares.to_string();
    let options = ["--mca", "hook_ringwatch_recovery", "log", "--mca", "hook_ringwatch_spares", &text];
    job(program, saved).options(&options).ranks(RANKS + spares)
}

/// The words of the program in C, which ends 120 steps later.
fn words(lab: &Lab, every: i32, size: u32, deaths: &[(u32, i32, i64)]) -> Vec<String> {
    let folder = lab.folder().display().to_string();
    let mut words = vec![saves().display().to_string(), folder, "120".into(), every.to_string(), size.to_string()];
    for (victim, step, cut) in deaths {
        words.extend([victim.to_string(), step.to_string(), cut.to_string()]);
    }
    words
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// What the program prints without checkpoints, deaths and message logging.
fn undisturbed(lab: &Lab) -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let outcome = job(&borrowed(&words(lab, 0, 2000, &[])), &checkpoints(lab)).run(lab);
        outcome
            .require(outcome.stdout.contains("\nend ") && outcome.stdout.contains("agreed 1"), "it comes to its end");
        outcome.stdout.clone()
    })
}

/// The version that a rank was restored from, and how many messages it got again.
fn again(outcome: &Outcome, rank: u32) -> (Option<u32>, u32) {
    let start = format!("ringwatch: rank {rank} runs again from ");
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
    let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [messages] => (None, messages),
        [version, messages] => (Some(version), messages),
        _ => panic!("a line says where rank {rank} runs again from: {}", outcome.stderr),
    }
}

/// Ends as without deaths.
fn is_undisturbed(lab: &Lab, outcome: &Outcome, deaths: usize) {
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    outcome.require(outcome.losses().len() == deaths, &format!("{deaths} processes were lost"));
    let expected = undisturbed(lab);
    outcome.require(outcome.stdout == expected, &format!("the output is {expected}")).left_nothing();
}

/// What ranks keep of what they have sent has a limit here, at which protection would end without checkpoints.
#[test]
fn a_replacement_goes_on_from_its_last_checkpoint_and_checkpoints_make_room() {
    in_lab(|lab| {
        let saved = checkpoints(lab);
        let deaths = [(0, 100, -1), (3, 104, -1)];
        let limited = |every| {
            let job = logged(&borrowed(&words(lab, every, 2000, &deaths)), &saved, 2);
            job.options(&["--mca", "hook_ringwatch_log_limit", if every == 0 { "512" } else { "1" }]).run(lab)
        };
        let outcome = limited(10);
        is_undisturbed(lab, &outcome, 2);
        let (from, less) = again(&outcome, 3);
        outcome.require(from == Some(103) && again(&outcome, 0).0.is_some(), "both go on from a checkpoint");
        outcome.require(is_empty(&saved), "the files go with the job");
        let outcome = limited(0);
        is_undisturbed(lab, &outcome, 2);
        let (from, more) = again(&outcome, 3);
        let told = format!("{less} messages come again, and {more} without a checkpoint");
        outcome.require(from.is_none() && 4 * less < more, &told);
    });
}

#[test]
fn where_checkpoints_are_cut_off_the_last_whole_ones_count() {
    in_lab(|lab| {
        let saved = checkpoints(lab);
        // Nothing, a part of the head, and more than that are left.
        let deaths = [(1, 60, 0), (4, 75, 30), (2, 99, 17_000)];
        let outcome = logged(&borrowed(&words(lab, 10, 2000, &deaths)), &saved, 3).run(lab);
        is_undisturbed(lab, &outcome, 3);
        let from: Vec<_> = [1, 4, 2].map(|rank| again(&outcome, rank).0).into();
        outcome.require(from == [Some(41), Some(64), Some(82)], &format!("the ones before count, not {from:?}"));
        let said = outcome.stderr.matches("it was cut off").count();
        outcome.require(said == 3, "a sentence names each");
    });
}

/// Where a job has its checkpoints that are in no folder.
fn partners() -> &'static Path {
    Path::new("partner")
}

/// Ranks 0 and 3 are each other's partners: each has sent its checkpoints again to the replacement of the other.
#[test]
fn a_replacement_goes_on_from_a_checkpoint_in_the_memory_of_its_partner() {
    in_lab(|lab| {
        let words = words(lab, 10, 60_000, &[(0, 50, -1), (3, 90, -1), (0, 110, -1)]);
        let outcome = logged(&borrowed(&words), partners(), 3).run(lab);
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        let start = "ringwatch: rank ";
        let mut lines: Vec<_> = outcome.stderr.lines().filter(|line| line.contains(" runs again from ")).collect();
        lines.iter_mut().for_each(|line| *line = line.trim_start_matches(start).split(" of its").next().unwrap_or(""));
        let expected =
            ["0 runs again from version 40", "3 runs again from version 83", "0 runs again from version 100"];
        outcome.require(lines == expected, &format!("the replacements go on so: {expected:?}"));
        let end = outcome.stdout.lines().last().unwrap_or_default();
        outcome.require(end.ends_with("agreed 1"), "it comes to its end").left_nothing();
    });
}

/// The node of ranks 3 to 5 dies, whose partners are ranks 0 to 2, with the copies that it had of those.
#[test]
fn a_lost_node_is_replaced_from_the_memory_of_partners() {
    in_lab(|lab| {
        let words = words(lab, 10, 2000, &[(4, -60, -1), (1, 100, -1)]);
        let waits = Path::new(&words[1]).join("saves.4.60");
        let mut job = logged(&borrowed(&words), partners(), 0).start(lab);
        job.wait("rank 4 waits", LIMIT, |_| waits.exists());
        job.kill_host("h2");
        let outcome = job.finish();
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        outcome.require(outcome.stdout == undisturbed(lab), &format!("the output is {}", undisturbed(lab)));
        let from: Vec<_> = [3, 4, 5, 1].map(|rank| again(&outcome, rank).0).into();
        outcome.require(from.iter().all(Option::is_some), &format!("all go on from a checkpoint: {from:?}"));
        outcome.require(from[1] == Some(54) && from[3] == Some(91), &format!("from their last ones: {from:?}"));
        outcome.left_nothing();
    });
}

/// What they had received is nowhere any more.
#[test]
fn a_rank_that_dies_with_its_partner_ends_the_job_with_a_sentence() {
    in_lab(|lab| {
        let words = words(lab, 10, 2000, &[(0, -60, -1), (3, -60, -1)]);
        let waits = [0, 3].map(|rank| Path::new(&words[1]).join(format!("saves.{rank}.60")));
        let mut job = logged(&borrowed(&words), partners(), 2).start(lab);
        job.wait("ranks 0 and 3 wait", LIMIT, |_| waits.iter().all(|wait| wait.exists()));
        let has_rank = |pid| matches!(process::environment(pid).get("PMIX_RANK").map(String::as_str), Some("0" | "3"));
        let named = job.processes().into_iter().filter(|process| process.name == "saves" && has_rank(process.pid));
        named.for_each(|process| process::signal(process.pid, libc::SIGKILL));
        let outcome = job.finish();
        outcome.require(outcome.status != 0 && !outcome.stdout.contains("\nend "), "it does not come to its end");
        let said = outcome.stderr.contains("were in the memory of rank");
        outcome.require(said, "a sentence says what is lost").left_nothing();
    });
}

#[test]
fn on_a_full_disk_a_sentence_says_so_and_nothing_is_lost() {
    in_lab(|lab| {
        let saved = checkpoints(lab);
        let mounted = saved.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", "size=96k", "tmpfs", &mounted]);
        let outcome = logged(&borrowed(&words(lab, 10, 2000, &[(0, 50, -1), (5, 90, -1)])), &saved, 2).run(lab);
        let said = outcome.stderr.matches("is not saved in").count();
        run("umount", &[&mounted]);
        is_undisturbed(lab, &outcome, 2);
        outcome.require((1..=8).contains(&said), "a rank whose checkpoint has no room says so once");
    });
}

/// What is printed follows from the numbers of steps and ranks.
#[test]
fn a_rank_in_python_goes_on_from_its_last_checkpoint() {
    in_lab(|lab| {
        let (saved, folder) = (checkpoints(lab), lab.folder().display().to_string());
        let program = format!("{PROGRAMS}/saves.py");
        let outcome = logged(&["python3", &program, &folder, "60", "7", "0", "50"], &saved, 1).run(lab);
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        let (before, ends) = outcome.stdout.split_once(" [").unwrap_or_default();
        let expected = "6 ranks\nstep 0 21\nstep 25 2671\nstep 50 9696\nend 13296";
        outcome.require(before == expected, &format!("the output is {expected}"));
        let ends: Vec<f64> = ends.split([',', ']']).filter_map(|end| end.trim().parse().ok()).collect();
        let is_right = |(rank, end): (u32, &f64)| (end - (4.975 + 0.01 * f64::from(rank))).abs() < 1e-9;
        outcome.require(ends.len() == 6 && (0..).zip(&ends).all(is_right), "all ranks end with what they have to");
        outcome.require(again(&outcome, 0).0 == Some(49), "it goes on from its last checkpoint").left_nothing();
    });
}

/// The other bindings have the same functions.
#[test]
fn a_rank_in_fortran_goes_on_from_its_last_checkpoint() {
    in_lab(|lab| {
        let programs = [1, 2, 3].map(|binding| compile_fortran("saves", binding, &["-O3", "-lringwatch"]));
        let (saved, folder) = (checkpoints(lab), lab.folder());
        let words = [programs[2].display().to_string(), folder.display().to_string()];
        let outcome = logged(&borrowed(&words), &saved, 1).run(lab);
        let mut lines: Vec<_> =
            outcome.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        let expected = ["0 15", "20 1575", "40 5535", "60 11895", "begins", "end 20160 20176"];
        outcome.require(outcome.status == 0 && lines == expected, &format!("the output is {expected:?}"));
        outcome.require(again(&outcome, 1).0 == Some(49), "it goes on from its last checkpoint").left_nothing();
    });
}

/// Started again after it was ended by a death, and with a newest version that one rank has not whole.
#[test]
fn without_message_logging_all_ranks_restore_the_newest_version_that_all_have() {
    in_lab(|lab| {
        let saved = checkpoints(lab);
        let words = words(lab, -10, 2000, &[(2, 105, 100)]);
        let ended = job(&borrowed(&words), &saved).without_fault_tolerance().run(lab);
        ended.require(ended.status != 0 && ended.stdout.contains("step 100 "), "a death ends the job");
        let outcome = job(&borrowed(&words), &saved).without_fault_tolerance().run(lab);
        let (text, end) = (undisturbed(lab), |text: &str| text.lines().last().unwrap_or_default().to_owned());
        outcome.require(outcome.status == 0 && end(&outcome.stdout) == end(text), "the end is the same");
        let lines: Vec<_> = outcome.stdout.lines().collect();
        outcome.require(lines.len() == 3 && lines[1].starts_with("step 100 "), "it goes on from version 90");
        outcome.require(is_empty(&saved), "the files go with the job").left_nothing();
    });
}
