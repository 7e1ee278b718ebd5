/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Preloaded into a worker: its connections to a server go through its own link to that server, so
 * that all clients know a server by one address and each has its own network. CHAOS_ROUTES is
 * "PORT=PORT ...", both on this machine. And its wall clock is CHAOS_AHEAD_S seconds ahead.
 */
#undef _GNU_SOURCE /* there connect() takes a union, which ISO C cannot define */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long routed(long port) {
    const char *at = getenv("CHAOS_ROUTES");
    while (at && *at) {
        char *end;
        long from = strtol(at, &end, 10);
        if (*end != '=') return port;
        long to = strtol(end + 1, &end, 10);
        if (from == port) return to;
        at = *end == ' ' ? end + 1 : end;
    }
    return port;
}

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *address,
                                                   socklen_t bytes) {
    struct sockaddr_in other;
    if (address->sa_family == AF_INET && bytes >= sizeof other) {
        memcpy(&other, address, sizeof other);
        other.sin_port = htons((uint16_t)routed(ntohs(other.sin_port)));
        return (int)syscall(SYS_connect, fd, &other, sizeof other);
    }
    return (int)syscall(SYS_connect, fd, address, bytes);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts) {
    static long ahead_s;
    static int known;
    int result = (int)syscall(SYS_clock_gettime, clock, ts);
    if (clock != CLOCK_REALTIME || result != 0) return result;
    if (!known) {
        const char *text = getenv("CHAOS_AHEAD_S");
        ahead_s = text ? strtol(text, NULL, 10) : 0;
        known = 1;
    }
    ts->tv_sec += ahead_s;
    return result;
}
