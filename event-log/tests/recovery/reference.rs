//! An execution without failures and without machines, in the order that the ranks have seen.
//!
//! If it exists, every channel has delivered what was sent on it, in that order; its end is compared with the run's.

use std::collections::{BTreeMap, VecDeque};

use event_log::determinant::Rank;
use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::units::{Channel, Communicator, Envelope, Payload, Request};

use crate::plan::{ANY_TAG, Kind, OPEN, Op, Plan};
use crate::program::{Program, combine};

/// One rank that repeats what it has seen.
struct Follower<'a> {
    program: Program,
    history: VecDeque<&'a Outcome>,
    /// The place on its channel of the message of each receive.
    places: BTreeMap<Request, usize>,
    sequence: BTreeMap<Communicator, usize>,
}

#[derive(Default)]
struct Channels {
    sent: BTreeMap<(Rank, Rank, Channel), Vec<Payload>>,
    received: BTreeMap<(Rank, Rank, Channel), usize>,
    /// Tags in the order of sending, by sender, receiver and communicator.
    tags: BTreeMap<(Rank, Rank, Communicator), Vec<i32>>,
    contributions: BTreeMap<(Communicator, usize), BTreeMap<Rank, Payload>>,
}

/// Checks the outcomes of all calls and the ends of a run.
pub fn check(plan: &Plan, runs: &[(&Program, &[Outcome])]) -> Result<(), String> {
    let mut channels = Channels::default();
    let mut followers: Vec<Follower> = Vec::new();
    let mut tags: Vec<(Rank, Rank, Communicator, Vec<i32>)> = Vec::new();
    for (rank, (_, history)) in (0..).zip(runs) {
        let envelopes = received(history);
        let mut places = BTreeMap::new();
        let mut order: BTreeMap<(Rank, Communicator), Vec<i32>> = BTreeMap::new();
        for (&request, &Envelope { source, channel }) in &envelopes {
            let count = channels.received.entry((source, rank, channel)).or_default();
            places.insert(request, *count);
            *count += 1;
            order.entry((source, channel.communicator)).or_default().push(channel.tag);
        }
        tags.extend(order.into_iter().map(|((source, communicator), tags)| (source, rank, communicator, tags)));
        let history = history.iter().collect();
        followers.push(Follower {
            program: Program::new(rank, plan.ranks),
            history,
            places,
            sequence: BTreeMap::new(),
        });
    }
    let mut moved = true;
    while moved {
        moved = false;
        for (rank, follower) in followers.iter_mut().enumerate() {
            while follower.step(rank as Rank, &plan.scripts[rank], &mut channels)? {
                moved = true;
            }
        }
    }
    for (follower, (program, _)) in followers.iter().zip(runs) {
        if program.got_another {
            return Err(format!("{program:?} has received another message than it had probed"));
        }
        if follower.program != **program {
            return Err(format!(
                "an execution without failures ends with {:?}, this one with {program:?}",
                follower.program
            ));
        }
    }
    for (key, sent) in &channels.sent {
        let received = channels.received.get(key).copied().unwrap_or(0);
        if received != sent.len() {
            return Err(format!("{received} of {} messages of {key:?} were received", sent.len()));
        }
    }
    // Receives with any tag take the messages of one source in the order of sending.
    for (source, rank, communicator, received) in tags {
        if [OPEN, ANY_TAG].contains(&communicator) && channels.tags[&(source, rank, communicator)] != received {
            return Err(format!("messages from {source} to {rank} on communicator {communicator} overtake each other"));
        }
    }
    Ok(())
}

/// Where the message of each receive came from.
fn received(history: &[Outcome]) -> BTreeMap<Request, Envelope> {
    let mut envelopes = BTreeMap::new();
    for outcome in history {
        match outcome {
            Outcome::Received { request, envelope } => _ = envelopes.insert(*request, *envelope),
            Outcome::ReceivedAll(all) => envelopes.extend(all.iter().copied()),
            _ => {}
        }
    }
    envelopes
}

impl Follower<'_> {
    /// Makes the next call, if what it returns can be there already.
    fn step(&mut self, rank: Rank, script: &[Op], channels: &mut Channels) -> Result<bool, String> {
        let (Some(call), Some(&outcome)) = (self.program.next(script), self.history.front()) else { return Ok(false) };
        let mut memory: BTreeMap<Request, Payload> = BTreeMap::new();
        match (&call, outcome) {
            (Call::Send { to, channel, payload }, Outcome::Done) => {
                channels.sent.entry((rank, *to, *channel)).or_default().push(payload.clone());
                channels.tags.entry((rank, *to, channel.communicator)).or_default().push(channel.tag);
            }
            (Call::Collective { communicator, contribution, needs, .. }, Outcome::Collective(_)) => {
                let sequence = self.sequence.get(communicator).map_or(1, |sequence| sequence + 1);
                let all = channels.contributions.entry((*communicator, sequence)).or_default();
                all.insert(rank, contribution.clone());
                if needs.iter().any(|rank| !all.contains_key(rank)) {
                    return Ok(false);
                }
                self.sequence.insert(*communicator, sequence);
                let kind = match self.program.op(script) {
                    Some(Op::Collective(_, kind)) => *kind,
                    _ => Kind::Allreduce,
                };
                let needed = needs.iter().map(|rank| (*rank, all[rank].clone())).collect();
                memory.insert(0, combine(kind, rank, &needed));
            }
            _ => {}
        }
        for (request, Envelope { source, channel }) in received(std::slice::from_ref(outcome)) {
            let sent = channels.sent.get(&(source, rank, channel));
            let Some(payload) = sent.and_then(|sent| sent.get(self.places[&request])) else { return Ok(false) };
            memory.insert(request, payload.clone());
        }
        self.history.pop_front();
        let payload = |request| memory.get(&request).cloned().unwrap_or_else(|| Vec::new().into());
        self.program.returned(script, outcome, &payload);
        Ok(true)
    }
}
