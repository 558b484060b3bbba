//! The functions `RW_Checkpoint_*` under the names for which Fortran compilers look; `ringwatchf.h` and
//! `ringwatchf08.h` have their interfaces.

use std::ffi::{c_int, c_void};

use openmpi_internals::error_class::ERR_UNSUPPORTED;
use openmpi_internals::loaded::Library;

use crate::checkpoint::{
    RW_Checkpoint_begin, RW_Checkpoint_end, RW_Checkpoint_register, RW_Checkpoint_restore, RW_Checkpoint_save,
};
use crate::fortran_names::{names, tell};
use crate::openmpi::Handle;

/// # Safety
/// Variables of Fortran that exist.
unsafe fn begin(error: *mut c_int) {
    // SAFETY: as required of the caller.
    unsafe { tell(error, RW_Checkpoint_begin()) };
}

/// # Safety
/// As above, and memory that stays where it is.
unsafe fn register(id: *const c_int, buf: *mut c_void, count: *const i64, datatype: *const c_int, error: *mut c_int) {
    type FromFortran = unsafe extern "C" fn(c_int) -> Handle;
    // SAFETY: as required of the caller; the type is that of mpi.h.
    unsafe {
        let convert = Library::loaded().and_then(|library| library.standard::<FromFortran>(c"PMPI_Type_f2c"));
        let code =
            convert.map_or(ERR_UNSUPPORTED, |convert| RW_Checkpoint_register(*id, buf, *count, convert(*datatype)));
        tell(error, code);
    }
}

/// # Safety
/// Variables of Fortran that exist.
unsafe fn restore(version: *mut c_int, error: *mut c_int) {
    // SAFETY: as required of the caller.
    unsafe { tell(error, RW_Checkpoint_restore(version)) };
}

/// # Safety
/// Variables of Fortran that exist.
unsafe fn save(version: *const c_int, error: *mut c_int) {
    // SAFETY: as required of the caller.
    unsafe { tell(error, RW_Checkpoint_save(*version)) };
}

/// # Safety
/// Variables of Fortran that exist.
unsafe fn end(keep: *const c_int, error: *mut c_int) {
    // SAFETY: as required of the caller.
    unsafe { tell(error, RW_Checkpoint_end(*keep)) };
}

names! {
    RW_CHECKPOINT_BEGIN rw_checkpoint_begin rw_checkpoint_begin_ rw_checkpoint_begin__:
    begin, (error: *mut c_int)
}

names! {
    RW_CHECKPOINT_REGISTER rw_checkpoint_register rw_checkpoint_register_ rw_checkpoint_register__:
    register, (id: *const c_int, buf: *mut c_void, count: *const i64, datatype: *const c_int, error: *mut c_int)
}

names! {
    RW_CHECKPOINT_RESTORE rw_checkpoint_restore rw_checkpoint_restore_ rw_checkpoint_restore__:
    restore, (version: *mut c_int, error: *mut c_int)
}

names! {
    RW_CHECKPOINT_SAVE rw_checkpoint_save rw_checkpoint_save_ rw_checkpoint_save__:
    save, (version: *const c_int, error: *mut c_int)
}

names! {
    RW_CHECKPOINT_END rw_checkpoint_end rw_checkpoint_end_ rw_checkpoint_end__:
    end, (keep: *const c_int, error: *mut c_int)
}
