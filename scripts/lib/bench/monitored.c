/* monitored SECONDS INTERVAL: processes that test each other for so long (INTERVAL in milliseconds), and do nothing else. At the
 * end rank 0 prints how often each has left the group, and when it began: "began NANOSECONDS" (CLOCK_MONOTONIC), then a line
 * "RANK EVICTIONS" for each. */
#include <mpi.h>
#include <ringwatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    int rank, size, lost, state, evictions;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "rw_interval", argv[2]);
    if (RW_Group_join(MPI_COMM_WORLD, info) != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("began %lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
        fflush(stdout);
    }
    for (double until = MPI_Wtime() + atof(argv[1]); MPI_Wtime() < until;) {
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        RW_Group_lost(&lost);
    }
    for (int other = 0; rank == 0 && other < size; other++) {
        RW_Group_state(other, &state, &evictions);
        printf("%d %d\n", other, evictions);
    }
    RW_Group_leave();
    MPI_Finalize();
    return 0;
}
