//! A communicator of one operation alone: whatever the program does meanwhile on the one that it was called with, and
//! however many operations it has started there, their messages cannot be mixed up.
//!
//! Nobody takes a number for it before all members have come, since Open MPI lets nobody else have one meanwhile
//! (comm_cid.c:600) and the program may be about to make a communicator.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use crate::fibers::{self, Fiber};
use crate::internals::Internals;
use crate::openmpi::{Handle, OpenMpi};

/// The tag of the messages that make it: among those that are for collective operations, and that none of them uses.
const TAG: c_int = -0x5000_0000;
/// A tag before it in Open MPI's order of those who want a number.
const FIRST_TAG: c_int = c_int::MIN;
/// `MCA_PML_BASE_SEND_STANDARD` and `OMPI_COMM_CID_GROUP`.
const STANDARD: c_int = 4;
const WITH_MESSAGES: c_int = 0x200;

/// Operations of a communicator are carried out one after another, in the order in which the program has called. PRRTE 3.0.8
/// forgets what a process waits for as soon as another answer comes to the same node (`pmix_server_dmdx_resp`), and the
/// other operation asks for such answers.
static LINE: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());

fn line() -> MutexGuard<'static, Vec<(usize, u64)>> {
    LINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A place in the line of a communicator.
pub struct Ticket {
    comm: Handle,
    number: u64,
}

impl Ticket {
    /// The last place.
    pub fn take(comm: Handle) -> Self {
        let mut line = line();
        let number = line.last().map_or(0, |(_, number)| number + 1);
        line.push((comm as usize, number));
        Self { comm, number }
    }

    fn is_first(&self) -> bool {
        line().iter().find(|(comm, _)| *comm == self.comm as usize).is_none_or(|(_, number)| *number == self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        line().retain(|(_, number)| *number != self.number);
    }
}

/// Makes a communicator of the same members, whose errors return; or an error code.
///
/// # Safety
/// An intracommunicator that lives; on a fiber.
pub unsafe fn gather(inside: &Internals, fiber: &Fiber, ticket: &Ticket) -> Result<Handle, c_int> {
    while !ticket.is_first() {
        fiber.pause();
    }
    // SAFETY: as required of the caller.
    unsafe {
        // Whoever meets a dead one stays in the step, so that nobody waits for him.
        meet(inside, ticket.comm);
        make(inside, ticket.comm, &TAG)
    }
}

/// What `ompi_comm_create_group` does, without the attributes that the program has attached.
///
/// # Safety
/// An intracommunicator that lives; on a fiber.
unsafe fn make(inside: &Internals, comm: Handle, tag: &c_int) -> Result<Handle, c_int> {
    let (nothing, no_ranks) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut());
    let (mut group, mut made) = (nothing, nothing);
    let (errors, tag) = (inside.errors_return, (&raw const *tag).cast());
    // SAFETY: as required of the caller, and room for the answers.
    unsafe {
        (inside.group)(comm, &mut group);
        let size = inside.answer(inside.group_size, group);
        let code = (inside.make_communicator)(
            &mut made, comm, size, no_ranks, 0, no_ranks, nothing, errors, group, nothing, 0,
        );
        (inside.group_free)(&mut group);
        succeeded(code)?;
        let code = succeeded((inside.number)(made, comm, nothing, tag, nothing, false, WITH_MESSAGES))
            .and_then(|()| succeeded((inside.activate)(&mut made, comm, nothing, tag, nothing, false, WITH_MESSAGES)));
        if code.is_err() && OpenMpi::get().is_some_and(|mpi| made != mpi.comm_null()) {
            (inside.free_communicator)(&mut made);
        }
        code.map(|()| made)
    }
}

/// Lets other communicators have their numbers while one waits for its own, or has not got it: Open MPI keeps the turn
/// meanwhile, in the second case for ever (comm_cid.c:645). A communicator of this process alone comes before all others,
/// waits for nobody, and ends the turn.
///
/// # Safety
/// On a fiber.
pub unsafe fn hand_on_turn(inside: &Internals) {
    // SAFETY: as required of the caller; the communicator is nobody else's.
    unsafe {
        if let Ok(mut made) = make(inside, inside.myself, &FIRST_TAG) {
            (inside.free_communicator)(&mut made);
        }
    }
}

/// The same on a fiber of its own, from a step of a schedule.
pub fn begin_to_hand_on_turn() {
    if let (Some(mpi), Some(inside)) = (OpenMpi::get(), Internals::get()) {
        // SAFETY: it is a fiber.
        fibers::start(mpi, |_| unsafe { hand_on_turn(inside) });
    }
}

fn succeeded(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// A barrier with messages of our own, up and down a binary tree.
///
/// # Safety
/// As above.
unsafe fn meet(inside: &Internals, comm: Handle) {
    let nothing = std::ptr::null_mut();
    // SAFETY: as required of the caller; messages without content.
    unsafe {
        let (rank, size) = (inside.answer(inside.rank, comm), inside.answer(inside.size, comm));
        let (send, receive) = (inside.send(), inside.receive());
        let children = || (2 * rank + 1..=2 * rank + 2).filter(|child| *child < size);
        let hear = |from| receive(nothing, 0, inside.byte, from, TAG, comm, nothing);
        let tell = |to| send(nothing, 0, inside.byte, to, TAG, STANDARD, comm);
        children().for_each(|child| _ = hear(child));
        if rank > 0 {
            let parent = (rank - 1) / 2;
            tell(parent);
            hear(parent);
        }
        children().for_each(|child| _ = tell(child));
    }
}
