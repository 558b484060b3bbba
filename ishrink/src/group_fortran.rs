//! The functions `RW_Group_*` under the names for which Fortran compilers look; `ringwatchf.h` and `ringwatchf08.h`
//! have their interfaces.

use std::ffi::c_int;

use openmpi_internals::error_class::ERR_UNSUPPORTED;
use openmpi_internals::loaded::Library;

use crate::fortran_names::{names, tell};
use crate::group::{
    RW_Group_barrier, RW_Group_join, RW_Group_leave, RW_Group_lost, RW_Group_members, RW_Group_returned,
    RW_Group_round, RW_Group_set_test, RW_Group_state, TestFunction,
};
use crate::openmpi::Handle;

/// # Safety
/// Variables of Fortran that exist, and handles.
unsafe fn join(comm: *const c_int, info: *const c_int, error: *mut c_int) {
    type FromFortran = unsafe extern "C" fn(c_int) -> Handle;
    // SAFETY: as required of the caller; the types are those of mpi.h.
    unsafe {
        let find = || {
            let library = Library::loaded()?;
            let comm_of: FromFortran = library.standard(c"PMPI_Comm_f2c")?;
            let info_of: FromFortran = library.standard(c"PMPI_Info_f2c")?;
            Some((comm_of, info_of))
        };
        let code = find().map_or(ERR_UNSUPPORTED, |(comm_of, info_of)| RW_Group_join(comm_of(*comm), info_of(*info)));
        tell(error, code);
    }
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn set_test(test: TestFunction, error: *mut c_int) {
    // SAFETY: a variable, or null.
    unsafe { tell(error, RW_Group_set_test(Some(test))) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn barrier(complete: *const c_int, size: *mut c_int, place: *mut c_int, error: *mut c_int) {
    // SAFETY: variables of Fortran.
    unsafe { tell(error, RW_Group_barrier(*complete, size, place)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn members(ranks: *mut c_int, error: *mut c_int) {
    // SAFETY: an array of Fortran with room for all.
    unsafe { tell(error, RW_Group_members(ranks)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn round(number: *mut c_int, epoch: *mut c_int, base: *mut c_int, error: *mut c_int) {
    // SAFETY: variables of Fortran.
    unsafe { tell(error, RW_Group_round(number, epoch, base)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn returned(count: *mut c_int, ranks: *mut c_int, error: *mut c_int) {
    // SAFETY: a variable and an array of Fortran.
    unsafe { tell(error, RW_Group_returned(count, ranks)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn lost(count: *mut c_int, error: *mut c_int) {
    // SAFETY: a variable of Fortran.
    unsafe { tell(error, RW_Group_lost(count)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn state(rank: *const c_int, standing: *mut c_int, evictions: *mut c_int, error: *mut c_int) {
    // SAFETY: variables of Fortran.
    unsafe { tell(error, RW_Group_state(*rank, standing, evictions)) };
}

/// # Safety
/// As the interface of Fortran has it.
unsafe fn leave(error: *mut c_int) {
    // SAFETY: a variable, or null.
    unsafe { tell(error, RW_Group_leave()) };
}

names! {
    RW_GROUP_SET_TEST rw_group_set_test rw_group_set_test_ rw_group_set_test__:
    set_test, (test: TestFunction, error: *mut c_int)
}

names! {
    RW_GROUP_JOIN rw_group_join rw_group_join_ rw_group_join__:
    join, (comm: *const c_int, info: *const c_int, error: *mut c_int)
}

names! {
    RW_GROUP_BARRIER rw_group_barrier rw_group_barrier_ rw_group_barrier__:
    barrier, (complete: *const c_int, size: *mut c_int, place: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_MEMBERS rw_group_members rw_group_members_ rw_group_members__:
    members, (ranks: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_ROUND rw_group_round rw_group_round_ rw_group_round__:
    round, (number: *mut c_int, epoch: *mut c_int, base: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_RETURNED rw_group_returned rw_group_returned_ rw_group_returned__:
    returned, (count: *mut c_int, ranks: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_LOST rw_group_lost rw_group_lost_ rw_group_lost__:
    lost, (count: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_STATE rw_group_state rw_group_state_ rw_group_state__:
    state, (rank: *const c_int, standing: *mut c_int, evictions: *mut c_int, error: *mut c_int)
}

names! {
    RW_GROUP_LEAVE rw_group_leave rw_group_leave_ rw_group_leave__:
    leave, (error: *mut c_int)
}
