/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Slots: REDLOCK.SLOT. It returns what acquire_slot.lua returns; if all slots are taken, the rank
 * of the waiter too. */
#include "commands/slots.h"

#include "commands/answers.h"
#include "commands/commands.h"
#include "state/ends.h"
#include "state/mirror.h"

static struct request request; /* large; one command runs at a time */

static const struct node_bytes no_token = {"", 0};

/* ---- the slots of a resource ---- */

static char names_text[NODE_SLOTS_MAX][NODE_SLOT_KEY_BYTES_MAX];
static struct node_bytes names[NODE_SLOTS_MAX];

static struct server_string *server_name(unsigned slot) {
    return server.CreateString(NULL, names[slot - 1].data, names[slot - 1].bytes);
}

/* Slots that only the keyspace has: of strangers, or of the process before this one. Also those
 * above our number: there are the slots of those who have a greater one. */
static void look_outside(struct slots *slots) {
    struct node_lock lock;
    slots->outside_ms = -1;
    for (unsigned slot = 1; node.mirror && slot <= NODE_SLOTS_MAX; slot++) {
        if (node_look(node.table, names[slot - 1], node.now_ms, &lock)) continue;
        struct server_string *name = server_name(slot);
        const struct outside_key *found = mirror_look(name, no_token);
        server.FreeString(NULL, name);
        if (found->what == OUTSIDE_NONE) continue;
        const struct node_bytes token = {found->shown, found->shown_bytes};
        const unsigned count = found->what == OUTSIDE_STRING ? node_slot_count(token) : 0;
        if (count != 0 && count != slots->request.count) slots->other_count = count;
        if (slot > slots->request.count) continue;
        slots->request.barred |= UINT64_C(1) << (slot - 1);
        slots->outside_ms = slots_earlier(slots->outside_ms, found->left_ms);
    }
}

int64_t slots_earlier(int64_t a_ms, int64_t b_ms) {
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

bool slots_look(struct server_ctx *ctx, struct node_bytes resource, int64_t count,
                struct slots *slots) {
    *slots = (struct slots){.request = {.names = names, .count = (unsigned)count}};
    if (resource.bytes > NODE_SLOT_RESOURCE_BYTES_MAX) {
        refuse(ctx, "ERR redlock: a resource with slots has at most 1024 bytes");
        return false;
    }
    for (unsigned slot = 1; slot <= NODE_SLOTS_MAX; slot++)
        names[slot - 1] = node_slot_key(resource, slot, names_text[slot - 1]);
    look_outside(slots);
    return true;
}

/* ---- the vote ---- */

static int reply_pair(struct server_ctx *ctx, long long what, long long number) {
    server.ReplyWithArray(ctx, 2);
    server.ReplyWithLongLong(ctx, what);
    return reply_integer(ctx, number);
}

static int reply_all_taken(struct server_ctx *ctx, int64_t left_ms, int64_t rank) {
    node.counts.denied++;
    server.ReplyWithArray(ctx, 3);
    server.ReplyWithLongLong(ctx, 0);
    server.ReplyWithLongLong(ctx, left_ms);
    return reply_integer(ctx, rank);
}

static int reply_other_count(struct server_ctx *ctx, unsigned count) {
    node.counts.denied++;
    return reply_pair(ctx, -2, count);
}

static int vote(struct server_ctx *ctx, const struct slots *slots) {
    struct node_turn turn;
    if (slots->other_count != 0) return reply_other_count(ctx, slots->other_count);
    const struct node_slot_answer answer = node_acquire_slot_in_turn(
        node.table, node.queue, &slots->request, &request.waiter, node.now_us, &turn);
    ends_changed();
    if (answer.other_count != 0) return reply_other_count(ctx, answer.other_count);
    if (answer.answer == NODE_NO_MEMORY) return reply_no_memory(ctx);
    if (answer.answer == NODE_DENIED && turn.reserved)
        return reply_all_taken(ctx, (turn.left_us + 999) / 1000, turn.rank);
    if (answer.answer == NODE_DENIED)
        return reply_all_taken(ctx, slots_earlier(answer.remaining_ms, slots->outside_ms),
                               turn.rank);
    struct server_string *name = server_name(answer.slot);
    mirror_put(name, request.token, node_pttl(node.table, names[answer.slot - 1], node.now_ms));
    server.FreeString(NULL, name);
    const bool granted = answer.answer == NODE_GRANTED;
    ++*(granted ? &node.counts.granted : &node.counts.stale);
    return reply_pair(ctx, !granted ? -1 : turn.others ? 2 : 1, answer.slot);
}

/* ---- words ---- */

static bool wrong(const struct words *words, const char *error) {
    refuse(words->ctx, error);
    return false;
}

static bool too_few(const struct words *words) {
    server.WrongArity(words->ctx);
    return false;
}

bool read_slot_count(struct words *words, int64_t *count) {
    if (words->next >= words->count) return too_few(words);
    const struct node_bytes text = bytes_of(words->argv[words->next++]);
    const char *at = text.data, *end = at + text.bytes;
    return (parse_number(&at, end, NODE_SLOTS_MAX, count) && at == end && *count >= 1) ||
           wrong(words, "ERR redlock: the number of slots is 1 to 64");
}

/* "3 1 2": at most each slot once. */
static bool read_order(struct words *words, uint8_t order[NODE_SLOTS_MAX], int64_t count,
                       unsigned *order_count) {
    static const char error[] =
        "ERR redlock: the order names no slot, or one that there is not, or "
        "one twice";
    if (words->next >= words->count) return too_few(words);
    const struct node_bytes text = bytes_of(words->argv[words->next++]);
    const char *at = text.data, *end = at + text.bytes;
    uint64_t seen = 0;
    *order_count = 0;
    do {
        int64_t slot;
        if (!parse_number(&at, end, count, &slot) || slot < 1 || (at < end && *at != ' '))
            return wrong(words, error);
        const uint64_t bit = UINT64_C(1) << (slot - 1);
        if (seen & bit) return wrong(words, error);
        seen |= bit;
        order[(*order_count)++] = (uint8_t)slot;
    } while (at++ < end);
    return true;
}

/* REDLOCK.SLOT resource token slots order ttl-ms[:nonce:fence:stripe,stripe...] [WAITER ...] */
static int slot(struct server_ctx *ctx, struct server_string **argv, int argc) {
    static uint8_t order[NODE_SLOTS_MAX];
    struct words words;
    struct slots slots;
    unsigned order_count;
    int64_t count;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_slot_count(&words, &count) ||
        !read_order(&words, order, count, &order_count) || !read_waiter_if_any(&words, &request) ||
        !read_ttl_and_stripes(&words, &request))
        return SERVER_OK;
    if (request.fenced && request.stripes_count != (size_t)count)
        return refuse(ctx, "ERR redlock: each slot has one stripe");
    if (!slots_look(ctx, request.keys[0], count, &slots)) return SERVER_OK;
    slots.request.order = order;
    slots.request.order_count = order_count;
    slots.request.token = request.token;
    slots.request.ttl_ms = request.ttl_ms;
    slots.request.nonce = request.nonce;
    slots.request.fence = request.fence;
    slots.request.stripes = request.fenced ? request.stripes : NULL;
    return vote(ctx, &slots);
}

const struct command slot_commands[] = {{"redlock.slot", slot, "write deny-oom fast", ONE_KEY,
                                         SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_INSERT, -6,
                                         "Takes one of several slots of a resource",
                                         "O(N), N: 64 slots and the stripes"},
                                        {0}};
