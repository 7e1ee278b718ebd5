/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/slots.h"

#include <assert.h>
#include <string.h>

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

/* ---- names ---- */

#define SUFFIX ":slot:"
enum { SUFFIX_BYTES = sizeof SUFFIX - 1 };

struct node_bytes node_slot_key(struct node_bytes resource, unsigned slot,
                                char out[NODE_SLOT_KEY_BYTES_MAX]) {
    assert(resource.bytes <= NODE_SLOT_RESOURCE_BYTES_MAX && slot >= 1 && slot <= NODE_SLOTS_MAX);
    char *at = out;
    if (resource.bytes) memcpy(at, resource.data, resource.bytes);
    at += resource.bytes;
    memcpy(at, SUFFIX, SUFFIX_BYTES);
    at += SUFFIX_BYTES;
    if (slot > 9) *at++ = (char)('0' + slot / 10);
    *at++ = (char)('0' + slot % 10);
    return (struct node_bytes){out, (size_t)(at - out)};
}

bool node_slot_first(struct node_bytes key, struct node_bytes *first,
                     char out[NODE_SLOT_KEY_BYTES_MAX]) {
    const char *text = key.data;
    size_t bytes = key.bytes;
    while (bytes > 0 && key.bytes - bytes < 2 && text[bytes - 1] >= '0' && text[bytes - 1] <= '9')
        bytes--;
    if (bytes == key.bytes || bytes < SUFFIX_BYTES ||
        memcmp(text + bytes - SUFFIX_BYTES, SUFFIX, SUFFIX_BYTES) != 0)
        return false;
    const struct node_bytes resource = {text, bytes - SUFFIX_BYTES};
    if (resource.bytes > NODE_SLOT_RESOURCE_BYTES_MAX) return false;
    *first = node_slot_key(resource, 1, out);
    return true;
}

/* ---- slots ---- */

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

static bool is_barred(const struct node_slot_request *request, unsigned slot) {
    return request->barred >> (slot - 1) & 1;
}

/* 0: all are taken. One that is ours already comes first: a request that comes late, or twice, must
 * not move the slot that counts by now. */
static unsigned take_first(struct node_table *table, const struct node_slot_request *request,
                           uint64_t ours, int64_t now_ms, enum node_answer *answer) {
    *answer = NODE_DENIED;
    for (unsigned i = 0; i < request->order_count; i++) {
        const unsigned slot = request->order[i];
        assert(slot >= 1 && slot <= request->count);
        if (ours >> (slot - 1) & 1) return slot;
    }
    for (unsigned i = 0; i < request->order_count && *answer == NODE_DENIED; i++) {
        const unsigned slot = request->order[i];
        if (is_barred(request, slot)) continue;
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

/* GRANTED, or STALE: whatever the reason, the key is set and the fence is not raised. */
static enum node_answer raise(struct node_table *table, const struct node_slot_request *request,
                              unsigned slot, int64_t now_ms) {
    const struct node_bytes *key = &request->names[slot - 1];
    const uint16_t *stripe = &request->stripes[slot - 1];
    int64_t highest;
    return node_raise(table, key, 1, request->token, request->nonce, request->fence, stripe, 1,
                      now_ms, &highest) == NODE_GRANTED
               ? NODE_GRANTED
               : NODE_STALE;
}

/* A bit for each slot that holds the token; bit 0 is slot 1. */
static uint64_t our_slots(struct node_table *table, const struct node_slot_request *request,
                          int64_t now_ms) {
    uint64_t ours = 0;
    for (unsigned slot = 1; slot <= request->count; slot++)
        if (is_ours(table, request, slot, now_ms)) ours |= UINT64_C(1) << (slot - 1);
    return ours;
}

static struct node_slot_answer acquire(struct node_table *table,
                                       const struct node_slot_request *request, uint64_t ours,
                                       int64_t now_ms) {
    struct node_slot_answer answer = {.answer = NODE_DENIED, .remaining_ms = -1};
    answer.slot = take_first(table, request, ours, now_ms, &answer.answer);
    if (answer.answer == NODE_NO_MEMORY) return answer;
    for (unsigned slot = 1; slot <= request->count; slot++)
        if ((ours >> (slot - 1) & 1) && slot != answer.slot)
            (void)node_release(table, &request->names[slot - 1], 1, request->token, now_ms);
    if (answer.slot == 0) {
        answer.remaining_ms = first_end(table, request, now_ms);
        return answer;
    }
    answer.answer = request->stripes ? raise(table, request, answer.slot, now_ms) : NODE_GRANTED;
    return answer;
}

struct node_slot_answer node_acquire_slot(struct node_table *table,
                                          const struct node_slot_request *request, int64_t now_ms) {
    struct node_slot_answer answer = {.answer = NODE_DENIED, .remaining_ms = -1};
    assert(request->count >= 1 && request->count <= NODE_SLOTS_MAX);
    answer.other_count = other_count(table, request, now_ms);
    if (answer.other_count != 0) return answer;
    return acquire(table, request, our_slots(table, request, now_ms), now_ms);
}

/* ---- in turn ---- */

enum { US_PER_MS = 1000 };

static bool has_free(struct node_table *table, const struct node_slot_request *request,
                     int64_t now_ms) {
    for (unsigned slot = 1; slot <= request->count; slot++)
        if (!is_barred(request, slot) &&
            !table_find(table, request->names[slot - 1], now_ms, LOOKS))
            return true;
    return false;
}

/* What has ended is free, and reserved for the first, before anybody else can take it. */
static void expire(struct node_table *table, const struct node_slot_request *request,
                   int64_t now_ms) {
    for (unsigned i = 0; i < request->count; i++) node_expire_key(table, request->names[i], now_ms);
}

struct node_slot_answer node_acquire_slot_in_turn(struct node_table *table,
                                                  struct node_queue *queue,
                                                  const struct node_slot_request *request,
                                                  const struct node_waiter *waiter, int64_t now_us,
                                                  struct node_turn *turn) {
    static const struct node_bytes nobody = {"", 0};
    const struct node_bytes first = request->names[0];
    const int64_t now_ms = now_us / US_PER_MS;
    struct node_slot_answer answer = {.answer = NODE_DENIED, .remaining_ms = -1};
    assert(request->count >= 1 && request->count <= NODE_SLOTS_MAX);
    *turn = (struct node_turn){.key = first, .rank = -1};
    answer.other_count = other_count(table, request, now_ms);
    if (answer.other_count != 0) return answer;
    const uint64_t ours = our_slots(table, request, now_ms);
    turn->reserved = ours == 0 && !node_queue_admits(queue, first, waiter, now_us, &turn->left_us);
    if (!turn->reserved) answer = acquire(table, request, ours, now_ms);
    if (answer.answer == NODE_NO_MEMORY) return answer;
    if (answer.answer == NODE_DENIED) {
        /* what is taken is reserved for nobody: see node_share_in_turn() */
        if (!has_free(table, request, now_ms)) (void)node_queue_taken(queue, first, nobody, now_us);
        if (waiter->name.bytes) turn->rank = node_queue_enter(queue, first, waiter, now_us);
        return answer;
    }
    turn->others = node_queue_taken(queue, first, waiter->name, now_us);
    if (turn->others && has_free(table, request, now_ms)) node_queue_freed(queue, first, now_us);
    return answer;
}

int64_t node_await_slot(struct node_table *table, struct node_queue *queue,
                        const struct node_slot_request *request, const struct node_waiter *waiter,
                        int64_t now_us, int64_t *rank) {
    const struct node_bytes first = request->names[0];
    const int64_t now_ms = now_us / US_PER_MS;
    int64_t left_us;
    expire(table, request, now_ms);
    *rank = node_queue_enter(queue, first, waiter, now_us);
    if (!has_free(table, request, now_ms)) return first_end(table, request, now_ms);
    if (node_queue_admits(queue, first, waiter, now_us, &left_us)) return -2;
    return (left_us + US_PER_MS - 1) / US_PER_MS;
}
