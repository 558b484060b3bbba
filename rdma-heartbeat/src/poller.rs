//! Waiting for descriptors and for a point in time.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use propagation::Time;

use crate::clock;

/// Most events taken at once; the others come with the next wait.
const BATCH: usize = 32;

/// What became readable, or hung up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The control socket.
    Control,
    /// The transport.
    Network,
    /// The process descriptor of the runtime daemon.
    Runtime,
    /// The process descriptor of the rank in a slot.
    Rank(u32),
    /// The waiting thread of [`crate::lifeline`].
    Lifelines,
    /// The socket on which status reports are asked for, or a connection to it.
    Status,
    /// The socket on which the history is asked for, or a connection to it.
    Feed,
    /// The other side of an offload.
    Offload,
    /// An answer of [`crate::inquiry`].
    Inquiry,
}

impl Token {
    fn encode(self) -> u64 {
        match self {
            Self::Control => 0,
            Self::Network => 1,
            Self::Runtime => 2,
            Self::Status => 3,
            Self::Lifelines => 4,
            Self::Feed => 5,
            Self::Offload => 6,
            Self::Inquiry => 7,
            Self::Rank(slot) => 1 << 32 | u64::from(slot),
        }
    }

    fn decode(code: u64) -> Self {
        match code {
            0 => Self::Control,
            1 => Self::Network,
            2 => Self::Runtime,
            3 => Self::Status,
            4 => Self::Lifelines,
            5 => Self::Feed,
            6 => Self::Offload,
            7 => Self::Inquiry,
            code => Self::Rank((code & u64::from(u32::MAX)) as u32),
        }
    }
}

/// An epoll set whose waits end more exactly than after whole milliseconds.
pub struct Poller {
    epoll: Epoll,
    /// Cleared on a kernel older than 5.11, which knows milliseconds only.
    exact: bool,
}

impl Poller {
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, exact: true })
    }

    /// Reports `token` whenever the descriptor is readable; ends when the descriptor is closed or removed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add(&self, descriptor: impl AsFd, token: Token) -> io::Result<()> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token.encode()))?)
    }

    /// No longer reports this descriptor.
    pub fn remove(&self, descriptor: impl AsFd) {
        let _ = self.epoll.delete(descriptor);
    }

    /// Waits until something happens, at most until `deadline`, and replaces the content of `ready`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&mut self, deadline: Time, ready: &mut Vec<Token>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let rest = deadline.saturating_sub(clock::now());
        let mut result = if self.exact { self.wait_exactly(&mut events, rest) } else { Err(Errno::ENOSYS) };
        if result == Err(Errno::ENOSYS) {
            self.exact = false;
            result = self.wait_roughly(&mut events, rest);
        }
        match result {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => ready.extend(events[..count].iter().map(|event| Token::decode(event.u64))),
        }
        Ok(())
    }

    fn wait_exactly(&self, events: &mut [libc::epoll_event; BATCH], rest: Time) -> Result<usize, Errno> {
        let seconds = libc::time_t::try_from(rest.as_secs()).unwrap_or(libc::time_t::MAX);
        let rest = libc::timespec { tv_sec: seconds, tv_nsec: libc::c_long::from(rest.subsec_nanos()) };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the array has room for BATCH events and, like the time, outlives the call; no signal mask is set.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH,
                &raw const rest,
                no_mask,
                0usize,
            )
        };
        Errno::result(result).map(|count| usize::try_from(count).unwrap_or(0))
    }

    fn wait_roughly(&self, events: &mut [libc::epoll_event; BATCH], rest: Time) -> Result<usize, Errno> {
        // Up, so that a wait does not end before its time again and again.
        let millis = i32::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: the array has room for BATCH events and outlives the call.
        let result = unsafe { libc::epoll_wait(self.epoll.0.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, millis) };
        Errno::result(result).map(|count| usize::try_from(count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let mut poller = Poller::new().unwrap();
        let mut ready = vec![Token::Control];
        for exact in [true, false] {
            poller.exact = exact;
            let deadline = clock::now() + Time::from_micros(2500);
            poller.wait(deadline, &mut ready).unwrap();
            assert_eq!(ready, []);
            assert!(clock::now() >= deadline);
            poller.wait(Time::ZERO, &mut ready).unwrap();
        }
    }

    #[test]
    fn what_is_readable_is_reported_until_it_is_removed() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(&reader, Token::Rank(7)).unwrap();
        drop(writer);
        for exact in [true, false] {
            poller.exact = exact;
            poller.wait(Time::MAX, &mut ready).unwrap();
            assert_eq!(ready, [Token::Rank(7)]);
        }
        poller.remove(&reader);
        poller.wait(Time::ZERO, &mut ready).unwrap();
        assert_eq!(ready, []);
    }

    #[test]
    fn tokens_survive_their_encoding() {
        for token in [
            Token::Control,
            Token::Network,
            Token::Runtime,
            Token::Rank(0),
            Token::Rank(u32::MAX),
            Token::Status,
            Token::Feed,
            Token::Offload,
            Token::Inquiry,
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
