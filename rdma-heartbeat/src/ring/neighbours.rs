//! Connects the member, which knows the neighbours, with the transport for heartbeats that are flags.

use std::net::SocketAddr;

use node_abi::launch::{Carrier, LaunchData};
use propagation::{Action, Member, Message, NodeId, Time};
use tracing::{info, warn};

use crate::session::network::Network;
use crate::transport::{Flags, Thread, Verbs, Workshop};

/// The flags of node `me`, according to the job's parameters and the node's devices. `has_neighbours`: whether this
/// process sends the node's heartbeats.
#[must_use]
pub fn flags(launch: &LaunchData, me: NodeId, incarnation: u32, has_neighbours: bool) -> Flags {
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

/// Notifies the member if its emitter has raised a flag. Call it before the member's timers: a flag may prevent a
/// suspicion.
pub fn look(member: &mut Member, flags: &mut Flags, network: &mut Network, now: Time, actions: &mut Vec<Action>) {
    flags.settle(member.emitter(), member.observer());
    while let Some((to, word)) = flags.tend(now) {
        network.send(to, &Message::Transport { word });
    }
    if let Some(emitter) = flags.look(now) {
        member.saw(now, emitter, actions);
    }
}

/// Handles the part of a neighbour's message that concerns flags.
pub fn mind(
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
