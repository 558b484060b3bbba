/* wavefront: sweeps over a grid, as a pipeline of ranks; it knows nothing of failures.
 *
 * Symmetric successive over-relaxation for Poisson's equation on a square. Each rank has a strip of columns. A sweep goes from
 * left to right and back, and a block of rows of a strip begins when the neighbour has sent its edge of the same rows. After a
 * sweep both ways the ranks exchange edges for the residual; who comes first depends on time, so that these receives name no
 * source (as LU of the NAS benchmarks does it): 2 of 322 receives, 0.6 %.
 *
 *   mpicc -O2 -o wavefront wavefront.c -lm
 *   mpirun --with-ft ulfm --mca hook_ringwatch_recovery log --mca hook_ringwatch_spares 1 -n 9 ./wavefront [SIZE [SWEEPS]]
 *
 * SIZE is rows and columns, at least 160 (1600); SWEEPS both ways (20). Standard output: residuals and a checksum, the same to
 * the last bit for any number of ranks.
 * With TELL_TIME in the environment rank 0 says on standard error how long that took.
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 160, RIGHT = 1, LEFT = 2, EDGE_FROM_LEFT = 3, EDGE_FROM_RIGHT = 4 };

static const double OVER = 1.5;
static int rank, ranks, size = 1600, sweeps = 20, width, first_column;
static double *cells, *edge; /* with a column and a row of zeros on each side */

static double *row(int r) { return cells + (size_t) r * (size_t) (width + 2); }

static double source(int r, int c) { return (double) ((r * 31 + (first_column + c) * 17) % 101) / 101; }

static double around(int r, int c)
{
    return (row(r - 1)[c] + row(r + 1)[c] + row(r)[c - 1] + row(r)[c + 1] + source(r, c)) / 4;
}

static int first_row(int block) { return 1 + (int) ((long) size * block / BLOCKS); }

static double *column(int c, int begin, int end)
{
    for (int r = begin; r < end; r++) {
        edge[r - begin] = row(r)[c];
    }
    return edge;
}

static void set_column(int c, int begin, int end)
{
    for (int r = begin; r < end; r++) {
        row(r)[c] = edge[r - begin];
    }
}

static void sweep(int forward)
{
    int before = forward ? rank - 1 : rank + 1, after = forward ? rank + 1 : rank - 1, tag = forward ? RIGHT : LEFT;
    for (int b = 0; b < BLOCKS; b++) {
        int block = forward ? b : BLOCKS - 1 - b, begin = first_row(block), end = first_row(block + 1);
        if (before >= 0 && before < ranks) {
            MPI_Recv(edge, end - begin, MPI_DOUBLE, before, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            set_column(forward ? 0 : width + 1, begin, end);
        }
        for (int i = begin; i < end; i++) {
            int r = forward ? i : begin + end - 1 - i;
            for (int j = 1; j <= width; j++) {
                int c = forward ? j : width + 1 - j;
                row(r)[c] += OVER * (around(r, c) - row(r)[c]);
            }
        }
        if (after >= 0 && after < ranks) {
            MPI_Send(column(forward ? width : 1, begin, end), end - begin, MPI_DOUBLE, after, tag, MPI_COMM_WORLD);
        }
    }
}

/* Edges from both sides, from whoever comes first. */
static void exchange(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    double *left = malloc((size_t) size * sizeof *left), *right = malloc((size_t) size * sizeof *right);
    if (rank > 0) {
        MPI_Irecv(left, size, MPI_DOUBLE, MPI_ANY_SOURCE, EDGE_FROM_LEFT, MPI_COMM_WORLD, &requests[0]);
        MPI_Send(column(1, 1, size + 1), size, MPI_DOUBLE, rank - 1, EDGE_FROM_RIGHT, MPI_COMM_WORLD);
    }
    if (rank < ranks - 1) {
        MPI_Irecv(right, size, MPI_DOUBLE, MPI_ANY_SOURCE, EDGE_FROM_RIGHT, MPI_COMM_WORLD, &requests[1]);
        MPI_Send(column(width, 1, size + 1), size, MPI_DOUBLE, rank + 1, EDGE_FROM_LEFT, MPI_COMM_WORLD);
    }
    for (int index; MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE), index != MPI_UNDEFINED;) {
        memcpy(edge, index == 0 ? left : right, (size_t) size * sizeof *edge);
        set_column(index == 0 ? 0 : width + 1, 1, size + 1);
    }
    free(left), free(right);
}

static double residual(void)
{
    double own = 0, all;
    for (int r = 1; r <= size; r++) {
        for (int c = 1; c <= width; c++) {
            own = fmax(own, fabs(around(r, c) - row(r)[c]));
        }
    }
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static uint64_t checksum(void)
{
    uint64_t own = 0, all;
    for (int r = 1; r <= size; r++) {
        for (int c = 1; c <= width; c++) {
            uint64_t bits;
            memcpy(&bits, &row(r)[c], sizeof bits);
            own += bits * (uint64_t) (r * 2 + 1) * (uint64_t) ((first_column + c) * 2 + 1);
        }
    }
    MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size = argc > 1 ? atoi(argv[1]) : size;
    sweeps = argc > 2 ? atoi(argv[2]) : sweeps;
    if (size < BLOCKS || size < ranks) {
        fprintf(stderr, "wavefront: %d rows, and a column for each rank, are the least\n", BLOCKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    first_column = (int) ((long) size * rank / ranks);
    width = (int) ((long) size * (rank + 1) / ranks) - first_column;
    cells = calloc((size_t) (size + 2) * (size_t) (width + 2), sizeof *cells);
    edge = malloc((size_t) size * sizeof *edge);
    double began = MPI_Wtime();
    for (int i = 1; i <= sweeps; i++) {
        sweep(1);
        sweep(0);
        exchange();
        double left = residual();
        if (rank == 0) {
            printf("sweep %d: residual %.17g\n", i, left);
        }
    }
    uint64_t sum = checksum();
    if (rank == 0) {
        printf("wavefront over %d x %d cells, checksum %016" PRIx64 "\n", size, size, sum);
        if (getenv("TELL_TIME")) {
            fprintf(stderr, "wavefront: %.3f s\n", MPI_Wtime() - began);
        }
    }
    free(cells), free(edge);
    MPI_Finalize();
    return 0;
}
