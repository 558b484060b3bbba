//! The ranks that were spawned, from what they and the daemons have written down.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diary::Diaries;
use crate::lab::ALL_HOSTS;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// Its number among all ranks of ringwatch.
    pub rank: u32,
    /// Its host.
    pub host: u32,
    /// When it had started.
    pub started: Duration,
    /// When it had left `MPI_Init`, if it has.
    pub initialised: Option<Duration>,
    /// When it had left `MPI_Finalize`, if it has.
    pub finalized: Option<Duration>,
    /// With which code.
    pub code: Option<u32>,
}

/// Those of the job with this folder whose number a daemon has told, and who came to write.
#[must_use]
pub fn all(folder: &Path) -> Vec<Spawned> {
    let logs = files(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "log"));
    let text: String = logs.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let first = first_numbers(&text);
    let found = files(&folder.join("diaries")).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_prefix("spawned.")?.to_owned();
        let diary = Diaries::of_file(&path);
        let started = diary.all("started").next()?;
        let first_time = |event: &str| diary.all(event).next().map(|entry| entry.at);
        let host = ALL_HOSTS.iter().position(|host| started.details.get(1).is_some_and(|name| name == host))?;
        Some(Spawned {
            rank: first.get(&name)? + started.rank,
            host: u32::try_from(host).ok()?,
            started: started.at,
            initialised: first_time("initialised"),
            finalized: first_time("finalized"),
            code: diary.all("finalized").next().and_then(|entry| entry.number(0)),
        })
    });
    found.collect()
}

/// The number of the first rank of each namespace that was spawned, from the logs.
fn first_numbers(logs: &str) -> BTreeMap<String, u32> {
    let value = |line: &str, key: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        Some(word.trim_matches('"').to_owned())
    };
    let lines = logs.lines().filter(|line| line.contains(" spawned job="));
    lines.filter_map(|line| Some((value(line, "job=")?, value(line, "first=")?.parse().ok()?))).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_number_who_is_spawned() {
        let line = "2026-01-01T12:00:01.314Z INFO h1 node 0: spawned job=\"prterun-h1-7@2\" first=8 ranks=1\n";
        let other = "2026-01-01T12:00:01.400Z INFO h1 node 0: spawned job=prterun-h1-7@3 first=9 ranks=1\n";
        let all = first_numbers(&format!("{line}noise\n{other}{line}"));
        assert_eq!(all, [("prterun-h1-7@2".into(), 8), ("prterun-h1-7@3".into(), 9)].into());
    }
}
