/* ispawns: processes are spawned and connected with MPIX_Comm_ispawn, MPIX_Comm_iaccept and MPIX_Comm_iconnect, while those
 * who wait for that exchange messages of their own.
 *
 *   ispawns --events DIR --case CASE --how HOW --victim NUMBER
 *
 *   CASE    one: four processes are spawned. two: twice two, at once and on the same communicator. bad: no such program.
 *           handler: the same where errors are fatal for everybody but the caller's communicator, and again where that has
 *           been freed before the request is waited for.
 *           late: rank 1 calls later than all others, who make a communicator meanwhile. free: the request is freed at once.
 *           leave: nobody waits for the request of an iaccept. connect: the ranks 0 and 1 accept, and then wait for a message
 *           that 2 and 3 send when they have begun to connect. dead: the victim dies while those who accept wait for a
 *           connection. revoke: they give up.
 *           absent: the victim has died when the others call. later: it dies when the others have called and it has not.
 *   HOW     how the requests are completed: wait, waitall, waitany, waitsome, test, testall, testany, testsome; work: tested
 *           while messages are exchanged; threads: waited for, in a program with MPI_THREAD_MULTIPLE
 *   NUMBER  a rank of the first job, which the harness kills after "ready", or of the spawned one
 *
 * Each writes a diary under its number, the spawned ones behind the four of the first job: "completed CLASS", "rounds N" of
 * messages that came through meanwhile, "joined SIZE SUM" of the merged communicator, "result CLASS" of waiting for the
 * victim over the intercommunicator, "heard N M" of calls of the error handler with the right communicator and with another,
 * "finalized CLASS".
 */
#include <mpi.h>
#include <ringwatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { TAG = 7, SIZE = 4, MOST = 2 };

static const char *scenario = "one", *how = "wait";
static int victim = -1;

static bool is(const char *name) { return !strcmp(scenario, name); }

/* Messages around the ring of a communicator, and the longest time that one call of MPI_Testall took. */
static int work(MPI_Comm calm, int count, MPI_Request *requests) {
    int rank, size, code = MPI_SUCCESS, rounds = 0, all = false, done = false;
    long long longest = 0;
    MPI_Request ring[2], total;
    MPI_Comm_rank(calm, &rank);
    MPI_Comm_size(calm, &size);
    while (!all) {
        int out = rounds, in = -1, there = false;
        long long before = now_ns();
        if (!done) code = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (now_ns() - before > longest) longest = now_ns() - before;
        MPI_Irecv(&in, 1, MPI_INT, (rank + size - 1) % size, TAG, calm, &ring[0]);
        MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, TAG, calm, &ring[1]);
        MPI_Waitall(2, ring, MPI_STATUSES_IGNORE);
        if (in != rounds) event("wrong %d %d", in, rounds);
        MPI_Iallreduce(&done, &all, 1, MPI_INT, MPI_MIN, calm, &total);
        while (!there) MPI_Test(&total, &there, MPI_STATUS_IGNORE);
        rounds++;
    }
    event("rounds %d %lld", rounds, longest);
    return code;
}

/* Completes all requests; returns an error class. */
static int complete(MPI_Comm calm, int count, MPI_Request *requests) {
    int code = MPI_SUCCESS, flag = false, index, some, indices[MOST];
    MPI_Status statuses[MOST];
    if (!strcmp(how, "work")) code = work(calm, count, requests);
    else if (!strcmp(how, "waitall")) code = MPI_Waitall(count, requests, statuses);
    else if (!strcmp(how, "waitany"))
        for (int i = 0; i < count && code == MPI_SUCCESS; i++)
            code = MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
    else if (!strcmp(how, "waitsome"))
        for (int done = 0; done < count && code == MPI_SUCCESS; done += some)
            code = MPI_Waitsome(count, requests, &some, indices, statuses);
    else if (!strcmp(how, "testany"))
        for (int i = 0; i < count && code == MPI_SUCCESS; i += flag)
            code = MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE);
    else if (!strcmp(how, "testall"))
        while (!flag) code = MPI_Testall(count, requests, &flag, statuses);
    else if (!strcmp(how, "testsome"))
        for (int done = 0; done < count && code == MPI_SUCCESS; done += some)
            code = MPI_Testsome(count, requests, &some, indices, statuses);
    else
        for (int i = 0; i < count && code == MPI_SUCCESS; i++)
            if (!strcmp(how, "test"))
                for (flag = false; !flag;) code = MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            else code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    return class_of(code);
}

/* The communicator of both sides, and the sum of the numbers of all. */
static MPI_Comm join(MPI_Comm inter, bool high) {
    MPI_Comm all;
    int size = 0, sum = -1;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, all);
    event("joined %d %d", size, sum);
    return all;
}

/* Waits until the victim, a rank of the world or of the other side, is dead. */
static int wait_for(int rank, MPI_Comm comm) {
    int value;
    return class_of(MPI_Recv(&value, 1, MPI_INT, rank, TAG, comm, MPI_STATUS_IGNORE));
}

/* The first two ranks accept, and the others connect, unless the first are alone. */
static void connect(MPI_Comm world, bool alone) {
    MPI_Comm half, inter, all;
    MPI_Request request;
    char port[MPI_MAX_PORT_NAME] = "";
    int token = 0;
    bool accepts = world_rank < 2;
    MPI_Comm_split(world, !accepts, world_rank, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    if (world_rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_BYTE, 0, world);
    if (alone && !accepts) return;
    if (accepts) {
        MPIX_Comm_iaccept(port, MPI_INFO_NULL, 0, half, &inter, &request);
        if (!alone) MPI_Recv(&token, 1, MPI_INT, world_rank + 2, TAG, world, MPI_STATUS_IGNORE);
    } else {
        MPIX_Comm_iconnect(port, MPI_INFO_NULL, 1, half, &inter, &request);
        MPI_Send(&token, 1, MPI_INT, world_rank - 2, TAG, world);
    }
    event("ready");
    if (is("leave")) return;
    if (is("revoke") && world_rank == 1) MPIX_Comm_revoke(half);
    event("completed %d", complete(half, 1, &request));
    if (!alone) {
        all = join(inter, !accepts);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&inter);
    }
}

/* Spawns, and waits with those who were spawned for the death of one of all. */
static void spawn(char *program, char **arguments, MPI_Comm world, MPI_Comm calm) {
    MPI_Comm inter[MOST], all = MPI_COMM_NULL, other;
    MPI_Request requests[MOST];
    int count = is("two") ? MOST : 1, codes[SIZE] = {-1, -1, -1, -1};
    if (is("absent")) wait_for(victim, calm);
    if (is("late")) {
        if (world_rank == 1) MPI_Comm_dup(calm, &other);
    }
    if (is("later") && world_rank == victim) {
        event("ready");
        for (;;) pause();
    }
    for (int i = 0; i < count; i++)
        MPIX_Comm_ispawn(is("bad") ? "/nowhere" : program, arguments, SIZE / count, MPI_INFO_NULL, 1, world, &inter[i], codes,
                         &requests[i]);
    if (is("later")) event("ready");
    if (is("late")) {
        if (world_rank != 1) MPI_Comm_dup(calm, &other);
        event("dup");
    }
    if (is("free"))
        for (int flag; inter[0] == MPI_COMM_NULL;) {
            if (requests[0] != MPI_REQUEST_NULL) MPI_Request_free(&requests[0]);
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, calm, &flag, MPI_STATUS_IGNORE);
        }
    else
        event("completed %d", complete(calm, count, requests));
    event("codes %d %d", codes[0], codes[SIZE / count - 1]);
    for (int i = 0; i < count; i++) {
        if (inter[i] == MPI_COMM_NULL) return;
        all = join(inter[i], false);
    }
    if (victim >= 0) {
        event("ready");
        if (world_rank == victim)
            for (;;) pause();
        event("result %d", victim < SIZE ? wait_for(victim, world) : wait_for(victim - SIZE, inter[0]));
        MPI_Comm_free(&all);
        MPI_Comm_free(&inter[0]);
    } else
        for (int i = 0; i < count; i++) MPI_Comm_disconnect(&inter[i]);
}

/* How often the error handler was called with this communicator, and how often with another. */
static MPI_Comm expected;
static int heard, elsewhere;

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)code;
    if (*comm == expected) heard++;
    else elsewhere++;
}

/* Nothing is spawned, and whoever called hears of it. */
static void spawn_nothing(MPI_Comm world) {
    MPI_Comm inter, other;
    MPI_Request request;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    for (int freed = 0; freed < 2; freed++) {
        int there = false;
        MPI_Comm_dup(world, &other);
        MPI_Comm_set_errhandler(other, handler);
        expected = other;
        MPIX_Comm_ispawn("/nowhere", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 1, other, &inter, MPI_ERRCODES_IGNORE, &request);
        while (!there) MPI_Request_get_status(request, &there, MPI_STATUS_IGNORE);
        if (freed) MPI_Comm_free(&other);
        event("completed %d", complete(world, 1, &request));
        event("heard %d %d", heard, elsewhere);
        if (!freed) MPI_Comm_free(&other);
    }
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
}

int main(int count, char **arguments) {
    const char *dir = "";
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i], "--case")) scenario = arguments[i + 1];
        else if (!strcmp(arguments[i], "--how")) how = arguments[i + 1];
        else if (!strcmp(arguments[i], "--victim")) victim = atoi(arguments[i + 1]);
    }
    int provided, size;
    bool threads = !strcmp(how, "threads");
    MPI_Init_thread(NULL, NULL, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm parents, calm, world = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &world_rank);
    MPI_Comm_size(world, &size);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) {
        world_rank += SIZE;
        open_diary(dir);
        MPI_Comm all = join(parents, true);
        if (victim >= 0) {
            event("ready");
            if (world_rank == victim)
                for (;;) pause();
            event("result %d", victim < SIZE ? wait_for(victim, parents) : wait_for(victim - SIZE, world));
            MPI_Comm_free(&all);
            MPI_Comm_free(&parents);
        } else
            MPI_Comm_disconnect(&parents);
    } else {
        open_diary(dir);
        MPI_Comm_dup(world, &calm);
        MPI_Comm_set_errhandler(calm, MPI_ERRORS_RETURN);
        if (is("absent")) {
            event("ready");
            if (world_rank == victim)
                for (;;) pause();
        }
        bool connects = is("connect") || is("dead") || is("revoke") || is("leave");
        if (is("handler")) spawn_nothing(world);
        else if (connects) connect(world, !is("connect"));
        else spawn(arguments[0], arguments + 1, world, calm);
    }
    event("finalized %d", class_of(MPI_Finalize()));
    return 0;
}
