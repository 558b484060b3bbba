//! A sort whose processes are killed and stopped, on the group that finds it.
//!
//! Each process works on the lists of its slots for some time, then exchanges them. When a member of its round leaves
//! the group it calls the round off. Files are there for all, and last.

use std::collections::BTreeMap;
use std::sync::Arc;

use recommended_group::units::{Counter, Rank};
use recommended_group::view::View;

use crate::hyperquicksort::plain::Value;
use crate::hyperquicksort::rounds::Files;
use crate::hyperquicksort::sorter::{Action, Message, Round, Sorter};
use crate::random::{Purpose, Stream};
use crate::recommended::run::{Call, Input, Observer, Run};
use crate::recommended::scenario::{Fate, Scenario};

const SECOND: u64 = 1_000_000_000;

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted {
    /// The lists of all slots.
    pub lists: Vec<Vec<Value>>,
    /// When the last round was complete, in seconds.
    pub seconds: f64,
    /// Views, one for each round and one more for each that was done again.
    pub views: u64,
}

/// To a program.
#[derive(Clone, Debug)]
enum Note {
    /// The work on the lists is done.
    Worked(Arc<View>),
    /// Of another process.
    Sort(Message),
}

struct Program {
    dimension: u32,
    /// Work on one list in a round, in nanoseconds.
    work: u64,
    sorters: Vec<Sorter>,
    /// By process: the view of its round, while it is in one.
    rounds: Vec<Option<Arc<View>>>,
    files: Files,
    /// By number: the views that ended the sort, with their time.
    ends: BTreeMap<u64, (u64, Arc<View>)>,
}

impl Program {
    fn sorted(&mut self, me: Rank, mut actions: Vec<Action>, calls: &mut Vec<Call<Note>>) {
        while !actions.is_empty() {
            let mut more = Vec::new();
            for action in actions {
                match action {
                    Action::Read { slot, epoch } => {
                        let list = self.files[&(slot, epoch)].clone();
                        self.sorters[me as usize].read(slot, list, &mut more);
                    }
                    Action::Write { slot, epoch, list } => {
                        self.files.insert((slot, epoch), list);
                    }
                    Action::Send { to, message } => calls.push(Call::Send(to, Note::Sort(message), 0)),
                    Action::Done => {
                        self.rounds[me as usize] = None;
                        calls.push(Call::Arrive(true));
                    }
                }
            }
            actions = more;
        }
    }
}

impl Observer<Note> for Program {
    fn program(&mut self, now: u64, me: Rank, input: Input<Note>, calls: &mut Vec<Call<Note>>) {
        match input {
            Input::Round(view) => {
                if view.round == u64::from(self.dimension) {
                    self.ends.entry(view.number).or_insert((now, view));
                    return;
                }
                let slots = self.sorters[me as usize].slots(&view.members).len() as u64;
                self.rounds[me as usize] = Some(view.clone());
                calls.push(Call::Send(me, Note::Worked(view), slots * self.work));
            }
            Input::Changed(rank, counter) => self.changed(me, rank, counter, calls),
            Input::Message(Note::Worked(view)) => {
                if self.rounds[me as usize].as_ref().is_some_and(|round| round.number == view.number) {
                    let s = self.dimension - view.round as u32;
                    let round = Round { epoch: view.number, base: view.base, s, members: view.members.clone() };
                    let mut out = Vec::new();
                    self.sorters[me as usize].begin(round, &mut out);
                    self.sorted(me, out, calls);
                }
            }
            Input::Message(Note::Sort(message)) => {
                let mut out = Vec::new();
                self.sorters[me as usize].receive(message, &mut out);
                self.sorted(me, out, calls);
            }
        }
    }
}

impl Program {
    /// A member of the round has left: what it owes does not come.
    fn changed(&mut self, me: Rank, rank: Rank, counter: Counter, calls: &mut Vec<Call<Note>>) {
        let round = &mut self.rounds[me as usize];
        let is_lost = |view: &Arc<View>| counter > view.counters[rank as usize] && view.members.contains(rank);
        if round.as_ref().is_some_and(is_lost) {
            *round = None;
            self.sorters[me as usize].call_off();
            calls.push(Call::Arrive(false));
        }
    }
}

/// The input of [`lossy`]: so many lists of up to five values.
#[must_use]
pub fn input(slots: u32, seed: u64) -> Vec<Vec<Value>> {
    let mut chance = Stream::new(seed, Purpose::Failures);
    let list = |_| {
        let length = chance.below(6);
        (0..length).map(|_| chance.below(40) as Value - 20).collect()
    };
    (0..slots).map(list).collect()
}

/// Of `count` processes `many` are killed or stopped at random moments between the 5th and the 15th second; stopped
/// ones go on 6 s later.
#[must_use]
pub fn lossy(count: u32, returns: bool, fate: Fate, many: u32, seed: u64) -> Scenario {
    let mut scenario = Scenario::quiet(count, 400);
    scenario.seed = seed;
    scenario.config.returns = returns;
    let mut chance = Stream::new(seed, Purpose::Failures);
    let mut ranks: Vec<Rank> = (0..count).collect();
    (1..ranks.len()).rev().for_each(|last| ranks.swap(last, chance.below(last as u64 + 1) as usize));
    for rank in &ranks[..many as usize] {
        let at = 5 * SECOND + chance.below(10 * SECOND);
        scenario.fates.push((at, *rank, fate));
        if fate == Fate::Stop {
            scenario.fates.push((at + 6 * SECOND, *rank, Fate::Resume));
        }
    }
    scenario
}

/// Sorts; each list takes `work` nanoseconds in each round. None: not within the scenario's time.
///
/// # Panics
/// If there is not one list for each process, or their number is no power of two.
#[must_use]
pub fn sort(scenario: &Scenario, lists: &[Vec<Value>], work: u64) -> Option<Sorted> {
    assert!(lists.len() == scenario.count as usize && lists.len().is_power_of_two(), "a list for each process");
    let dimension = lists.len().trailing_zeros();
    let input = (0..).zip(lists).map(|(slot, list)| {
        let mut list = list.clone();
        list.sort_unstable();
        ((slot, 0), list)
    });
    let mut program = Program {
        dimension,
        work,
        sorters: (0..scenario.count).map(|me| Sorter::new(me, dimension)).collect(),
        rounds: vec![None; lists.len()],
        files: input.collect(),
        ends: BTreeMap::new(),
    };
    let mut run = Run::new(scenario);
    let first = run.members()[0].view().clone();
    (0..scenario.count).for_each(|me| run.program(me, Input::Round(first.clone()), &mut program));
    let mut now = 0;
    while now < scenario.end && program.ends.is_empty() {
        now += SECOND;
        run.until(now, &mut program);
    }
    let (number, (end, view)) = program.ends.pop_first()?;
    let lists = (0..scenario.count).map(|slot| program.files[&(slot, view.base)].clone()).collect();
    Some(Sorted { lists, seconds: end as f64 / 1e9, views: number - 1 })
}
