/* leaders: the last step of MPI_Win_create, in which every member asks rank 0 where its memory is. Four ranks.
 *
 *   leaders --events DIR dies|fails
 *
 * dies: rank 0 stays before that step, where it can be killed. fails: rank 3 does; rank 0 fails when it knows of a death, and
 * the others ask it when it has left. Functions of this program stand before those of Open MPI. Events are lines "rank
 * nanoseconds event details": "asks" where a rank has come as far as that, "left CLASS" after MPI_Win_create, "again CLASS" of
 * a window of the survivors.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

static const char *dir;
/* How many reductions a window takes, and how many are left until the last one. */
static int reductions, left;
static bool fails, is_armed, has_asked;

static bool is_told(const char *word) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, word);
    return !access(path, F_OK);
}

static void tell(const char *word) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, word);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

void *ompi_osc_rdma_peer_lookup(void *module, int rank) {
    void *(*own)(void *, int) = (void *(*)(void *, int))dlsym(RTLD_NEXT, "ompi_osc_rdma_peer_lookup");
    if (is_armed && !has_asked) {
        has_asked = true;
        event("asks");
        while (fails && world_rank == 3) pause();
        while (fails && !is_told("left")) usleep(1000);
    }
    return own(module, rank);
}

static int reduced(int code) {
    reductions++;
    if (!is_armed || world_rank != 0 || --left > 0) return code;
    event("asks");
    while (!fails) pause();
    for (int dead = 0; dead == 0;) {
        int there;
        MPI_Group failed;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
        MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed);
        MPI_Group_size(failed, &dead);
        MPI_Group_free(&failed);
    }
    return MPIX_ERR_PROC_FAILED;
}

#define STANDS_BEFORE(name) \
    int name(const void *sent, void *got, int n, void *type, void *op, void *comm, void *module) { \
        typedef int (*own)(const void *, void *, int, void *, void *, void *, void *); \
        return reduced(((own)dlsym(RTLD_NEXT, #name))(sent, got, n, type, op, comm, module)); \
    }

STANDS_BEFORE(ompi_coll_base_allreduce_intra_recursivedoubling)
STANDS_BEFORE(ompi_coll_base_allreduce_intra_nonoverlapping)
STANDS_BEFORE(ompi_coll_base_allreduce_intra_basic_linear)

static int memory[64];

static int window(MPI_Comm comm, MPI_Win *win) {
    return MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, win);
}

int main(int count, char **arguments) {
    dir = arguments[2];
    fails = !strcmp(arguments[3], "fails");
    enter_world(&count, &arguments, dir);
    MPI_Win win;
    reductions = 0;
    window(MPI_COMM_WORLD, &win);
    left = reductions;
    MPI_Win_free(&win);
    MPI_Barrier(MPI_COMM_WORLD);

    is_armed = true;
    event("left %d", class_of(window(MPI_COMM_WORLD, &win)));
    if (world_rank == 0) tell("left");
    is_armed = false;
    MPI_Comm rest;
    MPIX_Comm_shrink(MPI_COMM_WORLD, &rest);
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    int code = window(rest, &win);
    if (code == MPI_SUCCESS) code = MPI_Win_fence(0, win);
    if (code == MPI_SUCCESS) code = MPI_Win_free(&win);
    event("again %d", class_of(code));
    event("finalized %d", MPI_Finalize());
    return 0;
}
