/* replacements: somebody dies, the others shrink and spawn one in its place, and all are in their places again; and so on.
 *
 *   replacements --events DIR --rounds N [--child MS]
 *
 * With --child each victim leaves a child process that keeps the victim's output open for MS milliseconds: the runtime counts the
 * end of the victim when the child has ended.
 *
 * In each round the one in the next place but two dies. Everybody has a number: the ranks of the first job theirs, and those that
 * are spawned the following ones. Each writes a diary under its number: "spawned CLASS" if there was an error, "sum CLASS N" of the
 * places after each round, "placed PLACE" who is spawned, "ready" before the first death, "finalized CLASS".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { TAG = 7 };

/* What those who are spawned have to know. */
struct state {
    int place, round, size;
};

static void returns_errors(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* Everybody in its place. */
static MPI_Comm in_order(MPI_Comm *whole, int place) {
    MPI_Comm comm = MPI_COMM_NULL;
    returns_errors(*whole);
    MPI_Comm_split(*whole, 0, place, &comm);
    returns_errors(comm);
    MPI_Comm_free(whole);
    return comm;
}

/* The victim dies when all others have come so far. */
static void die_after_the_others(MPI_Comm comm, int size, int milliseconds) {
    for (int others = 1; others < size; others++) {
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    }
    if (milliseconds > 0 && fork() == 0) {
        for (int file = STDERR_FILENO + 1; file < 1024; file++) close(file);
        usleep(1000 * (useconds_t) milliseconds);
        _exit(0);
    }
    raise(SIGKILL);
}

/* The survivors of a communicator and one more, which is told who is dead. */
static MPI_Comm replace(MPI_Comm *comm, struct state state, char **arguments) {
    MPI_Comm survivors, inter, whole;
    MPIX_Comm_revoke(*comm);
    MPIX_Comm_shrink(*comm, &survivors);
    returns_errors(survivors);
    MPI_Comm_free(comm);
    int code = MPI_Comm_spawn(arguments[0], arguments + 1, 1, MPI_INFO_NULL, 0, survivors, &inter, MPI_ERRCODES_IGNORE);
    if (code != MPI_SUCCESS) {
        event("spawned %d", class_of(code));
        return MPI_COMM_NULL;
    }
    MPI_Intercomm_merge(inter, 0, &whole);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&survivors);
    MPI_Bcast(&state, sizeof state, MPI_BYTE, 0, whole);
    return whole;
}

int main(int argc, char **argv) {
    MPI_Comm parent, comm, whole;
    struct state own = {.round = 0};
    MPI_Init(&argc, &argv);
    int rounds = atoi(argv[4]);
    int milliseconds = argc > 6 ? atoi(argv[6]) : 0;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_rank(comm, &own.place);
        MPI_Comm_size(comm, &own.size);
        world_rank = own.place;
        open_diary(argv[2]);
        returns_errors(comm);
        MPI_Barrier(comm);
        event("ready");
    } else {
        MPI_Intercomm_merge(parent, 1, &whole);
        MPI_Comm_free(&parent);
        MPI_Bcast(&own, sizeof own, MPI_BYTE, 0, whole);
        world_rank = own.size + own.round - 1;
        open_diary(argv[2]);
        event("placed %d", own.place);
        comm = in_order(&whole, own.place);
    }
    while (comm != MPI_COMM_NULL) {
        int rank = -1, sum = -1;
        MPI_Comm_rank(comm, &rank);
        if (own.round > 0) {
            int code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
            event("sum %d %d", class_of(code), sum);
        }
        if (rank != own.place || own.round == rounds) break;
        int victim = own.round++ * 3 % own.size;
        if (own.place == victim) die_after_the_others(comm, own.size, milliseconds);
        MPI_Send(NULL, 0, MPI_BYTE, victim, TAG, comm);
        while (MPI_Barrier(comm) == MPI_SUCCESS) continue;
        whole = replace(&comm, (struct state) {victim, own.round, own.size}, argv);
        comm = whole == MPI_COMM_NULL ? whole : in_order(&whole, own.place);
    }
    event("finalized %d", class_of(MPI_Finalize()));
    return 0;
}
