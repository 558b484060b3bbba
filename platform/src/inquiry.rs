//! Answers questions that may block, above all the identity of a process, in a thread outside the daemon's loop.
//!
//! The identity of a process is in its own memory, and a reader waits for that memory: for a page that is swapped out,
//! or for its memory lock, which the process holds while it forks or maps a file of a server that does not answer. A
//! daemon that waits with it is silent, and is declared dead. The thread exists from the start, because its stack is
//! then locked in memory with the rest of the daemon, and because a new thread might be refused later.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::bell::Bell;

/// Enough to read an environment, which lies on the heap. All of it counts, because the daemon's memory is locked.
pub const STACK: usize = 64 << 10;

/// A thread that answers one question after the other.
pub struct Inquiries<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<A>,
    open: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Inquiries<Q, A> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none left.
    pub fn start(bell: &Bell, answer: impl Fn(Q) -> A + Send + 'static) -> io::Result<Self> {
        let ((questions, asked), (post, answers), bell) = (channel(), channel(), bell.clone());
        let work = move || {
            for question in asked {
                if post.send(answer(question)).is_err() {
                    return;
                }
                bell.ring();
            }
        };
        std::thread::Builder::new().name("inquiry".into()).stack_size(STACK).spawn(work)?;
        Ok(Self { questions, answers, open: 0 })
    }

    /// Asks.
    pub fn ask(&mut self, question: Q) {
        // The thread ends with this value only.
        self.open += usize::from(self.questions.send(question).is_ok());
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

    /// Number of questions without an answer, or with an answer that is not collected.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::{Arc, Barrier};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn is_rung(bell: &Bell, timeout: PollTimeout) -> bool {
        poll(&mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)], timeout).unwrap() == 1
    }

    #[test]
    fn who_asks_waits_for_nobody_and_is_woken_by_the_answer() {
        let (bell, slow) = (Bell::new().unwrap(), Arc::new(Barrier::new(2)));
        let mut stuck = Inquiries::start(&bell, |barrier: Arc<Barrier>| barrier.wait().is_leader()).unwrap();
        let mut quick = Inquiries::start(&bell, |number: u32| number + 1).unwrap();
        stuck.ask(Arc::clone(&slow));
        quick.ask(1);
        assert!(is_rung(&bell, PollTimeout::from(10_000u16)));
        bell.clear();
        assert_eq!((quick.collect(), quick.collect(), quick.open()), (Some(2), None, 0));
        assert_eq!((stuck.collect(), stuck.open(), is_rung(&bell, PollTimeout::ZERO)), (None, 1, false));
        slow.wait();
        assert!(is_rung(&bell, PollTimeout::from(10_000u16)));
        assert!(stuck.collect().is_some() && stuck.open() == 0);
    }
}
