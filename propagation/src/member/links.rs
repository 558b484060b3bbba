//! The ring: heartbeats to the observer, heartbeats from the emitter, and closing the gap after a death.

use crate::dead::Dead;
use crate::{Action, Config, Message, NodeId, Time};

use super::Member;

/// A member's place in the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Links {
    /// Watches this node. `None` while it is alone, as for the emitter.
    observer: Option<NodeId>,
    next_heartbeat: Time,
    count: u64,
    /// Is watched by this node.
    emitter: Option<NodeId>,
    last_heartbeat: Option<Time>,
    /// When the emitter is suspected if nothing comes; `None` once that time has come.
    suspect_at: Option<Time>,
    /// When to tell the emitter again whom to report to; `None` once it does.
    next_new_observer: Option<Time>,
    /// It was given time because of a cut, and has not reported since.
    excused: bool,
    /// How often it was given time because this member was late itself, since it has reported, and when the last time.
    forgiven: (u32, Time),
}

/// So often in a row a member that is late itself gives its emitter time, where suspects are asked before they are declared:
/// one that is late again and again would never find a death otherwise.
const FORGIVENESS: u32 = 3;

impl Links {
    pub fn new(config: &Config, dead: &Dead, now: Time) -> Links {
        let is_dead = |node| dead.contains(node);
        let emitter = config.order.predecessor(config.universe, config.me, is_dead);
        let patience = config.timeout.saturating_add(config.period);
        Links {
            observer: config.order.successor(config.universe, config.me, is_dead),
            next_heartbeat: now,
            count: 0,
            emitter,
            last_heartbeat: None,
            suspect_at: emitter.map(|_| now.saturating_add(patience)),
            // After a restart the emitter may not know whom to report to: a death may have come in between.
            next_new_observer: (config.incarnation > 0 && emitter.is_some()).then_some(now),
            excused: false,
            forgiven: (0, Time::ZERO),
        }
    }

    /// No place: watches nobody and reports to nobody.
    pub fn none() -> Links {
        Links {
            observer: None,
            next_heartbeat: Time::MAX,
            count: 0,
            emitter: None,
            last_heartbeat: None,
            suspect_at: None,
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
        let due = [heartbeat, self.suspect_at, self.next_new_observer];
        due.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Whether the emitter still has time to report.
    pub fn waits(&self) -> bool {
        self.suspect_at.is_some()
    }

    /// Starts the suspicion timer again, for `patience` from now.
    pub fn trust(&mut self, now: Time, patience: Time) {
        self.suspect_at = self.emitter.map(|_| now.saturating_add(patience));
    }

    /// This member was late: lets a running suspicion timer run for another full timeout.
    pub fn forgive(&mut self, now: Time, config: &Config) {
        let (times, last) = self.forgiven;
        // What comes at once after it concerns the same time.
        let is_new = times == 0 || now >= last.saturating_add(config.timeout / 2);
        if times < FORGIVENESS || !is_new || !config.asks_suspects() {
            self.forgiven = (times.saturating_add(u32::from(is_new)), now);
            self.extend(now, config.timeout);
        }
    }

    fn extend(&mut self, now: Time, timeout: Time) {
        if let Some(at) = &mut self.suspect_at {
            *at = now.saturating_add(timeout).max(*at);
        }
    }

    /// A cut may have kept heartbeats away: the emitter has another `timeout`, once until it reports. Returns whether that was
    /// this time.
    pub fn excuse(&mut self, now: Time, timeout: Time) -> bool {
        let is_first = !std::mem::replace(&mut self.excused, true);
        if is_first {
            self.extend(now, timeout);
        }
        is_first
    }

    /// Whether the emitter was given that time, and has not reported since.
    pub fn is_excused(&self) -> bool {
        self.excused
    }

    /// Asks the emitter (again) for heartbeats.
    pub fn reconnect(&mut self, now: Time) {
        self.next_new_observer = self.emitter.map(|_| now);
    }

    /// T1: a heartbeat now, the next one a period after this one was due.
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
    pub(super) fn tick_links(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| now >= at);
        if now >= self.links.next_heartbeat {
            self.links.send_heartbeat(now, self.config.period, out);
        }
        if is_due(self.links.suspect_at) {
            self.links.suspect_at = None;
            // The timer bounds the reconnection, too: from here on the emitter is asked about, not asked.
            self.links.next_new_observer = None;
            self.suspect_emitter(now, out);
        }
        if is_due(self.links.next_new_observer) {
            self.send_new_observer(now, out);
        }
    }

    /// T2: the emitter is alive. Heartbeats of others are strays: of a node that has not learned yet of a
    /// death between itself and this one, or no longer knows of one.
    pub(super) fn on_heartbeat(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        if self.links.emitter != Some(from) {
            return;
        }
        self.links.last_heartbeat = Some(now);
        self.links.next_new_observer = None;
        self.links.excused = false;
        self.links.forgiven.0 = 0;
        self.links.trust(now, self.config.timeout);
        self.settle_suspicion(now, out);
    }

    /// `from` was started again and has refused what was meant for its former life: what it waits for is sent at once,
    /// all else when it is due again.
    pub(super) fn on_new_life(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        // It may have been the question of its trial.
        self.on_sign_of_life(now, from, out);
        if self.links.observer == Some(from) {
            self.links.send_heartbeat(now, self.config.period, out);
        }
        self.broadcasts.repeat_to(from, out);
    }

    /// The emitter is alive although it was suspected: it gets another timeout, and is told whom to report to.
    pub(super) fn watch_again(&mut self, now: Time, out: &mut Vec<Action>) {
        self.links.trust(now, self.config.timeout);
        self.links.reconnect(now);
        self.tick_links(now, out);
    }

    /// T4: `from` has found everybody between us dead.
    ///
    /// The last to say so wins, though a late copy may come from one that has died since: its death is about
    /// to be announced, and then [`close_gap`](Self::close_gap) finds the right one.
    pub(super) fn on_new_observer(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        self.links.observer = Some(from);
        self.links.send_heartbeat(now, self.config.period, out);
    }

    /// Replaces neighbours that are known to be dead.
    ///
    /// The paper has a node wait for its new observer to report. Here a node whose observer's death is
    /// announced turns to the next survivor at once, and one whose emitter's death was found by somebody else
    /// reconnects as if it had found it (T3): neither knows whether the other side has heard the news.
    pub(super) fn close_gap(&mut self, now: Time, out: &mut Vec<Action>) {
        let Config { me, universe, ref order, .. } = self.config;
        let is_dead = |node| self.dead.contains(node);
        if self.links.observer.is_some_and(is_dead) {
            self.links.observer = order.successor(universe, me, is_dead);
            self.links.send_heartbeat(now, self.config.period, out);
            self.inquiries.ask_again(now);
        }
        if self.links.emitter.is_some_and(is_dead) {
            let emitter = order.predecessor(universe, me, is_dead);
            self.watch(now, emitter, out);
        }
    }

    /// Nodes have joined: where they come between this one and a neighbour, they are the neighbours now.
    pub(super) fn make_room(&mut self, now: Time, out: &mut Vec<Action>) {
        let Config { me, universe, ref order, .. } = self.config;
        let is_dead = |node| self.dead.contains(node);
        let observer = order.successor(universe, me, is_dead);
        let emitter = order.predecessor(universe, me, is_dead);
        if observer != self.links.observer {
            self.links.observer = observer;
            self.links.send_heartbeat(now, self.config.period, out);
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
        // It must hear of its new observer first (T3): twice the timeout, unless it will be asked before it is declared.
        let timeouts = if self.config.asks_suspects() { 1 } else { 2 };
        self.links.trust(now, self.config.timeout.saturating_mul(timeouts));
        self.links.reconnect(now);
        self.send_new_observer(now, out);
    }

    fn send_new_observer(&mut self, now: Time, out: &mut Vec<Action>) {
        let emitter = self.links.emitter;
        self.links.next_new_observer = emitter.map(|_| now.saturating_add(self.config.resend_after()));
        out.extend(emitter.map(|to| Action::Send { to, message: Message::NewObserver }));
    }
}
