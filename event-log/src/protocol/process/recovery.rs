//! The start of a replacement: the last checkpoint, then the outcomes recorded after it (X1 to X3, X6, X7).
//!
//! It answers [`Input::Repaired`](super::super::action::Input::Repaired), its first input, like everybody. Its program
//! starts when the event logger has answered. It need not wait for what its peers tell: until then its messages only go
//! into the log, and its receives wait by themselves.

use super::super::action::Action;
use super::super::call::Outcome;
use super::super::checkpoint::Checkpoint;
use super::super::error::Error;
use super::super::pessimism::Outstanding;
use super::super::replay::Replay;
use super::super::variant::{Rule, Variant};
use super::state::{Config, Process, Stable};
use crate::determinant::Determinant;

impl<V: Variant> Process<V> {
    /// A replacement, with the last whole checkpoint of its rank, if there is one.
    ///
    /// # Errors
    /// The checkpoint is another rank's.
    pub fn recover(config: Config, checkpoint: Option<Checkpoint>, out: &mut Vec<Action>) -> Result<Self, Error> {
        let mut process = Self::new(config);
        process.is_fetching = true;
        process.is_restored = true;
        process.links.iter_mut().for_each(|link| link.is_open = false);
        process.completed.fill(None);
        if let Some(checkpoint) = checkpoint {
            let checkpoint = checkpoint.of(config.rank, config.ranks)?;
            process.stable = Some(Stable::of(&checkpoint));
            process.outstanding = Outstanding::new(config.mode, checkpoint.last_determinant);
            process.counters = checkpoint.counters;
            process.log = checkpoint.log;
            process.collectives = checkpoint.collectives;
            process.requests = checkpoint.requests;
            process.probed = checkpoint.probed;
            process.polls = checkpoint.polls;
            process.checkpoints = checkpoint.number;
            process.state = Some(checkpoint.state);
        }
        out.push(Action::Fetch { since: process.outstanding.last() });
        Ok(process)
    }

    /// The event logger has answered. The replay begins; receives that the checkpoint holds are posted.
    pub(super) fn fetched(&mut self, determinants: Vec<Determinant>, out: &mut Vec<Action>) -> Result<(), Error> {
        // Its own link opens with the repair, without which there is no communicator to post receives on.
        if !self.is_fetching || !self.links[self.config.rank as usize].is_open {
            return Err(Error::OutOfTurn { what: "the event logger's list" });
        }
        self.is_fetching = false;
        self.replay = Replay::new(self.outstanding.last(), determinants)?;
        let last = if V::keeps(Rule::IdsGoOn) { self.replay.last() } else { 0 };
        self.outstanding = Outstanding::new(self.config.mode, last);
        for open in self.requests.lose() {
            open.is_posted = !self.replay.is_cancelled(open.request);
            if let Some((source, tag)) = self.replay.receive(open.request) {
                open.pattern = open.pattern.forced(source, tag);
                open.recorded = true;
            }
        }
        self.post_again(out);
        out.push(Action::Return(Outcome::Restored { state: self.state.take() }));
        Ok(())
    }
}
