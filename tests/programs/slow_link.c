/* slow_link FIRST SECOND: a link between two network namespaces (ip netns). Each gets a device
 * tun0; this program carries the packets from one to the other: the kernel's TCP over a line that
 * delays, loses, repeats and overtakes, also where the kernel lacks netem.
 *
 * Prints "ready" once both devices are there. Then each line of the standard input sets the line:
 * DELAY_US LOST REPEATED OVERTAKING, the last three of 10,000 packets. Ends with its input. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_BYTES = 2048, QUEUE = 1 << 13, ALL = 10000, AT_ONCE = 64 };

typedef struct packet {
    uint64_t due_ns;
    ssize_t bytes;
    char data[PACKET_BYTES];
} packet;

/* Packets on their way to a device, in the order of their arrival. */
typedef struct side {
    int device;
    packet *queue;
    unsigned first, count;
} side;

static unsigned delay_us, lost, repeated, overtaking;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int open_device(const char *name) {
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s", name);
    snprintf(request.ifr_name, sizeof request.ifr_name, "tun0");
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET)) fail(path);
    close(space);
    const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0 || ioctl(device, TUNSETIFF, &request)) fail("/dev/net/tun");
    return device;
}

static bool drawn(unsigned share) {
    return (unsigned)random() % ALL < share;
}

/* A device that is down takes nothing: the packet is lost. */
static void deliver(const side *to, const char *data, ssize_t bytes) {
    if (write(to->device, data, (size_t)bytes) < 0) return;
}

static void enqueue(side *to, const char *data, ssize_t bytes) {
    if (to->count == QUEUE) return;
    packet *last = &to->queue[(to->first + to->count++) % QUEUE];
    last->due_ns = now_ns() + UINT64_C(1000) * delay_us;
    last->bytes = bytes;
    memcpy(last->data, data, (size_t)bytes);
}

/* Returns whether anything arrived. */
static bool take(const side *from, side *to) {
    char data[PACKET_BYTES];
    for (int i = 0; i < AT_ONCE; i++) {
        const ssize_t bytes = read(from->device, data, sizeof data);
        if (bytes <= 0) return i > 0;
        if (drawn(lost)) continue;
        if (drawn(overtaking))
            deliver(to, data, bytes);
        else
            enqueue(to, data, bytes);
        if (drawn(repeated)) enqueue(to, data, bytes);
    }
    return true;
}

static void send_due(side *to) {
    for (const uint64_t now = now_ns(); to->count && to->queue[to->first].due_ns <= now;) {
        deliver(to, to->queue[to->first].data, to->queue[to->first].bytes);
        to->first = (to->first + 1) % QUEUE;
        to->count--;
    }
}

static struct timespec until_due(const side *sides) {
    uint64_t left = 1000000000;
    const uint64_t now = now_ns();
    for (int i = 0; i < 2; i++) {
        if (!sides[i].count) continue;
        const uint64_t due = sides[i].queue[sides[i].first].due_ns, own = due > now ? due - now : 0;
        if (own < left) left = own;
    }
    return (struct timespec){.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
}

int main(int argc, char **argv) {
    side sides[2] = {0};
    char line[128];
    if (argc != 3) return 2;
    for (int i = 0; i < 2; i++) {
        sides[i].device = open_device(argv[1 + i]);
        sides[i].queue = calloc(QUEUE, sizeof *sides[i].queue);
        if (!sides[i].queue) return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[3] = {
            {0, POLLIN, 0}, {sides[0].device, POLLIN, 0}, {sides[1].device, POLLIN, 0}};
        const struct timespec left = until_due(sides);
        if (ppoll(fds, 3, &left, NULL) < 0) fail("ppoll");
        if (fds[0].revents) {
            const ssize_t bytes = read(0, line, sizeof line - 1);
            if (bytes <= 0) return 0;
            line[bytes] = 0;
            if (sscanf(line, "%u %u %u %u", &delay_us, &lost, &repeated, &overtaking) != 4)
                return 2;
        }
        bool arrived = false;
        for (int i = 0; i < 2; i++) arrived |= take(&sides[i], &sides[1 - i]);
        for (int i = 0; i < 2; i++) send_due(&sides[i]);
        /* A device that is down is ready all the time. */
        if (!arrived && (fds[1].revents | fds[2].revents) & ~POLLIN) usleep(1000);
    }
}
