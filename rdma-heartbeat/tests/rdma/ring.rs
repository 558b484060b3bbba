//! Heartbeats are flags, whoever is killed, stopped or started again, and datagrams where there can be none.

use std::process::Command;

use nix::sys::signal::Signal;
use node_abi::launch::{Carrier, End};
use node_abi::segment::Entry;

use crate::cluster::{Node, eventually, send_signal};
use crate::half::Half;
use crate::{TIMEOUT, guest, meet, shared};

fn run(command: &str) {
    assert!(Command::new("sh").arg("-c").arg(command).status().unwrap().success(), "{command}");
}

#[test]
fn heartbeats_are_flags_and_no_datagrams_are_left() {
    let mut half = Half::raising_flags("flags", 1);
    for node in half.nodes.values() {
        let before = node.report().counters;
        let name = node.status_name();
        let after = eventually("ten more flags", || {
            let counters = rdma_heartbeat::report::status::ask(&name).ok()?.counters;
            let more = |kind: &str| counters[kind] >= before[kind] + 10;
            (more("flags seen") && more("flags raised")).then_some(counters)
        });
        for kind in ["heartbeats sent", "heartbeats received", "flags refused"] {
            assert_eq!(after[kind], before[kind], "{kind}");
        }
    }
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn flags_arrive_while_their_observer_is_stopped() {
    let mut half = Half::raising_flags("one-sided", 7);
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    half.meet("stopped");
    // Of a write that no device takes the second next heartbeat would tell.
    if let Some(node) = half.here(1) {
        let before = node.report();
        let after = eventually("six more flags", || {
            let report = node.report();
            (report.counters["flags raised"] >= before.counters["flags raised"] + 6).then_some(report)
        });
        assert_eq!(after.observer_means.as_deref(), Some("verbs"), "{}", node.stderr());
        assert_eq!(after.counters["heartbeats sent"], before.counters["heartbeats sent"]);
    }
    half.meet("raised");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGCONT);
        eventually("the last of them is seen", || (node.report().counters["flags overtaken"] >= 5).then_some(()));
    }
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_daemon_that_is_stopped_for_a_while_or_started_again_is_not_missed() {
    let mut half = Half::raising_flags("again", 2);
    // To one node each of these happens at its emitter, to another at its observer.
    if let Some(node) = half.here(1) {
        node.kill_daemon();
        node.restart_daemon();
    }
    half.meet("restarted");
    half.until_flags();
    half.meet("flags again");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
        std::thread::sleep(TIMEOUT / 4);
        send_signal(&node.daemon, Signal::SIGCONT);
    }
    half.meet("continued");
    half.until_flags();
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_silent_node_is_declared_and_the_ring_closes_with_flags() {
    let mut half = Half::raising_flags("silent", 3);
    if let Some(node) = half.here(1) {
        node.kill_daemon();
    }
    half.expect_silence(1);
    half.nodes.remove(&1);
    // From node 0 to node 2 now, which is the same device.
    half.until_flags();
    half.meet("closed");
    if let Some(node) = half.here(3) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    half.expect_silence(3);
    half.nodes.remove(&3);
    half.until_flags();
    half.until("two nodes are left", |report| report.emitter == report.observer);
    half.meet("end");
}

/// As a virtual machine is that somebody has paused: its own daemons only see that time has gone by.
#[test]
fn a_guest_that_is_stopped_is_dead_and_ends_its_ranks_when_it_goes_on() {
    let mut half = Half::raising_flags("stopped", 11);
    if guest() == 1 {
        std::fs::write(shared("stop.2"), "").unwrap();
        half.expect_silence(1);
        half.expect_silence(3);
        half.until_flags();
        half.until("two nodes are left", |report| report.emitter == report.observer);
        std::fs::remove_file(shared("stop.2")).unwrap();
    } else {
        for node in half.nodes.values_mut() {
            let (reason, sentence) = node.expect_end();
            assert!(matches!(reason, End::DeclaredDead | End::CutOff), "{sentence}");
        }
    }
    half.meet("end");
    if guest() == 1 {
        let dead = |node: &Node| node.deaths().into_iter().filter(|entry| matches!(entry, Entry::Node(_))).count();
        assert!(half.nodes.values().all(|node| dead(node) == 2));
    }
}

#[test]
fn a_port_that_goes_down_and_comes_up_again_carries_flags_again() {
    let mut half = Half::raising_flags("port", 4);
    if guest() == 2 {
        run("ip link set eth0 down && sleep 1 && ip link set eth0 up");
    }
    half.meet("up");
    half.until_flags();
    half.assert_nobody_declared();
    half.meet("end");
}

/// The link loses RDMA and nothing else.
#[test]
fn where_writes_are_lost_heartbeats_are_datagrams_before_anybody_is_suspected() {
    let mut half = Half::raising_flags("lost", 19);
    if guest() == 2 {
        run("tc qdisc add dev eth0 clsact");
        run(
            "tc filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff action drop",
        );
    }
    half.meet("lossy");
    half.until("datagrams from a node of the other guest", |report| report.observer_means.is_none());
    for node in half.nodes.values() {
        let before = node.report().counters;
        let name = node.status_name();
        eventually("heartbeats as datagrams", || {
            let counters = rdma_heartbeat::report::status::ask(&name).ok()?.counters;
            (counters["heartbeats received"] >= before["heartbeats received"] + 5).then_some(())
        });
    }
    half.meet("datagrams");
    half.assert_nobody_suspected();
    if guest() == 2 {
        run("tc qdisc del dev eth0 clsact");
    }
    half.until_flags();
    half.assert_nobody_declared();
    half.meet("end");
}

/// Guest 2 lacks something, of which it is told how it goes and how it comes back.
fn watched_by_datagrams(name: &'static str, job: u64, [goes, comes_back]: [&str; 2]) {
    if guest() == 2 {
        run(goes);
    }
    meet(&format!("{name}.gone"));
    let mut half = Half::start(name, job, Carrier::Verbs);
    half.until("the ring is closed", |report| report.last_heartbeat_us.is_some());
    half.until("heartbeats have come for a while", |report| report.counters["heartbeats received"] >= 10);
    half.until("no flags", |report| report.emitter_means.is_none() && report.observer_means.is_none());
    for node in half.nodes.values() {
        if guest() == 1 {
            let line = "heartbeats from this node stay datagrams";
            eventually("the log says so", || node.stderr().contains(line).then_some(()));
        }
    }
    half.assert_nobody_declared();
    half.meet("end");
    if guest() == 2 {
        run(comes_back);
    }
    meet(&format!("{name}.back"));
}

/// Both guests have RDMA, and the user wants none.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn heartbeats_stay_datagrams_where_udp_is_asked_for() {
    let mut half = Half::start("asked", 18, Carrier::Udp);
    half.until("heartbeats have come for a while", |report| report.counters["heartbeats received"] >= 30);
    half.until("no flags", |report| report.emitter_means.is_none() && report.observer_means.is_none());
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_guest_without_rdma_is_watched_by_datagrams() {
    watched_by_datagrams("without", 5, ["rdma link delete rxe0", "rdma link add rxe0 type rxe netdev eth0"]);
}

#[test]
fn a_guest_with_rdma_and_without_libibverbs_is_watched_by_datagrams() {
    let library = "$(readlink -f /usr/lib/*/libibverbs.so.1)";
    let commands = [format!("mount --bind /dev/null {library}"), format!("umount {library}")];
    watched_by_datagrams("library", 12, commands.each_ref().map(String::as_str));
}

/// Switches this guest off, at once.
fn go_down() -> ! {
    std::fs::write("/proc/sysrq-trigger", "b").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn whole_guest_dies() {
    let mut half = Half::raising_flags("guest", 6);
    if guest() == 2 {
        // What follows cannot be told any more.
        std::fs::write(shared("status.2"), "0\n").unwrap();
        go_down();
    }
    half.expect_silence(1);
    half.expect_silence(3);
    half.until_flags();
    assert_eq!(half.nodes[&0].report().observer, Some(2));
}

/// The survivors' devices know connections to a machine that is a new one: what is left of them harms nobody.
#[test]
#[ignore = "half a minute: a part of scripts/test --full"]
fn whole_guest_comes_back() {
    let is_back = shared("went-down").exists();
    if guest() == 2 && !is_back {
        let _half = Half::raising_flags("before", 8);
        std::fs::write(shared("went-down"), "").unwrap();
        std::fs::write(shared("restart.2"), "").unwrap();
        go_down();
    }
    let before = (guest() == 1).then(|| {
        let mut half = Half::raising_flags("before", 8);
        half.expect_silence(1);
        half.expect_silence(3);
        half
    });
    let mut half = Half::raising_flags("after", 9);
    half.assert_nobody_declared();
    if let Some(before) = before {
        before.until_flags();
        for node in before.nodes.values() {
            let nodes = node.deaths().into_iter().filter(|entry| matches!(entry, Entry::Node(_))).count();
            assert_eq!(nodes, 2, "{:?}", node.deaths());
        }
    }
    half.meet("end");
}
