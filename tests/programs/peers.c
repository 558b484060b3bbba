/* peers --events DIR [dynamic]
 * Four ranks. Two threads of rank 0 put something into a window at once: one at rank 3, from which it gets no answer, the
 * other at rank 1, for which it waits in the kernel until the first one has its answer. Rank 3 has left MPI and does not say
 * where its memory is; or, in a dynamic window, it has attached more than it may, whereupon Open MPI 5.0.7 leaves the lock of
 * that list taken. A function of this program stands before Open MPI's, whose lock it looks at.
 * Events: "sleeps" at rank 3, "waits" at rank 0 when both threads are there, "asked CLASS" of the first one, "other CLASS"
 * of the second, "freed CLASS" of the window.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "diary.h"

enum { VICTIM = 3, OTHER = 1, TAG = 7, PEERS_LOCK = 0x400, ASKING_LOCK = 0x100, MOST = 200, APART = 1 << 16, LOOKS = 20000 };

static atomic_bool two_are_here;
static bool is_dynamic;
static int number = 1;
static MPI_Win window;
/* Where each rank has its memory. */
static MPI_Aint places[VICTIM + 1];

void *ompi_osc_rdma_peer_lookup(void *module, int rank) {
    void *(*own)(void *, int) = (void *(*)(void *, int))dlsym(RTLD_NEXT, "ompi_osc_rdma_peer_lookup");
    if (two_are_here && rank == OTHER) {
        pthread_mutex_t *lock = (pthread_mutex_t *)((char *)module + (is_dynamic ? ASKING_LOCK : PEERS_LOCK));
        int looks = 0;
        while (!pthread_mutex_trylock(lock) && looks++ < LOOKS) {
            pthread_mutex_unlock(lock);
            usleep(100);
        }
        event(looks < LOOKS ? "waits" : "nobody has the lock");
    }
    return own(module, rank);
}

static int put(int rank) {
    int code = MPI_Put(&number, 1, MPI_INT, rank, places[rank], 1, MPI_INT, window);
    return code == MPI_SUCCESS ? MPI_Win_flush(rank, window) : code;
}

static void *ask(void *nothing) {
    event("asked %d", class_of(put(VICTIM)));
    return nothing;
}

/* Everybody attaches a number, and the victim as much as it can. */
static void attach(int *memory) {
    static char more[MOST][APART];
    MPI_Aint place;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_attach(window, memory, sizeof *memory);
    MPI_Get_address(memory, &place);
    MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
    for (int i = 0; world_rank == VICTIM && i < MOST; i++)
        if (MPI_Win_attach(window, more[i], sizeof *memory) != MPI_SUCCESS) break;
}

int main(int count, char **arguments) {
    int provided, memory = 0, never;
    MPI_Request from_victim;
    MPI_Comm left;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(count > 2 ? arguments[2] : "");
    is_dynamic = count > 3;
    if (is_dynamic) attach(&memory);
    else MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, window);
    MPI_Irecv(&never, 1, MPI_INT, VICTIM, TAG + 1, MPI_COMM_WORLD, &from_victim);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == VICTIM) {
        MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        event("sleeps");
        if (is_dynamic) MPI_Recv(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        for (;;) pause();
    }
    if (world_rank == 0) {
        pthread_t thread;
        MPI_Recv(NULL, 0, MPI_INT, VICTIM, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        two_are_here = true;
        pthread_create(&thread, NULL, ask, NULL);
        event("other %d", class_of(put(OTHER)));
        pthread_join(thread, NULL);
    }
    wait_for_death(&from_victim);
    event("freed %d", class_of(MPI_Win_free(&window)));
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    event("finalized %d", MPI_Finalize());
    return 0;
}
