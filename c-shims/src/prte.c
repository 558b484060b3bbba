/* PRRTE 3: its table of process states and its list of awaited messages, seen through structs that are the same in every
 * 3.0 release (checked against libprrte's version before use).  The packages ship no usable PRRTE headers, hence the
 * declarations. */
#include "src/include/pmix_config.h"

#include <event.h>

#include "pmix.h"
#include "pmix_common.h"
#include "src/class/pmix_list.h"
#include "src/class/pmix_pointer_array.h"
#include "src/mca/base/pmix_mca_base_var.h"

#include "ringwatch_shims.h"

enum { STATE_TERMINATED = 20, STATE_ERROR = 50, STATE_COMM_FAILED = 56 };
enum { TAG_DIRECT_MODEX = 50, TAG_DIRECT_MODEX_ANSWER = 51 }; /* src/rml/rml_types.h */

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

typedef void (*message_callback)(int status, pmix_proc_t *sender, pmix_data_buffer_t *message, uint32_t tag, void *data);

struct posted_receive { /* prte_rml_posted_recv_t, src/rml/rml_types.h */
    pmix_list_item_t super;
    bool buffer_data;
    pmix_proc_t peer;
    uint32_t tag;
    bool persistent;
    message_callback callback;
    void *data;
};

struct messages { /* the head of prte_rml_base_t, src/rml/rml.h */
    int outputs[2];
    int max_retries;
    pmix_list_t posted;
};

struct process_info { /* the head of prte_process_info_t, src/util/proc_info.h */
    pmix_proc_t name;
    pmix_proc_t hnp;
    char *hnp_uri;
    pmix_proc_t parent;
    pid_t hnp_pid;
    pmix_rank_t daemons;
};

struct job { /* the head of prte_job_t since 3.0.5, src/runtime/prte_globals.h */
    pmix_list_item_t super;
    int exit_code;
    char **personality;
    void *schizo;
    pmix_nspace_t nspace;
    char *session_dir;
    int index;
    pmix_rank_t offset;
    pmix_pointer_array_t *apps;
};

struct app { /* the head of prte_app_context_t, same file */
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

/* PRRTE's own callback for the message of a daemon that asks for the addresses of a process of this node, and its function
 * to send one. */
static message_callback stock_asked;
static int (*send_message)(pmix_rank_t daemon, pmix_data_buffer_t *message, uint32_t tag);

/* As PRRTE's own answer (_mdxresp, send_error). */
static bool has_no_address(pmix_rank_t daemon, pmix_proc_t *proc, int request)
{
    pmix_status_t status = PMIX_ERR_NOT_FOUND;
    pmix_data_buffer_t *answer = PMIx_Data_buffer_create();
    if (NULL != answer && PMIX_SUCCESS == PMIx_Data_pack(NULL, answer, &status, 1, PMIX_STATUS)
        && PMIX_SUCCESS == PMIx_Data_pack(NULL, answer, proc, 1, PMIX_PROC)
        && PMIX_SUCCESS == PMIx_Data_pack(NULL, answer, &request, 1, PMIX_INT)
        && 0 == send_message(daemon, answer, TAG_DIRECT_MODEX_ANSWER)) {
        return true;
    }
    if (NULL != answer) {
        PMIx_Data_buffer_release(answer);
    }
    return false;
}

static void on_asked(int status, pmix_proc_t *sender, pmix_data_buffer_t *message, uint32_t tag, void *data)
{
    pmix_proc_t proc;
    int request;
    int32_t one = 1;
    char *start = message->unpack_ptr;
    bool read = PMIX_SUCCESS == PMIx_Data_unpack(NULL, message, &proc, &one, PMIX_PROC);
    one = 1;
    read = read && PMIX_SUCCESS == PMIx_Data_unpack(NULL, message, &request, &one, PMIX_INT);
    message->unpack_ptr = start;
    if (read && rw_plugin_has_ended(proc.nspace, proc.rank) && has_no_address(sender->rank, &proc, request)) {
        return;
    }
    stock_asked(status, sender, message, tag, data);
}

void rw_prte3_answer_for_the_ended(void *messages, void *send)
{
    struct posted_receive *receive;
    PMIX_LIST_FOREACH (receive, &((struct messages *) messages)->posted, struct posted_receive) {
        if (TAG_DIRECT_MODEX == receive->tag && on_asked != receive->callback) {
            send_message = (int (*)(pmix_rank_t, pmix_data_buffer_t *, uint32_t)) send;
            stock_asked = receive->callback;
            receive->callback = on_asked;
        }
    }
}

/* Where PRRTE, which keeps its parameters in PMIx's registry, has the value of one that nobody has set. */
static void *unset(const char *framework, const char *component, const char *parameter)
{
    void *storage = NULL;
    pmix_mca_base_var_source_t source = PMIX_MCA_BASE_VAR_SOURCE_MAX;
    int index = pmix_mca_base_var_find("prte", framework, component, parameter);
    if (0 > index || PMIX_SUCCESS != pmix_mca_base_var_get_value(index, &storage, &source, NULL)
        || PMIX_MCA_BASE_VAR_SOURCE_DEFAULT != source) {
        return NULL;
    }
    return storage;
}

bool rw_prte3_switch_on(const char *framework, const char *parameter)
{
    bool *storage = unset(framework, "base", parameter);
    if (NULL != storage) {
        *storage = true;
    }
    return NULL != storage;
}

bool rw_prte3_set_number(const char *framework, const char *component, const char *parameter, int number)
{
    int *storage = unset(framework, component, parameter);
    if (NULL != storage) {
        *storage = number;
    }
    return NULL != storage;
}

bool rw_prte3_tell_daemons(void *command_line, const char *parameter, const char *value)
{
    char ***words = command_line;
    return PMIX_SUCCESS == PMIx_Argv_append_nosize(words, "--prtemca")
           && PMIX_SUCCESS == PMIx_Argv_append_nosize(words, parameter)
           && PMIX_SUCCESS == PMIx_Argv_append_nosize(words, value);
}

bool rw_prte3_give_ranks(void *environment, const char *name, const char *value)
{
    return PMIX_SUCCESS == PMIx_Setenv(name, value, false, environment);
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

const char *rw_prte3_job_variable(void *function, const char *nspace, const char *name)
{
    pmix_nspace_t key;
    PMIX_LOAD_NSPACE(key, nspace);
    struct job *job = ((struct job *(*)(const pmix_nspace_t)) function)(key);
    size_t length = strlen(name);
    for (int n = 0; NULL != job && NULL != job->apps && n < job->apps->size; n++) {
        struct app *app = pmix_pointer_array_get_item(job->apps, n);
        for (char **entry = NULL == app ? NULL : app->env; NULL != entry && NULL != *entry; entry++) {
            if (0 == strncmp(*entry, name, length) && '=' == (*entry)[length]) {
                return *entry + length + 1;
            }
        }
    }
    return NULL;
}
