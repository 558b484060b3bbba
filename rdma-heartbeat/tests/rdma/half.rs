//! A job of four nodes, 0 and 2 on one guest, 1 and 3 on the other: every heartbeat crosses the link, until somebody
//! dies.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use nix::unistd::getuid;
use node_abi::launch::{Carrier, FromDaemon, LaunchData};
use node_abi::segment::Phase;
use propagation::NodeReason;
use rdma_heartbeat::history::{Event, Record, feed, read};
use rdma_heartbeat::report::status::{Report, name_of};

use crate::cluster::{Node, eventually, launch};
use crate::{PERIOD, TIMEOUT, address_of, guest, meet};

const NODES: [u32; 4] = [0, 1, 2, 3];

/// This guest's part of a job.
pub struct Half {
    name: &'static str,
    pub nodes: BTreeMap<u32, Node>,
}

impl Half {
    /// A job whose heartbeats are flags at both guests.
    pub fn raising_flags(name: &'static str, job: u64) -> Self {
        let half = Self::start(name, job, Carrier::Auto);
        half.until_flags();
        half.meet("flags");
        half
    }

    pub fn start(name: &'static str, job: u64, transport: Carrier) -> Self {
        Self::start_as(name, job, transport, |_, _| ())
    }

    /// The same, with a change for each node.
    pub fn start_as(name: &'static str, job: u64, transport: Carrier, change: fn(u32, &mut LaunchData)) -> Self {
        let mut launch = launch(&[1; NODES.len()]);
        launch.job = job;
        launch.nspace = name.into();
        launch.rendezvous = vec![address_of(job, 0)];
        launch.parameters.period = PERIOD;
        launch.parameters.timeout = TIMEOUT;
        launch.parameters.transport = transport;
        let here = NODES.into_iter().filter(|node| node % 2 + 1 == guest());
        let start = |node| {
            let socket = UdpSocket::bind(address_of(job, node)).unwrap();
            let mut launch = launch.clone();
            change(node, &mut launch);
            (node, Node::start(&launch, node, socket, None, Phase::Running))
        };
        Self { name, nodes: here.map(start).collect() }
    }

    pub fn meet(&self, place: &str) {
        meet(&format!("{}.{place}", self.name));
    }

    pub fn here(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    /// Waits until every daemon here says this of itself.
    pub fn until(&self, what: &str, holds: impl Fn(&Report) -> bool) {
        for node in self.nodes.values() {
            let name = node.status_name();
            eventually(what, || rdma_heartbeat::report::status::ask(&name).ok().filter(&holds));
        }
    }

    /// Waits until all heartbeats from and to this guest are flags.
    pub fn until_flags(&self) {
        self.until("heartbeats are flags", |report| {
            let means = [&report.emitter_means, &report.observer_means];
            means.iter().all(|means| means.as_deref() == Some("verbs")) && report.last_heartbeat_us.is_some()
        });
    }

    pub fn assert_nobody_declared(&mut self) {
        for node in self.nodes.values_mut() {
            node.drain();
            assert!(node.deaths().is_empty(), "node {}: {:?}", node.me, node.deaths());
        }
    }

    /// By the history, which says so when it begins.
    pub fn assert_nobody_suspected(&self) {
        for me in self.nodes.keys() {
            let name = name_of(feed::PREFIX, getuid().as_raw(), self.name, *me);
            let history = std::io::read_to_string(feed::call(&name, false).unwrap()).unwrap();
            let (records, _) = read(&history);
            let is_suspicion = |record: &Record| matches!(record.event, Event::Suspected { .. } | Event::Asked { .. });
            assert!(!records.is_empty() && !records.iter().any(is_suspicion), "{history}");
        }
    }

    /// Waits until the nodes here have heard that a node fell silent.
    pub fn expect_silence(&mut self, dead: u32) {
        for node in self.nodes.values_mut().filter(|node| node.me != dead) {
            node.expect("NodeDead", |packet| match packet {
                FromDaemon::NodeDead { node, reason: NodeReason::Silent, .. } if *node == dead => Some(()),
                _ => None,
            });
        }
    }
}
