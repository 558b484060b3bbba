//! What the ranks of a random job do.
//!
//! It is made so that every execution ends: in each round a rank sends first and receives then as many messages of each
//! kind as were sent to it in that round. Which of them it receives, and what it computes and sends, depends on the
//! order in which they come.

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Communicator, Pattern};

use crate::random::Random;

const NAMED: Communicator = 0;
const ANY: Communicator = 1;
const POSTED: Communicator = 2;
const POLLED: Communicator = 3;
const ANY_TAG: Communicator = 4;
/// One for each round.
const OVERLAP: Communicator = 100;

pub type Target = (Rank, Channel);

/// One piece of a rank's program.
#[derive(Clone, Debug)]
pub enum Op {
    Send(Rank, Channel),
    Receive(Pattern),
    Post(Pattern),
    /// A receive that is cancelled at once, and waited for where it has a message; else another one.
    Race(Pattern),
    /// A blocking probe, then a receive of what it found.
    Probe(Pattern),
    /// Some probes that do not block, between messages to these, then a blocking one; then a receive.
    Iprobe(Pattern, u32, Vec<Target>),
    /// Waits for any of those posted until none is left.
    WaitAny,
    /// Waits for each, the last first.
    WaitEach,
    /// Some tests, between messages to these, then waits for any.
    Test(u32, Vec<Target>),
    /// Some tests of all, then waits for each.
    TestAll(u32),
    Clock,
}

/// What each rank does.
pub struct Plan {
    pub scripts: Vec<Vec<Op>>,
}

fn pattern(communicator: Communicator, source: Option<Rank>, tag: Option<i32>) -> Pattern {
    Pattern { communicator, source, tag }
}

impl Plan {
    pub fn new(random: &mut Random, ranks: u32) -> Self {
        let rounds = 2 + random.below(4) as u32;
        let mut scripts: Vec<Vec<Op>> = vec![Vec::new(); ranks as usize];
        let mut late: Vec<Vec<(Rank, Channel)>> = vec![Vec::new(); ranks as usize];
        for round in 0..=rounds {
            let mut arriving = std::mem::replace(&mut late, vec![Vec::new(); ranks as usize]);
            let target = |random: &mut Random, may_overlap: bool| -> Target {
                let on = |communicator, tag| Channel { communicator, tag };
                let channel = match random.below(if may_overlap { 8 } else { 6 }) {
                    0 => on(NAMED, random.below(2) as i32),
                    1 => on(ANY, random.below(3) as i32),
                    2 => on(POSTED, 0),
                    3 => on(POLLED, 0),
                    4 => on(ANY_TAG, random.below(2) as i32),
                    5 => on(NAMED, 7),
                    _ => on(OVERLAP + round, 0),
                };
                (random.below(ranks as usize) as Rank, channel)
            };
            for rank in 0..ranks {
                let count = if round < rounds { random.below(4) } else { 0 };
                for _ in 0..count {
                    let (to, channel) = target(random, true);
                    arriving[to as usize].push((rank, channel));
                    scripts[rank as usize].push(Op::Send(to, channel));
                }
            }
            for rank in 0..ranks {
                let mut owed = Vec::new();
                for _ in 0..if round < rounds { random.below(3) } else { 0 } {
                    let (to, channel) = target(random, false);
                    owed.push((to, channel));
                }
                let script = &mut scripts[rank as usize];
                let used = receives(random, script, &arriving[rank as usize], &owed);
                if used {
                    owed.iter().for_each(|(to, channel)| late[*to as usize].push((rank, *channel)));
                }
                if random.once_in(4) {
                    script.push(Op::Clock);
                }
            }
        }
        Self { scripts }
    }
}

/// How a rank receives what arrives. Returns whether it sends what is owed, while it polls.
fn receives(random: &mut Random, script: &mut Vec<Op>, arriving: &[(Rank, Channel)], owed: &[Target]) -> bool {
    let (mut posts, mut rest) = (Vec::new(), Vec::new());
    let mut owed = Some(owed.to_vec());
    for (place, &(from, Channel { communicator, tag })) in arriving.iter().enumerate() {
        match communicator {
            ANY => match random.below(3) {
                0 => posts.push(Op::Post(pattern(ANY, None, None))),
                1 if place % 3 == 0 => rest.push(Op::Race(pattern(ANY, None, None))),
                1 => rest.push(Op::Receive(pattern(ANY, None, None))),
                _ => rest.push(Op::Probe(pattern(ANY, None, None))),
            },
            POSTED => posts.push(Op::Post(pattern(POSTED, None, Some(tag)))),
            POLLED => {
                let polls = random.below(6) as u32;
                rest.push(Op::Iprobe(pattern(POLLED, None, Some(tag)), polls, owed.take().unwrap_or_default()));
            }
            ANY_TAG => rest.push(Op::Receive(pattern(ANY_TAG, Some(from), None))),
            NAMED if random.once_in(2) => posts.push(Op::Post(pattern(NAMED, Some(from), Some(tag)))),
            NAMED if place % 3 == 0 => rest.push(Op::Race(pattern(NAMED, Some(from), Some(tag)))),
            NAMED => rest.push(Op::Receive(pattern(NAMED, Some(from), Some(tag)))),
            _ => {}
        }
    }
    random.shuffle(&mut posts);
    posts.extend(overlapping(arriving));
    random.shuffle(&mut rest);
    if !posts.is_empty() {
        let finish = match random.below(4) {
            0 => Op::WaitAny,
            1 => Op::WaitEach,
            2 => Op::TestAll(random.below(6) as u32),
            _ => Op::Test(random.below(6) as u32, owed.take().unwrap_or_default()),
        };
        rest.insert(random.below(rest.len() + 1), finish);
    }
    script.extend(posts);
    script.extend(rest);
    owed.is_none()
}

/// One from any source, then one from a source that sends at least two, then the others from any source.
fn overlapping(arriving: &[(Rank, Channel)]) -> Vec<Op> {
    let of_overlap: Vec<_> = arriving.iter().filter(|(_, channel)| channel.communicator >= OVERLAP).collect();
    let sources: Vec<Rank> = of_overlap.iter().map(|(from, _)| *from).collect();
    let twice = sources.iter().copied().find(|&from| sources.iter().filter(|&&other| other == from).count() > 1);
    let post = |(place, (_, channel)): (usize, &&(Rank, Channel))| {
        Op::Post(pattern(channel.communicator, if place == 1 { twice } else { None }, Some(channel.tag)))
    };
    of_overlap.iter().enumerate().map(post).collect()
}
