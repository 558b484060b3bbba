//! The atomic broadcasts of the thesis's annex A: each member broadcasts one message, and all deliver all in one order.
//!
//! Three ways: a sequencer that sends on what it gets (unicast-broadcast), a sequencer that numbers what everybody has
//! got (broadcast-broadcast), and one consensus on what the leader has got. Messages take a random time; nobody fails.
//! The annex does not count all messages alike, so each kind is counted by itself here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use recommended_group::units::Rank;
use serde::Serialize;

use crate::random::{Purpose, Stream};

/// A way to agree on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One consensus when the leader has the messages of all.
    Consensus,
    /// Sender to sequencer, sequencer to all.
    UnicastBroadcast,
    /// Sender to all, sequencer's number to all.
    BroadcastBroadcast,
}

/// Messages by kind, and what the members have delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// From the senders to all others.
    pub broadcast: u64,
    /// From the senders to the sequencer only.
    pub to_sequencer: u64,
    /// From the sequencer to all others.
    pub numbered: u64,
    /// Of the leader in the two phases of Paxos, to all acceptors, itself among them.
    pub phases: u64,
    /// The acceptors' answers, and the decision to all others.
    pub answers: u64,
    /// Whether all have delivered all messages in one order.
    pub is_same: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Data(Rank),
    ToSequencer(Rank),
    /// A number, and whose message has it.
    Numbered(usize, Rank),
    Prepare,
    Promise,
    Accept(Vec<Rank>),
    Accepted(Vec<Rank>),
    Decide(Vec<Rank>),
}

struct Members {
    way: Way,
    count: Rank,
    queue: BinaryHeap<Reverse<(u64, u64, Rank, Message)>>,
    number: u64,
    now: u64,
    chance: Stream,
    /// By member: by place in the order, whose message it is.
    orders: Vec<Vec<Option<Rank>>>,
    /// Numbers that the sequencer has given.
    given: usize,
    /// What the leader has got, in its order.
    got: Vec<Rank>,
    promises: Rank,
    accepted: Rank,
    counted: Counted,
}

const LEADER: Rank = 0;

/// All `members` broadcast one message each at the same time.
#[must_use]
pub fn broadcast(way: Way, members: Rank, seed: u64) -> Counted {
    let mut run = Members {
        way,
        count: members,
        queue: BinaryHeap::new(),
        number: 0,
        now: 0,
        chance: Stream::new(seed, Purpose::Messages),
        orders: vec![vec![None; members as usize]; members as usize],
        given: 0,
        got: Vec::new(),
        promises: 0,
        accepted: 0,
        counted: Counted::default(),
    };
    (0..members).for_each(|me| run.begin(me));
    while let Some(Reverse((now, _, me, message))) = run.queue.pop() {
        run.now = now;
        run.receive(me, message);
    }
    let first = run.orders[0].clone();
    let has_all = (0..members).all(|rank| first.contains(&Some(rank)));
    Counted { is_same: has_all && run.orders.iter().all(|order| *order == first), ..run.counted }
}

impl Members {
    fn send(&mut self, to: Rank, message: Message) {
        let at = self.now + self.chance.up_to(1_000_000);
        self.number += 1;
        self.queue.push(Reverse((at, self.number, to, message)));
    }

    fn send_others(&mut self, me: Rank, message: &Message) -> u64 {
        (0..self.count).filter(|to| *to != me).for_each(|to| self.send(to, message.clone()));
        u64::from(self.count - 1)
    }

    /// To all, the sender among them: acceptors are on all members.
    fn send_all(&mut self, message: &Message) -> u64 {
        (0..self.count).for_each(|to| self.send(to, message.clone()));
        u64::from(self.count)
    }

    fn begin(&mut self, me: Rank) {
        match self.way {
            Way::UnicastBroadcast if me == LEADER => self.give(me),
            Way::UnicastBroadcast => {
                self.counted.to_sequencer += 1;
                self.send(LEADER, Message::ToSequencer(me));
            }
            Way::BroadcastBroadcast if me == LEADER => {
                // Its own message comes with its number.
                self.orders[me as usize][self.given] = Some(me);
                self.counted.broadcast += self.send_others(me, &Message::Numbered(self.given, me));
                self.given += 1;
            }
            Way::BroadcastBroadcast | Way::Consensus => {
                self.counted.broadcast += self.send_others(me, &Message::Data(me));
                if me == LEADER {
                    self.got.push(me);
                }
            }
        }
    }

    /// The sequencer gives a message a number.
    fn give(&mut self, of: Rank) {
        let number = self.given;
        self.given += 1;
        self.orders[LEADER as usize][number] = Some(of);
        self.counted.numbered += self.send_others(LEADER, &Message::Numbered(number, of));
    }

    fn receive(&mut self, me: Rank, message: Message) {
        let majority = self.count / 2 + 1;
        match message {
            Message::Data(from) if me == LEADER && self.way == Way::Consensus => {
                self.got.push(from);
                if self.got.len() == self.count as usize {
                    self.counted.phases += self.send_all(&Message::Prepare);
                }
            }
            Message::Data(from) if me == LEADER => self.give(from),
            Message::ToSequencer(from) => self.give(from),
            Message::Data(_) => {}
            Message::Numbered(number, of) => self.orders[me as usize][number] = Some(of),
            Message::Prepare => {
                self.counted.answers += 1;
                self.send(LEADER, Message::Promise);
            }
            Message::Promise => {
                self.promises += 1;
                if self.promises == majority {
                    self.counted.phases += self.send_all(&Message::Accept(self.got.clone()));
                }
            }
            Message::Accept(order) => {
                self.counted.answers += 1;
                self.send(LEADER, Message::Accepted(order));
            }
            Message::Accepted(order) => {
                self.accepted += 1;
                if self.accepted == majority {
                    self.counted.answers += self.send_others(LEADER, &Message::Decide(order.clone()));
                    self.deliver(LEADER, order);
                }
            }
            Message::Decide(order) => self.deliver(me, order),
        }
    }

    fn deliver(&mut self, me: Rank, order: Vec<Rank>) {
        self.orders[me as usize] = order.into_iter().map(Some).collect();
    }
}
