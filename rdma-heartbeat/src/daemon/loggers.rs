//! Connects the daemon with the event logger of this node.

use propagation::{Message, NodeId, Time};

use super::Daemon;

impl Daemon {
    /// Accepts calling ranks.
    pub(super) fn take_ranks(&mut self, now: Time) {
        if let Some(loggers) = &mut self.loggers {
            loggers.let_in(now, &self.poller, &self.segment);
        }
    }

    /// Handles packets of the rank with this connection.
    pub(super) fn hear_writer(&mut self, now: Time, number: u32) {
        if let Some(loggers) = &mut self.loggers {
            loggers.hear(now, number, &self.poller);
            for event in loggers.take_news() {
                self.chronicle.note(now, event);
            }
        }
    }

    /// Handles a message of another node's logger.
    pub(super) fn hear_logger(&mut self, now: Time, from: NodeId, message: &Message) {
        if let (Some(loggers), Message::Logger { word }) = (&mut self.loggers, message) {
            loggers.take(now, from, word);
        }
    }

    pub(super) fn continue_loggers(&mut self, now: Time) {
        if let Some(loggers) = &mut self.loggers {
            loggers.tick(now, &self.poller);
        }
    }

    /// Sends the logger's messages to other nodes.
    pub(super) fn flush_loggers(&mut self) {
        let Some(mut loggers) = self.loggers.take_if(|loggers| loggers.has_posted()) else { return };
        // Before there is a ring, addresses are unknown; lost messages are repeated.
        let has_ring = self.link.is_ring();
        loggers.flush(|to, word| {
            if has_ring {
                self.send(to, &Message::Logger { word });
            }
        });
        self.loggers = Some(loggers);
    }
}
