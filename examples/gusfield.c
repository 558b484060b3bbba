/* gusfield: the cut tree of a random graph, by a master and workers that know nothing of failures.
 *
 * The tree has the minimum cut between any two vertices: the smallest weight on the path between them (Gomory and Hu; the
 * algorithm is Gusfield's, 1990). Vertex after vertex is cut off from its present neighbour in the tree. The master gives
 * such cuts to whoever is idle, before it knows whether the neighbour stays the same, and takes them in the order of vertices:
 * one that was made for another neighbour is made again. Which worker answers first depends on time, so the master receives
 * from any source. The tree does not depend on it.
 *
 *   mpicc -O2 -o gusfield gusfield.c
 *   mpirun --with-ft ulfm --mca hook_ringwatch_recovery log --mca hook_ringwatch_spares 1 -n 9 ./gusfield
 *       [VERTICES [EDGES [SEED]]]
 *
 * Standard output: a line "vertex neighbour cut" for each vertex but the first, and a checksum. Two ranks or more.
 * With TELL_TIME in the environment rank 0 says on standard error how long that took.
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASK = 1, CUT = 2, GROUP = 20 }; /* vertices of a group have more edges among themselves */

/* A task is a vertex and its neighbour. A cut is both, its weight, and for each vertex whether it is on the vertex's side. */
enum { VERTEX, NEIGHBOUR, WEIGHT, HEAD };

/* Arcs come in pairs: the other one has the number with the last bit changed. */
typedef struct { int to, next, capacity, left; } Arc;

static int vertices = 1000, edges = 10000;
static Arc *arcs;
static int *first, *level, *at, *queue;
static uint64_t state;

static int draw(int below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int) ((state >> 33) % (uint64_t) below);
}

static void add_edge(int number, int from, int to, int capacity)
{
    arcs[2 * number] = (Arc) {to, first[from], capacity, 0};
    first[from] = 2 * number;
    arcs[2 * number + 1] = (Arc) {from, first[to], capacity, 0};
    first[to] = 2 * number + 1;
}

static void make_graph(void)
{
    arcs = calloc((size_t) edges * 2, sizeof *arcs);
    first = malloc((size_t) vertices * sizeof *first), level = calloc((size_t) vertices, sizeof *level);
    at = malloc((size_t) vertices * sizeof *at), queue = malloc((size_t) vertices * sizeof *queue);
    memset(first, -1, (size_t) vertices * sizeof *first);
    for (int i = 0; i < edges; i++) {
        int from = i < vertices ? i : draw(vertices), to, base = from - from % GROUP;
        do {
            to = draw(3) > 0 ? base + draw(GROUP) : draw(vertices);
        } while (to == from || to >= vertices);
        add_edge(i, from, to, 1 + draw(100));
    }
}

/* Levels of the vertices that flow can still reach. Returns whether `to` is one. */
static int levels(int from, int to)
{
    int head = 0, tail = 0;
    memset(level, -1, (size_t) vertices * sizeof *level);
    level[from] = 0;
    for (queue[tail++] = from; head < tail; head++) {
        for (int a = first[queue[head]]; a >= 0; a = arcs[a].next) {
            if (arcs[a].left > 0 && level[arcs[a].to] < 0) {
                level[arcs[a].to] = level[queue[head]] + 1;
                queue[tail++] = arcs[a].to;
            }
        }
    }
    return level[to] >= 0;
}

static int push(int from, int to, int most)
{
    if (from == to) {
        return most;
    }
    for (; at[from] >= 0; at[from] = arcs[at[from]].next) {
        Arc *arc = &arcs[at[from]];
        if (arc->left > 0 && level[arc->to] == level[from] + 1) {
            int pushed = push(arc->to, to, arc->left < most ? arc->left : most);
            if (pushed > 0) {
                arc->left -= pushed;
                arcs[at[from] ^ 1].left += pushed;
                return pushed;
            }
        }
    }
    return 0;
}

/* The maximum flow (Dinic). The vertices that it can still reach at the end are the same for every maximum flow. */
static void cut(int *answer)
{
    int from = answer[VERTEX], to = answer[NEIGHBOUR];
    for (int a = 0; a < 2 * edges; a++) {
        arcs[a].left = arcs[a].capacity;
    }
    answer[WEIGHT] = 0;
    while (levels(from, to)) {
        memcpy(at, first, (size_t) vertices * sizeof *at);
        for (int pushed; (pushed = push(from, to, INT32_MAX)) > 0;) {
            answer[WEIGHT] += pushed;
        }
    }
    for (int v = 0; v < vertices; v++) {
        answer[HEAD + v] = level[v] >= 0;
    }
}

static void worker(void)
{
    int *answer = malloc((size_t) (HEAD + vertices) * sizeof *answer);
    for (;;) {
        MPI_Recv(answer, 2, MPI_INT, 0, TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (answer[VERTEX] < 0) {
            break;
        }
        cut(answer);
        MPI_Send(answer, HEAD + vertices, MPI_INT, 0, CUT, MPI_COMM_WORLD);
    }
    free(answer);
}

static int *neighbour, *weight; /* the tree */
static int **cuts;              /* by vertex; null before there is one */
static char *is_being_cut;

/* Takes a cut into the tree. */
static void take(const int *made)
{
    int v = made[VERTEX], n = neighbour[v];
    const int *side = made + HEAD;
    weight[v] = made[WEIGHT];
    for (int other = v + 1; other < vertices; other++) {
        if (side[other] && neighbour[other] == n) {
            neighbour[other] = v;
        }
    }
    if (side[neighbour[n]]) {
        neighbour[v] = neighbour[n];
        neighbour[n] = v;
        weight[v] = weight[n];
        weight[n] = made[WEIGHT];
    }
}

/* Gives the next cut to a worker. Returns whether there is one. */
static int give(int worker, int from)
{
    for (int v = from; v < vertices; v++) {
        if (!is_being_cut[v] && (!cuts[v] || cuts[v][NEIGHBOUR] != neighbour[v])) {
            int task[] = {v, neighbour[v]};
            is_being_cut[v] = 1;
            MPI_Send(task, 2, MPI_INT, worker, TASK, MPI_COMM_WORLD);
            return 1;
        }
    }
    return 0;
}

static void master(int workers)
{
    double began = MPI_Wtime();
    int next = 1, *idle = malloc((size_t) workers * sizeof *idle), idlers = 0;
    neighbour = calloc((size_t) vertices, sizeof *neighbour), weight = calloc((size_t) vertices, sizeof *weight);
    cuts = calloc((size_t) vertices, sizeof *cuts), is_being_cut = calloc((size_t) vertices, 1);
    for (int worker = workers; worker > 0; worker--) {
        idle[idlers++] = worker;
    }
    while (next < vertices) {
        while (idlers > 0 && give(idle[idlers - 1], next)) {
            idlers--;
        }
        MPI_Status status;
        int *made = malloc((size_t) (HEAD + vertices) * sizeof *made);
        MPI_Recv(made, HEAD + vertices, MPI_INT, MPI_ANY_SOURCE, CUT, MPI_COMM_WORLD, &status);
        idle[idlers++] = status.MPI_SOURCE;
        free(cuts[made[VERTEX]]);
        cuts[made[VERTEX]] = made;
        is_being_cut[made[VERTEX]] = 0;
        while (next < vertices && cuts[next] && cuts[next][NEIGHBOUR] == neighbour[next]) {
            take(cuts[next++]);
        }
    }
    int end[] = {-1, -1};
    for (int worker = 1; worker <= workers; worker++) {
        MPI_Send(end, 2, MPI_INT, worker, TASK, MPI_COMM_WORLD);
    }
    if (getenv("TELL_TIME")) {
        fprintf(stderr, "gusfield: %.3f s\n", MPI_Wtime() - began);
    }
    uint64_t checksum = 0;
    for (int v = 1; v < vertices; v++) {
        printf("%d %d %d\n", v, neighbour[v], weight[v]);
        checksum = checksum * 1099511628211u + (uint64_t) neighbour[v] * 65537 + (uint64_t) weight[v];
    }
    printf("cut tree of %d vertices and %d edges, checksum %016" PRIx64 "\n", vertices, edges, checksum);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    vertices = argc > 1 ? atoi(argv[1]) : vertices;
    edges = argc > 2 ? atoi(argv[2]) : edges;
    state = argc > 3 ? (uint64_t) atoi(argv[3]) : 1;
    if (size < 2 || vertices < 2 || edges < vertices) {
        fprintf(stderr, "gusfield: 2 ranks, 2 vertices and an edge for each of them are the least\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    make_graph();
    rank == 0 ? master(size - 1) : worker();
    MPI_Finalize();
    return 0;
}
