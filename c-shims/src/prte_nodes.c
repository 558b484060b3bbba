/* PRRTE 3's accounts of its nodes: what processes that have ended leave free, and nodes that are lost. */
#include "src/include/pmix_config.h"
#include "src/include/pmix_globals.h"

#include "prte3.h"
#include "ringwatch_shims.h"

enum { NODE_STATE_DOWN = 2 };                                   /* src/mca/plm/plm_types.h */
enum { JOB_PES_PER_PROC = 277, JOB_HWT_CPUS = 279 };            /* src/util/attr.h */
enum { MAPPING_POLICY = 0xff, MAPPING_SEQ = 20, MAPPING_BYUSER = 22 }; /* src/mca/rmaps/rmaps_types.h */

typedef struct job *(*find_job)(const pmix_nspace_t nspace);
typedef bool (*find_attribute)(pmix_list_t *attributes, uint16_t key, void **data, pmix_data_type_t type);

bool rw_prte3_knows_nodes(const void *node, const void *map, const void *job, const void *proc)
{
    return sizeof(struct node) == ((const pmix_class_t *) node)->cls_sizeof
           && sizeof(struct map) == ((const pmix_class_t *) map)->cls_sizeof
           && sizeof(struct job) == ((const pmix_class_t *) job)->cls_sizeof
           && sizeof(struct proc) == ((const pmix_class_t *) proc)->cls_sizeof;
}

/* Of the processors to which a process is bound the mapper has taken all, or the first that was free (bind_generic and its
 * neighbours in rmaps_base_binding.c). */
static void free_processors(const struct job *job, const struct proc *proc, find_attribute attribute)
{
    struct node *node = proc->node;
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();
    if (NULL != taken && NULL != proc->cpuset && NULL != node->available && NULL != node->topology
        && 0 == hwloc_bitmap_list_sscanf(taken, proc->cpuset)) {
        pmix_list_t *attributes = (pmix_list_t *) &job->attributes;
        int policy = NULL == job->map ? 0 : job->map->mapping & MAPPING_POLICY;
        bool all = MAPPING_SEQ == policy || MAPPING_BYUSER == policy
                   || attribute(attributes, JOB_PES_PER_PROC, NULL, PMIX_UINT16);
        bool threads = attribute(attributes, JOB_HWT_CPUS, NULL, PMIX_BOOL);
        hwloc_bitmap_andnot(taken, taken, node->available);
        hwloc_obj_t first = hwloc_get_obj_inside_cpuset_by_type(node->topology->topology, taken,
                                                                threads ? HWLOC_OBJ_PU : HWLOC_OBJ_CORE, 0);
        if (all) {
            hwloc_bitmap_or(node->available, node->available, taken);
        } else if (NULL != first) {
            hwloc_bitmap_or(node->available, node->available, first->cpuset);
        }
    }
    hwloc_bitmap_free(taken);
}

/* PRRTE does the same for each process that is still in this list of its node, when the whole job has ended (check_complete
 * in state_dvm.c): whoever has been taken out is not counted twice. */
void rw_prte3_vacate(void *jobs, void *attributes, const char *nspace, uint32_t rank)
{
    pmix_nspace_t key;
    PMIX_LOAD_NSPACE(key, nspace);
    struct job *job = ((find_job) jobs)(key);
    struct proc *proc = NULL == job ? NULL : pmix_pointer_array_get_item(job->procs, (int) rank);
    struct node *node = NULL == proc ? NULL : proc->node;
    for (int n = 0; NULL != node && n < node->procs->size; n++) {
        if (proc == pmix_pointer_array_get_item(node->procs, n)) {
            node->slots_inuse -= 0 < node->slots_inuse;
            node->num_procs -= 0 < node->num_procs;
            free_processors(job, proc, (find_attribute) attributes);
            pmix_pointer_array_set_item(node->procs, n, NULL);
            PMIX_RELEASE(proc);
            return;
        }
    }
}

/* What a daemon knows of a job that has no processes left there is to be what one knows that never had any. Returns whether
 * other nodes have some. */
bool rw_prte3_is_elsewhere(struct job *job)
{
    struct map *map = job->map;
    for (int n = 0; n < map->nodes->size; n++) {
        struct node *node = pmix_pointer_array_get_item(map->nodes, n);
        if (NULL == node || NULL == node->daemon || pmix_globals.myid.rank != node->daemon->name.rank) {
            continue;
        }
        for (int k = 0; k < node->procs->size; k++) {
            struct proc *proc = pmix_pointer_array_get_item(node->procs, k);
            if (NULL != proc && PMIX_CHECK_NSPACE(proc->name.nspace, job->nspace)) {
                node->num_procs -= 0 < node->num_procs;
                pmix_pointer_array_set_item(node->procs, k, NULL);
                PMIX_RELEASE(proc);
            }
        }
        pmix_pointer_array_set_item(map->nodes, n, NULL);
        map->num_nodes--;
        PMIX_RELEASE(node);
    }
    job->num_local_procs = 0;
    return 0 < map->num_nodes;
}

void rw_prte3_node_is_lost(void *pool, uint32_t daemon)
{
    pmix_pointer_array_t *nodes = *(pmix_pointer_array_t **) pool;
    for (int n = 0; n < nodes->size; n++) {
        struct node *node = pmix_pointer_array_get_item(nodes, n);
        if (NULL != node && NULL != node->daemon && daemon == node->daemon->name.rank) {
            node->state = NODE_STATE_DOWN;
        }
    }
}
