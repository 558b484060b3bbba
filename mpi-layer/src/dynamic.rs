//! Communicators with members of several jobs: what Open MPI 5.0 leaves undone for them where processes may fail.
//!
//! It connects processes of another job at the first message. A process that does so when the other is dead, because it
//! passes on the news of that very death, say, asks the runtime for an address that never comes. So everybody is looked up
//! while the intercommunicator is made. And it parts them in the runtime, which waits for the dead for ever, and, as it
//! counts the members of an intracommunicator twice, for the living there, too (`dpm.c:645`). Without its mark such a
//! communicator is parted with a barrier.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::endpoints;
use crate::members;
use crate::objects::Object;
use crate::openmpi::Library;

/// Of `ompi_communicator_t`: the own rank, and the flags with two of them: it is one of `MPI_Init`; it has members of
/// several jobs.
const RANK: usize = 0xdc;
const FLAGS: usize = 0xe0;
const INTRINSIC: u32 = 4;
const DYNAMIC: u32 = 8;

/// Functions and variables of the loaded Open MPI.
struct Dynamic {
    world: Object,
    /// How many communicators have the mark.
    marked: *mut c_int,
    /// Of the module that carries messages, whose first function takes processes in.
    add_processes: *const unsafe extern "C" fn(*const Object, usize) -> c_int,
    rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    is_inter: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    remote_group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Dynamic {}
// SAFETY: as above; what can be written is written in the thread that makes communicators.
unsafe impl Sync for Dynamic {}

/// A communicator has been made. Only after `MPI_Init`.
pub fn made(comm: Object) {
    if let Some(mpi) = Dynamic::get().filter(|mpi| mpi.unmark(comm) && number(mpi.is_inter, comm) != 0) {
        mpi.look_up_other_side(comm, |_| true);
    }
}

/// One with two groups has its number: from now on somebody may revoke it, which all who are told pass on to others.
pub fn numbered(comm: Object) {
    if let Some(mpi) = Dynamic::get() {
        mpi.look_up_other_side(comm, |process| is_met(process) && lives(process));
    }
}

/// Such a one has not been made in the end: somebody has died. Returns whether all others can be told.
pub fn given_up(comm: Object) -> bool {
    Dynamic::get().is_some_and(|mpi| {
        mpi.unmark(comm);
        let others = mpi.look_up_other_side(comm, |_| false);
        let can_be_told = |process| is_met(process) && (!lives(process) || endpoints::is_reached(*process));
        !others.is_empty() && others.iter().all(can_be_told)
    })
}

/// Whether Open MPI has more of a process than its name.
fn is_met(process: &usize) -> bool {
    process & 1 == 0
}

fn lives(process: &usize) -> bool {
    !endpoints::is_dead(*process)
}

impl Dynamic {
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Dynamic>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    /// `None` if this Open MPI lacks something or has other structs.
    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h, communicator.h and pml.h.
        let mpi = unsafe {
            Self {
                world: library.predefined(c"ompi_mpi_comm_world")?,
                marked: library.symbol(c"ompi_comm_num_dyncomm")?.cast(),
                add_processes: library.symbol(c"mca_pml")?.cast(),
                rank: library.function(c"PMPI_Comm_rank")?,
                is_inter: library.function(c"PMPI_Comm_test_inter")?,
                remote_group: library.function(c"PMPI_Comm_remote_group")?,
                group_free: library.function(c"PMPI_Group_free")?,
            }
        };
        // SAFETY: the world is a communicator, which is larger than that.
        let (rank, flags) = unsafe {
            (mpi.world.byte_add(RANK).cast::<c_int>().read(), mpi.world.byte_add(FLAGS).cast::<u32>().read())
        };
        (rank == number(mpi.rank, mpi.world) && flags & INTRINSIC != 0).then_some(mpi)
    }

    /// Takes the mark off; returns whether there was one.
    fn unmark(&self, comm: Object) -> bool {
        // SAFETY: a communicator that lives, in an Open MPI whose communicators have been looked at.
        unsafe {
            let flags = comm.byte_add(FLAGS).cast::<u32>();
            let is_marked = flags.read() & DYNAMIC != 0;
            if is_marked {
                flags.write(flags.read() & !DYNAMIC);
                *self.marked -= 1;
            }
            is_marked
        }
    }

    /// Looks up those of the other group that are `meant`; returns all of it.
    fn look_up_other_side(&self, comm: Object, meant: impl Fn(&usize) -> bool) -> Vec<usize> {
        let (mut group, mut all) = (std::ptr::null_mut(), Vec::new());
        // SAFETY: an intercommunicator that lives, and its group, which is given back.
        unsafe {
            if (self.remote_group)(comm, &mut group) != 0 {
                return all;
            }
            if let Some(list) = members::list(group) {
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
    // SAFETY: callers pass a function of MPI and a living object of its kind.
    unsafe { function(of, &mut answer) };
    answer
}
