//! A file that is written by a thread of its own: a file system that hangs must not keep the daemon from its heartbeats.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use propagation::NodeId;

use crate::privileges;

/// Most pieces that wait to be written; what comes when it is full is lost.
const WAITING: usize = 4096;
/// How long the end of the process waits for what is not written yet.
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
    /// Opens a file to append to, and makes its folder. A new file is for its user only.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        Self::to(File::options().append(true).create(true).mode(0o600).open(path)?)
    }

    /// Writes to a file that is open.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn to(mut file: File) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel(WAITING);
        std::thread::Builder::new().name("sink".into()).stack_size(STACK).spawn(move || {
            privileges::keep(0);
            for piece in waiting {
                let _ = match piece {
                    Piece::Bytes(bytes) => file.write_all(&bytes),
                    Piece::Mark(done) => done.send(()).map_err(io::Error::other),
                };
            }
        })?;
        Ok(Self { pieces })
    }

    /// Has bytes written as soon as possible, after those before; never waits. False if there is no room for them.
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

/// A path with its places filled in: `%h` is the host, `%j` the job, `%n` the node.
#[must_use]
pub fn expand(pattern: &str, host: &str, job: &str, node: NodeId) -> String {
    // A job's name is no folder.
    let job = job.replace('/', "_");
    pattern.replace("%h", host).replace("%j", &job).replace("%n", &node.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_path_are_filled_in() {
        assert_eq!(expand("/l/%j/%h-%n.log", "host", "job@1/x", 7), "/l/job@1_x/host-7.log");
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
        // A pipe that nobody reads is full after 64 KiB.
        let reader = File::options().read(true).write(true).open(&pipe).unwrap();
        let sink = Sink::open(&pipe).unwrap();
        let taken = (0..WAITING * 2).filter(|_| sink.write(vec![b'x'; 4096])).count();
        assert!((WAITING..WAITING * 2).contains(&taken), "{taken}");
        drop(sink);
        drop(reader);
        std::fs::remove_file(&pipe).unwrap();
    }
}
