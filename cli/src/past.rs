//! Histories as they are so far: asked for, of the last job, or read from files.

use std::io::{self, Read};
use std::path::PathBuf;

use rdma_heartbeat::history::{self, Record, archive, feed};

use crate::heard::{answers, foreign};
use crate::wanted::Wanted;

/// The records that are wanted, at least one: those in files or, without files, of running jobs, else of the last one.
///
/// # Errors
/// A sentence without its full stop: a file or the list of sockets cannot be read, or there are none.
pub fn records(wanted: &Wanted, files: &[PathBuf]) -> Result<Vec<Record>, String> {
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
    if records.is_empty() { Err(nothing(wanted, files.is_empty())) } else { Ok(records) }
}

/// Whether a record is of a job that is wanted.
pub fn is_wanted(wanted: &Wanted, record: &Record) -> bool {
    wanted.is(&record.job, record.slurm_job.as_deref())
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

/// That there are no records, without the full stop.
pub fn nothing(wanted: &Wanted, asked: bool) -> String {
    let which = wanted.of_whom();
    if asked {
        format!(
            "no ringwatchd {which} runs on this node, and none of the last jobs is kept: they are on the node of mpirun, unless psensor_ringwatch_events says otherwise"
        )
    } else {
        format!("the files have no event {which}")
    }
}
