//! The inside of Open MPI 5.0 that uniform collectives need: the table of a communicator's collective functions, and
//! the agreement.
//!
//! Structs are those of communicator.h and coll.h on 64-bit systems. Before the first use a
//! communicator is looked at through `/proc/self/mem`, where a wrong address is an error and no crash.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::objects::{Base, Class, Classes, Object};
use crate::openmpi::Library;
use crate::requests::{Request, Requests};
use crate::statement::Statement;

/// Functions in a communicator's table, and among them the first ones of each kind.
pub const SLOTS: usize = 69;
pub const BARRIER: usize = 6;
pub const NONBLOCKING: usize = 17;
pub const IALLREDUCE: usize = NONBLOCKING + 2;
pub const PERSISTENT: usize = 34;
pub const NEIGHBOR: usize = 51;
pub const INEIGHBOR: usize = 56;
pub const NEIGHBOR_INIT: usize = 61;

/// Of `ompi_communicator_t`.
const CONTEXT_ID: usize = 0xb0;
const RANK: usize = 0xdc;
const EPOCH: usize = 0xe8;
const TABLE: usize = 0x158;
const REVOKED: usize = 0x179;
/// Of `mca_coll_base_module_t`: its first function.
const MODULE_FUNCTIONS: usize = 24;
/// A bit of the epoch that Open MPI, which counts from 0, never sets.
const SHADOW: u32 = 1 << 31;

/// `OMPI_COMM_CID_INTRA`.
const NUMBER_IN_ONE_GROUP: c_int = 0x00000020;
/// One function of a communicator's table, and the module that it belongs to.
#[repr(C)]
pub struct Slot {
    pub function: Object,
    pub module: Object,
}

type Agree = unsafe extern "C" fn(
    *mut Statement,
    c_int,
    Object,
    Object,
    *mut Object,
    bool,
    Object,
    *mut *mut Request,
    Object,
) -> c_int;
type NextNumber =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;
type SetCommunicator = unsafe extern "C" fn(
    *mut Object,
    Object,
    c_int,
    *mut c_int,
    c_int,
    *mut c_int,
    Object,
    Object,
    Object,
    Object,
    u32,
) -> c_int;

/// Functions and objects of the loaded Open MPI.
pub struct Internals {
    progress: unsafe extern "C" fn(),
    pub classes: Classes,
    pub requests: Requests,
    module_class: *mut Class,
    null_communicator: Object,
    make_communicator: SetCommunicator,
    next_number: NextNumber,
    free_communicator: unsafe extern "C" fn(*mut Object) -> c_int,
    make_agreements: unsafe extern "C" fn(Object, *mut c_int) -> Object,
    agree: Agree,
    integer: Object,
    minimum: Object,
    nobody: Object,
    errors_return: Object,
    world: Object,
    group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    group_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
    failed: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    is_inter: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
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

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h and of the headers named above.
        unsafe {
            Some(Self {
                progress: library.function(c"opal_progress")?,
                classes: Classes::find(&library)?,
                requests: Requests::find(&library)?,
                module_class: library.symbol(c"mca_coll_base_module_t_class")?.cast(),
                null_communicator: library.predefined(c"ompi_mpi_comm_null")?,
                make_communicator: library.function(c"ompi_comm_set")?,
                next_number: library.function(c"ompi_comm_nextcid_nb")?,
                free_communicator: library.function(c"ompi_comm_free")?,
                make_agreements: library.function(c"mca_coll_ftagree_comm_query")?,
                agree: library.function(c"mca_coll_ftagree_iera_intra")?,
                integer: library.predefined(c"ompi_mpi_int")?,
                minimum: library.predefined(c"ompi_mpi_op_min")?,
                nobody: library.predefined(c"ompi_mpi_group_empty")?,
                errors_return: library.predefined(c"ompi_mpi_errors_return")?,
                world: library.predefined(c"ompi_mpi_comm_world")?,
                group: library.function(c"PMPI_Comm_group")?,
                group_size: library.function(c"PMPI_Group_size")?,
                group_free: library.function(c"PMPI_Group_free")?,
                failed: library.function(c"PMPIX_Comm_get_failed")?,
                size: library.function(c"PMPI_Comm_size")?,
                rank: library.function(c"PMPI_Comm_rank")?,
                is_inter: library.function(c"PMPI_Comm_test_inter")?,
            })
        }
    }

    /// Whether communicators look as they do in Open MPI 5.0: the functions of the table are those of the modules that
    /// stand beside them, and the rank is in its place.
    pub fn fits(&self) -> bool {
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
        same_functions().is_some() && rank == Some(self.number(self.rank, self.world))
    }

    fn number(&self, function: unsafe extern "C" fn(Object, *mut c_int) -> c_int, of: Object) -> c_int {
        let mut answer = 0;
        // SAFETY: callers pass a function of MPI and a living object of its kind.
        unsafe { function(of, &mut answer) };
        answer
    }

    /// Whether a communicator has more than one member, all in one group.
    pub fn is_intracommunicator_of_several(&self, comm: Object) -> bool {
        self.number(self.is_inter, comm) == 0 && self.number(self.size, comm) > 1
    }

    /// Whether it has two groups.
    pub fn is_intercommunicator(&self, comm: Object) -> bool {
        self.number(self.is_inter, comm) != 0
    }

    /// Whether a member is known to be dead.
    pub fn has_dead_members(&self, comm: Object) -> bool {
        let mut group = std::ptr::null_mut();
        // SAFETY: a communicator that lives, and room for the answer, which is given back.
        unsafe {
            (self.failed)(comm, &mut group);
            let dead = self.number(self.group_size, group);
            (self.group_free)(&mut group);
            dead > 0
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

    /// Whether a communicator is revoked.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn is_revoked(&self, comm: Object) -> bool {
        // SAFETY: as required of the caller; a plain flag in Open MPI, too.
        unsafe { comm.byte_add(REVOKED).cast::<bool>().read_volatile() }
    }

    /// A communicator with the same members that nobody else knows, for agreements only: what is agreed there is not
    /// mixed up with the program's own agreements, which may be called in another order. Open MPI makes such shadows
    /// for agreements among two groups (coll_ftagree_earlyreturning.c:3248). Beside it the module that counts them.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn shadow(&self, comm: Object) -> Option<(Object, Object)> {
        let (mut group, mut shadow) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut priority = 0;
        // SAFETY: a communicator that lives; the new one is made of its group and filled in before its first use.
        unsafe {
            (self.group)(comm, &mut group);
            let status = self.make(&mut shadow, comm, group);
            (self.group_free)(&mut group);
            if status != 0 || shadow.is_null() {
                return None;
            }
            let context = comm.byte_add(CONTEXT_ID).cast::<u64>().read();
            shadow.byte_add(CONTEXT_ID).cast::<u64>().write(context);
            shadow.byte_add(EPOCH).cast::<u32>().write(comm.byte_add(EPOCH).cast::<u32>().read() | SHADOW);
            let module = (self.make_agreements)(shadow, &mut priority);
            (!module.is_null()).then_some((shadow, module))
        }
    }

    /// Frees what [`shadow`](Self::shadow) has made.
    ///
    /// # Safety
    /// No agreement is under way there.
    pub unsafe fn free_shadow(&self, mut shadow: Object, module: Object) {
        // SAFETY: as required of the caller; nobody else knows them.
        unsafe {
            (self.free_communicator)(&mut shadow);
            self.classes.destroy(module);
        }
    }

    /// # Safety
    /// A communicator that lives, and a group of its members.
    unsafe fn make(&self, made: &mut Object, comm: Object, group: Object) -> c_int {
        let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
        let size = self.number(self.group_size, group);
        // SAFETY: as required of the caller; the list of ranks is not read where there is a group.
        unsafe {
            (self.make_communicator)(
                made,
                comm,
                size,
                no_ranks,
                0,
                no_ranks,
                nothing,
                self.errors_return,
                group,
                nothing,
                0,
            )
        }
    }

    /// Lets other communicators have their numbers again after the number of one that was made from `comm` was not
    /// agreed on: Open MPI 5.0 keeps its turn for ever then (comm_cid.c:645), unless the next try fails at once, as it
    /// has to here. That try is for a communicator of which this process is no member. `MPI_Comm_idup` also gives back a
    /// reference to `MPI_COMM_NULL` that it has not taken (comm.c, `ompi_comm_idup_with_info_activate`): here is one.
    ///
    /// # Safety
    /// As for [`table`](Self::table).
    pub unsafe fn release_numbers(&self, comm: Object) -> Option<*mut Request> {
        let (mut nobody, mut request) = (std::ptr::null_mut(), std::ptr::null_mut());
        let nothing = std::ptr::null();
        // SAFETY: a communicator that lives; the new one stays, since the request uses it.
        unsafe {
            (*self.null_communicator.cast::<Base>()).references.fetch_add(1, Ordering::AcqRel);
            let made = self.make(&mut nobody, comm, self.nobody) == 0;
            let started = made
                && (self.next_number)(
                    nobody,
                    comm,
                    std::ptr::null_mut(),
                    nothing,
                    nothing,
                    false,
                    NUMBER_IN_ONE_GROUP,
                    &mut request,
                ) == 0;
            started.then_some(request)
        }
    }

    /// Starts to agree on the least of each number that living members have in `statement`, which receives them.
    ///
    /// # Safety
    /// A shadow and its module; the statement stays until the request has completed.
    pub unsafe fn agree(
        &self,
        statement: *mut Statement,
        shadow: Object,
        module: Object,
    ) -> Result<*mut Request, c_int> {
        let (mut request, mut nobody) = (std::ptr::null_mut(), self.nobody);
        let numbers = const { size_of::<Statement>() / size_of::<c_int>() } as c_int;
        // SAFETY: as required of the caller; the group is Open MPI's own and is not changed.
        let status = unsafe {
            (self.agree)(
                statement,
                numbers,
                self.integer,
                self.minimum,
                &mut nobody,
                false,
                shadow,
                &mut request,
                module,
            )
        };
        if status == 0 { Ok(request) } else { Err(status) }
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
