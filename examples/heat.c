/* heat: an iterative solver that outlives its processes.
 *
 * Jacobi iteration on a two-dimensional grid, distributed in blocks of rows.
 * Every few iterations each rank keeps a copy of its block and gives another
 * one to its buddy, a rank on another host: in memory, no file is written.
 * When a process fails, the survivors revoke and shrink the communicator,
 * agree on the newest checkpoint that all of them hold, deal the rows out
 * again and go on from there. It survives any number of failures, one after
 * another or at once, as long as no block loses both of its copies.
 *
 * The iteration count is fixed and nothing is added up across rows, so the
 * answer is the same to the last bit for any number of ranks.
 *
 *   mpicc -O2 -o heat heat.c -lm
 *   mpirun --with-ft ulfm -n 8 ./heat [--rows N] [--columns N] [--iterations N]
 *       [--checkpoint-every N] [--pace MICROSECONDS] [--events DIR]
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { int64_t first, count; double *cells; } Block; /* a run of rows */

/* What one rank keeps of one checkpoint: its own block, and its ward's. */
typedef struct {
    int64_t number; /* checkpoints are counted; -1: none, start from scratch */
    int64_t iteration;
    uint64_t history;
    Block part[2];
} Copy;

/* What every rank tells the others when the communicator is new. */
typedef struct {
    int64_t host;
    int64_t number; /* of its newest checkpoint */
    int64_t parts[2][2][2]; /* newest, previous: own, ward's: first row, count */
} Card;

static int rows = 256, columns = 256, iterations = 1000, every = 50, pace = 0;

static MPI_Comm comm = MPI_COMM_WORLD;
static int rank, size, buddy, ward, world_rank;
static int64_t host;
static bool error_seen; /* in this round: one event for it is enough */
static int events = STDERR_FILENO;

static Block block;         /* this rank's rows, with a halo row on both sides */
static double *now, *next;
static int64_t iteration;
static uint64_t history;    /* of the residuals: a wrong one is a wrong answer */

/* The two newest checkpoints, and one in the making. Two, because a failure
 * during a checkpoint leaves ranks that have it and ranks that have not. */
static Copy copies[3] = {{.number = -1}, {.number = -1}, {.number = -1}};
static Copy *newest = &copies[0], *previous = &copies[1], *making = &copies[2];

/* --- events --------------------------------------------------------------- */

/* One line each, written in one piece: "nanoseconds rank event ...". */
static void event(const char *format, ...) {
    char line[256];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int n = snprintf(line, sizeof line, "%lld%09ld %d ", (long long)t.tv_sec, t.tv_nsec, world_rank);
    va_list rest;
    va_start(rest, format);
    n += vsnprintf(line + n, sizeof line - n - 1, format, rest);
    va_end(rest);
    line[n++] = '\n';
    if (write(events, line, n) < 0) perror("heat: events");
}

static bool ok(int code, const char *where) {
    if (code == MPI_SUCCESS) return true;
    if (!error_seen) {
        int class;
        MPI_Error_class(code, &class);
        event("error class=%s code=%d in=%s iteration=%" PRId64,
              class == MPIX_ERR_PROC_FAILED ? "PROC_FAILED" :
              class == MPIX_ERR_PROC_FAILED_PENDING ? "PROC_FAILED_PENDING" :
              class == MPIX_ERR_REVOKED ? "REVOKED" : "OTHER", class, where, iteration);
    }
    error_seen = true;
    return false;
}

static void *reallocate(void *memory, size_t bytes) {
    free(memory);
    memory = calloc(1, bytes);
    if (!memory) { perror("heat"); MPI_Abort(MPI_COMM_WORLD, 2); }
    return memory;
}

static void *allocate(size_t bytes) { return reallocate(NULL, bytes); }

/* Completes nonblocking messages; `code` is what starting them returned. After
 * an error the buffers are free only when nothing is under way any more, and
 * revoking is what ends the rest. (Not MPI_Sendrecv: on a revoked communicator
 * Open MPI 5.0 crashes in it if the source is MPI_PROC_NULL.) */
static bool finish(int code, int count, MPI_Request *requests, const char *where) {
    MPI_Status *statuses = allocate(sizeof *statuses * (count + 1));
    if (code == MPI_SUCCESS) code = MPI_Waitall(count, requests, statuses);
    for (int i = 0; i < count && code == MPI_ERR_IN_STATUS; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            code = statuses[i].MPI_ERROR;
    free(statuses);
    if (ok(code, where)) return true;
    MPIX_Comm_revoke(comm);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    return false;
}

/* Starts one more message, unless starting an earlier one failed already. */
static int start(int code, bool send, double *data, size_t cells, int peer, int tag, MPI_Request *requests, int *count) {
    if (code != MPI_SUCCESS) return code;
    code = send ? MPI_Isend(data, (int)cells, MPI_DOUBLE, peer, tag, comm, &requests[*count])
                : MPI_Irecv(data, (int)cells, MPI_DOUBLE, peer, tag, comm, &requests[*count]);
    *count += code == MPI_SUCCESS;
    return code;
}

/* --- the grid ------------------------------------------------------------- */

static Block block_of(int r) {
    int64_t first = (int64_t)rows * r / size;
    return (Block){first, (int64_t)rows * (r + 1) / size - first, NULL};
}

/* Fixed borders, one of them hot, and something to smooth out in between. */
static double initial(int64_t row, int column) {
    if (row < 0) return 100;
    if (row >= rows) return 0;
    if (column == 0) return 50;
    if (column == columns - 1) return 25;
    return (double)((row * 31 + column * 17) % 97);
}

static double *row_at(double *grid, int64_t row) { return grid + (row - block.first + 1) * columns; }

static void make_grids(void) {
    block = block_of(rank);
    size_t bytes = sizeof(double) * columns * (block.count + 2);
    now = reallocate(now, bytes);
    next = reallocate(next, bytes);
    for (int64_t row = block.first - 1; row <= block.first + block.count; row++)
        for (int c = 0; c < columns; c++)
            row_at(now, row)[c] = row_at(next, row)[c] = initial(row, c);
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) { /* FNV-1a */
    for (const unsigned char *p = data; bytes--; p++) hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

/* --- checkpoints ---------------------------------------------------------- */

/* Fills `making`. It becomes the newest only when the caller says so. */
static bool copy_out(void) {
    Copy *c = making;
    c->number = newest->number + 1, c->iteration = iteration, c->history = history;
    for (int i = 0; i < 2; i++) {
        double *old = c->part[i].cells;
        c->part[i] = block_of(i == 0 ? rank : ward);
        c->part[i].cells = reallocate(old, sizeof(double) * columns * c->part[i].count);
    }
    const Block *own = &c->part[0], *other = &c->part[1];
    memcpy(own->cells, row_at(now, block.first), sizeof(double) * columns * own->count);
    MPI_Request requests[2];
    int count = 0, code = start(MPI_SUCCESS, false, other->cells, columns * other->count, ward, 1, requests, &count);
    code = start(code, true, own->cells, columns * own->count, buddy, 1, requests, &count);
    return finish(code, count, requests, "checkpoint");
}

static void keep_copy(void) {
    Copy *oldest = previous;
    previous = newest, newest = making, making = oldest;
    event("iterating %" PRId64, iteration);
}

/* --- starting, and starting again ----------------------------------------- */

/* The same decision at every rank, also where the failure was not seen. */
static bool all_well(bool mine) {
    if (!mine) MPIX_Comm_revoke(comm); /* wakes those who wait for this rank */
    int flag = mine;
    return ok(MPIX_Comm_agree(comm, &flag), "agree") && flag;
}

/* A permutation that leads to another host wherever no host has more than
 * half of the ranks: in host order, as many places on as the largest host has. */
static void choose_buddies(const Card *cards) {
    int order[size], position[size], largest = 0, placed = 0;
    for (int r = 0; r < size; r++) {
        int before = placed, first = 0;
        while (cards[first].host != cards[r].host) first++;
        for (int s = r; s < size && first == r; s++)
            if (cards[s].host == cards[r].host) order[position[s] = placed++] = s;
        if (placed - before > largest) largest = placed - before;
    }
    int shift = largest < size ? largest : size / 2;
    buddy = order[(position[rank] + shift) % size];
    ward = order[(position[rank] + size - shift) % size];
}

/* Brings the rows of checkpoint `number` to their new owners. A row comes from
 * the rank that computed it, or, if that one is dead, from its buddy. */
static bool deal_rows(const Card *cards, int64_t number) {
    const Copy *mine = newest->number == number ? newest : previous;
    int *piece = allocate(sizeof(int) * rows); /* row -> 2 * holder + (0 own, 1 ward's) + 1 */
    for (int kind = 0; kind < 2; kind++)
        for (int r = 0; r < size; r++) {
            const int64_t *part = cards[r].parts[cards[r].number == number ? 0 : 1][kind];
            for (int64_t row = part[0]; row < part[0] + part[1]; row++)
                if (!piece[row]) piece[row] = 2 * r + kind + 1;
        }
    MPI_Request *requests = allocate(sizeof *requests * 2 * rows);
    int count = 0, code = MPI_SUCCESS;
    for (int row = 0, end, owner = 0; row < rows && code == MPI_SUCCESS; row = end) {
        if (!piece[row]) {
            if (rank == 0) fprintf(stderr, "heat: row %d is lost with both of its copies\n", row);
            MPI_Abort(comm, 3);
        }
        while (row >= block_of(owner).first + block_of(owner).count) owner++;
        Block to = block_of(owner);
        for (end = row + 1; end < to.first + to.count && piece[end] == piece[row]; end++) {}
        int holder = (piece[row] - 1) / 2;
        size_t cells = (size_t)(end - row) * columns;
        if (owner == rank)
            code = start(code, false, row_at(now, row), cells, holder, row, requests, &count);
        if (holder == rank) {
            const Block *part = &mine->part[(piece[row] - 1) % 2];
            double *from = part->cells + (row - part->first) * columns;
            code = start(code, true, from, cells, owner, row, requests, &count);
        }
    }
    bool good = finish(code, count, requests, "redistribution");
    free(requests);
    free(piece);
    iteration = mine->iteration, history = mine->history;
    return good;
}

/* From a new communicator to blocks in place and doubly kept. Nothing kept
 * before is given up until every rank has got there. */
static bool establish(void) {
    Card mine = {.host = host, .number = newest->number}, cards[size];
    for (int i = 0; i < 4; i++) {
        const Block *part = &(i < 2 ? newest : previous)->part[i % 2];
        mine.parts[i / 2][i % 2][0] = part->first;
        mine.parts[i / 2][i % 2][1] = part->count;
    }
    const int words = sizeof(Card) / sizeof(int64_t);
    bool good = ok(MPI_Allgather(&mine, words, MPI_INT64_T, cards, words, MPI_INT64_T, comm), "allgather");
    if (good) {
        int64_t number = mine.number;
        for (int r = 0; r < size; r++)
            if (cards[r].number < number) number = cards[r].number;
        choose_buddies(cards);
        make_grids();
        iteration = 0, history = 0;
        good = (number < 0 || deal_rows(cards, number)) && copy_out();
        making->number = number + 1;
    }
    if (!all_well(good)) return false;
    keep_copy();
    previous->number = -1; /* of the former distribution, or never completed */
    event("restored iteration=%" PRId64 " rows=%" PRId64, iteration, block.count);
    return true;
}

/* Without the dead. A shrink that is hit by a further failure is repeated. */
static void repair(void) {
    MPI_Comm fewer;
    while (!ok(MPIX_Comm_shrink(comm, &fewer), "shrink")) {}
    /* The broken communicator is not freed: late messages may still name it. */
    comm = fewer;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    error_seen = false;
    event("shrunk size=%d", size);
}

/* --- solving -------------------------------------------------------------- */

static bool step(void) {
    int64_t first = block.first, last = block.first + block.count - 1;
    int count = 0, code = MPI_SUCCESS;
    MPI_Request requests[4];
    for (int side = 0; side < 2; side++) { /* the neighbour above, the one below */
        int peer = side == 0 ? rank - 1 : rank + 1;
        if (peer < 0 || peer >= size) continue;
        code = start(code, false, row_at(now, side == 0 ? first - 1 : last + 1), columns, peer, 2, requests, &count);
        code = start(code, true, row_at(now, side == 0 ? first : last), columns, peer, 2, requests, &count);
    }
    if (!finish(code, count, requests, "halo")) return false;
    double change = 0, residual;
    for (int64_t row = first; row <= last; row++) {
        const double *above = row_at(now, row - 1), *here = row_at(now, row), *below = row_at(now, row + 1);
        double *there = row_at(next, row);
        for (int c = 1; c < columns - 1; c++) {
            there[c] = 0.25 * (above[c] + below[c] + here[c - 1] + here[c + 1]);
            change = fmax(change, fabs(there[c] - here[c]));
        }
    }
    /* A maximum does not depend on the order in which it is taken. */
    if (!ok(MPI_Allreduce(&change, &residual, 1, MPI_DOUBLE, MPI_MAX, comm), "allreduce")) return false;
    history = mix(history, &residual, sizeof residual);
    double *done = next;
    next = now, now = done, iteration++;
    return true;
}

static bool solve(void) {
    while (iteration < iterations) {
        if (!step()) return false;
        if (iteration % every == 0) {
            if (!copy_out()) return false;
            keep_copy();
        }
        if (pace) nanosleep(&(struct timespec){pace / 1000000, pace % 1000000 * 1000L}, NULL);
    }
    return true;
}

/* Rank 0 prints the answer; twice rather than never, should the very last
 * agreement fail. */
static bool deliver(void) {
    uint64_t mine[block.count], *all = allocate(sizeof *all * rows), result = history;
    int counts[size], places[size];
    for (int64_t i = 0; i < block.count; i++)
        mine[i] = mix(0xcbf29ce484222325u, row_at(now, block.first + i), sizeof(double) * columns);
    for (int r = 0; r < size; r++) counts[r] = block_of(r).count, places[r] = block_of(r).first;
    bool good = ok(MPI_Gatherv(mine, (int)block.count, MPI_UINT64_T, all, counts, places, MPI_UINT64_T, 0, comm), "gather");
    if (good && rank == 0) {
        result = mix(result, all, sizeof *all * rows);
        printf("heat: result %016" PRIx64 " iterations %" PRId64 "\n", result, iteration);
        fflush(stdout);
        event("result %016" PRIx64, result);
    }
    free(all);
    return good;
}

static void arguments(int count, char **words) {
    static const struct option options[] = {
        {"rows", 1, 0, 'r'}, {"columns", 1, 0, 'c'}, {"iterations", 1, 0, 'i'},
        {"checkpoint-every", 1, 0, 'k'}, {"pace", 1, 0, 'p'}, {"events", 1, 0, 'e'}, {0}};
    char path[4096];
    bool good = true;
    for (int o; (o = getopt_long(count, words, "", options, NULL)) != -1;) {
        int *number = o == 'r' ? &rows : o == 'c' ? &columns : o == 'i' ? &iterations : o == 'k' ? &every : &pace;
        if (o == 'e') {
            snprintf(path, sizeof path, "%s/rank.%d", optarg, world_rank);
            events = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        } else if (o != '?') {
            *number = atoi(optarg);
        }
        good = good && o != '?' && events >= 0 && *number >= (number == &pace ? 0 : 1);
    }
    if (good && rows >= size && columns >= 3) return;
    fprintf(stderr, "heat: bad arguments; a row for each rank, 3 columns and a folder for --events are needed\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int argc, char **argv) {
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    world_rank = rank;
    arguments(argc, argv);
    MPI_Get_processor_name(name, &length);
    host = (int64_t)mix(0, name, length);
    event("start pid=%d host=%s", (int)getpid(), name);

    for (;;) {
        /* All ranks pass the same two agreements per round, whatever happens
         * to them in between: one in establish, one here. */
        if (all_well(establish() && solve() && deliver())) break;
        repair();
    }
    event("finalizing");
    MPI_Finalize();
    event("finalized");
    return 0;
}
