/* outsiders: the members of a communicator with the error scope global make one thing of it after the other while a process dies
 * that is none of them.
 *
 *   outsiders --events DIR --uniform VALUE --seed NUMBER OP...
 *
 *   VALUE    local or create
 *   OP       dup, split, win_create, win_allocate, win_create_dynamic, file_open, intercomm_create of the two halves, which
 *            have the scope and the uniformity then, or merge, inter_dup and inter_split of an intercommunicator of these,
 *            which has both, too
 *
 * For operation k, counted from 0, the rank size - 1 - k dies at a moment that the seed decides, and the members are all before
 * it. Each writes a line "rank nanoseconds event details": "ended k MADE CLASS" when one could not be made, after MADE that
 * could, and "half-built k" if that has left a handle.
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

enum { MOST_OPERATIONS = 5, TAG = 7, LONGEST_LIFE_US = 30000 };

/* Keeps its errors local. */
static MPI_Comm calm;

/* What the members of an operation call with: all, the half of one's own, the leaders of both, and both halves. */
struct members {
    MPI_Comm all, half, leaders, halves;
    bool is_lower;
};

static void dies(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* The scope counts deaths from the moment when it is set, so this one waits for all. */
static void die_soon(useconds_t life) {
    for (int rank = 0; rank < world_rank; rank++) MPI_Recv(NULL, 0, MPI_INT, rank, TAG, calm, MPI_STATUS_IGNORE);
    signal(SIGALRM, dies);
    ualarm(life, 0);
    for (int flag;; usleep(100)) MPI_Iprobe(0, TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static int make_communicator(const struct members *with, const char *operation, bool *left) {
    MPI_Comm made = MPI_COMM_NULL;
    int code = !strcmp(operation, "dup")     ? MPI_Comm_dup(with->all, &made)
               : !strcmp(operation, "split") ? MPI_Comm_split(with->all, world_rank % 2, 0, &made)
               : !strcmp(operation, "merge") ? MPI_Intercomm_merge(with->halves, with->is_lower, &made)
               : !strcmp(operation, "inter_dup") ? MPI_Comm_dup(with->halves, &made)
               : !strcmp(operation, "inter_split") ? MPI_Comm_split(with->halves, 0, 0, &made)
                                             : MPI_Intercomm_create(with->half, 0, with->leaders, with->is_lower, TAG, &made);
    *left = code != MPI_SUCCESS && made != MPI_COMM_NULL;
    if (code == MPI_SUCCESS) MPI_Comm_free(&made);
    return code;
}

static int make_window(MPI_Comm comm, const char *operation, bool *left) {
    static int memory[8], *allocated;
    MPI_Win made = MPI_WIN_NULL;
    int code = !strcmp(operation, "win_create")
                   ? MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &made)
               : !strcmp(operation, "win_allocate")
                   ? MPI_Win_allocate(sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &allocated, &made)
                   : MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &made);
    *left = code != MPI_SUCCESS && made != MPI_WIN_NULL;
    if (code == MPI_SUCCESS) {
        MPI_Win_set_errhandler(made, MPI_ERRORS_RETURN);
        MPI_Win_free(&made);
    }
    return code;
}

static int open_file(MPI_Comm comm, const char *path, bool *left) {
    MPI_File made = MPI_FILE_NULL;
    int code = MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &made);
    *left = code != MPI_SUCCESS && made != MPI_FILE_NULL;
    if (code == MPI_SUCCESS) MPI_File_close(&made);
    return code;
}

static void be_struck(int k, const struct members *with, const char *operation, const char *path) {
    int code = MPI_SUCCESS, made = 0;
    for (bool left = false; code == MPI_SUCCESS; made += code == MPI_SUCCESS) {
        if (!strncmp(operation, "win_", 4)) code = make_window(with->all, operation, &left);
        else if (!strcmp(operation, "file_open")) code = open_file(with->all, path, &left);
        else code = make_communicator(with, operation, &left);
        if (left) event("half-built %d", k);
    }
    event("ended %d %d %d", k, made, class_of(code));
}

static void watch(MPI_Comm comm, const char *uniformity) {
    MPI_Info info;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpix_error_scope", "global");
    MPI_Info_set(info, "mpix_error_uniform", uniformity);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

int main(int count, char **arguments) {
    const char *dir = "", *uniformity = "local", *operations[MOST_OPERATIONS];
    int operation_count = 0, never;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--uniform")) uniformity = arguments[++i];
        else if (!strcmp(arguments[i], "--seed")) seed = strtoul(arguments[++i], NULL, 10);
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    enter_world(&count, &arguments, dir);
    char path[600];
    snprintf(path, sizeof path, "%s/data", dir);

    struct members of[MOST_OPERATIONS];
    useconds_t lives[MOST_OPERATIONS];
    MPI_Request from_victim[MOST_OPERATIONS];
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k, upper = victim / 2;
        lives[k] = (useconds_t)(draw() % LONGEST_LIFE_US) + 1;
        of[k].is_lower = world_rank < upper;
        MPI_Comm_split(calm, world_rank < victim ? 0 : MPI_UNDEFINED, 0, &of[k].all);
        MPI_Comm_split(calm, world_rank < victim ? of[k].is_lower : MPI_UNDEFINED, 0, &of[k].half);
        MPI_Comm_split(calm, world_rank == 0 || world_rank == upper ? 0 : MPI_UNDEFINED, 0, &of[k].leaders);
        if (world_rank < victim)
            MPI_Intercomm_create(of[k].half, 0, of[k].leaders, of[k].is_lower ? 1 : 0, TAG, &of[k].halves);
        if (world_rank != victim) MPI_Irecv(&never, 1, MPI_INT, victim, TAG + 1, calm, &from_victim[k]);
    }
    MPI_Barrier(calm);
    for (int k = 0; k < operation_count; k++) {
        int victim = world_size - 1 - k;
        if (world_rank == victim) die_soon(lives[k]);
        watch(of[k].all, uniformity);
        watch(of[k].half, uniformity);
        watch(of[k].halves, uniformity);
        MPI_Send(NULL, 0, MPI_INT, victim, TAG, calm);
        be_struck(k, &of[k], operations[k], path);
        wait_for_death(&from_victim[k]);
    }
    leave_world();
    return 0;
}
