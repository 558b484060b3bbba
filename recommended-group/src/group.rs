//! A set of processes.

use serde::{Deserialize, Serialize};

use crate::units::Rank;

/// Processes, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Group {
    words: Vec<u64>,
    len: u32,
}

impl Group {
    /// Nobody, of at most so many.
    #[must_use]
    pub fn none(count: u32) -> Self {
        Self { words: vec![0; count.div_ceil(64) as usize], len: 0 }
    }

    /// Processes 0 to `count` - 1.
    #[must_use]
    pub fn all(count: u32) -> Self {
        Self::of(count, 0..count)
    }

    /// These processes, of `count`.
    #[must_use]
    pub fn of(count: u32, ranks: impl IntoIterator<Item = Rank>) -> Self {
        let mut group = Self::none(count);
        ranks.into_iter().for_each(|rank| {
            group.insert(rank);
        });
        group
    }

    /// Whether it is one of so many processes: what has come over a network may be none.
    #[must_use]
    pub fn is_of(&self, count: u32) -> bool {
        let beyond = self.words.last().is_some_and(|word| count % 64 != 0 && word >> (count % 64) != 0);
        self.words.len() == count.div_ceil(64) as usize && !beyond
    }

    /// Whether this process is in it.
    #[must_use]
    pub fn contains(&self, rank: Rank) -> bool {
        self.words.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    /// Adds a process; whether it was not there.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let is_new = !self.contains(rank);
        self.words[rank as usize / 64] |= 1 << (rank % 64);
        self.len += u32::from(is_new);
        is_new
    }

    /// Takes a process out; whether it was there.
    pub fn remove(&mut self, rank: Rank) -> bool {
        let was_there = self.contains(rank);
        if was_there {
            self.words[rank as usize / 64] &= !(1 << (rank % 64));
            self.len -= 1;
        }
        was_there
    }

    /// Takes everybody out.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.len = 0;
    }

    /// Whether no process is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(one, other)| one & other == 0)
    }

    /// Of two groups that have nobody in common the larger one goes on, or of equal ones that with the smallest process:
    /// whether this one goes on beside that one.
    #[must_use]
    pub fn outweighs(&self, other: &Self) -> bool {
        let weight = |group: &Self| (group.len, std::cmp::Reverse(group.first()));
        self.is_disjoint(other) && weight(self) > weight(other)
    }

    /// Adds all of another group of the same size.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|rank| {
            self.insert(rank);
        });
    }

    /// The smallest one.
    #[must_use]
    pub fn first(&self) -> Option<Rank> {
        let place = self.words.iter().position(|word| *word != 0)?;
        Some(place as Rank * 64 + self.words[place].trailing_zeros())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        let in_word = |(place, word): (usize, &u64)| {
            let (word, first) = (*word, place as Rank * 64);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        };
        self.words.iter().enumerate().flat_map(in_word)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nobody is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A bit for each process, the lowest of the first word for process 0.
impl From<Vec<u64>> for Group {
    fn from(words: Vec<u64>) -> Self {
        let len = words.iter().map(|word| word.count_ones()).sum();
        Self { words, len }
    }
}

impl From<Group> for Vec<u64> {
    fn from(group: Group) -> Self {
        group.words
    }
}
