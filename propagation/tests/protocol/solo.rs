//! One member driven by hand.

use std::sync::Arc;

use propagation::{Action, Fact, Member, Message, NodeId, NodeReason, Notice, Route, Subject, Time};

use crate::{MS, config};

/// A member and what it asked for since it was last looked at.
pub struct Solo {
    pub member: Member,
    pub out: Vec<Action>,
    now: Time,
}

impl Solo {
    /// Node `me` of `universe`, started at time 0 and ticked once: its first heartbeat is out.
    pub fn new(me: NodeId, universe: u32, arbiter: Option<NodeId>) -> Solo {
        Solo::with(Member::new(config(me, universe, arbiter), [], Time::ZERO))
    }

    /// This member, started at time 0 and ticked once.
    pub fn with(member: Member) -> Solo {
        let mut solo = Solo::fresh(member);
        solo.member.tick(solo.now, &mut solo.out);
        solo.out.clear();
        solo
    }

    /// This member, started at time 0.
    pub fn fresh(member: Member) -> Solo {
        Solo { member, out: vec![], now: Time::ZERO }
    }

    /// Ticks at every deadline up to this many milliseconds.
    pub fn run(&mut self, until: u32) -> &mut Solo {
        while self.member.next_deadline() <= until * MS {
            self.now = self.member.next_deadline();
            self.member.tick(self.now, &mut self.out);
            assert!(self.member.next_deadline() > self.now, "a deadline that does not go away");
        }
        self.now = until * MS;
        self
    }

    /// Time passes while the process is paused.
    pub fn pause(&mut self, until: u32) -> &mut Solo {
        self.now = until * MS;
        self
    }

    pub fn hears(&mut self, from: NodeId, message: Message) -> &mut Solo {
        self.member.handle(self.now, from, message, &mut self.out);
        self
    }

    pub fn heartbeat(&mut self, from: NodeId) -> &mut Solo {
        self.hears(from, Message::Heartbeat { count: 1 })
    }

    /// Calls one of the member's own inputs.
    pub fn call(&mut self, input: impl FnOnce(&mut Member, Time, &mut Vec<Action>)) -> &mut Solo {
        input(&mut self.member, self.now, &mut self.out);
        self
    }

    /// Forgets what was asked for so far.
    pub fn skip(&mut self) -> &mut Solo {
        self.out.clear();
        self
    }

    /// What was asked for, without the heartbeats.
    pub fn asked(&mut self) -> Vec<Action> {
        let is_heartbeat = |action: &Action| matches!(action, Action::Send { message: Message::Heartbeat { .. }, .. });
        self.out.drain(..).filter(|action| !is_heartbeat(action)).collect()
    }

    /// The messages among it, without the heartbeats.
    pub fn sent(&mut self) -> Vec<(NodeId, Message)> {
        let sent = |action| match action {
            Action::Send { to, message } => Some((to, message)),
            _ => None,
        };
        self.asked().into_iter().filter_map(sent).collect()
    }

    /// The copies of broadcasts among it.
    pub fn copies(&mut self) -> Vec<(NodeId, Notice)> {
        let copy = |(to, message)| match message {
            Message::Notice(notice) => Some((to, Arc::unwrap_or_clone(notice))),
            _ => None,
        };
        self.sent().into_iter().filter_map(copy).collect()
    }

    /// The facts among it.
    pub fn facts(&mut self) -> Vec<Fact> {
        let fact = |action| match action {
            Action::Deliver(fact) => Some(fact),
            _ => None,
        };
        self.asked().into_iter().filter_map(fact).collect()
    }
}

/// A broadcast along the circulant graph of 8 nodes.
pub fn notice(source: NodeId, seq: u64, subject: Subject, dead: &[NodeId]) -> Notice {
    let (dead, route) = (dead.to_vec(), Route::Circulant);
    let reasons = if dead.is_empty() { vec![] } else { vec![(NodeReason::Silent, dead.len() as u32)] };
    Notice { source, incarnation: 0, seq, subject, suspector: None, dead, reasons, universe: 8, route }
}

pub fn copy(notice: Notice) -> Message {
    Message::Notice(Arc::new(notice))
}

/// The announcement that `node` is dead, by a source that holds `dead` dead.
pub fn obituary(source: NodeId, seq: u64, node: NodeId, dead: &[NodeId]) -> Message {
    let subject = Subject::Node { node, reason: NodeReason::Silent };
    copy(notice(source, seq, subject, dead))
}

pub fn ack(source: NodeId, seq: u64) -> Message {
    Message::Ack { source, incarnation: 0, seq }
}
