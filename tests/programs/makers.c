/* makers: two threads of each rank make things at the same time, each of a communicator of its own.
 *
 *   makers --events DIR
 *
 * The first makes windows and files, the second communicators. Each rank writes "made CLASS" with the first class that is no
 * success, of both threads.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#include "class.h"
#include "diary.h"

enum { ROUNDS = 40 };

static int of_other = MPI_SUCCESS;

static void *make_communicators(void *whole) {
    for (int i = 0; i < ROUNDS && of_other == MPI_SUCCESS; i++) {
        MPI_Comm made;
        of_other = MPI_Comm_dup(*(MPI_Comm *) whole, &made);
        if (of_other == MPI_SUCCESS) MPI_Comm_free(&made);
    }
    return NULL;
}

int main(int count, char **arguments) {
    int provided, code = MPI_SUCCESS, memory = 0;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(count > 2 ? arguments[2] : "");
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    char path[600];
    snprintf(path, sizeof path, "%s/data", count > 2 ? arguments[2] : ".");
    pthread_t other;
    pthread_create(&other, NULL, make_communicators, &second);
    for (int i = 0; i < ROUNDS && code == MPI_SUCCESS; i++) {
        MPI_Win window;
        MPI_File file;
        code = MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, first, &window);
        if (code == MPI_SUCCESS) MPI_Win_free(&window);
        if (code == MPI_SUCCESS)
            code = MPI_File_open(first, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        if (code == MPI_SUCCESS) MPI_File_close(&file);
    }
    pthread_join(other, NULL);
    event("made %d", class_of(code == MPI_SUCCESS ? of_other : code));
    event("finalized %d", MPI_Finalize());
    return 0;
}
