#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm comm = MPI_COMM_WORLD, survivors;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int step = 0, one = 1, ranks = 0, last = 0; step < 5000; step++) {
        while (MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS) {
            MPIX_Comm_shrink(comm, &survivors);
            comm = survivors;
        }
        if (ranks != last) printf("step %d: %d ranks\n", step, last = ranks);
        usleep(1000); /* compute */
    }
    return MPI_Finalize();
}
