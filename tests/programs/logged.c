/* A program that knows nothing of failures: a master gives tasks to whoever comes, then all compute with their neighbours and on a
 * communicator of every second rank. It prints what it has computed, which is the same in every run.
 *
 *   logged FOLDER TASKS [VICTIM STEP]...   as victim.h says
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "victim.h"

enum { TASK = 1, RESULT = 2, NEIGHBOUR = 3, CARD = 4, STEPS = 200, WORDS = 30000 };

/* What comes first depends on time; the sum does not. */
static long master(int tasks)
{
    long sum = 0, result[2];
    int next = 0, working = size - 1;
    for (int worker = 1; worker < size; worker++) {
        int task = next < tasks ? next++ : -1;
        MPI_Send(&task, 1, MPI_INT, worker, TASK, MPI_COMM_WORLD);
    }
    while (working > 0) {
        MPI_Status status;
        int flag = 0;
        while (!flag) { /* how often depends on time, too */
            MPI_Iprobe(MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &flag, &status);
        }
        MPI_Recv(result, 2, MPI_LONG, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
        step();
        if (result[0] < 0) {
            working--;
            continue;
        }
        sum += result[1];
        int task = next < tasks ? next++ : -1;
        MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, TASK, MPI_COMM_WORLD);
    }
    return sum;
}

static void worker(void)
{
    for (int task = 0; task >= 0;) {
        MPI_Recv(&task, 1, MPI_INT, 0, TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        step();
        long result[2] = {task, (long) task * task};
        MPI_Send(result, 2, MPI_LONG, 0, RESULT, MPI_COMM_WORLD);
    }
}

struct card { /* what a rank reads of its clock and its node */
    double time;
    char node[MPI_MAX_PROCESSOR_NAME];
};

static void pass(const void *sent, int to, void *got, int from)
{
    MPI_Sendrecv(sent, sizeof(struct card), MPI_BYTE, to, CARD, got, sizeof(struct card), MPI_BYTE, from, CARD,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    arguments = argc, words = argv;

    struct card own = {MPI_Wtime(), ""}, left, again;
    int length, right_rank = (rank + 1) % size, left_rank = (rank + size - 1) % size;
    MPI_Get_processor_name(own.node, &length);
    pass(&own, right_rank, &left, left_rank);

    long sum = 0;
    if (rank == 0) {
        sum = master(atoi(argv[2]));
        printf("%d ranks, sum %ld\n", size, sum);
    } else {
        worker();
    }

    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    double mine = rank + 0.1, all = 0, *sent = calloc(WORDS, sizeof *sent), *got = calloc(WORDS, sizeof *got);
    for (int i = 0; i < STEPS; i++) {
        step();
        if (rank == 0 && i % 50 == 0) {
            printf("step %d\n", i);
        }
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, i % 2 ? half : MPI_COMM_WORLD);
        MPI_Request requests[2];
        sent[i] = all;
        int words_now = i % 20 ? 1 : WORDS; /* short and long messages */
        MPI_Irecv(got, WORDS, MPI_DOUBLE, (rank + size - 1) % size, NEIGHBOUR, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(sent + i, words_now - (words_now > 1 ? i : 0), MPI_DOUBLE, (rank + 1) % size, NEIGHBOUR, MPI_COMM_WORLD,
                  &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        mine = (mine + got[0] / size) / 2 + rank * 0.01;
    }
    MPI_Comm_free(&half);
    pass(&left, left_rank, &again, right_rank);
    if (memcmp(&own, &again, sizeof own) != 0) {
        printf("rank %d reads %f on %s, and has read %f on %s\n", rank, own.time, own.node, again.time, again.node);
    }
    double first;
    MPI_Reduce(&mine, &first, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("end %.17g\n", first);
    }
    MPI_Finalize();
    free(sent), free(got);
    return 0;
}
