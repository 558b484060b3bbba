/* What the shims call in Rust, and what Rust calls in the shims.  Functions named rw_plugin_* and rw_rank_* are
 * written in Rust and never unwind; functions named rw_pmix_* and rw_prte_* are written in C. */
#ifndef RINGWATCH_SHIMS_H
#define RINGWATCH_SHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Component tables.  The symbols that PMIx and Open MPI look for are Rust statics of this size, because only those are
 * exported from a Rust library; a constructor copies the table of the same name into each. */
enum { RW_TABLE_BYTES = 512 };

#define RW_EXPORTED_TABLE(symbol, table)                                                                              \
    extern unsigned char symbol[RW_TABLE_BYTES];                                                                      \
    _Static_assert(sizeof(table) <= RW_TABLE_BYTES, "room for the component table");                                  \
    __attribute__((constructor)) static void fill_##symbol(void)                                                      \
    {                                                                                                                 \
        memcpy(symbol, &(table), sizeof(table));                                                                      \
    }

/* pmix.c, component of prterun and prted */
int rw_plugin_register(void);
int rw_plugin_open(void);
int rw_plugin_close(void);
int rw_plugin_open_net(void);
int rw_plugin_launch(const char *nspace, uint8_t **bytes, size_t *length);
void rw_plugin_launch_free(uint8_t *bytes, size_t length);
int rw_plugin_local(const char *nspace, const uint8_t *bytes, size_t length, void *environment);
void rw_plugin_job_done(const char *nspace);
bool rw_plugin_admits(int descriptor);
void rw_plugin_client_finalizes(const char *nspace, uint32_t rank);
bool rw_plugin_client_aborts(const char *nspace, uint32_t rank);
void rw_plugin_client_gone(const char *nspace, uint32_t rank, bool finalized);
void rw_plugin_client_has_committed(const char *nspace, uint32_t rank);
void rw_plugin_connecting(const void *id, const void *procs, size_t nprocs, void (*tell)(int status, void *data), void *data);
void rw_plugin_looking_up(const void *id, const void *proc, const char *key,
                          void (*tell)(int status, void *values, size_t count, void *data), void *data);
void rw_plugin_found(const void *proc, const char *key, const char *text);
bool rw_plugin_connected(const void *id);
bool rw_plugin_postpones(const void *id, const void *procs, size_t nprocs);
void rw_plugin_look_at_connections(void);
bool rw_plugin_has_dead(const void *procs, size_t nprocs);
bool rw_plugin_has_ended(const char *nspace, uint32_t rank);
bool rw_plugin_awaits_revival(const char *nspace, void *callback, void *data);
void rw_plugin_daemon_reports(void);
bool rw_plugin_holds_fence(const void *id, const void *procs, size_t nprocs);
uint32_t rw_plugin_known_dead(void);

int rw_pmix_parameter(const char *name, const char *help, char **storage);
void rw_pmix_environment(void *environment, const char *name, const char *value);
int rw_pmix_notify_dead(const char *nspace, uint32_t rank);
void rw_pmix_watch_clients(void);
void rw_pmix_connect(void *postponed, bool still_wanted);
void rw_pmix_fence(void *postponed);
void rw_pmix_has_no_address(void *callback, void *data);
void rw_pmix_end_exchanges_with_the_dead(void);
void rw_pmix_look_at_clients(void);
uint32_t rw_pmix_my_rank(void);
const char *rw_pmix_my_nspace(void);
const char *rw_pmix_in_parameter_file(const char *name);
const char *rw_pmix_name_in_parameter_file(size_t index);
const char *rw_pmix_built_for(void);

/* prte.c, PRRTE 3 in prterun and prted */
enum { RW_PRTE_CALL_STOCK = 0, RW_PRTE_HANDLED = 1 };
int rw_plugin_proc_state(const char *nspace, uint32_t rank, uint32_t state);

int rw_plugin_send_failed(void);
void rw_plugin_told(uint32_t daemon, const uint8_t *bytes, size_t length);
bool rw_plugin_postpones_map(const char *nspace, void *caddy);
bool rw_plugin_keeps_job(const char *nspace);
bool rw_plugin_refuses(const char *nspace);
enum { RW_JOB_FAILED = 0, RW_JOB_NEVER_RAN = 1, RW_JOB_ENDS = 2, RW_JOB_NAMELESS = 3 };
int rw_plugin_job_failed(const char *nspace, int state);
bool rw_plugin_awaits_output(const char *nspace, void *caddy);
bool rw_plugin_goes_on(void);

bool rw_prte3_wrap(void *proc_states, void *job_states, void *find);
void rw_prte3_answer_for_the_ended(void *messages, void *send);
void rw_prte3_listen(void *receive);
bool rw_prte3_tell(void *send, uint32_t daemon, const uint8_t *bytes, size_t length);
bool rw_prte3_switch_on(const char *framework, const char *parameter);
bool rw_prte3_set_number(const char *framework, const char *component, const char *parameter, int number);
int rw_prte3_number(const char *framework, const char *component, const char *parameter);
bool rw_prte3_give_ranks(void *environment, const char *name, const char *value);
bool rw_prte3_tell_daemons(void *command_line, const char *parameter, const char *value);
void rw_prte3_resume(void *postponed);
void rw_prte3_abort(void *activate, const char *nspace);
bool rw_prte3_knows_nodes(const void *node, const void *map, const void *job, const void *proc);
void rw_prte3_keep_jobs(void *list, void *tell_pmix);
bool rw_prte3_tell_pmix(const char *nspace);
void rw_prte3_vacate(void *jobs, void *attributes, const char *nspace, uint32_t rank);
void rw_prte3_node_is_lost(void *pool, uint32_t daemon);
struct job;
bool rw_prte3_is_elsewhere(struct job *job);
uint32_t rw_prte3_num_daemons(const void *process_info);
const char *rw_prte3_job_variable(void *function, const char *nspace, const char *name);
const char *rw_prte_hostname(void *function, const char *nspace, uint32_t rank);
int rw_prte_daemon_of(void *function, const char *nspace, uint32_t rank);
void rw_prte_activate(void *function, const char *nspace, uint32_t rank, uint32_t state);

/* ompi.c, components of every rank */
extern const int rw_ompi_tables; /* referenced so that the linker takes the file */
int rw_rank_open(void);
bool rw_rank_has_to_say(const char *file, const char *topic);
void rw_ompi_look_at_help(void *help, const void *list);
int rw_rank_close(void);
int rw_rank_register(void);
int rw_rank_register_recovery(void);
int rw_rank_collectives_found(void);
void *rw_rank_communicator(void *communicator);
void rw_rank_init_done(void);
void rw_rank_finalize_begins(void);
int rw_rank_is_served(void);
bool rw_rank_wants_window(void *window, void *communicator);
int rw_rank_make_window(void *window, void **memory, size_t size, int unit, void *communicator, int flavor, int *model);
bool rw_rank_wants_file(void *file);
int rw_rank_open_file(void *file, void *communicator, void *own_open);

#endif
