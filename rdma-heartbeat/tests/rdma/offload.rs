//! A host on one guest that the other one serves.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use node_abi::launch::{Carrier, FromDaemon, LaunchData};
use propagation::NodeReason;

use crate::cluster::{eventually, send_signal};
use crate::half::Half;
use crate::{SHARED, guest, meet, shared};

/// A remote shell to the other guest: sends the command there in a line, and then its own input.
const REMOTE_SHELL: &str = "\
exec 3<>/dev/tcp/$1/9000 4<&0
printf '%s\\n' \"$2\" >&3
cat <&3 &
cat <&4 >&3 &
wait -n
kill %1 %2 2>/dev/null
";

/// The other end of the remote shell, for one command after the other.
fn answer_remote_shells() {
    let listener = TcpListener::bind("0.0.0.0:9000").unwrap();
    std::thread::spawn(move || {
        for link in listener.incoming() {
            let link = link.unwrap();
            let mut line = String::new();
            // Not a byte more than the line is for this process.
            BufReader::with_capacity(1, &link).read_line(&mut line).unwrap();
            let (input, output) = (link.try_clone().unwrap(), link);
            let mut command = Command::new("sh");
            command.arg("-c").arg(line).stdin(Stdio::from(std::os::fd::OwnedFd::from(input)));
            let mut child = command.stdout(Stdio::from(std::os::fd::OwnedFd::from(output))).spawn().unwrap();
            drop(command);
            child.wait().unwrap();
        }
    });
}

/// Node 2 is a host on the first guest that the second one serves.
fn served(node: u32, launch: &mut LaunchData) {
    if node == 2 {
        launch.agent = format!("bash {SHARED}/remote-shell");
        launch.parameters.offload = vec![(platform::say::host(), "10.78.0.2".into())];
    }
}

#[test]
fn a_host_on_one_guest_is_served_by_the_other() {
    if guest() == 2 {
        answer_remote_shells();
    } else {
        std::fs::write(shared("remote-shell"), REMOTE_SHELL).unwrap();
    }
    meet("remote shell");
    let mut half = Half::start_as("served", 10, Carrier::Auto, served);
    half.until("the ring is closed", |report| report.last_heartbeat_us.is_some());
    if let Some(node) = half.here(2) {
        let name = node.status_name();
        eventually("flags come from the host, and go between its service and the ring", || {
            let report = rdma_heartbeat::report::status::ask(&name).ok()?;
            let means = [report.offload_means, report.emitter_means, report.observer_means];
            means.iter().all(|one| one.as_deref() == Some("verbs")).then_some(())
        });
    }
    half.meet("flags");
    half.assert_nobody_declared();
    half.meet("a rank is killed");
    if let Some(node) = half.here(2) {
        send_signal(&node.ranks[&2], Signal::SIGKILL);
    }
    for node in half.nodes.values_mut() {
        node.expect("RanksDead", |packet| match packet {
            FromDaemon::RanksDead { ranks, .. } if *ranks == [2] => Some(()),
            _ => None,
        });
    }
    half.meet("the host falls silent");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    for node in half.nodes.values_mut().filter(|node| node.me != 2) {
        // Not silent on the ring, where the other guest speaks for it: that has said so itself.
        let reason = node.expect("NodeDead", |packet| match packet {
            FromDaemon::NodeDead { node: 2, reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(reason, NodeReason::Resigned);
    }
    half.meet("end");
}
