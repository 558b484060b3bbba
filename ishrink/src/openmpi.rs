//! What this library uses of the Open MPI in the process, found at run time: no header and no link dependency.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

/// Error classes of Open MPI.
pub const ERR_COMM: c_int = 5;
pub const ERR_ARG: c_int = 13;
pub const ERR_OTHER: c_int = 16;
pub const ERR_INTERN: c_int = 17;
pub const ERR_INFO: c_int = 34;
pub const ERR_PORT: c_int = 43;
pub const ERR_SPAWN: c_int = 50;
pub const ERR_UNSUPPORTED: c_int = 52;
pub const ERR_PROC_FAILED: c_int = 75;
pub const ERR_REVOKED: c_int = 77;

/// `MPI_COMM_NULL` of Open MPI in Fortran.
const FORTRAN_COMM_NULL: c_int = 2;

/// A handle of MPI in C: the address of Open MPI's object.
pub type Handle = *mut c_void;
/// `mca_coll_ftagree_iera_intra`; the second argument is an `int` in 5.0, and a `size_t` in 6.0.
pub type Agreement = unsafe extern "C" fn(
    *mut c_void,
    usize,
    *mut c_void,
    *mut c_void,
    *mut Handle,
    bool,
    Handle,
    *mut Handle,
    *mut c_void,
) -> c_int;
/// `ompi_comm_set_nb`
pub type MakeCommunicator = unsafe extern "C" fn(
    *mut Handle,
    Handle,
    c_int,
    *mut c_int,
    c_int,
    *mut c_int,
    Handle,
    Handle,
    Handle,
    Handle,
    u32,
    *mut Handle,
) -> c_int;
/// `MPI_Grequest_query_function`.
pub type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
/// `MPI_Grequest_free_function`.
pub type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// A callback of the progress loop.
pub type Progress = unsafe extern "C" fn() -> c_int;

/// `MPIX_Comm_ishrink`, and what it calls in Open MPI 5.0.
type Ishrink = unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> c_int;

/// The same for Fortran.
type FortranIshrink = unsafe extern "C" fn(*const c_int, *mut c_int, *mut c_int, *mut c_int);

/// `ompi_comm_request_return`
pub type GiveRequestBack = unsafe extern "C" fn(Handle);

/// Functions of the loaded Open MPI.
pub struct OpenMpi {
    pub ishrink: Ishrink,
    pub agreement: Agreement,
    pub register_progress: unsafe extern "C" fn(Progress) -> c_int,
    pub unregister_progress: unsafe extern "C" fn(Progress) -> c_int,
    finalized: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub request_start: unsafe extern "C" fn(Query, Free, Cancel, *mut c_void, *mut Handle) -> c_int,
    pub request_complete: unsafe extern "C" fn(Handle) -> c_int,
    pub request_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub request_to_fortran: unsafe extern "C" fn(Handle) -> c_int,
    pub comm_to_fortran: unsafe extern "C" fn(Handle) -> c_int,
    pub comm_from_fortran: unsafe extern "C" fn(c_int) -> Handle,
    pub is_intercommunicator: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    call_errhandler: unsafe extern "C" fn(Handle, c_int) -> c_int,
    failed: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    intersection: unsafe extern "C" fn(Handle, Handle, *mut Handle) -> c_int,
    group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
}

impl OpenMpi {
    /// The one in this process; `None` if it is not there, or lacks something.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<OpenMpi>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = loaded();
        // SAFETY: the types are those of mpi.h, and of communicator.h, coll.h and opal_progress.h of Open MPI 5.0.
        unsafe {
            Some(Self {
                ishrink: function(library, c"ompi_comm_ishrink_internal")?,
                agreement: function(library, c"mca_coll_ftagree_iera_intra")?,
                register_progress: function(library, c"opal_progress_register")?,
                unregister_progress: function(library, c"opal_progress_unregister")?,
                finalized: function(library, c"PMPI_Finalized")?,
                request_start: function(library, c"PMPI_Grequest_start")?,
                request_complete: function(library, c"PMPI_Grequest_complete")?,
                request_free: function(library, c"PMPI_Request_free")?,
                request_to_fortran: function(library, c"PMPI_Request_c2f")?,
                comm_to_fortran: function(library, c"PMPI_Comm_c2f")?,
                comm_from_fortran: function(library, c"PMPI_Comm_f2c")?,
                is_intercommunicator: function(library, c"PMPI_Comm_test_inter")?,
                call_errhandler: function(library, c"PMPI_Comm_call_errhandler")?,
                failed: function(library, c"ompi_comm_get_failed_internal")?,
                group: function(library, c"PMPI_Comm_group")?,
                intersection: function(library, c"PMPI_Group_intersection")?,
                group_free: function(library, c"PMPI_Group_free")?,
            })
        }
    }

    /// `MPI_COMM_NULL` of the process: where it is linked into the program, libmpi's own symbol is another.
    pub fn comm_null(&self) -> Handle {
        // SAFETY: any number may be asked for.
        unsafe { (self.comm_from_fortran)(FORTRAN_COMM_NULL) }
    }

    /// Whether `MPI_Finalize` has synchronised with everybody: what is still under way goes with the library.
    pub fn is_over(&self) -> bool {
        let mut finalized = 0;
        // SAFETY: may be called at any time, with room for the answer.
        unsafe { (self.finalized)(&mut finalized) };
        finalized != 0
    }

    /// The members of a communicator that are known to be dead, as a new group.
    ///
    /// # Safety
    /// A communicator that lives.
    pub unsafe fn dead_members(&self, comm: Handle) -> Handle {
        let null = std::ptr::null_mut;
        let (mut failed, mut members, mut dead) = (null(), null(), null());
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

    /// Calls the error handler of a communicator; returns the code.
    ///
    /// # Safety
    /// A communicator that lives.
    pub unsafe fn raise(&self, comm: Handle, code: c_int) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { (self.call_errhandler)(comm, code) };
        code
    }
}

/// What MPI calls a code of Open MPI's inside, which is negative.
pub fn code_of(code: c_int) -> c_int {
    if code < 0 { ERR_INTERN } else { code }
}

/// libmpi, in which what it is linked to is found, too; null if it is not there.
pub fn loaded() -> *mut c_void {
    // SAFETY: asks for a library that is loaded already, also privately; the handle is kept for ever.
    unsafe { libc::dlopen(c"libmpi.so.40".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) }
}

/// `MPIX_Comm_ishrink` of an Open MPI that has it, as 6.0 does.
pub fn native_ishrink() -> Option<Ishrink> {
    static NATIVE: OnceLock<Option<Ishrink>> = OnceLock::new();
    // SAFETY: the type of the function of this name, which no tool has.
    *NATIVE.get_or_init(|| unsafe { behind(c"PMPIX_Comm_ishrink") })
}

/// The same of its bindings for Fortran.
pub fn native_fortran_ishrink() -> Option<FortranIshrink> {
    static NATIVE: OnceLock<Option<FortranIshrink>> = OnceLock::new();
    // SAFETY: the type of the function of this name, which no other library has.
    *NATIVE.get_or_init(|| unsafe { function(libc::RTLD_DEFAULT, c"ompix_comm_ishrink_f") })
}

/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
    if library.is_null() {
        return None;
    }
    // SAFETY: a valid handle and a terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: as required of the caller; sizes are equal.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// The function behind one that this library stands in front of: Open MPI's, and in a process without it whoever has it.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn behind<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: as required of the caller.
    unsafe { function(loaded(), name).or_else(|| function(libc::RTLD_NEXT, name)) }
}

/// A variable of Open MPI, as a program has it: programs, and the libraries of Fortran's bindings, have some of libmpi's
/// themselves, and the first one in the process stands for all.
pub fn variable(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a terminated name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: an address of whatever type; libmpi may have been loaded privately.
    if address.is_null() { unsafe { function(loaded(), name) } } else { Some(address) }
}
