//! Parses the kernel's files about a process in `/proc/<pid>`, see proc(5). Names in them are chosen by the process,
//! and need not be text.

use std::str::FromStr;

/// Signals of a crash.
const CRASHES: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE, libc::SIGILL];
/// `PF_SIGNALED` of the kernel: a signal ends the thread, or another thread of its process.
const SIGNALED: u32 = 0x400;

/// What `/proc/<pid>/stat` says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// State letter of the process, see proc_pid_stat(5).
    pub state: u8,
    /// How long it has run, in clock ticks.
    pub ran: u64,
    /// When it started, in clock ticks since the node did.
    pub started: u64,
    /// Status in the form of waitpid(2); meaningful once the state is `Z`.
    pub exit_code: i32,
    /// The signal of a crash in whose handler its first thread is, if that will end it when it returns: the handler was
    /// for once, as Open MPI's is.
    pub crash: Option<i32>,
    /// A signal is ending its first thread, and the others with it: it never comes back from the kernel.
    pub is_signaled: bool,
}

impl Sample {
    /// Reads the line of the file.
    #[must_use]
    pub fn parse(stat: &[u8]) -> Option<Self> {
        // The name in parentheses may itself hold spaces and parentheses.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let flags: u32 = fields.nth(5)?.parse().ok()?;
        let ran = fields.nth(4)?.parse::<u64>().ok()?.saturating_add(fields.next()?.parse().ok()?);
        let started = fields.nth(6)?.parse().ok()?;
        let mut signals = |before| fields.nth(before).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
        let crash = crash(signals(9), signals(0), signals(0));
        let exit_code = fields.nth(17).and_then(|field| field.parse().ok()).unwrap_or(0);
        Some(Self { state, ran, started, exit_code, crash, is_signaled: flags & SIGNALED != 0 })
    }
}

/// The kernel blocks a signal while its handler runs. A process that avoids signals blocks all of them, and a process
/// that handles its own page faults continues to catch them.
fn crash(blocked: u32, ignored: u32, caught: u32) -> Option<i32> {
    let has = |signals: u32, signal: i32| signals & 1 << (signal - 1) != 0;
    let is_alone = !has(blocked, libc::SIGTERM);
    CRASHES.into_iter().find(|signal| is_alone && has(blocked, *signal) && !has(ignored | caught, *signal))
}

/// First number of the line of a `status` that begins with a name.
#[must_use]
pub fn number_in<T: FromStr>(status: &[u8], name: &str) -> Option<T> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// State letter in a `status`.
#[must_use]
pub fn state(status: &[u8]) -> Option<u8> {
    number_in::<char>(status, "State:").and_then(|letter| u8::try_from(letter).ok())
}

/// If the process of a `status` is stopped and not traced: the number of its context switches so far.
#[must_use]
pub fn stops(status: &[u8]) -> Option<u64> {
    let tracer: u32 = number_in(status, "TracerPid:")?;
    let is_stopped = state(status) == Some(b'T') && tracer == 0;
    is_stopped.then(|| number_in(status, "voluntary_ctxt_switches:").unwrap_or(0))
}

/// Whether the kernel is writing the core of the process of a `status`, which Linux says since 4.15.
#[must_use]
pub fn dumps_core(status: &[u8]) -> bool {
    number_in(status, "CoreDumping:") == Some(1)
}

/// Whether the process of a `status` has a pending stop signal that it has not acted on yet.
#[must_use]
pub fn is_about_to_stop(status: &[u8]) -> bool {
    let pending = |name: &str| {
        let signals = number_in::<String>(status, name).and_then(|signals| u64::from_str_radix(&signals, 16).ok());
        signals.unwrap_or(0) & 1 << (libc::SIGSTOP - 1) != 0
    };
    pending("SigPnd:") || pending("ShdPnd:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let mut line = b"7 (a) R (b c) T 1 7".to_vec();
        for field in 6..=52 {
            line.extend_from_slice(format!(" {field}").as_bytes());
        }
        let sample = Sample { state: b'T', ran: 14 + 15, started: 22, exit_code: 52, crash: None, is_signaled: false };
        assert_eq!(Sample::parse(&line), Some(sample));
        assert_eq!(Sample::parse(b"7 (short) T 1"), None);
        assert_eq!(Sample::parse(b""), None);
    }

    #[test]
    fn whom_a_signal_ends_is_told_from_whom_not() {
        for (flags, is_signaled) in [(0x40_0100, false), (0x40_0700, true), (0x40_0404, true)] {
            let mut line = format!("7 (rank) D 1 1 1 1 1 {flags}").into_bytes();
            line.extend_from_slice(&b" 0".repeat(43));
            assert_eq!(Sample::parse(&line).unwrap().is_signaled, is_signaled, "{flags:x}");
        }
        for (status, dumps) in [("CoreDumping:\t0\n", false), ("Threads:\t1\nCoreDumping:\t1\n", true), ("", false)] {
            assert_eq!(dumps_core(status.as_bytes()), dumps, "{status}");
        }
    }

    #[test]
    fn a_handler_that_is_for_once_is_that_of_a_crash() {
        let [segv, term, all] = [1 << 10, 1 << 14, u32::MAX >> 1];
        for (blocked, ignored, caught, signal) in [
            (segv, 0, 0, Some(libc::SIGSEGV)),
            (segv, 0, all & !segv, Some(libc::SIGSEGV)),
            (segv, 0, segv, None),
            (segv, segv, 0, None),
            (segv | term, 0, 0, None),
            (all, 0, 0, None),
            (0, 0, 0, None),
        ] {
            assert_eq!(crash(blocked, ignored, caught), signal, "{blocked:x} {ignored:x} {caught:x}");
        }
    }

    #[test]
    fn a_stop_is_seen_before_it_is_carried_out() {
        let with = |own: &str, shared: &str| format!("State:\tR (running)\nSigPnd:\t{own}\nShdPnd:\t{shared}\n");
        let (none, stop, others) = ("0000000000000000", "0000000000040000", "000000000002fbff");
        for (own, shared, is_about_to) in
            [(none, stop, true), (stop, none, true), (none, none, false), (others, others, false)]
        {
            assert_eq!(is_about_to_stop(with(own, shared).as_bytes()), is_about_to, "{own} {shared}");
        }
        assert!(!is_about_to_stop(b"State:\tR (running)\n"));
    }
}
