/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks that are one of several slots of a resource (docs/use/slots.md). A slot is the ordinary
 * lock on a key of its own. So this file is only about a try: which requests ask for which slot.
 * After it the lock has one key, that of its slot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock.h"

enum { SUFFIX_BYTES = sizeof NET_SLOT_SUFFIX - 1 + 2 };

struct slots *slots_new(struct net_bytes resource, unsigned count) {
    const size_t each = resource.bytes + SUFFIX_BYTES;
    struct slots *slots = calloc(
        1, sizeof *slots + count * (sizeof slots->keys[0] + sizeof slots->stripes[0] + each) + 1);
    if (!slots) return NULL;
    slots->count = (uint8_t)count;
    slots->stripes = (uint16_t *)(void *)(slots->keys + count);
    char *at = (char *)(slots->stripes + count);
    for (unsigned i = 0; i < count; i++) {
        memcpy(at, resource.data, resource.bytes);
        int suffix =
            snprintf(at + resource.bytes, SUFFIX_BYTES + 1, "%s%u", NET_SLOT_SUFFIX, i + 1);
        slots->keys[i] = (struct net_bytes){at, resource.bytes + (size_t)suffix};
        slots->stripes[i] = fenced_stripe(slots->keys[i]);
        at += slots->keys[i].bytes;
    }
    return slots;
}

bool slots_add(struct redlock_lock *lock, unsigned count) {
    if (count == 0) return true;
    struct extra *extra = extra_take(lock, false);
    if (extra) extra->slots = slots_new(lock->keys[0], count);
    return extra && extra->slots;
}

bool slots_first(struct net_bytes *key, unsigned char out[SLOTS_KEY_BYTES_MAX]) {
    const size_t suffix = sizeof NET_SLOT_SUFFIX - 1;
    const unsigned char *text = key->data;
    size_t bytes = key->bytes;
    while (bytes > 0 && text[bytes - 1] >= '0' && text[bytes - 1] <= '9') bytes--;
    if (bytes == key->bytes || bytes <= suffix || bytes >= SLOTS_KEY_BYTES_MAX ||
        memcmp(text + bytes - suffix, NET_SLOT_SUFFIX, suffix) != 0)
        return false;
    memcpy(out, text, bytes);
    out[bytes] = '1';
    *key = (struct net_bytes){out, bytes + 1};
    return true;
}

static size_t write_slot(char *at, unsigned slot) {
    size_t bytes = 0;
    if (slot > 9) at[bytes++] = (char)('0' + slot / 10);
    at[bytes++] = (char)('0' + slot % 10);
    return bytes;
}

size_t slots_write_count(const struct slots *slots, unsigned char *at) {
    at[0] = '/';
    return 1 + write_slot((char *)at + 1, slots->count);
}

/* ---- the order ---- */

/* All slots, shuffled by the token: each try has an order of its own, the same on all nodes.
 * Clients that begin at the same slot part at the next one. */
static struct net_bytes write_order(const struct round *round, unsigned count, char *text) {
    uint8_t order[RL_SLOTS_MAX];
    uint64_t random = rl_fnv1a(RL_FNV_BASIS, round->token, round->token_bytes);
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) order[i] = (uint8_t)(i + 1);
    for (unsigned left = count; left > 0; left--) {
        const unsigned drawn = (unsigned)(rl_splitmix64(&random) % left);
        if (bytes > 0) text[bytes++] = ' ';
        bytes += write_slot(text + bytes, order[drawn]);
        order[drawn] = order[left - 1];
    }
    return (struct net_bytes){text, bytes};
}

/* ---- requests ---- */

static void write_settled(struct round *round) {
    const unsigned slot = slots_of(round->lock)->held;
    round->slots->settled[0] = (char)('0' + slot / 10);
    round->slots->settled[1] = (char)('0' + slot % 10);
}

/* A lost try deletes what any node may have given; a lease has one slot. */
static void fill_release(struct round *round) {
    round->release.keys = lock_keys(round->lock, &round->release.keys_count);
}

bool slots_carry(struct round *round) {
    struct redlock_lock *lock = round->lock;
    const struct slots *slots = slots_of(lock);
    if (!round->slots)
        round->slots =
            calloc(1, sizeof *round->slots + slots->count * sizeof round->slots->leave_keys[0]);
    struct slot_round *own = round->slots;
    if (!own) return false;
    struct net_request *acquire = &round->acquire;
    acquire->op = NET_ACQUIRE_SLOT;
    acquire->keys = lock->keys;
    acquire->keys_count = 1;
    acquire->slots = slots->count;
    acquire->slot_order = (struct net_bytes){own->settled, sizeof own->settled};
    own->choose = *acquire;
    own->choose.slot_order = write_order(round, slots->count, own->order);
    own->leave = round->release;
    write_settled(round);
    fill_release(round);
    return true;
}

void slots_settle(struct redlock_lock *lock) {
    struct slots *slots = slots_of(lock);
    if (lock->phase != PHASE_ACQUIRING) return;
    const uint8_t slot = lock->extra->acquisition->machine.attempt.slots.slot;
    if (slot == 0 || slot == slots->held) return;
    slots->held = slot;
    if (round_now(lock)) write_settled(round_now(lock));
}

void slots_won(struct redlock_lock *lock) {
    slots_settle(lock);
    if (round_now(lock)) fill_release(round_now(lock));
}

/* The request waits in the queue as the round's own request does. */
static void name_waiter(const struct round *round, struct net_request *request) {
    request->waiter = round->acquire.waiter;
    request->since_us = round->acquire.since_us;
    request->waited_us = round->acquire.waited_us;
    request->remember_us = round->acquire.remember_us;
}

struct net_request *slots_request(struct redlock_lock *lock, const struct rl_actions *actions) {
    struct net_request *choose = &round_now(lock)->slots->choose;
    if (actions->slot != 0) return &round_now(lock)->acquire;
    name_waiter(round_now(lock), choose);
    return choose;
}

/* By the calls that peek: nobody peeks after a win. It is kept for a node that comes back, as any
 * release is; nobody waits for the answer. */
void slots_leave(struct redlock_lock *lock, rl_mask nodes, rl_ns now) {
    struct round *round = round_now(lock);
    const struct slots *slots = slots_of(lock);
    struct slot_round *own = round->slots;
    size_t count = 0;
    for (unsigned i = 0; i < slots->count; i++)
        if (i + 1u != slots->held) own->leave_keys[count++] = slots->keys[i];
    if (count == 0 || nodes == 0) return;
    own->leave.keys = own->leave_keys;
    own->leave.keys_count = count;
    const struct rl_terms *terms = &lock->config->terms;
    rl_mask taken =
        net_send(lock->client->net, nodes, &own->leave, round->calls + 2 * (size_t)terms->nodes,
                 now + terms->node_timeout, now + terms->ttl);
    round->refs += rl_count(taken);
}
