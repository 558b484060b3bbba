/* Components of ringwatch in every rank: `hook` (start and end of MPI) and `coll` (a place between the discovery of the
 * collective components and the first communicator, and news of every communicator; selected without a function).
 * Declared without Open MPI's headers: the packaged ones do not compile, and these two structs are the same in every
 * release from 5.0 to 6.0. */
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
    .base = {BASE("hook", 1, 0, 0), .open = rw_rank_open, .close = rw_rank_close},
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

const int rw_ompi_tables = 2;
