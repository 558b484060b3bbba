//! How long it takes until a lost rack is known, by ring order: `cargo run -p propagation --example ring_order`.
//!
//! 24 nodes in four racks; one rack loses its power 50 ms after the start. Heartbeats every 10 ms, a timeout of
//! 100 ms, no arbiter.

use std::collections::BTreeSet;
use std::time::Duration;

use propagation::topology::{from_host_names, longest_run, spread};
use propagation::{Action, Config, Member, NodeId, RingOrder, Time};

const NODES: u32 = 24;
const MS: Time = Duration::from_millis(1);

fn main() {
    let hosts: Vec<_> = (0..NODES).map(|node| format!("r{}n{}", node / 6, node % 6)).collect();
    let domains = from_host_names(&hosts.iter().map(String::as_str).collect::<Vec<_>>());
    let lost: BTreeSet<NodeId> = (6..12).collect();
    for (name, order) in [("ids", RingOrder::default()), ("racks apart", spread(&domains))] {
        let ring: Vec<_> = (0..NODES).map(|place| hosts[order.node(place) as usize].as_str()).collect();
        println!("{name}: {}", ring.join(" "));
        let run = longest_run(&order, NODES, &lost);
        let known = time_until_known(&order, &lost);
        println!(
            "  longest run of lost neighbours: {run}; all survivors know all {} deaths after {known:?}\n",
            lost.len()
        );
    }
}

/// How long after the loss the last survivor knows of the last death; messages take no time.
fn time_until_known(order: &RingOrder, lost: &BTreeSet<NodeId>) -> Time {
    let member = |me| {
        let config = Config { arbiter: None, order: order.clone(), ..Config::new(me, NODES, 10 * MS, 100 * MS) };
        Member::new(config, [], Time::ZERO)
    };
    let mut members: Vec<_> = (0..NODES).map(member).collect();
    let mut now = Time::ZERO;
    let is_lost = |node: NodeId, now: Time| now >= 50 * MS && lost.contains(&node);
    loop {
        let alive = (0..NODES).filter(|&node| !is_lost(node, now));
        if alive.clone().all(|node| lost.contains(&node) || members[node as usize].dead().count() == lost.len()) {
            return now - 50 * MS;
        }
        let mut out = Vec::new();
        for node in alive {
            members[node as usize].tick(now, &mut out);
            let mut sent: Vec<_> = out.drain(..).map(|action| (node, action)).collect();
            while let Some((from, action)) = sent.pop() {
                let Action::Send { to, message } = action else { continue };
                if !is_lost(to, now) {
                    members[to as usize].handle(now, from, message, &mut out);
                    sent.extend(out.drain(..).map(|action| (to, action)));
                }
            }
        }
        now += MS;
    }
}
