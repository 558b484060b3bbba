/* What the programs of `scripts/bench scopes` share: tasks that all ranks carry out together, and their times.
 *
 * Rank 0 prints lines "what,variant,size,nanoseconds" when everything is measured: nothing else runs meanwhile. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHORTEST_WARM_UP = 10, MOST_TIMES = 1 << 16 };

/* One thing to measure. */
struct task {
    void (*run)(const struct task *);
    int operations; /* that a run is made of */
    MPI_Comm comm;
    int bytes;
    char *out, *in; /* as large as the operation needs */
};

static inline int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Ends the job unless a call succeeded: what is measured must not fail. */
static inline void must(int status, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (MPI_SUCCESS != status) {
        MPI_Error_string(status, text, &length);
        fprintf(stderr, "%s: %s\n", what, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The highest of all ranks' values, at every rank. */
static inline double highest(double value, MPI_Comm calm)
{
    double result;
    must(MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, calm), "MPI_Allreduce");
    return result;
}

/* Mean time of an operation in nanoseconds, that of the slowest rank, as the OSU benchmarks report it ("max"): the clock
 * of each rank runs in the task and stands in the barrier before it, on a communicator that is not measured. */
static inline double timed(const struct task *task, int times, MPI_Comm calm)
{
    int64_t sum = 0;
    for (int i = 0; i < times; i++) {
        must(MPI_Barrier(calm), "MPI_Barrier");
        int64_t began = now();
        task->run(task);
        sum += now() - began;
    }
    return highest((double) sum / times / task->operations, calm);
}

/* How often a task runs in so many milliseconds, at least once; the same at every rank. Warms it up, too. */
static inline int fitting(const struct task *task, double milliseconds, MPI_Comm calm)
{
    double run = timed(task, SHORTEST_WARM_UP, calm) * task->operations, times;
    run = timed(task, run * SHORTEST_WARM_UP < 1e6 ? 10 * SHORTEST_WARM_UP : 1, calm) * task->operations;
    times = milliseconds * 1e6 / run;
    return times < 1 ? 1 : times > MOST_TIMES ? MOST_TIMES : (int) times;
}

/* A copy of a communicator whose info has this key; without a key, one that is only a copy. */
static inline MPI_Comm copy_with(MPI_Comm comm, const char *key, const char *value)
{
    MPI_Comm copy;
    MPI_Info info;
    must(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    if (NULL != key) {
        MPI_Info_create(&info);
        MPI_Info_set(info, key, value);
        must(MPI_Comm_set_info(copy, info), "MPI_Comm_set_info");
        MPI_Info_free(&info);
    }
    return copy;
}

/* Whether a communicator says that this value of a key is in force. */
static inline int has_info(MPI_Comm comm, const char *key, const char *value)
{
    char text[MPI_MAX_INFO_VAL + 1] = "";
    int size = sizeof text, found;
    MPI_Info info;
    must(MPI_Comm_get_info(comm, &info), "MPI_Comm_get_info");
    MPI_Info_get_string(info, key, &size, text, &found);
    MPI_Info_free(&info);
    return found && 0 == strcmp(text, value);
}

/* Room for a message, with all its pages; freed at the end of the process. */
static inline char *room(size_t bytes)
{
    char *memory = malloc(bytes);
    if (NULL == memory) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memset(memory, 1, bytes);
}

/* Keeps what is printed in memory until the process ends: a line on its way would set the daemons to work. */
static inline void keep_output_back(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 22);
}
