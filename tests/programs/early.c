/* early: a death of which Open MPI hears in MPI_Init, before it has a communicator. Three ranks.
 *
 *   early --events DIR
 *
 * Rank 2 stays there, where it can be killed, and the others until they have heard. Functions of this program stand before
 * those of Open MPI. Events are lines "rank nanoseconds event details": "waits" there, "initialised" after MPI_Init,
 * "duplicated CLASS" after the first operation, "shrunk SIZE".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

static bool has_heard;

int ompi_errhandler_proc_failed_internal(void *process, int status, bool forward) {
    typedef int (*own)(void *, int, bool);
    has_heard = true;
    return ((own)dlsym(RTLD_NEXT, "ompi_errhandler_proc_failed_internal"))(process, status, forward);
}

int ompi_comm_init_mpi3(void) {
    event("waits");
    while (world_rank == 2) pause();
    void (*progress)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "opal_progress");
    while (!has_heard) progress();
    return ((int (*)(void))dlsym(RTLD_NEXT, "ompi_comm_init_mpi3"))();
}

int main(int count, char **arguments) {
    world_rank = atoi(getenv("PMIX_RANK"));
    open_diary(arguments[2]);
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    event("initialised");
    MPI_Comm comm, rest;
    event("duplicated %d", class_of(MPI_Comm_dup(MPI_COMM_WORLD, &comm)));
    int size = 0;
    if (MPIX_Comm_shrink(MPI_COMM_WORLD, &rest) == MPI_SUCCESS) MPI_Comm_size(rest, &size);
    event("shrunk %d", size);
    event("finalized %d", MPI_Finalize());
    return 0;
}
