/* SPDX-License-Identifier: BSD-2-Clause
 *
 * About the node itself: REDLOCK.HELLO, STATE, and INFO redlock. */
#include <string.h>

#include <redlock/base.h>

#include "state/clock.h"
#include "commands/commands.h"
#include "commands/request.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION                                                                                    \
    TEXT(REDLOCK_VERSION_MAJOR) "." TEXT(REDLOCK_VERSION_MINOR) "." TEXT(REDLOCK_VERSION_PATCH)

enum { PROTOCOL = 1 };

static void reply_text(struct server_ctx *ctx, const char *text) {
    server.ReplyWithStringBuffer(ctx, text, strlen(text));
}

/* The id of the quorum in the record, empty if there is none. */
static struct node_bytes quorum(void) {
    const struct node_field *fields;
    size_t count = node_record(node.table, &fields);
    for (size_t i = 0; i < count; i++)
        if (is_word(fields[i].name, "quorum")) return fields[i].value;
    return (struct node_bytes){"", 0};
}

static int hello(struct server_ctx *ctx, struct server_string **argv, int argc) {
    enum { PAIRS = 7 };
    struct words words;
    long long protocol;
    if (argc != 2) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc)) return SERVER_OK;
    if (server.StringToLongLong(argv[1], &protocol) != SERVER_OK || protocol < 1)
        return refuse(ctx, "ERR redlock: the protocol is a number above 0");
    /* To a client of a later protocol it says the highest that both know. */
    struct node_bytes id = quorum();
    if (server.ReplyWithMap)
        server.ReplyWithMap(ctx, PAIRS);
    else
        server.ReplyWithArray(ctx, 2 * PAIRS);
    reply_text(ctx, "protocol");
    server.ReplyWithLongLong(ctx, PROTOCOL);
    reply_text(ctx, "version");
    reply_text(ctx, VERSION);
    reply_text(ctx, "incarnation");
    reply_text(ctx, node.incarnation);
    reply_text(ctx, "mirror");
    server.ReplyWithLongLong(ctx, node.mirror);
    reply_text(ctx, "shared"); /* it has REDLOCK.SHARE and its siblings */
    server.ReplyWithLongLong(ctx, 1);
    reply_text(ctx, "slots"); /* it has REDLOCK.SLOT */
    server.ReplyWithLongLong(ctx, 1);
    reply_text(ctx, "quorum");
    server.ReplyWithStringBuffer(ctx, id.bytes ? id.data : "", id.bytes);
    return SERVER_OK;
}

/* The number of replicas is asked for each time: it is what a vote rests on. */
static int state(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    unsigned long long replicas;
    if (argc != 1) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc)) return SERVER_OK;
    if (!server_number(ctx, "replication", "connected_slaves", &replicas))
        return refuse(ctx, "ERR redlock: the server does not say how many replicas it has");
    server.ReplyWithArray(ctx, 4);
    server.ReplyWithLongLong(ctx, boottime_us());
    reply_text(ctx, node.flags & SERVER_IS_REPLICA ? "replica" : "master");
    server.ReplyWithLongLong(ctx, (long long)replicas);
    /* A connection may live longer than the module: it can be unloaded and loaded again. */
    reply_text(ctx, node.incarnation);
    return SERVER_OK;
}

void info_redlock(struct server_info_out *out, int for_crash_report) {
    const struct node_field *fields;
    (void)for_crash_report;
    server.InfoAddSection(out, "");
    server.InfoAddFieldCString(out, "version", VERSION);
    server.InfoAddFieldCString(out, "incarnation", node.incarnation);
    server.InfoAddFieldULongLong(out, "mirror", node.mirror);
    server.InfoAddFieldULongLong(out, "database", (unsigned long long)node.db);
    server.InfoAddFieldULongLong(out, "locks", node_count(node.table));
    server.InfoAddFieldULongLong(out, "shared_locks", node_lists(node.table));
    server.InfoAddFieldULongLong(out, "locks_bytes", node_bytes_locked(node.table));
    server.InfoAddFieldULongLong(out, "locks_bytes_max", node.memory_max);
    server.InfoAddFieldULongLong(out, "record", node_record(node.table, &fields) > 0);
    server.InfoAddFieldULongLong(out, "record_bytes", node_bytes_used(node.table));
    server.InfoAddFieldULongLong(out, "ending_us_max", (unsigned long long)node.ending_us_max);
    server.InfoAddFieldULongLong(out, "waiters", node_queue_waiters(node.queue));
    server.InfoAddFieldULongLong(out, "waiters_bytes", node_queue_bytes(node.queue));
    server.InfoAddFieldULongLong(out, "reservations", node_queue_reservations(node.queue));
#define COUNTED(name) server.InfoAddFieldULongLong(out, #name, node.counts.name);
    COUNTERS(COUNTED)
#undef COUNTED
}

const struct command server_commands[] = {
    {"redlock.hello", hello, "fast", NO_KEYS, 0, 2, "What this node is", "O(1)"},
    {"redlock.state", state, "fast", NO_KEYS, 0, 1,
     "The node's clock, role, number of replicas and incarnation", "O(1)"},
    {0}};
