//! A node with as many ranks as the largest machines have cores, several times over. Their processes only register.

mod cluster;

use nix::sys::signal::Signal;
use node_abi::segment::Entry;

use cluster::{Cluster, eventually, launch};

const RANKS: u32 = 4096;

#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn each_of_4096_ranks_of_a_node_is_watched_and_hears_of_each_death() {
    let cluster = Cluster::running(launch(&[RANKS, 1]));
    let victims = [0, RANKS / 2, RANKS - 1];
    for rank in victims {
        cluster.signal_rank(rank, Signal::SIGKILL);
    }
    for node in 0..cluster.nodes.len() {
        eventually("all deaths are in the log", || {
            let deaths = cluster.nodes[node].deaths();
            victims.iter().all(|rank| deaths.contains(&Entry::Rank(*rank))).then_some(())
        });
        assert_eq!(cluster.nodes[node].deaths().len(), victims.len());
    }
    let segment = &cluster.nodes[0].segment;
    let is_called = |slot| segment.call(slot).load(std::sync::atomic::Ordering::Acquire) != 0;
    assert!((0..RANKS).all(is_called));
    // A rank of the other node dies: this node's ranks hear of it, too.
    (0..RANKS).for_each(|slot| segment.call(slot).store(0, std::sync::atomic::Ordering::Release));
    cluster.signal_rank(RANKS, Signal::SIGKILL);
    let segment = &cluster.nodes[0].segment;
    let is_called = |slot| segment.call(slot).load(std::sync::atomic::Ordering::Acquire) != 0;
    eventually("all are called again", || (0..RANKS).all(is_called).then_some(()));
}
