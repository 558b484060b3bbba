//! Defects that a logger could have, made at the edges of the machines. The model must find every one.

use event_log::logger::acceptor::{Reply, Request};
use event_log::logger::message::Message;
use event_log::logger::onesided::region::{Completion, Operation};
use event_log::logger::round::{Address, Round};

use super::network::{CAPACITY, Letter, Process, World};

/// One defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// An acceptor does not remember what it has promised.
    ForgottenPromise,
    /// An acceptor comes back without its memory.
    ForgottenState,
    /// What a replacement has found is not kept by the others under its round.
    NotProposedAgain,
    /// A proposer goes on when f acceptors, and no quorum, have accepted.
    SmallQuorum,
    /// Entries do not say whose they are.
    NoOrigin,
    /// The earlier writer of a region keeps its access.
    AccessNotTaken,
    /// An entry that is given a new round is written over the old one.
    OnePlane,
}

impl Mutation {
    /// Delivers a message as the defect has it.
    pub fn deliver(self, world: &mut World, letter: Letter) {
        match (self, letter.message.clone()) {
            (Mutation::ForgottenPromise, Message::Request { request: Request::Prepare { .. }, .. }) => {
                let before = world.processes[&letter.to].clone();
                let to = letter.to;
                world.hand(letter);
                world.processes.insert(to, before);
            }
            (
                Mutation::NotProposedAgain,
                Message::Request { rank, request: Request::Accept { round, first, values } },
            ) if values.iter().all(|entry| entry.origin < round) => {
                let last = first + values.len() as u64 - 1;
                let reply = Reply::Accepted { round, first, last };
                answer(world, &letter, Message::Reply { rank, reply });
            }
            (Mutation::SmallQuorum, Message::Request { rank, request: Request::Accept { round, first, values } }) => {
                // Acceptors that never answer are counted as if they had.
                let last = first + values.len() as u64 - 1;
                world.hand(letter.clone());
                for other in (1..=3).filter(|other| *other != letter.to) {
                    let reply = Reply::Accepted { round, first, last };
                    answer(world, &Letter { to: other, ..letter.clone() }, Message::Reply { rank, reply });
                }
            }
            (Mutation::NoOrigin, Message::Request { rank, request: Request::Accept { round, first, mut values } }) => {
                values.iter_mut().for_each(|entry| entry.origin = Round::NONE);
                let request = Request::Accept { round, first, values };
                world.hand(Letter { message: Message::Request { rank, request }, ..letter });
            }
            (
                Mutation::AccessNotTaken,
                Message::Operation { rank, operation: Operation::Write { round, up_to, pieces } },
            ) => {
                let Some(Process::Regions(regions)) = world.processes.get_mut(&letter.to) else { return };
                let Some(region) = regions.get_mut(&rank) else { return };
                let writer = region.writer();
                region.handle(Operation::Write { round: writer, up_to, pieces });
                answer(world, &letter, Message::Completion { rank, completion: Completion::Written { round, up_to } });
            }
            (
                Mutation::OnePlane,
                Message::Operation { rank, operation: Operation::Write { round, up_to, mut pieces } },
            ) => {
                pieces.iter_mut().for_each(|piece| piece.at %= CAPACITY);
                let operation = Operation::Write { round, up_to, pieces };
                world.hand(Letter { message: Message::Operation { rank, operation }, ..letter });
            }
            _ => world.hand(letter),
        }
    }

    /// Whether a message that has no effect on a sound machine may have one.
    pub fn acts_on_idle_messages(self) -> bool {
        matches!(self, Mutation::ForgottenPromise | Mutation::ForgottenState | Mutation::AccessNotTaken)
    }

    /// The acceptor loses its memory.
    pub fn forget(world: &mut World, at: Address) {
        if let Some(Process::Acceptors(acceptors)) = world.processes.get_mut(&at) {
            *acceptors = Default::default();
        }
    }
}

/// Sends an answer that the receiver's machine did not give.
fn answer(world: &mut World, letter: &Letter, message: Message) {
    world.in_flight.push(Letter { from: letter.to, to: letter.from, message, delays: 0 });
}

/// How many slots a message writes.
pub fn slots(message: &Message) -> usize {
    match message {
        Message::Operation { operation: Operation::Write { pieces, .. }, .. } => {
            pieces.iter().map(|piece| piece.slots.len()).sum()
        }
        _ => 0,
    }
}

/// Of a write arrives one slot as a whole, and the beginning of each other one; it has no completion.
pub fn cut(world: &mut World, mut letter: Letter, whole: usize, mutation: Option<Mutation>) {
    let Message::Operation { operation: Operation::Write { pieces, .. }, rank } = &mut letter.message else { return };
    let Some(Process::Regions(regions)) = world.processes.get_mut(&letter.to) else { return };
    let Some(region) = regions.get(rank) else { return };
    let mut number = 0;
    for piece in pieces {
        if mutation == Some(Mutation::OnePlane) {
            piece.at %= CAPACITY;
        }
        for (place, slot) in (piece.at..).zip(&mut piece.slots) {
            if number != whole {
                // The checksum and the id are there.
                let old = region.slots()[place].0;
                slot.0[0][16..].copy_from_slice(&old[0][16..]);
                slot.0[1] = old[1];
            }
            number += 1;
        }
    }
    let before = world.in_flight.len();
    world.hand(letter);
    world.in_flight.truncate(before);
}

/// Whether a message says that another life has a higher round.
pub fn is_refusal(message: &Message) -> bool {
    matches!(
        message,
        Message::Reply { reply: Reply::Refused { .. }, .. }
            | Message::Completion { completion: Completion::Denied { .. }, .. }
    )
}
