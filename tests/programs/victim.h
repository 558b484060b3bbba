/* A rank that ends in a step that is named on the command line, once however often it runs:
 *
 *   PROGRAM FOLDER AMOUNT [VICTIM STEP]...   rank VICTIM kills itself in its step STEP, or, where that is negative, stops there for
 *                                            good; a file in FOLDER says so
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size, steps, arguments;
static char **words;

static void step(void)
{
    steps++;
    for (int i = 3; i + 1 < arguments; i += 2) {
        int last = atoi(words[i + 1]);
        if (atoi(words[i]) == rank && abs(last) == steps) {
            char name[4096];
            snprintf(name, sizeof name, "%s/ended.%d.%d", words[1], rank, steps);
            int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
            if (file >= 0) {
                close(file);
                last < 0 ? pause() : raise(SIGKILL);
            }
        }
    }
}
