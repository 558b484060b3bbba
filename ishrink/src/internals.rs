//! Finds internal functions of the loaded Open MPI 5.0, and functions of PMIx, for operations with other jobs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

pub use openmpi_internals::abi::MemberDied;
use openmpi_internals::abi::{
    ActivateAndWait, CollCommQuery, CommFree, CommSet, CopyAttribute, DeleteAttribute, DpmConnectAccept, DpmOpenPort,
    DpmSpawn, NextCidAndWait, RequestIsFailed,
};
use openmpi_internals::classes::Classes;
use openmpi_internals::functions::{
    MCA_COLL_FTAGREE_COMM_QUERY, OMPI_C_MPI_COMM_NULL_COPY_FN, OMPI_COMM_ACTIVATE, OMPI_COMM_FREE, OMPI_COMM_NEXTCID,
    OMPI_COMM_SET, OMPI_DPM_CONNECT_ACCEPT, OMPI_DPM_OPEN_PORT, OMPI_DPM_SPAWN, OMPI_REQUEST_IS_FAILED_FN,
    OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_ST,
};
use openmpi_internals::layout::pml::{PML_RECV, PML_SEND};
use openmpi_internals::layout::{comm_request, comm_request_item, communicator};
use openmpi_internals::loaded::Library;
use openmpi_internals::probe;
use openmpi_internals::variables::{
    MCA_PML, OMPI_COMM_REQUEST_ITEM_T_CLASS, OMPI_COMM_REQUEST_T_CLASS, OMPI_COMMUNICATOR_T_CLASS, OMPI_MPI_INT,
    OMPI_MPI_OP_BAND, OMPI_RANK_FAILURE_CBFUNC, OPAL_THREADS_BASE_WAIT_SYNC_LIST, OPAL_USES_THREADS,
};
use openmpi_internals::wait_sync::WaitSync;
use pmix_sys::{pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_status_t, pmix_value_t};

use crate::openmpi::{Handle, OpenMpi};

/// `MPI_COMM_WORLD`, `MPI_COMM_SELF`, `MPI_BYTE` and `MPI_ERRORS_RETURN` of Open MPI in Fortran: in C the program may
/// contain copies.
const COMM_WORLD: c_int = 0;
const COMM_SELF: c_int = 1;
const BYTE: c_int = 1;
const ERRORS_RETURN: c_int = 2;
/// The info key under which ringwatch's plugin shows each communicator's uniformity.
const UNIFORM: &CStr = c"mpix_error_uniform";

/// `mca_pml_base_module_recv_fn_t`
pub type Receive = unsafe extern "C" fn(*mut c_void, usize, Handle, c_int, c_int, Handle, *mut c_void) -> c_int;
/// `mca_pml_base_module_send_fn_t`
pub type Send = unsafe extern "C" fn(*const c_void, usize, Handle, c_int, c_int, c_int, Handle) -> c_int;
/// `pmix_op_cbfunc_t`
type OpCallback = unsafe extern "C" fn(pmix_status_t, *mut c_void);
/// `pmix_spawn_cbfunc_t`
type SpawnCallback = unsafe extern "C" fn(pmix_status_t, *const c_char, *mut c_void);
/// `pmix_lookup_cbfunc_t`
type LookupCallback = unsafe extern "C" fn(pmix_status_t, *const pmix_pdata_t, usize, *mut c_void);

/// Whether this value of [`UNIFORM`] means uniform errors.
fn is_uniform(value: &CStr) -> bool {
    value != c"local"
}

/// Functions and variables of the loaded libraries.
pub struct Internals {
    /// For a program without threads: makes all waits check their requests again.
    pub wakeup_without_threads: unsafe extern "C" fn(c_int),
    wait_sync_list: *mut *mut WaitSync,
    uses_threads: *const bool,
    pml: *const Handle,
    pub comm_world: Handle,
    pub comm_self: Handle,
    pub byte_type: Handle,
    pub int_type: Handle,
    /// `MPI_BAND`
    pub band_op: Handle,
    pub errors_return: Handle,
    pub comm_set: CommSet,
    pub comm_nextcid: NextCidAndWait,
    pub comm_activate: ActivateAndWait,
    pub comm_free: CommFree,
    /// Makes a module that counts a communicator's agreements, with its priority; null without fault tolerance.
    pub ftagree_comm_query: CollCommQuery,
    pub null_copy_fn: CopyAttribute,
    pub create_keyval: unsafe extern "C" fn(CopyAttribute, DeleteAttribute, *mut c_int, *mut c_void) -> c_int,
    pub set_attr: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> c_int,
    /// Open MPI's variable with the callback for deaths of members.
    pub rank_failure_callback: *mut Option<MemberDied>,
    pub dpm_open_port: DpmOpenPort,
    pub dpm_spawn: DpmSpawn,
    pub dpm_connect_accept: DpmConnectAccept,
    /// Ends a request that cannot complete; returns whether it has done so.
    pub request_is_failed: RequestIsFailed,
    pub comm_rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub comm_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub comm_group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub group_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub comm_revoke: unsafe extern "C" fn(Handle) -> c_int,
    comm_is_revoked: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub get_errhandler: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub set_errhandler: unsafe extern "C" fn(Handle, Handle) -> c_int,
    pub errhandler_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub info_from_fortran: unsafe extern "C" fn(c_int) -> Handle,
    pub info_dup: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub info_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    comm_get_info: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    info_get: unsafe extern "C" fn(Handle, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int,
    pub value_xfer: unsafe extern "C" fn(*mut pmix_value_t, *const pmix_value_t) -> pmix_status_t,
    pub spawn_nb: unsafe extern "C" fn(
        *const pmix_info_t,
        usize,
        *const c_void,
        usize,
        SpawnCallback,
        *mut c_void,
    ) -> pmix_status_t,
    pub publish_nb: unsafe extern "C" fn(*const pmix_info_t, usize, OpCallback, *mut c_void) -> pmix_status_t,
    pub unpublish_nb:
        unsafe extern "C" fn(*const *const c_char, *const pmix_info_t, usize, OpCallback, *mut c_void) -> pmix_status_t,
    pub lookup_nb: unsafe extern "C" fn(
        *const *const c_char,
        *const pmix_info_t,
        usize,
        LookupCallback,
        *mut c_void,
    ) -> pmix_status_t,
    pub connect_nb: unsafe extern "C" fn(
        *const pmix_proc_t,
        usize,
        *const pmix_info_t,
        usize,
        OpCallback,
        *mut c_void,
    ) -> pmix_status_t,
}

// SAFETY: addresses of functions and of objects that live as long as the libraries.
unsafe impl std::marker::Send for Internals {}
// SAFETY: as above; only the thread in the progress loop changes the variable.
unsafe impl std::marker::Sync for Internals {}

impl Internals {
    /// The functions in this process; `None` if one is missing or differs from Open MPI 5.0's.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Internals>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h, and of communicator.h, dpm.h, pml.h, wait_sync.h and pmix.h.
        unsafe {
            let sizes = [
                (OMPI_COMM_REQUEST_T_CLASS, comm_request::SIZE),
                (OMPI_COMM_REQUEST_ITEM_T_CLASS, comm_request_item::SIZE),
                (OMPI_COMMUNICATOR_T_CLASS, communicator::SIZE),
            ];
            for (class, size) in sizes {
                if !probe::has_size(library.variable(class)?, size) {
                    return None;
                }
            }
            let predefined = |from_fortran, handle: c_int| {
                let function: unsafe extern "C" fn(c_int) -> Handle = library.standard(from_fortran)?;
                Some(function(handle))
            };
            macro_rules! find {
                ($name:literal) => {
                    library.standard($name)?
                };
            }
            Some(Self {
                wakeup_without_threads: library.function(OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_ST)?,
                wait_sync_list: library.variable(OPAL_THREADS_BASE_WAIT_SYNC_LIST)?,
                uses_threads: library.variable(OPAL_USES_THREADS)?,
                pml: library.variable(MCA_PML)?,
                comm_world: predefined(c"PMPI_Comm_f2c", COMM_WORLD)?,
                comm_self: predefined(c"PMPI_Comm_f2c", COMM_SELF)?,
                byte_type: predefined(c"PMPI_Type_f2c", BYTE)?,
                int_type: library.predefined(OMPI_MPI_INT)?,
                band_op: library.predefined(OMPI_MPI_OP_BAND)?,
                errors_return: predefined(c"PMPI_Errhandler_f2c", ERRORS_RETURN)?,
                comm_set: library.function(OMPI_COMM_SET)?,
                comm_nextcid: library.function(OMPI_COMM_NEXTCID)?,
                comm_activate: library.function(OMPI_COMM_ACTIVATE)?,
                comm_free: library.function(OMPI_COMM_FREE)?,
                ftagree_comm_query: library.function(MCA_COLL_FTAGREE_COMM_QUERY)?,
                null_copy_fn: library.function(OMPI_C_MPI_COMM_NULL_COPY_FN)?,
                create_keyval: find!(c"PMPI_Comm_create_keyval"),
                set_attr: find!(c"PMPI_Comm_set_attr"),
                rank_failure_callback: library.variable(OMPI_RANK_FAILURE_CBFUNC)?,
                dpm_open_port: library.function(OMPI_DPM_OPEN_PORT)?,
                dpm_spawn: library.function(OMPI_DPM_SPAWN)?,
                dpm_connect_accept: library.function(OMPI_DPM_CONNECT_ACCEPT)?,
                request_is_failed: library.function(OMPI_REQUEST_IS_FAILED_FN)?,
                comm_rank: find!(c"PMPI_Comm_rank"),
                comm_size: find!(c"PMPI_Comm_size"),
                comm_group: find!(c"PMPI_Comm_group"),
                group_size: find!(c"PMPI_Group_size"),
                group_free: find!(c"PMPI_Group_free"),
                comm_revoke: find!(c"PMPIX_Comm_revoke"),
                comm_is_revoked: find!(c"PMPIX_Comm_is_revoked"),
                get_errhandler: find!(c"PMPI_Comm_get_errhandler"),
                set_errhandler: find!(c"PMPI_Comm_set_errhandler"),
                errhandler_free: find!(c"PMPI_Errhandler_free"),
                info_from_fortran: find!(c"PMPI_Info_f2c"),
                info_dup: find!(c"PMPI_Info_dup"),
                info_free: find!(c"PMPI_Info_free"),
                comm_get_info: find!(c"PMPI_Comm_get_info"),
                info_get: find!(c"PMPI_Info_get"),
                value_xfer: find!(c"PMIx_Value_xfer"),
                spawn_nb: find!(c"PMIx_Spawn_nb"),
                publish_nb: find!(c"PMIx_Publish_nb"),
                unpublish_nb: find!(c"PMIx_Unpublish_nb"),
                lookup_nb: find!(c"PMIx_Lookup_nb"),
                connect_nb: find!(c"PMIx_Connect_nb"),
            })
        }
    }

    /// Exchanges the object that a program without threads waits for; `None` in one with threads, where nothing
    /// changes.
    pub fn exchange_wait_sync(&self, sync: *mut WaitSync) -> Option<*mut WaitSync> {
        // SAFETY: variables of Open MPI; the only thread changes the second.
        unsafe { (!*self.uses_threads).then(|| self.wait_sync_list.replace(sync)) }
    }

    /// The PML's blocking receive function.
    pub fn receive(&self) -> Receive {
        // SAFETY: a function table, in the order of pml.h.
        unsafe { self.pml.add(PML_RECV).cast::<Receive>().read() }
    }

    /// The PML's blocking send function.
    pub fn send(&self) -> Send {
        // SAFETY: as above.
        unsafe { self.pml.add(PML_SEND).cast::<Send>().read() }
    }

    /// Releases a reference to a communicator; the last one frees it.
    ///
    /// # Safety
    /// A reference of the caller's own.
    pub unsafe fn release(&self, mut comm: Handle) {
        // SAFETY: as required of the caller.
        unsafe {
            if !Classes::give_back_if_shared(comm) {
                (self.comm_free)(&mut comm);
            }
        }
    }

    /// The result of an MPI function that cannot fail.
    ///
    /// # Safety
    /// A live object of the function's kind.
    pub unsafe fn query(&self, function: unsafe extern "C" fn(Handle, *mut c_int) -> c_int, object: Handle) -> c_int {
        let mut result = 0;
        // SAFETY: as required of the caller.
        unsafe { function(object, &mut result) };
        result
    }

    /// # Safety
    /// A live communicator.
    pub unsafe fn is_revoked(&self, comm: Handle) -> bool {
        // SAFETY: as required of the caller.
        unsafe { self.query(self.comm_is_revoked, comm) != 0 }
    }

    /// Whether a member is known to be dead.
    ///
    /// # Safety
    /// A live communicator.
    pub unsafe fn has_failed_members(&self, comm: Handle) -> bool {
        let Some(mpi) = OpenMpi::get() else { return false };
        // SAFETY: as required of the caller; the group is freed.
        unsafe {
            let mut group = mpi.failed_members(comm);
            let dead = self.query(self.group_size, group);
            (self.group_free)(&mut group);
            dead > 0
        }
    }

    /// Whether constructors on a communicator have uniform errors, according to its info, which ringwatch's plugin
    /// maintains.
    ///
    /// # Safety
    /// A live communicator.
    pub unsafe fn has_uniform_errors(&self, comm: Handle) -> bool {
        let (mut info, mut word, mut is_there) = (std::ptr::null_mut(), [0 as c_char; 16], 0);
        let length = word.len() as c_int - 1;
        // SAFETY: as required of the caller, and places for the results; the info is freed.
        unsafe {
            if (self.comm_get_info)(comm, &mut info) != 0 {
                return false;
            }
            let code = (self.info_get)(info, UNIFORM.as_ptr(), length, word.as_mut_ptr(), &mut is_there);
            (self.info_free)(&mut info);
            code == 0 && is_there != 0 && is_uniform(CStr::from_ptr(word.as_ptr()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_uniform_in_every_scope_but_the_local_one() {
        assert!(!is_uniform(c"local"));
        assert!(is_uniform(c"group") && is_uniform(c"global"));
    }
}
