/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rounds: the requests with one token. A lock takes a round from the client's pool when it has
 * something to send. The round goes back when all nodes have answered and the lock is idle. */
#include <stdlib.h>
#include <string.h>

#include "lock.h"

/* ---- rounds ---- */

/* Rounds go from lock to lock, exclusive or shared. */
static enum net_op op_of(const struct round *round, const struct net_request *request) {
    const bool shared = lock_reads(round->lock);
    if (request == &round->acquire) return shared ? NET_SHARE : NET_ACQUIRE;
    if (request == &round->extend) return shared ? NET_SHARE_EXTEND : NET_EXTEND;
    if (request == &round->release) return shared ? NET_SHARE_RELEASE : NET_RELEASE;
    return request->op;
}

void round_fill_in(struct round *round, struct net_request *request) {
    const struct redlock_lock *lock = round->lock;
    request->op = op_of(round, request);
    request->keys = lock_keys(lock, &request->keys_count);
    if (net_op_is(request->op, NET_OP_READERS)) request->keys_count = 2; /* and the readers' list */
    request->token = (struct net_bytes){round->token, round->token_bytes};
    request->ttl_ms = lock->config->options.ttl_ms;
    request->scheme = lock->client->scheme;
    request->waiter = (struct net_bytes){NULL, 0};
}

/* A repair is the classic request: it proves nothing about the fences; the next extension does. */
void round_fill_repair(struct round *round, rl_ns ttl) {
    struct net_request *repair = round->repair;
    *repair = round->acquire;
    repair->nonces = NULL;
    repair->stripes_count = 0;
    repair->fence = 0;
    repair->ttl_ms = (ttl + RL_MS - 1) / RL_MS;
    wait_queue_repair(repair);
}

static size_t round_bytes(const struct redlock_client *client) {
    const struct lock_mode *mode = client->lock_layout;
    size_t each = 3 * sizeof(struct net_call) + mode->round_bytes_each;
    return sizeof(struct round) + mode->round_bytes + client->nodes * each;
}

/* The parts that stay the same for every use. */
static void prepare(struct round *round, const struct redlock_client *client) {
    unsigned nodes = client->nodes;
    for (unsigned i = 0; i < 3 * nodes; i++) {
        round->calls[i].owner = round;
        round->calls[i].answered = i < nodes       ? lock_vote_reply
                                   : i < 2 * nodes ? lock_unlock_reply
                                                   : lock_peek_reply;
    }
    round->peek.op = NET_PEEK;
    round->repair = &round->acquire;
}

bool locks_reserve(struct redlock_client *client) {
    struct round *round = calloc(1, round_bytes(client));
    struct extra *extra = calloc(1, sizeof *extra);
    if (round) pool_give(&client->locks->rounds, round);
    if (extra) pool_give(&client->locks->extras, extra);
    return round && extra;
}

static struct round *round_new(struct redlock_lock *lock, size_t token_bytes, bool release) {
    struct redlock_client *client = lock->client;
    bool fits = token_bytes <= ROUND_TOKEN_BYTES;
    size_t bytes = round_bytes(client);
    struct round *round = fits ? pool_take(&client->locks->rounds, bytes, release ? 0 : 1)
                               : calloc(1, bytes + token_bytes);
    if (!round) return NULL;
    if (!round->calls[0].owner) prepare(round, client);
    round->token = fits ? round->own_token : (unsigned char *)round + bytes;
    round->lock = lock;
    round->refs = 1;
    round->voting = round->told = 0;
    lock->refs++;
    return round;
}

void round_unref(struct round *round) {
    if (--round->refs > 0) return;
    struct redlock_lock *lock = round->lock;
    free(round->slots);
    round->slots = NULL;
    if (round->token == round->own_token)
        pool_give(&lock->client->locks->rounds, round);
    else
        free(round);
    lock_unref(lock);
}

void lock_drop_round(struct redlock_lock *lock) {
    struct round *round = round_now(lock);
    if (!round) return;
    lock->extra->round = NULL;
    round_unref(round);
}

void lock_rest(struct redlock_lock *lock) {
    bool idle =
        lock->phase == PHASE_FREE || (lock->phase == PHASE_LEASED && !lock->lease.round_open);
    const struct round *round = round_now(lock);
    if (idle && round && round->refs == 1) lock_drop_round(lock);
    extra_rest(lock);
}

/* ---- tokens ---- */

/* 20 random bytes in hexadecimal, then the owner. Other clients' scripts compare this form as
 * bytes. */
static bool draw_token(struct redlock_lock *lock) {
    unsigned char random[REDLOCK_TOKEN_HEX_BYTES / 2], *token = lock_own_token(lock);
    if (net_random(lock->client->net, random, sizeof random) != 0) return false;
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof random; i++) {
        token[2 * i] = (unsigned char)digits[random[i] >> 4];
        token[2 * i + 1] = (unsigned char)digits[random[i] & 15];
    }
    lock->token_bytes = REDLOCK_TOKEN_HEX_BYTES;
    const struct slots *slots = slots_of(lock);
    if (slots) /* for as long as any node holds the slot, it says of how many */
        lock->token_bytes += (uint16_t)slots_write_count(slots, token + lock->token_bytes);
    if (lock->owner_bytes > 0) {
        token[lock->token_bytes++] = ':';
        /* the owner is stored before it */
        memcpy(token + lock->token_bytes, token - lock->owner_bytes, lock->owner_bytes);
        lock->token_bytes = (uint16_t)(lock->token_bytes + lock->owner_bytes);
    }
    return true;
}

/* `token`: from elsewhere, of any length. It may be the lock's own, after redlock_lock_disown().
 * The lock has its extra memory. */
static bool new_token(struct redlock_lock *lock, const void *token, size_t bytes) {
    unsigned char *own = lock_own_token(lock), *before = lock->extra->token, *elsewhere = NULL;
    size_t room = REDLOCK_TOKEN_HEX_BYTES + (lock->owner_bytes > 0 ? 1u + lock->owner_bytes : 0u);
    if (lock->extra->slots) room += SLOTS_TEXT_BYTES;
    if (bytes > room && !(elsewhere = malloc(bytes))) return false;
    if (token) memmove(elsewhere ? elsewhere : own, token, bytes);
    lock->extra->token = elsewhere;
    lock->token_bytes = (uint16_t)bytes;
    free(before);
    return token || draw_token(lock);
}

/* ---- */

static bool carry_token(struct round *round) {
    const struct redlock_lock *lock = round->lock;
    round->token_bytes = lock->token_bytes;
    memcpy(round->token, token_of(lock), lock->token_bytes);
    round->acquire.op = NET_ACQUIRE;
    round_fill_in(round, &round->acquire);
    round_fill_in(round, &round->release);
    if (slots_of(lock) && !slots_carry(round)) return false;
    if (lock->config->mode->round_carry) lock->config->mode->round_carry(round);
    return true;
}

struct round *round_of(struct redlock_lock *lock, bool release) {
    if (round_now(lock)) return round_now(lock);
    struct extra *extra = extra_take(lock, release);
    if (!extra) return NULL;
    extra->round = round_new(lock, lock->token_bytes, release);
    if (extra->round && !carry_token(extra->round)) lock_drop_round(lock);
    return extra->round;
}

int lock_fresh_round(struct redlock_lock *lock, const void *token, size_t bytes) {
    struct extra *extra = extra_take(lock, false);
    if (!extra) return REDLOCK_NO_MEMORY;
    lock_drop_round(lock);
    if (extra->slots) extra->slots->held = 0;
    if (!new_token(lock, token, bytes)) return token ? REDLOCK_NO_MEMORY : REDLOCK_SYSTEM;
    return round_of(lock, false) ? REDLOCK_OK : REDLOCK_NO_MEMORY;
}
