//! Agreements of communicators among themselves, not mixed up with those of the program.
//!
//! They run on a shadow: a communicator with the same members that nobody else knows. The program calls its agreements in
//! an order, and those on a shadow come in another. The shadow of a communicator with two groups has one, of the members of
//! both, as Open MPI makes it for its own agreements (coll_ftagree_earlyreturning.c:3248).

use std::ffi::c_int;

use crate::agreements::{self, Begin};
use crate::epochs::{self, CONTEXT_ID, EPOCH};
use crate::internals::Internals;
use crate::members;
use crate::objects::{Classes, Object};
use crate::openmpi::Library;
use crate::requests::Request;
use crate::statement::Statement;

/// Bits of the epoch that neither Open MPI sets nor [`epochs`](crate::epochs) does: of every shadow that is made here, and of those
/// that are there before what they are a shadow of. The second alone has one that `libringwatch` has made for shrinks.
const SHADOW: u32 = 1 << 31;
const EARLY: u32 = 1 << 30;
/// `COLL_FTAGREE_EARLY_RETURNING`, the algorithm that agrees without blocking.
const EARLY_RETURNING: c_int = 1;

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

/// What Open MPI has for communicators and agreements.
pub struct Shadows {
    algorithm: *const c_int,
    make_communicator: SetCommunicator,
    free_communicator: unsafe extern "C" fn(*mut Object) -> c_int,
    make_agreements: unsafe extern "C" fn(Object, *mut c_int) -> Object,
    agree: Begin,
    integer: Object,
    minimum: Object,
    nobody: Object,
    errors_return: Object,
    group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    other_group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    union: unsafe extern "C" fn(Object, Object, *mut Object) -> c_int,
    group_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
}

/// Whether a communicator that lives is a shadow, in an Open MPI that fits; in another one the answer means nothing.
pub fn is_one(comm: Object) -> bool {
    // SAFETY: a word within any communicator.
    unsafe { epochs::epoch_of(comm) & (SHADOW | EARLY) != 0 }
}

/// The same of one that is for shrinks, by its epoch.
pub fn is_for_shrinks(epoch: u32) -> bool {
    epoch & (SHADOW | EARLY) == EARLY
}

impl Shadows {
    /// `None` if this Open MPI lacks something.
    pub fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h, communicator.h and coll_ftagree.h.
        unsafe {
            Some(Self {
                algorithm: library.symbol(c"mca_coll_ftagree_algorithm")?.cast(),
                make_communicator: library.function(c"ompi_comm_set")?,
                free_communicator: library.function(c"ompi_comm_free")?,
                make_agreements: library.function(c"mca_coll_ftagree_comm_query")?,
                agree: library.function(agreements::BEGIN)?,
                integer: library.predefined(c"ompi_mpi_int")?,
                minimum: library.predefined(c"ompi_mpi_op_min")?,
                nobody: library.predefined(c"ompi_mpi_group_empty")?,
                errors_return: library.predefined(c"ompi_mpi_errors_return")?,
                group: library.function(c"PMPI_Comm_group")?,
                other_group: library.function(c"PMPI_Comm_remote_group")?,
                union: library.function(c"PMPI_Group_union")?,
                group_size: library.function(c"PMPI_Group_size")?,
                group_free: library.function(c"PMPI_Group_free")?,
            })
        }
    }

    /// Whether the user has left Open MPI the algorithm that is used here.
    pub fn fit(&self) -> bool {
        // SAFETY: the value of a parameter of Open MPI, read after `MPI_Init`.
        unsafe { *self.algorithm == EARLY_RETURNING }
    }

    fn size_of(&self, group: Object) -> c_int {
        let mut size = 0;
        // SAFETY: callers pass a group that lives.
        unsafe { (self.group_size)(group, &mut size) };
        size
    }

    /// A shadow, and the module that counts its agreements.
    ///
    /// # Safety
    /// A communicator that lives and has its collectives, in an Open MPI that fits.
    pub unsafe fn new_for(&self, comm: Object) -> Option<(Object, Object)> {
        // SAFETY: as required of the caller.
        unsafe { self.new_of(comm, comm, (epochs::number_of(comm), epochs::epoch_of(comm) | SHADOW)) }
    }

    /// The same for a communicator that is being made of `comm`, and has its number and its epoch.
    ///
    /// # Safety
    /// As for [`new_for`](Self::new_for), of `comm`; and one that all of its members have numbered alike.
    pub unsafe fn new_before(&self, made: Object, comm: Object) -> Option<(Object, Object)> {
        // SAFETY: as required of the caller.
        unsafe { self.new_of(made, comm, (epochs::number_of(made), epochs::epoch_of(made) | SHADOW | EARLY)) }
    }

    /// The same for one that has no number yet. The members know it by another one, and a count.
    ///
    /// # Safety
    /// A communicator that is being made and has its members, in an Open MPI that fits.
    pub unsafe fn new_named(&self, made: Object, (number, count): (u64, u32)) -> Option<(Object, Object)> {
        // SAFETY: as required of the caller.
        unsafe { self.new_of(made, made, (number, epochs::made(count) | SHADOW | EARLY)) }
    }

    /// # Safety
    /// A communicator with its members, and one that lives and has all of them.
    unsafe fn new_of(&self, named: Object, comm: Object, (number, epoch): (u64, u32)) -> Option<(Object, Object)> {
        let (mut shadow, mut priority) = (std::ptr::null_mut(), 0);
        // SAFETY: as required of the caller; the new one is made of the group and filled in before its first use.
        unsafe {
            let mut group = self.all_members(named)?;
            let status = self.make(&mut shadow, comm, group);
            (self.group_free)(&mut group);
            if status != 0 || shadow.is_null() {
                return None;
            }
            shadow.byte_add(CONTEXT_ID).cast::<u64>().write(number);
            shadow.byte_add(EPOCH).cast::<u32>().write(epoch);
            let module = (self.make_agreements)(shadow, &mut priority);
            (!module.is_null()).then_some((shadow, module))
        }
    }

    /// The group of all members, in an order that is the same for all of them.
    ///
    /// # Safety
    /// A communicator that lives, in an Open MPI that fits.
    unsafe fn all_members(&self, comm: Object) -> Option<Object> {
        let (mut own, mut other, mut all) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as required of the caller; what is asked for is given back.
        unsafe {
            if Internals::own_side_of(comm).is_none() {
                return ((self.group)(comm, &mut own) == 0).then_some(own);
            }
            let is_in_first = members::is_in_first(&members::of(comm)?);
            (self.group)(comm, &mut own);
            (self.other_group)(comm, &mut other);
            let [first, second] = if is_in_first { [own, other] } else { [other, own] };
            let status = (self.union)(first, second, &mut all);
            (self.group_free)(&mut own);
            (self.group_free)(&mut other);
            (status == 0).then_some(all)
        }
    }

    /// Frees what [`new_for`](Self::new_for) or [`new_before`](Self::new_before) has made.
    ///
    /// # Safety
    /// No agreement is under way there.
    pub unsafe fn free(&self, classes: &Classes, shadow: Object, module: Object) {
        // SAFETY: as required of the caller; nobody begins an agreement there any more.
        unsafe {
            self.let_go(shadow);
            classes.destroy(module);
        }
    }

    /// Gives up a reference to a shadow; the last one frees it.
    ///
    /// # Safety
    /// [`Classes::hold`] has taken it.
    pub unsafe fn let_go(&self, mut shadow: Object) {
        // SAFETY: as required of the caller: whoever has the only reference is the only one who knows it.
        unsafe {
            if !Classes::give_back_if_shared(shadow) {
                (self.free_communicator)(&mut shadow);
            }
        }
    }

    /// # Safety
    /// A communicator that lives, and a group of its members.
    unsafe fn make(&self, made: &mut Object, comm: Object, group: Object) -> c_int {
        let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
        let size = self.size_of(group);
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

    /// A communicator without members; returns a status of MPI.
    ///
    /// # Safety
    /// A communicator that lives.
    pub unsafe fn make_empty(&self, made: &mut Object, comm: Object) -> c_int {
        // SAFETY: as required of the caller; nobody is a member of every communicator.
        unsafe { self.make(made, comm, self.nobody) }
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
        let status = agreements::inside(|| unsafe {
            (self.agree)(
                statement.cast(),
                numbers,
                self.integer,
                self.minimum,
                &mut nobody,
                false,
                shadow,
                &mut request,
                module,
            )
        });
        if status == 0 { Ok(request) } else { Err(status) }
    }
}
