//! Runs the ring: heartbeats to the observer, heartbeats from the emitter, and closing the gap after a death.

use crate::action::Action;
use crate::config::Config;
use crate::dead::Dead;
use crate::message::Message;
use crate::units::{NodeId, Time};

use super::Member;
use super::candidates::Candidates;

/// A member's place in the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Links {
    /// The node that watches this one. `None` while it is alone, as for the emitter.
    observer: Option<NodeId>,
    next_heartbeat: Time,
    count: u64,
    /// The node that this one watches.
    emitter: Option<NodeId>,
    last_heartbeat: Option<Time>,
    /// When the emitter is suspected without a heartbeat; `None` once that time has come.
    suspect_at: Option<Time>,
    /// The nodes of which one is the next emitter, if this one is dead.
    pub(super) candidates: Candidates,
    /// When to notify the emitter again of its observer; `None` once it reports.
    next_new_observer: Option<Time>,
    /// Whether it got more time because of a disconnection, and has not reported since.
    excused: bool,
    /// Number of extensions since its last report because this member was late itself, and the time of the last one.
    forgiven: (u32, Time),
}

/// Maximum number of consecutive extensions by a member that is late itself, if suspects are probed before they are
/// declared: a member that is always late would otherwise never detect a death.
const FORGIVENESS: u32 = 3;

impl Links {
    pub fn new(config: &Config, dead: &Dead, now: Time) -> Links {
        let is_dead = |node| dead.contains(node);
        let emitter = config.order.predecessor(config.universe, config.me, is_dead);
        let suspect_at = emitter.map(|_| now.saturating_add(config.timeout).saturating_add(config.period));
        Links {
            observer: config.order.successor(config.universe, config.me, is_dead),
            next_heartbeat: now,
            count: 0,
            emitter,
            last_heartbeat: None,
            suspect_at,
            candidates: Candidates::new(config, suspect_at),
            // After a restart the emitter may not know its observer: a death may have occurred in between.
            next_new_observer: (config.incarnation > 0 && emitter.is_some()).then_some(now),
            excused: false,
            forgiven: (0, Time::ZERO),
        }
    }

    /// No place: watches no node and reports to none.
    pub fn none() -> Links {
        Links {
            observer: None,
            next_heartbeat: Time::MAX,
            count: 0,
            emitter: None,
            last_heartbeat: None,
            suspect_at: None,
            candidates: Candidates::none(),
            next_new_observer: None,
            excused: false,
            forgiven: (0, Time::ZERO),
        }
    }

    pub fn emitter(&self) -> Option<NodeId> {
        self.emitter
    }

    pub fn observer(&self) -> Option<NodeId> {
        self.observer
    }

    pub fn last_heartbeat(&self) -> Option<Time> {
        self.last_heartbeat
    }

    pub fn deadline(&self) -> Time {
        let heartbeat = self.observer.map(|_| self.next_heartbeat);
        let due = [heartbeat, self.suspect_at, self.candidates.next(), self.next_new_observer];
        due.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// The nodes that are suspected if the emitter is: it and the candidates whose time is over. Farthest first, so
    /// that the ring closes once when they are declared in this order.
    pub fn suspects(&self, now: Time) -> Vec<NodeId> {
        self.candidates.silent(now).iter().rev().copied().chain(self.emitter).collect()
    }

    /// Whether the emitter still has time to report.
    pub fn waits(&self) -> bool {
        self.suspect_at.is_some()
    }

    /// Restarts the suspicion timer, for so many timeouts from now.
    fn trust(&mut self, now: Time, timeouts: u32, config: &Config) {
        self.suspect_at = self.emitter.map(|_| now.saturating_add(config.timeout.saturating_mul(timeouts)));
        self.candidates = Candidates::new(config, self.suspect_at);
    }

    /// Extends a running suspicion timer by another full timeout, because this member was late, and asks the candidates
    /// anew.
    pub fn forgive(&mut self, now: Time, config: &Config) {
        let (times, last) = self.forgiven;
        // An immediate repetition concerns the same time.
        let is_new = times == 0 || now >= last.saturating_add(config.timeout / 2);
        if times < FORGIVENESS || !is_new || !config.asks_suspects() {
            self.forgiven = (times.saturating_add(u32::from(is_new)), now);
            self.extend(now, config.timeout);
        }
        self.ask_anew(now, config);
    }

    /// Begins the candidates' time anew, because their silence may have been this member's own; at once if the emitter
    /// has no more time.
    pub fn ask_anew(&mut self, now: Time, config: &Config) {
        self.candidates = Candidates::new(config, self.suspect_at.or(self.emitter.map(|_| now)));
    }

    fn extend(&mut self, now: Time, timeout: Time) {
        if let Some(at) = &mut self.suspect_at {
            *at = now.saturating_add(timeout).max(*at);
        }
    }

    /// Extends the emitter's time by another `timeout`, because a disconnection may have suppressed heartbeats; once
    /// until it reports. Returns whether that was done now.
    pub fn excuse(&mut self, now: Time, timeout: Time) -> bool {
        let is_first = !std::mem::replace(&mut self.excused, true);
        if is_first {
            self.extend(now, timeout);
        }
        is_first
    }

    /// Whether the emitter got that extension, and has not reported since.
    pub fn is_excused(&self) -> bool {
        self.excused
    }

    /// Asks the emitter (again) for heartbeats.
    pub fn reconnect(&mut self, now: Time) {
        self.next_new_observer = self.emitter.map(|_| now);
    }

    /// T1: sends a heartbeat now; the next one is due a period after this one was.
    fn send_heartbeat(&mut self, now: Time, period: Time, out: &mut Vec<Action>) {
        let Some(to) = self.observer else { return };
        self.count += 1;
        out.push(Action::Send { to, message: Message::Heartbeat { count: self.count } });
        let due = self.next_heartbeat;
        let in_step = due.saturating_add(period);
        // Out of step (late by a period, or sent before it was due): start anew instead of sending a burst.
        let fits = now >= due && now < in_step;
        self.next_heartbeat = if fits { in_step } else { now.saturating_add(period) };
    }
}

impl Member {
    /// Sends heartbeats at the full rate from now on.
    pub(super) fn speed_up(&mut self, now: Time) {
        if !std::mem::replace(&mut self.is_launched, true) {
            self.links.next_heartbeat = self.links.next_heartbeat.min(now.saturating_add(self.config.period));
        }
    }

    pub(super) fn tick_links(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| now >= at);
        if now >= self.links.next_heartbeat {
            self.links.send_heartbeat(now, self.period(), out);
        }
        if is_due(self.links.suspect_at) {
            self.links.suspect_at = None;
            // The timer also bounds the reconnection: from here on the arbiter is asked.
            self.links.next_new_observer = None;
            self.suspect_emitter(now, out);
        }
        if is_due(self.links.next_new_observer) {
            self.send_new_observer(now, out);
        }
        self.tick_candidates(now, out);
    }

    /// T2: handles a heartbeat. Heartbeats of other nodes than the emitter are strays: their sender does not know yet
    /// of a death between itself and this node, or no longer knows of one. They only show that it is alive.
    pub(super) fn on_heartbeat(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        if self.links.emitter != Some(from) {
            self.links.candidates.heard(from);
            return;
        }
        self.links.last_heartbeat = Some(now);
        self.links.next_new_observer = None;
        self.links.excused = false;
        self.links.forgiven.0 = 0;
        self.links.trust(now, 1, &self.config);
        self.settle_suspicion(now, out);
    }

    /// Handles a restarted node `from`, which has refused a message to its earlier incarnation: expected messages are
    /// repeated at once, all others when they are due again.
    pub(super) fn on_new_life(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        // It may have been the question of its trial.
        self.on_sign_of_life(now, from, out);
        if self.links.observer == Some(from) {
            self.links.send_heartbeat(now, self.period(), out);
        }
        self.broadcasts.repeat_to(from, out);
    }

    /// Handles an emitter that is alive although it was suspected: it gets another timeout, and learns its observer
    /// again.
    pub(super) fn watch_again(&mut self, now: Time, out: &mut Vec<Action>) {
        self.links.trust(now, 1, &self.config);
        self.links.reconnect(now);
        self.tick_links(now, out);
    }

    /// T4: handles a new observer `from`, which has found all nodes in between dead.
    ///
    /// The last one wins, though a late copy may come from a node that has died since: its death is about to be
    /// announced, and then [`close_gap`](Self::close_gap) finds the right one.
    pub(super) fn on_new_observer(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        self.links.observer = Some(from);
        self.links.send_heartbeat(now, self.period(), out);
    }

    /// The node that `node` watches, as far as this member knows.
    pub(super) fn predecessor(&self, node: NodeId) -> Option<NodeId> {
        self.config.order.predecessor(self.config.universe, node, |node| self.dead.contains(node))
    }

    /// Replaces neighbours that are known to be dead.
    ///
    /// In the paper a node waits for its new observer to report. Here a node whose observer's death is announced
    /// reports to the next survivor at once, and a node whose emitter's death was found by another node reconnects as
    /// if it had found it (T3): neither knows whether the other side has the news.
    pub(super) fn close_gap(&mut self, now: Time, out: &mut Vec<Action>) {
        let Config { me, universe, ref order, .. } = self.config;
        let is_dead = |node| self.dead.contains(node);
        if self.links.observer.is_some_and(is_dead) {
            self.links.observer = order.successor(universe, me, is_dead);
            self.links.send_heartbeat(now, self.period(), out);
            self.inquiries.ask_again(now);
        }
        if self.links.emitter.is_some_and(is_dead) {
            let emitter = self.predecessor(me);
            self.watch(now, emitter, out);
        }
    }

    /// Handles nodes that have joined: if they are between this node and a neighbour, they become the neighbours.
    pub(super) fn make_room(&mut self, now: Time, out: &mut Vec<Action>) {
        let Config { me, universe, ref order, .. } = self.config;
        let is_dead = |node| self.dead.contains(node);
        let observer = order.successor(universe, me, is_dead);
        let emitter = self.predecessor(me);
        if observer != self.links.observer {
            self.links.observer = observer;
            self.links.send_heartbeat(now, self.period(), out);
        }
        if emitter != self.links.emitter {
            self.watch(now, emitter, out);
        }
    }

    fn watch(&mut self, now: Time, emitter: Option<NodeId>, out: &mut Vec<Action>) {
        self.links.emitter = emitter;
        self.links.last_heartbeat = None;
        self.links.excused = false;
        self.links.forgiven.0 = 0;
        self.settle_suspicion(now, out);
        if let Some(until) = self.links.candidates.promote(emitter) {
            // Its timeout has begun when it was asked. A time long ago would count as a pause of this member.
            self.links.suspect_at = Some(until.max(now));
        } else {
            // It must learn of its new observer first (T3): twice the timeout, unless it is probed before it is
            // declared.
            let timeouts = if self.config.asks_suspects() { 1 } else { 2 };
            self.links.trust(now, timeouts, &self.config);
        }
        self.links.reconnect(now);
        self.send_new_observer(now, out);
    }

    fn send_new_observer(&mut self, now: Time, out: &mut Vec<Action>) {
        let emitter = self.links.emitter;
        self.links.next_new_observer = emitter.map(|_| now.saturating_add(self.config.resend_after()));
        out.extend(emitter.map(|to| Action::Send { to, message: Message::NewObserver }));
    }
}
