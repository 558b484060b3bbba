/* open_file: a rank dies beside a file that all have open; the survivors leave it open, and MPI_Finalize closes it.
 *
 *   open_file --events DIR FILE
 *
 * Rank 2 dies first, and rank 0 as MPI_Finalize begins. Events are lines "rank nanoseconds event details", as in survivor.c.
 */
#include <mpi.h>
#include <signal.h>

#include "death.h"
#include "diary.h"

enum { VICTIM = 2 };

int main(int count, char **arguments) {
    int never;
    MPI_Comm calm;
    MPI_File file;
    MPI_Request from_victim;
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(arguments[2]);
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    MPI_Irecv(&never, 1, MPI_INT, VICTIM, 9, calm, &from_victim);
    MPI_File_open(MPI_COMM_WORLD, arguments[3], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (world_rank == VICTIM) raise(SIGKILL);
    wait_for_death(&from_victim);
    event("done");
    if (world_rank == 0) raise(SIGKILL);
    event("finalized %d", MPI_Finalize());
    return 0;
}
