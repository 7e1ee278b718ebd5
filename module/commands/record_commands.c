/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The node's record and fences: REDLOCK.RECORD, RECORDWRITE, FENCES. Who may read or write the key
 * redlock:node, which they stand for, may use them. */
#include <string.h>

#include "commands/commands.h"
#include "commands/request.h"

enum { RECORD_BYTES_MAX = 65536 };

/* The ACL rules about keys that a stock node's record is subject to. */
static bool may(struct server_ctx *ctx, int key_flags) {
    if (!server.GetCurrentUserName || !server.GetModuleUserFromUserName || !server.FreeModuleUser ||
        !server.ACLCheckKeyPermissions)
        return true;
    struct server_string *name = server.GetCurrentUserName(ctx);
    struct server_user *user = name ? server.GetModuleUserFromUserName(name) : NULL;
    /* Without a user it is the server itself that asks, or another module. */
    bool allowed =
        !name || (user && server.ACLCheckKeyPermissions(user, record_key, key_flags) == SERVER_OK);
    if (user) server.FreeModuleUser(user);
    if (name) server.FreeString(ctx, name);
    if (!allowed) refuse(ctx, "NOPERM redlock: no permission for the key redlock:node");
    return allowed;
}

static void reply_bytes(struct server_ctx *ctx, struct node_bytes bytes) {
    server.ReplyWithStringBuffer(ctx, bytes.bytes ? bytes.data : "", bytes.bytes);
}

static int record(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    const struct node_field *fields;
    if (argc != 1) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc) || !may(ctx, SERVER_KEY_ACCESS)) return SERVER_OK;
    size_t count = node_record(node.table, &fields);
    server.ReplyWithArray(ctx, (long)(2 * count));
    for (size_t i = 0; i < count; i++) {
        reply_bytes(ctx, fields[i].name);
        reply_bytes(ctx, fields[i].value);
    }
    return SERVER_OK;
}

static int fences(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    uint64_t name = 0;
    if (argc != 2) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc) || !may(ctx, SERVER_KEY_ACCESS)) return SERVER_OK;
    if (!is_word(bytes_of(argv[1]), "kept") && !parse_nonce(bytes_of(argv[1]), &name))
        return refuse(ctx, "ERR redlock: a nonce is 16 hex digits, and not 0");
    const int64_t *found = node_fences(node.table, name);
    long shown = 0;
    server.ReplyWithArray(ctx, SERVER_LENGTH_LATER);
    for (int i = 0; found && i < NODE_STRIPES; i++) {
        if (found[i] == 0 && i > 0)
            continue; /* the first is always there: an empty reply means none */
        server.ReplyWithLongLong(ctx, i);
        server.ReplyWithLongLong(ctx, found[i]);
        shown += 2;
    }
    server.ReplySetArrayLength(ctx, shown);
    return SERVER_OK;
}

/* ---- writing ---- */

/* "stripe fence stripe fence ..."; a stripe that is not named has floor 0. */
static bool read_floors(struct node_bytes text, int64_t floor[NODE_STRIPES]) {
    const char *at = text.data, *end = at + text.bytes;
    memset(floor, 0, NODE_STRIPES * sizeof floor[0]);
    while (at < end) {
        int64_t stripe, fence;
        if (!parse_number(&at, end, NODE_STRIPES - 1, &stripe) || at == end || *at++ != ' ' ||
            !parse_number(&at, end, (INT64_C(1) << 53) - 1, &fence))
            return false;
        floor[stripe] = fence;
        if (at < end && (*at++ != ' ' || at == end)) return false;
    }
    return true;
}

static bool same(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* Each name once, the nonce among them, and not too large. */
static bool read_fields(struct server_string **argv, int argc,
                        struct node_field fields[NODE_FIELDS_MAX],
                        struct node_record_write *write) {
    struct node_bytes nonce = {NULL, 0};
    size_t bytes = 0;
    if (argc % 2 != 0 || argc / 2 > NODE_FIELDS_MAX) return false;
    for (int i = 0; i < argc / 2; i++) {
        fields[i] = (struct node_field){bytes_of(argv[2 * i]), bytes_of(argv[2 * i + 1])};
        bytes += fields[i].name.bytes + fields[i].value.bytes;
        for (int before = 0; before < i; before++)
            if (same(fields[before].name, fields[i].name)) return false;
        if (same(fields[i].name, (struct node_bytes){"nonce", 5})) nonce = fields[i].value;
    }
    write->fields = fields;
    write->fields_count = (size_t)argc / 2;
    return bytes <= RECORD_BYTES_MAX && nonce.data && parse_nonce(nonce, &write->nonce);
}

/* Words 1 to 3: the expected nonce, where its fences are, where they are to be. */
static bool read_places(struct server_string **argv, struct node_record_write *write) {
    struct node_bytes expected = bytes_of(argv[1]), from = bytes_of(argv[2]),
                      to = bytes_of(argv[3]);
    uint64_t new_nonce;
    if (expected.bytes > 0 && !parse_nonce(expected, &write->expected)) return false;
    write->was_kept = is_word(from, "kept");
    write->keep = is_word(to, "kept");
    bool from_known = write->was_kept || from.bytes == 0 || same(from, expected);
    return from_known &&
           (write->keep || (parse_nonce(to, &new_nonce) && new_nonce == write->nonce));
}

static int record_write(struct server_ctx *ctx, struct server_string **argv, int argc) {
    enum { EXPECTED = 1, FLOORS = 4, FLAG = 5, FIELDS = 6 };
    static int64_t floor[NODE_STRIPES];
    struct words words;
    struct node_field fields[NODE_FIELDS_MAX];
    struct node_record_write write = {0};
    if (argc < FIELDS + 2) return server.WrongArity(ctx);
    if (!begin_vote(&words, ctx, argv, argc) || !may(ctx, SERVER_KEY_ACCESS | SERVER_KEY_UPDATE))
        return SERVER_OK;
    if (!read_fields(argv + FIELDS, argc - FIELDS, fields, &write))
        return refuse(
            ctx,
            "ERR redlock: the fields of the record are not sound: each once, a nonce of 16 hex "
            "digits, at most 64 fields and 65536 bytes");
    if (!read_places(argv, &write))
        return refuse(ctx, "ERR redlock: the nonces of the record are not sound");
    if (!read_floors(bytes_of(argv[FLOORS]), floor))
        return refuse(ctx, "ERR redlock: the floors are not pairs of a stripe and a fence");
    if (is_word(bytes_of(argv[FLAG]), "1")) write.floor = floor;
    switch (node_record_write(node.table, &write)) {
    case NODE_GRANTED: break;
    case NODE_NO_MEMORY: return refuse(ctx, "OOM redlock: no memory for the record");
    default: server.ReplyWithLongLong(ctx, 0); return SERVER_OK;
    }
    node.counts.record_writes++;
    server.SignalModifiedKey(ctx, record_key);
    server.ReplyWithLongLong(ctx, 1);
    return SERVER_OK;
}

const struct command record_commands[] = {
    {"redlock.record", record, "readonly fast", NO_KEYS, 0, 1,
     "The node's record, field and value in turn", "O(N), N: fields"},
    {"redlock.recordwrite", record_write, "write deny-oom", NO_KEYS, 0, -8,
     "Replaces the node's record if its nonce is the expected one", "O(N), N: fields and stripes"},
    {"redlock.fences", fences, "readonly", NO_KEYS, 0, 2,
     "The highest fence of each stripe, if it is not 0", "O(N), N: 4096 stripes"},
    {0}};
