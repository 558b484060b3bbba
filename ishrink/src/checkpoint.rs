//! Checkpoints of the program: the functions `RW_Checkpoint_*` as C calls them, see `ringwatch.h`, and what they have
//! in common with those of Fortran.
//!
//! Under message logging the layer in front of MPI saves and restores ([`checkpoint_layer`](crate::checkpoint_layer)),
//! else this library does ([`checkpoint_plain`](crate::checkpoint_plain)). No function calls an error handler: a
//! checkpoint that is not saved is no reason to end a job.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;

use checkpoints::region::Region;
use checkpoints::table::{FOLDER_VARIABLE, NONE, PARTNER, Table};
use openmpi_internals::error_class::{ERR_ARG, ERR_INTERN, ERR_NO_SUCH_FILE, ERR_OTHER, ERR_UNSUPPORTED};
use openmpi_internals::layout::mpi::{MPI_ERR_COUNT, MPI_ERR_TYPE};
use openmpi_internals::loaded::{Library, Parameter};
use openmpi_internals::sync::lock;

use crate::checkpoint_layer;
use crate::checkpoint_plain::{Plain, say};
use crate::openmpi::Handle;

/// Who saves.
enum Saver {
    Layer(&'static Table),
    Plain(Plain),
}

struct Session {
    saver: Saver,
    regions: Vec<Region>,
    /// Whether the program has come to its restore point.
    is_restored: bool,
}

// SAFETY: addresses of the program's memory, which it leaves where it is.
unsafe impl Send for Session {}

/// How far the program is.
enum Stage {
    NotBegun,
    Begun(Session),
    Ended,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::NotBegun);

/// The folder that the parameter names, also in a job without the component that has it.
fn folder() -> Option<PathBuf> {
    let registered =
        || Some(Parameter::find(c"ompi", c"hook", Some(c"ringwatch"), Some(c"checkpoints"))?.text().into());
    let named = std::env::var_os(FOLDER_VARIABLE).or_else(registered)?;
    (!named.is_empty()).then(|| named.into())
}

/// An error class; 0 for success.
fn class(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(ERR_INTERN)).err().unwrap_or(0)
}

fn with_session(body: impl FnOnce(&mut Session) -> Result<(), c_int>) -> Result<(), c_int> {
    match &mut *lock(&STAGE) {
        Stage::Begun(session) => body(session),
        Stage::NotBegun | Stage::Ended => Err(ERR_OTHER),
    }
}

/// See `ringwatch.h`.
#[unsafe(no_mangle)]
pub extern "C" fn RW_Checkpoint_begin() -> c_int {
    class(|| {
        let mut stage = lock(&STAGE);
        if !matches!(*stage, Stage::NotBegun) {
            return Err(ERR_OTHER);
        }
        let path = folder();
        let layer = checkpoint_layer::find();
        let rank = Plain::place().ok_or(ERR_UNSUPPORTED)?.0;
        let tell = |reason: &str| {
            if rank == 0 {
                say(&format!("ringwatch: no checkpoint is saved: {reason}"));
            }
            ERR_NO_SUCH_FILE
        };
        let Some(path) = path else {
            return Err(tell("hook_ringwatch_checkpoints names no folder"));
        };
        if path.as_os_str() == PARTNER {
            if layer.is_none() {
                return Err(tell(
                    "ranks have partners under message logging only (hook_ringwatch_recovery log); without it hook_ringwatch_checkpoints names a folder",
                ));
            }
        } else if !path.is_absolute() || !path.is_dir() {
            return Err(tell(&format!("{} is not the absolute path of a folder", path.display())));
        }
        let saver = match layer {
            Some(table) => Saver::Layer(table),
            None => Saver::Plain(Plain::new(&path).ok_or(ERR_UNSUPPORTED)?),
        };
        *stage = Stage::Begun(Session { saver, regions: Vec::new(), is_restored: false });
        Ok(())
    })
}

/// Bytes of an item of a datatype without gaps.
fn width(datatype: Handle) -> Result<usize, c_int> {
    type Size = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
    type Extent = unsafe extern "C" fn(Handle, *mut isize, *mut isize) -> c_int;
    let library = Library::loaded().ok_or(ERR_UNSUPPORTED)?;
    if datatype.is_null() {
        return Err(MPI_ERR_TYPE);
    }
    // SAFETY: the types are those of mpi.h; a datatype, and room for the answers.
    unsafe {
        let size_of: Size = library.standard(c"PMPI_Type_size").ok_or(ERR_UNSUPPORTED)?;
        let extent_of: Extent = library.standard(c"PMPI_Type_get_extent").ok_or(ERR_UNSUPPORTED)?;
        let (mut size, mut low, mut extent) = (0, 0, 0);
        if size_of(datatype, &mut size) != 0 || extent_of(datatype, &mut low, &mut extent) != 0 {
            return Err(MPI_ERR_TYPE);
        }
        if low == 0 && size as isize == extent { Ok(size as usize) } else { Err(MPI_ERR_TYPE) }
    }
}

/// See `ringwatch.h`.
#[unsafe(no_mangle)]
pub extern "C" fn RW_Checkpoint_register(id: c_int, address: *mut c_void, count: i64, datatype: Handle) -> c_int {
    class(|| {
        with_session(|session| {
            if session.is_restored {
                return Err(ERR_OTHER);
            }
            let count = usize::try_from(count).map_err(|_| MPI_ERR_COUNT)?;
            let bytes = width(datatype)?.checked_mul(count).ok_or(MPI_ERR_COUNT)?;
            if address.is_null() && bytes > 0 {
                return Err(ERR_ARG);
            }
            session.regions.retain(|region| region.id != id);
            session.regions.push(Region { id, address, bytes });
            Ok(())
        })
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for a version; the registered memory is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Checkpoint_restore(version: *mut c_int) -> c_int {
    class(|| {
        if version.is_null() {
            return Err(ERR_ARG);
        }
        // SAFETY: as required of the caller.
        unsafe { *version = NONE };
        with_session(|session| {
            if std::mem::replace(&mut session.is_restored, true) {
                return Err(ERR_OTHER);
            }
            let regions = &session.regions;
            // SAFETY: as required of the caller.
            unsafe {
                match &mut session.saver {
                    Saver::Layer(table) => of_class((table.restore)(regions.as_ptr(), regions.len(), version)),
                    Saver::Plain(plain) => {
                        *version = plain.restore(regions)?;
                        Ok(())
                    }
                }
            }
        })
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// The registered memory is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Checkpoint_save(version: c_int) -> c_int {
    class(|| {
        with_session(|session| {
            if !session.is_restored {
                return Err(ERR_OTHER);
            }
            let regions = &session.regions;
            // SAFETY: as required of the caller.
            unsafe {
                match &mut session.saver {
                    Saver::Layer(table) => of_class((table.save)(regions.as_ptr(), regions.len(), version)),
                    Saver::Plain(plain) => plain.save(regions, version),
                }
            }
        })
    })
}

/// See `ringwatch.h`.
#[unsafe(no_mangle)]
pub extern "C" fn RW_Checkpoint_end(keep: c_int) -> c_int {
    class(|| {
        with_session(|session| match &session.saver {
            Saver::Layer(table) => of_class((table.end)(keep)),
            Saver::Plain(plain) => plain.end(keep != 0),
        })?;
        *lock(&STAGE) = Stage::Ended;
        Ok(())
    })
}

fn of_class(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mpi_nothing_begins_and_nothing_is_saved() {
        let mut version = 7;
        // SAFETY: room for a version; no memory is registered.
        unsafe {
            assert_eq!(RW_Checkpoint_begin(), ERR_UNSUPPORTED);
            assert_eq!((RW_Checkpoint_restore(&mut version), version), (ERR_OTHER, NONE));
            assert_eq!(RW_Checkpoint_restore(std::ptr::null_mut()), ERR_ARG);
            assert_eq!(RW_Checkpoint_save(1), ERR_OTHER);
        }
        assert_eq!(RW_Checkpoint_end(0), ERR_OTHER);
    }
}
