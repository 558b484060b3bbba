//! `ringwatch events`: the history of jobs, asked for or read from files.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use clap::Args;
use cli::timeline;
use rdma_heartbeat::history::repeats::Repeats;
use rdma_heartbeat::history::{self, Event, Record, archive, feed};
use rdma_heartbeat::report::status;

use crate::output::print;
use crate::unanswered;

/// How long a daemon may be missing before its job counts as over: several times what its plugin needs to start another.
const AGAIN: Duration = Duration::from_secs(5);

/// How long to wait for a daemon at first: one may just be taking another's place.
const STARTING: Duration = Duration::from_secs(1);

/// The command line of `ringwatch events`.
#[derive(Args)]
pub struct Arguments {
    /// Go on until the jobs end
    #[arg(long, conflicts_with = "files")]
    follow: bool,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
    /// Only this job (its PMIx namespace)
    #[arg(long, value_name = "NSPACE")]
    job: Option<String>,
    /// Read and merge histories that psensor_ringwatch_events has kept, instead of asking
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Prints what has happened, or goes on printing what happens.
pub fn show(Arguments { follow, json, job, files }: &Arguments) -> ExitCode {
    if *follow { follow_jobs(*json, job.as_deref()) } else { show_past(*json, job.as_deref(), files) }
}

/// Prints what has happened so far.
fn show_past(json: bool, job: Option<&str>, files: &[PathBuf]) -> ExitCode {
    let text = if files.is_empty() { ask_all().and_then(|text| or_last(text, job)) } else { read_all(files) };
    let text = match text {
        Ok(text) => text,
        Err(problem) => {
            eprintln!("ringwatch: {problem}.");
            return ExitCode::FAILURE;
        }
    };
    let (mut records, strange) = history::read(&text);
    if strange > 0 {
        eprintln!("ringwatch: {strange} lines are no records of this version and are left out.");
    }
    records.retain(|record| job.is_none_or(|job| record.job == job));
    if records.is_empty() {
        eprintln!("ringwatch: {}", nothing(job, files.is_empty()));
        return ExitCode::FAILURE;
    }
    if json {
        records.iter().for_each(|record| print(&line(record)));
    } else {
        print(&timeline::of(&records));
    }
    ExitCode::SUCCESS
}

/// Prints what happens, from the beginning until the jobs end.
fn follow_jobs(json: bool, job: Option<&str>) -> ExitCode {
    let until = Instant::now() + STARTING;
    while status::sockets(feed::PREFIX).is_ok_and(|names| names.is_empty()) && Instant::now() < until {
        std::thread::sleep(STARTING / 50);
    }
    let (told, hears) = channel();
    match answers(feed::follow_all) {
        Ok(streams) => streams.into_iter().for_each(|(name, stream)| {
            let told = told.clone();
            std::thread::spawn(move || listen(&name, stream, &told));
        }),
        Err(problem) => {
            eprintln!("ringwatch: {problem}.");
            return ExitCode::FAILURE;
        }
    }
    drop(told);
    let (mut shown, mut repeats) = (0, Repeats::default());
    for heard in hears {
        match heard {
            Heard::FromTheBeginning => repeats.begin_again(),
            Heard::Record(record) if job.is_none_or(|job| record.job == job) && repeats.is_news(&record) => {
                print(&if json { line(&record) } else { timeline::line(&record, None) });
                shown += 1;
            }
            Heard::Record(_) => {}
        }
    }
    if shown == 0 {
        eprintln!("ringwatch: {}", nothing(job, true));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Messages from a daemon to a tool that follows its events.
enum Heard {
    /// The tool has reconnected, and the daemon sends all events again.
    FromTheBeginning,
    Record(Box<Record>),
}

/// Hears a daemon, and the one that takes its place, until the job has ended; a reader that was too slow calls again.
fn listen(name: &str, mut stream: UnixStream, told: &Sender<Heard>) {
    loop {
        let mut is_over = false;
        for line in BufReader::new(&stream).lines().map_while(Result::ok) {
            let Ok(record) = serde_json::from_str::<Record>(&line) else { continue };
            is_over |= record.node == record.clock && matches!(record.event, Event::Ended { .. });
            if told.send(Heard::Record(Box::new(record))).is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
        let until = Instant::now() + AGAIN;
        stream = loop {
            match feed::call(name, true) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() > until => return,
                Err(_) => std::thread::sleep(AGAIN / 50),
            }
        };
        if told.send(Heard::FromTheBeginning).is_err() {
            return;
        }
    }
}

/// What all answer, each from its own line on.
fn ask_all() -> Result<String, String> {
    let texts = answers(feed::ask_all)?;
    Ok(texts.iter().map(|(_, text)| String::from_utf8_lossy(text)).collect())
}

/// What the daemons have said, or where none of this job runs the history of the last one, which is told on standard error.
fn or_last(text: String, job: Option<&str>) -> Result<String, String> {
    let is_of_job = |text: &str| history::read(text).0.iter().any(|record| job.is_none_or(|job| record.job == job));
    let Some(folder) = archive::folder().filter(|_| !is_of_job(&text)) else { return Ok(text) };
    for path in archive::files(&folder) {
        let kept = archive::read(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if is_of_job(&kept) {
            let which = job.map_or_else(|| "your last job".into(), |job| format!("job {job}"));
            eprintln!("ringwatch: no ringwatchd runs here for it; this is {which}, from {}.", path.display());
            return Ok(kept);
        }
    }
    Ok(text)
}

fn read_all(files: &[PathBuf]) -> Result<String, String> {
    let mut text = String::new();
    for path in files {
        let content = std::fs::File::open(path).and_then(|mut file| read(&mut file));
        text += &content.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        text.push('\n');
    }
    Ok(text)
}

/// Whatever is no text becomes lines that are no records.
fn read(source: &mut dyn Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The answers of this node's daemons, by name, without those of single nodes of a job whose node 0 has answered, too.
fn answers<T>(ask: impl FnOnce(Vec<String>) -> Vec<(String, io::Result<T>)>) -> Result<Vec<(String, T)>, String> {
    let names =
        status::sockets(feed::PREFIX).map_err(|error| format!("the list of local sockets cannot be read: {error}"))?;
    let job = |name: &str| name.rsplit_once('/').map_or_else(String::new, |(job, _)| job.to_owned());
    let all = ask(names);
    // A name alone proves nothing: any process can take the name of a node 0.
    let whole = all.iter().filter(|(name, answer)| name.ends_with("/0") && answer.is_ok());
    let whole: BTreeSet<String> = whole.map(|(name, _)| job(name)).collect();
    let (mut answers, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in all.into_iter().filter(|(name, _)| name.ends_with("/0") || !whole.contains(&job(name))) {
        match answer {
            Ok(answer) => answers.push((name, answer)),
            Err(error) => silent.push((name, error)),
        }
    }
    unanswered::complain(&silent);
    Ok(answers)
}

fn line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is plain data") + "\n"
}

fn nothing(job: Option<&str>, asked: bool) -> String {
    let which = job.map_or_else(|| "of yours".into(), |job| format!("of job {job}"));
    if asked {
        format!(
            "no ringwatchd {which} runs on this node, and none of the last jobs is kept: they are on the node of mpirun, unless psensor_ringwatch_events says otherwise."
        )
    } else {
        format!("the files have no event {which}.")
    }
}
