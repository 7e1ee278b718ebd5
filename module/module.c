/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The module: loads, refuses, unloads. See docs/operate/native.md. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <redlock/base.h>

#include "commands/commands.h"
#include "state/ends.h"
#include "state/mirror.h"
#include "node/slots.h"
#include "commands/request.h"

#define EXPORTED __attribute__((visibility("default")))

#define CHANNEL_WAKE "redlock:wake:"

enum { WAITERS_SHARE = 8 }; /* of the option memory: one eighth more */
enum { INCARNATION_BYTES = INCARNATION_DIGITS / 2 };
static const size_t memory_usual = (size_t)256 << 20, memory_least = (size_t)1 << 20;

/* ---- what the table reports ---- */

static bool same(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static struct server_string *name_in_request(struct node_bytes key) {
    for (size_t i = 0; i < node.keys_count; i++)
        if (same(node.keys[i], key)) return node.names[i];
    return NULL;
}

/* A slot that becomes free is free for the waiters of all slots of its resource. */
static void freed(struct node_bytes key) {
    char text[NODE_SLOT_KEY_BYTES_MAX];
    struct node_bytes first;
    if (node_queue_waiters(node.queue) == 0) return;
    node_queue_freed(node.queue, key, node.now_us);
    if (node_slot_first(key, &first, text)) node_queue_freed(node.queue, first, node.now_us);
}

/* Watchers and tracking clients learn of each change, as they do of a plain key. */
static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    (void)context;
    (void)expires_ms;
    struct server_string *known = name_in_request(key), *name = known;
    if (!name) name = server.CreateString(NULL, key.bytes ? key.data : "", key.bytes);
    if (change != NODE_CHANGE_SET && change != NODE_CHANGE_EXTENDED) mirror_drop(name, token);
    if (change == NODE_CHANGE_EXPIRED || change == NODE_CHANGE_LOST) node.counts.ended++;
    if (change == NODE_CHANGE_EXPIRED || change == NODE_CHANGE_DELETED) freed(key);
    server.SignalModifiedKey(node.ctx, name);
    mirror_signalled(name);
    if (!known) server.FreeString(NULL, name);
}

/* "turn <key>", or "<rank> <key>", to the waiter's channel. PUBLISH changes no key and runs none of
 * our commands, so the queue that calls this is not entered again. */
static void on_turn(void *context, struct node_bytes key, struct node_bytes waiter, size_t rank,
                    bool turn) {
    static char channel[sizeof CHANNEL_WAKE + WAITER_BYTES_MAX], message[NAME_BYTES_MAX + 32];
    (void)context;
    memcpy(channel, CHANNEL_WAKE, sizeof CHANNEL_WAKE - 1);
    memcpy(channel + sizeof CHANNEL_WAKE - 1, waiter.data, waiter.bytes);
    int bytes = turn ? snprintf(message, 32, "turn ") : snprintf(message, 32, "%zu ", rank);
    if (key.bytes) memcpy(message + bytes, key.data, key.bytes);
    struct server_reply *reply =
        server.Call(node.ctx, "PUBLISH", "bb", channel, sizeof CHANNEL_WAKE - 1 + waiter.bytes,
                    message, (size_t)bytes + key.bytes);
    if (reply) server.FreeCallReply(reply);
}

/* ---- options ---- */

/* 100, 64kb, 64mb, 1gb: as in the server's configuration. */
static bool parse_bytes(struct node_bytes text, size_t *bytes) {
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0}, {"b", 0}, {"kb", 10}, {"mb", 20}, {"gb", 30}};
    const char *at = text.data, *end = at + text.bytes;
    int64_t number;
    if (!parse_number(&at, end, INT64_C(1) << 32, &number)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!is_word((struct node_bytes){at, (size_t)(end - at)}, units[i].unit)) continue;
        *bytes = (size_t)number << units[i].shift;
        return true;
    }
    return false;
}

static bool read_option(struct node_bytes name, struct node_bytes value) {
    if (is_word(name, "mirror")) {
        node.mirror = is_word(value, "yes");
        return node.mirror || is_word(value, "no");
    }
    if (is_word(name, "memory"))
        return parse_bytes(value, &node.memory_max) && node.memory_max >= memory_least;
    if (is_word(name, "db")) {
        const char *at = value.data, *end = at + value.bytes;
        int64_t db;
        if (!parse_number(&at, end, 65535, &db) || at != end) return false;
        node.db = (int)db;
        return true;
    }
    return false;
}

static int read_options(struct server_ctx *ctx, struct server_string **argv, int argc) {
    for (int i = 0; i < argc; i += 2) {
        struct node_bytes name = bytes_of(argv[i]), value = {"", 0};
        if (i + 1 < argc) value = bytes_of(argv[i + 1]);
        if (read_option(name, value)) continue;
        server.Log(
            ctx, "warning",
            "cannot use the option '%.*s %.*s'; the options are 'mirror yes|no', 'memory BYTES' "
            "(at least 1mb), and 'db NUMBER'",
            (int)name.bytes, (const char *)name.data, (int)value.bytes, (const char *)value.data);
        return SERVER_ERR;
    }
    return SERVER_OK;
}

/* ---- loading ---- */

static int refuse_to_load(struct server_ctx *ctx, const char *why) {
    server.Log(ctx, "warning", "not loaded: %s", why);
    return SERVER_ERR;
}

/* No client is connected yet while the server starts. */
static bool is_running(struct server_ctx *ctx) {
    unsigned long long clients;
    return !server_number(ctx, "clients", "connected_clients", &clients) || clients > 0;
}

static int refuse_what_cannot_vote(struct server_ctx *ctx) {
    int flags = server.GetContextFlags(ctx);
    if (flags & SERVER_IS_CLUSTER)
        return refuse_to_load(
            ctx, "this server is in cluster mode; a lock node must be a server of its own");
    if (flags & SERVER_IS_REPLICA)
        return refuse_to_load(
            ctx, "this server is a replica; a lock node must be a master (REPLICAOF NO ONE)");
    /* They would go on with plain keys and the record of the stock node. Neither the module nor a
     * later init of the quorum reaches those. */
    if (is_running(ctx))
        return refuse_to_load(
            ctx, "clients that are connected now would go on as if it were not there; load it at "
                 "the start of the server (loadmodule in its configuration)");
    return SERVER_OK;
}

static bool draw(void *bytes, size_t count) {
    ssize_t got;
    while ((got = getrandom(bytes, count, 0)) < 0 && errno == EINTR) continue;
    return got == (ssize_t)count;
}

static int begin_table(struct server_ctx *ctx) {
    unsigned char drawn[INCARNATION_BYTES];
    uint64_t seed;
    if (!draw(drawn, sizeof drawn) || !draw(&seed, sizeof seed))
        return refuse_to_load(ctx, "the kernel gives no random bytes");
    for (size_t i = 0; i < sizeof drawn; i++)
        snprintf(node.incarnation + 2 * i, 3, "%02x", drawn[i]);
    node.table = node_table_open(&(struct node_options){
        .native = true, .seed = seed, .bytes_max = node.memory_max, .on_change = on_change});
    node.queue =
        node_queue_new(&(struct node_queue_options){.seed = ~seed,
                                                    .bytes_max = node.memory_max / WAITERS_SHARE,
                                                    .reserve_us = NODE_RESERVE_US,
                                                    .heads = 0, /* it is notified of its turn */
                                                    .notify = on_turn});
    return node.table && node.queue ? SERVER_OK : refuse_to_load(ctx, "no memory for the table");
}

static void leave_nothing(void) {
    ends_stop();
    node_queue_free(node.queue);
    node.queue = NULL;
    node_table_free(node.table);
    node.table = NULL;
    if (record_key) server.FreeString(NULL, record_key);
    record_key = NULL;
}

static int begin_all(struct server_ctx *ctx) {
    record_key = server.CreateString(NULL, RECORD_KEY, strlen(RECORD_KEY));
    if (begin_table(ctx) != SERVER_OK || ends_begin(ctx) != SERVER_OK ||
        commands_add(ctx) != SERVER_OK)
        return SERVER_ERR;
    if (server.RegisterInfoFunc(ctx, info_redlock) != SERVER_OK)
        return refuse_to_load(ctx, "the server refuses a section of INFO");
    return SERVER_OK;
}

EXPORTED int RedisModule_OnLoad(struct server_ctx *ctx, struct server_string **argv, int argc);
EXPORTED int RedisModule_OnLoad(struct server_ctx *ctx, struct server_string **argv, int argc) {
    const char *missing = server_api_find(ctx);
    if (missing) {
        if (server.Log)
            server.Log(ctx, "warning",
                       "not loaded: the server has no %s; Redis 6.2 or later, or Valkey, is needed",
                       missing);
        return SERVER_ERR;
    }
    if (server.IsModuleNameBusy("redlock")) return SERVER_ERR; /* the server says so */
    enum {
        VERSION =
            REDLOCK_VERSION_MAJOR * 10000 + REDLOCK_VERSION_MINOR * 100 + REDLOCK_VERSION_PATCH
    };
    server.SetModuleAttribs(ctx, "redlock", VERSION, SERVER_API_VERSION);
    node = (struct native_node){.mirror = true, .memory_max = memory_usual};
    if (read_options(ctx, argv, argc) != SERVER_OK || refuse_what_cannot_vote(ctx) != SERVER_OK)
        return SERVER_ERR;
    server.SetModuleOptions(ctx, SERVER_SIGNALS_BY_HAND);
    if (begin_all(ctx) != SERVER_OK) {
        leave_nothing();
        return SERVER_ERR;
    }
    server.Log(ctx, "notice", "incarnation %s, mirror %s, at most %zu bytes of locks",
               node.incarnation, node.mirror ? "yes" : "no", node.memory_max);
    return SERVER_OK;
}

EXPORTED int RedisModule_OnUnload(struct server_ctx *ctx);
EXPORTED int RedisModule_OnUnload(struct server_ctx *ctx) {
    const struct node_field *fields;
    ends_all();
    bool has_record = node_record(node.table, &fields) > 0;
    if (has_record || node_count(node.table) > 0) {
        server.Log(ctx, "warning",
                   "not unloaded: the node holds %zu locks and %s; a node without them would "
                   "vote as if they were free. %s",
                   node_count(node.table), has_record ? "a record" : "no record",
                   has_record
                       ? "The record stays while the module is loaded: to take the module out, "
                         "restart the server without loadmodule"
                       : "Wait until they have ended");
        return SERVER_ERR;
    }
    leave_nothing();
    return SERVER_OK;
}
