/* leavers: a member that has left a constructor revokes what was made, while others may be in the constructor still.
 *
 *   leavers --events DIR CONSTRUCTOR ROUNDS...
 *
 * For each constructor in turn, so many times: all make a communicator, rank 0 revokes it, and all use it until they know.
 * Events are lines "rank nanoseconds event details": "made CONSTRUCTOR SUCCESSES CLASS", with the first class that is no
 * success, or 0.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdlib.h>
#include <string.h>

#include "class.h"
#include "world.h"

/* There if libringwatch was preloaded. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request) __attribute__((weak));

enum { TAG = 7 };

static MPI_Comm world, half, inter;
static MPI_Group all, halves[2];
static int side, other_leader;

static int wait_for(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int make(const char *name, MPI_Comm *made) {
    MPI_Request request;
    int all_members = world_size, no = 0, neighbour = (world_rank + 1) % world_size;
    if (!strcmp(name, "dup")) return MPI_Comm_dup(world, made);
    if (!strcmp(name, "idup")) return wait_for(MPI_Comm_idup(world, made, &request), &request);
    if (!strcmp(name, "split")) return MPI_Comm_split(world, 0, world_rank, made);
    if (!strcmp(name, "split_type")) return MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, made);
    if (!strcmp(name, "create")) return MPI_Comm_create(world, all, made);
    if (!strcmp(name, "create_group")) return MPI_Comm_create_group(world, all, TAG, made);
    if (!strcmp(name, "create_from_group"))
        return MPI_Comm_create_from_group(all, "leavers", MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
    if (!strcmp(name, "cart_create")) return MPI_Cart_create(world, 1, &all_members, &no, 0, made);
    if (!strcmp(name, "dist_graph_create"))
        return MPI_Dist_graph_create(world, 1, &world_rank, (int[]){1}, &neighbour, (int[]){1}, MPI_INFO_NULL, 0, made);
    if (!strcmp(name, "dist_graph_create_adjacent"))
        return MPI_Dist_graph_create_adjacent(world, 1, &neighbour, (int[]){1}, 1, &neighbour, (int[]){1}, MPI_INFO_NULL, 0, made);
    if (!strcmp(name, "shrink")) return MPIX_Comm_shrink(world, made);
    if (!strcmp(name, "ishrink")) return wait_for(MPIX_Comm_ishrink(world, made, &request), &request);
    if (!strcmp(name, "intercomm_create")) return MPI_Intercomm_create(half, 0, world, other_leader, TAG, made);
    if (!strcmp(name, "intercomm_create_from_groups"))
        return MPI_Intercomm_create_from_groups(halves[side], 0, halves[!side], 0, "leavers", MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
    if (!strcmp(name, "intercomm_merge")) return MPI_Intercomm_merge(inter, side, made);
    if (!strcmp(name, "intercomm_dup")) return MPI_Comm_dup(inter, made);
    if (!strcmp(name, "intercomm_idup")) return wait_for(MPI_Comm_idup(inter, made, &request), &request);
    if (!strcmp(name, "intercomm_split")) return MPI_Comm_split(inter, 0, world_rank, made);
    if (!strcmp(name, "intercomm_create_of_group")) return MPI_Comm_create(inter, halves[side], made);
    return MPI_ERR_ARG;
}

/* Whoever leaves MPI_Comm_split_type may be alone with others of its host: each revokes its own. */
static void try(const char *name, int rounds) {
    int successes = 0, class = MPI_SUCCESS;
    for (int round = 0; round < rounds; round++) {
        MPI_Comm made = MPI_COMM_NULL;
        MPI_Barrier(world);
        int code = make(name, &made), rank;
        successes += code == MPI_SUCCESS;
        if (code != MPI_SUCCESS && class == MPI_SUCCESS) class = class_of(code);
        if (code != MPI_SUCCESS || made == MPI_COMM_NULL) continue;
        MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
        MPI_Comm_rank(made, &rank);
        if (rank == 0 && (side == 0 || !strcmp(name, "split_type"))) MPIX_Comm_revoke(made);
        while (MPI_Barrier(made) == MPI_SUCCESS);
        MPI_Comm_free(&made);
    }
    event("made %s %d %d", name, successes, class);
}

int main(int count, char **arguments) {
    enter_world(&count, &arguments, arguments[2]);
    int first = world_size / 2, ranges[2][1][3] = {{{0, first - 1, 1}}, {{first, world_size - 1, 1}}};
    side = world_rank >= first;
    other_leader = side ? 0 : first;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_group(world, &all);
    for (int which = 0; which < 2; which++) MPI_Group_range_incl(all, 1, ranges[which], &halves[which]);
    MPI_Comm_split(world, side, world_rank, &half);
    MPI_Intercomm_create(half, 0, world, other_leader, TAG, &inter);
    for (int i = 3; i + 1 < count; i += 2) try(arguments[i], atoi(arguments[i + 1]));
    leave_world();
    return 0;
}
