/* What it costs that all ranks see the same outcome of a collective operation: on a communicator with the uniformity
 * local, on one with the uniformity coll, and as a program does it by hand, with MPIX_Comm_agree after the operation.
 *
 *   uniform ROUNDS MILLISECONDS SIZE[,SIZE...]
 *
 * MILLISECONDS: how long each is measured in a round; SIZE: bytes of a message, for alltoall of that to each rank. Prints
 * "absent,coll,0,0" and measures the other two where the communicator does not have the uniformity afterwards. */
#include "measure.h"

enum { VARIANTS = 3, OPERATIONS = 5 };

static const char *const key = "mpix_error_uniform";
static const char *const variants[VARIANTS] = {"local", "agree", "coll"};

static void barrier(const struct task *task)
{
    MPI_Barrier(task->comm);
}

static void bcast(const struct task *task)
{
    MPI_Bcast(task->out, task->bytes, MPI_CHAR, 0, task->comm);
}

static void reduce(const struct task *task)
{
    MPI_Reduce(task->out, task->in, task->bytes / (int) sizeof(float), MPI_FLOAT, MPI_SUM, 0, task->comm);
}

static void allreduce(const struct task *task)
{
    MPI_Allreduce(task->out, task->in, task->bytes / (int) sizeof(float), MPI_FLOAT, MPI_SUM, task->comm);
}

static void alltoall(const struct task *task)
{
    MPI_Alltoall(task->out, task->bytes, MPI_CHAR, task->in, task->bytes, MPI_CHAR, task->comm);
}

static const struct {
    const char *name;
    void (*run)(const struct task *);
} operations[OPERATIONS] = {
    {"barrier", barrier}, {"bcast", bcast}, {"reduce", reduce}, {"allreduce", allreduce}, {"alltoall", alltoall},
};

static void (*by_hand)(const struct task *);

static void with_agreement(const struct task *task)
{
    int worked = 1;
    by_hand(task);
    MPIX_Comm_agree(task->comm, &worked);
}

static void compare(int operation, int bytes, char *const *rooms, const MPI_Comm *comms, int count, int rounds,
                    double milliseconds)
{
    int times[VARIANTS], rank;
    MPI_Comm calm = comms[VARIANTS];
    struct task tasks[VARIANTS];
    MPI_Comm_rank(calm, &rank);
    by_hand = operations[operation].run;
    for (int v = 0; v < count; v++) {
        tasks[v] = (struct task) {1 == v ? with_agreement : by_hand, 1, comms[v], bytes, rooms[0], rooms[1]};
        times[v] = fitting(&tasks[v], milliseconds, calm);
    }
    for (int turn = 0; turn < rounds * count; turn++) {
        int variant = (turn + turn / count) % count;
        double ns = timed(&tasks[variant], times[variant], calm);
        if (0 == rank) {
            printf("%s,%s,%d,%.3f\n", operations[operation].name, variants[variant], bytes, ns);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size, present;
    MPI_Comm comms[VARIANTS + 1];
    if (argc != 4) {
        fprintf(stderr, "usage: uniform ROUNDS MILLISECONDS SIZE[,SIZE...]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    keep_output_back();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comms[0] = copy_with(MPI_COMM_WORLD, key, "local");
    comms[1] = copy_with(MPI_COMM_WORLD, key, "local");
    comms[2] = copy_with(MPI_COMM_WORLD, key, "coll");
    comms[VARIANTS] = copy_with(MPI_COMM_WORLD, key, "local");
    present = has_info(comms[2], key, "coll");
    if (0 == rank && !present) {
        printf("absent,coll,0,0\n");
    }
    int rounds = atoi(argv[1]), count = present ? VARIANTS : VARIANTS - 1;
    compare(0, 0, (char *[]) {NULL, NULL}, comms, count, rounds, atof(argv[2]));
    for (char *at = argv[3]; NULL != at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t bytes = (size_t) atoi(at), most = bytes * (size_t) size;
        char *rooms[] = {room(most), room(most)};
        for (int operation = 1; operation < OPERATIONS; operation++) {
            compare(operation, (int) bytes, rooms, comms, count, rounds, atof(argv[2]));
        }
        free(rooms[0]);
        free(rooms[1]);
    }
    MPI_Finalize();
    return 0;
}
