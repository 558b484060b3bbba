//! `ringwatch events`: the history of jobs, asked for or read from files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use cli::narrator::{Narrator, json};
use cli::timeline;
use rdma_heartbeat::history::feed;
use rdma_heartbeat::report::status;

use crate::heard::{answers, listen};
use crate::output::print;
use crate::past;
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
    let records = past::records(wanted, files)?;
    if as_json {
        records.iter().for_each(|record| print(&json(record)));
    } else {
        print(&timeline::of(&records));
    }
    Ok(())
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
            Ok(record) if past::is_wanted(wanted, &record) => {
                narrator.add(Instant::now(), record);
                shown += 1;
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        print(&narrator.tell(Instant::now()));
    }
    print(&narrator.end());
    if shown == 0 { Err(past::nothing(wanted, true)) } else { Ok(()) }
}
