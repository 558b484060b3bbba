/* In place of libibverbs: writes into /tmp/seen/USER.PROCESS the user who has loaded it into ringwatchd, and the library of
 * drivers that libibverbs would load. */
#define _GNU_SOURCE
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    const char *drivers = getenv("RDMAV_DRIVERS");
    const struct passwd *user = getpwuid(getuid());
    char name[256], line[256];

    if (NULL == user || 0 != strncmp(program_invocation_short_name, "ringwatchd", strlen("ringwatchd"))) {
        return;
    }
    snprintf(name, sizeof name, "/tmp/seen/%s.%d", user->pw_name, getpid());
    snprintf(line, sizeof line, "%s %s\n", user->pw_name, NULL == drivers ? "none" : drivers);
    FILE *file = fopen(name, "w");
    if (NULL != file) {
        fputs(line, file);
        fclose(file);
    }
}
