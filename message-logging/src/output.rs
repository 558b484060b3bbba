//! Standard output, so that what a rank prints appears once however often it is replaced.
//!
//! The program writes into a terminal or pipe of the layer's, from which a thread takes it to the real standard
//! output. It says of each piece where in the rank's output it stands, and `mpirun` takes each place once
//! ([`framed_output`](node_abi::framed_output)). A replacement prints the same bytes from the beginning. The event
//! logger keeps their count, so that only what may be lost with the dead process is sent again. What the program has
//! printed leaves only when all that led to it is stable.
//!
//! A checkpoint has the count, too. For that the program gets a new terminal or pipe, and the old one is read to its
//! end.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use logger_client::Error;
use node_abi::framed_output::{REPEATED, frames};
use openmpi_internals::sync::lock;
use virtual_ranks::streams::{STANDARD, block_signals, flush_streams, pair};

use crate::logger::{self, Shared};

/// The thread, and the real standard output.
struct Pump {
    thread: JoinHandle<()>,
    real: OwnedFd,
    is_terminal: bool,
    next: Sender<Next>,
    /// Bytes that the program has printed up to the end of each source.
    ends: Receiver<u64>,
}

/// Where the program prints from now on.
struct Next {
    source: OwnedFd,
    /// The count that it begins with; where there is none it goes on.
    passed: Option<u64>,
}

static PUMP: Mutex<Option<Pump>> = Mutex::new(None);

/// Takes the standard output of a rank over, of which the first `printed` bytes have been printed already. Without
/// descriptors it stays as it is.
pub fn begin(logger: &Shared, rank: u32, printed: u64) {
    // SAFETY: descriptors of this process, of which the new ones are nobody else's.
    let (real, is_terminal, (source, sink)) = unsafe {
        let real = libc::fcntl(STANDARD, libc::F_DUPFD_CLOEXEC, 3);
        let is_terminal = libc::isatty(STANDARD) == 1;
        let Some(pair) = (real >= 0).then(|| pair(is_terminal)).flatten() else { return };
        if libc::dup2(pair.1.as_raw_fd(), STANDARD) < 0 {
            return;
        }
        (OwnedFd::from_raw_fd(real), is_terminal, pair)
    };
    drop(sink);
    let (logger, target) = (logger.clone(), real.as_raw_fd());
    // SAFETY: the descriptor stays open until the thread has ended.
    let target = unsafe { ManuallyDrop::new(File::from_raw_fd(target)) };
    let thread = std::thread::Builder::new().name("ringwatch-output".into());
    let ((next, nexts), (end, ends)) = (channel::<Next>(), channel());
    let run = move || {
        block_signals();
        let (mut source, mut passed) = (source, 0);
        loop {
            passed = pump(File::from(source), &target, &logger, (rank, passed, printed));
            let _ = end.send(passed);
            let Ok(next) = nexts.recv() else { return };
            source = next.source;
            passed = next.passed.unwrap_or(passed);
        }
    };
    if let Ok(thread) = thread.spawn(run) {
        *lock(&PUMP) = Some(Pump { thread, real, is_terminal, next, ends });
    }
}

/// Waits until all that the program has printed has left. Returns how many bytes that is, over all lives of the rank;
/// `None` without descriptors for that.
pub fn settle() -> Option<u64> {
    renew(None)
}

/// From now on the program prints what comes after so many bytes.
pub fn go_on_from(printed: u64) {
    renew(Some(printed));
}

fn renew(passed: Option<u64>) -> Option<u64> {
    let pump = lock(&PUMP);
    // Without one nothing is counted.
    let Some(pump) = &*pump else { return Some(0) };
    flush_streams();
    let (source, sink) = pair(pump.is_terminal)?;
    // SAFETY: descriptors of this process. The program's end of the pipe before is closed by that.
    if unsafe { libc::dup2(sink.as_raw_fd(), STANDARD) } < 0 {
        return None;
    }
    pump.next.send(Next { source, passed }).ok()?;
    pump.ends.recv().ok()
}

/// Takes what the program prints to the real standard output until nobody can print any more. Returns how many bytes
/// have passed, of which `printed` had been printed before.
fn pump(mut source: File, mut target: &File, logger: &Shared, (rank, mut passed, printed): (u32, u64, u64)) -> u64 {
    let is_safe = printed.saturating_sub(REPEATED);
    let mut buffer = [0_u8; 1 << 16];
    loop {
        let length = match source.read(&mut buffer) {
            Ok(length @ 1..) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A terminal that nobody has open any more is an error.
            _ => return passed,
        };
        let dropped = usize::try_from(is_safe.saturating_sub(passed)).map_or(length, |left| left.min(length));
        let place = passed + dropped as u64;
        passed += length as u64;
        if dropped == length {
            continue;
        }
        // Another process is this rank. Where loggers are lost nobody will print it again.
        if logger::settle(logger) == Err(Error::Deposed) {
            return passed;
        }
        let _ = target.write_all(&frames(rank, place, &buffer[dropped..length]));
        lock(logger).tell_output(passed);
    }
}

/// Gives standard output back. Returns when all that the program has printed has left.
pub fn end() {
    let Some(Pump { thread, real, next, .. }) = lock(&PUMP).take() else { return };
    flush_streams();
    // SAFETY: descriptors of this process. The program's end of the pipe is closed by that.
    unsafe { libc::dup2(real.as_raw_fd(), STANDARD) };
    drop(next);
    let _ = thread.join();
}
