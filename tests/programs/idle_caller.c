/* idle_caller.so: a library that calls MPI for a program (idle.c). */
#include <mpi.h>

int call_bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return MPI_Bcast(data, count, type, root, comm);
}

int call_ireduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                 MPI_Request *request) {
    return MPI_Ireduce(out, in, count, type, op, root, comm, request);
}

int call_allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return MPI_Allreduce(out, in, count, type, op, comm);
}
