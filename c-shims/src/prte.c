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

#include "prte3.h"
#include "ringwatch_shims.h"

enum { STATE_TERMINATED = 20, STATE_ERROR = 50, STATE_COMM_FAILED = 56 };
enum { /* src/mca/plm/plm_types.h */
    JOB_STATE_MAP = 5,
    JOB_STATE_MAPPED = 6,
    JOB_STATE_TERMINATED = 31,
    JOB_STATE_DAEMONS_TERMINATED = 33,
    JOB_STATE_ERROR = 50,
    JOB_STATE_ABORT_ORDERED = 61,
    JOB_STATE_MAP_FAILED = 69
};
enum { JOB_FLAG_ERR_REPORTED = 0x4000, PROC_FLAG_TERM_REPORTED = 0x4000 }; /* src/util/attr.h */
enum { TAG_DIRECT_MODEX = 50, TAG_DIRECT_MODEX_ANSWER = 51 }; /* src/rml/rml_types.h */
enum { TAG_RINGWATCH = 0x7277 };                              /* above PRRTE's own, which end with 100 */

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
    struct job *job;
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

/* PRRTE's own callbacks: of processes that have ended, and of all errors. */
static state_callback stock_terminated, stock_error;

/* Its list of jobs, and its functions to find one there, and to tell PMIx of one. */
static pmix_pointer_array_t **jobs;
static struct job *(*find_job)(const pmix_nspace_t nspace);
static int (*register_job)(struct job *job);

/* A daemon forgets a job when its own processes have ended (track_procs in state_prted.c), and then drops each call to connect
 * a process that is spawned there with those of the job that live elsewhere (prte_grpcomm_base_get_tracker). */
static void terminated(int fd, short what, struct state_caddy *caddy)
{
    struct job *job = NULL == jobs ? NULL : find_job(caddy->name.nspace);
    if (NULL == job || !rw_plugin_keeps_job(caddy->name.nspace)) {
        stock_terminated(fd, what, caddy);
        return;
    }
    /* With the last one of the job its daemon says so of all that it has not reported, and by then has sent their output. */
    struct proc *proc = pmix_pointer_array_get_item(job->procs, (int) caddy->name.rank);
    if (NULL != proc) {
        proc->flags &= (uint16_t) ~PROC_FLAG_TERM_REPORTED;
    }
    struct map *map = job->map;
    job->map = NULL;
    PMIX_RETAIN(job);
    pmix_nspace_t nspace;
    PMIX_LOAD_NSPACE(nspace, caddy->name.nspace);
    stock_terminated(fd, what, caddy);
    job->map = map;
    if (NULL != find_job(nspace) || NULL == map || !rw_prte3_is_elsewhere(job)) {
        PMIX_RELEASE(job);
        return;
    }
    pmix_pointer_array_set_item(*jobs, job->index, job);
}

/* PMIx has forgotten the job as well. */
bool rw_prte3_tell_pmix(const char *nspace)
{
    pmix_nspace_t key;
    PMIX_LOAD_NSPACE(key, nspace);
    struct job *job = NULL == jobs ? NULL : find_job(key);
    return NULL != job && NULL != job->map && 0 == register_job(job);
}

void rw_prte3_keep_jobs(void *list, void *tell_pmix)
{
    register_job = (int (*)(struct job *)) tell_pmix;
    jobs = list;
}

static void on_state(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (RW_PRTE_HANDLED == rw_plugin_proc_state(caddy->name.nspace, caddy->name.rank, caddy->proc_state)) {
        PMIX_RELEASE(caddy);
    } else if (STATE_TERMINATED == caddy->proc_state) {
        terminated(fd, what, caddy);
    } else {
        stock_error(fd, what, data);
    }
}

/* PRRTE's own callback for errors of a whole job. With a null job, for which PRRTE leaves the state unset, it is told of
 * one error only: a message to a daemon could not be sent. */
static state_callback stock_job_error;

static void job_failed(int fd, short what, struct state_caddy *caddy)
{
    struct job *job = caddy->job;
    int32_t state = job->state;
    int meaning = rw_plugin_job_failed(job->nspace, caddy->job_state);
    if (RW_JOB_NAMELESS == meaning) {
        PMIX_RELEASE(caddy);
        return;
    }
    if (RW_JOB_NEVER_RAN == meaning) {
        job->exit_code = 0;
        if (!PMIX_NSPACE_INVALID(job->launcher) && NULL == find_job(job->launcher)) {
            job->flags |= JOB_FLAG_ERR_REPORTED; /* prte_dump_aborted_procs would complain of that */
        }
    }
    PMIX_RETAIN(job);
    stock_job_error(fd, what, caddy);
    if (RW_JOB_ENDS == meaning) {
        job->state = state;
    }
    PMIX_RELEASE(job);
}

static void on_job_error(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (NULL == caddy->job && RW_PRTE_HANDLED == rw_plugin_send_failed()) {
        PMIX_RELEASE(caddy);
    } else if (NULL == caddy->job || NULL == find_job) {
        stock_job_error(fd, what, data);
    } else {
        job_failed(fd, what, caddy);
    }
}

void rw_prte3_abort(void *activate, const char *nspace)
{
    pmix_nspace_t key;
    PMIX_LOAD_NSPACE(key, nspace);
    struct job *job = find_job(key);
    if (NULL != job) {
        ((void (*)(struct job *, int32_t)) activate)(job, JOB_STATE_ABORT_ORDERED);
    }
}

/* PRRTE's own callbacks for a job that is to be mapped, one that has been, one whose processes have ended, and the end of all
 * daemons. */
static state_callback stock_map, stock_mapped, stock_job_terminated, stock_daemons_terminated;

static void on_map(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (NULL == caddy->job || !rw_plugin_postpones_map(caddy->job->nspace, caddy)) {
        stock_map(fd, what, data);
    }
}

static void on_mapped(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (NULL != caddy->job && rw_plugin_refuses(caddy->job->nspace)) {
        caddy->job_state = JOB_STATE_MAP_FAILED;
        job_failed(fd, what, caddy);
        return;
    }
    stock_mapped(fd, what, data);
}

static void on_job_terminated(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (NULL == caddy->job || !rw_plugin_awaits_output(caddy->job->nspace, caddy)) {
        stock_job_terminated(fd, what, data);
    }
}

static void on_daemons_terminated(int fd, short what, void *data)
{
    struct state_caddy *caddy = data;
    if (rw_plugin_goes_on()) {
        PMIX_RELEASE(caddy);
        return;
    }
    stock_daemons_terminated(fd, what, data);
}

void rw_prte3_resume(void *postponed)
{
    struct state_caddy *caddy = postponed;
    event_active(&caddy->event, EV_WRITE, 1);
}

static void put_before(struct proc_state *state, state_callback callback, state_callback *stock)
{
    if (callback != state->callback) {
        *stock = state->callback;
        state->callback = callback;
    }
}

bool rw_prte3_wrap(void *proc_states, void *job_states, void *find)
{
    struct proc_state *state;
    find_job = (struct job *(*)(const pmix_nspace_t)) find;
    PMIX_LIST_FOREACH (state, (pmix_list_t *) job_states, struct proc_state) {
        if (JOB_STATE_ERROR == state->job_state) {
            put_before(state, on_job_error, &stock_job_error);
        } else if (NULL == find) {
            continue;
        } else if (JOB_STATE_MAP == state->job_state) {
            put_before(state, on_map, &stock_map);
        } else if (JOB_STATE_MAPPED == state->job_state) {
            put_before(state, on_mapped, &stock_mapped);
        } else if (JOB_STATE_TERMINATED == state->job_state) {
            put_before(state, on_job_terminated, &stock_job_terminated);
        } else if (JOB_STATE_DAEMONS_TERMINATED == state->job_state) {
            put_before(state, on_daemons_terminated, &stock_daemons_terminated);
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

static void on_told(int status, pmix_proc_t *sender, pmix_data_buffer_t *message, uint32_t tag, void *data)
{
    (void) status, (void) tag, (void) data;
    pmix_byte_object_t bytes;
    int32_t one = 1;
    if (PMIX_SUCCESS == PMIx_Data_unpack(NULL, message, &bytes, &one, PMIX_BYTE_OBJECT)) {
        rw_plugin_told(sender->rank, (const uint8_t *) bytes.bytes, bytes.size);
        PMIX_BYTE_OBJECT_DESTRUCT(&bytes);
    }
}

void rw_prte3_listen(void *receive)
{
    pmix_proc_t anybody = {.rank = PMIX_RANK_WILDCARD};
    ((void (*)(pmix_proc_t *, uint32_t, bool, message_callback, void *)) receive)(&anybody, TAG_RINGWATCH, true, on_told,
                                                                                  NULL);
}

bool rw_prte3_tell(void *send, uint32_t daemon, const uint8_t *bytes, size_t length)
{
    pmix_byte_object_t object = {.bytes = (char *) bytes, .size = length};
    pmix_data_buffer_t *message = PMIx_Data_buffer_create();
    if (NULL != message && PMIX_SUCCESS == PMIx_Data_pack(NULL, message, &object, 1, PMIX_BYTE_OBJECT)
        && 0 == ((int (*)(pmix_rank_t, pmix_data_buffer_t *, uint32_t)) send)(daemon, message, TAG_RINGWATCH)) {
        return true;
    }
    if (NULL != message) {
        PMIx_Data_buffer_release(message);
    }
    return false;
}

/* Where PRRTE, which keeps its parameters in PMIx's registry, has the value of one, and who has set it. */
static void *value_of(const char *framework, const char *component, const char *parameter,
                      pmix_mca_base_var_source_t *source)
{
    void *storage = NULL;
    int index = pmix_mca_base_var_find("prte", framework, component, parameter);
    return 0 > index || PMIX_SUCCESS != pmix_mca_base_var_get_value(index, &storage, source, NULL) ? NULL : storage;
}

/* The same of one that nobody has set. */
static void *unset(const char *framework, const char *component, const char *parameter)
{
    pmix_mca_base_var_source_t source = PMIX_MCA_BASE_VAR_SOURCE_MAX;
    void *storage = value_of(framework, component, parameter, &source);
    return PMIX_MCA_BASE_VAR_SOURCE_DEFAULT == source ? storage : NULL;
}

int rw_prte3_number(const char *framework, const char *component, const char *parameter)
{
    pmix_mca_base_var_source_t source;
    const int *storage = value_of(framework, component, parameter, &source);
    return NULL == storage ? 0 : *storage;
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
