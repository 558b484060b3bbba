//! `MPIX_Comm_ishrink` for Open MPI 5.0.
//!
//! Open MPI 5.0 has the operation inside, as requests like any other, but not in its interface; and when a member dies
//! while it runs, its second agreement gets a group that has been freed (`comm_ft.c:537` of 5.0.7). This library offers
//! the function, and stands in front of the agreement to give it a new group there. It does so by defining the
//! agreement's exported name, so it must come before libmpi: linked before it, or preloaded.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

/// `MPI_ERR_COMM`, `MPI_ERR_ARG` and `MPI_ERR_UNSUPPORTED_OPERATION` of Open MPI.
const ERR_COMM: c_int = 5;
const ERR_ARG: c_int = 13;
const ERR_UNSUPPORTED: c_int = 52;

type Handle = *mut c_void;
type Agreement = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut Handle,
    bool,
    Handle,
    *mut Handle,
    *mut c_void,
) -> c_int;

thread_local! {
    /// This thread starts an operation: its next agreement is the first one of an ishrink.
    static STARTING: Cell<bool> = const { Cell::new(false) };
}

/// Where the operations of this process have their groups, as addresses. One that has ended keeps its place, whose next
/// owner then gets a new group without need.
static PLACES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

struct OpenMpi {
    ishrink: unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> c_int,
    agreement: Agreement,
    failed: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    intersection: unsafe extern "C" fn(Handle, Handle, *mut Handle) -> c_int,
    group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    is_intercommunicator: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    call_errhandler: unsafe extern "C" fn(Handle, c_int) -> c_int,
}

impl OpenMpi {
    /// The one in this process; `None` if it is not there, or lacks something.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<OpenMpi>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        // SAFETY: asks for a library that is loaded already, also privately; the handle is kept for ever.
        let library = unsafe { libc::dlopen(c"libmpi.so.40".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        // SAFETY: the types are those of mpi.h, and of communicator.h and coll.h of Open MPI 5.0.
        unsafe {
            Some(Self {
                ishrink: function(library, c"ompi_comm_ishrink_internal")?,
                agreement: function(library, c"mca_coll_ftagree_iera_intra")?,
                failed: function(library, c"PMPIX_Comm_get_failed")?,
                group: function(library, c"PMPI_Comm_group")?,
                intersection: function(library, c"PMPI_Group_intersection")?,
                group_free: function(library, c"PMPI_Group_free")?,
                is_intercommunicator: function(library, c"PMPI_Comm_test_inter")?,
                call_errhandler: function(library, c"PMPI_Comm_call_errhandler")?,
            })
        }
    }

    /// The members of a communicator that are known to be dead, as a new group.
    ///
    /// # Safety
    /// A communicator that lives.
    unsafe fn dead_members(&self, comm: Handle) -> Handle {
        let (mut failed, mut members, mut dead) = (null_mut(), null_mut(), null_mut());
        // SAFETY: as required of the caller, and room for the answers.
        unsafe {
            (self.failed)(comm, &mut failed);
            (self.group)(comm, &mut members);
            (self.intersection)(members, failed, &mut dead);
            (self.group_free)(&mut failed);
            (self.group_free)(&mut members);
        }
        dead
    }
}

/// # Safety
/// `F` is the type of a pointer to that function.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
    if library.is_null() {
        return None;
    }
    // SAFETY: a valid handle and a terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: as required of the caller; sizes are equal.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// Whether Open MPI's calls of its agreement come here: the program's own scope comes first for every library.
fn is_in_front() -> bool {
    // SAFETY: the program itself is always loaded, and the name is terminated.
    let first = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, c"mca_coll_ftagree_iera_intra".as_ptr())
    };
    first.cast_const() == mca_coll_ftagree_iera_intra as *const c_void
}

/// Starts to make a communicator of the living members of `comm`; see `ringwatch.h`.
///
/// # Safety
/// The handles are those of the MPI in this process; `newcomm` stays where it is until the request has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_ishrink(comm: Handle, newcomm: *mut Handle, request: *mut Handle) -> c_int {
    let Some(mpi) = OpenMpi::get() else { return ERR_UNSUPPORTED };
    if newcomm.is_null() || request.is_null() {
        // SAFETY: as required of the caller.
        return unsafe { raise(mpi, comm, ERR_ARG) };
    }
    if !is_in_front() {
        eprintln!(
            "ringwatch: MPIX_Comm_ishrink would crash at a further failure, because libringwatch was loaded after libmpi: link it before libmpi, or preload it"
        );
        // SAFETY: as required of the caller.
        return unsafe { raise(mpi, comm, ERR_UNSUPPORTED) };
    }
    let mut inter = 0;
    // SAFETY: as required of the caller.
    unsafe {
        let code = (mpi.is_intercommunicator)(comm, &mut inter);
        if code != 0 {
            return code;
        }
        if inter != 0 {
            return raise(mpi, comm, ERR_COMM);
        }
        STARTING.set(true);
        let code = (mpi.ishrink)(comm, newcomm, request);
        if code == 0 { code } else { raise(mpi, comm, code) }
    }
}

/// The profiling name of [`MPIX_Comm_ishrink`].
///
/// # Safety
/// See there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_ishrink(comm: Handle, newcomm: *mut Handle, request: *mut Handle) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { MPIX_Comm_ishrink(comm, newcomm, request) }
}

/// # Safety
/// A communicator that lives.
unsafe fn raise(mpi: &OpenMpi, comm: Handle, code: c_int) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { (mpi.call_errhandler)(comm, code) };
    code
}

/// Open MPI's agreement without blocking. The second one of an ishrink passes a group that has been freed.
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
    // SAFETY: a communicator and a place for a group, both Open MPI's; the rest is passed on.
    unsafe {
        let mut places = PLACES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = group as usize;
        if STARTING.take() {
            places.insert(place);
        } else if update && places.contains(&place) {
            group.write(mpi.dead_members(comm));
        }
        drop(places);
        (mpi.agreement)(contribution, count, datatype, operation, group, update, comm, request, module)
    }
}
