/* What an error scope costs where nobody dies: latency, bandwidth and allreduce on communicators of each scope, in turn.
 *
 *   scopes ROUNDS MILLISECONDS SIZE[,SIZE...] [off]
 *
 * MILLISECONDS: how long each is measured in a round; SIZE in bytes; off: also with Open MPI's own functions back in the
 * places of ringwatch's, in the same process, twice, which is the way to see little: two processes differ by much more.
 * Latency and bandwidth are those of osu_latency (one way) and osu_bw (time per message, 64 on their way at once) between
 * the ranks 0 and 1. One rank by itself measures its calls: a message to itself, an allreduce, and MPI_Test, which is a
 * turn of the progress loop. Without ringwatch the same communicators are measured, and their info means nothing. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>

#include "measure.h"

enum { SCOPES = 3, VARIANTS = 5, FIGURES = 3, ROUND_TRIPS = 50, WINDOW = 64, CALLS = 1000 };
/* Of mca_btl_base_component_t (btl.h): its part of the progress loop. */
enum { PROGRESS = 272 };

static const char *const variants[VARIANTS] = {"local", "group", "global", "off", "again"};
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

typedef int reduction(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

/* Open MPI's own MPI_Allreduce: by the address from before MPI_Init; and whether that is called. */
static reduction *own_reduction;
static int calls_own;

static reduction *reduction_known(void)
{
    return (reduction *) dlsym(RTLD_DEFAULT, "MPI_Allreduce");
}

static void allreduce(const struct task *task)
{
    int count = task->bytes / (int) sizeof(float);
    if (calls_own) {
        own_reduction(task->out, task->in, count, MPI_FLOAT, MPI_SUM, task->comm);
    } else {
        MPI_Allreduce(task->out, task->in, count, MPI_FLOAT, MPI_SUM, task->comm);
    }
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

typedef int progress(void);

/* The transport for shared memory in the progress loop, and what stands there with ringwatch. */
static progress *transport, *watched, *present;

/* What Open MPI's transport for shared memory has in the progress loop; NULL if there is none. */
static progress *in_loop(void)
{
    char *component = dlsym(RTLD_DEFAULT, "mca_btl_sm_component");
    return NULL == component ? NULL : *(progress **) (component + PROGRESS);
}

/* From now on this one is in the progress loop. */
static void loop_with(progress *wanted)
{
    int (*leave)(progress *) = (int (*)(progress *)) dlsym(RTLD_DEFAULT, "opal_progress_unregister");
    int (*enter)(progress *) = (int (*)(progress *)) dlsym(RTLD_DEFAULT, "opal_progress_register");
    if (NULL == leave || NULL == enter || 0 != leave(present) || 0 != enter(wanted)) {
        fprintf(stderr, "scopes: the progress loop has no place of which Open MPI's own function could be put back\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    present = wanted;
}

/* A copy whose collectives are Open MPI's own. */
static MPI_Comm copy_without(MPI_Comm comm)
{
    MPI_Comm copy;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", "^ringwatch");
    must(MPI_Comm_dup_with_info(comm, info, &copy), "MPI_Comm_dup_with_info");
    MPI_Info_free(&info);
    return copy;
}

/* Another order, the same at all ranks: what is measured depends on what was before, and on where its memory is. */
static void shuffle(int *order, int count)
{
    static unsigned short state[3];
    static int is_begun;
    if (!is_begun) {
        int64_t time = now();
        MPI_Bcast(&time, sizeof time, MPI_BYTE, 0, MPI_COMM_WORLD);
        memcpy(state, &time, sizeof state);
        is_begun = 1;
    }
    for (int last = count - 1; last > 0; last--) {
        int other = (int) (nrand48(state) % (last + 1)), kept = order[last];
        order[last] = order[other];
        order[other] = kept;
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[VARIANTS], calm;
    int ranks, with_off = 5 == argc && 0 == strcmp(argv[4], "off");
    if (argc != 4 + with_off) {
        fprintf(stderr, "usage: scopes ROUNDS MILLISECONDS SIZE[,SIZE...] [off]\n");
        return 2;
    }
    transport = in_loop();
    own_reduction = reduction_known();
    MPI_Init(&argc, &argv);
    watched = present = in_loop();
    keep_output_back();
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct figure *figures = 1 == ranks ? of_one : of_several;
    calm = copy_with(MPI_COMM_WORLD, NULL, NULL);
    int count = with_off ? VARIANTS : SCOPES, order[VARIANTS] = {0, 1, 2, 3, 4};
    shuffle(order, count);
    for (int made = 0; made < count; made++) {
        int v = order[made];
        comms[v] = v < SCOPES ? copy_with(MPI_COMM_WORLD, "mpix_error_scope", variants[v]) : copy_without(MPI_COMM_WORLD);
        if (v < SCOPES && 0 == world_rank && has_info(comms[v], "mpix_error_scope", variants[v])) {
            printf("served,%s,0,0\n", variants[v]);
        }
    }
    if (with_off && 0 == world_rank && transport != watched && own_reduction != reduction_known()) {
        printf("served,off,0,0\n");
    }
    int rounds = atoi(argv[1]);
    for (char *at = argv[3]; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int bytes = atoi(at);
        char *out = room((size_t) bytes), *in = room((size_t) bytes);
        for (int f = 0; f < FIGURES; f++) {
            struct task task = {figures[f].run, figures[f].operations, comms[0], bytes, out, in};
            int times = fitting(&task, atof(argv[2]), calm);
            for (int round = 0; round < rounds; round++) {
                shuffle(order, count);
                for (int turn = 0; turn < count; turn++) {
                    int v = order[turn];
                    task.comm = comms[v];
                    calls_own = v >= SCOPES;
                    if (with_off) {
                        loop_with(v < SCOPES ? watched : transport);
                    }
                    double ns = timed(&task, times, calm);
                    if (0 == world_rank) {
                        printf("%s,%s,%d,%.3f\n", figures[f].name, variants[v], bytes, ns);
                    }
                }
            }
        }
        free(out);
        free(in);
    }
    if (with_off) {
        loop_with(watched);
    }
    MPI_Finalize();
    return 0;
}
