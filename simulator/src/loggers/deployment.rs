//! Which process is on which node.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::logger::Logger;
use event_log::logger::centralised::Server;
use event_log::logger::classic::Replica;
use event_log::logger::client::Client;
use event_log::logger::group::Group;
use event_log::logger::onesided::Writer;
use event_log::logger::parallel::{Acceptors, Proposer};
use event_log::logger::round::Address;

use crate::loggers::store::Store;

/// A logger, set up for one failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server on a node of its own.
    Centralised,
    /// Three replicas on nodes of their own.
    Classic,
    /// Three nodes of their own, each with an acceptor process for every rank: as the thesis measured.
    ParallelDedicated,
    /// Each rank's acceptors are on its own node and the next two: as ringwatch does it.
    ParallelOwn,
    /// The same with writes into the memory of the next two.
    OneSided,
}

impl Deployment {
    /// All of them.
    pub const ALL: [Deployment; 5] = [
        Deployment::Centralised,
        Deployment::Classic,
        Deployment::ParallelDedicated,
        Deployment::ParallelOwn,
        Deployment::OneSided,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Deployment::Centralised => "centralised",
            Deployment::Classic => "classic Paxos",
            Deployment::ParallelDedicated => "parallel Paxos, three acceptor nodes",
            Deployment::ParallelOwn => "parallel Paxos, own node and one other",
            Deployment::OneSided => "one-sided, own node and one other",
        }
    }
}

/// Processors of a node with acceptors or servers only.
pub const DEDICATED_PROCESSORS: usize = 8;

/// Processors of a rank's node that matter here: the rank's and ringwatchd's.
const RANK_PROCESSORS: usize = 2;

/// A rank's place: ranks are on nodes of their own, from node 0 and address 0 on.
pub struct Place {
    /// Its end of the logger.
    pub logger: Box<dyn Logger>,
    /// What it does first: opens its regions.
    pub first: Vec<event_log::logger::Action>,
}

/// The processors of each node.
#[must_use]
pub fn nodes(deployment: Deployment, ranks: u32) -> Vec<usize> {
    let others = match deployment {
        Deployment::Centralised => 1,
        Deployment::Classic | Deployment::ParallelDedicated => 3,
        // So that a rank by itself has two others, too.
        Deployment::ParallelOwn | Deployment::OneSided => 2_usize.saturating_sub(ranks as usize - 1),
    };
    let rank_nodes = (0..ranks).map(|_| RANK_PROCESSORS);
    rank_nodes.chain((0..others).map(|_| DEDICATED_PROCESSORS)).collect()
}

/// What stores: address, node, process.
#[must_use]
pub fn stores(deployment: Deployment, ranks: u32) -> Vec<(Address, usize, Store)> {
    let node = |address: Address| (address - ranks) as usize;
    match deployment {
        Deployment::Centralised => vec![(ranks, ranks as usize, Store::Server(Server::default()))],
        Deployment::Classic => {
            let all = [ranks, ranks + 1, ranks + 2];
            let others = |me| all.iter().copied().filter(|other| *other != me).collect::<Vec<_>>();
            all.map(|me| (me, me as usize, Store::Replica(Box::new(Replica::new(me, &others(me), me == ranks))))).into()
        }
        Deployment::ParallelDedicated => (0..3 * ranks)
            .map(|number| (ranks + number, (ranks + number % 3) as usize, Store::Acceptors(Acceptors::default())))
            .collect(),
        Deployment::ParallelOwn | Deployment::OneSided => {
            let count = ranks + 2_u32.saturating_sub(ranks - 1);
            let store = || {
                if deployment == Deployment::OneSided {
                    Store::Regions(BTreeMap::new())
                } else {
                    Store::Acceptors(Acceptors::default())
                }
            };
            (ranks..ranks + count).map(|address| (address, node(address), store())).collect()
        }
    }
}

/// A rank.
#[must_use]
pub fn rank(deployment: Deployment, ranks: u32, me: Rank) -> Place {
    let mut first = Vec::new();
    let next = |distance: u32| {
        let count = ranks + 2_u32.saturating_sub(ranks - 1);
        ranks + (me + distance) % count
    };
    let group = || Group::with_own(next(0), &[next(1), next(2)]);
    let logger: Box<dyn Logger> = match deployment {
        Deployment::Centralised => Box::new(Client::first(me, me, vec![ranks])),
        Deployment::Classic => Box::new(Client::first(me, me, vec![ranks, ranks + 1, ranks + 2])),
        Deployment::ParallelDedicated => {
            let acceptors = (0..3).map(|number| ranks + 3 * me + (me + number) % 3).collect();
            Box::new(Proposer::first(me, me, Group::remote(acceptors)))
        }
        Deployment::ParallelOwn => Box::new(Proposer::first(me, me, group())),
        Deployment::OneSided => Box::new(Writer::first(me, me, group(), &mut first)),
    };
    Place { logger, first }
}
