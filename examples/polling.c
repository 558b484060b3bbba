/* polling: ranks count keys for each other and never wait in a receive; it knows nothing of failures.
 *
 * Each rank draws keys and sends them, in batches, to the ranks that count them. Between batches it looks for what has come
 * from anybody: batches with MPI_Test of a receive from any source, the end of a round with MPI_Iprobe. When something is found,
 * and after how many looks, depends on time: nearly all of its events do (99.9 %, the rest are the sums). What is counted
 * does not.
 *
 *   mpicc -O2 -o polling polling.c
 *   mpirun --with-ft ulfm --mca hook_ringwatch_recovery log --mca hook_ringwatch_spares 1 -n 9 ./polling
 *       [BATCH [BATCHES [ROUNDS]]]
 *
 * BATCH: keys in a message (20000). BATCHES: for each rank by each rank in a round (40). ROUNDS (5). Standard output: a checksum
 * of all counts after each round.
 * With TELL_TIME in the environment rank 0 says on standard error how long that took.
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 3, END = 4, VALUES = 1 << 12 };

static int rank, ranks, batch = 20000, batches = 40, rounds = 5;
static uint32_t *counts; /* of each value of this rank */
static uint32_t *sent, *got;
static MPI_Request incoming;

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t mixed = (*state ^ *state >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint32_t) (mixed >> 32);
}

static void listen(void)
{
    MPI_Irecv(got, batch, MPI_UINT32_T, MPI_ANY_SOURCE, KEYS, MPI_COMM_WORLD, &incoming);
}

/* Returns whether something was found. */
static int look(void)
{
    int flag;
    MPI_Status status;
    MPI_Test(&incoming, &flag, &status);
    if (flag) {
        for (int i = 0; i < batch; i++) {
            counts[got[i] % VALUES] += got[i] / VALUES % 7 + 1;
        }
        listen();
        return 1;
    }
    MPI_Iprobe(MPI_ANY_SOURCE, END, MPI_COMM_WORLD, &flag, &status);
    if (flag) {
        MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return flag;
}

static void play(uint64_t *state, int *taken)
{
    for (int b = 0; b < batches; b++) {
        for (int i = 1; i < ranks; i++) {
            for (int k = 0; k < batch; k++) {
                sent[k] = draw(state);
            }
            MPI_Request request;
            MPI_Isend(sent, batch, MPI_UINT32_T, (rank + i) % ranks, KEYS, MPI_COMM_WORLD, &request);
            for (int has_left = 0; !has_left; MPI_Test(&request, &has_left, MPI_STATUS_IGNORE)) {
                *taken += look();
            }
        }
    }
    for (int i = 1; i < ranks; i++) {
        MPI_Send(NULL, 0, MPI_INT, (rank + i) % ranks, END, MPI_COMM_WORLD);
    }
    while (*taken < (ranks - 1) * (batches + 1)) {
        *taken += look();
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    batch = argc > 1 ? atoi(argv[1]) : batch;
    batches = argc > 2 ? atoi(argv[2]) : batches;
    rounds = argc > 3 ? atoi(argv[3]) : rounds;
    counts = calloc(VALUES, sizeof *counts);
    sent = malloc((size_t) batch * sizeof *sent), got = malloc((size_t) batch * sizeof *got);
    uint64_t state = (uint64_t) rank + 1;
    double began = MPI_Wtime();
    listen();
    for (int round = 1; round <= rounds; round++) {
        int taken = 0;
        play(&state, &taken);
        uint64_t own = 0, all = 0;
        for (uint64_t v = 0; v < VALUES; v++) {
            own += (v * 2 + 1) * (uint64_t) (rank + 1) * counts[v] * counts[v];
        }
        MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d: %d batches, checksum %016" PRIx64 "\n", round, taken, all);
        }
    }
    /* The last receive is still open: a message to itself ends it. */
    MPI_Send(sent, 0, MPI_UINT32_T, rank, KEYS, MPI_COMM_WORLD);
    MPI_Wait(&incoming, MPI_STATUS_IGNORE);
    if (rank == 0 && getenv("TELL_TIME")) {
        fprintf(stderr, "polling: %.3f s\n", MPI_Wtime() - began);
    }
    free(counts), free(sent), free(got);
    MPI_Finalize();
    return 0;
}
