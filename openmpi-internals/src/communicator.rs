//! The inside of Open MPI 5.0 that collectives of ours need: above all the table of a communicator's collective
//! functions.
//!
//! Before the first use a communicator is [compared](crate::v5_0::probe) with what it is held for.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::abi::{CommDup, CommFree, CommGetFailed, Progress};
use crate::classes::Classes;
use crate::loaded::Library;
use crate::object::{Class, Object};
use crate::requests::Requests;
use crate::v5_0::functions::{OMPI_COMM_DUP, OMPI_COMM_FREE, OMPI_COMM_GET_FAILED_INTERNAL, OPAL_PROGRESS};
pub use crate::v5_0::layout::coll::{
    ALLREDUCE, BARRIER, BCAST, GATHER, IAGREE, INEIGHBOR, NEIGHBOR, NEIGHBOR_INIT, NONBLOCKING, PERSISTENT, REDUCE,
    SCATTER,
};
use crate::v5_0::layout::coll_module::COLL_ALLGATHER;
use crate::v5_0::layout::communicator::{C_COLL, C_LOCAL_COMM, C_LOCAL_GROUP, COLL_REVOKED, COMM_REVOKED};
use crate::v5_0::layout::{coll, ftagree};
use crate::v5_0::probe::{self, Memory};
use crate::v5_0::variables::{MCA_COLL_BASE_MODULE_T_CLASS, MCA_COLL_FTAGREE_ALGORITHM, OMPI_MPI_COMM_WORLD};

/// Functions in a communicator's table.
pub const SLOTS: usize = coll::IAGREE + 1;

/// One function of a communicator's table, and the module that it belongs to.
#[repr(C)]
pub struct Slot {
    /// The function.
    pub function: Object,
    /// Its module.
    pub module: Object,
}

/// Functions and objects of the loaded Open MPI.
pub struct Internals {
    progress: Progress,
    /// Classes of objects.
    pub classes: Classes,
    /// What there is for requests.
    pub requests: Requests,
    agreement_algorithm: *const c_int,
    module_class: *mut Class,
    world: Object,
    group_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
    failed: CommGetFailed,
    size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    is_inter: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    translate: unsafe extern "C" fn(Object, c_int, *const c_int, Object, *mut c_int) -> c_int,
    duplicate: CommDup,
    free: CommFree,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Internals {}
// SAFETY: as above.
unsafe impl Sync for Internals {}

impl Internals {
    /// Those of the Open MPI in this process; `None` if it lacks something.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Internals>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    /// The same if communicators look as they do in Open MPI 5.0; after `MPI_Init`.
    pub fn fitting() -> Option<&'static Self> {
        static FITS: OnceLock<bool> = OnceLock::new();
        Self::get().filter(|mpi| *FITS.get_or_init(|| mpi.fits()))
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h and of the headers named above.
        unsafe {
            Some(Self {
                progress: library.function(OPAL_PROGRESS)?,
                classes: Classes::find(&library)?,
                requests: Requests::find(&library)?,
                agreement_algorithm: library.variable(MCA_COLL_FTAGREE_ALGORITHM)?,
                module_class: library.variable(MCA_COLL_BASE_MODULE_T_CLASS)?,
                world: library.predefined(OMPI_MPI_COMM_WORLD)?,
                group_size: library.standard(c"PMPI_Group_size")?,
                group_free: library.standard(c"PMPI_Group_free")?,
                failed: library.function(OMPI_COMM_GET_FAILED_INTERNAL)?,
                size: library.standard(c"PMPI_Comm_size")?,
                rank: library.standard(c"PMPI_Comm_rank")?,
                is_inter: library.standard(c"PMPI_Comm_test_inter")?,
                group: library.standard(c"PMPI_Comm_group")?,
                translate: library.standard(c"PMPI_Group_translate_ranks")?,
                duplicate: library.function(OMPI_COMM_DUP)?,
                free: library.function(OMPI_COMM_FREE)?,
            })
        }
    }

    fn fits(&self) -> bool {
        let rank = self.number(self.rank, self.world);
        let fits = |memory: Memory| probe::has_communicators(&memory, self.world, rank);
        self.agrees_early() && Memory::open().is_some_and(fits)
    }

    /// Whether the user has left Open MPI the algorithm of agreements that works without blocking. After `MPI_Init`.
    fn agrees_early(&self) -> bool {
        // SAFETY: the value of a parameter of Open MPI, read after `MPI_Init`.
        unsafe { *self.agreement_algorithm == ftagree::COLL_FTAGREE_EARLY_RETURNING }
    }

    fn number(&self, function: unsafe extern "C" fn(Object, *mut c_int) -> c_int, of: Object) -> c_int {
        let mut answer = 0;
        // SAFETY: callers pass a function of MPI and a living object of its kind.
        unsafe { function(of, &mut answer) };
        answer
    }

    /// How many members the group of a communicator has that this process is in.
    pub fn size_of(&self, comm: Object) -> c_int {
        self.number(self.size, comm)
    }

    /// `MPI_COMM_WORLD`
    pub fn world(&self) -> Object {
        self.world
    }

    /// The rank of this process in a communicator.
    pub fn rank_in(&self, comm: Object) -> c_int {
        self.number(self.rank, comm)
    }

    /// Whether a communicator has more than one member, all in one group.
    pub fn is_intracommunicator_of_several(&self, comm: Object) -> bool {
        self.number(self.is_inter, comm) == 0 && self.number(self.size, comm) > 1
    }

    /// Whether it has more than one member, in one group or in two.
    pub fn has_several_members(&self, comm: Object) -> bool {
        self.is_intercommunicator(comm) || self.size_of(comm) > 1
    }

    /// Whether it has two groups.
    pub fn is_intercommunicator(&self, comm: Object) -> bool {
        self.number(self.is_inter, comm) != 0
    }

    /// The private communicator of the own group that an intercommunicator is made with; null after it is freed. `None`
    /// if there is one group.
    ///
    /// # Safety
    /// A communicator that lives, in an Open MPI that [fits](Self::fits).
    pub unsafe fn own_side_of(comm: Object) -> Option<Object> {
        // SAFETY: as required of the caller.
        unsafe {
            let [own, other] = comm.byte_add(C_LOCAL_GROUP).cast::<[Object; 2]>().read();
            (own != other).then(|| comm.byte_add(C_LOCAL_COMM).cast::<Object>().read())
        }
    }

    /// Whether a process of this job that is in the other group of a communicator with two is dead; Open MPI 5.0.7
    /// names only those of the own group (`ompi_comm_get_failed_internal`).
    ///
    /// # Safety
    /// As for [`own_side_of`](Self::own_side_of).
    pub unsafe fn has_dead_on_other_side(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller.
        let [_, other] = unsafe { comm.byte_add(C_LOCAL_GROUP).cast::<[Object; 2]>().read() };
        let dead = self.dead_members(self.world);
        !dead.is_empty() && self.group_has_any(other, self.world, &dead)
    }

    /// Whether a member, on either side, is known to be dead.
    ///
    /// # Safety
    /// As for [`own_side_of`](Self::own_side_of).
    pub unsafe fn has_dead_on_any_side(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller.
        self.has_dead_members(comm) || unsafe { self.has_dead_on_other_side(comm) }
    }

    /// Whether a group has one of these ranks of a communicator.
    pub fn group_has_any(&self, group: Object, comm: Object, ranks: &[c_int]) -> bool {
        let (mut whole, mut there) = (std::ptr::null_mut(), vec![0; ranks.len()]);
        let count = c_int::try_from(ranks.len()).unwrap_or(0);
        // SAFETY: a communicator and a group that live, and room for the answers; the new group is given back.
        unsafe {
            (self.group)(comm, &mut whole);
            (self.translate)(whole, count, ranks.as_ptr(), group, there.as_mut_ptr());
            (self.group_free)(&mut whole);
        }
        there.iter().any(|rank| *rank >= 0)
    }

    /// A duplicate of a communicator, or why there is none; no error handler is called.
    pub fn duplicate(&self, comm: Object) -> Result<Object, c_int> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a communicator that lives, and room for the answer.
        match unsafe { (self.duplicate)(comm, &mut made) } {
            0 => Ok(made),
            code => Err(code),
        }
    }

    /// Frees a communicator that [`duplicate`](Self::duplicate) has made.
    pub fn free(&self, mut comm: Object) {
        // SAFETY: as said; no other code knows it.
        unsafe { (self.free)(&mut comm) };
    }

    /// Gives up a reference to a communicator; the last one frees it.
    ///
    /// # Safety
    /// [`Classes::hold`] has taken it.
    pub unsafe fn let_go(&self, mut comm: Object) {
        // SAFETY: as required of the caller: no other code knows an object with one reference.
        unsafe {
            if !Classes::give_back_if_shared(comm) {
                (self.free)(&mut comm);
            }
        }
    }

    /// Whether a member is known to be dead.
    pub fn has_dead_members(&self, comm: Object) -> bool {
        !self.dead_members(comm).is_empty()
    }

    /// The ranks of the members that are known to be dead.
    pub fn dead_members(&self, comm: Object) -> Vec<c_int> {
        let translate = |dead| {
            let mut whole = std::ptr::null_mut();
            let count = self.number(self.group_size, dead);
            let from: Vec<c_int> = (0..count).collect();
            let mut ranks = vec![0; from.len()];
            // SAFETY: a communicator that lives, and room for the answers, which are given back.
            unsafe {
                if count > 0 && (self.group)(comm, &mut whole) == 0 {
                    (self.translate)(dead, count, from.as_ptr(), whole, ranks.as_mut_ptr());
                    (self.group_free)(&mut whole);
                }
            }
            ranks
        };
        self.with_dead_members(comm, translate).unwrap_or_default()
    }

    /// Calls `then` with the group of the members that are known to be dead.
    pub fn with_dead_members<T>(&self, comm: Object, then: impl FnOnce(Object) -> T) -> Option<T> {
        let mut dead = std::ptr::null_mut();
        // SAFETY: a communicator that lives, and room for the answer, which is given back.
        unsafe {
            let result = ((self.failed)(comm, &mut dead) == 0).then(|| then(dead));
            if result.is_some() {
                (self.group_free)(&mut dead);
            }
            result
        }
    }

    /// The table of a communicator's collective functions.
    ///
    /// # Safety
    /// A communicator that lives and has its collectives, in an Open MPI that [fits](Self::fits).
    pub unsafe fn table<'a>(&self, comm: Object) -> &'a mut [Slot; SLOTS] {
        // SAFETY: as required of the caller.
        unsafe { &mut **comm.byte_add(C_COLL).cast::<*mut [Slot; SLOTS]>() }
    }

    /// The function that a module of collectives has for a slot of the table.
    ///
    /// # Safety
    /// As for [`table`](Self::table), and a module that stands in one.
    pub unsafe fn function_of(module: Object, slot: usize) -> Object {
        // SAFETY: as required of the caller; modules list their functions in the order of the table.
        unsafe { module.byte_add(COLL_ALLGATHER).cast::<Object>().add(slot).read() }
    }

    /// Whether a communicator is revoked.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn is_revoked(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller; a plain flag in Open MPI, too.
        unsafe { comm.byte_add(COMM_REVOKED).cast::<bool>().read_volatile() }
    }

    /// Marks a communicator as revoked, and does nothing else about that.
    ///
    /// # Safety
    /// A communicator that lives, in an Open MPI that [fits](Self::fits).
    pub unsafe fn mark_revoked(comm: Object) {
        // SAFETY: as required of the caller; a plain flag in Open MPI, too.
        unsafe { comm.byte_add(COMM_REVOKED).cast::<bool>().write_volatile(true) };
    }

    /// Whether collectives fail on a communicator, because a member is dead.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn has_no_collectives(&self, comm: Object) -> bool {
        // SAFETY: as above.
        unsafe { comm.byte_add(COLL_REVOKED).cast::<bool>().read_volatile() }
    }

    /// One turn of MPI's progress loop.
    pub fn progress(&self) {
        // SAFETY: called in a function of MPI, outside of progress.
        unsafe { (self.progress)() };
    }

    /// The class of collective modules.
    pub fn module_class(&self) -> *mut Class {
        self.module_class
    }
}
