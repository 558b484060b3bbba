/* The ranks of `scripts/bench start`: when each of them began, and when it had left MPI_Init.
 *
 *   start TABLE   note both times, then sleep until killed
 *
 * TABLE is a file that all ranks map: one record a rank, times in nanoseconds of CLOCK_MONOTONIC, which the virtual
 * hosts share. */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Read by bench_start.py: four 64-bit integers. A value of 0 means "not yet". */
struct record {
    _Atomic int64_t pid;
    _Atomic int64_t began; /* time at which main was entered */
    _Atomic int64_t left;  /* time at which MPI_Init had returned */
    _Atomic int64_t unused;
};

enum { MAX_RANKS = 512 };

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int main(int argc, char **argv)
{
    int rank;
    int64_t began = now();

    if (argc != 2) {
        fprintf(stderr, "usage: start TABLE\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    int64_t left = now();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int file = open(argv[1], O_RDWR);
    void *table = file < 0 ? MAP_FAILED
                           : mmap(NULL, MAX_RANKS * sizeof(struct record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (MAP_FAILED == table || rank >= MAX_RANKS) {
        perror(argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct record *mine = (struct record *) table + rank;
    mine->pid = getpid();
    mine->began = began;
    mine->left = left;
    for (;;) {
        pause();
    }
}
