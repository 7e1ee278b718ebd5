/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"
#include "process/boottime.h"
#include "process/message.h"

enum { NODES_MAX = 15, COMMAND_BYTES = 512, ANSWER_BYTES = 4096, ANSWER_MS = 10000 };
enum { TURN_DIGITS = 10 };

struct ring {
    unsigned nodes, quorum, count;
    unsigned turn;   /* the next one of this process; turns are numbered, and so are messages */
    int told, asked; /* epoll descriptors: of messages, of answers */
    int messages[NODES_MAX], commands[NODES_MAX];
    unsigned owed[NODES_MAX]; /* answers that the node has not sent yet */
    char take[COMMAND_BYTES];
    size_t take_bytes;
};

static int fail(unsigned node) {
    complain("the ring cannot use node %u: %s", node + 1,
             errno == 0 ? "unexpected answer" : strerror(errno));
    return -1;
}

/* ---- connecting: outside of what is measured, and blocking ----------------------------------- */

static int watch(int epoll, int fd, unsigned node) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = node};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* The answer names the channel; only its first byte matters. */
static int subscribe(int fd, unsigned number) {
    char line[64], answer[ANSWER_BYTES];
    int bytes = snprintf(line, sizeof line, "SUBSCRIBE redlock-bench:%ld:turn-%u\r\n",
                         (long)getppid(), number);
    if (send(fd, line, (size_t)bytes, MSG_NOSIGNAL) != bytes) return -1;
    errno = 0;
    ssize_t got = recv(fd, answer, sizeof answer, 0);
    return got > 0 && answer[0] == '*' ? 0 : -1;
}

static int open_node(struct ring *ring, unsigned number, const char *url, size_t length) {
    const unsigned node = ring->nodes;
    if (node == NODES_MAX) return -1;
    int commands = floor_dial(url, length);
    int messages = commands < 0 ? -1 : floor_dial(url, length);
    if (messages < 0) return -1;
    ring->commands[node] = commands;
    ring->messages[node] = messages;
    ring->nodes++;
    if (watch(ring->asked, commands, node) != 0 || watch(ring->told, messages, node) != 0)
        return -1;
    return subscribe(messages, number);
}

int ring_open(const char *nodes, unsigned number, unsigned count, int64_t ttl_ms,
              struct ring **opened) {
    struct ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) return -1;
    ring->turn = number;
    ring->count = count;
    ring->told = epoll_create1(EPOLL_CLOEXEC);
    ring->asked = epoll_create1(EPOLL_CLOEXEC);
    for (const char *at = nodes; *at != '\0';) {
        const size_t length = strcspn(at, ", \t\n");
        if (length > 0 && open_node(ring, number, at, length) != 0) return fail(ring->nodes);
        at += length;
        at += strspn(at, ", \t\n");
    }
    ring->quorum = ring->nodes / 2 + 1;
    ring->take_bytes = (size_t)snprintf(ring->take, sizeof ring->take,
                                        "SET redlock-bench:%ld:ring %040u NX PX %lld\r\n",
                                        (long)getppid(), number, (long long)ttl_ms);
    *opened = ring;
    return 0;
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static int send_all(struct ring *ring, const char *command, size_t bytes, unsigned answers) {
    for (unsigned i = 0; i < ring->nodes; i++) {
        ring->owed[i] += answers;
        if (send(ring->commands[i], command, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) return fail(i);
    }
    return 0;
}

/* The number of the turn of the last message that came from there; -1 after a message. */
static int read_message(struct ring *ring, unsigned node) {
    char bytes[ANSWER_BYTES + 1];
    const ssize_t got = recv(ring->messages[node], bytes, ANSWER_BYTES, 0);
    if (got < TURN_DIGITS + 2) return fail(node);
    bytes[got] = '\0';
    return atoi(bytes + got - TURN_DIGITS - 2);
}

/* Left out: a queue, and a place in it that others may not pass; what happens if a message is
 * lost. */
static int await_message(struct ring *ring, int64_t closes) {
    for (unsigned told = 0; told < ring->quorum;) {
        struct epoll_event events[NODES_MAX];
        const int64_t left = closes - now_ns();
        if (left <= 0) return 0;
        const int ready = epoll_wait(ring->told, events, NODES_MAX, (int)(left / MS) + 1);
        for (int i = 0; i < ready; i++) {
            const int turn = read_message(ring, events[i].data.u32);
            if (turn < 0) return -1;
            told += (unsigned)turn == ring->turn; /* not a late message of an earlier turn */
        }
    }
    return 1;
}

/* Reads what there is. The number of nodes that have granted the lock, or -1 after a message. */
static int read_answers(struct ring *ring) {
    struct epoll_event events[NODES_MAX];
    int granted = 0;
    errno = ETIMEDOUT;
    const int ready = epoll_wait(ring->asked, events, NODES_MAX, ANSWER_MS);
    if (ready <= 0) return fail(0);
    for (int i = 0; i < ready; i++) {
        const unsigned node = events[i].data.u32;
        char bytes[ANSWER_BYTES];
        const ssize_t got = recv(ring->commands[node], bytes, sizeof bytes, 0);
        if (got <= 0) return fail(node);
        granted += bytes[0] == '+';
        for (ssize_t at = 0; at < got; at++) ring->owed[node] -= bytes[at] == '\n';
        errno = 0;
        if (bytes[0] == '-') return fail(node);
    }
    return granted;
}

/* Left out: a timer for the answers; the validity that is left; another try if a majority denies.
 * None does: each node that passed on the message had deleted the key. */
int ring_take(struct ring *ring, int64_t closes) {
    const int told = ring->turn == 0 ? 1 : await_message(ring, closes);
    if (told != 1) return told;
    if (send_all(ring, ring->take, ring->take_bytes, 1) != 0) return -1;
    for (unsigned granted = 0; granted < ring->quorum;) {
        const int more = read_answers(ring);
        if (more < 0) return -1;
        granted += (unsigned)more;
    }
    return 1;
}

/* Left out: the comparison of the token. All answers are read here, so that none is left for the
 * next turn. */
int ring_pass(struct ring *ring) {
    char pass[COMMAND_BYTES];
    const unsigned next = ring->turn + 1;
    const long parent = (long)getppid();
    const int bytes = snprintf(pass, sizeof pass,
                               "DEL redlock-bench:%ld:ring\r\n"
                               "PUBLISH redlock-bench:%ld:turn-%u %0*u\r\n",
                               parent, parent, next % ring->count, TURN_DIGITS, next);
    if (send_all(ring, pass, (size_t)bytes, 2) != 0) return -1;
    for (unsigned i = 0; i < ring->nodes; i++) {
        while (ring->owed[i] > 0)
            if (read_answers(ring) < 0) return -1;
    }
    ring->turn += ring->count;
    return 0;
}
