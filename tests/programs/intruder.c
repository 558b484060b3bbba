/* A tool of PMIx that does harm, if it is let in: intruder URI USER NSPACE RANK
 *
 * As USER it connects to the PMIx server at URI, says that RANK of NSPACE has aborted, and has the server start a program. It
 * prints "turned away", or "let in" and what it was allowed to do. With a RANK of -1 it only connects. */
#define _GNU_SOURCE
#include <pmix.h>
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pmix_proc_t self, victim;
    pmix_info_t info[2];
    pmix_app_t app;
    char spawned[PMIX_MAX_NSLEN + 1];
    const uint32_t user = argc > 2 ? (uint32_t) atoi(argv[2]) : 0;

    if (argc != 5 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) {
        fprintf(stderr, "usage: intruder URI USER NSPACE RANK\n");
        return 2;
    }
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_URI, argv[1], PMIX_STRING);
    uint32_t once = 1;
    PMIX_INFO_LOAD(&info[1], PMIX_CONNECT_MAX_RETRIES, &once, PMIX_UINT32);
    pmix_status_t status = PMIx_tool_init(&self, info, 2);
    if (PMIX_SUCCESS != status) {
        printf("turned away: %s\n", PMIx_Error_string(status));
        return 0;
    }
    if (0 > atoi(argv[4])) {
        printf("let in\n");
        PMIx_tool_finalize();
        return 0;
    }
    PMIX_LOAD_PROCID(&victim, argv[3], (uint32_t) atoi(argv[4]));
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &victim, PMIX_PROC);
    status = PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &victim, PMIX_RANGE_GLOBAL, info, 1, NULL, NULL);
    printf("let in: event %s\n", PMIx_Error_string(status));
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("/bin/true");
    PMIx_Argv_append_nosize(&app.argv, "/bin/true");
    app.maxprocs = 1;
    status = PMIx_Spawn(NULL, 0, &app, 1, spawned);
    printf("let in: spawn %s\n", PMIx_Error_string(status));
    PMIx_tool_finalize();
    return 0;
}
