/* Calls a function that message logging does not cover, and goes on. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, code, class, memory = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win window = MPI_WIN_NULL;
    code = MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Error_class(code, &class);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s\n", class == MPI_ERR_UNSUPPORTED_OPERATION ? "refused" : "another answer");
    }
    return MPI_Finalize();
}
