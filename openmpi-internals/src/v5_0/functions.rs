//! The functions of Open MPI 5.0 that ringwatch calls or stands in front of, by their names and with their types.
//!
//! What the standard names (`PMPI_...`) and what PMIx and libevent have is not here.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::*;
use crate::object::{Class, Object};
use crate::process_name::ProcessName;
use crate::request::Request;
use crate::symbol::Function;
use crate::wait_sync::WaitSync;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $type:ty;)*) => {
        $($(#[$doc])*
        // SAFETY: the type is that of the header which is named.
        pub const $name: Function<$type> = unsafe { Function::new($text) };)*

        /// All of these names.
        pub const NAMES: &[&CStr] = &[$($text,)* OPAL_PMIX_BASE_EXCHANGE, OMPI_PROC_UNPACK];
    };
}

const OPAL_PMIX_BASE_EXCHANGE: &CStr = c"opal_pmix_base_exchange";
const OMPI_PROC_UNPACK: &CStr = c"ompi_proc_unpack";

/// How a root asks another one through the runtime; `Info` and `Data` are `pmix_info_t` and `pmix_pdata_t`
/// (pmix-internal.h).
///
/// # Safety
/// They are.
pub const unsafe fn opal_pmix_base_exchange<Info, Data>() -> Function<PmixExchange<Info, Data>> {
    // SAFETY: as required of the caller.
    unsafe { Function::new(OPAL_PMIX_BASE_EXCHANGE) }
}

/// Takes a list of processes apart; `Buffer` is `pmix_data_buffer_t` (proc.h).
///
/// # Safety
/// It is.
pub const unsafe fn ompi_proc_unpack<Buffer>() -> Function<ProcUnpack<Buffer>> {
    // SAFETY: as required of the caller.
    unsafe { Function::new(OMPI_PROC_UNPACK) }
}

functions! {
    // communicator.h
    /// Settles the number of a communicator that is being made.
    OMPI_COMM_NEXTCID_NB = c"ompi_comm_nextcid_nb": NextCid;
    /// The same, and blocks.
    OMPI_COMM_NEXTCID = c"ompi_comm_nextcid": NextCidAndWait;
    /// Gives a communicator that has its number its collectives.
    OMPI_COMM_ACTIVATE_NB = c"ompi_comm_activate_nb": Activate;
    /// The same, and blocks.
    OMPI_COMM_ACTIVATE = c"ompi_comm_activate": ActivateAndWait;
    /// Makes a communicator without a number.
    OMPI_COMM_SET = c"ompi_comm_set": CommSet;
    /// The same without blocking.
    OMPI_COMM_SET_NB = c"ompi_comm_set_nb": CommSetNb;
    /// `MPI_Comm_dup`
    OMPI_COMM_DUP = c"ompi_comm_dup": CommDup;
    /// `MPI_Comm_dup_with_info`
    OMPI_COMM_DUP_WITH_INFO = c"ompi_comm_dup_with_info": CommDupWithInfo;
    /// `MPI_Comm_idup`
    OMPI_COMM_IDUP = c"ompi_comm_idup": CommIdup;
    /// `MPI_Comm_idup_with_info`
    OMPI_COMM_IDUP_WITH_INFO = c"ompi_comm_idup_with_info": CommIdupWithInfo;
    /// `MPI_Comm_split`
    OMPI_COMM_SPLIT = c"ompi_comm_split": CommSplit;
    /// The same with an info object.
    OMPI_COMM_SPLIT_WITH_INFO = c"ompi_comm_split_with_info": CommSplitWithInfo;
    /// `MPI_Comm_split_type`
    OMPI_COMM_SPLIT_TYPE = c"ompi_comm_split_type": CommSplitType;
    /// `MPI_Comm_create`
    OMPI_COMM_CREATE_W_INFO = c"ompi_comm_create_w_info": CommCreateWithInfo;
    /// `MPI_Comm_create_group`
    OMPI_COMM_CREATE_GROUP = c"ompi_comm_create_group": CommCreateGroup;
    /// `MPI_Comm_create_from_group`
    OMPI_COMM_CREATE_FROM_GROUP = c"ompi_comm_create_from_group": CommCreateFromGroup;
    /// `MPI_Intercomm_create`
    OMPI_INTERCOMM_CREATE = c"ompi_intercomm_create": IntercommCreate;
    /// `MPI_Intercomm_create_from_groups`
    OMPI_INTERCOMM_CREATE_FROM_GROUPS = c"ompi_intercomm_create_from_groups": IntercommCreateFromGroups;
    /// `MPI_Comm_free`
    OMPI_COMM_FREE = c"ompi_comm_free": CommFree;
    /// `MPIX_Comm_revoke`
    OMPI_COMM_REVOKE_INTERNAL = c"ompi_comm_revoke_internal": OnObject;
    /// `MPIX_Comm_get_failed`
    OMPI_COMM_GET_FAILED_INTERNAL = c"ompi_comm_get_failed_internal": CommGetFailed;
    /// `MPIX_Comm_ack_failed`
    OMPI_COMM_ACK_FAILED_INTERNAL = c"ompi_comm_ack_failed_internal": CommAckFailed;
    /// `MPIX_Comm_failure_ack`
    OMPI_COMM_FAILURE_ACK_INTERNAL = c"ompi_comm_failure_ack_internal": OnObject;
    /// `MPIX_Comm_ishrink`, which 5.0 has only inside.
    OMPI_COMM_ISHRINK_INTERNAL = c"ompi_comm_ishrink_internal": CommIshrink;
    /// A copy function of attributes that copies none (attribute.h).
    OMPI_C_MPI_COMM_NULL_COPY_FN = c"OMPI_C_MPI_COMM_NULL_COPY_FN": CopyAttribute;

    // comm_request.h
    /// A new schedule.
    OMPI_COMM_REQUEST_GET = c"ompi_comm_request_get": unsafe extern "C" fn() -> *mut Request;
    /// Starts a schedule.
    OMPI_COMM_REQUEST_START = c"ompi_comm_request_start": unsafe extern "C" fn(*mut Request);
    /// Gives a schedule back.
    OMPI_COMM_REQUEST_RETURN = c"ompi_comm_request_return": unsafe extern "C" fn(*mut Request);
    /// Appends a step to a schedule.
    OMPI_COMM_REQUEST_SCHEDULE_APPEND = c"ompi_comm_request_schedule_append": CommRequestAppend;
    /// The same with flags.
    OMPI_COMM_REQUEST_SCHEDULE_APPEND_W_FLAGS = c"ompi_comm_request_schedule_append_w_flags":
        CommRequestAppendWithFlags;

    // dpm.h
    /// Meets another group, as `MPI_Comm_accept` and `MPI_Comm_connect` do.
    OMPI_DPM_CONNECT_ACCEPT = c"ompi_dpm_connect_accept": DpmConnectAccept;
    /// Has processes spawned.
    OMPI_DPM_SPAWN = c"ompi_dpm_spawn": DpmSpawn;
    /// `MPI_Open_port`
    OMPI_DPM_OPEN_PORT = c"ompi_dpm_open_port": DpmOpenPort;

    // coll_ftagree.h, coll_base_util.h, topo/base/base.h
    /// Begins an agreement.
    MCA_COLL_FTAGREE_IERA_INTRA = c"mca_coll_ftagree_iera_intra": Agree;
    /// The same, in whatever release.
    MCA_COLL_FTAGREE_IERA_INTRA_IN_ANY_RELEASE = c"mca_coll_ftagree_iera_intra": AgreeInAnyRelease;
    /// A module that counts the agreements of a communicator; null without fault tolerance.
    MCA_COLL_FTAGREE_COMM_QUERY = c"mca_coll_ftagree_comm_query": CollCommQuery;
    /// Keeps the types that a request needs.
    OMPI_COLL_BASE_RETAIN_DATATYPES = c"ompi_coll_base_retain_datatypes": CollBaseRetain;
    /// Keeps the operation and the type that a request needs.
    OMPI_COLL_BASE_RETAIN_OP = c"ompi_coll_base_retain_op": CollBaseRetain;
    /// Sends and receives.
    OMPI_COLL_BASE_SENDRECV_ACTUAL = c"ompi_coll_base_sendrecv_actual": CollBaseSendrecv;
    /// Makes the part of a graph that concerns this process.
    MCA_TOPO_BASE_DIST_GRAPH_DISTRIBUTE = c"mca_topo_base_dist_graph_distribute": DistGraphDistribute;

    // errhandler.h, proc.h, request.h, req_ft.h, grequest.h
    /// Calls an error handler.
    OMPI_ERRHANDLER_INVOKE = c"ompi_errhandler_invoke": ErrhandlerInvoke;
    /// Marks a process as dead, and tells all communicators.
    OMPI_ERRHANDLER_PROC_FAILED_INTERNAL = c"ompi_errhandler_proc_failed_internal":
        unsafe extern "C" fn(Object, c_int, bool) -> c_int;
    /// A group of a list of processes, which may be unmet; it is like another one.
    OMPI_GROUP_ALLOCATE_PLIST_W_PROCS = c"ompi_group_allocate_plist_w_procs":
        unsafe extern "C" fn(Object, *mut usize, c_int) -> Object;
    /// All processes that are known, whose list and references are the caller's.
    OMPI_PROC_ALL = c"ompi_proc_all": unsafe extern "C" fn(*mut usize) -> *mut Object;
    /// The process of a name.
    OMPI_PROC_FOR_NAME = c"ompi_proc_for_name": unsafe extern "C" fn(ProcessName) -> Object;
    /// Makes a list of processes.
    OMPI_PROC_PACK = c"ompi_proc_pack": ProcPack;
    /// Whether an operation has failed, which ends it.
    OMPI_REQUEST_IS_FAILED_FN = c"ompi_request_is_failed_fn": RequestIsFailed;
    /// Completes a request.
    OMPI_GREQUEST_COMPLETE = c"ompi_grequest_complete": unsafe extern "C" fn(*mut Request) -> c_int;

    // osc, io
    /// Makes a window.
    OMPI_OSC_BASE_SELECT = c"ompi_osc_base_select": OscSelect;
    /// Asks a process for what lies in its memory, and waits.
    OMPI_OSC_GET_DATA_BLOCKING = c"ompi_osc_get_data_blocking": OscGetData;
    /// Takes a window of osc/rdma apart.
    OMPI_OSC_RDMA_FREE = c"ompi_osc_rdma_free": OnObject;
    /// Takes one of osc/sm apart.
    OMPI_OSC_SM_FREE = c"ompi_osc_sm_free": OnObject;
    /// Opens a file.
    MCA_IO_BASE_FILE_SELECT = c"mca_io_base_file_select": FileSelect;

    // btl_tcp_endpoint.h, pml_ob1.h
    /// Closes a connection.
    MCA_BTL_TCP_ENDPOINT_CLOSE = c"mca_btl_tcp_endpoint_close": EndpointClose;
    /// Sends on a connection, which it makes.
    MCA_BTL_TCP_ENDPOINT_SEND = c"mca_btl_tcp_endpoint_send": EndpointSend;
    /// Sends without blocking, with pml/ob1.
    MCA_PML_OB1_ISEND = c"mca_pml_ob1_isend": Isend;
    /// Sends, with pml/ob1.
    MCA_PML_OB1_SEND = c"mca_pml_ob1_send": Send;

    // opal
    /// One turn of the progress loop.
    OPAL_PROGRESS = c"opal_progress": Progress;
    /// Adds a part to the progress loop.
    OPAL_PROGRESS_REGISTER = c"opal_progress_register": unsafe extern "C" fn(Progress) -> c_int;
    /// Takes it out.
    OPAL_PROGRESS_UNREGISTER = c"opal_progress_unregister": unsafe extern "C" fn(Progress) -> c_int;
    /// Registers a wait for an event.
    OPAL_PROGRESS_EVENT_USERS_INCREMENT = c"opal_progress_event_users_increment": unsafe extern "C" fn();
    /// Changes a place of a table.
    OPAL_POINTER_ARRAY_SET_ITEM = c"opal_pointer_array_set_item": SetItem;
    /// Takes a place of a table where nothing stands.
    OPAL_POINTER_ARRAY_TEST_AND_SET_ITEM = c"opal_pointer_array_test_and_set_item": TestAndSetItem;
    /// The value of a process in a table.
    OPAL_PROC_TABLE_GET_VALUE = c"opal_proc_table_get_value":
        unsafe extern "C" fn(Object, ProcessName, *mut Object) -> c_int;
    /// Makes a class ready.
    OPAL_CLASS_INITIALIZE = c"opal_class_initialize": unsafe extern "C" fn(*mut Class);
    /// Has a function called when an info key is set.
    OPAL_INFOSUBSCRIBE_SUBSCRIBE = c"opal_infosubscribe_subscribe":
        unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, KeyChanged) -> c_int;
    /// Sets info keys.
    OPAL_INFOSUBSCRIBE_CHANGE_INFO = c"opal_infosubscribe_change_info":
        unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
    /// The number of a job.
    OPAL_PMIX_CONVERT_NSPACE = c"opal_pmix_convert_nspace": unsafe extern "C" fn(*mut u32, *const c_char) -> c_int;
    /// Waits in a program with threads.
    OMPI_SYNC_WAIT_MT = c"ompi_sync_wait_mt": unsafe extern "C" fn(*mut WaitSync) -> c_int;
    /// Makes all waits check again, in a program without threads.
    OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_ST = c"opal_threads_base_wait_sync_global_wakeup_st":
        unsafe extern "C" fn(c_int);
    /// The same in one with threads.
    OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_MT = c"opal_threads_base_wait_sync_global_wakeup_mt":
        unsafe extern "C" fn(c_int);

    // mca_base_framework.h, mca_base_var.h, mca_base_var_enum.h
    /// Makes the parameters of a framework known.
    MCA_BASE_FRAMEWORK_REGISTER = c"mca_base_framework_register": unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    /// Looks for a parameter.
    MCA_BASE_VAR_FIND = c"mca_base_var_find": VarFind;
    /// Its value.
    MCA_BASE_VAR_GET_VALUE = c"mca_base_var_get_value": VarGetValue;
    /// Makes a list of words.
    MCA_BASE_VAR_ENUM_CREATE = c"mca_base_var_enum_create":
        unsafe extern "C" fn(*const c_char, *const Choice, *mut *mut c_void) -> c_int;
    /// Makes a parameter.
    MCA_BASE_COMPONENT_VAR_REGISTER = c"mca_base_component_var_register": VarRegister;
}
