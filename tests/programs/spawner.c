/* spawner: spawns as many processes of itself as there are, and waits with them for the death of one rank.
 *
 *   spawner --events DIR --case CASE --victim NUMBER
 *
 *   CASE     calm: nobody dies. recv, any, barrier: the other side waits for the victim in this operation on the
 *            intercommunicator, and the victim's own side in a receive from it. self: rank 0 alone spawns, and all the
 *            other ranks of the first job wait for it, on a communicator with the scope global.
 *            inter: as recv, and then the survivors shrink the intercommunicator. free: as recv, and they only free it.
 *            absent: the victim, one of those who spawn, does not call MPI_Comm_spawn. copy: so it is there, and once the file
 *            "go" is in DIR the others spawn a single process on a copy of MPI_COMM_WORLD, whose members the runtime is told
 *            one by one. on-go: as calm, and the first job spawns once the file "go" is in DIR.
 *            early: the victim, a spawned one, dies before it calls MPI_Init. quits: so it exits with status 0 there.
 *            quits-alone: as quits, and only one is spawned.
 *            program: rank 0 alone spawns a program without MPI that exits with status NUMBER, and everybody goes on.
 *            helper: so it does with status 0, and the others of the first job wait for the victim. group: everybody waits for somebody who lives
 *            on the other side, on the intercommunicator, which has the scope group. outlive: the two sides part, the first
 *            job ends, and the spawned one goes on without the victim. respawn: nobody is spawned before the victim is
 *            dead, and then one in its place. brief: the spawned ones end as soon as MPI has begun, and the victim asks the
 *            runtime for their addresses only once the file "go" is in DIR. nobody: the program to spawn does not exist.
 *   NUMBER   the ranks of the first job, and then those of the spawned one; in the case early its rank there
 *
 * Each writes a diary under its number: "ready", "result CLASS", then "shrunk LOCAL REMOTE" of the communicator that the
 * survivors make, and "sum N" over its members, "disconnected CLASS", "finalized CLASS".
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { TAG = 7 };

/* The victim of the case brief waits for it. */
static char late_go[600];

/* In place of PMIx's own: what Open MPI asks for an address, of a process that begins with the name of its job. */
__attribute__((visibility("default"))) int PMIx_Get(const char *process, const char *key, const void *info, size_t count,
                                                    void **value) {
    int (*own)(const char *, const char *, const void *, size_t, void **) = dlsym(RTLD_NEXT, "PMIx_Get");
    if (*late_go && key && !strncmp(key, "btl.tcp", 7) && strcmp(process, getenv("PMIX_NAMESPACE"))) {
        event("late");
        while (access(late_go, F_OK)) usleep(1000);
        *late_go = 0;
    }
    return own(process, key, info, count, value);
}

/* An exchange of messages, collectives, one more communicator, and an orderly parting. */
static void calm(MPI_Comm inter, MPI_Comm all) {
    int local, remote, got = -1, sum = 0;
    MPI_Comm_rank(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    int peer = local % remote;
    int code = MPI_Sendrecv(&world_rank, 1, MPI_INT, peer, TAG, &got, 1, MPI_INT, peer, TAG, inter, MPI_STATUS_IGNORE);
    event("exchanged %d %d", class_of(code), got);
    event("barrier %d", class_of(MPI_Barrier(inter)));
    code = MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    event("allreduce %d %d", class_of(code), sum);
    code = MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, all);
    event("merged %d %d", class_of(code), sum);
}

/* Waits for a process that does nothing until it is killed. */
static int wait_for(int victim, MPI_Comm comm, const char *how) {
    int value;
    if (!strcmp(how, "any")) return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    if (!strcmp(how, "barrier")) return MPI_Barrier(comm);
    return MPI_Recv(&value, 1, MPI_INT, victim, TAG, comm, MPI_STATUS_IGNORE);
}

/* The survivors of a communicator make one of their own, and use it. */
static void repair(MPI_Comm comm) {
    MPI_Comm whole;
    int local = -1, remote = 0, inter = false, one = 1, sum = -1;
    int code = MPIX_Comm_shrink(comm, &whole);
    if (code != MPI_SUCCESS) {
        event("failed %d", class_of(code));
        return;
    }
    MPI_Comm_set_errhandler(whole, MPI_ERRORS_RETURN);
    MPI_Comm_test_inter(whole, &inter);
    MPI_Comm_size(whole, &local);
    if (inter) MPI_Comm_remote_size(whole, &remote);
    event("shrunk %d %d", local, remote);
    code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, whole);
    event("sum %d %d", class_of(code), sum);
    event("disconnected %d", class_of(MPI_Comm_disconnect(&whole)));
}

static MPI_Info scope_is(const char *scope) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", scope);
    return info;
}

/* The survivors of the first job, and the one that is spawned, make a communicator of the size that the job had. */
static void replace(MPI_Comm inter, MPI_Comm survivors, char *program, char **arguments) {
    MPI_Comm all;
    int rank = 0, size = 0, one = 1, sum = -1, place = 0;
    if (inter == MPI_COMM_NULL) {
        int code = MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, survivors, &inter, MPI_ERRCODES_IGNORE);
        event("spawned %d", class_of(code));
        if (code != MPI_SUCCESS) return;
    } else
        place = 1;
    MPI_Intercomm_merge(inter, place, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    event("replaced %d %d %d", class_of(code), size, sum);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&inter);
}

/* A shell that exits with this status, and has done so when this returns. */
static void spawn_program(int status) {
    char name[] = "/tmp/spawner.XXXXXX", command[200];
    close(mkstemp(name));
    snprintf(command, sizeof command, "rm %s; exit %d", name, status);
    char *own[] = {"-c", command, NULL};
    MPI_Comm none;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_non_mpi", "true");
    int code = MPI_Comm_spawn("/bin/sh", own, 1, info, 0, MPI_COMM_SELF, &none, MPI_ERRCODES_IGNORE);
    event("spawned %d %d", class_of(code), none != MPI_COMM_NULL);
    while (!access(name, F_OK)) usleep(1000);
}

int main(int count, char **arguments) {
    const char *dir = "", *scenario = "calm";
    int victim = -1, size, provided;
    char **own = arguments + 1;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i], "--case")) scenario = arguments[i + 1];
        else if (!strcmp(arguments[i], "--victim")) victim = atoi(arguments[i + 1]);
    }
    char *program = arguments[0], *place = getenv("PMIX_RANK");
    bool ends_early = getenv("OMPI_PARENT_PORT") && atoi(place) == victim;
    if (ends_early && !strcmp(scenario, "early")) raise(SIGKILL);
    if (ends_early && !strncmp(scenario, "quits", strlen("quits"))) return 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided);
    MPI_Comm inter, world = MPI_COMM_WORLD, all = MPI_COMM_NULL;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &world_rank);
    MPI_Comm_size(world, &size);
    MPI_Comm_get_parent(&inter);
    bool spawned = inter != MPI_COMM_NULL, alone = !strcmp(scenario, "self"), later = !strcmp(scenario, "respawn");
    bool copy = !strcmp(scenario, "copy"), on_go = !strcmp(scenario, "on-go");
    /* The place of the one is behind the four. */
    if (spawned) world_rank += later ? 4 : size;
    open_diary(dir);
    if (later && spawned) {
        replace(inter, MPI_COMM_NULL, NULL, NULL);
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    MPI_Comm parents = alone ? MPI_COMM_SELF : world;
    if (copy && !spawned) MPI_Comm_dup(world, &parents);
    if (copy || !strcmp(scenario, "quits-alone")) size = 1;
    if ((copy || on_go || !strcmp(scenario, "absent")) && !spawned) {
        /* Whose messages meet later has met before. */
        MPI_Barrier(world);
        event("ready");
        if (world_rank == victim)
            for (;;) pause();
        char go[600];
        snprintf(go, sizeof go, "%s/go", dir);
        while ((copy || on_go) && access(go, F_OK)) usleep(1000);
    }
    if (!strcmp(scenario, "program")) {
        if (world_rank == 0) spawn_program(victim);
        event("barrier %d", class_of(MPI_Barrier(world)));
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    if (!strcmp(scenario, "helper")) {
        if (world_rank == 0) spawn_program(0);
        MPI_Barrier(world);
        event("ready");
        if (world_rank == victim)
            for (;;) pause();
        event("result %d", class_of(wait_for(victim, world, "recv")));
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    if (!strcmp(scenario, "nobody")) {
        int code = MPI_Comm_spawn("/nobody", own, size, MPI_INFO_NULL, 0, parents, &inter, MPI_ERRCODES_IGNORE);
        event("spawned %d %d", class_of(code), inter != MPI_COMM_NULL);
        event("barrier %d", class_of(MPI_Barrier(world)));
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    bool brief = !strcmp(scenario, "brief");
    if (brief && !spawned && world_rank == victim) snprintf(late_go, sizeof late_go, "%s/go", dir);
    if (!later && !spawned && (!alone || world_rank == 0)) {
        int code = MPI_Comm_spawn(program, own, size, MPI_INFO_NULL, 0, parents, &inter, MPI_ERRCODES_IGNORE);
        event("spawned %d", class_of(code));
    }
    if (brief) {
        int everybody = 1;
        if (!spawned) event("agreed %d", class_of(MPIX_Comm_agree(world, &everybody)));
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    if (inter != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        MPI_Intercomm_merge(inter, spawned, &all);
        MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    }
    if (on_go || !strcmp(scenario, "calm")) {
        calm(inter, all);
        event("disconnected %d", class_of(MPI_Comm_disconnect(&all)));
        event("disconnected %d", class_of(MPI_Comm_disconnect(&inter)));
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    if (alone && !spawned) {
        MPI_Comm_dup_with_info(world, scope_is("global"), &world);
        MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    }
    bool group = !strcmp(scenario, "group"), outlive = !strcmp(scenario, "outlive");
    if (group) MPI_Comm_set_info(inter, scope_is("group"));
    if (outlive) {
        MPI_Comm_disconnect(&all);
        MPI_Comm_disconnect(&inter);
        all = inter = MPI_COMM_NULL;
    }
    event("ready");
    if (outlive && !spawned) {
        event("finalized %d", class_of(MPI_Finalize()));
        return 0;
    }
    if (world_rank == victim)
        for (;;) pause();
    bool beside = spawned == (victim >= size);
    int code;
    if (alone && !spawned) code = wait_for((world_rank + 1) % size, world, "recv");
    else if (group) code = wait_for((victim + 1) % size, inter, "recv");
    else code = wait_for(victim % size, beside ? MPI_COMM_WORLD : inter, beside ? "recv" : scenario);
    event("result %d", class_of(code));
    if (later) {
        MPI_Comm shrunk;
        MPIX_Comm_shrink(world, &shrunk);
        replace(MPI_COMM_NULL, shrunk, program, own);
    } else if (!strcmp(scenario, "inter")) repair(inter);
    else if (strcmp(scenario, "free") && (outlive || all != MPI_COMM_NULL)) repair(outlive ? world : all);
    if (inter != MPI_COMM_NULL) MPI_Comm_free(&inter);
    event("finalized %d", class_of(MPI_Finalize()));
    return 0;
}
