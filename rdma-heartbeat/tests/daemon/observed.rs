//! What people see of the daemon: its counters, its log, its refusals, its command line and its size.

use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::cluster::{Cluster, PERIOD, eventually, launch};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use platform::clock;
use propagation::Message;
use propagation::wire::{MAX_LEN, Sealer};

/// An envelope whose MAC is right whatever stands in it.
fn signed(key: &[u8; 32], to: u32, mut bytes: Vec<u8>) -> Vec<u8> {
    let mac = blake3::Hasher::new_keyed(key).update(&bytes).update(&to.to_le_bytes()).finalize();
    bytes.extend_from_slice(&mac.as_bytes()[..16]);
    bytes
}

#[test]
fn bad_datagrams_are_counted_and_dropped() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    let (job, key) = (cluster.launch.job, cluster.launch.key);
    let mut stranger = Sealer::new(job, key, 77, 0);
    let mut good = Vec::new();
    stranger.seal(1, 0, &Message::Verdict, &mut good);
    let unsigned = good[..good.len() - 16].to_vec();
    let with = |at: usize, byte: u8| {
        let mut changed = unsigned.clone();
        changed[at] = byte;
        signed(&key, 1, changed)
    };
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut malformed = unsigned.clone();
    malformed[24] = 9;
    *malformed.last_mut().unwrap() = 200;
    let attacks: [(&str, Vec<u8>); 9] = [
        ("truncated", good[..20].to_vec()),
        ("oversized", vec![0; MAX_LEN + 7]),
        ("not ours", with(0, b'X')),
        ("version", with(2, 99)),
        ("other job", with(4, !unsigned[4])),
        ("forged", forged),
        ("malformed", signed(&key, 1, malformed)),
        ("unknown node", good.clone()),
        ("replayed", good),
    ];
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (_, bytes) in &attacks {
        for _ in 0..2 {
            attacker.send_to(bytes, cluster.nodes[1].address).unwrap();
        }
    }
    let report = eventually("all are counted", || {
        let report = cluster.nodes[1].report();
        (report.rejected.values().sum::<u64>() >= 18).then_some(report)
    });
    for (kind, _) in attacks {
        // The second copy of a genuine envelope is a replay, whatever the first was.
        let expected = match kind {
            "malformed" | "unknown node" => 1,
            "replayed" => 4,
            _ => 2,
        };
        assert_eq!(report.rejected[kind], expected, "{kind}: {:?}", report.rejected);
    }
    cluster.let_pass(&[0, 1], PERIOD * 3);
    cluster.assert_nobody_declared();
}

#[test]
fn a_daemon_started_by_hand_explains_itself() {
    let daemon = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_ringwatchd")).args(arguments).output().unwrap();
    let output = daemon(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("started by mpirun"));
    assert!(daemon(&["--version"]).stdout.starts_with(b"ringwatchd "));
    assert!(daemon(&["--help"]).status.success());
    assert_eq!(daemon(&["--nonsense"]).status.code(), Some(2));
}

#[test]
fn the_log_goes_where_the_parameters_say() {
    let folder = std::env::temp_dir().join(format!("ringwatch-observed-{}", std::process::id()));
    let mut launch = launch(&[1, 1]);
    launch.parameters.log = format!("{}/%j/node%n.log", folder.display());
    launch.parameters.log_level = "info".into();
    let mut cluster = Cluster::running(launch);
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[1]);
    let path = folder.join(&cluster.launch.nspace).join("node0.log");
    let text = eventually("the line is written", || {
        let text = std::fs::read_to_string(&path).ok()?;
        text.contains(" declared rank=1 ").then_some(text)
    });
    let line = text.lines().find(|line| line.contains("declared")).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words[0].len(), "2026-01-01T00:00:00.000000Z".len());
    assert_eq!(words[1], "INFO");
    assert_eq!(words[3..], ["declared", "rank=1", "node=1", "reason=signal:9", "source=1"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_log_that_cannot_be_opened_stops_nothing() {
    let mut launch = launch(&[1, 1]);
    launch.parameters.log = "/proc/no/such/folder/log".into();
    launch.parameters.log_level = "loud".into();
    let mut cluster = Cluster::running(launch);
    cluster.assert_nobody_declared();
}

#[test]
fn a_standard_error_that_nobody_reads_stops_nothing() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    let (_reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
    let mut writer = File::from(writer);
    while writer.write(&[b'.'; 512]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let node = &mut cluster.nodes[1];
    node.kill_daemon();
    node.stderr = writer;
    node.restart_daemon();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[1]);
    cluster.let_pass(&[0, 1], PERIOD * 3);
    assert_eq!(cluster.nodes[0].deaths().len(), 1);
}

#[test]
fn a_daemon_stays_small() {
    let cluster = Cluster::running(launch(&[1, 1]));
    cluster.let_pass(&[1], Duration::from_millis(200));
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.nodes[1].daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.split_ascii_whitespace().next().unwrap().parse().unwrap();
    assert!(kib < 16 * 1024, "{kib} KiB");
}

#[test]
fn a_daemon_wakes_up_about_once_a_period() {
    let mut launch = launch(&[2, 2, 2]);
    launch.parameters.stop_timeout = Some(Duration::from_secs(2));
    let cluster = Cluster::running(launch);
    // The history of the start has to arrive.
    cluster.let_pass(&[0, 1, 2], PERIOD * 20);
    for node in &cluster.nodes {
        let wakes = || -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{}/status", node.daemon.id())).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse().unwrap()
        };
        let heartbeats = || node.report().counters["heartbeats sent"];
        let (sent, before) = (heartbeats(), wakes());
        cluster.let_pass(&[0, 1, 2], PERIOD * 100);
        let (woken, sent) = (wakes() - before, heartbeats() - sent);
        // Questions and the sampling of processes are in it.
        assert!(sent >= 50 && woken <= sent * 5 / 4 + 10, "{woken} wake-ups, {sent} heartbeats");
    }
}

/// The system call in which a process waits at this moment; `None` if it runs, or waits for a page.
fn waits_in(pid: u32) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
    text.split_ascii_whitespace().next()?.parse().ok().filter(|call| *call >= 0)
}

#[test]
fn between_two_heartbeats_the_daemon_waits_for_events_and_in_no_other_call() {
    let mut launch = launch(&[2, 2, 2]);
    launch.parameters.stop_timeout = Some(Duration::from_secs(2));
    let mut cluster = Cluster::running(launch);
    cluster.let_pass(&[0, 1, 2], PERIOD * 20);
    for deaths in [0, 1] {
        if deaths == 1 {
            cluster.signal_rank(3, Signal::SIGKILL);
            cluster.expect_ranks_dead(&[0, 1, 2], &[3]);
        }
        for node in &cluster.nodes {
            let mut waits = std::collections::BTreeMap::<i64, u32>::new();
            let first = node.segment.beats();
            while node.segment.beats() < first + 25 {
                waits_in(node.daemon.id()).into_iter().for_each(|call| *waits.entry(call).or_default() += 1);
            }
            let events = [libc::SYS_epoll_pwait2, libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
            let in_events: u32 = events.iter().filter_map(|call| waits.remove(call)).sum();
            // A lock of the kernel's that somebody else holds just then makes a wait of any call, now and then.
            let in_others: u32 = waits.values().sum();
            assert!(in_others * 1000 <= in_events, "{in_events} times for events, else {waits:?}");
            assert!(in_events > 50, "the daemon is seen to wait");
        }
    }
}

/// Of several stretches of heartbeats one at least is without, of each node.
fn expect_no_allocations(cluster: &Cluster) {
    let count = |name: &str, node: usize| cluster.nodes[node].report().counters[name];
    for node in 0..cluster.nodes.len() {
        let (first, second) = (count("allocations", node), count("allocations", node));
        let question = second - first;
        // The history of what happened before may still be on its way to node 0.
        let without = |&(turns, grown): &(u64, u64)| turns >= 25 && grown <= question + 4;
        let mut stretches = Vec::new();
        while stretches.len() < 5 && !stretches.last().is_some_and(without) {
            let (heartbeats, before) = (count("heartbeats sent", node), count("allocations", node));
            cluster.let_pass(&[node], PERIOD * 50);
            let grown = count("allocations", node) - before;
            stretches.push((count("heartbeats sent", node) - heartbeats, grown));
        }
        assert!(
            stretches.iter().any(without),
            "node {node}: heartbeats and allocations {stretches:?}, question {question}"
        );
    }
}

#[test]
fn no_memory_is_asked_for_between_two_heartbeats() {
    let mut launch = launch(&[2, 2, 2]);
    launch.parameters.stop_timeout = Some(Duration::from_millis(400));
    let mut cluster = Cluster::running(launch);
    // Buffers have their size after the first turns.
    cluster.let_pass(&[0, 1, 2], PERIOD * 10);
    expect_no_allocations(&cluster);
    // Nor when somebody has died, and MPI has told the others.
    cluster.signal_rank(3, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[3]);
    for node in &cluster.nodes {
        node.segment.note_raised(0, node.segment.len(), clock::now());
        node.segment.note_error(0, "MPI_ERR_PROC_FAILED", "MPI_Recv", clock::now());
    }
    cluster.let_pass(&[0, 1, 2], PERIOD * 10);
    expect_no_allocations(&cluster);
}

#[test]
fn no_memory_is_asked_for_while_a_rank_is_stopped() {
    let mut launch = launch(&[2, 2, 2]);
    // So long that it is never over; a stopped rank is sampled eight times in each stretch.
    launch.parameters.stop_timeout = Some(PERIOD * 3000);
    let mut cluster = Cluster::running(launch);
    cluster.signal_rank(3, Signal::SIGSTOP);
    cluster.let_pass(&[0, 1, 2], PERIOD * 30);
    expect_no_allocations(&cluster);
    cluster.signal_rank(3, Signal::SIGCONT);
    cluster.assert_nobody_declared();
}
