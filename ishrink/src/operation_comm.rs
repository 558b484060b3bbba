//! Makes a private communicator for one operation, so that its messages cannot be confused with those of the program or
//! of other operations.
//!
//! No member takes a context id for it before all members have called. Open MPI gives no other communicator one
//! meanwhile (comm_cid.c:600), and the program may be about to make a communicator.

use std::ffi::{c_int, c_void};

use openmpi_internals::layout::cid_mode::OMPI_COMM_CID_GROUP;
use openmpi_internals::layout::send_mode::MCA_PML_BASE_SEND_STANDARD;

use crate::fibers::{self, Fiber};
use crate::internals::Internals;
use crate::openmpi::{Handle, OpenMpi};
use crate::operation_order::Ticket;

/// The tag of the messages that make it: inside the range of collective operations, and unused by them.
const TAG: c_int = -0x5000_0000;
/// A tag that precedes it in the order in which Open MPI chooses context ids.
const FIRST_TAG: c_int = c_int::MIN;

/// Makes a communicator of the same members, with errors returned; or an error code.
///
/// # Safety
/// A live intracommunicator; on a fiber.
pub unsafe fn create(internals: &Internals, fiber: &Fiber, ticket: &Ticket) -> Result<Handle, c_int> {
    while !ticket.is_first() {
        fiber.pause();
    }
    // SAFETY: as required of the caller.
    unsafe {
        // A member that meets a dead one continues the barrier, so that no other member waits for it.
        barrier(internals, ticket.comm());
        create_group(internals, ticket.comm(), &TAG)
    }
}

/// Does what `ompi_comm_create_group` does, without the program's attributes.
///
/// # Safety
/// A live intracommunicator; on a fiber.
unsafe fn create_group(internals: &Internals, comm: Handle, tag: &c_int) -> Result<Handle, c_int> {
    let (nothing, no_ranks) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut());
    let (mut group, mut newcomm) = (nothing, nothing);
    let (errors, tag) = (internals.errors_return, (&raw const *tag).cast());
    // SAFETY: as required of the caller, and places for the results.
    unsafe {
        (internals.comm_group)(comm, &mut group);
        let size = internals.query(internals.group_size, group);
        let code =
            (internals.comm_set)(&mut newcomm, comm, size, no_ranks, 0, no_ranks, nothing, errors, group, nothing, 0);
        (internals.group_free)(&mut group);
        succeeded(code)?;
        let code =
            succeeded((internals.comm_nextcid)(newcomm, comm, nothing, tag, nothing, false, OMPI_COMM_CID_GROUP))
                .and_then(|()| {
                    succeeded((internals.comm_activate)(
                        &mut newcomm,
                        comm,
                        nothing,
                        tag,
                        nothing,
                        false,
                        OMPI_COMM_CID_GROUP,
                    ))
                });
        if code.is_err() && OpenMpi::get().is_some_and(|mpi| newcomm != mpi.comm_null()) {
            (internals.comm_free)(&mut newcomm);
        }
        code.map(|()| newcomm)
    }
}

/// Lets Open MPI choose context ids of other communicators while an operation's communicator waits for its own, or has
/// failed to get it. Open MPI would block them meanwhile, in the second case for ever (comm_cid.c:645). This function
/// makes a communicator of this process only: it precedes all others, waits for no process, and clears the marker.
///
/// # Safety
/// On a fiber.
pub unsafe fn release_cid_turn(internals: &Internals) {
    // SAFETY: as required of the caller; no other code knows the communicator.
    unsafe {
        if let Ok(mut newcomm) = create_group(internals, internals.comm_self, &FIRST_TAG) {
            (internals.comm_free)(&mut newcomm);
        }
    }
}

/// The same on a new fiber, from a step of a schedule.
pub fn start_releasing_cid_turn() {
    if let (Some(mpi), Some(internals)) = (OpenMpi::get(), Internals::get()) {
        // SAFETY: it is a fiber.
        fibers::start(mpi, |_| unsafe { release_cid_turn(internals) });
    }
}

fn succeeded(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// The parent of a member in a binary tree; `None` for the root.
fn parent(rank: c_int) -> Option<c_int> {
    (rank > 0).then(|| (rank - 1) / 2)
}

/// The children of a member in a binary tree of `size` members.
fn children(rank: c_int, size: c_int) -> impl Iterator<Item = c_int> {
    (2 * rank + 1..=2 * rank + 2).filter(move |child| *child < size)
}

/// A barrier with messages of this library, up and down a binary tree.
///
/// # Safety
/// As above.
unsafe fn barrier(internals: &Internals, comm: Handle) {
    let nothing = std::ptr::null_mut();
    // SAFETY: as required of the caller; messages without content.
    unsafe {
        let (rank, size) = (internals.query(internals.comm_rank, comm), internals.query(internals.comm_size, comm));
        let (send, receive) = (internals.send(), internals.receive());
        let receive_from = |source| receive(nothing, 0, internals.byte_type, source, TAG, comm, nothing);
        let send_to =
            |destination| send(nothing, 0, internals.byte_type, destination, TAG, MCA_PML_BASE_SEND_STANDARD, comm);
        children(rank, size).for_each(|child| _ = receive_from(child));
        if let Some(parent) = parent(rank) {
            send_to(parent);
            receive_from(parent);
        }
        children(rank, size).for_each(|child| _ = send_to(child));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_of_the_barrier_but_the_root_is_the_child_of_its_parent_alone() {
        for size in 1..=40 {
            let mut parents = vec![Vec::new(); size as usize];
            for rank in 0..size {
                children(rank, size).for_each(|child| parents[child as usize].push(rank));
            }
            for (rank, of_rank) in (0..).zip(parents) {
                assert_eq!(of_rank, Vec::from_iter(parent(rank)), "rank {rank} of {size}");
            }
        }
    }
}
