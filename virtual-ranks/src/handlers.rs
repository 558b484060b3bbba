//! Lists of functions that stand in front of those of MPI.

/// A list of handlers by the names of MPI's functions.
macro_rules! handlers {
    ($($name:literal => $ours:path),* $(,)?) => {
        &[$(::mpi_entry::entries::Handler { name: $name, ours: $ours as *const ::std::ffi::c_void }),*]
    };
}
pub(crate) use handlers;
