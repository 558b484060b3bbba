/* What the functions of the group say beside the rounds: of a misspelt key, to another thread while this one waits at the barrier,
 * of processes whose program is complete, and after MPI_Finalize. For four processes; rank 0 prints. */
#include <mpi.h>
#include <pthread.h>
#include <ringwatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size, place, state, evictions, lost, ranks[4];

static void require(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int join(const char *key, const char *value)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "rw_addend", "10000");
    MPI_Info_set(info, key, value);
    int code = RW_Group_join(MPI_COMM_WORLD, info);
    MPI_Info_free(&info);
    return code;
}

/* Rank 1 comes to the barrier when this has heard something of the group: a call that waited for the barrier would never end. */
static void *ask(void *nothing)
{
    int its_state = -1, its_evictions;
    usleep(200000);
    require(RW_Group_state(1, &its_state, &its_evictions) == MPI_SUCCESS, "it has no state");
    MPI_Send(&its_state, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    return nothing;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    require(provided == MPI_THREAD_MULTIPLE, "no threads");
    require(join("rw_intervall", "50") == MPI_ERR_INFO_VALUE, "a misspelt key is not refused");
    require(join("rw_interval", "50") == MPI_SUCCESS, "it does not join");

    pthread_t thread;
    if (rank == 0) {
        pthread_create(&thread, NULL, ask, NULL);
    } else if (rank == 1) {
        MPI_Recv(&state, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    require(RW_Group_barrier(1, &size, &place) == MPI_SUCCESS && size == 4, "not all are in the round");
    /* Who leaves ends the work also of those who do not know of this round yet. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        pthread_join(thread, NULL);
    } else {
        require(RW_Group_leave() == MPI_SUCCESS, "it does not leave");
    }
    for (int other = 1; rank == 0 && other < 4; other++) {
        for (state = -1; state != RW_GROUP_LEFT; usleep(10000)) {
            RW_Group_state(other, &state, &evictions);
        }
        printf("rank %d has left, evictions %d\n", other, evictions);
    }
    MPI_Finalize();
    if (rank == 0) {
        int codes[] = {RW_Group_lost(&lost), RW_Group_state(1, &state, &evictions), RW_Group_members(ranks),
                       RW_Group_barrier(1, &size, &place), RW_Group_set_test(NULL), RW_Group_leave(),
                       RW_Group_join(MPI_COMM_WORLD, MPI_INFO_NULL)};
        printf("after MPI_Finalize");
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
            printf(" %s", codes[i] == MPI_ERR_OTHER ? "other" : "WRONG");
        }
        printf("\n");
    }
    return 0;
}
