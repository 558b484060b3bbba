/* gaps: messages between the living, on a communicator with a dead member, after one of a collective that arrives late.
 *
 *   gaps --events DIR
 *
 * Rank 0 begins a collective whose messages are there before the last rank dies, by its own hand; the others are not in MPI then,
 * and see them only when they know of the death. Then rank 0 sends each a message. Events are lines "rank nanoseconds event
 * details", as in survivor.c: "got N" for what has come.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "death.h"
#include "world.h"

enum { TAG = 7, MOST = 64, LARGE = 1 << 20 };

int main(int count, char **arguments) {
    const char *dir = "";
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
    enter_world(&count, &arguments, dir);

    int pids[MOST], pid = getpid(), last = world_size - 1, number = 0, never;
    static char large[LARGE];
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Request from_victim, collective[2];
    if (world_rank != last) MPI_Irecv(&never, 1, MPI_INT, last, TAG, MPI_COMM_WORLD, &from_victim);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == last) {
        /* Rank 0 has begun. */
        MPI_Recv(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        raise(SIGKILL);
    }
    if (world_rank == 0) {
        number = 42;
        MPI_Ibcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD, &collective[0]);
        MPI_Ibcast(large, LARGE, MPI_BYTE, 0, MPI_COMM_WORLD, &collective[1]);
        for (int done, i = 0; i < 1000; i++) MPI_Testall(2, collective, &done, MPI_STATUSES_IGNORE);
        MPI_Send(NULL, 0, MPI_INT, last, TAG, MPI_COMM_WORLD);
    }
    while (kill(pids[last], 0) == 0) usleep(1000);
    /* As long as the news may take. */
    usleep(50000);
    wait_for_death(&from_victim);
    if (world_rank == 0)
        for (int peer = 1; peer < last; peer++) MPI_Send(&number, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);
    else
        MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    event("got %d", number);
    event("finalized %d", MPI_Finalize());
    return 0;
}
