/* meets: two groups meet by MPI_Comm_accept and MPI_Comm_connect again and again, until one of their members dies.
 *
 *   meets --events DIR --victim RANK
 *
 * The lower half of the world accepts, the upper one connects; the first of each is its root. All say after each meeting
 * whether they have a communicator and a barrier in it was successful. Then the survivors make a communicator of the world's
 * members. Events are lines "rank nanoseconds event details", as in survivor.c: "meeting" before the first, "met N" of how
 * many there were, "result CLASS" of the last, "half-built" if it has failed and left a handle, "again CLASS MEMBERS" at the end.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "class.h"
#include "death.h"
#include "world.h"

/* With PRRTE 3.0.8 a second meeting at a port may wait for ever. */
enum { TAG = 7, PORTS = 64 };

int main(int count, char **arguments) {
    const char *dir = "";
    int victim = -1;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i], "--victim")) victim = atoi(arguments[i + 1]);
    }
    enter_world(&count, &arguments, dir);
    bool connects = world_rank >= world_size / 2;
    MPI_Comm local, made, living;
    MPI_Comm_split(MPI_COMM_WORLD, connects, 0, &local);
    MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN);
    MPI_Info group;
    MPI_Info_create(&group);
    MPI_Info_set(group, "mpix_error_scope", "group");
    static char ports[PORTS][MPI_MAX_PORT_NAME];
    for (int i = 0; world_rank == 0 && i < PORTS; i++) MPI_Open_port(MPI_INFO_NULL, ports[i]);
    MPI_Bcast(ports, sizeof ports, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Request from_victim;
    int never, all_good = true, met = 0, code = MPI_SUCCESS, one = 1, members = 0;
    if (world_rank != victim) MPI_Irecv(&never, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &from_victim);

    event("meeting");
    while (all_good && met < PORTS) {
        const char *port = ports[met];
        /* What is there before is none of its business. */
        made = MPI_COMM_WORLD;
        code = connects ? MPI_Comm_connect(port, MPI_INFO_NULL, 0, local, &made)
                        : MPI_Comm_accept(port, MPI_INFO_NULL, 0, local, &made);
        all_good = false;
        if (code == MPI_SUCCESS) {
            met++;
            MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
            /* Somebody may have died whose group has no communicator. */
            MPI_Comm_set_info(made, group);
            all_good = MPI_Barrier(made) == MPI_SUCCESS;
        } else if (made != MPI_COMM_NULL)
            event("half-built");
        /* Who knows of a death in its group does not begin the next one, and the other group would wait for it. */
        if (MPIX_Comm_agree(MPI_COMM_WORLD, &all_good) != MPI_SUCCESS) all_good = false;
        if (code == MPI_SUCCESS) MPI_Comm_free(&made);
    }
    event("met %d", met);
    event("result %d", class_of(code));
    wait_for_death(&from_victim);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &living);
    code = MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, living);
    event("again %d %d", class_of(code), members);
    event("finalized %d", MPI_Finalize());
    return 0;
}
