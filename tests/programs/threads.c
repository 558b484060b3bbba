/* threads: two threads of each rank agree at the same time, each on a communicator of its own.
 *
 *   threads --events DIR
 *
 * A member contributes all bits but its own. Each rank writes "right COUNT", of how many agreements of both threads no error
 * and the bits of all members have come.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <pthread.h>
#include <stdatomic.h>

#include "diary.h"

enum { THREADS = 2, ROUNDS = 4000 };

static int world_size;
static atomic_int right;

static void *agree(void *comm) {
    for (int i = 0; i < ROUNDS; i++) {
        int bits = ~(1 << world_rank);
        int code = MPIX_Comm_agree(*(MPI_Comm *)comm, &bits);
        if (code == MPI_SUCCESS && ~bits == (1 << world_size) - 1) right++;
    }
    return NULL;
}

int main(int count, char **arguments) {
    int provided;
    MPI_Comm comms[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    open_diary(count > 2 ? arguments[2] : "");
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, agree, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    event("right %d", right);
    event("finalized %d", MPI_Finalize());
    return 0;
}
