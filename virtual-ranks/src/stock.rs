//! Open MPI's own functions, as the layer calls them.

use std::ffi::{CStr, c_char, c_int, c_void};

use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::{Request, Status};

macro_rules! stock {
    ($($(#[$doc:meta])* $field:ident = $name:literal ($($type:ty),*);)*) => {
        /// Functions of mpi.h.
        pub struct Stock {
            $($(#[$doc])* pub $field: unsafe extern "C-unwind" fn($($type),*) -> c_int,)*
        }

        impl Stock {
            /// Those of a library.
            ///
            /// # Errors
            /// The name of the first one that it lacks.
            pub fn find(library: &Library) -> Result<Self, &'static CStr> {
                // SAFETY: the types are those of mpi.h.
                unsafe { Ok(Self { $($field: library.standard($name).ok_or($name)?,)* }) }
            }
        }
    };
}

stock! {
    /// Sends.
    isend = c"PMPI_Isend" (*const c_void, c_int, Object, c_int, c_int, Object, *mut *mut Request);
    /// Takes a message out of what has arrived.
    improbe = c"PMPI_Improbe" (c_int, c_int, Object, *mut c_int, *mut Object, *mut Status);
    /// Receives such a message.
    imrecv = c"PMPI_Imrecv" (*mut c_void, c_int, Object, *mut Object, *mut *mut Request);
    /// Tests a request.
    test = c"PMPI_Test" (*mut *mut Request, *mut c_int, *mut Status);
    /// Sends to oneself and receives.
    sendrecv = c"PMPI_Sendrecv" (
        *const c_void, c_int, Object, c_int, c_int, *mut c_void, c_int, Object, c_int, c_int, Object, *mut Status
    );
    /// Bytes that packing takes.
    pack_size = c"PMPI_Pack_size" (c_int, Object, Object, *mut c_int);
    /// Packs.
    pack = c"PMPI_Pack" (*const c_void, c_int, Object, *mut c_void, c_int, *mut c_int, Object);
    /// Bytes of data of a datatype.
    type_size = c"PMPI_Type_size" (Object, *mut c_int);
    /// Its lower bound and extent.
    type_get_extent = c"PMPI_Type_get_extent" (Object, *mut isize, *mut isize);
    /// The same of its data.
    type_get_true_extent = c"PMPI_Type_get_true_extent" (Object, *mut isize, *mut isize);
    /// How it was made.
    type_get_envelope = c"PMPI_Type_get_envelope" (Object, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    /// Combines data.
    reduce_local = c"PMPI_Reduce_local" (*const c_void, *mut c_void, c_int, Object, Object);
    /// Tells all members.
    bcast = c"PMPI_Bcast" (*mut c_void, c_int, Object, c_int, Object);
    /// Duplicates a communicator.
    comm_dup = c"PMPI_Comm_dup" (Object, *mut Object);
    /// Frees it.
    comm_free = c"PMPI_Comm_free" (*mut Object);
    /// The rank of this process.
    comm_rank = c"PMPI_Comm_rank" (Object, *mut c_int);
    /// The number of processes.
    comm_size = c"PMPI_Comm_size" (Object, *mut c_int);
    /// Its group.
    comm_group = c"PMPI_Comm_group" (Object, *mut Object);
    /// Its error handler.
    comm_get_errhandler = c"PMPI_Comm_get_errhandler" (Object, *mut Object);
    /// Gives it one.
    comm_set_errhandler = c"PMPI_Comm_set_errhandler" (Object, Object);
    /// Calls it.
    comm_call_errhandler = c"PMPI_Comm_call_errhandler" (Object, c_int);
    /// Frees the handle of an error handler.
    errhandler_free = c"PMPI_Errhandler_free" (*mut Object);
    /// A group of some members of another one.
    group_incl = c"PMPI_Group_incl" (Object, c_int, *const c_int, *mut Object);
    /// Members of a group as members of another one.
    group_translate_ranks = c"PMPI_Group_translate_ranks" (Object, c_int, *const c_int, Object, *mut c_int);
    /// Whether two groups are alike.
    group_compare = c"PMPI_Group_compare" (Object, Object, *mut c_int);
    /// Members of either of two groups.
    group_union = c"PMPI_Group_union" (Object, Object, *mut Object);
    /// Members of both.
    group_intersection = c"PMPI_Group_intersection" (Object, Object, *mut Object);
    /// Members of the first alone.
    group_difference = c"PMPI_Group_difference" (Object, Object, *mut Object);
    /// Its size.
    group_size = c"PMPI_Group_size" (Object, *mut c_int);
    /// Frees it.
    group_free = c"PMPI_Group_free" (*mut Object);
    /// The dead of a communicator.
    comm_get_failed = c"PMPIX_Comm_get_failed" (Object, *mut Object);
    /// They are known.
    comm_ack_failed = c"PMPIX_Comm_ack_failed" (Object, c_int, *mut c_int);
    /// The name of the node.
    get_processor_name = c"PMPI_Get_processor_name" (*mut c_char, *mut c_int);
    /// Gathers the same number of bytes of each process at all.
    allgather = c"PMPI_Allgather" (*const c_void, c_int, Object, *mut c_void, c_int, Object, Object);
    /// Ends the job.
    abort = c"PMPI_Abort" (Object, c_int);
    /// The end of MPI.
    finalize = c"PMPI_Finalize" ();
}
