//! Tracks broadcasts under way: those that were seen, and copies that are not acknowledged yet.
//!
//! Any number of broadcasts run concurrently; none waits for another.

use std::sync::Arc;

use crate::action::Action;
use crate::message::{BroadcastId, Message, Notice};
use crate::units::{NodeId, Time};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broadcasts {
    /// Broadcasts that were seen. A fixed window per source would not suffice: a node that loses hundreds of ranks at
    /// once has hundreds of broadcasts under way, which may arrive in any order.
    seen: Ids,
    spreading: Vec<Spread>,
}

/// A broadcast with unacknowledged copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spread {
    notice: Arc<Notice>,
    /// The neighbours that have not shown yet that they have it.
    waiting: Vec<NodeId>,
    next: Time,
    until: Time,
}

impl Broadcasts {
    /// Marks a broadcast as seen; true the first time.
    pub fn first_time(&mut self, id: BroadcastId) -> bool {
        self.seen.insert(id)
    }

    /// Whether a broadcast was seen.
    pub fn knows(&self, id: BroadcastId) -> bool {
        self.seen.contains(id)
    }

    /// Sends a copy to each of `targets`, again every `resend` until it is acknowledged, but not after `until`.
    pub fn spread(
        &mut self,
        now: Time,
        resend: Time,
        until: Time,
        notice: Arc<Notice>,
        targets: Vec<NodeId>,
        out: &mut Vec<Action>,
    ) {
        if targets.is_empty() {
            return;
        }
        let spread = Spread { notice, waiting: targets, next: now.saturating_add(resend), until };
        spread.send(out);
        self.spreading.push(spread);
    }

    /// Handles an acknowledgement: `node` has this broadcast, because it said so or sent a copy itself.
    pub fn acknowledged(&mut self, id: BroadcastId, node: NodeId) {
        if let Some(spread) = self.spreading.iter_mut().find(|spread| spread.notice.id() == id) {
            spread.waiting.retain(|&waiting| waiting != node);
            self.drop_done();
        }
    }

    /// Sends all unacknowledged copies to `node`.
    pub fn repeat_to(&self, node: NodeId, out: &mut Vec<Action>) {
        for spread in self.spreading.iter().filter(|spread| spread.waiting.contains(&node)) {
            send(&spread.notice, &[node], out);
        }
    }

    /// Stops sending to `node`, which is dead.
    pub fn forget(&mut self, node: NodeId) {
        for spread in &mut self.spreading {
            spread.waiting.retain(|&waiting| waiting != node);
        }
        self.drop_done();
    }

    /// Gives up none before `until`, because no answer could have arrived recently.
    pub fn forgive(&mut self, until: Time) {
        for spread in &mut self.spreading {
            spread.until = spread.until.max(until);
        }
    }

    /// Gives up every broadcast except `id`, and that one at `until`.
    pub fn keep_only(&mut self, id: BroadcastId, until: Time) {
        self.spreading.retain(|spread| spread.notice.id() == id);
        for spread in &mut self.spreading {
            spread.until = spread.until.min(until);
        }
    }

    /// Gives up every broadcast.
    pub fn clear(&mut self) {
        self.spreading.clear();
    }

    /// Sends the copies that are due again.
    pub fn tick(&mut self, now: Time, resend: Time, out: &mut Vec<Action>) {
        self.spreading.retain(|spread| now < spread.until);
        for spread in &mut self.spreading {
            if now >= spread.next {
                spread.next = now.saturating_add(resend);
                spread.send(out);
            }
        }
    }

    /// Time at which [`tick`](Self::tick) has work.
    pub fn deadline(&self) -> Time {
        self.spreading.iter().map(|spread| spread.next.min(spread.until)).min().unwrap_or(Time::MAX)
    }

    /// Whether no copy is unacknowledged.
    pub fn is_idle(&self) -> bool {
        self.spreading.is_empty()
    }

    fn drop_done(&mut self) {
        self.spreading.retain(|spread| !spread.waiting.is_empty());
    }
}

impl Spread {
    fn send(&self, out: &mut Vec<Action>) {
        send(&self.notice, &self.waiting, out);
    }
}

/// Sends a copy to each of `targets`.
pub(crate) fn send(notice: &Arc<Notice>, targets: &[NodeId], out: &mut Vec<Action>) {
    out.extend(targets.iter().map(|&to| Action::Send { to, message: Message::Notice(Arc::clone(notice)) }));
}

/// A set of broadcasts. Those of one incarnation of a source become one range once all gaps are filled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ids {
    /// Ascending, disjoint and not adjacent. A flat list, because a member receives from few sources.
    ranges: Vec<Range>,
}

/// The broadcasts `first` to `last` of one incarnation of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Range {
    life: (NodeId, u32),
    first: u64,
    last: u64,
}

impl Ids {
    pub fn contains(&self, id: BroadcastId) -> bool {
        self.before(id).1
    }

    /// Number of ranges that begin at or before a broadcast, and whether the last of them contains it.
    fn before(&self, BroadcastId { source, incarnation, seq }: BroadcastId) -> (usize, bool) {
        let life = (source, incarnation);
        let place = self.ranges.partition_point(|range| (range.life, range.first) <= (life, seq));
        let holds = place > 0 && self.ranges[place - 1].life == life && self.ranges[place - 1].last >= seq;
        (place, holds)
    }

    /// Adds a broadcast; false if it was there.
    pub fn insert(&mut self, id: BroadcastId) -> bool {
        let (place, holds) = self.before(id);
        if holds {
            return false;
        }
        let BroadcastId { source, incarnation, seq } = id;
        let life = (source, incarnation);
        let ends_before = |range: &Range| range.life == life && range.last.checked_add(1) == Some(seq);
        let begins_after = |range: &Range| range.life == life && seq.checked_add(1) == Some(range.first);
        let joins_before = place > 0 && ends_before(&self.ranges[place - 1]);
        let joins_after = self.ranges.get(place).is_some_and(begins_after);
        match (joins_before, joins_after) {
            (true, true) => self.ranges[place - 1].last = self.ranges.remove(place).last,
            (true, false) => self.ranges[place - 1].last = seq,
            (false, true) => self.ranges[place].first = seq,
            (false, false) => self.ranges.insert(place, Range { life, first: seq, last: seq }),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Route, Subject};

    const MS: Time = Time::from_millis(1);

    fn notice(seq: u64) -> Arc<Notice> {
        let (subject, route) = (Subject::Doubt, Route::Circulant);
        let (dead, reasons) = (vec![], vec![]);
        Arc::new(Notice { source: 0, incarnation: 0, seq, subject, suspector: None, dead, reasons, universe: 8, route })
    }

    fn targets(out: &mut Vec<Action>) -> Vec<NodeId> {
        let target = |action| match action {
            Action::Send { to, message: Message::Notice(_) } => to,
            other => panic!("unexpected {other:?}"),
        };
        out.drain(..).map(target).collect()
    }

    #[test]
    fn copies_are_sent_again_until_acknowledged() {
        let (mut broadcasts, mut out) = (Broadcasts::default(), vec![]);
        broadcasts.spread(MS, 5 * MS, 100 * MS, notice(0), vec![1, 2, 3], &mut out);
        assert_eq!(targets(&mut out), [1, 2, 3]);
        assert_eq!(broadcasts.deadline(), 6 * MS);
        broadcasts.acknowledged(notice(0).id(), 2);
        broadcasts.acknowledged(notice(1).id(), 1);
        broadcasts.tick(6 * MS, 5 * MS, &mut out);
        assert_eq!(targets(&mut out), [1, 3]);
        broadcasts.forget(3);
        broadcasts.acknowledged(notice(0).id(), 1);
        assert!(broadcasts.is_idle());
        assert_eq!(broadcasts.deadline(), Time::MAX);
    }

    #[test]
    fn copies_are_given_up_in_the_end() {
        let (mut broadcasts, mut out) = (Broadcasts::default(), vec![]);
        broadcasts.spread(MS, 5 * MS, 8 * MS, notice(0), vec![1], &mut out);
        broadcasts.tick(6 * MS, 5 * MS, &mut out);
        assert_eq!(broadcasts.deadline(), 8 * MS);
        assert_eq!(targets(&mut out), [1, 1]);
        broadcasts.tick(8 * MS, 5 * MS, &mut out);
        assert!(out.is_empty() && broadcasts.is_idle());
    }

    #[test]
    fn broadcasts_do_not_wait_for_each_other() {
        let (mut broadcasts, mut out) = (Broadcasts::default(), vec![]);
        for seq in 0..3 {
            broadcasts.spread(MS, 5 * MS, 100 * MS, notice(seq), vec![1], &mut out);
        }
        assert_eq!(targets(&mut out), [1, 1, 1]);
        broadcasts.keep_only(notice(1).id(), 7 * MS);
        broadcasts.tick(6 * MS, 5 * MS, &mut out);
        assert_eq!(targets(&mut out), [1]);
        assert_eq!(broadcasts.deadline(), 7 * MS);
    }

    #[test]
    fn each_broadcast_is_new_once_in_any_order() {
        let mut broadcasts = Broadcasts::default();
        // 7 and 100 have no common divisor, so every number below 100 occurs once.
        for step in 0..100 {
            let id = notice(step * 7 % 100).id();
            assert!(broadcasts.first_time(id));
            assert!(!broadcasts.first_time(id));
        }
        assert_eq!(broadcasts.seen.ranges, [Range { life: (0, 0), first: 0, last: 99 }]);
        assert!(broadcasts.first_time(BroadcastId { incarnation: 1, ..notice(3).id() }));
        assert!(broadcasts.first_time(notice(u64::MAX).id()));
        assert!(broadcasts.first_time(notice(u64::MAX - 1).id()));
        assert!(!broadcasts.first_time(notice(u64::MAX).id()));
    }
}
