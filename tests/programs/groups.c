/* groups: makes intercommunicators of two groups alone, each time of others.
 *
 *   groups --events DIR
 *
 * Writes lines "rank nanoseconds event details": "right" for each that has its members.
 */
#include <mpi.h>

#include "diary.h"

enum { ROUNDS = 10 };

int main(int count, char **arguments) {
    int size;
    MPI_Group all, groups[2];
    MPI_Comm both;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(count > 2 ? arguments[2] : "");
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int i = 0; i < ROUNDS; i++) {
        int half = 1 + i % (size - 1), own = world_rank >= half, one = 1, others = -1;
        int ranges[2][1][3] = {{{0, half - 1, 1}}, {{half, size - 1, 1}}};
        for (int which = 0; which < 2; which++) MPI_Group_range_incl(all, 1, ranges[which], &groups[which]);
        MPI_Intercomm_create_from_groups(groups[own], 0, groups[!own], 0, "groups", MPI_INFO_NULL, MPI_ERRORS_RETURN, &both);
        MPI_Allreduce(&one, &others, 1, MPI_INT, MPI_SUM, both);
        if (others == (own ? half : size - half)) event("right");
        MPI_Comm_free(&both);
        for (int which = 0; which < 2; which++) MPI_Group_free(&groups[which]);
    }
    MPI_Group_free(&all);
    event("finalized %d", MPI_Finalize());
    return 0;
}
