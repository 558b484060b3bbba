/* The death of a rank, as another one comes to know of it. */
#include <mpi.h>
#include <stdbool.h>
#include <unistd.h>

/* Waits until this rank knows of a death: what it receives from the dead fails. */
static void wait_for_death(MPI_Request *from_victim) {
    int done = false;
    while (!done) {
        if (MPI_Test(from_victim, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
        usleep(200);
    }
    *from_victim = MPI_REQUEST_NULL;
}
