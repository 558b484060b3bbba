//! The inside of Open MPI 5.0 that collectives of ours need: above all the table of a communicator's collective functions.
//!
//! Structs are those of communicator.h and coll.h on x86-64. Before the first use a communicator is looked at through
//! `/proc/self/mem`, where a wrong address is an error and no crash.

use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::confirmations::Confirmations;
use crate::objects::{Class, Classes, Object};
use crate::openmpi::Library;
use crate::requests::Requests;
use crate::shadows::Shadows;
use crate::turn::Turn;

/// Functions in a communicator's table (`mca_coll_base_comm_coll_t`).
pub const SLOTS: usize = 69;
/// Blocking ones.
pub const ALLREDUCE: usize = 2;
pub const BARRIER: usize = 6;
pub const BCAST: usize = 7;
pub const GATHER: usize = 9;
pub const REDUCE: usize = 11;
pub const SCATTER: usize = 15;
/// The first non-blocking one.
pub const NONBLOCKING: usize = 17;
/// The first persistent one.
pub const PERSISTENT: usize = 34;
/// The first one among neighbours.
pub const NEIGHBOR: usize = 51;
/// The first non-blocking one among neighbours.
pub const INEIGHBOR: usize = 56;
/// The first persistent one among neighbours.
pub const NEIGHBOR_INIT: usize = 61;
/// The agreement without blocking.
pub const IAGREE: usize = 68;

/// Of `ompi_communicator_t`.
const RANK: usize = 0xdc;
/// The group that this process is in, and behind it the other one, the same if there is one.
pub const GROUPS: usize = 0x108;
const OWN_SIDE: usize = 0x118;
const TABLE: usize = 0x158;
const REVOKED: usize = 0x179;
const COLLECTIVES_REVOKED: usize = 0x17a;
/// Of `mca_coll_base_module_t`: its first function.
const MODULE_FUNCTIONS: usize = 24;

/// One function of a communicator's table, and the module that it belongs to.
#[repr(C)]
pub struct Slot {
    pub function: Object,
    pub module: Object,
}

/// Functions and objects of the loaded Open MPI.
pub struct Internals {
    progress: unsafe extern "C" fn(),
    pub classes: Classes,
    pub requests: Requests,
    pub shadows: Shadows,
    pub confirmations: Confirmations,
    pub turn: Turn,
    module_class: *mut Class,
    world: Object,
    group_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
    failed: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    is_inter: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    translate: unsafe extern "C" fn(Object, c_int, *const c_int, Object, *mut c_int) -> c_int,
    duplicate: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    free: unsafe extern "C" fn(*mut Object) -> c_int,
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
                progress: library.function(c"opal_progress")?,
                classes: Classes::find(&library)?,
                requests: Requests::find(&library)?,
                shadows: Shadows::find(&library)?,
                confirmations: Confirmations::find(&library)?,
                turn: Turn::find(&library)?,
                module_class: library.symbol(c"mca_coll_base_module_t_class")?.cast(),
                world: library.predefined(c"ompi_mpi_comm_world")?,
                group_size: library.function(c"PMPI_Group_size")?,
                group_free: library.function(c"PMPI_Group_free")?,
                failed: library.function(c"ompi_comm_get_failed_internal")?,
                size: library.function(c"PMPI_Comm_size")?,
                rank: library.function(c"PMPI_Comm_rank")?,
                is_inter: library.function(c"PMPI_Comm_test_inter")?,
                group: library.function(c"PMPI_Comm_group")?,
                translate: library.function(c"PMPI_Group_translate_ranks")?,
                duplicate: library.function(c"ompi_comm_dup")?,
                free: library.function(c"ompi_comm_free")?,
            })
        }
    }

    /// Whether the functions of the table are those of the modules that stand beside them, and the rank is in its place.
    fn fits(&self) -> bool {
        let Ok(memory) = File::open("/proc/self/mem") else { return false };
        let word = |address: usize| {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, address as u64).ok().map(|()| usize::from_ne_bytes(bytes))
        };
        let same_functions = || {
            let table = word(self.world as usize + TABLE)?;
            for slot in 0..NEIGHBOR {
                let (function, module) = (word(table + slot * 16)?, word(table + slot * 16 + 8)?);
                if function == 0 || word(module + MODULE_FUNCTIONS + slot * 8)? != function {
                    return None;
                }
            }
            Some(())
        };
        let rank = word(self.world as usize + RANK).map(|word| word as u32 as c_int);
        let groups = [0, 8].map(|place| word(self.world as usize + GROUPS + place));
        let has_one_group = groups[0].is_some_and(|group| group != 0) && groups[0] == groups[1];
        let has_its_rank = rank == Some(self.number(self.rank, self.world));
        self.shadows.fit() && same_functions().is_some() && has_one_group && has_its_rank
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

    /// The communicator of the own group that one with two groups is made with, which nobody else knows; null once that was
    /// freed. `None` if there is one group.
    ///
    /// # Safety
    /// A communicator that lives, in an Open MPI that [fits](Self::fits).
    pub unsafe fn own_side_of(comm: Object) -> Option<Object> {
        // SAFETY: as required of the caller.
        unsafe {
            let [own, other] = comm.byte_add(GROUPS).cast::<[Object; 2]>().read();
            (own != other).then(|| comm.byte_add(OWN_SIDE).cast::<Object>().read())
        }
    }

    /// Whether a process of this job that is in the other group of a communicator with two is dead; Open MPI 5.0.7 names only
    /// those of the own group (`ompi_comm_get_failed_internal`).
    ///
    /// # Safety
    /// As for [`own_side_of`](Self::own_side_of).
    pub unsafe fn has_dead_on_other_side(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller.
        let [_, other] = unsafe { comm.byte_add(GROUPS).cast::<[Object; 2]>().read() };
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
        // SAFETY: as said; nobody else knows it.
        unsafe { (self.free)(&mut comm) };
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
        unsafe { &mut **comm.byte_add(TABLE).cast::<*mut [Slot; SLOTS]>() }
    }

    /// The function that a module of collectives has for a slot of the table.
    ///
    /// # Safety
    /// As for [`table`](Self::table), and a module that stands in one.
    pub unsafe fn function_of(module: Object, slot: usize) -> Object {
        // SAFETY: as required of the caller; modules list their functions in the order of the table.
        unsafe { module.byte_add(MODULE_FUNCTIONS).cast::<Object>().add(slot).read() }
    }

    /// Whether a communicator is revoked.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn is_revoked(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller; a plain flag in Open MPI, too.
        unsafe { comm.byte_add(REVOKED).cast::<bool>().read_volatile() }
    }

    /// Whether collectives fail on a communicator, because a member is dead.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn has_no_collectives(&self, comm: Object) -> bool {
        // SAFETY: as above.
        unsafe { comm.byte_add(COLLECTIVES_REVOKED).cast::<bool>().read_volatile() }
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
