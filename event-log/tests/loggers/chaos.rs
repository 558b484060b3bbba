//! Random runs: messages come late, twice, in another order or never; processes of a rank are replaced, and the earlier
//! ones do not know it; acceptors stand still for a while; checkpoints are written.

use std::collections::BTreeMap;

use event_log::determinant::Determinant;
use event_log::logger::Action;
use event_log::logger::round::{Address, Position, Round};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use super::deployment::{Kind, start, stores, world};
use super::network::{World, determinant};

/// The processes of one rank, as an onlooker sees them.
#[derive(Default)]
struct Lives {
    /// By life: its history, from 1.
    histories: BTreeMap<Address, Vec<Determinant>>,
    /// What is stable, as far as anybody was told, and the lowest round of a life that was.
    stable: BTreeMap<u64, (Determinant, Round)>,
    /// What was returned to lives of this round, from the first determinant on.
    recovered: Vec<(Round, Vec<Determinant>)>,
    checkpoint: Position,
    heard: usize,
}

struct Run {
    kind: Kind,
    world: World,
    lives: Lives,
    newest: Address,
    chance: Pcg64Mcg,
}

impl Run {
    fn below(&mut self, bound: usize) -> usize {
        (self.chance.next_u64() % bound as u64) as usize
    }

    /// Takes what the ranks were told since the last look.
    fn look(&mut self) {
        let told: Vec<_> = self.world.told[self.lives.heard..].to_vec();
        self.lives.heard = self.world.told.len();
        for (who, action, _) in told {
            match action {
                Action::Stable(id) => self.stable(who, id),
                Action::Recovered(found) => self.recovered(who, found),
                Action::NewerCheckpoint(id) => {
                    assert!(id <= self.lives.checkpoint.id, "there is no such checkpoint");
                    let checkpoint = self.lives.checkpoint;
                    self.world.act(who, |logger, out| logger.recover(checkpoint, out));
                }
                Action::Fenced if self.kind == Kind::OneSided => self.ask(who),
                _ => {}
            }
        }
    }

    fn ask(&mut self, who: Address) {
        let checkpoint = self.lives.checkpoint;
        self.world.act(who, |logger, out| logger.recover(checkpoint, out));
    }

    fn stable(&mut self, who: Address, id: u64) {
        let (history, round) = (self.lives.histories[&who].clone(), self.world.processes[&who].round());
        for determinant in &history[..id as usize] {
            let known = self.lives.stable.entry(determinant.id).or_insert((*determinant, round));
            assert_eq!(known.0, *determinant, "two values of one id are stable");
            known.1 = known.1.min(round);
        }
        // A life that was replaced before it had recovered may be told less: it can save nothing.
        for (later, found) in &self.lives.recovered {
            for (one, _) in self.lives.stable.values().filter(|(_, told)| told < later) {
                assert_eq!(found.get(one.id as usize - 1), Some(one), "what was stable is in every recovery");
            }
        }
    }

    fn recovered(&mut self, who: Address, found: Vec<Determinant>) {
        let from = found.first().map_or(self.lives.checkpoint.id, |one| one.id - 1);
        let before: Vec<_> = self.lives.stable.range(..=from).map(|(_, (one, _))| *one).collect();
        assert_eq!(before.len() as u64, from, "it begins at a checkpoint");
        let history = [before, found].concat();
        let is_start = |life: &Vec<Determinant>| life.starts_with(&history);
        assert!(history.is_empty() || self.lives.histories.values().any(is_start), "it is the history of one life");
        let last = history.len() as u64;
        self.lives.recovered.push((self.world.processes[&who].round(), history.clone()));
        self.lives.histories.insert(who, history);
        self.stable(who, last);
    }

    /// One random thing happens.
    fn step(&mut self) {
        let many = self.world.in_flight.len();
        match self.below(100) {
            0..60 if many > 0 => {
                let index = self.below(many.min(8));
                let index = self.in_order(index);
                let letter = self.world.in_flight.remove(index);
                self.world.hand(letter);
            }
            // Of operations on memory only the opening can come twice: the rest goes over a connection that keeps
            // order.
            60..66 if many > 0 => {
                let index = self.below(many);
                let letter = self.world.in_flight[index].clone();
                if self.kind != Kind::OneSided {
                    self.world.hand(letter);
                }
            }
            66..70 if many > 0 => {
                let index = self.below(many);
                self.world.in_flight.remove(index);
            }
            70..82 => self.save(),
            82..90 => {
                let lives: Vec<_> = self.lives.histories.keys().copied().chain([self.newest]).collect();
                let at = lives[self.below(lives.len())];
                self.world.act(at, |logger, out| logger.retry(out));
            }
            90..93 => self.servers(),
            93..96 => self.checkpoint(),
            96..98 => {
                // At most f stand still.
                let all = stores(self.kind, 1);
                let one = all[self.below(all.len())];
                self.world.dead.clear();
                if self.kind != Kind::Centralised && self.below(2) == 0 {
                    self.world.dead.insert(one);
                }
            }
            98 => self.replace(),
            _ => {}
        }
        self.look();
    }

    /// What one process does with one region arrives in order.
    fn in_order(&self, index: usize) -> usize {
        if self.kind != Kind::OneSided {
            return index;
        }
        let ends = |index: usize| (self.world.in_flight[index].from, self.world.in_flight[index].to);
        (0..index).find(|earlier| ends(*earlier) == ends(index)).unwrap_or(index)
    }

    /// Any life that has recovered, also one that was replaced, saves and is about to send.
    fn save(&mut self) {
        let lives: Vec<_> = self.lives.histories.keys().copied().collect();
        if lives.is_empty() {
            return;
        }
        let at = lives[self.below(lives.len())];
        let id = self.lives.histories[&at].len() as u64 + 1;
        let one = Determinant { request: self.chance.next_u64(), ..determinant(id, at) };
        self.lives.histories.get_mut(&at).expect("it is a life").push(one);
        let is_sent = self.below(3) > 0;
        self.world.act(at, |logger, out| {
            logger.save(one).expect("it is the next one");
            if is_sent {
                logger.flush(out);
            }
        });
    }

    fn servers(&mut self) {
        if self.kind != Kind::Classic {
            return;
        }
        for at in stores(self.kind, 1) {
            let mut out = vec![];
            if self.below(3) == 0 {
                self.world.replica(at).take_over(&mut out);
            } else {
                self.world.replica(at).retry(&mut out);
            }
            self.world.carry_out(at, 0, out);
        }
    }

    /// Any life writes a checkpoint, if nothing is outstanding.
    fn checkpoint(&mut self) {
        let lives: Vec<_> = self.lives.histories.keys().copied().collect();
        if lives.is_empty() {
            return;
        }
        let at = lives[self.below(lives.len())];
        let logger = self.world.processes.get_mut(&at).expect("it is there").logger();
        if logger.outstanding() == 0 && logger.stable().id > self.lives.checkpoint.id {
            let checkpoint = logger.stable();
            self.lives.checkpoint = checkpoint;
            self.world.act(at, |logger, out| logger.trim(checkpoint.id, out));
        }
    }

    fn replace(&mut self) {
        let all = stores(self.kind, 1);
        let own = all[self.below(all.len())];
        self.newest += 1;
        start(&mut self.world, self.kind, 1, self.newest, own, false);
        if self.kind != Kind::OneSided {
            self.ask(self.newest);
        }
    }
}

fn run(kind: Kind, seed: u64) -> (usize, usize) {
    let mut world = world(kind, 1);
    start(&mut world, kind, 1, 100, 1, true);
    world.settle();
    world.told.clear();
    let lives = Lives { histories: [(100, vec![])].into(), ..Lives::default() };
    let mut run = Run { kind, world, lives, newest: 100, chance: Pcg64Mcg::seed_from_u64(seed) };
    for _ in 0..600 {
        run.step();
    }
    (run.lives.stable.len(), run.lives.histories.len())
}

#[test]
fn nothing_stable_is_lost_and_no_two_lives_are_mixed() {
    for kind in [Kind::Centralised, Kind::Classic, Kind::Parallel, Kind::ParallelRemote, Kind::OneSided] {
        let (mut stable, mut lives) = (0, 0);
        for seed in 0..600 {
            let (saved, lived) = run(kind, seed);
            stable += saved;
            lives += lived;
        }
        println!("{kind:?}: {stable} stable, {lives} lives");
        assert!(stable > 600 && lives > 1200, "{kind:?}: {stable} stable, {lives} lives: the runs do little");
    }
}
