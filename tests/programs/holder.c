/* holder --events DIR
 * Ranks of one node accumulate in rank 0's part of a window whose memory they share. The last one is killed within its
 * accumulate, in which it has Open MPI's lock: what it adds cannot be read. The others accumulate with all functions
 * that take the lock, before they know of the death and after, each in the numbers of its own.
 * Events: "adds" before the first one, "result CLASS" for the first error or 0, "lost COUNT" for what is missing from the
 * own number in the end, "swapped CLASS FOUND" for a swap there, "freed CLASS" for the window.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { NUMBERS = 1024, AFTERWARDS = 100, TAG = 7 };

static void die(int number) {
    (void)number;
    kill(getpid(), SIGKILL);
}

static int add(MPI_Win window, int place, int way) {
    int one = 1, old = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    switch (way % 5) {
    case 0: return MPI_Accumulate(&one, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_SUM, window);
    case 1: return MPI_Get_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_SUM, window);
    case 2: return MPI_Fetch_and_op(&one, &old, MPI_INT, 0, place, MPI_SUM, window);
    case 3:
        code = MPI_Raccumulate(&one, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_SUM, window, &request);
        return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    default:
        code = MPI_Rget_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_SUM, window, &request);
        return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int count, char **arguments) {
    int size, *shared, *unreadable, never, bad = MPI_SUCCESS, added = 0;
    MPI_Win window;
    MPI_Request from_victim;
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(count > 2 ? arguments[2] : "");
    MPI_Win_allocate_shared(NUMBERS * sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < NUMBERS; i++) shared[i] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    event("adds");
    if (world_rank == size - 1) {
        signal(SIGSEGV, die);
        unreadable = mmap(NULL, NUMBERS * sizeof *unreadable, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Accumulate(unreadable, NUMBERS, MPI_INT, 0, 0, NUMBERS, MPI_INT, MPI_SUM, window);
        return 1;
    }
    MPI_Irecv(&never, 1, MPI_INT, size - 1, TAG, MPI_COMM_WORLD, &from_victim);
    for (int left = AFTERWARDS, known = false; left > 0; left -= known) {
        int code = add(window, world_rank, added);
        if (bad == MPI_SUCCESS) bad = code;
        added += code == MPI_SUCCESS;
        if (!known) MPI_Test(&from_victim, &known, MPI_STATUS_IGNORE);
    }
    event("result %d", class_of(bad));
    int sum = 0, nothing = 0;
    MPI_Fetch_and_op(&nothing, &sum, MPI_INT, 0, world_rank, MPI_NO_OP, window);
    event("lost %d", added - sum);
    int old = 0, same = sum, next = -1;
    bad = MPI_Compare_and_swap(&next, &same, &old, MPI_INT, 0, world_rank, window);
    event("swapped %d %d", class_of(bad), old == sum);
    event("freed %d", class_of(MPI_Win_free(&window)));
    event("finalized %d", MPI_Finalize());
    return 0;
}
