//! The loggers as they are set up, for each number of failures.

use event_log::logger::centralised::Server;
use event_log::logger::classic::Replica;
use event_log::logger::client::Client;
use event_log::logger::group::Group;
use event_log::logger::onesided::Writer;
use event_log::logger::parallel::{Acceptors, Proposer};
use event_log::logger::round::Address;

use super::network::{Process, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Centralised,
    Classic,
    Parallel,
    /// As the thesis measured: no acceptor is on the rank's node.
    ParallelRemote,
    OneSided,
}

/// Who stores, from address 1; ranks are at 100 and above.
pub fn stores(kind: Kind, failures: u32) -> Vec<Address> {
    if kind == Kind::Centralised { vec![1] } else { (1..=2 * failures + 1).collect() }
}

/// Servers and acceptors, without ranks.
pub fn world(kind: Kind, failures: u32) -> World {
    let mut world = World::default();
    let all = stores(kind, failures);
    for &at in &all {
        let others: Vec<_> = all.iter().copied().filter(|other| *other != at).collect();
        let process = match kind {
            Kind::Centralised => Process::Server(Server::default()),
            Kind::Classic => Process::Replica(Replica::new(at, &others, at == 1)),
            Kind::Parallel | Kind::ParallelRemote => Process::Acceptors(Acceptors::default()),
            Kind::OneSided => Process::Regions([].into()),
        };
        world.add(at, process);
    }
    world
}

/// Adds a process of a rank, whose own node has the acceptor `own`.
pub fn start(world: &mut World, kind: Kind, failures: u32, me: Address, own: Address, is_first: bool) {
    let all = stores(kind, failures);
    let others: Vec<_> = all.iter().copied().filter(|other| *other != own).collect();
    let group = if kind == Kind::ParallelRemote { Group::remote(all.clone()) } else { Group::with_own(own, &others) };
    let mut out = vec![];
    let process = match (kind, is_first) {
        (Kind::Centralised | Kind::Classic, true) => Process::Client(Client::first(0, me, all)),
        (Kind::Centralised | Kind::Classic, false) => Process::Client(Client::replacement(0, me, all)),
        (Kind::Parallel | Kind::ParallelRemote, true) => Process::Proposer(Proposer::first(0, me, group)),
        (Kind::Parallel | Kind::ParallelRemote, false) => Process::Proposer(Proposer::replacement(0, me, group)),
        (Kind::OneSided, true) => Process::Writer(Writer::first(0, me, group, &mut out)),
        (Kind::OneSided, false) => Process::Writer(Writer::replacement(0, me, group, &mut out)),
    };
    world.add(me, process);
    world.carry_out(me, 0, out);
}
