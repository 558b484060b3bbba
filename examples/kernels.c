/* kernels: small programs that communicate as those of the NAS Parallel Benchmarks do; they know nothing of failures.
 *
 *   mpicc -O2 -o kernels kernels.c -lm
 *   mpirun --with-ft ulfm --mca hook_ringwatch_recovery replicate -n 8 ./kernels cg|ep|ft|is|lu [SIZE [ITERATIONS]]
 *
 * NAME  what a rank computes in an iteration           what it sends
 * cg    a product of its rows (7 of each) and a vector  its part of the vector to all (8 * SIZE bytes in all), two sums
 * ep    SIZE pairs of random numbers                    nothing; three sums at the end
 * ft    transforms of its rows of a square of SIZE      a transposition: 16 * SIZE^2 / ranks^2 bytes to each
 * is    SIZE keys, sorted into buckets                  sums of counts, counts and keys to all
 * lu    its columns of a square of SIZE, row by row     8 bytes for each row to the next rank: many small messages
 *
 * Standard output: a checksum, the same in every run with as many ranks. With TELL_TIME in the environment rank 0 says on standard
 * error how long the iterations took, and each process what it has used of a processor and of memory.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int rank, ranks;

static void *room(size_t bytes)
{
    void *place = calloc(bytes, 1);
    if (!place) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return place;
}

static double sum_of(double own)
{
    double all;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double cg(int size, int iterations)
{
    int own = size / ranks, all = own * ranks;
    double *vector = room(all * sizeof *vector), *product = room(own * sizeof *product), norm = 0;
    for (int i = 0; i < all; i++) vector[i] = 1;
    for (int turn = 0; turn < iterations; turn++) {
        double mine = 0, dot = 0;
        for (int i = 0; i < own; i++) {
            uint64_t state = 1 + rank * (uint64_t) own + i;
            product[i] = 8 * vector[rank * own + i];
            for (int k = 0; k < 6; k++) product[i] -= vector[next(&state) % all];
            mine += product[i] * product[i];
            dot += product[i] * vector[rank * own + i];
        }
        norm = sqrt(sum_of(mine)) + 1e-9 * sum_of(dot);
        for (int i = 0; i < own; i++) product[i] /= norm;
        MPI_Allgather(product, own, MPI_DOUBLE, vector, own, MPI_DOUBLE, MPI_COMM_WORLD);
    }
    return norm;
}

static double ep(int size, int iterations)
{
    double x = 0, y = 0, inside = 0;
    uint64_t state = 77 + rank;
    for (long i = 0; i < (long) size * iterations; i++) {
        double a = next(&state) * 0x1p-30 - 1, b = next(&state) * 0x1p-30 - 1, radius = a * a + b * b;
        if (radius <= 1 && radius > 0) {
            double scale = sqrt(-2 * log(radius) / radius);
            x += a * scale, y += b * scale, inside++;
        }
    }
    return sum_of(x) + sum_of(y) + sum_of(inside);
}

static double ft(int size, int iterations)
{
    int own = size / ranks, block = own * own;
    double *rows = room(2L * own * own * ranks * sizeof *rows), *sent = room(2L * block * ranks * sizeof *sent), mine = 0;
    for (int i = 0; i < 2 * own * own * ranks; i++) rows[i] = (rank * 31 + i) % 101;
    for (int turn = 0; turn < iterations; turn++) {
        /* Butterflies over the rows, whose length need be no power of two here. */
        int length = own * ranks;
        for (int half = 1; 2 * half <= length; half *= 2) {
            for (int i = 0; i < own; i++) {
                for (int j = 0; j + half < length; j += 2 * half) {
                    double *a = rows + 2L * (i * length + j), *b = a + 2 * half, re = a[0] - b[0], im = a[1] - b[1];
                    a[0] = (a[0] + b[0]) / 2, a[1] = (a[1] + b[1]) / 2, b[0] = im / 2, b[1] = re / 2;
                }
            }
        }
        for (int to = 0; to < ranks; to++) {
            for (int i = 0; i < own; i++) {
                memcpy(sent + 2L * (to * block + i * own), rows + 2L * (i * length + to * own), 2L * own * sizeof *sent);
            }
        }
        MPI_Alltoall(sent, 2 * block, MPI_DOUBLE, rows, 2 * block, MPI_DOUBLE, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2 * own * own * ranks; i++) mine += rows[i] * (i % 7);
    return sum_of(mine);
}

static double is(int size, int iterations)
{
    uint32_t *keys = room(size * sizeof *keys), *sorted = room(size * sizeof *sorted), *got = room(4L * size * sizeof *got);
    int *counts = room(5 * ranks * sizeof *counts), *places = counts + ranks, *from = places + ranks, *at = from + ranks;
    int *sums = at + ranks;
    double mine = 0;
    uint64_t state = 5 + rank;
    for (int turn = 0; turn < iterations; turn++) {
        memset(counts, 0, ranks * sizeof *counts);
        for (int i = 0; i < size; i++) {
            keys[i] = next(&state) % (1000u * ranks);
            counts[keys[i] / 1000]++;
        }
        for (int to = 0, place = 0; to < ranks; to++) places[to] = place, place += counts[to];
        for (int i = 0; i < size; i++) sorted[places[keys[i] / 1000]++] = keys[i];
        for (int to = 0; to < ranks; to++) places[to] -= counts[to];
        MPI_Allreduce(counts, sums, ranks, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Alltoall(counts, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
        int all = 0;
        for (int source = 0; source < ranks; source++) at[source] = all, all += from[source];
        if (all != sums[rank] || all > 4 * size) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Alltoallv(sorted, counts, places, MPI_UINT32_T, got, from, at, MPI_UINT32_T, MPI_COMM_WORLD);
        for (int i = 0; i < all; i++) mine += got[i] % 1000;
    }
    return sum_of(mine);
}

static double lu(int size, int iterations)
{
    int own = size / ranks;
    double *cells = room((size_t) size * own * sizeof *cells), mine = 0;
    for (int turn = 0; turn < iterations; turn++) {
        for (int row = 0; row < size; row++) {
            double edge = turn + row;
            if (rank > 0) MPI_Recv(&edge, 1, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < own; i++) edge = cells[row * own + i] = (edge + cells[row * own + i] + i) / 3;
            if (rank + 1 < ranks) MPI_Send(&edge, 1, MPI_DOUBLE, rank + 1, 0, MPI_COMM_WORLD);
        }
    }
    for (int i = 0; i < size * own; i++) mine += cells[i];
    return sum_of(mine);
}

static const struct kernel {
    const char *name;
    double (*run)(int size, int iterations);
    int size, iterations;
} kernels[] = {{"cg", cg, 200000, 50}, {"ep", ep, 1000000, 10}, {"ft", ft, 512, 20}, {"is", is, 200000, 20}, {"lu", lu, 1000, 20}};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct kernel *kernel = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(argv[1], kernels[i].name) == 0) kernel = &kernels[i];
    }
    if (!kernel) {
        if (rank == 0) fprintf(stderr, "kernels cg|ep|ft|is|lu [SIZE [ITERATIONS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int tells = getenv("TELL_TIME") != NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    double sum = kernel->run(argc > 2 ? atoi(argv[2]) : kernel->size, argc > 3 ? atoi(argv[3]) : kernel->iterations);
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - began;
    if (rank == 0) {
        printf("%s %.12g\n", kernel->name, sum);
        if (tells) fprintf(stderr, "kernels: %.6f s\n", took);
    }
    MPI_Finalize();
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (tells) {
        fprintf(stderr, "kernels used: %.6f s, %ld KiB\n",
                used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec), used.ru_maxrss);
    }
    return 0;
}
