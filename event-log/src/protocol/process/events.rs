//! Receives, waits and tests: calls whose outcome may depend on time.
//!
//! | call | normal | in a replay |
//! |---|---|---|
//! | receive, any source or tag | recorded when its message counts | posted with the recorded source and tag |
//! | wait for one | needs no record | the same |
//! | wait for any of several | recorded | waits for the recorded one |
//! | test | recorded when it finds something, with the number of calls | finds nothing as often, then waits |
//! | cancel | recorded, with its success | has the same success; a receive that was cancelled is not posted |
//! | clock | recorded | shows what it has shown |

use std::mem;

use super::super::action::Action;
use super::super::call::Outcome;
use super::super::error::Error;
use super::super::replay::{CANCELLED, Poll};
use super::super::units::{Channel, Envelope, Pattern, Request};
use super::super::variant::{Rule, Variant};
use super::state::{Pending, Process};
use crate::determinant::Event;

impl<V: Variant> Process<V> {
    /// A receive starts (Q4: with the recorded source and tag, if there are).
    pub(super) fn receive(&mut self, pattern: Pattern, out: &mut Vec<Action>) {
        let request = self.requests.start();
        let probed = self.probed.take().and_then(|probed| probed.of_receive(pattern));
        let known = probed.filter(|_| V::keeps(Rule::ProbedIsReceived)).or_else(|| self.replay.receive(request));
        let posted = known.map_or(pattern, |(source, tag)| pattern.forced(source, tag));
        if self.replay.is_cancelled(request) && V::keeps(Rule::CancelledReceivesAreNotPosted) {
            self.requests.withhold(request, posted);
        } else {
            self.requests.post(request, posted, known.is_some());
            out.push(Action::Post { request, pattern: posted });
        }
        self.finish(Outcome::Posted(request), out);
    }

    /// MPI has completed a receive (Q1 to Q3): its message counts when it is its turn, and others' with it.
    pub(super) fn completed(
        &mut self,
        request: Request,
        envelope: Envelope,
        out: &mut Vec<Action>,
    ) -> Result<(), Error> {
        if !self.requests.arrive(request, envelope) {
            return Err(Error::UnknownRequest { request });
        }
        while let Some((open, envelope)) = self.requests.count_next(V::keeps(Rule::CountedInOrder)) {
            self.counters.received[envelope.source as usize].add(envelope.channel);
            if open.pattern.is_open() && !open.recorded {
                self.record(Event::Receive, envelope, open.request, 1, out);
            }
        }
        Ok(())
    }

    pub(super) fn known(&self, requests: &[Request]) -> Result<(), Error> {
        let unknown = requests.iter().find(|&&request| !self.requests.knows(request));
        unknown.map_or(Ok(()), |&request| Err(Error::UnknownRequest { request }))
    }

    pub(super) fn advance_wait(&mut self, request: Request, out: &mut Vec<Action>) {
        match self.requests.show(request) {
            Some(envelope) => self.finish(Outcome::Received { request, envelope }, out),
            None => self.pending = Pending::Wait { request },
        }
    }

    pub(super) fn advance_wait_all(&mut self, requests: Vec<Request>, out: &mut Vec<Action>) {
        if requests.iter().all(|&request| self.requests.is_counted(request)) {
            let show = |request| self.requests.show(request).map(|envelope| (request, envelope));
            let all = requests.into_iter().filter_map(show).collect();
            self.finish(Outcome::ReceivedAll(all), out);
        } else {
            self.pending = Pending::WaitAll { requests };
        }
    }

    pub(super) fn wait_any(&mut self, requests: Vec<Request>) -> Result<(), Error> {
        self.known(&requests)?;
        // A wait for one has one outcome only.
        if let [request] = requests[..] {
            self.pending = Pending::Wait { request };
            return Ok(());
        }
        self.pending = match self.replay.block(Event::WaitAny, self.polls + 1)? {
            None => Pending::WaitAny { requests },
            Some(recorded) => {
                self.polls = 0;
                self.known(&[recorded.request])?;
                Pending::Wait { request: recorded.request }
            }
        };
        Ok(())
    }

    pub(super) fn advance_wait_any(&mut self, requests: Vec<Request>, out: &mut Vec<Action>) {
        match self.show_first(&requests) {
            None => self.pending = Pending::WaitAny { requests },
            Some((request, envelope)) => {
                self.saw(Event::WaitAny, request, envelope, out);
                self.finish(Outcome::Received { request, envelope }, out);
            }
        }
    }

    fn show_first(&mut self, requests: &[Request]) -> Option<(Request, Envelope)> {
        let request = *requests.iter().find(|&&request| self.requests.is_counted(request))?;
        self.requests.show(request).map(|envelope| (request, envelope))
    }

    /// Records what a call saw, with the calls that saw nothing before it.
    pub(super) fn saw(&mut self, event: Event, request: Request, envelope: Envelope, out: &mut Vec<Action>) {
        self.record(event, envelope, request, self.polls + 1, out);
        self.polls = 0;
    }

    pub(super) fn saw_nothing(&mut self, out: &mut Vec<Action>) {
        self.polls += 1;
        self.pending = Pending::Nothing;
        out.push(Action::Return(Outcome::Nothing));
    }

    pub(super) fn poll(&mut self, event: Event) -> Result<Poll, Error> {
        // Without the number of calls the first one would see what a later one saw.
        let calls = if V::keeps(Rule::RepetitionsAreRepeated) { self.polls + 1 } else { self.replay.calls_of_next() };
        self.replay.poll(event, calls.max(1))
    }

    pub(super) fn test(&mut self, requests: Vec<Request>, all: bool, out: &mut Vec<Action>) -> Result<(), Error> {
        self.known(&requests)?;
        match self.poll(Event::Test)? {
            Poll::Nothing => self.saw_nothing(out),
            Poll::Saw(recorded) => {
                self.polls = 0;
                self.pending = match recorded.request {
                    0 => Pending::WaitAll { requests },
                    request => Pending::Wait { request },
                };
            }
            Poll::New if all => self.test_all(requests, out),
            Poll::New => match self.show_first(&requests) {
                None => self.saw_nothing(out),
                Some((request, envelope)) => {
                    self.saw(Event::Test, request, envelope, out);
                    self.finish(Outcome::Received { request, envelope }, out);
                }
            },
        }
        Ok(())
    }

    /// A receive is cancelled, unless its message is there. Both outcomes are recorded.
    pub(super) fn cancel(&mut self, request: Request, out: &mut Vec<Action>) -> Result<(), Error> {
        self.known(&[request])?;
        match self.replay.block(Event::Cancel, self.polls + 1)? {
            Some(recorded) => {
                self.polls = 0;
                self.end_cancel(request, recorded.tag == CANCELLED, out);
            }
            None if self.requests.is_waiting(request) => {
                self.pending = Pending::Cancel { request };
                out.push(Action::Withdraw { request });
            }
            None => self.note_cancel(request, false, out),
        }
        Ok(())
    }

    /// MPI has withdrawn the receive of a cancel, or has a message for it.
    pub(super) fn withdrawn(&mut self, is_done: bool, out: &mut Vec<Action>) -> Result<(), Error> {
        match mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Cancel { request } => self.note_cancel(request, is_done, out),
            _ => return Err(Error::OutOfTurn { what: "the answer of a cancel" }),
        }
        Ok(())
    }

    fn note_cancel(&mut self, request: Request, is_cancelled: bool, out: &mut Vec<Action>) {
        let tag = if is_cancelled { CANCELLED } else { 0 };
        let channel = Channel { tag, ..Self::NO_CHANNEL };
        self.saw(Event::Cancel, request, Envelope { source: self.config.rank, channel }, out);
        self.end_cancel(request, is_cancelled, out);
    }

    fn end_cancel(&mut self, request: Request, is_cancelled: bool, out: &mut Vec<Action>) {
        if is_cancelled {
            self.requests.cancel(request);
        }
        self.finish(Outcome::Cancelled(is_cancelled), out);
    }

    /// Records what a clock shows, as the outcome of a call that always sees something.
    pub(super) fn clock(&mut self, now: u64, out: &mut Vec<Action>) -> Result<(), Error> {
        let shown = match self.replay.block(Event::Clock, self.polls + 1)? {
            Some(recorded) => {
                self.polls = 0;
                if V::keeps(Rule::ClocksShowTheSame) { recorded.request } else { now }
            }
            None => {
                let own = Envelope { source: self.config.rank, channel: Self::NO_CHANNEL };
                self.saw(Event::Clock, now, own, out);
                now
            }
        };
        self.finish(Outcome::Clock(shown), out);
        Ok(())
    }

    fn test_all(&mut self, requests: Vec<Request>, out: &mut Vec<Action>) {
        if requests.iter().all(|&request| self.requests.is_counted(request)) {
            let own = Envelope { source: self.config.rank, channel: Self::NO_CHANNEL };
            self.saw(Event::Test, 0, own, out);
            self.advance_wait_all(requests, out);
        } else {
            self.saw_nothing(out);
        }
    }
}
