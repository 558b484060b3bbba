//! The layer of message logging, which is in a component of Open MPI.

use std::ffi::{CStr, c_int, c_void};

use checkpoints::table::{COMPONENT, NAME, Table};

/// Its functions, if the job runs under message logging.
pub fn find() -> Option<&'static Table> {
    table().filter(|table| (table.is_active)())
}

/// Whether message logging or replication stands between the program and MPI: the program's handles are not Open MPI's.
pub fn is_layered() -> bool {
    table().is_some_and(|table| (table.is_layered)())
}

fn table() -> Option<&'static Table> {
    let mut table: Option<&'static Table> = None;
    // SAFETY: the callback gets the place of the table, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut table).cast()) };
    table
}

/// # Safety
/// Called with a loaded library, and the place for the table.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, place: *mut c_void) -> c_int {
    // SAFETY: as required of the caller; a library's name is null or terminated, and the handle is kept for ever.
    unsafe {
        let name = (*info).dlpi_name;
        if name.is_null() || !CStr::from_ptr(name).to_bytes().ends_with(COMPONENT.as_bytes()) {
            return 0;
        }
        let library = libc::dlopen(name, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            return 0;
        }
        let table = libc::dlsym(library, NAME.as_ptr()).cast::<Table>();
        *place.cast::<Option<&'static Table>>() = table.as_ref();
        c_int::from(!table.is_null())
    }
}
