//! Requests and waits.

layout! {
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
}
