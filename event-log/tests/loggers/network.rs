//! Ranks, servers and acceptors with a network between them, whose messages the test delivers as it likes.

use std::collections::{BTreeMap, BTreeSet};

use event_log::determinant::{Determinant, DeterminantId, Event, Rank};
use event_log::logger::centralised::Server;
use event_log::logger::classic::Replica;
use event_log::logger::client::Client;
use event_log::logger::message::Message;
use event_log::logger::onesided::Writer;
use event_log::logger::onesided::region::Region;
use event_log::logger::parallel::{Acceptors, Proposer};
use event_log::logger::round::{Address, Round};
use event_log::logger::{Action, Logger};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    Client(Client),
    Proposer(Proposer),
    Writer(Writer),
    Server(Server),
    Replica(Replica),
    Acceptors(Acceptors),
    Regions(BTreeMap<Rank, Region>),
}

impl Process {
    pub fn logger(&mut self) -> &mut dyn Logger {
        match self {
            Process::Client(client) => client,
            Process::Proposer(proposer) => proposer,
            Process::Writer(writer) => writer,
            other => panic!("{other:?} is no rank"),
        }
    }

    pub fn round(&self) -> Round {
        match self {
            Process::Client(client) => client.round(),
            Process::Proposer(proposer) => proposer.round(),
            Process::Writer(writer) => writer.round(),
            other => panic!("{other:?} is no rank"),
        }
    }

    pub fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>) {
        let answer = |message| Action::Send { to: from, message };
        match (self, message) {
            (Process::Server(server), Message::Command(command)) => {
                let outcome = server.handle(&command);
                out.push(Action::Send { to: outcome.writer.proposer, message: Message::Outcome(outcome) });
            }
            (Process::Replica(replica), message) => replica.handle(from, message, out),
            (Process::Acceptors(acceptors), Message::Request { rank, request }) => {
                let reply = acceptors.handle(rank, request);
                out.extend(reply.map(|reply| answer(Message::Reply { rank, reply })));
            }
            (Process::Regions(regions), Message::Operation { rank, operation }) => {
                let region = regions.entry(rank).or_insert_with(|| Region::new(CAPACITY));
                out.push(answer(Message::Completion { rank, completion: region.handle(operation) }));
            }
            (process, message) => process.logger().handle(from, message, out),
        }
    }
}

/// Of a region.
pub const CAPACITY: usize = 4;

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Letter {
    pub from: Address,
    pub to: Address,
    pub message: Message,
    /// Messages one after the other that led to it, with itself.
    pub delays: u32,
}

/// All processes and the messages between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    pub processes: BTreeMap<Address, Process>,
    pub dead: BTreeSet<Address>,
    pub in_flight: Vec<Letter>,
    /// What the ranks were told, and after how many delays.
    pub told: Vec<(Address, Action, u32)>,
    pub sent: u32,
}

impl World {
    pub fn add(&mut self, address: Address, process: Process) {
        self.processes.insert(address, process);
    }

    pub fn replica(&mut self, at: Address) -> &mut Replica {
        match self.processes.get_mut(&at) {
            Some(Process::Replica(replica)) => replica,
            other => panic!("{other:?} is no replica"),
        }
    }

    /// Lets a rank do something.
    pub fn act(&mut self, at: Address, what: impl FnOnce(&mut dyn Logger, &mut Vec<Action>)) {
        let mut out = vec![];
        what(self.processes.get_mut(&at).expect("it is there").logger(), &mut out);
        self.carry_out(at, 0, out);
    }

    /// A rank saves its next determinant, and is about to send.
    pub fn save(&mut self, at: Address, id: DeterminantId) {
        self.act(at, |logger, out| {
            logger.save(determinant(id, at)).expect("it is the next one");
            logger.flush(out);
        });
    }

    pub fn carry_out(&mut self, at: Address, delays: u32, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    self.sent += 1;
                    self.in_flight.push(Letter { from: at, to, message, delays: delays + 1 });
                }
                Action::Store { to, message } => {
                    if self.dead.contains(&to) {
                        continue;
                    }
                    let mut out = vec![];
                    self.processes.get_mut(&to).expect("it is there").handle(at, message, &mut out);
                    for answer in out {
                        let Action::Send { message, .. } = answer else { panic!("unexpected {answer:?}") };
                        self.hand(Letter { from: to, to: at, message, delays });
                    }
                }
                told => self.told.push((at, told, delays)),
            }
        }
    }

    /// Gives a message to its receiver, if that lives.
    pub fn hand(&mut self, letter: Letter) {
        let Letter { from, to, message, delays } = letter;
        if self.dead.contains(&to) {
            return;
        }
        let Some(process) = self.processes.get_mut(&to) else { return };
        let mut out = vec![];
        process.handle(from, message, &mut out);
        self.carry_out(to, delays, out);
    }

    /// Delivers all messages, the oldest first, until none is under way.
    pub fn settle(&mut self) {
        while !self.in_flight.is_empty() {
            let letter = self.in_flight.remove(0);
            self.hand(letter);
        }
    }

    /// The last determinant that this rank knows to be stable.
    pub fn stable(&self, at: Address) -> DeterminantId {
        let stable = |(who, action, _): &(Address, Action, u32)| match action {
            Action::Stable(id) if *who == at => Some(*id),
            _ => None,
        };
        self.told.iter().filter_map(stable).max().unwrap_or(0)
    }

    /// What this rank has recovered.
    pub fn recovered(&self, at: Address) -> Option<Vec<Determinant>> {
        self.told.iter().find_map(|(who, action, _)| match action {
            Action::Recovered(found) if *who == at => Some(found.clone()),
            _ => None,
        })
    }
}

/// A determinant that shows whose it is.
pub fn determinant(id: DeterminantId, author: Address) -> Determinant {
    Determinant { id, event: Event::Receive, communicator: 0, source: author, tag: 7, request: 0, repetitions: 1 }
}
