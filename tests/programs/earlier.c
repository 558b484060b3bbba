/* earlier: scopes that communicators get when somebody is dead already.
 *
 *   earlier --events DIR
 *
 * The last rank dies. Then rank 0 gives a communicator of all a scope, and the living give one to a communicator of the
 * living. Events are lines "rank nanoseconds revoked COMMUNICATOR SCOPE BEFORE AFTER".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>

#include "death.h"
#include "world.h"

static int is_revoked(MPI_Comm comm) {
    int flag = -1;
    MPIX_Comm_is_revoked(comm, &flag);
    return flag;
}

static void set(MPI_Comm comm, const char *name, const char *scope) {
    int before = is_revoked(comm);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", scope);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    event("revoked %s %s %d %d", name, scope, before, is_revoked(comm));
}

int main(int count, char **arguments) {
    static const char *const scopes[] = {"local", "group", "global"};
    int nothing, last;
    MPI_Comm of_all[3], of_living[3];
    MPI_Request from_victim;
    enter_world(&count, &arguments, arguments[2]);
    last = world_size - 1;
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &of_all[i]);
        MPI_Comm_split(MPI_COMM_WORLD, world_rank == last, 0, &of_living[i]);
    }
    MPI_Irecv(&nothing, 1, MPI_INT, last, 0, MPI_COMM_WORLD, &from_victim);
    if (world_rank == last) raise(SIGKILL);
    wait_for_death(&from_victim);
    for (int i = 0; i < 3; i++) {
        if (world_rank == 0) set(of_all[i], "all", scopes[i]);
        set(of_living[i], "living", scopes[i]);
    }
    for (int i = 0; i < 3; i++) event("barrier %s %d", scopes[i], MPI_Barrier(of_living[i]));
    leave_world();
    return 0;
}
