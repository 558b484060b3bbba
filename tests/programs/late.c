/* late: messages that arrive when their communicator has been freed.
 *
 *   late --events DIR
 *
 * The last rank kills itself. All others see that in a duplicate of the world, and free it; but rank 0 sends in it to rank
 * 1 before, and not until rank 1 has freed it, and revokes it. Then all shrink the world, and rank 0 sends to rank 1 in
 * what is left. Events are lines "rank nanoseconds event details": "got NUMBER..." has what rank 1 received at last, and
 * "idle PACKETS" how many packets came to its host in a while in which nobody sends.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "death.h"
#include "world.h"

enum { TAG = 7, MESSAGES = 3, LATE = 100, RIGHT = 200 };
enum { WHILE_NS = 300 * 1000 * 1000 };

static void send_to(int rank, MPI_Comm comm, int first) {
    for (int i = 0; i < MESSAGES; i++) {
        int number = first + i;
        MPI_Send(&number, 1, MPI_INT, rank, TAG, comm);
    }
}

/* Packets that have come to this host so far. */
static long packets(void) {
    char line[512];
    long all = 0, of_one;
    FILE *devices = fopen("/proc/self/net/dev", "r");
    while (devices && fgets(line, sizeof line, devices))
        if (sscanf(line, " %*[^:]: %*d %ld", &of_one) == 1) all += of_one;
    if (devices) fclose(devices);
    return all;
}

/* What comes while this rank only looks whether something comes. */
static long packets_meanwhile(MPI_Comm comm) {
    long before = packets();
    long long end = now_ns() + WHILE_NS;
    for (int there; now_ns() < end; usleep(200)) MPI_Iprobe(0, TAG, comm, &there, MPI_STATUS_IGNORE);
    return packets() - before;
}

int main(int count, char **arguments) {
    const char *dir = "";
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
    enter_world(&count, &arguments, dir);
    int victim = world_size - 1, never;
    MPI_Comm all, left;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Request from_victim;
    MPI_Irecv(&never, 1, MPI_INT, victim, TAG, all, &from_victim);
    MPI_Barrier(all);
    if (world_rank == victim) raise(SIGKILL);
    wait_for_death(&from_victim);
    if (world_rank == 0) {
        MPI_Recv(NULL, 0, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_to(1, all, LATE);
        MPIX_Comm_revoke(all);
    }
    MPI_Comm_free(&all);
    if (world_rank == 1) MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    if (world_rank == 0) send_to(1, left, RIGHT);
    if (world_rank == 1) {
        int got[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) MPI_Recv(&got[i], 1, MPI_INT, 0, TAG, left, MPI_STATUS_IGNORE);
        event("got %d %d %d", got[0], got[1], got[2]);
    }
    MPI_Barrier(left);
    event("idle %ld", packets_meanwhile(left));
    MPI_Barrier(left);
    MPI_Comm_free(&left);
    event("finalized %d", MPI_Finalize());
    return 0;
}
