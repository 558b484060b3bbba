/* owned: survivors use one window or file after the other, each with an error scope, while a rank dies; they write down
 * how each operation ended.
 *
 *   owned --events DIR --scope SCOPE --victim-is WHERE [--shared] OP...
 *   owned --events DIR --keys
 *   owned --events DIR --scope SCOPE --holds-lock [--later SECONDS] OP
 *
 *   SCOPE    local, group or global
 *   --shared windows are of memory that their members share
 *   --blocking-fence
 *            these have the info key blocking_fence
 *   --holds-lock
 *            the victim holds the lock of rank 0's part of the window
 *   --later  rank 0 joins the others so long after the death
 *   --answers-late
 *            a victim that gets SIGUSR1 answers what it was asked meanwhile
 *   WHERE    inside: the victim is a member; outside: it is not; spawned: it belongs to a job that all ranks have spawned
 *   OP       an operation that all members enter, except for rank 0: it joins them once it knows of the death; or, with
 *            "after_" before it, one that every survivor calls when it knows of the death, with the victim, or with rank 0
 *            where that is no member or "_living" follows; "win_lock_held" waits for the lock that rank 0 has of its own part
 *
 * For operation k, counted from 0, the victim is the rank size - 1 - k, which sleeps, or of the spawned ones the rank k.
 * The diaries of the spawned ones have numbers from size on. Events are lines "rank nanoseconds
 * event details": "blocked k" before operation k, "result k CLASS" after it, and "freed k CLASS" for the end of its window
 * or file. With --keys what the info keys do: "info CASE VALUE", and "handler CASE CLASS" when an error handler is called.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "death.h"
#include "diary.h"
#include "victims.h"

enum { MOST_OPERATIONS = 6, NUMBERS = 100, TAG = 7 };

static int world_size, memory[MOST_OPERATIONS][NUMBERS], data[NUMBERS];
/* Keeps the scope local: here deaths are looked for. */
static MPI_Comm calm;
static MPI_Request from_victim[MOST_OPERATIONS];
static MPI_Win windows[MOST_OPERATIONS];
static MPI_File files[MOST_OPERATIONS];

static void wake(int number) { (void)number; }

static MPI_Info with(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    return info;
}

static bool is_of_window(const char *name) { return strstr(name, "win_"); }

static int on_file(MPI_File file, const char *name) {
    MPI_Offset at = world_rank * (MPI_Offset)sizeof data;
    if (strstr(name, "write_at_all")) return MPI_File_write_at_all(file, at, data, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    if (strstr(name, "read_at_all")) return MPI_File_read_at_all(file, at, data, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    if (strstr(name, "write_ordered")) return MPI_File_write_ordered(file, data, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    if (strstr(name, "write_at")) return MPI_File_write_at(file, at, data, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    if (strstr(name, "set_view")) return MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    if (strstr(name, "set_size")) return MPI_File_set_size(file, sizeof data);
    return MPI_File_sync(file);
}

static int first_error(int one, int other) { return one != MPI_SUCCESS ? one : other; }

static int on_window(MPI_Win window, const char *name, int peer) {
    MPI_Group all, one;
    int code;
    if (strstr(name, "fence")) return MPI_Win_fence(0, window);
    if (strstr(name, "lock_all")) {
        code = MPI_Win_lock_all(0, window);
        return first_error(code, MPI_Win_unlock_all(window));
    }
    if (strstr(name, "lock_held")) {
        code = world_rank == 0 ? MPI_SUCCESS : MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        return first_error(code, MPI_Win_unlock(0, window));
    }
    if (strstr(name, "lock")) {
        code = MPI_Win_lock(strstr(name, "lock_alone") ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, peer, 0, window);
        return first_error(code, MPI_Win_unlock(peer, window));
    }
    if (strstr(name, "put_fence")) {
        code = MPI_Put(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window);
        return first_error(code, MPI_Win_fence(0, window));
    }
    if (strstr(name, "put_until")) {
        /* No other call of MPI. */
        do code = first_error(MPI_Put(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window), MPI_Win_flush(peer, window));
        while (code == MPI_SUCCESS);
        return code;
    }
    if (strstr(name, "_put")) {
        code = MPI_Put(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window);
        return first_error(code, MPI_Win_flush(peer, window));
    }
    if (strstr(name, "get")) {
        code = MPI_Get(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window);
        return first_error(code, MPI_Win_flush(peer, window));
    }
    if (strstr(name, "accumulate")) {
        code = MPI_Accumulate(data, NUMBERS, MPI_INT, peer, 0, NUMBERS, MPI_INT, MPI_SUM, window);
        return first_error(code, MPI_Win_flush_all(window));
    }
    if (strstr(name, "put_each")) {
        /* What the dead does not answer keeps nobody from ending what he does with the living. */
        for (int to = 0; to <= peer; to += peer) MPI_Put(data, 1, MPI_INT, to, 0, 1, MPI_INT, window);
        if (MPI_Win_flush(0, window) != MPI_SUCCESS) return MPI_ERR_OTHER;
        return MPI_Win_flush(peer, window);
    }
    if (strstr(name, "rput_wait")) {
        MPI_Request request;
        code = MPI_Rput(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window, &request);
        return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (strstr(name, "rput")) {
        MPI_Request request;
        code = MPI_Rput(data, 1, MPI_INT, peer, 0, 1, MPI_INT, window, &request);
        return first_error(code, MPI_Win_flush_all(window));
    }
    if (strstr(name, "fetch")) {
        code = MPI_Fetch_and_op(data, data + 1, MPI_INT, peer, 0, MPI_SUM, window);
        return first_error(code, MPI_Win_flush(peer, window));
    }
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &peer, &one);
    code = strstr(name, "start") ? MPI_Win_start(one, 0, window) : MPI_Win_post(one, 0, window);
    if (strstr(name, "wait") && code == MPI_SUCCESS) code = MPI_Win_wait(window);
    MPI_Group_free(&all);
    MPI_Group_free(&one);
    return code;
}

/* Whether the operation needs an epoch that is open. */
static bool needs_epoch(const char *name) {
    bool moves = strstr(name, "put") || strstr(name, "get") || strstr(name, "fetch") || strstr(name, "accumulate");
    return moves && !strstr(name, "fence");
}

static const char *present_case = "";

static void handle_window(MPI_Win *window, int *code, ...) {
    (void)window;
    event("handler %s %d", present_case, class_of(*code));
}

static void handle_file(MPI_File *file, int *code, ...) {
    (void)file;
    event("handler %s %d", present_case, class_of(*code));
}

static void handle_communicator(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    event("handler %s %d", present_case, class_of(*code));
}

static void show(const char *name, MPI_Info info, const char *key) {
    char value[MPI_MAX_INFO_VAL + 1] = "-";
    int size = sizeof value, found;
    MPI_Info_get_string(info, key, &size, value, &found);
    MPI_Info_free(&info);
    event("info %s %s", name, found ? value : "-");
}

static void show_window(const char *name, MPI_Win window, const char *key) {
    MPI_Info info;
    MPI_Win_get_info(window, &info);
    show(name, info, key);
}

static void show_file(const char *name, MPI_File file, const char *key) {
    MPI_Info info;
    MPI_File_get_info(file, &info);
    show(name, info, key);
}

static void keys_of_windows(MPI_Comm comm) {
    MPI_Win window;
    MPI_Errhandler handler;
    MPI_Win_create_errhandler(handle_window, &handler);
    MPI_Win_create(data, sizeof data, sizeof *data, MPI_INFO_NULL, comm, &window);
    show_window("window", window, "mpix_error_scope");
    MPI_Win_set_errhandler(window, handler);
    MPI_Win_set_info(window, with("mpi_error_range", "universe"));
    show_window("window-set", window, "mpix_error_scope");
    show_window("window-alias", window, "mpi_error_range");
    present_case = "window-bad";
    MPI_Win_set_info(window, with("mpix_error_scope", "everybody"));
    show_window("window-after-bad", window, "mpix_error_scope");
    MPI_Win_set_info(window, with("mpix_error_uniform", "all"));
    show_window("window-uniform", window, "mpix_error_uniform");
    MPI_Win_free(&window);
    MPI_Win_create(data, sizeof data, sizeof *data, with("mpix_error_range", "local"), comm, &window);
    show_window("window-made-with", window, "mpix_error_scope");
    MPI_Win_free(&window);
    present_case = "window-made-bad";
    MPI_Win_create(data, sizeof data, sizeof *data, with("mpix_error_uniform", "some"), comm, &window);
    show_window("window-made-bad", window, "mpix_error_uniform");
    MPI_Win_free(&window);
}

static void keys_of_files(MPI_Comm comm, const char *path) {
    MPI_File file;
    MPI_Errhandler handler;
    MPI_File_create_errhandler(handle_file, &handler);
    MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    show_file("file", file, "mpix_error_scope");
    MPI_File_set_errhandler(file, handler);
    MPI_File_set_info(file, with("mpix_assert_error_scope", "global"));
    show_file("file-set", file, "mpix_error_scope");
    present_case = "file-bad";
    MPI_File_set_info(file, with("mpix_error_uniform", "everything"));
    show_file("file-after-bad", file, "mpix_error_uniform");
    MPI_File_close(&file);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    present_case = "file-opened-bad";
    MPI_File_open(comm, path, MPI_MODE_RDWR, with("mpix_error_scope", "nobody"), &file);
    show_file("file-opened-bad", file, "mpix_error_scope");
    MPI_File_close(&file);
    MPI_File_open(comm, path, MPI_MODE_RDWR, with("mpix_error_uniform", "coll"), &file);
    show_file("file-opened-with", file, "mpix_error_uniform");
    MPI_File_close(&file);
}

static void keys(const char *path) {
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, with("mpix_error_scope", "group"), &comm);
    MPI_Comm_create_errhandler(handle_communicator, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    keys_of_windows(comm);
    keys_of_files(comm, path);
}

int main(int count, char **arguments) {
    const char *dir = "", *scope = "local", *where = "inside", *operations[MOST_OPERATIONS];
    int operation_count = 0, provided, later = 0;
    bool shows_keys = false, holds_lock = false, shares = false, blocks = false, answers = false;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--scope")) scope = arguments[++i];
        else if (!strcmp(arguments[i], "--victim-is")) where = arguments[++i];
        else if (!strcmp(arguments[i], "--keys")) shows_keys = true;
        else if (!strcmp(arguments[i], "--holds-lock")) holds_lock = true;
        else if (!strcmp(arguments[i], "--later")) later = atoi(arguments[++i]);
        else if (!strcmp(arguments[i], "--shared")) shares = true;
        else if (!strcmp(arguments[i], "--blocking-fence")) blocks = true;
        else if (!strcmp(arguments[i], "--answers-late")) answers = true;
        else if (operation_count < MOST_OPERATIONS) operations[operation_count++] = arguments[i];
    }
    be_victim_if_spawned(dir);
    MPI_Init_thread(&count, &arguments, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    char path[600];
    open_diary(dir);
    snprintf(path, sizeof path, "%s/data", dir);
    if (shows_keys) {
        keys(path);
        event("finalized %d", MPI_Finalize());
        return 0;
    }

    MPI_Info fence = blocks ? with("blocking_fence", "true") : MPI_INFO_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &calm);
    bool inside = !strcmp(where, "inside"), spawns = !strcmp(where, "spawned");
    MPI_Comm victims = spawns ? spawn_victims(arguments, operation_count, calm) : calm;
    for (int k = 0; k < operation_count; k++) {
        int members = spawns ? world_size : world_size - 1 - k + inside;
        MPI_Comm comm;
        MPI_Comm_split(calm, world_rank < members ? 1 : MPI_UNDEFINED, world_rank, &comm);
        if (comm == MPI_COMM_NULL) continue;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        if (is_of_window(operations[k])) {
            int *allocated;
            if (shares)
                MPI_Win_allocate_shared(sizeof memory[k], sizeof **memory, fence, comm, &allocated, &windows[k]);
            else MPI_Win_create(memory[k], sizeof memory[k], sizeof **memory, MPI_INFO_NULL, comm, &windows[k]);
            MPI_Win_set_errhandler(windows[k], MPI_ERRORS_RETURN);
            if (needs_epoch(operations[k])) MPI_Win_lock_all(0, windows[k]);
            if (strstr(operations[k], "put_fence")) MPI_Win_fence(0, windows[k]);
            if (strstr(operations[k], "lock_held") && world_rank == 0)
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[k]);
        } else
            MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[k]);
    }
    static int never[MOST_OPERATIONS];
    for (int k = 0; k < operation_count; k++)
        MPI_Irecv(&never[k], 1, MPI_INT, spawns ? k : world_size - 1 - k, TAG, victims, &from_victim[k]);
    if (holds_lock && world_rank == world_size - 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[0]);
    MPI_Barrier(calm);
    event("ready");
    for (int k = 0; k < operation_count; k++) {
        const char *name = operations[k];
        int victim = world_size - 1 - k, code;
        char away[600];
        snprintf(away, sizeof away, "%s/away.%d", dir, k);
        if (!spawns && world_rank == victim) {
            if (answers) signal(SIGUSR1, wake);
            creat(away, 0600);
            do pause();
            while (!answers);
            for (int any;;) MPI_Iprobe(0, TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
        }
        /* The scope global counts deaths from here on: all before must be known. */
        if (k > 0) wait_for_death(&from_victim[k - 1]);
        bool is_after = !strncmp(name, "after_", 6);
        if (is_of_window(name)) MPI_Win_set_info(windows[k], with("mpix_error_scope", scope));
        else MPI_File_set_info(files[k], with("mpix_error_scope", scope));
        /* Nothing must be answered by one who is about to leave MPI, and all that others ask meanwhile. */
        for (int any; !spawns && access(away, F_OK); usleep(200)) MPI_Iprobe(0, TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
        event("blocked %d", k);
        if (is_after || world_rank == 0) wait_for_death(&from_victim[k]);
        long long start = now_ns();
        for (int any; world_rank == 0 && now_ns() - start < later * 1000000000LL; usleep(200))
            MPI_Iprobe(0, TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
        int peer = inside && !strstr(name, "_living") ? victim : 0;
        code = is_of_window(name) ? on_window(windows[k], name, peer) : on_file(files[k], name);
        event("result %d %d", k, class_of(code));
        if (from_victim[k] != MPI_REQUEST_NULL) wait_for_death(&from_victim[k]);
        if (inside) event("freed %d %d", k, class_of(is_of_window(name) ? MPI_Win_free(&windows[k]) : MPI_File_close(&files[k])));
    }
    if (spawns) MPI_Comm_free(&victims);
    event("done");
    event("finalized %d", MPI_Finalize());
    return 0;
}
