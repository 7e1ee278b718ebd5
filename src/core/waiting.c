/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How to wait for a lock that another client holds, where nodes notify of changes. Every
 * notification is a hint: it may be late, lost or false. So a poll with a random delay backs all of
 * it, and nothing here grants anything.
 *
 * The rank in the wait queue decides when a client acts. The first one reads the nodes as soon as a
 * change is reported, and contends when a majority is free. A client further behind leaves each one
 * before it the time to read, to try and to be seen, and only then reads itself: mostly it finds
 * the lock taken. Clients far behind are not notified of changes; they are notified when their turn
 * is near. Without a queue (no node keeps one for us) the client guesses a rank each time, which is
 * a random delay. A reader that becomes the first tries at once. */
#include "core/core.h"
#include "core/mix.h"

#include <assert.h>
#include <string.h>

#define STEP_MIN (1 * RL_MS)    /* for each client before us; at least two round trips */
#define RTT_PART 8              /* a new measurement counts one part in this many */
#define EXPIRY_LATE (1 * RL_MS) /* a key's PTTL is in whole milliseconds */
#define EXPIRY_SPREAD (10 * RL_MS)
#define GUESS_MAX 4
#define BEFORE_MAX 16
#define SECOND_POLLS 4 /* the second polls this many times as often as the others */
#define YOUNG_PART 4   /* younger than this part of our own TTL */
#define LOSSES_MAX 5
#define QUIET_MAX 4 /* each doubles the delay */
#define RARE_DELAY_MOST (3000 * RL_MS)

rl_ns rl_round_trip(rl_ns mean, rl_ns took, const struct rl_terms *terms) {
    if (took > terms->node_timeout) took = terms->node_timeout;
    return mean == 0 ? took : mean + (took - mean) / RTT_PART;
}

static rl_ns rarer(rl_ns delay, unsigned quiet) {
    return delay << (quiet < QUIET_MAX ? quiet : QUIET_MAX);
}

rl_ns rl_poll_delay_most(rl_ns delay_max, unsigned quiet) {
    if (delay_max >= RARE_DELAY_MOST) return delay_max;
    const rl_ns rare = rarer(delay_max, quiet);
    return rare < RARE_DELAY_MOST ? rare : RARE_DELAY_MOST;
}

rl_ns rl_poll_delay(uint64_t *random, rl_ns delay_min, rl_ns delay_max, unsigned quiet) {
    const rl_ns most = rl_poll_delay_most(delay_max, quiet),
                base = rl_draw_between(random, delay_min, delay_max);
    const rl_ns delay = base < most ? rarer(base, quiet) : base;
    if (delay < RL_MS) return RL_MS;
    return delay < most ? delay : most;
}

rl_ns rl_round_trip_step(rl_ns mean) { return 2 * mean > STEP_MIN ? 2 * mean : STEP_MIN; }

static rl_ns stagger(const struct rl_waiting *waiting) {
    rl_ns before = waiting->rank >= 0 ? waiting->rank : waiting->guess;
    return (before < BEFORE_MAX ? before : BEFORE_MAX) * rl_round_trip_step(waiting->rtt);
}

static bool is_first(const struct rl_waiting *waiting) { return stagger(waiting) == 0; }
/* The second in the queue watches the first, which may be dead. It does so by polling, so that each
 * change wakes only one client. */
static bool is_second(const struct rl_waiting *waiting) {
    return waiting->rank == RL_WAITING_ARMED;
}
static bool is_far_behind(const struct rl_waiting *waiting) {
    return waiting->rank > RL_WAITING_ARMED;
}

static bool is_free(const struct rl_waiting *waiting) {
    return rl_count(waiting->free) >= waiting->terms->quorum;
}
static bool is_held(const struct rl_waiting *waiting) {
    return rl_count(waiting->held & waiting->fresh) + waiting->terms->quorum >
           waiting->terms->nodes;
}

/* ---- notes -------------------------------------------------------------------------------- */

/* Servers report an expiry late, by up to a tenth of a second. A client that knows when the key
 * ends does not need to wait for that. */
static void await_expiry(struct rl_waiting *waiting) {
    /* when a majority is free, by the time left on the keys */
    unsigned missing = waiting->terms->quorum - rl_count(waiting->free);
    rl_ns first =
        is_free(waiting) ? RL_NEVER : rl_nth_time(waiting->free_at, waiting->held, missing);
    rl_ns at = first;
    /* The keys of one lock end close together. A client that comes a little later gets all nodes,
     * and not only a majority. */
    for (unsigned node = 0; node < waiting->terms->nodes && first != RL_NEVER; node++) {
        bool soon =
            (waiting->held & rl_bit(node)) != 0 && waiting->free_at[node] - first <= EXPIRY_SPREAD;
        if (soon && waiting->free_at[node] > at) at = waiting->free_at[node];
    }
    waiting->expire_at = at == RL_NEVER ? RL_NEVER
                                        : at + EXPIRY_LATE + stagger(waiting) +
                                              rl_draw_between(&waiting->random, 0, RL_MS);
}

static void earlier(rl_ns *timer, rl_ns at) {
    if (at < *timer) *timer = at;
}

static void note_watched(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now) {
    rl_mask node = rl_bit(event->node), was_held = waiting->held;
    /* A question of the acquisition before: its answer is old news, and says nothing about how long
     * a question takes. */
    if ((waiting->watching & node) == 0) return;
    waiting->watching &= (rl_mask)~node;
    waiting->free &= (rl_mask)~node;
    waiting->held &= (rl_mask)~node;
    if (event->vote == RL_VOTE_ABSENT) {
        waiting->free |= node;
        waiting->freed |= was_held & node;
    }
    if (event->vote == RL_VOTE_GRANTED) {
        waiting->held |= node;
        waiting->free_at[event->node] = event->remaining < 0 ? RL_NEVER : now + event->remaining;
    }
    /* A change reported during the watch may be later than its answer: the two use separate
     * connections. */
    bool known = event->vote != RL_VOTE_FAILED && (waiting->again & node) == 0;
    if (known) waiting->fresh |= node;
    waiting->again &= (rl_mask)~node;
    if (is_free(waiting) && waiting->free_since == RL_NEVER) waiting->free_since = now;
    if (is_held(waiting)) {
        waiting->free_since = RL_NEVER;
        waiting->freed = 0;
        waiting->losses = 0;
    }
    if (waiting->watching != 0) return;
    waiting->rtt = rl_round_trip(waiting->rtt, now - waiting->watched_at, waiting->terms);
    await_expiry(waiting);
}

static void note_rank(struct rl_waiting *waiting, int32_t rank, rl_ns now) {
    const int32_t before = waiting->rank;
    waiting->rank = rank;
    if (waiting->terms->shared && rank == 0 && before != 0) waiting->joins = true;
    if (is_second(waiting) && rank != before) {
        waiting->quiet = 0;
        earlier(&waiting->poll_at, now + waiting->poll_max / SECOND_POLLS);
    }
    if (rank < 0) waiting->guess = (int32_t)(rl_splitmix64(&waiting->random) % GUESS_MAX);
}

/* Free, or changed since it was held. */
static bool may_be_free(const struct rl_waiting *waiting) {
    return rl_count((rl_mask)(waiting->free | (waiting->held & ~waiting->fresh))) >=
           waiting->terms->quorum;
}

void rl_waiting_note(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now) {
    if (!waiting->active || event->node >= waiting->terms->nodes) return;
    switch (event->type) {
    case RL_EVENT_WATCHED: note_watched(waiting, event, now); break;
    case RL_EVENT_WAKE:
        waiting->fresh &= (rl_mask)~rl_bit(event->node);
        waiting->again |= waiting->watching & rl_bit(event->node);
        if (may_be_free(waiting) && waiting->free_since == RL_NEVER) waiting->free_since = now;
        break;
    case RL_EVENT_RANK: note_rank(waiting, event->rank, now); break;
    default: break;
    }
}

/* ---- acting ------------------------------------------------------------------------------- */

static bool watch(struct rl_waiting *waiting, rl_mask nodes, const struct rl_event *event,
                  rl_ns now, struct rl_actions *actions) {
    nodes &= event->watched & (rl_mask)~waiting->watching;
    if (nodes == 0) return false;
    if (waiting->watching == 0) waiting->watched_at = now;
    waiting->watching |= nodes;
    actions->watch |= nodes;
    return true;
}

static rl_mask stale(const struct rl_waiting *waiting) { return (rl_mask)~waiting->fresh; }

static void plan_poll(struct rl_waiting *waiting, rl_ns now) {
    const unsigned often = is_second(waiting) ? SECOND_POLLS : 1;
    waiting->poll_at = now + rl_poll_delay(&waiting->random, waiting->poll_min / often,
                                           waiting->poll_max / often, waiting->quiet);
}

/* The fallback for all hints. True: no node can report whether the lock is held, so only a try can
 * show it. */
static bool poll(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now,
                 struct rl_actions *actions) {
    waiting->quiet++;
    plan_poll(waiting, now);
    actions->enter_queue = true;
    if (is_far_behind(waiting)) return false;
    bool asked = waiting->watched_at != 0 && !is_second(waiting);
    if (asked && !is_held(waiting) && !is_free(waiting)) return true;
    /* what is still under way is lost by now, or counts as a new report */
    waiting->watching = waiting->again = 0;
    watch(waiting, event->watched, event, now, actions);
    return false;
}

/* A change was reported, and the time left to the clients before us has passed. */
static void watch_when_due(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now,
                           struct rl_actions *actions) {
    if (now >= waiting->expire_at) {
        waiting->expire_at = RL_NEVER;
        rl_ns since = now - stagger(waiting);
        if (since < waiting->free_since) waiting->free_since = since;
        /* no hint came: each node must be read */
        watch(waiting, waiting->held, event, now, actions);
    }
    if (now < waiting->watch_at) return;
    waiting->watch_at = RL_NEVER;
    bool watches = watch(waiting, stale(waiting), event, now, actions);
    /* By now a client before us has most likely had its turn. (An answer to this question asks no
     * more.) */
    if (watches && !is_first(waiting) && event->type != RL_EVENT_RANK) actions->enter_queue = true;
}

/* Of those that were held. */
static rl_mask changed(const struct rl_waiting *waiting) { return waiting->held & stale(waiting); }

/* Most nodes that held the lock have changed, and together with those that did not hold it they are
 * a majority. A watch that was sent after the report is newer than the report, which then does not
 * count: a client before us may have the lock by now. */
static bool most_changed(const struct rl_waiting *waiting) {
    rl_mask believed = changed(waiting) & (rl_mask) ~(waiting->watching & ~waiting->again);
    return 2 * rl_count(believed) > rl_count(waiting->held) && may_be_free(waiting);
}

/* A lock is renewed after a good part of its TTL, by default a third. So a change of one that was
 * just taken is a release and not a renewal. (Where another client uses another TTL or interval,
 * one wasted try shows it.) */
static bool is_too_young_to_be_renewed(const struct rl_waiting *waiting, rl_ns now) {
    if (waiting->wary) return false;
    for (unsigned node = 0; node < waiting->terms->nodes; node++)
        if ((changed(waiting) & rl_bit(node)) &&
            waiting->free_at[node] - now < waiting->terms->ttl / YOUNG_PART * (YOUNG_PART - 1))
            return false;
    return true;
}

/* For the first in the queue. A release and a renewal look the same when reported. So one node is
 * read. When its key is gone, the other reports count as the release too. When it is not, all nodes
 * that reported are read, so that they report again. */
static bool heed(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now,
                 struct rl_actions *actions) {
    if (is_free(waiting) || (waiting->freed != 0 && most_changed(waiting))) return true;
    bool reported_meanwhile =
        event->type == RL_EVENT_WATCHED && (changed(waiting) & rl_bit(event->node)) != 0;
    if (reported_meanwhile) {
        watch(waiting, rl_bit(event->node), event, now, actions);
        return false;
    }
    if (is_too_young_to_be_renewed(waiting, now)) return most_changed(waiting);
    if (changed(waiting) == 0 || waiting->freed != 0) return false;
    bool was_renewed = event->type == RL_EVENT_WATCHED &&
                       (waiting->held & waiting->fresh & rl_bit(event->node)) != 0;
    if (was_renewed)
        watch(waiting, changed(waiting), event, now, actions);
    else if ((waiting->watching & changed(waiting)) == 0)
        watch(waiting, rl_bit(event->node) & changed(waiting), event, now, actions);
    return false;
}

/* A key that is held may be held by readers, which a reader joins: only a try shows it. */
static bool may_join(struct rl_waiting *waiting, rl_ns now) {
    const bool joins = waiting->joins || (waiting->terms->shared && now >= waiting->poll_at);
    waiting->joins = false;
    return joins && is_first(waiting);
}

bool rl_waiting_step(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions) {
    assert(waiting->active);
    waiting->fresh &= event->watched; /* a node that no longer reports must be read again */
    if (may_join(waiting, now)) {
        plan_poll(waiting, now);
        return true;
    }
    if (now >= waiting->poll_at && poll(waiting, event, now, actions)) return true;
    if (is_far_behind(waiting)) {
        waiting->watch_at = waiting->expire_at = RL_NEVER;
        return false;
    }
    bool asks = event->type == RL_EVENT_RANK || event->type == RL_EVENT_NODES;
    const rl_ns soon = now > waiting->away_until ? now : waiting->away_until;
    if (asks && !is_second(waiting)) earlier(&waiting->watch_at, soon);
    bool reported = event->type == RL_EVENT_WAKE, seen = event->type == RL_EVENT_WATCHED;
    if (is_first(waiting) && (reported || seen)) return heed(waiting, event, now, actions);
    if (reported || (seen && (changed(waiting) & (rl_mask)~waiting->watching) != 0))
        earlier(&waiting->watch_at, now + stagger(waiting));
    if (is_free(waiting) && waiting->free_since != RL_NEVER && seen) {
        rl_ns at = waiting->free_since + stagger(waiting);
        if (now >= at) return true;
        waiting->fresh &= (rl_mask)~waiting->free; /* by then a client before us may have it */
        waiting->free = 0;
        earlier(&waiting->watch_at, at);
    }
    watch_when_due(waiting, event, now, actions);
    return false;
}

void rl_waiting_begin(struct rl_waiting *waiting, const struct rl_terms *terms, rl_ns poll_min,
                      rl_ns poll_max, uint64_t random, rl_ns now, struct rl_actions *actions) {
    memset(waiting, 0, sizeof *waiting);
    waiting->terms = terms;
    waiting->active = true;
    waiting->rank = INT32_MAX; /* until the queue gives another rank; it is asked first */
    waiting->random = random;
    waiting->poll_min = poll_min;
    waiting->poll_max = poll_max;
    waiting->free_since = waiting->watch_at = waiting->expire_at = RL_NEVER;
    plan_poll(waiting, now);
    actions->enter_queue = true;
}

/* Another client tried at the same time, or the lock was not free after all. The more often this
 * happens in a row, the longer this client stays away. */
void rl_waiting_resume(struct rl_waiting *waiting, rl_ns now, struct rl_actions *actions) {
    if (waiting->losses < LOSSES_MAX) waiting->losses++;
    waiting->wary = true;
    waiting->quiet = 0;
    waiting->fresh = waiting->free = waiting->held = waiting->freed = 0;
    waiting->again = waiting->watching;
    waiting->free_since = waiting->expire_at = waiting->watch_at = RL_NEVER;
    plan_poll(waiting, now);
    actions->enter_queue = true;
    if (is_far_behind(waiting)) return;
    const rl_ns away_max = ((rl_ns)1 << (waiting->losses - 1)) * rl_round_trip_step(waiting->rtt);
    waiting->away_until = now + rl_draw_between(&waiting->random, 0, away_max);
    earlier(&waiting->watch_at, waiting->away_until);
}

rl_ns rl_waiting_wake_at(const struct rl_waiting *waiting) {
    rl_ns at = waiting->poll_at;
    if (waiting->watch_at < at) at = waiting->watch_at;
    return waiting->expire_at < at ? waiting->expire_at : at;
}
