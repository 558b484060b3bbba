//! Every function of `mpi.h` and of the fault tolerance extension's header, with its class.
//!
//! A layer that replaces a process records what reaches it from other processes, so that a replacement sees the same.
//! What a function answers from the memory of its own process needs no record, as long as the rest of the memory is the
//! same.

use std::ffi::CStr;

/// What a function means for message logging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It communicates, or its answer depends on other processes, on their order or on the ranks of replaced ones.
    Logged,
    /// Its answer comes from the memory of its own process.
    Local,
    /// It has an effect outside of the messages of the job: on the memory of another process, a file, another job, or
    /// the program's own handling of failures.
    NotCovered,
}

/// A function of MPI.
pub struct Function {
    /// Its name without prefix: `Send`.
    pub name: &'static str,
    /// Its names in libmpi: `PMPI_Send` and `MPI_Send`.
    pub names: [&'static CStr; 2],
    /// What it means for message logging.
    pub class: Class,
}

/// A text that ends with its only zero byte.
const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name of a function has no zero byte but the last"),
    }
}

macro_rules! functions {
    ($($prefix:literal $class:ident: $($name:ident)*;)*) => {
        /// All functions.
        pub static FUNCTIONS: &[Function] = &[$($(
            Function {
                name: stringify!($name),
                names: [
                    terminated(concat!("P", $prefix, stringify!($name), "\0")),
                    terminated(concat!($prefix, stringify!($name), "\0")),
                ],
                class: Class::$class,
            },
        )*)*];
    };
}

functions! {
    // Messages.
    "MPI_" Logged:
        Send Bsend Ssend Rsend Isend Ibsend Issend Irsend Send_init Bsend_init Ssend_init Rsend_init
        Sendrecv Sendrecv_replace Isendrecv Isendrecv_replace Psend_init Pready Pready_range Pready_list
        Recv Irecv Recv_init Mrecv Imrecv Precv_init Parrived
        Probe Iprobe Mprobe Improbe;
    // Requests, and which of them are complete.
    "MPI_" Logged:
        Wait Waitall Waitany Waitsome Test Testall Testany Testsome
        Request_get_status Request_free Cancel Start Startall;
    // Collective operations.
    "MPI_" Logged:
        Barrier Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv Alltoallw
        Reduce Allreduce Reduce_scatter Reduce_scatter_block Scan Exscan
        Ibarrier Ibcast Igather Igatherv Iscatter Iscatterv Iallgather Iallgatherv Ialltoall Ialltoallv Ialltoallw
        Ireduce Iallreduce Ireduce_scatter Ireduce_scatter_block Iscan Iexscan
        Barrier_init Bcast_init Gather_init Gatherv_init Scatter_init Scatterv_init Allgather_init Allgatherv_init
        Alltoall_init Alltoallv_init Alltoallw_init Reduce_init Allreduce_init Reduce_scatter_init
        Reduce_scatter_block_init Scan_init Exscan_init
        Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw
        Ineighbor_allgather Ineighbor_allgatherv Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw
        Neighbor_allgather_init Neighbor_allgatherv_init Neighbor_alltoall_init Neighbor_alltoallv_init
        Neighbor_alltoallw_init;
    // Communicators are made and freed.
    "MPI_" Logged:
        Comm_create Comm_create_group Comm_create_from_group Comm_dup Comm_dup_with_info Comm_idup Comm_idup_with_info
        Comm_split Comm_split_type Intercomm_create Intercomm_create_from_groups Intercomm_merge
        Cart_create Cart_sub Graph_create Dist_graph_create Dist_graph_create_adjacent Comm_free Comm_disconnect;
    // A communicator stands for another once a process in it is replaced. A replacement may be spawned, and has a
    // parent then.
    "MPI_" Logged:
        Comm_rank Comm_size Comm_remote_size Comm_group Comm_remote_group Comm_compare Comm_get_parent
        Cart_coords Cart_get Cart_map Cart_rank Cart_shift Cartdim_get Graph_get Graph_map Graph_neighbors
        Graph_neighbors_count Graphdims_get Dist_graph_neighbors Dist_graph_neighbors_count Topo_test;
    // Two groups: one may have a process, and the other its replacement.
    "MPI_" Logged:
        Group_compare Group_difference Group_intersection Group_translate_ranks Group_union;
    // Peers may need what a process has sent until they are at the end, too.
    "MPI_" Logged: Finalize;

    // The start and the end of the process. A layer is installed in the first two.
    "MPI_" Local: Init Init_thread Initialized Finalized Is_thread_main Query_thread Abort;
    // The node. A replacement on another one has the name of the first.
    "MPI_" Logged: Get_processor_name;
    // The time returns no code by which it could be refused. A layer may record it.
    "MPI_" Local: Wtime;
    "MPI_" Local: Get_version Get_library_version Wtick Pcontrol Alloc_mem Free_mem;
    // Attributes, names, error handlers and hints stay with the handle that the program has.
    "MPI_" Local:
        Attr_delete Attr_get Attr_put Keyval_create Keyval_free Comm_create_keyval Comm_free_keyval Comm_delete_attr
        Comm_get_attr Comm_set_attr Comm_get_name Comm_set_name Comm_get_info Comm_set_info Comm_test_inter
        Comm_c2f Comm_f2c Comm_create_errhandler Comm_get_errhandler Comm_set_errhandler Comm_call_errhandler
        Errhandler_create Errhandler_free Errhandler_get Errhandler_set Errhandler_c2f Errhandler_f2c
        Add_error_class Add_error_code Add_error_string Error_class Error_string;
    // One group.
    "MPI_" Local: Group_excl Group_incl Group_range_excl Group_range_incl Group_rank Group_size Group_free Group_c2f Group_f2c;
    // Types, operations, hints and addresses.
    "MPI_" Local:
        Type_commit Type_contiguous Type_create_darray Type_create_f90_complex Type_create_f90_integer
        Type_create_f90_real Type_create_hindexed Type_create_hindexed_block Type_create_hvector
        Type_create_indexed_block Type_create_keyval Type_create_resized Type_create_struct Type_create_subarray
        Type_delete_attr Type_dup Type_extent Type_free Type_free_keyval Type_get_attr Type_get_contents
        Type_get_envelope Type_get_extent Type_get_extent_x Type_get_name Type_get_true_extent Type_get_true_extent_x
        Type_hindexed Type_hvector Type_indexed Type_lb Type_match_size Type_set_attr Type_set_name Type_size
        Type_size_x Type_struct Type_ub Type_vector Type_c2f Type_f2c
        Op_commutative Op_create Op_free Op_c2f Op_f2c Reduce_local
        Info_create Info_create_env Info_delete Info_dup Info_free Info_get Info_get_nkeys Info_get_nthkey
        Info_get_string Info_get_valuelen Info_set Info_c2f Info_f2c
        Address Get_address Dims_create Pack Pack_external Pack_external_size Pack_size Unpack Unpack_external;
    // What a status says, handles in Fortran, and requests that the program completes itself.
    "MPI_" Local:
        Get_count Get_elements Get_elements_x Test_cancelled Status_set_cancelled Status_set_elements
        Status_set_elements_x Status_c2f Status_c2f08 Status_f082c Status_f082f Status_f2c Status_f2f08
        Request_c2f Request_f2c Message_c2f Message_f2c Grequest_complete Grequest_start Buffer_attach Buffer_detach;
    // What a process knows of its handle of a window, file or session; the function that makes the handle is not
    // covered. Error handlers of files are set without a file, too.
    "MPI_" Local:
        Win_c2f Win_f2c Win_create_errhandler Win_get_errhandler Win_set_errhandler Win_call_errhandler
        Win_create_keyval Win_free_keyval Win_delete_attr Win_get_attr Win_set_attr Win_get_name Win_set_name
        Win_get_info
        File_c2f File_f2c File_create_errhandler File_get_errhandler File_set_errhandler File_call_errhandler
        File_get_amode File_get_atomicity File_get_byte_offset File_get_info File_get_position
        File_get_type_extent File_get_view Register_datarep
        Session_c2f Session_f2c Session_create_errhandler Session_get_errhandler Session_set_errhandler
        Session_call_errhandler Session_get_info Session_set_info;
    // Tools.
    "MPI_" Local:
        T_init_thread T_finalize T_enum_get_info T_enum_get_item
        T_category_changed T_category_get_categories T_category_get_cvars T_category_get_index T_category_get_info
        T_category_get_num T_category_get_pvars
        T_cvar_get_index T_cvar_get_info T_cvar_get_num T_cvar_handle_alloc T_cvar_handle_free T_cvar_read T_cvar_write
        T_pvar_get_index T_pvar_get_info T_pvar_get_num T_pvar_handle_alloc T_pvar_handle_free T_pvar_read
        T_pvar_readreset T_pvar_reset T_pvar_session_create T_pvar_session_free T_pvar_start T_pvar_stop T_pvar_write;

    // The memory of other processes.
    "MPI_" NotCovered:
        Win_allocate Win_allocate_shared Win_attach Win_complete Win_create Win_create_dynamic Win_detach Win_fence
        Win_flush Win_flush_all Win_flush_local Win_flush_local_all Win_free Win_get_group Win_lock Win_lock_all
        Win_post Win_set_info Win_shared_query Win_start Win_sync Win_test Win_unlock Win_unlock_all Win_wait
        Put Get Accumulate Get_accumulate Fetch_and_op Compare_and_swap Rput Rget Raccumulate Rget_accumulate;
    // Files.
    "MPI_" NotCovered:
        File_open File_close File_delete File_get_group File_get_position_shared File_get_size File_preallocate
        File_seek File_seek_shared File_set_atomicity File_set_info File_set_size File_set_view File_sync
        File_iread File_iread_all File_iread_at File_iread_at_all File_iread_shared
        File_iwrite File_iwrite_all File_iwrite_at File_iwrite_at_all File_iwrite_shared
        File_read File_read_all File_read_all_begin File_read_all_end File_read_at File_read_at_all
        File_read_at_all_begin File_read_at_all_end File_read_ordered File_read_ordered_begin File_read_ordered_end
        File_read_shared
        File_write File_write_all File_write_all_begin File_write_all_end File_write_at File_write_at_all
        File_write_at_all_begin File_write_at_all_end File_write_ordered File_write_ordered_begin
        File_write_ordered_end File_write_shared;
    // Other jobs, and processes that are not in the first communicator.
    "MPI_" NotCovered:
        Comm_spawn Comm_spawn_multiple Comm_accept Comm_connect Comm_join Open_port Close_port
        Publish_name Unpublish_name Lookup_name
        Session_init Session_finalize Session_get_nth_pset Session_get_num_psets Session_get_pset_info
        Group_from_session_pset;
    // A program that handles failures by itself: it sees none that is repaired.
    "MPIX_" Logged:
        Comm_is_revoked Comm_shrink Comm_failure_ack Comm_failure_get_acked Comm_get_failed Comm_ack_failed Comm_agree;
    "MPIX_" NotCovered: Comm_revoke Comm_iagree;
}

/// Where a function is in [`FUNCTIONS`], by its name without prefix.
#[must_use]
pub fn index_of(name: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|function| function.name == name)
}
