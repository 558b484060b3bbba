/* libraries: two libraries share the processes of an application, and neither knows the other's communicator.
 *
 *   mpicc -o libraries libraries.c && mpirun --with-ft ulfm -n 8 ./libraries [--fail RANK@STEP]
 *
 * A quarter of the processes calls library 1, the others library 2. When a process dies, both libraries have to come
 * back to the application, which repairs everything; but with ULFM alone only the library that has lost a process
 * notices. The error scope "global" interrupts the other one as well (Bouteiller and Bosilca, "Implicit Actions and
 * Non-blocking Failure Recovery with MPI", figure 3 and listing 1).
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 1000, COMPUTATION_US = 200 };

static int original_rank;

/* The communicator of a library. From now on the death of any process, also of one that does not call this library,
 * ends communication on it with an error. */
static int open_library(MPI_Comm world, int *number, MPI_Comm *library) {
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    *number = rank < size / 4 ? 1 : 2;
    int code = MPI_Comm_split(world, *number, rank, library);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(*library, MPI_ERRORS_RETURN);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_range", "universe");
    MPI_Comm_set_info(*library, info);
    MPI_Info_free(&info);
    return MPI_SUCCESS;
}

/* One step of either library: computes, and exchanges what came out. */
static int work(MPI_Comm library) {
    int one = 1, sum;
    usleep(COMPUTATION_US);
    return MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, library);
}

static void report(int code, int number, int step) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    printf("process %d leaves library %d in step %d: %s\n", original_rank, number, step, text);
    fflush(stdout);
}

/* Everybody comes here, whatever library it was in: leaves the dead behind, and opens the libraries again at the step
 * that all have reached. */
static void repair(MPI_Comm *world, int *number, MPI_Comm *library, int *step) {
    int works = false;
    while (!works) {
        MPI_Comm next;
        if (MPIX_Comm_shrink(*world, &next) != MPI_SUCCESS) continue;
        MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
        *world = next;
        int first;
        works = MPI_Allreduce(step, &first, 1, MPI_INT, MPI_MIN, *world) == MPI_SUCCESS &&
                open_library(*world, number, library) == MPI_SUCCESS;
        if (works) *step = first;
        else MPIX_Comm_revoke(*world);
        if (MPIX_Comm_agree(*world, &works) != MPI_SUCCESS) works = false;
    }
}

int main(int count, char **arguments) {
    int victim = -1, last_step = -1, number, step = 0, size;
    if (count == 3 && !strcmp(arguments[1], "--fail")) sscanf(arguments[2], "%d@%d", &victim, &last_step);
    MPI_Init(&count, &arguments);
    MPI_Comm world, library;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &original_rank);
    if (open_library(world, &number, &library) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    while (step < STEPS) {
        if (original_rank == victim && step == last_step) raise(SIGKILL);
        int code = work(library);
        if (code == MPI_SUCCESS) {
            step++;
            /* The last step is taken by all processes together. */
            if (step == STEPS) code = MPI_Barrier(world);
        }
        if (code != MPI_SUCCESS) {
            report(code, number, step);
            MPIX_Comm_revoke(library);
            repair(&world, &number, &library, &step);
        }
    }
    MPI_Comm_size(world, &size);
    printf("process %d has done %d steps, %d processes are left\n", original_rank, step, size);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
