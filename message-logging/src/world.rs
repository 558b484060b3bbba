//! Which process is which rank of the program, and who takes the place of the dead.
//!
//! The processes of the job are the ranks of the program and, behind them, its spares, which have numbers from 1. The
//! lowest idle spare takes the place of the lowest rank that is dead, and its number is the *epoch* from then on. A
//! spare that is not the first takes a place only when it knows that all before it are dead or ranks. So it knows of
//! each earlier replacement that lives, and whoever hears of an epoch from it need not have heard of those before.

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
}

impl World {
    /// A job with so many ranks and spares.
    pub fn new(ranks: u32, spares: u32) -> Self {
        let place = |process| Place { process, is_alive: true };
        Self { places: (0..ranks).map(place).collect(), spares: vec![true; spares as usize], epoch: 0 }
    }

    /// How many ranks the program has.
    pub fn ranks(&self) -> u32 {
        self.places.len() as u32
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

    fn process_of(&self, spare: u32) -> u32 {
        self.ranks() + spare - 1
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
        let is_known = |(rank, spare): &Taking| {
            (*rank as usize) < self.places.len() && (1..=self.spares.len()).contains(&(*spare as usize))
        };
        if epoch <= self.epoch || !taken.iter().all(is_known) {
            return false;
        }
        for (rank, spare) in taken {
            let is_alive = self.spares[*spare as usize - 1];
            self.places[*rank as usize] = Place { process: self.process_of(*spare), is_alive };
        }
        self.epoch = epoch;
        true
    }

    /// The first rank that is dead and that nobody will replace: for want of a spare, or because no spare may.
    pub fn lost(&self, is_unprotected: bool) -> Option<Rank> {
        let dead = self.places.iter().position(|place| !place.is_alive)?;
        (is_unprotected || self.idle().next().is_none()).then_some(dead as Rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_idle_spare_takes_the_lowest_dead_rank() {
        let mut world = World::new(4, 2);
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
        let mut world = World::new(2, 2);
        world.note_death(0);
        assert!(world.take(&[(0, 1)]));
        assert_eq!(world.note_death(2), Some(0));
        // One that has not heard of the first replacement takes the same place.
        let mut other = World::new(2, 2);
        other.note_death(0);
        other.note_death(2);
        assert_eq!(other.next_for(3), Some((0, 2)));
        assert!(world.take(&[(0, 2)]));
        assert!(!world.take(&[(0, 1)]), "an older epoch is over");
        assert!(world.place(0).is_alive);
    }

    #[test]
    fn who_hears_of_a_later_epoch_knows_the_places_of_earlier_ones() {
        let mut world = World::new(3, 3);
        assert!(world.take(&[(1, 1), (2, 2)]));
        assert_eq!((world.place(1).process, world.place(2).process), (3, 4));
        assert_eq!(world.taken(), [(1, 1), (2, 2)]);
        assert!(!world.take(&[(0, 9)]) && !world.take(&[(9, 3)]), "there are no such spares and ranks");
    }

    #[test]
    fn the_dead_are_lost_when_no_spare_is_left() {
        let mut world = World::new(2, 1);
        assert_eq!(world.note_death(1), Some(1));
        assert_eq!((world.lost(false), world.lost(true)), (None, Some(1)));
        world.note_death(2);
        assert_eq!(world.lost(false), Some(1));
    }

    #[test]
    fn a_spare_whose_death_is_known_before_its_place_is_dead_in_it() {
        let mut world = World::new(2, 2);
        world.note_death(1);
        world.note_death(2);
        assert!(world.take(&[(1, 1)]));
        assert!(!world.place(1).is_alive);
        assert_eq!(world.next_for(3), Some((1, 2)));
    }
}
