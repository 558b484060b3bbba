/* The least that a heartbeat over UDP can cost on this machine: a program that sleeps for a period and sends one
 * datagram, again and again.
 *
 * usage: pulse ADDRESS PORT PERIOD_US SECONDS; prints the processor time that the scheduler counted, in ns. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (argc != 5 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1 || udp < 0) {
        fprintf(stderr, "usage: pulse ADDRESS PORT PERIOD_US SECONDS\n");
        return 2;
    }
    peer.sin_port = htons((unsigned short)atoi(argv[2]));
    long period = atol(argv[3]) * 1000, turns = (long)(atof(argv[4]) * 1e9 / period);
    char datagram[64] = {0}; /* as long as a heartbeat */
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long turn = 0; turn < turns; turn++) {
        next.tv_nsec += period;
        for (; next.tv_nsec >= 1000000000; next.tv_nsec -= 1000000000)
            next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        /* A refusal of the one before is no reason to stop. */
        (void)!sendto(udp, datagram, sizeof datagram, 0, (struct sockaddr *)&peer, sizeof peer);
    }
    FILE *counted = fopen("/proc/self/schedstat", "r");
    unsigned long long ns;
    if (counted == NULL || fscanf(counted, "%llu", &ns) != 1)
        return 1;
    printf("%llu\n", ns);
    return 0;
}
