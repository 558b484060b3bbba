//! Every interleaving of two and three processes of one rank and three acceptors, with the real machines.
//!
//! No process of the rank knows whether the earlier one is dead: it may act at any moment, which includes that it never
//! does again. A message that was sent stays: it is delivered at any moment, as often as one likes, or never, so that
//! loss, copies, delay and any order are included, and acceptors that die. A write into memory may be cut off, and only
//! a part arrives. There is no clock: who waits asks again at any moment, which repeats messages that are there anyway,
//! or asks others.

use std::collections::{BTreeMap, BTreeSet};

use event_log::determinant::{Determinant, DeterminantId};
use event_log::logger::Action;
use event_log::logger::message::Message;
use event_log::logger::round::{Address, Position, Round};
use stateright::{Checker, Model, Property};

use super::deployment::{Kind, start, world};
use super::mutation::Mutation;
use super::network::{Letter, Process, World, determinant};

/// The lives of the rank, the first one first, and on whose acceptor's node each is.
const LIVES: [(Address, Address); 3] = [(100, 1), (101, 2), (102, 3)];

struct Job {
    kind: Kind,
    /// How many determinants each life saves at most; the first entry is of the first life.
    saves: &'static [u64],
    /// Whether each save is sent alone, or all of a life together.
    is_batch: bool,
    /// How often a life asks again at most.
    retries: u32,
    /// How often another replica becomes coordinator at most.
    take_overs: u32,
    /// How many writes are cut off at most.
    cuts: u32,
    /// Whether acceptors say that they refuse; without that a life neither takes a higher round nor stops.
    has_refusals: bool,
    mutation: Option<Mutation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    /// All messages that were ever sent.
    sent: BTreeSet<Letter>,
    /// The history of each life that may save.
    histories: BTreeMap<Address, Vec<Determinant>>,
    /// What somebody was told to be stable, and the lowest round that it was told in.
    stable: BTreeMap<DeterminantId, (Determinant, Round)>,
    /// What was returned, with the round of who recovered.
    recovered: BTreeMap<Address, (Round, Vec<Determinant>)>,
    retries: u32,
    take_overs: u32,
    cuts: u32,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Deliver(Letter),
    /// A write of which only a part arrives: this slot of it, and the beginning of all others.
    Cut(Letter, usize),
    Save(Address),
    Start(Address, Address),
    Retry(Address),
    TakeOver(Address),
    Forget(Address),
}

impl State {
    /// Takes what the machines have sent and told.
    fn look(&mut self) {
        for letter in std::mem::take(&mut self.world.in_flight) {
            self.sent.insert(Letter { delays: 0, ..letter });
        }
        self.world.sent = 0;
        for (who, action, _) in std::mem::take(&mut self.world.told) {
            let round = self.world.processes[&who].round();
            match action {
                Action::Stable(id) => self.stable(who, round, id),
                Action::Recovered(found) => {
                    let is_start = |life: &Vec<Determinant>| life.starts_with(&found);
                    if !found.is_empty() && !self.histories.values().any(is_start) {
                        self.broken = Some("a recovery mixes two lives, or has a gap");
                    }
                    let last = found.len() as u64;
                    self.histories.insert(who, found.clone());
                    self.recovered.insert(who, (round, found));
                    self.stable(who, round, last);
                    self.compare();
                }
                Action::Fenced if matches!(self.world.processes[&who], Process::Writer(_)) => {
                    self.world.act(who, |logger, out| logger.recover(Position::START, out))
                }
                _ => {}
            }
        }
        if !self.world.in_flight.is_empty() || !self.world.told.is_empty() {
            self.look();
        }
    }

    /// Leaves out messages without effect now and ever: answers to a rank of an earlier round or known to it, and
    /// requests whose answer is there or is such a one. A command may be for a replica that becomes coordinator later,
    /// so it stays.
    fn tidy(&mut self, has_refusals: bool) {
        let State { world, sent, .. } = self;
        // The answers to a message that changes nothing else.
        let probe = |letter: &Letter| {
            let receiver = world.processes.get(&letter.to)?;
            let (mut alone, mut out) = (receiver.clone(), vec![]);
            alone.handle(letter.from, letter.message.clone(), &mut out);
            let answers: Option<Vec<_>> = out
                .into_iter()
                .map(|action| match action {
                    Action::Send { to, message } => Some(Letter { from: letter.to, to, message, delays: 0 }),
                    _ => None,
                })
                .collect();
            answers.filter(|_| alone == *receiver)
        };
        let is_idle = |letter: &Letter| probe(letter).is_some_and(|out| out.is_empty());
        let idle: Vec<Letter> = sent
            .iter()
            .filter(|letter| !matches!(letter.message, Message::Command(_)))
            .filter(|letter| {
                let is_known = |answer: &Letter| {
                    let is_silent = !has_refusals && super::mutation::is_refusal(&answer.message);
                    is_silent
                        || sent.contains(answer)
                        || (LIVES.iter().any(|life| life.0 == answer.to) && is_idle(answer))
                };
                probe(letter).is_some_and(|out| out.iter().all(is_known))
            })
            .cloned()
            .collect();
        idle.iter().for_each(|letter| {
            sent.remove(letter);
        });
    }

    fn stable(&mut self, who: Address, round: Round, up_to: DeterminantId) {
        for determinant in &self.histories[&who][..up_to as usize] {
            let known = self.stable.entry(determinant.id).or_insert((*determinant, round));
            if known.0 != *determinant {
                self.broken = Some("two values of one id are stable");
            }
            known.1 = known.1.min(round);
        }
        self.compare();
    }

    /// What was stable for an earlier life is in every recovery of a later one.
    fn compare(&mut self) {
        for (round, found) in self.recovered.values() {
            for (determinant, _) in self.stable.values().filter(|(_, told)| told < round) {
                if found.get(determinant.id as usize - 1) != Some(determinant) {
                    self.broken = Some("a recovery lacks what was stable");
                }
            }
        }
    }
}

impl Model for Job {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut world = world(self.kind, 1);
        start(&mut world, self.kind, 1, LIVES[0].0, LIVES[0].1, true);
        world.settle();
        world.told.clear();
        let mut state = State {
            world,
            sent: [].into(),
            histories: [(LIVES[0].0, vec![])].into(),
            stable: [].into(),
            recovered: [].into(),
            retries: 0,
            take_overs: 0,
            cuts: 0,
            broken: None,
        };
        state.look();
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        for (&(me, own), &most) in LIVES.iter().zip(self.saves) {
            match state.histories.get(&me) {
                Some(history) => {
                    let saved = history.iter().filter(|one| one.source == me).count() as u64;
                    steps.extend((saved < most).then_some(Step::Save(me)));
                }
                None if !state.world.processes.contains_key(&me) => {
                    steps.push(Step::Start(me, own));
                    break;
                }
                None => {}
            }
            if state.retries < self.retries {
                steps.push(Step::Retry(me));
            }
        }
        if state.take_overs < self.take_overs {
            steps.extend([2, 3].map(Step::TakeOver));
        }
        if self.mutation == Some(Mutation::ForgottenState) {
            steps.extend([1, 2, 3].map(Step::Forget));
        }
        for letter in &state.sent {
            steps.push(Step::Deliver(letter.clone()));
            if state.cuts < self.cuts {
                let slots = super::mutation::slots(&letter.message);
                steps.extend((0..=slots).filter(|_| slots > 0).map(|whole| Step::Cut(letter.clone(), whole)));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Deliver(letter) => {
                // Each copy of a command has an instance of its own: there would be no end.
                if self.kind == Kind::Classic {
                    state.sent.remove(&letter);
                }
                match self.mutation {
                    Some(mutation) => mutation.deliver(&mut state.world, letter),
                    None => state.world.hand(letter),
                }
            }
            Step::Cut(letter, whole) => {
                state.cuts += 1;
                super::mutation::cut(&mut state.world, letter, whole, self.mutation);
            }
            Step::Save(me) => {
                let history = state.histories.get_mut(&me)?;
                let own = history.iter().filter(|one| one.source == me).count();
                let many = if self.is_batch {
                    self.saves[LIVES.iter().position(|life| life.0 == me)?] - own as u64
                } else {
                    1
                };
                for _ in 0..many {
                    let one = determinant(history.len() as u64 + 1, me);
                    history.push(one);
                    state.world.act(me, |logger, _| logger.save(one).expect("it is the next one"));
                }
                state.world.act(me, |logger, out| logger.flush(out));
            }
            Step::Start(me, own) => {
                start(&mut state.world, self.kind, 1, me, own, false);
                if self.kind != Kind::OneSided {
                    state.world.act(me, |logger, out| logger.recover(Position::START, out));
                }
            }
            Step::Retry(me) => {
                state.retries += 1;
                state.world.act(me, |logger, out| logger.retry(out));
            }
            Step::TakeOver(at) => {
                state.take_overs += 1;
                let mut out = vec![];
                state.world.replica(at).take_over(&mut out);
                state.world.carry_out(at, 0, out);
            }
            Step::Forget(at) => Mutation::forget(&mut state.world, at),
        }
        state.look();
        if !self.has_refusals {
            state.sent.retain(|letter| !super::mutation::is_refusal(&letter.message));
        }
        if !self.mutation.is_some_and(Mutation::acts_on_idle_messages) {
            state.tidy(self.has_refusals);
        }
        (state != *last).then_some(state)
    }

    /// Two lives that recover at the same time could take higher and higher rounds.
    fn within_boundary(&self, state: &State) -> bool {
        LIVES.iter().filter_map(|life| state.world.processes.get(&life.0)).all(|life| life.round().number <= 3)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what was stable is in every recovery, and all agree on it", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::sometimes("the last life recovers what the first one saved", |job: &Job, state: &State| {
                let last = LIVES[job.saves.len() - 1].0;
                state.recovered.get(&last).is_some_and(|(_, found)| found.iter().any(|one| one.source == LIVES[0].0))
            }),
            Property::sometimes("a replacement makes anew what it did not find", |job: &Job, state: &State| {
                job.saves[1..].iter().all(|saves| *saves == 0)
                    || state.stable.get(&1).is_some_and(|(one, _)| one.source != LIVES[0].0)
            }),
        ]
    }
}

impl Job {
    const fn new(kind: Kind, saves: &'static [u64]) -> Self {
        Self { kind, saves, is_batch: false, retries: 0, take_overs: 0, cuts: 0, has_refusals: true, mutation: None }
    }

    fn holds(self) {
        let name = format!(
            "{:?} {:?}, {} retries, {} take-overs, {} cuts",
            self.kind, self.saves, self.retries, self.take_overs, self.cuts
        );
        let started = std::time::Instant::now();
        let checker = self.checker().spawn_bfs().join();
        println!("{name}: {} states, {:?}", checker.unique_state_count(), started.elapsed());
        checker.assert_properties();
    }

    fn fails(self) {
        let name = format!("{:?} {:?}", self.mutation, self.kind);
        let started = std::time::Instant::now();
        let checker = self.checker().finish_when(stateright::HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!("{name}: {} states, {:?}", checker.unique_state_count(), started.elapsed());
        let found = checker.discovery("what was stable is in every recovery, and all agree on it");
        assert!(found.is_some(), "the model does not catch {name}");
    }
}

#[test]
fn parallel_for_every_interleaving_of_two_lives() {
    Job { retries: 1, ..Job::new(Kind::Parallel, &[2, 1]) }.holds();
    Job { retries: 1, ..Job::new(Kind::ParallelRemote, &[1, 1]) }.holds();
}

#[test]
fn parallel_for_every_interleaving_of_three_lives() {
    Job::new(Kind::Parallel, &[1, 1, 0]).holds();
    Job { is_batch: true, has_refusals: false, ..Job::new(Kind::ParallelRemote, &[2, 1, 0]) }.holds();
    Job { retries: 1, has_refusals: false, ..Job::new(Kind::Parallel, &[2, 1, 0]) }.holds();
}

#[test]
fn one_sided_for_every_interleaving_of_two_lives_with_two_writes_that_are_cut_off() {
    Job { cuts: 2, ..Job::new(Kind::OneSided, &[2, 1]) }.holds();
    Job { cuts: 1, retries: 1, is_batch: true, ..Job::new(Kind::OneSided, &[2, 1]) }.holds();
}

#[test]
fn one_sided_for_every_interleaving_of_three_lives_with_a_write_that_is_cut_off() {
    Job { cuts: 1, has_refusals: false, ..Job::new(Kind::OneSided, &[1, 0, 0]) }.holds();
    Job { cuts: 1, is_batch: true, has_refusals: false, ..Job::new(Kind::OneSided, &[2, 1, 0]) }.holds();
}

#[test]
fn classic_for_every_interleaving_of_two_lives_and_two_coordinators() {
    Job { take_overs: 1, ..Job::new(Kind::Classic, &[1, 1]) }.holds();
    Job { take_overs: 1, is_batch: true, ..Job::new(Kind::Classic, &[2, 0]) }.holds();
}

#[test]
#[ignore = "minutes"]
fn more_of_all() {
    Job { take_overs: 1, is_batch: true, retries: 1, ..Job::new(Kind::Classic, &[2, 0]) }.holds();
    Job { retries: 1, ..Job::new(Kind::Parallel, &[1, 0, 0]) }.holds();
    Job { take_overs: 1, ..Job::new(Kind::Classic, &[2, 1]) }.holds();
    Job { take_overs: 2, ..Job::new(Kind::Classic, &[1, 0]) }.holds();
    Job { has_refusals: false, retries: 1, ..Job::new(Kind::ParallelRemote, &[1, 1, 0]) }.holds();
    Job { has_refusals: false, cuts: 2, ..Job::new(Kind::OneSided, &[1, 1, 0]) }.holds();
}

#[test]
fn an_acceptor_that_forgets_is_caught() {
    Job { mutation: Some(Mutation::ForgottenPromise), ..Job::new(Kind::ParallelRemote, &[1, 0]) }.fails();
    Job { mutation: Some(Mutation::ForgottenState), ..Job::new(Kind::ParallelRemote, &[1, 0]) }.fails();
}

#[test]
fn a_quorum_that_is_too_small_is_caught() {
    Job { mutation: Some(Mutation::SmallQuorum), ..Job::new(Kind::ParallelRemote, &[1, 0]) }.fails();
}

#[test]
fn a_recovery_that_proposes_nothing_again_is_caught() {
    let job = Job { has_refusals: false, ..Job::new(Kind::ParallelRemote, &[1, 0, 0]) };
    Job { mutation: Some(Mutation::NotProposedAgain), ..job }.fails();
}

#[test]
fn entries_that_do_not_say_whose_they_are_are_caught() {
    let job = Job { is_batch: true, has_refusals: false, ..Job::new(Kind::ParallelRemote, &[2, 1, 0]) };
    Job { mutation: Some(Mutation::NoOrigin), ..job }.fails();
}

#[test]
fn a_writer_that_keeps_its_access_is_caught() {
    Job { mutation: Some(Mutation::AccessNotTaken), ..Job::new(Kind::OneSided, &[1, 0]) }.fails();
}

#[test]
fn a_write_over_the_only_copy_is_caught() {
    let job = Job { cuts: 1, has_refusals: false, ..Job::new(Kind::OneSided, &[1, 0, 0]) };
    Job { mutation: Some(Mutation::OnePlane), ..job }.fails();
}
