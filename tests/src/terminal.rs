//! A program in a terminal, and what it shows there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use vt100::Parser;

const ROWS: u16 = 40;
const COLUMNS: u16 = 140;

/// The program and its terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<Parser>>,
}

impl Terminal {
    /// Starts a command in a new terminal.
    ///
    /// # Panics
    /// If the system has no terminal left, or the command cannot be started.
    #[must_use]
    pub fn start(words: &[&str]) -> Self {
        let (ours, theirs) = pair();
        let end = || Stdio::from(theirs.try_clone().expect("there are descriptors left"));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("it can be started");
        drop(command);
        drop(theirs);
        let keys = File::from(ours);
        let mut output = keys.try_clone().expect("there are descriptors left");
        let screen = Arc::new(Mutex::new(Parser::new(ROWS, COLUMNS, 0)));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..length]);
            }
        });
        Self { child, keys, screen }
    }

    /// What the screen shows.
    #[must_use]
    pub fn text(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// Presses keys, and waits for the end of the program.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn leave(mut self, keys: &[u8]) -> ExitStatus {
        self.keys.write_all(keys).expect("the terminal is there");
        self.child.wait().expect("it is a child")
    }
}

/// Both ends of a new terminal.
fn pair() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes two descriptors into variables that live; the name and the settings are left out.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0, "there are terminals left");
    // SAFETY: changes a flag of a descriptor that was just made.
    unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: new descriptors without another owner.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}
