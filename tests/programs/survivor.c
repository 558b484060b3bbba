/* survivor: an MPI program that is struck by a fault, recovers the ULFM way
 * and keeps a diary.
 *
 * Every rank appends to DIR/rank.N lines "rank time event details", the time
 * in nanoseconds of CLOCK_BOOTTIME, which all virtual hosts share. The tests
 * judge by these diaries, and by two lines on standard output, one before and
 * one after MPI_Finalize.
 *
 *   --events DIR         where the diaries, and the files "go" and "end", are
 *   --op OP              what the ranks are blocked in when the fault comes:
 *                          recv, send    point to point with the first victim
 *                          any, anywait  MPI_Recv, MPI_Wait from any source
 *                          live          MPI_Recv from a rank that lives
 *                          ring          MPI_Sendrecv with both neighbours
 *                          allreduce, barrier, bcast, vector (see families.h)
 *                          mixed         all of these, by rank
 *   --victims R,R        the ranks that will die in OP
 *   --die HOW            how they die once the file "go" is there: kill, segv,
 *                        abort, exit0, exit3, quit0 (no handlers), stop,
 *                        leave (the main thread ends, then they stop),
 *                        leave3 (the main thread alone, with a status), mpiabort,
 *                        sleep (they only sleep, uninterruptibly), none,
 *                        heap (a crash in malloc, which holds its lock then),
 *                        dump (segv, and the kernel writes a core into DIR for
 *                        some seconds)
 *   --second R:WHERE     another rank kills itself: "error" before the revoke,
 *                        "revoked" after it, "shrink" inside MPIX_Comm_shrink,
 *                        "shrunk" after it, "agree" inside MPIX_Comm_agree,
 *                        "after" in the collectives that follow
 *   --init-fault R:WHERE:HOW      WHERE is before, during, halfway (when Open MPI
 *                        has made its first communicators, and sends nothing in
 *                        them yet) or after MPI_Init, or told: before it, once
 *                        the file "go" is there, or late: the rank only keeps
 *                        the others waiting in it
 *   --finalize-fault R:WHERE:HOW  WHERE is entry (in a callback of
 *                        MPI_Finalize), during (while it waits for the others),
 *                        after, or late: the rank keeps the others waiting.
 *                        HOW may be linger, too: it waits for the file "end"
 *   --mix F,F            after OP and between recoveries, rounds of these families
 *                        (see families.h) in turn, instead of four collectives
 *   --child DIR          alone: spawned by the family spawn (see families.h)
 *   --hold               go on with collectives until the file "end" is there
 *   --patient            who has an error waits for the file "revoke" before it revokes
 *   --busy               no pause between two rounds of OP
 *   --threads            start MPI with MPI_THREAD_MULTIPLE
 *   --lines N            print N lines more, right before MPI_Finalize
 *   --status N           what every rank returns after MPI_Finalize
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { ROUNDS = 20, LONG_MESSAGE = 1 << 20, MOST_VICTIMS = 64 };
/* Of memory that is dumped, for some seconds. */
static const size_t CORE_LENGTH = 128ul << 30;
/* How long the others keep away from a call in which a rank is to die alone. */
enum { LATE_US = 400 * 1000, INSIDE_US = 150 * 1000, VERY_LATE_US = 2500 * 1000 };

typedef struct {
    int rank;
    char where[16], how[16];
} Fault;

static char dir[512];
static const char *op = "allreduce", *die_how = "none";
static int victims[MOST_VICTIMS], victim_count;
static Fault second = {.rank = -1}, init_fault = {.rank = -1}, finalize_fault = {.rank = -1};
static bool hold, patient, busy, threads;
static const char *mix, *program;
static int lines, status;

static MPI_Comm comm;
static int rank, size;

static bool file_exists(const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* --- dying ---------------------------------------------------------------- */

/* A parent of vfork waits for its child where no signal reaches it. */
static void sleep_uninterruptibly(void) {
    static const struct timespec long_time = {.tv_sec = 1, .tv_nsec = 500 * 1000 * 1000};
    pid_t child = vfork();
    if (child == 0) {
        nanosleep(&long_time, NULL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    event("slept");
    die_how = "none";
}

/* The kernel looks at all pages of what has been touched at all, and leaves holes in the core for those that have not. */
static void make_core_long(void) {
    struct rlimit all = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    char *memory = mmap(NULL, CORE_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || setrlimit(RLIMIT_CORE, &all) || chdir(dir)) event("no-core %s", strerror(errno));
    else *memory = 1;
}

static struct sigaction opens_handler;

static void crash(int number, siginfo_t *info, void *context) {
    if (info->si_code != SI_USER) {
        opens_handler.sa_sigaction(number, info, context);
        return;
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* A crash that somebody sends kills at once. Open MPI's handler, which all others still meet, may wait for ever for a
 * lock that the crash has left taken. */
static void take_sent_crashes(void) {
    struct sigaction own = {.sa_sigaction = crash, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, NULL, &opens_handler);
    if (opens_handler.sa_flags & SA_SIGINFO) sigaction(SIGSEGV, &own, NULL);
}

static void *stop_later(void *unused) {
    usleep(INSIDE_US);
    raise(SIGSTOP);
    event("woke");
    return unused;
}

/* What a handler of a crash does that wants a lock which the crash has left taken. */
static void hang(int signal) {
    (void)signal;
    for (;;) pause();
}

/* Makes the list of free memory lead to an address where nothing is: malloc crashes as it goes through it. Of pieces side by
 * side, every other one, so that none is joined to what else is free. */
static void break_heap(void) {
    enum { PIECES = 64 };
    /* The compiler shall neither leave this out nor complain of it. */
    void **volatile pieces[PIECES], **volatile freed[PIECES];
    for (int i = 0; i < PIECES; i++) freed[i] = pieces[i] = malloc(4000);
    for (int i = 0; i < PIECES; i += 2) free(pieces[i]);
    for (int i = 0; i < PIECES; i += 2) freed[i][1] = (void *)16;
    pieces[0] = malloc(100000);
    event("heap-is-whole %p", (void *)pieces[0]);
}

static void die(const char *how) {
    if (!strcmp(how, "none")) return;
    event("dies %s", how);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    else if (!strcmp(how, "segv")) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    else if (!strcmp(how, "dump")) { make_core_long(); signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    else if (!strcmp(how, "heap")) break_heap();
    else if (!strcmp(how, "hang")) {
        struct sigaction once = {.sa_handler = hang, .sa_flags = (int)SA_RESETHAND};
        sigaction(SIGSEGV, &once, NULL);
        raise(SIGSEGV);
    }
    else if (!strcmp(how, "abort")) { signal(SIGABRT, SIG_DFL); abort(); }
    else if (!strcmp(how, "mpiabort")) MPI_Abort(MPI_COMM_WORLD, 42);
    else if (!strcmp(how, "exit0")) exit(0);
    else if (!strcmp(how, "exit3")) exit(3);
    else if (!strcmp(how, "quit0")) _exit(0);
    else if (!strcmp(how, "hangup")) { closefrom(0); for (;;) pause(); }
    else if (!strcmp(how, "linger")) { while (!file_exists("end")) usleep(1000); return; }
    else if (!strcmp(how, "leave3")) syscall(SYS_exit, 3);
    else if (!strcmp(how, "sleep")) { sleep_uninterruptibly(); return; }
    else if (!strcmp(how, "stop")) { raise(SIGSTOP); event("woke"); return; }
    else if (!strcmp(how, "leave")) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, stop_later, NULL)) pthread_exit(NULL);
    }
    fprintf(stderr, "survivor: cannot die by %s\n", how);
    _exit(99);
}

static void *die_soon(void *how) {
    usleep(INSIDE_US);
    die(how);
    return NULL;
}

/* This rank dies in a moment, in whatever call it is by then. */
static void die_inside(char *how) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, die_soon, how)) die(how);
}

static bool is_victim(void) {
    for (int i = 0; i < victim_count; i++)
        if (victims[i] == world_rank) return true;
    return false;
}

static void die_if_told(void) {
    if (is_victim() && strcmp(die_how, "none") && file_exists("go")) die(die_how);
}

/* A victim that is in no MPI call while it waits for its end. */
static void wait_for_death(void) {
    for (;;) {
        die_if_told();
        usleep(1000);
    }
}

/* The second victim's turn, if it is this rank and this place. */
static bool second_here(const char *where) { return second.rank == world_rank && !strcmp(second.where, where); }

static bool second_elsewhere(const char *where) {
    return second.rank >= 0 && second.rank != world_rank && !strcmp(second.where, where);
}

/* The second victim dies inside the call that follows, alone in it. */
static void second_inside(const char *where) {
    if (second_here(where)) die_inside(second.how);
    else if (second_elsewhere(where)) usleep(LATE_US);
}

/* --- the operations ------------------------------------------------------- */

/* MPI_Allreduce that must not lie. Sets *any if some rank says yes. */
static int allreduce(MPI_Comm on, bool yes, bool *any) {
    int members, mine[2] = {1, yes}, sum[2] = {-1, -1};
    MPI_Comm_size(on, &members);
    int code = MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, on);
    if (code != MPI_SUCCESS) return code;
    if (sum[0] != members || sum[1] < 0 || sum[1] > members) event("corrupt allreduce %d of %d", sum[0], members);
    if (any) *any = sum[1] > 0;
    return MPI_SUCCESS;
}

static int bcast(MPI_Comm on, int root) {
    int me, value = -1;
    MPI_Comm_rank(on, &me);
    if (me == root) value = root * 1000 + 7;
    int code = MPI_Bcast(&value, 1, MPI_INT, root, on);
    if (code == MPI_SUCCESS && value != root * 1000 + 7) event("corrupt bcast %d from %d", value, root);
    return code;
}

#include "families.h"

static int ring(MPI_Comm on) {
    int me, members, got = -1;
    MPI_Comm_rank(on, &me);
    MPI_Comm_size(on, &members);
    int left = (me + members - 1) % members;
    int code = MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % members, 5, &got, 1, MPI_INT, left, 5, on, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && got != left) event("corrupt ring %d from %d", got, left);
    return code;
}

/* A rank that lives and never sends with the tag of `live`. */
static int living_peer(void) {
    for (int step = 1; step < size; step++) {
        int peer = (rank + step) % size, dead = 0;
        for (int i = 0; i < victim_count; i++) dead |= victims[i] == peer;
        if (!dead) return peer;
    }
    return MPI_PROC_NULL;
}

/* For how many milliseconds of its life others have kept this rank from a processor, and for how many it has run. */
static void note_kept(void) {
    long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file && fscanf(file, "%lld %lld", &ran, &waited) != 2) ran = waited = 0;
    if (file) fclose(file);
    event("kept %lld %lld", waited / 1000000, ran / 1000000);
}

/* Stays in the operation until it fails, or until "end" where all can agree. */
static int operate(const char *name) {
    static char buffer[LONG_MESSAGE];
    int code = MPI_SUCCESS, value = 0;
    int target = victim_count ? victims[0] : 0;
    if (!strcmp(name, "mixed")) {
        static const char *by_rank[] = {"any", "recv", "allreduce", "send", "live", "anywait", "recv", "any"};
        name = by_rank[world_rank % 8];
    }
    event("blocked %s", name);
    note_kept();
    bool waits = !strcmp(name, "recv") || !strcmp(name, "send") || !strcmp(name, "any") || !strcmp(name, "anywait") ||
                 !strcmp(name, "live") || !strcmp(name, "ask") || !strcmp(op, "mixed");
    if (waits && is_victim()) wait_for_death();
    if (!strcmp(name, "recv")) return MPI_Recv(&value, 1, MPI_INT, target, 1, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "send")) return MPI_Send(buffer, LONG_MESSAGE, MPI_BYTE, target, 2, comm);
    if (!strcmp(name, "live")) return MPI_Recv(&value, 1, MPI_INT, living_peer(), 3, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "any")) return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, comm, MPI_STATUS_IGNORE);
    if (!strcmp(name, "ask")) {
        /* Nothing but that. */
        for (int dead = 0; !dead; usleep(1000)) {
            MPI_Group failed;
            MPIX_Comm_get_failed(comm, &failed);
            MPI_Group_size(failed, &dead);
            if (dead) return MPIX_ERR_PROC_FAILED;
        }
    }
    if (!strcmp(name, "anywait")) {
        MPI_Request request;
        code = MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, comm, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS && class_of(code) == MPIX_ERR_PROC_FAILED_PENDING) {
            /* It is still under way, and the revoke is what ends it. */
            MPIX_Comm_revoke(comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        return code;
    }
    bool end = false;
    for (int round = 0; code == MPI_SUCCESS && !end; round++) {
        die_if_told();
        if (!strcmp(name, "allreduce")) code = allreduce(comm, rank == 0 && file_exists("end"), &end);
        else if (!strcmp(name, "barrier")) code = MPI_Barrier(comm);
        else if (!strcmp(name, "bcast")) code = bcast(comm, round % size);
        else if (!strcmp(name, "ring")) code = ring(comm);
        else if (!strcmp(name, "vector")) code = mixed_round(name, comm, round);
        else { fprintf(stderr, "survivor: no operation %s\n", name); MPI_Abort(MPI_COMM_WORLD, 98); }
        if (!busy) usleep(500);
        /* Point to point nobody learns that it is time to end. */
        else if (!strcmp(name, "ring") && round % 256 == 255 && code == MPI_SUCCESS)
            code = allreduce(comm, rank == 0 && file_exists("end"), &end);
    }
    return code;
}

/* --- recovery ------------------------------------------------------------- */

static void report(int code, const char *where) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    event("error %d %s %s", class_of(code), where, text);
    note_kept();
}

/* The members of a communicator: a bit for each rank of MPI_COMM_WORLD. */
static unsigned long long members_of(MPI_Comm on) {
    unsigned long long bits = 0;
    int count, in_world;
    MPI_Group world, own;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(on, &own);
    MPI_Group_size(own, &count);
    for (int i = 0; i < count; i++) {
        MPI_Group_translate_ranks(own, 1, &i, world, &in_world);
        if (in_world >= 0 && in_world < 64) bits |= 1ULL << in_world;
    }
    MPI_Group_free(&own);
    MPI_Group_free(&world);
    return bits;
}

/* Revokes and shrinks until all survivors agree that the new communicator works. */
static void recover(void) {
    for (int attempt = 0; attempt < 50; attempt++) {
        if (second_here("error")) die("kill");
        MPIX_Comm_revoke(comm);
        event("revoked");
        if (second_here("revoked")) die("kill");
        second_inside("shrink");
        MPI_Comm next;
        int code = MPIX_Comm_shrink(comm, &next);
        if (code != MPI_SUCCESS) {
            report(code, "shrink");
            continue;
        }
        if (second_here("shrunk")) die("kill");
        MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
        comm = next;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        event("shrunk %d %d", size, rank);
        int works = allreduce(comm, false, NULL) == MPI_SUCCESS;
        /* Whoever gives it up gets the others out of it. */
        if (!works) MPIX_Comm_revoke(comm);
        second_inside("agree");
        code = MPIX_Comm_agree(comm, &works);
        if (code == MPI_SUCCESS && works) {
            event("agreed %d %llx", size, members_of(comm));
            return;
        }
        if (code != MPI_SUCCESS) report(code, "agree");
    }
    event("hopeless");
    MPI_Abort(MPI_COMM_WORLD, 97);
}

/* Collectives on the communicator that is left; true if all of its members managed. */
static bool carry_on(void) {
    int code = MPI_SUCCESS;
    bool end = false;
    if (second_here("after")) die("kill");
    for (int round = 0; code == MPI_SUCCESS && (hold ? !end : round < ROUNDS); round++) {
        code = allreduce(comm, rank == 0 && file_exists("end"), &end);
        if (mix) {
            if (code == MPI_SUCCESS) code = mixed_round(mix, comm, round);
        } else {
            if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
            if (code == MPI_SUCCESS) code = bcast(comm, round % size);
            if (code == MPI_SUCCESS) code = ring(comm);
        }
        if (code == MPI_SUCCESS && round == 0) event("carries-on %d", size);
        if (hold) usleep(mix ? 5000 : 1000);
    }
    if (code != MPI_SUCCESS) {
        report(code, "carry-on");
        MPIX_Comm_revoke(comm);
    }
    int works = code == MPI_SUCCESS;
    code = MPIX_Comm_agree(comm, &works);
    return code == MPI_SUCCESS && works;
}

/* --- start and end -------------------------------------------------------- */

static void read_fault(Fault *fault, const char *text) {
    strcpy(fault->how, "kill");
    if (sscanf(text, "%d:%15[^:]:%15s", &fault->rank, fault->where, fault->how) < 2) {
        fprintf(stderr, "survivor: %s is no fault\n", text);
        exit(2);
    }
}

static void read_victims(char *text) {
    for (char *one = strtok(text, ","); one && victim_count < MOST_VICTIMS; one = strtok(NULL, ","))
        victims[victim_count++] = atoi(one);
}

static void read_arguments(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        if (!strcmp(name, "--hold")) { hold = true; continue; }
        if (!strcmp(name, "--patient")) { patient = true; continue; }
        if (!strcmp(name, "--busy")) { busy = true; continue; }
        if (!strcmp(name, "--threads")) { threads = true; continue; }
        char *value = ++i < count ? arguments[i] : "";
        if (!strcmp(name, "--events")) snprintf(dir, sizeof dir, "%s", value);
        else if (!strcmp(name, "--op")) op = value;
        else if (!strcmp(name, "--mix")) mix = value;
        else if (!strcmp(name, "--victims")) read_victims(value);
        else if (!strcmp(name, "--die")) die_how = value;
        else if (!strcmp(name, "--second")) read_fault(&second, value);
        else if (!strcmp(name, "--init-fault")) read_fault(&init_fault, value);
        else if (!strcmp(name, "--finalize-fault")) read_fault(&finalize_fault, value);
        else if (!strcmp(name, "--lines")) lines = atoi(value);
        else if (!strcmp(name, "--status")) status = atoi(value);
        else { fprintf(stderr, "survivor: unknown option %s\n", name); exit(2); }
    }
}

static void start(void) {
    const char *number = getenv("PMIX_RANK");
    world_rank = number ? atoi(number) : 0;
    open_diary(dir);
}

/* In place of PMIx's own function. The third time that MPI_Init calls it there is a world, in which nothing can be sent
 * yet. Without its neighbour, which comes later, all others would wait for the victim alone, and no more once it is
 * dead. */
enum { HALFWAY = 3 };
int PMIx_Fence_nb(const void *members, size_t count, const void *info, size_t infos, void *done, void *data);

int PMIx_Fence_nb(const void *members, size_t count, const void *info, size_t infos, void *done, void *data) {
    static int calls;
    typedef int Fence(const void *, size_t, const void *, size_t, void *, void *);
    Fence *own = (Fence *)dlsym(RTLD_NEXT, "PMIx_Fence_nb");
    if (!strcmp(init_fault.where, "halfway") && ++calls == HALFWAY) {
        if (init_fault.rank == world_rank) {
            usleep(LATE_US);
            die(init_fault.how);
        }
        if (init_fault.rank == world_rank + 1) usleep(2 * LATE_US);
    }
    return own(members, count, info, infos, done, data);
}

static void initialise(int *count, char ***arguments) {
    bool mine = init_fault.rank == world_rank;
    if (mine && !strcmp(init_fault.where, "before")) die(init_fault.how);
    if (mine && !strcmp(init_fault.where, "told")) {
        while (!file_exists("go")) usleep(1000);
        die(init_fault.how);
    }
    if (!strcmp(init_fault.where, "during")) {
        /* MPI_Init waits for every rank: who enters it first stays in it. */
        if (mine) die_inside(init_fault.how);
        else usleep(LATE_US);
    }
    if (mine && !strcmp(init_fault.where, "late")) usleep(VERY_LATE_US);
    event("enters-init");
    int provided;
    MPI_Init_thread(count, arguments, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    event("initialised");
    if (mix) take_sent_crashes();
    if (mine && !strcmp(init_fault.where, "after")) die(init_fault.how);
}

/* Runs inside MPI_Finalize, before it does anything else. */
static int at_finalize(MPI_Comm self, int key, void *value, void *extra) {
    (void)self, (void)key, (void)value, (void)extra;
    die(finalize_fault.how);
    return MPI_SUCCESS;
}

static void finalise(void) {
    bool mine = finalize_fault.rank == world_rank;
    if (mine && !strcmp(finalize_fault.where, "entry")) {
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
    if (!strcmp(finalize_fault.where, "during")) {
        if (mine) die_inside(finalize_fault.how);
        else usleep(LATE_US);
    }
    if (mine && !strcmp(finalize_fault.where, "late")) usleep(VERY_LATE_US);
    event("enters-finalize");
    int code = MPI_Finalize();
    if (mine && !strcmp(finalize_fault.where, "after")) die(finalize_fault.how);
    event("finalized %d", code);
}

/* Else some would have a communicator, where one died as it was made, and wait for those who have not. */
static void make_uniform(void) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_uniform", "create");
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2 && !strcmp(arguments[1], "--child")) return child(arguments[2]);
    read_arguments(count, arguments);
    start();
    initialise(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm), works = code == MPI_SUCCESS;
    /* All go on with the same communicator, also where one has died in this: it may have been made at some only. */
    if (mix) MPIX_Comm_agree(MPI_COMM_WORLD, &works);
    if (!works) comm = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (mix && strstr(mix, "neighbour")) make_uniform();

    if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
    if (code == MPI_SUCCESS) {
        event("ready");
        if (strcmp(op, "none")) code = operate(op);
    }
    if (code != MPI_SUCCESS) {
        report(code, "op");
        while (patient && !file_exists("revoke")) usleep(1000);
        /* Its turn to die has come as well, others were only faster. */
        if (is_victim() && strcmp(die_how, "none")) wait_for_death();
        recover();
    }
    while (!carry_on()) recover();
    event("done %d", size);
    for (int i = 0; i < lines; i++) printf("line %d of survivor %d\n", i, world_rank);
    printf("survivor %d is done, %d are left\n", world_rank, size);
    fflush(stdout);
    finalise();
    printf("survivor %d has finalized\n", world_rank);
    fflush(stdout);
    return status;
}
