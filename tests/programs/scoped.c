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
#include "victims.h"

/* There if libringwatch was preloaded. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request) __attribute__((weak));

enum { MOST_OPERATIONS = 6, MOST_MEMBERS = 16, LONG_MESSAGE = 1 << 20, TAG = 7, OTHER_TAG = VICTIM_TAG };

static char long_message[LONG_MESSAGE], data_path[600];
/* Keeps the scope local, whatever the default: here deaths are looked for. */
static MPI_Comm calm;
/* Members whose ranks are even, or odd: the two groups of an intercommunicator. */
static MPI_Comm halves[MOST_OPERATIONS], half;
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
    int index, indices[2], completed = 0, flag = false, code = MPI_SUCCESS;
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
    if (!strcmp(operation, "waitsome")) {
        code = MPI_Waitsome(2, requests, &completed, indices, statuses);
        return class_among(code, completed, statuses);
    }
    if (!strcmp(operation, "testsome")) {
        while (completed == 0 && code == MPI_SUCCESS) code = MPI_Testsome(2, requests, &completed, indices, statuses);
        return class_among(code, completed, statuses);
    }
    if (!strcmp(operation, "testall")) {
        while (!flag && code == MPI_SUCCESS) code = MPI_Testall(2, requests, &flag, statuses);
        return class_among(code, 2, statuses);
    }
    while (!flag && code == MPI_SUCCESS) code = MPI_Testany(2, requests, &index, &flag, statuses);
    return code;
}

/* Sends rank 0 a message in the background. */
static int isend(MPI_Comm comm, bool waits) {
    MPI_Request request;
    MPI_Status status;
    int index, flag = false, code = MPI_Isend(long_message, LONG_MESSAGE, MPI_BYTE, 0, TAG, comm, &request);
    if (code != MPI_SUCCESS) return code;
    if (waits) {
        code = MPI_Waitall(1, &request, &status);
        return class_among(code, 1, &status);
    }
    while (!flag && code == MPI_SUCCESS) code = MPI_Testany(1, &request, &index, &flag, &status);
    return code;
}

static int mprobe(MPI_Comm comm, bool waits) {
    MPI_Message message;
    int value, flag = waits, code = MPI_SUCCESS;
    if (waits) code = MPI_Mprobe(0, TAG, comm, &message, MPI_STATUS_IGNORE);
    while (!flag && code == MPI_SUCCESS) code = MPI_Improbe(0, TAG, comm, &flag, &message, MPI_STATUS_IGNORE);
    return code == MPI_SUCCESS ? MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE) : code;
}

/* An error frees the request. */
static int persistent_recv(MPI_Comm comm) {
    static int value;
    MPI_Request request;
    int code = MPI_Recv_init(&value, 1, MPI_INT, 0, TAG, comm, &request);
    if (code == MPI_SUCCESS) code = MPI_Start(&request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) MPI_Request_free(&request);
    return code;
}

/* The other operations are those that all members enter. */
static bool is_point_to_point(const char *name) {
    static const char *all[] = {"recv",     "any",     "probe",   "iprobe",  "mprobe",   "improbe",  "recv_init",
                                "send",     "ssend",   "isend",   "isend_testany",       "sendrecv", "waitall",
                                "waitany",  "waitsome", "testall", "testany", "testsome"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i], name)) return true;
    return false;
}

/* Data of the collectives. Not on the stack: what is interrupted may still be under way. */
static int sent[MOST_MEMBERS], got[MOST_MEMBERS], ones[MOST_MEMBERS], places[MOST_MEMBERS], bytes[MOST_MEMBERS];
static MPI_Aint addresses[MOST_MEMBERS];
static MPI_Datatype types[MOST_MEMBERS];

static void prepare(void) {
    for (int i = 0; i < MOST_MEMBERS; i++) {
        ones[i] = 1, places[i] = i, bytes[i] = i * (int)sizeof *sent;
        addresses[i] = bytes[i], types[i] = MPI_INT;
    }
}

/* Makes something, of which nothing remains. */
static int constructor(MPI_Comm comm, const char *name) {
    MPI_Comm made = MPI_COMM_NULL;
    int code, *allocated;
    if (!strcmp(name, "file_open")) {
        MPI_File file;
        code = MPI_File_open(comm, data_path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        if (code == MPI_SUCCESS) MPI_File_close(&file);
        return code;
    }
    if (!strncmp(name, "win_", 4)) {
        MPI_Win window;
        if (!strcmp(name, "win_create"))
            code = MPI_Win_create(got, sizeof got, sizeof *got, MPI_INFO_NULL, comm, &window);
        else if (!strcmp(name, "win_create_dynamic")) code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window);
        else code = MPI_Win_allocate(sizeof *sent, sizeof *sent, MPI_INFO_NULL, comm, &allocated, &window);
        if (code == MPI_SUCCESS) MPI_Win_free(&window);
        return code;
    }
    if (!strcmp(name, "comm_dup")) code = MPI_Comm_dup(comm, &made);
    else if (!strcmp(name, "comm_split")) code = MPI_Comm_split(comm, world_rank % 2, 0, &made);
    else if (!strcmp(name, "comm_create_group")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create_group(comm, all, TAG, &made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "comm_create")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create(comm, all, &made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "comm_idup")) {
        MPI_Request request;
        code = MPI_Comm_idup(comm, &made, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "comm_split_type"))
        code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    else if (!strcmp(name, "cart_create")) {
        int size, wraps = 1;
        MPI_Comm_size(comm, &size);
        code = MPI_Cart_create(comm, 1, &size, &wraps, 0, &made);
    } else if (!strcmp(name, "graph_create")) {
        int size, ends[MOST_MEMBERS] = {0}, nothing = 0;
        MPI_Comm_size(comm, &size);
        code = MPI_Graph_create(comm, size, ends, &nothing, 0, &made);
    } else if (!strcmp(name, "dist_graph_create"))
        code = MPI_Dist_graph_create(comm, 0, got, ones, places, ones, MPI_INFO_NULL, 0, &made);
    else if (!strcmp(name, "dist_graph_create_adjacent"))
        code = MPI_Dist_graph_create_adjacent(comm, 0, got, ones, 0, places, ones, MPI_INFO_NULL, 0, &made);
    else if (!strcmp(name, "intercomm_create"))
        code = MPI_Intercomm_create(half, 0, comm, 1 - world_rank % 2, TAG, &made);
    else {
        fprintf(stderr, "scoped: no operation %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 98);
        return MPI_ERR_OTHER;
    }
    if (code == MPI_SUCCESS) MPI_Comm_free(&made);
    return code;
}

static int collective(MPI_Comm comm, const char *name) {
    int code;
    MPI_Request request = MPI_REQUEST_NULL;
    if (!strcmp(name, "barrier")) code = MPI_Barrier(comm);
    else if (!strcmp(name, "bcast")) code = MPI_Bcast(got, 1, MPI_INT, 0, comm);
    else if (!strcmp(name, "reduce")) code = MPI_Reduce(sent, got, 1, MPI_INT, MPI_SUM, 1, comm);
    else if (!strcmp(name, "allreduce")) code = MPI_Allreduce(sent, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "gather")) code = MPI_Gather(sent, 1, MPI_INT, got, 1, MPI_INT, 1, comm);
    else if (!strcmp(name, "gatherv")) code = MPI_Gatherv(sent, 1, MPI_INT, got, ones, places, MPI_INT, 1, comm);
    else if (!strcmp(name, "scatter")) code = MPI_Scatter(sent, 1, MPI_INT, got, 1, MPI_INT, 0, comm);
    else if (!strcmp(name, "scatterv")) code = MPI_Scatterv(sent, ones, places, MPI_INT, got, 1, MPI_INT, 0, comm);
    else if (!strcmp(name, "alltoall")) code = MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "allgather")) code = MPI_Allgather(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "reduce_scatter")) code = MPI_Reduce_scatter(sent, got, ones, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "scan")) code = MPI_Scan(sent, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "exscan")) code = MPI_Exscan(sent, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "allgatherv")) code = MPI_Allgatherv(sent, 1, MPI_INT, got, ones, places, MPI_INT, comm);
    else if (!strcmp(name, "alltoallv"))
        code = MPI_Alltoallv(sent, ones, places, MPI_INT, got, ones, places, MPI_INT, comm);
    else if (!strcmp(name, "alltoallw")) code = MPI_Alltoallw(sent, ones, bytes, types, got, ones, bytes, types, comm);
    else if (!strcmp(name, "reduce_scatter_block"))
        code = MPI_Reduce_scatter_block(sent, got, 1, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "neighbor_allgather"))
        code = MPI_Neighbor_allgather(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "neighbor_allgatherv"))
        code = MPI_Neighbor_allgatherv(sent, 1, MPI_INT, got, ones, places, MPI_INT, comm);
    else if (!strcmp(name, "neighbor_alltoall"))
        code = MPI_Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    else if (!strcmp(name, "neighbor_alltoallv"))
        code = MPI_Neighbor_alltoallv(sent, ones, places, MPI_INT, got, ones, places, MPI_INT, comm);
    else if (!strcmp(name, "neighbor_alltoallw"))
        code = MPI_Neighbor_alltoallw(sent, ones, addresses, types, got, ones, addresses, types, comm);
    else if (!strcmp(name, "ibcast")) code = MPI_Ibcast(got, 1, MPI_INT, 0, comm, &request);
    else if (!strcmp(name, "igather")) code = MPI_Igather(sent, 1, MPI_INT, got, 1, MPI_INT, 1, comm, &request);
    else if (!strcmp(name, "iscatter")) code = MPI_Iscatter(sent, 1, MPI_INT, got, 1, MPI_INT, 0, comm, &request);
    else if (!strcmp(name, "ialltoall")) code = MPI_Ialltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm, &request);
    else if (!strcmp(name, "iscan")) code = MPI_Iscan(sent, got, 1, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "ineighbor_alltoall"))
        code = MPI_Ineighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm, &request);
    else if (!strcmp(name, "ibarrier")) code = MPI_Ibarrier(comm, &request);
    else if (!strcmp(name, "iallreduce")) code = MPI_Iallreduce(sent, got, 1, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "allreduce_init")) {
        MPI_Allreduce_init(sent, got, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
        code = MPI_Start(&request);
    } else if (!strcmp(name, "bcast_init")) {
        MPI_Bcast_init(got, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
        code = MPI_Start(&request);
    } else
        return constructor(comm, name);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/* Rank 0 and every other member are neighbours, and no two others. The victim, if it is the last member, has none: Open MPI
 * 5.0.7 may abort where a neighbour dies. */
static MPI_Comm star(MPI_Comm comm, bool has_victim) {
    int size, ends[MOST_MEMBERS], edges[2 * MOST_MEMBERS] = {0};
    MPI_Comm made;
    MPI_Comm_size(comm, &size);
    int others = size - 1 - has_victim;
    for (int i = 0; i < others; i++) edges[i] = i + 1;
    for (int i = 0; i < size; i++) ends[i] = others + (i < others ? i : others);
    MPI_Graph_create(comm, size, ends, edges, 0, &made);
    return made;
}

/* What the survivors wait in for rank 0. */
static int wait_in(MPI_Comm comm, const char *name) {
    int value = 0, flag = false, code = MPI_SUCCESS;
    if (!is_point_to_point(name)) return collective(comm, name);
    if (!strcmp(name, "recv")) return MPI_Recv(&value, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "any")) return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "probe")) return MPI_Probe(0, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "iprobe")) {
        while (!flag && code == MPI_SUCCESS) code = MPI_Iprobe(0, TAG, comm, &flag, MPI_STATUS_IGNORE);
        return code;
    }
    if (!strcmp(name, "send")) return MPI_Send(long_message, LONG_MESSAGE, MPI_BYTE, 0, TAG, comm);
    if (!strcmp(name, "ssend")) return MPI_Ssend(&value, 1, MPI_INT, 0, TAG, comm);
    if (!strncmp(name, "isend", 5)) return isend(comm, !strcmp(name, "isend"));
    if (!strcmp(name, "mprobe") || !strcmp(name, "improbe")) return mprobe(comm, *name == 'm');
    if (!strcmp(name, "recv_init")) return persistent_recv(comm);
    if (!strcmp(name, "sendrecv"))
        return MPI_Sendrecv(&value, 1, MPI_INT, 0, OTHER_TAG, &flag, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
    return in_background(comm, name);
}

/* Rank 0 gives every member that lives what it waits for; its result is that of the first member. */
static int join_in(MPI_Comm comm, const char *name, int members) {
    static char got[LONG_MESSAGE];
    int value = 1, first = MPI_SUCCESS;
    if (!is_point_to_point(name)) return collective(comm, name);
    bool receives = !strcmp(name, "send") || !strcmp(name, "ssend") || !strncmp(name, "isend", 5);
    for (int peer = 1; peer < members; peer++) {
        int code = receives ? MPI_Recv(got, LONG_MESSAGE, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE)
                            : MPI_Send(&value, 1, MPI_INT, peer, TAG, comm);
        if (!receives && code == MPI_SUCCESS) code = MPI_Send(&value, 1, MPI_INT, peer, OTHER_TAG, comm);
        if (first == MPI_SUCCESS) first = code;
    }
    return first;
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
    be_victim_if_spawned(dir);
    enter_world(&count, &arguments, dir);
    snprintf(data_path, sizeof data_path, "%s/data", dir);
    prepare();

    MPI_Info local = info_with_scope("local");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, local, &calm);
    MPI_Info_free(&local);
    if (spawns) victims = spawn_victims(arguments, operation_count, calm);
    MPI_Comm comms[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k;
        int members = spawns ? world_size : victim + inside;
        MPI_Comm_split(calm, world_rank < members ? 1 : MPI_UNDEFINED, world_rank, &comms[k]);
        if (comms[k] == MPI_COMM_NULL) continue;
        if (strstr(operations[k], "neighbor")) comms[k] = star(comms[k], inside);
        if (strstr(operations[k], "intercomm")) MPI_Comm_split(comms[k], world_rank % 2, world_rank, &halves[k]);
        comms[k] = inherit(comms[k], scope, how);
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
        half = halves[k];
        if (!strcmp(how, "set")) set_scope(comm, scope);
        if (strstr(operations[k], "intercomm")) set_scope(half, scope);
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
