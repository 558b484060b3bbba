//! How the members agree on a view.
//!
//! The leader waits for all members of the present view that are still in the group, proposes the next view, and tells
//! that it is agreed when all its members in the group have accepted it. A new leader asks all of the group first, and
//! proposes again what one of them has accepted in the highest attempt. So it is Paxos where one answer is enough to
//! find a value and all are needed to choose one: a group may shrink to one process. Two groups that do not hear each
//! other may agree on different views; the attempts tell these apart.
//!
//! Nobody waits for a process that is not in the group, nor for one that has come back and whose program is not there
//! yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::Action;
use crate::counters::Counters;
use crate::group::Group;
use crate::message::Message;
use crate::units::Rank;
use crate::view::{Attempt, Report, View};

/// One process's part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Barrier {
    me: Rank,
    view: Arc<View>,
    arrived: Option<bool>,
    promised: Attempt,
    accepted: Option<(Attempt, Arc<View>)>,
    reign: Option<Reign>,
    /// Whether the leader proposes nothing for the moment.
    is_held: bool,
}

/// What a leader knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reign {
    attempt: Attempt,
    reports: BTreeMap<Rank, Arc<Report>>,
    /// The view that it proposes, and who has accepted it.
    proposal: Option<(Arc<View>, Group)>,
}

fn send(to: Rank, message: Message, out: &mut Vec<Action>) {
    out.push(Action::Send { to, message });
}

impl Barrier {
    /// At the beginning process 0 leads.
    #[must_use]
    pub fn new(me: Rank, count: u32) -> Self {
        let reign = Reign { attempt: (0, 0), reports: BTreeMap::new(), proposal: None };
        let view = Arc::new(View::first(count));
        Self {
            me,
            view,
            arrived: None,
            promised: (0, 0),
            accepted: None,
            reign: (me == 0).then_some(reign),
            is_held: false,
        }
    }

    /// The last view that is agreed.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The program waits.
    pub fn arrive(&mut self, went_well: bool, counters: &Counters, out: &mut Vec<Action>) {
        self.arrived = Some(went_well);
        self.report(counters, out);
        self.advance(counters, out);
    }

    /// Counters have changed.
    pub fn regroup(&mut self, counters: &Counters, out: &mut Vec<Action>) {
        if counters.leader() != Some(self.me) {
            self.reign = None;
        } else if self.reign.is_none() {
            self.begin_reign();
        }
        self.query(counters, out);
        self.advance(counters, out);
    }

    /// The group has become so small that the others may be about to say the same of it: no view is proposed until
    /// [`Barrier::release`].
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Whether no view is proposed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Goes on.
    pub fn release(&mut self, counters: &Counters, out: &mut Vec<Action>) {
        self.is_held = false;
        self.advance(counters, out);
    }

    /// Whether anybody waits, as far as this process knows.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        let waits =
            |reign: &Reign| reign.proposal.is_some() || reign.reports.values().any(|report| report.arrived.is_some());
        self.arrived.is_some() || self.reign.as_ref().is_some_and(waits)
    }

    /// Sends again what may be lost.
    pub fn retry(&mut self, counters: &Counters, out: &mut Vec<Action>) {
        self.report(counters, out);
        self.query(counters, out);
        self.install(counters, out);
    }

    /// Takes a message of the barrier.
    pub fn receive(&mut self, from: Rank, message: Message, counters: &Counters, out: &mut Vec<Action>) {
        let is_leader = counters.leader() == Some(from);
        match message {
            Message::Query(attempt) if is_leader => {
                self.promised = self.promised.max(attempt);
                send(from, Message::Report(self.state()), out);
            }
            Message::Report(report) => self.reported(from, report, counters, out),
            Message::Install { attempt, view } if is_leader && attempt >= self.promised => {
                if view.number <= self.view.number {
                    return send(from, Message::Commit(self.view.clone()), out);
                }
                let number = view.number;
                (self.promised, self.accepted) = (attempt, Some((attempt, view)));
                send(from, Message::Accepted { attempt, number }, out);
            }
            Message::Accepted { attempt, number } => {
                let Some(reign) = self.reign.as_mut().filter(|reign| reign.attempt == attempt) else { return };
                if let Some((_, acks)) = reign.proposal.as_mut().filter(|(view, _)| view.number == number) {
                    acks.insert(from);
                }
                self.advance(counters, out);
            }
            Message::Commit(view) if counters.group().contains(from) => {
                self.adopt(view, counters, out);
                self.advance(counters, out);
            }
            _ => {}
        }
    }

    /// Takes a view that is agreed.
    pub fn adopt(&mut self, view: Arc<View>, counters: &Counters, out: &mut Vec<Action>) {
        if view.number <= self.view.number {
            return;
        }
        self.view = view;
        self.accepted = None;
        if let Some(reign) = &mut self.reign {
            reign.proposal = None;
            // Who has come back and was not there takes part in none of the two rounds.
            reign.reports.retain(|rank, _| !self.view.members.contains(*rank));
        }
        if self.view.members.contains(self.me) {
            self.arrived = None;
            out.push(Action::Round(self.view.clone()));
            // The program may have been told of it before it knew that this matters.
            out.extend(self.view.lost(counters).map(|rank| Action::Changed { rank, counter: counters.get(rank) }));
        }
    }

    fn begin_reign(&mut self) {
        self.promised = (self.promised.0 + 1, self.me);
        self.reign = Some(Reign { attempt: self.promised, reports: BTreeMap::new(), proposal: None });
    }

    fn state(&self) -> Arc<Report> {
        let (view, accepted) = (self.view.clone(), self.accepted.clone());
        Arc::new(Report { promised: self.promised, view, accepted, arrived: self.arrived })
    }

    /// Tells the leader that the program waits.
    fn report(&self, counters: &Counters, out: &mut Vec<Action>) {
        let leader = counters.leader().filter(|leader| *leader != self.me && counters.group().contains(self.me));
        if let (Some(leader), Some(_)) = (leader, self.arrived) {
            send(leader, Message::Report(self.state()), out);
        }
    }

    /// Asks all of whom the leader knows nothing, unless they are in the round and will come by themselves.
    fn query(&self, counters: &Counters, out: &mut Vec<Action>) {
        let Some(reign) = &self.reign else { return };
        let is_first = reign.attempt == (0, 0);
        let is_expected = |rank: &Rank| is_first && self.view.members.contains(*rank);
        let unknown = self.others(counters).filter(|rank| !reign.reports.contains_key(rank) && !is_expected(rank));
        unknown.for_each(|rank| send(rank, Message::Query(reign.attempt), out));
    }

    fn others<'a>(&'a self, counters: &'a Counters) -> impl Iterator<Item = Rank> + 'a {
        counters.group().iter().filter(|rank| *rank != self.me)
    }

    fn reported(&mut self, from: Rank, report: Arc<Report>, counters: &Counters, out: &mut Vec<Action>) {
        if !counters.group().contains(from) || self.reign.is_none() {
            return;
        }
        self.adopt(report.view.clone(), counters, out);
        if report.view.number < self.view.number {
            // It is asked again with the next interval.
            return send(from, Message::Commit(self.view.clone()), out);
        }
        self.promised = self.promised.max(report.promised);
        if self.reign.as_ref().is_some_and(|reign| report.promised > reign.attempt) {
            self.begin_reign();
            return self.query(counters, out);
        }
        let Some(reign) = &mut self.reign else { return };
        if report.promised < reign.attempt {
            return send(from, Message::Query(reign.attempt), out);
        }
        reign.reports.insert(from, report);
        self.advance(counters, out);
    }

    /// Goes on as the leader as far as it can.
    fn advance(&mut self, counters: &Counters, out: &mut Vec<Action>) {
        if self.is_held {
            return;
        }
        if self.reign.as_ref().is_some_and(|reign| reign.proposal.is_none()) {
            let Some(view) = self.next_view(counters) else { return };
            let reign = self.reign.as_mut().expect("it leads");
            self.accepted = Some((reign.attempt, view.clone()));
            let acks = Group::of(view.counters.len() as u32, [self.me]);
            reign.proposal = Some((view, acks));
            self.install(counters, out);
        }
        let Some((view, acks)) = self.reign.as_ref().and_then(|reign| reign.proposal.as_ref()) else { return };
        if self.others(counters).all(|rank| acks.contains(rank) || !view.members.contains(rank)) {
            let view = view.clone();
            self.others(counters).for_each(|rank| send(rank, Message::Commit(view.clone()), out));
            self.adopt(view, counters, out);
        }
    }

    /// Proposes the view to those who have not accepted it.
    fn install(&self, counters: &Counters, out: &mut Vec<Action>) {
        let Some(reign) = &self.reign else { return };
        let Some((view, acks)) = &reign.proposal else { return };
        let silent = self.others(counters).filter(|rank| view.members.contains(*rank) && !acks.contains(*rank));
        silent.for_each(|rank| send(rank, Message::Install { attempt: reign.attempt, view: view.clone() }, out));
    }

    /// The view to propose, if the leader knows enough: one that somebody may have been told, or a new one.
    fn next_view(&self, counters: &Counters) -> Option<Arc<View>> {
        let reign = self.reign.as_ref()?;
        if !self.others(counters).all(|rank| reign.reports.contains_key(&rank)) {
            return None;
        }
        let number = self.view.number + 1;
        let reported = reign.reports.iter().filter(|(rank, _)| counters.group().contains(**rank));
        let known = reported.clone().filter_map(|(_, report)| report.accepted.as_ref()).chain(&self.accepted);
        if let Some((_, view)) = known.filter(|(_, view)| view.number == number).max_by_key(|(attempt, _)| *attempt) {
            return Some(view.clone());
        }
        let mut arrived: BTreeMap<Rank, bool> =
            reported.filter_map(|(rank, report)| Some((*rank, report.arrived?))).collect();
        arrived.extend(self.arrived.map(|went_well| (self.me, went_well)));
        let is_awaited = |rank: Rank| self.view.members.contains(rank) && !arrived.contains_key(&rank);
        if arrived.is_empty() || counters.group().iter().any(is_awaited) {
            return None;
        }
        let is_complete = self.view.members.iter().all(|rank| arrived.get(&rank) == Some(&true));
        Some(Arc::new(View {
            number,
            attempt: reign.attempt,
            round: self.view.round + u64::from(is_complete),
            base: if is_complete { self.view.number } else { self.view.base },
            members: Group::of(counters.values().len() as u32, arrived.into_keys()),
            counters: counters.values().to_vec(),
        }))
    }
}
