//! Determines the release of ringwatch on this node.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use node_abi::versions::{RELEASE, told_by_daemon};
use platform::pin::Started;

/// Time limit for `ringwatchd --version`.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of the answer, in bytes.
const LONGEST: u64 = 512;

/// The release of a `ringwatchd`, if it answers.
pub fn of(daemon: &Path) -> Option<String> {
    let mut command = Command::new(daemon);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    // PRRTE may wait for it first, and another process get its number.
    let started = Started::take(child.id());
    let answer = child.stdout.take()?;
    let until = Instant::now() + PATIENCE;
    let (mut text, mut rest) = (Vec::new(), answer.take(LONGEST));
    let mut piece = [0; 64];
    loop {
        let left = PollTimeout::try_from(until.saturating_duration_since(Instant::now())).unwrap_or(PollTimeout::ZERO);
        let ready = poll(&mut [PollFd::new(rest.get_ref().as_fd(), PollFlags::POLLIN)], left);
        if ready.is_ok_and(|count| count == 0) {
            let _ = started.map(|started| started.kill());
            return None;
        }
        match rest.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(length) => text.extend_from_slice(&piece[..length]),
        }
    }
    let _ = child.wait();
    told_by_daemon(&String::from_utf8_lossy(&text)).map(ToOwned::to_owned)
}

/// Checks that prterun's own node has this plugin's release.
///
/// # Errors
/// A sentence for the user.
pub fn check(daemon: &Path) -> Result<(), String> {
    let found = of(daemon);
    if found.as_deref() == Some(RELEASE) {
        return Ok(());
    }
    let host = platform::say::host();
    let found = found.unwrap_or_else(|| "of a release that it does not tell".into());
    let path = daemon.display();
    Err(format!("{host} has a plugin of ringwatch {RELEASE}, but {path} is {found}: install the same release of both"))
}
