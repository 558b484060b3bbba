//! Whole jobs through whatever may happen: loss, duplication and reordering, deaths, resignations, pauses, restarts,
//! clocks that jump, and networks that fall apart and heal. What happens is a function of the seed alone.
//!
//! Every second seed keeps to what the protocol assumes, and then nobody alive may be declared. The others do not:
//! there somebody may have to go, but never a node of the arbiter's side that nothing has happened to.
//!
//! `CHAOS_SEED=17 cargo test -p propagation --test protocol chaos::one_seed -- --nocapture` runs one again.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use propagation::Strategy as Spreading;
use propagation::{Config, EndReason, Member, NodeId, RankReason, StopReason, Subject};

use crate::network::{Network, Node, Random};

/// Milliseconds in which things happen.
const STORM: u64 = 400;
/// Milliseconds of silence, of any cause, that the protocol must bear: a node that shares another's doubt waits 70 for
/// a word of the arbiter, of which it takes some to ask again and to hear it.
const BEARABLE: u64 = 50;
/// Microseconds that a message may take if a suspect is to answer within its trial of 10 ms.
const ANSWERABLE: u64 = 4_000;

/// Makes of a seed the one of who joins and leaves, so that the rest of a plan does not depend on that.
const MEMBERSHIP: u64 = 0x6a01_6e5e_6c65_6176;

#[derive(Clone, Debug)]
enum Event {
    Kill(NodeId),
    /// A node's runtime is gone, and it asks to be declared dead.
    Resign(NodeId),
    /// A rank of the node dies.
    Rank(NodeId, u32),
    Restart(NodeId),
    /// The process does not run for so many milliseconds.
    Pause(NodeId, u32),
    /// Nothing on the whole platform runs for so many milliseconds.
    Suspend(u32),
    Jump(NodeId, u32),
    /// These are cut off from the others for so many milliseconds.
    Split(Vec<NodeId>, u32),
    Heal,
    /// A node leaves in order.
    Leave(NodeId),
    /// So many nodes join.
    Join(u32),
}

/// What happens, and on what network.
#[derive(Clone, Debug)]
struct Plan {
    universe: u32,
    strategy: Spreading,
    /// Whether all of it is within what the protocol assumes.
    fair: bool,
    loss: u64,
    duplication: u64,
    longest_delay: u64,
    /// In order of time, in milliseconds.
    events: Vec<(u32, Event)>,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        let mut random = Random(seed);
        let fair = seed % 2 == 0;
        let universe = 2 + random.below(11) as u32;
        let mut plan = Plan {
            universe,
            strategy: [Spreading::Circulant, Spreading::Tree][random.below(2) as usize],
            fair,
            loss: random.below(if fair { 50 } else { 150 }),
            duplication: random.below(200),
            longest_delay: [500, 2_000, if fair { ANSWERABLE } else { 9_000 }][random.below(3) as usize],
            events: vec![],
        };
        let mut deaths = u64::from(universe.ilog2() - 1).max(1);
        let mut silence = BEARABLE;
        for _ in 0..1 + random.below(6) {
            let at = 100 + random.below(STORM) as u32;
            let event = plan.any_event(&mut random, &mut deaths, &mut silence);
            if let Event::Split(_, length) = event {
                // Networks heal: cut off for good is like dead.
                plan.events.retain(|(_, event)| !matches!(event, Event::Split(..) | Event::Heal));
                plan.events.push((at + length, Event::Heal));
            }
            plan.events.push((at, event));
        }
        plan.change_members(&mut Random(seed ^ MEMBERSHIP), deaths);
        plan.events.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Now and then nodes join, and one leaves.
    fn change_members(&mut self, random: &mut Random, deaths: u64) {
        let mut at = || 100 + random.below(STORM) as u32;
        let (joins, leaves) = (at(), at());
        if random.below(4) == 0 {
            self.events.push((joins, Event::Join(1 + random.below(4) as u32)));
        }
        // Until it is answered it may count as dead.
        if random.below(4) == 0 && (!self.fair || deaths > 0) {
            let leaver = 1 + random.below(u64::from(self.universe) - 1) as NodeId;
            self.events.push((leaves, Event::Leave(leaver)));
        }
    }

    /// `deaths` and `silence` are what is left of them where it is fair.
    fn any_event(&self, random: &mut Random, deaths: &mut u64, silence: &mut u64) -> Event {
        let any = random.below(self.universe.into()) as NodeId;
        let but_arbiter = 1 + random.below(u64::from(self.universe) - 1) as NodeId;
        let rank = random.below(1000) as u32;
        let length = random.below(if self.fair { *silence + 1 } else { 300 }) as u32;
        let event = match random.below(9) {
            0 if !self.fair || *deaths > 0 => Event::Kill(but_arbiter),
            1 if !self.fair || *deaths > 0 => Event::Resign(but_arbiter),
            2 => Event::Restart(any),
            3 => Event::Pause(any, length),
            4 => Event::Jump(any, length),
            // So long that it cannot be missed that the own timers are wrong.
            5 => Event::Jump(any, 70 + rank * 10),
            6 => Event::Suspend(1 + rank * 3),
            7 => Event::Split((1..self.universe).filter(|_| random.below(2) == 0).collect(), length + 1),
            _ => Event::Rank(any, rank),
        };
        match event {
            Event::Kill(_) | Event::Resign(_) => *deaths = deaths.saturating_sub(1),
            Event::Pause(..) | Event::Split(..) => *silence = silence.saturating_sub(length.into()),
            Event::Jump(_, ahead) if ahead == length => *silence = silence.saturating_sub(length.into()),
            _ => {}
        }
        event
    }
}

/// A job as it goes through its plan, and what it is owed.
struct Storm {
    network: Network,
    plan: Plan,
    /// Died, or asked to be dead, or left.
    gone: BTreeSet<NodeId>,
    /// Whom something happened to that may cost it its life.
    touched: BTreeSet<NodeId>,
    /// Ranks that died, by node.
    ranks: BTreeSet<(NodeId, u32)>,
    /// The same before nodes joined; of these it is the launcher who tells them.
    before_joining: BTreeSet<(NodeId, u32)>,
    /// How many facts each node had been told of when its present life began.
    born: Vec<usize>,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let plan = Plan::new(seed);
        let mut network = Network::with(plan.universe, seed, |config| Config { strategy: plan.strategy, ..config });
        (network.loss, network.duplication, network.delay) = (plan.loss, plan.duplication, 50..=plan.longest_delay);
        let born = vec![0; plan.universe as usize];
        let (gone, touched) = (BTreeSet::new(), BTreeSet::new());
        let (ranks, before_joining) = (BTreeSet::new(), BTreeSet::new());
        Storm { network, plan, gone, touched, ranks, before_joining, born }
    }

    /// Lets it all happen, and then time to settle it.
    fn run(&mut self) {
        let mut asleep = 0;
        for (at, event) in self.plan.events.clone() {
            self.network.run((asleep + at).saturating_sub(self.network.now.as_millis() as u32));
            if let Event::Suspend(length) = event {
                asleep += length;
            }
            self.happen(event);
            self.nobody_is_harmed();
        }
        // The last pause or split is over, and whoever stops for it has stopped.
        self.network.run(600);
        // In the worst case one run of neighbours is found after the other.
        let longest = 300 * self.plan.universe + 6000;
        for _ in 0..longest / 100 {
            self.network.run(100);
            self.nobody_is_harmed();
            if self.settled().is_ok() {
                break;
            }
        }
        self.network.run(300);
        if let Err(what) = self.settled() {
            panic!("{what}");
        }
        self.every_rank_is_known_once();
        self.ends();
    }

    fn happen(&mut self, event: Event) {
        let network = &mut self.network;
        match event {
            Event::Kill(node) => {
                network.kill(node);
                self.gone.insert(node);
            }
            Event::Resign(node) if network.runs(node) => {
                network.call(node, Member::resign);
                self.gone.insert(node);
            }
            Event::Rank(node, rank) if network.runs(node) => {
                // Ranks of different nodes have different numbers.
                let rank = node * 1000 + rank;
                self.ranks.insert((node, rank));
                network.call(node, |member, now, out| member.announce_rank(now, rank, RankReason::Reported, out));
            }
            Event::Restart(node) if network.runs(node) && !self.gone.contains(&node) => {
                network.restart(node);
                self.born[node as usize] = network.nodes[node as usize].facts.len();
                // Nobody knows whether the earlier life came to announce them.
                for &(_, rank) in self.ranks.iter().filter(|(home, _)| *home == node) {
                    network.call(node, |member, now, out| member.announce_rank(now, rank, RankReason::Reported, out));
                }
            }
            Event::Pause(node, length) => {
                network.pause(node, length);
                self.touched.insert(node);
            }
            Event::Suspend(length) => {
                (0..network.nodes.len() as u32).for_each(|node| network.pause(node, length));
                network.run(length);
            }
            Event::Jump(node, length) => {
                network.jump(node, length);
                self.touched.insert(node);
            }
            Event::Split(cut, _) => {
                network.split(|node| cut.contains(&node));
                self.touched.extend(cut);
            }
            Event::Heal => network.heal(),
            Event::Leave(node) if network.runs(node) && !self.gone.contains(&node) => {
                network.call(node, Member::leave);
                self.gone.insert(node);
            }
            Event::Join(count) if network.runs(0) => {
                self.before_joining.clone_from(&self.ranks);
                network.join(0, count);
                let known = |node: &Node| node.facts.len();
                self.born.extend(network.nodes[self.plan.universe as usize..].iter().map(known));
            }
            Event::Resign(_) | Event::Rank(..) | Event::Restart(_) | Event::Leave(_) | Event::Join(_) => {}
        }
    }

    /// Nobody is held dead whom nothing has happened to, if suspects are heard; where all is fair, nobody who has not
    /// gone.
    fn nobody_is_harmed(&self) {
        let is_judged_well = !self.touched.contains(&0) && self.plan.longest_delay <= ANSWERABLE;
        for (me, node) in self.network.nodes.iter().enumerate() {
            let me = me as NodeId;
            let may_go = |node: NodeId| {
                self.gone.contains(&node) || !self.plan.fair && (!is_judged_well || self.touched.contains(&node))
            };
            assert!(node.stop.is_none() || may_go(me), "node {me} stopped: {:?}", node.stop);
            let harmed = node.dead().into_iter().find(|&dead| dead == 0 || !may_go(dead));
            assert_eq!(harmed, None, "node {me} holds a node dead that lives");
        }
    }

    /// Whether those who have not gone are one ring, whose members all hold exactly the others dead.
    fn settled(&self) -> Result<(), String> {
        let survivors = self.network.survivors();
        if survivors.first() != Some(&0) {
            return Err(format!("the arbiter is not among the survivors {survivors:?}"));
        }
        if let Some(node) = self.gone.iter().find(|node| survivors.contains(node)) {
            return Err(format!("node {node} has gone and takes part all the same"));
        }
        if let Some(node) = survivors.iter().find(|node| self.network.nodes[**node as usize].held) {
            return Err(format!("node {node} still holds its ranks"));
        }
        let gone: Vec<_> = (0..self.network.nodes.len() as u32).filter(|node| !survivors.contains(node)).collect();
        self.network.settled(&gone)
    }

    /// Every survivor was told of every rank of a survivor that died, and of none twice in one life.
    fn every_rank_is_known_once(&self) {
        let survivors = self.network.survivors();
        for &me in &survivors {
            let facts = &self.network.nodes[me as usize].facts;
            let times = |rank, from: usize| {
                let is_it = |subject| matches!(subject, Subject::Rank { rank: dead, .. } if dead == rank);
                facts[from..].iter().filter(|fact| is_it(fact.subject)).count()
            };
            for &(home, rank) in &self.ranks {
                assert!(
                    times(rank, self.born[me as usize]) <= 1,
                    "node {me} is told twice of rank {rank} of node {home}"
                );
                let known = times(rank, 0) > 0;
                let is_told_otherwise = me >= self.plan.universe && self.before_joining.contains(&(home, rank));
                let must = survivors.contains(&home) && !is_told_otherwise;
                assert!(known || !must, "node {me} is not told of rank {rank} of node {home}");
            }
        }
    }

    /// The end of the job reaches everybody who is left.
    fn ends(&mut self) {
        let reason = EndReason::Finished;
        let survivors = self.network.survivors();
        self.network.call(0, |member, now, out| member.end(now, reason, out));
        self.network.run(300);
        for node in survivors {
            let state = &self.network.nodes[node as usize];
            let stop = state.stop.map(|(_, stop)| stop);
            assert!(stop == Some(StopReason::Ended(reason)) && state.member.drained(), "node {node}: {stop:?}");
        }
    }
}

/// Runs these seeds and shows what those do that break a promise.
fn run(seeds: impl Iterator<Item = u64>) {
    let (mut count, mut broken) = (0, vec![]);
    for seed in seeds {
        count += 1;
        if catch_unwind(AssertUnwindSafe(|| Storm::new(seed).run())).is_err() {
            eprintln!("CHAOS_SEED={seed}: {:?}", Plan::new(seed));
            broken.push(seed);
        }
    }
    eprintln!("{count} seeds, {} broken", broken.len());
    assert_eq!(broken, [0; 0], "these seeds break a promise");
}

#[test]
fn a_thousand_seeds() {
    run(0..1000);
}

/// Minutes in a release build.
#[test]
#[ignore = "long"]
fn a_hundred_thousand_seeds() {
    run(0..100_000);
}

/// A rank dies the moment the network falls apart, and more nodes are cut off than a broadcast bears.
#[test]
fn what_many_nodes_take_to_their_graves_is_said_again() {
    run([62_201, 81_927].into_iter());
}

/// Each answer takes so long that the ranks are held, and the question of that time is no accusation.
#[test]
fn the_dead_are_accused_where_holds_come_and_go() {
    run([81_583].into_iter());
}

#[test]
fn one_seed() {
    let seed = std::env::var("CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    run(seed.into_iter());
}
