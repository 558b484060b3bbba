/* revoked: every collective that does not block, and every persistent one, on a communicator in which somebody dies.
 *
 *   revoked --events DIR --how HOW --seed SEED
 *
 *   HOW     revoke: the survivors revoke the communicators when one of them has seen the death; scope: the communicators have the
 *           error scope group
 *
 * In each round the last living rank dies: before anybody begins, while all begin or soon after, after all have begun, or before
 * anybody begins and all know it. The seed says when, and how much each sends. Every survivor begins all operations and waits for each.
 * Events are lines "rank nanoseconds event details": "refused ROUND NAME CLASS" for an operation that does not begin, "waits ROUND
 * NAME", "ended ROUND NAME CLASS" as its wait ends, which in every second round is one for all persistent ones, and "lost ROUND NAME"
 * where that is successful although the operation has failed.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

enum { BEFORE, WHILE, AFTER, KNOWN, ROUNDS };
enum { TAG = 7, MOST_MEMBERS = 8 };

/* What all operations send and receive. */
static int count, *sent, *got, counts[MOST_MEMBERS], places[MOST_MEMBERS], bytes[MOST_MEMBERS];
static MPI_Aint addresses[MOST_MEMBERS];
static MPI_Datatype types[MOST_MEMBERS];

/* The function that begins an operation, or that makes a persistent one, which is started. */
#define OPERATION(name, immediate, persistent, ...) \
    static int begin_##name(MPI_Comm comm, bool again, MPI_Request *request) { \
        if (!again) return immediate(__VA_ARGS__ __VA_OPT__(,) comm, request); \
        int code = persistent(__VA_ARGS__ __VA_OPT__(,) comm, MPI_INFO_NULL, request); \
        return code == MPI_SUCCESS ? MPI_Start(request) : code; \
    }

OPERATION(allgather, MPI_Iallgather, MPI_Allgather_init, sent, count, MPI_INT, got, count, MPI_INT)
OPERATION(allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init, sent, count, MPI_INT, got, counts, places, MPI_INT)
OPERATION(allreduce, MPI_Iallreduce, MPI_Allreduce_init, sent, got, count, MPI_INT, MPI_SUM)
OPERATION(alltoall, MPI_Ialltoall, MPI_Alltoall_init, sent, count, MPI_INT, got, count, MPI_INT)
OPERATION(alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init, sent, counts, places, MPI_INT, got, counts, places, MPI_INT)
OPERATION(alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init, sent, counts, bytes, types, got, counts, bytes, types)
OPERATION(barrier, MPI_Ibarrier, MPI_Barrier_init)
OPERATION(bcast, MPI_Ibcast, MPI_Bcast_init, got, count, MPI_INT, 1)
OPERATION(exscan, MPI_Iexscan, MPI_Exscan_init, sent, got, count, MPI_INT, MPI_SUM)
OPERATION(gather, MPI_Igather, MPI_Gather_init, sent, count, MPI_INT, got, count, MPI_INT, 1)
OPERATION(gatherv, MPI_Igatherv, MPI_Gatherv_init, sent, count, MPI_INT, got, counts, places, MPI_INT, 1)
OPERATION(reduce, MPI_Ireduce, MPI_Reduce_init, sent, got, count, MPI_INT, MPI_SUM, 1)
OPERATION(reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init, sent, got, counts, MPI_INT, MPI_SUM)
OPERATION(reduce_scatter_block, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, sent, got, count, MPI_INT, MPI_SUM)
OPERATION(scan, MPI_Iscan, MPI_Scan_init, sent, got, count, MPI_INT, MPI_SUM)
OPERATION(scatter, MPI_Iscatter, MPI_Scatter_init, sent, count, MPI_INT, got, count, MPI_INT, 1)
OPERATION(scatterv, MPI_Iscatterv, MPI_Scatterv_init, sent, counts, places, MPI_INT, got, count, MPI_INT, 1)
OPERATION(neighbor_allgather, MPI_Ineighbor_allgather, MPI_Neighbor_allgather_init, sent, count, MPI_INT, got, count, MPI_INT)
OPERATION(neighbor_allgatherv, MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init, sent, count, MPI_INT, got, counts, places,
          MPI_INT)
OPERATION(neighbor_alltoall, MPI_Ineighbor_alltoall, MPI_Neighbor_alltoall_init, sent, count, MPI_INT, got, count, MPI_INT)
OPERATION(neighbor_alltoallv, MPI_Ineighbor_alltoallv, MPI_Neighbor_alltoallv_init, sent, counts, places, MPI_INT, got, counts,
          places, MPI_INT)
OPERATION(neighbor_alltoallw, MPI_Ineighbor_alltoallw, MPI_Neighbor_alltoallw_init, sent, counts, addresses, types, got, counts,
          addresses, types)

static const struct {
    const char *name;
    int (*begin)(MPI_Comm, bool, MPI_Request *);
} operations[] = {
    {"allgather", begin_allgather},
    {"allgatherv", begin_allgatherv},
    {"allreduce", begin_allreduce},
    {"alltoall", begin_alltoall},
    {"alltoallv", begin_alltoallv},
    {"alltoallw", begin_alltoallw},
    {"barrier", begin_barrier},
    {"bcast", begin_bcast},
    {"exscan", begin_exscan},
    {"gather", begin_gather},
    {"gatherv", begin_gatherv},
    {"reduce", begin_reduce},
    {"reduce_scatter", begin_reduce_scatter},
    {"reduce_scatter_block", begin_reduce_scatter_block},
    {"scan", begin_scan},
    {"scatter", begin_scatter},
    {"scatterv", begin_scatterv},
    {"neighbor_allgather", begin_neighbor_allgather},
    {"neighbor_allgatherv", begin_neighbor_allgatherv},
    {"neighbor_alltoall", begin_neighbor_alltoall},
    {"neighbor_alltoallv", begin_neighbor_alltoallv},
    {"neighbor_alltoallw", begin_neighbor_alltoallw},
};
enum { OPERATIONS = sizeof operations / sizeof *operations, FIRST_OF_NEIGHBOURS = 17, ALL = 2 * OPERATIONS };

/* The communicators of a round: for those that do not block and for persistent ones, among all and among neighbours. */
enum { COMMUNICATORS = 4 };
static MPI_Comm comms[ROUNDS][COMMUNICATORS], aside[ROUNDS], calm;

static MPI_Comm comm_of(int round, int which) {
    return comms[round][which / OPERATIONS * 2 + (which % OPERATIONS >= FIRST_OF_NEIGHBOURS)];
}

/* So many words are sent to each: short messages, those that are fetched, and long ones. */
static const int lengths[] = {1, 3000, 40000};

static void prepare(int length) {
    count = length;
    for (int i = 0; i < MOST_MEMBERS; i++) {
        counts[i] = count, places[i] = i * count, bytes[i] = places[i] * (int)sizeof *sent, types[i] = MPI_INT;
        addresses[i] = bytes[i];
    }
}

static void make(int round, MPI_Info info) {
    MPI_Comm living;
    int size = world_size - round, wraps = 1;
    MPI_Comm_split(calm, world_rank < size ? 1 : MPI_UNDEFINED, world_rank, &living);
    if (living == MPI_COMM_NULL) return;
    MPI_Comm_dup(living, &aside[round]);
    for (int i = 0; i < COMMUNICATORS; i++) {
        if (i % 2 == 0) MPI_Comm_dup(living, &comms[round][i]);
        else
            MPI_Cart_create(living, 1, &size, &wraps, 0, &comms[round][i]);
        if (info != MPI_INFO_NULL) MPI_Comm_set_info(comms[round][i], info);
    }
}

static void begin(int round, int which, unsigned seed, MPI_Request *request) {
    bool again = which >= OPERATIONS;
    prepare(lengths[((unsigned)which + seed) % 3]);
    /* Kept by what a failure leaves under way. */
    got = malloc((size_t)count * MOST_MEMBERS * sizeof *got);
    *request = MPI_REQUEST_NULL;
    int code = operations[which % OPERATIONS].begin(comm_of(round, which), again, request);
    if (code != MPI_SUCCESS)
        event("refused %d %s%s %d", round, operations[which % OPERATIONS].name, again ? "_init" : "", class_of(code));
}

static void be_the_victim(int round, unsigned seed) {
    static MPI_Request requests[ALL];
    int done;
    if (round == WHILE) {
        int last = (int)(seed * 7 % ALL);
        for (int i = 0; i <= last; i++) begin(round, i, seed, &requests[i]);
        MPI_Testall(last + 1, requests, &done, MPI_STATUSES_IGNORE);
        usleep(seed * 37 % 3000);
    }
    if (round == AFTER) {
        for (int i = 0; i < ALL; i++) begin(round, i, seed, &requests[i]);
        for (int peer = 0; peer < world_rank; peer++) MPI_Recv(NULL, 0, MPI_INT, peer, TAG, calm, MPI_STATUS_IGNORE);
    }
    raise(SIGKILL);
}

static const char *kind_of(int which) { return which >= OPERATIONS ? "_init" : ""; }

static void waits(int round, int which) { event("waits %d %s%s", round, operations[which % OPERATIONS].name, kind_of(which)); }

static void ended(int round, int which, int code) {
    event("ended %d %s%s %d", round, operations[which % OPERATIONS].name, kind_of(which), class_of(code));
}

/* Waits for all together, until each has ended. */
static void wait_for_persistent(int round, MPI_Request *requests) {
    MPI_Status statuses[OPERATIONS];
    bool are_over[OPERATIONS] = {0};
    for (int left = OPERATIONS; left > 0;) {
        bool has_failed = false;
        waits(round, OPERATIONS);
        int code = MPI_Waitall(OPERATIONS, requests, statuses);
        for (int i = 0; i < OPERATIONS; i++) {
            int own = code == MPI_ERR_IN_STATUS ? class_of(statuses[i].MPI_ERROR) : code;
            if (are_over[i] || own == MPI_ERR_PENDING) continue;
            has_failed |= own != MPI_SUCCESS;
            are_over[i] = true;
            left--;
            ended(round, OPERATIONS + i, own);
        }
        for (int i = 0; code == MPI_SUCCESS && i < OPERATIONS; i++)
            if (statuses[i].MPI_ERROR != MPI_SUCCESS) event("lost %d %s", round, operations[i].name);
        if (!has_failed) break;
    }
}

static void survive(int round, unsigned seed, bool revokes) {
    MPI_Request requests[ALL], from_victim;
    int victim = world_size - 1 - round, never;
    MPI_Irecv(&never, 1, MPI_INT, victim, TAG, calm, &from_victim);
    if (round == KNOWN) wait_for_death(&from_victim);
    for (int i = 0; i < ALL; i++) begin(round, i, seed, &requests[i]);
    if (round == AFTER) MPI_Send(NULL, 0, MPI_INT, victim, TAG, calm);
    if (revokes) {
        while (MPI_Barrier(aside[round]) == MPI_SUCCESS) {}
        MPIX_Comm_revoke(aside[round]);
        for (int i = 0; i < COMMUNICATORS; i++) MPIX_Comm_revoke(comms[round][i]);
    }
    bool together = round % 2;
    for (int i = 0; i < (together ? OPERATIONS : ALL); i++) {
        waits(round, i);
        ended(round, i, MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    if (together) wait_for_persistent(round, requests + OPERATIONS);
    if (round != KNOWN) wait_for_death(&from_victim);
}

int main(int argument_count, char **arguments) {
    const char *dir = "", *how = "revoke";
    unsigned seed = 0;
    for (int i = 1; i + 1 < argument_count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        if (!strcmp(arguments[i], "--how")) how = arguments[i + 1];
        if (!strcmp(arguments[i], "--seed")) seed = (unsigned)atoi(arguments[i + 1]);
    }
    enter_world(&argument_count, &arguments, dir);
    sent = calloc((size_t)lengths[2] * MOST_MEMBERS, sizeof *sent);
    bool revokes = !strcmp(how, "revoke");
    MPI_Info info = MPI_INFO_NULL;
    if (!revokes) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpix_error_scope", "group");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int round = 0; round < ROUNDS; round++) make(round, info);
    MPI_Barrier(calm);
    event("ready");
    for (int round = 0; round < ROUNDS; round++) {
        if (world_rank == world_size - 1 - round) be_the_victim(round, seed);
        survive(round, seed, revokes);
    }
    leave_world();
    return 0;
}
