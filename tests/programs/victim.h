/* A rank that ends in a step that is named on the command line, once however often it runs:
 *
 *   PROGRAM FOLDER AMOUNT [VICTIM STEP]...   rank VICTIM kills itself in its step STEP, or, where that is negative, stops there for
 *                                            good; a folder in FOLDER says so, which replicas of a rank share. With 1000
 *                                            added to VICTIM only a process that was spawned in its place does so
 *
 * A spawned process kills itself before MPI_Init, once, where DIE_AT_START is the name of a file that does not exist.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size, steps, arguments, was_spawned;
static char **words;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("DIE_AT_START");
    was_spawned = getenv("RINGWATCH_REPLACES") != NULL;
    if (was_spawned && name != NULL && open(name, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) {
        raise(SIGKILL);
    }
}

static void step(void)
{
    steps++;
    for (int i = 3; i + 1 < arguments; i += 2) {
        int last = atoi(words[i + 1]);
        int victim = atoi(words[i]);
        if ((victim == rank || (was_spawned && victim == rank + 1000)) && abs(last) == steps) {
            char name[4096];
            snprintf(name, sizeof name, "%s/ended.%d.%d", words[1], rank, steps);
            if (mkdir(name, 0700) == 0) {
                last < 0 ? pause() : raise(SIGKILL);
            }
        }
    }
}
