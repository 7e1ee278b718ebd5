/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/queue.h"

enum { US_PER_MS = 1000 };

static void enter(struct node_queue *queue, const struct node_waiter *waiter, int64_t now_us,
                  struct node_turn *turn) {
    turn->rank = waiter->name.bytes ? node_queue_enter(queue, turn->key, waiter, now_us) : -1;
}

/* True: it is reserved for another. */
static bool is_reserved(struct node_queue *queue, const struct node_bytes *keys, size_t count,
                        const struct node_waiter *waiter, int64_t now_us, struct node_turn *turn) {
    for (size_t i = 0; i < count; i++) {
        int64_t left_us;
        if (node_queue_admits(queue, keys[i], waiter, now_us, &left_us)) continue;
        *turn = (struct node_turn){.key = keys[i], .left_us = left_us, .reserved = true};
        enter(queue, waiter, now_us, turn);
        return true;
    }
    return false;
}

static const struct node_bytes nobody = {"", 0};

static void denied_by(struct node_table *table, const struct node_bytes *keys, size_t count,
                      int64_t now_ms, struct node_turn *turn) {
    struct node_lock lock;
    size_t i = 0;
    while (i + 1 < count && !node_look(table, keys[i], now_ms, &lock)) i++;
    int64_t left_ms = node_pttl(table, keys[i], now_ms);
    *turn = (struct node_turn){.key = keys[i], .left_us = left_ms < 0 ? -1 : left_ms * US_PER_MS};
}

enum node_answer node_acquire_in_turn(struct node_table *table, struct node_queue *queue,
                                      const struct node_bytes *keys, size_t count,
                                      struct node_bytes token, int64_t ttl_ms,
                                      const struct node_fence_request *fences,
                                      const struct node_waiter *waiter, int64_t now_us,
                                      struct node_turn *turn) {
    int64_t now_ms = now_us / US_PER_MS;
    bool crowded = node_queue_waiters(queue) > 0;
    /* What has ended is free, and reserved for the first, before anybody else can take it. */
    for (size_t i = 0; crowded && i < count; i++) node_expire_key(table, keys[i], now_ms);
    if (crowded && is_reserved(queue, keys, count, waiter, now_us, turn)) return NODE_DENIED;
    enum node_answer answer =
        fences ? node_acquire_guarded(table, keys, count, token, ttl_ms, fences->nonce,
                                      fences->fence, fences->stripes, fences->stripes_count, now_ms)
               : node_acquire(table, keys, count, token, ttl_ms, now_ms);
    if (answer == NODE_DENIED) {
        denied_by(table, keys, count, now_ms, turn);
        if (crowded) (void)node_queue_taken(queue, turn->key, nobody, now_us); /* see below */
        enter(queue, waiter, now_us, turn);
    }
    if (answer != NODE_GRANTED && answer != NODE_STALE) return answer;
    *turn = (struct node_turn){.rank = -1};
    for (size_t i = 0; crowded && i < count; i++)
        if (node_queue_taken(queue, keys[i], waiter->name, now_us)) turn->others = true;
    return answer;
}

/* A key that readers hold is free for another reader, but for those that wait for it. */
static bool may_join(struct node_table *table, struct node_queue *queue,
                     const struct node_share *share, const struct node_waiter *waiter,
                     int64_t now_us) {
    struct node_lock lock;
    return !node_look(table, share->key, now_us / US_PER_MS, &lock) ||
           node_queue_is_first(queue, share->key, waiter, now_us);
}

enum node_answer node_share_in_turn(struct node_table *table, struct node_queue *queue,
                                    const struct node_share *share,
                                    const struct node_waiter *waiter, int64_t now_us,
                                    int64_t *fence, struct node_turn *turn) {
    const int64_t now_ms = now_us / US_PER_MS;
    const bool again = node_share_is_listed(table, share->key, share->reader, now_ms);
    enum node_answer answer = NODE_DENIED;
    *turn = (struct node_turn){.rank = -1};
    node_expire_key(table, share->key, now_ms);
    if (!again && is_reserved(queue, &share->key, 1, waiter, now_us, turn)) return NODE_DENIED;
    if (again || may_join(table, queue, share, waiter, now_us))
        answer = node_share(table, share, now_ms, fence);
    if (answer == NODE_DENIED) {
        /* what is held is reserved for nobody: a reader may have a turn while others read, and a
         * writer that comes before it would lose its place with that reservation */
        (void)node_queue_taken(queue, share->key, nobody, now_us);
        denied_by(table, &share->key, 1, now_ms, turn);
        enter(queue, waiter, now_us, turn);
    }
    if (answer != NODE_GRANTED || again) return answer;
    turn->others = node_queue_taken(queue, share->key, waiter->name, now_us);
    if (turn->others) node_queue_shared(queue, share->key, now_us);
    return answer;
}

enum node_answer node_share_extend_in_turn(struct node_table *table, struct node_queue *queue,
                                           const struct node_share *share, int64_t now_us) {
    const int64_t now_ms = now_us / US_PER_MS;
    const bool was_shared = node_is_shared(table, share->key, now_ms);
    const enum node_answer answer = node_share_extend(table, share, now_ms);
    if (answer == NODE_GRANTED && !was_shared) node_queue_shared(queue, share->key, now_us);
    return answer;
}

size_t node_leave_turn(struct node_table *table, struct node_queue *queue, struct node_bytes key,
                       struct node_bytes waiter, bool skipping, int64_t now_us) {
    const size_t remain = node_queue_leave(queue, key, waiter, skipping, now_us);
    if (node_is_shared(table, key, now_us / US_PER_MS)) node_queue_shared(queue, key, now_us);
    return remain;
}
