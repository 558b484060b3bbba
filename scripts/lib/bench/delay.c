/* A long link: every frame between a virtual host and the bridge is held back, both ways.
 *
 *   delay HOST PORT MICROSECONDS
 *
 * The host's interface eth0 and PORT, which is for the bridge, are taps of this process; their addresses are the caller's
 * to give. Prints "ready" when both are there, and ends with its parent. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = (1 << 16) + 64, MOST = 1 << 10 };

/* The frames that are on their way in one direction; what finds no room is lost, as on a real link. */
struct way {
    int from, to;
    size_t first, count;
    struct frame {
        int64_t due;
        ssize_t length;
        char bytes[LONGEST];
    } frames[MOST];
};

static int64_t delay;
static struct way ways[2];

static void must(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* An interface in the network that this process is in now. */
static int tap(const char *name)
{
    /* Nobody computes checksums: what a frame says of them goes with it. */
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    must(fd >= 0, "/dev/net/tun");
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    must(0 == ioctl(fd, TUNSETIFF, &request) && 0 == ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM), name);
    return fd;
}

/* Sends what is due, and returns how long the next frame has to wait. */
static int64_t send_due(struct way *way)
{
    while (way->count > 0) {
        struct frame *frame = &way->frames[way->first];
        int64_t left = frame->due - now();
        if (left > 0) {
            return left;
        }
        must(write(way->to, frame->bytes, (size_t) frame->length) >= 0 || EAGAIN == errno || EIO == errno, "write");
        way->first = (way->first + 1) % MOST;
        way->count--;
    }
    return INT64_C(1000000000);
}

static void *carry(void *argument)
{
    struct way *way = argument;
    /* Of this thread: how late it may wake up, in nanoseconds. */
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        int64_t left = send_due(way);
        struct timespec wait = {left / 1000000000, left % 1000000000};
        struct pollfd readable = {.fd = way->from, .events = POLLIN};
        if (way->count < MOST && ppoll(&readable, 1, &wait, NULL) > 0) {
            struct frame *frame = &way->frames[(way->first + way->count) % MOST];
            frame->length = read(way->from, frame->bytes, sizeof frame->bytes);
            frame->due = now() + delay;
            way->count += frame->length > 0;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char path[64];
    pthread_t thread;
    if (argc != 4) {
        fprintf(stderr, "usage: delay HOST PORT MICROSECONDS\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A link does not wait for those who poll it. */
    must(0 == sched_setscheduler(0, SCHED_FIFO, &(struct sched_param) {.sched_priority = 1}), "sched_setscheduler");
    delay = atoll(argv[3]) * 1000;
    int outside = tap(argv[2]), own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/run/netns/%s", argv[1]);
    int host = open(path, O_RDONLY | O_CLOEXEC);
    must(host >= 0 && 0 == setns(host, CLONE_NEWNET), path);
    int inside = tap("eth0");
    /* Whatever is left on a host is ended after each job. */
    must(own >= 0 && 0 == setns(own, CLONE_NEWNET), "setns");
    ways[0] = (struct way) {.from = inside, .to = outside};
    ways[1] = (struct way) {.from = outside, .to = inside};
    puts("ready");
    fflush(stdout);
    must(0 == pthread_create(&thread, NULL, carry, &ways[0]), "thread");
    carry(&ways[1]);
}
