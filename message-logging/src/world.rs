//! Which process is which rank of the program, and who takes the place of the dead.
//!
//! The processes of the job are the ranks of the program and, behind them, its spares, which have numbers from 1. The
//! lowest idle spare takes the place of the lowest rank that is dead, and its number is the *epoch* from then on. A
//! spare that is not the first takes a place only when it knows that all before it are dead or ranks. So it knows of
//! each earlier replacement that lives, and whoever hears of an epoch from it need not have heard of those before.
//!
//! Where no spare is left the lowest living rank has a process spawned, which has a number behind those of the spares. It is the
//! next one that is this rank's own, so that no two ranks give the same: one may have died after it had done that.

use std::collections::BTreeSet;

use event_log::determinant::Rank;

/// The process that is a rank of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its rank among all processes.
    pub process: u32,
    /// Whether it lives, as far as is known here.
    pub is_alive: bool,
}

/// A rank, and the spare that has taken its place, by its number.
pub type Taking = (Rank, u32);

/// Ranks, spares, and who is what.
pub struct World {
    places: Vec<Place>,
    /// Whether each spare lives.
    spares: Vec<bool>,
    epoch: u32,
    /// Whether processes are spawned where no spare is left.
    spawns: bool,
    /// Processes of those that are dead.
    gone: BTreeSet<u32>,
}

impl World {
    /// A job with so many ranks and spares.
    pub fn new(ranks: u32, spares: u32, spawns: bool) -> Self {
        let place = |process| Place { process, is_alive: true };
        let (places, spares) = ((0..ranks).map(place).collect(), vec![true; spares as usize]);
        Self { places, spares, epoch: 0, spawns, gone: BTreeSet::new() }
    }

    /// How many ranks the program has.
    pub fn ranks(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many processes the job has begun with.
    pub fn launched(&self) -> u32 {
        self.ranks() + self.spares.len() as u32
    }

    /// The number of the spare that was the last to take a place; 0 before the first.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The place of a rank.
    pub fn place(&self, rank: Rank) -> Place {
        self.places[rank as usize]
    }

    /// Processes that live, ranks first.
    pub fn alive(&self) -> Vec<u32> {
        let ranks = self.places.iter().filter(|place| place.is_alive).map(|place| place.process);
        ranks.chain(self.idle()).collect()
    }

    /// The process that is a spare, by its number.
    pub fn process_of(&self, spare: u32) -> u32 {
        self.ranks() + spare - 1
    }

    /// Whether a rank is dead.
    pub fn is_short(&self) -> bool {
        self.places.iter().any(|place| !place.is_alive)
    }

    /// Whether a process is a rank.
    pub fn has_place(&self, process: u32) -> bool {
        self.places.iter().any(|place| place.process == process)
    }

    /// Whether a process that was spawned is known to be dead.
    pub fn is_gone(&self, process: u32) -> bool {
        self.gone.contains(&process)
    }

    /// Living spares that are no rank.
    fn idle(&self) -> impl Iterator<Item = u32> {
        let living = (1..).zip(&self.spares).filter(|(_, is_alive)| **is_alive);
        let processes = living.map(|(spare, _)| self.process_of(spare));
        processes.filter(|process| self.places.iter().all(|place| place.process != *process))
    }

    /// A process is dead. Returns the rank that it was.
    pub fn note_death(&mut self, process: u32) -> Option<Rank> {
        if let Some(spare) = process.checked_sub(self.ranks()).and_then(|spare| self.spares.get_mut(spare as usize)) {
            *spare = false;
        } else if process >= self.ranks() {
            self.gone.insert(process);
        }
        let rank = self.places.iter().position(|place| place.process == process && place.is_alive)?;
        self.places[rank].is_alive = false;
        Some(rank as Rank)
    }

    /// The spare that this process is, and the rank whose place it has to take now.
    pub fn next_for(&self, process: u32) -> Option<Taking> {
        let dead = self.places.iter().position(|place| !place.is_alive)?;
        (self.idle().next() == Some(process)).then(|| (dead as Rank, process + 1 - self.ranks()))
    }

    /// All places that living spares have.
    pub fn taken(&self) -> Vec<Taking> {
        let places = (0..).zip(&self.places).filter(|(_, place)| place.is_alive && place.process >= self.ranks());
        places.map(|(rank, place)| (rank, place.process + 1 - self.ranks())).collect()
    }

    /// Spares have these places, the last of them as news. Returns whether that begins a new epoch.
    pub fn take(&mut self, taken: &[Taking]) -> bool {
        let epoch = taken.iter().map(|(_, spare)| *spare).max().unwrap_or(0);
        let most = if self.spawns { u32::from(u16::MAX) } else { self.spares.len() as u32 };
        let is_known = |(rank, spare): &Taking| (*rank as usize) < self.places.len() && (1..=most).contains(spare);
        if epoch <= self.epoch || !taken.iter().all(is_known) {
            return false;
        }
        for (rank, spare) in taken {
            let process = self.process_of(*spare);
            let is_alive = self.spares.get(*spare as usize - 1).copied().unwrap_or(!self.gone.contains(&process));
            self.places[*rank as usize] = Place { process, is_alive };
        }
        self.epoch = epoch;
        true
    }

    /// The first rank that is dead and that nobody will replace: for want of a spare, or because no spare may.
    pub fn lost(&self, is_unprotected: bool) -> Option<Rank> {
        let dead = self.places.iter().position(|place| !place.is_alive)?;
        (is_unprotected || !self.spawns && self.idle().next().is_none()).then_some(dead as Rank)
    }

    /// The dead rank for which this rank has a process spawned: it is the lowest that lives, and no spare is left.
    pub fn vacancy_for(&self, rank: Rank) -> Option<Rank> {
        let dead = self.places.iter().position(|place| !place.is_alive)?;
        let lowest = self.places.iter().position(|place| place.is_alive)?;
        (self.spawns && lowest as Rank == rank && self.idle().next().is_none()).then_some(dead as Rank)
    }

    /// The number of the next process that this rank has spawned, after one with the number `last`; `None` if there is none.
    pub fn next_number(&self, rank: Rank, last: u32) -> Option<u32> {
        let (ranks, spares) = (self.ranks(), self.spares.len() as u32);
        let first = spares + 1 + rank;
        let passed = last.max(self.epoch);
        let rounds = if passed < first { 0 } else { (passed - first) / ranks + 1 };
        first.checked_add(rounds.checked_mul(ranks)?).filter(|number| *number <= u32::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_idle_spare_takes_the_lowest_dead_rank() {
        let mut world = World::new(4, 2, false);
        assert_eq!(world.next_for(4), None);
        assert_eq!(world.note_death(3), Some(3));
        assert_eq!(world.note_death(1), Some(1));
        assert_eq!((world.next_for(4), world.next_for(5)), (Some((1, 1)), None));
        assert!(world.take(&[(1, 1)]));
        assert_eq!((world.next_for(4), world.next_for(5)), (None, Some((3, 2))));
        assert_eq!(world.lost(false), None);
        assert!(world.take(&[(1, 1), (3, 2)]));
        assert_eq!((world.alive(), world.epoch()), (vec![0, 4, 2, 5], 2));
    }

    #[test]
    fn a_spare_that_has_died_as_a_rank_is_replaced_in_a_later_epoch() {
        let mut world = World::new(2, 2, false);
        world.note_death(0);
        assert!(world.take(&[(0, 1)]));
        assert_eq!(world.note_death(2), Some(0));
        // One that has not heard of the first replacement takes the same place.
        let mut other = World::new(2, 2, false);
        other.note_death(0);
        other.note_death(2);
        assert_eq!(other.next_for(3), Some((0, 2)));
        assert!(world.take(&[(0, 2)]));
        assert!(!world.take(&[(0, 1)]), "an older epoch is over");
        assert!(world.place(0).is_alive);
    }

    #[test]
    fn who_hears_of_a_later_epoch_knows_the_places_of_earlier_ones() {
        let mut world = World::new(3, 3, false);
        assert!(world.take(&[(1, 1), (2, 2)]));
        assert_eq!((world.place(1).process, world.place(2).process), (3, 4));
        assert_eq!(world.taken(), [(1, 1), (2, 2)]);
        assert!(!world.take(&[(0, 9)]) && !world.take(&[(9, 3)]), "there are no such spares and ranks");
    }

    #[test]
    fn the_dead_are_lost_when_no_spare_is_left() {
        let mut world = World::new(2, 1, false);
        assert_eq!(world.note_death(1), Some(1));
        assert_eq!((world.lost(false), world.lost(true)), (None, Some(1)));
        world.note_death(2);
        assert_eq!(world.lost(false), Some(1));
    }

    #[test]
    fn a_spare_whose_death_is_known_before_its_place_is_dead_in_it() {
        let mut world = World::new(2, 2, false);
        world.note_death(1);
        world.note_death(2);
        assert!(world.take(&[(1, 1)]));
        assert!(!world.place(1).is_alive);
        assert_eq!(world.next_for(3), Some((1, 2)));
    }

    #[test]
    fn the_lowest_living_rank_has_a_process_spawned_where_no_spare_is_left() {
        let mut world = World::new(3, 1, true);
        world.note_death(0);
        assert_eq!(world.vacancy_for(1), None, "there is a spare");
        world.note_death(3);
        assert_eq!((world.vacancy_for(1), world.vacancy_for(2), world.lost(false)), (Some(0), None, None));
        let number = world.next_number(1, 0).unwrap();
        assert_eq!((number, world.next_number(1, number)), (3, Some(6)));
        assert!(world.take(&[(0, number)]));
        assert_eq!((world.place(0).process, world.next_number(0, 0)), (5, Some(5)));
        // It dies before it is known here, and after.
        assert_eq!(world.note_death(5), Some(0));
        assert!(world.take(&[(0, 6)]) && world.place(0).is_alive);
        assert!(world.is_gone(5) && !world.is_gone(8));
    }

    #[test]
    fn no_two_ranks_give_a_spawned_process_the_same_number() {
        let world = World::new(4, 2, true);
        let numbers: BTreeSet<u32> = (0..4).filter_map(|rank| world.next_number(rank, 0)).collect();
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(world.next_number(0, u32::from(u16::MAX)), None);
    }
}
