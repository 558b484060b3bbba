/* Who calls itself a runtime daemon: impostor ADDRESS PORT USER NSPACE RANK TO [FILE]
 *
 * As USER it connects to PRRTE's out-of-band port and says that it is daemon RANK of NSPACE and wants daemon TO, as PRRTE 3.0.8
 * does (oob_tcp_connection.c, tcp_peer_send_connect_ack). It prints "turned away", or "taken for a daemon" if it is answered.
 * With FILE it returns when it is connected, and a child says who it is once that file is there. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IDENTITY = 1, PATIENCE_MS = 5000, LOOK_MS = 10 };

struct name {
    char nspace[256];
    uint32_t rank;
};

struct greeting { /* prte_oob_tcp_hdr_t and what follows it */
    struct name origin, destination;
    uint32_t tag, number, length;
    uint8_t type;
    char routed[32];
    /* The header ends on a boundary of four bytes. */
    char padding[3];
    char accepts[2];
    char version[6];
};

int main(int argc, char **argv)
{
    struct greeting greeting = {.length = htonl(8), .type = IDENTITY, .accepts = {0, 1}, .version = "3.0.8"};
    struct sockaddr_in place = {.sin_family = AF_INET};

    if (argc < 7 || inet_pton(AF_INET, argv[1], &place.sin_addr) != 1) {
        fprintf(stderr, "usage: impostor ADDRESS PORT USER NSPACE RANK TO [FILE]\n");
        return 2;
    }
    place.sin_port = htons((uint16_t) atoi(argv[2]));
    const uint32_t user = (uint32_t) atoi(argv[3]);
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) {
        perror("setresuid");
        return 2;
    }
    snprintf(greeting.origin.nspace, sizeof greeting.origin.nspace, "%s", argv[4]);
    snprintf(greeting.destination.nspace, sizeof greeting.destination.nspace, "%s", argv[4]);
    greeting.origin.rank = htonl((uint32_t) atoi(argv[5]));
    greeting.destination.rank = htonl((uint32_t) atoi(argv[6]));

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *) &place, sizeof place) != 0) {
        perror("connect");
        return 2;
    }
    if (argc > 7 && fork() != 0) {
        return 0;
    }
    while (argc > 7 && access(argv[7], F_OK) != 0) {
        poll(NULL, 0, LOOK_MS);
    }
    char answer;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting
        || (poll(&wait, 1, PATIENCE_MS) == 1 && recv(fd, &answer, 1, 0) <= 0)) {
        printf("turned away\n");
    } else {
        printf(wait.revents != 0 ? "taken for a daemon\n" : "not answered\n");
    }
    return 0;
}
