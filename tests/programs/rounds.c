/* rounds: spawns two processes of itself, works with them, and parts from them, several times.
 *
 *   rounds --events DIR --end END
 *
 *   END      disconnect or free: how both sides part
 *
 * The rank of the first job writes a line "rank nanoseconds event details": "round CLASS SUM" for each time, with the sum of ones
 * over all members of what was merged.
 */
#include <mpi.h>
#include <string.h>

#include "class.h"
#include "diary.h"

enum { ROUNDS = 3, CHILDREN = 2 };

int main(int count, char **arguments) {
    const char *dir = "", *end = "disconnect";
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i], "--end")) end = arguments[i + 1];
    }
    MPI_Init(&count, &arguments);
    MPI_Comm parents, all, copy;
    MPI_Comm_get_parent(&parents);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    int is_child = parents != MPI_COMM_NULL;
    if (!is_child) open_diary(dir);
    for (int i = 0; i < (is_child ? 1 : ROUNDS); i++) {
        int one = 1, sum = -1, code = MPI_SUCCESS;
        MPI_Comm both = parents;
        if (!is_child)
            code = MPI_Comm_spawn(arguments[0], arguments + 1, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both,
                                  MPI_ERRCODES_IGNORE);
        if (code == MPI_SUCCESS) code = MPI_Comm_dup(both, &copy);
        if (code == MPI_SUCCESS) code = MPI_Intercomm_merge(both, is_child, &all);
        if (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        if (!is_child) event("round %d %d", class_of(code), sum);
        if (code != MPI_SUCCESS) break;
        MPI_Comm_free(&copy);
        MPI_Comm_free(&all);
        if (!strcmp(end, "free")) MPI_Comm_free(&both);
        else MPI_Comm_disconnect(&both);
    }
    int code = MPI_Finalize();
    if (!is_child) event("finalized %d", code);
    return 0;
}
