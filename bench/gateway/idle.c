/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Clients that took and released one lock, and have been idle since.
 */
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MS = 10000, TTL_MS = 20000 };

static void ask(int fd, const char *request, int bytes, const char *expected) {
    char answer[64];
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    if (send(fd, request, (size_t)bytes, MSG_NOSIGNAL) != bytes || poll(&poller, 1, ANSWER_MS) != 1)
        give_up("a client that will be idle gets no answer");
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    answer[got > 0 ? got : 0] = '\0';
    if (strcmp(answer, expected) != 0) give_up("a client that will be idle got '%s'", answer);
}

static void take_and_give(const struct crowd *crowd, int fd, unsigned number) {
    char request[256], key[KEY_BYTES];
    const int key_bytes =
        snprintf(key, sizeof key, "load:%ld:%s:idle:%u", (long)getpid(), crowd->name, number);
    int bytes = snprintf(
        request, sizeof request,
        "*6\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$4\r\nidle\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n%d\r\n",
        key_bytes, key, TTL_MS);
    ask(fd, request, bytes, "+OK\r\n");
    bytes = snprintf(request, sizeof request,
                     "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$%d\r\n%s\r\n$4\r\nidle\r\n",
                     crowd->sha, key_bytes, key);
    ask(fd, request, bytes, ":1\r\n");
}

void idle_open(struct crowd *crowd, unsigned count) {
    crowd->idle = calloc(count + 1, sizeof *crowd->idle);
    if (crowd->idle == NULL) give_up("out of memory");
    for (unsigned i = 0; i < count; i++) {
        int fd;
        /* A full backlog of the listener refuses for a moment. */
        for (int tries = 0; (fd = served_connect(crowd->served)) < 0 && tries < 1000; tries++)
            pause_ms(5);
        if (fd < 0) give_up("idle connection %u: %s", i, strerror(errno));
        take_and_give(crowd, fd, i);
        crowd->idle[i] = fd;
        crowd->idle_count = i + 1;
    }
}

void idle_close(struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->idle_count; i++) close(crowd->idle[i]);
    free(crowd->idle);
    crowd->idle = NULL;
    crowd->idle_count = 0;
}
