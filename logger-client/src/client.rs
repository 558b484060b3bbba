//! What a rank calls. [`Client::take`] comes first.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use event_log::determinant::{Determinant, DeterminantId, Rank};
use event_log::logger::round::Position;
use node_abi::event_loggers::{FromLogger, LOGGER_VARIABLE, MOST_IN_A_PACKET, ToLogger, Writer};
use platform::clock;

use crate::connection::{Connection, Received};

/// How long a wait lets the program's progress be.
const PAUSE: Duration = Duration::from_micros(200);
/// How soon a logger that is gone is called again.
const CALL_AGAIN: Duration = Duration::from_millis(5);
/// How often a logger may hang up without a word: one that is started again does not do that twice.
const MOST_REFUSALS: u32 = 50;

/// Why a rank's determinants do not become stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It must stop.
    #[error("another process has taken this rank over")]
    Deposed,
    /// The checkpoint with which the rank was taken over is not its newest.
    #[error("determinants up to {0} were removed after a newer checkpoint: start from that one")]
    NewerCheckpoint(DeterminantId),
    /// Until [`Client::trim`].
    #[error("the event loggers have no room: write a checkpoint and trim what it has")]
    Full,
    /// For good.
    #[error("{living} of this rank's event loggers live, and {needed} are needed")]
    TooFew {
        /// How many live.
        living: u32,
        /// How many it takes.
        needed: u32,
    },
    /// For good.
    #[error("the event logger of this node does not serve this process, which is no rank of it")]
    TurnedAway,
    /// The ids that were saved are not consecutive.
    #[error("the next determinant to save has id {expected}, not {found}: save them in order")]
    OutOfOrder {
        /// The next id.
        expected: DeterminantId,
        /// The id that was given.
        found: DeterminantId,
    },
}

/// What a process finds that takes a rank over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The determinants after the checkpoint, in order.
    pub determinants: Vec<Determinant>,
    /// How many bytes of standard output the processes before have written, as far as they had said.
    pub output: u64,
}

/// A rank's side.
pub struct Client {
    name: String,
    connection: Option<Connection>,
    call_again_at: Duration,
    /// How often the logger has hung up since it last said something.
    refusals: u32,
    buffer: Vec<u8>,
    writer: Writer,
    phase: Phase,
    /// The answer to the last take, as far as it has come.
    coming: Taken,
    /// What is not stable, and how much of it this connection was given.
    waiting: VecDeque<Determinant>,
    given: usize,
    stable: Position,
    output: u64,
    stable_output: u64,
    /// The output that this connection was given.
    given_output: u64,
    trims: Option<DeterminantId>,
    /// How many events are left to repeat, if this is a replacement, and what this connection was told of that.
    to_repeat: Option<u64>,
    told_to_repeat: Option<u64>,
    /// Bytes of the sender log, and their limit.
    keeps: Option<(u64, u64)>,
    told_keeps: Option<(u64, u64)>,
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody has called [`Client::take`].
    Idle,
    /// The logger has not answered to a take of this process. Whether it is the first.
    Taking {
        is_first: bool,
    },
    Saving,
    Ended(Error),
}

impl Client {
    /// Connects to the logger of this node, whose name is in the environment.
    ///
    /// # Errors
    /// If the job has no event loggers, or the one of this node cannot be reached.
    pub fn connect() -> io::Result<Self> {
        let name = std::env::var(LOGGER_VARIABLE).map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, "the job has no event loggers: set psensor_ringwatch_event_loggers")
        })?;
        Self::connect_to(&name)
    }

    /// Connects to the logger with a socket of this name.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn connect_to(name: &str) -> io::Result<Self> {
        let connection = Connection::open(name)?;
        Ok(Self {
            name: name.to_owned(),
            connection: Some(connection),
            call_again_at: Duration::ZERO,
            refusals: 0,
            buffer: Vec::new(),
            writer: Writer { rank: 0, incarnation: 0, attempt: 0 },
            phase: Phase::Idle,
            coming: Taken::default(),
            waiting: VecDeque::new(),
            given: 0,
            stable: Position::START,
            output: 0,
            stable_output: 0,
            given_output: 0,
            trims: None,
            to_repeat: None,
            told_to_repeat: None,
            keeps: None,
            told_keeps: None,
            is_full: false,
        })
    }

    /// Makes this process the writer of a rank, once. The first process of a rank has incarnation 0, each replacement a
    /// higher one than all before it, whose determinants it gets: those after its checkpoint, which ends at `after`
    /// ([`Position::START`] without one). Earlier processes can save nothing any more. `progress` is called while it
    /// waits.
    ///
    /// # Errors
    /// If a later process has the rank, or there is a newer checkpoint, or too few loggers live.
    pub fn take(
        &mut self,
        rank: Rank,
        incarnation: u16,
        after: Position,
        mut progress: impl FnMut(),
    ) -> Result<Taken, Error> {
        self.writer = Writer { rank, incarnation, attempt: self.writer.attempt };
        (self.stable, self.phase) = (after, Phase::Taking { is_first: true });
        self.begin();
        self.wait(&mut progress, |client| client.phase == Phase::Saving)?;
        Ok(std::mem::take(&mut self.coming))
    }

    /// Hands determinants over. Does not wait.
    ///
    /// # Errors
    /// If the ids are not the next ones, or an error of before stays.
    pub fn save(&mut self, determinants: &[Determinant]) -> Result<(), Error> {
        for determinant in determinants {
            let expected = self.stable.id + self.waiting.len() as u64 + 1;
            if determinant.id != expected {
                return Err(Error::OutOfOrder { expected, found: determinant.id });
            }
            self.waiting.push_back(*determinant);
        }
        self.give();
        self.check()
    }

    /// So many bytes of standard output have been written since the rank's beginning. Does not wait.
    pub fn output(&mut self, bytes: u64) {
        self.output = self.output.max(bytes);
        self.give();
    }

    /// Removes all determinants up to this one, once a checkpoint that has them is durable. Does not wait.
    pub fn trim(&mut self, up_to: DeterminantId) {
        self.trims = Some(up_to);
        self.is_full = false;
        self.give();
    }

    /// So many events of the processes before are left for this replacement to repeat. Does not wait.
    pub fn to_repeat(&mut self, events: u64) {
        self.to_repeat = Some(events);
        self.give();
    }

    /// The sender log takes so many bytes of at most `limit`. Does not wait.
    pub fn keeps(&mut self, bytes: u64, limit: u64) {
        self.keeps = Some((bytes, limit));
        self.give();
    }

    /// The last stable determinant. Does not wait.
    pub fn stable(&mut self) -> DeterminantId {
        self.look();
        self.stable.id
    }

    /// The same, as a checkpoint keeps it.
    #[must_use]
    pub fn position(&self) -> Position {
        self.stable
    }

    /// The last stable count of output. Does not wait.
    pub fn stable_output(&mut self) -> u64 {
        self.look();
        self.stable_output
    }

    /// Waits until all determinants up to this one are stable. `progress` is called meanwhile.
    ///
    /// # Errors
    /// If they cannot become so.
    pub fn wait_stable(&mut self, id: DeterminantId, mut progress: impl FnMut()) -> Result<(), Error> {
        self.wait(&mut progress, |client| client.stable.id >= id)
    }

    /// Waits for the logger's next word, for so short a time that the caller can look after everything else in between.
    pub fn rest(&self) {
        match &self.connection {
            Some(connection) => connection.wait(PAUSE),
            None => std::thread::sleep(PAUSE),
        }
    }

    /// Waits until the last count of output is stable.
    ///
    /// # Errors
    /// If it cannot become so.
    pub fn wait_output(&mut self, mut progress: impl FnMut()) -> Result<(), Error> {
        self.wait(&mut progress, |client| client.stable_output >= client.output)
    }

    fn wait(&mut self, progress: &mut impl FnMut(), is_done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        loop {
            self.look();
            if is_done(self) {
                return Ok(());
            }
            self.check()?;
            progress();
            self.rest();
        }
    }

    fn check(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Ended(error) => Err(error),
            _ if self.is_full => Err(Error::Full),
            _ => Ok(()),
        }
    }

    /// Takes what the logger has said, and gives it what it has not been given.
    fn look(&mut self) {
        let has_ended = matches!(self.phase, Phase::Ended(_));
        if self.connection.is_none() && !has_ended && clock::now() >= self.call_again_at {
            self.call_again();
        }
        while let Some(connection) = &self.connection {
            match connection.receive(&mut self.buffer) {
                Received::Packet(packet) => {
                    self.refusals = 0;
                    self.hear(packet);
                }
                Received::Nothing => break,
                Received::Closed => self.hang_up(),
            }
        }
        self.give();
    }

    fn hang_up(&mut self) {
        self.connection = None;
        self.call_again_at = clock::now() + CALL_AGAIN;
        self.refusals += 1;
        if self.refusals > MOST_REFUSALS && !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(Error::TurnedAway);
        }
    }

    fn call_again(&mut self) {
        match Connection::open(&self.name) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.begin();
            }
            Err(_) => self.call_again_at = clock::now() + CALL_AGAIN,
        }
    }

    /// The first packet of a connection.
    fn begin(&mut self) {
        let is_first = match self.phase {
            Phase::Taking { is_first } => is_first,
            Phase::Saving => false,
            Phase::Idle | Phase::Ended(_) => return,
        };
        self.phase = Phase::Taking { is_first };
        self.coming = Taken::default();
        (self.given, self.given_output, self.told_to_repeat, self.told_keeps) = (0, 0, None, None);
        self.send(&ToLogger::Take { writer: self.writer, after: self.stable });
        // Each connection of a process is another one for the loggers.
        self.writer.attempt = self.writer.attempt.saturating_add(1);
    }

    /// Whether there was room.
    fn send(&mut self, packet: &ToLogger) -> bool {
        match self.connection.as_ref().map(|connection| connection.send(packet)) {
            Some(Ok(had_room)) => had_room,
            Some(Err(_)) => {
                self.hang_up();
                false
            }
            None => false,
        }
    }

    fn give(&mut self) {
        while self.phase == Phase::Saving && self.given < self.waiting.len() {
            let batch: Vec<_> = self.waiting.iter().skip(self.given).take(MOST_IN_A_PACKET).copied().collect();
            let count = batch.len();
            if !self.send(&ToLogger::Save(batch)) {
                return;
            }
            self.given += count;
        }
        if self.phase == Phase::Saving && self.output > self.given_output && self.send(&ToLogger::Output(self.output)) {
            self.given_output = self.output;
        }
        if let Some(left) =
            self.to_repeat.filter(|left| self.phase == Phase::Saving && self.told_to_repeat != Some(*left))
        {
            if self.send(&ToLogger::ToRepeat(left)) {
                self.told_to_repeat = Some(left);
            }
        }
        let keeps = self.keeps.filter(|_| self.phase == Phase::Saving && self.told_keeps != self.keeps);
        if let Some((bytes, limit)) = keeps {
            if self.send(&ToLogger::Keeps { bytes, limit }) {
                self.told_keeps = self.keeps;
            }
        }
        if let Some(up_to) = self.trims.filter(|_| self.phase == Phase::Saving) {
            if self.send(&ToLogger::Trim(up_to)) {
                self.trims = None;
            }
        }
    }

    fn hear(&mut self, packet: FromLogger) {
        match packet {
            FromLogger::Stable { position, output } => {
                self.settle(position);
                self.stable_output = self.stable_output.max(output);
            }
            FromLogger::Taken { determinants, output, end } => {
                self.coming.determinants.extend(determinants);
                self.coming.output = output;
                if let Some(end) = end {
                    self.taken(end);
                }
            }
            FromLogger::NewerCheckpoint(id) => self.phase = Phase::Ended(Error::NewerCheckpoint(id)),
            FromLogger::Deposed => self.phase = Phase::Ended(Error::Deposed),
            FromLogger::Full => self.is_full = true,
            FromLogger::TooFew { living, needed } => self.phase = Phase::Ended(Error::TooFew { living, needed }),
        }
    }

    fn taken(&mut self, end: Position) {
        let Phase::Taking { is_first } = self.phase else { return };
        self.phase = Phase::Saving;
        self.output = self.output.max(self.coming.output);
        self.stable_output = self.stable_output.max(self.coming.output);
        self.given_output = self.coming.output;
        if is_first {
            self.stable = end;
            return;
        }
        // What this process has saved itself, and did not know to be stable.
        let found = std::mem::take(&mut self.coming).determinants;
        if found.len() > self.waiting.len() || found.iter().zip(&self.waiting).any(|(found, own)| found != own) {
            self.phase = Phase::Ended(Error::Deposed);
            return;
        }
        self.settle(end);
    }

    fn settle(&mut self, position: Position) {
        let count = usize::try_from(position.id.saturating_sub(self.stable.id)).unwrap_or(usize::MAX);
        let count = count.min(self.waiting.len());
        self.waiting.drain(..count);
        self.given = self.given.saturating_sub(count);
        self.stable = position;
    }
}
