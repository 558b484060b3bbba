/* gathered: the root of operations between two groups comes when a member of the other one has died without its part.
 *
 *   gathered --events DIR OP...
 *
 *   OP       reduce or gather
 *
 * The last rank is the root, in a group of its own. In operation k, counted from 0, the other group are the ranks up to
 * size - 2 - k, of which the last dies by its own hand when the others are about to begin; and the root is not in MPI before rank 0
 * has ended the operation. Events are lines "rank nanoseconds event details", as in survivor.c: "got OP CLASS" of the root.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

enum { TAG = 7, MOST_OPERATIONS = 2, MOST = 64 };

static int gather(const char *operation, int root, MPI_Comm halves) {
    static int got[MOST];
    int one = 1;
    if (!strcmp(operation, "reduce")) return MPI_Reduce(&one, got, 1, MPI_INT, MPI_SUM, root, halves);
    return MPI_Gather(&one, 1, MPI_INT, got, 1, MPI_INT, root, halves);
}

int main(int count, char **arguments) {
    const char *dir = "", *operations[MOST_OPERATIONS];
    int operation_count = 0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    enter_world(&count, &arguments, dir);

    int last = world_size - 1;
    bool is_root = world_rank == last;
    MPI_Comm halves[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++) {
        MPI_Comm half;
        bool takes_part = is_root || world_rank < last - k;
        MPI_Comm_split(MPI_COMM_WORLD, takes_part ? is_root : MPI_UNDEFINED, 0, &half);
        if (!takes_part) continue;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_root ? 0 : last, TAG, &halves[k]);
        MPI_Comm_set_errhandler(halves[k], MPI_ERRORS_RETURN);
    }
    for (int k = 0; k < operation_count; k++) {
        int victim = last - 1 - k;
        char ended[600];
        snprintf(ended, sizeof ended, "%s/ended.%d", dir, k);
        if (world_rank == victim) {
            for (int rank = 0; rank < victim; rank++)
                MPI_Recv(NULL, 0, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            raise(SIGKILL);
        }
        if (is_root)
            while (access(ended, F_OK) != 0) usleep(1000);
        else
            MPI_Send(NULL, 0, MPI_INT, victim, TAG, MPI_COMM_WORLD);
        int class = class_of(gather(operations[k], is_root ? MPI_ROOT : 0, halves[k]));
        if (is_root) event("got %s %d", operations[k], class);
        if (world_rank == 0) fclose(fopen(ended, "w"));
    }
    leave_world();
    return 0;
}
