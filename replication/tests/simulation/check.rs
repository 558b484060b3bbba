//! Whether what has come out of a job is right.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::units::Channel;
use replication::call::{Call, Outcome};
use replication::finding::Finding;
use replication::variant::Variant;

use crate::program::{Payload, Program};
use crate::setting::{Figures, Setting};
use crate::world::{Node, World};

/// Runs the job of a seed. Fails with what is wrong.
pub fn job<V: Variant>(seed: u64, setting: Setting) -> Result<Figures, String> {
    let world = World::<V>::new(seed, setting).run()?;
    check(&world)?;
    Ok(world.figures)
}

fn check<V: Variant>(world: &World<V>) -> Result<(), String> {
    let has_reported = !world.reports.is_empty() || world.ended.is_some();
    if !world.has_flipped && has_reported {
        return Err(format!("nothing was there to be found: {:?} {:?}", world.reports, world.ended));
    }
    if let Some(victim) = world.victim.filter(|_| world.has_sent_flipped && world.figures.deaths == 0) {
        check_found(world, victim.index, victim.rank)?;
    }
    if world.ended.is_some() {
        return Ok(());
    }
    let verdict = equal(world).and_then(|()| consistent(world));
    let had_deaths = world.figures.deaths > 0;
    let is_uncompared = world.nodes.iter().any(|node| node.uncompared > 0);
    // What is wrong after a death and a flip may have had one copy: that is counted.
    if world.has_flipped && had_deaths && (is_uncompared || has_reported) { Ok(()) } else { verdict }
}

/// One corruption without deaths is found, and with three replicas nobody else is blamed.
fn check_found<V: Variant>(world: &World<V>, index: u8, rank: Rank) -> Result<(), String> {
    let replicas = world.degrees.of(rank).len();
    if world.reports.is_empty() && world.ended.is_none() {
        return Err(format!("{:?}, {replicas} replicas: a flipped bit was not found", world.method));
    }
    if replicas < 3 {
        return Ok(());
    }
    if let Some(finding) = &world.ended {
        return Err(format!("{:?}: two of three replicas are right, and the job has ended: {finding}", world.method));
    }
    let is_other = |finding: &&Finding| match finding {
        Finding::Corrupt { replica, .. } | Finding::Tainted { replica, .. } => replica.index != index,
        _ => true,
    };
    match world.reports.iter().find(is_other) {
        Some(finding) => Err(format!("{:?}: replica {index} is corrupt, and this was found: {finding}", world.method)),
        None => Ok(()),
    }
}

/// Whether a replica is to be right: it lives, and is not the corrupt one of which nothing has left.
fn counts<V: Variant>(world: &World<V>, node: &Node<V>) -> bool {
    let is_silent_victim = world.has_flipped && !world.has_sent_flipped && world.victim == Some(node.replica);
    !node.is_dead && !is_silent_victim
}

/// All living replicas of a rank have seen the same.
fn equal<V: Variant>(world: &World<V>) -> Result<(), String> {
    for rank in 0..world.degrees.ranks() {
        let living = || world.nodes.iter().filter(|node| node.replica.rank == rank && counts(world, node));
        let Some(first) = living().next() else { return Err(format!("rank {rank} has no replica left")) };
        for other in living() {
            if other.program.history != first.program.history {
                let at = other.program.history.iter().zip(&first.program.history).position(|(one, other)| one != other);
                return Err(format!(
                    "{:?}: replicas {} and {} of rank {rank} have seen different outcomes of call {at:?}; corrupt {:?}, {:?}",
                    world.method, first.replica.index, other.replica.index, world.victim, world.reports
                ));
            }
        }
    }
    Ok(())
}

/// Messages between two ranks on a channel.
type Messages = BTreeMap<(Rank, Rank, Channel), Vec<Payload>>;

/// Every rank has received what the program of every other rank sends, when it sees what that rank has seen.
fn consistent<V: Variant>(world: &World<V>) -> Result<(), String> {
    let (mut sent, mut received) = (Messages::new(), Messages::new());
    for rank in 0..world.degrees.ranks() {
        let node = world.nodes.iter().find(|node| node.replica.rank == rank && counts(world, node));
        let Some(node) = node else { return Err(format!("rank {rank} has no replica left")) };
        let script = &world.plan.scripts[rank as usize];
        let mut again = Program::new(rank);
        for outcome in &node.program.history {
            let call = again.next(script, 0);
            let message = match call {
                Call::Send { to, channel, payload } => Some((to, channel, payload)),
                _ => None,
            };
            again.returned(script, outcome.clone(), message);
        }
        for (to, channel, payload) in again.sent {
            sent.entry((rank, to, channel)).or_default().push(payload);
        }
        let mut got: Vec<_> = node
            .program
            .history
            .iter()
            .flat_map(|outcome| if let Outcome::Received(all) = outcome { all.as_slice() } else { &[] })
            .collect();
        got.sort_by_key(|received| received.request);
        for one in got {
            let key = (one.envelope.source, rank, one.envelope.channel);
            received.entry(key).or_default().push(one.payload.clone());
        }
    }
    if sent == received {
        return Ok(());
    }
    let wrong = sent.iter().find(|(key, payloads)| received.get(key) != Some(payloads)).map(|(key, _)| key);
    Err(format!("{:?}: messages were received that were not sent, or not all: {wrong:?}", world.method))
}
