//! Orders operations that spawn and connect: those of one communicator run one after another, in the order of the
//! program's calls.
//!
//! PRRTE 3.0.8 forgets a process's pending request as soon as another answer arrives at the same node
//! (`pmix_server_dmdx_resp`), and a concurrent operation would request such answers.

use std::sync::Mutex;

use openmpi_internals::sync::lock;

use crate::openmpi::Handle;

/// Tickets of all communicators, in call order: communicator and number.
static TICKETS: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());

/// The position of an operation in its communicator's order. Dropping it releases the position.
pub struct Ticket {
    comm: Handle,
    number: u64,
}

impl Ticket {
    /// Takes the last position.
    pub fn take(comm: Handle) -> Self {
        let mut tickets = lock(&TICKETS);
        let number = tickets.last().map_or(0, |(_, number)| number + 1);
        tickets.push((comm as usize, number));
        Self { comm, number }
    }

    /// The program's communicator.
    pub fn comm(&self) -> Handle {
        self.comm
    }

    /// Whether all earlier operations have ended.
    pub fn is_first(&self) -> bool {
        let tickets = lock(&TICKETS);
        let first = tickets.iter().find(|(comm, _)| *comm == self.comm as usize);
        first.is_none_or(|(_, number)| *number == self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&TICKETS).retain(|(_, number)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_communicator_come_one_after_another_and_those_of_others_do_not_wait() {
        let (comm, other_comm) = (std::ptr::without_provenance_mut(1), std::ptr::without_provenance_mut(2));
        let (first, second, third) = (Ticket::take(comm), Ticket::take(comm), Ticket::take(comm));
        let other = Ticket::take(other_comm);
        assert!(first.is_first() && other.is_first());
        assert!(!second.is_first() && !third.is_first());
        // It fails before its turn.
        drop(second);
        assert!(!third.is_first());
        drop(first);
        assert!(third.is_first());
        let fourth = Ticket::take(comm);
        assert!(!fourth.is_first());
    }
}
