//! Rounds and barriers (A8).

use std::sync::Arc;

use super::state::Member;
use crate::action::Action;
use crate::test::Test;
use crate::view::View;

impl<T: Test> Member<T> {
    /// The program waits at the barrier, in the group or not. `went_well`: this process has done its part of the round.
    /// If anybody has not, or is lost, the next view is for the same round. The next [`Action::Round`] is for this
    /// call.
    pub fn arrive(&mut self, went_well: bool, out: &mut Vec<Action>) {
        self.barrier.arrive(went_well, &self.counters, out);
    }

    /// The last view that is agreed, as far as this process knows.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        self.barrier.view()
    }
}
