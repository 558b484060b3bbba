//! Makes collective operations succeed at all members or at none.

pub mod coll_table;
pub mod dissemination;
pub mod inter_rooted;
pub mod op_queue;
pub mod operations;
pub mod pmpi_without_peers;
pub mod request_errors;
#[cfg(target_arch = "x86_64")]
pub mod single_member;
#[cfg(not(target_arch = "x86_64"))]
pub mod single_member {
    //! Stub for other architectures: MPI's functions stay as they are, so a process alone in a communicator learns of
    //! no death there.

    /// Notes that such a communicator exists.
    pub fn begin() {}
}
