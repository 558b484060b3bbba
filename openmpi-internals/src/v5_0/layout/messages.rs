//! Messages between two processes: the PML and ob1.

layout! {
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
        /// Properties.
        PML_FLAGS: usize = 0xb0, offset "pml_flags";
        /// It has to know all processes from the start.
        MCA_PML_BASE_FLAG_REQUIRE_WORLD: c_int = 1, value "MCA_PML_BASE_FLAG_REQUIRE_WORLD";
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
}
