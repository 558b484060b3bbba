//! Prepares communicators with members of several jobs for failures.
//!
//! Open MPI 5.0 resolves a process of another job at the first message to it. If the process is dead by then, for
//! example because that message reports its death, the runtime is asked for an address that never arrives. So ringwatch
//! resolves all processes while the intercommunicator is made.
//!
//! Open MPI also disconnects such processes in the runtime, which waits for ever for dead ones. Because it counts the
//! members of an intracommunicator twice, it waits there for living ones, too (`dpm.c:645`). Without the mark of a
//! dynamic communicator Open MPI disconnects with a barrier instead, so ringwatch removes the mark.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use openmpi_internals::layout::communicator::{C_FLAGS, OMPI_COMM_DYNAMIC};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::probe::{self, Memory};
use openmpi_internals::variables::{MCA_PML, OMPI_COMM_NUM_DYNCOMM, OMPI_MPI_COMM_WORLD};
use openmpi_internals::{group, proc};

/// Functions and variables of the loaded Open MPI.
struct Dynamic {
    world: Object,
    /// Number of marked communicators.
    marked: *mut c_int,
    /// The PML's table, whose first function adds processes.
    add_processes: *const unsafe extern "C" fn(*const Object, usize) -> c_int,
    rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    is_inter: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    remote_group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Dynamic {}
// SAFETY: as above; only the thread that makes communicators writes to them.
unsafe impl Sync for Dynamic {}

/// Handles a new communicator. Only after `MPI_Init`.
pub fn made(comm: Object) {
    if let Some(mpi) = Dynamic::get().filter(|mpi| mpi.unmark(comm) && number(mpi.is_inter, comm) != 0) {
        mpi.look_up_other_side(comm, |_| true);
    }
}

/// Handles an intercommunicator that has its context id. From now on it may be revoked, and each member forwards
/// revocations.
pub fn has_context_id(comm: Object) {
    if let Some(mpi) = Dynamic::get() {
        mpi.look_up_other_side(comm, |process| is_met(process) && lives(process));
    }
}

/// Handles an intercommunicator whose constructor has failed after a death. Returns whether all other members are
/// reachable.
pub fn given_up(comm: Object) -> bool {
    Dynamic::get().is_some_and(|mpi| {
        mpi.unmark(comm);
        let others = mpi.look_up_other_side(comm, |_| false);
        let can_be_told = |process| is_met(process) && (!lives(process) || proc::is_reached(*process));
        !others.is_empty() && others.iter().all(can_be_told)
    })
}

/// Whether Open MPI has resolved a process; otherwise it has only the name.
fn is_met(process: &usize) -> bool {
    process & 1 == 0
}

fn lives(process: &usize) -> bool {
    !proc::is_dead(*process)
}

impl Dynamic {
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Dynamic>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    /// `None` if this Open MPI lacks a symbol or has another layout.
    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h, communicator.h and pml.h.
        let mpi = unsafe {
            Self {
                world: library.predefined(OMPI_MPI_COMM_WORLD)?,
                marked: library.variable(OMPI_COMM_NUM_DYNCOMM)?,
                add_processes: library.variable(MCA_PML)?.cast(),
                rank: library.standard(c"PMPI_Comm_rank")?,
                is_inter: library.standard(c"PMPI_Comm_test_inter")?,
                remote_group: library.standard(c"PMPI_Comm_remote_group")?,
                group_free: library.standard(c"PMPI_Group_free")?,
            }
        };
        let rank = number(mpi.rank, mpi.world);
        Memory::open().is_some_and(|memory| probe::has_flags(&memory, mpi.world, rank)).then_some(mpi)
    }

    /// Removes the mark; returns whether there was one.
    fn unmark(&self, comm: Object) -> bool {
        // SAFETY: a live communicator, in an Open MPI whose communicators have the known layout.
        unsafe {
            let flags = comm.byte_add(C_FLAGS).cast::<u32>();
            let is_marked = flags.read() & OMPI_COMM_DYNAMIC != 0;
            if is_marked {
                flags.write(flags.read() & !OMPI_COMM_DYNAMIC);
                *self.marked -= 1;
            }
            is_marked
        }
    }

    /// Resolves the processes of the other group that `meant` selects; returns the whole group.
    fn look_up_other_side(&self, comm: Object, meant: impl Fn(&usize) -> bool) -> Vec<usize> {
        let (mut group, mut all) = (std::ptr::null_mut(), Vec::new());
        // SAFETY: a live intercommunicator, and its group, which is freed.
        unsafe {
            if (self.remote_group)(comm, &mut group) != 0 {
                return all;
            }
            if let Some(list) = group::list(group) {
                all = list.iter().map(|process| process.load(Ordering::Acquire)).collect();
                let meant: Vec<_> = all.iter().copied().filter(meant).collect();
                (*self.add_processes)(meant.as_ptr().cast(), meant.len());
            }
            (self.group_free)(&mut group);
        }
        all
    }
}

fn number(function: unsafe extern "C" fn(Object, *mut c_int) -> c_int, of: Object) -> c_int {
    let mut answer = 0;
    // SAFETY: callers pass a function of MPI and a live object of its kind.
    unsafe { function(of, &mut answer) };
    answer
}
