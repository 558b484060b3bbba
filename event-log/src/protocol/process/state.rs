//! What a rank knows.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use super::super::action::Action;
use super::super::call::Outcome;
use super::super::collective_log::{CollectiveLog, Completed};
use super::super::counters::{Counters, Counts};
use super::super::pessimism::{Mode, Outstanding};
use super::super::replay::Replay;
use super::super::requests::{Probed, Requests};
use super::super::sender_log::{Limit, Room, SenderLog};
use super::super::units::{Channel, Communicator, Envelope, Pattern, Payload, Request};
use super::super::variant::{Sound, Variant};
use crate::determinant::{Determinant, DeterminantId, Event, Rank};

/// Who a rank is, and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The rank.
    pub rank: Rank,
    /// Ranks of the job's first communicator.
    pub ranks: u32,
    /// When it waits for the event logger.
    pub mode: Mode,
    /// How much memory its logs may take.
    pub limit: Limit,
}

/// The machine of one rank. `V` is [`Sound`] but in tests.
#[derive(Clone, Debug)]
pub struct Process<V = Sound> {
    pub(super) config: Config,
    pub(super) counters: Counters,
    pub(super) log: SenderLog,
    pub(super) collectives: CollectiveLog,
    pub(super) outstanding: Outstanding,
    pub(super) requests: Requests,
    /// What the last probe has found, until the next receive starts.
    pub(super) probed: Option<Probed>,
    pub(super) replay: Replay,
    /// Calls that saw nothing since the last recorded outcome of a call.
    pub(super) polls: u64,
    /// By peer, this rank among them.
    pub(super) links: Vec<Link>,
    /// What each rank has completed, as told after the last repair; `None` until it has told.
    pub(super) completed: Vec<Option<Completed>>,
    /// Who waits for what this rank will put into an operation.
    pub(super) wishes: BTreeMap<(Communicator, u64), BTreeSet<Rank>>,
    pub(super) pending: Pending,
    /// What the last durable checkpoint holds.
    pub(super) stable: Option<Stable>,
    /// What the checkpoint holds that is being written.
    pub(super) writing: Option<Stable>,
    /// The number of the last checkpoint.
    pub(super) checkpoints: u64,
    /// How tight it was when a checkpoint was last asked for; [`Room::Enough`] if that has helped.
    pub(super) asked_at: Room,
    /// Whether the determinants of the life before are awaited.
    pub(super) is_fetching: bool,
    /// Whether this is a replacement.
    pub(super) is_restored: bool,
    /// The program's state of the checkpoint, until the program starts.
    pub(super) state: Option<Payload>,
    /// False when the logs have been dropped.
    pub(super) is_protected: bool,
    pub(super) variant: PhantomData<V>,
}

/// What may be sent to a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Whether the peer has told since the last repair what it has received. Until then messages to it only go into the
    /// log, and so follow what is sent again (F3).
    pub(super) is_open: bool,
    /// What the peer has received, as it told last.
    pub(super) has: Counts,
}

/// What a checkpoint makes garbage at others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stable {
    pub(super) checkpoint: u64,
    pub(super) last_determinant: DeterminantId,
    pub(super) received: Vec<Counts>,
    pub(super) completed: Completed,
}

/// The program's call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// There is none.
    Nothing,
    /// It returns this once all determinants are stable.
    Held(Outcome),
    /// `number` if it is in the log already: only where a test breaks the rule `LoggedWhenStable`.
    Send {
        to: Rank,
        channel: Channel,
        payload: Payload,
        number: Option<u64>,
    },
    Wait {
        request: Request,
    },
    WaitAny {
        requests: Vec<Request>,
    },
    WaitAll {
        requests: Vec<Request>,
    },
    /// `seen` while a message has to wait for its turn.
    Probe {
        asked: Pattern,
        /// What is asked for, or what is recorded.
        pattern: Pattern,
        is_new: bool,
        seen: Option<Envelope>,
    },
    Iprobe {
        pattern: Pattern,
    },
    Cancel {
        request: Request,
    },
    Collective(Operation),
    Checkpoint,
    /// The program's state is being read.
    Capture,
}

/// A collective operation that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) communicator: Communicator,
    pub(super) contribution: Payload,
    pub(super) needs: Vec<Rank>,
    pub(super) alike: bool,
    pub(super) stage: Stage,
}

/// How far a collective operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its contribution may not leave yet.
    Held,
    /// It is not known yet whether somebody has completed it.
    Undecided { sequence: u64 },
    /// It runs in MPI.
    Running { sequence: u64 },
    /// Members are asked for what they have.
    Asking { sequence: u64, have: BTreeMap<Rank, Payload> },
}

impl<V: Variant> Process<V> {
    /// Stands in a determinant that has no message.
    pub(super) const NO_CHANNEL: Channel = Channel { communicator: 0, tag: 0 };

    /// A rank at its start.
    pub fn new(config: Config) -> Self {
        let ranks = config.ranks as usize;
        Self {
            config,
            counters: Counters::new(config.ranks),
            log: SenderLog::new(config.ranks),
            collectives: CollectiveLog::default(),
            outstanding: Outstanding::new(config.mode, 0),
            requests: Requests::default(),
            probed: None,
            replay: Replay::default(),
            polls: 0,
            links: vec![Link { is_open: true, has: Counts::default() }; ranks],
            completed: vec![Some(Completed::new()); ranks],
            wishes: BTreeMap::new(),
            pending: Pending::Nothing,
            stable: None,
            writing: None,
            checkpoints: 0,
            asked_at: Room::Enough,
            is_fetching: false,
            is_restored: false,
            state: None,
            is_protected: true,
            variant: PhantomData,
        }
    }

    /// All ranks.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> + use<V> {
        0..self.config.ranks
    }

    /// All ranks but this one.
    pub(super) fn peers(&self) -> impl Iterator<Item = Rank> + use<V> {
        let rank = self.config.rank;
        self.ranks().filter(move |&peer| peer != rank)
    }

    /// Records the outcome of an event, unless nobody could ask for it.
    pub(super) fn record(&mut self, event: Event, from: Envelope, request: Request, calls: u64, out: &mut Vec<Action>) {
        if self.is_protected {
            let Envelope { source, channel: Channel { communicator, tag } } = from;
            let id = self.outstanding.add();
            let repetitions = calls;
            out.push(Action::Save(Determinant { id, event, communicator, source, tag, request, repetitions }));
        }
    }

    /// The program's call returns, now or, in the synchronous mode, once all determinants are stable.
    pub(super) fn finish(&mut self, outcome: Outcome, out: &mut Vec<Action>) {
        if self.outstanding.holds_outcomes() {
            self.pending = Pending::Held(outcome);
        } else {
            self.pending = Pending::Nothing;
            out.push(Action::Return(outcome));
        }
    }

    /// Bytes of memory that both logs take.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes() + self.collectives.bytes()
    }

    /// Messages in the sender log.
    pub fn log_messages(&self) -> usize {
        self.log.messages()
    }

    /// Whether outcomes of a life before are left to repeat, or are awaited from the event logger.
    pub fn is_replaying(&self) -> bool {
        self.is_fetching || !self.replay.is_over()
    }

    /// How many outcomes are left to repeat.
    pub fn left_to_replay(&self) -> usize {
        self.replay.left()
    }

    /// Whether a death of this rank or a peer can be repaired: false when the logs have been dropped.
    pub fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// The id of the last determinant, 0 before the first.
    pub fn last_determinant(&self) -> DeterminantId {
        self.outstanding.last()
    }
}
