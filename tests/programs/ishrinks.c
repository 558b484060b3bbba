/* ishrinks: survivors of a death shrink several communicators at once with MPIX_Comm_ishrink, while more ranks die.
 *
 *   ishrinks --events DIR HOW COUNT SECOND THIRD
 *
 *   HOW            how the requests are completed: wait, waitall, waitany, waitsome, test, testall, testany or testsome
 *   COUNT          how many communicators, at most 16
 *   SECOND, THIRD  ranks that kill themselves while the requests are under way, or -1
 *
 * The harness kills the last rank after "blocked 0". Events are lines "rank nanoseconds event details": "shrunk I SIZE"
 * for each communicator that works.
 */
#include <mpi.h>
#include <ringwatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diary.h"

enum { MOST = 16 };

static int size, second, third;

static void must(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    event("wrong %s %s", what, text);
}

/* Completes all requests. */
static void complete(const char *how, int count, MPI_Request *requests) {
    int done = 0, index, flag = false, some, indices[MOST];
    if (!strcmp(how, "wait")) {
        for (int i = 0; i < count; i++) must(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), how);
    } else if (!strcmp(how, "waitall")) {
        must(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), how);
    } else if (!strcmp(how, "test")) {
        for (int i = 0; i < count; i++)
            for (flag = false; !flag;) must(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE), how);
    } else if (!strcmp(how, "testall")) {
        while (!flag) must(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE), how);
    } else
        while (done < count) {
            some = 0;
            if (!strcmp(how, "waitany")) {
                must(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE), how);
                some = 1;
            } else if (!strcmp(how, "testany")) {
                must(MPI_Testany(count, requests, &index, &some, MPI_STATUS_IGNORE), how);
            } else if (!strcmp(how, "waitsome")) {
                must(MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE), how);
            } else
                must(MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE), how);
            done += some;
        }
}

/* Those whose turn it is die when the requests have made some of their way. */
static void die_on_the_way(MPI_Request *request) {
    int flag = false, turns = world_rank == second ? 1 : world_rank == third ? 40 : 0;
    if (turns == 0) return;
    for (int i = 0; i < turns && !flag; i++) MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    raise(SIGKILL);
}

int main(int count, char **arguments) {
    MPI_Comm comms[MOST], next[MOST], calm;
    MPI_Request requests[MOST], from_victim;
    const char *how = arguments[3];
    int shrinks = atoi(arguments[4]), never, flag = false;
    second = atoi(arguments[5]);
    third = atoi(arguments[6]);
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(arguments[2]);
    event("started %d -", (int)getpid());
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int i = 0; i < shrinks; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Irecv(&never, 1, MPI_INT, size - 1, 9, calm, &from_victim);
    MPI_Barrier(calm);
    event("blocked 0");
    if (world_rank == size - 1)
        for (;;) pause();
    while (!flag && MPI_Test(&from_victim, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS) usleep(100);

    for (bool all_work = false; !all_work;) {
        for (int i = 0; i < shrinks; i++) must(MPIX_Comm_ishrink(comms[i], &next[i], &requests[i]), "start");
        die_on_the_way(&requests[shrinks - 1]);
        complete(how, shrinks, requests);
        /* A member may have died too late for the agreement: then once more, all together. */
        int works = true;
        for (int i = 0; i < shrinks; i++) {
            int one = 1, sum = 0, members;
            MPI_Comm_size(next[i], &members);
            works &= MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, next[i]) == MPI_SUCCESS && sum == members;
            if (!works) MPIX_Comm_revoke(next[i]);
        }
        all_work = MPIX_Comm_agree(next[0], &works) == MPI_SUCCESS && works;
        for (int i = 0; i < shrinks; i++) comms[i] = next[i];
    }
    for (int i = 0; i < shrinks; i++) {
        int members;
        MPI_Comm_size(comms[i], &members);
        event("shrunk %d %d", i, members);
    }
    event("finalized %d", MPI_Finalize());
    return 0;
}
