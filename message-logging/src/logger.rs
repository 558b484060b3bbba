//! What a rank asks of its event logger, which is a part of the `ringwatchd` of its node.

use std::sync::{Arc, Mutex};

use event_log::determinant::{Determinant, DeterminantId, Rank};
use event_log::logger::round::Position;
use logger_client::{Client, Error, Taken};
use openmpi_internals::sync::lock;

/// The event logger as this process sees it, of which the engine and standard output know.
pub type Shared = Arc<Mutex<Logger>>;

/// The event logger as this process sees it.
pub struct Logger {
    client: Client,
    /// What has been saved and not been handed over.
    pending: Vec<Determinant>,
    last: DeterminantId,
}

impl Logger {
    /// Connects to the logger of this node.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn connect() -> Result<Shared, String> {
        let missing = |error| {
            format!(
                "the event logger of this node cannot be reached ({error}): message logging needs --pmixmca psensor_ringwatch_event_loggers with the number of nodes that may die"
            )
        };
        let client = Client::connect().map_err(missing)?;
        Ok(Arc::new(Mutex::new(Self { client, pending: Vec::new(), last: 0 })))
    }

    /// Makes this process that of a rank: its first one, or the spare of this number. Returns what an earlier one has
    /// saved after its checkpoint; that one can save nothing any more.
    ///
    /// # Errors
    /// Why that is not so.
    pub fn take(&mut self, rank: Rank, spare: u32, after: Position) -> Result<Taken, String> {
        let incarnation = u16::try_from(spare).map_err(|_| "a rank has at most 65,535 spares".to_owned())?;
        let taken = self.client.take(rank, incarnation, after, std::thread::yield_now);
        let taken = taken.map_err(|error| error.to_string())?;
        self.last = taken.determinants.last().map_or(after.id, |last| last.id);
        Ok(taken)
    }

    /// Keeps a determinant. It is handed over with the next [`flush`](Self::flush).
    pub fn save(&mut self, determinant: Determinant) {
        self.last = determinant.id;
        self.pending.push(determinant);
    }

    /// Hands over what has been saved.
    ///
    /// # Errors
    /// Why it cannot become stable.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let saved = self.client.save(&self.pending);
        self.pending.clear();
        saved
    }

    /// Whether something is to be handed over, and nothing that was is on its way: what comes meanwhile goes together.
    pub fn is_ready(&mut self) -> bool {
        let first = self.pending.first().map(|first| first.id);
        first.is_some_and(|first| self.client.stable() + 1 >= first)
    }

    /// The last determinant that has been saved.
    pub fn last(&self) -> DeterminantId {
        self.last
    }

    /// The last determinant up to which all are stable. Does not wait.
    pub fn stable(&mut self) -> DeterminantId {
        self.client.stable()
    }

    /// So many events of the processes before are left to repeat.
    pub fn tell_to_repeat(&mut self, events: usize) {
        self.client.to_repeat(events as u64);
    }

    /// The sender log takes so many bytes of at most `limit`.
    pub fn tell_keeps(&mut self, bytes: u64, limit: u64) {
        self.client.keeps(bytes, limit);
    }

    /// The last stable determinant, as a checkpoint keeps it.
    pub fn position(&self) -> Position {
        self.client.position()
    }

    /// All determinants up to this one may go.
    pub fn trim(&mut self, up_to: DeterminantId) {
        self.client.trim(up_to);
    }

    /// Waits a moment for what has been handed over to become stable. Meanwhile the processor is the logger's.
    pub fn rest(&mut self) {
        if self.client.stable() < self.last {
            self.client.rest();
        }
    }

    /// So many bytes of standard output have been written.
    pub fn tell_output(&mut self, bytes: u64) {
        self.client.output(bytes);
    }
}

/// Waits until all that has been saved is stable.
///
/// # Errors
/// Why it cannot become so.
pub fn settle(logger: &Mutex<Logger>) -> Result<(), Error> {
    let last = {
        let mut logger = lock(logger);
        logger.flush()?;
        logger.last()
    };
    loop {
        let mut logger = lock(logger);
        if logger.stable() >= last {
            return Ok(());
        }
        logger.client.save(&[])?;
        drop(logger);
        std::thread::yield_now();
    }
}
