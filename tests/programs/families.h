/* One round of each family of MPI's operations on a communicator. Every round
 * returns MPI's code, and what it computed must not be a lie. What a failed
 * round leaves under way keeps its memory. */

typedef struct {
    MPI_Comm comm;
    int me, members, round;
    /* How often each family of the list has had its turn. */
    int turn;
} Round;

#define TRY(call) do { int try_code = (call); if (try_code != MPI_SUCCESS) return try_code; } while (0)

/* Results of an earlier round must not be taken for those of this one. */
static int *numbers(int count) {
    int *all = malloc((size_t)count * sizeof *all);
    if (!all) { perror("survivor"); _exit(99); }
    memset(all, 0xff, (size_t)count * sizeof *all);
    return all;
}

static void expect(const char *family, long long got, long long wanted) {
    if (got != wanted) event("corrupt %s %lld instead of %lld", family, got, wanted);
}

static long long sum_of(const int *all, int count) {
    long long sum = 0;
    for (int i = 0; i < count; i++) sum += all[i];
    return sum;
}

static long long ranks_sum(const Round *at) { return (long long)at->members * (at->members - 1) / 2; }

/* MPI_Waitall keeps to itself what went wrong: the statuses have it. */
static int wait_both(MPI_Request both[2]) {
    MPI_Status statuses[2];
    int code = MPI_Waitall(2, both, statuses);
    if (code != MPI_ERR_IN_STATUS) return code;
    for (int i = 0; i < 2; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING) return statuses[i].MPI_ERROR;
    return code;
}

/* Everybody to somebody, short messages and long ones in turn. */
static int round_p2p(const Round *at) {
    int count = at->round % 2 ? 40000 : 10, shift = 1 + at->round % at->members;
    int to = (at->me + shift) % at->members, from = (at->me + at->members - shift % at->members) % at->members;
    int *out = numbers(count), *in = numbers(count);
    for (int i = 0; i < count; i++) out[i] = at->me + i;
    MPI_Request both[2];
    TRY(MPI_Irecv(in, count, MPI_INT, from, 21, at->comm, &both[0]));
    TRY(MPI_Isend(out, count, MPI_INT, to, 21, at->comm, &both[1]));
    TRY(wait_both(both));
    expect("p2p", in[count - 1], from + count - 1);
    free(out), free(in);
    return MPI_SUCCESS;
}

/* One hears from all the others, in whatever order. */
static int round_any(const Round *at) {
    int root = at->round % at->members, value = at->me;
    if (at->me != root) return MPI_Ssend(&value, 1, MPI_INT, root, 22, at->comm);
    long long sum = root;
    for (int i = 1; i < at->members; i++) {
        TRY(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 22, at->comm, MPI_STATUS_IGNORE));
        sum += value;
    }
    expect("any", sum, ranks_sum(at));
    return MPI_SUCCESS;
}

static int round_rooted(const Round *at) {
    int root = at->round % at->members, value = at->me == root ? 7 : -1, sum = -1, mine = -1;
    int *all = numbers(at->members);
    TRY(MPI_Bcast(&value, 1, MPI_INT, root, at->comm));
    expect("bcast", value, 7);
    TRY(MPI_Reduce(&at->me, &sum, 1, MPI_INT, MPI_SUM, root, at->comm));
    if (at->me == root) expect("reduce", sum, ranks_sum(at));
    TRY(MPI_Gather(&at->me, 1, MPI_INT, all, 1, MPI_INT, root, at->comm));
    if (at->me == root) expect("gather", sum_of(all, at->members), ranks_sum(at));
    TRY(MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, root, at->comm));
    expect("scatter", mine, at->me);
    free(all);
    return MPI_SUCCESS;
}

static int round_all(const Round *at) {
    int n = at->members, one = 1, sum = -1, *out = numbers(n), *in = numbers(n);
    for (int i = 0; i < n; i++) out[i] = at->me;
    TRY(MPI_Allreduce(&at->me, &sum, 1, MPI_INT, MPI_SUM, at->comm));
    expect("allreduce", sum, ranks_sum(at));
    TRY(MPI_Allgather(&at->me, 1, MPI_INT, in, 1, MPI_INT, at->comm));
    expect("allgather", sum_of(in, n), ranks_sum(at));
    TRY(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, at->comm));
    expect("alltoall", sum_of(in, n), ranks_sum(at));
    TRY(MPI_Reduce_scatter_block(out, &sum, 1, MPI_INT, MPI_SUM, at->comm));
    expect("reduce_scatter", sum, ranks_sum(at));
    TRY(MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, at->comm));
    expect("scan", sum, at->me + 1);
    free(out), free(in);
    return MPI_SUCCESS;
}

/* Rank r has r + 1 numbers. */
static int round_vector(const Round *at) {
    int n = at->members, total = n * (n + 1) / 2, *counts = numbers(n), *starts = numbers(n);
    int *ones = numbers(n), *places = numbers(n), *mine = numbers(n), *all = numbers(total);
    for (int i = 0; i < n; i++) {
        counts[i] = i + 1, starts[i] = i * (i + 1) / 2, ones[i] = 1, places[i] = i, mine[i] = at->me;
    }
    TRY(MPI_Allgatherv(mine, at->me + 1, MPI_INT, all, counts, starts, MPI_INT, at->comm));
    expect("allgatherv", all[total - 1], n - 1);
    TRY(MPI_Alltoallv(mine, ones, places, MPI_INT, all, ones, places, MPI_INT, at->comm));
    expect("alltoallv", sum_of(all, n), ranks_sum(at));
    free(counts), free(starts), free(ones), free(places), free(mine), free(all);
    return MPI_SUCCESS;
}

static int round_nonblocking(const Round *at) {
    int *sum = numbers(1), *value = numbers(1);
    *value = at->me;
    int *all = numbers(at->members), *some = numbers(at->members);
    MPI_Request both[2];
    TRY(MPI_Iallreduce(value, sum, 1, MPI_INT, MPI_SUM, at->comm, &both[0]));
    TRY(MPI_Ibarrier(at->comm, &both[1]));
    TRY(wait_both(both));
    expect("iallreduce", *sum, ranks_sum(at));
    TRY(MPI_Iallgather(value, 1, MPI_INT, all, 1, MPI_INT, at->comm, &both[0]));
    TRY(MPI_Igather(value, 1, MPI_INT, some, 1, MPI_INT, at->round % at->members, at->comm, &both[1]));
    TRY(wait_both(both));
    expect("iallgather", sum_of(all, at->members), ranks_sum(at));
    if (at->me == at->round % at->members) expect("igather", sum_of(some, at->members), ranks_sum(at));
    free(sum), free(value), free(all), free(some);
    return MPI_SUCCESS;
}

static int round_persistent(const Round *at) {
    int *sum = numbers(1), *value = numbers(2), root = at->round % at->members;
    value[0] = at->me, value[1] = at->me == root ? 7 : -1;
    MPI_Request both[2];
    TRY(MPI_Allreduce_init(value, sum, 1, MPI_INT, MPI_SUM, at->comm, MPI_INFO_NULL, &both[0]));
    TRY(MPI_Bcast_init(value + 1, 1, MPI_INT, root, at->comm, MPI_INFO_NULL, &both[1]));
    for (int time = 0; time < 2; time++) {
        TRY(MPI_Startall(2, both));
        TRY(wait_both(both));
        expect("allreduce_init", *sum, ranks_sum(at));
        expect("bcast_init", value[1], 7);
    }
    for (int i = 0; i < 2; i++) TRY(MPI_Request_free(&both[i]));
    free(sum), free(value);
    return MPI_SUCCESS;
}

static int round_neighbour(const Round *at) {
    int wraps = 1, *in = numbers(2);
    MPI_Comm circle;
    TRY(MPI_Cart_create(at->comm, 1, &at->members, &wraps, 0, &circle));
    MPI_Comm_set_errhandler(circle, MPI_ERRORS_RETURN);
    int code = MPI_Neighbor_allgather(&at->me, 1, MPI_INT, in, 1, MPI_INT, circle);
    if (code != MPI_SUCCESS) {
        /* Neighbours of those who know of the failure would wait for them. */
        MPIX_Comm_revoke(circle);
        return code;
    }
    expect("neighbour", in[0], (at->me + at->members - 1) % at->members);
    free(in);
    return MPI_Comm_free(&circle);
}

/* No MPI at all for a while, every fourth time longer than any limit of the job, and then a result. */
static int round_compute(const Round *at) {
    static int times;
    long long end = now_ns() + (++times % 4 ? 150 : 1200) * 1000LL * 1000;
    volatile unsigned work = 0;
    while (now_ns() < end) work += 1;
    return allreduce(at->comm, false, NULL);
}

static int round_window(const Round *at) {
    int *memory = numbers(1);
    MPI_Win window;
    /* Open MPI has one word for all that is wrong here. */
    if (MPI_Win_create(memory, sizeof *memory, sizeof *memory, MPI_INFO_NULL, at->comm, &window) != MPI_SUCCESS)
        return MPIX_ERR_PROC_FAILED;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    TRY(MPI_Win_fence(0, window));
    TRY(MPI_Put(&at->me, 1, MPI_INT, (at->me + 1) % at->members, 0, 1, MPI_INT, window));
    TRY(MPI_Win_fence(0, window));
    expect("window", *memory, (at->me + at->members - 1) % at->members);
    TRY(MPI_Win_free(&window));
    free(memory);
    return MPI_SUCCESS;
}

static int round_file(const Round *at) {
    int next = (at->me + 1) % at->members, got = -1;
    char path[600];
    snprintf(path, sizeof path, "%s/data.%d", dir, at->members);
    MPI_File file;
    TRY(MPI_File_open(at->comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    TRY(MPI_File_write_at_all(file, at->me * (MPI_Offset)sizeof(int), &at->me, 1, MPI_INT, MPI_STATUS_IGNORE));
    TRY(MPI_File_sync(file));
    TRY(MPI_Barrier(at->comm));
    TRY(MPI_File_read_at_all(file, next * (MPI_Offset)sizeof(int), &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect("file", got, next);
    TRY(MPI_File_close(&file));
    return MPI_SUCCESS;
}

/* What everybody does with the intercommunicator of those who spawn and the one who is spawned. Whoever waits in it for
 * one who lives is interrupted by any member's death, and interrupts the others. */
static void watch_both_sides(MPI_Comm inter) {
    MPI_Info info;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", "group");
    MPI_Comm_set_info(inter, info);
    MPI_Info_free(&info);
}

/* Another process, which has a message sent back. An mpirun has room for some dozens, and it takes long: in one turn of
 * eight, and not for ever. */
static int round_spawn(const Round *at) {
    char *arguments[] = {"--child", dir, NULL};
    int sent = at->round, got = -1;
    MPI_Comm child;
    if (at->turn % 8 != 1 || at->turn >= 32) return MPI_SUCCESS;
    event("enters spawn");
    TRY(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, at->comm, &child, MPI_ERRCODES_IGNORE));
    watch_both_sides(child);
    if (at->me == 0) {
        TRY(MPI_Send(&sent, 1, MPI_INT, 0, 24, child));
        TRY(MPI_Recv(&got, 1, MPI_INT, 0, 24, child, MPI_STATUS_IGNORE));
        expect("spawn", got, sent + 1);
    }
    event("leaves spawn");
    return MPI_Comm_free(&child);
}

/* What the other process does, which has a diary of its own. Whoever spawned it may be dead. */
static int child(const char *folder) {
    const char *job = getenv("PMIX_NAMESPACE");
    char path[1100];
    int value;
    MPI_Comm parents;
    world_rank = 0;
    snprintf(path, sizeof path, "%s/spawned.%s", folder, job ? job : "");
    open_diary_at(path);
    MPI_Init(NULL, NULL);
    event("initialised");
    MPI_Comm_get_parent(&parents);
    watch_both_sides(parents);
    if (MPI_Recv(&value, 1, MPI_INT, 0, 24, parents, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        value++;
        MPI_Send(&value, 1, MPI_INT, 0, 24, parents);
    }
    event("finalized %d", MPI_Finalize());
    return 0;
}

static const struct {
    const char *name;
    int (*round)(const Round *);
} families[] = {
    {"p2p", round_p2p}, {"any", round_any}, {"rooted", round_rooted}, {"all", round_all}, {"vector", round_vector},
    {"nonblocking", round_nonblocking}, {"persistent", round_persistent}, {"neighbour", round_neighbour},
    {"compute", round_compute}, {"window", round_window}, {"file", round_file}, {"spawn", round_spawn},
};

/* The family whose turn it is in a list with commas. */
static int mixed_round(const char *list, MPI_Comm on, int round) {
    Round at = {.comm = on, .round = round};
    MPI_Comm_rank(on, &at.me);
    MPI_Comm_size(on, &at.members);
    int count = 1;
    for (const char *c = list; *c; c++) count += *c == ',';
    at.turn = round / count;
    for (int skip = round % count; skip > 0; skip--) list = strchr(list, ',') + 1;
    size_t length = strcspn(list, ",");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strlen(families[i].name) == length && !strncmp(families[i].name, list, length)) return families[i].round(&at);
    fprintf(stderr, "survivor: no family %.*s\n", (int)length, list);
    MPI_Abort(MPI_COMM_WORLD, 98);
    return MPI_SUCCESS;
}
