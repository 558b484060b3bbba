/* A program with checkpoints of its own. After a set-up with receives from any source it works in steps: rank 0 receives from
 * whoever comes and tells all in which order, neighbours exchange data, all reduce. It prints what it has computed, which is the
 * same in every run, and whether all agree on what is not.
 *
 *   saves FOLDER STEPS EVERY WORDS [VICTIM STEP CUT]...
 *
 * Ranks save every EVERY steps, each in a step of its own; where EVERY is negative, all in the same one; where it is 0, never.
 * Rank VICTIM kills itself in step STEP, once: a file in FOLDER says so. If CUT is not negative, the last checkpoint of it has so
 * many bytes then. Where STEP is negative it waits for ever in step -STEP.
 */
#include <fcntl.h>
#include <glob.h>
#include <mpi.h>
#include <ringwatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

enum { HELLO = 1, RESULT = 2, NEIGHBOUR = 3 };

static int rank, size, last = -1, arguments;
static char **words;

static void cut_off(long bytes)
{
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*rank-%d.version-%d", getenv("OMPI_MCA_hook_ringwatch_checkpoints"), rank, last);
    if (glob(pattern, 0, NULL, &found) == 0) {
        if (truncate(found.gl_pathv[0], bytes) != 0) {
            perror("truncate");
        }
        globfree(&found);
    }
}

static void end_here(int step)
{
    for (int i = 5; i + 2 < arguments; i += 3) {
        char name[4096];
        snprintf(name, sizeof name, "%s/saves.%d.%d", words[1], rank, step);
        if (atoi(words[i]) != rank || abs(atoi(words[i + 1])) != step) {
            continue;
        }
        int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (file >= 0) {
            close(file);
            while (atoi(words[i + 1]) < 0) {
                pause();
            }
            if (atol(words[i + 2]) >= 0) {
                cut_off(atol(words[i + 2]));
            }
            raise(SIGKILL);
        }
    }
}

static unsigned long in_order(unsigned long order, int source)
{
    return order * 31 + (unsigned long) source;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    arguments = argc, words = argv;
    int steps = atoi(argv[2]), every = atoi(argv[3]), count = atoi(argv[4]);

    /* The set-up: who comes first, a communicator, a persistent request, a parameter. */
    unsigned long first = 0;
    for (int other = 1; rank == 0 && other < size; other++) {
        MPI_Status status;
        int word;
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, HELLO, MPI_COMM_WORLD, &status);
        first = in_order(first, status.MPI_SOURCE);
    }
    if (rank > 0) {
        MPI_Send(&rank, 1, MPI_INT, 0, HELLO, MPI_COMM_WORLD);
    }
    MPI_Bcast(&first, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    double *field = calloc(count, sizeof *field), *got = calloc(count, sizeof *got), mine = rank + 0.1, all = 0;
    long sum = 0;
    unsigned long order = first;
    MPI_Request from_left;
    MPI_Recv_init(got, count, MPI_DOUBLE, (rank + size - 1) % size, NEIGHBOUR, MPI_COMM_WORLD, &from_left);
    if (rank == 0) {
        printf("%d ranks\n", size);
    }

    int begun = RW_Checkpoint_begin();
    RW_Checkpoint_register(1, field, count, MPI_DOUBLE);
    RW_Checkpoint_register(2, &mine, 1, MPI_DOUBLE);
    RW_Checkpoint_register(3, &sum, 1, MPI_LONG);
    RW_Checkpoint_register(4, &order, 1, MPI_UNSIGNED_LONG);
    int restored = RW_Checkpoint_restore(&last);
    if (begun != MPI_SUCCESS || restored != MPI_SUCCESS) {
        fprintf(stderr, "rank %d: begin %d, restore %d\n", rank, begun, restored);
    }

    for (int step = last + 1; step < steps; step++) {
        end_here(step);
        if (rank == 0) {
            for (int other = 1; other < size; other++) {
                MPI_Status status;
                int word;
                MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
                order = in_order(order, status.MPI_SOURCE);
                sum += word;
            }
        } else {
            int word = rank * step;
            MPI_Send(&word, 1, MPI_INT, 0, RESULT, MPI_COMM_WORLD);
        }
        MPI_Bcast(&order, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
        MPI_Start(&from_left);
        field[step % count] = mine;
        MPI_Send(field, count, MPI_DOUBLE, (rank + 1) % size, NEIGHBOUR, MPI_COMM_WORLD);
        MPI_Wait(&from_left, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, step % 2 ? half : MPI_COMM_WORLD);
        mine = (mine + got[step % count] / size) / 2 + all * 0.01;
        if (rank == 0 && step % 25 == 0) {
            printf("step %d sum %ld mine %.17g\n", step, sum, mine);
        }
        if (every != 0 && step % abs(every) == (every > 0 ? rank % every : 0)) {
            int saved = RW_Checkpoint_save(step);
            last = saved == MPI_SUCCESS ? step : last;
        }
    }

    unsigned long least, most;
    MPI_Reduce(&order, &least, 1, MPI_UNSIGNED_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&order, &most, 1, MPI_UNSIGNED_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("end %.17g sum %ld agreed %d\n", all, sum, least == most);
    }
    RW_Checkpoint_end(0);
    MPI_Request_free(&from_left);
    MPI_Comm_free(&half);
    MPI_Finalize();
    free(field), free(got);
    return 0;
}
