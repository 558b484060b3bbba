/* tool.so: a profiling tool as MPI's standard has it. Its functions stand before those of MPI, which it calls by their second
 * names. When the program leaves MPI each rank prints "tool RANK FUNCTION CALLS ERRORS" for each of them.
 */
#include <mpi.h>
#include <stdio.h>

#define FUNCTIONS(F)                                                                                                   \
    F(Allreduce, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                  \
      (out, in, count, type, op, comm))                                                                                \
    F(Bcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm), (data, count, type, root, comm))     \
    F(Iallreduce,                                                                                                      \
      (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),       \
      (out, in, count, type, op, comm, request))                                                                       \
    F(Recv, (void *in, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status),          \
      (in, count, type, source, tag, comm, status))                                                                    \
    F(Wait, (MPI_Request *request, MPI_Status *status), (request, status))

#define COUNTED(name, parameters, arguments)                                                                           \
    static int calls_of_##name, errors_of_##name;                                                                      \
    int MPI_##name parameters {                                                                                        \
        int code = PMPI_##name arguments;                                                                              \
        calls_of_##name++;                                                                                             \
        errors_of_##name += code != MPI_SUCCESS;                                                                       \
        return code;                                                                                                   \
    }
FUNCTIONS(COUNTED)

int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
#define TOLD(name, ...) printf("tool %d MPI_" #name " %d %d\n", rank, calls_of_##name, errors_of_##name);
    FUNCTIONS(TOLD)
    fflush(stdout);
    return PMPI_Finalize();
}
