/* What repairs cost after the last rank has died: several MPIX_Comm_ishrink at once, and one beside a buddy's reload.
 *
 *   shrinks concurrent ROUNDS COUNT[,COUNT...]
 *   shrinks reload SECONDS SIZE[,SIZE...]
 *
 * COUNT: how many at once, at most 16. SIZE: bytes that rank 0 hands to rank 1, which takes over the work of the dead, in
 * one message on the communicator that is being repaired; each size is measured for SECONDS, at least LEAST times.
 *
 * The communicators are damaged once and then repaired again and again. Times are those of the slowest survivor, from
 * the moment at which all begin until its last request is complete. */
#include <ringwatch.h>
#include <signal.h>

#include "measure.h"

enum { MOST = 16, LEAST = 5, MOST_ROUNDS = 2000 };

static MPI_Comm damaged[MOST], repaired[MOST], survivors;
static int rank;
static char *dataset;

static void print(const char *what, const char *variant, int64_t size, double ns)
{
    if (0 == rank) {
        printf("%s,%s,%lld,%.0f\n", what, variant, (long long) size, ns);
    }
}

/* Ends this rank when no other has anything left to send to it: Open MPI ends the job over a send that has not reached
 * the dead and that nobody waits for any more ("error after request freed"). */
static void die(MPI_Comm calm)
{
    int nothing = 0;
    for (int peer = 0; peer < rank; peer++) {
        MPI_Recv(&nothing, 1, MPI_INT, peer, 8, calm, MPI_STATUS_IGNORE);
    }
    for (int peer = 0; peer < rank; peer++) {
        MPI_Ssend(&nothing, 1, MPI_INT, peer, 8, calm);
    }
    raise(SIGKILL);
}

/* Copies the communicators, loses the last rank, and returns when this one knows it. */
static void lose_the_last(void)
{
    MPI_Comm calm;
    int last, nothing = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &last);
    last--;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int i = 0; i < MOST; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &damaged[i]);
    }
    if (last == rank) {
        die(calm);
    }
    must(MPI_Send(&nothing, 1, MPI_INT, last, 8, calm), "MPI_Send");
    must(MPI_Recv(&nothing, 1, MPI_INT, last, 8, calm, MPI_STATUS_IGNORE), "MPI_Recv");
    if (MPI_SUCCESS == MPI_Recv(&nothing, 1, MPI_INT, last, 9, calm, MPI_STATUS_IGNORE)) {
        fprintf(stderr, "a dead rank has sent a message\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    must(MPIX_Comm_shrink(calm, &survivors), "MPIX_Comm_shrink");
}

/* The moment at which all begin, by the clock that the hosts of one machine share: who leaves a barrier before the other
 * would give its message the time on its way. */
static int64_t begin(void)
{
    static int64_t lead;
    if (0 == lead) {
        enum { TIMES = 100 };
        int64_t began = now();
        for (int i = 0; i < TIMES; i++) {
            highest(0, survivors);
        }
        lead = (int64_t) highest((double) (now() - began) / TIMES, survivors) * 3;
    }
    int64_t start = (int64_t) highest((double) (now() + lead), survivors);
    while (now() < start) {
        /* Everything that comes meanwhile waits. */
    }
    return start;
}

static double end(int64_t began)
{
    return highest((double) (now() - began), survivors);
}

static void free_repaired(int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&repaired[i]);
    }
}

static double blocking(void)
{
    int64_t began = begin();
    must(MPIX_Comm_shrink(damaged[0], &repaired[0]), "MPIX_Comm_shrink");
    double ns = end(began);
    free_repaired(1);
    return ns;
}

static double at_once(int count)
{
    MPI_Request requests[MOST];
    int64_t began = begin();
    for (int i = 0; i < count; i++) {
        must(MPIX_Comm_ishrink(damaged[i], &repaired[i], &requests[i]), "MPIX_Comm_ishrink");
    }
    must(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    double ns = end(began);
    free_repaired(count);
    return ns;
}

/* The reload, beside a shrink or alone. */
static double reload(int bytes, int shrinking)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int64_t began = begin();
    if (shrinking) {
        must(MPIX_Comm_ishrink(damaged[0], &repaired[0], &requests[0]), "MPIX_Comm_ishrink");
    }
    if (0 == rank) {
        must(MPI_Isend(dataset, bytes, MPI_CHAR, 1, 1, damaged[0], &requests[1]), "MPI_Isend");
    } else if (1 == rank) {
        must(MPI_Irecv(dataset, bytes, MPI_CHAR, 0, 1, damaged[0], &requests[1]), "MPI_Irecv");
    }
    must(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    double ns = end(began);
    free_repaired(shrinking);
    return ns;
}

static void several(int rounds, const char *counts)
{
    at_once(MOST);
    for (int round = 0; round < rounds; round++) {
        print("blocking", "", 1, blocking());
        for (const char *at = counts; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            print("ishrink", "", atoi(at), at_once(atoi(at)));
        }
    }
}

static void beside_a_reload(double seconds, int bytes)
{
    double spent = 0;
    reload(bytes, 0);
    for (int round = 0; round < LEAST || (round < MOST_ROUNDS && spent < seconds * 1e9); round++) {
        double alone = reload(bytes, 0), shrink = blocking(), both = reload(bytes, 1);
        print("reload", "alone", bytes, alone);
        print("reload", "shrink", bytes, shrink);
        print("reload", "both", bytes, both);
        /* The same at every rank, so that all of them take the same number of rounds. */
        spent += alone + shrink + both;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: shrinks concurrent ROUNDS COUNT[,COUNT...] | reload SECONDS SIZE[,SIZE...]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    keep_output_back();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    lose_the_last();
    if (0 == strcmp(argv[1], "concurrent")) {
        several(atoi(argv[2]), argv[3]);
    } else {
        int most = 1;
        for (const char *at = argv[3]; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            most = atoi(at) > most ? atoi(at) : most;
        }
        dataset = rank < 2 ? room((size_t) most) : NULL;
        for (const char *at = argv[3]; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            beside_a_reload(atof(argv[2]), atoi(at));
        }
    }
    MPI_Finalize();
    return 0;
}
