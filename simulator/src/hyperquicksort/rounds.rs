//! Rounds with any processes, any of which may be lost in the middle.

use std::collections::BTreeMap;

use recommended_group::group::Group;
use recommended_group::units::Rank;

use crate::hyperquicksort::plain::Value;
use crate::hyperquicksort::sorter::{Action, Message, Round, Sorter};
use crate::random::{Purpose, Stream};

/// Files of slots on a folder that all see: by slot and epoch.
pub type Files = BTreeMap<(Rank, u64), Vec<Value>>;

/// A sort under way.
pub struct Rounds {
    dimension: u32,
    sorters: Vec<Sorter>,
    /// The slots' files.
    pub files: Files,
    /// The epoch whose files are the present lists.
    pub base: u64,
    /// The number of the last view.
    pub epoch: u64,
    /// Messages under way.
    under_way: Vec<(Rank, Message)>,
    chance: Stream,
    /// Messages that were sent in the last round: sender, receiver, message.
    pub sent: Vec<(Rank, Rank, Message)>,
    /// Files that were read in the last round: reader, slot.
    pub reads: Vec<(Rank, Rank)>,
}

impl Rounds {
    /// The input, one list for each of 2^dimension slots; messages overtake each other as the seed has it.
    #[must_use]
    pub fn new(lists: &[Vec<Value>], seed: u64) -> Self {
        let dimension = lists.len().trailing_zeros();
        let sorted = lists.iter().map(|list| {
            let mut list = list.clone();
            list.sort_unstable();
            list
        });
        Self {
            dimension,
            sorters: (0..lists.len() as Rank).map(|me| Sorter::new(me, dimension)).collect(),
            files: (0..).zip(sorted).map(|(slot, list)| ((slot, 0), list)).collect(),
            base: 0,
            epoch: 0,
            under_way: Vec::new(),
            chance: Stream::new(seed, Purpose::Messages),
            sent: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// The lists as they are now.
    #[must_use]
    pub fn lists(&self) -> Vec<Vec<Value>> {
        (0..1 << self.dimension).map(|slot| self.files[&(slot, self.base)].clone()).collect()
    }

    /// Round `s` with these processes; `lost`: after so many steps of the round these do nothing any more, and what
    /// they have under way may come or not. Whether all have done their part; then the files are the present lists.
    pub fn round(&mut self, s: u32, members: &Group, lost: Option<(u64, &Group)>) -> bool {
        self.epoch += 1;
        self.sent.clear();
        self.reads.clear();
        let (mut done, mut steps) = (0, 0);
        let round = Round { epoch: self.epoch, base: self.base, s, members: members.clone() };
        let mut actions: Vec<(Rank, Action)> = Vec::new();
        let mut unbegun: Vec<Rank> = members.iter().collect();
        loop {
            let is_lost = |rank: Rank| lost.is_some_and(|(after, who)| steps >= after && who.contains(rank));
            let (mut out, who);
            if let Some((rank, action)) = actions.pop() {
                who = rank;
                if is_lost(rank) {
                    continue;
                }
                out = Vec::new();
                match action {
                    Action::Read { slot, epoch } => {
                        self.reads.push((rank, slot));
                        let list = self.files[&(slot, epoch)].clone();
                        self.sorters[rank as usize].read(slot, list, &mut out);
                    }
                    Action::Write { slot, epoch, list } => {
                        self.files.insert((slot, epoch), list);
                    }
                    Action::Send { to, message } => {
                        self.sent.push((rank, to, message.clone()));
                        self.under_way.push((to, message));
                    }
                    Action::Done => done += 1,
                }
            } else {
                let choices = (self.under_way.len() + unbegun.len()) as u64;
                if choices == 0 {
                    break;
                }
                let choice = self.chance.below(choices) as usize;
                out = Vec::new();
                if choice < self.under_way.len() {
                    let (to, message) = self.under_way.swap_remove(choice);
                    who = to;
                    if !is_lost(to) {
                        self.sorters[to as usize].receive(message, &mut out);
                    }
                } else {
                    who = unbegun.swap_remove(choice - self.under_way.len());
                    if !is_lost(who) {
                        self.sorters[who as usize].begin(round.clone(), &mut out);
                    }
                }
            }
            steps += 1;
            actions.extend(out.into_iter().rev().map(|action| (who, action)));
        }
        let is_complete = done == members.len();
        if is_complete {
            self.base = self.epoch;
            let base = self.base;
            self.files.retain(|(_, epoch), _| *epoch >= base);
        }
        is_complete
    }
}
