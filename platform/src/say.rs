//! Lines for the user on standard error, without waiting, and the name of this host.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Name of this host.
#[must_use]
pub fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

/// Writes a line to standard error unless that would block.
pub fn say(line: &str) {
    let _ = Stderr.write_all(format!("{line}\n").as_bytes());
}

/// Standard error that never blocks the daemon: it may be a pipe without a reader, and a daemon that waits sends no
/// heartbeat. A line that does not fit is lost. (Making it non-blocking would do so for mpirun, too.)
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        // A pipe that is ready for output takes at least a page at once.
        let piece = &bytes[..bytes.len().min(libc::PIPE_BUF)];
        match poll(&mut room, PollTimeout::ZERO) {
            Ok(1..) => stderr.lock().write(piece),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
