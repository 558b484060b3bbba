//! The thread that tests and answers, and what the program asks.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::time::TimeSpec;
use platform::clock;
use propagation::Message;
use propagation::wire::{MAX_LEN, Opener, Sealer};
use recommended_group::test::Test;
use recommended_group::units::Rank;

use crate::addresses::Addresses;
use crate::packet::{self, Packet};
use crate::parameters::Parameters;
use crate::process::{Process, Work};
use crate::question::Question;
use crate::watcher::{Watcher, between_sights};

/// Most datagrams that are taken before tests are answered and time is looked at: more than a socket keeps, so that no
/// verdict is taken while news wait. A flood ends there.
const BATCH: usize = 65_536;
/// Longest wait: a deadline that the program's call has set is seen then.
const LONG: Duration = Duration::from_secs(1);

/// What all processes of a group have in common.
#[derive(Clone)]
pub struct Common {
    /// The parameters.
    pub parameters: Parameters,
    /// The number of the group, in each datagram.
    pub number: u64,
    /// The key of all datagrams.
    pub key: [u8; 32],
    /// All addresses of each process, by rank.
    pub addresses: Vec<Vec<SocketAddr>>,
}

/// How a wait for the next round stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It goes on.
    Waits,
    /// The next round has begun.
    Round,
    /// The program is complete at others.
    Ended,
    /// The thread has ended, which is a defect of this library.
    Broken,
}

/// The program's side. A clone is of the same process.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    socket: UdpSocket,
    question: Question,
    count: u32,
}

struct State {
    process: Process,
    sealer: Sealer,
    addresses: Addresses,
    buffer: Vec<u8>,
    watcher: Box<dyn Watcher>,
    sight_at: Duration,
    between_sights: Duration,
    is_broken: bool,
}

impl State {
    /// Sends what is to be sent. What has no room is lost, as in the network.
    fn flush(&mut self, socket: &UdpSocket, packets: Vec<(Rank, Packet)>) {
        for (to, packet) in packets {
            self.sealer.seal(to, 0, &Message::Group { word: packet::write(&packet) }, &mut self.buffer);
            for address in self.addresses.of(to) {
                let _ = socket.send_to(&self.buffer, address);
            }
        }
    }

    /// Tells whoever watches how this process sees the group, at once or when it is due.
    fn tell_sight(&mut self, is_due: bool) {
        let now = clock::now();
        if is_due || now >= self.sight_at {
            self.sight_at = now + self.between_sights;
            self.watcher.sight(&self.process.sight());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has the process do something, and sends what comes of it. Returns tests to answer.
    fn with(&self, act: impl FnOnce(&mut Process)) -> Work {
        let mut state = self.lock();
        let (waited, over) = (state.process.waits(), state.process.is_over());
        act(&mut state.process);
        let mut work = state.process.work();
        let packets = std::mem::take(&mut work.packets);
        state.flush(&self.socket, packets);
        state.watcher.changes(std::mem::take(&mut work.changes));
        if (waited, over) != (state.process.waits(), state.process.is_over()) {
            self.changed.notify_all();
        }
        if over != state.process.is_over() {
            state.tell_sight(true);
        }
        work
    }

    fn wait_for_datagrams(&self) {
        let deadline = self.lock().process.deadline();
        let rest = deadline.map_or(LONG, |deadline| deadline.saturating_sub(clock::now()));
        let mut waiting = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        // An error only ends the wait early.
        let _ = ppoll(&mut waiting, Some(TimeSpec::from_duration(rest.min(LONG))), None);
    }

    /// Takes what has come, then lets time pass, then answers tests: a tester that was slow has its replies first.
    fn step(&self, opener: &mut Opener, buffer: &mut [u8]) {
        let mut tests = Vec::new();
        for _ in 0..BATCH {
            let Ok((length, address)) = self.socket.recv_from(buffer) else { break };
            let Ok((from, Message::Group { word })) = opener.open(&buffer[..length]) else { continue };
            let Some(packet) = packet::read(&word, self.count) else { continue };
            self.lock().addresses.heard(from, address);
            for test in self.with(|process| process.receive(clock::now(), from, packet)).tests {
                tests.retain(|(tester, _)| *tester != test.0);
                tests.push(test);
            }
        }
        self.with(|process| process.timer(clock::now()));
        self.lock().tell_sight(false);
        for (to, asked) in tests {
            let answer = self.question.answer(asked.question);
            self.with(|process| process.answered(to, asked, answer));
        }
    }
}

/// Says that the thread has ended, whatever ended it.
struct Breaks<'a>(&'a Shared);

impl Drop for Breaks<'_> {
    fn drop(&mut self) {
        self.0.lock().is_broken = true;
        self.0.changed.notify_all();
    }
}

impl Client {
    /// Starts the thread of process `me`. It goes on as long as the process lives: whoever has not heard of the end
    /// asks it.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(
        me: Rank,
        common: Common,
        question: Question,
        socket: UdpSocket,
        watcher: Box<dyn Watcher>,
    ) -> io::Result<Self> {
        let count = u32::try_from(common.addresses.len()).unwrap_or(u32::MAX);
        let config = common.parameters.config(me, count);
        let process = Process::new(config, question.clone(), clock::now());
        let state = State {
            process,
            sealer: Sealer::new(common.number, common.key, me, 0),
            addresses: Addresses::new(common.addresses),
            buffer: Vec::new(),
            watcher,
            sight_at: Duration::ZERO,
            between_sights: between_sights(config.interval, count),
            is_broken: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), socket, question, count });
        let mut opener = Opener::new(common.number, common.key, me, 0);
        let for_thread = shared.clone();
        let run = move || {
            let _breaks = Breaks(&for_thread);
            let mut buffer = vec![0; MAX_LEN + 1];
            loop {
                for_thread.wait_for_datagrams();
                for_thread.step(&mut opener, &mut buffer);
            }
        };
        // Signals are for the program's own threads.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = std::thread::Builder::new().name("rw-group".into()).spawn(run);
        mask.thread_set_mask()?;
        started?;
        Ok(Self { shared })
    }

    /// Has the process do something.
    pub fn with<R>(&self, act: impl FnOnce(&mut Process) -> R) -> R {
        let mut result = None;
        // Only datagrams bring tests.
        let _ = self.shared.with(|process| result = Some(act(process)));
        result.expect("it was called")
    }

    /// Waits for the next round, at most so long, after [`Process::arrive`].
    #[must_use]
    pub fn wait(&self, most: Duration) -> Waited {
        let is_open = |state: &mut State| state.process.waits() && !state.is_broken;
        let waiting = self.shared.changed.wait_timeout_while(self.shared.lock(), most, is_open);
        let state = waiting.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        match (state.process.has_ended(), state.process.waits()) {
            (true, _) => Waited::Ended,
            (false, false) => Waited::Round,
            (false, true) if state.is_broken => Waited::Broken,
            (false, true) => Waited::Waits,
        }
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
