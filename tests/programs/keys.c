/* keys: what the info keys for the error scope do, written down as lines "rank nanoseconds info CASE VALUE".
 *
 *   keys --events DIR
 *
 * VALUE is what MPI_Comm_get_info has for a key, or - where it has none. Bad values are also reported as
 * "handler CASE CLASS TEXT" when the communicator's error handler is called.
 */
#include <mpi.h>
#include <string.h>

#include "diary.h"

static const char *present_case = "";

static void show(const char *name, MPI_Comm comm, const char *key) {
    char value[MPI_MAX_INFO_VAL + 1] = "-";
    int size = sizeof value, found;
    MPI_Info info;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, key, &size, value, &found);
    MPI_Info_free(&info);
    event("info %s %s", name, found ? value : "-");
}

static MPI_Info with(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (key) MPI_Info_set(info, key, value);
    return info;
}

static void set(MPI_Comm comm, const char *key, const char *value) {
    MPI_Info info = with(key, value);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

static void handler(MPI_Comm *comm, int *code, ...) {
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    (void)comm;
    MPI_Error_class(*code, &class);
    MPI_Error_string(*code, text, &length);
    event("handler %s %d %s", present_case, class, text);
}

int main(int count, char **arguments) {
    static const char *keys[] = {"mpix_error_scope", "mpix_error_range", "mpi_error_range", "mpix_assert_error_scope"};
    static const char *values[] = {"local", "process", "group", "global", "universe"};
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(arguments[2]);

    show("world", MPI_COMM_WORLD, keys[0]);
    show("self", MPI_COMM_SELF, keys[0]);
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < 5; v++) {
            char name[128];
            MPI_Comm comm;
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            set(comm, keys[k], values[v]);
            snprintf(name, sizeof name, "%s=%s:own", keys[k], values[v]);
            show(name, comm, keys[k]);
            snprintf(name, sizeof name, "%s=%s:main", keys[k], values[v]);
            show(name, comm, keys[0]);
            MPI_Comm_free(&comm);
        }

    MPI_Comm group, other, again;
    MPI_Request request;
    MPI_Info info = with("mpix_error_range", "group");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &group);
    show("dup_with_info", group, keys[0]);
    MPI_Comm_dup(group, &other);
    show("dup", other, keys[0]);
    MPI_Comm_dup(other, &again);
    show("dup-of-dup", again, keys[0]);
    MPI_Comm_free(&again);
    MPI_Comm_free(&other);
    MPI_Comm_idup(group, &other, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    show("idup", other, keys[0]);
    set(other, "mpix_error_scope", "local");
    show("changed", other, keys[0]);
    show("origin-of-changed", group, keys[0]);
    MPI_Comm_dup(other, &again);
    show("dup-of-changed", again, keys[0]);
    MPI_Comm_free(&again);
    MPI_Comm_free(&other);
    MPI_Comm_split(group, 0, 0, &other);
    show("split", other, keys[0]);
    MPI_Comm_free(&other);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &other);
    show("split_type", other, keys[0]);
    MPI_Comm_free(&other);
    MPI_Info_free(&info);

    /* Several spellings, one after the other: the last holds, whatever is asked for. */
    set(group, "mpi_error_range", "universe");
    show("last:range", group, "mpix_error_range");
    show("last:other", group, "mpi_error_range");
    show("last:unused", group, "mpix_assert_error_scope");
    set(group, "mpix_error_scope", "process");
    show("last:main", group, "mpix_error_range");

    MPI_Errhandler errors;
    MPI_Comm_create_errhandler(handler, &errors);
    MPI_Comm_set_errhandler(group, errors);
    set(group, "mpix_error_scope", "group");
    present_case = "set";
    set(group, "mpix_error_scope", "everybody");
    show("bad", group, keys[0]);
    present_case = "set-alias";
    set(group, "mpix_assert_error_scope", "Group");
    show("bad-alias:own", group, "mpix_assert_error_scope");
    show("bad-alias:main", group, keys[0]);
    present_case = "dup";
    info = with("mpix_error_scope", "nobody");
    MPI_Comm_dup_with_info(group, info, &other);
    show("bad-dup", other, keys[0]);
    MPI_Comm_free(&other);
    MPI_Info_free(&info);
    MPI_Errhandler_free(&errors);
    MPI_Comm_free(&group);
    event("finalized %d", MPI_Finalize());
    return 0;
}
