/* keys: what the info keys for a property of communicators do, written down as lines "rank nanoseconds info CASE VALUE".
 *
 *   keys --events DIR [scope|uniform]
 *
 * The property is the error scope, or the error uniformity.
 *
 * It spawns a process of itself, whose communicators are spawned-world and spawned-parent; spawner-child is the one to it.
 * VALUE is what MPI_Comm_get_info has for a key, or - where it has none. Bad values are also reported as
 * "handler CASE CLASS TEXT" when the communicator's error handler is called.
 */
#include <mpi.h>
#include <string.h>

#include "diary.h"

/* The spellings of its key, all words for its values, and what the cases use: a spelling with which some value is set at
 * the beginning, one with which it gets another value later, one that is not used, and a word for the default. */
static const struct property {
    const char *keys[5], *values[6], *early, *some, *late, *other, *unused, *none;
} scope = {
    .keys = {"mpix_error_scope", "mpix_error_range", "mpi_error_range", "mpix_assert_error_scope"},
    .values = {"local", "process", "group", "global", "universe"},
    .early = "mpix_error_range",
    .some = "group",
    .late = "mpi_error_range",
    .other = "universe",
    .unused = "mpix_assert_error_scope",
    .none = "process",
}, uniformity = {
    .keys = {"mpix_error_uniform", "mpi_error_uniform", "mpix_assert_error_uniform"},
    .values = {"local", "create", "construct", "coll", "all"},
    .early = "mpi_error_uniform",
    .some = "coll",
    .late = "mpix_error_uniform",
    .other = "construct",
    .unused = "mpix_assert_error_uniform",
    .none = "local",
};

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
    const struct property *property = count > 3 && !strcmp(arguments[3], "uniform") ? &uniformity : &scope;
    const char *const *keys = property->keys, *const *values = property->values;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    open_diary(arguments[2]);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        show("spawned-world", MPI_COMM_WORLD, keys[0]);
        show("spawned-parent", parent, keys[0]);
        MPI_Finalize();
        return 0;
    }

    show("world", MPI_COMM_WORLD, keys[0]);
    show("self", MPI_COMM_SELF, keys[0]);
    for (int k = 0; keys[k]; k++)
        for (int v = 0; values[v]; v++) {
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
    MPI_Info info = with(property->early, property->some);
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
    set(other, keys[0], "local");
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
    set(group, property->late, property->other);
    show("last:range", group, property->early);
    show("last:other", group, property->late);
    show("last:unused", group, property->unused);
    set(group, keys[0], property->none);
    show("last:main", group, property->early);

    MPI_Errhandler errors;
    MPI_Comm_create_errhandler(handler, &errors);
    MPI_Comm_set_errhandler(group, errors);
    set(group, keys[0], property->some);
    present_case = "set";
    set(group, keys[0], "everybody");
    show("bad", group, keys[0]);
    present_case = "set-alias";
    set(group, property->unused, "Group");
    show("bad-alias:own", group, property->unused);
    show("bad-alias:main", group, keys[0]);
    present_case = "dup";
    info = with(keys[0], "nobody");
    MPI_Comm_dup_with_info(group, info, &other);
    show("bad-dup", other, keys[0]);
    MPI_Comm_free(&other);
    MPI_Info_free(&info);
    MPI_Errhandler_free(&errors);
    MPI_Comm_free(&group);
    MPI_Comm child;
    MPI_Comm_spawn(arguments[0], arguments + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
    show("spawner-child", child, keys[0]);
    event("finalized %d", MPI_Finalize());
    return 0;
}
