//! States, parameters and the constants of `mpi.h`.

layout! {
    /// Parameters.
    mod mca_var: "mca_base_var_enum_value_t" in "opal/mca/base/mca_base_var.h" {
        /// The value of a choice.
        VALUE: usize = 0, offset "value";
        /// Its word.
        STRING: usize = 8, offset "string";
        /// Bytes of it.
        SIZE: usize = 16, size;
        /// The default: not set.
        MCA_BASE_VAR_SOURCE_DEFAULT: c_int = 0, value "MCA_BASE_VAR_SOURCE_DEFAULT";
        /// It is a number.
        MCA_BASE_VAR_TYPE_INT: c_int = 0, value "MCA_BASE_VAR_TYPE_INT";
        /// It is a text.
        MCA_BASE_VAR_TYPE_STRING: c_int = 5, value "MCA_BASE_VAR_TYPE_STRING";
        /// Shown to every user.
        OPAL_INFO_LVL_1: c_int = 0, value "OPAL_INFO_LVL_1";
        /// It is set before the start.
        MCA_BASE_VAR_SCOPE_READONLY: c_int = 1, value "MCA_BASE_VAR_SCOPE_READONLY";
    }

    /// How far the library is.
    mod mpi_state: "int" in "ompi/runtime/mpiruntime.h" {
        /// After `MPI_Init`.
        OMPI_MPI_STATE_INIT_COMPLETED: i32 = 2, value "OMPI_MPI_STATE_INIT_COMPLETED";
        /// `MPI_Finalize` has begun, and not yet switched fault tolerance off.
        OMPI_MPI_STATE_FINALIZE_STARTED: i32 = 3, value "OMPI_MPI_STATE_FINALIZE_STARTED";
    }

    /// Statuses of the functions inside.
    mod status: "int" in "opal/constants.h" {
        /// Something has failed.
        OPAL_ERROR: c_int = -1, value "OPAL_ERROR";
        /// There is no room.
        OPAL_ERR_OUT_OF_RESOURCE: c_int = -2, value "OPAL_ERR_OUT_OF_RESOURCE";
        /// An argument is wrong.
        OPAL_ERR_BAD_PARAM: c_int = -5, value "OPAL_ERR_BAD_PARAM";
        /// The other end cannot be reached.
        OPAL_ERR_UNREACH: c_int = -12, value "OPAL_ERR_UNREACH";
        /// A component asks to be closed without a word.
        OPAL_ERR_NOT_AVAILABLE: c_int = -16, value "OPAL_ERR_NOT_AVAILABLE";
        /// A connection to a process has failed.
        OPAL_ERR_COMM_FAILURE: c_int = -51, value "OPAL_ERR_COMM_FAILURE";
        /// A process has aborted.
        OPAL_ERR_PROC_ABORTED: c_int = -57, value "OPAL_ERR_PROC_ABORTED";
    }

    /// What mpi.h says.
    mod mpi: "int" in "mpi.h" {
        /// The communicator is wrong.
        MPI_ERR_COMM: c_int = 5, value "MPI_ERR_COMM";
        /// The count is wrong.
        MPI_ERR_COUNT: c_int = 2, value "MPI_ERR_COUNT";
        /// The datatype is wrong.
        MPI_ERR_TYPE: c_int = 3, value "MPI_ERR_TYPE";
        /// The tag is wrong.
        MPI_ERR_TAG: c_int = 4, value "MPI_ERR_TAG";
        /// The rank is wrong.
        MPI_ERR_RANK: c_int = 6, value "MPI_ERR_RANK";
        /// The request is wrong.
        MPI_ERR_REQUEST: c_int = 7, value "MPI_ERR_REQUEST";
        /// The root is wrong.
        MPI_ERR_ROOT: c_int = 8, value "MPI_ERR_ROOT";
        /// The dimensions of a topology are wrong.
        MPI_ERR_DIMS: c_int = 12, value "MPI_ERR_DIMS";
        /// The topology is wrong.
        MPI_ERR_TOPOLOGY: c_int = 11, value "MPI_ERR_TOPOLOGY";
        /// A message is longer than the buffer.
        MPI_ERR_TRUNCATE: c_int = 15, value "MPI_ERR_TRUNCATE";
        /// An argument is wrong.
        MPI_ERR_ARG: c_int = 13, value "MPI_ERR_ARG";
        /// Something else.
        MPI_ERR_OTHER: c_int = 16, value "MPI_ERR_OTHER";
        /// Something inside.
        MPI_ERR_INTERN: c_int = 17, value "MPI_ERR_INTERN";
        /// The statuses say what.
        MPI_ERR_IN_STATUS: c_int = 18, value "MPI_ERR_IN_STATUS";
        /// The value of an info key is wrong.
        MPI_ERR_INFO_VALUE: c_int = 33, value "MPI_ERR_INFO_VALUE";
        /// The info object is wrong.
        MPI_ERR_INFO: c_int = 34, value "MPI_ERR_INFO";
        /// The class of a file that cannot be read or written.
        MPI_ERR_IO: c_int = 35, value "MPI_ERR_IO";
        /// The class of a full disk.
        MPI_ERR_NO_SPACE: c_int = 41, value "MPI_ERR_NO_SPACE";
        /// The class of a file or folder that is not there.
        MPI_ERR_NO_SUCH_FILE: c_int = 42, value "MPI_ERR_NO_SUCH_FILE";
        /// The port is wrong.
        MPI_ERR_PORT: c_int = 43, value "MPI_ERR_PORT";
        /// Processes cannot be started.
        MPI_ERR_SPAWN: c_int = 50, value "MPI_ERR_SPAWN";
        /// The operation cannot be done.
        MPI_ERR_UNSUPPORTED_OPERATION: c_int = 52, value "MPI_ERR_UNSUPPORTED_OPERATION";
        /// A process is dead.
        MPI_ERR_PROC_FAILED: c_int = 75, value "MPI_ERR_PROC_FAILED";
        /// A process is dead that might have sent.
        MPI_ERR_PROC_FAILED_PENDING: c_int = 76, value "MPI_ERR_PROC_FAILED_PENDING";
        /// The communicator is revoked.
        MPI_ERR_REVOKED: c_int = 77, value "MPI_ERR_REVOKED";
        /// A predefined datatype.
        MPI_COMBINER_NAMED: c_int = 0, value "MPI_COMBINER_NAMED";
        /// A topology that is a grid.
        MPI_CART: c_int = 1, value "MPI_CART";
        /// One that is a graph.
        MPI_GRAPH: c_int = 2, value "MPI_GRAPH";
        /// One that is a graph of which each process knows its edges.
        MPI_DIST_GRAPH: c_int = 3, value "MPI_DIST_GRAPH";
        /// The same object.
        MPI_IDENT: c_int = 0, value "MPI_IDENT";
        /// The same members in the same order.
        MPI_CONGRUENT: c_int = 1, value "MPI_CONGRUENT";
        /// The same members.
        MPI_SIMILAR: c_int = 2, value "MPI_SIMILAR";
        /// Other members.
        MPI_UNEQUAL: c_int = 3, value "MPI_UNEQUAL";
        /// Any tag.
        MPI_ANY_TAG: c_int = -1, value "MPI_ANY_TAG";
        /// Any rank.
        MPI_ANY_SOURCE: c_int = -1, value "MPI_ANY_SOURCE";
        /// No process.
        MPI_PROC_NULL: c_int = -2, value "MPI_PROC_NULL";
        /// The root, in its own group.
        MPI_ROOT: c_int = -4, value "MPI_ROOT";
        /// No number.
        MPI_UNDEFINED: c_int = -32766, value "MPI_UNDEFINED";
        /// In place of a buffer.
        MPI_IN_PLACE: usize = 1, value "(size_t) MPI_IN_PLACE";
        /// In place of weights.
        MPI_UNWEIGHTED: usize = 2, value "(size_t) MPI_UNWEIGHTED";
        /// In place of the weights of no edges.
        MPI_WEIGHTS_EMPTY: usize = 3, value "(size_t) MPI_WEIGHTS_EMPTY";
    }
}
