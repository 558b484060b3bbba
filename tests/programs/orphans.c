/* orphans: members whose parent in an agreement has not heard of a death.
 *
 *   orphans --events DIR
 *
 * Rank 1 is the root of the agreement, rank 2 one of its children, and rank 0 the only child of that. All but rank 1
 * agree at once; rank 1 receives what they send, and agrees when the file "go" is there. Events are lines "rank nanoseconds
 * event details": "agrees" before, "agreed" after it, and "shrunk SIZE".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

int main(int count, char **arguments) {
    static const int keys[] = {3, 0, 1, 2};
    const char *dir = "";
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
    enter_world(&count, &arguments, dir);
    MPI_Comm comm, rest;
    MPI_Comm_split(MPI_COMM_WORLD, 0, keys[world_rank], &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    event("agrees");
    char go[600];
    snprintf(go, sizeof go, "%s/go", dir);
    while (world_rank == 1 && access(go, F_OK)) {
        int there;
        MPI_Iprobe(0, 1, comm, &there, MPI_STATUS_IGNORE);
    }
    int flag = 1, size = 0;
    event("agreed %d", class_of(MPIX_Comm_agree(comm, &flag)));
    if (MPIX_Comm_shrink(comm, &rest) == MPI_SUCCESS) MPI_Comm_size(rest, &size);
    event("shrunk %d", size);
    event("finalized %d", MPI_Finalize());
    return 0;
}
