//! Jobs whose ranks have replicas.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::job::Job;
use crate::lab::Lab;
use crate::outcome::Outcome;
use crate::programs::compile;

/// Ranks of the programs.
pub const RANKS: u32 = 4;
/// How many tasks the program `logged` gives out.
const TASKS: &str = "100";
const LIMIT: Duration = Duration::from_secs(25);
/// The methods.
pub const METHODS: [&str; 4] = ["alltoall", "msgplushash", "async", "asynchash"];

/// The program that knows nothing of failures.
pub fn logged() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("logged", "mpicc"))
}

/// A job without a program whose ranks have so many replicas, with values of the parameters whose names go on.
#[must_use]
pub fn replicated(replicas: u32, parameters: &[(&str, &str)]) -> Job {
    let number = replicas.to_string();
    let mut job = Job::new().on(&["h1", "h2", "h3", "h4"], replicas).ranks(RANKS * replicas).limit(LIMIT);
    for (name, value) in [("recovery", "replicate"), ("replicas", &number)].iter().chain(parameters) {
        job = job.options(&["--mca", &format!("hook_ringwatch_{name}"), value]);
    }
    job.options(&["--bind-to", "none"])
}

/// A job of `logged`, in which ranks die as `deaths` says (victim.h).
#[must_use]
pub fn job(lab: &Lab, replicas: u32, parameters: &[(&str, &str)], deaths: &[&str]) -> Job {
    let (program, folder) = (logged().display().to_string(), lab.folder().display().to_string());
    replicated(replicas, parameters).program(&[&[&*program, &*folder, TASKS], deaths].concat())
}

/// The same ranks without replicas under message logging, whose collective operations combine data in the same order.
#[must_use]
pub fn logging(words: &[&str]) -> Job {
    let options = ["--bind-to", "none", "--mca", "hook_ringwatch_recovery", "log"];
    Job::new().on(&["h1", "h2"], 2).ranks(RANKS).options(&options).limit(LIMIT).program(words)
}

/// What `logged` prints without replicas.
pub fn undisturbed(lab: &Lab) -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let (program, folder) = (logged().display().to_string(), lab.folder().display().to_string());
        let outcome = logging(&[&program, &folder, TASKS]).run(lab);
        outcome.require(outcome.stdout.lines().count() == 6, "the run without replicas has an end");
        outcome.stdout.clone()
    })
}

/// The output of `logged` is that of a run without replicas, once.
pub fn is_right<'a>(lab: &Lab, outcome: &'a Outcome) -> &'a Outcome {
    let expected = undisturbed(lab);
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    outcome.require(outcome.stdout == expected, &format!("the output is {expected:?}"))
}

/// A message: the number among those from one rank to another one, and these ranks.
pub type Message = (u64, u32, u32);

fn number(text: &str, before: &str) -> Option<u64> {
    let rest = text.split_once(before)?.1;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn message_in(line: &str, from: &str) -> Option<Message> {
    let rank = |before| number(line, before).and_then(|rank| rank.try_into().ok());
    Some((number(line, "message ")?, rank(from)?, rank(" to rank ")?))
}

/// The messages in which a bit was flipped, as the job has said.
#[must_use]
pub fn flipped(outcome: &Outcome) -> BTreeSet<Message> {
    let lines = outcome.stderr.lines().filter(|line| line.contains(" is flipped in "));
    lines.filter_map(|line| message_in(line, " of rank ")).collect()
}

/// The messages about which replicas have said that their senders differ.
#[must_use]
pub fn found(outcome: &Outcome) -> BTreeSet<Message> {
    let lines = outcome.stderr.lines().filter(|line| line.starts_with("ringwatch: message "));
    lines.filter_map(|line| message_in(line, " from rank ")).collect()
}
