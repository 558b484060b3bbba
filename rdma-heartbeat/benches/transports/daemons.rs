//! A job of two nodes without ranks' MPI: real `ringwatchd`s, one in each process.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use node_abi::launch::{self, LaunchData};
use node_abi::segment::Phase;
use rdma_heartbeat::report::status;
use serde_json::{Value, json};

use crate::cluster::{Node, eventually};
use crate::end::Carrier;
use crate::line::{Ask, Line, Reply, expect};

/// Port of node 0; node 1 takes any.
const PORT: u16 = 7401;

/// Runs both nodes and returns what each cost.
pub fn measure(
    line: &mut Line,
    own: IpAddr,
    carrier: Carrier,
    period: Duration,
    seconds: Duration,
) -> Result<Vec<Value>, String> {
    let mut launch = crate::cluster::launch(&[1, 1]);
    launch.rendezvous = vec![(own, PORT).into()];
    launch.parameters.period = period;
    launch.parameters.timeout = period * 10;
    launch.parameters.log_level = "warn".into();
    launch.parameters.transport = match carrier {
        Carrier::Verbs => launch::Carrier::Verbs,
        _ => launch::Carrier::Udp,
    };
    line.say(&Ask::Daemon { launch: Box::new(launch.clone()), seconds })?;
    let (_node, here) = run(&launch, 0, own, seconds)?;
    let there = expect(line.hear()?, |reply| match reply {
        Reply::Daemon(value) => Some(value),
        _ => None,
    })?;
    // Now that both have been measured.
    line.say(&Ask::Stop)?;
    Ok(vec![here, there])
}

/// Starts one of the nodes and measures it. It lives on, because the other may still be measured.
pub fn run(launch: &LaunchData, me: u32, own: IpAddr, seconds: Duration) -> Result<(Node, Value), String> {
    let port = if me == 0 { PORT } else { 0 };
    let socket = UdpSocket::bind((own, port)).map_err(|error| format!("{own}: {error}"))?;
    let mut node = Node::start(launch, me, socket, None, Phase::Running);
    let name = node.status_name();
    let flags = launch.parameters.transport == launch::Carrier::Verbs;
    eventually("the ring is closed", || {
        let report = status::ask(&name).ok()?;
        let works = report.emitter_means.is_some() && report.observer_means.is_some();
        (report.last_heartbeat_us.is_some() && works == flags).then_some(())
    });
    // What the start brings with it is over.
    std::thread::sleep(launch.parameters.period * 50);
    let pid = node.daemon.id();
    let before = processor(pid);
    std::thread::sleep(seconds);
    let nanoseconds = processor(pid) - before;
    let memory = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| error.to_string())?;
    let kib = |name: &str| -> u64 {
        let line = memory.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    let value = json!({"percent": nanoseconds as f64 / seconds.as_nanos() as f64 * 100.0,
        "peak_kib": kib("VmHWM"), "resident_kib": kib("VmRSS")});
    node.drain();
    if node.deaths().is_empty() { Ok((node, value)) } else { Err(format!("node {me} saw {:?}", node.deaths())) }
}

/// Processor time of all threads of a process, in nanoseconds, as the scheduler counts it.
fn processor(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let own = |task: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(own).sum()
}
