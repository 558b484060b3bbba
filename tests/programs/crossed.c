/* crossed: two processes send each other their first message, after a death; what each does when is said from outside.
 *
 *   crossed --events DIR
 *
 * The last rank is to die. The others write "ready", and "knows" when they know of that. Rank 1 sends to rank 2 once there is a
 * file DIR/first, and rank 2 to rank 1 once there is DIR/second; both write "sent" then, and at the end "told SENT RECEIVED", the
 * classes of both messages. The survivors make a communicator, and write "again CLASS MEMBERS".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

enum { TAG = 3 };

static void wait_inside(const char *dir, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (int flag; access(path, F_OK); usleep(200))
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static void exchange(const char *dir) {
    int peer = 3 - world_rank, got = -1;
    MPI_Request sent, received;
    wait_inside(dir, world_rank == 1 ? "first" : "second");
    MPI_Isend(&world_rank, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &sent);
    event("sent");
    MPI_Irecv(&got, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &received);
    int of_sent = MPI_Wait(&sent, MPI_STATUS_IGNORE), of_received = MPI_Wait(&received, MPI_STATUS_IGNORE);
    event("told %d %d", class_of(of_sent), got == peer ? class_of(of_received) : -1);
}

int main(int count, char **arguments) {
    const char *dir = count > 2 ? arguments[2] : "";
    enter_world(&count, &arguments, dir);
    int victim = world_size - 1, never, one = 1, members = 0;
    event("ready");
    if (world_rank == victim)
        for (;;) pause();
    MPI_Request from_victim;
    MPI_Comm living;
    MPI_Irecv(&never, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &from_victim);
    wait_for_death(&from_victim);
    event("knows");
    if (world_rank == 1 || world_rank == 2) exchange(dir);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &living);
    int code = MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, living);
    event("again %d %d", class_of(code), members);
    leave_world();
    return 0;
}
