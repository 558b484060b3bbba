/* PMIx components of ringwatch: `psensor` (opened in every PMIx server: parameters, loss of clients) and `pnet`
 * (launch data from prterun to every daemon, environment of the ranks, end of a job).  Tables and entry points only. */
#include "src/include/pmix_config.h"

#include "pmix.h"
#include "pmix_common.h"
#include "src/include/pmix_globals.h"
#include "src/mca/base/pmix_base.h"
#include "src/mca/base/pmix_mca_base_var.h"
#include "src/mca/base/pmix_mca_base_vari.h"
#include "src/mca/pnet/base/base.h"
#include "src/mca/pnet/pnet.h"
#include "src/mca/psensor/psensor.h"
#include "src/mca/ptl/base/base.h"
#include "src/server/pmix_server_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ringwatch_shims.h"

#define LAUNCH_KEY "ringwatch.launch"
#define KNOWN_DEAD "RINGWATCH_KNOWN_DEAD"
#define STRINGIFY(x) #x
#define VERSION(a, b, c) STRINGIFY(a) "." STRINGIFY(b) "." STRINGIFY(c)

/* Structs that mpi-layer/src/constructors/connect_accept.rs has, too. */
_Static_assert(sizeof(pmix_value_t) == 32 && offsetof(pmix_value_t, data) == 8, "pmix_value_t");
_Static_assert(offsetof(pmix_info_t, flags) == 512 && offsetof(pmix_info_t, value) == 520, "pmix_info_t");
_Static_assert(sizeof(pmix_info_t) == 552 && sizeof(pmix_key_t) == 512, "pmix_info_t");
_Static_assert(offsetof(pmix_pdata_t, key) == 260 && offsetof(pmix_pdata_t, value) == 776, "pmix_pdata_t");

/* ---- psensor ---- */

static pmix_status_t sensor_start(pmix_peer_t *requestor, pmix_status_t error, const pmix_info_t *monitor,
                                  const pmix_info_t directives[], size_t ndirs)
{
    (void) requestor, (void) error, (void) monitor, (void) directives, (void) ndirs;
    return PMIX_ERR_TAKE_NEXT_OPTION;
}

/* Called with a null id when the connection of a local client breaks or the client is deregistered. */
static pmix_status_t sensor_stop(pmix_peer_t *peer, char *id)
{
    if (NULL == id && NULL != peer && NULL != peer->info && NULL != peer->nptr && NULL != peer->nptr->nspace) {
        rw_plugin_client_gone(peer->nptr->nspace, peer->info->pname.rank, peer->finalized);
    }
    return PMIX_SUCCESS;
}

static pmix_psensor_base_module_t sensor_module = {.start = sensor_start, .stop = sensor_stop};

static int sensor_query(pmix_mca_base_module_t **module, int *priority)
{
    *module = (pmix_mca_base_module_t *) &sensor_module;
    *priority = 50;
    return PMIX_SUCCESS;
}

static const pmix_psensor_base_component_t sensor_component = {
    PMIX_PSENSOR_BASE_VERSION_1_0_0,
    .pmix_mca_component_name = "ringwatch",
    PMIX_MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
    .pmix_mca_open_component = rw_plugin_open,
    .pmix_mca_close_component = rw_plugin_close,
    .pmix_mca_query_component = sensor_query,
    .pmix_mca_register_component_params = rw_plugin_register,
};
RW_EXPORTED_TABLE(pmix_mca_psensor_ringwatch_component, sensor_component)

/* ---- pnet ---- */

/* prterun calls this twice: to harvest its own environment (no map yet), and for each job with its map. */
static pmix_status_t net_allocate(pmix_namespace_t *job, pmix_info_t info[], size_t ninfo, pmix_list_t *out)
{
    bool launching = false;
    for (size_t n = 0; n < ninfo; n++) {
        launching = launching || PMIX_CHECK_KEY(&info[n], PMIX_PROC_MAP);
    }
    if (!launching) {
        return PMIX_ERR_TAKE_NEXT_OPTION;
    }
    uint8_t *bytes = NULL;
    size_t length = 0;
    int status = rw_plugin_launch(job->nspace, &bytes, &length);
    if (PMIX_SUCCESS != status || NULL == bytes) {
        return PMIX_SUCCESS == status ? PMIX_ERR_TAKE_NEXT_OPTION : status;
    }
    pmix_byte_object_t object = {.bytes = (char *) bytes, .size = length};
    pmix_kval_t *entry = PMIX_NEW(pmix_kval_t);
    entry->key = strdup(LAUNCH_KEY);
    PMIX_VALUE_CREATE(entry->value, 1);
    PMIx_Value_load(entry->value, &object, PMIX_BYTE_OBJECT);
    pmix_list_append(out, &entry->super);
    rw_plugin_launch_free(bytes, length);
    return PMIX_SUCCESS;
}

/* PMIx 5.0.7 gives back twice what it took of the entry of a rank that dies while it connects (ptl_base_connection_hdlr.c,
 * "error"), and waits for the lock of what it has freed when the job is over. One reference more keeps the entry. */
static void keep_ranks(pmix_namespace_t *job)
{
    pmix_rank_info_t *rank;
    PMIX_LIST_FOREACH (rank, &job->ranks, pmix_rank_info_t) {
        PMIX_RETAIN(rank);
    }
}

static pmix_status_t net_setup_local(pmix_nspace_env_cache_t *job, pmix_info_t info[], size_t ninfo)
{
    for (size_t n = 0; n < ninfo; n++) {
        if (PMIX_CHECK_KEY(&info[n], LAUNCH_KEY) && PMIX_BYTE_OBJECT == info[n].value.type) {
            keep_ranks(job->ns);
            return rw_plugin_local(job->ns->nspace, (const uint8_t *) info[n].value.data.bo.bytes,
                                   info[n].value.data.bo.size, &job->envars);
        }
    }
    return PMIX_ERR_TAKE_NEXT_OPTION;
}

static void net_deregister(pmix_namespace_t *job)
{
    rw_plugin_job_done(job->nspace);
}

/* A daemon other than prterun has started and is about to report to it (prted.c). The inventory itself stays as it is: PRRTE 3.0.8
 * does not find the next daemon's report behind one. */
static pmix_status_t net_collect_inventory(pmix_info_t directives[], size_t ndirs, pmix_list_t *inventory)
{
    (void) directives, (void) ndirs, (void) inventory;
    rw_plugin_daemon_reports();
    return PMIX_SUCCESS;
}

static pmix_pnet_module_t net_module = {
    .name = "ringwatch",
    .allocate = net_allocate,
    .collect_inventory = net_collect_inventory,
    .setup_local_network = net_setup_local,
    .deregister_nspace = net_deregister,
};

static int net_query(pmix_mca_base_module_t **module, int *priority)
{
    *module = (pmix_mca_base_module_t *) &net_module;
    *priority = 5;
    return PMIX_SUCCESS;
}

static const pmix_pnet_base_component_t net_component = {
    PMIX_PNET_BASE_VERSION_1_0_0,
    .pmix_mca_component_name = "ringwatch",
    PMIX_MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
    .pmix_mca_open_component = rw_plugin_open_net,
    .pmix_mca_query_component = net_query,
};
RW_EXPORTED_TABLE(pmix_mca_pnet_ringwatch_component, net_component)

/* ---- services for Rust ---- */

int rw_pmix_parameter(const char *name, const char *help, char **storage)
{
    return pmix_mca_base_component_var_register(
        (const pmix_mca_base_component_t *) pmix_mca_psensor_ringwatch_component, name, help,
        PMIX_MCA_BASE_VAR_TYPE_STRING, storage);
}

void rw_pmix_environment(void *environment, const char *name, const char *value)
{
    pmix_envar_list_item_t *item = PMIX_NEW(pmix_envar_list_item_t);
    item->envar.envar = strdup(name);
    item->envar.value = strdup(value);
    item->envar.separator = '\0';
    pmix_list_append((pmix_list_t *) environment, &item->super);
}

/* PMIx 6 and later do not copy the arguments of PMIx_Notify_event: they live until the callback. */
struct notification {
    pmix_proc_t source;
    pmix_info_t info;
};

static void notified(pmix_status_t status, void *data)
{
    (void) status;
    struct notification *notification = data;
    PMIX_INFO_DESTRUCT(&notification->info);
    free(notification);
}

/* Exactly one PMIX_PROC: Open MPI 5.0 takes every info of that type as one more dead process. */
int rw_pmix_notify_dead(const char *nspace, uint32_t rank)
{
    struct notification *notification = calloc(1, sizeof *notification);
    if (NULL == notification) {
        return PMIX_ERR_NOMEM;
    }
    PMIX_LOAD_PROCID(&notification->source, nspace, rank);
    PMIX_INFO_LOAD(&notification->info, PMIX_EVENT_AFFECTED_PROC, &notification->source, PMIX_PROC);
    pmix_status_t status = PMIx_Notify_event(PMIX_ERR_PROC_TERM_WO_SYNC, &notification->source, PMIX_RANGE_LOCAL,
                                             &notification->info, 1, notified, notification);
    if (PMIX_SUCCESS != status) {
        notified(status, notification);
    }
    return PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status;
}

/* A call for processes of several namespaces to be connected: what PMIx has passed stays until its callback. */
struct connection {
    const pmix_proc_t *procs;
    size_t nprocs;
    const pmix_info_t *info;
    size_t ninfo;
    pmix_op_cbfunc_t callback;
    void *data;
};

static void connected(pmix_status_t status, const char *data, size_t length, void *argument,
                      pmix_release_cbfunc_t release, void *release_argument)
{
    (void) data, (void) length;
    struct connection *connection = argument;
    if (rw_plugin_connected(connection)) {
        connection->callback(status, connection->data);
    }
    free(connection);
    if (NULL != release) {
        release(release_argument);
    }
}

static pmix_status_t fence(struct connection *connection)
{
    return pmix_host_server.fence_nb(connection->procs, connection->nprocs, connection->info, connection->ninfo, NULL, 0,
                                     connected, connection);
}

static pmix_status_t connect_by_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                      pmix_op_cbfunc_t callback, void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    if (NULL == connection) {
        return PMIX_ERR_NOMEM;
    }
    *connection = (struct connection) {procs, nprocs, info, ninfo, callback, data};
    rw_plugin_connecting(connection, procs, nprocs, callback, data);
    pmix_status_t status = rw_plugin_postpones(connection, procs, nprocs) ? PMIX_SUCCESS : fence(connection);
    if (PMIX_SUCCESS != status) {
        rw_plugin_connected(connection);
        free(connection);
        return status;
    }
    rw_plugin_look_at_connections();
    return status;
}

void rw_pmix_connect(void *postponed, bool still_wanted)
{
    struct connection *connection = postponed;
    pmix_status_t status = still_wanted ? fence(connection) : PMIX_ERR_NOT_FOUND;
    if (PMIX_SUCCESS != status) {
        if (rw_plugin_connected(connection)) {
            connection->callback(status, connection->data);
        }
        free(connection);
    }
}

/* PMIx's own function for the answer to a call for what another process publishes, the same for all calls. */
static pmix_lookup_cbfunc_t stock_found;

/* Such a call. */
struct lookup {
    pmix_proc_t proc;
    void *data;
};

static void found(pmix_status_t status, pmix_pdata_t values[], size_t count, void *argument)
{
    struct lookup *lookup = argument;
    if (PMIX_SUCCESS == status && 0 < count && PMIX_STRING == values[0].value.type && NULL != values[0].value.data.string) {
        rw_plugin_found(&lookup->proc, values[0].key, values[0].value.data.string);
    }
    if (rw_plugin_connected(lookup)) {
        stock_found(status, values, count, lookup->data);
    }
    free(lookup);
}

static pmix_server_lookup_fn_t stock_lookup;

static void find_nothing(int fd, short what, void *argument)
{
    (void) fd, (void) what;
    pmix_shift_caddy_t *caddy = argument;
    stock_found(caddy->status, NULL, 0, caddy->cbdata);
    PMIX_RELEASE(caddy);
}

/* Answers a call in PMIx's own thread, from any: PMIx takes from the list of a client's messages there, and its function
 * adds to that list in whatever thread it is called (pmix_server.c, lookup_cbfunc). */
static void not_found(pmix_status_t status, pmix_pdata_t values[], size_t count, void *data)
{
    (void) values, (void) count;
    pmix_shift_caddy_t *caddy = PMIX_NEW(pmix_shift_caddy_t);
    if (NULL == caddy) {
        stock_found(status, NULL, 0, data);
        return;
    }
    caddy->status = status;
    caddy->cbdata = data;
    PMIX_THREADSHIFT(caddy, find_nothing);
}

static pmix_status_t watched_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                                    pmix_lookup_cbfunc_t callback, void *data)
{
    struct lookup *lookup = malloc(sizeof *lookup);
    if (NULL == lookup) {
        return PMIX_ERR_NOMEM;
    }
    *lookup = (struct lookup) {*proc, data};
    stock_found = callback;
    rw_plugin_looking_up(lookup, proc, NULL == keys || NULL == keys[0] ? "" : keys[0],
                         (void (*)(int, void *, size_t, void *)) not_found, data);
    pmix_status_t status = stock_lookup(proc, keys, info, ninfo, found, lookup);
    if (PMIX_SUCCESS != status) {
        rw_plugin_connected(lookup);
        free(lookup);
        return status;
    }
    rw_plugin_look_at_connections();
    return status;
}

static pmix_server_fencenb_fn_t stock_fence;

/* A fence that the processes of this node have entered: what PMIx has passed stays until its callback. */
struct postponed_fence {
    const pmix_proc_t *procs;
    size_t nprocs;
    const pmix_info_t *info;
    size_t ninfo;
    char *data;
    size_t ndata;
    pmix_modex_cbfunc_t callback;
    void *argument;
};

static void note_who_has_committed(void);

/* A fence that the runtime carries out. */
struct fence {
    pmix_modex_cbfunc_t callback;
    void *argument;
};

/* How many bytes the data of a fence has in front of those of the processes.  PRRTE 3.0.8 puts an object with its own
 * settings there and leaves it in (allgather_recv and barrier_release in grpcomm_direct.c).  PMIx takes the empty object for
 * the end and drops the data of all processes (pmix_gds_base_store_modex): each process then asks the node of each other. */
static size_t settings_in_front(const char *data, size_t ndata)
{
    pmix_data_buffer_t buffer = {.base_ptr = (char *) data, .pack_ptr = (char *) data + ndata, .unpack_ptr = (char *) data,
                                 .bytes_allocated = ndata, .bytes_used = ndata};
    pmix_byte_object_t first = {NULL, 0};
    int32_t one = 1;
    if (NULL == data || PMIX_SUCCESS != PMIx_Data_unpack(NULL, &buffer, &first, &one, PMIX_BYTE_OBJECT)) {
        return 0;
    }
    size_t length = buffer.unpack_ptr - buffer.base_ptr;
    bool is_empty = 0 == first.size;
    free(first.bytes);
    return is_empty && length < ndata ? length : 0;
}

static void fence_done(pmix_status_t status, const char *data, size_t ndata, void *argument, pmix_release_cbfunc_t release,
                       void *released)
{
    struct fence *fence = argument;
    size_t skipped = PMIX_SUCCESS == status ? settings_in_front(data, ndata) : 0;
    fence->callback(status, 0 == skipped ? data : data + skipped, ndata - skipped, fence->argument, release, released);
    free(fence);
}

static pmix_status_t carry_out_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                     char *data, size_t ndata, pmix_modex_cbfunc_t callback, void *argument)
{
    struct fence *fence = malloc(sizeof *fence);
    if (NULL == fence) {
        return PMIX_ERR_NOMEM;
    }
    *fence = (struct fence) {callback, argument};
    pmix_status_t status = stock_fence(procs, nprocs, info, ninfo, data, ndata, fence_done, fence);
    if (PMIX_SUCCESS != status) {
        free(fence);
    }
    return status;
}

static pmix_status_t watched_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                   char *data, size_t ndata, pmix_modex_cbfunc_t callback, void *argument)
{
    struct postponed_fence *fence = malloc(sizeof *fence);
    if (NULL == fence) {
        return PMIX_ERR_NOMEM;
    }
    *fence = (struct postponed_fence) {procs, nprocs, info, ninfo, data, ndata, callback, argument};
    note_who_has_committed();
    if (rw_plugin_holds_fence(fence, procs, nprocs)) {
        return PMIX_SUCCESS;
    }
    free(fence);
    return carry_out_fence(procs, nprocs, info, ninfo, data, ndata, callback, argument);
}

void rw_pmix_fence(void *postponed)
{
    struct postponed_fence *fence = postponed;
    pmix_status_t status = carry_out_fence(fence->procs, fence->nprocs, fence->info, fence->ninfo, fence->data, fence->ndata,
                                           fence->callback, fence->argument);
    if (PMIX_SUCCESS != status) {
        fence->callback(status, NULL, 0, fence->argument, NULL, NULL);
    }
    free(fence);
}

static pmix_server_spawn_fn_t stock_spawn;

/* The node of prterun may be the last one to hear of a death. Open MPI spawns one program at a time. */
static pmix_status_t spawn_with_what_is_known(const pmix_proc_t *proc, const pmix_info_t job_info[], size_t ninfo,
                                              const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t callback,
                                              void *data)
{
    char known[16];
    snprintf(known, sizeof known, "%u", rw_plugin_known_dead());
    if (0 < napps) {
        PMIx_Setenv(KNOWN_DEAD, known, true, (char ***) &apps[0].env);
    }
    return stock_spawn(proc, job_info, ninfo, apps, napps, callback, data);
}

static pmix_server_dmodex_req_fn_t stock_modex;

static bool knows_job(const char *nspace)
{
    pmix_namespace_t *job;
    PMIX_LIST_FOREACH (job, &pmix_globals.nspaces, pmix_namespace_t) {
        if (PMIX_CHECK_NSPACE(job->nspace, nspace)) {
            return job->all_registered;
        }
    }
    return false;
}

/* PRRTE 3.0.8 takes a job that it has forgotten for one that it is yet to hear of, and waits (dmodex_req). */
static pmix_status_t modex_of_the_living(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                         pmix_modex_cbfunc_t callback, void *data)
{
    if (rw_plugin_has_ended(proc->nspace, proc->rank)) {
        return PMIX_ERR_NOT_FOUND;
    }
    if (!knows_job(proc->nspace) && rw_plugin_awaits_revival(proc->nspace, (void *) callback, data)) {
        return PMIX_SUCCESS;
    }
    return stock_modex(proc, info, ninfo, callback, data);
}

void rw_pmix_has_no_address(void *callback, void *data)
{
    ((pmix_modex_cbfunc_t) callback)(PMIX_ERR_NOT_FOUND, NULL, 0, data, NULL, NULL);
}

static pmix_server_client_finalized_fn_t stock_finalized;

/* PMIx 5.0.7 notes it only after it has let the client go (op_cbfunc2), in another thread than the one that sees the client's
 * connection end, which may be first. */
static pmix_status_t client_finalizes(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    rw_plugin_client_finalizes(proc->nspace, proc->rank);
    return stock_finalized(proc, object, callback, data);
}

static pmix_server_abort_fn_t stock_abort;

/* PRRTE 3.0.8 answers in its own thread, which may have killed the client and freed its process by then: PMIx 5.0.7 frees its
 * object of the client there (pdes), while its own thread sends the answer.  So PMIx's thread answers at once. */
static pmix_status_t client_aborts(const pmix_proc_t *proc, void *object, int status, const char message[], pmix_proc_t procs[],
                                   size_t nprocs, pmix_op_cbfunc_t callback, void *data)
{
    if (rw_plugin_client_aborts(proc->nspace, proc->rank)) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    return stock_abort(proc, object, status, message, procs, nprocs, callback, data);
}

static pmix_server_log_fn_t stock_log;

/* In PMIx's own thread. */
static void pass_answer(int fd, short what, void *data)
{
    (void) fd, (void) what;
    pmix_shift_caddy_t *caddy = data;
    caddy->cbfunc.opcbfn(caddy->status, caddy->cbdata);
    PMIX_RELEASE(caddy);
}

static void answer_in_pmix_thread(pmix_status_t status, void *data)
{
    pmix_shift_caddy_t *caddy = data;
    caddy->status = status;
    PMIX_THREADSHIFT(caddy, pass_answer);
}

/* Open MPI logs its help message when it aborts: as for client_aborts, PRRTE must not answer in its own thread. */
static void client_logs(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                        size_t ndirs, pmix_op_cbfunc_t callback, void *cbdata)
{
    pmix_shift_caddy_t *caddy = NULL == callback ? NULL : PMIX_NEW(pmix_shift_caddy_t);
    if (NULL == caddy) {
        stock_log(client, data, ndata, directives, ndirs, callback, cbdata);
        return;
    }
    caddy->cbfunc.opcbfn = callback;
    caddy->cbdata = cbdata;
    stock_log(client, data, ndata, directives, ndirs, answer_in_pmix_thread, caddy);
}

static pmix_ptl_pending_cbfunc_t stock_connection_handler;

/* In PMIx's own thread, before PMIx reads what the other end says of itself. */
static void handle_connection(int sd, short args, void *data)
{
    pmix_pending_connection_t *pending = data;
    if (rw_plugin_admits(pending->sd)) {
        stock_connection_handler(sd, args, data);
        return;
    }
    close(pending->sd);
    PMIX_RELEASE(pending);
}

/* Who was connected before is asked, too: PMIx sees the end of a connection that is shut down. */
static void guard_connections(void)
{
    if (NULL == pmix_ptl_base.listener.cbfunc || handle_connection == pmix_ptl_base.listener.cbfunc) {
        return;
    }
    stock_connection_handler = pmix_ptl_base.listener.cbfunc;
    pmix_ptl_base.listener.cbfunc = handle_connection;
    for (int n = 0; n < pmix_server_globals.clients.size; n++) {
        pmix_peer_t *peer = pmix_pointer_array_get_item(&pmix_server_globals.clients, n);
        if (NULL != peer && 0 <= peer->sd && !rw_plugin_admits(peer->sd)) {
            shutdown(peer->sd, SHUT_RDWR);
        }
    }
}

/* Calls of PRRTE's function come to `ours` first, which has it in `stock`. */
#define STAND_BEFORE(function, ours, stock)                                                                            \
    if (NULL != pmix_host_server.function && (ours) != pmix_host_server.function) {                                    \
        (stock) = pmix_host_server.function;                                                                           \
        pmix_host_server.function = (ours);                                                                            \
    }

void rw_pmix_watch_clients(void)
{
    guard_connections();
    STAND_BEFORE(client_finalized, client_finalizes, stock_finalized)
    STAND_BEFORE(abort, client_aborts, stock_abort)
    STAND_BEFORE(log, client_logs, stock_log)
    STAND_BEFORE(direct_modex, modex_of_the_living, stock_modex)
    if (NULL != pmix_host_server.fence_nb && watched_fence != pmix_host_server.fence_nb) {
        stock_fence = pmix_host_server.fence_nb;
        pmix_host_server.fence_nb = watched_fence;
        /* Else PMIx carries out a fence of processes of this node alone by itself, and nobody hears of it. */
        pmix_server_globals.fence_localonly_opt = false;
    }
    if (NULL != pmix_host_server.connect && NULL != pmix_host_server.fence_nb) {
        pmix_host_server.connect = connect_by_fence;
    }
    STAND_BEFORE(spawn, spawn_with_what_is_known, stock_spawn)
    STAND_BEFORE(lookup, watched_lookup, stock_lookup)
}

/* Whether PMIx's object is what the headers say. */
static bool is_exchange(const pmix_server_trkr_t *exchange)
{
    const pmix_class_t *class = exchange->super.super.obj_class;
    return sizeof *exchange == class->cls_sizeof && 0 == strcmp("pmix_server_trkr_t", class->cls_name);
}

/* In PMIx's own thread. What the runtime has been told of is in its hands, and what has a time limit ends by itself. */
static void look_at_exchanges(int fd, short what, void *data)
{
    (void) fd, (void) what;
    pmix_shift_caddy_t *caddy = data;
    pmix_server_trkr_t *exchange;
    PMIX_RELEASE(caddy);
    PMIX_LIST_FOREACH (exchange, &pmix_server_globals.collectives, pmix_server_trkr_t) {
        if (!is_exchange(exchange)) {
            return;
        }
        if (PMIX_CONNECTNB_CMD != exchange->type || exchange->host_called || exchange->event_active
            || NULL == exchange->op_cbfunc) {
            continue;
        }
        bool complete = exchange->def_complete && exchange->nlocal <= pmix_list_get_size(&exchange->local_cbs);
        if (!complete && rw_plugin_has_dead(exchange->pcs, exchange->npcs)) {
            /* Nobody who comes or dies before PMIx has taken it off its list completes it once more. */
            exchange->host_called = true;
            exchange->def_complete = true;
            exchange->nlocal = UINT32_MAX;
            exchange->op_cbfunc(PMIX_ERR_PROC_TERM_WO_SYNC, exchange);
        }
    }
}

void rw_pmix_end_exchanges_with_the_dead(void)
{
    /* Read from another thread than PMIx's: an exchange that begins now is found the next time. */
    if (0 == pmix_list_get_size(&pmix_server_globals.collectives)) {
        return;
    }
    pmix_shift_caddy_t *caddy = PMIX_NEW(pmix_shift_caddy_t);
    if (NULL != caddy) {
        PMIX_THREADSHIFT(caddy, look_at_exchanges);
    }
}

/* In PMIx's own thread. Who has told the others how to be reached has opened Open MPI's components before. */
static void note_who_has_committed(void)
{
    for (int n = 0; n < pmix_server_globals.clients.size; n++) {
        pmix_peer_t *peer = pmix_pointer_array_get_item(&pmix_server_globals.clients, n);
        if (NULL != peer && NULL != peer->info && peer->info->modex_recvd && NULL != peer->nptr
            && NULL != peer->nptr->nspace) {
            rw_plugin_client_has_committed(peer->nptr->nspace, peer->info->pname.rank);
        }
    }
}

static void look_at_clients(int fd, short what, void *data)
{
    (void) fd, (void) what;
    pmix_shift_caddy_t *caddy = data;
    PMIX_RELEASE(caddy);
    note_who_has_committed();
}

void rw_pmix_look_at_clients(void)
{
    pmix_shift_caddy_t *caddy = PMIX_NEW(pmix_shift_caddy_t);
    if (NULL != caddy) {
        PMIX_THREADSHIFT(caddy, look_at_clients);
    }
}

uint32_t rw_pmix_my_rank(void)
{
    return pmix_globals.myid.rank;
}

const char *rw_pmix_my_nspace(void)
{
    return pmix_globals.myid.nspace;
}

const char *rw_pmix_in_parameter_file(const char *name)
{
    pmix_mca_base_var_file_value_t *line;
    PMIX_LIST_FOREACH (line, &pmix_mca_base_var_file_values, pmix_mca_base_var_file_value_t) {
        if (0 == strcmp(line->mbvfv_var, name)) {
            return line->mbvfv_value;
        }
    }
    return NULL;
}

const char *rw_pmix_name_in_parameter_file(size_t index)
{
    pmix_mca_base_var_file_value_t *line;
    PMIX_LIST_FOREACH (line, &pmix_mca_base_var_file_values, pmix_mca_base_var_file_value_t) {
        if (0 == index--) {
            return line->mbvfv_var;
        }
    }
    return NULL;
}

const char *rw_pmix_built_for(void)
{
    return VERSION(PMIX_VERSION_MAJOR, PMIX_VERSION_MINOR, PMIX_VERSION_RELEASE);
}
