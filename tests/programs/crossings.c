/* crossings: constructors of communicators with two groups while a member dies.
 *
 *   crossings --events DIR --op OP --bridge BRIDGE --victim RANK [--times N] [--jobs 2]
 *
 *   OP       create, or groups (MPI_Intercomm_create_from_groups); or on an intercommunicator that all have made before: merge, dup,
 *            idup, split
 *   BRIDGE   world, or leaders: the communicator of the two leaders alone
 *   N        everybody, the victim too, makes so many one after the other, or until one fails (1); with 1 the victim only waits
 *
 *   --jobs 2: the first job spawns as many as there are, and both together are what is called the world here
 *
 * The lower half of the world is one group, the upper one the other; the first of each is its leader. Who gets an error in one
 * of many revokes what it called with. Then both groups are shrunk and make a communicator of all survivors, with the
 * same bridge and tag if the bridge has lost nobody. Events are lines "rank nanoseconds event details", as in survivor.c:
 * "blocked" before the operation, "made N" of how many there were, "result CLASS" after the last, "half-built" if it has left a handle, "group CLASS MEMBERS" in the one that has lost nobody if nothing was revoked, "again CLASS MEMBERS" at the end.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

enum { TAG = 7 };

/* The world, or both jobs. */
static MPI_Comm whole;

static void enter_two_jobs(int *count, char ***arguments, const char *dir) {
    MPI_Comm others;
    MPI_Init(count, arguments);
    MPI_Comm_get_parent(&others);
    bool is_spawned = others != MPI_COMM_NULL;
    if (!is_spawned) {
        MPI_Comm_size(MPI_COMM_WORLD, &world_size);
        MPI_Comm_spawn((*arguments)[0], *arguments + 1, world_size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others,
                       MPI_ERRCODES_IGNORE);
    }
    MPI_Intercomm_merge(others, is_spawned, &whole);
    MPI_Comm_set_errhandler(whole, MPI_ERRORS_RETURN);
    MPI_Comm_rank(whole, &world_rank);
    MPI_Comm_size(whole, &world_size);
    open_diary(dir);
}

static int make(const char *op, MPI_Comm local, MPI_Comm bridge, int other, MPI_Comm inter, MPI_Comm *made) {
    MPI_Request request;
    int code;
    *made = MPI_COMM_NULL;
    if (!strcmp(op, "create")) {
        /* What is there before is none of its business. */
        *made = whole;
        return MPI_Intercomm_create(local, 0, bridge, other, TAG, made);
    }
    if (!strcmp(op, "groups")) {
        MPI_Group own, others;
        int half, size, rank, range[1][3] = {{0, 0, 1}};
        *made = whole;
        MPI_Comm_group(local, &own);
        MPI_Comm_size(local, &half);
        MPI_Comm_size(whole, &size);
        MPI_Comm_rank(whole, &rank);
        range[0][0] = rank < half ? half : 0, range[0][1] = rank < half ? size - 1 : half - 1;
        MPI_Group all;
        MPI_Comm_group(whole, &all);
        MPI_Group_range_incl(all, 1, range, &others);
        code = MPI_Intercomm_create_from_groups(own, 0, others, 0, "crossings", MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
        MPI_Group_free(&own), MPI_Group_free(&others), MPI_Group_free(&all);
        return code;
    }
    if (!strcmp(op, "merge")) return MPI_Intercomm_merge(inter, 0, made);
    if (!strcmp(op, "dup")) return MPI_Comm_dup(inter, made);
    if (!strcmp(op, "split")) return MPI_Comm_split(inter, 0, 0, made);
    code = MPI_Comm_idup(inter, made, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

int main(int count, char **arguments) {
    const char *dir = "", *op = "create", *between = "world";
    int victim = -1, times = 1, jobs = 1;
    for (int i = 1; i + 1 < count; i += 2) {
        const char *value = arguments[i + 1];
        if (!strcmp(arguments[i], "--events")) dir = value;
        else if (!strcmp(arguments[i], "--op")) op = value;
        else if (!strcmp(arguments[i], "--bridge")) between = value;
        else if (!strcmp(arguments[i], "--victim")) victim = atoi(value);
        else if (!strcmp(arguments[i], "--times")) times = atoi(value);
        else if (!strcmp(arguments[i], "--jobs")) jobs = atoi(value);
    }
    if (jobs == 2) {
        enter_two_jobs(&count, &arguments, dir);
    } else {
        enter_world(&count, &arguments, dir);
        whole = MPI_COMM_WORLD;
    }

    int half = world_size / 2, upper = world_rank >= half, code, members = 0, one = 1, never;
    bool leads = world_rank % half == 0;
    MPI_Comm local, leaders, inter = MPI_COMM_NULL, made;
    MPI_Request from_victim;
    MPI_Comm_split(whole, upper, 0, &local);
    MPI_Comm_split(whole, leads ? 0 : MPI_UNDEFINED, 0, &leaders);
    bool alone = !strcmp(between, "leaders");
    MPI_Comm bridge = alone ? leaders : whole;
    int other = alone ? 1 - upper : half - upper * half;
    if (strcmp(op, "create") && strcmp(op, "groups")) MPI_Intercomm_create(local, 0, bridge, other, TAG, &inter);
    if (world_rank != victim) MPI_Irecv(&never, 1, MPI_INT, victim, TAG + 1, whole, &from_victim);
    MPI_Barrier(whole);
    while (world_rank == victim && times == 1) pause();

    event("blocked");
    int i;
    for (i = 0; i < times; i++) {
        code = make(op, local, bridge, other, inter, &made);
        if (code != MPI_SUCCESS) break;
        MPI_Comm_free(&made);
    }
    if (code != MPI_SUCCESS && times > 1) {
        MPIX_Comm_revoke(inter == MPI_COMM_NULL ? local : inter);
        if (inter == MPI_COMM_NULL && leads) MPIX_Comm_revoke(bridge);
    }
    event("made %d", i);
    event("result %d", class_of(code));
    if (made != MPI_COMM_NULL && strcmp(op, "idup")) event("half-built");
    if (world_rank == victim) pause();
    wait_for_death(&from_victim);
    if (times == 1 && victim / half != upper) {
        /* Nobody has died in this group. */
        int class = class_of(MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, local));
        event("group %d %d", class, members);
    }

    MPI_Comm living, living_local, all_living;
    MPIX_Comm_shrink(whole, &living);
    MPIX_Comm_shrink(local, &living_local);
    if (!alone || times > 1 || victim % half == 0) {
        int place;
        MPI_Group group, all;
        MPI_Comm_group(living, &group);
        MPI_Comm_group(whole, &all);
        int first = upper ? 0 : half + (victim == half);
        MPI_Group_translate_ranks(all, 1, &first, group, &place);
        if (upper && victim == 0) place = 0;
        bridge = living;
        other = place;
        MPI_Group_free(&group);
        MPI_Group_free(&all);
    }
    code = MPI_Intercomm_create(living_local, 0, bridge, other, TAG, &made);
    if (code == MPI_SUCCESS) code = MPI_Intercomm_merge(made, 0, &all_living);
    if (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, all_living);
    event("again %d %d", class_of(code), members);
    event("finalized %d", MPI_Finalize());
    return 0;
}
