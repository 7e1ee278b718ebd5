/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks and their names, as the rest of the client needs them. */
#include "lock.h"

int lock_borrow(struct redlock_lock *lock, redlock_done_fn *done, void *context,
                struct net_timer *stop) {
    if (!lock_is_idle(lock) || op_is_busy(lock_op(lock))) return REDLOCK_BUSY;
    late_end(lock);
    if (!extra_take(lock, false)) return REDLOCK_NO_MEMORY;
    op_begin(lock, &lock->extra->op, done, context);
    lock->extra->op.stop = stop;
    lock->cancelled = false;
    lock->refs++;
    return REDLOCK_OK;
}

struct redlock_client *lock_client(const struct redlock_lock *lock) {
    return lock->client;
}

const struct redlock_lock_options *lock_options(const struct redlock_lock *lock) {
    return &lock->config->options;
}

bool lock_is_stopped(const struct redlock_lock *lock) {
    return lock->cancelled || lock_is_freed(lock);
}

bool lock_is_freed(const struct redlock_lock *lock) { return atomic_load(&lock->freed); }

void lock_give_back(struct redlock_lock *lock, int result) {
    if (!lock->freed) op_finish(lock, lock_op(lock), result);
    extra_rest(lock);
    lock_unref(lock);
}

const struct net_bytes *lock_key(const struct redlock_lock *lock) {
    return lock->keys_count == 1 && !slots_of(lock) ? &lock->keys[0] : NULL;
}

rl_ns lock_node_timeout(const struct redlock_lock *lock) {
    return lock->config->terms.node_timeout;
}
