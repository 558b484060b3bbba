//! Holds a process while it is watched: if its process id is reused, a [`Pin`] still refers to the first process.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use crate::procfs::{Sample, dumps_core, is_about_to_stop, number_in, state, stops};

/// Largest number of wrapper processes between a runtime daemon and a rank.
const MOST_ANCESTORS: usize = 32;

/// Longer than nearly every file of the kernel about a process, in bytes.
const USUAL: usize = 4096;

/// Why a process cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no such process, or no longer.
    #[error("there is no such process")]
    Gone,
    /// The process belongs to another user.
    #[error("the process belongs to user {0}")]
    Foreign(u32),
    /// The operating system refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for PinError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ENOENT | Errno::ESRCH => Self::Gone,
            other => Self::System(other.into()),
        }
    }
}

/// What has become of a process, as far as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has exited.
    Exited {
        /// The exit status.
        status: i32,
    },
    /// A signal has ended it.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// It is stopped.
    Stopped,
    /// A signal is ending it, and the kernel still writes its core.
    DumpsCore {
        /// The number of the signal, 0 if the kernel does not say.
        signal: i32,
    },
    /// It has ended, and nothing shows how.
    Unseen,
}

/// When the process that has this number now started, in clock ticks since the node did: with its number what names it
/// for good. `None` if there is no such process.
#[must_use]
pub fn started(pid: i32) -> Option<u64> {
    Some(read_sample(&File::open(format!("/proc/{pid}/stat")).ok()?)?.started)
}

/// A process of this user, held by descriptors that stay bound to it when its number is given to another.
#[derive(Debug)]
pub struct Pin {
    pid: i32,
    pidfd: OwnedFd,
    directory: OwnedFd,
    stat: File,
    /// The status of a thread that lived on when the first one had left.
    other: RefCell<Option<File>>,
}

impl Pin {
    /// Pins the process that has this number now, if it belongs to the caller's user.
    ///
    /// # Errors
    /// If there is none, it belongs to another user, or the system refuses.
    pub fn take(pid: i32) -> Result<Self, PinError> {
        if pid <= 0 {
            return Err(PinError::Gone);
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let directory = open(format!("/proc/{pid}").as_str(), flags, Mode::empty())?;
        let stat = File::from(openat(&directory, "stat", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?);
        let before = read_sample(&stat).ok_or(PinError::Gone)?;
        let pidfd = pidfd_open(pid)?;
        let pin = Self { pid, pidfd, directory, stat, other: RefCell::new(None) };
        // The stat file is bound to the process that had the number at first. If it can still be read, the number was
        // not free in between, and the process descriptor means the same process.
        if pin.sample().is_none_or(|after| after.started != before.started) {
            return Err(PinError::Gone);
        }
        match pin.status().and_then(|status| number_in(&status, "Uid:")) {
            Some(uid) if uid == nix::unistd::getuid().as_raw() => Ok(pin),
            Some(uid) => Err(PinError::Foreign(uid)),
            None => Err(PinError::Gone),
        }
    }

    /// What can be asked for the environment of this process, however long it takes.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn environment(&self) -> io::Result<Environment> {
        Ok(Environment(self.directory.try_clone()?))
    }

    /// Whether this process was started by another one, or by one that was, and so on.
    #[must_use]
    pub fn descends_from(&self, ancestor: i32) -> bool {
        let parent = |status: Text| number_in::<i32>(&status, "PPid:");
        let first = self.status().and_then(parent);
        let above = |pid: &i32| {
            let status = Text::of(&File::open(format!("/proc/{pid}/status")).ok()?)?;
            parent(status).filter(|pid| *pid > 1)
        };
        std::iter::successors(first, above).take(MOST_ANCESTORS).any(|pid| pid == ancestor)
    }

    /// The number of the process, for people.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// State of the process; `None` once its parent has collected it.
    #[must_use]
    pub fn sample(&self) -> Option<Sample> {
        read_sample(&self.stat)
    }

    /// If the process is stopped and not traced: the number of its context switches so far, which grows with every
    /// further stop.
    #[must_use]
    pub fn stopped(&self) -> Option<u64> {
        self.stopped_in(self.sample()?)
    }

    /// If the process of this sample is stopped, or sleeps in its handler of a crash: which of them, and how much it
    /// has done so far, which is more whenever it has gone on.
    #[must_use]
    pub fn halted(&self, sample: Sample) -> Option<(Fate, u64)> {
        let crash = sample.crash.filter(|_| sample.state == b'S').map(|signal| (Fate::Signaled { signal }, sample.ran));
        self.stopped_in(sample).map(|switches| (Fate::Stopped, switches)).or(crash)
    }

    /// If the kernel is writing the core of the process of this sample: what ended it, as far as the kernel says before
    /// the core is complete (Linux 5.17). Until then its threads wait: its locks have no mark, its connections are
    /// open, and nothing else shows that it never comes back. More than the sample is read only of a process that is
    /// ending.
    #[must_use]
    pub fn dumping(&self, sample: Sample) -> Option<Fate> {
        let dumps = sample.is_signaled && self.status().is_some_and(|status| dumps_core(&status));
        dumps.then(|| match self.fate() {
            Some(Fate::Signaled { signal }) => Fate::DumpsCore { signal },
            _ => Fate::DumpsCore { signal: 0 },
        })
    }

    fn stopped_in(&self, sample: Sample) -> Option<u64> {
        let status = match sample.state {
            b'T' => self.status()?,
            // The first thread has left, and shows nothing any more: a stop is seen in the others, which it all stops.
            b'Z' => self.status_of_another_thread()?,
            _ => return None,
        };
        stops(&status)
    }

    /// Whether the process cannot run for a reason other than a stop signal: a debugger holds it, or it waits for slow
    /// I/O.
    #[must_use]
    pub fn cannot_run(&self) -> bool {
        match self.sample().map(|sample| sample.state) {
            Some(b't' | b'D') => true,
            Some(b'T') => self.stopped().is_none(),
            _ => false,
        }
    }

    /// Whether the process has ended, collected or not.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut waiting = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut waiting, PollTimeout::ZERO), Ok(1..))
    }

    /// How the process is ending, if all of it is: from the moment the kernel has decided so. Not told apart from
    /// living on is a process that ends with status 0.
    #[must_use]
    pub fn fate(&self) -> Option<Fate> {
        let sample = self.sample()?;
        // Of a stopped process the field is the signal that stopped it, also where its first thread has left (state Z).
        let ends = !matches!(sample.exit_code, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let decided = sample.exit_code != 0 && ends && !matches!(sample.state, b'T' | b't');
        decided.then(|| reason_of(sample.exit_code))
    }

    /// How the process ended, as far as it can still be seen: only until its parent collects it.
    #[must_use]
    pub fn end_reason(&self) -> Fate {
        match self.sample() {
            Some(sample) if matches!(sample.state, b'Z' | b'X') => reason_of(sample.exit_code),
            _ => Fate::Unseen,
        }
    }

    /// Kills exactly this process.
    ///
    /// # Errors
    /// If the system refuses; that the process has ended already is no error.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)
    }

    /// Stops this process until [`Pin::go_on`]; one that has ended or may not be stopped is unchanged. Returns false
    /// for a process that another party has stopped already, which must remain stopped.
    pub fn stop(&self) -> bool {
        let is_about_to = || self.status().is_some_and(|status| is_about_to_stop(&status));
        let runs = self.stopped().is_none() && !is_about_to();
        if runs {
            let _ = self.signal(libc::SIGSTOP);
        }
        runs
    }

    /// Has this process continue after [`Pin::stop`].
    pub fn go_on(&self) {
        let _ = self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        send(self.pidfd.as_fd(), signal)
    }

    /// The text of `/proc/<pid>/status`.
    fn status(&self) -> Option<Text> {
        Text::of(&self.open("status")?)
    }

    /// The same of a thread that has not left, when the first one has.
    fn status_of_another_thread(&self) -> Option<Text> {
        let living = |file: &File| Text::of(file).filter(|status| !matches!(state(status), Some(b'Z' | b'X')));
        let mut other = self.other.borrow_mut();
        if let Some(status) = other.as_ref().and_then(living) {
            return Some(status);
        }
        let threads = format!("/proc/self/fd/{}/task", self.directory.as_raw_fd());
        let names = std::fs::read_dir(threads).ok()?.flatten().map(|entry| entry.file_name());
        let others = names.filter_map(|name| name.into_string().ok()).filter(|name| *name != self.pid.to_string());
        let mut files = others.filter_map(|thread| self.open(&format!("task/{thread}/status")));
        let (file, status) = files.find_map(|file| living(&file).map(|status| (file, status)))?;
        *other = Some(file);
        Some(status)
    }

    fn open(&self, name: &str) -> Option<File> {
        open_in(&self.directory, name)
    }
}

/// A process that the caller has started. Unlike a [`Pin`] it needs nothing to be seen of it in `/proc`.
#[derive(Debug)]
pub struct Started(OwnedFd);

impl Started {
    /// The child that has this number.
    ///
    /// # Errors
    /// `ESRCH` if another part of this process has waited for it, also if its process id is reused; or the error of the
    /// system.
    pub fn take(pid: u32) -> io::Result<Self> {
        let pidfd = pidfd_open(i32::try_from(pid).map_err(|_| Errno::ESRCH)?)?;
        // Leaves the status for the code that waits for it.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::PIDFd(pidfd.as_fd()), flags) {
            Err(Errno::ECHILD) => Err(Errno::ESRCH.into()),
            _ => Ok(Self(pidfd)),
        }
    }

    /// The same process.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Kills it; one that has ended stays so.
    pub fn kill(&self) {
        let _ = send(self.0.as_fd(), libc::SIGKILL);
    }
}

impl AsFd for Started {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn send(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let null = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the call takes a descriptor that lives, a signal number, no siginfo and no flags.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, null, 0) };
    match Errno::result(result) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The way to the environment of a process.
#[derive(Debug)]
pub struct Environment(OwnedFd);

impl Environment {
    /// What the process had for an environment when it started; nothing if it cannot be read. May wait for the process:
    /// see [`crate::inquiry`].
    #[must_use]
    pub fn read(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let read = open_in(&self.0, "environ").and_then(|mut file| file.read_to_end(&mut text).ok());
        if read.is_some() { text } else { Vec::new() }
    }
}

fn open_in(directory: &OwnedFd, name: &str) -> Option<File> {
    openat(directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok().map(File::from)
}

/// What a file of the kernel says, read without asking for memory unless it is longer than usual, as is the status of a
/// user of hundreds of groups.
struct Text {
    usual: [u8; USUAL],
    length: usize,
    long: Vec<u8>,
}

impl Text {
    fn of(file: &File) -> Option<Self> {
        let mut text = Self { usual: [0; USUAL], length: 0, long: Vec::new() };
        text.length = file.read_at(&mut text.usual, 0).ok()?;
        let mut last = text.length;
        while last == USUAL {
            text.long.extend_from_slice(&text.usual);
            last = file.read_at(&mut text.usual, text.long.len() as u64).ok()?;
        }
        if !text.long.is_empty() {
            text.long.extend_from_slice(&text.usual[..last]);
        }
        Some(text)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.long.is_empty() { &self.usual[..self.length] } else { &self.long }
    }
}

impl AsFd for Pin {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn reason_of(exit_code: i32) -> Fate {
    match exit_code & 0x7f {
        0 => Fate::Exited { status: (exit_code >> 8) & 0xff },
        signal => Fate::Signaled { signal },
    }
}

fn read_sample(stat: &File) -> Option<Sample> {
    Sample::parse(&Text::of(stat)?)
}

fn pidfd_open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes two integers and returns a new descriptor or an error.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = Errno::result(result)?;
    let descriptor = i32::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;
    use crate::testing::{Dumper, sleeper, wait_until};

    #[test]
    fn a_process_whose_name_is_no_text_is_pinned_and_its_stop_is_seen() {
        use std::os::unix::ffi::OsStrExt;
        // Of longer names the kernel keeps 15 bytes, the last of which may be half a letter.
        let name = [std::process::id().to_string().as_bytes(), b"-fl\xc3"].concat();
        let path = std::env::temp_dir().join(std::ffi::OsStr::from_bytes(&name));
        std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
        let mut child = std::process::Command::new(&path).arg("60").spawn().unwrap();
        let pin = Pin::take(child.id() as i32).unwrap();
        pin.stop();
        wait_until(|| pin.stopped().is_some());
        std::fs::remove_file(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_killed_process_is_seen_with_its_signal_until_it_is_collected() {
        let mut child = sleeper();
        let pin = Pin::take(child.id() as i32).unwrap();
        assert!(!pin.has_ended());
        pin.kill().unwrap();
        wait_until(|| pin.has_ended());
        assert_eq!(pin.end_reason(), Fate::Signaled { signal: libc::SIGKILL });
        child.wait().unwrap();
        assert_eq!((pin.sample(), pin.end_reason()), (None, Fate::Unseen));
        pin.kill().unwrap();
    }

    #[test]
    fn a_stopped_process_is_stopped() {
        let mut child = sleeper();
        let pin = Pin::take(child.id() as i32).unwrap();
        assert_eq!(pin.stopped(), None);
        let pid = Pid::from_raw(pin.pid());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        wait_until(|| pin.stopped().is_some());
        let first = pin.stopped();
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
        wait_until(|| pin.stopped().is_none());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        wait_until(|| pin.stopped().is_some());
        assert!(pin.stopped() > first, "another stop is told from the same one");
        pin.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(pin.stopped(), None);
    }

    /// A process whose first thread has left, and which lives on in another.
    fn without_its_first_thread() -> Pid {
        // SAFETY: the child makes one thread, which calls nothing but the kernel, and leaves.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Parent { child } => child,
            nix::unistd::ForkResult::Child => {
                std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
                // SAFETY: ends the calling thread only, and comes back never.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
                unreachable!("the thread has ended")
            }
        }
    }

    #[test]
    fn a_process_without_its_first_thread_lives_and_is_stopped_like_any_other() {
        let pid = without_its_first_thread();
        let pin = Pin::take(pid.as_raw()).unwrap();
        wait_until(|| pin.sample().is_some_and(|sample| sample.state == b'Z'));
        assert_eq!((pin.has_ended(), pin.fate(), pin.stopped()), (false, None, None));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        wait_until(|| pin.stopped().is_some());
        assert_eq!(pin.fate(), None, "a stop is no death");
        pin.kill().unwrap();
        wait_until(|| pin.has_ended());
        assert_eq!((pin.end_reason(), pin.stopped()), (Fate::Signaled { signal: 9 }, None));
        nix::sys::wait::waitpid(pid, None).unwrap();
    }

    #[test]
    fn a_file_is_read_to_its_end_however_long_it_is() {
        for length in [0, 1, USUAL - 1, USUAL, USUAL + 1, 3 * USUAL, 3 * USUAL + 7] {
            let file = File::from(nix::sys::memfd::memfd_create(c"text", nix::sys::memfd::MFdFlags::empty()).unwrap());
            let text: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            file.write_all_at(&text, 0).unwrap();
            assert_eq!(*Text::of(&file).unwrap(), text);
        }
    }

    /// A process that waits for its end and has this number, if it was free.
    fn child_numbered(pid: i32) -> Option<Pid> {
        // SAFETY: all fields may be zero. Without a stack and flags of its own the child is one as of fork.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        (arguments.exit_signal, arguments.set_tid_size) = (libc::SIGCHLD as u64, 1);
        arguments.set_tid = (&raw const pid) as u64;
        // SAFETY: the structure is as long as is said, and the number in it outlives the call.
        let made = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) };
        if made == 0 {
            loop {
                // SAFETY: the child calls nothing but the kernel.
                unsafe { libc::pause() };
            }
        }
        (made == i64::from(pid)).then_some(Pid::from_raw(pid))
    }

    #[test]
    fn who_gets_the_number_of_a_process_that_has_ended_is_not_killed_in_its_place() {
        let mut child = sleeper();
        let pid = child.id() as i32;
        let pin = Pin::take(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(newcomer) = child_numbered(pid) else {
            eprintln!("skipped: without the rights of root nobody can choose the number of a process");
            return;
        };
        assert_eq!(newcomer.as_raw(), pin.pid());
        pin.kill().unwrap();
        pin.stop();
        assert_eq!((pin.has_ended(), pin.sample(), pin.stopped()), (true, None, None));
        let its = Pin::take(pid).unwrap();
        assert!(its.sample().is_some_and(|sample| !matches!(sample.state, b'Z' | b'X' | b'T')), "it lives");
        its.kill().unwrap();
        let end = nix::sys::wait::waitpid(newcomer, None).unwrap();
        assert_eq!(end, nix::sys::wait::WaitStatus::Signaled(newcomer, nix::sys::signal::Signal::SIGKILL, false));
    }

    #[test]
    fn who_was_started_is_taken_until_it_has_been_waited_for_and_nobody_else_is() {
        let mut child = sleeper();
        let started = Started::take(child.id()).unwrap();
        started.kill();
        let pin = Pin::take(child.id() as i32).unwrap();
        wait_until(|| pin.has_ended());
        assert!(Started::take(child.id()).is_ok(), "nobody has waited for it");
        child.wait().unwrap();
        for pid in [child.id(), 1, std::process::id(), u32::MAX] {
            assert_eq!(Started::take(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH), "{pid}");
        }
    }

    #[test]
    fn a_process_of_another_user_is_not_pinned() {
        use std::os::unix::process::CommandExt;
        const NOBODY: u32 = 65534;
        let Ok(mut child) = std::process::Command::new("sleep").arg("60").uid(NOBODY).spawn() else {
            eprintln!("skipped: this user cannot become another");
            return;
        };
        let pid = child.id() as i32;
        assert!(matches!(Pin::take(pid), Err(PinError::Foreign(NOBODY))));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nobody_is_pinned_by_a_number_that_nobody_has() {
        assert!(matches!(Pin::take(0), Err(PinError::Gone)));
        assert!(matches!(Pin::take(-1), Err(PinError::Gone)));
        assert!(matches!(Pin::take(i32::MAX), Err(PinError::Gone)));
    }

    #[test]
    fn whose_core_is_being_written_is_seen_whichever_thread_has_crashed() {
        for thread in [false, true] {
            let Some(dumper) = Dumper::start(thread) else { return };
            let pin = Pin::take(dumper.pid()).unwrap();
            assert_eq!(pin.sample().and_then(|sample| pin.dumping(sample)), None);
            dumper.crash();
            let reason = Fate::DumpsCore { signal: libc::SIGABRT };
            wait_until(|| pin.sample().and_then(|sample| pin.dumping(sample)) == Some(reason));
            pin.stop();
            assert!(!pin.has_ended() && pin.stopped().is_none(), "it can neither run nor be stopped");
            pin.kill().unwrap();
            wait_until(|| pin.has_ended());
            assert_eq!(pin.sample().and_then(|sample| pin.dumping(sample)), None);
        }
    }

    #[test]
    fn only_a_process_that_is_dying_has_a_fate() {
        let mut child = sleeper();
        let pid = Pid::from_raw(child.id() as i32);
        let pin = Pin::take(pid.as_raw()).unwrap();
        assert_eq!(pin.fate(), None);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        wait_until(|| pin.stopped().is_some());
        assert_eq!(pin.fate(), None);
        child.kill().unwrap();
        wait_until(|| pin.fate() == Some(Fate::Signaled { signal: 9 }));
        child.wait().unwrap();
        assert_eq!(pin.fate(), None);
    }
}
