/* given_up: large messages to and from a process whose link is cut, and what it has still sent when that is whole again.
 *
 *   given_up --events DIR [--any|--later]
 *
 * The first half of the others send to the last rank. The second half receive from it, with --any from anybody: they write
 * "offered" when its message is there, accept it when there is a file DIR/accept, and write "accepted". Until there is
 * DIR/leave the last rank is in MPI; then it writes "left". When there is DIR/answer it accepts what it was sent and
 * sends what it is waited for. Each of the others writes "told CLASS" as its own message ends, and goes on: all of them
 * shrink the world, and look for messages until there is DIR/end. With "clean 1" nobody has written into the memory of
 * the message meanwhile. Then they send each other large ones, "right NUMBER" of which arrive unharmed. With --later they
 * receive from anybody when they have acknowledged that the last rank is dead. Events are lines "rank nanoseconds event
 * details".
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

/* More than a transport sends at once, less than a connection takes. */
enum { WORDS = 48 * 1024, TAG = 3, NONE = 4, ROUNDS = 20 };

static void fill(int *words, int first) {
    for (int i = 0; i < WORDS; i++) words[i] = first + i;
}

static bool is_filled(const int *words, int first) {
    for (int i = 0; i < WORDS; i++)
        if (words[i] != first + i) return false;
    return true;
}

static bool is_there(const char *dir, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !access(path, F_OK);
}

static void wait_outside(const char *dir, const char *name) {
    while (!is_there(dir, name)) usleep(200);
}

static void wait_inside(const char *dir, const char *name, MPI_Comm comm) {
    for (int flag; !is_there(dir, name); usleep(200)) MPI_Iprobe(MPI_ANY_SOURCE, NONE, comm, &flag, MPI_STATUS_IGNORE);
}

static void be_the_victim(int receivers, const char *dir) {
    int others = world_size - 1, *words = malloc(sizeof *words * WORDS);
    MPI_Request requests[others];
    fill(words, -WORDS);
    for (int rank = receivers; rank < others; rank++)
        MPI_Isend(words, WORDS, MPI_INT, rank, TAG, MPI_COMM_WORLD, &requests[rank]);
    for (int rank = 0; rank < receivers; rank++) MPI_Probe(rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wait_inside(dir, "leave", MPI_COMM_WORLD);
    event("left");
    wait_outside(dir, "answer");
    for (int rank = 0; rank < receivers; rank++)
        MPI_Irecv(malloc(sizeof *words * WORDS), WORDS, MPI_INT, rank, TAG, MPI_COMM_WORLD, &requests[rank]);
    MPI_Waitall(others, requests, MPI_STATUSES_IGNORE);
    for (;;) pause();
}

static int receive(int from, int *words, int victim, bool later, const char *dir) {
    MPI_Request request;
    MPI_Probe(victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    event("offered");
    wait_outside(dir, "accept");
    if (later) {
        MPI_Irecv(NULL, 0, MPI_INT, victim, NONE, MPI_COMM_WORLD, &request);
        wait_for_death(&request);
        MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    }
    MPI_Irecv(words, WORDS, MPI_INT, from, TAG, MPI_COMM_WORLD, &request);
    event("accepted");
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (class_of(code) == MPIX_ERR_PROC_FAILED_PENDING) {
        MPIX_Comm_failure_ack(MPI_COMM_WORLD);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return code;
}

int main(int count, char **arguments) {
    const char *dir = "";
    bool any = false, later = false;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events") && i + 1 < count) dir = arguments[i + 1];
        if (!strcmp(arguments[i], "--any")) any = true;
        if (!strcmp(arguments[i], "--later")) any = later = true;
    }
    enter_world(&count, &arguments, dir);
    int victim = world_size - 1, receivers = victim / 2, *words = malloc(sizeof *words * WORDS);
    fill(words, 0);
    /* Open MPI sets up the receivers of its messages anew for each such communicator. */
    MPI_Comm half, two;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, TAG, &two);
    MPI_Comm_free(&two);
    MPI_Comm_free(&half);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == victim) be_the_victim(receivers, dir);
    int code = world_rank < receivers
                   ? MPI_Send(words, WORDS, MPI_INT, victim, TAG, MPI_COMM_WORLD)
                   : receive(any ? MPI_ANY_SOURCE : victim, words, victim, later, dir);
    event("told %d", class_of(code));
    fill(words, 1);
    MPI_Comm left;
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    wait_inside(dir, "end", left);
    event("clean %d", is_filled(words, 1));
    int size, rank, right = 0, *got = malloc(sizeof *got * WORDS);
    MPI_Comm_size(left, &size);
    MPI_Comm_rank(left, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        int before = (rank + size - 1) % size, after = (rank + 1) % size;
        MPI_Request request;
        fill(words, rank + round * WORDS);
        MPI_Irecv(got, WORDS, MPI_INT, before, TAG, left, &request);
        if (MPI_Send(words, WORDS, MPI_INT, after, TAG, left) || MPI_Wait(&request, MPI_STATUS_IGNORE)) break;
        right += is_filled(got, before + round * WORDS);
    }
    event("right %d", right);
    MPI_Comm_free(&left);
    event("finalized %d", MPI_Finalize());
    return 0;
}
