/* pending: receives from any source that are pending because somebody has died, and whose messages come outside a wait.
 *
 *   pending --events DIR
 *
 * In each round the last living rank dies while rank 0 is blocked in a function that waits, for a receive from anybody. With
 * every function that completes requests rank 0 is told that others are pending, too. Rank 2 sends what they wait for, while rank
 * 0 is outside MPI. Rank 0 acknowledges the death in one of several ways, may look for another message, and calls each function
 * once more: it has the message. What rank 0 waits for beside that is not ended. Each communicator serves one way. Events are lines
 * "rank nanoseconds event details": "wrong ..." for what is not so, and "right NUMBER" in the end.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "world.h"

enum { ROUNDS = 4, SENDER = 2, LATE = 3, NONE = 30000, MOST_TRIES = 1000, BLOCKED_TAG = 9000 };
enum { WAIT, WAITANY, WAITSOME, WAITALL, TEST, TESTANY, TESTSOME, TESTALL, GET_STATUS, CANCEL, FUNCTIONS };
enum { ACK, ACK_FAILED, ACK_AFTER_GET, WAYS };

static const char *const function_names[] = {"wait", "waitany", "waitsome", "waitall", "test", "testany",
                                             "testsome", "testall", "get_status", "cancel"};
static const char *dir = "";
static int right;

/* One function, for one request or for one beside others, which may be persistent. */
typedef struct {
    int round, way, function, tag;
    bool looks, several, persistent;
    int count, at, late, values[3];
    MPI_Request requests[3];
} Case;

enum { CASES = FUNCTIONS * 4, COMMUNICATORS = WAYS * 2 };
static Case cases[COMMUNICATORS][CASES];
static MPI_Comm comms[ROUNDS][COMMUNICATORS], calm;

/* About a communicator of a round. */
static const char *path_of(const char *word, int round, int communicator) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s.%d.%d", dir, word, round, communicator);
    return path;
}

static void tell(const char *word, int round, int communicator) {
    int file = open(path_of(word, round, communicator), O_CREAT | O_WRONLY, 0644);
    if (file >= 0) close(file);
}

/* Outside MPI. */
static void hear(const char *word, int round, int communicator) {
    while (access(path_of(word, round, communicator), F_OK)) usleep(200);
}

static void require(const Case *one, bool holds, const char *what, int got) {
    if (holds) right++;
    else
        event("wrong %s (%d): %s, %s%s, way %d%s, round %d", what, got, function_names[one->function],
              one->several ? "several" : "one", one->persistent ? ", persistent" : "", one->way, one->looks ? ", looks" : "",
              one->round);
}

static bool waits_for_all(int function) { return function == WAITALL || function == TESTALL; }

/* A receive from anybody, and beside it one from a rank that sends late, or, where all are waited for, from anybody. */
static void post(Case *one, MPI_Comm comm) {
    one->count = one->several ? 3 : 1, one->at = one->several ? 1 : 0;
    one->late = one->several && !waits_for_all(one->function);
    for (int i = 0; i < one->count; i++) {
        int from = one->late && i != one->at ? LATE : MPI_ANY_SOURCE;
        one->values[i] = -1;
        if (one->persistent) {
            MPI_Recv_init(&one->values[i], 1, MPI_INT, from, one->tag + i, comm, &one->requests[i]);
            MPI_Start(&one->requests[i]);
        } else
            MPI_Irecv(&one->values[i], 1, MPI_INT, from, one->tag + i, comm, &one->requests[i]);
    }
}

/* Calls the function once: the code of the request from anybody. Whether that has ended is in `done`, and its sender in `source`. */
static int call(Case *one, bool *done, int *source) {
    MPI_Status statuses[3] = {0}, status = {0};
    int flag = 0, index = -1, count = 0, indices[3] = {-1, -1, -1}, code = MPI_SUCCESS;
    MPI_Request *mine = &one->requests[one->at];
    *done = false;
    switch (one->function) {
    case CANCEL:
    case WAIT: code = MPI_Wait(mine, &status), *done = code == MPI_SUCCESS; break;
    case TEST: code = MPI_Test(mine, &flag, &status), *done = flag; break;
    case GET_STATUS: code = MPI_Request_get_status(*mine, &flag, &status), *done = flag; break;
    case WAITANY:
    case TESTANY:
        code = one->function == WAITANY ? MPI_Waitany(one->count, one->requests, &index, &status)
                                        : MPI_Testany(one->count, one->requests, &index, &flag, &status);
        *done = code == MPI_SUCCESS && (one->function == WAITANY || flag);
        if (*done && index != one->at) code = MPI_ERR_OTHER;
        break;
    case WAITSOME:
    case TESTSOME:
        code = one->function == WAITSOME ? MPI_Waitsome(one->count, one->requests, &count, indices, statuses)
                                         : MPI_Testsome(one->count, one->requests, &count, indices, statuses);
        if (count > 0) {
            *done = code == MPI_SUCCESS;
            status = statuses[0];
            if (code != MPI_SUCCESS) code = status.MPI_ERROR;
            if (count != 1 || indices[0] != one->at) code = MPI_ERR_OTHER;
        }
        break;
    default:
        code = one->function == WAITALL ? MPI_Waitall(one->count, one->requests, statuses)
                                        : MPI_Testall(one->count, one->requests, &flag, statuses);
        *done = code == MPI_SUCCESS && (one->function == WAITALL || flag);
        status = statuses[one->at];
        /* MPI_Testall stops at the first that is pending. */
        if (code == MPI_ERR_IN_STATUS) code = statuses[one->function == WAITALL ? one->at : 0].MPI_ERROR;
    }
    *source = status.MPI_SOURCE;
    return class_of(code);
}

static void is_told(Case *one) {
    bool done;
    int source, class = call(one, &done, &source);
    /* MPI_Request_get_status tells of no error. */
    int expected = one->function == GET_STATUS ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED_PENDING;
    require(one, class == expected && !done, "it is pending", class);
    require(one, one->requests[one->at] != MPI_REQUEST_NULL, "it is kept", 0);
}

static void has_message(Case *one) {
    bool done = false;
    int source = -1, class = MPI_SUCCESS;
    if (one->function == CANCEL) MPI_Cancel(&one->requests[one->at]);
    /* Functions that do not wait may see it later. */
    for (int i = 0; i < MOST_TRIES && !done && class == MPI_SUCCESS; i++) class = call(one, &done, &source);
    require(one, class == MPI_SUCCESS && done, "it ends well", class);
    if (one->function == CANCEL) return;
    require(one, source == SENDER && one->values[one->at] == one->tag + one->at, "it has the message", source);
    if (one->function == GET_STATUS) {
        class = class_of(MPI_Wait(&one->requests[one->at], MPI_STATUS_IGNORE));
        require(one, class == MPI_SUCCESS, "the wait after that ends well", class);
    }
    require(one, one->persistent || one->requests[one->at] == MPI_REQUEST_NULL, "it is over", 0);
}

/* What comes late has not been ended before. */
static void has_the_rest(Case *one) {
    for (int i = 0; one->late && i < one->count; i++) {
        if (i == one->at) continue;
        int class = class_of(MPI_Wait(&one->requests[i], MPI_STATUS_IGNORE));
        require(one, class == MPI_SUCCESS && one->values[i] == one->tag + i, "the others are not ended", class);
    }
}

static void acknowledge(MPI_Comm comm, int way) {
    MPI_Group dead;
    int size, acknowledged;
    MPI_Comm_size(comm, &size);
    if (way == ACK_AFTER_GET) {
        MPIX_Comm_get_failed(comm, &dead);
        MPI_Group_free(&dead);
    }
    if (way == ACK_FAILED) MPIX_Comm_ack_failed(comm, size, &acknowledged);
    else
        MPIX_Comm_failure_ack(comm);
}

static void be_the_receiver(int round) {
    int count, flag, indices[2], victim = world_size - 1 - round, never[2], class;
    MPI_Status statuses[2];
    MPI_Request blocked[2];
    for (int i = 0; i < COMMUNICATORS; i++)
        for (int k = 0; k < CASES; k++) post(&cases[i][k], comms[round][i]);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&never[i], 1, MPI_INT, i ? MPI_ANY_SOURCE : LATE, BLOCKED_TAG + i, comms[round][0], &blocked[i]);
    MPI_Send(NULL, 0, MPI_INT, victim, 1, calm);
    int code = round == WAIT       ? MPI_Wait(&blocked[1], MPI_STATUS_IGNORE)
               : round == WAITANY  ? MPI_Waitany(2, blocked, &flag, MPI_STATUS_IGNORE)
               : round == WAITSOME ? MPI_Waitsome(2, blocked, &count, indices, statuses)
                                   : MPI_Waitall(2, blocked, statuses);
    if (round >= WAITSOME && code == MPI_ERR_IN_STATUS) code = statuses[round == WAITSOME ? 0 : 1].MPI_ERROR;
    class = class_of(code);
    if (class != MPIX_ERR_PROC_FAILED_PENDING) event("wrong class %d of who is blocked, round %d", class, round);
    for (int i = 0; i < COMMUNICATORS; i++)
        for (int k = 0; k < CASES; k++) is_told(&cases[i][k]);
    for (int i = 0; i < COMMUNICATORS; i++) {
        tell("go", round, i);
        hear("sent", round, i);
        acknowledge(comms[round][i], cases[i][0].way);
        if (cases[i][0].looks) MPI_Iprobe(SENDER, NONE, comms[round][i], &flag, MPI_STATUS_IGNORE);
        for (int k = 0; k < CASES; k++) has_message(&cases[i][k]);
    }
    tell("late", round, 0);
    for (int i = 0; i < COMMUNICATORS; i++)
        for (int k = 0; k < CASES; k++) has_the_rest(&cases[i][k]);
    if (MPI_Waitall(2, blocked, MPI_STATUSES_IGNORE) != MPI_SUCCESS || never[0] != BLOCKED_TAG || never[1] != BLOCKED_TAG + 1)
        event("wrong end of what was blocked, round %d", round);
}

/* Sends what the requests of a communicator wait for that are late, or the others: no more than fits while rank 0 is outside MPI. */
static void send_all(int round, int communicator, bool late) {
    for (int k = 0; k < CASES; k++) {
        Case *one = &cases[communicator][k];
        int count = one->several ? 3 : 1, at = one->several ? 1 : 0;
        bool has_late = one->several && !waits_for_all(one->function);
        for (int j = 0; j < count; j++) {
            int tag = one->tag + j;
            bool is_mine = j == at ? !late && one->function != CANCEL : late == has_late;
            if (is_mine) MPI_Send(&tag, 1, MPI_INT, 0, tag, comms[round][communicator]);
        }
    }
}

static void be_the_sender(int round) {
    for (int i = 0; i < COMMUNICATORS; i++) {
        hear("go", round, i);
        send_all(round, i, false);
        tell("sent", round, i);
    }
}

static void be_the_late_one(int round) {
    hear("late", round, 0);
    for (int i = 0; i < COMMUNICATORS; i++) send_all(round, i, true);
    for (int i = 0; i < 2; i++) {
        int tag = BLOCKED_TAG + i;
        MPI_Send(&tag, 1, MPI_INT, 0, tag, comms[round][0]);
    }
}

static void plan(int round) {
    for (int i = 0; i < COMMUNICATORS; i++)
        for (int k = 0; k < CASES; k++)
            cases[i][k] = (Case){.round = round, .way = i / 2, .looks = i % 2, .function = k / 4, .several = k / 2 % 2,
                                 .persistent = k % 2, .tag = 100 + 10 * k};
}

int main(int count, char **arguments) {
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
    enter_world(&count, &arguments, dir);
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COMMUNICATORS; i++)
            MPI_Comm_split(calm, world_rank < world_size - round ? 1 : MPI_UNDEFINED, world_rank, &comms[round][i]);
    MPI_Barrier(calm);
    for (int round = 0; round < ROUNDS; round++) {
        plan(round);
        if (world_rank == world_size - 1 - round) {
            MPI_Recv(NULL, 0, MPI_INT, 0, 1, calm, MPI_STATUS_IGNORE);
            raise(SIGKILL);
        }
        if (world_rank == 0) be_the_receiver(round);
        if (world_rank == SENDER) be_the_sender(round);
        if (world_rank == LATE) be_the_late_one(round);
    }
    if (world_rank == 0) event("right %d", right);
    leave_world();
    return 0;
}
