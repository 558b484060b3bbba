/* taken: a member dies while all make one duplicate of the world after the other, whose numbers they have to agree on: each
 * process has communicators of its own, half of them with numbers that the others propose.
 *
 *   taken --events DIR --seed N [--by OP]
 *
 * OP is dup or create_group, of all members. The last rank kills itself after a while drawn from the seed. Events are lines "rank nanoseconds event details", as in
 * survivor.c: "heard COUNT" of messages of this process to itself, one in each of its own communicators.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draw.h"
#include "world.h"

enum { MADE = 9, KEPT = 6, TAG = 7, LIFE_US = 20000 };
static const long long patience_ns = 5000000000LL;

static void dies(int number) {
    (void)number;
    raise(SIGKILL);
}

/* Whether a message to this process itself arrives. */
static bool hears_itself(MPI_Comm comm) {
    int sent = 42, got = 0, done = false;
    MPI_Request requests[2];
    MPI_Irecv(&got, 1, MPI_INT, 0, TAG, comm, &requests[0]);
    MPI_Isend(&sent, 1, MPI_INT, 0, TAG, comm, &requests[1]);
    for (long long end = now_ns() + patience_ns; !done && now_ns() < end;)
        MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    return done && got == sent;
}

static int duplicate(const char *op, MPI_Comm *made) {
    if (!strcmp(op, "dup")) return MPI_Comm_dup(MPI_COMM_WORLD, made);
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int code = MPI_Comm_create_group(MPI_COMM_WORLD, all, TAG, made);
    MPI_Group_free(&all);
    return code;
}

int main(int count, char **arguments) {
    const char *dir = "", *op = "dup";
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i], "--by")) op = arguments[i + 1];
        else if (!strcmp(arguments[i], "--seed")) seed = strtoul(arguments[i + 1], NULL, 10);
    enter_world(&count, &arguments, dir);
    MPI_Comm own[MADE], made;
    for (int i = 0; i < MADE; i++) MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
    /* The others propose the numbers that these have, and these lower ones. */
    int first = world_rank % 2 ? MADE - KEPT : 0;
    for (int i = 0; i < MADE; i++)
        if (i < first || i >= first + KEPT) MPI_Comm_free(&own[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    event("ready");
    useconds_t life = (useconds_t)(draw() % LIFE_US) + 1;
    signal(SIGALRM, dies);
    if (world_rank == world_size - 1) ualarm(life, 0);
    int rounds = 0;
    while (duplicate(op, &made) == MPI_SUCCESS) {
        rounds++;
        if (MPI_Comm_free(&made) != MPI_SUCCESS) break;
    }
    event("rounds %d", rounds);
    int heard = 0;
    for (int i = first; i < first + KEPT; i++) heard += hears_itself(own[i]);
    event("heard %d", heard);
    event("finalized %d", MPI_Finalize());
    return 0;
}
