//! The repair of Open MPI's operation: when a member dies while it runs, its second agreement gets a group that has been
//! freed (`comm_ft.c:537` of 5.0.7). This library stands in front of the agreement to give it a new group there. It does
//! so by defining the agreement's exported name, so it must come before libmpi.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi};

/// Where an operation of Open MPI has its group of dead members, as an address.
pub type Place = usize;

thread_local! {
    /// This thread starts an operation: its next agreement is the first one of it.
    static STARTING: Cell<bool> = const { Cell::new(false) };
    /// The place of the operation that this thread started last.
    static STARTED: Cell<Option<Place>> = const { Cell::new(None) };
}

/// The places of all operations under way.
static PLACES: Mutex<BTreeSet<Place>> = Mutex::new(BTreeSet::new());

fn places() -> MutexGuard<'static, BTreeSet<Place>> {
    PLACES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts an operation with `start`, and watches over the agreements that follow from it until [`forget`] is called.
pub fn watch<T>(start: impl FnOnce() -> T) -> (T, Option<Place>) {
    STARTED.take();
    STARTING.set(true);
    let started = start();
    STARTING.set(false);
    (started, STARTED.take())
}

/// The operation has ended: the place may be anybody's.
pub fn forget(place: Place) {
    places().remove(&place);
}

/// Whether Open MPI's calls of its agreement come here.
pub fn is_in_front(mpi: &OpenMpi) -> bool {
    let own = mca_coll_ftagree_iera_intra as *const c_void;
    // SAFETY: the program itself is always loaded, and the name is terminated. Its scope comes first for every library.
    let first = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, c"mca_coll_ftagree_iera_intra".as_ptr())
    };
    // What joins that scope when libmpi is loaded already comes too late for it.
    first.cast_const() == own && loaded_as(own) < loaded_as(mpi.agreement as *const c_void)
}

/// How many objects were loaded before the one that has this address.
fn loaded_as(address: *const c_void) -> usize {
    struct Search {
        address: usize,
        before: usize,
    }
    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader describes an object, whose headers stay; the last argument is what was passed below.
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
    // SAFETY: the callback gets what it expects and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.before
}

/// Open MPI's agreement without blocking. Only agreements that use the group of an operation again get a new one: all
/// others pass a sound group, which would be lost.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mca_coll_ftagree_iera_intra(
    contribution: *mut c_void,
    count: c_int,
    datatype: *mut c_void,
    operation: *mut c_void,
    group: *mut Handle,
    update: bool,
    comm: Handle,
    request: *mut Handle,
    module: *mut c_void,
) -> c_int {
    let Some(mpi) = OpenMpi::get() else { return ERR_UNSUPPORTED };
    let place = group as Place;
    if STARTING.take() {
        STARTED.set(Some(place));
        places().insert(place);
    } else if update && places().contains(&place) {
        // SAFETY: a communicator that lives and a place for a group, both Open MPI's.
        unsafe { group.write(mpi.dead_members(comm)) };
    }
    // SAFETY: passed on as it came.
    unsafe { (mpi.agreement)(contribution, count, datatype, operation, group, update, comm, request, module) }
}
