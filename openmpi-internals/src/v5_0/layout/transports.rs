//! Transports: BML, BTL and its TCP.

layout! {
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
}
