/* bystanders: the living make communicators among themselves, of one in which others die that take no part.
 *
 *   bystanders --events DIR WHEN
 *
 *   WHEN   at once, or later: when they know of the death
 *
 * The last rank dies. Events are lines "rank nanoseconds event details": "made CONSTRUCTOR CLASS MEMBERS", with how many heard each
 * other in what was made, or -1.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <string.h>

#include "class.h"
#include "world.h"

enum { TAG = 7, ROUNDS = 3 };

static void made(const char *name, int code, MPI_Comm *comm) {
    int one = 1, members = -1;
    if (code == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
        if (MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, *comm) != MPI_SUCCESS) members = -1;
        MPI_Comm_free(comm);
    }
    event("made %s %d %d", name, class_of(code), members);
}

int main(int count, char **arguments) {
    enter_world(&count, &arguments, arguments[2]);
    int last = world_size - 1, first = last / 2, none[2] = {last, 0}, side = world_rank >= first;
    MPI_Comm half, comm;
    MPI_Group all, living, others, from_first;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, none, &living);
    MPI_Group_excl(all, 2, none, &others);
    MPI_Group_excl(all, 1, &none[1], &from_first);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == last ? MPI_UNDEFINED : side, world_rank, &half);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == last) raise(SIGKILL);
    if (!strcmp(arguments[3], "later")) while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        made("group", MPI_Comm_create_group(MPI_COMM_WORLD, living, TAG, &comm), &comm);
        made("two_groups", MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : first, TAG, &comm), &comm);
    }
    /* What is left of one that fails is not taken for a part of the next with the same tag. */
    if (world_rank > 0) {
        made("with_the_dead", MPI_Comm_create_group(MPI_COMM_WORLD, from_first, TAG, &comm), &comm);
        made("without", MPI_Comm_create_group(MPI_COMM_WORLD, others, TAG, &comm), &comm);
    }
    leave_world();
    return 0;
}
