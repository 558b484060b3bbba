/* How programs of the tests enter MPI. */
#include <mpi.h>

#include "diary.h"

static int world_size;

/* Enters MPI, and opens the diary of this rank in a folder. */
static void enter_world(int *count, char ***arguments, const char *folder) {
    int provided;
    MPI_Init_thread(count, arguments, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    open_diary(folder);
}
