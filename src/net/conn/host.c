/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a net has of its host: clocks, randomness, the event that wakes its loop, the log, and the
 * handler that learns of its nodes. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "net/conn/conn.h"

rl_ns clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (rl_ns)now.tv_sec * 1000000000 + now.tv_nsec;
}

rl_ns net_now(struct net *net) { return net && net->sample != 0 ? net->sample : clock_now(); }

int64_t net_wall_us(struct net *net) {
    struct timespec now;
    (void)net;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int net_random(struct net *net, void *buf, size_t n) {
    unsigned char *to = buf;
    while (n > 0) {
        if (net->random_left == 0) {
            ssize_t got;
            do {
                got = getrandom(net->random, sizeof(net->random), 0);
            } while (got < 0 && errno == EINTR);
            if (got <= 0) return -1;
            net->random_left = (size_t)got; /* fewer than requested when a signal comes */
        }
        size_t part = n < net->random_left ? n : net->random_left;
        unsigned char *from = net->random + net->random_left - part;
        memcpy(to, from, part);
        /* tokens come from here: no byte is used twice or stays in memory */
        explicit_bzero(from, part);
        net->random_left -= part;
        to += part;
        n -= part;
    }
    return 0;
}

static void raise_event(struct net *net, int event) {
    uint64_t one = 1;
    if (!net_may_touch(net)) return;
    ssize_t written = write(event, &one, sizeof(one));
    (void)written; /* fails only when the counter is full: then it is readable already */
}

void net_kick(struct net *net) { raise_event(net, net->kick); }

int net_above_standard(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return above;
}

bool net_watch(const struct net *net, int fd, enum epoll_item item) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)item << 56};
    return fd >= 0 && epoll_ctl(net->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The sockets get a set of their own: the program is not woken by a kick. */
bool net_make_bell(struct net *net) {
    struct epoll_event rings = {.events = EPOLLIN}, silent = {.events = 0};
    const int sockets = net_above_standard(epoll_create1(EPOLL_CLOEXEC));
    if (!net_watch(net, sockets, ITEM_SOCKETS)) {
        if (sockets >= 0) close(sockets);
        return false;
    }
    net->sockets = sockets;
    net->ring = net_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    net->bell = net_above_standard(epoll_create1(EPOLL_CLOEXEC));
    return net->ring >= 0 && net->bell >= 0 &&
           fcntl(net->bell, F_SETFL, O_NONBLOCK) == 0 && /* Go wants that of what it polls */
           epoll_ctl(net->bell, EPOLL_CTL_ADD, net->ring, &rings) == 0 &&
           epoll_ctl(net->bell, EPOLL_CTL_ADD, sockets, &silent) == 0;
}

int net_bell(const struct net *net) { return net_may_touch(net) ? net->bell : -1; }

void net_bell_listen(struct net *net, bool on) {
    struct epoll_event event = {.events = on ? EPOLLIN : 0};
    if (net_may_touch(net)) epoll_ctl(net->bell, EPOLL_CTL_MOD, net->sockets, &event);
}

void net_ring(struct net *net) { raise_event(net, net->ring); }

void net_hush(struct net *net) {
    uint64_t rings;
    if (!net_may_touch(net)) return;
    ssize_t got = read(net->ring, &rings, sizeof(rings));
    (void)got; /* it was silent */
}

void net_log(struct net *net, int level, const char *format, ...) {
    if (!net->handlers.log || level > net->log_level) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    net->handlers.log(net->handlers.context, level, text);
}

void net_report(struct net *net) {
    rl_mask changed = policy_reports(&net->policy, clock_now());
    for (unsigned i = 0; changed != 0; i++, changed >>= 1)
        if (changed & 1) net->handlers.node(net->handlers.context, i);
}
