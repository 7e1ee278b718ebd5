/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Clients that read a large answer a few bytes a second, that send a request one byte at a time,
 * and that send bytes that are not a request. A client that is disconnected connects again.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ECHO_BYTES = 8192, READ_BYTES = 8, GARBAGE_BYTES = 3000 };
#define READ_EVERY (1000 * MS)
#define BYTE_EVERY (50 * MS)
#define GARBAGE_EVERY (100 * MS)
#define SCRIPTS_EVERY (10 * MS)

static uint64_t random_below(uint64_t limit) { return (uint64_t)random() % limit; }

static void put_out(struct nuisance *nuisance) {
    if (nuisance->fd >= 0) close(nuisance->fd);
    nuisance->fd = -1;
    nuisance->done = 0;
}

/* False: the connection is over. */
static bool say(const struct nuisance *nuisance, const void *bytes, size_t count) {
    return send(nuisance->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
}

static bool hear(const struct nuisance *nuisance, size_t count) {
    char bytes[4096];
    ssize_t got =
        recv(nuisance->fd, bytes, count < sizeof bytes ? count : sizeof bytes, MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

/* Asks for as much as it is let, and reads next to nothing of it. */
static bool read_slowly(struct nuisance *nuisance) {
    static char request[ECHO_BYTES + 64];
    static size_t bytes;
    nuisance->next_ns += READ_EVERY;
    if (bytes == 0) {
        int head = snprintf(request, sizeof request, "*2\r\n$4\r\nECHO\r\n$%d\r\n", ECHO_BYTES);
        memset(request + head, 'x', ECHO_BYTES);
        memcpy(request + head + ECHO_BYTES, "\r\n", 2);
        bytes = (size_t)head + ECHO_BYTES + 2;
    }
    for (int i = 0; i < 64; i++) {
        size_t at = (size_t)(nuisance->done % bytes);
        ssize_t sent = send(nuisance->fd, request + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent <= 0) break;
        nuisance->done += (uint64_t)sent;
    }
    return hear(nuisance, READ_BYTES);
}

static bool write_slowly(struct nuisance *nuisance) {
    static const char request[] = "*2\r\n$3\r\nGET\r\n$20\r\nload:a-slow-ones-key\r\n";
    nuisance->next_ns += BYTE_EVERY;
    return say(nuisance, &request[nuisance->done++ % (sizeof request - 1)], 1) &&
           hear(nuisance, 64);
}

static bool talk_garbage(struct nuisance *nuisance) {
    static const char *const lines[] = {"*1000000000\r\n$3\r\nSET\r\n",
                                        "*2\r\n$-7\r\nGET\r\n",
                                        "*1\r\n*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n",
                                        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                        "*3\r\n$4\r\nEVAL\r\n$14\r\nwhile 1 do end\r\n$1\r\n0\r\n",
                                        "*2\r\n$3\r\nGET\r\n$99999999999\r\n",
                                        "\"\\x00 unbalanced\r\nDEL\r\nSET a b NX PX -1\r\n",
                                        ":1\r\n+OK\r\n$-1\r\n*-1\r\n*0\r\n"};
    enum { LINES = sizeof lines / sizeof lines[0] };
    char bytes[GARBAGE_BYTES];
    nuisance->next_ns += GARBAGE_EVERY;
    uint64_t which = random_below(2 * LINES);
    nuisance->done++;
    if (which < LINES)
        return say(nuisance, lines[which], strlen(lines[which])) && hear(nuisance, sizeof bytes);
    size_t count = 1 + (size_t)random_below(sizeof bytes);
    for (size_t i = 0; i < count; i++) bytes[i] = (char)random_below(256);
    if (which % 2 == 0) bytes[0] = '*';
    return say(nuisance, bytes, count) && hear(nuisance, sizeof bytes);
}

static bool goes_on(struct crowd *crowd, struct nuisance *nuisance) {
    switch (nuisance->kind) {
    case NUISANCE_READS_SLOWLY: return read_slowly(nuisance);
    case NUISANCE_WRITES_SLOWLY: return write_slowly(nuisance);
    case NUISANCE_TALKS_GARBAGE: return talk_garbage(nuisance);
    case NUISANCE_RUNS_SCRIPTS: break;
    }
    nuisance->next_ns = now_ns() + SCRIPTS_EVERY;
    return hostile_do(crowd, nuisance);
}

static void kill_now_and_then(struct crowd *crowd, int64_t now) {
    if (crowd->kill_every_ns == 0 || now < crowd->kill_next_ns) return;
    crowd->kill_next_ns = now + crowd->kill_every_ns;
    if (served_kill_worker(crowd->served)) crowd->killed++;
}

void nuisances_do(struct crowd *crowd, int64_t now) {
    if (crowd->nuisances_count > 0) kill_now_and_then(crowd, now);
    for (unsigned i = 0; i < crowd->nuisances_count; i++) {
        struct nuisance *nuisance = &crowd->nuisances[i];
        if (now < nuisance->next_ns) continue;
        if (nuisance->fd < 0) nuisance->fd = served_connect(crowd->served);
        if (nuisance->fd < 0) { /* there is no gateway any more */
            nuisance->next_ns = now + GARBAGE_EVERY;
            continue;
        }
        if (!goes_on(crowd, nuisance)) put_out(nuisance);
    }
}

/* Half of the slow ones read slowly, and half write slowly; they do not all come in the same
 * moment. */
void nuisances_open(struct crowd *crowd, const struct nuisances_wanted *wanted) {
    const int64_t now = now_ns();
    crowd->nuisances_count = wanted->slow + wanted->garbage + wanted->scripts;
    crowd->nuisances = calloc(crowd->nuisances_count + 1, sizeof *crowd->nuisances);
    if (crowd->nuisances == NULL) give_up("out of memory");
    for (unsigned i = 0; i < crowd->nuisances_count; i++) {
        enum nuisance_kind slowness = i % 2 == 0 ? NUISANCE_READS_SLOWLY : NUISANCE_WRITES_SLOWLY;
        enum nuisance_kind kind = i < wanted->slow ? slowness : NUISANCE_TALKS_GARBAGE;
        if (i >= wanted->slow + wanted->garbage) kind = NUISANCE_RUNS_SCRIPTS;
        crowd->nuisances[i] = (struct nuisance){.fd = -1, .kind = kind};
        crowd->nuisances[i].next_ns = now + (int64_t)random_below((uint64_t)GARBAGE_EVERY);
    }
}

void nuisances_close(struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->nuisances_count; i++) put_out(&crowd->nuisances[i]);
    free(crowd->nuisances);
    crowd->nuisances = NULL;
    crowd->nuisances_count = 0;
}
