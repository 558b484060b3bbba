/* lines: rank 0 prints "line N" for each N below LINES, and all have a barrier after each ten of them.
 *
 *   lines LINES
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int line = 0; line < atoi(argv[1]); line++) {
        if (rank == 0) printf("line %d\n", line);
        if (line % 10) continue;
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
