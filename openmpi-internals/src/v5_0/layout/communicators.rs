//! Communicators, their requests and topologies.

layout! {
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
}
