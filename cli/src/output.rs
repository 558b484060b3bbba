//! What the tool prints, and how it refuses a command line.

use std::io::Write as _;
use std::process::ExitCode;

use platform::terminal;

/// The exit status of a command line that cannot be carried out.
const USAGE: u8 = 2;

/// Prints text with terminal control characters escaped; ignores a reader that closes early.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(terminal::text(text).as_bytes());
}

/// Ends with one sentence about the command line.
pub fn refuse(why: &str) -> ExitCode {
    eprintln!("ringwatch: {why}.");
    ExitCode::from(USAGE)
}
