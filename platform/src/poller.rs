//! Waiting for descriptors and for a point in time.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::clock;

/// Most events taken at once; the others come with the next wait.
const BATCH: usize = 32;

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

    /// Reports `token`, as a number, whenever the descriptor is readable; ends when the descriptor is closed or
    /// removed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add(&self, descriptor: impl AsFd, token: impl Into<u64>) -> io::Result<()> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token.into()))?)
    }

    /// No longer reports this descriptor.
    pub fn remove(&self, descriptor: impl AsFd) {
        let _ = self.epoll.delete(descriptor);
    }

    /// Waits until something happens, at most until `deadline`, and replaces the content of `ready`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait<T: From<u64>>(&mut self, deadline: Duration, ready: &mut Vec<T>) -> io::Result<()> {
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
            Ok(count) => ready.extend(events[..count].iter().map(|event| T::from(event.u64))),
        }
        Ok(())
    }

    fn wait_exactly(&self, events: &mut [libc::epoll_event; BATCH], rest: Duration) -> Result<usize, Errno> {
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

    fn wait_roughly(&self, events: &mut [libc::epoll_event; BATCH], rest: Duration) -> Result<usize, Errno> {
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
        let mut ready = vec![0_u64];
        for exact in [true, false] {
            poller.exact = exact;
            let deadline = clock::now() + Duration::from_micros(2500);
            poller.wait(deadline, &mut ready).unwrap();
            assert!(ready.is_empty());
            assert!(clock::now() >= deadline);
            poller.wait(Duration::ZERO, &mut ready).unwrap();
        }
    }

    #[test]
    fn what_is_readable_is_reported_until_it_is_removed() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut poller = Poller::new().unwrap();
        let mut ready: Vec<u64> = Vec::new();
        poller.add(&reader, 7_u64).unwrap();
        drop(writer);
        for exact in [true, false] {
            poller.exact = exact;
            poller.wait(Duration::MAX, &mut ready).unwrap();
            assert_eq!(ready, [7_u64]);
        }
        poller.remove(&reader);
        poller.wait(Duration::ZERO, &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
