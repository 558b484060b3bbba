/* What PRRTE 3.0.5 and later know of jobs, nodes and processes (src/runtime/prte_globals.h, src/mca/rmaps/rmaps_types.h).
 * The packages ship no usable PRRTE headers, hence the declarations; PRRTE's own classes say at run time whether they are
 * as long as these (rw_prte3_knows_nodes). */
#ifndef RINGWATCH_PRTE3_H
#define RINGWATCH_PRTE3_H

#include <hwloc.h>

#include "pmix.h"
#include "src/class/pmix_list.h"
#include "src/class/pmix_pointer_array.h"
#include "src/util/pmix_cmd_line.h"

struct topology { /* the head of prte_topology_t */
    pmix_object_t super;
    int index;
    hwloc_topology_t topology;
};

struct node { /* prte_node_t */
    pmix_list_item_t super;
    int32_t index;
    char *name;
    char *raw_name;
    char **aliases;
    struct proc *daemon;
    hwloc_cpuset_t available;
    hwloc_cpuset_t cached;
    uint16_t num_procs;
    pmix_pointer_array_t *procs;
    uint16_t next_node_rank;
    int8_t state;
    int32_t slots;
    int32_t slots_available;
    int32_t slots_inuse;
    int32_t slots_max;
    struct topology *topology;
    uint8_t flags;
    pmix_list_t attributes;
};

struct map { /* prte_job_map_t */
    pmix_object_t super;
    char *requested_mapper;
    char *last_mapper;
    uint16_t mapping;
    uint16_t ranking;
    uint16_t binding;
    bool rtos_set;
    int32_t num_new_daemons;
    pmix_rank_t first_daemon;
    int32_t num_nodes;
    pmix_pointer_array_t *nodes;
};

struct job { /* prte_job_t */
    pmix_list_item_t super;
    int exit_code;
    char **personality;
    void *schizo;
    pmix_nspace_t nspace;
    char *session_dir;
    int index;
    pmix_rank_t offset;
    pmix_pointer_array_t *apps;
    uint32_t num_apps;
    pmix_rank_t stdin_target;
    int32_t total_slots;
    pmix_rank_t num_procs;
    pmix_pointer_array_t *procs;
    struct map *map;
    struct node *bookmark;
    int32_t state;
    pmix_rank_t num_mapped;
    pmix_rank_t num_launched;
    pmix_rank_t num_reported;
    pmix_rank_t num_terminated;
    pmix_rank_t num_daemons_reported;
    pmix_rank_t num_ready_for_debug;
    pmix_proc_t originator;
    pmix_rank_t num_local_procs;
    uint16_t flags;
    pmix_list_t attributes;
    pmix_data_buffer_t launch_message;
    pmix_list_t children;
    pmix_nspace_t launcher;
    uint32_t num_traces;
    char **traces;
    pmix_cli_result_t command_line;
};

struct app { /* the head of prte_app_context_t */
    pmix_object_t super;
    struct job *job;
    uint32_t index;
    char *app;
    int32_t num_procs;
    pmix_pointer_array_t procs;
    int32_t state;
    pmix_rank_t first_rank;
    char **argv;
    char **env;
};

struct proc { /* prte_proc_t */
    pmix_list_item_t super;
    pmix_proc_t name;
    pmix_rank_t parent;
    pid_t pid;
    uint16_t local_rank;
    uint16_t node_rank;
    int32_t app_rank;
    uint16_t numa_rank;
    uint32_t last_error_state;
    uint32_t state;
    int32_t exit_code;
    uint32_t app_index;
    struct node *node;
    hwloc_obj_t object;
    char *cpuset;
    char *rml_uri;
    uint16_t flags;
    pmix_list_t attributes;
};

#endif
