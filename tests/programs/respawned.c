/* respawned: the survivors of a death spawn a process and talk with it, whatever the scope.
 *
 *   respawned --events DIR
 *
 * The last rank dies. Events are lines "rank nanoseconds event details": "talked CLASS VALUE" for a message of rank 0 to the one that
 * is spawned, "alone CLASS" for what that does by itself, "whole CLASS MEMBERS" for all of them, and, where one more has
 * died, "again CLASS" for how it ends for all. The one that is spawned has the number of the first size.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdlib.h>

#include "class.h"
#include "diary.h"

enum { TAG = 7, VALUE = 42 };

static void together(MPI_Comm between, int is_spawned) {
    int value = is_spawned ? -1 : VALUE, one = 1, members = -1, code, rank;
    MPI_Comm whole;
    MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    MPI_Comm_rank(between, &rank);
    if (is_spawned || rank == 0) {
        code = is_spawned ? MPI_Recv(&value, 1, MPI_INT, 0, TAG, between, MPI_STATUS_IGNORE)
                          : MPI_Send(&value, 1, MPI_INT, 0, TAG, between);
        event("talked %d %d", class_of(code), value);
    }
    if (is_spawned) event("alone %d", class_of(MPI_Barrier(MPI_COMM_WORLD)));
    code = MPI_Intercomm_merge(between, is_spawned, &whole);
    if (code == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(whole, MPI_ERRORS_RETURN);
        code = MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, whole);
    }
    event("whole %d %d", class_of(code), members);
    /* The second dies when all others have had that. */
    MPI_Comm_rank(whole, &rank);
    if (rank == 1) {
        for (int other = 0; other < members; other++)
            if (other != 1) MPI_Recv(&value, 1, MPI_INT, other, TAG, whole, MPI_STATUS_IGNORE);
        raise(SIGKILL);
    }
    MPI_Send(&value, 1, MPI_INT, 1, TAG, whole);
    /* Who is spawned has no communicator with the dead here. */
    MPI_Comm own = is_spawned ? MPI_COMM_WORLD : whole;
    do code = MPI_Barrier(own); while (code == MPI_SUCCESS);
    event("again %d", class_of(code));
}

int main(int count, char **arguments) {
    MPI_Comm parent, world, alive, child;
    int world_size;
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) world_rank = atoi(arguments[3]);
    open_diary(arguments[2]);
    if (parent != MPI_COMM_NULL) {
        together(parent, 1);
        event("finalized %d", MPI_Finalize());
        return 0;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Barrier(world);
    if (world_rank == world_size - 1) raise(SIGKILL);
    while (MPI_Barrier(world) == MPI_SUCCESS);
    MPIX_Comm_revoke(world);
    MPIX_Comm_shrink(world, &alive);
    char number[12], *words[] = {"--events", arguments[2], number, NULL};
    snprintf(number, sizeof number, "%d", world_size);
    int code = MPI_Comm_spawn(arguments[0], words, 1, MPI_INFO_NULL, 0, alive, &child, MPI_ERRCODES_IGNORE);
    event("spawned %d", class_of(code));
    together(child, 0);
    event("finalized %d", MPI_Finalize());
    return 0;
}
