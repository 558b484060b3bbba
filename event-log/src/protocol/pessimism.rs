//! The pessimistic condition: no message leaves a rank before the determinants of all that happened before are stable.
//!
//! Otherwise a receiver could depend on an outcome that nobody remembers once the sender is dead.

use crate::determinant::DeterminantId;

/// When a rank waits for the event logger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// At the event: the call that had the outcome returns when its determinant is stable.
    Synchronous,
    /// At the next send, which waits for all that are outstanding: they travel and are answered together.
    #[default]
    BeforeNextSend,
    /// Never: the upper bound of what a logger can do. **A recovery may then be wrong.**
    Asynchronous,
}

/// The determinants that a rank has saved, and those that are known to be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding {
    mode: Mode,
    last: DeterminantId,
    stable: DeterminantId,
}

impl Outstanding {
    /// All determinants up to `last` are stable.
    pub fn new(mode: Mode, last: DeterminantId) -> Self {
        Self { mode, last, stable: last }
    }

    /// The id of a new determinant, which is to be saved.
    pub fn add(&mut self) -> DeterminantId {
        self.last += 1;
        self.last
    }

    /// The id of the last determinant; 0 before the first.
    pub fn last(&self) -> DeterminantId {
        self.last
    }

    /// The logger keeps all determinants up to this one. It may say so again, and late.
    pub fn acknowledge(&mut self, up_to: DeterminantId) {
        self.stable = self.stable.max(up_to.min(self.last));
    }

    /// Whether every determinant is stable: a checkpoint waits for it in every mode.
    pub fn is_empty(&self) -> bool {
        self.stable == self.last
    }

    /// Whether a send has to wait.
    pub fn holds_sends(&self) -> bool {
        self.mode != Mode::Asynchronous && !self.is_empty()
    }

    /// Whether the outcome of an event has to wait.
    pub fn holds_outcomes(&self) -> bool {
        self.mode == Mode::Synchronous && !self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_waits_at_its_place() {
        for (mode, sends, outcomes) in
            [(Mode::Synchronous, true, true), (Mode::BeforeNextSend, true, false), (Mode::Asynchronous, false, false)]
        {
            let mut outstanding = Outstanding::new(mode, 7);
            assert!(!outstanding.holds_sends() && !outstanding.holds_outcomes() && outstanding.is_empty());
            assert_eq!((outstanding.add(), outstanding.add()), (8, 9));
            outstanding.acknowledge(8);
            assert_eq!((outstanding.holds_sends(), outstanding.holds_outcomes()), (sends, outcomes), "{mode:?}");
            assert!(!outstanding.is_empty());
            outstanding.acknowledge(9);
            outstanding.acknowledge(8);
            assert!(!outstanding.holds_sends() && !outstanding.holds_outcomes() && outstanding.is_empty());
        }
    }

    #[test]
    fn an_answer_for_the_life_before_says_nothing_about_new_determinants() {
        let mut outstanding = Outstanding::new(Mode::BeforeNextSend, 3);
        outstanding.acknowledge(5);
        outstanding.add();
        assert!(outstanding.holds_sends());
    }
}
