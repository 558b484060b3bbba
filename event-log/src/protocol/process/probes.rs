//! Probes, and the receives of what they have found.
//!
//! | call | normal | in a replay |
//! |---|---|---|
//! | probe, any source or tag | recorded | waits for the recorded message |
//! | probe that does not block | recorded when it finds something, with the number of calls | finds nothing as often, then waits |
//!
//! The first receive after a probe, with the same arguments, is posted with the source and the tag that the probe
//! found. MPI gives it that message anyway as long as nothing fails, and programs rely on it: they ask the probe for
//! the size. After a failure in between another message could come first. Such a receive needs no record of its own.

use super::super::action::Action;
use super::super::call::Outcome;
use super::super::error::Error;
use super::super::replay::Poll;
use super::super::requests::Probed;
use super::super::units::{Envelope, Pattern};
use super::super::variant::{Rule, Variant};
use super::state::{Pending, Process};
use crate::determinant::Event;

impl<V: Variant> Process<V> {
    pub(super) fn probe(&mut self, pattern: Pattern, out: &mut Vec<Action>) -> Result<(), Error> {
        // A probe of one source and one tag has one outcome only.
        let recorded = if pattern.is_open() { self.replay.block(Event::Probe, self.polls + 1)? } else { None };
        match recorded {
            Some(recorded) => {
                self.polls = 0;
                self.look(pattern, pattern.forced(recorded.source, recorded.tag), false, out);
            }
            None => self.look(pattern, pattern, pattern.is_open(), out),
        }
        Ok(())
    }

    fn look(&mut self, asked: Pattern, pattern: Pattern, is_new: bool, out: &mut Vec<Action>) {
        self.pending = Pending::Probe { asked, pattern, is_new, seen: None };
        out.push(Action::Look { pattern, wait: true });
    }

    pub(super) fn iprobe(&mut self, pattern: Pattern, out: &mut Vec<Action>) -> Result<(), Error> {
        match self.poll(Event::Iprobe)? {
            Poll::Nothing => self.saw_nothing(out),
            Poll::Saw(recorded) => {
                self.polls = 0;
                self.look(pattern, pattern.forced(recorded.source, recorded.tag), false, out);
            }
            Poll::New => {
                self.pending = Pending::Iprobe { pattern };
                out.push(Action::Look { pattern, wait: false });
            }
        }
        Ok(())
    }

    /// MPI has answered a probe.
    pub(super) fn seen(&mut self, found: Option<Envelope>, out: &mut Vec<Action>) -> Result<(), Error> {
        match (&mut self.pending, found) {
            (Pending::Probe { seen, .. }, Some(_)) => *seen = found,
            (&mut Pending::Iprobe { pattern }, found) => match found.filter(|&envelope| !self.is_early(envelope)) {
                None => self.saw_nothing(out),
                Some(envelope) => {
                    self.saw(Event::Iprobe, 0, envelope, out);
                    self.found(pattern, envelope, out);
                }
            },
            _ => return Err(Error::OutOfTurn { what: "the answer to a probe" }),
        }
        Ok(())
    }

    /// Whether the program may not see a message yet: one of an earlier receive has to count before.
    fn is_early(&self, envelope: Envelope) -> bool {
        V::keeps(Rule::CountedInOrder) && self.requests.is_before(envelope)
    }

    pub(super) fn advance_probe(
        &mut self,
        (asked, pattern): (Pattern, Pattern),
        is_new: bool,
        seen: Option<Envelope>,
        out: &mut Vec<Action>,
    ) {
        match seen.filter(|&envelope| !self.is_early(envelope)) {
            None => self.pending = Pending::Probe { asked, pattern, is_new, seen },
            Some(envelope) => {
                if is_new {
                    self.saw(Event::Probe, 0, envelope, out);
                }
                self.found(asked, envelope, out);
            }
        }
    }

    fn found(&mut self, asked: Pattern, envelope: Envelope, out: &mut Vec<Action>) {
        self.probed = Some(Probed { asked, envelope });
        self.finish(Outcome::Found(envelope), out);
    }
}
