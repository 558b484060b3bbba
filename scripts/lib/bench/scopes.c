/* What an error scope costs where nobody dies: latency, bandwidth and allreduce on communicators of each scope, in turn.
 *
 *   scopes ROUNDS MILLISECONDS SIZE[,SIZE...]
 *
 * MILLISECONDS: how long each is measured in a round; SIZE in bytes. Latency and bandwidth are those of osu_latency (one
 * way) and osu_bw (time per message, 64 on their way at once) between the ranks 0 and 1. One rank by itself measures its
 * calls: a message to itself, an allreduce, and MPI_Test, which is a turn of the progress loop. Without ringwatch the
 * same communicators are measured, and their info means nothing. */
#include "measure.h"

enum { SCOPES = 3, FIGURES = 3, ROUND_TRIPS = 50, WINDOW = 64, CALLS = 1000 };

static const char *const scopes[SCOPES] = {"local", "group", "global"};
static int world_rank;

static void ping_pong(const struct task *task)
{
    for (int i = 0; i < ROUND_TRIPS && world_rank < 2; i++) {
        if (0 == world_rank) {
            MPI_Send(task->out, task->bytes, MPI_CHAR, 1, 1, task->comm);
        }
        MPI_Recv(task->in, task->bytes, MPI_CHAR, 1 - world_rank, 1, task->comm, MPI_STATUS_IGNORE);
        if (1 == world_rank) {
            MPI_Send(task->out, task->bytes, MPI_CHAR, 0, 1, task->comm);
        }
    }
}

static void stream(const struct task *task)
{
    MPI_Request requests[WINDOW];
    char answer = 0;
    if (world_rank > 1) {
        return;
    }
    for (int i = 0; i < WINDOW; i++) {
        if (0 == world_rank) {
            MPI_Isend(task->out, task->bytes, MPI_CHAR, 1, 2, task->comm, &requests[i]);
        } else {
            MPI_Irecv(task->in, task->bytes, MPI_CHAR, 0, 2, task->comm, &requests[i]);
        }
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (0 == world_rank) {
        MPI_Recv(&answer, 1, MPI_CHAR, 1, 3, task->comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&answer, 1, MPI_CHAR, 0, 3, task->comm);
    }
}

static void allreduce(const struct task *task)
{
    MPI_Allreduce(task->out, task->in, task->bytes / (int) sizeof(float), MPI_FLOAT, MPI_SUM, task->comm);
}

static void to_itself(const struct task *task)
{
    for (int i = 0; i < CALLS; i++) {
        MPI_Sendrecv(task->out, task->bytes, MPI_CHAR, 0, 4, task->in, task->bytes, MPI_CHAR, 0, 4, task->comm,
                     MPI_STATUS_IGNORE);
    }
}

static void by_itself(const struct task *task)
{
    for (int i = 0; i < CALLS; i++) {
        allreduce(task);
    }
}

static void turn(const struct task *task)
{
    MPI_Request request;
    int done = 0;
    MPI_Irecv(task->in, task->bytes, MPI_CHAR, 0, 5, task->comm, &request);
    for (int i = 0; i < CALLS; i++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    MPI_Send(task->out, task->bytes, MPI_CHAR, 0, 5, task->comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const struct figure {
    const char *name;
    void (*run)(const struct task *);
    int operations;
} of_several[FIGURES] = {
    {"latency", ping_pong, 2 * ROUND_TRIPS},
    {"bandwidth", stream, WINDOW},
    {"allreduce", allreduce, 1},
}, of_one[FIGURES] = {
    {"message", to_itself, CALLS},
    {"collective", by_itself, CALLS},
    {"turn", turn, CALLS},
};

int main(int argc, char **argv)
{
    MPI_Comm comms[SCOPES], calm;
    int ranks;
    if (argc != 4) {
        fprintf(stderr, "usage: scopes ROUNDS MILLISECONDS SIZE[,SIZE...]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    keep_output_back();
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct figure *figures = 1 == ranks ? of_one : of_several;
    calm = copy_with(MPI_COMM_WORLD, NULL, NULL);
    for (int s = 0; s < SCOPES; s++) {
        comms[s] = copy_with(MPI_COMM_WORLD, "mpix_error_scope", scopes[s]);
        if (0 == world_rank && has_info(comms[s], "mpix_error_scope", scopes[s])) {
            printf("served,%s,0,0\n", scopes[s]);
        }
    }
    int rounds = atoi(argv[1]);
    for (char *at = argv[3]; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int bytes = atoi(at);
        char *out = room((size_t) bytes), *in = room((size_t) bytes);
        for (int f = 0; f < FIGURES; f++) {
            struct task task = {figures[f].run, figures[f].operations, comms[0], bytes, out, in};
            int times = fitting(&task, atof(argv[2]), calm);
            for (int turn = 0; turn < rounds * SCOPES; turn++) {
                /* Each scope is the first, the second and the last equally often. */
                int scope = (turn + turn / SCOPES) % SCOPES;
                task.comm = comms[scope];
                double ns = timed(&task, times, calm);
                if (0 == world_rank) {
                    printf("%s,%s,%d,%.3f\n", figures[f].name, scopes[scope], bytes, ns);
                }
            }
        }
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
