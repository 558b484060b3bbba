//! Standard output of the program goes into a terminal or pipe of this process, from which a thread reads it. It leaves
//! in calls of MPI, as [`printing`](crate::printing) says.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use openmpi_internals::sync::lock;
use virtual_ranks::streams::{STANDARD, block_signals, flush_streams, pair};

/// Standard output of this process.
pub struct Output {
    real: File,
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Output {
    /// Takes it over.
    ///
    /// # Errors
    /// A sentence if there are no descriptors or threads for that.
    pub fn begin() -> Result<Self, String> {
        let failed = || format!("standard output cannot be taken over: {}", std::io::Error::last_os_error());
        // SAFETY: descriptors of this process, of which the new one is nobody else's.
        let (real, is_terminal) = unsafe {
            let real = libc::fcntl(STANDARD, libc::F_DUPFD_CLOEXEC, 3);
            if real < 0 {
                return Err(failed());
            }
            (File::from_raw_fd(real), libc::isatty(STANDARD) == 1)
        };
        let (source, sink) = pair(is_terminal).ok_or_else(failed)?;
        let text = Arc::new(Mutex::new(Vec::new()));
        let taken = text.clone();
        let thread = std::thread::Builder::new().name("ringwatch-output".into());
        let thread = thread.spawn(move || read(source, &taken)).map_err(|_| failed())?;
        // SAFETY: descriptors of this process.
        if unsafe { libc::dup2(sink.as_raw_fd(), STANDARD) } < 0 {
            return Err(failed());
        }
        Ok(Self { real, text, thread: Some(thread) })
    }

    /// What the program has printed since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.text))
    }

    /// Prints. What cannot be written is lost, as it would be without replicas.
    pub fn write(&mut self, text: &[u8]) {
        let _ = self.real.write_all(text);
    }

    /// The program's libraries give what they keep.
    pub fn flush(&mut self) {
        flush_streams();
    }

    /// The program prints nothing more before the end of MPI. What comes later leaves at once, if this replica prints
    /// it.
    pub fn end(&mut self, prints: bool) {
        let Some(thread) = self.thread.take() else { return };
        flush_streams();
        let nowhere = File::options().write(true).open("/dev/null").ok().filter(|_| !prints);
        let target = nowhere.as_ref().map_or(self.real.as_raw_fd(), AsRawFd::as_raw_fd);
        // SAFETY: descriptors of this process. The program's end of the pipe is closed by that.
        unsafe { libc::dup2(target, STANDARD) };
        let _ = thread.join();
    }
}

fn read(source: OwnedFd, text: &Mutex<Vec<u8>>) {
    block_signals();
    let (mut source, mut buffer) = (File::from(source), [0_u8; 1 << 16]);
    loop {
        match source.read(&mut buffer) {
            Ok(length @ 1..) => lock(text).extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A terminal that nobody has open any more is an error.
            _ => return,
        }
    }
}
