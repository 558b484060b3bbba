//! Windows and one-sided operations.

layout! {
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
}
