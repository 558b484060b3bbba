//! The key of a job is where its daemons are, and nowhere else.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use system_tests::wire::sniff;
use system_tests::{Job, in_lab, process};

const KEY: usize = 32;
const MAC: usize = 16;
/// Longer files than any that a job writes.
const LONGEST: u64 = 64 << 20;
/// A stretch of memory that is read at once.
const STRETCH: usize = 1 << 20;
const PAGE: usize = 4096;

/// Whether this key has sealed a datagram to this node.
fn has_sealed(key: &[u8; KEY], datagram: &[u8], to: u32) -> bool {
    let (sealed, mac) = datagram.split_at(datagram.len() - MAC);
    blake3::Hasher::new_keyed(key).update(sealed).update(&to.to_le_bytes()).finalize().as_bytes()[..MAC] == *mac
}

/// Shows `look` what a process can write, in pieces that overlap by the length of a key, until it has found something.
fn in_memory<T>(pid: i32, mut look: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process lives");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("the process can be read");
    let mut piece = vec![0; STRETCH + KEY];
    for line in maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"))) {
        let (begin, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        for at in (number(begin)..number(end)).step_by(STRETCH) {
            let most = usize::try_from(number(end) - at).expect("an address").min(piece.len());
            // Memory of devices, say, is not for reading; what comes after it is.
            let mut length = 0;
            while length < most {
                match memory.read_at(&mut piece[length..most], at + length as u64) {
                    Ok(read @ 1..) => length += read,
                    _ => {
                        let next = (length / PAGE + 1) * PAGE;
                        piece[length..next.min(most)].fill(0);
                        length = next;
                    }
                }
            }
            if let Some(found) = look(&piece[..most]) {
                return Some(found);
            }
        }
    }
    None
}

/// The key that has sealed a datagram to a node, in the memory of a daemon.
fn key_of(daemon: i32, datagram: &[u8], to: u32) -> Option<[u8; KEY]> {
    in_memory(daemon, |memory| {
        // Random bytes are hardly ever zero, and most of the memory is.
        let is_candidate = |at: usize| memory[at] != 0 || memory[at + 1] != 0;
        let places = (0..memory.len().saturating_sub(KEY - 1)).filter(|at| is_candidate(*at));
        let mut keys = places.map(|at| <&[u8; KEY]>::try_from(&memory[at..at + KEY]).expect("of that length"));
        keys.find(|key| has_sealed(key, datagram, to)).copied()
    })
}

/// Whether bytes hold the key, as it is or written down.
fn holds(bytes: &[u8], key: &[u8; KEY]) -> bool {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = |between: &str| key.iter().map(u8::to_string).collect::<Vec<_>>().join(between);
    let contains = |part: &[u8]| {
        // SAFETY: both slices are given with their lengths, and only read.
        let place = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), part.as_ptr().cast(), part.len()) };
        !place.is_null()
    };
    let written = [hex.to_uppercase(), hex, list(","), list(", ")];
    contains(key) || written.iter().any(|text| contains(text.as_bytes()))
}

/// The files below a folder that hold the key.
fn files_with(key: &[u8; KEY], folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(data)) = (entry.path(), entry.metadata()) else { continue };
        if data.is_dir() {
            files_with(key, &path, found);
        } else if data.is_file() && data.len() < LONGEST && fs::read(&path).is_ok_and(|bytes| holds(&bytes, key)) {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn the_key_of_a_job_is_in_no_command_line_no_environment_no_file_and_no_rank() {
    in_lab(|lab| {
        let history = lab.folder().join("history.jsonl").display().to_string();
        let job = Job::new().parameter("events", &history).parameter("log_level", "debug");
        let mut job = job.arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let datagram = sniff("h2", job.port("h2"), 1).remove(0);
        let daemon = job.watcher("h2").pid;
        let Some(key) = key_of(daemon, &datagram, 1) else {
            job.fail("ringwatchd has the key with which it is spoken to")
        };
        let has_key = |pid| in_memory(pid, |memory| holds(memory, &key).then_some(())).is_some();
        // What is looked for is found where it has to be.
        if !has_key(job.watcher("h4").pid) || !has_key(job.runtime("h2")) {
            job.fail("every daemon of the job has the key");
        }
        for rank in job.ranks() {
            if has_key(job.pid(rank)) {
                job.fail(&format!("rank {rank} has the key"));
            }
        }
        for pid in process::numbers() {
            for file in ["cmdline", "environ"] {
                if fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| holds(&bytes, &key)) {
                    job.fail(&format!("the key is in the {file} of process {pid}"));
                }
            }
        }
        let mut files = Vec::new();
        for folder in ["/tmp", "/var/tmp", "/run", "/dev/shm", "/root", "/home", "/etc"] {
            files_with(&key, Path::new(folder), &mut files);
        }
        if !files.is_empty() {
            job.fail(&format!("the key is in {files:?}"));
        }
        job.end();
        job.finish().finished_without(&[]);
    });
}
