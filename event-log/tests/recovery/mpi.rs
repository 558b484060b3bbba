//! What MPI does for the ranks: messages in flight, matching, collective operations. A failure drops all of it.

use std::collections::{BTreeMap, VecDeque};

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Communicator, Envelope, Pattern, Payload, Request};

/// A message in flight.
#[derive(Clone)]
pub struct InFlight {
    pub channel: Channel,
    pub payload: Payload,
}

/// A message that a receive has.
pub struct Matched {
    pub request: Request,
    pub envelope: Envelope,
    pub payload: Payload,
}

impl Matched {
    /// Whether it takes long until all of it is there.
    pub fn is_large(&self) -> bool {
        self.payload.len() > 24
    }
}

/// The receiving side of one rank.
#[derive(Default)]
pub struct Matching {
    posted: Vec<(Request, Pattern)>,
    unexpected: Vec<(Envelope, Payload)>,
    /// Matched, but not all of it is there.
    pub incomplete: Vec<Matched>,
    pub looking: Option<Pattern>,
}

impl Matching {
    /// A message arrives.
    pub fn arrive(&mut self, source: Rank, message: InFlight) {
        let envelope = Envelope { source, channel: message.channel };
        match self.posted.iter().position(|(_, pattern)| pattern.covers(envelope)) {
            None => self.unexpected.push((envelope, message.payload)),
            Some(place) => {
                let (request, _) = self.posted.remove(place);
                self.incomplete.push(Matched { request, envelope, payload: message.payload });
            }
        }
    }

    /// Whether the receive had no message.
    pub fn withdraw(&mut self, request: Request) -> bool {
        let before = self.posted.len();
        self.posted.retain(|(posted, _)| *posted != request);
        self.posted.len() < before
    }

    pub fn post(&mut self, request: Request, pattern: Pattern) {
        match self.unexpected.iter().position(|(envelope, _)| pattern.covers(*envelope)) {
            None => self.posted.push((request, pattern)),
            Some(place) => {
                let (envelope, payload) = self.unexpected.remove(place);
                self.incomplete.push(Matched { request, envelope, payload });
            }
        }
    }

    pub fn look(&self, pattern: Pattern) -> Option<Envelope> {
        self.unexpected.iter().map(|(envelope, _)| *envelope).find(|&envelope| pattern.covers(envelope))
    }

    /// What the waiting probe sees, if there is one and it sees something.
    pub fn answer(&mut self) -> Option<Envelope> {
        let found = self.looking.and_then(|pattern| self.look(pattern));
        if found.is_some() {
            self.looking = None;
        }
        found
    }
}

/// Messages under way, by sender, receiver and communicator.
pub struct Network {
    ranks: usize,
    queues: Vec<VecDeque<InFlight>>,
}

const COMMUNICATORS: usize = 5;

impl Network {
    pub fn new(ranks: u32) -> Self {
        let ranks = ranks as usize;
        Self { ranks, queues: vec![VecDeque::new(); ranks * ranks * COMMUNICATORS] }
    }

    pub fn send(&mut self, from: Rank, to: Rank, message: InFlight) {
        let pair = from as usize * self.ranks + to as usize;
        self.queues[pair * COMMUNICATORS + message.channel.communicator as usize].push_back(message);
    }

    /// The queues with something in them.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        self.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty()).map(|(place, _)| place)
    }

    /// The next message of a queue: its sender and receiver.
    pub fn take(&mut self, queue: usize) -> (Rank, Rank, InFlight) {
        let pair = queue / COMMUNICATORS;
        let message = self.queues[queue].pop_front().expect("the queue is not empty");
        ((pair / self.ranks) as Rank, (pair % self.ranks) as Rank, message)
    }

    /// Drops all.
    pub fn lose(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }
}

/// Collective operations that run.
#[derive(Default)]
pub struct Collectives {
    /// By communicator and place since the last failure: what has been put in, with the number that each rank gave it.
    running: BTreeMap<(Communicator, usize), BTreeMap<Rank, (u64, Payload)>>,
    /// How many operations a rank has begun on a communicator since the last failure.
    begun: BTreeMap<(Communicator, Rank), usize>,
}

impl Collectives {
    /// A rank begins its next operation. MPI knows no numbers: it takes the next of each rank for the same.
    pub fn enter(
        &mut self,
        communicator: Communicator,
        rank: Rank,
        sequence: u64,
        contribution: Payload,
    ) -> Result<(), String> {
        let begun = self.begun.entry((communicator, rank)).or_default();
        *begun += 1;
        let operation = self.running.entry((communicator, *begun)).or_default();
        operation.insert(rank, (sequence, contribution));
        if operation.values().any(|&(other, _)| other != sequence) {
            return Err(format!("MPI mixes up operations of communicator {communicator}: {operation:?}"));
        }
        Ok(())
    }

    /// The contributions to the operation that a rank has begun last, if those that it needs are all there.
    pub fn result(&self, communicator: Communicator, rank: Rank, needs: &[Rank]) -> Option<BTreeMap<Rank, Payload>> {
        let begun = self.begun.get(&(communicator, rank))?;
        let operation = self.running.get(&(communicator, *begun))?;
        let contribution = |rank: &Rank| operation.get(rank).map(|(_, payload)| (*rank, payload.clone()));
        needs.iter().map(contribution).collect()
    }
}
