//! Messages of all sources at a receiver. Those of one source become ready in the order of sending, whatever copies
//! come first.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope};

use crate::copies::Copies;
use crate::message::{Body, Data};
use crate::variant::{Rule, Variant};

/// A message that a receive or a probe may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where it comes from.
    pub envelope: Envelope,
    /// Its number, from 1, among those of its source.
    pub number: u64,
}

/// Messages of one source.
#[derive(Clone, Debug)]
struct Stream<P> {
    copies: BTreeMap<u64, Copies<P>>,
    /// All up to this one were ready.
    ready: u64,
    /// All up to this one are settled.
    settled: u64,
    /// The sender's replicas know that all up to this one are settled.
    reported: u64,
    /// Whether a sender waits for a report.
    is_wanted: bool,
}

impl<P> Default for Stream<P> {
    fn default() -> Self {
        Self { copies: BTreeMap::new(), ready: 0, settled: 0, reported: 0, is_wanted: false }
    }
}

/// Messages of all sources.
#[derive(Clone, Debug)]
pub struct Inbox<P> {
    streams: Vec<Stream<P>>,
    /// Settled after two or more votes, and after one.
    counts: (u64, u64),
    /// Used and not settled.
    unverified: u64,
}

impl<P: Data> Inbox<P> {
    /// Of so many sources.
    pub fn new(ranks: u32) -> Self {
        Self { streams: (0..ranks).map(|_| Stream::default()).collect(), counts: (0, 0), unverified: 0 }
    }

    /// A copy has come. Returns whether it is of any use.
    pub fn arrive<V: Variant>(&mut self, source: Rank, from: u8, number: u64, channel: Channel, body: Body<P>) -> bool {
        let stream = &mut self.streams[source as usize];
        let is_old = number <= stream.settled || stream.copies.get(&number).is_some_and(Copies::is_settled);
        if !is_old {
            stream.copies.entry(number).or_default().arrive::<V>(from, channel, body);
        }
        !is_old
    }

    /// The copies of a message.
    pub fn copies(&mut self, source: Rank, number: u64) -> Option<&mut Copies<P>> {
        self.streams[source as usize].copies.get_mut(&number)
    }

    /// Messages of a source that are not settled.
    pub fn open(&self, source: Rank) -> Vec<u64> {
        let copies = &self.streams[source as usize].copies;
        copies.iter().filter(|(_, copies)| !copies.is_settled()).map(|(number, _)| *number).collect()
    }

    /// A message was settled.
    pub fn note_settled(&mut self, source: Rank, number: u64) {
        let stream = &mut self.streams[source as usize];
        let Some(copies) = stream.copies.get(&number) else { return };
        if copies.votes() >= 2 {
            self.counts.0 += 1
        } else {
            self.counts.1 += 1
        }
        self.unverified -= u64::from(copies.is_used());
        loop {
            let stream = &mut self.streams[source as usize];
            let next = stream.settled + 1;
            if !stream.copies.get(&next).is_some_and(Copies::is_settled) {
                return;
            }
            stream.settled = next;
            self.forget(source, next);
        }
    }

    /// A message is settled, all before it are, and the program has got it: nothing is kept of it.
    fn forget(&mut self, source: Rank, number: u64) {
        let stream = &mut self.streams[source as usize];
        let is_done = number <= stream.settled
            && stream.copies.get(&number).is_some_and(|copies| copies.is_settled() && copies.is_used());
        if is_done {
            stream.copies.remove(&number);
        }
    }

    /// The program has got a message.
    pub fn note_used(&mut self, source: Rank, number: u64) {
        let Some(copies) = self.copies(source, number) else { return };
        self.unverified += u64::from(!copies.is_settled());
        self.forget(source, number);
    }

    /// The next message of a source that becomes ready.
    pub fn next_ready<V: Variant>(
        &mut self,
        source: Rank,
        usable: impl Fn(&Copies<P>) -> Option<Channel>,
    ) -> Option<Ready> {
        let stream = &mut self.streams[source as usize];
        let number = if V::keeps(Rule::ReadyInOrder) {
            stream.ready + 1
        } else {
            *stream.copies.iter().find(|(_, copies)| !copies.is_shown() && usable(copies).is_some())?.0
        };
        let copies = stream.copies.get_mut(&number)?;
        let channel = usable(copies)?;
        copies.show(channel);
        stream.ready = number;
        Some(Ready { envelope: Envelope { source, channel }, number })
    }

    /// Messages that were used and are not settled.
    pub fn unverified(&self) -> u64 {
        self.unverified
    }

    /// Whether all messages of which something has come are settled.
    pub fn is_settled(&self) -> bool {
        self.streams.iter().all(|stream| stream.copies.values().all(Copies::is_settled))
    }

    /// Messages with at least two votes and messages with one, of those that are settled.
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// Messages of which something is kept.
    pub fn messages(&self) -> usize {
        self.streams.iter().map(|stream| stream.copies.len()).sum()
    }

    /// Data that is kept, in bytes.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().flat_map(|stream| stream.copies.values()).map(Copies::bytes).sum()
    }

    /// A sender waits for a report.
    pub fn want_report(&mut self, source: Rank) {
        self.streams[source as usize].is_wanted = true;
    }

    /// What is to be reported to a source: when there is as much as `every`, or it waits and there is something.
    pub fn report(&mut self, source: Rank, every: u64) -> Option<u64> {
        let stream = &mut self.streams[source as usize];
        let every = if stream.is_wanted { 1 } else { every };
        if stream.settled < stream.reported + every {
            return None;
        }
        (stream.reported, stream.is_wanted) = (stream.settled, false);
        Some(stream.settled)
    }

    /// All sources.
    pub fn sources(&self) -> impl Iterator<Item = Rank> + use<P> {
        0..self.streams.len() as Rank
    }

    /// How many of these are not settled.
    pub fn unsettled_of(&self, messages: impl Iterator<Item = (Rank, u64)>) -> u64 {
        let is_open = |(source, number): &(Rank, u64)| {
            self.streams[*source as usize].copies.get(number).is_some_and(|copies| !copies.is_settled())
        };
        messages.filter(is_open).count() as u64
    }
}
