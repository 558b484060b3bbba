/* hyperquicksort: a parallel sort that goes on without processes that are slow or dead, and takes them back.
 *
 * HyperQuickSort (Wagar 1987) has 2^d slots, each with a list. In round s, from d down to 1, the slots of a cluster of 2^s split
 * their lists by one pivot and exchange halves across bit s - 1. Slots are mapped anew before each round on the processes that
 * take part (Camargo and Duarte 2018). A round is a transaction: it starts from the files of the last complete one, and its own
 * files have another epoch in their names.
 *
 *   mpicc -O2 -o hyperquicksort hyperquicksort.c -lringwatch
 *   mpirun --with-ft ulfm -n 16 ./hyperquicksort group FOLDER NUMBERS [PAUSE [RETURNS [INTERVAL]]]
 *
 * `ulfm` in place of `group` does the same with ULFM alone: only the dead leave, and for good. FOLDER is empty, and all nodes see
 * it. NUMBERS are sorted on each process, 2^d of them. A round takes PAUSE milliseconds at least (0); processes come back if
 * RETURNS is `true`; they are tested every INTERVAL milliseconds (1000). Standard output: the rounds, which files are the result,
 * and whether what is in them is sorted and what was there at the beginning. In the environment: with SLOT_MS each slot takes its process
 * so many milliseconds more in a round; with TELL_TIME the time of the sort stands on standard error.
 */
#include <limits.h>
#include <mpi.h>
#include <ringwatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slot_files.h"

enum { PATIENCE = 60 /* seconds */, MOST = 256, PIVOT = 0, LENGTH = 1, HALF = 2 };

/* What all members of a round agree on. */
static struct {
    int round, epoch, base, size, place;
    int is_member[MOST], in_comm[MOST];
} view;

static MPI_Comm comm;
static int slots, dimension, is_group;

static struct {
    int epoch;
    list list;
} kept[MOST]; /* by slot, what this process has written last */

/* The process that looks after a slot: its own, or the first member of the slot's clusters, the smallest one first. */
static int owner(int slot)
{
    if (view.is_member[slot]) {
        return slot;
    }
    for (int s = 1; s <= dimension; s++) {
        for (int k = 0; k < 1 << (s - 1); k++) {
            int other = slot ^ 1 << (s - 1) ^ k;
            if (view.is_member[other]) {
                return other;
            }
        }
    }
    stop("nobody takes part");
    return -1;
}

/* Messages of a round. Buffers of a round that is given up are left as they are: MPI may still use them. */

static MPI_Request requests[4 * MOST];
static int request_count, gives_up;

static int tag(int slot, int kind) { return (view.epoch * 3 + kind) * MOST + slot; }

/* Whether the round is of no use any more: a member is lost. */
static int is_lost(void)
{
    static double asked;
    int lost = 0;
    if (is_group && MPI_Wtime() > asked + 0.002) {
        asked = MPI_Wtime();
        RW_Group_lost(&lost);
    }
    gives_up = gives_up || lost;
    return gives_up;
}

static void check(int code) { gives_up = gives_up || code != MPI_SUCCESS; }

static void rest(void)
{
    struct timespec time = {0, 100000};
    nanosleep(&time, NULL);
}

static void send_to(int to, int slot, int kind, const long *values, int length)
{
    check(MPI_Isend(values, length, MPI_LONG, view.in_comm[to], tag(slot, kind), comm, &requests[request_count++]));
}

static void receive(int from, int slot, int kind, long *values, int length)
{
    check(MPI_Irecv(values, length, MPI_LONG, view.in_comm[from], tag(slot, kind), comm, &requests[request_count++]));
}

/* Waits for all that was sent and received, or gives it up. */
static void finish(void)
{
    int is_done = 0;
    while (!is_done && !is_lost()) {
        check(MPI_Testall(request_count, requests, &is_done, MPI_STATUSES_IGNORE));
        if (!is_done) {
            rest();
        }
    }
    for (int i = 0; gives_up && i < request_count; i++) {
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&requests[i]);
        }
    }
    request_count = 0;
}

static int own_slots(void)
{
    int count = 0;
    for (int v = 0; v < slots; v++) {
        count += owner(v) == rank;
    }
    return count;
}

/* What a process has written in this epoch. */
static void keep(int slot, list l)
{
    qsort(l.values, (size_t) l.length, sizeof(long), ascending);
    gives_up = !write_slot(slot, view.epoch, l) || gives_up;
    kept[slot].epoch = view.epoch;
    kept[slot].list = l;
}

/* The round before the first: the input of this process's slots. True if it is done. */
static int begin(int count)
{
    gives_up = 0;
    for (int v = 0; v < slots && !is_lost(); v++) {
        if (owner(v) == rank) {
            keep(v, input(v, count));
        }
    }
    return !gives_up;
}

/* One round of this process's slots. True if it is done. */
static int sort_round(int s)
{
    int half = 1 << (s - 1), mine[MOST];
    list lists[MOST], goes[MOST], came[MOST];
    long *pivots = make(slots).values, *lengths = make(2 * slots).values;
    request_count = gives_up = 0;
    for (int v = 0; v < slots; v++) {
        mine[v] = owner(v) == rank;
        if (mine[v] && kept[v].list.values != NULL && kept[v].epoch == view.base) {
            lists[v] = kept[v].list;
        } else if (mine[v] && !read_slot(v, view.base, &lists[v])) {
            /* The others have gone on, and this process will hear of it: it was stopped. */
            for (double until = MPI_Wtime() + PATIENCE; !is_lost(); rest()) {
                if (MPI_Wtime() > until) {
                    stop("slot %d of epoch %d in %s: %s", v, view.base, folder, fault);
                }
            }
            return 0;
        }
    }
    /* The owner of a cluster's lowest slot tells the pivot to the owners of all others. */
    for (int root = 0; root < slots; root += 2 * half) {
        int told[MOST] = {0};
        if (mine[root]) {
            pivots[root] = lists[root].length > 0 ? lists[root].values[(lists[root].length - 1) / 2] : 0;
        }
        for (int v = root; mine[root] && v < root + 2 * half; v++) {
            if (owner(v) != rank && !told[owner(v)]) {
                told[owner(v)] = 1;
                send_to(owner(v), root, PIVOT, &pivots[root], 1);
            }
        }
    }
    for (int root = 0; root < slots; root += 2 * half) {
        int needs = 0;
        for (int v = root; v < root + 2 * half; v++) {
            needs = needs || mine[v];
        }
        if (needs && !mine[root]) {
            receive(owner(root), root, PIVOT, &pivots[root], 1);
        }
    }
    finish();
    for (int v = 0; v < slots && !gives_up; v++) {
        if (mine[v]) {
            long pivot = pivots[v & ~(2 * half - 1)];
            int low = 0;
            while (low < lists[v].length && lists[v].values[low] <= pivot) {
                low++;
            }
            list below = {lists[v].values, low}, above = {lists[v].values + low, lists[v].length - low};
            goes[v] = v & half ? below : above;
            lists[v] = v & half ? above : below;
            lengths[v] = goes[v].length;
            if (owner(v ^ half) != rank) {
                send_to(owner(v ^ half), v ^ half, LENGTH, &lengths[v], 1);
                receive(owner(v ^ half), v, LENGTH, &lengths[slots + v], 1);
            }
        }
    }
    finish();
    for (int v = 0; v < slots && !gives_up; v++) {
        if (mine[v] && owner(v ^ half) != rank) {
            came[v] = make((int) lengths[slots + v]);
            send_to(owner(v ^ half), v ^ half, HALF, goes[v].values, goes[v].length);
            receive(owner(v ^ half), v, HALF, came[v].values, came[v].length);
        } else if (mine[v]) {
            came[v] = goes[v ^ half];
        }
    }
    finish();
    for (int v = 0; v < slots && !gives_up; v++) {
        if (mine[v]) {
            list whole = make(lists[v].length + came[v].length);
            memcpy(whole.values, lists[v].values, (size_t) lists[v].length * sizeof(long));
            memcpy(whole.values + lists[v].length, came[v].values, (size_t) came[v].length * sizeof(long));
            keep(v, whole);
        }
    }
    return !gives_up;
}

/* What the first member of a round says of it. */
static void tell(void)
{
    printf("round %d of %d: %d of %d processes, epoch %d", view.round, dimension, view.size, slots, view.epoch);
    for (int v = 0; v < slots; v++) {
        int state = RW_GROUP_DEAD, evictions;
        if (!view.is_member[v]) {
            if (is_group) {
                RW_Group_state(v, &state, &evictions);
            }
            printf(", %s %d", state == RW_GROUP_DEAD ? "dead" : "out", v);
        }
    }
    printf("\n");
    fflush(stdout);
}

/* The next round with the group: false when the others have come to the end. */
static int next_with_group(int is_done)
{
    int ranks[MOST];
    if (RW_Group_barrier(is_done, &view.size, &view.place) != MPI_SUCCESS) {
        stop("the barrier of the group has failed");
    }
    if (view.size == 0) {
        return 0;
    }
    RW_Group_round(&view.round, &view.epoch, &view.base);
    RW_Group_members(ranks);
    memset(view.is_member, 0, sizeof view.is_member);
    for (int i = 0; i < view.size; i++) {
        view.is_member[ranks[i]] = 1;
    }
    return 1;
}

/* The same with ULFM alone: who has died is left out. */
static int next_with_ulfm(int is_done)
{
    if (!is_done || MPI_Barrier(comm) != MPI_SUCCESS) {
        is_done = 0;
        MPIX_Comm_revoke(comm);
    }
    int is_whole = MPIX_Comm_agree(comm, &is_done) == MPI_SUCCESS && is_done;
    if (is_whole) {
        view.round++;
        view.base = view.epoch;
    } else {
        MPI_Comm survivors;
        MPI_Group group, acked;
        int dead;
        MPIX_Comm_failure_ack(comm);
        MPIX_Comm_failure_get_acked(comm, &acked);
        MPI_Group_size(acked, &dead);
        MPI_Group_free(&acked);
        if (MPIX_Comm_shrink(comm, &survivors) != MPI_SUCCESS) {
            stop("the survivors have no communicator");
        }
        comm = survivors;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Comm_group(comm, &group);
        MPI_Group world;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        for (int v = 0; v < slots; v++) {
            MPI_Group_translate_ranks(world, 1, &v, group, &view.in_comm[v]);
            view.is_member[v] = view.in_comm[v] != MPI_UNDEFINED;
        }
        MPI_Group_free(&group);
        MPI_Group_free(&world);
    }
    view.epoch++;
    MPI_Comm_size(comm, &view.size);
    MPI_Comm_rank(comm, &view.place);
    return 1;
}

/* Rank 0 says what is wrong with the command line, and ends all. */
static void refuse(const char *what)
{
    if (rank == 0) {
        stop("%s", what);
    }
    for (;;) {
        pause();
    }
}

/* An argument that is a whole number. */
static int number_of(const char *name, const char *text, int most)
{
    char *end, what[512];
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || number < 0 || number > most) {
        snprintf(what, sizeof what, "%s is \"%.200s\": it must be a number from 0 to %d", name, text, most);
        refuse(what);
    }
    return (int) number;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &slots);
    while (1 << dimension < slots) {
        dimension++;
    }
    is_group = argc > 1 && strcmp(argv[1], "group") == 0;
    if (argc < 4 || 1 << dimension != slots || slots > MOST || (!is_group && strcmp(argv[1], "ulfm"))) {
        refuse("usage: hyperquicksort group|ulfm FOLDER NUMBERS [PAUSE [RETURNS [INTERVAL]]], with 2^d processes, at most 256");
    }
    folder = argv[2];
    /* All of them may come to be in one list. */
    int count = number_of("NUMBERS", argv[3], INT_MAX / slots);
    int least = argc > 4 ? number_of("PAUSE", argv[4], INT_MAX) : 0;
    double slot_ms = getenv("SLOT_MS") != NULL ? atof(getenv("SLOT_MS")) : 0;
    view.epoch = 1;
    view.size = slots;
    view.place = rank;
    for (int v = 0; v < slots; v++) {
        view.is_member[v] = 1;
        view.in_comm[v] = v;
    }
    double began = MPI_Wtime();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (is_group) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "rw_returns", argc > 5 ? argv[5] : "true");
        MPI_Info_set(info, "rw_interval", argc > 6 ? argv[6] : "1000");
        if (RW_Group_join(comm, info) != MPI_SUCCESS) {
            stop("it cannot join the group");
        }
        MPI_Info_free(&info);
    }
    int goes_on = 1;
    while (goes_on && view.round <= dimension) {
        if (view.place == 0 && view.round > 0) {
            tell();
            sweep(view.base);
        }
        double until = MPI_Wtime() + (view.round > 0 ? least + slot_ms * own_slots() : 0) / 1e3;
        int is_done = view.round > 0 ? sort_round(dimension + 1 - view.round) : begin(count);
        while (MPI_Wtime() < until && !is_lost()) {
            rest();
        }
        goes_on = is_group ? next_with_group(is_done && !gives_up) : next_with_ulfm(is_done);
    }
    if (goes_on && view.place == 0) {
        double took = MPI_Wtime() - began;
        sweep(view.base);
        verify(slots, view.base, count);
        if (getenv("TELL_TIME")) {
            fprintf(stderr, "hyperquicksort: %.3f s\n", took);
        }
    }
    if (is_group) {
        RW_Group_leave();
    }
    MPI_Finalize();
    return 0;
}
