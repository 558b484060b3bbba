/* multigrid: Poisson's equation on a square by V-cycles; it knows nothing of failures.
 *
 * Each rank has some rows of each level: those of a coarser one are every second one of its own. It exchanges the rows at the
 * edges with the ranks above and below. In every ANY-th exchange the receives name no source: with 1 in all, as MG of the NAS
 * benchmarks does it, with 2000 in 0.05 % of all receives, as many as AMG has.
 *
 *   mpicc -O2 -o multigrid multigrid.c -lm
 *   mpirun --with-ft ulfm --mca hook_ringwatch_recovery log --mca hook_ringwatch_spares 1 -n 9 ./multigrid
 *       [POWER [CYCLES [ANY]]]
 *
 * The finest level has 2^POWER - 1 rows and columns (10); CYCLES (20); ANY (2000). Standard output: residuals and a checksum, the
 * same to the last bit for any number of ranks that has the same number of levels. At least two rows for each rank.
 * With TELL_TIME in the environment rank 0 says on standard error how long that took.
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOWN = 1, UP = 2, BEFORE = 2, AFTER = 2, COARSEST = 30, MOST_LEVELS = 30 };

/* A level: rows `low` to `high` - 1 of `size`, with a row of the neighbours' or zeros on each side, and a column of zeros. */
typedef struct { int size, low, high; double *values, *right, *spare; } Level;

static Level grid[MOST_LEVELS];
static int rank, ranks, power = 10, cycles = 20, any = 2000, coarsest;
static long exchanges;

static size_t width(const Level *l) { return (size_t) l->size + 2; }

static double *row(const Level *l, double *values, int r) { return values + (size_t) (r - l->low + 1) * width(l); }

static void exchange(const Level *l, double *values)
{
    int named = ++exchanges % any != 0, count = (int) width(l);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];
    MPI_Irecv(row(l, values, l->low - 1), count, MPI_DOUBLE, named || rank == 0 ? above : MPI_ANY_SOURCE, DOWN, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Irecv(row(l, values, l->high), count, MPI_DOUBLE, named || rank == ranks - 1 ? below : MPI_ANY_SOURCE, UP,
              MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(row(l, values, l->low), count, MPI_DOUBLE, above, UP, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(row(l, values, l->high - 1), count, MPI_DOUBLE, below, DOWN, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* What is left of the equation: right - A values, with mesh width 1. The values' edges are those of the neighbours. */
static double left(const Level *l, int r, int c)
{
    const double *above = row(l, l->values, r - 1), *here = row(l, l->values, r), *below = row(l, l->values, r + 1);
    return row(l, l->right, r)[c] - (4 * here[c] - above[c] - below[c] - here[c - 1] - here[c + 1]);
}

static void smooth(Level *l, int times)
{
    while (times-- > 0) {
        for (int r = l->low; r < l->high; r++) {
            for (int c = 1; c <= l->size; c++) {
                row(l, l->spare, r)[c] = row(l, l->values, r)[c] + 0.2 * left(l, r, c);
            }
        }
        double *values = l->values;
        l->values = l->spare, l->spare = values;
        exchange(l, l->values);
    }
}

/* Full weighting: the mesh is twice as wide, so what is left counts four times. */
static void restrict_to(Level *fine, Level *coarse)
{
    for (int r = fine->low; r < fine->high; r++) {
        for (int c = 1; c <= fine->size; c++) {
            row(fine, fine->spare, r)[c] = left(fine, r, c);
        }
    }
    exchange(fine, fine->spare);
    memset(coarse->values, 0, (size_t) (coarse->high - coarse->low + 2) * width(coarse) * sizeof(double));
    for (int r = coarse->low; r < coarse->high; r++) {
        const double *above = row(fine, fine->spare, 2 * r - 1), *here = row(fine, fine->spare, 2 * r),
                     *below = row(fine, fine->spare, 2 * r + 1);
        for (int c = 1; c <= coarse->size; c++) {
            int f = 2 * c;
            double sides = here[f - 1] + here[f + 1] + above[f] + below[f];
            double corners = above[f - 1] + above[f + 1] + below[f - 1] + below[f + 1];
            row(coarse, coarse->right, r)[c] = (4 * here[f] + 2 * sides + corners) / 4;
        }
    }
}

static void correct(Level *fine, Level *coarse)
{
    for (int r = fine->low; r < fine->high; r++) {
        const double *one = row(coarse, coarse->values, r / 2), *other = row(coarse, coarse->values, (r + 1) / 2);
        for (int c = 1; c <= fine->size; c++) {
            row(fine, fine->values, r)[c] += (one[c / 2] + one[(c + 1) / 2] + other[c / 2] + other[(c + 1) / 2]) / 4;
        }
    }
    exchange(fine, fine->values);
}

static void cycle(int number)
{
    if (number == coarsest) {
        smooth(&grid[number], COARSEST);
        return;
    }
    smooth(&grid[number], BEFORE);
    restrict_to(&grid[number], &grid[number + 1]);
    cycle(number + 1);
    correct(&grid[number], &grid[number + 1]);
    smooth(&grid[number], AFTER);
}

static void make_levels(void)
{
    for (int number = 0; number < power; number++) {
        Level *l = &grid[number];
        long rows = 1L << (power - number), step = 1L << number;
        l->size = (int) rows - 1;
        l->low = number == 0 ? 1 + (int) (l->size * (long) rank / ranks) : (grid[0].low + (int) step - 1) / (int) step;
        l->high = number == 0 ? 1 + (int) (l->size * (long) (rank + 1) / ranks) : (grid[0].high + (int) step - 1) / (int) step;
        if (number > 0 && l->size / ranks < 3) {
            break;
        }
        size_t cells = (size_t) (l->high - l->low + 2) * width(l);
        l->values = calloc(cells, sizeof(double)), l->right = calloc(cells, sizeof(double));
        l->spare = calloc(cells, sizeof(double));
        coarsest = number;
    }
}

static double residual(void)
{
    double own = 0, all;
    for (int r = grid[0].low; r < grid[0].high; r++) {
        for (int c = 1; c <= grid[0].size; c++) {
            own = fmax(own, fabs(left(&grid[0], r, c)));
        }
    }
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static uint64_t checksum(void)
{
    uint64_t own = 0, all;
    for (int r = grid[0].low; r < grid[0].high; r++) {
        for (int c = 1; c <= grid[0].size; c++) {
            uint64_t bits;
            memcpy(&bits, &row(&grid[0], grid[0].values, r)[c], sizeof bits);
            own += bits * (uint64_t) (r * 2 + 1) * (uint64_t) (c * 2 + 1);
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
    power = argc > 1 ? atoi(argv[1]) : power;
    cycles = argc > 2 ? atoi(argv[2]) : cycles;
    any = argc > 3 ? atoi(argv[3]) : any;
    if (power < 2 || power > 15 || (1 << power) < 2 * ranks + 1 || any < 1) {
        fprintf(stderr, "multigrid: two rows for each rank are the least, and 2^15 - 1 the most\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    make_levels();
    for (int r = grid[0].low; r < grid[0].high; r++) {
        for (int c = 1; c <= grid[0].size; c++) {
            row(&grid[0], grid[0].right, r)[c] = (double) ((r * 31 + c * 17) % 101 - 50) / 101;
        }
    }
    double began = MPI_Wtime();
    for (int i = 1; i <= cycles; i++) {
        cycle(0);
        double now = residual();
        if (rank == 0) {
            printf("cycle %d: residual %.17g\n", i, now);
        }
    }
    uint64_t sum = checksum();
    if (rank == 0) {
        int size = grid[0].size, levels = coarsest + 1;
        printf("multigrid over %d x %d cells, %d levels, checksum %016" PRIx64 "\n", size, size, levels, sum);
        if (getenv("TELL_TIME")) {
            fprintf(stderr, "multigrid: %.3f s\n", MPI_Wtime() - began);
        }
    }
    MPI_Finalize();
    return 0;
}
