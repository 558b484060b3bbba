/* begun: what is only begun waits for nobody. The second rank begins its part of each collective write, and of each collective
 * read, when the first has begun its own and says so.
 *
 *   begun --events DIR FILE
 *
 * Events are lines "rank nanoseconds event details", as in survivor.c.
 */
#include <mpi.h>
#include <stdbool.h>

#include "diary.h"

enum { WORDS = 4, FORMS = 4 };

static int begin(MPI_File file, int form, int *data, MPI_Request *request) {
    MPI_Offset at = (MPI_Offset)world_rank * (MPI_Offset)(WORDS * sizeof *data);
    MPI_File_seek(file, at, MPI_SEEK_SET);
    switch (form) {
    case 0: return MPI_File_iwrite_at_all(file, at, data, WORDS, MPI_INT, request);
    case 1: return MPI_File_iread_at_all(file, at, data, WORDS, MPI_INT, request);
    case 2: return MPI_File_iwrite_all(file, data, WORDS, MPI_INT, request);
    default: return MPI_File_iread_all(file, data, WORDS, MPI_INT, request);
    }
}

int main(int count, char **arguments) {
    int size;
    MPI_File file;
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(arguments[2]);
    MPI_File_open(MPI_COMM_WORLD, arguments[3], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int form = 0; form < FORMS; form++) {
        int data[WORDS] = {world_rank, form, 7, 8}, word = form;
        MPI_Request request;
        if (world_rank > 0) MPI_Recv(&word, 1, MPI_INT, world_rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int code = begin(file, form, data, &request);
        if (world_rank + 1 < size) MPI_Send(&word, 1, MPI_INT, world_rank + 1, 1, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        bool right = code == MPI_SUCCESS && data[0] == world_rank && data[2] == 7;
        event("%s %d", right ? "right" : "wrong", form);
    }
    MPI_File_close(&file);
    event("finalized %d", MPI_Finalize());
    return 0;
}
