/* alone: each rank is alone in a communicator and works there, while another rank dies.
 *
 *   alone --events DIR HOW OPERATION...
 *
 *   HOW   group, global or local: the scope that the communicator is given; or default: that of the parameter
 *
 * Rank k does operation k over and over, until it fails, or for a while after it has heard of the death elsewhere. The last rank
 * waits for it. Events are lines "rank nanoseconds event details": "blocked", and "result OPERATION CLASS".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdlib.h>
#include <string.h>

#include "class.h"
#include "death.h"
#include "world.h"

enum { TAG = 7, AFTERWARDS = 10000, LIMIT = 20 };

static int wait_for(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int work(const char *name, MPI_Comm comm) {
    int in = 1, out = 0, flag, code;
    MPI_Request request, both[2];
    MPI_Message message;
    if (!strcmp(name, "allreduce")) return MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
    if (!strcmp(name, "barrier")) return MPI_Barrier(comm);
    if (!strcmp(name, "bcast")) return MPI_Bcast(&in, 1, MPI_INT, 0, comm);
    if (!strcmp(name, "reduce")) return MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, 0, comm);
    if (!strcmp(name, "gather")) return MPI_Gather(&in, 1, MPI_INT, &out, 1, MPI_INT, 0, comm);
    if (!strcmp(name, "alltoall")) return MPI_Alltoall(&in, 1, MPI_INT, &out, 1, MPI_INT, comm);
    if (!strcmp(name, "scan")) return MPI_Scan(&in, &out, 1, MPI_INT, MPI_SUM, comm);
    if (!strcmp(name, "ibarrier")) return wait_for(MPI_Ibarrier(comm, &request), &request);
    if (!strcmp(name, "ibcast")) return wait_for(MPI_Ibcast(&in, 1, MPI_INT, 0, comm, &request), &request);
    if (!strcmp(name, "iallreduce"))
        return wait_for(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request), &request);
    if (!strcmp(name, "ialltoall"))
        return wait_for(MPI_Ialltoall(&in, 1, MPI_INT, &out, 1, MPI_INT, comm, &request), &request);
    if (!strcmp(name, "sendrecv"))
        return MPI_Sendrecv(&in, 1, MPI_INT, 0, TAG, &out, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "iprobe")) return MPI_Iprobe(0, TAG, comm, &flag, MPI_STATUS_IGNORE);
    if (!strcmp(name, "isend")) {
        code = MPI_Irecv(&out, 1, MPI_INT, 0, TAG, comm, &both[0]);
        if (code == MPI_SUCCESS) code = MPI_Isend(&in, 1, MPI_INT, 0, TAG, comm, &both[1]);
        return wait_for(wait_for(code, &both[0]), &both[1]);
    }
    /* Its message is there when it is asked for. */
    code = MPI_Isend(&in, 1, MPI_INT, 0, TAG, comm, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    if (!strcmp(name, "probe")) {
        code = MPI_Probe(0, TAG, comm, MPI_STATUS_IGNORE);
        return code == MPI_SUCCESS ? MPI_Recv(&out, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE) : code;
    }
    code = MPI_Mprobe(0, TAG, comm, &message, MPI_STATUS_IGNORE);
    return code == MPI_SUCCESS ? MPI_Mrecv(&out, 1, MPI_INT, &message, MPI_STATUS_IGNORE) : code;
}

int main(int count, char **arguments) {
    MPI_Comm own, calm;
    MPI_Request from_victim;
    MPI_Info info;
    int nothing, code = MPI_SUCCESS;
    enter_world(&count, &arguments, arguments[2]);
    const char *how = arguments[3], *operation = arguments[4 + world_rank % (count - 4)];
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", "local");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &calm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank, 0, &own);
    if (strcmp(how, "default")) {
        MPI_Info_set(info, "mpix_error_scope", how);
        MPI_Comm_set_info(own, info);
    }
    MPI_Info_free(&info);
    MPI_Irecv(&nothing, 1, MPI_INT, world_size - 1, TAG, calm, &from_victim);
    MPI_Barrier(calm);
    event("blocked");
    if (world_rank == world_size - 1) for (;;) pause();
    if (!strcmp(how, "group") || !strcmp(how, "local")) {
        wait_for_death(&from_victim);
        for (int i = 0; i < AFTERWARDS && code == MPI_SUCCESS; i++) code = work(operation, own);
    } else {
        double start = MPI_Wtime();
        while (code == MPI_SUCCESS && MPI_Wtime() - start < LIMIT) code = work(operation, own);
    }
    event("result %s %d", operation, class_of(code));
    leave_world();
    return 0;
}
