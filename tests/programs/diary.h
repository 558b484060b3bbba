/* The diary of a rank of a test: lines "rank nanoseconds event details". */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int world_rank = -1, diary = -1;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* One line, in one write: it is there even if the next moment is the last. */
static void event(const char *format, ...) {
    char line[512];
    int n = snprintf(line, sizeof line, "%d %lld ", world_rank, now_ns());
    va_list rest;
    va_start(rest, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, rest);
    va_end(rest);
    line[n++] = '\n';
    if (write(diary, line, (size_t)n) < 0) perror("diary");
}

/* Opens a diary, and says where the rank is. */
static void open_diary_at(const char *path) {
    diary = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (diary < 0) perror(path);
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    event("started %d %s", (int)getpid(), host);
}

/* Opens the diary of this rank in a folder. */
static void open_diary(const char *folder) {
    char path[600];
    snprintf(path, sizeof path, "%s/rank.%d", folder, world_rank);
    open_diary_at(path);
}
