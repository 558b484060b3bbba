//! Runs ringwatch's agreements among a communicator's members, separate from those of the program.
//!
//! They run on a shadow: a hidden communicator with the same members. Agreements on one communicator must begin in the
//! same order at all members, and ringwatch's order differs from the program's. The shadow of an intercommunicator has
//! one group with the members of both sides, as Open MPI makes it for its own agreements
//! (coll_ftagree_earlyreturning.c:3248).

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::agreement::era_guard;
use crate::agreement::vote::Statement;
use openmpi_internals::abi::Agree;
use openmpi_internals::classes::Classes;
use openmpi_internals::communicator::Internals;
use openmpi_internals::epoch_bits;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::{MCA_COLL_FTAGREE_COMM_QUERY, MCA_COLL_FTAGREE_IERA_INTRA};
use openmpi_internals::layout::communicator::{C_EPOCH, CID_SUB};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::variables::{OMPI_MPI_GROUP_EMPTY, OMPI_MPI_INT, OMPI_MPI_OP_MIN};
use openmpi_internals::{comm_set, group};

/// Functions and predefined objects of Open MPI that shadows use.
struct Shadows {
    make_agreements: unsafe extern "C" fn(Object, *mut c_int) -> Object,
    agree: Agree,
    integer: Object,
    minimum: Object,
    nobody: Object,
    group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    other_group: unsafe extern "C" fn(Object, *mut Object) -> c_int,
    union: unsafe extern "C" fn(Object, Object, *mut Object) -> c_int,
    group_free: unsafe extern "C" fn(*mut Object) -> c_int,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Shadows {}
// SAFETY: as above.
unsafe impl Sync for Shadows {}

/// Makes a shadow and the module that counts its agreements. `None` if memory is exhausted or this Open MPI lacks a
/// symbol.
///
/// # Safety
/// A live communicator with its collectives, in an Open MPI of the known layout.
pub unsafe fn new_for(comm: Object) -> Option<(Object, Object)> {
    // SAFETY: as required of the caller.
    unsafe {
        let epoch = epoch_bits::of_shadow(epoch_bits::epoch_of(comm));
        Shadows::get()?.new_of(comm, comm, (epoch_bits::number_of(comm), epoch))
    }
}

/// The same for a communicator that is being made from `comm` and has its context id and epoch.
///
/// # Safety
/// As for [`new_for`], of `comm`; all members of `made` have given it the same context id.
pub unsafe fn new_before(made: Object, comm: Object) -> Option<(Object, Object)> {
    // SAFETY: as required of the caller.
    unsafe {
        let epoch = epoch_bits::of_early_shadow(epoch_bits::epoch_of(made));
        Shadows::get()?.new_of(made, comm, (epoch_bits::number_of(made), epoch))
    }
}

/// The same for a communicator without a context id. The members identify it by `number` and `count`.
///
/// # Safety
/// A communicator that is being made and has its members, in an Open MPI of the known layout.
pub unsafe fn new_named(made: Object, (number, count): (u64, u32)) -> Option<(Object, Object)> {
    // SAFETY: as required of the caller.
    unsafe { Shadows::get()?.new_of(made, made, (number, epoch_bits::of_early_shadow(epoch_bits::hashed(count)))) }
}

/// Frees a shadow and its module.
///
/// # Safety
/// No agreement is under way there, and none begins any more.
pub unsafe fn free(mpi: &Internals, shadow: Object, module: Object) {
    // SAFETY: as required of the caller.
    unsafe {
        mpi.let_go(shadow);
        Classes::destroy(module);
    }
}

/// Begins an agreement on the minimum of each number in the living members' `statement`, which receives the result.
///
/// # Errors
/// A status of MPI.
///
/// # Safety
/// A shadow and its module; the statement stays until the request has completed.
pub unsafe fn agree(statement: *mut Statement, shadow: Object, module: Object) -> Result<*mut Request, c_int> {
    let all = Shadows::get().ok_or(ERR_INTERN)?;
    let (mut request, mut nobody) = (std::ptr::null_mut(), all.nobody);
    let numbers = const { size_of::<Statement>() / size_of::<c_int>() } as c_int;
    // SAFETY: as required of the caller; the group is Open MPI's own and is not changed.
    let status = era_guard::inside(|| unsafe {
        (all.agree)(
            statement.cast(),
            numbers,
            all.integer,
            all.minimum,
            &mut nobody,
            false,
            shadow,
            &mut request,
            module,
        )
    });
    if status == 0 { Ok(request) } else { Err(status) }
}

impl Shadows {
    /// `None` if this Open MPI lacks a symbol.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Shadows>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h, communicator.h and coll_ftagree.h.
        unsafe {
            Some(Self {
                make_agreements: library.function(MCA_COLL_FTAGREE_COMM_QUERY)?,
                agree: library.function(MCA_COLL_FTAGREE_IERA_INTRA)?,
                integer: library.predefined(OMPI_MPI_INT)?,
                minimum: library.predefined(OMPI_MPI_OP_MIN)?,
                nobody: library.predefined(OMPI_MPI_GROUP_EMPTY)?,
                group: library.standard(c"PMPI_Comm_group")?,
                other_group: library.standard(c"PMPI_Comm_remote_group")?,
                union: library.standard(c"PMPI_Group_union")?,
                group_free: library.standard(c"PMPI_Group_free")?,
            })
        }
    }

    /// # Safety
    /// `named` has its members; `comm` is live and has all of them.
    unsafe fn new_of(&self, named: Object, comm: Object, (number, epoch): (u64, u32)) -> Option<(Object, Object)> {
        let (mut shadow, mut priority) = (std::ptr::null_mut(), 0);
        // SAFETY: as required of the caller; the new communicator is made from the group and filled in before its first
        // use.
        unsafe {
            let mut group = self.all_members(named)?;
            let status = comm_set::make(&mut shadow, comm, group);
            (self.group_free)(&mut group);
            if status != 0 || shadow.is_null() {
                return None;
            }
            shadow.byte_add(CID_SUB).cast::<u64>().write(number);
            shadow.byte_add(C_EPOCH).cast::<u32>().write(epoch);
            let module = (self.make_agreements)(shadow, &mut priority);
            (!module.is_null()).then_some((shadow, module))
        }
    }

    /// The group of all members, in the same order at each of them.
    ///
    /// # Safety
    /// A live communicator, in an Open MPI of the known layout.
    unsafe fn all_members(&self, comm: Object) -> Option<Object> {
        let (mut own, mut other, mut all) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as required of the caller; groups that are obtained here are freed here.
        unsafe {
            if Internals::own_side_of(comm).is_none() {
                return ((self.group)(comm, &mut own) == 0).then_some(own);
            }
            let is_in_first = group::is_in_first(&group::of(comm)?);
            (self.group)(comm, &mut own);
            (self.other_group)(comm, &mut other);
            let [first, second] = if is_in_first { [own, other] } else { [other, own] };
            let status = (self.union)(first, second, &mut all);
            (self.group_free)(&mut own);
            (self.group_free)(&mut other);
            (status == 0).then_some(all)
        }
    }
}
