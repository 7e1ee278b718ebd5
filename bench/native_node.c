/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one native node costs, against a stock one: raw pipelined commands, so that only the server
 * is measured.
 *   cpu [CYCLES]    processor time of the server for one acquire and release, 256 in flight
 *   memory [LOCKS]  bytes of the server for each held lock
 *   stall [LOCKS]   the longest PING while a tenth of the locks end in one second
 *                   (only the kinds whose name contains KIND)
 * usage: native_node MODULE cpu|memory|stall [COUNT [KIND]]
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/scripts.h"
#include "servers.h"

#define TOKEN "0123456789012345678901234567890123456789"
#define NONCE "000000000000000b"

enum { IN_FLIGHT = 256, ROUNDS = 75, STRIPES = 4096, KINDS_MAX = 6, CLASSIC = 0, GUARDED = 1 };

static redisContext *connect_to(const struct server *server) {
    redisContext *context = redisConnect("127.0.0.1", server->port);
    if (context && !context->err) return context;
    fputs("native_node: cannot connect\n", stderr);
    exit(1);
}

static long long next_integer(redisContext *context) {
    redisReply *reply = NULL;
    if (redisGetReply(context, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "native_node: %s\n", reply ? reply->str : context->errstr);
        exit(1);
    }
    long long number = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                       : reply->type == REDIS_REPLY_STATUS ? 1
                                                           : 0;
    freeReplyObject(reply);
    return number;
}

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Of the server's main thread. */
static int64_t processor_ns(const struct server *server) {
    char path[64];
    int64_t ns = 0;
    snprintf(path, sizeof path, "/proc/%ld/schedstat", (long)server->pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%" SCNd64, &ns) != 1) {
        fprintf(stderr, "native_node: cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return ns;
}

/* ---- requests ---- */

struct kind {
    const char *name;
    const char *const *arguments; /* of the server */
    bool native, guarded;
};

static uint64_t fence = 1;

static unsigned stripe_of(const char *key) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *key; key++) hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return (unsigned)(hash % STRIPES);
}

static void append_acquire(redisContext *to, const struct kind *kind, const char *key,
                           const char *ttl_ms) {
    unsigned stripe = stripe_of(key);
    if (kind->native && kind->guarded) {
        redisAppendCommand(to, "REDLOCK.LOCK %s " TOKEN " %s:" NONCE ":%llu:%u", key, ttl_ms,
                           (unsigned long long)++fence, stripe);
    } else if (kind->native) {
        redisAppendCommand(to, "REDLOCK.LOCK %s " TOKEN " %s", key, ttl_ms);
    } else {
        redisAppendCommand(to, "SET %s " TOKEN " NX PX %s", key, ttl_ms);
        if (kind->guarded)
            redisAppendCommand(to, "ZADD redlock:fences:" NONCE " XX GT CH %llu %u",
                               (unsigned long long)++fence, stripe);
    }
}

static void append_release(redisContext *to, const struct kind *kind, const char *key) {
    if (kind->native)
        redisAppendCommand(to, "REDLOCK.UNLOCK %s " TOKEN, key);
    else
        redisAppendCommand(to, "EVALSHA %s 1 %s " TOKEN, node_scripts[NODE_RELEASE].sha1, key);
}

/* How many of the replies are 1. */
static unsigned count_granted(redisContext *from, unsigned replies) {
    unsigned granted = 0;
    for (unsigned i = 0; i < replies; i++) granted += next_integer(from) == 1;
    return granted;
}

static void must_all(unsigned granted, unsigned wanted, const char *what) {
    if (granted == wanted) return;
    fprintf(stderr, "native_node: %u of %u %s\n", granted, wanted, what);
    exit(1);
}

static void prepare(redisContext *to, const struct kind *kind) {
    redisAppendCommand(to, "SCRIPT LOAD %b", node_scripts[NODE_RELEASE].text,
                       node_scripts[NODE_RELEASE].bytes);
    (void)next_integer(to);
    if (!kind->guarded) return;
    if (kind->native) {
        redisAppendCommand(to, "REDLOCK.RECORDWRITE %s %s " NONCE " %s 1 nonce " NONCE, "", "", "");
        must_all(count_granted(to, 1), 1, "records written");
        return;
    }
    for (unsigned i = 0; i < STRIPES; i++)
        redisAppendCommand(to, "ZADD redlock:fences:" NONCE " 0 %u", i);
    must_all(count_granted(to, STRIPES), STRIPES, "stripes made");
}

/* ---- processor time ---- */

static double us_a_cycle(const struct server *server, redisContext *to, const struct kind *kind,
                         unsigned cycles) {
    const unsigned replies = kind->guarded && !kind->native ? 2 : 1;
    char key[32];
    int64_t began = processor_ns(server);
    for (unsigned done = 0; done < cycles; done += IN_FLIGHT) {
        for (unsigned i = 0; i < IN_FLIGHT; i++) {
            snprintf(key, sizeof key, "lock:%u", (done + i) * 7919 % 100003);
            append_acquire(to, kind, key, "30000");
        }
        must_all(count_granted(to, replies * IN_FLIGHT), replies * IN_FLIGHT, "acquired");
        for (unsigned i = 0; i < IN_FLIGHT; i++) {
            snprintf(key, sizeof key, "lock:%u", (done + i) * 7919 % 100003);
            append_release(to, kind, key);
        }
        must_all(count_granted(to, IN_FLIGHT), IN_FLIGHT, "released");
    }
    return (double)(processor_ns(server) - began) / 1000 / cycles;
}

static bool is_wanted(const struct kind *kind, const char *only) {
    return !only || strstr(kind->name, only);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 0: that kind was not measured, or not yet. */
static double of(double us[][ROUNDS], size_t kind, size_t other, int at) {
    return us[other][at] > 0 && kind >= other ? us[kind][at] / us[other][at] : 0;
}

/* Short rounds in turn, so that a disturbance of the machine meets all kinds. What it costs without
 * a disturbance is the least. */
static void measure_cpu(const struct kind *kinds, size_t count, unsigned cycles, const char *only) {
    struct server servers[KINDS_MAX] = {0};
    redisContext *to[KINDS_MAX];
    double us[KINDS_MAX][ROUNDS] = {{0}};
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(&kinds[i], only)) continue;
        server_start(&servers[i], kinds[i].arguments);
        to[i] = connect_to(&servers[i]);
        prepare(to[i], &kinds[i]);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < count; i++)
            if (is_wanted(&kinds[i], only))
                us[i][round] = us_a_cycle(&servers[i], to[i], &kinds[i], cycles / ROUNDS);
    printf(
        "%-28s  least us/cycle  of classic  of guarded | median us/cycle  of classic  of guarded\n",
        "");
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(&kinds[i], only)) continue;
        qsort(us[i], ROUNDS, sizeof us[i][0], by_size);
        printf("%-28s", kinds[i].name);
        for (int at = 0; at <= ROUNDS / 2; at += ROUNDS / 2)
            printf("  %14.3f  %10.2f  %10.2f", us[i][at], of(us, i, CLASSIC, at),
                   of(us, i, GUARDED, at));
        printf("\n");
        redisFree(to[i]);
        server_stop(&servers[i]);
    }
}

/* ---- memory ---- */

static long long used_memory(struct server *server) {
    redisReply *reply = server_ask(server, "INFO memory");
    const char *at = reply->str ? strstr(reply->str, "used_memory:") : NULL;
    long long bytes = at ? strtoll(at + strlen("used_memory:"), NULL, 10) : -1;
    freeReplyObject(reply);
    return bytes;
}

static void hold(redisContext *to, const struct kind *kind, unsigned from, unsigned until,
                 const char *ttl_ms) {
    const unsigned replies = kind->guarded && !kind->native ? 2 : 1;
    char key[32];
    for (unsigned done = from; done < until; done += IN_FLIGHT) {
        unsigned batch = until - done < IN_FLIGHT ? until - done : IN_FLIGHT;
        for (unsigned i = 0; i < batch; i++) {
            snprintf(key, sizeof key, "lock:%07u", done + i);
            append_acquire(to, kind, key, ttl_ms);
        }
        must_all(count_granted(to, replies * batch), replies * batch, "acquired");
    }
}

static void measure_memory(const struct kind *kinds, size_t count, unsigned locks,
                           const char *only) {
    printf("%-28s  bytes of the server for each of %u locks, without its name of 12\n", "", locks);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(&kinds[i], only)) continue;
        struct server server = {0};
        server_start(&server, kinds[i].arguments);
        redisContext *to = connect_to(&server);
        prepare(to, &kinds[i]);
        long long before = used_memory(&server);
        hold(to, &kinds[i], 0, locks, "3600000");
        printf("%-28s  %.1f\n", kinds[i].name,
               (double)(used_memory(&server) - before) / locks - 12);
        redisFree(to);
        server_stop(&server);
    }
}

/* ---- stalls ---- */

/* Of the module's table; of a stock server, its keys. */
/* Of INFO redlock; -1: it is not there. `field` ends with a colon. */
static long long info_number(struct server *server, const char *field) {
    redisReply *reply = server_ask(server, "INFO redlock");
    const char *at = reply->str ? strstr(reply->str, field) : NULL;
    long long number = at ? strtoll(at + strlen(field), NULL, 10) : -1;
    freeReplyObject(reply);
    return number;
}

static long long locks_left(struct server *server, const struct kind *kind) {
    return kind->native ? info_number(server, "redlock_locks:")
                        : server_ask_integer(server, "DBSIZE");
}

static double took[1000000];

/* Sends PINGs until `end_ns`, one at a time; took[] has what each of them took, in ms, sorted. */
static size_t ping_until(redisContext *to, int64_t end_ns) {
    size_t pings = 0;
    while (now_ns() < end_ns && pings < sizeof took / sizeof took[0]) {
        int64_t at = now_ns();
        redisAppendCommand(to, "PING");
        (void)next_integer(to);
        took[pings++] = (double)(now_ns() - at) / 1000000;
    }
    qsort(took, pings, sizeof took[0], by_size);
    return pings;
}

/* The first of `locks`, so that they end within a second that begins 4 s after `began`. */
static void hold_until_then(redisContext *to, const struct kind *kind, unsigned locks,
                            int64_t began) {
    for (unsigned done = 0; done < locks; done += IN_FLIGHT) {
        char ttl_ms[24];
        int64_t end = began + 4000000000 + (int64_t)done * 1000000000 / locks;
        unsigned until = done + IN_FLIGHT < locks ? done + IN_FLIGHT : locks;
        snprintf(ttl_ms, sizeof ttl_ms, "%" PRId64, (end - now_ns()) / 1000000);
        hold(to, kind, done, until, ttl_ms);
    }
}

/* The PINGs before anything ends show what the machine does to a server that does nothing else. */
static void measure_stall(const struct kind *kinds, size_t count, unsigned locks,
                          const char *only) {
    printf("%-28s  PING in ms, longest and 99.9 of 100 below: before, while %u of %u locks end in "
           "one second; longest pause by the module\n",
           "", locks / 10, locks);
    for (size_t k = 0; k < count; k++) {
        if (!is_wanted(&kinds[k], only)) continue;
        struct server server = {0};
        server_start(&server, kinds[k].arguments);
        redisContext *to = connect_to(&server);
        prepare(to, &kinds[k]);
        hold(to, &kinds[k], locks / 10, locks, "3600000");
        int64_t began = now_ns();
        hold_until_then(to, &kinds[k], locks / 10, began);
        size_t pings = ping_until(to, began + 3800000000);
        double idle_max = took[pings - 1], idle_most = took[pings - 1 - pings / 1000];
        while (now_ns() < began + 3900000000) continue;
        pings = ping_until(to, began + 5300000000);
        printf("%-28s  %7.3f %7.3f   %7.3f %7.3f", kinds[k].name, idle_max, idle_most,
               took[pings - 1], took[pings - 1 - pings / 1000]);
        if (kinds[k].native) printf("   %lld us", info_number(&server, "redlock_ending_us_max:"));
        printf("   (locks left: %lld)\n", locks_left(&server, &kinds[k]));
        redisFree(to);
        server_stop(&server);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: native_node MODULE cpu|memory|stall [COUNT [KIND]]\n", stderr);
        return 64;
    }
    char *module = realpath(argv[1], NULL);
    if (!module) {
        perror(argv[1]);
        return 1;
    }
    const char *const with_mirror[] = {"--loadmodule", module, "mirror", "yes",
                                       "memory",       "2gb",  NULL};
    const char *const without[] = {"--loadmodule", module, "mirror", "no", "memory", "2gb", NULL};
    const struct kind kinds[] = {
        {"stock, classic", NULL, false, false},
        {"stock, guarded", NULL, false, true},
        {"native, classic, mirror", with_mirror, true, false},
        {"native, guarded, mirror", with_mirror, true, true},
        {"native, classic, no mirror", without, true, false},
        {"native, guarded, no mirror", without, true, true},
    };
    const size_t count = sizeof kinds / sizeof kinds[0];
    const char *only = argc > 4 ? argv[4] : NULL;
    long given = argc > 3 ? atol(argv[3]) : 0;
    if (strcmp(argv[2], "cpu") == 0)
        measure_cpu(kinds, count, given > 0 ? (unsigned)given : 200000, only);
    else if (strcmp(argv[2], "memory") == 0)
        measure_memory(kinds, count, given > 0 ? (unsigned)given : 1000000, only);
    else
        measure_stall(kinds, count, given > 0 ? (unsigned)given : 1000000, only);
    free(module);
    return 0;
}
