/* PRRTE 3 in prterun: its table of process states, seen through the two structs that are the same in every 3.0 release
 * (checked against libprrte's version before use).  The packages ship no usable PRRTE headers, hence the declarations. */
#include "src/include/pmix_config.h"

#include <event.h>

#include "pmix_common.h"
#include "src/class/pmix_list.h"
#include "src/mca/base/pmix_mca_base_var.h"

#include "ringwatch_shims.h"

enum { STATE_TERMINATED = 20, STATE_ERROR = 50, STATE_COMM_FAILED = 56 };

typedef void (*state_callback)(int fd, short what, void *caddy);

struct proc_state { /* prte_state_t, src/mca/state/state.h */
    pmix_list_item_t super;
    int32_t job_state;
    uint32_t proc_state;
    state_callback callback;
};

struct state_caddy { /* prte_state_caddy_t, same file */
    pmix_object_t super;
    struct event event;
    void *job;
    int32_t job_state;
    pmix_proc_t name;
    uint32_t proc_state;
};

struct process_info { /* the head of prte_process_info_t, src/util/proc_info.h */
    pmix_proc_t name;
    pmix_proc_t hnp;
    char *hnp_uri;
    pmix_proc_t parent;
    pid_t hnp_pid;
    pmix_rank_t daemons;
};

/* PRRTE's own callbacks: of processes that have ended, and of all errors. */
static state_callback stock_terminated, stock_error;

static void on_state(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    state_callback stock = STATE_TERMINATED == caddy->proc_state ? stock_terminated : stock_error;
    if (RW_PRTE_HANDLED == rw_plugin_proc_state(caddy->name.nspace, caddy->name.rank, caddy->proc_state)) {
        PMIX_RELEASE(caddy);
        return;
    }
    stock(fd, what, data);
}

/* PRRTE's own callback for errors of a whole job. With a null job, for which PRRTE leaves the state unset, it is told of
 * one error only: a message to a daemon could not be sent. */
static state_callback stock_job_error;

static void on_job_error(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (NULL == caddy->job && RW_PRTE_HANDLED == rw_plugin_send_failed()) {
        PMIX_RELEASE(caddy);
        return;
    }
    stock_job_error(fd, what, data);
}

bool rw_prte3_wrap(void *proc_states, void *job_states)
{
    struct proc_state *state;
    PMIX_LIST_FOREACH (state, (pmix_list_t *) job_states, struct proc_state) {
        if (STATE_ERROR == state->job_state && on_job_error != state->callback) {
            stock_job_error = state->callback;
            state->callback = on_job_error;
        }
    }
    PMIX_LIST_FOREACH (state, (pmix_list_t *) proc_states, struct proc_state) {
        if (on_state == state->callback) {
            continue;
        }
        if (STATE_TERMINATED == state->proc_state) {
            stock_terminated = state->callback;
            state->callback = on_state;
        } else if (STATE_ERROR == state->proc_state || STATE_COMM_FAILED == state->proc_state) {
            stock_error = state->callback;
            state->callback = on_state;
        }
    }
    return NULL != stock_terminated && NULL != stock_error && NULL != stock_job_error;
}

/* PRRTE keeps its parameters in PMIx's registry. */
void rw_prte3_switch_on(const char *parameter)
{
    bool *storage = NULL;
    int index = pmix_mca_base_var_find("prte", "state", "base", parameter);
    if (0 <= index && PMIX_SUCCESS == pmix_mca_base_var_get_value(index, &storage, NULL, NULL) && NULL != storage) {
        *storage = true;
    }
}

uint32_t rw_prte3_num_daemons(const void *process_info)
{
    return ((const struct process_info *) process_info)->daemons;
}

int rw_prte_daemon_of(void *function, const char *nspace, uint32_t rank)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    return (int) ((pmix_rank_t(*)(const pmix_proc_t *)) function)(&proc);
}

const char *rw_prte_hostname(void *function, const char *nspace, uint32_t rank)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    return ((char *(*)(const pmix_proc_t *)) function)(&proc);
}

void rw_prte_activate(void *function, const char *nspace, uint32_t rank, uint32_t state)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    ((void (*)(pmix_proc_t *, uint32_t)) function)(&proc, state);
}
