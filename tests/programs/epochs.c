/* epochs: a communicator that Open MPI gives the number and the epoch of an earlier one with other members, written down as
 * lines "rank nanoseconds event details". Four ranks.
 *
 *   epochs --events DIR ibarrier|iagree|shrunk
 *
 * shrunk: iagree, and the communicators are made by MPIX_Comm_shrink.
 * "early ROUND" where rank 1 has come through an operation that rank 0 had not begun.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <string.h>

#include "diary.h"

enum { AHEAD = 8, TESTS = 3 };

static int agrees, shrinks, flag = 1;

static void begin(MPI_Comm comm, MPI_Request *request) {
    if (agrees) MPIX_Comm_iagree(comm, &flag, request);
    else MPI_Ibarrier(comm, request);
}

static void make(MPI_Comm of, MPI_Info info, MPI_Comm *comm) {
    if (shrinks) MPIX_Comm_shrink(of, comm);
    else MPI_Comm_dup_with_info(of, info, comm);
}

static void say_to(int other) { MPI_Send(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD); }

static void hear_from(int other) { MPI_Recv(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

/* Rank 0 begins after rank 1 has looked whether it is through already. */
static void meet(MPI_Comm comm, int round) {
    MPI_Request request;
    if (world_rank == 0) {
        hear_from(1);
        say_to(1);
        hear_from(1);
        begin(comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    int done = 0;
    begin(comm, &request);
    for (int i = 0; i < TESTS && !done; i++) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    say_to(0);
    hear_from(0);
    if (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) {
        event("early %d", round);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    say_to(0);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(arguments[2]);
    agrees = strcmp(arguments[3], "ibarrier");
    shrinks = !strcmp(arguments[3], "shrunk");

    MPI_Comm pair, comm;
    MPI_Request request;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_uniform", "coll");
    MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, 0, &pair);

    /* Rank 2 counts ahead of the others, and so does the communicator of all. */
    for (int i = 0; world_rank == 2 && i < AHEAD; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_free(&comm);
    }
    make(MPI_COMM_WORLD, info, &comm);
    begin(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);

    /* Ranks 0 and 1 catch up. */
    for (int round = 0; world_rank < 2 && round < 2 * AHEAD; round++) {
        make(pair, info, &comm);
        meet(comm, round);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&pair);
    MPI_Info_free(&info);
    event("finalized %d", MPI_Finalize());
    return 0;
}
