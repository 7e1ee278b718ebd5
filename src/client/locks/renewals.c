/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Renewals that are due, and their order. At most as many are under way as the nodes answer soon,
 * and never fewer than it takes to renew all locks in time. The others wait; the lock that would be
 * lost first goes first. While there is room for all, none waits. */
#include <stdlib.h>

#include "lock.h"

/* The limit of renewals under way. It is found as in TCP, but from the time that answers take. It
 * never gets so small that nodes which fail for another reason hold back a client with a few
 * locks. */
enum { WINDOW_FIRST = 16, WINDOW_MIN = 4, WINDOW_MAX = 1024 };
enum { SOON = 4, SLOW = 2 }; /* parts of the node timeout */
enum { ROOM_FIRST = 256 };
#define REPORT_EVERY (10000 * RL_MS)

static struct renewals *of(const struct redlock_lock *lock) {
    return &lock->client->locks->renewals;
}
static rl_ns lost_at(const struct redlock_lock *lock) {
    return lock->lease.validity_end - lock->config->rules.lost_margin;
}

/* ---- those that wait ---- */

static void place(struct renewals *renewals, uint32_t at, struct redlock_lock *lock) {
    renewals->due[at] = lock;
    lock->due_place = at + 1;
}

static uint32_t rise(struct renewals *renewals, uint32_t at, struct redlock_lock *lock) {
    for (; at > 0 && lost_at(lock) < lost_at(renewals->due[(at - 1) / 2]); at = (at - 1) / 2)
        place(renewals, at, renewals->due[(at - 1) / 2]);
    place(renewals, at, lock);
    return at;
}

static void sink(struct renewals *renewals, uint32_t at, struct redlock_lock *lock) {
    for (uint32_t child; (child = 2 * at + 1) < renewals->count; at = child) {
        if (child + 1 < renewals->count &&
            lost_at(renewals->due[child + 1]) < lost_at(renewals->due[child]))
            child++;
        if (lost_at(lock) <= lost_at(renewals->due[child])) break;
        place(renewals, at, renewals->due[child]);
    }
    place(renewals, at, lock);
}

static void put(struct renewals *renewals, uint32_t at, struct redlock_lock *lock) {
    if (rise(renewals, at, lock) == at) sink(renewals, at, lock);
}

static void remove_due(struct renewals *renewals, struct redlock_lock *lock) {
    if (lock->due_place == 0) return;
    uint32_t at = lock->due_place - 1;
    struct redlock_lock *last = renewals->due[--renewals->count];
    lock->due_place = 0;
    if (last != lock) put(renewals, at, last);
}

static void add_due(struct renewals *renewals, struct redlock_lock *lock, rl_ns now) {
    if (lock->due_place != 0) { /* its validity may have changed */
        put(renewals, lock->due_place - 1, lock);
        return;
    }
    if (renewals->count == 0) {
        renewals->busy_since = now;
        renewals->done_since = 0;
    }
    put(renewals, renewals->count++, lock);
}

/* For one more entry. False: no memory, and the renewal goes at once. */
static bool has_room(struct renewals *renewals) {
    if (renewals->count < renewals->room) return true;
    uint32_t room = renewals->room ? 2 * renewals->room : ROOM_FIRST;
    struct redlock_lock **due = realloc(renewals->due, room * sizeof(struct redlock_lock *));
    if (!due) return false;
    renewals->due = due;
    renewals->room = room;
    return true;
}

/* ---- how many may be under way ---- */

static double needed_per_s(const struct renewals *renewals) {
    return (double)renewals->needed_in_1e6_s / 1e6;
}

/* Little's law: nodes that are far away answer late however few are asked. So twice as many may be
 * under way as are needed while the quickest answer takes. (Not the last one: where nodes have more
 * to do than they can, each answer would make them more.) */
static unsigned window_least(const struct renewals *renewals) {
    const double least = 2 * needed_per_s(renewals) * (double)renewals->took / 1e9;
    if (least < WINDOW_MIN) return WINDOW_MIN;
    return least < WINDOW_MAX ? (unsigned)least : WINDOW_MAX;
}

/* All renewals that were under way at the same time show the same delay, so they cut only once. */
static void cut(struct renewals *renewals, unsigned by, rl_ns node_timeout, rl_ns now) {
    if (now - renewals->cut_at < node_timeout) return;
    renewals->cut_at = now;
    const unsigned least = window_least(renewals);
    renewals->window = renewals->window > by + least ? renewals->window - by : least;
    renewals->threshold = renewals->window;
    renewals->won = 0;
}

/* The limit does not grow while it is not reached: it is unknown whether the nodes could take
 * more. */
static void renewed(struct renewals *renewals, rl_ns took, rl_ns node_timeout, rl_ns now) {
    renewals->done_since++;
    if (renewals->took == 0 || took < renewals->took) renewals->took = took;
    if (renewals->window < window_least(renewals)) renewals->window = window_least(renewals);
    if (took > node_timeout / SLOW) cut(renewals, (renewals->window + 3) / 4, node_timeout, now);
    if (took >= node_timeout / SOON || renewals->count == 0) return;
    unsigned step = renewals->window < renewals->threshold ? 1 : renewals->window;
    if (++renewals->won < step) return;
    renewals->won = 0;
    if (renewals->window < WINDOW_MAX) renewals->window++;
}

static void count_under_way(struct redlock_lock *lock, const struct rl_actions *actions,
                            rl_ns now) {
    struct renewals *renewals = of(lock);
    const struct rl_lease *lease = &lock->lease;
    bool renewing = lock->phase == PHASE_LEASED && lease->round_open && !lease->round_by_caller &&
                    !lease->round_proven;
    if (renewing == lock->renewing) return;
    lock->renewing = renewing;
    renewals->under_way += renewing ? 1u : -1u;
    if (renewing) return;
    rl_ns node_timeout = lock->config->terms.node_timeout;
    if (actions->notices & RL_NOTICE_RENEWED)
        renewed(renewals, now - lock->lease.round_t1, node_timeout, now);
    else if (lock->lease.state == RL_LEASE_UNSURE)
        cut(renewals, (renewals->window + 1) / 2, node_timeout, now);
}

/* ---- whether they keep up ---- */

static void report_overload(struct redlock_client *client, rl_ns now) {
    struct renewals *renewals = &client->locks->renewals;
    const double needed = needed_per_s(renewals);
    /* a few renewals in a short time are not a rate */
    rl_ns busy = now - renewals->busy_since;
    if (busy < 1000 * RL_MS) busy = 1000 * RL_MS;
    double done = (double)renewals->done_since * 1e9 / (double)busy;
    renewals->reported_at = now;
    client->stats.overloads++;
    client->stats.renewals_needed = (uint64_t)(needed + 1);
    client->stats.renewals_done = (uint64_t)done;
    client_log(
        client, REDLOCK_LOG_WARNING,
        "renewals do not keep up: %llu locks need %llu renewals a second, and %llu a second are done; the locks "
        "that end first are renewed first. Give them longer TTLs, or hold fewer with one client",
        (unsigned long long)renewals->held, (unsigned long long)client->stats.renewals_needed,
        (unsigned long long)client->stats.renewals_done);
}

/* When its renewal was due, the lock that is lost first had some time left. It has used a quarter
 * of that already. */
static void check_lateness(struct redlock_client *client, rl_ns now) {
    const struct renewals *renewals = &client->locks->renewals;
    if (renewals->count == 0 ||
        (renewals->reported_at != 0 && now - renewals->reported_at < REPORT_EVERY))
        return;
    const struct redlock_lock *first = renewals->due[0];
    const struct rl_terms *terms = &first->config->terms;
    const struct rl_lease_rules *rules = &first->config->rules;
    rl_ns planned = terms->ttl - rl_drift_at(terms, first->lease.drift_ppm, terms->ttl) -
                    rules->lost_margin - rules->renew_every;
    if (lost_at(first) - now < planned / 4 * 3) report_overload(client, now);
}

/* ---- */

static void on_room(struct net_timer *timer) {
    struct renewals *renewals = RL_CONTAINER(timer, struct renewals, timer);
    struct redlock_client *client = RL_CONTAINER(renewals, struct locks, renewals)->client;
    renewals->awake = false;
    check_lateness(client, net_now(client->net));
    while (renewals->count > 0 && renewals->under_way < renewals->window) {
        struct redlock_lock *lock = renewals->due[0];
        renewals->picked = lock;
        lock_step(lock, (struct rl_event){.type = RL_EVENT_TICK});
        /* it did not use its turn, and must not block the others */
        if (renewals->picked) remove_due(renewals, lock);
        renewals->picked = NULL;
    }
}

void renewals_init(struct renewals *renewals) {
    *renewals = (struct renewals){
        .window = WINDOW_FIRST, .threshold = WINDOW_MAX, .timer = {.fire = on_room}};
}

/* Without a majority to ask a renewal fails at once, and does not need to wait for that. But where
 * the others are only late, it would fail without need. */
void renewals_event(struct redlock_lock *lock, struct rl_event *event) {
    struct renewals *renewals = of(lock);
    if (renewals->picked == lock) {
        renewals->picked = NULL;
        return;
    }
    if (lock->renewing || (renewals->count == 0 && renewals->under_way < renewals->window)) return;
    bool can_ask = renewals->under_way > 0 || rl_count(event->ready) >= lock->config->terms.quorum;
    if (can_ask) event->full = has_room(renewals);
}

static void count_held(struct redlock_lock *lock, bool held) {
    struct renewals *renewals = of(lock);
    if (held == lock->counted) return;
    const uint64_t needed = 1000000000 / (uint64_t)lock->config->options.renew_interval_ms;
    renewals->held += held ? 1u : -1u;
    renewals->needed_in_1e6_s += held ? needed : -needed;
    lock->counted = held;
}

void renewals_stepped(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    struct renewals *renewals = of(lock);
    if (actions->renewal_waits)
        add_due(renewals, lock, now);
    else if (lock->due_place != 0)
        remove_due(renewals, lock);
    count_under_way(lock, actions, now);
    bool held = lock->phase == PHASE_LEASED && lock->config->rules.renew_every > 0 &&
                rl_lease_holds(&lock->lease);
    count_held(lock, held);
    if (renewals->count == 0 || renewals->awake || renewals->under_way >= renewals->window) return;
    renewals->awake = true;
    net_timer_set(lock->client->net, &renewals->timer, now);
}

void renewals_forget(struct redlock_lock *lock) {
    struct renewals *renewals = of(lock);
    remove_due(renewals, lock);
    if (lock->renewing) renewals->under_way--;
    lock->renewing = false;
    count_held(lock, false);
}
