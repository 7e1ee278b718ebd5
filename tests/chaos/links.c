/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The links between workers and servers: a listener for each pair, so that each client has its own
 * network. One thread, one epoll. A connection ends at one server for all its life; a link that is
 * moved leads new connections elsewhere and leaves old ones where they are. Commands come on
 * standard input, one a line:
 *
 *   open LINK PORT       a new link to this port; answers "LINK ITS_PORT"
 *   late LINK UP DOWN R  requests and replies pass so many microseconds later, plus up to R each
 *   hold LINK WHICH      0: all passes; 1: requests stall; 2: replies stall; 3: both. As on a link
 *                        that loses packets, nothing is lost that is not cut off meanwhile
 *   reset LINK PERCENT   resets that share of its connections
 *   refuse LINK 0|1      new connections are reset
 *   move LINK PORT       new connections lead there
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>

enum { LINKS = 4096, READ_BYTES = 65536, QUEUE_BYTES = 1 << 20 };
enum { UP = 0, DOWN = 1 };
enum source { SOURCE_INPUT, SOURCE_LISTENER, SOURCE_END };

struct chunk {
    struct chunk *next;
    int64_t due_ns;
    size_t bytes, sent; /* no bytes: the end of the stream */
    char data[];
};

/* One direction of a connection. */
struct way {
    struct chunk *first, *last;
    size_t queued;
    int64_t due_ns; /* of the last chunk: they stay in order */
    bool ended, shut;
};

struct end {
    enum source source;
    int fd;
    uint32_t wanted;
    struct pair *pair;
    struct link *link; /* of a listener */
    int side;          /* UP: the client's, from which requests come */
};

struct pair {
    struct end ends[2];
    struct way ways[2]; /* ways[UP]: from ends[UP] to ends[DOWN] */
    struct link *link;
    struct pair *next, **back;
    bool dead;
};

struct link {
    struct end listener;
    int port, held;
    int64_t late_ns[2], range_ns;
    bool refuses;
};

static struct link *links[LINKS];
static struct pair *pairs, *dead_pairs;
static int epoll_fd;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "chaos_links: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void want(struct end *end, uint32_t events) {
    if (end->wanted == events) return;
    struct epoll_event event = {.events = events, .data.ptr = end};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, end->fd, &event) != 0) die("epoll");
    end->wanted = events;
}

static void watch(struct end *end, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = end};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, end->fd, &event) != 0) die("epoll");
    end->wanted = events;
}

static void drop_chunks(struct way *way) {
    while (way->first) {
        struct chunk *chunk = way->first;
        way->first = chunk->next;
        free(chunk);
    }
    way->last = NULL;
    way->queued = 0;
}

/* A reset at both ends. It is freed when no event can name it any more. */
static void kill_pair(struct pair *pair, bool reset) {
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (pair->dead) return;
    pair->dead = true;
    for (int side = 0; side < 2; side++) {
        if (reset) setsockopt(pair->ends[side].fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(pair->ends[side].fd);
        drop_chunks(&pair->ways[side]);
    }
    *pair->back = pair->next;
    if (pair->next) pair->next->back = pair->back;
    pair->next = dead_pairs;
    dead_pairs = pair;
}

static void bury(void) {
    while (dead_pairs) {
        struct pair *pair = dead_pairs;
        dead_pairs = pair->next;
        free(pair);
    }
}

/* ---- data ---- */

static bool holds(const struct link *link, int side) { return (link->held >> side & 1) != 0; }

static void show_interest(struct pair *pair) {
    for (int side = 0; side < 2; side++) {
        const struct way *out = &pair->ways[!side], *in = &pair->ways[side];
        uint32_t events = 0;
        if (!in->ended && in->queued < QUEUE_BYTES) events |= EPOLLIN;
        if (out->first && !holds(pair->link, !side) && out->first->due_ns <= now_ns())
            events |= EPOLLOUT;
        want(&pair->ends[side], events);
    }
}

/* Sends what is due. False: the connection is gone. */
static bool pass_on(struct pair *pair, int side) {
    struct way *way = &pair->ways[side];
    const int64_t now = now_ns();
    while (way->first && way->first->due_ns <= now && !holds(pair->link, side)) {
        struct chunk *chunk = way->first;
        if (chunk->bytes == 0) {
            shutdown(pair->ends[!side].fd, SHUT_WR);
            way->shut = true;
        } else {
            ssize_t sent = send(pair->ends[!side].fd, chunk->data + chunk->sent,
                                chunk->bytes - chunk->sent, MSG_NOSIGNAL);
            if (sent < 0) return errno == EAGAIN;
            chunk->sent += (size_t)sent;
            if (chunk->sent < chunk->bytes) return true;
        }
        way->queued -= chunk->bytes;
        way->first = chunk->next;
        if (!way->first) way->last = NULL;
        free(chunk);
    }
    return !(pair->ways[UP].shut && pair->ways[DOWN].shut);
}

static void enqueue(struct pair *pair, int side, const char *data, size_t bytes) {
    struct way *way = &pair->ways[side];
    const struct link *link = pair->link;
    struct chunk *chunk = malloc(sizeof *chunk + bytes);
    if (!chunk) die("memory");
    int64_t due = now_ns() + link->late_ns[side];
    if (link->range_ns > 0) due += (int64_t)random() % link->range_ns;
    if (due < way->due_ns) due = way->due_ns;
    way->due_ns = due;
    *chunk = (struct chunk){.due_ns = due, .bytes = bytes};
    if (bytes > 0) memcpy(chunk->data, data, bytes);
    if (way->last)
        way->last->next = chunk;
    else
        way->first = chunk;
    way->last = chunk;
    way->queued += bytes;
}

static void take(struct pair *pair, int side) {
    static char data[READ_BYTES];
    struct way *way = &pair->ways[side];
    ssize_t got = recv(pair->ends[side].fd, data, sizeof data, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) { /* reset: what is on its way to the other end may still arrive there */
        if (!holds(pair->link, side)) pass_on(pair, side);
        kill_pair(pair, true);
        return;
    }
    enqueue(pair, side, data, (size_t)got);
    if (got == 0) way->ended = true;
    if (!pass_on(pair, side)) {
        kill_pair(pair, false);
        return;
    }
    show_interest(pair);
}

static void on_end(struct end *end, uint32_t events) {
    struct pair *pair = end->pair;
    if (pair->dead) return;
    if (events & EPOLLOUT) {
        if (!pass_on(pair, !end->side)) {
            kill_pair(pair, true);
            return;
        }
        show_interest(pair);
    }
    if (!pair->dead && (events & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
        if (end->wanted & EPOLLIN)
            take(pair, end->side);
        else if (events & (EPOLLERR | EPOLLHUP))
            kill_pair(pair, true);
    }
}

/* ---- connections ---- */

static struct sockaddr_in here(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void reset_now(int fd) {
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static void on_listener(struct link *link) {
    const int on = 1;
    int near = accept4(link->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (near < 0) return;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = here(link->port);
    if (far < 0) die("socket");
    if (link->refuses ||
        (connect(far, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS)) {
        reset_now(near);
        close(far);
        return;
    }
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair) die("memory");
    *pair = (struct pair){.link = link, .next = pairs, .back = &pairs};
    if (pairs) pairs->back = &pair->next;
    pairs = pair;
    pair->ends[UP] = (struct end){.source = SOURCE_END, .fd = near, .pair = pair, .side = UP};
    pair->ends[DOWN] = (struct end){.source = SOURCE_END, .fd = far, .pair = pair, .side = DOWN};
    watch(&pair->ends[UP], EPOLLIN);
    watch(&pair->ends[DOWN], EPOLLIN);
}

static void open_link(int number, int port) {
    struct link *link = calloc(1, sizeof *link);
    struct sockaddr_in address = here(0);
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!link || fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(fd, 64) != 0 || getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        die("listen");
    link->port = port;
    link->listener = (struct end){.source = SOURCE_LISTENER, .fd = fd, .link = link};
    links[number] = link;
    watch(&link->listener, EPOLLIN);
    printf("%d %d\n", number, ntohs(address.sin_port));
    fflush(stdout);
}

/* ---- commands ---- */

static void each_pair(struct link *link, int percent) {
    for (struct pair *pair = pairs, *next; pair; pair = next) {
        next = pair->next;
        if (pair->link != link) continue;
        if (random() % 100 < percent)
            kill_pair(pair, true);
        else if (!pass_on(pair, UP) || !pass_on(pair, DOWN))
            kill_pair(pair, false);
        else
            show_interest(pair);
    }
}

static void obey(const char *line) {
    char word[16];
    int number, values[3] = {0};
    if (sscanf(line, "%15s %d %d %d %d", word, &number, &values[0], &values[1], &values[2]) < 3 ||
        number < 0 || number >= LINKS || (strcmp(word, "open") != 0 && !links[number])) {
        fprintf(stderr, "chaos_links: not a command: %s\n", line);
        exit(64);
    }
    struct link *link = links[number];
    if (strcmp(word, "open") == 0) {
        open_link(number, values[0]);
    } else if (strcmp(word, "late") == 0) {
        link->late_ns[UP] = values[0] * INT64_C(1000);
        link->late_ns[DOWN] = values[1] * INT64_C(1000);
        link->range_ns = values[2] * INT64_C(1000);
    } else if (strcmp(word, "hold") == 0) {
        link->held = values[0];
        each_pair(link, 0);
    } else if (strcmp(word, "reset") == 0) {
        each_pair(link, values[0]);
    } else if (strcmp(word, "refuse") == 0) {
        link->refuses = values[0] != 0;
    } else if (strcmp(word, "move") == 0) {
        link->port = values[0];
    }
}

/* False: the end of the input, and of the program. */
static bool on_input(void) {
    static char text[65536];
    static size_t bytes;
    ssize_t got = read(STDIN_FILENO, text + bytes, sizeof text - bytes - 1);
    if (got <= 0) return false;
    bytes += (size_t)got;
    text[bytes] = '\0';
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        obey(line);
    }
    bytes -= (size_t)(line - text);
    memmove(text, line, bytes);
    return true;
}

/* Milliseconds until the next late chunk may pass; sends what is due already. */
static int pass_late(void) {
    int64_t least = INT64_MAX;
    const int64_t now = now_ns();
    for (struct pair *pair = pairs, *next; pair; pair = next) {
        next = pair->next;
        bool alive = true;
        for (int side = 0; side < 2 && alive; side++) {
            struct chunk *first = pair->ways[side].first;
            if (!first || holds(pair->link, side)) continue;
            if (first->due_ns <= now && !(pair->ends[!side].wanted & EPOLLOUT)) {
                alive = pass_on(pair, side);
                if (alive) show_interest(pair);
            }
            first = alive ? pair->ways[side].first : NULL;
            if (first && first->due_ns > now && first->due_ns < least) least = first->due_ns;
        }
        if (!alive) kill_pair(pair, false);
    }
    return least == INT64_MAX ? -1 : (int)((least - now) / 1000000) + 1;
}

int main(void) {
    struct end input = {.source = SOURCE_INPUT, .fd = STDIN_FILENO};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) die("epoll");
    watch(&input, EPOLLIN);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll_fd, events, 64, pass_late());
        for (int i = 0; i < count; i++) {
            struct end *end = events[i].data.ptr;
            if (end->source == SOURCE_INPUT && !on_input()) return 0;
            if (end->source == SOURCE_LISTENER) on_listener(end->link);
            if (end->source == SOURCE_END) on_end(end, events[i].events);
        }
        bury();
    }
}
