//! What a broken promise leaves for people to read: one folder with everything about the job.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::limits::{history, records};
use super::plan::Plan;
use super::struck::Struck;
use crate::diary::Diaries;
use crate::lab::hosts;

/// Longest that a question to a daemon takes, in seconds.
const ASK: &str = "5";

/// Where things are.
pub struct Traces<'a> {
    /// The folder of the job.
    pub folder: &'a Path,
    /// Its file of events.
    pub events: &'a Path,
    /// When this machine had kept whom from running, and for how long.
    pub late: Vec<(Duration, String)>,
}

/// Writes the bundle and returns its folder; what cannot be had is left out.
#[must_use]
pub fn write(into: &Path, plan: &Plan, struck: &Struck, traces: &Traces<'_>, why: &str) -> PathBuf {
    let folder = into.join(format!("seed-{}", plan.seed));
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::create_dir_all(&folder);
    let put = |name: &str, text: &str| drop(fs::write(folder.join(name), text));
    // First what lives only as long as the daemons do.
    put("status.txt", &ask_all());
    put("why.txt", &format!("{plan}\n\n{why}\n"));
    put("axis.txt", &axis(struck, traces));
    put("events.jsonl", &history(traces.events));
    copy(traces.folder, &folder.join("job"));
    folder
}

/// What every daemon says of the ring, and the node of mpirun of what has happened.
fn ask_all() -> String {
    let mut text = String::new();
    let questions = hosts().map(|host| (host, "status")).chain([("h1", "events")]);
    for (host, question) in questions {
        let words = ["-s", "KILL", ASK, "rw-on", host, "ringwatch", question];
        let Ok(answer) = Command::new("timeout").args(words).output() else { continue };
        let _ = writeln!(text, "--- ringwatch {question} on {host}");
        text += &String::from_utf8_lossy(&answer.stdout);
        text += &String::from_utf8_lossy(&answer.stderr);
    }
    text
}

/// Faults, diaries, logs of all daemons and history, in order of the clock that all virtual hosts share.
fn axis(struck: &Struck, traces: &Traces<'_>) -> String {
    let mut lines: Vec<(Duration, String)> =
        struck.log.iter().map(|(at, what)| (*at, format!("CHAOS   {what}"))).collect();
    lines.extend(traces.late.iter().map(|(at, what)| (*at, format!("MACHINE {what}"))));
    for entry in Diaries::read(&traces.folder.join("diaries")).0 {
        lines.push((entry.at, format!("rank {:<3} {} {}", entry.rank, entry.event, entry.text())));
    }
    for record in records(&history(traces.events)) {
        let at = Duration::from_micros(record["at_us"].as_u64().unwrap_or(0));
        lines.push((at, format!("event    {record}")));
    }
    lines.extend(logs(traces.folder));
    lines.sort();
    lines.iter().fold(String::new(), |text, (at, what)| format!("{text}{:.6} {what}\n", at.as_secs_f64()))
}

/// The lines of the daemons' logs. Their times are those of the wall clock, placed by how the two clocks stand now.
fn logs(folder: &Path) -> Vec<(Duration, String)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut lines = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "log")) {
        let host = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for line in fs::read_to_string(&path).unwrap_or_default().lines() {
            if let Some(at) = line.split_whitespace().next().and_then(on_axis) {
                lines.push((at, format!("{host:<7}  {line}")));
            }
        }
    }
    lines
}

/// A moment of the wall clock's day (`2026-01-01T12:00:01.314Z`) on the monotonic clock.
fn on_axis(time: &str) -> Option<Duration> {
    let day = time.split_once('T')?.1.trim_end_matches('Z');
    let mut parts = day.split(':');
    let (hours, minutes) = (parts.next()?.parse::<f64>().ok()?, parts.next()?.parse::<f64>().ok()?);
    let seconds = parts.next()?.parse::<f64>().ok()?;
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() % 86_400.0;
    let ago = (wall - (hours * 3600.0 + minutes * 60.0 + seconds)).rem_euclid(86_400.0);
    crate::clock::now().checked_sub(Duration::from_secs_f64(ago))
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::create_dir_all(to);
    for file in fs::read_dir(from).into_iter().flatten().flatten() {
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            copy(&file.path(), &target);
        } else {
            let _ = fs::copy(file.path(), target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_wall_clock_finds_its_place() {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() % 86_400;
        let text = format!("2026-01-01T{:02}:{:02}:{:02}.000Z", wall / 3600, wall / 60 % 60, wall % 60);
        let ago = crate::clock::now() - on_axis(&text).unwrap();
        assert!(ago < Duration::from_secs(2), "{ago:?}");
        assert_eq!(on_axis("nonsense"), None);
    }
}
