//! Heartbeats that are flags: between the member, which knows who the neighbours are, and the transport.

use std::net::SocketAddr;

use propagation::{Message, NodeId, Time};
use tracing::warn;

use super::{Daemon, Link};
use crate::launch::{Carrier, LaunchData};
use crate::transport::{Flags, Thread, Verbs, Workshop};

/// The flags of node `me`, by what the job's parameters allow and the node has.
pub(super) fn flags(launch: &LaunchData, me: NodeId, incarnation: u32) -> Flags {
    let parameters = &launch.parameters;
    let may = launch.universe > 1 && parameters.transport != Carrier::Udp;
    let verbs = if may { Verbs::new(parameters.period) } else { None };
    let thread = verbs.and_then(|verbs| {
        let thread = Thread::start(Box::new(verbs)).map_err(|error| warn!(%error, "heartbeats stay datagrams"));
        thread.ok().map(|thread| Box::new(thread) as Box<dyn Workshop>)
    });
    Flags::new(thread, parameters.transport == Carrier::Verbs, launch.key, me, incarnation, parameters.timeout)
}

impl Daemon {
    /// Tells the member if its emitter has raised a flag. Before the member's timers: a flag may spare its owner a
    /// suspicion.
    pub(super) fn look_at_flag(&mut self, now: Time) {
        let Link::Ring(member) = &mut self.link else { return };
        self.flags.settle(member.emitter(), member.observer());
        while let (Some((to, word)), Some(network)) = (self.flags.tend(now), &mut self.network) {
            network.send(to, &Message::Transport { word });
        }
        if let Some(emitter) = self.flags.look() {
            member.saw(now, emitter, &mut self.actions);
            self.perform(now);
        }
    }

    /// Takes from a neighbour's message what concerns flags.
    pub(super) fn mind_flags(&mut self, now: Time, from: NodeId, address: SocketAddr, message: &Message) {
        let Link::Ring(member) = &self.link else { return };
        if self.ending.is_some() {
            return;
        }
        self.flags.settle(member.emitter(), member.observer());
        let answer = match message {
            Message::Heartbeat { .. } => self.flags.heard(now, from, address),
            Message::Transport { word } => self.flags.take(now, from, address, word),
            Message::NewObserver => {
                self.flags.asked(from);
                None
            }
            _ => None,
        };
        if let (Some(word), Some(network)) = (answer, &mut self.network) {
            network.send(from, &Message::Transport { word });
        }
    }
}
