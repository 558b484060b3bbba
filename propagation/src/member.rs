//! Runs one node's part in the protocol: the state machine.
//!
//! This file routes inputs and time to the parts of the machine, one file each:
//!
//! | file | part |
//! |---|---|
//! | `links` | the ring: outgoing and incoming heartbeats, closing the gap after a death (T1 to T4 of the paper) |
//! | `candidates` | questions to the nodes behind a silent emitter |
//! | `inquiry` | a member's questions to the arbiter: suspicions, probes, its own resignation; holding its ranks |
//! | `arbitration` | declaration of deaths, and answers to suspicions |
//! | `trial` | the arbiter's probes of a suspect |
//! | `announcement` | broadcasts: starting, forwarding, believing them (T5 of the paper) |
//! | `tree` | broadcasts over the tree instead of the paper's graph |
//! | `repetition` | repetition of announcements that may be lost with many nodes |
//! | `growth` | nodes that join, and nodes that leave in order |

mod announcement;
mod arbitration;
mod candidates;
mod growth;
mod inquiry;
mod links;
mod repetition;
mod tree;
mod trial;

use std::collections::BTreeSet;

use crate::action::{Action, StopReason};
use crate::broadcast::Broadcasts;
use crate::config::Config;
use crate::dead::Dead;
use crate::dead::Death;
use crate::message::BroadcastId;
use crate::message::{Message, NodeReason};
use crate::units::{NodeId, Time};
use inquiry::Inquiries;
use links::Links;
use repetition::Said;
use tree::Trees;
use trial::Trials;

/// One node's part in the protocol.
///
/// The caller passes messages ([`handle`](Self::handle)), the time when [`next_deadline`](Self::next_deadline) has come
/// ([`tick`](Self::tick)) and its own observations ([`announce_rank`](Self::announce_rank), [`resign`](Self::resign),
/// [`declare`](Self::declare), [`end`](Self::end), [`ready`](Self::ready), [`grow`](Self::grow),
/// [`leave`](Self::leave), [`keep_holding`](Self::keep_holding)). Each appends actions for the caller to `out`. The
/// time must not go back from call to call, and the deadline may change with each of them.
///
/// After [`Action::Stop`] the member does nothing more, with one exception: when the job ended, it still
/// passes that news on until it is [`drained`](Self::drained).
///
/// Memory is O(log n + dead nodes and ranks + nodes that ever broadcast + unacknowledged copies + nodes asked while the
/// emitter is silent), at the arbiter also O(nodes that are ready, or suspected, or were spared a short while ago).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    config: Config,
    dead: Dead,
    dead_ranks: BTreeSet<u32>,
    /// The deaths of ranks that this member has announced.
    said: Vec<Said>,
    links: Links,
    /// Whether the ranks of this node have passed MPI_Init.
    is_launched: bool,
    inquiries: Inquiries,
    /// At the arbiter: suspected nodes, and spared nodes.
    trials: Trials,
    broadcasts: Broadcasts,
    trees: Trees,
    /// Whether this member announced nodes that joined.
    is_sponsor: bool,
    /// Whether an earlier incarnation may have died before all nodes knew the deaths that it declared.
    owes_deaths: bool,
    /// The number of the next broadcast that starts here.
    next_seq: u64,
    /// At the arbiter: the nodes whose ranks are ready.
    ready: BTreeSet<NodeId>,
    stopped: Option<StopReason>,
}

impl Member {
    /// A member that joins the ring at `now`.
    ///
    /// `already_dead` lists deaths that an earlier member of this node knew. They are not delivered again, but nodes
    /// that may declare deaths announce them again. This node and ids outside the job are removed from it. The first
    /// heartbeat is due at once; the emitter gets `timeout` + `period` for its first one, because it may start later.
    ///
    /// # Panics
    ///
    /// If the settings are not [valid](Config::validate).
    pub fn new(config: Config, already_dead: impl IntoIterator<Item = NodeId>, now: Time) -> Member {
        if let Err(error) = config.validate() {
            panic!("invalid settings of a member: {error}");
        }
        let mut dead = Dead::default();
        let others = |&node: &NodeId| node < config.universe && node != config.me && Some(node) != config.arbiter;
        for node in already_dead.into_iter().filter(others) {
            let reason = NodeReason::Silent;
            dead.insert(Death { node, reason, at: now, announcer: config.me, suspector: None });
        }
        let links = Links::new(&config, &dead, now);
        let inquiries = Inquiries::new(&config, now);
        let declares = config.arbiter.is_none_or(|arbiter| arbiter == config.me);
        Member {
            owes_deaths: declares && !dead.list().is_empty(),
            config,
            dead,
            dead_ranks: BTreeSet::new(),
            said: Vec::new(),
            links,
            is_launched: false,
            inquiries,
            trials: Trials::default(),
            broadcasts: Broadcasts::default(),
            trees: Trees::default(),
            is_sponsor: false,
            next_seq: 0,
            ready: BTreeSet::new(),
            stopped: None,
        }
    }

    /// A member that only takes part in broadcasts, as if its neighbours on the ring stayed alive. For simulations; it
    /// sends no heartbeat and suspects no node.
    ///
    /// # Panics
    ///
    /// If the settings are not [valid](Config::validate).
    pub fn without_ring(config: Config, now: Time) -> Member {
        let mut member = Member::new(config, [], now);
        member.links = Links::none();
        member.inquiries = Inquiries::default();
        member
    }

    /// Handles a message from node `from`.
    ///
    /// Messages of unknown nodes are ignored. A dead node is notified of its death, and nothing it says is believed:
    /// its announcements from before its death also come from survivors that received them.
    pub fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Vec<Action>) {
        if let Message::Bundle(parts) = message {
            return parts.into_iter().for_each(|part| self.handle(now, from, part.into(), out));
        }
        let universe = match &message {
            // It may be the message by which this member learns of its sender.
            Message::Notice(notice) => notice.universe.max(self.config.universe),
            _ => self.config.universe,
        };
        if from == self.config.me || from >= universe {
            return;
        }
        if self.is_stopped() {
            self.drain(from, &message, out);
            return;
        }
        self.wake(now);
        if self.dead.contains(from) {
            self.tell_verdict(now, from, &message, out);
            return;
        }
        let ends_hold = self.config.arbiter == Some(from) && self.on_contact(now, out);
        match message {
            Message::Heartbeat { .. } => self.on_heartbeat(now, from, out),
            Message::NewObserver => self.on_new_observer(now, from, out),
            Message::Suspect { node } => self.on_suspect(now, from, node, out),
            Message::Notice(notice) => self.on_notice(now, from, notice, out),
            Message::Ack { source, incarnation, seq } => {
                self.on_ack(from, source, incarnation, seq);
            }
            Message::Probe => out.push(Action::Send { to: from, message: Message::ProbeReply }),
            Message::Verdict => self.stop_as_dead(out),
            Message::Ready => self.on_ready(from, out),
            Message::ReadyAck => self.inquiries.readiness_heard(),
            Message::ProbeReply => self.on_sign_of_life(now, from, out),
            Message::NewLife => self.on_new_life(now, from, out),
            Message::Spared { node } => self.on_spared(now, from, node, out),
            Message::Complete { source, incarnation, seq } => {
                self.on_complete(now, from, BroadcastId { source, incarnation, seq }, out);
            }
            Message::Done { source, incarnation, seq } => {
                self.on_done(BroadcastId { source, incarnation, seq }, out);
            }
            Message::Leave => self.on_leave(now, from, out),
            // Not for a member.
            Message::Hello { .. } | Message::Roster { .. } | Message::Records { .. } | Message::RecordsHeard { .. } => {
            }
            Message::AllStopped { .. }
            | Message::JobSuspended
            | Message::Transport { .. }
            | Message::Logger { .. }
            | Message::Group { .. } => {}
            // Unpacked above.
            Message::Bundle(_) => {}
        }
        if ends_hold && !self.is_stopped() {
            out.push(Action::Release);
        }
    }

    /// Notes that node `from` has raised a flag in this node's memory: a heartbeat without a message.
    ///
    /// The caller reads flags when it calls [`tick`](Self::tick) anyway, and before it does, so that a flag prevents a
    /// suspicion that is due at that moment.
    pub fn saw(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        if self.is_stopped() || self.emitter() != Some(from) {
            return;
        }
        self.wake(now);
        let ends_hold = self.config.arbiter == Some(from) && self.on_contact(now, out);
        self.on_heartbeat(now, from, out);
        if ends_hold {
            out.push(Action::Release);
        }
    }

    /// Does all work that is due at `now`; harmless at any time.
    pub fn tick(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.wake(now) {
            self.repeat_deaths(now, out);
            self.tick_links(now, out);
            self.tick_inquiries(now, out);
            self.tick_trials(now, out);
            self.tick_trees(now, out);
        }
        self.broadcasts.tick(now, self.config.resend_after(), out);
    }

    /// When to call [`tick`](Self::tick) next; [`Time::MAX`] for never.
    pub fn next_deadline(&self) -> Time {
        let broadcasts = self.broadcasts.deadline();
        if self.is_stopped() {
            return broadcasts;
        }
        let questions = self.inquiries.deadline().min(self.trials.deadline());
        broadcasts.min(self.trees.deadline()).min(self.links.deadline()).min(questions)
    }

    /// The present time between two heartbeats.
    pub fn period(&self) -> Time {
        if self.is_launched { self.config.period } else { self.config.launch_period }
    }

    /// The node whose heartbeats this one watches; `None` if it is alone.
    pub fn emitter(&self) -> Option<NodeId> {
        self.links.emitter()
    }

    /// The node that watches this one's heartbeats; `None` if it is alone.
    pub fn observer(&self) -> Option<NodeId> {
        self.links.observer()
    }

    /// The deaths this member knows of, in the order of the ids.
    pub fn dead(&self) -> impl Iterator<Item = &Death> {
        self.dead.iter()
    }

    /// When the last heartbeat of the present emitter came; `None` if none has.
    pub fn last_heartbeat(&self) -> Option<Time> {
        self.links.last_heartbeat()
    }

    /// The emitter, while this member suspects it and has no answer yet.
    pub fn suspect(&self) -> Option<NodeId> {
        let is_tried = |emitter: &NodeId| self.trials.is_open_for(*emitter, self.config.me);
        let is_suspected = |emitter: &NodeId| self.inquiries.suspects() || is_tried(emitter);
        self.links.emitter().filter(is_suspected)
    }

    /// Whether this member, the arbiter, is probing a suspect `node`.
    pub fn tries(&self, node: NodeId) -> bool {
        self.trials.is_open(node)
    }

    /// Whether this member has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Why this member has stopped; `None` while it takes part.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stopped
    }

    /// Whether this member has stopped and no other node needs it to forward the end of the job.
    pub fn drained(&self) -> bool {
        self.is_stopped() && self.broadcasts.is_idle()
    }

    /// The settings it was made with, and the number of nodes as it grows.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins every call except that of a stopped member, for which it returns false.
    ///
    /// If this process was paused, all waits are extended, because the silence was its own: this applies if it is
    /// called later than half a `timeout` after the deadline that it had requested. Heartbeats of that time may still
    /// be in transit, and a false suspicion costs a node. Nor could other nodes get the copies that it would have
    /// repeated.
    fn wake(&mut self, now: Time) -> bool {
        let latest = self.next_deadline().saturating_add(self.config.timeout / 2);
        if now > latest {
            self.links.forgive(now, &self.config);
            self.inquiries.forgive(now, self.config.confirm);
            self.trials.forgive(now, self.config.trial);
            self.forgive_broadcasts(now);
        }
        !self.is_stopped()
    }

    /// Stops because the other nodes have declared this node dead, possibly at its own request.
    fn stop_as_dead(&mut self, out: &mut Vec<Action>) {
        let reason = if self.inquiries.leaves() { StopReason::Left } else { StopReason::DeclaredDead };
        self.stop(reason, out);
    }

    fn stop(&mut self, reason: StopReason, out: &mut Vec<Action>) {
        if !matches!(reason, StopReason::Ended(_)) {
            self.broadcasts.clear();
        }
        self.trees.clear();
        self.stopped = Some(reason);
        out.push(Action::Stop(reason));
    }
}
