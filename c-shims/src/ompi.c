/* Components of ringwatch in every rank: `hook` (start and end of MPI), `coll` (a place between the discovery of the
 * collective components and the first communicator, and news of every communicator; selected without a function), `osc`
 * and `io` (a place around the making of every window and of every file, of which another component does the work).
 * Declared without Open MPI's headers: the packaged ones do not compile. */
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringwatch_shims.h"

struct base { /* mca_base_component_2_1_0_t */
    int mca_major, mca_minor, mca_release;
    char project[16];
    int project_major, project_minor, project_release;
    char type[32];
    int type_major, type_minor, type_release;
    char name[64];
    int major, minor, release;
    int (*open)(void);
    int (*close)(void);
    int (*query)(void **, int *);
    int (*register_parameters)(void);
    int32_t flags;
    char reserved[28];
};

struct data { /* mca_base_component_data_2_0_0_t */
    uint32_t parameters;
    char reserved[32];
};

#define BASE(kind, a, b, c)                                                                                           \
    .mca_major = 2, .mca_minor = 1, .project = "ompi", .type = kind, .type_major = a, .type_minor = b,                \
    .type_release = c, .name = "ringwatch", .minor = 1

/* ---- hook 1.0.0 ---- */

typedef void (*init_hook)(int, char **, int, int *);

struct hook { /* ompi_hook_base_component_1_0_0_t */
    struct base base;
    struct data data;
    void (*initialized_top)(int *);
    void (*initialized_bottom)(int *);
    void (*init_thread_top)(int *, char ***, int, int *);
    void (*init_thread_bottom)(int *, char ***, int, int *);
    void (*finalized_top)(int *);
    void (*finalized_bottom)(int *);
    init_hook init_top;
    init_hook init_top_post_opal;
    init_hook init_bottom;
    void (*init_error)(int, char **, int, int *);
    void (*finalize_top)(void);
    void (*finalize_bottom)(void);
};

static void init_bottom(int argc, char **argv, int requested, int *provided)
{
    (void) argc, (void) argv, (void) requested, (void) provided;
    rw_rank_init_done();
}

static void finalize_bottom(void)
{
    (void) rw_rank_close();
}

static const struct hook hook_component = {
    .base = {BASE("hook", 1, 0, 0), .open = rw_rank_open, .close = rw_rank_close,
             .register_parameters = rw_rank_register_recovery},
    .init_bottom = init_bottom,
    .finalize_top = rw_rank_finalize_begins,
    .finalize_bottom = finalize_bottom,
};
RW_EXPORTED_TABLE(mca_hook_ringwatch_component, hook_component)

/* ---- coll 2.4.0 (Open MPI 5.0) ---- */

struct coll { /* mca_coll_base_component_2_4_0_t */
    struct base base;
    struct data data;
    int (*init_query)(bool progress_threads, bool mpi_threads);
    void *(*comm_query)(void *communicator, int *priority);
};

static int init_query(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads, (void) mpi_threads;
    return rw_rank_collectives_found();
}

/* The last to be chosen: it sees the functions of all others, and has none. */
enum { HIGHEST_PRIORITY = 100 };

static void *comm_query(void *communicator, int *priority)
{
    void *module = rw_rank_communicator(communicator);
    *priority = NULL == module ? -1 : HIGHEST_PRIORITY;
    return module;
}

static const struct coll coll_component = {
    .base = {BASE("coll", 2, 4, 0), .register_parameters = rw_rank_register},
    .init_query = init_query,
    .comm_query = comm_query,
};
RW_EXPORTED_TABLE(mca_coll_ringwatch_component, coll_component)

/* ---- osc 3.0.0 ---- */

struct osc { /* ompi_osc_base_component_2_0_0_t */
    struct base base;
    struct data data;
    int (*init)(bool progress_threads, bool mpi_threads);
    int (*query)(void *window, void **memory, size_t size, int unit, void *communicator, void *info, int flavor);
    int (*select)(void *window, void **memory, size_t size, int unit, void *communicator, void *info, int flavor,
                  int *model);
    int (*finalize)(void);
};

static int is_fault_tolerant(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads, (void) mpi_threads;
    return rw_rank_is_served();
}

static int query_window(void *window, void **memory, size_t size, int unit, void *communicator, void *info, int flavor)
{
    (void) memory, (void) size, (void) unit, (void) info, (void) flavor;
    /* Open MPI's own component for shared memory says 100. */
    return rw_rank_wants_window(window, communicator) ? INT_MAX : -1;
}

static int select_window(void *window, void **memory, size_t size, int unit, void *communicator, void *info, int flavor,
                         int *model)
{
    (void) info;
    return rw_rank_make_window(window, memory, size, unit, communicator, flavor, model);
}

static int finalize_windows(void)
{
    return 0;
}

static const struct osc osc_component = {
    .base = {BASE("osc", 3, 0, 0)},
    .init = is_fault_tolerant,
    .query = query_window,
    .select = select_window,
    .finalize = finalize_windows,
};
RW_EXPORTED_TABLE(mca_osc_ringwatch_component, osc_component)

/* ---- io 2.0.0 ---- */

enum { FILE_FUNCTIONS = 53 };

struct file_module { /* mca_io_base_module_2_0_0_t */
    int (*open)(void *communicator, const char *name, int mode, void *info, void *file);
    int (*close)(void *file);
    void *others[FILE_FUNCTIONS - 2];
};

struct io { /* mca_io_base_component_2_0_0_t */
    struct base base;
    struct data data;
    int (*init_query)(bool progress_threads, bool mpi_threads);
    const struct file_module *(*file_query)(void *file, void **private_data, int *priority);
    int (*file_unquery)(void *file, void *private_data);
    int (*delete_query)(const char *name, void *info, void **private_data, bool *usable, int *priority);
    int (*delete_unquery)(const char *name, void *info, void *private_data);
    int (*delete_select)(const char *name, void *info, void *private_data);
    int (*register_representation)(const char *, void *, void *, void *, void *);
};

static int open_file(void *communicator, const char *name, int mode, void *info, void *file)
{
    (void) name, (void) mode, (void) info;
    return rw_rank_open_file(file, communicator, (void *) open_file);
}

/* Of a file that was not opened. */
static int close_file(void *file)
{
    (void) file;
    return 0;
}

static const struct file_module file_module = {.open = open_file, .close = close_file};

static const struct file_module *query_file(void *file, void **private_data, int *priority)
{
    *private_data = NULL;
    *priority = HIGHEST_PRIORITY;
    return rw_rank_wants_file(file) ? &file_module : NULL;
}

static int unquery_file(void *file, void *private_data)
{
    (void) file, (void) private_data;
    return 0;
}

static int query_deletion(const char *name, void *info, void **private_data, bool *usable, int *priority)
{
    (void) name, (void) info, (void) private_data;
    *usable = false;
    *priority = -1;
    return 0;
}

static int no_deletion(const char *name, void *info, void *private_data)
{
    (void) name, (void) info, (void) private_data;
    return 0;
}

static int register_representation(const char *name, void *read, void *write, void *extent, void *state)
{
    (void) name, (void) read, (void) write, (void) extent, (void) state;
    return 0;
}

static const struct io io_component = {
    .base = {BASE("io", 2, 0, 0)},
    .init_query = is_fault_tolerant,
    .file_query = query_file,
    .file_unquery = unquery_file,
    .delete_query = query_deletion,
    .delete_unquery = no_deletion,
    .delete_select = no_deletion,
    .register_representation = register_representation,
};
RW_EXPORTED_TABLE(mca_io_ringwatch_component, io_component)

/* ---- help messages ---- */

/* opal_show_help and opal_show_vhelp, which are variables (opal/util/show_help.h). */
typedef int (*show_help)(const char *file, const char *topic, int header, ...);
typedef int (*show_list)(const char *file, const char *topic, int header, va_list values);
static const show_list *stock_show;

static int show_what_says_something(const char *file, const char *topic, int header, ...)
{
    int status = 0;
    va_list values;
    va_start(values, header);
    if (rw_rank_has_to_say(file, topic)) {
        status = (*stock_show)(file, topic, header, values);
    }
    va_end(values);
    return status;
}

void rw_ompi_look_at_help(void *help, const void *list)
{
    stock_show = list;
    *(show_help *) help = show_what_says_something;
}

const int rw_ompi_tables = 4;
