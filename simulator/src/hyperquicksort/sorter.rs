//! A process's part of a round as a state machine without I/O (steps R1 to R14).
//!
//! An epoch is the number of a view: a round that is done again has another one. Lists are sorted when the first round
//! begins.

use std::collections::BTreeMap;

use recommended_group::cluster::owner;
use recommended_group::group::Group;
use recommended_group::units::Rank;

use crate::hyperquicksort::plain::{Value, merge, pivot, split};

/// What processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Message {
    /// The pivot of a cluster.
    Pivot {
        /// The number of the view.
        epoch: u64,
        /// The lowest slot of the cluster.
        root: Rank,
        /// The pivot.
        value: Value,
    },
    /// A half of the list of the partner slot.
    Half {
        /// The number of the view.
        epoch: u64,
        /// The slot that gets it.
        slot: Rank,
        /// The values, sorted.
        list: Vec<Value>,
    },
}

impl Message {
    fn epoch(&self) -> u64 {
        let (Message::Pivot { epoch, .. } | Message::Half { epoch, .. }) = self;
        *epoch
    }
}

/// What the caller does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the file of a slot that was written in this epoch (0: the input), and hand it to [`Sorter::read`].
    Read {
        /// The slot.
        slot: Rank,
        /// The epoch.
        epoch: u64,
    },
    /// Write the file of a slot: all of it, or nothing.
    Write {
        /// The slot.
        slot: Rank,
        /// The epoch.
        epoch: u64,
        /// The list.
        list: Vec<Value>,
    },
    /// Send a message.
    Send {
        /// The receiver.
        to: Rank,
        /// The message.
        message: Message,
    },
    /// This process has done its part of the round: to the barrier.
    Done,
}

/// What a round is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The number of the view.
    pub epoch: u64,
    /// The epoch whose files it starts from.
    pub base: u64,
    /// Its number, from the dimension of the hypercube down to 1.
    pub s: u32,
    /// Who takes part.
    pub members: Group,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Sorter {
    me: Rank,
    dimension: u32,
    round: Option<Round>,
    /// The last epoch that has begun here.
    epoch: u64,
    /// By slot: the epoch in which this process wrote it, and the list.
    kept: BTreeMap<Rank, (u64, Vec<Value>)>,
    /// By own slot: its list, when it is known.
    lists: BTreeMap<Rank, Option<Vec<Value>>>,
    pivots: BTreeMap<Rank, Value>,
    /// By own slot: the part that stays.
    stays: BTreeMap<Rank, Vec<Value>>,
    /// By own slot: the part that has come.
    came: BTreeMap<Rank, Vec<Value>>,
    /// What came before its round.
    early: Vec<Message>,
}

impl Sorter {
    /// A process of 2^dimension.
    #[must_use]
    pub fn new(me: Rank, dimension: u32) -> Self {
        Self {
            me,
            dimension,
            round: None,
            epoch: 0,
            kept: BTreeMap::new(),
            lists: BTreeMap::new(),
            pivots: BTreeMap::new(),
            stays: BTreeMap::new(),
            came: BTreeMap::new(),
            early: Vec::new(),
        }
    }

    /// A round begins, of which this process is a member (R1 to R3). One that was not done is forgotten.
    pub fn begin(&mut self, round: Round, out: &mut Vec<Action>) {
        let mine = self.slots(&round.members);
        self.pivots.clear();
        self.stays.clear();
        self.came.clear();
        self.lists.clear();
        for slot in mine {
            let kept = self.kept.get(&slot).filter(|(epoch, _)| *epoch == round.base).map(|(_, list)| list.clone());
            if kept.is_none() {
                out.push(Action::Read { slot, epoch: round.base });
            }
            self.lists.insert(slot, kept);
        }
        let epoch = round.epoch;
        self.epoch = epoch;
        self.round = Some(round);
        self.tell_pivots(out);
        let early = std::mem::take(&mut self.early);
        for message in early.into_iter().filter(|message| message.epoch() >= epoch) {
            self.receive(message, out);
        }
        self.advance(out);
    }

    /// The slots that this process looks after when these take part.
    #[must_use]
    pub fn slots(&self, members: &Group) -> Vec<Rank> {
        let is_mine = |v: &Rank| owner(*v, self.dimension, |rank| members.contains(rank)) == Some(self.me);
        (0..1 << self.dimension).filter(is_mine).collect()
    }

    /// The round is not done by this process: what comes of it is of no use.
    pub fn call_off(&mut self) {
        self.round = None;
        self.lists.clear();
    }

    /// The file of a slot was read.
    pub fn read(&mut self, slot: Rank, list: Vec<Value>, out: &mut Vec<Action>) {
        if let Some(unknown) = self.lists.get_mut(&slot).filter(|list| list.is_none()) {
            *unknown = Some(list);
            self.tell_pivots(out);
            self.advance(out);
        }
    }

    /// A message has come.
    pub fn receive(&mut self, message: Message, out: &mut Vec<Action>) {
        if message.epoch() > self.epoch {
            return self.early.push(message);
        }
        if message.epoch() < self.epoch || self.round.is_none() {
            return;
        }
        match message {
            Message::Pivot { root, value, .. } => {
                self.pivots.insert(root, value);
            }
            Message::Half { slot, list, .. } => {
                self.came.insert(slot, list);
            }
        }
        self.advance(out);
    }

    fn owner_in(&self, round: &Round, slot: Rank) -> Option<Rank> {
        owner(slot, self.dimension, |rank| round.members.contains(rank))
    }

    /// R4 to R6: the owner of a cluster's lowest slot tells the pivot to the owners of all others.
    fn tell_pivots(&mut self, out: &mut Vec<Action>) {
        let Some(round) = self.round.clone() else { return };
        let size = 1 << round.s;
        let roots = self.lists.iter().filter(|(slot, _)| *slot % size == 0);
        let new: Vec<_> = roots
            .filter(|(root, _)| !self.pivots.contains_key(root))
            .filter_map(|(root, list)| Some((*root, pivot(list.as_ref()?))))
            .collect();
        for (root, value) in new {
            self.pivots.insert(root, value);
            let mut others = Group::none(1 << self.dimension);
            (root..root + size).filter_map(|slot| self.owner_in(&round, slot)).for_each(|rank| {
                others.insert(rank);
            });
            others.remove(self.me);
            let message = Message::Pivot { epoch: round.epoch, root, value };
            out.extend(others.iter().map(|to| Action::Send { to, message: message.clone() }));
        }
    }

    /// R8 to R13.
    fn advance(&mut self, out: &mut Vec<Action>) {
        let Some(round) = self.round.clone() else { return };
        let half = 1 << (round.s - 1);
        let can_split =
            |slot: &Rank| !self.stays.contains_key(slot) && self.pivots.contains_key(&(slot & !(2 * half - 1)));
        let ready: Vec<_> = self
            .lists
            .iter()
            .filter(|(slot, _)| can_split(slot))
            .filter_map(|(slot, list)| Some((*slot, split(list.as_ref()?, self.pivots[&(slot & !(2 * half - 1))]))))
            .collect();
        for (slot, (low, high)) in ready {
            let (stays, goes) = if slot & half == 0 { (low, high) } else { (high, low) };
            self.stays.insert(slot, stays);
            let other = slot ^ half;
            match self.owner_in(&round, other) {
                Some(to) if to == self.me => {
                    self.came.insert(other, goes);
                }
                Some(to) => {
                    out.push(Action::Send {
                        to,
                        message: Message::Half { epoch: round.epoch, slot: other, list: goes },
                    });
                }
                None => {}
            }
        }
        if self.lists.keys().all(|slot| self.stays.contains_key(slot) && self.came.contains_key(slot)) {
            self.finish(round.epoch, out);
        }
    }

    fn finish(&mut self, epoch: u64, out: &mut Vec<Action>) {
        for (slot, stays) in std::mem::take(&mut self.stays) {
            let list = merge(stays, &self.came[&slot]);
            self.kept.insert(slot, (epoch, list.clone()));
            out.push(Action::Write { slot, epoch, list });
        }
        self.lists.clear();
        self.round = None;
        out.push(Action::Done);
    }
}
