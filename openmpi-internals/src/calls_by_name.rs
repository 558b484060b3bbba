//! Interposes functions on those of other libraries than Open MPI's, by name, in the objects of the program: itself,
//! libraries that call functions of MPI, and the libraries behind the input and output of Fortran and C++.
//!
//! Open MPI, its components and all other libraries call what they have called before.

use std::ffi::{CStr, c_void};

use crate::protections::Protections;
use crate::symbol_table::{LoadedObject, for_each_object};

/// A function, and the one that is called in its place.
pub type ByName = (&'static CStr, *const c_void);

/// Libraries through which a program reads clocks and writes files.
const OF_LANGUAGES: [&str; 2] = ["/libgfortran.so", "/libstdc++.so"];

/// Has the program call these functions in place of those of the same names. Returns whether all objects could be
/// changed.
///
/// # Safety
/// Functions of the same types, which are never unloaded.
pub unsafe fn take_calls(functions: &[ByName]) -> bool {
    let mut protections = Protections::default();
    let mut are_taken = true;
    let take = |object: &LoadedObject| {
        // SAFETY: the object stays loaded while it is inspected.
        let called = unsafe { object.functions() };
        let calls_mpi = || called.iter().any(|(name, _)| name.to_bytes().starts_with(b"MPI_") || is_fortran(name));
        let is_of_program = object.path.is_empty()
            || OF_LANGUAGES.iter().any(|name| object.path.contains(name))
            || (!is_of_open_mpi(&object.path) && calls_mpi());
        if !is_of_program {
            return;
        }
        let ours = |name: &CStr| functions.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours as usize);
        let values = called.iter().filter_map(|(name, place)| Some((*place, ours(name)?))).collect();
        // SAFETY: as required of the caller.
        are_taken &= unsafe { protections.write_all(values) }.is_some();
    };
    for_each_object(take) && are_taken
}

/// A function of MPI in Fortran: `mpi_send_`.
fn is_fortran(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"mpi_") && name.ends_with(b"_")
}

/// Open MPI's libraries and components, and ringwatch's.
fn is_of_open_mpi(path: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let is_component = file.starts_with("mca_") || folder.ends_with("/openmpi") || folder.ends_with("/openmpi3");
    is_component
        || ["libmpi", "libopen-", "libpmix", "libprrte", "libringwatch"].iter().any(|name| file.starts_with(name))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static CALLS: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn no_host_name(_: *mut std::ffi::c_char, _: usize) -> i32 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        -1
    }

    #[test]
    fn the_program_calls_what_stands_in_front_by_name() {
        let ask = || {
            let mut name = [0; 256];
            // SAFETY: room for a name.
            unsafe { libc::gethostname(name.as_mut_ptr(), name.len()) }
        };
        assert_eq!(ask(), 0);
        // SAFETY: a function of the same type.
        assert!(unsafe { take_calls(&[(c"gethostname", no_host_name as *const c_void)]) });
        assert_eq!((ask(), CALLS.load(Ordering::Relaxed)), (-1, 1));
    }

    #[test]
    fn open_mpi_is_told_from_libraries_that_use_it() {
        let of_open_mpi =
            ["/usr/lib/x86_64-linux-gnu/libmpi.so.40", "/usr/lib/openmpi/lib/openmpi3/mca_io_romio341.so"];
        assert!(of_open_mpi.iter().all(|path| is_of_open_mpi(path)));
        assert!(!is_of_open_mpi("/usr/lib/x86_64-linux-gnu/liblammps.so.0"));
        assert!(is_fortran(c"mpi_send_") && !is_fortran(c"mpio_send_"));
    }
}
