/* A program that knows nothing of failures and calls most functions that message logging covers. Of all that it gets it prints a
 * digest per round, which does not depend on time.
 *
 *   functions FOLDER ROUNDS [VICTIM STEP]...   as victim.h says; a round has six steps of each rank
 */
#include <mpi.h>
#include <string.h>

#include "victim.h"

enum { MOST = 8, ITEMS = 5, MODES = 1, RING = 2, AGAIN = 3, FOUND = 4, LATE = 5, NEVER = 6, RACE = 7 };

static unsigned long long digest;

static void take(const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        digest = (digest ^ ((const unsigned char *) data)[i]) * 1099511628211ull;
    }
}

static int left(void) { return (rank + size - 1) % size; }
static int right(void) { return (rank + 1) % size; }

/* Associative and not commutative: matrices of two rows. */
static void multiply(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void) type;
    unsigned (*a)[4] = in, (*b)[4] = inout;
    for (int i = 0; i < *length; i++) {
        unsigned c[4] = {a[i][0] * b[i][0] + a[i][1] * b[i][2], a[i][0] * b[i][1] + a[i][1] * b[i][3],
                         a[i][2] * b[i][0] + a[i][3] * b[i][2], a[i][2] * b[i][1] + a[i][3] * b[i][3]};
        memcpy(b[i], c, sizeof c);
    }
}

static void messages(int round)
{
    int sent[ITEMS] = {rank, round}, got[ITEMS], attached;
    MPI_Request request, several[2];
    MPI_Status status;
    void *room = malloc(1024 + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(room, 1024 + MPI_BSEND_OVERHEAD);
    for (int mode = 0; mode < 6; mode++) {
        sent[2] = mode;
        MPI_Irecv(got, ITEMS, MPI_INT, left(), MODES, MPI_COMM_WORLD, &request);
        switch (mode) {
        case 0: MPI_Bsend(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD); break;
        case 1: MPI_Ssend(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD); break;
        case 2: MPI_Ibsend(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD, &several[0]); break;
        case 3: MPI_Issend(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD, &several[0]); break;
        case 4: MPI_Isend(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD, &several[0]); break;
        default: MPI_Send(sent, ITEMS, MPI_INT, right(), MODES, MPI_COMM_WORLD); break;
        }
        MPI_Wait(&request, &status);
        if (mode >= 2 && mode <= 4) {
            MPI_Wait(&several[0], MPI_STATUS_IGNORE);
        }
        take(got, sizeof got);
        take(&status.MPI_SOURCE, sizeof status.MPI_SOURCE);
    }
    MPI_Buffer_detach(&room, &attached);
    free(room);

    MPI_Sendrecv_replace(sent, ITEMS, MPI_INT, right(), RING, left(), RING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    take(sent, sizeof sent);

    MPI_Isendrecv(sent, ITEMS, MPI_INT, left(), RING, got, ITEMS, MPI_INT, right(), RING, MPI_COMM_WORLD, &several[0]);
    MPI_Wait(&several[0], MPI_STATUS_IGNORE);
    take(got, sizeof got);
    MPI_Isendrecv_replace(sent, ITEMS, MPI_INT, left(), RING, right(), RING, MPI_COMM_WORLD, &several[0]);
    MPI_Wait(&several[0], MPI_STATUS_IGNORE);
    take(sent, sizeof sent);

    MPI_Send_init(sent, ITEMS, MPI_INT, left(), AGAIN, MPI_COMM_WORLD, &several[0]);
    MPI_Recv_init(got, ITEMS, MPI_INT, right(), AGAIN, MPI_COMM_WORLD, &several[1]);
    for (int time = 0; time < 3; time++) {
        sent[3] = time;
        MPI_Startall(2, several);
        MPI_Waitall(2, several, MPI_STATUSES_IGNORE);
        take(got, sizeof got);
    }
    MPI_Request_free(&several[0]);
    MPI_Request_free(&several[1]);
    step();

    /* From any source, taken out of what has arrived: which one comes first does not matter to a sum. */
    unsigned sum = 0;
    for (int to = 0; to < size; to++) {
        sent[4] = (rank + 1) * (to + 1);
        MPI_Send(sent, ITEMS, MPI_INT, to, FOUND, MPI_COMM_WORLD);
    }
    for (int i = 0; i < size; i++) {
        MPI_Message message;
        int flag = i % 2, count;
        if (flag) {
            MPI_Mprobe(MPI_ANY_SOURCE, FOUND, MPI_COMM_WORLD, &message, &status);
        }
        while (!flag) {
            MPI_Improbe(MPI_ANY_SOURCE, FOUND, MPI_COMM_WORLD, &flag, &message, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        if (i % 3) {
            MPI_Mrecv(got, count, MPI_INT, &message, MPI_STATUS_IGNORE);
        } else {
            MPI_Imrecv(got, count, MPI_INT, &message, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        sum += (unsigned) got[4] * (unsigned) (status.MPI_SOURCE + 7);
    }
    take(&sum, sizeof sum);
}

/* All at once, and ended in an order that is another one at each rank. */
static int is_cancelled(MPI_Request *request)
{
    MPI_Status status;
    int flag;
    MPI_Cancel(request);
    MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &flag);
    return flag;
}

static void cancelled(int round)
{
    int sent[2] = {rank, round}, got[2] = {0, 0};
    MPI_Request request;
    MPI_Irecv(got, 2, MPI_INT, MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &request);
    int flag = is_cancelled(&request);
    take(&flag, sizeof flag);
    /* Whether it is there in time depends on time. */
    MPI_Irecv(got, 2, MPI_INT, left(), RACE, MPI_COMM_WORLD, &request);
    MPI_Send(sent, 2, MPI_INT, right(), RACE, MPI_COMM_WORLD);
    if (is_cancelled(&request)) {
        MPI_Recv(got, 2, MPI_INT, left(), RACE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    take(got, sizeof got);
}

static void collectives(int round, MPI_Comm comm)
{
    enum { OPERATIONS = 19 };
    MPI_Request requests[OPERATIONS + 1];
    int n = 0, me, members;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &members);
    int root = round % members, sum = 0;
    int counts[MOST], starts[MOST], bytes[MOST]; /* as much of each as its rank says */
    int equal[MOST], multiples[MOST], places[MOST]; /* as much of all as this rank says */
    MPI_Datatype types[MOST], pairs, matrix;
    MPI_Op product;
    for (int i = 0; i < members; i++) {
        counts[i] = i + 1, starts[i] = sum, bytes[i] = 4 * sum, types[i] = MPI_INT;
        equal[i] = me + 1, multiples[i] = i * (me + 1), places[i] = 4 * i * (me + 1);
        sum += i + 1;
    }
    static int own[64], all[OPERATIONS][256];
    for (int i = 0; i < 64; i++) {
        own[i] = 1000 * round + 100 * me + i;
    }
    memset(all, 0, sizeof all);
    MPI_Type_vector(3, 1, 2, MPI_INT, &pairs);
    MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix);
    MPI_Type_commit(&pairs);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    if (me == root) {
        memcpy(all[0], own, sizeof own);
    }
    int late = 0;
    MPI_Irecv(&late, 1, MPI_INT, left(), LATE, MPI_COMM_WORLD, &requests[n++]);
    MPI_Ibcast(all[0], 1, pairs, root, comm, &requests[n++]);
    MPI_Ibarrier(comm, &requests[n++]);
    MPI_Iallreduce(own, all[1], ITEMS, MPI_INT, MPI_MAX, comm, &requests[n++]);
    MPI_Iallreduce(own, all[2], 3, matrix, product, comm, &requests[n++]);
    MPI_Ireduce(own, all[3], 2, matrix, product, root, comm, &requests[n++]);
    MPI_Igather(own, 2, MPI_INT, all[4], 2, MPI_INT, root, comm, &requests[n++]);
    MPI_Igatherv(own, counts[me], MPI_INT, all[5], counts, starts, MPI_INT, root, comm, &requests[n++]);
    MPI_Iscatter(own, 2, MPI_INT, all[6], 2, MPI_INT, root, comm, &requests[n++]);
    MPI_Iscatterv(own, counts, starts, MPI_INT, all[7], counts[me], MPI_INT, root, comm, &requests[n++]);
    step();
    MPI_Iallgather(own, 1, pairs, all[8], 3, MPI_INT, comm, &requests[n++]);
    MPI_Iallgatherv(own, counts[me], MPI_INT, all[9], counts, starts, MPI_INT, comm, &requests[n++]);
    MPI_Ialltoall(own, 2, MPI_INT, all[10], 2, MPI_INT, comm, &requests[n++]);
    MPI_Ialltoallv(own, counts, starts, MPI_INT, all[11], equal, multiples, MPI_INT, comm, &requests[n++]);
    MPI_Ialltoallw(own, counts, bytes, types, all[12], equal, places, types, comm, &requests[n++]);
    MPI_Iscan(own, all[13], 2, matrix, product, comm, &requests[n++]);
    MPI_Iexscan(own, all[14], ITEMS, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Ireduce_scatter(own, all[15], counts, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Ireduce_scatter_block(own, all[16], 2, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Type_free(&pairs);
    MPI_Type_free(&matrix);
    MPI_Op_free(&product);
    step();
    MPI_Send(&rank, 1, MPI_INT, right(), LATE, MPI_COMM_WORLD);
    int way = (rank + round) % 4, flag = 0, index, ended;
    int indices[OPERATIONS + 1];
    if (way == 0) {
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    } else if (way == 1) {
        while (!flag) {
            MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
        }
    } else if (way == 2) {
        for (int i = 0; i < n; i++) {
            MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = n - 1; i > n / 2; i--) { /* the last first */
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        for (ended = 0; ended != MPI_UNDEFINED;) {
            MPI_Testsome(n, requests, &ended, indices, MPI_STATUSES_IGNORE);
        }
    }
    for (int i = 0; i < n; i++) {
        if (requests[i] != MPI_REQUEST_NULL) {
            abort();
        }
    }
    take(&late, sizeof late);
    if (me == 0) { /* undefined there */
        memset(all[14], 0, sizeof all[14]);
    }
    if (me != root) {
        memset(all[3], 0, sizeof all[3]);
        memset(all[4], 0, sizeof all[4]);
        memset(all[5], 0, sizeof all[5]);
    }
    take(all, sizeof all);
}

static void again(int round)
{
    int own[2] = {rank, round}, sum[2], first = 0;
    MPI_Request requests[3];
    MPI_Allreduce_init(own, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(&first, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    for (int time = 0; time < 3; time++) {
        own[1] = time * rank;
        if (rank == 0) {
            first = time + round;
        }
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        take(sum, sizeof sum);
        take(&first, sizeof first);
    }
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
    }
}

/* In a torus with a dimension of two, where the neighbour on both sides is the same; and without blocking in a tube, since Open
 * MPI 5.0.7 by itself takes one side for the other there. */
static void neighbours(int round)
{
    int dims[2] = {0, 2}, rings[2] = {round % 2, 1}, own[16], got[6][32], counts[4] = {1, 2, 1, 2}, starts[4] = {0, 1, 3, 4};
    MPI_Aint bytes[4] = {0, 4, 12, 16};
    MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    MPI_Comm torus, tube;
    MPI_Request requests[2];
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, rings, 0, &torus);
    rings[0] = 1, rings[1] = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, rings, 0, &tube);
    for (int i = 0; i < 16; i++) {
        own[i] = 100 * rank + i + round;
    }
    memset(got, 0, sizeof got);
    int back[4] = {2, 1, 2, 1}, from[4] = {0, 2, 3, 5}; /* what is sent to one side is received from the other */
    MPI_Aint places[4] = {0, 8, 12, 20};
    MPI_Neighbor_allgather(own, 3, MPI_INT, got[0], 3, MPI_INT, torus);
    MPI_Neighbor_alltoall(own, 2, MPI_INT, got[1], 2, MPI_INT, torus);
    MPI_Ineighbor_alltoallv(own, counts, starts, MPI_INT, got[2], back, from, MPI_INT, tube, &requests[0]);
    MPI_Ineighbor_alltoallw(own, counts, bytes, types, got[3], back, places, types, tube, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int threes[4] = {3, 3, 3, 3}, apart[4] = {0, 4, 8, 12};
    MPI_Neighbor_allgatherv(own, 3, MPI_INT, got[4], threes, apart, MPI_INT, torus);
    MPI_Neighbor_alltoallv(own, counts, starts, MPI_INT, got[5], back, from, MPI_INT, torus);
    take(got, sizeof got);
    MPI_Comm_free(&torus), MPI_Comm_free(&tube);
}

/* The same ring three times: as a graph that all know, by its ends, and by edges that another rank names. */
static void graphs(int round)
{
    int index[MOST], edges[2 * MOST], got[4] = {0}, counts[3], weights[2] = {rank, round}, count;
    MPI_Comm graph, adjacent, named;
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1), edges[2 * i] = (i + size - 1) % size, edges[2 * i + 1] = (i + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
    MPI_Graph_neighbors_count(graph, right(), &count);
    MPI_Graph_neighbors(graph, right(), 2, got);
    take(&count, sizeof count), take(got, sizeof got);
    MPI_Neighbor_alltoall(weights, 1, MPI_INT, got, 1, MPI_INT, graph);
    take(got, sizeof got);

    int from = left(), to = right();
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, weights, 1, &to, weights + 1, MPI_INFO_NULL, 0, &adjacent);
    MPI_Dist_graph_neighbors_count(adjacent, &counts[0], &counts[1], &counts[2]);
    MPI_Dist_graph_neighbors(adjacent, 1, &got[0], &got[1], 1, &got[2], &got[3]);
    take(counts, sizeof counts), take(got, sizeof got);
    MPI_Neighbor_allgather(weights, 2, MPI_INT, got, 2, MPI_INT, adjacent);
    take(got, sizeof got);

    int node = left(), degree = 1;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &node, &degree, &to, weights, MPI_INFO_NULL, 0, &named);
    MPI_Dist_graph_neighbors_count(named, &counts[0], &counts[1], &counts[2]);
    MPI_Topo_test(named, &count);
    take(counts, sizeof counts), take(&count, sizeof count);
    MPI_Neighbor_alltoall(weights, 1, MPI_INT, got, 1, MPI_INT, named);
    take(got, sizeof got);
    MPI_Comm_free(&graph), MPI_Comm_free(&adjacent), MPI_Comm_free(&named);
}

static void communicators(int round)
{
    MPI_Comm copy, other, some = MPI_COMM_NULL, near;
    MPI_Request requests[2];
    MPI_Group world, odd, even, both;
    int relation, ranges[1][3] = {{1, size - 1, 2}}, sum, places[MOST], list[MOST];
    if (rank % 2) { /* who comes first waits for nobody */
        MPI_Send(&round, 1, MPI_INT, left(), RING, MPI_COMM_WORLD);
    }
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &requests[0]);
    MPI_Comm_idup(MPI_COMM_WORLD, &other, &requests[1]);
    if (rank % 2 == 0) {
        MPI_Recv(&sum, 1, MPI_INT, right(), RING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    step();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_compare(copy, other, &relation);
    take(&relation, sizeof relation);
    MPI_Comm_group(copy, &world);
    MPI_Group_range_incl(world, 1, ranges, &odd);
    MPI_Group_difference(world, odd, &even);
    MPI_Group_union(odd, even, &both);
    MPI_Group_compare(world, both, &relation);
    take(&relation, sizeof relation);
    for (int i = 0; i < size; i++) {
        list[i] = i;
    }
    MPI_Group_translate_ranks(world, size, list, both, places);
    take(places, size * sizeof *places);
    MPI_Comm_create_group(copy, rank % 2 ? odd : even, 3, &some);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, some);
    take(&sum, sizeof sum);
    MPI_Comm_split_type(other, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &near);
    int me, members;
    MPI_Comm_rank(near, &me);
    MPI_Comm_size(near, &members);
    take(&me, sizeof me), take(&members, sizeof members);
    collectives(round, round % 2 ? some : other);
    MPI_Group_free(&world), MPI_Group_free(&odd), MPI_Group_free(&even), MPI_Group_free(&both);
    MPI_Comm_free(&near), MPI_Comm_free(&some), MPI_Comm_free(&other), MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    arguments = argc, words = argv;
    for (int round = 0; round < atoi(argv[2]); round++) {
        unsigned long long all = 0;
        step();
        messages(round);
        cancelled(round);
        communicators(round);
        again(round);
        neighbours(round);
        graphs(round);
        step();
        MPI_Reduce(&digest, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d: %016llx\n", round, all);
            fflush(stdout);
        }
    }
    return MPI_Finalize();
}
