/* Joins two network namespaces by a link of a given rate, delay and queue, in user space.

   Each namespace gets a TUN device `link0`; what is sent into one comes out of the other after it has stood in line
   for the wire, been sent at the link's rate and travelled for half the round trip. Packets that find the line full
   are dropped (tail drop). Rates count IP packets, header included.

   Prints `ready` when both devices are up. Then, for each line on standard input and once more when it ends, a line

       down BYTES PACKETS DROPPED up BYTES PACKETS DROPPED waiting PACKETS

   of what has come out at the other end since the line before. Ends on SIGTERM, SIGINT, at the end of its input and
   when its parent process does. The namespaces must exist; the devices go with the process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { mtu = 1500, ring_size = 1 << 15, device_queue = 2000 };

static const char device[] = "link0";
static volatile sig_atomic_t is_ending;

struct packet {
    int64_t arrival; /* ns */
    int length;
    char bytes[mtu];
};

struct direction {
    int from, to;
    double ns_per_byte;
    int64_t delay; /* ns */
    double queue;  /* bytes */
    double loss;   /* share of packets */
    /* When the wire has sent all it has taken so far. */
    int64_t wire_free;
    /* Sent or waiting to be: a ring. The counters run on; unsigned, so that they may wrap. */
    struct packet *ring;
    unsigned first, next;
    long long bytes, packets, dropped;
};

static void fail(const char *what) {
    fprintf(stderr, "ShapedLink: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void end(int number) {
    (void)number;
    is_ending = 1;
}

/* Makes and raises a TUN device in a namespace, which the calling process then is in. */
static int open_device(const char *namespace, const char *address) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int netns = open(path, O_RDONLY | O_CLOEXEC);
    if (netns < 0 || setns(netns, CLONE_NEWNET) < 0) fail(path);
    close(netns);
    /* The device belongs to the namespace in which this file is opened. */
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (tun < 0 || control < 0) fail("/dev/net/tun");
    struct ifreq request = {0};
    strcpy(request.ifr_name, device);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(tun, TUNSETIFF, &request) < 0) fail("TUNSETIFF");
    request.ifr_mtu = mtu;
    if (ioctl(control, SIOCSIFMTU, &request) < 0) fail("SIOCSIFMTU");
    /* Holds what arrives while this process does not run. */
    request.ifr_qlen = device_queue;
    if (ioctl(control, SIOCSIFTXQLEN, &request) < 0) fail("SIOCSIFTXQLEN");
    struct sockaddr_in *own = (struct sockaddr_in *)&request.ifr_addr;
    memset(own, 0, sizeof *own);
    own->sin_family = AF_INET;
    if (inet_pton(AF_INET, address, &own->sin_addr) != 1) fail(address);
    if (ioctl(control, SIOCSIFADDR, &request) < 0) fail("SIOCSIFADDR");
    inet_pton(AF_INET, "255.255.255.0", &own->sin_addr);
    if (ioctl(control, SIOCSIFNETMASK, &request) < 0) fail("SIOCSIFNETMASK");
    const char *names[] = {device, "lo"};
    for (int i = 0; i < 2; i++) {
        strcpy(request.ifr_name, names[i]);
        if (ioctl(control, SIOCGIFFLAGS, &request) < 0) fail("SIOCGIFFLAGS");
        request.ifr_flags |= IFF_UP;
        if (ioctl(control, SIOCSIFFLAGS, &request) < 0) fail("SIOCSIFFLAGS");
    }
    close(control);
    return tun;
}

static void take(struct direction *side) {
    char bytes[65536];
    ssize_t length;
    while ((length = read(side->from, bytes, sizeof bytes)) > 0) {
        int64_t time = now();
        int64_t start = side->wire_free > time ? side->wire_free : time;
        double standing = (double)(start - time) / side->ns_per_byte;
        if (length > mtu || standing + (double)length > side->queue || side->next - side->first == ring_size
            || (side->loss > 0 && drand48() < side->loss)) {
            side->dropped++;
            continue;
        }
        side->wire_free = start + (int64_t)((double)length * side->ns_per_byte);
        struct packet *packet = &side->ring[side->next++ % ring_size];
        packet->arrival = side->wire_free + side->delay;
        packet->length = (int)length;
        memcpy(packet->bytes, bytes, (size_t)length);
    }
}

static void hand_over(struct direction *side) {
    int64_t time = now();
    while (side->first != side->next) {
        struct packet *packet = &side->ring[side->first % ring_size];
        if (packet->arrival > time) break;
        /* A receiver that takes no more loses it, as a network card would. */
        if (write(side->to, packet->bytes, (size_t)packet->length) == packet->length) {
            side->bytes += packet->length;
            side->packets++;
        } else {
            side->dropped++;
        }
        side->first++;
    }
}

static void report(struct direction *down, struct direction *up) {
    printf("down %lld %lld %lld up %lld %lld %lld waiting %u\n", down->bytes, down->packets, down->dropped, up->bytes,
           up->packets, up->dropped, down->next - down->first + (up->next - up->first));
    fflush(stdout);
    down->bytes = down->packets = down->dropped = up->bytes = up->packets = up->dropped = 0;
}

static void run(struct direction *down, struct direction *up, int parent) {
    struct direction *sides[] = {down, up};
    sigset_t none;
    sigemptyset(&none);
    while (!is_ending) {
        int64_t next = INT64_MAX;
        for (int i = 0; i < 2; i++) {
            struct direction *side = sides[i];
            if (side->first == side->next) continue;
            int64_t arrival = side->ring[side->first % ring_size].arrival;
            if (arrival < next) next = arrival;
        }
        struct timespec wait, *limit = NULL;
        if (next != INT64_MAX) {
            int64_t left = next - now();
            if (left < 0) left = 0;
            wait = (struct timespec){left / 1000000000, left % 1000000000};
            limit = &wait;
        }
        struct pollfd files[] = {
            {down->from, POLLIN, 0}, {up->from, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}, {parent, POLLIN, 0}};
        if (ppoll(files, 4, limit, &none) < 0 && errno != EINTR) fail("ppoll");
        take(down);
        take(up);
        hand_over(down);
        hand_over(up);
        if (files[2].revents) {
            char lines[256];
            ssize_t length = read(STDIN_FILENO, lines, sizeof lines);
            if (length <= 0) break;
            for (ssize_t i = 0; i < length; i++)
                if (lines[i] == '\n') report(down, up);
        }
        if (files[3].revents) break;
    }
    report(down, up);
}

static void usage(void) {
    fputs("usage: ShapedLink --client NAMESPACE --server NAMESPACE --rate MBIT/S\n"
          "           --round-trip MS --queue BYTES [--loss SHARE] [--server-address IPV4]\n",
          stderr);
    exit(64);
}

int main(int argc, char **argv) {
    const char *client = NULL, *server = NULL;
    const char *server_address = "10.211.0.2";
    double rate = 0, round_trip = 0, queue = 0, loss = 0;
    static const struct option options[] = {
        {"client", required_argument, NULL, 'c'}, {"server", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},   {"round-trip", required_argument, NULL, 't'},
        {"queue", required_argument, NULL, 'q'},  {"loss", required_argument, NULL, 'l'},
        {"server-address", required_argument, NULL, 'S'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'c': client = optarg; break;
        case 's': server = optarg; break;
        case 'r': rate = atof(optarg); break;
        case 't': round_trip = atof(optarg); break;
        case 'q': queue = atof(optarg); break;
        case 'l': loss = atof(optarg); break;
        case 'S': server_address = optarg; break;
        default: usage();
        }
    }
    if (!client || !server || rate <= 0 || round_trip < 0 || queue < mtu || optind != argc) usage();

    /* Not the signal of PR_SET_PDEATHSIG: that comes when the parent's thread ends, not its process. */
    int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
    if (parent < 0) fail("pidfd_open");
    /* Taken while waiting only, whatever the parent has blocked. */
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    /* Wake on the nanosecond, and before the programs that use the link; both are wishes. */
    prctl(PR_SET_TIMERSLACK, 1);
    setpriority(PRIO_PROCESS, 0, -15);

    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0) fail("/proc/self/ns/net");
    int at_client = open_device(client, "10.211.0.1");
    int at_server = open_device(server, server_address);
    if (setns(home, CLONE_NEWNET) < 0) fail("setns");
    close(home);

    struct direction down = {.from = at_server, .to = at_client, .ns_per_byte = 8000 / rate};
    struct direction up = {.from = at_client, .to = at_server, .ns_per_byte = 8000 / rate};
    struct direction *sides[] = {&down, &up};
    for (int i = 0; i < 2; i++) {
        sides[i]->delay = (int64_t)(round_trip * 1e6 / 2);
        sides[i]->queue = queue;
        sides[i]->loss = loss;
        sides[i]->ring = malloc(sizeof(struct packet) * ring_size);
        if (!sides[i]->ring) fail("malloc");
    }
    puts("ready");
    fflush(stdout);
    run(&down, &up, parent);
    return 0;
}
