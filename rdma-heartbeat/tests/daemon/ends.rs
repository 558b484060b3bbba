//! How a job ends: in order, or because it cannot go on.

use crate::cluster::{Cluster, TIMEOUT, launch, send_signal, was_killed};
use nix::sys::signal::Signal;
use node_abi::launch::{End, FromDaemon, ToDaemon};
use node_abi::segment::Phase;
use propagation::EndReason;

fn expect_end_everywhere(cluster: &mut Cluster, reason: EndReason) -> String {
    for node in &mut cluster.nodes {
        assert_eq!(node.expect_end().0, End::Announced(reason));
        assert!(node.daemon_exit().success());
    }
    cluster.nodes[0].expect_end().1
}

#[test]
fn a_finished_job_ends_all_daemons_and_nothing_else() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1, 1]));
    cluster.nodes[0].tell(&ToDaemon::Finished);
    for node in &mut cluster.nodes {
        assert!(node.daemon_exit().success());
        assert!(node.runtime_lives());
    }
    for rank in 0..4 {
        assert!(cluster.rank_lives(rank));
    }
    cluster.assert_nobody_declared();
}

#[test]
fn a_prted_that_leaves_after_the_end_is_no_loss() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    // It hears of the end from its own runtime daemon before node 0 says so.
    cluster.nodes[1].tell(&ToDaemon::Finished);
    send_signal(&cluster.nodes[1].runtime, Signal::SIGTERM);
    assert!(cluster.nodes[1].daemon_exit().success());
    assert!(cluster.rank_lives(1));
    cluster.nodes[0].tell(&ToDaemon::Finished);
    assert!(cluster.nodes[0].daemon_exit().success());
    cluster.assert_nobody_declared();
}

#[test]
fn the_loss_of_prterun_ends_all_ranks() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1]));
    send_signal(&cluster.nodes[0].runtime, Signal::SIGKILL);
    let sentence = expect_end_everywhere(&mut cluster, EndReason::LauncherLost);
    assert!(sentence.starts_with("prterun (pid "), "{sentence}");
    assert!(sentence.ends_with(" was lost; all ranks of the job are ended."), "{sentence}");
    assert!(cluster.nodes[0].stderr().contains(&format!("\nringwatch: {sentence}\n")));
    for rank in 0..3 {
        assert!(was_killed(cluster.rank_end(rank)));
    }
}

#[test]
fn a_rank_lost_during_init_ends_the_job() {
    let mut cluster = Cluster::start(launch(&[1, 2]), Phase::Initialising);
    cluster.nodes[0].expect("Roster", |packet| matches!(packet, FromDaemon::Roster(_)).then_some(()));
    cluster.signal_rank(2, Signal::SIGKILL);
    let sentence = expect_end_everywhere(&mut cluster, EndReason::InitFailure);
    assert_eq!(
        sentence,
        "rank 2 on node 1 (h2) ended before every rank had left MPI_Init, from which Open MPI cannot recover; the job is ended"
    );
    for rank in 0..3 {
        assert!(was_killed(cluster.rank_end(rank)));
    }
}

#[test]
fn a_rank_that_dies_while_the_last_leave_init_does_not_end_the_job() {
    let mut cluster = Cluster::start(launch(&[1, 2]), Phase::Running);
    let node = &cluster.nodes[1];
    node.segment.enter(0, node.ranks[&1].id(), Phase::Initialising);
    cluster.nodes[0].expect("Roster", |packet| matches!(packet, FromDaemon::Roster(_)).then_some(()));
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[2]);
    let node = &cluster.nodes[1];
    node.segment.enter(0, node.ranks[&1].id(), Phase::Running);
    cluster.wait_until_ready();
    cluster.let_pass(&[0], std::time::Duration::from_millis(1200));
    assert!(cluster.rank_lives(0) && cluster.rank_lives(1));
}

#[test]
fn a_job_without_a_living_rank_ends() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    cluster.signal_rank(0, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[0]);
    cluster.signal_rank(1, Signal::SIGKILL);
    let sentence = expect_end_everywhere(&mut cluster, EndReason::NoSurvivor);
    assert_eq!(sentence, "every rank of the job is dead; the job is ended");
}

#[test]
fn without_fencing_a_stopped_rank_ends_the_job_and_nobody_is_killed() {
    let mut launch = launch(&[1, 1]);
    launch.parameters.stop_timeout = Some(TIMEOUT);
    launch.parameters.fence = false;
    let mut cluster = Cluster::running(launch);
    cluster.signal_rank(1, Signal::SIGSTOP);
    let sentence = expect_end_everywhere(&mut cluster, EndReason::FencingOff);
    assert_eq!(
        sentence,
        "rank 1 on node 1 (h2) has been stopped for too long, but fencing is switched off; the job is ended"
    );
    for rank in 0..2 {
        assert!(cluster.rank_lives(rank));
    }
    assert!(cluster.nodes.iter_mut().all(crate::cluster::Node::runtime_lives));
}

#[test]
fn a_node_lost_before_the_rendezvous_ends_the_job() {
    let mut launch = launch(&[1, 1, 1]);
    let sockets = crate::cluster::sockets(&launch);
    // Nobody can find node 0.
    launch.rendezvous = vec![([127, 0, 0, 1], 9).into()];
    let mut cluster = Cluster::start_with(launch, Phase::Initialising, sockets, |_| None);
    cluster.let_pass(&[0, 1, 2], TIMEOUT * 2);
    cluster.assert_nobody_declared();
    assert_eq!(cluster.nodes[0].report().stage, "meeting");
    cluster.nodes[0].tell(&ToDaemon::ConnectionLost(2));
    let (end, sentence) = cluster.nodes[0].expect_end();
    assert_eq!(end, End::Announced(EndReason::InitFailure));
    assert!(sentence.starts_with("node 2 (h3) was lost before"), "{sentence}");
    assert!(was_killed(cluster.rank_end(0)));
    // prterun ends, and with it the other runtime daemons: their nodes follow.
    send_signal(&cluster.nodes[1].runtime, Signal::SIGKILL);
    assert!(cluster.nodes[1].daemon_exit().success());
    assert!(was_killed(cluster.rank_end(1)));
}

#[test]
fn a_plugin_that_hangs_up_has_lost_its_node() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    let (_, silent) = nix::sys::socket::socketpair(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::SeqPacket,
        None,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
    )
    .unwrap();
    cluster.nodes[1].control = rdma_heartbeat::session::control::Control::new(silent).unwrap();
    cluster.expect_node_dead(&[0], 1);
    assert!(was_killed(cluster.rank_end(1)));
}
