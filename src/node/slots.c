/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/slots.h"

#include <assert.h>

#include "node/inside.h"

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

unsigned node_slot_count(struct node_bytes token) {
    const char *at = token.data, *end = at + token.bytes;
    if (token.bytes < NODE_SLOT_TOKEN_DIGITS + 2 || at[NODE_SLOT_TOKEN_DIGITS] != '/') return 0;
    for (int i = 0; i < NODE_SLOT_TOKEN_DIGITS; i++)
        if (!is_hex(at[i])) return 0;
    at += NODE_SLOT_TOKEN_DIGITS + 1;
    if (*at < '1' || *at > '9') return 0;
    unsigned count = (unsigned)(*at++ - '0');
    if (at < end && *at >= '0' && *at <= '9') count = count * 10 + (unsigned)(*at++ - '0');
    return at == end || *at == ':' ? count : 0;
}

static struct node_bytes token_of(const struct entry *entry) {
    return (struct node_bytes){entry->data + entry->key_bytes, entry->token_bytes};
}

/* The number with which a slot is held, if it is not the client's. */
static unsigned other_count(struct node_table *table, const struct node_slot_request *request,
                            int64_t now_ms) {
    for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) {
        const struct entry *entry = table_find(table, request->names[i], now_ms, WRITES);
        if (!entry || entry->other_type) continue;
        unsigned count = node_slot_count(token_of(entry));
        if (count != 0 && count != request->count) return count;
    }
    return 0;
}

static bool is_ours(struct node_table *table, const struct node_slot_request *request,
                    unsigned slot, int64_t now_ms) {
    const struct entry *entry = table_find(table, request->names[slot - 1], now_ms, WRITES);
    return entry && !entry->other_type && table_holds(entry, request->token);
}

/* 0: all are taken. */
static unsigned take_first(struct node_table *table, const struct node_slot_request *request,
                           int64_t now_ms, enum node_answer *answer) {
    *answer = NODE_DENIED;
    for (unsigned i = 0; i < request->order_count && *answer == NODE_DENIED; i++) {
        const unsigned slot = request->order[i];
        assert(slot >= 1 && slot <= request->count);
        if (is_ours(table, request, slot, now_ms)) return slot;
        *answer = node_acquire(table, &request->names[slot - 1], 1, request->token, request->ttl_ms,
                               now_ms);
        if (*answer == NODE_GRANTED) return slot;
    }
    return 0;
}

/* -1: none of them has an end. */
static int64_t first_end(struct node_table *table, const struct node_slot_request *request,
                         int64_t now_ms) {
    int64_t first = -1;
    for (unsigned i = 0; i < request->count; i++) {
        int64_t left = node_pttl(table, request->names[i], now_ms);
        if (left >= 0 && (first < 0 || left < first)) first = left;
    }
    return first;
}

struct node_slot_answer node_acquire_slot(struct node_table *table,
                                          const struct node_slot_request *request, int64_t now_ms) {
    struct node_slot_answer answer = {.answer = NODE_DENIED, .remaining_ms = -1};
    assert(request->count >= 1 && request->count <= NODE_SLOTS_MAX && !table->options.native);
    answer.other_count = other_count(table, request, now_ms);
    if (answer.other_count != 0) return answer;
    uint64_t ours = 0;
    for (unsigned slot = 1; slot <= request->count; slot++)
        if (is_ours(table, request, slot, now_ms)) ours |= UINT64_C(1) << (slot - 1);
    answer.slot = take_first(table, request, now_ms, &answer.answer);
    if (answer.answer == NODE_NO_MEMORY) return answer;
    for (unsigned slot = 1; slot <= request->count; slot++)
        if ((ours >> (slot - 1) & 1) && slot != answer.slot)
            (void)node_release(table, &request->names[slot - 1], 1, request->token, now_ms);
    if (answer.slot == 0) {
        answer.remaining_ms = first_end(table, request, now_ms);
        return answer;
    }
    answer.answer = NODE_GRANTED;
    if (request->stripes)
        answer.answer =
            node_zadd(table, request->nonce, request->fence, &request->stripes[answer.slot - 1], 1);
    return answer;
}
