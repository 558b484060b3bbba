//! How many replicas each rank has, and which of them live.
//!
//! Processes are numbered by replica first: the first replicas of all ranks, in the order of ranks, then the second
//! ones, then the third ones. So a job without replicas numbers its processes as before.

use event_log::determinant::Rank;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most replicas of a rank.
pub const MOST: u8 = 3;

/// A replica of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replica {
    /// The rank of the program.
    pub rank: Rank,
    /// Its place among the replicas of the rank, from 0.
    pub index: u8,
}

/// Some replicas of one rank, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indices(u8);

impl Indices {
    /// The first so many.
    pub fn first(count: u8) -> Self {
        Self((0..count).fold(0, |set, index| set | 1 << index))
    }

    /// How many they are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them.
    pub fn contains(self, index: u8) -> bool {
        self.0 & 1 << index != 0
    }

    /// Adds one.
    pub fn insert(&mut self, index: u8) {
        self.0 |= 1 << index;
    }

    /// Takes one out. Returns whether it was there.
    pub fn remove(&mut self, index: u8) -> bool {
        let was_there = self.contains(index);
        self.0 &= !(1 << index);
        was_there
    }

    /// Those of either.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not among the others.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |index| self.contains(*index))
    }

    /// The lowest.
    pub fn lowest(self) -> Option<u8> {
        self.iter().next()
    }
}

/// Why replicas cannot be as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DegreeError {
    /// The number of replicas is not 2 or 3.
    #[error("a replicated rank has 2 or 3 replicas, not {0}")]
    Degree(u8),
    /// A rank of the list is none of the program's.
    #[error("rank {0} is to be replicated, and the program has {1} ranks")]
    Rank(Rank, u32),
}

/// How many replicas each rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degrees(Vec<u8>);

impl Degrees {
    /// All ranks have so many.
    ///
    /// # Errors
    /// The number is not 2 or 3.
    pub fn uniform(ranks: u32, replicas: u8) -> Result<Self, DegreeError> {
        if !(2..=MOST).contains(&replicas) {
            return Err(DegreeError::Degree(replicas));
        }
        Ok(Self(vec![replicas; ranks as usize]))
    }

    /// The ranks of the list have so many, the others are one process each.
    ///
    /// # Errors
    /// The number is not 2 or 3, or a rank of the list is none.
    pub fn partial(ranks: u32, replicas: u8, replicated: &[Rank]) -> Result<Self, DegreeError> {
        let mut degrees = Self::uniform(ranks, replicas)?;
        if let Some(rank) = replicated.iter().find(|rank| **rank >= ranks) {
            return Err(DegreeError::Rank(*rank, ranks));
        }
        for (rank, degree) in (0..).zip(&mut degrees.0) {
            if !replicated.contains(&rank) {
                *degree = 1;
            }
        }
        Ok(degrees)
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.0.len() as u32
    }

    /// The replicas of a rank.
    pub fn of(&self, rank: Rank) -> Indices {
        Indices::first(self.0[rank as usize])
    }

    /// All replicas, in the order of their processes.
    pub fn all(&self) -> impl Iterator<Item = Replica> {
        let of_index = |index| (0..self.ranks()).map(move |rank| Replica { rank, index });
        (0..MOST).flat_map(of_index).filter(|replica| self.of(replica.rank).contains(replica.index))
    }

    /// The number of the process that is a replica; `None` if there is no such replica.
    pub fn process(&self, replica: Replica) -> Option<u32> {
        self.all().position(|other| other == replica).map(|process| process as u32)
    }

    /// The replica that a process is; `None` for one that is none.
    pub fn replica(&self, process: u32) -> Option<Replica> {
        self.all().nth(process as usize)
    }
}

/// The replicas that live, as far as one process knows.
#[derive(Clone, Debug)]
pub struct Living(Vec<Indices>);

impl Living {
    /// All live.
    pub fn new(degrees: &Degrees) -> Self {
        Self((0..degrees.ranks()).map(|rank| degrees.of(rank)).collect())
    }

    /// Those of a rank.
    pub fn of(&self, rank: Rank) -> Indices {
        self.0[rank as usize]
    }

    /// Whether this one lives.
    pub fn contains(&self, replica: Replica) -> bool {
        self.of(replica.rank).contains(replica.index)
    }

    /// One has died. Returns whether that is new.
    pub fn remove(&mut self, replica: Replica) -> bool {
        self.0[replica.rank as usize].remove(replica.index)
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.0.len() as u32
    }
}
