//! Writes a file in a separate thread: a file system that hangs must not delay the daemon's heartbeats.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::{output_file, privileges};

/// Largest number of pieces that wait to be written; pieces beyond it are lost.
const WAITING: usize = 4096;
/// Time limit for opening the file at the start, and for writing the rest at the end.
const PATIENCE: Duration = Duration::from_secs(1);
const STACK: usize = 64 << 10;

enum Piece {
    Bytes(Vec<u8>),
    /// All before it is written.
    Mark(SyncSender<()>),
}

/// The writing end.
pub struct Sink {
    pieces: SyncSender<Piece>,
}

impl Sink {
    /// Opens a file to append to, and makes its folder, see [`output_file`]. Waits for the file system for a second at
    /// most.
    ///
    /// # Errors
    /// If there is something else than a regular file of this user, or the system refuses or does not answer.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::to(output_file::open(path, PATIENCE)?)
    }

    /// Whether [`Sink::open`] will open a file; makes it, as that does.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn check(path: &Path) -> io::Result<()> {
        output_file::open(path, PATIENCE).map(drop)
    }

    /// Writes to a file that is open.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn to(file: File) -> io::Result<Self> {
        Self::from_opener(move || Ok(file))
    }

    /// Writes to what `open` opens in the thread that writes; if that fails, what is written is dropped.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn from_opener<W: Write>(open: impl FnOnce() -> io::Result<W> + Send + 'static) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel(WAITING);
        std::thread::Builder::new().name("sink".into()).stack_size(STACK).spawn(move || {
            privileges::keep(0);
            let mut file = open();
            for piece in waiting {
                let _ = match piece {
                    Piece::Bytes(bytes) => file.as_mut().map_or(Ok(()), |file| file.write_all(&bytes)),
                    Piece::Mark(done) => done.send(()).map_err(io::Error::other),
                };
            }
        })?;
        Ok(Self { pieces })
    }

    /// Queues bytes to be written as soon as possible, in order; never waits. Returns false if there is no room for
    /// them.
    pub fn write(&self, bytes: Vec<u8>) -> bool {
        self.pieces.try_send(Piece::Bytes(bytes)).is_ok()
    }

    /// Waits until all is written, but no longer than a second.
    pub fn finish(&self) {
        let (done, marked) = sync_channel(1);
        if self.pieces.try_send(Piece::Mark(done)).is_ok() {
            let _ = marked.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What stands in the places of a path.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// `%h`: the host.
    pub host: &'a str,
    /// `%j`: the job.
    pub job: &'a str,
    /// `%n`: the node.
    pub node: u32,
    /// `%p`: process number of mpirun.
    pub mpirun_pid: u32,
    /// `%s`: number of the batch system's job; `none` outside of one.
    pub slurm_job: Option<&'a str>,
}

/// A path with its [`Places`] filled in.
#[must_use]
pub fn expand(pattern: &str, places: Places<'_>) -> String {
    // A job's name is no folder.
    let name = |text: &str| text.replace('/', "_");
    let mut path = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        path += &rest[..at];
        let (place, after) = rest[at..].split_at(rest[at + 1..].chars().next().map_or(1, |c| 1 + c.len_utf8()));
        match place {
            "%h" => path += places.host,
            "%j" => path += &name(places.job),
            "%n" => path += &places.node.to_string(),
            "%p" => path += &places.mpirun_pid.to_string(),
            "%s" => path += &name(places.slurm_job.unwrap_or("none")),
            other => path += other,
        }
        rest = after;
    }
    path + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_path_are_filled_in() {
        let places = Places { host: "host%n", job: "job@1/x", node: 7, mpirun_pid: 42, slurm_job: Some("123") };
        assert_eq!(expand("/l/%j/%h-%n.%p.%s.log%", places), "/l/job@1_x/host%n-7.42.123.log%");
        assert_eq!(expand("/l/%s.%é.log", Places { slurm_job: None, ..places }), "/l/none.%é.log");
    }

    #[test]
    fn parent_folders_are_made_and_old_lines_are_kept() {
        let folder = std::env::temp_dir().join(format!("ringwatch-sink-{}", std::process::id()));
        let path = folder.join("a/b.log");
        for lines in [["one\n", "two\n"], ["three\n", "four\n"]] {
            let sink = Sink::open(&path).unwrap();
            assert!(lines.iter().all(|line| sink.write(line.as_bytes().to_vec())));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\nfour\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_takes_nothing_does_not_keep_the_writer() {
        let pipe = std::env::temp_dir().join(format!("ringwatch-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        // A pipe that is not read is full after 64 KiB.
        let reader = File::options().read(true).write(true).open(&pipe).unwrap();
        let sink = Sink::to(File::options().write(true).open(&pipe).unwrap()).unwrap();
        let taken = (0..WAITING * 2).filter(|_| sink.write(vec![b'x'; 4096])).count();
        assert!((WAITING..WAITING * 2).contains(&taken), "{taken}");
        drop(sink);
        drop(reader);
        std::fs::remove_file(&pipe).unwrap();
    }
}
