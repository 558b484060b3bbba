/* numbers: all members of a communicator but one are blocked in one constructor of communicators after the other when
 * that one dies, or revokes the communicator. Then everybody makes communicators from newer ones: Open MPI numbers them in
 * the order of the communicators that they are made from.
 *
 *   numbers --events DIR --how HOW OP...
 *
 *   HOW      kill (the one sleeps and waits for it) or revoke
 *   OP       a constructor of the table below
 *
 * For operation k, counted from 0, the one is the rank size - 1 - k. Afterwards a communicator that all were in is
 * shrunk, and every constructor is called on what comes out of it. Events are lines "rank nanoseconds event details", as
 * in survivor.c: "blocked k" before operation k, "result k CLASS" after it, "half-built k" if it has
 * left a handle, and "made k OP CLASS" after each of the others.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

enum { MOST_OPERATIONS = 5, TAG = 7 };

static MPI_Request from_victim[MOST_OPERATIONS];

static const char *const constructors[] = {"dup", "idup", "split", "create", "create_group", "cart_create"};
enum { CONSTRUCTORS = sizeof constructors / sizeof *constructors };

static int construct(const char *name, MPI_Comm comm, MPI_Comm *made) {
    int code = MPI_ERR_ARG, size, wraps = 1;
    MPI_Comm_size(comm, &size);
    if (!strcmp(name, "dup")) code = MPI_Comm_dup(comm, made);
    else if (!strcmp(name, "idup")) {
        MPI_Request request;
        code = MPI_Comm_idup(comm, made, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "split")) code = MPI_Comm_split(comm, world_rank % 2, 0, made);
    else if (!strcmp(name, "create")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create(comm, all, made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "create_group")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create_group(comm, all, TAG, made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "cart_create")) code = MPI_Cart_create(comm, 1, &size, &wraps, 0, made);
    return code;
}

/* Every constructor, on a communicator without dead members. */
static void make_all(int k, MPI_Comm comm) {
    for (int i = 0; i < CONSTRUCTORS; i++) {
        MPI_Comm made;
        int code = construct(constructors[i], comm, &made);
        if (code == MPI_SUCCESS) code = MPI_Barrier(made);
        if (code == MPI_SUCCESS) MPI_Comm_free(&made);
        event("made %d %s %d", k, constructors[i], class_of(code));
    }
}

int main(int count, char **arguments) {
    const char *dir = "", *how = "kill", *operations[MOST_OPERATIONS];
    int operation_count = 0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--how")) how = arguments[++i];
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    enter_world(&count, &arguments, dir);

    /* In this order: the older a communicator, the lower its number. */
    MPI_Comm comms[MOST_OPERATIONS], all[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++)
        MPI_Comm_split(MPI_COMM_WORLD, world_rank < world_size - k ? 1 : MPI_UNDEFINED, 0, &comms[k]);
    for (int k = 0; k < operation_count; k++) MPI_Comm_dup(MPI_COMM_WORLD, &all[k]);
    static int never[MOST_OPERATIONS];
    bool dies = !strcmp(how, "kill");
    for (int k = 0; k < operation_count && dies; k++)
        MPI_Irecv(&never[k], 1, MPI_INT, world_size - 1 - k, TAG, MPI_COMM_WORLD, &from_victim[k]);
    MPI_Barrier(MPI_COMM_WORLD);
    event("ready");
    for (int k = 0; k < operation_count; k++) {
        int one = world_size - 1 - k, code;
        MPI_Comm made = MPI_COMM_NULL, living;
        while (world_rank == one && dies) pause();
        if (world_rank == one) {
            for (int peer = 0; peer < one; peer++) MPI_Recv(NULL, 0, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPIX_Comm_revoke(comms[k]);
        } else if (world_rank < one) {
            event("blocked %d", k);
            if (!dies) MPI_Send(NULL, 0, MPI_INT, one, TAG, MPI_COMM_WORLD);
            code = construct(operations[k], comms[k], &made);
            event("result %d %d", k, class_of(code));
            /* MPI_Comm_idup gives the handle before anybody knows whether it will fail. */
            if (made != MPI_COMM_NULL && strcmp(operations[k], "idup")) event("half-built %d", k);
        }
        if (dies) wait_for_death(&from_victim[k]);
        code = MPIX_Comm_shrink(all[k], &living);
        event("made %d shrink %d", k, class_of(code));
        make_all(k, living);
    }
    event("done");
    event("finalized %d", MPI_Finalize());
    return 0;
}
