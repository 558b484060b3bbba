//! A process is spawned for a dead rank where no spare is left, by the lowest living rank, one at a time: each has to know
//! the places of those before it.

use event_log::determinant::Rank;
use virtual_ranks::spawning::{self, CommandLine};

use super::Engine;
use crate::summons::Summons;

/// How often in a row a spawned process may die before it has a place.
const MOST_FAILURES: u32 = 3;

/// How a process is spawned.
#[derive(Debug)]
pub struct Spawner {
    /// The program.
    pub command: CommandLine,
    /// The nodes of the processes that the job has begun with, as a [`Summons`] has them.
    pub nodes: Vec<(String, u32)>,
    /// The number of the last one.
    pub last: u32,
    /// How many had died without a place when that one was spawned.
    pub unmet: usize,
    /// How many have failed in a row.
    pub failures: u32,
}

impl Spawner {
    /// Before the first.
    pub fn new(command: CommandLine, nodes: Vec<(String, u32)>) -> Self {
        Self { command, nodes, last: 0, unmet: 0, failures: 0 }
    }
}

impl Engine {
    /// From now on dead ranks may be replaced by spawned processes.
    pub fn spawn_with(&mut self, spawner: Spawner) {
        self.spawner = Some(spawner);
    }

    /// Has a process spawned for a dead rank, if that is for this rank to do and none is under way.
    pub(super) fn fill_vacancy(&mut self) {
        let may = !self.is_unprotected && !self.is_over && !self.has_failed;
        let vacancy = self.rank.filter(|_| may).and_then(|rank| Some((rank, self.world.vacancy_for(rank)?)));
        let Some((own, dead)) = vacancy else { return };
        let unmet = self.carrier.links().map_or(0, |links| links.unmet());
        let Some(spawner) = &mut self.spawner else { return };
        if spawner.last > self.world.epoch() {
            match spawning::answer() {
                Some(Err(status)) => {
                    return self
                        .end_protection(&format!("no process can be spawned for rank {dead}: PMIx says {status}"));
                }
                _ if unmet == spawner.unmet && !self.world.is_gone(self.world.process_of(spawner.last)) => return,
                _ => spawner.failures += 1,
            }
        } else {
            spawner.failures = 0;
        }
        if spawner.failures == MOST_FAILURES {
            return self.end_protection(&format!(
                "the last {MOST_FAILURES} processes that were spawned for rank {dead} have died before they took its place"
            ));
        }
        spawner.unmet = unmet;
        if let Err(reason) = self.spawn_for(own, dead) {
            self.end_protection(&format!("no process can be spawned for rank {dead}: {reason}"));
        }
    }

    fn spawn_for(&mut self, own: Rank, rank: Rank) -> Result<(), String> {
        let (alive, taken) = (self.world.alive(), self.world.taken());
        let job = self.store.as_ref().map(crate::store::Store::job);
        let (Some(links), Some(spawner)) = (self.carrier.links(), &mut self.spawner) else { return Ok(()) };
        let number = self.world.next_number(own, spawner.last).ok_or("the job has had too many replacements")?;
        let peers = alive.iter().filter_map(|process| {
            let peer = if *process == self.process { links.own() } else { links.peer(*process)? };
            Some((*process, peer.number, peer.address))
        });
        let (ranks, spares) = (self.world.ranks(), self.world.launched() - self.world.ranks());
        let summons = Summons {
            rank,
            number,
            ranks,
            spares,
            taken,
            peers: peers.collect(),
            key: links.key(),
            job,
            nodes: spawner.nodes.clone(),
        };
        spawner.command.spawn(summons.variable()?)?;
        spawner.last = number;
        Ok(())
    }
}
