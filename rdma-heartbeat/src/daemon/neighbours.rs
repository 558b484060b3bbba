//! Handles heartbeats that are flags.

use std::net::SocketAddr;

use propagation::{Message, NodeId, Time};

use super::{Daemon, Link};
use crate::ring::neighbours::{look, mind};

impl Daemon {
    pub(super) fn look_at_flag(&mut self, now: Time) {
        if let (Link::Ring(member), Some(network)) = (&mut self.link, &mut self.network) {
            look(member, &mut self.flags, network, now, &mut self.actions);
            self.regularity.look(member.emitter(), member.last_heartbeat());
            self.perform(now);
        }
    }

    pub(super) fn mind_flags(&mut self, now: Time, sender: (NodeId, SocketAddr), message: &Message) {
        if let (Link::Ring(member), Some(network), None) = (&self.link, &mut self.network, &self.ending) {
            mind(member, &mut self.flags, network, now, sender, message);
        }
    }
}
