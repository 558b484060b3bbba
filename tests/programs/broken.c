/* broken: rank 0 agrees with rank 1, and its message with the result finds the connection broken.
 *
 *   broken --events DIR
 *
 * The harness kills rank 1 when rank 0 has written "agreed CODE". Events are lines "rank nanoseconds event details":
 * "again CLASS" of a second agreement, and "shrunk SIZE".
 */
#include <errno.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "diary.h"

static volatile bool breaks;

/* In front of libc's, for Open MPI too: what is written to a peer that has reset the connection. */
ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    if (breaks) {
        breaks = false;
        errno = ECONNRESET;
        return -1;
    }
    return syscall(SYS_writev, descriptor, pieces, count);
}

int main(int count, char **arguments) {
    MPI_Request request;
    MPI_Comm comm, next;
    int flag = 1, code, class, size;
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(arguments[2]);
    event("started %d -", (int)getpid());
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPIX_Comm_agree(comm, &flag);
    MPI_Barrier(comm);
    /* Rank 1 sends its part and waits for nothing, so all that rank 0 writes is the result. */
    breaks = world_rank == 0;
    MPIX_Comm_iagree(comm, &flag, &request);
    while (world_rank == 1) pause();
    event("agreed %d", MPI_Wait(&request, MPI_STATUS_IGNORE));
    event("broken %d", !breaks);
    code = MPIX_Comm_agree(comm, &flag);
    MPI_Error_class(code, &class);
    event("again %d", class);
    MPIX_Comm_shrink(comm, &next);
    MPI_Comm_size(next, &size);
    event("shrunk %d", size);
    event("finalized %d", MPI_Finalize());
    return 0;
}
