/* answers: a process dies while others owe it answers to one-sided operations, which its connections have no room for.
 *
 *   answers --events DIR
 *
 * The last rank writes into the memory of each of the others so often that the answers fill a connection, takes none of
 * them, writes "asked" and waits for its end. The others write "told CLASS" as they hear of that, and go on without it. Events are lines
 * "rank nanoseconds event details", as in survivor.c.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

enum { TIMES = 2000, TURNS = 10, TAG = 3 };
static const char *small = "4096", *large = "4194304";

/* The way to the last rank has little room, the one from there much. */
static void shape_connections(void) {
    bool is_last = atoi(getenv("PMIX_RANK")) == atoi(getenv("OMPI_COMM_WORLD_SIZE")) - 1;
    setenv("OMPI_MCA_btl_tcp_sndbuf", is_last ? large : small, 1);
    setenv("OMPI_MCA_btl_tcp_rcvbuf", is_last ? small : large, 1);
}

int main(int count, char **arguments) {
    const char *dir = "";
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
    shape_connections();
    enter_world(&count, &arguments, dir);
    int victim = world_size - 1;
    long *memory, one_more = 1;
    MPI_Win window;
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    if (world_rank == victim) {
        for (int i = 0; i < TIMES; i++)
            for (int rank = 0; rank < victim; rank++) MPI_Put(&one_more, 1, MPI_LONG, rank, 0, 1, MPI_LONG, window);
        /* So far they stand in a queue. */
        for (int i = 0, flag; i < TURNS; i++)
            MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        event("asked");
        for (;;) pause();
    }
    event("answers");
    int value, code = MPI_Recv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    event("told %d", class_of(code));
    MPI_Comm left;
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    int size, sum = 0, one = 1;
    MPI_Comm_size(left, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, left);
    event("left %d %d", size, sum);
    event("finalized %d", MPI_Finalize());
    return 0;
}
