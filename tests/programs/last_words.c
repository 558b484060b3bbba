/* last_words: prints, and comes to an end that is none in order.
 *
 *   last_words --events DIR --end END
 *
 *   END   one: rank 1 calls MPI_Abort. all: everybody does. die: everybody is killed. spawn: the error handler of MPI_COMM_WORLD
 *         does, for a program that cannot be spawned, which is everybody's error.
 *
 * Each prints LINES lines "rank R line N", and has "printed" in its diary then, in the case one those who do not call before rank 1
 * begins. In the case spawn those who come to the handler print one line more, "rank R line LINES", and have "handled CLASS" in their diary.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { LINES = 200 };

static void print(int line) {
    printf("rank %d line %d\n", world_rank, line);
    fflush(stdout);
}

static void handle(MPI_Comm *comm, int *code, ...) {
    print(LINES);
    event("handled %d", class_of(*code));
    MPI_Abort(*comm, 3);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    MPI_Comm inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(argv[2]);
    const char *end = argv[4];
    // Whoever ends the job has just printed.
    bool is_last = strcmp(end, "one") || world_rank == 1;
    if (is_last) MPI_Barrier(MPI_COMM_WORLD);
    for (int line = 0; line < LINES; line++) print(line);
    event("printed");
    if (!is_last) MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(end, "die")) raise(SIGKILL);
    if (!strcmp(end, "all") || (!strcmp(end, "one") && world_rank == 1)) MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(end, "spawn")) {
        MPI_Comm_create_errhandler(handle, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    }
    for (;;) pause();
}
