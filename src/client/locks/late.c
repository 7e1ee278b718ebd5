/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks without their key on some nodes, which could not be asked with the others. They learn when
 * such a node is ready; the lease decides what it gets (core/lease.c).
 *
 * A disowned lock belongs to whoever has its token. But a process that takes a lock to keep it, and
 * ends, is done before a distant node is connected. So its late nodes still get the key for one
 * node timeout, and redlock_client_free() waits for that. */
#include <string.h>

#include "lock.h"

/* Of a hundred thousand locks not all are stepped at once: a node that comes back must still answer
 * in time. */
enum { STEPS_AT_ONCE = 64 };
#define STEPS_AGAIN (1 * RL_MS)

static void unlink_late(struct late_locks *all, struct late_lock *late) {
    *(late->previous ? &late->previous->next : &all->first) = late->next;
    *(late->next ? &late->next->previous : &all->last) = late->previous;
}

static void link_last(struct late_locks *all, struct late_lock *late) {
    late->next = NULL;
    late->previous = all->last;
    *(all->last ? &all->last->next : &all->first) = late;
    all->last = late;
}

static bool is_listed(const struct redlock_lock *lock) { return extra_of(lock)->late.lock != NULL; }

void late_forget(struct redlock_lock *lock) {
    struct late_locks *all = &lock->client->locks->late;
    if (!is_listed(lock)) return;
    unlink_late(all, &lock->extra->late);
    lock->extra->late.lock = NULL;
    all->count--;
}

/* The lease itself sees to those that are behind. */
static rl_mask late_nodes(const struct redlock_lock *lock) {
    return lock->lease.late & (rl_mask)~lock->lease.behind;
}

/* Without memory its next renewal asks the node. */
static void remember_late(struct redlock_lock *lock) {
    struct late_locks *all = &lock->client->locks->late;
    all->nodes |= late_nodes(lock);
    if (is_listed(lock) || !extra_take(lock, false)) return;
    lock->extra->late.lock = lock;
    link_last(all, &lock->extra->late);
    all->count++;
}

static bool is_under_way(const struct redlock_lock *lock) {
    return (rl_lease_holds(&lock->lease) && lock->lease.late) ||
           (round_now(lock) && round_now(lock)->voting);
}

static bool is_over(const struct redlock_lock *lock) {
    return !is_under_way(lock) || net_now(lock->client->net) >= lock->extra->late.end;
}

void late_stepped(struct redlock_lock *lock) {
    if (lock->phase == PHASE_DISOWNED && is_over(lock))
        late_end(lock);
    else if (lock->phase == PHASE_LEASED && rl_lease_holds(&lock->lease) && late_nodes(lock))
        remember_late(lock);
    else if (lock->phase != PHASE_DISOWNED)
        late_forget(lock);
}

static void step_some(struct late_locks *all) {
    struct redlock_client *client = RL_CONTAINER(all, struct locks, late)->client;
    const rl_mask ready = client_ready(client, net_now(client->net));
    unsigned steps = 0;
    for (; all->left > 0 && all->first && steps < STEPS_AT_ONCE; all->left--) {
        struct late_lock *late = all->first;
        unlink_late(all, late);
        link_last(all, late);
        if (late_nodes(late->lock) & ready) {
            steps++;
            lock_step(late->lock, (struct rl_event){.type = RL_EVENT_NODES});
        } else {
            all->nodes |= late_nodes(late->lock);
        }
    }
    if (!all->first) all->left = 0;
    net_timer_set(client->net, &all->timer,
                  all->left > 0 ? net_now(client->net) + STEPS_AGAIN : RL_NEVER);
}

static void on_more(struct net_timer *timer) {
    step_some(RL_CONTAINER(timer, struct late_locks, timer));
}

void late_init(struct late_locks *all) { *all = (struct late_locks){.timer = {.fire = on_more}}; }

void late_check(struct redlock_client *client) {
    struct late_locks *all = &client->locks->late;
    if (!(all->nodes & client_ready(client, net_now(client->net)))) return;
    all->nodes = 0; /* anew, from all of them */
    all->left = all->count;
    step_some(all);
}

/* ---- disowned locks ---- */

void late_disown(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    if (!is_under_way(lock)) return;
    remember_late(lock);
    if (!is_listed(lock)) return;
    lock->phase = PHASE_DISOWNED;
    lock->refs++;
    client->locks->late.disowned++;
    rl_lease_disown(&lock->lease);
    lock->extra->late.end = net_now(client->net) + lock->config->terms.node_timeout;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_NODES}); /* sets its timer */
}

rl_ns late_wake_at(const struct redlock_lock *lock, rl_ns wake_at) {
    const rl_ns end = lock->extra->late.end;
    return wake_at < end ? wake_at : end;
}

void late_end(struct redlock_lock *lock) {
    if (lock->phase != PHASE_DISOWNED) return;
    lock->phase = PHASE_FREE;
    lock->client->locks->late.disowned--;
    late_forget(lock);
    net_timer_set(lock->client->net, &lock->timer, RL_NEVER);
    lock_drop_round(lock);
    lock_unref(lock);
}

void late_end_token(struct redlock_client *client, const void *token, size_t bytes) {
    struct late_lock *late = client->locks->late.first, *next;
    for (; late; late = next) {
        const struct redlock_lock *lock = late->lock;
        next = late->next;
        if (!token || (lock->token_bytes == bytes && memcmp(token_of(lock), token, bytes) == 0))
            late_end(late->lock);
    }
}

bool locks_disowned(const struct redlock_client *client) {
    return client->locks->late.disowned > 0;
}

void locks_end_disowned(struct redlock_client *client) { late_end_token(client, NULL, 0); }
