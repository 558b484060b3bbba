//! Structs of Open MPI 5.0 on x86-64: offsets and sizes in bytes, places in tables, and values, by Open MPI's own
//! names.
//!
//! The one list of them. `tests/layout.rs` has the C compiler compare each line with the headers of the installed
//! release, and fails where one differs.

use std::ffi::c_int;

/// What the C compiler has to find for a line of this file.
pub struct Fact {
    /// The header, or the source file, which says it.
    pub header: &'static str,
    /// An expression in C.
    pub expression: &'static str,
    /// Its value.
    pub value: i64,
}

/// The expression in C of a line: where a struct has a member, in bytes, in words (of a table of functions) or in pairs
/// of words (functions, each with its module); how large it is; or a constant.
macro_rules! expression {
    ($type:literal offset $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ")")
    };
    ($type:literal slot $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ") / sizeof(void *)")
    };
    ($type:literal pair $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ") / (2 * sizeof(void *))")
    };
    ($type:literal size) => {
        concat!("sizeof(", $type, ")")
    };
    ($type:literal slots) => {
        concat!("sizeof(", $type, ") / sizeof(void *)")
    };
    ($type:literal value $constant:literal) => {
        $constant
    };
}

/// A module for each struct, with a constant for each line; and all lines as [`FACTS`].
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        mod $module:ident: $type:literal in $header:literal {
            $($(#[$note:meta])* $name:ident: $rust:ty = $value:literal, $kind:ident $($member:literal)?;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                #[allow(unused_imports, reason = "of some modules alone")]
                use super::c_int;
                $($(#[$note])* pub const $name: $rust = $value;)*
            }
        )*
        /// All that this file says of Open MPI.
        pub const FACTS: &[Fact] = &[$($(Fact {
            header: $header,
            expression: expression!($type $kind $($member)?),
            value: $module::$name as i64,
        },)*)*];
    };
}

layout! {
    /// An object: all others begin with it.
    mod object: "struct opal_object_t" in "opal/class/opal_object.h" {
        /// Its class.
        OBJ_CLASS: usize = 0, offset "obj_class";
        /// How many owners it has.
        OBJ_REFERENCE_COUNT: usize = 8, offset "obj_reference_count";
        /// Bytes of it.
        SIZE: usize = 16, size;
    }

    /// The class of objects.
    mod class: "struct opal_class_t" in "opal/class/opal_object.h" {
        /// Its constructors, behind the last of which null stands.
        CLS_CONSTRUCT_ARRAY: usize = 40, offset "cls_construct_array";
        /// Its destructors, the same.
        CLS_DESTRUCT_ARRAY: usize = 48, offset "cls_destruct_array";
        /// Bytes of its objects.
        CLS_SIZEOF: usize = 56, offset "cls_sizeof";
    }

    /// A list.
    mod list: "struct opal_list_t" in "opal/class/opal_list.h" {
        /// What stands before its first item, and after its last.
        OPAL_LIST_SENTINEL: usize = 0x10, offset "opal_list_sentinel";
        /// How many items are in it.
        OPAL_LIST_LENGTH: usize = 0x38, offset "opal_list_length";
        /// Bytes of it.
        SIZE: usize = 0x40, size;
    }

    /// An item of a list.
    mod list_item: "struct opal_list_item_t" in "opal/class/opal_list.h" {
        /// The item after it.
        OPAL_LIST_NEXT: usize = 0x10, offset "opal_list_next";
        /// The item before it.
        OPAL_LIST_PREV: usize = 0x18, offset "opal_list_prev";
        /// Bytes of it.
        SIZE: usize = 0x28, size;
    }

    /// The name of a process.
    mod process_name: "opal_process_name_t" in "opal/util/proc.h" {
        /// Its job.
        JOBID: usize = 0, offset "jobid";
        /// Its rank in that.
        VPID: usize = 4, offset "vpid";
        /// Bytes of it.
        SIZE: usize = 8, size;
    }

    /// A process, as the transports know it.
    mod opal_proc: "struct opal_proc_t" in "opal/util/proc.h" {
        /// Its name.
        PROC_NAME: usize = 0x28, offset "proc_name";
    }

    /// A process.
    mod proc: "struct ompi_proc_t" in "ompi/proc/proc.h" {
        /// Its name.
        PROC_NAME: usize = 0x28, offset "super.proc_name";
        /// Whether it is not known to be dead.
        PROC_ACTIVE: usize = 0x40, offset "proc_active";
        /// Its endpoints, by the kind of transport.
        PROC_ENDPOINTS: usize = 0x48, offset "proc_endpoints";
        /// How many kinds there are at most.
        ENDPOINTS: usize = 4, value "sizeof(((struct ompi_proc_t *) 0)->proc_endpoints) / sizeof(void *)";
        /// Bytes of it.
        SIZE: usize = 0x78, size;
    }

    /// A group.
    mod group: "struct ompi_group_t" in "ompi/group/group.h" {
        /// How many are in it.
        GRP_PROC_COUNT: usize = 0x10, offset "grp_proc_count";
        /// The rank of this process.
        GRP_MY_RANK: usize = 0x14, offset "grp_my_rank";
        /// Its processes, if it is dense.
        GRP_PROC_POINTERS: usize = 0x20, offset "grp_proc_pointers";
        /// Flags.
        GRP_FLAGS: usize = 0x28, offset "grp_flags";
        /// The flag of a group that is a list of its processes.
        OMPI_GROUP_DENSE: u32 = 4, value "OMPI_GROUP_DENSE";
    }

    /// A communicator.
    mod communicator: "struct ompi_communicator_t" in "ompi/communicator/communicator.h" {
        /// Its context id. Where no number is settled (`MPI_Comm_create_from_group`), the number of the group in the
        /// runtime.
        C_CONTEXTID: usize = 0xa8, offset "c_contextid";
        /// The second word of that: the number that all members have.
        CID_SUB: usize = 0xb0, offset "c_contextid.cid_sub";
        /// Its number in this process.
        C_INDEX: usize = 0xd8, offset "c_index";
        /// The rank of this process.
        C_MY_RANK: usize = 0xdc, offset "c_my_rank";
        /// Flags.
        C_FLAGS: usize = 0xe0, offset "c_flags";
        /// Its epoch.
        C_EPOCH: usize = 0xe8, offset "c_epoch";
        /// The group that this process is in.
        C_LOCAL_GROUP: usize = 0x108, offset "c_local_group";
        /// The other one, the same if there is one.
        C_REMOTE_GROUP: usize = 0x110, offset "c_remote_group";
        /// The communicator of the own group that one with two is made with.
        C_LOCAL_COMM: usize = 0x118, offset "c_local_comm";
        /// The table of its attributes, null if it has none.
        C_KEYHASH: usize = 0x120, offset "c_keyhash";
        /// The table of its collective functions.
        C_COLL: usize = 0x158, offset "c_coll";
        /// Whether it is revoked.
        COMM_REVOKED: usize = 0x179, offset "comm_revoked";
        /// Whether collectives fail, because a member is dead.
        COLL_REVOKED: usize = 0x17a, offset "coll_revoked";
        /// Bytes of it.
        SIZE: usize = 384, size;
        /// The flag of one that `MPI_Init` makes.
        OMPI_COMM_INTRINSIC: u32 = 4, value "OMPI_COMM_INTRINSIC";
        /// The flag of one with members of several jobs.
        OMPI_COMM_DYNAMIC: u32 = 8, value "OMPI_COMM_DYNAMIC";
        /// The flag of one whose number is the same at all members.
        OMPI_COMM_GLOBAL_INDEX: u32 = 0x0001_0000, value "OMPI_COMM_GLOBAL_INDEX";
        /// What stands for one that is being made.
        OMPI_COMM_SENTINEL: usize = 1, value "OMPI_COMM_SENTINEL";
    }

    /// How the number of a communicator is settled.
    mod cid_mode: "int" in "ompi/communicator/communicator.h" {
        /// In one group.
        OMPI_COMM_CID_INTRA: c_int = 0x20, value "OMPI_COMM_CID_INTRA";
        /// In two groups.
        OMPI_COMM_CID_INTER: c_int = 0x40, value "OMPI_COMM_CID_INTER";
        /// In two groups whose leaders meet in a third communicator.
        OMPI_COMM_CID_INTRA_BRIDGE: c_int = 0x80, value "OMPI_COMM_CID_INTRA_BRIDGE";
        /// In two groups whose leaders meet in the runtime.
        OMPI_COMM_CID_INTRA_PMIX: c_int = 0x100, value "OMPI_COMM_CID_INTRA_PMIX";
        /// By the members of a group alone.
        OMPI_COMM_CID_GROUP: c_int = 0x200, value "OMPI_COMM_CID_GROUP";
        /// By the members of a group that has no communicator.
        OMPI_COMM_CID_GROUP_NEW: c_int = 0x400, value "OMPI_COMM_CID_GROUP_NEW";
        /// By the living members of a group.
        OMPI_COMM_CID_INTRA_FT: c_int = 0x800, value "OMPI_COMM_CID_INTRA_FT";
        /// By the living members of two.
        OMPI_COMM_CID_INTER_FT: c_int = 0x1000, value "OMPI_COMM_CID_INTER_FT";
    }

    /// A schedule of steps that makes a communicator.
    mod comm_request: "struct ompi_comm_request_t" in "ompi/communicator/comm_request.h" {
        /// Its request.
        SUPER: usize = 0, offset "super";
        /// What its steps know.
        CONTEXT: usize = 0xa0, offset "context";
        /// Its steps.
        SCHEDULE: usize = 0xa8, offset "schedule";
        /// Bytes of it.
        SIZE: usize = 0xe8, size;
        /// The flag of a step whose requests are freed by the code that appends it.
        OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ: u32 = 1, value "OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ";
        /// How many requests a step waits for at most.
        OMPI_COMM_REQUEST_MAX_SUBREQ: usize = 2, value "OMPI_COMM_REQUEST_MAX_SUBREQ";
    }

    /// A step of a schedule.
    mod comm_request_item: "struct ompi_comm_request_item_t" in "ompi/communicator/comm_request.c" {
        /// What is called when its requests have completed.
        CALLBACK: usize = 0x28, offset "callback";
        /// Its requests.
        SUBREQS: usize = 0x30, offset "subreqs";
        /// Flags.
        FLAGS: usize = 0x40, offset "flags";
        /// How many requests it has.
        SUBREQ_COUNT: usize = 0x44, offset "subreq_count";
        /// Bytes of it.
        SIZE: usize = 0x48, size;
    }

    /// The table of collective functions of a communicator: places of pairs of a function and its module.
    mod coll: "mca_coll_base_comm_coll_t" in "ompi/mca/coll/coll.h" {
        /// `MPI_Allgather`
        ALLGATHER: usize = 0, pair "coll_allgather";
        /// `MPI_Allgatherv`
        ALLGATHERV: usize = 1, pair "coll_allgatherv";
        /// `MPI_Allreduce`
        ALLREDUCE: usize = 2, pair "coll_allreduce";
        /// `MPI_Alltoall`
        ALLTOALL: usize = 3, pair "coll_alltoall";
        /// `MPI_Alltoallv`
        ALLTOALLV: usize = 4, pair "coll_alltoallv";
        /// `MPI_Barrier`
        BARRIER: usize = 6, pair "coll_barrier";
        /// `MPI_Bcast`
        BCAST: usize = 7, pair "coll_bcast";
        /// `MPI_Exscan`
        EXSCAN: usize = 8, pair "coll_exscan";
        /// `MPI_Gather`
        GATHER: usize = 9, pair "coll_gather";
        /// `MPI_Reduce`
        REDUCE: usize = 11, pair "coll_reduce";
        /// `MPI_Reduce_scatter`
        REDUCE_SCATTER: usize = 12, pair "coll_reduce_scatter";
        /// `MPI_Reduce_scatter_block`
        REDUCE_SCATTER_BLOCK: usize = 13, pair "coll_reduce_scatter_block";
        /// `MPI_Scan`
        SCAN: usize = 14, pair "coll_scan";
        /// `MPI_Scatter`
        SCATTER: usize = 15, pair "coll_scatter";
        /// The first non-blocking one: the others follow in the same order.
        NONBLOCKING: usize = 17, pair "coll_iallgather";
        /// The first persistent one.
        PERSISTENT: usize = 34, pair "coll_allgather_init";
        /// The first one among neighbours.
        NEIGHBOR: usize = 51, pair "coll_neighbor_allgather";
        /// The first non-blocking one among neighbours.
        INEIGHBOR: usize = 56, pair "coll_ineighbor_allgather";
        /// The first persistent one among neighbours.
        NEIGHBOR_INIT: usize = 61, pair "coll_neighbor_allgather_init";
        /// The agreement without blocking.
        IAGREE: usize = 68, pair "coll_iagree";
        /// The module of that, in bytes.
        IAGREE_MODULE: usize = 1096, offset "coll_iagree_module";
    }

    /// A module of collectives.
    mod coll_module: "mca_coll_base_module_t" in "ompi/mca/coll/coll.h" {
        /// The function that is called when it is chosen.
        COLL_MODULE_ENABLE: usize = 16, offset "coll_module_enable";
        /// Its first function: they follow in the order of the table.
        COLL_ALLGATHER: usize = 24, offset "coll_allgather";
    }

    /// Agreements.
    mod ftagree: "int" in "ompi/mca/coll/ftagree/coll_ftagree.h" {
        /// The algorithm that agrees without blocking.
        COLL_FTAGREE_EARLY_RETURNING: c_int = 1, value "COLL_FTAGREE_EARLY_RETURNING";
    }

    /// Tags of messages of collectives.
    mod coll_tag: "int" in "ompi/mca/coll/base/coll_tags.h" {
        /// That of the number of a communicator.
        OMPI_COMM_ALLREDUCE_TAG: c_int = -9, value "OMPI_COMM_ALLREDUCE_TAG";
        /// The first one.
        MCA_COLL_BASE_TAG_BASE: c_int = -7, value "MCA_COLL_BASE_TAG_BASE";
        /// That of a barrier.
        MCA_COLL_BASE_TAG_BARRIER: c_int = -16, value "MCA_COLL_BASE_TAG_BARRIER";
        /// That of a gather.
        MCA_COLL_BASE_TAG_GATHER: c_int = -19, value "MCA_COLL_BASE_TAG_GATHER";
        /// That of a reduction.
        MCA_COLL_BASE_TAG_REDUCE: c_int = -21, value "MCA_COLL_BASE_TAG_REDUCE";
        /// The first one that bears failures.
        MCA_COLL_BASE_TAG_FT_BASE: c_int = -27, value "MCA_COLL_BASE_TAG_FT_BASE";
        /// The last one.
        MCA_COLL_BASE_TAG_FT_END: c_int = -30, value "MCA_COLL_BASE_TAG_FT_END";
    }

    /// A message of an agreement.
    mod era_message: "era_msg_header_t" in "ompi/mca/coll/ftagree/coll_ftagree_earlyreturning.c" {
        /// Its type.
        MSG_TYPE: usize = 0, offset "msg_type";
        /// How many values are agreed on.
        DT_COUNT: usize = 40, offset "agreement_value_header.dt_count";
        /// Number of deaths that it announces.
        NB_NEW_DEAD: usize = 48, offset "agreement_value_header.nb_new_dead";
        /// How many deaths were acknowledged.
        NB_ACK: usize = 52, offset "nb_ack";
        /// Bytes of it.
        SIZE: usize = 56, size;
        /// A contribution.
        MSG_UP: u32 = 1, value "MSG_UP";
        /// Asks for the decision.
        MSG_RESULT_REQUEST: u32 = 3, value "MSG_RESULT_REQUEST";
    }

    /// What is before each part of such a message.
    mod era_frag: "era_frag_t" in "ompi/mca/coll/ftagree/coll_ftagree_earlyreturning.c" {
        /// The name of the sender.
        SRC: usize = 0, offset "src";
        /// Bytes of the whole message.
        MSG_LEN: usize = 16, offset "msg_len";
        /// Bytes of this part.
        FRAG_LEN: usize = 24, offset "frag_len";
        /// The part.
        BYTES: usize = 28, offset "bytes";
    }

    /// A request.
    mod request: "struct ompi_request_t" in "ompi/request/request.h" {
        /// Of what kind it is.
        REQ_TYPE: usize = 0x38, offset "req_type";
        /// How it has ended.
        REQ_STATUS: usize = 0x40, offset "req_status";
        /// The error in that.
        REQ_STATUS_ERROR: usize = 0x48, offset "req_status.MPI_ERROR";
        /// Whether it has completed, or the wait for that.
        REQ_COMPLETE: usize = 0x58, offset "req_complete";
        /// Its state.
        REQ_STATE: usize = 0x60, offset "req_state";
        /// Whether it is persistent.
        REQ_PERSISTENT: usize = 0x64, offset "req_persistent";
        /// Its number in Fortran.
        REQ_F_TO_C_INDEX: usize = 0x68, offset "req_f_to_c_index";
        /// Starts persistent requests.
        REQ_START: usize = 0x70, offset "req_start";
        /// Gives it back.
        REQ_FREE: usize = 0x78, offset "req_free";
        /// Cancels it.
        REQ_CANCEL: usize = 0x80, offset "req_cancel";
        /// Is called as it completes.
        REQ_COMPLETE_CB: usize = 0x88, offset "req_complete_cb";
        /// What is passed to that.
        REQ_COMPLETE_CB_DATA: usize = 0x90, offset "req_complete_cb_data";
        /// What its errors belong to: its communicator, say.
        REQ_MPI_OBJECT: usize = 0x98, offset "req_mpi_object";
        /// Bytes of it.
        SIZE: usize = 0xa0, size;
        /// The kind of a message.
        OMPI_REQUEST_PML: c_int = 0, value "OMPI_REQUEST_PML";
        /// The kind of a generalized request.
        OMPI_REQUEST_GEN: c_int = 2, value "OMPI_REQUEST_GEN";
        /// The kind of a collective.
        OMPI_REQUEST_COLL: c_int = 4, value "OMPI_REQUEST_COLL";
        /// The state of a request that is not in use.
        OMPI_REQUEST_INVALID: c_int = 0, value "OMPI_REQUEST_INVALID";
        /// The state of a persistent one that is not started.
        OMPI_REQUEST_INACTIVE: c_int = 1, value "OMPI_REQUEST_INACTIVE";
        /// The state of one that is under way, or has ended.
        OMPI_REQUEST_ACTIVE: c_int = 2, value "OMPI_REQUEST_ACTIVE";
        /// In place of the wait: it has completed.
        REQUEST_COMPLETED: usize = 1, value "(size_t) REQUEST_COMPLETED";
    }

    /// The table of functions that complete requests.
    mod request_functions: "ompi_request_fns_t" in "ompi/request/request.h" {
        /// `MPI_Test`
        REQ_TEST: usize = 0, slot "req_test";
        /// `MPI_Testany`
        REQ_TEST_ANY: usize = 1, slot "req_test_any";
        /// `MPI_Testall`
        REQ_TEST_ALL: usize = 2, slot "req_test_all";
        /// `MPI_Testsome`
        REQ_TEST_SOME: usize = 3, slot "req_test_some";
        /// `MPI_Wait`
        REQ_WAIT: usize = 4, slot "req_wait";
        /// `MPI_Waitany`
        REQ_WAIT_ANY: usize = 5, slot "req_wait_any";
        /// `MPI_Waitall`
        REQ_WAIT_ALL: usize = 6, slot "req_wait_all";
        /// `MPI_Waitsome`
        REQ_WAIT_SOME: usize = 7, slot "req_wait_some";
    }

    /// A wait of a thread.
    mod wait_sync: "ompi_wait_sync_t" in "opal/mca/threads/wait_sync.h" {
        /// Until this is 0.
        COUNT: usize = 0, offset "count";
        /// How the wait has ended.
        STATUS: usize = 4, offset "status";
        /// The next wait in the list.
        NEXT: usize = 96, offset "next";
        /// Whether a thread is about to end it.
        SIGNALING: usize = 112, offset "signaling";
        /// Bytes of it.
        SIZE: usize = 120, size;
    }

    /// The table of functions that carry messages.
    mod pml: "mca_pml_base_module_t" in "ompi/mca/pml/pml.h" {
        /// Takes processes in.
        PML_ADD_PROCS: usize = 0, slot "pml_add_procs";
        /// Receives a new communicator before any process can send in it.
        PML_ADD_COMM: usize = 4, slot "pml_add_comm";
        /// Hears of one that is being freed.
        PML_DEL_COMM: usize = 5, slot "pml_del_comm";
        /// Hears of one that is interrupted, before what waits in it is ended.
        PML_REVOKE_COMM: usize = 6, slot "pml_revoke_comm";
        /// Receives, and does not block.
        PML_IRECV: usize = 8, slot "pml_irecv";
        /// Receives, and blocks.
        PML_RECV: usize = 9, slot "pml_recv";
        /// Sends, and does not block.
        PML_ISEND: usize = 11, slot "pml_isend";
        /// Sends, and blocks.
        PML_SEND: usize = 12, slot "pml_send";
        /// Probes, and does not block.
        PML_IPROBE: usize = 13, slot "pml_iprobe";
        /// The highest number of a communicator that messages can name, in bytes.
        PML_MAX_CONTEXTID: usize = 168, offset "pml_max_contextid";
    }

    /// How a message is sent.
    mod send_mode: "int" in "ompi/mca/pml/pml_constants.h" {
        /// Has ended when it is received.
        MCA_PML_BASE_SEND_SYNCHRONOUS: c_int = 0, value "MCA_PML_BASE_SEND_SYNCHRONOUS";
        /// Has ended when its memory can be used again.
        MCA_PML_BASE_SEND_STANDARD: c_int = 4, value "MCA_PML_BASE_SEND_STANDARD";
    }

    /// The request of a message.
    mod pml_request: "struct mca_pml_base_request_t" in "ompi/mca/pml/base/pml_base_request.h" {
        /// Whether it receives or sends.
        REQ_TYPE: usize = 0xa8, offset "req_type";
        /// The rank of its other end.
        REQ_PEER: usize = 0x1e8, offset "req_peer";
        /// The process of that.
        REQ_PROC: usize = 0x1f0, offset "req_proc";
        /// Bytes of it.
        SIZE: usize = 0x200, size;
        /// It receives.
        MCA_PML_REQUEST_RECV: c_int = 2, value "MCA_PML_REQUEST_RECV";
    }

    /// The request of a message that pml/ob1 receives.
    mod ob1_recv_request: "mca_pml_ob1_recv_request_t" in "ompi/mca/pml/ob1/pml_ob1_recvreq.h" {
        /// It waits for room to be fetched.
        REQ_PENDING: usize = 0x240, offset "req_pending";
    }

    /// The state of pml/ob1.
    mod ob1: "struct mca_pml_ob1_t" in "ompi/mca/pml/ob1/pml_ob1.h" {
        /// The mutex in its lock.
        LOCK: usize = 0x100, offset "lock.m_lock";
        /// The requests that wait for room.
        RECV_PENDING: usize = 0x890, offset "recv_pending";
    }

    /// What every message of pml/ob1 begins with.
    mod ob1_header: "mca_pml_ob1_match_hdr_t" in "ompi/mca/pml/ob1/pml_ob1_hdr.h" {
        /// The number of its communicator.
        HDR_CTX: usize = 2, offset "hdr_ctx";
        /// Its tag.
        HDR_TAG: usize = 8, offset "hdr_tag";
        /// Bytes of it.
        OMPI_PML_OB1_MATCH_HDR_LEN: usize = 14, value "OMPI_PML_OB1_MATCH_HDR_LEN";
        /// The kind of a whole message.
        MCA_PML_OB1_HDR_TYPE_MATCH: u8 = 0x41, value "MCA_PML_OB1_HDR_TYPE_MATCH";
        /// The kind of the first part of one that is sent in parts.
        MCA_PML_OB1_HDR_TYPE_RNDV: u8 = 0x42, value "MCA_PML_OB1_HDR_TYPE_RNDV";
        /// The kind of the first part of one that is fetched.
        MCA_PML_OB1_HDR_TYPE_RGET: u8 = 0x43, value "MCA_PML_OB1_HDR_TYPE_RGET";
        /// The kind of the answer to a first part.
        MCA_PML_OB1_HDR_TYPE_ACK: u8 = 0x44, value "MCA_PML_OB1_HDR_TYPE_ACK";
        /// The kind of a further part.
        MCA_PML_OB1_HDR_TYPE_FRAG: u8 = 0x46, value "MCA_PML_OB1_HDR_TYPE_FRAG";
        /// The kind of a request to put a part.
        MCA_PML_OB1_HDR_TYPE_PUT: u8 = 0x48, value "MCA_PML_OB1_HDR_TYPE_PUT";
        /// The kind of the end of such a part.
        MCA_PML_OB1_HDR_TYPE_FIN: u8 = 0x49, value "MCA_PML_OB1_HDR_TYPE_FIN";
    }

    /// The endpoints to a process.
    mod bml_endpoint: "struct mca_bml_base_endpoint_t" in "ompi/mca/bml/bml.h" {
        /// Those for short messages.
        BTL_EAGER: usize = 0x48, offset "btl_eager";
        /// Those for long ones.
        BTL_SEND: usize = 0x78, offset "btl_send";
        /// Those for remote memory.
        BTL_RDMA: usize = 0xa8, offset "btl_rdma";
        /// Bytes of it.
        SIZE: usize = 0xe8, size;
    }

    /// A list of endpoints.
    mod bml_array: "struct mca_bml_base_btl_array_t" in "ompi/mca/bml/bml.h" {
        /// How many.
        ARR_SIZE: usize = 0x10, offset "arr_size";
        /// Its entries.
        BML_BTLS: usize = 0x28, offset "bml_btls";
    }

    /// An entry of such a list.
    mod bml_entry: "struct mca_bml_base_btl_t" in "ompi/mca/bml/bml.h" {
        /// The endpoint of the transport.
        BTL_ENDPOINT: usize = 16, offset "btl_endpoint";
        /// Bytes of it.
        SIZE: usize = 24, size;
    }

    /// A transport.
    mod btl_component: "mca_btl_base_component_3_0_0_t" in "opal/mca/btl/btl.h" {
        /// The name of its framework.
        MCA_TYPE_NAME: usize = 40, offset "btl_version.mca_type_name";
        /// The major version of that.
        MCA_TYPE_MAJOR_VERSION: usize = 72, offset "btl_version.mca_type_major_version";
        /// Its own name.
        MCA_COMPONENT_NAME: usize = 84, offset "btl_version.mca_component_name";
        /// Its part of the progress loop.
        BTL_PROGRESS: usize = 272, offset "btl_progress";
    }

    /// The receiver of the messages of a tag.
    mod btl_receiver: "mca_btl_active_message_callback_t" in "opal/mca/btl/btl.h" {
        /// The function.
        CBFUNC: usize = 0, offset "cbfunc";
        /// Bytes of it.
        SIZE: usize = 16, size;
        /// The kind of agreements.
        MCA_BTL_TAG_FT_AGREE: usize = 0x31, value "MCA_BTL_TAG_FT_AGREE";
        /// The highest kind.
        MCA_BTL_TAG_MAX: usize = 255, value "MCA_BTL_TAG_MAX";
    }

    /// A message that a transport brings.
    mod btl_received: "struct mca_btl_base_receive_descriptor_t" in "opal/mca/btl/btl.h" {
        /// Where it has come from.
        ENDPOINT: usize = 0, offset "endpoint";
        /// Its parts.
        DES_SEGMENTS: usize = 8, offset "des_segments";
        /// How many.
        DES_SEGMENT_COUNT: usize = 16, offset "des_segment_count";
        /// Its kind.
        TAG: usize = 24, offset "tag";
        /// What was given with the receiver.
        CBDATA: usize = 32, offset "cbdata";
        /// Bytes of it.
        SIZE: usize = 40, size;
    }

    /// A part of a message.
    mod btl_segment: "struct mca_btl_base_segment_t" in "opal/mca/btl/btl.h" {
        /// Its first byte.
        SEG_ADDR: usize = 0, offset "seg_addr";
        /// Its bytes.
        SEG_LEN: usize = 8, offset "seg_len";
        /// Bytes of it.
        SIZE: usize = 16, size;
    }

    /// What a transport is to send.
    mod btl_descriptor: "struct mca_btl_base_descriptor_t" in "opal/mca/btl/btl.h" {
        /// What hears of its end.
        DES_CBFUNC: usize = 0x48, offset "des_cbfunc";
    }

    /// The TCP transport.
    mod tcp_component: "struct mca_btl_tcp_component_t" in "opal/mca/btl/tcp/btl_tcp.h" {
        /// The table of its processes.
        TCP_PROCS: usize = 0x180, offset "tcp_procs";
    }

    /// A process of the TCP transport.
    mod tcp_proc: "struct mca_btl_tcp_proc_t" in "opal/mca/btl/tcp/btl_tcp_proc.h" {
        /// The process of Open MPI.
        PROC_OPAL: usize = 0x28, offset "proc_opal";
        /// Its endpoints.
        PROC_ENDPOINTS: usize = 0x40, offset "proc_endpoints";
        /// How many.
        PROC_ENDPOINT_COUNT: usize = 0x48, offset "proc_endpoint_count";
    }

    /// A connection of the TCP transport.
    mod tcp_endpoint: "struct mca_btl_base_endpoint_t" in "opal/mca/btl/tcp/btl_tcp_endpoint.h" {
        /// Its process.
        ENDPOINT_PROC: usize = 0x30, offset "endpoint_proc";
        /// Its socket.
        ENDPOINT_SD: usize = 0x40, offset "endpoint_sd";
        /// What it is sending.
        ENDPOINT_SEND_FRAG: usize = 0x60, offset "endpoint_send_frag";
        /// Its state.
        ENDPOINT_STATE: usize = 0x70, offset "endpoint_state";
        /// What waits to be sent.
        ENDPOINT_FRAGS: usize = 0x78, offset "endpoint_frags";
        /// The mutex in its lock.
        ENDPOINT_SEND_LOCK: usize = 0xc8, offset "endpoint_send_lock.m_lock";
        /// It waits for the other end.
        MCA_BTL_TCP_CONNECTING: c_int = 0, value "MCA_BTL_TCP_CONNECTING";
        /// It has no connection.
        MCA_BTL_TCP_CLOSED: c_int = 2, value "MCA_BTL_TCP_CLOSED";
        /// It has none any more.
        MCA_BTL_TCP_FAILED: c_int = 3, value "MCA_BTL_TCP_FAILED";
        /// It has one.
        MCA_BTL_TCP_CONNECTED: c_int = 4, value "MCA_BTL_TCP_CONNECTED";
    }

    /// The table through which a window asks others.
    mod am_rdma: "mca_btl_base_am_rdma_module_t" in "opal/mca/btl/base/btl_base_am_rdma.h" {
        /// Its transport.
        BTL: usize = 0x10, offset "btl";
        /// Its first function.
        AM_BTL_PUT: usize = 0x40, offset "am_btl_put";
        /// The second.
        AM_BTL_GET: usize = 0x48, offset "am_btl_get";
        /// The third.
        AM_BTL_ATOMIC_FOP: usize = 0x50, offset "am_btl_atomic_fop";
        /// The fourth.
        AM_BTL_ATOMIC_CSWAP: usize = 0x58, offset "am_btl_atomic_cswap";
        /// Bytes of it.
        SIZE: usize = 0x60, size;
    }

    /// A window.
    mod window: "struct ompi_win_t" in "ompi/win/win.h" {
        /// The module of its component, which begins with its functions.
        W_OSC_MODULE: usize = 0x110, offset "w_osc_module";
    }

    /// The table of functions of a window.
    mod osc: "ompi_osc_base_module_t" in "ompi/mca/osc/osc.h" {
        /// `osc_win_attach`
        OSC_WIN_ATTACH: usize = 1, slot "osc_win_attach";
        /// `osc_win_detach`
        OSC_WIN_DETACH: usize = 2, slot "osc_win_detach";
        /// `osc_free`
        OSC_FREE: usize = 3, slot "osc_free";
        /// `osc_put`
        OSC_PUT: usize = 4, slot "osc_put";
        /// `osc_get`
        OSC_GET: usize = 5, slot "osc_get";
        /// `osc_accumulate`
        OSC_ACCUMULATE: usize = 6, slot "osc_accumulate";
        /// `osc_compare_and_swap`
        OSC_COMPARE_AND_SWAP: usize = 7, slot "osc_compare_and_swap";
        /// `osc_fetch_and_op`
        OSC_FETCH_AND_OP: usize = 8, slot "osc_fetch_and_op";
        /// `osc_get_accumulate`
        OSC_GET_ACCUMULATE: usize = 9, slot "osc_get_accumulate";
        /// `osc_rput`
        OSC_RPUT: usize = 10, slot "osc_rput";
        /// `osc_rget`
        OSC_RGET: usize = 11, slot "osc_rget";
        /// `osc_raccumulate`
        OSC_RACCUMULATE: usize = 12, slot "osc_raccumulate";
        /// `osc_rget_accumulate`
        OSC_RGET_ACCUMULATE: usize = 13, slot "osc_rget_accumulate";
        /// `osc_fence`
        OSC_FENCE: usize = 14, slot "osc_fence";
        /// `osc_start`
        OSC_START: usize = 15, slot "osc_start";
        /// `osc_complete`
        OSC_COMPLETE: usize = 16, slot "osc_complete";
        /// `osc_post`
        OSC_POST: usize = 17, slot "osc_post";
        /// `osc_wait`
        OSC_WAIT: usize = 18, slot "osc_wait";
        /// `osc_test`
        OSC_TEST: usize = 19, slot "osc_test";
        /// `osc_lock`
        OSC_LOCK: usize = 20, slot "osc_lock";
        /// `osc_unlock`
        OSC_UNLOCK: usize = 21, slot "osc_unlock";
        /// `osc_lock_all`
        OSC_LOCK_ALL: usize = 22, slot "osc_lock_all";
        /// `osc_unlock_all`
        OSC_UNLOCK_ALL: usize = 23, slot "osc_unlock_all";
        /// `osc_sync`
        OSC_SYNC: usize = 24, slot "osc_sync";
        /// `osc_flush`
        OSC_FLUSH: usize = 25, slot "osc_flush";
        /// `osc_flush_all`
        OSC_FLUSH_ALL: usize = 26, slot "osc_flush_all";
        /// `osc_flush_local`
        OSC_FLUSH_LOCAL: usize = 27, slot "osc_flush_local";
        /// `osc_flush_local_all`
        OSC_FLUSH_LOCAL_ALL: usize = 28, slot "osc_flush_local_all";
        /// How many they are.
        SLOTS: usize = 29, slots;
    }

    /// A window of osc/rdma.
    mod osc_rdma: "struct ompi_osc_rdma_module_t" in "ompi/mca/osc/rdma/osc_rdma.h" {
        /// The window.
        WIN: usize = 0xe8, offset "win";
        /// The mutex in its lock.
        LOCK: usize = 0x100, offset "lock.m_lock";
        /// How it keeps the locks of the program.
        LOCKING_MODE: usize = 0x130, offset "locking_mode";
        /// The mutex in the lock of its peers.
        PEER_LOCK: usize = 0x400, offset "peer_lock.m_lock";
        /// Whether its transport does without tables.
        USE_ACCELERATED_BTL: usize = 0x430, offset "use_accelerated_btl";
        /// Its tables.
        ALTERNATE_AM_RDMAS: usize = 0x438, offset "alternate_am_rdmas";
        /// How many.
        ALTERNATE_BTL_COUNT: usize = 0x440, offset "alternate_btl_count";
        /// No thread holds a lock of a peer while it waits for another process.
        OMPI_OSC_RDMA_LOCKING_TWO_LEVEL: c_int = 0, value "OMPI_OSC_RDMA_LOCKING_TWO_LEVEL";
    }

    /// An operation of osc/rdma on a number.
    mod osc_rdma_pending_op: "struct ompi_osc_rdma_pending_op_t" in "ompi/mca/osc/rdma/osc_rdma_types.h" {
        /// The module of the window, unless a thread waits for the end at once.
        MODULE: usize = 0x28, offset "module";
    }

    /// A window of osc/sm.
    mod osc_sm: "ompi_osc_sm_module_t" in "ompi/mca/osc/sm/osc_sm.h" {
        /// The memory that all members share.
        SEGMENT_BASE: usize = 0x1120, offset "segment_base";
        /// What they have in common there.
        GLOBAL_STATE: usize = 0x1168, offset "global_state";
        /// What this one has there.
        MY_NODE_STATE: usize = 0x1170, offset "my_node_state";
        /// What each has there.
        NODE_STATES: usize = 0x1178, offset "node_states";
        /// The mutex in its lock.
        LOCK: usize = 0x1198, offset "lock.m_lock";
    }

    /// What all members of such a window have in common.
    mod osc_sm_global_state: "ompi_osc_sm_global_state_t" in "ompi/mca/osc/sm/osc_sm.h" {
        /// A mutex, and a condition behind it, for fences that wait in the kernel.
        MTX: usize = 8, offset "mtx";
        /// What is behind them.
        SENSE: usize = 96, offset "sense";
    }

    /// What a member has there.
    mod osc_sm_node_state: "ompi_osc_sm_node_state_t" in "ompi/mca/osc/sm/osc_sm.h" {
        /// The lock for accumulates.
        ACCUMULATE_LOCK: usize = 16, offset "accumulate_lock";
        /// Bytes of it.
        SIZE: usize = 20, size;
    }

    /// A file.
    mod file: "struct ompi_file_t" in "ompi/file/file.h" {
        /// Its communicator.
        F_COMM: usize = 0x60, offset "f_comm";
        /// Its functions.
        F_IO_SELECTED_MODULE: usize = 0x210, offset "f_io_selected_module";
    }

    /// The table of functions of a file.
    mod io: "mca_io_base_module_2_0_0_t" in "ompi/mca/io/io.h" {
        /// `io_module_file_open`
        FILE_OPEN: usize = 0, slot "io_module_file_open";
        /// `io_module_file_close`
        FILE_CLOSE: usize = 1, slot "io_module_file_close";
        /// `io_module_file_set_size`
        FILE_SET_SIZE: usize = 2, slot "io_module_file_set_size";
        /// `io_module_file_preallocate`
        FILE_PREALLOCATE: usize = 3, slot "io_module_file_preallocate";
        /// `io_module_file_get_size`
        FILE_GET_SIZE: usize = 4, slot "io_module_file_get_size";
        /// `io_module_file_get_amode`
        FILE_GET_AMODE: usize = 5, slot "io_module_file_get_amode";
        /// `io_module_file_set_info`
        FILE_SET_INFO: usize = 6, slot "io_module_file_set_info";
        /// `io_module_file_get_info`
        FILE_GET_INFO: usize = 7, slot "io_module_file_get_info";
        /// `io_module_file_set_view`
        FILE_SET_VIEW: usize = 8, slot "io_module_file_set_view";
        /// `io_module_file_get_view`
        FILE_GET_VIEW: usize = 9, slot "io_module_file_get_view";
        /// `io_module_file_read_at`
        FILE_READ_AT: usize = 10, slot "io_module_file_read_at";
        /// `io_module_file_read_at_all`
        FILE_READ_AT_ALL: usize = 11, slot "io_module_file_read_at_all";
        /// `io_module_file_write_at`
        FILE_WRITE_AT: usize = 12, slot "io_module_file_write_at";
        /// `io_module_file_write_at_all`
        FILE_WRITE_AT_ALL: usize = 13, slot "io_module_file_write_at_all";
        /// `io_module_file_iread_at`
        FILE_IREAD_AT: usize = 14, slot "io_module_file_iread_at";
        /// `io_module_file_iwrite_at`
        FILE_IWRITE_AT: usize = 15, slot "io_module_file_iwrite_at";
        /// `io_module_file_iread_at_all`
        FILE_IREAD_AT_ALL: usize = 16, slot "io_module_file_iread_at_all";
        /// `io_module_file_iwrite_at_all`
        FILE_IWRITE_AT_ALL: usize = 17, slot "io_module_file_iwrite_at_all";
        /// `io_module_file_read`
        FILE_READ: usize = 18, slot "io_module_file_read";
        /// `io_module_file_read_all`
        FILE_READ_ALL: usize = 19, slot "io_module_file_read_all";
        /// `io_module_file_write`
        FILE_WRITE: usize = 20, slot "io_module_file_write";
        /// `io_module_file_write_all`
        FILE_WRITE_ALL: usize = 21, slot "io_module_file_write_all";
        /// `io_module_file_iread`
        FILE_IREAD: usize = 22, slot "io_module_file_iread";
        /// `io_module_file_iwrite`
        FILE_IWRITE: usize = 23, slot "io_module_file_iwrite";
        /// `io_module_file_iread_all`
        FILE_IREAD_ALL: usize = 24, slot "io_module_file_iread_all";
        /// `io_module_file_iwrite_all`
        FILE_IWRITE_ALL: usize = 25, slot "io_module_file_iwrite_all";
        /// `io_module_file_seek`
        FILE_SEEK: usize = 26, slot "io_module_file_seek";
        /// `io_module_file_get_position`
        FILE_GET_POSITION: usize = 27, slot "io_module_file_get_position";
        /// `io_module_file_get_byte_offset`
        FILE_GET_BYTE_OFFSET: usize = 28, slot "io_module_file_get_byte_offset";
        /// `io_module_file_read_shared`
        FILE_READ_SHARED: usize = 29, slot "io_module_file_read_shared";
        /// `io_module_file_write_shared`
        FILE_WRITE_SHARED: usize = 30, slot "io_module_file_write_shared";
        /// `io_module_file_iread_shared`
        FILE_IREAD_SHARED: usize = 31, slot "io_module_file_iread_shared";
        /// `io_module_file_iwrite_shared`
        FILE_IWRITE_SHARED: usize = 32, slot "io_module_file_iwrite_shared";
        /// `io_module_file_read_ordered`
        FILE_READ_ORDERED: usize = 33, slot "io_module_file_read_ordered";
        /// `io_module_file_write_ordered`
        FILE_WRITE_ORDERED: usize = 34, slot "io_module_file_write_ordered";
        /// `io_module_file_seek_shared`
        FILE_SEEK_SHARED: usize = 35, slot "io_module_file_seek_shared";
        /// `io_module_file_get_position_shared`
        FILE_GET_POSITION_SHARED: usize = 36, slot "io_module_file_get_position_shared";
        /// `io_module_file_read_at_all_begin`
        FILE_READ_AT_ALL_BEGIN: usize = 37, slot "io_module_file_read_at_all_begin";
        /// `io_module_file_read_at_all_end`
        FILE_READ_AT_ALL_END: usize = 38, slot "io_module_file_read_at_all_end";
        /// `io_module_file_write_at_all_begin`
        FILE_WRITE_AT_ALL_BEGIN: usize = 39, slot "io_module_file_write_at_all_begin";
        /// `io_module_file_write_at_all_end`
        FILE_WRITE_AT_ALL_END: usize = 40, slot "io_module_file_write_at_all_end";
        /// `io_module_file_read_all_begin`
        FILE_READ_ALL_BEGIN: usize = 41, slot "io_module_file_read_all_begin";
        /// `io_module_file_read_all_end`
        FILE_READ_ALL_END: usize = 42, slot "io_module_file_read_all_end";
        /// `io_module_file_write_all_begin`
        FILE_WRITE_ALL_BEGIN: usize = 43, slot "io_module_file_write_all_begin";
        /// `io_module_file_write_all_end`
        FILE_WRITE_ALL_END: usize = 44, slot "io_module_file_write_all_end";
        /// `io_module_file_read_ordered_begin`
        FILE_READ_ORDERED_BEGIN: usize = 45, slot "io_module_file_read_ordered_begin";
        /// `io_module_file_read_ordered_end`
        FILE_READ_ORDERED_END: usize = 46, slot "io_module_file_read_ordered_end";
        /// `io_module_file_write_ordered_begin`
        FILE_WRITE_ORDERED_BEGIN: usize = 47, slot "io_module_file_write_ordered_begin";
        /// `io_module_file_write_ordered_end`
        FILE_WRITE_ORDERED_END: usize = 48, slot "io_module_file_write_ordered_end";
        /// `io_module_file_get_type_extent`
        FILE_GET_TYPE_EXTENT: usize = 49, slot "io_module_file_get_type_extent";
        /// `io_module_file_set_atomicity`
        FILE_SET_ATOMICITY: usize = 50, slot "io_module_file_set_atomicity";
        /// `io_module_file_get_atomicity`
        FILE_GET_ATOMICITY: usize = 51, slot "io_module_file_get_atomicity";
        /// `io_module_file_sync`
        FILE_SYNC: usize = 52, slot "io_module_file_sync";
        /// How many they are.
        SLOTS: usize = 53, slots;
    }

    /// A graph of neighbours.
    mod dist_graph: "mca_topo_base_comm_dist_graph_2_2_0_t" in "ompi/mca/topo/topo.h" {
        /// From where edges come to this process.
        IN: usize = 0x10, offset "in";
        /// Their weights.
        INW: usize = 0x18, offset "inw";
        /// Where edges lead to from it.
        OUT: usize = 0x20, offset "out";
        /// Their weights.
        OUTW: usize = 0x28, offset "outw";
        /// How many come.
        INDEGREE: usize = 0x30, offset "indegree";
        /// How many lead from it.
        OUTDEGREE: usize = 0x34, offset "outdegree";
        /// Whether they have weights.
        WEIGHTED: usize = 0x38, offset "weighted";
        /// Bytes of it.
        SIZE: usize = 0x40, size;
    }

    /// Parameters.
    mod mca_var: "mca_base_var_enum_value_t" in "opal/mca/base/mca_base_var.h" {
        /// The value of a choice.
        VALUE: usize = 0, offset "value";
        /// Its word.
        STRING: usize = 8, offset "string";
        /// Bytes of it.
        SIZE: usize = 16, size;
        /// The default: not set.
        MCA_BASE_VAR_SOURCE_DEFAULT: c_int = 0, value "MCA_BASE_VAR_SOURCE_DEFAULT";
        /// It is a number.
        MCA_BASE_VAR_TYPE_INT: c_int = 0, value "MCA_BASE_VAR_TYPE_INT";
        /// It is a text.
        MCA_BASE_VAR_TYPE_STRING: c_int = 5, value "MCA_BASE_VAR_TYPE_STRING";
        /// Shown to every user.
        OPAL_INFO_LVL_1: c_int = 0, value "OPAL_INFO_LVL_1";
        /// It is set before the start.
        MCA_BASE_VAR_SCOPE_READONLY: c_int = 1, value "MCA_BASE_VAR_SCOPE_READONLY";
    }

    /// How far the library is.
    mod mpi_state: "int" in "ompi/runtime/mpiruntime.h" {
        /// After `MPI_Init`.
        OMPI_MPI_STATE_INIT_COMPLETED: i32 = 2, value "OMPI_MPI_STATE_INIT_COMPLETED";
        /// `MPI_Finalize` has begun, and not yet switched fault tolerance off.
        OMPI_MPI_STATE_FINALIZE_STARTED: i32 = 3, value "OMPI_MPI_STATE_FINALIZE_STARTED";
    }

    /// Statuses of the functions inside.
    mod status: "int" in "opal/constants.h" {
        /// Something has failed.
        OPAL_ERROR: c_int = -1, value "OPAL_ERROR";
        /// There is no room.
        OPAL_ERR_OUT_OF_RESOURCE: c_int = -2, value "OPAL_ERR_OUT_OF_RESOURCE";
        /// An argument is wrong.
        OPAL_ERR_BAD_PARAM: c_int = -5, value "OPAL_ERR_BAD_PARAM";
        /// The other end cannot be reached.
        OPAL_ERR_UNREACH: c_int = -12, value "OPAL_ERR_UNREACH";
        /// A component asks to be closed without a word.
        OPAL_ERR_NOT_AVAILABLE: c_int = -16, value "OPAL_ERR_NOT_AVAILABLE";
        /// A connection to a process has failed.
        OPAL_ERR_COMM_FAILURE: c_int = -51, value "OPAL_ERR_COMM_FAILURE";
        /// A process has aborted.
        OPAL_ERR_PROC_ABORTED: c_int = -57, value "OPAL_ERR_PROC_ABORTED";
    }

    /// What mpi.h says.
    mod mpi: "int" in "mpi.h" {
        /// The communicator is wrong.
        MPI_ERR_COMM: c_int = 5, value "MPI_ERR_COMM";
        /// The count is wrong.
        MPI_ERR_COUNT: c_int = 2, value "MPI_ERR_COUNT";
        /// The datatype is wrong.
        MPI_ERR_TYPE: c_int = 3, value "MPI_ERR_TYPE";
        /// The tag is wrong.
        MPI_ERR_TAG: c_int = 4, value "MPI_ERR_TAG";
        /// The rank is wrong.
        MPI_ERR_RANK: c_int = 6, value "MPI_ERR_RANK";
        /// The request is wrong.
        MPI_ERR_REQUEST: c_int = 7, value "MPI_ERR_REQUEST";
        /// The root is wrong.
        MPI_ERR_ROOT: c_int = 8, value "MPI_ERR_ROOT";
        /// The dimensions of a topology are wrong.
        MPI_ERR_DIMS: c_int = 12, value "MPI_ERR_DIMS";
        /// The topology is wrong.
        MPI_ERR_TOPOLOGY: c_int = 11, value "MPI_ERR_TOPOLOGY";
        /// A message is longer than the buffer.
        MPI_ERR_TRUNCATE: c_int = 15, value "MPI_ERR_TRUNCATE";
        /// An argument is wrong.
        MPI_ERR_ARG: c_int = 13, value "MPI_ERR_ARG";
        /// Something else.
        MPI_ERR_OTHER: c_int = 16, value "MPI_ERR_OTHER";
        /// Something inside.
        MPI_ERR_INTERN: c_int = 17, value "MPI_ERR_INTERN";
        /// The statuses say what.
        MPI_ERR_IN_STATUS: c_int = 18, value "MPI_ERR_IN_STATUS";
        /// The value of an info key is wrong.
        MPI_ERR_INFO_VALUE: c_int = 33, value "MPI_ERR_INFO_VALUE";
        /// The info object is wrong.
        MPI_ERR_INFO: c_int = 34, value "MPI_ERR_INFO";
        /// The class of a file that cannot be read or written.
        MPI_ERR_IO: c_int = 35, value "MPI_ERR_IO";
        /// The class of a full disk.
        MPI_ERR_NO_SPACE: c_int = 41, value "MPI_ERR_NO_SPACE";
        /// The class of a file or folder that is not there.
        MPI_ERR_NO_SUCH_FILE: c_int = 42, value "MPI_ERR_NO_SUCH_FILE";
        /// The port is wrong.
        MPI_ERR_PORT: c_int = 43, value "MPI_ERR_PORT";
        /// Processes cannot be started.
        MPI_ERR_SPAWN: c_int = 50, value "MPI_ERR_SPAWN";
        /// The operation cannot be done.
        MPI_ERR_UNSUPPORTED_OPERATION: c_int = 52, value "MPI_ERR_UNSUPPORTED_OPERATION";
        /// A process is dead.
        MPI_ERR_PROC_FAILED: c_int = 75, value "MPI_ERR_PROC_FAILED";
        /// A process is dead that might have sent.
        MPI_ERR_PROC_FAILED_PENDING: c_int = 76, value "MPI_ERR_PROC_FAILED_PENDING";
        /// The communicator is revoked.
        MPI_ERR_REVOKED: c_int = 77, value "MPI_ERR_REVOKED";
        /// A predefined datatype.
        MPI_COMBINER_NAMED: c_int = 0, value "MPI_COMBINER_NAMED";
        /// A topology that is a grid.
        MPI_CART: c_int = 1, value "MPI_CART";
        /// One that is a graph.
        MPI_GRAPH: c_int = 2, value "MPI_GRAPH";
        /// One that is a graph of which each process knows its edges.
        MPI_DIST_GRAPH: c_int = 3, value "MPI_DIST_GRAPH";
        /// The same object.
        MPI_IDENT: c_int = 0, value "MPI_IDENT";
        /// The same members in the same order.
        MPI_CONGRUENT: c_int = 1, value "MPI_CONGRUENT";
        /// The same members.
        MPI_SIMILAR: c_int = 2, value "MPI_SIMILAR";
        /// Other members.
        MPI_UNEQUAL: c_int = 3, value "MPI_UNEQUAL";
        /// Any tag.
        MPI_ANY_TAG: c_int = -1, value "MPI_ANY_TAG";
        /// Any rank.
        MPI_ANY_SOURCE: c_int = -1, value "MPI_ANY_SOURCE";
        /// No process.
        MPI_PROC_NULL: c_int = -2, value "MPI_PROC_NULL";
        /// The root, in its own group.
        MPI_ROOT: c_int = -4, value "MPI_ROOT";
        /// No number.
        MPI_UNDEFINED: c_int = -32766, value "MPI_UNDEFINED";
        /// In place of a buffer.
        MPI_IN_PLACE: usize = 1, value "(size_t) MPI_IN_PLACE";
        /// In place of weights.
        MPI_UNWEIGHTED: usize = 2, value "(size_t) MPI_UNWEIGHTED";
        /// In place of the weights of no edges.
        MPI_WEIGHTS_EMPTY: usize = 3, value "(size_t) MPI_WEIGHTS_EMPTY";
    }
}
