/* meets: two groups meet by MPI_Comm_accept and MPI_Comm_connect again and again, until one of their members dies.
 *
 *   meets --events DIR --victim RANK|absent
 *
 * The lower half of the world accepts, the upper one connects; the first of each is its root. All say after each meeting
 * whether they have a communicator and a barrier in it was successful. Then the survivors make a communicator of the world's
 * members. Events are lines "rank nanoseconds event details", as in survivor.c: "meeting" before the first, "met N" of how
 * many there were, "result CLASS" of the last, "half-built" if it has failed and left a handle, "again CLASS MEMBERS" at the end.
 * Compiled with -DWITHOUT_BLOCKING they meet by MPIX_Comm_iaccept and MPIX_Comm_iconnect, and whoever has heard nothing for some
 * seconds after others had an error leaves the request: "result left". The other group may never come.
 * With absent nobody dies: those who connect do so where nobody accepts until the runtime gives up, which it does at once, and
 * write "absent CLASS"; then both groups meet once, at the same port, and write "result CLASS".
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "world.h"

#ifdef WITHOUT_BLOCKING
#include <ringwatch.h>
#endif

/* With PRRTE 3.0.8 a second meeting at a port may wait for ever. */
enum { TAG = 7, PORTS = 64 };

/* Of pmix_common.h: PMIX_ERR_TIMEOUT, and in pmix_pdata_t. */
enum { TIMED_OUT = -24, KEY = 260 };

/* The runtime finds nothing. */
static bool finds_nothing;

/* In place of PMIx's own. */
__attribute__((visibility("default"))) int PMIx_Lookup(char *data, size_t count, const void *info, size_t infos) {
    int (*own)(char *, size_t, const void *, size_t) = dlsym(RTLD_NEXT, "PMIx_Lookup");
    return finds_nothing && strstr(data + KEY, ":accept") ? TIMED_OUT : own(data, count, info, infos);
}

enum { LEFT = -1, LATE_MS = 3000 };

/* Revoked by whoever has an error. */
static MPI_Comm word;

static int meet(bool connects, const char *port, MPI_Comm local, MPI_Comm *made) {
#ifdef WITHOUT_BLOCKING
    MPI_Request request;
    int done = false, is_told, left = LATE_MS;
    int code = connects ? MPIX_Comm_iconnect(port, MPI_INFO_NULL, 0, local, made, &request)
                        : MPIX_Comm_iaccept(port, MPI_INFO_NULL, 0, local, made, &request);
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        MPIX_Comm_is_revoked(word, &is_told);
        if (is_told && left-- == 0) return LEFT;
        usleep(done ? 0 : 1000);
    }
    if (code != MPI_SUCCESS) MPIX_Comm_revoke(word);
    return code;
#else
    return connects ? MPI_Comm_connect(port, MPI_INFO_NULL, 0, local, made)
                    : MPI_Comm_accept(port, MPI_INFO_NULL, 0, local, made);
#endif
}

/* Those who connect do so too early. */
static void meet_late(bool connects, const char *port, MPI_Comm local) {
    MPI_Comm made = MPI_COMM_WORLD;
    if (connects) {
        finds_nothing = true;
        event("absent %d", class_of(meet(true, port, local, &made)));
        finds_nothing = false;
        if (made != MPI_COMM_NULL) event("half-built");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int code = meet(connects, port, local, &made);
    if (code == MPI_SUCCESS) code = MPI_Barrier(made);
    event("result %d", class_of(code));
    if (code == MPI_SUCCESS) MPI_Comm_free(&made);
}

int main(int count, char **arguments) {
    const char *dir = "";
    int victim = -1;
    bool is_absent = false;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[i + 1];
        else if (!strcmp(arguments[i + 1], "absent")) is_absent = true;
        else if (!strcmp(arguments[i], "--victim")) victim = atoi(arguments[i + 1]);
    }
    enter_world(&count, &arguments, dir);
    bool connects = world_rank >= world_size / 2;
    MPI_Comm local, made, living;
    MPI_Comm_split(MPI_COMM_WORLD, connects, 0, &local);
    MPI_Comm_dup(MPI_COMM_WORLD, &word);
    MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN);
    MPI_Info group;
    MPI_Info_create(&group);
    MPI_Info_set(group, "mpix_error_scope", "group");
    static char ports[PORTS][MPI_MAX_PORT_NAME];
    for (int i = 0; world_rank == 0 && i < PORTS; i++) MPI_Open_port(MPI_INFO_NULL, ports[i]);
    MPI_Bcast(ports, sizeof ports, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (is_absent) {
        meet_late(connects, ports[0], local);
        leave_world();
        return 0;
    }
    MPI_Request from_victim;
    int never, all_good = true, met = 0, code = MPI_SUCCESS, one = 1, members = 0;
    if (world_rank != victim) MPI_Irecv(&never, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &from_victim);

    event("meeting");
    while (all_good && met < PORTS) {
        const char *port = ports[met];
        /* What is there before is none of its business. */
        made = MPI_COMM_WORLD;
        code = meet(connects, port, local, &made);
        all_good = false;
        if (code == MPI_SUCCESS) {
            met++;
            MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
            /* Somebody may have died whose group has no communicator. */
            MPI_Comm_set_info(made, group);
            all_good = MPI_Barrier(made) == MPI_SUCCESS;
        } else if (code != LEFT && made != MPI_COMM_NULL)
            event("half-built");
        /* Who knows of a death in its group does not begin the next one, and the other group would wait for it. */
        if (MPIX_Comm_agree(MPI_COMM_WORLD, &all_good) != MPI_SUCCESS) all_good = false;
        if (code == MPI_SUCCESS) MPI_Comm_free(&made);
    }
    event("met %d", met);
    if (code == LEFT) event("result left");
    else event("result %d", class_of(code));
    wait_for_death(&from_victim);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &living);
    code = MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, living);
    event("again %d %d", class_of(code), members);
    leave_world();
    return 0;
}
