/* idle: members of two groups that have nothing to do in an operation call it in one way or another while somebody dies.
 *
 *   idle --events DIR OP WAY [LIBRARY]
 *
 *   OP       bcast, or ireduce; or nothing: MPI_Allreduce on MPI_COMM_WORLD, of no data
 *   WAY      direct; by a table, which the compiler has filled; asked (what dlsym finds after MPI_Init); or loaded (a function
 *            of LIBRARY, idle_caller.so, which is loaded when the communicator is there)
 *
 * The first half of the ranks are one group, the first rank is the root; the last rank is the victim and does not call. All others
 * write "blocked" before the operation and "result CLASS" after it, as in survivor.c.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

enum { TAG = 7 };

typedef int Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
typedef int Ireduce(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *);
typedef int Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef struct {
    Bcast *bcast;
    Ireduce *ireduce;
    Allreduce *allreduce;
} Functions;

static const Functions table = {MPI_Bcast, MPI_Ireduce, MPI_Allreduce};

static Functions functions_of(const char *way, const char *path) {
    if (!strcmp(way, "table")) return *(const volatile Functions *)&table;
    if (!strcmp(way, "direct")) return (Functions){NULL, NULL, NULL};
    bool loads = !strcmp(way, "loaded");
    void *library = loads ? dlopen(path, RTLD_NOW) : RTLD_DEFAULT;
    if (loads && !library) {
        fprintf(stderr, "idle: %s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 98);
    }
    return (Functions){(Bcast *)dlsym(library, loads ? "call_bcast" : "MPI_Bcast"),
                       (Ireduce *)dlsym(library, loads ? "call_ireduce" : "MPI_Ireduce"),
                       (Allreduce *)dlsym(library, loads ? "call_allreduce" : "MPI_Allreduce")};
}

static MPI_Comm two_groups(bool lower, int half) {
    MPI_Comm own, both;
    MPI_Info info;
    MPI_Comm_split(MPI_COMM_WORLD, lower, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, lower ? half : 0, TAG, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_uniform", "coll");
    MPI_Comm_set_info(both, info);
    return both;
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    enter_world(&count, &arguments, arguments[2]);
    const char *operation = arguments[3], *way = arguments[4];

    int half = world_size / 2, sent = 1, got = -1, code;
    bool lower = world_rank < half;
    MPI_Comm both = strcmp(operation, "nothing") ? two_groups(lower, half) : MPI_COMM_NULL;
    Functions by = functions_of(way, count > 5 ? arguments[5] : "");
    bool direct = !strcmp(way, "direct");
    int root = !lower ? 0 : world_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, given = root == MPI_PROC_NULL ? 0 : 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == world_size - 1) pause();

    event("blocked");
    if (!strcmp(operation, "nothing"))
        code = direct ? MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                      : by.allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(operation, "bcast"))
        code = direct ? MPI_Bcast(&sent, given, MPI_INT, root, both) : by.bcast(&sent, given, MPI_INT, root, both);
    else {
        MPI_Request request;
        code = direct ? MPI_Ireduce(&sent, &got, given, MPI_INT, MPI_SUM, root, both, &request)
                      : by.ireduce(&sent, &got, given, MPI_INT, MPI_SUM, root, both, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    event("result %d", class_of(code));
    leave_world();
    return 0;
}
