//! Heartbeats that are flags: between the member, which knows who the neighbours are, and the transport.

use std::net::SocketAddr;

use propagation::{Action, Member, Message, NodeId, Time};
use tracing::{info, warn};

use super::{Daemon, Link};
use crate::launch::{Carrier, LaunchData};
use crate::network::Network;
use crate::transport::{Flags, Thread, Verbs, Workshop};

/// The flags of node `me`, by what the job's parameters allow and the node has. `has_neighbours`: whether this process sends
/// its heartbeats.
pub(crate) fn flags(launch: &LaunchData, me: NodeId, incarnation: u32, has_neighbours: bool) -> Flags {
    let parameters = &launch.parameters;
    let may = has_neighbours && parameters.transport != Carrier::Udp;
    let verbs = if may { Verbs::new(parameters.period) } else { None };
    match parameters.transport {
        _ if !has_neighbours || verbs.is_some() => {}
        Carrier::Verbs => {
            warn!("verbs is asked for, but this node has no RDMA device: heartbeats from it and to it travel by UDP");
        }
        Carrier::Auto => info!("this node has no RDMA device: heartbeats from it and to it travel by UDP"),
        Carrier::Udp => info!("heartbeats from this node and to it travel by UDP, as is asked for"),
    }
    let thread = verbs.and_then(|verbs| {
        let thread = Thread::start(Box::new(verbs)).map_err(|error| warn!(%error, "heartbeats stay datagrams"));
        thread.ok().map(|thread| Box::new(thread) as Box<dyn Workshop>)
    });
    Flags::new(thread, parameters.transport == Carrier::Verbs, launch.key, me, incarnation, parameters.timeout)
}

/// Tells the member if its emitter has raised a flag. Before the member's timers: a flag may spare its owner a
/// suspicion.
pub(crate) fn look(
    member: &mut Member,
    flags: &mut Flags,
    network: &mut Network,
    now: Time,
    actions: &mut Vec<Action>,
) {
    flags.settle(member.emitter(), member.observer());
    while let Some((to, word)) = flags.tend(now) {
        network.send(to, &Message::Transport { word });
    }
    if let Some(emitter) = flags.look(now) {
        member.saw(now, emitter, actions);
    }
}

/// Takes from a neighbour's message what concerns flags.
pub(crate) fn mind(
    member: &Member,
    flags: &mut Flags,
    network: &mut Network,
    now: Time,
    (from, address): (NodeId, SocketAddr),
    message: &Message,
) {
    flags.settle(member.emitter(), member.observer());
    let answer = match message {
        Message::Heartbeat { .. } => flags.heard(now, from, address),
        Message::Transport { word } => flags.take(now, from, address, word),
        Message::NewObserver => {
            flags.asked(from);
            None
        }
        _ => None,
    };
    if let Some(word) = answer {
        network.send(from, &Message::Transport { word });
    }
}

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
