//! What is at the other end of a rank's logger.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::logger::Action;
use event_log::logger::centralised::Server;
use event_log::logger::classic::Replica;
use event_log::logger::message::Message;
use event_log::logger::onesided::region::Region;
use event_log::logger::parallel::Acceptors;
use event_log::logger::round::Address;

/// Room of a region, in determinants.
const CAPACITY: usize = 1024;

/// A process or a memory that stores determinants.
pub enum Store {
    /// The centralised server.
    Server(Server),
    /// A replica of the classic logger.
    Replica(Box<Replica>),
    /// Acceptors of the parallel logger.
    Acceptors(Acceptors),
    /// Memory that is registered for ranks.
    Regions(BTreeMap<Rank, Region>),
}

impl Store {
    /// Takes a message from this process, and returns what it sends.
    pub fn handle(&mut self, from: Address, message: Message) -> Vec<Action> {
        let mut out = Vec::new();
        let answer = |message| Action::Send { to: from, message };
        match (self, message) {
            (Store::Server(server), Message::Command(command)) => {
                out.push(answer(Message::Outcome(server.handle(&command))))
            }
            (Store::Replica(replica), message) => replica.handle(from, message, &mut out),
            (Store::Acceptors(acceptors), Message::Request { rank, request }) => {
                out.extend(acceptors.handle(rank, request).map(|reply| answer(Message::Reply { rank, reply })));
            }
            (Store::Regions(regions), Message::Operation { rank, operation }) => {
                let region = regions.entry(rank).or_insert_with(|| Region::new(CAPACITY));
                out.push(answer(Message::Completion { rank, completion: region.handle(operation) }));
            }
            _ => {}
        }
        out
    }
}
