//! What the survivors of a whole job can rely on.

use proptest::collection::vec;
use proptest::prelude::*;

use propagation::Strategy as Spreading;
use propagation::{Config, EndReason, Member, NodeId, NodeReason, RankReason, StopReason, Subject, Time};

use crate::network::{Network, Node};
use crate::{MS, check};

const ARBITER: Option<NodeId> = Some(0);
const CUT_OFF: StopReason = StopReason::CutOff;

/// A job, and which of its nodes die when (in milliseconds): never the arbiter, and no more than the paper
/// promises to bear at a time, floor(log2 n) - 1.
fn any_deaths() -> impl Strategy<Value = (u32, Vec<(NodeId, u32)>)> {
    (4..=20_u32).prop_flat_map(|universe| {
        let most = (universe.ilog2() - 1) as usize;
        (Just(universe), vec((1..universe, 1..150_u32), 1..=most))
    })
}

fn any_strategy() -> impl Strategy<Value = Spreading> {
    prop::sample::select(vec![Spreading::Circulant, Spreading::Tree])
}

/// Runs the job until the paper's bound for so many overlapping failures has passed: f (f + 1) timeouts for
/// the ring, and the times of the broadcasts and of the confirmation, which are short in comparison.
fn strike(network: &mut Network, mut deaths: Vec<(NodeId, u32)>) -> Vec<NodeId> {
    let f = deaths.len() as u32;
    deaths.sort_unstable_by_key(|&(_, at)| at);
    for &(node, at) in &deaths {
        network.run(at - (network.now.as_millis() as u32).min(at));
        network.kill(node);
    }
    network.run(f * (f + 1) * 100 + 300);
    let mut dead: Vec<_> = deaths.into_iter().map(|(node, _)| node).collect();
    dead.sort_unstable();
    dead.dedup();
    dead
}

#[test]
fn a_quiet_job_costs_one_heartbeat_per_node_and_period() {
    for arbiter in [None, ARBITER] {
        let mut network = Network::new(10, arbiter, 1);
        network.run(999);
        assert_eq!(network.sent, [("heartbeat", 10 * 100)].into());
        network.assert_settled(&[]);
    }
}

#[test]
fn every_survivor_learns_of_every_death_once_and_the_ring_closes() {
    check(
        60,
        (any_deaths(), any::<u64>(), any::<bool>(), any_strategy()),
        |((universe, deaths), seed, papers, strategy)| {
            let arbiter = if papers { None } else { ARBITER };
            let mut network = Network::with(universe, seed, |config| Config { arbiter, strategy, ..config });
            let dead = strike(&mut network, deaths);
            assert_eq!(network.survivors().len(), universe as usize - dead.len());
            network.assert_settled(&dead);
        },
    );
}

#[test]
fn the_same_holds_when_datagrams_get_lost_doubled_and_reordered() {
    check(40, (any_deaths(), any::<u64>(), any_strategy()), |((universe, deaths), seed, strategy)| {
        let mut network = Network::with(universe, seed, |config| Config { strategy, ..config });
        (network.loss, network.duplication, network.delay) = (100, 100, 50..=9000);
        let dead = strike(&mut network, deaths);
        assert_eq!(network.survivors().len(), universe as usize - dead.len());
        // What was lost last is repeated soon.
        network.run(200);
        network.assert_settled(&dead);
    });
}

#[test]
fn neighbours_that_die_together_are_all_found() {
    for arbiter in [None, ARBITER] {
        let mut network = Network::new(16, arbiter, 5);
        network.run(50);
        (4..7).for_each(|node| network.kill(node));
        network.run(3 * 200 + 50);
        network.assert_settled(&[4, 5, 6]);
    }
}

#[test]
fn nobody_alive_is_declared_while_delays_are_bounded() {
    check(15, (2..=20_u32, any::<u64>(), any::<bool>()), |(universe, seed, papers)| {
        let mut network = Network::new(universe, if papers { None } else { ARBITER }, seed);
        network.delay = 10..=80_000;
        network.run(2000);
        assert_eq!(network.survivors().len(), universe as usize);
        network.assert_settled(&[]);
    });
}

#[test]
fn a_broadcast_costs_at_most_two_log_n_copies_per_node() {
    let mut network = Network::new(16, ARBITER, 8);
    network.delay = 50..=100;
    network.call(9, |member, now, out| member.announce_rank(now, 1, RankReason::Stopped, out));
    network.run(4);
    assert!(network.nodes.iter().all(|node| node.facts.len() == 1));
    // Jumps 8, 4, 2, 1 both ways, of which +8 and -8 are the same.
    assert!(network.sent["notice"] <= 16 * 7);
    assert_eq!(network.sent["ack"], network.sent["notice"]);
}

#[test]
fn many_ranks_that_die_at_once_are_all_announced_despite_loss() {
    let mut network = Network::new(9, ARBITER, 6);
    (network.loss, network.delay) = (200, 50..=3000);
    network.run(20);
    for rank in 0..200 {
        let reason = RankReason::Signaled { signal: 9 };
        network.call(5, |member, now, out| member.announce_rank(now, rank, reason, out));
    }
    network.run(600);
    // Not even such a storm crowds out the heartbeats.
    assert_eq!(network.survivors().len(), 9);
    for node in &network.nodes {
        let mut ranks: Vec<_> = node.facts.iter().map(|fact| format!("{:?}", fact.subject)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!((ranks.len(), node.facts.len()), (200, 200));
    }
}

/// The job, the seed, when the network splits, and which nodes are cut off from the arbiter.
fn any_split() -> impl Strategy<Value = (u32, u64, u32, Vec<NodeId>)> {
    (2..=20_u32).prop_flat_map(|universe| {
        let cut = proptest::sample::subsequence((1..universe).collect::<Vec<_>>(), 1..universe as usize);
        (Just(universe), any::<u64>(), 150..200_u32, cut)
    })
}

#[test]
fn a_split_stops_whoever_is_cut_off_within_two_timeouts_and_nobody_else() {
    check(50, any_split(), |(universe, seed, at, cut)| {
        let mut network = Network::new(universe, ARBITER, seed);
        network.run(at);
        network.split(|node| cut.contains(&node));
        network.run(200);
        for &node in &cut {
            let stop = network.nodes[node as usize].stop;
            assert!(matches!(stop, Some((_, CUT_OFF))), "node {node}: {stop:?}");
        }
        let rest: Vec<_> = (0..universe).filter(|node| !cut.contains(node)).collect();
        assert_eq!(network.survivors(), rest);
        // Meanwhile or later, run by run, the arbiter's side has declared all of them.
        network.run(200 * cut.len() as u32 + 100);
        network.heal();
        network.run(100);
        assert_eq!(network.survivors(), rest);
        network.assert_settled(&cut);
    });
}

#[test]
fn neighbours_that_fall_silent_together_are_found_one_timeout_after_the_other_if_none_is_asked() {
    let settings = |config: Config| Config { candidates: 0, arbiter: ARBITER, ..config };
    let mut network = Network::with(12, 9, settings);
    network.run(150);
    [5, 6, 7].into_iter().for_each(|node| network.kill(node));
    // A timeout for each, and the question before it is declared.
    network.run(370);
    network.assert_settled(&[5, 6, 7]);
}

#[test]
fn a_short_split_leaves_no_trace() {
    let mut network = Network::new(8, ARBITER, 4);
    network.run(150);
    network.split(|node| node >= 5);
    network.run(70);
    network.heal();
    network.run(500);
    network.assert_settled(&[]);
    assert_eq!(network.survivors().len(), 8);
}

#[test]
fn a_split_without_arbiter_stays_a_split() {
    let mut network = Network::new(8, None, 4);
    network.run(50);
    network.split(|node| node >= 5);
    network.run(2000);
    network.heal();
    network.run(500);
    assert_eq!(network.survivors().len(), 8);
    assert!((0..5).all(|node| network.nodes[node].dead() == [5, 6, 7]));
    assert!((5..8).all(|node| network.nodes[node].dead() == [0, 1, 2, 3, 4]));
}

#[test]
fn the_loss_of_the_arbiter_stops_everybody() {
    let mut network = Network::new(12, ARBITER, 3);
    network.run(50);
    network.kill(0);
    network.run(200);
    assert!(network.nodes[1..].iter().all(|node| matches!(node.stop, Some((_, CUT_OFF)))));
}

#[test]
fn a_pause_shorter_than_the_timeout_does_no_harm() {
    let mut network = Network::new(8, ARBITER, 7);
    for node in 0..8 {
        network.run(100);
        network.pause(node, 80);
    }
    network.run(500);
    network.assert_settled(&[]);
}

#[test]
fn a_long_pause_costs_only_the_paused_node() {
    let mut network = Network::new(8, ARBITER, 7);
    network.run(100);
    network.pause(5, 700);
    network.run(699);
    let others = [0, 1, 2, 3, 4, 6, 7];
    assert!(others.into_iter().all(|node| network.nodes[node].dead() == [5]));
    network.run(200);
    assert!(matches!(network.nodes[5].stop, Some((_, StopReason::DeclaredDead))));
    network.assert_settled(&[5]);
    assert_eq!(network.survivors().len(), 7);
}

#[test]
fn a_paused_arbiter_blames_nobody() {
    let mut network = Network::new(8, ARBITER, 7);
    network.run(100);
    network.pause(0, 130);
    network.run(600);
    network.assert_settled(&[]);
    assert_eq!(network.survivors().len(), 8);
}

#[test]
fn a_restarted_member_is_not_missed_and_knows_what_it_knew() {
    let mut network = Network::new(8, ARBITER, 9);
    network.run(50);
    network.kill(3);
    network.run(300);
    let reason = RankReason::Reported;
    network.call(5, |member, now, out| member.announce_rank(now, 1, reason, out));
    network.run(50);
    network.restart(5);
    network.call(5, |member, now, out| member.announce_rank(now, 2, reason, out));
    network.run(500);
    network.assert_settled(&[3]);
    assert!([0, 1, 2, 4, 5, 6, 7].map(|node| network.nodes[node].facts.len()) == [3; 7]);
}

#[test]
fn a_restarted_arbiter_goes_on_and_its_neighbours_do_not_stop() {
    let mut network = Network::new(8, ARBITER, 9);
    network.run(50);
    network.kill(3);
    network.run(300);
    network.restart(0);
    network.run(50);
    network.kill(6);
    network.run(400);
    network.assert_settled(&[3, 6]);
}

/// What hangs is found after half a timeout and a little, and then has to start.
#[test]
fn an_arbiter_that_hangs_while_the_others_wait_for_its_word_has_time_to_be_started_again() {
    for seed in 0..100 {
        let mut network = Network::new(8, ARBITER, seed);
        network.run(50);
        network.split(|node| node == 3 || node == 6);
        network.run(80 + seed as u32 / 2);
        network.pause(0, 1000);
        network.run(68);
        network.restart(0);
        network.run(1000);
        network.assert_settled(&[3, 6]);
    }
}

#[test]
fn a_resignation_is_known_to_all_long_before_the_timeout() {
    let mut network = Network::new(8, ARBITER, 2);
    network.run(50);
    network.call(6, Member::resign);
    network.run(20);
    assert!(matches!(network.nodes[6].stop, Some((_, StopReason::DeclaredDead))));
    network.assert_settled(&[6]);
    let subject = Subject::Node { node: 6, reason: NodeReason::Resigned };
    assert!(network.nodes[3].facts.iter().any(|fact| fact.subject == subject));
}

#[test]
fn the_end_reaches_everybody_and_all_drain_despite_loss_and_deaths() {
    check(30, (2..=20_u32, any::<u64>()), |(universe, seed)| {
        let mut network = Network::new(universe, ARBITER, seed);
        network.loss = 200;
        network.run(50);
        if universe >= 8 {
            network.kill(1);
        }
        let reason = EndReason::Finished;
        network.call(0, |member, now, out| member.end(now, reason, out));
        network.run(150);
        for node in network.nodes.iter().filter(|node| node.alive) {
            let expected = StopReason::Ended(reason);
            assert_eq!(node.stop.map(|(_, stop)| stop), Some(expected));
            assert!(node.member.drained() && node.member.next_deadline() == Time::MAX);
            assert_eq!(node.facts.len(), 1);
        }
    });
}

#[test]
fn without_loss_the_end_drains_at_once() {
    let mut network = Network::new(16, ARBITER, 1);
    network.run(50);
    network.call(0, |member, now, out| member.end(now, EndReason::Finished, out));
    network.run(20);
    assert!(network.nodes.iter().all(|node| node.member.drained()));
    let last = network.nodes.iter().filter_map(|node| node.stop).map(|(at, _)| at).max();
    assert!(last.unwrap() < 60 * MS);
}

/// Checks, some time after the last disturbance, that whoever has not stopped forms one ring with the arbiter, that
/// these nodes all hold exactly the others dead, and that nobody is held any more.
fn assert_one_ring_with_the_arbiter(network: &Network) {
    let survivors = network.survivors();
    assert_eq!(survivors.first(), Some(&0));
    let gone: Vec<_> = (0..network.nodes.len() as u32).filter(|node| !survivors.contains(node)).collect();
    network.assert_settled(&gone);
    assert!(survivors.iter().all(|&node| !network.nodes[node as usize].held));
}

/// A split that heals after so many milliseconds: checks what everybody is owed, during it and afterwards.
fn heals_after(network: &mut Network, cut: &[NodeId], length: u32) {
    let universe = network.nodes.len() as u32;
    network.split(|node| cut.contains(&node));
    for passed in 1..=length {
        network.run(1);
        for &node in cut {
            let Node { stop, held, .. } = network.nodes[node as usize];
            let is_first = !cut.contains(&((node + universe - 1) % universe));
            // The first of a run suspects its emitter itself; the others hear of its doubt, which takes a few hops,
            // and look for the arbiter as long as it did.
            let longest = if is_first { 100 + 10 } else { 100 + 10 + 10 + 10 };
            assert!(stop.is_some() || held || passed <= longest, "node {node} runs on after {passed} ms");
        }
    }
    network.heal();
    network.run(200 * cut.len() as u32 + 500);
    assert_one_ring_with_the_arbiter(network);
    for node in (0..universe).filter(|node| !cut.contains(node)) {
        let Node { stop, holds, .. } = network.nodes[node as usize];
        assert_eq!((stop, holds), (None, 0), "node {node} was never cut off");
    }
}

#[test]
fn a_split_that_heals_leaves_one_ring_and_does_the_arbiter_s_side_no_harm() {
    check(20, (any_split(), 50..=300_u32), |((universe, seed, at, cut), length)| {
        let mut network = Network::new(universe, ARBITER, seed);
        network.run(at);
        heals_after(&mut network, &cut, length);
    });
}

#[test]
fn the_same_holds_when_it_heals_amid_suspicions_trials_and_stops() {
    check(30, (any_split(), 88..=200_u32), |((universe, seed, at, cut), length)| {
        let mut network = Network::new(universe, ARBITER, seed);
        network.run(at);
        heals_after(&mut network, &cut, length);
    });
}

#[test]
fn a_split_that_heals_does_no_harm_to_the_arbiter_s_side_despite_loss_either() {
    check(15, (any_split(), 88..=200_u32), |((universe, seed, at, cut), length)| {
        let mut network = Network::new(universe, ARBITER, seed);
        (network.loss, network.duplication) = (50, 50);
        network.run(at);
        network.split(|node| cut.contains(&node));
        network.run(length);
        network.heal();
        network.run(200 * cut.len() as u32 + 700);
        assert_one_ring_with_the_arbiter(&network);
        assert!((0..universe).all(|node| cut.contains(&node) || network.survivors().contains(&node)));
    });
}

#[test]
fn whoever_was_held_but_not_declared_goes_on_after_the_split() {
    let mut network = Network::new(8, ARBITER, 4);
    network.run(150);
    network.split(|node| node >= 5);
    network.run(122);
    let held = |network: &Network| (0..8).filter(|&node| network.nodes[node].held).collect::<Vec<_>>();
    assert_eq!(held(&network), [5, 6, 7]);
    network.heal();
    network.run(20);
    assert_eq!(held(&network).iter().filter(|node| **node != 7).count(), 0);
    network.run(500);
    // Its observer is on the other side and had it declared in the meantime.
    assert_one_ring_with_the_arbiter(&network);
    network.assert_settled(&[7]);
}

#[test]
fn a_split_that_heals_during_the_trial_costs_nobody() {
    // The last heartbeats came 8 to 10 ms before, so each side accuses the other 90 to 92 ms after the split.
    for length in 93..=97 {
        let mut network = Network::new(8, ARBITER, 4);
        network.run(150);
        network.split(|node| node >= 5);
        network.run(length);
        network.heal();
        network.run(700);
        assert_eq!(network.survivors().len(), 8, "{length}");
        assert_one_ring_with_the_arbiter(&network);
    }
}

/// Nodes 3 and 4 are cut off for so long that 3, whose emitter is 2, has suspected it and holds its ranks.
fn held_by_a_split(length: u32, seed: u64) -> Network {
    let mut network = Network::new(8, ARBITER, seed);
    network.run(150);
    network.split(|node| node == 3 || node == 4);
    network.run(length);
    assert!(network.nodes[3].held && network.nodes[3].stop.is_none(), "after {length} ms");
    network
}

/// A member is stopped the moment the network heals, and replaced soon: nobody hears it meanwhile, and least of all the
/// question of a trial.
#[test]
fn a_suspicion_of_the_time_of_a_split_is_not_pressed_when_it_heals() {
    for (length, seed) in (111..=140).zip(1..) {
        let mut network = held_by_a_split(length, seed);
        network.pause(2, 80);
        network.heal();
        network.run(80);
        network.restart(2);
        network.run(700);
        assert_one_ring_with_the_arbiter(&network);
        let survivors = network.survivors();
        assert!(survivors.contains(&2) && survivors.contains(&3), "{length}: {survivors:?}");
    }
}

#[test]
fn who_died_during_a_split_is_declared_within_a_timeout_and_a_trial_after_it() {
    for (length, seed) in (111..=140).zip(1..) {
        let mut network = held_by_a_split(length, seed);
        network.kill(2);
        network.heal();
        // Up to 5 ms pass until the next question, and four messages of 2 ms each.
        network.run(5 + 100 + 10 + 8);
        assert!(network.nodes[0].dead().contains(&2), "{length}");
        network.run(700);
        assert_one_ring_with_the_arbiter(&network);
        assert!(network.survivors().contains(&3), "{length}");
    }
}

#[test]
fn a_member_that_resumes_after_a_long_pause_takes_nobody_with_it() {
    check(
        50,
        (3..=12_u32, any::<u64>(), any::<prop::sample::Index>(), 90..=400_u32),
        |(universe, seed, node, length)| {
            let node = 1 + node.index(universe as usize - 1) as u32;
            let mut network = Network::new(universe, ARBITER, seed);
            network.run(150);
            network.pause(node, length);
            network.run(length + 700);
            assert_one_ring_with_the_arbiter(&network);
            let stop = network.nodes[node as usize].stop;
            assert!(matches!(stop, None | Some((_, StopReason::DeclaredDead))), "{stop:?}");
            assert!(network.survivors().len() + 1 >= universe as usize);
            // Its observer has the arbiter's ear all the time.
            assert!(network.nodes.iter().all(|node| node.holds == 0));
            // A timeout and a trial: then it is too late.
            assert!(stop.is_some() || length <= 115);
        },
    );
}

#[test]
fn an_arbiter_that_resumes_after_a_pause_leads_whoever_waited_for_it() {
    check(25, (2..=12_u32, any::<u64>(), 60..=250_u32), |(universe, seed, length)| {
        let mut network = Network::new(universe, ARBITER, seed);
        network.run(150);
        network.pause(0, length);
        network.run(length + 200 * universe + 300);
        assert_one_ring_with_the_arbiter(&network);
        for node in &network.nodes {
            assert!(matches!(node.stop, None | Some((_, CUT_OFF))), "{:?}", node.stop);
        }
        assert!(length > 160 || network.survivors().len() == universe as usize);
    });
}
