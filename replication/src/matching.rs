//! Which message a receive gets (MPI 4.1, 3.5): the first one that fits, of those of each source in the order of
//! sending; and which receive gets a message: the first posted one that it fits.
//!
//! A receive that names its source gets the same message at all replicas. One from any source gets the one that arrives
//! first at the replica that decides; at the others it waits for the decision. Until then it may get any message that
//! fits it, so no later receive gets one of those.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::units::{Pattern, Request};

use crate::inbox::Ready;
use crate::variant::{Rule, Variant};

/// A decision about a receive: source and number of its message.
pub type Match = (Request, Rank, u64);

/// Receives and messages.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    last: Request,
    /// In the order in which they became ready.
    ready: Vec<Ready>,
    posted: Vec<(Request, Pattern)>,
    matched: BTreeMap<Request, (Pattern, Ready)>,
    decided: BTreeMap<Request, (Rank, u64)>,
}

impl Matching {
    /// A receive starts.
    pub fn post(&mut self, pattern: Pattern) -> Request {
        self.last += 1;
        self.posted.push((self.last, pattern));
        self.last
    }

    /// A message is ready.
    pub fn arrive(&mut self, ready: Ready) {
        self.ready.push(ready);
    }

    /// What a receive gets was decided elsewhere.
    pub fn decide(&mut self, (request, source, number): Match) {
        self.decided.insert(request, (source, number));
    }

    fn is(ready: &Ready, (source, number): (Rank, u64)) -> bool {
        ready.envelope.source == source && ready.number == number
    }

    /// Matches what can be matched. Returns what was decided here.
    pub fn run<V: Variant>(&mut self, decides: bool) -> Vec<Match> {
        let mut made = Vec::new();
        let mut undecided: Vec<Pattern> = Vec::new();
        let mut place = 0;
        while let Some(&(request, pattern)) = self.posted.get(place) {
            let told = self.decided.get(&request).copied();
            let may_choose = pattern.source.is_some() || decides || !V::keeps(Rule::OneDecides);
            let at = match told {
                Some(told) => self.ready.iter().position(|ready| Self::is(ready, told)),
                None if may_choose => self.first(pattern, &undecided),
                None => None,
            };
            if let Some(at) = at {
                let ready = self.ready.remove(at);
                self.posted.remove(place);
                self.decided.remove(&request);
                self.matched.insert(request, (pattern, ready));
                if pattern.source.is_none() && told.is_none() && decides {
                    made.push((request, ready.envelope.source, ready.number));
                }
                continue;
            }
            if told.is_none() && V::keeps(Rule::UndecidedGoesFirst) {
                undecided.push(pattern);
            }
            place += 1;
        }
        made
    }

    fn first(&self, pattern: Pattern, undecided: &[Pattern]) -> Option<usize> {
        let fits = |ready: &Ready| {
            pattern.covers(ready.envelope) && !undecided.iter().any(|earlier| earlier.covers(ready.envelope))
        };
        self.ready.iter().position(fits)
    }

    /// What a probe finds. At a replica that does not decide a probe of any source finds what it is told.
    pub fn find(&self, pattern: Pattern) -> Option<Ready> {
        let undecided: Vec<Pattern> = self.posted.iter().map(|(_, pattern)| *pattern).collect();
        self.first(pattern, &undecided).map(|at| self.ready[at])
    }

    /// The message of this source and number, if no receive has it.
    pub fn at(&self, source: Rank, number: u64) -> Option<Ready> {
        self.ready.iter().find(|ready| Self::is(ready, (source, number))).copied()
    }

    /// The message that a receive has got.
    pub fn of(&self, request: Request) -> Option<Ready> {
        self.matched.get(&request).map(|(_, ready)| *ready)
    }

    /// Takes a receive back that has no message. Returns whether it had none.
    pub fn withdraw(&mut self, request: Request) -> bool {
        let place = self.posted.iter().position(|(posted, _)| *posted == request);
        place.map(|place| self.posted.remove(place)).is_some()
    }

    /// Takes a receive back that had no message at the replica that decides. If it has one here, later receives may
    /// have to get other messages than they have: they are matched again. The program has seen none of those.
    pub fn take_back(&mut self, request: Request) {
        if self.withdraw(request) {
            return;
        }
        for (later, (pattern, ready)) in self.matched.split_off(&request) {
            self.ready.push(ready);
            if later != request {
                self.posted.push((later, pattern));
                if pattern.source.is_none() {
                    self.decided.insert(later, (ready.envelope.source, ready.number));
                }
            }
        }
        self.posted.sort_unstable_by_key(|(posted, _)| *posted);
        self.ready.sort_by_key(|ready| ready.number);
    }

    /// The program has got the message of a receive.
    pub fn complete(&mut self, request: Request) {
        self.matched.remove(&request);
    }
}
