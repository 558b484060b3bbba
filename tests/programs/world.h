/* How programs of the tests enter MPI, and leave it. */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "diary.h"

static int world_size;

/* With RINGWATCH_TEST_WAITER in the environment a second thread waits in MPI until the end, and does what is to be done there
 * for the first one. */
static bool has_waiter;
static pthread_t waiter;
enum { WAITER_TAG = 32000 };

static void *wait_in_mpi(void *nothing) {
    MPI_Recv(NULL, 0, MPI_INT, 0, WAITER_TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return nothing;
}

/* Enters MPI, and opens the diary of this rank in a folder. */
static void enter_world(int *count, char ***arguments, const char *folder) {
    has_waiter = getenv("RINGWATCH_TEST_WAITER");
    int provided;
    MPI_Init_thread(count, arguments, has_waiter ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    open_diary(folder);
    if (has_waiter) pthread_create(&waiter, NULL, wait_in_mpi, NULL);
}

/* Leaves MPI, and says so. */
static inline void leave_world(void) {
    if (has_waiter) {
        MPI_Send(NULL, 0, MPI_INT, 0, WAITER_TAG, MPI_COMM_SELF);
        pthread_join(waiter, NULL);
    }
    event("finalized %d", MPI_Finalize());
}
