/* SPDX-License-Identifier: BSD-2-Clause */
#include "floor.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "floor_turns.h"
#include "process/boottime.h"
#include "process/message.h"

enum { NODES_MAX = 15, IN_BYTES = 65536, LOG_LEAST = 4096, SILENT_MS = 10000 };

/* The commands of a slot to all nodes. */
enum said { SAID_ACQUIRE, SAID_RELEASE, SAID_EXTEND, SAIDS };

static const char *const scripts[SAIDS] = {
    "for _,k in ipairs(KEYS) do if redis.call('EXISTS',k)==1 then return 0 end end "
    "for _,k in ipairs(KEYS) do redis.call('SET',k,ARGV[1],'PX',ARGV[2]) end return 1",
    "local n=0 for _,k in ipairs(KEYS) do if redis.call('GET',k)==ARGV[1] then n=n+redis.call('DEL',k) end end "
    "return n==#KEYS and 1 or 0",
    "for _,k in ipairs(KEYS) do if redis.call('GET',k)~=ARGV[1] then return 0 end end "
    "for _,k in ipairs(KEYS) do redis.call('PEXPIRE',k,ARGV[2]) end return 1"};

struct line {
    char *bytes;
    size_t count;
};

/* Left out: a token of its own for each cycle (random bytes, and the formatting of a command around
 * them). A slot's commands are formatted once; its key and its token are its own, and both are as
 * long as a client's. */
struct slot {
    struct line lines[SAIDS];
    enum said said;
    uint32_t at; /* where its last command stands in the log */
    unsigned votes;
    int64_t since;
};

/* Left out: reconnecting, timeouts, more than one connection state. A node that does not answer
 * ends the run. */
struct node {
    int fd;
    uint32_t heard; /* the position in the log up to which it has answered */
    char *unsent;   /* bytes that the socket did not take; seldom any */
    size_t unsent_bytes, unsent_size;
    size_t in_bytes;
    char in[IN_BYTES];
};

/* All nodes get the same commands in the same order, so one log of them serves for all. */
struct entry {
    uint32_t slot;
    uint32_t said;
};

struct floor {
    unsigned nodes, quorum;
    int epoll;
    char shas[SAIDS][41];
    struct node *node[NODES_MAX];

    struct slot *slots;
    unsigned in_flight, busy;
    int once, extends, ending; /* once: each slot says one thing and rests */
    int by_turns;              /* a slot that may go on waits until floor_say() */
    unsigned answered;         /* by turns: those that wait */
    const char *replies[SAIDS];
    struct meter *meter;
    struct entry *log;
    uint32_t log_mask, log_end;
    uint32_t *waiting; /* slots that found the log full: a node lags behind by that much */
    unsigned waiting_count;
    char *turn; /* what is said in this turn of the loop */
    size_t turn_bytes;
};

/* ---- connecting: outside of what is measured, and blocking ----------------------------------- */

static int dial_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strcspn(path, "?,");
    if (length == 0 || length >= sizeof address.sun_path) return -1;
    memcpy(address.sun_path, path, length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int dial_tcp(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1, on = 1;
    if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Sends the request and compares the answer. */
static int ask_for(int fd, const char *request, size_t bytes, const char *expected) {
    char answer[16];
    size_t got = 0, wanted = strlen(expected);
    if (send(fd, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) return -1;
    while (got < wanted) {
        ssize_t more = recv(fd, answer + got, wanted - got, 0);
        if (more < 0) return -1;
        if (more == 0 || answer[0] != expected[0]) break;
        got += (size_t)more;
    }
    if (got == wanted && memcmp(answer, expected, wanted) == 0) return 0;
    errno = EACCES;
    return -1;
}

/* `user` may be empty. */
static int authenticate(int fd, const char *user, const char *password) {
    char request[512];
    const bool named = user[0] != '\0';
    int bytes = snprintf(request, sizeof request, "*%d\r\n$4\r\nAUTH\r\n", named ? 3 : 2);
    if (named) {
        bytes += snprintf(request + bytes, sizeof request - (size_t)bytes, "$%zu\r\n%s\r\n",
                          strlen(user), user);
    }
    bytes += snprintf(request + bytes, sizeof request - (size_t)bytes, "$%zu\r\n%s\r\n",
                      strlen(password), password);
    return ask_for(fd, request, (size_t)bytes, "+OK\r\n");
}

static int dial_with_password(char *user, char *host, const char *port) {
    char *password = strchr(user, ':');
    if (password == NULL) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    *password++ = '\0';
    int fd = dial_tcp(host, port);
    if (fd < 0 || authenticate(fd, user, password) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Left out: TLS, databases, IPv6 addresses in brackets, and passwords that have to be encoded. */
int floor_dial(const char *url, size_t length) {
    char text[256], *host, *port;
    if (length >= sizeof text) return -1;
    memcpy(text, url, length);
    text[length] = '\0';
    if (strncmp(text, "unix://", 7) == 0) return dial_unix(text + 7);
    if (strncmp(text, "redis://", 8) != 0 || strpbrk(text + 8, "/[?%") != NULL) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    host = strrchr(text + 8, '@');
    if (host != NULL) *host++ = '\0';
    port = strchr(host != NULL ? host : text + 8, ':');
    if (port != NULL) *port++ = '\0';
    const char *number = port != NULL ? port : "6379";
    return host != NULL ? dial_with_password(text + 8, host, number) : dial_tcp(text + 8, number);
}

static int load_script(struct floor *floor, int fd, enum said said) {
    char text[1024], answer[64];
    size_t got = 0;
    int length = snprintf(text, sizeof text, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                          strlen(scripts[said]), scripts[said]);
    if (send(fd, text, (size_t)length, MSG_NOSIGNAL) != length) return -1;
    while (got < 47) { /* $40, the digest, and the ends of two lines */
        ssize_t more = recv(fd, answer + got, 47 - got, 0);
        if (more <= 0 || answer[0] != '$') return -1;
        got += (size_t)more;
    }
    memcpy(floor->shas[said], answer + 5, 40);
    return 0;
}

static int open_node(struct floor *floor, const char *url, size_t length) {
    struct node *node = floor->nodes < NODES_MAX ? calloc(1, sizeof *node) : NULL;
    if (node == NULL) return -1;
    floor->node[floor->nodes++] = node;
    node->fd = floor_dial(url, length);
    if (node->fd < 0) return -1;
    for (enum said said = SAID_ACQUIRE; said < SAIDS; said++) {
        if (load_script(floor, node->fd, said) != 0) return -1;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = node};
    return epoll_ctl(floor->epoll, EPOLL_CTL_ADD, node->fd, &event);
}

/* By its number: its URL may contain a password. */
static void refuse(unsigned node) {
    if (errno == EPROTONOSUPPORT) {
        complain(
            "the floor cannot reach node %u: it does not support databases, TLS or encoded passwords: redis://[[USER]:PASSWORD@]HOST[:PORT] or unix:///PATH",
            node);
        return;
    }
    complain("the floor cannot use node %u: %s", node, strerror(errno));
}

int floor_open(const char *nodes, struct floor **opened) {
    struct floor *floor = calloc(1, sizeof *floor);
    if (floor == NULL) return -1;
    floor->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (const char *at = nodes; *at != '\0';) {
        size_t length = strcspn(at, ", \t\n");
        if (length > 0 && open_node(floor, at, length) != 0) {
            refuse(floor->nodes);
            floor_close(floor);
            return -1;
        }
        at += length;
        at += strspn(at, ", \t\n");
    }
    floor->quorum = floor->nodes / 2 + 1;
    *opened = floor;
    return 0;
}

void floor_close(struct floor *floor) {
    if (floor == NULL) return;
    for (unsigned i = 0; i < floor->nodes; i++) {
        if (floor->node[i]->fd >= 0) close(floor->node[i]->fd);
        free(floor->node[i]->unsent);
        free(floor->node[i]);
    }
    if (floor->epoll >= 0) close(floor->epoll);
    free(floor);
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static void put_word(FILE *out, const char *word) {
    fprintf(out, "$%zu\r\n%s\r\n", strlen(word), word);
}

static void put_keys(FILE *out, const struct floor_work *work, unsigned slot) {
    for (unsigned i = 0; i < work->resources; i++) {
        char key[64];
        if (work->resources == 1) {
            snprintf(key, sizeof key, "redlock-bench:%ld:%u", (long)getpid(), slot);
        } else {
            snprintf(key, sizeof key, "redlock-bench:%ld:%u:%u", (long)getpid(), slot, i);
        }
        put_word(out, key);
    }
}

static void put_script(FILE *out, const struct floor *floor, const struct floor_work *work,
                       enum said said, unsigned slot, const char *token, const char *ttl) {
    char keys[16];
    const bool has_ttl = said != SAID_RELEASE;
    snprintf(keys, sizeof keys, "%u", work->resources);
    fprintf(out, "*%u\r\n", 4 + work->resources + (has_ttl ? 1 : 0));
    put_word(out, "EVALSHA");
    put_word(out, floor->shas[said]);
    put_word(out, keys);
    put_keys(out, work, slot);
    put_word(out, token);
    if (has_ttl) put_word(out, ttl);
}

static void put_set(FILE *out, const struct floor_work *work, unsigned slot, const char *token,
                    const char *ttl) {
    fputs("*6\r\n", out);
    put_word(out, "SET");
    put_keys(out, work, slot);
    put_word(out, token);
    put_word(out, "NX");
    put_word(out, "PX");
    put_word(out, ttl);
}

static int format_slot(struct floor *floor, const struct floor_work *work, unsigned number) {
    char token[41], ttl[24];
    snprintf(token, sizeof token, "%040u", number);
    snprintf(ttl, sizeof ttl, "%lld", (long long)work->ttl_ms);
    for (enum said said = SAID_ACQUIRE; said < SAIDS; said++) {
        struct line *line = &floor->slots[number].lines[said];
        FILE *out = open_memstream(&line->bytes, &line->count);
        if (out == NULL) return -1;
        if (said == SAID_ACQUIRE && work->resources == 1) {
            put_set(out, work, number, token, ttl);
        } else {
            put_script(out, floor, work, said, number, token, ttl);
        }
        if (fclose(out) != 0) return -1;
    }
    return 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool log_is_full(const struct floor *floor) {
    for (unsigned i = 0; i < floor->nodes; i++) {
        if (floor->log_end - floor->node[i]->heard > floor->log_mask) return true;
    }
    return false;
}

/* Left out: a check of whether the nodes are there, connected and not overdue; a timer for the
 * answer. */
static void say(struct floor *floor, struct slot *slot, enum said said) {
    slot->said = said;
    if (log_is_full(floor)) {
        floor->waiting[floor->waiting_count++] = (uint32_t)(slot - floor->slots);
        return;
    }
    const struct line *line = &slot->lines[said];
    slot->at = floor->log_end++;
    slot->votes = 0;
    floor->log[slot->at & floor->log_mask] =
        (struct entry){(uint32_t)(slot - floor->slots), (uint32_t)said};
    memcpy(floor->turn + floor->turn_bytes, line->bytes, line->count);
    floor->turn_bytes += line->count;
}

static void say_what_waited(struct floor *floor) {
    unsigned count = floor->waiting_count;
    floor->waiting_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct slot *slot = &floor->slots[floor->waiting[i]];
        say(floor, slot, slot->said);
    }
}

static void go_on(struct floor *floor, struct slot *slot, enum said said) {
    slot->said = said;
    if (floor->by_turns)
        floor->answered++;
    else
        say(floor, slot, said);
}

/* A majority has answered. Left out: the validity that is left after the drift of clocks, the
 * lock's state, its renewal, a callback to its owner. The clock is read once a cycle, to
 * measure. */
static void move_on(struct floor *floor, struct slot *slot) {
    if (!floor->once && !floor->extends && slot->said == SAID_ACQUIRE) {
        go_on(floor, slot, SAID_RELEASE);
        return;
    }
    int64_t now = now_ns();
    if (!floor->once) meter_cycle(floor->meter, slot->since, now);
    if (floor->once || floor->ending) {
        floor->busy--;
        return;
    }
    slot->since = now;
    go_on(floor, slot, floor->extends ? SAID_EXTEND : SAID_ACQUIRE);
}

/* Left out: a parser of replies. There is one good reply to each command, and anything else ends
 * the run. */
static int read_replies(struct floor *floor, struct node *node) {
    size_t at = 0;
    while (at < node->in_bytes && node->heard != floor->log_end) {
        const struct entry entry = floor->log[node->heard & floor->log_mask];
        const char *reply = floor->replies[entry.said];
        size_t length = strlen(reply),
               here = node->in_bytes - at < length ? node->in_bytes - at : length;
        if (memcmp(node->in + at, reply, here) != 0) break;
        if (here < length) goto more;
        at += length;
        struct slot *slot = &floor->slots[entry.slot];
        /* A late answer is to an earlier command of the slot, or comes after the majority. */
        if (slot->at == node->heard++ && ++slot->votes == floor->quorum) move_on(floor, slot);
    }
    if (at < node->in_bytes) {
        size_t length = node->in_bytes - at < 60 ? node->in_bytes - at : 60;
        char clean[256];
        complain("unexpected reply to the floor: '%s'",
                 printable(clean, sizeof clean, node->in + at, length));
        return -1;
    }
more:
    memmove(node->in, node->in + at, node->in_bytes - at);
    node->in_bytes -= at;
    return 0;
}

static int hear(struct floor *floor, struct node *node) {
    ssize_t got =
        recv(node->fd, node->in + node->in_bytes, sizeof node->in - node->in_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) {
        complain("the floor lost a node: %s", got == 0 ? "connection closed" : strerror(errno));
        return -1;
    }
    node->in_bytes += (size_t)got;
    return read_replies(floor, node);
}

static int keep_unsent(struct node *node, const char *bytes, size_t count) {
    if (node->unsent_bytes + count > node->unsent_size) {
        size_t size = 2 * (node->unsent_bytes + count);
        char *grown = realloc(node->unsent, size);
        if (grown == NULL) return -1;
        node->unsent = grown;
        node->unsent_size = size;
    }
    memcpy(node->unsent + node->unsent_bytes, bytes, count);
    node->unsent_bytes += count;
    return 0;
}

/* Returns how much the socket took; -1: the connection is closed. */
static ssize_t put(struct node *node, const char *bytes, size_t count) {
    ssize_t sent = send(node->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || errno == EAGAIN || errno == EINTR) return sent < 0 ? 0 : sent;
    complain("the floor lost a node: %s", strerror(errno));
    return -1;
}

/* One write to each node for all that is said in a turn. A socket that is full has commands before
 * it that the node has not read: their replies wake us, and then it is tried again. */
static int report(struct floor *floor, struct node *node) {
    if (node->unsent_bytes > 0) {
        ssize_t sent = put(node, node->unsent, node->unsent_bytes);
        if (sent < 0) return -1;
        node->unsent_bytes -= (size_t)sent;
        memmove(node->unsent, node->unsent + sent, node->unsent_bytes);
    }
    if (floor->turn_bytes == 0) return 0;
    if (node->unsent_bytes > 0) return keep_unsent(node, floor->turn, floor->turn_bytes);
    ssize_t sent = put(node, floor->turn, floor->turn_bytes);
    if (sent < 0) return -1;
    if ((size_t)sent == floor->turn_bytes) return 0;
    return keep_unsent(node, floor->turn + sent, floor->turn_bytes - (size_t)sent);
}

static int report_all(struct floor *floor) {
    for (unsigned i = 0; i < floor->nodes; i++) {
        if (report(floor, floor->node[i]) != 0) return -1;
    }
    floor->turn_bytes = 0;
    return 0;
}

static bool is_owed(const struct floor *floor) {
    for (unsigned i = 0; i < floor->nodes; i++) {
        if (floor->node[i]->heard != floor->log_end) return true;
    }
    return floor->busy > 0;
}

/* Commands that follow from the answers are sent, too. */
static int listen_once(struct floor *floor) {
    struct epoll_event events[NODES_MAX];
    int ready = epoll_wait(floor->epoll, events, NODES_MAX, SILENT_MS);
    if (ready == 0) {
        complain("the floor got no reply for ten seconds");
        return -1;
    }
    for (int i = 0; i < ready; i++) {
        if (hear(floor, events[i].data.ptr) != 0) return -1;
    }
    if (floor->waiting_count > 0) say_what_waited(floor);
    return report_all(floor);
}

/* Each slot sends `first`, and continues from there until the meter ends; then all replies are
 * awaited. */
static int loop(struct floor *floor, enum said first) {
    floor->busy = floor->in_flight;
    floor->ending = 0;
    int64_t now = now_ns();
    for (unsigned i = 0; i < floor->in_flight; i++) {
        floor->slots[i].since = now;
        say(floor, &floor->slots[i], first);
    }
    if (report_all(floor) != 0) return -1;
    while (is_owed(floor)) {
        if (listen_once(floor) != 0) return -1;
        if (!floor->once && !floor->ending && !meter_turn(floor->meter, now_ns()))
            floor->ending = 1;
    }
    return 0;
}

static int loop_once(struct floor *floor, enum said said) {
    floor->once = 1;
    int result = loop(floor, said);
    floor->once = 0;
    return result;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static int prepare(struct floor *floor, const struct floor_work *work) {
    uint32_t size = LOG_LEAST;
    size_t longest = 0;
    while (size < 4 * work->in_flight) size *= 2;
    floor->in_flight = work->in_flight;
    floor->extends = work->extends;
    floor->replies[SAID_ACQUIRE] = work->resources == 1 ? "+OK\r\n" : ":1\r\n";
    floor->replies[SAID_RELEASE] = floor->replies[SAID_EXTEND] = ":1\r\n";
    floor->log_mask = size - 1;
    floor->log_end = 0;
    floor->slots = calloc(work->in_flight, sizeof floor->slots[0]);
    floor->waiting = calloc(work->in_flight, sizeof floor->waiting[0]);
    floor->log = calloc(size, sizeof floor->log[0]);
    if (floor->slots == NULL || floor->waiting == NULL || floor->log == NULL) return -1;
    for (unsigned i = 0; i < work->in_flight; i++) {
        if (format_slot(floor, work, i) != 0) return -1;
        for (enum said said = SAID_ACQUIRE; said < SAIDS; said++) {
            if (floor->slots[i].lines[said].count > longest)
                longest = floor->slots[i].lines[said].count;
        }
    }
    for (unsigned i = 0; i < floor->nodes; i++) floor->node[i]->heard = 0;
    floor->turn =
        malloc(longest *
               work->in_flight); /* a slot says one thing a turn: the answer is not there sooner */
    return floor->turn != NULL ? 0 : -1;
}

static void put_away(struct floor *floor) {
    for (unsigned i = 0; floor->slots != NULL && i < floor->in_flight; i++) {
        for (enum said said = SAID_ACQUIRE; said < SAIDS; said++)
            free(floor->slots[i].lines[said].bytes);
    }
    free(floor->slots);
    free(floor->waiting);
    free(floor->log);
    free(floor->turn);
    floor->slots = NULL;
    floor->waiting = NULL;
    floor->log = NULL;
    floor->turn = NULL;
}

static int set_up(struct floor *floor, const struct floor_work *work, struct meter *meter) {
    floor->meter = meter;
    if (prepare(floor, work) == 0) return 0;
    complain("out of memory");
    put_away(floor);
    return -1;
}

int floor_run(struct floor *floor, const struct floor_work *work, struct meter *meter) {
    if (work->threads) return floor_run_threads(floor, work, meter);
    const int64_t open_ns = meter->closes - meter->opens;
    if (set_up(floor, work, meter) != 0) return -1;
    int result = 0;
    if (work->extends) result = loop_once(floor, SAID_ACQUIRE);
    meter_start(meter, open_ns); /* the warm-up begins here */
    if (result == 0) result = loop(floor, work->extends ? SAID_EXTEND : SAID_ACQUIRE);
    if (result == 0 && work->extends) result = loop_once(floor, SAID_RELEASE);
    put_away(floor);
    return result;
}

/* ---- turn by turn ---------------------------------------------------------------------------- */

int floor_begin(struct floor *floor, const struct floor_work *work, struct meter *meter) {
    const int64_t open_ns = meter->closes - meter->opens;
    if (set_up(floor, work, meter) != 0) return -1;
    meter_start(meter, open_ns);
    floor->busy = floor->in_flight;
    floor->by_turns = 1;
    floor->ending = 0;
    for (unsigned i = 0; i < floor->in_flight; i++) {
        floor->slots[i].said = SAID_ACQUIRE;
        floor->slots[i].since = now_ns();
    }
    return 0;
}

void floor_say(struct floor *floor, unsigned slot) {
    say(floor, &floor->slots[slot], floor->slots[slot].said);
}

unsigned floor_busy(const struct floor *floor) { return floor->busy; }

int floor_turn(struct floor *floor) {
    floor->answered = 0;
    if (report_all(floor) != 0) return -1;
    while (floor->answered < floor->busy) {
        if (listen_once(floor) != 0) return -1;
    }
    if (!floor->ending && !meter_turn(floor->meter, now_ns())) floor->ending = 1;
    return 0;
}

int floor_end(struct floor *floor, int result) {
    while (result == 0 && is_owed(floor)) result = listen_once(floor);
    put_away(floor);
    floor->by_turns = 0;
    return result;
}
