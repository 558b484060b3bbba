//! Communicators as the program sees them: of its ranks, whatever processes these are.
//!
//! A handle of a communicator that the program has made is one of a communicator of this process alone, which keeps
//! what belongs to the handle: error handler, attributes, name. Members talk under its number. The first of the members
//! that make it gives it, of numbers that are this rank's alone. So no two communicators have the same, but those that
//! are made together and have no member in common.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use event_log::determinant::Rank;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::object::Object;

use crate::topology::Topology;

/// The numbers of a communicator: one for messages of the program, one for those of collective operations.
pub const NUMBERS: u32 = 2;

/// A communicator.
pub struct Comm {
    /// The program's handle.
    pub handle: usize,
    /// The number under which members talk.
    pub number: u32,
    /// The members.
    pub members: Vec<Rank>,
    /// The place of this process among them.
    pub rank: usize,
    /// Its topology.
    pub topology: Option<Topology>,
    /// Collective operations that have begun.
    operations: AtomicI32,
}

impl Comm {
    /// One of these members, of which this process is the one at `rank`.
    pub fn new(handle: Object, number: u32, members: Vec<Rank>, rank: usize, topology: Option<Topology>) -> Arc<Self> {
        Arc::new(Self { handle: handle as usize, number, members, rank, topology, operations: AtomicI32::new(0) })
    }

    /// The number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The place of a rank of the program among the members.
    pub fn place_of(&self, rank: Rank) -> Option<usize> {
        // In the first communicator, and in many others, it is where one looks first.
        let guess = rank as usize;
        let is_there = self.members.get(guess) == Some(&rank);
        if is_there { Some(guess) } else { self.members.iter().position(|member| *member == rank) }
    }

    /// The member at a place that the program names.
    pub fn member(&self, place: c_int) -> Option<Rank> {
        self.members.get(usize::try_from(place).ok()?).copied()
    }

    /// Collective operations that have begun.
    fn operations(&self) -> c_int {
        self.operations.load(Ordering::Relaxed)
    }

    /// The tag of the next collective operation.
    pub fn next_operation(&self) -> c_int {
        self.operations.fetch_add(1, Ordering::Relaxed) & c_int::MAX
    }
}

/// All communicators of this process.
pub struct Comms {
    by_handle: HashMap<usize, Arc<Comm>>,
    /// The next number that this rank gives.
    next: u32,
    /// How far the numbers of a rank are apart.
    step: u32,
}

impl Comms {
    /// Those of one of so many ranks; none yet. Numbers below `2 * NUMBERS` are given already.
    pub fn new(rank: Rank, ranks: u32) -> Self {
        Self { by_handle: HashMap::new(), next: NUMBERS * (rank + 2), step: NUMBERS * ranks }
    }

    /// The communicator of a handle.
    pub fn get(&self, handle: Object) -> Option<Arc<Comm>> {
        self.by_handle.get(&(handle as usize)).cloned()
    }

    /// A number for a new communicator.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` when all have been given.
    pub fn reserve(&mut self) -> Result<u32, c_int> {
        let next = self.next.checked_add(self.step).ok_or(ERR_INTERN)?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Adds a communicator.
    pub fn add(&mut self, comm: Arc<Comm>) {
        self.by_handle.insert(comm.handle, comm);
    }

    /// The numbers of all communicators.
    pub fn numbers(&self) -> Vec<u32> {
        self.by_handle.values().map(|comm| comm.number).collect()
    }

    /// The lowest number that this process has not used, and how many collective operations of each communicator have
    /// begun.
    pub fn positions(&self) -> (u32, Vec<(u32, c_int)>) {
        (self.next, self.by_handle.values().map(|comm| (comm.number, comm.operations())).collect())
    }

    /// Goes on from such positions.
    pub fn restore(&mut self, next: u32, operations: &[(u32, c_int)]) {
        self.next = self.next.max(next);
        for comm in self.by_handle.values() {
            if let Some((_, begun)) = operations.iter().find(|(number, _)| *number == comm.number) {
                comm.operations.store(*begun, Ordering::Relaxed);
            }
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, handle: Object) -> Option<Arc<Comm>> {
        self.by_handle.remove(&(handle as usize))
    }
}

/// The members of the new communicator in which a member of a split is: those of its color, by key and then by place.
pub fn split(answers: &[(c_int, c_int)], own: usize) -> Vec<usize> {
    let color = answers[own].0;
    let mut members: Vec<usize> = (0..answers.len()).filter(|place| answers[*place].0 == color).collect();
    members.sort_by_key(|place| answers[*place].1);
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(number: u32, members: &[Rank]) -> Arc<Comm> {
        Comm::new((0x1000 + number as usize) as Object, number, members.to_vec(), 0, None)
    }

    #[test]
    fn members_are_found_by_rank_and_by_place() {
        let comm = comm(4, &[5, 2, 7]);
        assert_eq!((comm.place_of(2), comm.place_of(7), comm.place_of(0)), (Some(1), Some(2), None));
        assert_eq!((comm.member(0), comm.member(3), comm.member(-2)), (Some(5), None, None));
    }

    #[test]
    fn no_two_ranks_give_the_same_number_and_none_that_is_given_already() {
        let mut all: Vec<Comms> = (0..3).map(|rank| Comms::new(rank, 3)).collect();
        let mut numbers: Vec<u32> =
            all.iter_mut().flat_map(|comms| [(); 4].map(|()| comms.reserve().unwrap())).collect();
        numbers.extend([0, NUMBERS]);
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] + NUMBERS <= pair[1]), "{numbers:?}");
    }

    #[test]
    fn a_rank_that_has_given_all_its_numbers_says_so() {
        let mut comms = Comms::new(0, 1 << 30);
        assert!(comms.reserve().is_ok());
        assert_eq!(comms.reserve(), Err(ERR_INTERN));
    }

    #[test]
    fn collective_operations_go_on_from_where_a_checkpoint_was() {
        let mut comms = Comms::new(0, 2);
        comms.add(comm(0, &[0, 1]));
        comms.add(comm(2, &[0]));
        comms.get((0x1000 + 2) as Object).unwrap().next_operation();
        let (next, operations) = comms.positions();
        let mut again = Comms::new(0, 2);
        again.add(comm(2, &[0]));
        again.restore(next + 4, &operations);
        assert_eq!(again.get((0x1000 + 2) as Object).unwrap().next_operation(), 1);
        assert_eq!(again.reserve(), Ok(next + 4));
    }

    #[test]
    fn a_split_orders_by_key_and_then_by_place() {
        let answers = [(0, 3), (1, 0), (0, 1), (0, 1)];
        assert_eq!(split(&answers, 0), [2, 3, 0]);
        assert_eq!(split(&answers, 1), [1]);
    }
}
