//! Collective operations and agreements.

layout! {
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
}
