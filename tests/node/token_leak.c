/* SPDX-License-Identifier: BSD-2-Clause
 *
 * TOKEN-LEAK: fences that are kept for each resource grow for ever, those that end are forgotten
 * too early. Here a million resources, each with a name of its own, are acquired and released in
 * guarded mode, at a real redis-server and at the table of src/node. Afterwards both use as much
 * memory as before, and hold the same fences.
 *
 * usage: token_leak [RESOURCES]
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/scripts.h"
#include "node/table.h"
#include "servers.h"

#define NONCE UINT64_C(0x00c0ffee00c0ffee)
#define NONCE_TEXT "00c0ffee00c0ffee"
#define FENCES "redlock:fences:" NONCE_TEXT
#define TOKEN "0123456789012345678901234567890123456789"
#define TTL_MS 60000

/* Warm-up, and a look before the first that counts: what a server takes once, for INFO too, is no
 * leak. */
enum { RESOURCES = 1000000, WARM_UP = 20000, BATCH = 500, NAME_BYTES = 48, SKIPPED = 77 };
/* Node sizes of a skip list are drawn anew with every score, and the server's buffers grow and
 * shrink by some 50 kB, so the use of memory wavers by a few percent. One byte left of each
 * resource would be 60 % of it. */
enum { WAVERS_PERCENT = 10 };

static const int64_t fence_first = 1700000000000000;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "token_leak: %s: %s\n", what, why ? why : "no text");
    exit(1);
}

static size_t name_of(long resource, char name[NAME_BYTES]) {
    return (size_t)snprintf(name, NAME_BYTES, "tenant-%ld:invoice-%ld", resource % 977, resource);
}

/* FNV-1a: any hash does. */
static uint16_t stripe_of(const char *name, size_t bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return (uint16_t)((hash ^ hash >> 32) % NODE_STRIPES);
}

/* ---- the real one ---------------------------------------------------------------------------- */

static redisContext *connect_to(const struct server *server) {
    redisContext *connection = redisConnect("127.0.0.1", server->port);
    if (!connection || connection->err)
        die("connect", connection ? connection->errstr : "no memory");
    return connection;
}

static long long ask_integer(redisContext *connection, const char *command) {
    redisReply *reply = redisCommand(connection, command);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        die(command, reply ? reply->str : connection->errstr);
    long long integer = reply->integer;
    freeReplyObject(reply);
    return integer;
}

static long long used_memory(redisContext *connection) {
    redisReply *reply = redisCommand(connection, "INFO memory");
    const char *line = reply && reply->str ? strstr(reply->str, "used_memory:") : NULL;
    if (!line) die("INFO memory", "no used_memory");
    long long bytes = strtoll(line + strlen("used_memory:"), NULL, 10);
    freeReplyObject(reply);
    return bytes;
}

static void make_fences(redisContext *connection) {
    redisReply *reply = redisCommand(connection,
                                     "EVAL %s 3 redlock:node redlock:fences:kept " FENCES
                                     " %s %s 1 nonce " NONCE_TEXT,
                                     node_scripts[NODE_RECORD_WRITE].text, "", "");
    if (!reply) die("record_write", connection->errstr);
    if (reply->type == REDIS_REPLY_ERROR) { /* ZADD knows no GT before 6.2 */
        printf("skipped: %s\n", reply->str);
        exit(SKIPPED);
    }
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        die("record_write", "not written");
    freeReplyObject(reply);
}

/* Acquire and release, as a client of this resource sends them. */
static void append(redisContext *connection, long resource) {
    char name[NAME_BYTES], wire[512];
    size_t bytes = name_of(resource, name);
    int used = snprintf(wire, sizeof(wire),
                        "SET %s " TOKEN " NX PX %d\r\nZADD " FENCES " XX GT CH %" PRId64
                        " %u\r\nDEL %s\r\n",
                        name, TTL_MS, fence_first + resource, stripe_of(name, bytes), name);
    if (used < 0 || (size_t)used >= sizeof(wire)) die(name, "too long");
    if (redisAppendFormattedCommand(connection, wire, (size_t)used) != REDIS_OK)
        die(name, connection->errstr);
}

static void expect(redisContext *connection, bool status) {
    void *got;
    if (redisGetReply(connection, &got) != REDIS_OK) die("a reply", connection->errstr);
    redisReply *reply = got;
    bool granted = status ? reply->type == REDIS_REPLY_STATUS
                          : reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (!granted) die(status ? "SET" : "ZADD or DEL", reply->str ? reply->str : "not granted");
    freeReplyObject(reply);
}

static void run_real(redisContext *connection, long from, long to) {
    for (long first = from; first < to; first += BATCH) {
        long end = first + BATCH < to ? first + BATCH : to;
        for (long resource = first; resource < end; resource++) append(connection, resource);
        for (long resource = first; resource < end; resource++) {
            expect(connection, true);
            expect(connection, false);
            expect(connection, false);
        }
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct node_table *make_table(void) {
    static const int64_t floor[NODE_STRIPES] = {0};
    static const struct node_field nonce = {{"nonce", 5}, {NONCE_TEXT, 16}};
    struct node_table *table = node_table_new(NULL, NULL);
    struct node_record_write write = {
        .nonce = NONCE, .was_kept = true, .floor = floor, .fields = &nonce, .fields_count = 1};
    if (!table || node_record_write(table, &write) != NODE_GRANTED) die("table", "no memory");
    return table;
}

static void run_table(struct node_table *table, long from, long to) {
    static const struct node_bytes token = {TOKEN, sizeof(TOKEN) - 1};
    for (long resource = from; resource < to; resource++) {
        char name[NAME_BYTES];
        struct node_bytes key = {name, name_of(resource, name)};
        uint16_t stripe = stripe_of(name, key.bytes);
        bool granted =
            node_acquire(table, &key, 1, token, TTL_MS, resource) == NODE_GRANTED &&
            node_zadd(table, NONCE, fence_first + resource, &stripe, 1) == NODE_GRANTED &&
            node_delete(table, key, resource);
        if (!granted) die("table", "not granted");
    }
}

static void compare_fences(redisContext *connection, const struct node_table *table) {
    const int64_t *fences = node_fences(table, NONCE);
    redisReply *reply = redisCommand(connection, "ZRANGE " FENCES " 0 -1 WITHSCORES");
    if (!fences || !reply || reply->elements != 2 * NODE_STRIPES)
        die("fences", "not all stripes are there");
    for (size_t i = 0; i < reply->elements; i += 2) {
        long stripe = strtol(reply->element[i]->str, NULL, 10);
        if (stripe < 0 || stripe >= NODE_STRIPES ||
            strtoll(reply->element[i + 1]->str, NULL, 10) != fences[stripe])
            die("server and table differ at stripe", reply->element[i]->str);
    }
    freeReplyObject(reply);
}

/* ---- both ------------------------------------------------------------------------------------ */

struct figures {
    long long used, fences, keys;
    size_t table;
};

static struct figures measure(redisContext *connection, const struct node_table *table) {
    return (struct figures){used_memory(connection),
                            ask_integer(connection, "MEMORY USAGE " FENCES " SAMPLES 0"),
                            ask_integer(connection, "DBSIZE"), node_bytes_used(table)};
}

static bool about_equal(const char *what, long long before, long long after) {
    double percent = 100.0 * (double)(after - before) / (double)before;
    printf("%-28s %10lld -> %10lld bytes (%+.1f %%)\n", what, before, after, percent);
    return percent < WAVERS_PERCENT && percent > -WAVERS_PERCENT;
}

int main(int argc, char **argv) {
    static const char *const arguments[] = {"--save", "", NULL};
    struct server server = {0};
    long resources = argc > 1 ? strtol(argv[1], NULL, 10) : RESOURCES;
    if (resources <= 0) die("RESOURCES", "a number above 0");
    server_start(&server, arguments);
    redisContext *connection = connect_to(&server);
    struct node_table *table = make_table();
    make_fences(connection);
    run_real(connection, 0, WARM_UP);
    run_table(table, 0, WARM_UP);
    (void)measure(connection, table);
    struct figures before = measure(connection, table);
    run_real(connection, WARM_UP, WARM_UP + resources);
    run_table(table, WARM_UP, WARM_UP + resources);
    struct figures after = measure(connection, table);
    compare_fences(connection, table);
    printf("%ld distinct resources, acquired and released\n", resources);
    bool same = about_equal("server, used_memory", before.used, after.used);
    same &= about_equal("server, MEMORY USAGE fences", before.fences, after.fences);
    same &=
        about_equal("table, record and fences", (long long)before.table, (long long)after.table);
    same &= before.table == after.table && after.keys == 2;
    printf("keys left on the server: %lld (the record and the fences)\n", after.keys);
    node_table_free(table);
    redisFree(connection);
    server_stop(&server);
    return same ? 0 : 1;
}
