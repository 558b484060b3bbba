//! What the ranks of a random job do: who sends how many messages of which kind to whom in which round.
//!
//! It is made so that every execution ends. In each round a rank sends first and receives then as many messages of each
//! kind as were sent to it up to that round. Which of them it receives, and what it computes and sends, depends on the
//! order in which they come.

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Communicator, Pattern};

use crate::random::Random;

/// All ranks.
pub const WORLD: Communicator = 0;
/// Received from any source with any tag.
pub const OPEN: Communicator = 1;
/// Received from one source with any tag.
pub const ANY_TAG: Communicator = 2;
/// Received from any source and from one, by receives that overlap.
pub const OVERLAP: Communicator = 3;
/// The even ranks.
pub const EVEN: Communicator = 4;

const RECEIVED: i32 = 0;
const NAMED: [i32; 2] = [1, 7];
const PROBED: i32 = 2;
const POLLED: i32 = 3;
const POSTED: i32 = 4;

/// One piece of a rank's program.
#[derive(Clone, Debug)]
pub enum Op {
    AddCommunicator(Communicator, Vec<Rank>),
    Send(Rank, Channel),
    /// A blocking receive.
    Receive(Pattern),
    /// A receive that does not block; a later piece finishes it.
    Post(Pattern),
    /// A blocking probe, then a receive of what it found: with the arguments of the probe, or with its source and tag.
    Probe(Pattern, bool),
    /// Some probes that do not block, in between messages to these, then a blocking one; then a receive.
    Iprobe(Pattern, u32, Vec<(Rank, Channel)>),
    /// Waits for any of those posted until none is left.
    WaitAny,
    /// Waits for each, the last first.
    WaitEach,
    /// Some tests, in between messages to these, then waits for any.
    Test(u32, Vec<(Rank, Channel)>),
    /// Some tests of all, then waits for each.
    TestAll(u32),
    /// The last receive that was posted, with this pattern, is cancelled; if that was possible, it is posted again.
    Cancel(Pattern),
    /// A look at the clock.
    Clock,
    Collective(Communicator, Kind),
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `MPI_Allreduce`: ends at nobody before all have begun.
    Allreduce,
    /// `MPI_Bcast`: ends at the root at once.
    Bcast(Rank),
    /// `MPI_Gather`: ends at all but the root at once.
    Gather(Rank),
    /// `MPI_Alltoall`: everybody needs everybody, and has another result.
    Alltoall,
}

/// What each rank does.
pub struct Plan {
    pub ranks: u32,
    pub scripts: Vec<Vec<Op>>,
}

/// The members of a communicator.
pub fn members(ranks: u32, communicator: Communicator) -> Vec<Rank> {
    let step = if communicator == EVEN { 2 } else { 1 };
    (0..ranks).step_by(step).collect()
}

type Message = (Rank, Channel);

fn channel(random: &mut Random, may_overlap: bool) -> Channel {
    let on = |communicator, tag| Channel { communicator, tag };
    match random.below(if may_overlap { 9 } else { 7 }) {
        0 => on(WORLD, RECEIVED),
        1 => on(WORLD, random.pick(&NAMED)),
        2 => on(WORLD, PROBED),
        3 => on(WORLD, POLLED),
        4 => on(WORLD, POSTED),
        5 => on(OPEN, random.below(3) as i32),
        6 => on(ANY_TAG, random.below(2) as i32),
        _ => on(OVERLAP, 0),
    }
}

fn messages(random: &mut Random, ranks: u32, most: usize, may_overlap: bool) -> Vec<Message> {
    let message = |_| (random.below(ranks as usize) as Rank, channel(random, may_overlap));
    (0..most).map(message).collect()
}

impl Plan {
    /// The plan of a seed.
    pub fn new(random: &mut Random) -> Self {
        let ranks = 2 + random.below(4) as u32;
        let rounds = 2 + random.below(4);
        let mut scripts: Vec<Vec<Op>> = vec![Vec::new(); ranks as usize];
        for (rank, script) in (0..).zip(&mut scripts) {
            let communicators = [WORLD, EVEN].map(|c| (c, members(ranks, c)));
            let own = communicators.into_iter().filter(|(_, members)| members.contains(&rank));
            script.extend(own.map(|(communicator, members)| Op::AddCommunicator(communicator, members)));
        }
        // What was sent while polling is received in the next round, so that nobody waits for one who polls.
        let nothing: Vec<Vec<Message>> = vec![Vec::new(); ranks as usize];
        let mut late = nothing.clone();
        for round in 0..=rounds {
            let may_send = round < rounds;
            let has_barrier = random.once_in(3);
            let mut arriving = std::mem::replace(&mut late, nothing.clone());
            let mut sends: Vec<Vec<Message>> = Vec::new();
            for from in 0..ranks {
                let count = if may_send { random.below(4) } else { 0 };
                let sent = messages(random, ranks, count, has_barrier);
                sent.iter().for_each(|&(to, channel)| arriving[to as usize].push((from, channel)));
                sends.push(sent);
            }
            for (rank, sent) in (0..).zip(sends) {
                let while_polling = if may_send { messages(random, ranks, 2, false) } else { Vec::new() };
                let mut owed = while_polling.into_iter();
                let receives = receives(random, &arriving[rank as usize], &mut owed, |(to, channel)| {
                    late[to as usize].push((rank, channel));
                });
                let (posts, receives) = receives;
                let script = &mut scripts[rank as usize];
                let sent = sent.into_iter().map(|(to, channel)| Op::Send(to, channel));
                if random.once_in(2) {
                    script.extend(sent);
                    script.extend(posts);
                } else {
                    script.extend(posts);
                    script.extend(sent);
                }
                script.extend(receives);
                if random.once_in(2) {
                    script.push(Op::Clock);
                }
            }
            collective(random, ranks, has_barrier, &mut scripts);
        }
        Self { ranks, scripts }
    }
}

fn collective(random: &mut Random, ranks: u32, has_barrier: bool, scripts: &mut [Vec<Op>]) {
    let root = random.below(ranks as usize) as Rank;
    let (communicator, kind) = match random.below(6) {
        _ if has_barrier => (WORLD, Kind::Allreduce),
        0 => (WORLD, Kind::Bcast(root)),
        1 => (WORLD, Kind::Gather(root)),
        2 => (WORLD, Kind::Alltoall),
        3 => (EVEN, Kind::Allreduce),
        4 => (EVEN, Kind::Bcast(0)),
        _ => return,
    };
    for rank in members(ranks, communicator) {
        scripts[rank as usize].push(Op::Collective(communicator, kind));
    }
}

/// How a rank receives what arrives: what it posts first, and what it does then.
fn receives(
    random: &mut Random,
    arriving: &[Message],
    owed: &mut impl Iterator<Item = Message>,
    mut owe: impl FnMut(Message),
) -> (Vec<Op>, Vec<Op>) {
    let mut owed = |random: &mut Random| {
        let sent: Vec<Message> = owed.take(random.below(3)).collect();
        sent.iter().for_each(|&message| owe(message));
        sent
    };
    let pattern = |communicator, source, tag| Pattern { communicator, source, tag };
    let (mut posts, mut rest) = (Vec::new(), Vec::new());
    for &(from, Channel { communicator, tag }) in arriving {
        match (communicator, tag) {
            (OPEN, _) => match random.below(3) {
                0 => posts.push(Op::Post(pattern(OPEN, None, None))),
                1 => rest.push(Op::Receive(pattern(OPEN, None, None))),
                _ => rest.push(Op::Probe(pattern(OPEN, None, None), random.once_in(2))),
            },
            (ANY_TAG, _) => rest.push(Op::Receive(pattern(ANY_TAG, Some(from), None))),
            (OVERLAP, _) => {}
            (_, RECEIVED) => rest.push(Op::Receive(pattern(WORLD, None, Some(tag)))),
            (_, PROBED) => rest.push(Op::Probe(pattern(WORLD, None, Some(tag)), random.once_in(2))),
            (_, POLLED) => {
                let polls = random.below(5) as u32;
                rest.push(Op::Iprobe(pattern(WORLD, None, Some(tag)), polls, owed(random)));
            }
            (_, POSTED) => posts.push(Op::Post(pattern(WORLD, None, Some(tag)))),
            _ => rest.push(Op::Receive(pattern(WORLD, Some(from), Some(tag)))),
        }
    }
    random.shuffle(&mut posts);
    posts.extend(overlapping(arriving));
    if let Some(&Op::Post(last)) = posts.last().filter(|_| random.once_in(2)) {
        posts.push(Op::Cancel(last));
    }
    random.shuffle(&mut rest);
    if !posts.is_empty() {
        let finish = match random.below(4) {
            0 => Op::WaitAny,
            1 => Op::WaitEach,
            2 => Op::TestAll(random.below(6) as u32),
            _ => Op::Test(random.below(6) as u32, owed(random)),
        };
        rest.insert(random.below(rest.len() + 1), finish);
    }
    (posts, rest)
}

/// One from any source, then one from a source that sends at least two, then the others from any source.
fn overlapping(arriving: &[Message]) -> Vec<Op> {
    let pattern = |source| Op::Post(Pattern { communicator: OVERLAP, source, tag: Some(0) });
    let sources: Vec<Rank> =
        arriving.iter().filter(|(_, channel)| channel.communicator == OVERLAP).map(|&(from, _)| from).collect();
    let twice = sources.iter().copied().find(|&from| sources.iter().filter(|&&other| other == from).count() > 1);
    let named = |place: usize| if place == 1 { twice } else { None };
    (0..sources.len()).map(|place| pattern(named(place))).collect()
}
