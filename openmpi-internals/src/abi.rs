//! Types of functions of Open MPI: of those that have [names](crate::v5_0::functions).

use std::ffi::{c_char, c_int, c_void};

use crate::object::Object;
use crate::request::Request;
use crate::v5_0::layout;

/// A part of MPI's progress loop (opal_progress.h).
pub type Progress = unsafe extern "C-unwind" fn() -> c_int;

/// `ompi_comm_nextcid_nb` (communicator.h): what is being made, what it is made of, the bridge, two arguments of the
/// mode, whether this leader sends first, the mode, and the request.
#[rustfmt::skip]
pub type NextCid =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;

/// `ompi_comm_activate_nb` (communicator.h): the same, with the place of what is being made.
#[rustfmt::skip]
pub type Activate =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;

/// `ompi_comm_nextcid`: as [`NextCid`], and blocks.
pub type NextCidAndWait =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int) -> c_int;

/// `ompi_comm_activate`: as [`Activate`], and blocks.
pub type ActivateAndWait =
    unsafe extern "C" fn(*mut Object, Object, Object, *const c_void, *const c_void, bool, c_int) -> c_int;

/// `ompi_comm_set` (communicator.h): the place of what is made, what it is made of, for each side a size and a list of
/// ranks, which is not read where there is a group; attributes, error handler, the groups, and flags.
#[rustfmt::skip]
pub type CommSet = unsafe extern "C" fn(
    *mut Object, Object, c_int, *mut c_int, c_int, *mut c_int, Object, Object, Object, Object, u32,
) -> c_int;

/// `ompi_comm_set_nb`: the same, with a request.
#[rustfmt::skip]
pub type CommSetNb = unsafe extern "C" fn(
    *mut Object, Object, c_int, *mut c_int, c_int, *mut c_int, Object, Object, Object, Object, u32, *mut *mut Request,
) -> c_int;

/// `ompi_comm_split`: the communicator, color and key, the place, and whether a topology is kept.
pub type CommSplit = unsafe extern "C" fn(Object, c_int, c_int, *mut Object, bool) -> c_int;
/// `ompi_comm_split_with_info`
pub type CommSplitWithInfo = unsafe extern "C" fn(Object, c_int, c_int, Object, *mut Object, bool) -> c_int;
/// `ompi_comm_split_type`
pub type CommSplitType = unsafe extern "C" fn(Object, c_int, c_int, Object, *mut Object) -> c_int;
/// `ompi_comm_create_w_info`
pub type CommCreateWithInfo = unsafe extern "C" fn(Object, Object, Object, *mut Object) -> c_int;
/// `ompi_comm_dup`
pub type CommDup = unsafe extern "C" fn(Object, *mut Object) -> c_int;
/// `ompi_comm_dup_with_info`
pub type CommDupWithInfo = unsafe extern "C" fn(Object, Object, *mut Object) -> c_int;
/// `ompi_comm_idup`
pub type CommIdup = unsafe extern "C" fn(Object, *mut Object, *mut *mut Request) -> c_int;
/// `ompi_comm_idup_with_info`
pub type CommIdupWithInfo = unsafe extern "C" fn(Object, Object, *mut Object, *mut *mut Request) -> c_int;
/// `ompi_comm_create_group`, whose arguments are those of MPI's function.
pub type CommCreateGroup = unsafe extern "C" fn(Object, Object, c_int, *mut Object) -> c_int;
/// `ompi_comm_create_from_group`
pub type CommCreateFromGroup = unsafe extern "C" fn(Object, *const c_char, Object, Object, *mut Object) -> c_int;
/// `ompi_intercomm_create`
pub type IntercommCreate = unsafe extern "C" fn(Object, c_int, Object, c_int, c_int, *mut Object) -> c_int;
/// `ompi_intercomm_create_from_groups`
#[rustfmt::skip]
pub type IntercommCreateFromGroups =
    unsafe extern "C" fn(Object, c_int, Object, c_int, *const c_char, Object, Object, *mut Object) -> c_int;
/// `ompi_comm_free`
pub type CommFree = unsafe extern "C" fn(*mut Object) -> c_int;
/// `ompi_comm_revoke_internal`, and others that take an object alone.
pub type OnObject = unsafe extern "C" fn(Object) -> c_int;
/// `ompi_comm_get_failed_internal`: the communicator, and the place of a new group.
pub type CommGetFailed = unsafe extern "C" fn(Object, *mut Object) -> c_int;
/// `ompi_comm_ack_failed_internal`: the communicator, how many are to be acknowledged, and how many are.
pub type CommAckFailed = unsafe extern "C" fn(Object, c_int, *mut c_int) -> c_int;
/// `ompi_comm_ishrink_internal`: the communicator, the place of the new one, and the request.
pub type CommIshrink = unsafe extern "C" fn(Object, *mut Object, *mut *mut Request) -> c_int;
/// `ompi_comm_rank_failure_callback_t`: a member of a communicator is dead, of the other group if that is said.
pub type MemberDied = unsafe extern "C" fn(Object, c_int, bool);

/// `ompi_comm_request_callback_fn_t`: a step of a schedule.
pub type CommRequestCallback = unsafe extern "C" fn(*mut Request) -> c_int;
/// `ompi_comm_request_schedule_append`: the schedule, the step, and what it waits for.
pub type CommRequestAppend =
    unsafe extern "C" fn(*mut Request, Option<CommRequestCallback>, *const *mut Request, c_int) -> c_int;
/// `ompi_comm_request_schedule_append_w_flags`
pub type CommRequestAppendWithFlags =
    unsafe extern "C" fn(*mut Request, Option<CommRequestCallback>, *const *mut Request, c_int, u32) -> c_int;

/// `mca_coll_ftagree_iera_intra` (coll_ftagree.h): the contribution and where the result is put, how many values, of
/// which type, the operation, which processes are acknowledged to be dead and whether that is brought up to date, the
/// communicator, the request, and the module.
pub type Agree =
    unsafe extern "C" fn(Object, c_int, Object, Object, *mut Object, bool, Object, *mut *mut Request, Object) -> c_int;
/// The same of any release: the second argument is an `int` in 5.0, and a `size_t` in 6.0.
pub type AgreeInAnyRelease =
    unsafe extern "C" fn(Object, usize, Object, Object, *mut Object, bool, Object, *mut *mut Request, Object) -> c_int;
/// `mca_coll_ftagree_comm_query`: the communicator, and the priority of the module that is returned.
pub type CollCommQuery = unsafe extern "C" fn(Object, *mut c_int) -> Object;
/// `ompi_coll_base_retain_op` and `ompi_coll_base_retain_datatypes` (coll_base_util.h)
pub type CollBaseRetain = unsafe extern "C" fn(*mut Request, Object, Object) -> c_int;
/// `ompi_coll_base_sendrecv_actual` (coll_base_util.h)
#[rustfmt::skip]
pub type CollBaseSendrecv = unsafe extern "C" fn(
    *const u8, usize, Object, c_int, c_int, *mut u8, usize, Object, c_int, c_int, Object, Object,
) -> c_int;
/// `mca_topo_base_dist_graph_distribute` (topo/base/base.h)
#[rustfmt::skip]
pub type DistGraphDistribute = unsafe extern "C" fn(
    Object, Object, c_int, *const c_int, *const c_int, *const c_int, *const c_int, *mut Object,
) -> c_int;

/// `ompi_dpm_connect_accept` (dpm.h): the communicator, the root, the port, whether this side connects, and the place.
pub type DpmConnectAccept = unsafe extern "C" fn(Object, c_int, *const c_char, bool, *mut Object) -> c_int;
/// `ompi_dpm_spawn` (dpm.h): how many programs; of each command, arguments, number and info; and the port.
#[rustfmt::skip]
pub type DpmSpawn = unsafe extern "C" fn(
    c_int, *const *const c_char, *const *const *const c_char, *const c_int, *const Object, *const c_char,
) -> c_int;
/// `ompi_dpm_open_port` (dpm.h)
pub type DpmOpenPort = unsafe extern "C" fn(*mut c_char) -> c_int;
/// `opal_pmix_base_exchange` (pmix-internal.h): what is published, what is asked for, and a time; structs of PMIx.
pub type PmixExchange<Info, Data> = unsafe extern "C" fn(*const Info, *mut Data, c_int) -> c_int;

/// `ompi_errhandler_invoke` (errhandler.h): the handler, the object and its kind, the error, and the name of the
/// function.
pub type ErrhandlerInvoke = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int, c_int, *const c_char) -> c_int;
/// `ompi_proc_pack` (proc.h): processes, how many, and a buffer of PMIx.
pub type ProcPack = unsafe extern "C" fn(*const Object, c_int, Object) -> c_int;
/// `ompi_proc_unpack` (proc.h): a buffer of PMIx, how many processes, the processes, and those that are new.
pub type ProcUnpack<Buffer> = unsafe extern "C" fn(*const Buffer, c_int, *mut Object, *mut c_int, *mut Object) -> c_int;
/// `ompi_request_is_failed_fn` (req_ft.h): whether an operation has failed, which ends it.
pub type RequestIsFailed = unsafe extern "C" fn(*mut Request) -> bool;

/// `ompi_osc_base_select` (osc/base/base.h): makes a window.
pub type OscSelect = unsafe extern "C" fn(Object, *mut Object, usize, c_int, Object, c_int, *mut c_int) -> c_int;
/// `ompi_osc_get_data_blocking` (osc_rdma_comm.h): asks a process for what lies in its memory, and waits for the
/// answer.
pub type OscGetData = unsafe extern "C-unwind" fn(Object, u8, Object, u64, Object, Object, usize) -> c_int;
/// `mca_io_base_file_select` (io/base/base.h): opens a file.
pub type FileSelect = unsafe extern "C" fn(Object, Object) -> c_int;

/// `mca_btl_tcp_endpoint_close` (btl_tcp_endpoint.h)
pub type EndpointClose = unsafe extern "C" fn(Object);
/// `mca_btl_tcp_endpoint_send` (btl_tcp_endpoint.h)
pub type EndpointSend = unsafe extern "C" fn(Object, Object) -> c_int;
/// `mca_pml_base_module_isend_fn_t` (pml.h): where what is sent is, how many of which type; to which rank with which
/// tag and mode, on which communicator; and the request.
pub type Isend =
    unsafe extern "C-unwind" fn(*const c_void, usize, Object, c_int, c_int, c_int, Object, *mut *mut Request) -> c_int;
/// `mca_pml_base_module_send_fn_t` (pml.h): the same, and blocks.
pub type Send = unsafe extern "C-unwind" fn(*const c_void, usize, Object, c_int, c_int, c_int, Object) -> c_int;

/// `opal_pointer_array_set_item` (opal_pointer_array.h): the table, the place, the value.
pub type SetItem = unsafe extern "C" fn(Object, c_int, Object) -> c_int;
/// `opal_pointer_array_test_and_set_item`: the same, and only where nothing stands.
pub type TestAndSetItem = unsafe extern "C" fn(Object, c_int, Object) -> bool;

/// `pml_revoke_comm` (pml.h): what is interrupted, and whether only its collectives.
pub type Interrupt = unsafe extern "C" fn(Object, bool) -> c_int;

/// `opal_key_changed` of info_subscriber.h: called with the present value of an info key; returns what the communicator
/// shall show, or null for nothing.
pub type KeyChanged = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *const c_char;
/// `MPI_Comm_copy_attr_function`
#[rustfmt::skip]
pub type CopyAttribute =
    unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;
/// `MPI_Comm_delete_attr_function`
pub type DeleteAttribute = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void) -> c_int;

/// `mca_base_component_var_register` (mca_base_var.h)
#[rustfmt::skip]
pub type VarRegister = unsafe extern "C" fn(
    *const c_void, *const c_char, *const c_char, c_int, *mut c_void, c_int, c_int, c_int, c_int, *mut c_void,
) -> c_int;
/// `mca_base_var_find` (mca_base_var.h): project, framework, component, name.
pub type VarFind = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *const c_char) -> c_int;
/// `mca_base_var_get_value` (mca_base_var.h): the number, its storage, the source of its value, and the file of that
/// source.
pub type VarGetValue = unsafe extern "C" fn(c_int, *mut *mut c_void, *mut c_int, *mut *const c_char) -> c_int;

/// `mca_base_var_enum_value_t`: a word, and the value that it stands for.
#[repr(C)]
pub struct Choice {
    pub(crate) value: c_int,
    pub(crate) word: *const c_char,
}

const _: () = assert!(std::mem::offset_of!(Choice, value) == layout::mca_var::VALUE);
const _: () = assert!(std::mem::offset_of!(Choice, word) == layout::mca_var::STRING);
const _: () = assert!(size_of::<Choice>() == layout::mca_var::SIZE);
