//! Asking about processes away from the daemon's loop.
//!
//! Who a process is stands in its own memory, and whoever reads there waits for it: for its page that is swapped out, or
//! for the lock of its memory, which it holds while it forks, or maps a file of a server that does not answer. A daemon
//! that waits with it is silent, and is declared dead. So everything that is asked is asked by a thread of its own, which
//! ends with it, and nobody waits but those who are asked about together.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::eventfd::{EfdFlags, EventFd};
use tracing::warn;

/// Enough to read an environment, which lies on the heap. All of it counts, because the daemon's memory is locked.
const STACK: usize = 64 << 10;

/// Questions under way, and answers that nobody has collected.
pub struct Inquiries<A> {
    bell: Arc<EventFd>,
    post: Sender<A>,
    answers: Receiver<A>,
    open: usize,
}

impl<A: Send + 'static> Inquiries<A> {
    /// With nothing asked yet.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (post, answers) = channel();
        Ok(Self { bell: Arc::new(bell), post, answers, open: 0 })
    }

    /// Asks. False if the system has no thread left: nothing is asked then.
    pub fn ask(&mut self, question: impl FnOnce() -> A + Send + 'static) -> bool {
        let (post, bell) = (self.post.clone(), Arc::clone(&self.bell));
        let work = move || {
            // Both fail only if nobody is there any more who would want to know.
            let _ = post.send(question());
            let _ = bell.write(1);
        };
        let started = std::thread::Builder::new().name("inquiry".into()).stack_size(STACK).spawn(work);
        self.open += usize::from(started.is_ok());
        started.map_err(|error| warn!(%error, "no thread can be started to look at the ranks; trying again")).is_ok()
    }

    /// The next answer, if there is one.
    pub fn collect(&mut self) -> Option<A> {
        if self.open == 0 {
            return None;
        }
        let answer = self.answers.try_recv().ok()?;
        self.open -= 1;
        Some(answer)
    }

    /// How many questions have not been answered, or whose answers nobody has collected.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Readable when there are answers, until [`Inquiries::clear`].
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Makes the descriptor unreadable until the next answer.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads eight bytes from a descriptor into a variable of that size.
        unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn is_readable(inquiries: &Inquiries<u32>, timeout: PollTimeout) -> bool {
        let mut waiting = [PollFd::new(inquiries.descriptor(), PollFlags::POLLIN)];
        poll(&mut waiting, timeout).unwrap() == 1
    }

    #[test]
    fn who_asks_waits_for_nobody_and_is_woken_by_the_answer() {
        let mut inquiries = Inquiries::new().unwrap();
        let slow = Arc::new(Barrier::new(2));
        let waits = Arc::clone(&slow);
        assert!(inquiries.ask(move || {
            waits.wait();
            1
        }));
        assert!(inquiries.ask(|| 2));
        assert!(is_readable(&inquiries, PollTimeout::from(10_000u16)));
        inquiries.clear();
        assert_eq!((inquiries.collect(), inquiries.collect(), inquiries.open()), (Some(2), None, 1));
        assert!(!is_readable(&inquiries, PollTimeout::ZERO));
        slow.wait();
        assert!(is_readable(&inquiries, PollTimeout::from(10_000u16)));
        assert_eq!((inquiries.collect(), inquiries.open()), (Some(1), 0));
    }
}
