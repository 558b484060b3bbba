//! The variables and objects of Open MPI 5.0 that ringwatch uses, by their names and with their types; and addresses of
//! functions that are only compared.

use std::ffi::{CStr, c_int, c_void};

use crate::abi::MemberDied;
use crate::object::{Class, Object};
use crate::request::Request;
use crate::symbol::Variable;
use crate::wait_sync::WaitSync;

macro_rules! variables {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $type:ty;)*) => {
        $($(#[$doc])*
        // SAFETY: the type is that of the header which is named.
        pub const $name: Variable<$type> = unsafe { Variable::new($text) };)*

        /// All of these names.
        pub const NAMES: &[&CStr] = &[$($text),*];
    };
}

variables! {
    // pml.h, pml_ob1.h, request.h
    /// The table of functions that carry messages.
    MCA_PML = c"mca_pml": Object;
    /// The state of pml/ob1.
    MCA_PML_OB1 = c"mca_pml_ob1": c_void;
    /// The table of functions that complete requests.
    OMPI_REQUEST_FUNCTIONS = c"ompi_request_functions": c_void;
    /// The request of operations that have ended well.
    OMPI_REQUEST_EMPTY = c"ompi_request_empty": Request;
    /// `MPI_REQUEST_NULL`
    OMPI_REQUEST_NULL = c"ompi_request_null": Request;
    /// Requests by their numbers in Fortran.
    OMPI_REQUEST_F_TO_C_TABLE = c"ompi_request_f_to_c_table": c_void;

    // communicator.h, mpiruntime.h
    /// Communicators by their numbers.
    OMPI_MPI_COMMUNICATORS = c"ompi_mpi_communicators": c_void;
    /// How many communicators have members of several jobs.
    OMPI_COMM_NUM_DYNCOMM = c"ompi_comm_num_dyncomm": c_int;
    /// What is called when a member of a communicator is dead.
    OMPI_RANK_FAILURE_CBFUNC = c"ompi_rank_failure_cbfunc": Option<MemberDied>;
    /// How far the library is, between its start and its end.
    OMPI_MPI_STATE = c"ompi_mpi_state": i32;
    /// `MPI_COMM_WORLD`
    OMPI_MPI_COMM_WORLD = c"ompi_mpi_comm_world": c_void;
    /// `MPI_COMM_SELF`
    OMPI_MPI_COMM_SELF = c"ompi_mpi_comm_self": c_void;
    /// `MPI_COMM_NULL`
    OMPI_MPI_COMM_NULL = c"ompi_mpi_comm_null": c_void;
    /// `MPI_GROUP_EMPTY`
    OMPI_MPI_GROUP_EMPTY = c"ompi_mpi_group_empty": c_void;
    /// `MPI_ERRORS_RETURN`
    OMPI_MPI_ERRORS_RETURN = c"ompi_mpi_errors_return": c_void;
    /// `MPI_INT`
    OMPI_MPI_INT = c"ompi_mpi_int": c_void;
    /// `MPI_BYTE`
    OMPI_MPI_BYTE = c"ompi_mpi_byte": c_void;
    /// `MPI_PACKED`
    OMPI_MPI_PACKED = c"ompi_mpi_packed": c_void;
    /// `MPI_DATATYPE_NULL`
    OMPI_MPI_DATATYPE_NULL = c"ompi_mpi_datatype_null": c_void;
    /// `MPI_BAND`
    OMPI_MPI_OP_BAND = c"ompi_mpi_op_band": c_void;
    /// `MPI_MIN`
    OMPI_MPI_OP_MIN = c"ompi_mpi_op_min": c_void;

    // coll_ftagree.h, btl.h, show_help.h, wait_sync.h, threads.h
    /// The algorithm of agreements.
    MCA_COLL_FTAGREE_ALGORITHM = c"mca_coll_ftagree_algorithm": c_int;
    /// The receivers of messages, by tag.
    MCA_BTL_BASE_ACTIVE_MESSAGE_TRIGGER = c"mca_btl_base_active_message_trigger": c_void;
    /// The transport for shared memory.
    MCA_BTL_SM_COMPONENT = c"mca_btl_sm_component": c_void;
    /// The TCP transport.
    MCA_BTL_TCP_COMPONENT = c"mca_btl_tcp_component": c_void;
    /// What shows a help message.
    OPAL_SHOW_HELP = c"opal_show_help": c_void;
    /// The same with a list of arguments.
    OPAL_SHOW_VHELP = c"opal_show_vhelp": c_void;
    /// The waits of a program without threads.
    OPAL_THREADS_BASE_WAIT_SYNC_LIST = c"opal_threads_base_wait_sync_list": *mut WaitSync;
    /// Whether the program has threads.
    OPAL_USES_THREADS = c"opal_uses_threads": bool;

    // Frameworks.
    /// Collective operations.
    OMPI_COLL_BASE_FRAMEWORK = c"ompi_coll_base_framework": c_void;
    /// How files are written together.
    OMPI_FCOLL_BASE_FRAMEWORK = c"ompi_fcoll_base_framework": c_void;
    /// Shared file pointers.
    OMPI_SHAREDFP_BASE_FRAMEWORK = c"ompi_sharedfp_base_framework": c_void;

    // Classes.
    /// That of modules of collectives.
    MCA_COLL_BASE_MODULE_T_CLASS = c"mca_coll_base_module_t_class": Class;
    /// That of requests of collectives.
    OMPI_COLL_BASE_NBC_REQUEST_T_CLASS = c"ompi_coll_base_nbc_request_t_class": Class;
    /// That of requests of messages.
    MCA_PML_BASE_REQUEST_T_CLASS = c"mca_pml_base_request_t_class": Class;
    /// That of communicators.
    OMPI_COMMUNICATOR_T_CLASS = c"ompi_communicator_t_class": Class;
    /// That of schedules.
    OMPI_COMM_REQUEST_T_CLASS = c"ompi_comm_request_t_class": Class;
    /// That of steps of these.
    OMPI_COMM_REQUEST_ITEM_T_CLASS = c"ompi_comm_request_item_t_class": Class;
    /// That of graphs of neighbours.
    MCA_TOPO_BASE_COMM_DIST_GRAPH_2_2_0_T_CLASS = c"mca_topo_base_comm_dist_graph_2_2_0_t_class": Class;
    /// That of tables through which windows ask others.
    MCA_BTL_BASE_AM_RDMA_MODULE_T_CLASS = c"mca_btl_base_am_rdma_module_t_class": Class;
    /// That of processes.
    OMPI_PROC_T_CLASS = c"ompi_proc_t_class": Class;
    /// That of the endpoints to a process.
    MCA_BML_BASE_ENDPOINT_T_CLASS = c"mca_bml_base_endpoint_t_class": Class;
    /// That of tables by processes.
    OPAL_PROC_TABLE_T_CLASS = c"opal_proc_table_t_class": Class;
    /// That of processes of the TCP transport.
    MCA_BTL_TCP_PROC_T_CLASS = c"mca_btl_tcp_proc_t_class": Class;
    /// That of its connections.
    MCA_BTL_TCP_ENDPOINT_T_CLASS = c"mca_btl_tcp_endpoint_t_class": Class;
    /// That of lists.
    OPAL_LIST_T_CLASS = c"opal_list_t_class": Class;

    // Ends of components: what lies between two of these functions is a component's.
    /// The first function of osc/rdma.
    OSC_RDMA_BEGINS = c"ompi_osc_rdma_free": c_void;
    /// The last one.
    OSC_RDMA_ENDS = c"ompi_osc_rdma_sync_pscw_peer": c_void;
    /// The first function of osc/sm.
    OSC_SM_BEGINS = c"ompi_osc_sm_rput": c_void;
    /// The last one.
    OSC_SM_ENDS = c"ompi_osc_sm_flush_local_all": c_void;
}
