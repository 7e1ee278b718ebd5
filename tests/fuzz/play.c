/* SPDX-License-Identifier: BSD-2-Clause */
#include "play.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/guarding/record.h"
#include "must.h"
#include "redlock/admin.h"
#include "sockets.h"

struct play_real play_real;

enum {
    OUT_MAX = 4096,
    ASKED_AT_FIRST = 4096,
    ASKED_MAX = 1 << 20,
    REAL_PATIENCE_MS = 60,
    REAL_BYTES_MAX = 1 << 20,
    STEPS_MAX = 100000,
    ROUNDS_MAX = 32,
    QUESTIONS_MAX = 4, /* that an operator asks in one run: each takes as long as ten locks */
    CHANGES_MAX = 2    /* of these, changes of a quorum: each takes a megabyte */
};
static const char resource[] = "fuzz-lock", resource_2[] = "fuzz-lock-2";
static const char adopted[] = "0123456789abcdef0123456789abcdef01234567";

struct conn {
    bool open;
    unsigned node;
    int fd;      /* the client's, of sockets.h */
    int real;    /* to a server that is real; -1 */
    char *asked; /* what the client wrote, as far as it was not answered */
    size_t asked_room, asked_bytes,
        heard_bytes; /* heard: as far as it was looked at for the lock's name */
    bool of_lock;    /* the lock was named since the acquisition began */
    bool resp3;
    char last[4]; /* that were said */
};

static struct {
    const uint8_t *at, *end;
    size_t password_at; /* how much of it the bytes before spell */
    bool password_said;
    int64_t now; /* nanoseconds */
    uint64_t random;
    unsigned nodes, natives, node, nth, steps, questions, changes, waits, peeks;
    struct conn conn[PLAY_NODES_MAX * PLAY_CONNS];
    char out[OUT_MAX];
    size_t out_bytes;
    struct redlock_client *client;
    struct redlock_lock *lock;
    bool could_grant[PLAY_NODES_MAX]; /* the node said what may be a vote, after it was asked for
                                         one */
    bool acquires, two_keys, renews, scripts;
    struct redlock_view views[PLAY_NODES_MAX];
} world;

/* ---- the system's calls ---------------------------------------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    const int64_t begin = clock == CLOCK_REALTIME ? INT64_C(1700000000) : 1000;
    now->tv_sec = (time_t)(begin + world.now / 1000000000);
    now->tv_nsec = (long)(world.now % 1000000000);
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags) {
    unsigned char *to = bytes;
    (void)flags;
    for (size_t i = 0; i < count; i++) {
        world.random = world.random * UINT64_C(6364136223846793005) + 1442695040888963407U;
        to[i] = (unsigned char)(world.random >> 56);
    }
    return (ssize_t)count;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    const struct sockaddr_in *in = (const void *)address;
    if (bytes < sizeof *in || address->sa_family != AF_INET)
        return 0; /* what dissolves an association */
    const unsigned node = (ntohl(in->sin_addr.s_addr) & 0xff) - 1;
    size_t slot = 0;
    must(node < world.nodes, "a connection to nowhere");
    while (slot < PLAY_NODES_MAX * PLAY_CONNS && world.conn[slot].open) slot++;
    if (slot == PLAY_NODES_MAX * PLAY_CONNS) {
        errno = ECONNREFUSED;
        return -1;
    }
    struct conn *conn = &world.conn[slot];
    char *asked = conn->asked;
    const size_t room = conn->asked_room;
    *conn = (struct conn){
        .open = true, .node = node, .fd = fd, .real = -1, .asked = asked, .asked_room = room};
    socket_accept(fd);
    if (play_real.connect != NULL) conn->real = play_real.connect(node);
    return 0;
}

/* ---- what servers hear ----------------------------------------------------------------------- */

static void close_conn(struct conn *conn) {
    if (!conn->open) return;
    socket_hang_up(conn->fd);
    if (conn->real >= 0) close(conn->real);
    conn->open = false;
}

static unsigned index_of(const struct conn *conn) {
    unsigned before = 0;
    for (const struct conn *each = world.conn; each < conn; each++)
        before += each->open && each->node == conn->node;
    return before;
}

/* False: it asked and asked, and was never answered. */
static bool make_room(struct conn *conn) {
    if (conn->asked_bytes < conn->asked_room) return true;
    if (conn->asked_room == ASKED_MAX) return false;
    conn->asked_room = conn->asked_room > 0 ? 2 * conn->asked_room : ASKED_AT_FIRST;
    conn->asked = realloc(conn->asked, conn->asked_room);
    must(conn->asked != NULL, "no memory");
    return true;
}

static void hear(struct conn *conn) {
    long got = 1;
    while (conn->open && got != 0) {
        const bool fits = make_room(conn);
        char *to = fits ? conn->asked + conn->asked_bytes : NULL;
        got = fits ? socket_hear(conn->fd, to, conn->asked_room - conn->asked_bytes) : -1;
        if (got < 0) {
            close_conn(conn);
            return;
        }
        if (conn->real >= 0 && got > 0)
            must(send(conn->real, to, (size_t)got, MSG_NOSIGNAL) == got, "not passed on");
        conn->asked_bytes += (size_t)got;
    }
    if (!conn->open || conn->asked_bytes == conn->heard_bytes) return;
    const size_t back = conn->heard_bytes < sizeof resource ? conn->heard_bytes : sizeof resource;
    const char *from = conn->asked + conn->heard_bytes - back;
    if (memmem(from, conn->asked_bytes - conn->heard_bytes + back, resource, sizeof resource - 1) !=
        NULL)
        conn->of_lock = true;
    conn->heard_bytes = conn->asked_bytes;
}

static void hear_all(void) {
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++)
        if (world.conn[i].open) hear(&world.conn[i]);
}

/* ---- what servers say ------------------------------------------------------------------------ */

/* A vote for us is +OK or the integer 1 (in RESP3 also the boolean "true") in all that the library
 * sends. */
static bool is_grant(const char *end) {
    return end[-1] == '\r' &&
           (end[-2] == '1' || memcmp(end - 3, "OK", 2) == 0 || memcmp(end - 3, "#t", 2) == 0);
}

static void note_grants(struct conn *conn, const char *bytes, size_t count) {
    char joined[OUT_MAX + sizeof conn->last];
    const size_t before = sizeof conn->last;
    memcpy(joined, conn->last, before);
    memcpy(joined + before, bytes, count);
    const char *end = joined + before + count, *at = joined + before;
    while (conn->of_lock && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (is_grant(at)) world.could_grant[conn->node] = true;
        at++;
    }
    memcpy(conn->last, end - before, before);
}

static void say(struct conn *conn, const char *bytes, size_t count) {
    hear(conn);
    for (size_t part; conn->open && count > 0; bytes += part, count -= part) {
        part = count < OUT_MAX ? count : OUT_MAX;
        note_grants(conn, bytes, part);
        if (!socket_say(conn->fd, bytes, part)) close_conn(conn);
    }
}

static struct conn *chosen(void) {
    struct conn *first = NULL;
    unsigned nth = 0;
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++) {
        struct conn *conn = &world.conn[i];
        if (!conn->open || conn->node != world.node) continue;
        if (first == NULL) first = conn;
        if (nth++ == world.nth) return conn;
    }
    return first;
}

static void send_out(void) {
    struct conn *conn = chosen();
    if (conn != NULL) say(conn, world.out, world.out_bytes);
    world.out_bytes = 0;
}

/* ---- a sound server -------------------------------------------------------------------------- */

struct words {
    const char *word[256];
    size_t bytes[256], count;
};

static const char *number_at(const char *at, const char *end, size_t *number) {
    *number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) *number = *number * 10 + (size_t)(*at - '0');
    return end - at >= 2 && memcmp(at, "\r\n", 2) == 0 ? at + 2 : NULL;
}

/* The length of the first request; 0: it is not whole yet. */
static size_t request_at(const char *from, size_t bytes, struct words *words) {
    const char *at = from, *end = from + bytes;
    size_t count, length;
    if (bytes < 4) return 0;
    must(*at == '*', "a request that is not an array");
    if ((at = number_at(at + 1, end, &count)) == NULL) return 0;
    for (words->count = 0; words->count < count; words->count++) {
        if (at == end) return 0;
        must(*at == '$', "a request of other things than strings");
        if ((at = number_at(at + 1, end, &length)) == NULL || (size_t)(end - at) < length + 2)
            return 0;
        must(memcmp(at + length, "\r\n", 2) == 0, "a request's word without its end");
        if (words->count < 256) words->word[words->count] = at, words->bytes[words->count] = length;
        at += length + 2;
    }
    return (size_t)(at - from);
}

static bool is_word(const struct words *words, size_t i, const char *text) {
    return i < words->count && i < 256 && words->bytes[i] == strlen(text) &&
           memcmp(words->word[i], text, words->bytes[i]) == 0;
}

static bool is_native(const struct conn *conn) { return conn->node < world.natives; }

static void write_record(struct conn *conn, bool resp3) {
    static struct record_text text;
    static struct rl_record record;
    char reply[RECORD_TEXT_BYTES + 1024];
    memset(&record, 0, sizeof record);
    record.format = RL_RECORD_FORMAT;
    record.quorum_id = 0xaa;
    record.node_id = conn->node + 1;
    record.epoch = 1;
    record.settled = true;
    record.eligibility = RL_RECORD_INTACT;
    record.nonce = 0xbb00 + conn->node;
    record.ttl_max_ms = record.ttl_next_ms = 60000;
    record.members_count = (uint8_t)world.nodes;
    for (unsigned i = 0; i < world.nodes; i++) {
        struct rl_member *member = &record.members[i];
        member->id = i + 1;
        member->incarnation.number = 1;
        snprintf(member->incarnation.run_id, sizeof member->incarnation.run_id, "%040u", i + 1);
        snprintf(member->url, sizeof member->url, "redis://10.0.0.%u:6379", i + 1);
    }
    snprintf(record.run_id, sizeof record.run_id, "%040u", conn->node + 1);
    snprintf(record.replid, sizeof record.replid, "%040u",
             conn->node + (is_native(conn) ? 1 : 100));
    record_write(&text, &record);
    size_t used = (size_t)snprintf(reply, sizeof reply, "%c%zu\r\n", resp3 ? '%' : '*',
                                   resp3 ? text.fields_count / 2 : text.fields_count);
    for (size_t i = 0; i < text.fields_count; i++)
        used += (size_t)snprintf(reply + used, sizeof reply - used, "$%zu\r\n%.*s\r\n",
                                 text.fields[i].bytes, (int)text.fields[i].bytes,
                                 (const char *)text.fields[i].data);
    say(conn, reply, used);
}

static void say_text(struct conn *conn, const char *text) { say(conn, text, strlen(text)); }

static void write_info(struct conn *conn) {
    char info[512], reply[600];
    const int bytes = snprintf(
        info, sizeof info,
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:%040u\r\nrole:master\r\n"
        "connected_slaves:0\r\nmaster_replid:%040u\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n",
        conn->node + 1, conn->node + 100);
    snprintf(reply, sizeof reply, "$%d\r\n%s\r\n", bytes, info);
    say_text(conn, reply);
}

static void write_subscribed(struct conn *conn, const struct words *words) {
    char reply[256];
    const int bytes = words->bytes[1] < 100 ? (int)words->bytes[1] : 100;
    snprintf(reply, sizeof reply, "%s\r\n$9\r\nsubscribe\r\n$%d\r\n%.*s\r\n:1\r\n",
             conn->resp3 ? ">3" : "*3", bytes, bytes, words->word[1]);
    say_text(conn, reply);
}

static void write_native_hello(struct conn *conn) {
    char reply[256];
    if (!is_native(conn)) {
        say_text(conn, "-ERR unknown command 'REDLOCK.HELLO'\r\n");
        return;
    }
    snprintf(reply, sizeof reply,
             "%s\r\n$8\r\nprotocol\r\n:1\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$11\r\n"
             "incarnation\r\n$40\r\n%040u\r\n$6\r\nmirror\r\n:1\r\n$6\r\nquorum\r\n$0\r\n\r\n",
             conn->resp3 ? "%5" : "*10", conn->node + 1);
    say_text(conn, reply);
}

/* What is answered alike whoever asks. */
static const struct {
    const char *command, *reply;
} plain[] = {
    {"EVALSHA", ":1\r\n"},
    {"ZADD", ":1\r\n"},
    {"PTTL", ":100\r\n"},
    {"GETRANGE", "$0\r\n\r\n"},
    {"HGET", "$-1\r\n"},
    {"HMGET", "*2\r\n$-1\r\n$-1\r\n"},
    {"TIME", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"},
    {"SCAN", "*2\r\n$1\r\n0\r\n*1\r\n$9\r\nfuzz-lock\r\n"},
    {"ZRANGE", "*2\r\n$1\r\n3\r\n$1\r\n7\r\n"},
    {"CONFIG", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
    {"EXEC", "*-1\r\n"},
    {"REDLOCK.ACQUIRE", ":1\r\n"},
    {"REDLOCK.EXTEND", ":1\r\n"},
    {"REDLOCK.RELEASE", ":1\r\n"},
    {"REDLOCK.LOCK", ":1\r\n"},
    {"REDLOCK.UNLOCK", ":1\r\n"},
    {"REDLOCK.RAISE", ":0\r\n"},
    {"REDLOCK.BREAK", ":-3\r\n"},
    {"REDLOCK.CONFIRM", ":1\r\n"},
    {"REDLOCK.RECORDWRITE", ":1\r\n"},
    {"REDLOCK.PTTL", ":100\r\n"},
    {"REDLOCK.GET", "$0\r\n\r\n"},
    {"REDLOCK.SCAN", "*2\r\n$1\r\n0\r\n*1\r\n$9\r\nfuzz-lock\r\n"},
    {"REDLOCK.STATE", "*3\r\n:5000000\r\n$6\r\nmaster\r\n:0\r\n"},
    {"REDLOCK.FENCES", "*2\r\n:3\r\n:7\r\n"},
};

static void answer(struct conn *conn, const struct words *words) {
    if (is_word(words, 0, "HELLO")) {
        conn->resp3 = true;
        say_text(conn, "%1\r\n$5\r\nproto\r\n:3\r\n");
    } else if (is_word(words, 0, "INFO")) {
        write_info(conn);
    } else if (is_word(words, 0, "REDLOCK.HELLO")) {
        write_native_hello(conn);
    } else if (is_word(words, 0, "HGETALL") || is_word(words, 0, "REDLOCK.RECORD")) {
        write_record(conn, conn->resp3);
    } else if (is_word(words, 0, "SUBSCRIBE")) {
        write_subscribed(conn, words);
    } else if (!world.scripts && (is_word(words, 0, "EVAL") || is_word(words, 0, "EVALSHA"))) {
        say_text(conn, "-ERR unknown command 'EVAL'\r\n");
    } else if (is_word(words, 0, "EVAL")) {
        say_text(conn, is_word(words, 2, "0") ? "$-1\r\n" : ":1\r\n");
    } else if (is_word(words, 0, "CLIENT") && is_word(words, 1, "ID")) {
        say_text(conn, ":7\r\n");
    } else {
        const char *reply = "+OK\r\n";
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
            if (is_word(words, 0, plain[i].command)) reply = plain[i].reply;
        say_text(conn, reply);
    }
}

static bool answer_asked(struct conn *conn) {
    static struct words words;
    bool any = false;
    size_t bytes;
    hear(conn);
    while (conn->open && (bytes = request_at(conn->asked, conn->asked_bytes, &words)) > 0) {
        answer(conn, &words);
        memmove(conn->asked, conn->asked + bytes, conn->asked_bytes - bytes);
        conn->asked_bytes -= bytes;
        conn->heard_bytes = conn->asked_bytes;
        any = true;
    }
    return any;
}

static bool answer_all(void) {
    bool any = false;
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++)
        if (world.conn[i].open) any = answer_asked(&world.conn[i]) || any;
    return any;
}

/* ---- servers that are real ------------------------------------------------------------------- */

static bool listen_to_real(void) {
    bool any = false;
    hear_all();
    struct pollfd polled[PLAY_NODES_MAX * PLAY_CONNS];
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++)
        polled[i] =
            (struct pollfd){.fd = world.conn[i].open ? world.conn[i].real : -1, .events = POLLIN};
    if (poll(polled, PLAY_NODES_MAX * PLAY_CONNS, REAL_PATIENCE_MS) <= 0) return false;
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++) {
        struct conn *conn = &world.conn[i];
        static char bytes[REAL_BYTES_MAX];
        size_t count = 0;
        ssize_t got;
        if (!conn->open || conn->real < 0 || polled[i].revents == 0) continue;
        do {
            got = recv(conn->real, bytes + count, sizeof bytes - count, MSG_DONTWAIT);
            if (got > 0) count += (size_t)got;
        } while (got > 0 && poll(&polled[i], 1, REAL_PATIENCE_MS) > 0);
        if (count == 0) continue;
        play_real.said(conn->node, index_of(conn), bytes, count);
        say(conn, bytes, count);
        any = true;
    }
    return any;
}

/* ---- the play -------------------------------------------------------------------------------- */

static void pass(int64_t ms) {
    if (world.now < INT64_MAX / 4) world.now += ms * 1000000;
}

static bool is_said(uint8_t byte) {
    return byte >= 0x20 || byte == '\t' || byte == '\n' || byte == '\r';
}

/* A server that says the password by itself reveals nothing. */
static void note_password(uint8_t byte) {
    static const char password[] = "secret";
    world.password_at = byte == (uint8_t)password[world.password_at] ? world.password_at + 1
                        : byte == 's'                                ? 1
                                                                     : 0;
    if (password[world.password_at] != '\0') return;
    world.password_said = true;
    world.password_at = 0;
}

static void put(uint8_t byte) {
    note_password(byte);
    if (world.out_bytes == OUT_MAX) send_out();
    world.out[world.out_bytes++] = (char)byte;
}

/* Codes that are not the program's: what the network and time do. */
static void befall(uint8_t code) {
    static const int64_t ms[] = {
        [PLAY_TIME_1MS] = 1, [PLAY_TIME_30MS] = 30, [PLAY_TIME_1S] = 1000, [PLAY_TIME_15S] = 15000};
    struct conn *conn;
    send_out();
    switch (code) {
    case PLAY_NEXT: world.nth = (world.nth + 1) % PLAY_CONNS; break;
    case PLAY_TIME_1MS:
    case PLAY_TIME_30MS:
    case PLAY_TIME_1S:
    case PLAY_TIME_15S: pass(ms[code]); break;
    case PLAY_CLOSE:
        if ((conn = chosen()) != NULL) close_conn(conn);
        break;
    case PLAY_ANSWER:
        if ((conn = chosen()) != NULL) answer_asked(conn);
        break;
    case PLAY_ANSWER_ALL: answer_all(); break;
    default:
        if (code >= PLAY_NODE_1 && code <= PLAY_NODE_5)
            world.node = (code - PLAY_NODE_1) % world.nodes, world.nth = 0;
        break;
    }
}

/* The next thing that the program does not do. False: the input ends, or the program's turn is
 * next. */
static bool go_on(void) {
    if (world.at == world.end ||
        (*world.at >= PLAY_ACQUIRE && *world.at < 0x20 && *world.at != PLAY_BYTE)) {
        const bool any = world.out_bytes > 0;
        send_out();
        return any;
    }
    while (world.at < world.end && (is_said(*world.at) || *world.at == PLAY_BYTE)) {
        if (*world.at == PLAY_BYTE && ++world.at == world.end) break;
        put(*world.at++);
    }
    if (world.at < world.end && *world.at < PLAY_ACQUIRE)
        befall(*world.at++);
    else
        send_out();
    return true;
}

/* The library sleeps: so the input goes on, and where it says nothing, time does. */
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    must(++world.steps < STEPS_MAX, "the client does not come to an end");
    int count = sockets_ready(events, most);
    (void)epoll;
    while (count == 0 && timeout != 0) {
        if (play_real.connect != NULL ? !listen_to_real() : !go_on()) {
            must(timeout > 0, "the client sleeps for ever");
            pass(timeout);
            return 0;
        }
        count = sockets_ready(events, most);
    }
    return count;
}

static void process(void) {
    must(redlock_process(world.client) == REDLOCK_OK, "not processed");
    hear_all();
}

/* ---- what the program does ------------------------------------------------------------------- */

static void check_held(void) {
    unsigned could = 0;
    int verdicts[PLAY_NODES_MAX];
    for (unsigned i = 0; i < world.nodes; i++) could += world.could_grant[i];
    must(could >= world.nodes / 2 + 1, "held, and fewer than a majority can have granted it");
    must(redlock_validity_ms(world.lock) <= 10000, "valid for longer than its TTL");
    must(redlock_fence(world.lock) >= 0 && redlock_fence(world.lock) <= REDLOCK_FENCE_MAX,
         "no such fence");
    must(redlock_verdicts(world.lock, verdicts, PLAY_NODES_MAX) == world.nodes,
         "verdicts of other nodes");
}

static void acquired(void *context, struct redlock_lock *lock, int result) {
    (void)context, (void)lock;
    world.acquires = false;
    must(result <= REDLOCK_OK && result >= REDLOCK_NO_SHARED, "no such result");
    if (result == REDLOCK_OK) check_held();
}

static void done(void *context, struct redlock_lock *lock, int result) {
    (void)context;
    must(result <= REDLOCK_OK && result >= REDLOCK_NO_SHARED, "no such result");
    must(redlock_validity_ms(lock) <= 10000, "valid for longer than its TTL");
}

static void looked(void *context, struct redlock_lock *lock, int result) {
    (void)context, (void)lock;
    must(result <= REDLOCK_OK && result >= REDLOCK_NO_SHARED, "no such result");
    for (unsigned i = 0; i < world.nodes; i++)
        must(world.views[i].token_bytes <= REDLOCK_TOKEN_BYTES_MAX &&
                 world.views[i].remaining_ms >= -2,
             "no such view");
}

static void listed(void *context, const void *name, size_t bytes) {
    (void)context;
    for (size_t i = 0; i < bytes; i++) (void)*((const volatile char *)name + i);
}

static void passed(void *context, size_t node, int what, const void *name, size_t bytes) {
    must(node < world.nodes && what >= REDLOCK_KEY_OTHER && what <= REDLOCK_KEY_LEADER,
         "a key of no node, or of no kind");
    listed(context, name, bytes);
}

static void reads(void *context, size_t of, size_t node, const void *token, size_t bytes,
                  int64_t remaining_ms) {
    must(of == 0 && node < world.nodes && remaining_ms >= 0, "a reader of no lock, or of no node");
    listed(context, token, bytes);
}

static void observe(void) {
    const struct redlock_bytes resources[] = {{resource, sizeof resource - 1}};
    struct redlock_view views[PLAY_NODES_MAX];
    struct redlock_queue_view queues[PLAY_NODES_MAX];
    struct redlock_readers_view readers[PLAY_NODES_MAX];
    struct redlock_walk walk;
    redlock_walk_init(&walk);
    walk.leaders = 1;
    (void)!redlock_scan(world.client, &walk, passed, NULL);
    int result = redlock_survey(world.client, resources, 1, views, queues);
    for (size_t i = 0; result == REDLOCK_OK && i < world.nodes; i++)
        must(queues[i].waiters >= 0 && queues[i].oldest_ms >= 0, "fewer than none wait");
    result = redlock_readers(world.client, resources, 1, 300, reads, NULL, readers);
    for (size_t i = 0; result == REDLOCK_OK && i < world.nodes; i++)
        must(readers[i].readers >= 0, "fewer than none read");
}

static void make_lock(void) {
    const struct redlock_bytes two[] = {{resource, sizeof resource - 1},
                                        {resource_2, sizeof resource_2 - 1}};
    struct redlock_lock_options options;
    struct redlock_error error;
    redlock_lock_options_init(&options);
    options.ttl_ms = 10000;
    options.renew = world.renews;
    const int result = redlock_lock_new_multi(world.client, two, world.two_keys ? 2 : 1, &options,
                                              &world.lock, &error);
    must(result == REDLOCK_OK, "no lock");
}

static void acquire(int64_t wait_ms) {
    if (world.acquires) return;
    const bool was_free = redlock_lock_state(world.lock) == REDLOCK_STATE_FREE;
    for (unsigned i = 0; was_free && i < world.nodes; i++) world.could_grant[i] = false;
    for (size_t i = 0; was_free && i < PLAY_NODES_MAX * PLAY_CONNS; i++)
        world.conn[i].of_lock = false;
    /* A wait is in turn one for this lock, and one for all of a group of one. */
    const bool of_group = wait_ms > 0 && world.waits++ % 2;
    const int result = of_group ? redlock_acquire_all_start(&world.lock, 1, wait_ms, acquired, NULL)
                                : redlock_acquire_start(world.lock, wait_ms, acquired, NULL);
    world.acquires = result == REDLOCK_OK;
}

/* In turn once, and until it is free. */
static void peek(void) {
    if (world.peeks++ % 2)
        (void)!redlock_await_free_start(world.lock, 5000, done, NULL);
    else
        (void)!redlock_peek_start(world.lock, world.views, world.nodes, looked, NULL);
}

static void server_info(void) {
    static struct redlock_server servers[PLAY_NODES_MAX];
    for (unsigned i = 0; i < world.nodes; i++)
        servers[i] = (struct redlock_server){.size = sizeof servers[i]};
    (void)!redlock_server_info(world.client, REDLOCK_SERVER_INFO_ALL, servers, world.nodes);
    for (unsigned i = 0; i < world.nodes; i++) {
        must(memchr(servers[i].version, '\0', sizeof servers[i].version) != NULL,
             "a version without an end");
        must(memchr(servers[i].bind, '\0', sizeof servers[i].bind) != NULL,
             "addresses without an end");
    }
}

/* The second member; NULL: there is none. */
static const struct redlock_member *look_at_quorum(void) {
    static struct redlock_member members[REDLOCK_NODES_MAX];
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++)
        members[i] = (struct redlock_member){.size = sizeof members[i]};
    (void)!redlock_quorum_peek(world.client, &quorum, members, REDLOCK_NODES_MAX);
    must(quorum.members <= REDLOCK_NODES_MAX && quorum.intact <= quorum.members, "no such quorum");
    return quorum.members > 1 ? &members[1] : NULL;
}

static void change_quorum(uint8_t code) {
    struct redlock_quorum_options options;
    struct redlock_error error = {0};
    redlock_quorum_options_init(&options);
    if (code == PLAY_INIT) {
        options.never_used = 1;
        (void)!redlock_quorum_init(world.client, &options, &error);
    } else {
        const struct redlock_member *second = look_at_quorum();
        const int node = second != NULL && second->node > 0 ? second->node : 0;
        (void)!redlock_quorum_remove(world.client, second != NULL ? second->id : "00000000000000ee",
                                     &options, &error);
        (void)!redlock_quorum_add(world.client, (size_t)node, &options, &error);
    }
}

static bool asks_much(uint8_t code) {
    return code == PLAY_SERVER_INFO || code == PLAY_LIST || code == PLAY_QUORUM ||
           code == PLAY_INIT || code == PLAY_MEMBERS;
}

static void act(uint8_t code) {
    if (asks_much(code) && world.questions++ >= QUESTIONS_MAX) return;
    switch (code) {
    case PLAY_ACQUIRE: acquire(0); break;
    case PLAY_WAIT: acquire(5000); break;
    case PLAY_EXTEND: (void)!redlock_extend_start(world.lock, 0, done, NULL); break;
    case PLAY_RELEASE: (void)!redlock_release_start(world.lock, done, NULL); break;
    case PLAY_PEEK: peek(); break;
    case PLAY_CANCEL: redlock_cancel(world.lock); break;
    case PLAY_ANOTHER:
        redlock_lock_free(world.lock);
        world.acquires = false;
        make_lock();
        break;
    case PLAY_SERVER_INFO: server_info(); break;
    case PLAY_LIST:
        (void)!redlock_list(world.client, listed, NULL);
        observe();
        break;
    case PLAY_QUORUM: (void)look_at_quorum(); break;
    case PLAY_DISOWN: (void)redlock_lock_disown(world.lock); break;
    case PLAY_ADOPT:
        (void)!redlock_lock_adopt_fenced(world.lock, adopted, sizeof adopted - 1, 7);
        break;
    case PLAY_INIT:
    case PLAY_MEMBERS:
        if (world.changes++ < CHANGES_MAX) change_quorum(code);
        break;
    default: break;
    }
}

/* ---- one run --------------------------------------------------------------------------------- */

static void open_client(uint8_t choice) {
    struct redlock_client_options options;
    struct redlock_error error;
    char list[400] = "";
    const bool setnx = choice % PLAY_MODES == PLAY_SETNX;
    const bool mixed = (choice & PLAY_MIXED) == PLAY_MIXED;
    world.natives = mixed ? 2 : 0;
    world.nodes = setnx || (choice & PLAY_MIXED) == PLAY_ONE_NODE ? 1
                  : (choice & PLAY_MIXED) == PLAY_FIVE_NODES      ? 5
                                                                  : 3;
    world.two_keys = (choice & PLAY_TWO_KEYS) && !setnx;
    world.scripts = !(choice & PLAY_NO_SCRIPTS);
    world.renews = !(choice & PLAY_NO_RENEWAL);
    for (unsigned i = 0; i < world.nodes; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list),
                 "redis://:secret@10.0.0.%u:6379%s ", i + 1, setnx ? "?scheme=setnx" : "");
    redlock_client_options_init(&options);
    options.service_thread = 0;
    options.mode = setnx ? REDLOCK_MODE_CLASSIC : (int)(choice % PLAY_MODES);
    options.confirm = options.mode == REDLOCK_MODE_GUARDED && (choice & PLAY_CONFIRMS);
    must(redlock_client_open(list, &options, &world.client, &error) == REDLOCK_OK, "no client");
    make_lock();
}

static void check_nodes(void) {
    for (size_t i = 0; i < world.nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        must(redlock_client_node(world.client, i, &status) == REDLOCK_OK, "no status");
        bool shown = strstr(status.text, "secret") && !world.password_said;
        must(!shown && strstr(status.url, "secret") == NULL, "the password is shown");
    }
}

static void play_with_real(void) {
    while (listen_to_real()) process();
    for (; world.at < world.end; world.at++) {
        play_real.acts(*world.at);
        if (*world.at < PLAY_ACQUIRE)
            befall(*world.at);
        else
            act(*world.at);
        do process();
        while (listen_to_real());
    }
}

void play(const uint8_t *data, size_t size) {
    memset(world.could_grant, 0, sizeof world.could_grant);
    world.at = data + (size > 0);
    world.end = data + size;
    world.now = 0;
    world.random = 1;
    world.node = world.nth = world.steps = 0;
    world.questions = world.changes = world.waits = world.peeks = 0;
    world.out_bytes = 0;
    world.acquires = world.password_said = false;
    world.password_at = 0;
    open_client(size > 0 ? data[0] : 0);
    process();
    if (play_real.connect != NULL) play_with_real();
    while (world.at < world.end) {
        const bool all = *world.at == PLAY_ANSWER_ALL;
        if (*world.at >= PLAY_ACQUIRE && *world.at < 0x20 && *world.at != PLAY_BYTE)
            act(*world.at++);
        else
            (void)go_on();
        process();
        for (unsigned round = 0; all && round < ROUNDS_MAX && answer_all(); round++) process();
    }
    check_nodes();
    redlock_lock_free(world.lock);
    redlock_client_free(world.client);
    for (size_t i = 0; i < PLAY_NODES_MAX * PLAY_CONNS; i++) close_conn(&world.conn[i]);
    must(sockets_reset(), "a descriptor is left open");
}
