/* calm: uses of a uniform communicator in which nobody dies, written down as lines "rank nanoseconds event details".
 *
 *   calm --events DIR
 *
 * "wrong WHAT" where a result is not as it has to be, "own CLASS" after a broadcast that does not fit at the last rank,
 * "next CLASS" of the barrier after it. "root OPERATION VALUE" of each that has a root between two groups.
 */
#include <mpi.h>

#include "class.h"
#include "diary.h"

enum { MANY = 100, ROUNDS = 50 };

/* What counts of those who are nobody's root say means nothing, and Open MPI looks at them all the same. */
static void between_two_groups(int size) {
    int half = size / 2, is_upper = world_rank >= half, one = 1, got[8], sum = -1;
    MPI_Comm own, both;
    MPI_Request request;
    MPI_Comm_split(MPI_COMM_WORLD, is_upper, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, is_upper ? 0 : half, 1, &both);
    for (int root = 0; root < half; root++) {
        int is_root = world_rank == root, mine = is_upper || is_root;
        int as = is_upper ? root : is_root ? MPI_ROOT : MPI_PROC_NULL;
        MPI_Reduce(&one, &sum, mine ? 1 : 0, MPI_INT, MPI_SUM, as, both);
        MPI_Gather(&world_rank, mine ? 1 : 0, MPI_INT, got, mine ? 1 : 0, MPI_INT, as, both);
        if (is_root) event("root reduce %d", sum);
        if (is_root) event("root gather %d", got[half - 1]);
    }
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (sum != half) event("wrong sum between two groups: %d", sum);
    MPI_Comm_free(&both);
    MPI_Comm_free(&own);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(arguments[2]);

    MPI_Comm comm;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_uniform", "coll");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);

    /* A datatype that is freed while it is in use. */
    MPI_Datatype every_other;
    MPI_Request request;
    int data[3] = {world_rank == 0 ? 1 : 0, 0, world_rank == 0 ? 3 : 0};
    MPI_Type_vector(2, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Ibcast(data, 1, every_other, 0, comm, &request);
    MPI_Type_free(&every_other);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (data[0] != 1 || data[2] != 3) event("wrong derived");

    MPI_Request requests[MANY];
    int sent[MANY], got[MANY];
    for (int i = 0; i < MANY; i++) {
        sent[i] = i;
        MPI_Iallreduce(&sent[i], &got[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        if (got[i] != i * size) event("wrong sum %d", i);

    char message[64] = "";
    int room = world_rank == size - 1 ? 4 : (int)sizeof message;
    event("own %d", class_of(MPI_Bcast(message, room, MPI_BYTE, 0, comm)));
    event("next %d", class_of(MPI_Barrier(comm)));

    /* Under way when its communicator is freed. */
    MPI_Ibarrier(comm, &request);
    MPI_Comm_free(&comm);
    event("freed %d", class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)));

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }

    /* Those who free it first do not wait for the others. */
    int nothing = 0;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Barrier(comm);
    if (world_rank != 0) MPI_Recv(&nothing, 1, MPI_INT, world_rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    if (world_rank != size - 1) MPI_Send(&nothing, 1, MPI_INT, world_rank + 1, 1, MPI_COMM_WORLD);
    MPI_Info_free(&info);
    between_two_groups(size);
    event("finalized %d", MPI_Finalize());
    return 0;
}
