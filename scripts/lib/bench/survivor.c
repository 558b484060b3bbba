/* The ranks of `scripts/bench`: what they do until a fault comes, and when each of them notices and has recovered.
 *
 *   survivor TABLE VICTIM[,VICTIM...]   work until a victim is lost, recover, leave
 *   survivor TABLE idle                 sleep outside of MPI until killed
 *
 * Rank 0 is blocked in a receive from the first victim, rank 1 in a receive from any source; all others, the victims
 * among them, call MPI_Allreduce again and again. Of two ranks both do that. Everybody waits for a victim, and nobody revokes the communicators of
 * the work: so the first error of each rank is what its own MPI library found out, not what another rank told it.
 *
 * TABLE is a file that all ranks map: one record a rank, times in nanoseconds of CLOCK_MONOTONIC, which the virtual
 * hosts share. Nothing is written while the work goes on. */
#include <fcntl.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Read by bench_job.py: eight 64-bit integers. A value of 0 means "not yet". */
struct record {
    _Atomic int64_t pid;    /* set when the rank is about to begin its work */
    _Atomic int64_t error;  /* time of the first error */
    _Atomic int64_t class;  /* its class */
    _Atomic int64_t shrunk; /* time of the end of the last MPIX_Comm_shrink */
    _Atomic int64_t size;   /* of the communicator that it made */
    _Atomic int64_t done;   /* time at which a collective call on that had worked */
    _Atomic int64_t wrong;  /* how often a collective call claimed success with a wrong result */
    _Atomic int64_t unused;
};

enum { MAX_RANKS = 512 };

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static struct record *open_table(const char *path, int rank)
{
    int file = open(path, O_RDWR);
    void *table = file < 0 ? MAP_FAILED
                           : mmap(NULL, MAX_RANKS * sizeof(struct record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (MAP_FAILED == table || rank >= MAX_RANKS) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (struct record *) table + rank;
}

static int is_listed(const char *list, int rank)
{
    for (const char *at = list; NULL != at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (atoi(at) == rank) {
            return 1;
        }
    }
    return 0;
}

/* Counts the members of a communicator; an error class, or MPI_SUCCESS. */
static int count(MPI_Comm communicator, struct record *mine)
{
    int one = 1, sum = 0, size, class;
    int status = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, communicator);
    MPI_Comm_size(communicator, &size);
    if (MPI_SUCCESS == status && sum != size) {
        mine->wrong++;
    }
    MPI_Error_class(status, &class);
    return class;
}

static int work(MPI_Comm world, MPI_Comm team, int receives, int rank, int victim, struct record *mine)
{
    int class = MPI_SUCCESS, nothing;
    if (receives) {
        MPI_Error_class(MPI_Recv(&nothing, 1, MPI_INT, 0 == rank ? victim : MPI_ANY_SOURCE, 7, world,
                                 MPI_STATUS_IGNORE), &class);
        return class;
    }
    while (MPI_SUCCESS == class) {
        class = count(team, mine);
    }
    return class;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm world, team, repaired = MPI_COMM_NULL;

    if (argc != 3) {
        fprintf(stderr, "usage: survivor TABLE VICTIM[,VICTIM...]|idle\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct record *mine = open_table(argv[1], rank);
    if (0 == strcmp(argv[2], "idle")) {
        mine->pid = getpid();
        for (;;) {
            pause();
        }
    }
    int victim = atoi(argv[2]);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int receives = size > 2 && rank <= 1;
    if (receives && is_listed(argv[2], rank)) {
        fprintf(stderr, "survivor: ranks 0 and 1 of more than two cannot be victims\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_split(MPI_COMM_WORLD, receives, rank, &team);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(team, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++) {
        count(team, mine);
    }
    MPI_Barrier(world);
    mine->pid = getpid();

    int class = work(world, team, receives, rank, victim, mine);
    mine->error = now();
    mine->class = class;
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    do {
        MPI_Comm broken = repaired;
        if (MPI_SUCCESS != MPIX_Comm_shrink(MPI_COMM_NULL == broken ? MPI_COMM_WORLD : broken, &repaired)) {
            break;
        }
        mine->shrunk = now();
        MPI_Comm_size(repaired, &size);
        mine->size = size;
        MPI_Comm_set_errhandler(repaired, MPI_ERRORS_RETURN);
        class = count(repaired, mine);
        if (MPI_SUCCESS != class) {
            MPIX_Comm_revoke(repaired);
        }
    } while (MPI_SUCCESS != class);
    mine->done = MPI_SUCCESS == class ? now() : 0;
    MPI_Finalize();
    return 0;
}
