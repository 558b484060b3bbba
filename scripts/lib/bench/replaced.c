/* Ranks that a replacement can be timed with: pairs exchange messages, and one rank kills itself, once.
 *
 *   replaced TABLE STEPS VICTIM AT MICROSECONDS
 *
 * Ranks 2k and 2k+1 exchange a message in each of STEPS steps, in receives from any source, and compute about so long between
 * them. Rank VICTIM dies after step AT, before it sends again. TABLE is a file of zeros for a record of each rank, as
 * `bench_logged.py` reads it. The times are CLOCK_MONOTONIC's, in ns; the program's messages do not depend on them. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_STEPS = 8190, WORDS = 128 };

/* What a rank writes; a replacement writes the last times again and leaves the first ones. */
struct record {
    int64_t begun_first, begun_last;
    int64_t killed_at;
    int64_t steps_first[MOST_STEPS], steps_last[MOST_STEPS];
    int64_t unused[1];
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void note(int64_t *first, int64_t *last)
{
    *last = now();
    if (*first == 0) {
        *first = *last;
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = atoi(argv[2]), victim = atoi(argv[3]), at = atoi(argv[4]), work = atoi(argv[5]) * 500;
    int file = open(argv[1], O_RDWR);
    struct record *table = mmap(NULL, sizeof *table * (size_t) size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (argc != 6 || steps > MOST_STEPS || table == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    struct record *own = &table[rank];
    MPI_Barrier(MPI_COMM_WORLD);
    note(&own->begun_first, &own->begun_last);
    double out[WORDS] = {rank}, in[WORDS];
    for (int i = 0; i < steps; i++) {
        MPI_Send(out, WORDS, MPI_DOUBLE, rank ^ 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, WORDS, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < work; k++) {
            out[k % WORDS] = out[k % WORDS] * 0.5 + in[(k + 1) % WORDS] * 0.25 + 1;
        }
        note(&own->steps_first[i], &own->steps_last[i]);
        if (rank == victim && i == at && own->killed_at == 0) {
            own->killed_at = now();
            raise(SIGKILL);
        }
    }
    MPI_Finalize();
    return 0;
}
