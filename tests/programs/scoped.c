/* scoped: survivors are blocked on live peers in one operation after the other, each on a communicator of its own with
 * an error scope, while a rank dies; they write down how each operation ended.
 *
 *   scoped --events DIR --scope SCOPE --how HOW --victim-is WHERE OP...
 *
 *   SCOPE    local, group or global
 *   HOW      how the communicator gets it: set (MPI_Comm_set_info), dup, shrink or ishrink (made so of one that was
 *            set) or default (not at all: the job's parameter)
 *   WHERE    inside: the victim is a member; outside: it is not; spawned: it belongs to a job that all ranks have spawned
 *
 * For operation k, counted from 0, the victim is the rank size - 1 - k, or of the spawned ones the rank k, which waits for
 * it. The diaries of the spawned ones have numbers from size on. All survivors enter the operation
 * except for rank 0, on which they wait: it joins them once it knows of the death, so that what is not interrupted
 * succeeds. Events are lines "rank nanoseconds event details", as in survivor.c: "blocked k" before operation k, and
 * "result k CLASS" after it.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

/* There if libringwatch was preloaded. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request) __attribute__((weak));

enum { MOST_OPERATIONS = 5, LONG_MESSAGE = 1 << 20, TAG = 7, OTHER_TAG = 8 };

static char long_message[LONG_MESSAGE];
/* Keeps the scope local, whatever the default: here deaths are looked for. */
static MPI_Comm calm;
static MPI_Request from_victim[MOST_OPERATIONS];

static MPI_Info info_with_scope(const char *scope) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", scope);
    return info;
}

static void set_scope(MPI_Comm comm, const char *scope) {
    MPI_Info info = info_with_scope(scope);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

/* The communicator that is used in place of this one. */
static MPI_Comm inherit(MPI_Comm origin, const char *scope, const char *how) {
    MPI_Comm comm = origin;
    MPI_Request request;
    if (!strcmp(how, "set") || !strcmp(how, "default")) return origin;
    set_scope(origin, scope);
    if (!strcmp(how, "dup")) MPI_Comm_dup(origin, &comm);
    else if (!strcmp(how, "shrink")) MPIX_Comm_shrink(origin, &comm);
    else {
        MPIX_Comm_ishrink(origin, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return comm;
}

/* The victim waits for its death in MPI: a process that sends it the first message needs an answer before. */
static void wait_to_die(MPI_Comm comm, int rank) {
    int never, flag;
    MPI_Request from_itself;
    MPI_Irecv(&never, 1, MPI_INT, rank, OTHER_TAG, comm, &from_itself);
    for (;;) {
        MPI_Test(&from_itself, &flag, MPI_STATUS_IGNORE);
        usleep(200);
    }
}

/* What the error class of the first request in error is; MPI_SUCCESS if all succeeded. */
static int class_among(int code, int count, const MPI_Status *statuses) {
    if (class_of(code) != MPI_ERR_IN_STATUS) return code;
    for (int i = 0; i < count; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && class_of(statuses[i].MPI_ERROR) != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    return code;
}

/* Receives two messages of rank 0 in the background. */
static int in_background(MPI_Comm comm, const char *operation) {
    /* Not on the stack: one of the two may arrive after this function has returned. */
    static int values[2];
    int index, flag = false, code = MPI_SUCCESS;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    for (int i = 0; i < 2 && code == MPI_SUCCESS; i++)
        code = MPI_Irecv(&values[i], 1, MPI_INT, 0, i == 0 ? TAG : OTHER_TAG, comm, &requests[i]);
    if (code != MPI_SUCCESS) return code;
    if (!strcmp(operation, "waitall")) {
        code = MPI_Waitall(2, requests, statuses);
        return class_among(code, 2, statuses);
    }
    if (!strcmp(operation, "waitany")) return MPI_Waitany(2, requests, &index, statuses);
    while (!flag && code == MPI_SUCCESS) code = MPI_Testany(2, requests, &index, &flag, statuses);
    return code;
}

static int isend_waitall(MPI_Comm comm) {
    MPI_Request request;
    MPI_Status status;
    int code = MPI_Isend(long_message, LONG_MESSAGE, MPI_BYTE, 0, TAG, comm, &request);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Waitall(1, &request, &status);
    return class_among(code, 1, &status);
}

/* The operations of MPI that all members enter. */
static bool is_collective(const char *name) {
    static const char *all[] = {"barrier", "bcast",     "allreduce", "alltoall", "allgather",
                                "scan",    "ibarrier",  "iallreduce", "allreduce_init",
                                "comm_dup"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i], name)) return true;
    return false;
}

static int collective(MPI_Comm comm, const char *name) {
    int size, mine = 1;
    MPI_Comm_size(comm, &size);
    int *sent = calloc((size_t)size, sizeof *sent), *got = calloc((size_t)size, sizeof *got), code = MPI_ERR_OTHER;
    MPI_Request request;
    MPI_Comm copy;
    if (!strcmp(name, "barrier")) code = MPI_Barrier(comm);
    else if (!strcmp(name, "bcast")) code = MPI_Bcast(&mine, 1, MPI_INT, 0, comm);
    else if (!strcmp(name, "allreduce")) code = MPI_Allreduce(&mine, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "alltoall")) code = MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "allgather")) code = MPI_Allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "scan")) code = MPI_Scan(&mine, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "comm_dup")) code = MPI_Comm_dup(comm, &copy);
    else {
        if (!strcmp(name, "ibarrier")) code = MPI_Ibarrier(comm, &request);
        else if (!strcmp(name, "iallreduce")) code = MPI_Iallreduce(&mine, got, 1, MPI_INT, MPI_SUM, comm, &request);
        else {
            MPI_Allreduce_init(&mine, got, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
            code = MPI_Start(&request);
        }
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(sent);
    free(got);
    return code;
}

/* What the survivors wait in for rank 0. */
static int wait_in(MPI_Comm comm, const char *name) {
    int value = 0, flag = false, code = MPI_SUCCESS;
    if (is_collective(name)) return collective(comm, name);
    if (!strcmp(name, "recv")) return MPI_Recv(&value, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "any")) return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "probe")) return MPI_Probe(0, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "iprobe")) {
        while (!flag && code == MPI_SUCCESS) code = MPI_Iprobe(0, TAG, comm, &flag, MPI_STATUS_IGNORE);
        return code;
    }
    if (!strcmp(name, "send")) return MPI_Send(long_message, LONG_MESSAGE, MPI_BYTE, 0, TAG, comm);
    if (!strcmp(name, "ssend")) return MPI_Ssend(&value, 1, MPI_INT, 0, TAG, comm);
    if (!strcmp(name, "isend")) return isend_waitall(comm);
    if (!strcmp(name, "sendrecv"))
        return MPI_Sendrecv(&value, 1, MPI_INT, 0, OTHER_TAG, &flag, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
    return in_background(comm, name);
}

/* Rank 0 gives every member that lives what it waits for; its result is that of the first member. */
static int join_in(MPI_Comm comm, const char *name, int members) {
    static char got[LONG_MESSAGE];
    int value = 1, first = MPI_SUCCESS;
    if (is_collective(name)) return collective(comm, name);
    bool receives = !strcmp(name, "send") || !strcmp(name, "ssend") || !strcmp(name, "isend");
    for (int peer = 1; peer < members; peer++) {
        int code = receives ? MPI_Recv(got, LONG_MESSAGE, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE)
                            : MPI_Send(&value, 1, MPI_INT, peer, TAG, comm);
        if (!receives && code == MPI_SUCCESS) code = MPI_Send(&value, 1, MPI_INT, peer, OTHER_TAG, comm);
        if (first == MPI_SUCCESS) first = code;
    }
    return first;
}

/* Spawns so many victims. */
static MPI_Comm spawn(char **arguments, int victims) {
    MPI_Comm inter;
    MPI_Info local = info_with_scope("local");
    MPI_Comm_spawn(arguments[0], arguments + 1, victims, MPI_INFO_NULL, 0, calm, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_set_info(inter, local);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Info_free(&local);
    return inter;
}

/* One that was spawned: it lives until it is killed. */
static void be_victim(MPI_Comm parents, const char *dir) {
    int size;
    MPI_Comm_remote_size(parents, &size);
    world_rank += size;
    open_diary(dir);
    event("ready");
    wait_to_die(MPI_COMM_SELF, 0);
}

int main(int count, char **arguments) {
    const char *dir = "", *scope = "local", *how = "set", *where = "inside", *operations[MOST_OPERATIONS];
    int operation_count = 0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--scope")) scope = arguments[++i];
        else if (!strcmp(arguments[i], "--how")) how = arguments[++i];
        else if (!strcmp(arguments[i], "--victim-is")) where = arguments[++i];
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    bool inside = !strcmp(where, "inside"), spawns = !strcmp(where, "spawned");
    MPI_Comm victims = MPI_COMM_NULL;
    if (spawns && getenv("OMPI_PARENT_PORT")) {
        MPI_Init(NULL, NULL);
        MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
        MPI_Comm_get_parent(&victims);
        be_victim(victims, dir);
    }
    enter_world(&count, &arguments, dir);

    MPI_Info local = info_with_scope("local");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, local, &calm);
    MPI_Info_free(&local);
    if (spawns) victims = spawn(arguments, operation_count);
    MPI_Comm comms[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k;
        int members = spawns ? world_size : victim + inside;
        MPI_Comm_split(calm, world_rank < members ? 1 : MPI_UNDEFINED, world_rank, &comms[k]);
        if (comms[k] != MPI_COMM_NULL) comms[k] = inherit(comms[k], scope, how);
    }
    static int never[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++)
        MPI_Irecv(&never[k], 1, MPI_INT, spawns ? k : world_size - 1 - k, TAG, spawns ? victims : calm, &from_victim[k]);
    MPI_Barrier(calm);
    event("ready");
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k;
        if (!spawns && world_rank == victim) wait_to_die(calm, world_rank);
        /* The scope global counts deaths from here on: all before must be known. */
        if (k > 0) wait_for_death(&from_victim[k - 1]);
        MPI_Comm comm = comms[k];
        if (!strcmp(how, "set")) set_scope(comm, scope);
        event("blocked %d", k);
        int code;
        if (world_rank == 0) {
            wait_for_death(&from_victim[k]);
            /* From any source: a message of rank 0 could come before the news of the death. */
            bool waits_too = inside && !strcmp(operations[k], "any");
            code = waits_too ? wait_in(comm, "any") : join_in(comm, operations[k], spawns ? world_size : victim);
        } else
            code = wait_in(comm, operations[k]);
        event("result %d %d", k, class_of(code));
    }
    wait_for_death(&from_victim[operation_count - 1]);
    if (spawns) MPI_Comm_free(&victims);
    event("done");
    event("finalized %d", MPI_Finalize());
    return 0;
}
