//! Handles inputs of a service: from its host, and from other nodes.

use std::net::SocketAddr;

use propagation::{Action, Member, Message, NodeId, Time};
use tracing::info;

use super::{Link, Service, serving};
use crate::offload::{FromService, ToService};
use crate::ring::neighbours;
use crate::session::control::Received;
use crate::session::misplaced::is_misplaced;
use crate::session::network::DATAGRAMS_PER_TURN;
use crate::session::rendezvous::Step;

impl Service {
    pub(super) fn take_packets(&mut self, now: Time) {
        loop {
            match self.pipe.receive() {
                Received::Packet(packet) => {
                    self.host_seen = now;
                    self.obey(packet, now);
                }
                Received::Nothing => return,
                Received::Closed | Received::Unknown => {
                    if !std::mem::replace(&mut self.is_closed, true) {
                        info!(host = self.assignment.host.as_str(), "the host has hung up");
                        self.poller.remove(self.pipe.descriptor());
                    }
                    return;
                }
            }
        }
    }

    fn obey(&mut self, packet: ToService, now: Time) {
        let me = self.config.me;
        match packet {
            ToService::Beat => {
                if let Some(word) = self.host_flags.heard(now, me, self.host_address) {
                    self.pipe.send(&FromService::Word(word));
                }
            }
            ToService::Word(word) => {
                if let Some(answer) = self.host_flags.take(now, me, self.host_address, &word) {
                    self.pipe.send(&FromService::Word(answer));
                }
            }
            ToService::RankDead { rank, reason } => {
                self.with_member(now, |member, out| member.announce_rank(now, rank, reason, out));
            }
            ToService::Ready => self.with_member(now, |member, out| member.ready(now, out)),
            ToService::Resign => self.with_member(now, |member, out| member.resign(now, out)),
            ToService::Send { to, message } => self.network.send(to, &message),
        }
    }

    /// Lets the member act, if there is one, and carries out the actions.
    pub(super) fn with_member(&mut self, now: Time, act: impl FnOnce(&mut Member, &mut Vec<Action>)) {
        if let Link::Ring(member) = &mut self.link {
            act(member, &mut self.actions);
            self.perform(now);
        }
    }

    pub(super) fn take_datagrams(&mut self, now: Time) {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some(datagram) = self.network.receive() else { return };
            if let Some((from, address, message)) = datagram {
                self.take_message(now, from, address, message);
            }
        }
    }

    pub(super) fn take_heartbeats(&mut self, now: Time) {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some((datagram, at)) = self.network.receive_heartbeat(now) else { return };
            if let Some((from, address, message)) = datagram {
                self.take_message(at, from, address, message);
            }
        }
    }

    fn take_message(&mut self, now: Time, from: NodeId, address: SocketAddr, message: Message) {
        match &mut self.link {
            Link::Meeting(rendezvous) => {
                rendezvous.handle(from, address, &message, &mut self.steps);
                self.follow_steps(now);
            }
            Link::Ring(_) if is_for_the_host(&message) => self.pipe.send(&FromService::Arrived { from, message }),
            Link::Ring(member) => {
                neighbours::mind(member, &mut self.flags, &mut self.network, now, (from, address), &message);
                member.handle(now, from, message, &mut self.actions);
                self.perform(now);
            }
        }
    }

    pub(super) fn follow_steps(&mut self, now: Time) {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Send(to, address, message) => self.network.send_to(to, address, &message),
                Step::Complete(roster) => {
                    let startup = &self.assignment.startup;
                    if is_misplaced(&startup.launch, startup.me, &serving(&self.assignment.host), &roster) {
                        self.has_no_answer(now);
                    } else {
                        self.join(roster, now);
                    }
                }
                Step::Missing(_) | Step::Refused(_) | Step::NoAnswer => self.has_no_answer(now),
            }
        }
    }

    fn has_no_answer(&mut self, now: Time) {
        self.pipe.send(&FromService::NoAnswer);
        self.exit_by = now;
    }
}

/// Whether the protocol only forwards this message.
fn is_for_the_host(message: &Message) -> bool {
    matches!(
        message,
        Message::Records { .. }
            | Message::RecordsHeard { .. }
            | Message::AllStopped { .. }
            | Message::JobSuspended
            | Message::Logger { .. }
            | Message::Group { .. }
    )
}
