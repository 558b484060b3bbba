/* ishrinks: survivors of a death shrink several communicators at once with MPIX_Comm_ishrink, while more ranks die.
 *
 *   ishrinks --events DIR HOW COUNT SECOND THIRD
 *
 *   HOW            how the requests are completed: wait, waitall, waitany, waitsome, test, testall, testany or testsome;
 *                  reload (waitall, together with messages between neighbours); free (each request is freed at once);
 *                  shared (waitall, several on each of three communicators);
 *                  turns (again and again, beginning with another one at each rank, beside a duplicate of a communicator in
 *                  which all live, by ranks that have other numbers of communicators free);
 *                  agreeing (each communicator is agreed on and shrunk in other ways meanwhile, which comes to each rank
 *                  at another moment); agreeing-death (without other shrinks, the second rank dies on the way);
 *                  waves (more at once on one communicator than agree at once, and very many in all);
 *                  whole (shared, where nobody dies and there need be no fault tolerance);
 *                  inherits (wait, after the communicator was given an attribute and an error handler);
 *                  leave (MPI_Finalize at once), leave-some (the same, and only odd ranks start any), leave-others
 *                  (odd ranks wait) or leave-world (the communicator is MPI_COMM_WORLD)
 *   COUNT          how many communicators, at most 16; they have the error scopes local, group, global, local, ...
 *   SECOND, THIRD  ranks that kill themselves while the requests are under way, or -1
 *
 * The harness kills the last rank after "blocked 0". Events are lines "rank nanoseconds event details": "shrunk I SIZE
 * SCOPE" for each communicator that works, "reloaded BYTES" of the right data, "agreed COUNT" of results that are right,
 * "round I CODE VALUE CODE VALUE SIZE" of two agreements and a shrink, "inherits ATTRIBUTE COPIED HANDLER" of an attribute,
 * of the communicator that its copy function gets and of an error handler, "refused COUNT SUM" of an attribute whose copy
 * function fails, and of a communicator without it, "resident KIB" of memory, "dies DONE" of one that kills itself, DONE
 * being 0 if its last request is still under way.
 */
#include <mpi.h>
#include <ringwatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "death.h"
#include "diary.h"

enum { MOST = 16, ROUNDS = 20, BLOCKS = 4, BLOCK = 1 << 20 };

static int size, second, third;

static void must(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    event("wrong %s %s", what, text);
}

/* Completes all requests. */
static void complete(const char *how, int count, MPI_Request *requests) {
    int done = 0, index, flag = false, some, indices[MOST];
    if (!strcmp(how, "wait")) {
        for (int i = 0; i < count; i++) must(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), how);
    } else if (!strcmp(how, "waitall")) {
        must(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), how);
    } else if (!strcmp(how, "test")) {
        for (int i = 0; i < count; i++)
            for (flag = false; !flag;) must(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE), how);
    } else if (!strcmp(how, "testall")) {
        while (!flag) must(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE), how);
    } else
        while (done < count) {
            some = 0;
            if (!strcmp(how, "waitany")) {
                must(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE), how);
                some = 1;
            } else if (!strcmp(how, "testany")) {
                must(MPI_Testany(count, requests, &index, &some, MPI_STATUS_IGNORE), how);
            } else if (!strcmp(how, "waitsome")) {
                must(MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE), how);
            } else
                must(MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE), how);
            done += some;
        }
}

/* Frees all requests, and waits until what they began has come about. */
static void free_early(int count, MPI_Request *requests, MPI_Comm *next) {
    int message;
    for (int i = 0; i < count; i++) must(MPI_Request_free(&requests[i]), "free");
    for (int i = 0; i < count; i++)
        while (next[i] == MPI_COMM_NULL)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
}

/* Each rank gets data from the next one that outlives the test, while the communicators are made. */
static void reload(MPI_Comm calm, int shrinks, MPI_Request *shrinking) {
    static int sent[BLOCKS][BLOCK / sizeof(int)], received[BLOCKS][BLOCK / sizeof(int)];
    MPI_Request requests[MOST + 2 * BLOCKS];
    int to = world_rank, from = world_rank, bytes = 0;
    do to = (to + 1) % (size - 1); while (to == second || to == third);
    do from = (from + size - 2) % (size - 1); while (from == second || from == third);
    memset(received, 0, sizeof received);
    memcpy(requests, shrinking, (size_t)shrinks * sizeof *requests);
    for (int block = 0; block < BLOCKS; block++) {
        for (size_t i = 0; i < BLOCK / sizeof(int); i++) sent[block][i] = world_rank * 1000003 + block * 7 + (int)i;
        MPI_Irecv(received[block], BLOCK, MPI_BYTE, from, block, calm, &requests[shrinks + block]);
        MPI_Isend(sent[block], BLOCK, MPI_BYTE, to, block, calm, &requests[shrinks + BLOCKS + block]);
    }
    complete("waitall", shrinks + 2 * BLOCKS, requests);
    for (int block = 0; block < BLOCKS; block++)
        for (size_t i = 0; i < BLOCK / sizeof(int); i++)
            if (received[block][i] == from * 1000003 + block * 7 + (int)i) bytes += (int)sizeof(int);
    event("reloaded %d", bytes);
}

/* Those whose turn it is die when the requests have made some of their way: the third when it knows of the second's death,
 * which all must know before the requests complete. */
static void die_on_the_way(MPI_Comm calm, MPI_Request *request) {
    int flag = false, known = false, never;
    MPI_Request from_second;
    if (world_rank == second) {
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    } else if (world_rank == third) {
        known = MPI_Irecv(&never, 1, MPI_INT, second, 9, calm, &from_second) != MPI_SUCCESS;
        while (!known && !flag) {
            MPI_Test(request, &flag, MPI_STATUS_IGNORE);
            known = MPI_Test(&from_second, &(int){0}, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        }
    } else
        return;
    event("dies %d", flag);
    raise(SIGKILL);
}

static void describe(int i, MPI_Comm comm) {
    char scope[MPI_MAX_INFO_VAL + 1] = "-";
    int members, found, length = sizeof scope;
    MPI_Info info;
    MPI_Comm_size(comm, &members);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, "mpix_error_scope", &length, scope, &found);
    MPI_Info_free(&info);
    event("shrunk %d %d %s", i, members, scope);
}

/* The number that MPI has for a request which is freed early; one that is left over would keep its number. */
static void count_requests(MPI_Comm comm) {
    for (int i = 0; i < 10; i++) {
        MPI_Request request;
        MPI_Comm next;
        must(MPIX_Comm_ishrink(comm, &next, &request), "start");
        event("number %d", (int)MPI_Request_c2f(request));
        free_early(1, &request, &next);
        MPI_Comm_free(&next);
    }
}

/* Each rank is somewhere else with its requests after that. */
static void go_on(int round, int count, MPI_Request *requests) {
    int index, flag;
    for (int turns = (world_rank * 7 + round * 3) % 11 * 20; turns > 0; turns--)
        must(MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE), "test");
}

static void leave(const char *how, int shrinks, MPI_Comm *comms) {
    static MPI_Comm next[MOST];
    static MPI_Request requests[MOST];
    bool odd = world_rank % 2, world = !strcmp(how, "leave-world");
    if (strcmp(how, "leave-some") || odd)
        for (int i = 0; i < shrinks; i++)
            must(MPIX_Comm_ishrink(world ? MPI_COMM_WORLD : comms[i], &next[i], &requests[i]), "start");
    if (world) go_on(0, shrinks, requests);
    if (world_rank == second) raise(SIGKILL);
    if (!strcmp(how, "leave-others") && odd) {
        complete("waitall", shrinks, requests);
        for (int i = 0; i < shrinks; i++) describe(i, next[i]);
    }
}

/* Whether members add up their numbers of a communicator, and nobody else's. */
static bool adds_up(MPI_Comm comm, int number) {
    int sum = 0, members;
    MPI_Comm_size(comm, &members);
    return MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == number * members;
}

/* Until all communicators work: a member may have died too late for the agreement. */
static void shrink_all(const char *how, int shrinks, MPI_Comm *comms, MPI_Comm calm) {
    MPI_Comm next[MOST];
    MPI_Request requests[MOST];
    bool shared = !strcmp(how, "shared") || !strcmp(how, "whole");
    for (bool all_work = false; !all_work;) {
        int works = true;
        for (int i = 0; i < shrinks; i++)
            must(MPIX_Comm_ishrink(comms[shared ? i % 3 : i], &next[i], &requests[i]), "start");
        die_on_the_way(calm, &requests[shrinks - 1]);
        if (!strcmp(how, "reload")) reload(calm, shrinks, requests);
        else if (!strcmp(how, "free")) free_early(shrinks, requests, next);
        else complete(shared ? "waitall" : how, shrinks, requests);
        /* In this order: a collective whose member is just dying may crash in Open MPI 5.0.7. */
        for (int i = 0; i < shrinks; i++)
            if (MPIX_Comm_agree(next[i], &works) != MPI_SUCCESS) works = false;
        for (int i = 0; i < shrinks && works; i++) {
            works = adds_up(next[i], i + 1);
            if (!works) MPIX_Comm_revoke(next[i]);
        }
        all_work = MPIX_Comm_agree(next[0], &works) == MPI_SUCCESS && works;
        for (int i = 0; i < shrinks; i++) comms[i] = next[i];
    }
    for (int i = 0; i < shrinks; i++) describe(i, comms[i]);
}

static void take_turns(int shrinks, MPI_Comm *comms, MPI_Comm calm) {
    MPI_Comm survivors, taken[MOST], made[MOST + 1];
    MPI_Request requests[MOST + 1];
    int all = shrinks + 1;
    must(MPIX_Comm_shrink(calm, &survivors), "shrink");
    for (int i = 0; i < 2 * world_rank; i++) MPI_Comm_dup(MPI_COMM_SELF, &taken[i]);
    for (int i = 0; i < world_rank; i++) MPI_Comm_free(&taken[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < all; i++) {
            int one = (i + (round + 1) * world_rank) % all;
            must(one < shrinks ? MPIX_Comm_ishrink(comms[one], &made[one], &requests[one])
                               : MPI_Comm_idup(survivors, &made[one], &requests[one]), "start");
        }
        complete("waitall", all, requests);
        for (int i = 0; i < all; i++)
            if (!adds_up(made[i], i + 1)) event("wrong sum %d", i);
        for (int i = 0; i < all; i++) {
            if (i < shrinks && round == ROUNDS - 1) describe(i, made[i]);
            MPI_Comm_free(&made[i]);
        }
    }
    event("took %d", ROUNDS);
}

static void agree_beside(int shrinks, MPI_Comm *comms) {
    MPI_Comm next[MOST], at_once;
    MPI_Request shrinking[MOST], agreeing;
    int agreed = 0;
    for (int i = 0; i < shrinks; i++) MPIX_Comm_failure_ack(comms[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < shrinks; i++) {
            int early = ~(1 << world_rank) & (round << 8 | 0xff), late = early ^ 1 << 9;
            must(MPIX_Comm_ishrink(comms[i], &next[i], &shrinking[i]), "start");
            go_on(round, i + 1, shrinking);
            must(MPIX_Comm_iagree(comms[i], &early, &agreeing), "iagree");
            go_on(round + 1, i + 1, shrinking);
            must(MPIX_Comm_agree(comms[i], &late), "agree");
            must(MPI_Wait(&agreeing, MPI_STATUS_IGNORE), "wait for iagree");
            /* The last rank is dead, and the bits of all others are taken away. */
            agreed += early == (round << 8 | 1 << (size - 1)) && late == (early ^ 1 << 9);
            must(MPIX_Comm_shrink(comms[i], &at_once), "shrink");
            agreed += adds_up(at_once, i + 1);
            MPI_Comm_free(&at_once);
        }
        complete("waitall", shrinks, shrinking);
        for (int i = 0; i < shrinks; i++) {
            agreed += adds_up(next[i], i + 1);
            if (round == ROUNDS - 1) describe(i, next[i]);
            MPI_Comm_free(&next[i]);
        }
    }
    event("agreed %d", agreed);
}

/* The second rank dies between two of these steps. */
static void agree_beside_a_death(MPI_Comm comm) {
    for (int round = 0; round < ROUNDS; round++) {
        int early = ~(1 << world_rank), late = early, early_code, late_code, members;
        MPI_Request shrinking, agreeing;
        MPI_Comm next;
        MPIX_Comm_failure_ack(comm);
        must(MPIX_Comm_ishrink(comm, &next, &shrinking), "start");
        go_on(round, 1, &shrinking);
        must(MPIX_Comm_iagree(comm, &early, &agreeing), "iagree");
        if (world_rank == second && round == ROUNDS / 2) raise(SIGKILL);
        late_code = MPIX_Comm_agree(comm, &late);
        early_code = MPI_Wait(&agreeing, MPI_STATUS_IGNORE);
        complete("wait", 1, &shrinking);
        MPI_Comm_size(next, &members);
        event("round %d %d %x %d %x %d", round, early_code, early, late_code, late, members);
        MPI_Comm_free(&next);
    }
}

static long resident(void) {
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) event("wrong statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void make_waves(MPI_Comm comm) {
    enum { WAVES = 240, AT_ONCE = 40 };
    MPI_Comm next[AT_ONCE];
    MPI_Request requests[AT_ONCE];
    for (int wave = 1; wave <= WAVES; wave++) {
        int right = 0;
        for (int i = 0; i < AT_ONCE; i++) must(MPIX_Comm_ishrink(comm, &next[i], &requests[i]), "start");
        must(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE), "waitall");
        for (int i = 0; i < AT_ONCE; i++) {
            right += wave > 1 || adds_up(next[i], i + 1);
            MPI_Comm_free(&next[i]);
        }
        if (right != AT_ONCE) event("wrong sums %d", right);
        if (wave % (WAVES / 3) == 0) event("resident %ld", resident());
    }
}

static MPI_Comm copied_from = MPI_COMM_NULL;

static int note_copy(MPI_Comm from, int key, void *extra, void *value, void *copy, int *copies) {
    MPI_Comm own;
    (void)key, (void)extra;
    copied_from = from;
    *(void **)copy = value;
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    MPI_Comm_free(&own);
    return *copies = true, MPI_SUCCESS;
}

static int refuse_copy(MPI_Comm from, int key, void *extra, void *value, void *copy, int *copies) {
    (void)from, (void)key, (void)extra, (void)value, (void)copy, (void)copies;
    return MPI_ERR_OTHER;
}

static void ignore(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }

static void inherit(MPI_Comm comm, MPI_Comm other) {
    static int value;
    MPI_Errhandler handler, inherited;
    MPI_Request request;
    MPI_Comm next;
    int key, *found, has_it, is_its_own, refused = 0;
    MPI_Comm_create_errhandler(ignore, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_create_keyval(note_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(comm, key, &value);
    must(MPIX_Comm_ishrink(comm, &next, &request), "start");
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    is_its_own = copied_from == comm;
    MPI_Comm_get_attr(next, key, &found, &has_it);
    MPI_Comm_get_errhandler(next, &inherited);
    event("inherits %d %d %d", has_it && found == &value, is_its_own, inherited == handler);

    MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(other, key, &value);
    for (int i = 0; i < 20; i++) refused += MPIX_Comm_ishrink(other, &next, &request) == MPI_ERR_OTHER;
    MPI_Comm_delete_attr(other, key);
    must(MPIX_Comm_ishrink(other, &next, &request), "start");
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    event("refused %d %d", refused, adds_up(next, 1));
}

int main(int count, char **arguments) {
    static const char *scopes[] = {"local", "group", "global"};
    MPI_Comm comms[MOST], calm;
    MPI_Request from_victim;
    const char *how = arguments[3];
    int shrinks = atoi(arguments[4]), never;
    second = atoi(arguments[5]);
    third = atoi(arguments[6]);
    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_diary(arguments[2]);
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int i = 0; i < shrinks; i++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpix_error_scope", scopes[i % 3]);
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[i]);
        MPI_Info_free(&info);
    }
    if (strcmp(how, "whole")) {
        MPI_Irecv(&never, 1, MPI_INT, size - 1, 9, calm, &from_victim);
        MPI_Barrier(calm);
        event("blocked 0");
        if (world_rank == size - 1)
            for (;;) pause();
        wait_for_death(&from_victim);
    }

    if (!strncmp(how, "leave", 5)) leave(how, shrinks, comms);
    else if (!strcmp(how, "turns")) take_turns(shrinks, comms, calm);
    else if (!strcmp(how, "agreeing")) agree_beside(shrinks, comms);
    else if (!strcmp(how, "agreeing-death")) agree_beside_a_death(comms[0]);
    else if (!strcmp(how, "waves")) make_waves(comms[0]);
    else if (!strcmp(how, "inherits")) inherit(comms[0], comms[1]);
    else shrink_all(how, shrinks, comms, calm);
    if (!strcmp(how, "free")) count_requests(comms[0]);
    event("finalized %d", MPI_Finalize());
    return 0;
}
