//! Handles pauses of the job, and of this daemon.

use propagation::{Message, NodeId, Time};
use tracing::warn;

use super::{Daemon, Link};
use crate::history::{Event, micros, span};

impl Daemon {
    /// Reports to node 0 while all ranks of this node are stopped.
    pub(super) fn look_for_suspension(&mut self, now: Time) {
        if !self.link.is_ring() || !self.suspension.is_due(now) {
            return;
        }
        let Some(ranks) = self.watch.all_stopped(now, self.suspension.span(), &self.segment) else { return };
        if self.startup.me == 0 {
            self.suspension.report(0, now, ranks);
            self.excuse_if_suspended(now);
        } else {
            self.send(0, &Message::AllStopped { ranks });
        }
    }

    pub(super) fn hear_of_suspension(&mut self, now: Time, from: NodeId, message: &Message) {
        match *message {
            Message::JobSuspended if from == 0 => self.excuse(now),
            Message::AllStopped { ranks } if self.startup.me == 0 => {
                self.suspension.report(from, now, ranks);
                if self.excuse_if_suspended(now) {
                    if let Some(network) = &mut self.network {
                        network.send(from, &Message::JobSuspended);
                    }
                }
            }
            _ => {}
        }
    }

    /// At node 0: whether all ranks of the job are stopped. Then stopped ranks are not declared dead.
    fn excuse_if_suspended(&mut self, now: Time) -> bool {
        let nodes = self.job.nodes_with_ranks();
        let suspended = self.suspension.holds(nodes, now);
        if suspended {
            self.excuse(now);
        }
        suspended
    }

    fn excuse(&mut self, now: Time) {
        self.watch.excuse(now);
        self.runtime.excuse(now);
    }

    /// Handles a turn at `now` that was planned for `planned`.
    pub(super) fn note_lateness(&mut self, planned: Time, now: Time) {
        self.regularity.turned(planned, now);
        let late = now.saturating_sub(planned);
        if late > self.startup.launch.parameters.timeout / 2 {
            // On the ring the protocol detects this by its own deadlines.
            if let Link::Meeting(rendezvous) = &mut self.link {
                rendezvous.forgive(late);
            }
            warn!("ringwatchd was kept from running for {}", span(micros(late)));
            self.chronicle.note(now, Event::Late { us: micros(late) });
        }
    }
}
