/* logs: each rank saves a determinant with the event logger of its node, and looks for it again when ringwatchd is gone.
 *
 *   logs --events DIR
 *
 * Events: "stable" once it is saved; "found COUNT" with the number of determinants that another ringwatchd has of the rank.
 * Ends when there is a file DIR/end. The packets are those of node-abi/src/event_loggers.rs.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "world.h"

enum { TAKE = 0, SAVE = 1, STABLE = 0, TAKEN = 1, PAUSE_MS = 5 };

static int logger = -1;

static void call_logger(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    if (logger >= 0) close(logger);
    logger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    while (connect(logger, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
        poll(NULL, 0, PAUSE_MS);
}

/* Waits for a packet of this kind, and returns the number behind its kind; -1 if the logger is gone. */
static int await(unsigned char kind) {
    unsigned char packet[256];
    for (;;) {
        ssize_t length = recv(logger, packet, sizeof packet, 0);
        if (length > 1 && packet[0] == kind) return packet[1];
        if (length <= 0 && errno != EINTR) return -1;
    }
}

static int take(unsigned char attempt) {
    const unsigned char words[] = {TAKE, (unsigned char)world_rank, 0, attempt, 0, 0, 0};
    return send(logger, words, sizeof words, MSG_NOSIGNAL) < 0 ? -1 : await(TAKEN);
}

int main(int count, char **arguments) {
    const char *dir = count > 2 ? arguments[2] : "";
    char end[600];
    snprintf(end, sizeof end, "%s/end", dir);
    enter_world(&count, &arguments, dir);
    const char *name = getenv("RINGWATCH_EVENT_LOGGER");
    if (!name) return event("without"), 1;
    call_logger(name);
    if (take(0) != 0) return event("refused"), 1;
    const unsigned char determinant[] = {SAVE, 1, 1, 0, 0, 1, 14, 0, 1};
    if (send(logger, determinant, sizeof determinant, MSG_NOSIGNAL) < 0 || await(STABLE) != 1) return event("lost"), 1;
    event("stable");
    for (unsigned char attempt = 1; access(end, F_OK);) {
        struct pollfd gone = {.fd = logger, .events = POLLIN};
        if (poll(&gone, 1, PAUSE_MS) <= 0) continue;
        int found;
        do {
            call_logger(name);
            found = take(attempt++);
        } while (found < 0);
        event("found %d", found);
    }
    leave_world();
    return 0;
}
