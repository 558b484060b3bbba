//! Connects the daemon with ranks that take part in a group of recommended processes.

use propagation::Time;

use super::Daemon;

impl Daemon {
    /// Takes what ranks of this node have told.
    pub(super) fn hear_groups(&mut self, now: Time) {
        let Some(groups) = &mut self.groups else { return };
        groups.hear(now, &self.poller, &self.segment);
        for event in groups.take_news() {
            self.chronicle.note(now, event);
        }
    }

    pub(super) fn continue_groups(&mut self, now: Time) {
        if let Some(groups) = &mut self.groups {
            groups.go_on(now, &self.poller);
        }
    }
}
