//! Replaces Open MPI's nonblocking agreement under its exported name; this library must precede libmpi.
//!
//! A shrink agrees on a [shadow](crate::shadow_pool). When a member dies during a shrink, its second agreement gets a
//! freed group (`comm_ft.c:537` of 5.0.7). This module passes a new group.
//!
//! In another release of Open MPI calls are forwarded unchanged.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use openmpi_internals::abi::AgreeInAnyRelease;
use openmpi_internals::functions::MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE;
use openmpi_internals::request::Request;

use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi, original};
use crate::shadow_pool;

/// Whether Open MPI's calls of its agreement reach this function.
pub fn precedes_libmpi(mpi: &OpenMpi) -> bool {
    let own = mca_coll_ftagree_iera_intra as *const c_void;
    // SAFETY: the program itself is always loaded, and the name is terminated. Every library searches its scope first.
    let first = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE.name().as_ptr())
    };
    // An object that joins that scope after libmpi was loaded has no effect on libmpi.
    first.cast_const() == own && objects_before(own) < objects_before(mpi.iagree as *const c_void)
}

/// Number of objects loaded before the one with this address.
fn objects_before(address: *const c_void) -> usize {
    struct Search {
        address: usize,
        before: usize,
    }
    unsafe extern "C" fn count(object: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader describes an object, whose headers stay valid; the last argument is the one passed below.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        // SAFETY: as above.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let has_it = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = object.dlpi_addr as usize + header.p_vaddr as usize;
            (start..start + header.p_memsz as usize).contains(&search.address)
        });
        search.before += usize::from(!has_it);
        c_int::from(has_it)
    }
    let mut search = Search { address: address as usize, before: 0 };
    // SAFETY: the callback gets the expected argument, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut search).cast()) };
    search.before
}

/// Replaces Open MPI's nonblocking agreement. Only an agreement that reuses the group of a shrink gets a new one.
/// Others pass a valid group, which would leak.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mca_coll_ftagree_iera_intra(
    contribution: *mut c_void,
    count: usize,
    datatype: *mut c_void,
    operation: *mut c_void,
    group: *mut Handle,
    update: bool,
    comm: Handle,
    request: *mut *mut Request,
    mut module: *mut c_void,
) -> c_int {
    static ORIGINAL: OnceLock<Option<AgreeInAnyRelease>> = OnceLock::new();
    let Some(agree) = *ORIGINAL.get_or_init(|| original(MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE)) else {
        return ERR_UNSUPPORTED;
    };
    if let Some(mpi) = OpenMpi::get() {
        if let Some((agreements, is_freed)) = shadow_pool::begin_agreement(comm, group) {
            module = agreements;
            if is_freed {
                // SAFETY: a live communicator and a place for a group, both from Open MPI.
                unsafe { group.write(mpi.failed_members(comm)) };
            }
        }
    }
    // SAFETY: the original function, with the communicator's module.
    unsafe { agree(contribution, count, datatype, operation, group, update, comm, request, module) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_loaded_before_the_libraries_that_it_needs() {
        let own = precedes_libmpi as *const c_void;
        assert_eq!(objects_before(own), 0);
        assert_eq!(objects_before(mca_coll_ftagree_iera_intra as *const c_void), objects_before(own));
        assert!(objects_before(libc::getpid as *const c_void) > 0);
    }

    #[test]
    fn without_an_agreement_behind_it_nothing_is_agreed_on() {
        let nothing = std::ptr::null_mut();
        // SAFETY: without Open MPI in the process no argument is read.
        let code = unsafe {
            let (group, request) = (std::ptr::null_mut(), std::ptr::null_mut());
            mca_coll_ftagree_iera_intra(nothing, 0, nothing, nothing, group, false, nothing, request, nothing)
        };
        assert_eq!(code, ERR_UNSUPPORTED);
    }
}
