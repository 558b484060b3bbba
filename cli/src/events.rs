//! `ringwatch events`: the history of jobs, asked for or read from files.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use cli::narrator::{Narrator, json};
use cli::timeline;
use rdma_heartbeat::history::{self, Record, archive, feed};
use rdma_heartbeat::report::status;

use crate::heard::{answers, foreign, listen};
use crate::output::print;
use crate::wanted::Wanted;

/// How long to wait for a daemon at first: one may just be taking another's place.
const STARTING: Duration = Duration::from_secs(1);
/// How long a follower sleeps at most where nothing waits.
const IDLE: Duration = Duration::from_secs(3600);

/// The command line of `ringwatch events`.
#[derive(Args)]
pub struct Arguments {
    /// Go on until the jobs end: each event in its place on the axis, less than a second late, and a summary at the end
    #[arg(long, conflicts_with = "files")]
    follow: bool,
    /// Print lines of JSON; docs/json.md has the fields
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wanted: Wanted,
    /// Read and merge histories that psensor_ringwatch_events has kept, instead of asking
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Prints what has happened, or goes on printing what happens.
pub fn show(Arguments { follow, json, wanted, files }: &Arguments) -> ExitCode {
    let shown = if *follow { follow_jobs(*json, wanted) } else { show_past(*json, wanted, files) };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("ringwatch: {problem}.");
            ExitCode::FAILURE
        }
    }
}

/// Prints what has happened so far.
fn show_past(as_json: bool, wanted: &Wanted, files: &[PathBuf]) -> Result<(), String> {
    let (mut records, strange) = if files.is_empty() {
        let (records, strange) = ask_all()?;
        if records.iter().any(|record| is_wanted(wanted, record)) { (records, strange) } else { last(wanted, records)? }
    } else {
        history::read(&read_all(files)?)
    };
    if strange > 0 {
        eprintln!("ringwatch: {strange} lines are no records of this version and are left out.");
    }
    records.retain(|record| is_wanted(wanted, record));
    if records.is_empty() {
        return Err(nothing(wanted, files.is_empty()));
    }
    if as_json {
        records.iter().for_each(|record| print(&json(record)));
    } else {
        print(&timeline::of(&records));
    }
    Ok(())
}

fn is_wanted(wanted: &Wanted, record: &Record) -> bool {
    wanted.is(&record.job, record.slurm_job.as_deref())
}

/// Prints what happens, from the beginning until the jobs end.
fn follow_jobs(as_json: bool, wanted: &Wanted) -> Result<(), String> {
    let until = Instant::now() + STARTING;
    while status::sockets(feed::PREFIX).is_ok_and(|names| names.is_empty()) && Instant::now() < until {
        std::thread::sleep(STARTING / 50);
    }
    let (tell, hears) = channel();
    for (name, stream) in answers(feed::follow_all)? {
        let tell = tell.clone();
        std::thread::spawn(move || listen(&name, stream, &tell));
    }
    drop(tell);
    let (mut narrator, mut shown) = (Narrator::new(as_json), 0);
    loop {
        let wait = narrator.next().map_or(IDLE, |next| next.saturating_duration_since(Instant::now()));
        match hears.recv_timeout(wait) {
            Ok(record) if is_wanted(wanted, &record) => {
                narrator.add(Instant::now(), record);
                shown += 1;
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        print(&narrator.tell(Instant::now()));
    }
    print(&narrator.end());
    if shown == 0 { Err(nothing(wanted, true)) } else { Ok(()) }
}

/// What all answer, and the number of lines that are no records.
fn ask_all() -> Result<(Vec<Record>, usize), String> {
    let (mut all, mut strange) = (Vec::new(), 0);
    for (name, text) in answers(feed::ask_all)? {
        let (mut records, malformed) = history::read(&String::from_utf8_lossy(&text));
        records.iter_mut().for_each(|record| record.user = foreign(&name));
        strange += malformed;
        all.extend(records);
    }
    history::sort(&mut all);
    Ok((all, strange))
}

/// The history of the last job, which is told on standard error; else what the daemons have said.
fn last(wanted: &Wanted, asked: Vec<Record>) -> Result<(Vec<Record>, usize), String> {
    let Some(folder) = archive::folder() else { return Ok((asked, 0)) };
    for path in archive::files(&folder) {
        let text = archive::read(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let kept = history::read(&text);
        if kept.0.iter().any(|record| is_wanted(wanted, record)) {
            let which = wanted.last();
            eprintln!("ringwatch: no ringwatchd runs here for it; this is {which}, from {}.", path.display());
            return Ok(kept);
        }
    }
    Ok((asked, 0))
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

fn nothing(wanted: &Wanted, asked: bool) -> String {
    let which = wanted.of_whom();
    if asked {
        format!(
            "no ringwatchd {which} runs on this node, and none of the last jobs is kept: they are on the node of mpirun, unless psensor_ringwatch_events says otherwise"
        )
    } else {
        format!("the files have no event {which}")
    }
}
