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
 * RETURNS is `true`; they are tested every INTERVAL milliseconds (1000). Standard output: the rounds, and whether what is in the
 * files at the end is sorted and what was there at the beginning.
 */
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <ringwatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, PIVOT = 0, HALF = 1 };

typedef struct {
    long *values;
    int length;
} list;

/* What all members of a round agree on. */
static struct {
    int round, epoch, base, size, place;
    int is_member[MOST], in_comm[MOST];
} view;

static MPI_Comm comm;
static int rank, slots, dimension, is_group;
static const char *folder;

static struct {
    int epoch;
    list list;
} kept[MOST]; /* by slot, what this process has written last */

static void stop(const char *what)
{
    fprintf(stderr, "hyperquicksort: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static list make(int length)
{
    list made = {malloc(((size_t) length + 1) * sizeof(long)), length};
    if (made.values == NULL) {
        stop("no memory");
    }
    return made;
}

static int ascending(const void *a, const void *b)
{
    long x = *(const long *) a, y = *(const long *) b;
    return (x > y) - (x < y);
}

/* Files. All of a file is there, or nothing: it gets its name when it is on disk. */

static void name_of(char *name, size_t size, int slot, int epoch)
{
    snprintf(name, size, "%s/slot-%d.epoch-%d", folder, slot, epoch);
}

static void write_slot(int slot, int epoch, list l)
{
    char name[4096], new[4096 + 32];
    name_of(name, sizeof name, slot, epoch);
    snprintf(new, sizeof new, "%s.by-%d", name, rank);
    FILE *file = fopen(new, "w");
    int is_written = file != NULL && fwrite(l.values, sizeof(long), (size_t) l.length, file) == (size_t) l.length &&
                     fflush(file) == 0 && fsync(fileno(file)) == 0;
    is_written = (file == NULL || fclose(file) == 0) && is_written && rename(new, name) == 0;
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    if (!is_written || at < 0 || fsync(at) != 0) {
        stop("a slot cannot be written");
    }
    close(at);
}

static list read_slot(int slot, int epoch)
{
    char name[4096];
    name_of(name, sizeof name, slot, epoch);
    FILE *file = fopen(name, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        stop("a slot cannot be read");
    }
    list l = make((int) (ftell(file) / (long) sizeof(long)));
    rewind(file);
    if (fread(l.values, sizeof(long), (size_t) l.length, file) != (size_t) l.length) {
        stop("a slot cannot be read");
    }
    fclose(file);
    return l;
}

/* Removes files of earlier epochs than those that the round starts from, and of earlier attempts. */
static void sweep(void)
{
    DIR *all = opendir(folder);
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        int slot, epoch, end = 0;
        if (sscanf(entry->d_name, "slot-%d.epoch-%d%n", &slot, &epoch, &end) == 2 && epoch < view.base) {
            unlinkat(dirfd(all), entry->d_name, 0);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
}

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

static int tag(int slot, int kind) { return (view.epoch * 2 + kind) * MOST + slot; }

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

/* The message for a slot, when it has come; false if the round is given up. */
static int receive(int from, int slot, int kind, list *l)
{
    MPI_Status status;
    MPI_Message message;
    for (int has_come = 0; !has_come; rest()) {
        check(MPI_Improbe(view.in_comm[from], tag(slot, kind), comm, &has_come, &message, &status));
        if (is_lost()) {
            return 0;
        }
        if (has_come) {
            break;
        }
    }
    int length;
    MPI_Get_count(&status, MPI_LONG, &length);
    *l = make(length);
    check(MPI_Imrecv(l->values, length, MPI_LONG, &message, &requests[request_count++]));
    return !gives_up;
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
}

/* One round of this process's slots. True if it is done. */
static int sort_round(int s)
{
    int half = 1 << (s - 1), mine[MOST];
    list lists[MOST], goes[MOST], came[MOST];
    static long pivots[MOST];
    request_count = gives_up = 0;
    for (int v = 0; v < slots; v++) {
        mine[v] = owner(v) == rank;
        if (mine[v] && kept[v].list.values != NULL && kept[v].epoch == view.base) {
            lists[v] = kept[v].list;
        } else if (mine[v]) {
            lists[v] = read_slot(v, view.base);
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
        list pivot;
        if (needs && !mine[root]) {
            if (!receive(owner(root), root, PIVOT, &pivot)) {
                break;
            }
            finish();
            pivots[root] = pivot.values[0];
        }
    }
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
            if (owner(v ^ half) != rank) {
                send_to(owner(v ^ half), v ^ half, HALF, goes[v].values, goes[v].length);
            }
        }
    }
    for (int v = 0; v < slots && !gives_up; v++) {
        if (mine[v] && owner(v ^ half) != rank) {
            receive(owner(v ^ half), v, HALF, &came[v]);
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
            qsort(whole.values, (size_t) whole.length, sizeof(long), ascending);
            write_slot(v, view.epoch, whole);
            kept[v].epoch = view.epoch;
            kept[v].list = whole;
        }
    }
    return !gives_up;
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

/* The same numbers in every run. */
static long number(unsigned long *state)
{
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return (long) (*state >> 20) % 1000003;
}

static list input(int slot, int count)
{
    unsigned long state = (unsigned long) slot + 1;
    list l = make(count);
    for (int i = 0; i < count; i++) {
        l.values[i] = number(&state);
    }
    return l;
}

/* Whether the files are sorted and have the numbers of the beginning: by how many, their sum, and the sum of their squares. */
static void verify(int count)
{
    unsigned long sums[2][3] = {{0}, {0}};
    long last = -1;
    int is_sorted = 1;
    for (int v = 0; v < slots; v++) {
        list lists[2] = {input(v, count), read_slot(v, view.base)};
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < lists[k].length; i++) {
                unsigned long value = (unsigned long) lists[k].values[i];
                sums[k][0]++, sums[k][1] += value, sums[k][2] += value * value;
            }
        }
        for (int i = 0; i < lists[1].length; i++) {
            is_sorted = is_sorted && lists[1].values[i] >= last;
            last = lists[1].values[i];
        }
        free(lists[0].values), free(lists[1].values);
    }
    int is_same = memcmp(sums[0], sums[1], sizeof sums[0]) == 0;
    printf("%lu numbers in %d lists: %s, %s\n", sums[1][0], slots, is_sorted ? "sorted" : "NOT SORTED",
           is_same ? "all there" : "NOT THOSE OF THE BEGINNING");
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
    if (argc < 4 || atoi(argv[3]) < 0 || 1 << dimension != slots || slots > MOST || (!is_group && strcmp(argv[1], "ulfm"))) {
        stop("usage: hyperquicksort group|ulfm FOLDER NUMBERS [PAUSE [RETURNS [INTERVAL]]], with 2^d processes, at most 256");
    }
    folder = argv[2];
    int count = atoi(argv[3]), pause = argc > 4 ? atoi(argv[4]) : 0;
    list own = input(rank, count);
    qsort(own.values, (size_t) count, sizeof(long), ascending);
    write_slot(rank, 0, own);
    kept[rank].list = own;
    view.epoch = 1;
    view.size = slots;
    view.place = rank;
    for (int v = 0; v < slots; v++) {
        view.is_member[v] = 1;
        view.in_comm[v] = v;
    }
    MPI_Barrier(comm);
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
    while (goes_on && view.round < dimension) {
        if (view.place == 0) {
            printf("round %d of %d: %d of %d processes, epoch %d\n", view.round + 1, dimension, view.size, slots, view.epoch);
            fflush(stdout);
            sweep();
        }
        double until = MPI_Wtime() + pause / 1e3;
        int is_done = sort_round(dimension - view.round);
        while (MPI_Wtime() < until && !is_lost()) {
            rest();
        }
        goes_on = is_group ? next_with_group(is_done && !gives_up) : next_with_ulfm(is_done);
    }
    if (goes_on && view.place == 0) {
        double took = MPI_Wtime() - began;
        sweep();
        verify(count);
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
