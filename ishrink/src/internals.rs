//! What operations with other jobs use of the inside of the loaded Open MPI 5.0, and of its runtime.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::fibers::{Fiber, Sync};
use crate::objects::OBJECT_SIZE;
use crate::openmpi::{self, Handle, OpenMpi};
use crate::runtime::{Data, Value};
use crate::{schedules, shadows};

/// Of `mca_pml_base_module_t`: the functions that receive and send, and block.
const RECEIVE: usize = 9;
const SEND: usize = 12;

/// `MPI_COMM_WORLD`, `MPI_COMM_SELF`, `MPI_BYTE` and `MPI_ERRORS_RETURN` of Open MPI in Fortran: in C they may be copies in the program.
const COMM_WORLD: c_int = 0;
const COMM_SELF: c_int = 1;
const BYTE: c_int = 1;
const ERRORS_RETURN: c_int = 2;
/// The info key under which each communicator shows its uniformity where ringwatch's plugin is.
const UNIFORM: &CStr = c"mpix_error_uniform";

/// `mca_pml_base_module_recv_fn_t`
pub type Receive = unsafe extern "C" fn(*mut c_void, usize, Handle, c_int, c_int, Handle, *mut c_void) -> c_int;
/// `mca_pml_base_module_send_fn_t`
pub type Send = unsafe extern "C" fn(*const c_void, usize, Handle, c_int, c_int, c_int, Handle) -> c_int;
/// `ompi_comm_set`
type SetCommunicator = unsafe extern "C" fn(
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
) -> c_int;
/// `ompi_comm_rank_failure_callback_t`: a member of a communicator, and whether it is of the other group.
pub type MemberDied = unsafe extern "C" fn(Handle, c_int, bool);
/// `MPI_Comm_copy_attr_function` and `MPI_Comm_delete_attr_function`.
type Copied = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Deleted = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;
/// What the runtime calls back.
type Done = unsafe extern "C" fn(c_int, *mut c_void);
type Spawned = unsafe extern "C" fn(c_int, *const c_char, *mut c_void);
type Found = unsafe extern "C" fn(c_int, *const Data, usize, *mut c_void);

/// Functions and variables of the loaded libraries.
pub struct Internals {
    /// For a program without threads: all who wait look again.
    pub wake_one_thread: unsafe extern "C" fn(c_int),
    waiting: *mut *mut Sync,
    uses_threads: *const bool,
    messages: *const usize,
    pub world: Handle,
    pub myself: Handle,
    pub byte: Handle,
    pub int: Handle,
    /// `MPI_BAND`
    pub and: Handle,
    pub errors_return: Handle,
    pub make_communicator: SetCommunicator,
    pub number: unsafe extern "C" fn(Handle, Handle, Handle, *const c_void, *const c_void, bool, c_int) -> c_int,
    pub activate: unsafe extern "C" fn(*mut Handle, Handle, Handle, *const c_void, *const c_void, bool, c_int) -> c_int,
    pub free_communicator: unsafe extern "C" fn(*mut Handle) -> c_int,
    /// A module that counts the agreements of a communicator, and its priority; null without fault tolerance.
    pub agreements_of: unsafe extern "C" fn(Handle, *mut c_int) -> Handle,
    pub copies_nothing: Copied,
    pub create_attribute: unsafe extern "C" fn(Copied, Deleted, *mut c_int, *mut c_void) -> c_int,
    pub set_attribute: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> c_int,
    /// The address of the function that is told of the deaths of members.
    pub member_died: *mut *mut c_void,
    pub open_port: unsafe extern "C" fn(*mut c_char) -> c_int,
    pub start_processes: unsafe extern "C" fn(
        c_int,
        *const *const c_char,
        *const *const *const c_char,
        *const c_int,
        *const Handle,
        *const c_char,
    ) -> c_int,
    pub connect_accept: unsafe extern "C" fn(Handle, c_int, *const c_char, bool, *mut Handle) -> c_int,
    /// Ends a request that cannot complete any more; whether it has done so.
    pub has_failed: unsafe extern "C" fn(Handle) -> bool,
    pub rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub group_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub revoke: unsafe extern "C" fn(Handle) -> c_int,
    is_revoked: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub errhandler: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub set_errhandler: unsafe extern "C" fn(Handle, Handle) -> c_int,
    pub errhandler_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub info_from_fortran: unsafe extern "C" fn(c_int) -> Handle,
    pub info_dup: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    pub info_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    info_of: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    info_get: unsafe extern "C" fn(Handle, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int,
    pub copy_value: unsafe extern "C" fn(*mut Value, *const Value) -> c_int,
    pub spawn: unsafe extern "C" fn(*const c_void, usize, *const c_void, usize, Spawned, *mut c_void) -> c_int,
    pub publish: unsafe extern "C" fn(*const c_void, usize, Done, *mut c_void) -> c_int,
    pub unpublish: unsafe extern "C" fn(*const *const c_char, *const c_void, usize, Done, *mut c_void) -> c_int,
    pub look_up: unsafe extern "C" fn(*const *const c_char, *const c_void, usize, Found, *mut c_void) -> c_int,
    pub connect: unsafe extern "C" fn(*const c_void, usize, *const c_void, usize, Done, *mut c_void) -> c_int,
}

// SAFETY: addresses of functions and of objects that live as long as the libraries.
unsafe impl std::marker::Send for Internals {}
// SAFETY: as above; the variable is changed in the thread that has the progress loop.
unsafe impl std::marker::Sync for Internals {}

impl Internals {
    /// Those in this process; `None` if something is not there, or is not as in Open MPI 5.0.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Internals>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = openmpi::loaded();
        // SAFETY: the types are those of mpi.h, and of communicator.h, dpm.h, pml.h, wait_sync.h and pmix.h.
        unsafe {
            let address = |name| openmpi::function::<*mut c_void>(library, name);
            let [schedule, step] = schedules::SIZES;
            let sizes = [
                (c"ompi_comm_request_t_class", schedule),
                (c"ompi_comm_request_item_t_class", step),
                (c"ompi_communicator_t_class", shadows::COMMUNICATOR_SIZE),
            ];
            for (name, size) in sizes {
                if address(name)?.byte_add(OBJECT_SIZE).cast::<usize>().read() != size {
                    return None;
                }
            }
            let predefined = |from_fortran, handle: c_int| {
                let function: unsafe extern "C" fn(c_int) -> Handle = openmpi::function(library, from_fortran)?;
                Some(function(handle))
            };
            macro_rules! find {
                ($name:literal) => {
                    openmpi::function(library, $name)?
                };
            }
            Some(Self {
                wake_one_thread: find!(c"opal_threads_base_wait_sync_global_wakeup_st"),
                waiting: address(c"opal_threads_base_wait_sync_list")?.cast(),
                uses_threads: address(c"opal_uses_threads")?.cast(),
                messages: address(c"mca_pml")?.cast(),
                world: predefined(c"PMPI_Comm_f2c", COMM_WORLD)?,
                myself: predefined(c"PMPI_Comm_f2c", COMM_SELF)?,
                byte: predefined(c"PMPI_Type_f2c", BYTE)?,
                int: openmpi::variable(c"ompi_mpi_int")?,
                and: openmpi::variable(c"ompi_mpi_op_band")?,
                errors_return: predefined(c"PMPI_Errhandler_f2c", ERRORS_RETURN)?,
                make_communicator: find!(c"ompi_comm_set"),
                number: find!(c"ompi_comm_nextcid"),
                activate: find!(c"ompi_comm_activate"),
                free_communicator: find!(c"ompi_comm_free"),
                agreements_of: find!(c"mca_coll_ftagree_comm_query"),
                copies_nothing: find!(c"OMPI_C_MPI_COMM_NULL_COPY_FN"),
                create_attribute: find!(c"PMPI_Comm_create_keyval"),
                set_attribute: find!(c"PMPI_Comm_set_attr"),
                member_died: address(c"ompi_rank_failure_cbfunc")?.cast(),
                open_port: find!(c"ompi_dpm_open_port"),
                start_processes: find!(c"ompi_dpm_spawn"),
                connect_accept: find!(c"ompi_dpm_connect_accept"),
                has_failed: find!(c"ompi_request_is_failed_fn"),
                rank: find!(c"PMPI_Comm_rank"),
                size: find!(c"PMPI_Comm_size"),
                group: find!(c"PMPI_Comm_group"),
                group_size: find!(c"PMPI_Group_size"),
                group_free: find!(c"PMPI_Group_free"),
                revoke: find!(c"PMPIX_Comm_revoke"),
                is_revoked: find!(c"PMPIX_Comm_is_revoked"),
                errhandler: find!(c"PMPI_Comm_get_errhandler"),
                set_errhandler: find!(c"PMPI_Comm_set_errhandler"),
                errhandler_free: find!(c"PMPI_Errhandler_free"),
                info_from_fortran: find!(c"PMPI_Info_f2c"),
                info_dup: find!(c"PMPI_Info_dup"),
                info_free: find!(c"PMPI_Info_free"),
                info_of: find!(c"PMPI_Comm_get_info"),
                info_get: find!(c"PMPI_Info_get"),
                copy_value: find!(c"PMIx_Value_xfer"),
                spawn: find!(c"PMIx_Spawn_nb"),
                publish: find!(c"PMIx_Publish_nb"),
                unpublish: find!(c"PMIx_Unpublish_nb"),
                look_up: find!(c"PMIx_Lookup_nb"),
                connect: find!(c"PMIx_Connect_nb"),
            })
        }
    }

    /// Exchanges what a program without threads waits for; `None` in one with threads, where nothing is changed.
    pub fn exchange_waiting(&self, sync: *mut Sync) -> Option<*mut Sync> {
        // SAFETY: variables of Open MPI, of which the second is changed by the only thread.
        unsafe { (!*self.uses_threads).then(|| self.waiting.replace(sync)) }
    }

    /// The function of the module that carries messages which receives, and blocks.
    pub fn receive(&self) -> Receive {
        // SAFETY: a table of functions, in the order of pml.h.
        unsafe { self.messages.add(RECEIVE).cast::<Receive>().read() }
    }

    /// The function that sends, and blocks.
    pub fn send(&self) -> Send {
        // SAFETY: as above.
        unsafe { self.messages.add(SEND).cast::<Send>().read() }
    }

    /// The answer of one of MPI's functions that cannot fail.
    ///
    /// # Safety
    /// An object that lives, of the kind of the function.
    pub unsafe fn answer(&self, function: unsafe extern "C" fn(Handle, *mut c_int) -> c_int, of: Handle) -> c_int {
        let mut answer = 0;
        // SAFETY: as required of the caller.
        unsafe { function(of, &mut answer) };
        answer
    }

    /// # Safety
    /// A communicator that lives.
    pub unsafe fn is_revoked(&self, comm: Handle) -> bool {
        // SAFETY: as required of the caller.
        unsafe { self.answer(self.is_revoked, comm) != 0 }
    }

    /// Whether a member is known to be dead.
    ///
    /// # Safety
    /// A communicator that lives.
    pub unsafe fn has_dead_members(&self, comm: Handle) -> bool {
        let Some(mpi) = OpenMpi::get() else { return false };
        // SAFETY: as required of the caller; the group is given back.
        unsafe {
            let mut group = mpi.dead_members(comm);
            let dead = self.answer(self.group_size, group);
            (self.group_free)(&mut group);
            dead > 0
        }
    }

    /// Whether constructors called with a communicator have uniform errors, as ringwatch's plugin has it say.
    ///
    /// # Safety
    /// A communicator that lives.
    pub unsafe fn has_uniform_errors(&self, comm: Handle) -> bool {
        let (mut info, mut word, mut is_there) = (std::ptr::null_mut(), [0 as c_char; 16], 0);
        let length = word.len() as c_int - 1;
        // SAFETY: as required of the caller, and room for the answers; the info is given back.
        unsafe {
            if (self.info_of)(comm, &mut info) != 0 {
                return false;
            }
            let code = (self.info_get)(info, UNIFORM.as_ptr(), length, word.as_mut_ptr(), &mut is_there);
            (self.info_free)(&mut info);
            code == 0 && is_there != 0 && CStr::from_ptr(word.as_ptr()) != c"local"
        }
    }

    /// Whether the operation of a fiber cannot come about any more.
    pub fn is_hopeless(&self, fiber: &Fiber) -> bool {
        let lost = |comm: Handle| {
            // SAFETY: the communicators of an operation under way live.
            !comm.is_null() && unsafe { self.is_revoked(comm) || self.has_dead_members(comm) }
        };
        OpenMpi::get().is_some_and(OpenMpi::is_over) || fiber.depends_on.get().into_iter().any(lost)
    }
}
