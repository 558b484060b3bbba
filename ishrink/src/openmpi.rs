//! Finds the functions of the Open MPI in this process at run time, without headers or a link dependency.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

pub use openmpi_internals::abi::Progress;
use openmpi_internals::abi::{AgreeInAnyRelease, CommGetFailed, CommIshrink};
pub use openmpi_internals::error_class::{
    ERR_ARG, ERR_COMM, ERR_INFO, ERR_INTERN, ERR_OTHER, ERR_PORT, ERR_PROC_FAILED, ERR_REVOKED, ERR_SPAWN,
    ERR_UNSUPPORTED,
};
use openmpi_internals::functions::{
    MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE, OMPI_COMM_GET_FAILED_INTERNAL, OMPI_COMM_ISHRINK_INTERNAL,
    OPAL_PROGRESS_REGISTER, OPAL_PROGRESS_UNREGISTER,
};
use openmpi_internals::loaded::Library;
use openmpi_internals::symbol::Function;

/// `MPI_COMM_NULL` of Open MPI in Fortran.
const FORTRAN_COMM_NULL: c_int = 2;

/// A handle of MPI in C: the address of Open MPI's object.
pub type Handle = *mut c_void;
/// `MPI_Grequest_query_function`.
pub type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
/// `MPI_Grequest_free_function`.
pub type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// `MPIX_Comm_ishrink`
type Ishrink = unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> c_int;

/// The same for Fortran.
type FortranIshrink = unsafe extern "C" fn(*const c_int, *mut c_int, *mut c_int, *mut c_int);

/// Functions of the loaded Open MPI.
pub struct OpenMpi {
    pub ishrink: CommIshrink,
    pub iagree: AgreeInAnyRelease,
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
    comm_call_errhandler: unsafe extern "C" fn(Handle, c_int) -> c_int,
    get_failed: CommGetFailed,
    group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    intersection: unsafe extern "C" fn(Handle, Handle, *mut Handle) -> c_int,
    group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
}

impl OpenMpi {
    /// The Open MPI in this process; `None` if it is absent or lacks a function.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<OpenMpi>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h.
        unsafe {
            Some(Self {
                ishrink: library.function(OMPI_COMM_ISHRINK_INTERNAL)?,
                iagree: library.function(MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE)?,
                register_progress: library.function(OPAL_PROGRESS_REGISTER)?,
                unregister_progress: library.function(OPAL_PROGRESS_UNREGISTER)?,
                finalized: library.standard(c"PMPI_Finalized")?,
                request_start: library.standard(c"PMPI_Grequest_start")?,
                request_complete: library.standard(c"PMPI_Grequest_complete")?,
                request_free: library.standard(c"PMPI_Request_free")?,
                request_to_fortran: library.standard(c"PMPI_Request_c2f")?,
                comm_to_fortran: library.standard(c"PMPI_Comm_c2f")?,
                comm_from_fortran: library.standard(c"PMPI_Comm_f2c")?,
                is_intercommunicator: library.standard(c"PMPI_Comm_test_inter")?,
                comm_call_errhandler: library.standard(c"PMPI_Comm_call_errhandler")?,
                get_failed: library.function(OMPI_COMM_GET_FAILED_INTERNAL)?,
                group: library.standard(c"PMPI_Comm_group")?,
                intersection: library.standard(c"PMPI_Group_intersection")?,
                group_free: library.standard(c"PMPI_Group_free")?,
            })
        }
    }

    /// `MPI_COMM_NULL` of the process. If the program contains a copy of it, libmpi's own symbol differs.
    pub fn comm_null(&self) -> Handle {
        // SAFETY: any number may be passed.
        unsafe { (self.comm_from_fortran)(FORTRAN_COMM_NULL) }
    }

    /// Whether `MPI_Finalize` has synchronised all processes: unfinished operations end with the library.
    pub fn is_finalized(&self) -> bool {
        let mut finalized = 0;
        // SAFETY: may be called at any time, with a place for the result.
        unsafe { (self.finalized)(&mut finalized) };
        finalized != 0
    }

    /// The known dead members of a communicator, as a new group.
    ///
    /// # Safety
    /// A live communicator.
    pub unsafe fn failed_members(&self, comm: Handle) -> Handle {
        let null = std::ptr::null_mut;
        let (mut failed, mut members, mut dead) = (null(), null(), null());
        // SAFETY: as required of the caller, and places for the results.
        unsafe {
            (self.get_failed)(comm, &mut failed);
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
    /// A live communicator.
    pub unsafe fn call_errhandler(&self, comm: Handle, code: c_int) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { (self.comm_call_errhandler)(comm, code) };
        code
    }
}

/// The error code of MPI for one of Open MPI's own codes, which are negative.
pub fn mpi_error_of(code: c_int) -> c_int {
    if code < 0 { ERR_INTERN } else { code }
}

/// `MPIX_Comm_ishrink` of an Open MPI that has it, such as 6.0.
pub fn native_ishrink() -> Option<Ishrink> {
    static NATIVE: OnceLock<Option<Ishrink>> = OnceLock::new();
    // SAFETY: the type of the function of this name, which no tool has.
    *NATIVE.get_or_init(|| unsafe { original_by_name(c"PMPIX_Comm_ishrink") })
}

/// The same for its Fortran bindings.
pub fn native_fortran_ishrink() -> Option<FortranIshrink> {
    static NATIVE: OnceLock<Option<FortranIshrink>> = OnceLock::new();
    // SAFETY: the type of the function of this name, which no other library has.
    *NATIVE.get_or_init(|| unsafe { function(libc::RTLD_DEFAULT, c"ompix_comm_ishrink_f") })
}

/// # Safety
/// `F` is the type of a pointer to that function.
unsafe fn function<F: Copy>(scope: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
    // SAFETY: a scope of dlsym(3) and a terminated name.
    let address = unsafe { libc::dlsym(scope, name.as_ptr()) };
    // SAFETY: as required of the caller; sizes are equal.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// The function that this library's definition hides: Open MPI's, or without Open MPI the next one of that name.
pub fn original<F: Copy>(name: Function<F>) -> Option<F> {
    // SAFETY: the name carries its type.
    unsafe { original_by_name(name.name()) }
}

/// The same for a function of another library.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn original_by_name<F: Copy>(name: &CStr) -> Option<F> {
    let in_library = |library: Library| {
        // SAFETY: as required of the caller.
        unsafe { library.standard(name) }
    };
    // SAFETY: as required of the caller.
    Library::loaded().and_then(in_library).or_else(|| unsafe { function(libc::RTLD_NEXT, name) })
}

/// The process's instance of a variable of Open MPI: programs, and libraries of the Fortran bindings, contain copies of
/// some, and the first one in the process is used by all.
pub fn variable(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: an address of unspecified type; libmpi may have been loaded privately.
    unsafe { function(libc::RTLD_DEFAULT, name) }.or_else(|| Library::loaded()?.symbol(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_open_mpi_itself_are_internal_errors_and_those_of_mpi_stay() {
        assert_eq!(mpi_error_of(-13), ERR_INTERN);
        assert_eq!(mpi_error_of(0), 0);
        assert_eq!(mpi_error_of(ERR_PROC_FAILED), ERR_PROC_FAILED);
    }
}
