/* uniform: the members of a communicator call one collective operation again and again while one of them dies; each
 * survivor writes down which call failed first, and how.
 *
 *   uniform --events DIR --uniform VALUE --how HOW --seed NUMBER [--elements COUNT] [--victims COUNT] [--groups 2]
 *           [--alone] OP...
 *
 *   VALUE    local, create or coll
 *   HOW      how the communicators get it: set (MPI_Comm_set_info), group (the same, and the error scope group), dup
 *            (duplicates of ones that were set) or default (not at all: the job's parameter)
 *   OP       an operation of the table below; with "i" before it without blocking, with "p" persistent, with
 *            "s" several at once without blocking, and with "z" before all that with counts of 0 everywhere; a constructor of communicators, windows or files; or what all members
 *            do with a window or a file, which has the uniformity of the communicator that it was made from
 *
 * --elements: how many integers a collective has for each member (1). --victims: how many members die in each operation (1).
 * --groups 2: each communicator has its members in two groups, of which the first member of the one is the root.
 * --alone: in neighbourhood collectives the last member has no neighbours, and nothing to send or to get.
 * For operation k, counted from 0, the victims are the ranks up to size - 1 - k * COUNT, each of which kills itself in a call
 * and at a moment that the seed decides. Members of a communicator stand in an order that the seed decides, too. Events are lines "rank nanoseconds
 * event details": "ended k CALL CLASS NEXT" after the first failed call of operation k, NEXT being the class of one more
 * call, "wrong k ..." if a successful call has a wrong result, and "half-built OP" if a constructor that failed has left a handle.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "draw.h"
#include "world.h"

enum { MOST_OPERATIONS = 5, MOST_MEMBERS = 16, SEVERAL = 4, TAG = 7, LAST_CALL = 8, LONGEST_LIFE_US = 4000,
       MOST_ELEMENTS = 32768, MOST_VICTIMS = 10 };

/* Keeps the errors local, whatever the default: here deaths are looked for. */
static MPI_Comm calm;
static MPI_Request from_victim[MOST_VICTIMS];
static char data_path[600];
static MPI_Win window;
static MPI_File file;

static void set_key(MPI_Comm comm, const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

/* Puts the members into two groups; returns whether this one is in the first. */
static bool divide(MPI_Comm *comm) {
    int rank, size;
    MPI_Comm half, whole = *comm;
    MPI_Comm_rank(whole, &rank);
    MPI_Comm_size(whole, &size);
    bool lower = rank < size / 2;
    MPI_Comm_split(whole, lower, rank, &half);
    MPI_Intercomm_create(half, 0, whole, lower ? size / 2 : 0, TAG, comm);
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return lower;
}

static void dies(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* ---- operations ---- */

/* Data of the calls: each member sends its rank + 1 wherever it sends, `each` times for each member, of the other group if there
 * are two. */
static int elements = 1, me, members, each, counts[MOST_MEMBERS], places[MOST_MEMBERS], bytes[MOST_MEMBERS];
/* What a member gets in a reduction that is scattered: of two groups both get as much. */
static int share, shares[MOST_MEMBERS];
static int root;
static bool is_root;
/* The last member has no neighbours; how many have, of whom each sends to the next one. */
static bool has_hermit;
static int ring;
/* As `each`; 0 where a member of two groups neither sends nor gets anything. */
static int given = 1;
static int sent[MOST_MEMBERS * MOST_ELEMENTS], room[SEVERAL][MOST_MEMBERS * MOST_ELEMENTS], *got = room[0];
static MPI_Aint displacements[MOST_MEMBERS];
static MPI_Datatype types[MOST_MEMBERS];

static void prepare(MPI_Comm comm, bool has_root, bool has_data) {
    each = has_data ? elements : 0;
    MPI_Comm_rank(comm, &me);
    int own, has_two;
    MPI_Comm_size(comm, &own);
    MPI_Comm_test_inter(comm, &has_two);
    members = own, root = 0, ring = members - has_hermit;
    if (me >= ring) each = 0;
    share = each;
    is_root = me == 0;
    given = each;
    if (has_two) {
        MPI_Comm_remote_size(comm, &members);
        share = members * each;
        is_root = me == 0 && has_root;
        root = is_root ? MPI_ROOT : has_root ? MPI_PROC_NULL : 0;
        given = root == MPI_PROC_NULL ? 0 : each;
    }
    for (int i = 0; i < own; i++) shares[i] = share;
    for (int i = 0; i < members; i++) {
        counts[i] = each, places[i] = i * each, bytes[i] = places[i] * (int)sizeof(int), types[i] = MPI_INT;
        displacements[i] = bytes[i];
    }
    for (int i = 0; i < (has_two ? own : 1) * members * each; i++) sent[i] = me + 1;
}

/* Name, and arguments before the communicator. */
#define COLLECTIVES(CALL)                                                                                              \
    CALL(Barrier, barrier)                                                                                             \
    CALL(Bcast, bcast, is_root ? sent : got, given, MPI_INT, root)                                                     \
    CALL(Reduce, reduce, sent, got, given, MPI_INT, MPI_SUM, root)                                                     \
    CALL(Allreduce, allreduce, sent, got, each, MPI_INT, MPI_SUM)                                                      \
    CALL(Gather, gather, sent, given, MPI_INT, got, given, MPI_INT, root)                                              \
    CALL(Gatherv, gatherv, sent, each, MPI_INT, got, counts, places, MPI_INT, root)                                    \
    CALL(Scatter, scatter, sent, given, MPI_INT, got, given, MPI_INT, root)                                            \
    CALL(Scatterv, scatterv, sent, counts, places, MPI_INT, got, each, MPI_INT, root)                                  \
    CALL(Allgather, allgather, sent, each, MPI_INT, got, each, MPI_INT)                                                \
    CALL(Allgatherv, allgatherv, sent, each, MPI_INT, got, counts, places, MPI_INT)                                    \
    CALL(Alltoall, alltoall, sent, each, MPI_INT, got, each, MPI_INT)                                                  \
    CALL(Alltoallv, alltoallv, sent, counts, places, MPI_INT, got, counts, places, MPI_INT)                            \
    CALL(Alltoallw, alltoallw, sent, counts, bytes, types, got, counts, bytes, types)                                  \
    CALL(Reduce_scatter, reduce_scatter, sent, got, shares, MPI_INT, MPI_SUM)                                          \
    CALL(Reduce_scatter_block, reduce_scatter_block, sent, got, share, MPI_INT, MPI_SUM)                               \
    CALL(Scan, scan, sent, got, each, MPI_INT, MPI_SUM)                                                                \
    CALL(Exscan, exscan, sent, got, each, MPI_INT, MPI_SUM)                                                            \
    CALL(Neighbor_allgather, neighbor_allgather, sent, each, MPI_INT, got, each, MPI_INT)                              \
    CALL(Neighbor_allgatherv, neighbor_allgatherv, sent, each, MPI_INT, got, counts, places, MPI_INT)                  \
    CALL(Neighbor_alltoall, neighbor_alltoall, sent, each, MPI_INT, got, each, MPI_INT)                                \
    CALL(Neighbor_alltoallv, neighbor_alltoallv, sent, counts, places, MPI_INT, got, counts, places, MPI_INT)          \
    CALL(Neighbor_alltoallw, neighbor_alltoallw, sent, counts, displacements, types, got, counts, displacements, types)

enum form { BLOCKING, NONBLOCKING, PERSISTENT, SEVERAL_AT_ONCE };

/* Starts a collective, or makes a blocking call; a persistent one is made with the first start. */
static int begin(MPI_Comm comm, const char *name, enum form form, MPI_Request *request) {
    int code = MPI_ERR_OTHER;
#define CALL(Name, small, ...)                                                                                         \
    if (!strcmp(name, #small)) {                                                                                       \
        if (form == BLOCKING) code = MPI_##Name(__VA_ARGS__ __VA_OPT__(, ) comm);                                      \
        else if (form != PERSISTENT) code = MPI_I##small(__VA_ARGS__ __VA_OPT__(, ) comm, request);                    \
        else if (*request != MPI_REQUEST_NULL) code = MPI_SUCCESS;                                                     \
        else code = MPI_##Name##_init(__VA_ARGS__ __VA_OPT__(, ) comm, MPI_INFO_NULL, request);                        \
    }
    COLLECTIVES(CALL)
#undef CALL
    return code == MPI_SUCCESS && form == PERSISTENT ? MPI_Start(request) : code;
}

/* Calls a collective, or several before it waits; returns how many, and their codes. */
static int collective(MPI_Comm comm, const char *name, enum form form, MPI_Request *persistent, int codes[SEVERAL]) {
    MPI_Request requests[SEVERAL];
    int calls = form == SEVERAL_AT_ONCE ? SEVERAL : 1;
    for (int i = 0; i < calls; i++) {
        got = room[i];
        got[0] = 0;
        if (each > 0) got[each - 1] = 0;
        requests[i] = form == PERSISTENT ? *persistent : MPI_REQUEST_NULL;
        codes[i] = begin(comm, name, form, &requests[i]);
    }
    for (int i = 0; i < calls; i++)
        if (codes[i] == MPI_SUCCESS) codes[i] = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (form == PERSISTENT) *persistent = requests[0];
    return calls;
}

/* What the first numbers are that a successful collective leaves here; -1 if nothing is known about them. */
static int expected(const char *name) {
    if (each == 0) return -1;
    int all = members * (members + 1) / 2;
    if (!strncmp(name, "neighbor", 8)) return (me + ring - 1) % ring + 1;
    if (!strcmp(name, "barrier")) return -1;
    if (!strcmp(name, "bcast")) return is_root || root != 0 ? -1 : 1;
    if (!strcmp(name, "reduce")) return is_root ? all : -1;
    if (!strncmp(name, "gather", 6)) return is_root ? 1 : -1;
    if (!strncmp(name, "scatter", 7)) return root != 0 ? -1 : 1;
    if (!strcmp(name, "allreduce") || !strncmp(name, "reduce_scatter", 14)) return all;
    if (!strcmp(name, "scan")) return (me + 1) * (me + 2) / 2;
    if (!strcmp(name, "exscan")) return me == 0 ? -1 : me * (me + 1) / 2;
    return 1;
}

/* Makes a window or a file, of which nothing remains. */
static int owner(MPI_Comm comm, const char *name) {
    static int memory[MOST_MEMBERS], *allocated;
    /* No null handles yet: these are what a constructor that fails has to leave. */
    MPI_Win window = (MPI_Win)memory;
    MPI_File file = (MPI_File)memory;
    int code;
    if (!strcmp(name, "file_open")) {
        code = MPI_File_open(comm, data_path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        if (code == MPI_SUCCESS) MPI_File_close(&file);
        else if (file != MPI_FILE_NULL) event("half-built %s", name);
        return code;
    }
    if (!strcmp(name, "win_create"))
        code = MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &window);
    else if (!strcmp(name, "win_allocate"))
        code = MPI_Win_allocate(sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &allocated, &window);
    else if (!strcmp(name, "win_allocate_shared"))
        code = MPI_Win_allocate_shared(sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &allocated, &window);
    else
        code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window);
    if (code == MPI_SUCCESS) {
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        MPI_Win_free(&window);
    } else if (window != MPI_WIN_NULL)
        event("half-built %s", name);
    return code;
}

/* What all members do with a file or a window. */
static int together(const char *name) {
    if (!strcmp(name, "win_fence")) return MPI_Win_fence(0, window);
    if (!strcmp(name, "write_at_all"))
        return MPI_File_write_at_all(file, me * (MPI_Offset)sizeof *sent, sent, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (!strcmp(name, "read_at_all"))
        return MPI_File_read_at_all(file, me * (MPI_Offset)sizeof *sent, got, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (!strcmp(name, "write_ordered")) return MPI_File_write_ordered(file, sent, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (!strcmp(name, "set_view")) return MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    return MPI_File_sync(file);
}

static bool is_together(const char *name) {
    static const char *all[] = {"win_fence", "write_at_all", "read_at_all", "write_ordered", "set_view", "sync"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i], name)) return true;
    return false;
}

/* Puts all members but the last on a ring. */
static void leave_out_the_last(MPI_Comm *comm) {
    int rank, size, one = 1;
    MPI_Comm line = *comm;
    MPI_Comm_rank(line, &rank);
    MPI_Comm_size(line, &size);
    int on_ring = size - 1, degree = rank < on_ring, left = (rank + on_ring - 1) % on_ring, right = (rank + 1) % on_ring;
    MPI_Dist_graph_create_adjacent(line, degree, &left, &one, degree, &right, &one, MPI_INFO_NULL, 0, comm);
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

/* A constructor, of which nothing remains. */
static int constructor(MPI_Comm comm, const char *name) {
    if (!strncmp(name, "win_", 4) || !strcmp(name, "file_open")) return owner(comm, name);
    MPI_Comm made = MPI_COMM_NULL;
    int code, one = 1, wraps = 1, left = (me + members - 1) % members, right = (me + 1) % members;
    if (!strcmp(name, "dup")) code = MPI_Comm_dup(comm, &made);
    else if (!strcmp(name, "merge")) code = MPI_Intercomm_merge(comm, 0, &made);
    else if (!strcmp(name, "split")) code = MPI_Comm_split(comm, me % 2, -me, &made);
    else if (!strcmp(name, "split_type")) code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    else if (!strcmp(name, "create")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create(comm, all, &made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "create_group")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create_group(comm, all, TAG, &made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "from_group")) {
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        code = MPI_Comm_create_from_group(all, "uniform", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
        MPI_Group_free(&all);
    } else if (!strcmp(name, "cart_create")) code = MPI_Cart_create(comm, 1, &members, &wraps, 0, &made);
    else if (!strcmp(name, "graph_create")) {
        int ends[MOST_MEMBERS], next[MOST_MEMBERS];
        for (int i = 0; i < members; i++) ends[i] = i + 1, next[i] = (i + 1) % members;
        code = MPI_Graph_create(comm, members, ends, next, 0, &made);
    } else if (!strcmp(name, "dist_graph_create")) {
        code = MPI_Dist_graph_create(comm, 1, &me, &one, &right, &one, MPI_INFO_NULL, 0, &made);
    } else if (!strcmp(name, "dist_graph_adjacent"))
        code = MPI_Dist_graph_create_adjacent(comm, 1, &left, &one, 1, &right, &one, MPI_INFO_NULL,
                                              0, &made);
    else if (!strcmp(name, "cart_sub")) {
        int kept = 1;
        code = MPI_Cart_sub(comm, &kept, &made);
    } else if (!strcmp(name, "dup_with_info")) code = MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made);
    else if (!strncmp(name, "idup", 4)) {
        MPI_Request request;
        code = strcmp(name, "idup") ? MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, &made, &request)
                                    : MPI_Comm_idup(comm, &made, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        fprintf(stderr, "uniform: no operation %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 98);
        return MPI_ERR_OTHER;
    }
    if (code == MPI_SUCCESS && made != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
        MPI_Comm_free(&made);
    }
    /* MPI_Comm_idup and its kin give the handle before anybody knows whether they will fail. */
    if (code != MPI_SUCCESS && made != MPI_COMM_NULL && strncmp(name, "idup", 4)) event("half-built %s", name);
    return code;
}

static bool is_collective(const char *name) {
#define CALL(Name, small, ...)                                                                                         \
    if (!strcmp(name, #small)) return true;
    COLLECTIVES(CALL)
#undef CALL
    return false;
}

/* Calls the operation until it fails; a victim, which has a life, sets the alarm before one of the calls and does not
 * return. */
static void repeat(int k, MPI_Comm comm, const char *operation, int last_call, useconds_t life) {
    enum form form = BLOCKING;
    const char *name = operation + (*operation == 'z');
    if (!is_collective(name) && is_collective(name + 1)) {
        form = *name == 'i' ? NONBLOCKING : *name == 'p' ? PERSISTENT : SEVERAL_AT_ONCE;
        name++;
    }
    bool collects = is_collective(name);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!strcmp(name, "win_fence")) {
        MPI_Win_create(room, sizeof room, sizeof **room, MPI_INFO_NULL, comm, &window);
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    } else if (is_together(name))
        MPI_File_open(comm, data_path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    int first = MPI_SUCCESS, next = MPI_SUCCESS, failed = -1;
    for (int call = 0, calls = 1; next == MPI_SUCCESS; call += calls) {
        int codes[SEVERAL];
        if (last_call >= 0 && last_call < call + calls) ualarm(life, 0), last_call = -1;
        if (collects) calls = collective(comm, name, form, &request, codes);
        else if (is_together(name)) codes[0] = together(name);
        else codes[0] = constructor(comm, name);
        for (int i = 0; i < calls; i++) {
            bool right = !collects || expected(name) < 0
                         || (room[i][0] == expected(name) && room[i][each - 1] == expected(name));
            if (codes[i] == MPI_SUCCESS && (!right || failed >= 0))
                event("wrong %d %s call %d: %d %d", k, operation, call + i, room[i][0], room[i][each - 1]);
            if (codes[i] == MPI_SUCCESS) continue;
            if (failed < 0) failed = call + i, first = codes[i];
            else next = codes[i];
        }
    }
    event("ended %d %d %d %d", k, failed, class_of(first), class_of(next));
    if (life == 0) return;
    /* Another victim has died first. */
    if (last_call >= 0) ualarm(life, 0);
    for (;;) pause();
}

int main(int count, char **arguments) {
    const char *dir = "", *value = "local", *how = "set", *operations[MOST_OPERATIONS];
    int operation_count = 0, dying = 1, groups = 1;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--elements")) elements = atoi(arguments[++i]);
        else if (!strcmp(arguments[i], "--alone")) has_hermit = true;
        else if (!strcmp(arguments[i], "--groups")) groups = atoi(arguments[++i]);
        else if (!strcmp(arguments[i], "--victims")) dying = atoi(arguments[++i]);
        else if (!strcmp(arguments[i], "--uniform")) value = arguments[++i];
        else if (!strcmp(arguments[i], "--how")) how = arguments[++i];
        else if (!strcmp(arguments[i], "--seed")) seed = strtoul(arguments[++i], NULL, 10);
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    enter_world(&count, &arguments, dir);
    snprintf(data_path, sizeof data_path, "%s/data", dir);

    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    set_key(calm, "mpix_error_uniform", "local");
    MPI_Comm comms[MOST_OPERATIONS];
    bool has_root[MOST_OPERATIONS] = {false};
    int last_calls[MOST_VICTIMS];
    useconds_t lives[MOST_VICTIMS];
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k * dying, turn = (int)(draw() % (unsigned long)(victim + 1));
        for (int v = k * dying; v < (k + 1) * dying; v++) {
            last_calls[v] = (int)(draw() % LAST_CALL);
            lives[v] = (useconds_t)(draw() % LONGEST_LIFE_US) + 1;
        }
        MPI_Comm_split(calm, world_rank <= victim ? 1 : MPI_UNDEFINED, (world_rank + turn) % (victim + 1), &comms[k]);
        if (comms[k] == MPI_COMM_NULL) continue;
        MPI_Comm_set_errhandler(comms[k], MPI_ERRORS_RETURN);
        if (has_hermit) leave_out_the_last(&comms[k]);
        else if (strstr(operations[k], "neighbor") || !strcmp(operations[k], "cart_sub")) {
            int wraps = 1, size = victim + 1;
            MPI_Comm line = comms[k];
            MPI_Cart_create(line, 1, &size, &wraps, 0, &comms[k]);
        }
        has_root[k] = groups == 2 && divide(&comms[k]);
        if (strcmp(how, "default")) set_key(comms[k], "mpix_error_uniform", value);
        if (!strcmp(how, "group")) set_key(comms[k], "mpix_error_scope", "group");
        if (!strcmp(how, "dup")) {
            MPI_Comm origin = comms[k];
            MPI_Comm_dup(origin, &comms[k]);
        }
    }
    static int never[MOST_VICTIMS];
    for (int v = 0; v < operation_count * dying; v++)
        MPI_Irecv(&never[v], 1, MPI_INT, world_size - 1 - v, TAG, calm, &from_victim[v]);
    MPI_Barrier(calm);
    event("ready");
    signal(SIGALRM, dies);
    for (int k = 0; k < operation_count; k++) {
        prepare(comms[k], has_root[k], *operations[k] != 'z');
        int as_victim = world_size - 1 - world_rank;
        bool dies_now = as_victim >= k * dying && as_victim < (k + 1) * dying;
        repeat(k, comms[k], operations[k], dies_now ? last_calls[as_victim] : -1, dies_now ? lives[as_victim] : 0);
        for (int v = k * dying; v < (k + 1) * dying; v++) wait_for_death(&from_victim[v]);
    }
    event("done");
    leave_world();
    return 0;
}
