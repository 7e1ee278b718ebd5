/* SPDX-License-Identifier: BSD-2-Clause
 *
 * LINEARIZABLE: some order of the operations explains all their results.
 *
 * The rule. Each operation takes effect at one point in time between its beginning and its end. The
 * judge asks whether these points can be chosen such that a simple lock gives the same results.
 * Each resource has one such lock. It has an owner or none:
 *
 *   acquire that reports OK       only while there is no owner; the client becomes the owner. A
 *                                 reader: only while no writer is the owner; it becomes one of
 *                                 the owners
 *   acquire that reports another  always allowed, and changes nothing (two clients that split the
 *   result                        votes are both refused)
 *   release that reports OK       only by the owner, and frees the lock
 *   release that reports LOST     frees the lock or does nothing, at any time after it began; but
 *                                 validity must be over when it ends (exceptions: below)
 *   release that reports another  frees the lock or does nothing, at any time after it began
 *   result, or never ends
 *   expiry                        frees the lock when validity ends or the client learns that it
 *                                 is lost, or later, or never
 *
 * A crash frees nothing: the lock of a client that crashed is taken until it expires. If a crash
 * cuts off an acquisition, the judge assumes that it did not take effect. That assumption never
 * makes an order impossible.
 *
 * How it is decided. In general this needs a search over all orders (Wing and Gong). Here it does
 * not, because each token is acquired once and freed at most once. So an order is a choice of two
 * points for each token: where it is acquired, between ACQUIRE and ACQUIRED, and where it is freed.
 * There is an earliest point at which it can be freed:
 *
 *   - RELEASE, if the release reports OK: the release itself must free it;
 *   - else the end of validity, LOST or RELEASE, whichever comes first.
 *
 * Whatever is chosen, the client owns the lock from ACQUIRED up to that earliest point. This span
 * is the token's core. If the cores of two tokens overlap, and not both are of readers, no order
 * exists. If no such cores overlap, there is one: acquire each token at ACQUIRED, and free it at
 * the earliest point. So the judge looks for cores that overlap. (A core without length is a point.
 * It must not lie inside another core.) tests/sim/test_check_order.c compares this with a search,
 * on small histories that it draws at random.
 *
 * What EXCLUSION does not see. EXCLUSION looks at clients that believe they hold the lock. A core
 * goes on after a crash, and it goes on after the end of validity if the release reports OK. So
 * this judge also finds a grant over the keys of a client that crashed, and a release that reports
 * OK to a client that was not the owner any more.
 *
 * LOST while validity is left is allowed if the keys were disturbed: a key of the token was lost,
 * another program changed a key, a node's clock was stepped or runs at a wrong rate, a node went
 * back to older data, without an extension that had counted, or became native or stock. It is also
 * allowed if the release did delete a key: when the answer is lost and the node is asked again, the
 * key is not there any more. Or if an operator broke the lock: from then on its core is not counted
 * against clients that acquire later (breaks.c). What remains to be found is a release that misses
 * keys that are there. A change of the members excuses nothing.
 */
#include "judges.h"

#include <string.h>

#define NOWHERE SIZE_MAX

struct hold {
    bool open;
    rl_ns shared_since; /* it is a reader's from then on; RL_NEVER: a writer's */
    uint32_t token;
    size_t acquired;
    rl_ns until;    /* the first of `until` as moved and LOST */
    size_t release; /* RELEASE; NOWHERE */
    size_t next;    /* the next ACQUIRED of this resource; NOWHERE */
    bool reported_lost;
};

struct order {
    struct report *report;
    const struct history_record *records;
    size_t count;
    struct hold holds[JUDGE_RESOURCES][JUDGE_CLIENTS];
};

static bool is_extension(const struct history_record *record) {
    return record->kind == HISTORY_RENEWED ||
           (record->kind == HISTORY_EXTENDED && record->result == JUDGE_OK);
}

/* The start of the window in which the token is freed. */
static rl_ns core_end(const struct order *order, const struct hold *hold,
                      const struct history_record *released) {
    rl_ns release_at = hold->release != NOWHERE ? order->records[hold->release].at : RL_NEVER;
    if (released != NULL && released->result == JUDGE_OK) return release_at;
    return hold->until < release_at ? hold->until : release_at;
}

static struct hold hold_from(const struct history_record *record, size_t index) {
    return (struct hold){.open = true,
                         .shared_since = record->result == JUDGE_SHARED ? record->at : RL_NEVER,
                         .token = record->token,
                         .acquired = index,
                         .until = record->until,
                         .release = NOWHERE,
                         .next = NOWHERE};
}

/* The holder's records of its hold, between ACQUIRED and RELEASED. */
static void note(struct hold *hold, const struct history_record *record, size_t index) {
    if (record->kind == HISTORY_RELEASE && hold->release == NOWHERE) hold->release = index;
    if (is_extension(record) && !hold->reported_lost) hold->until = record->until;
    if (record->kind == HISTORY_DOWNGRADE && record->at < hold->shared_since)
        hold->shared_since = record->at;
    if (record->kind != HISTORY_LOST) return;
    if (!hold->reported_lost && record->at < hold->until) hold->until = record->at;
    hold->reported_lost = true;
}

/* Is the core of the acquisition at `index` empty? Looks on, so only where two begin in the same
 * instant. */
static bool empty_core(const struct order *order, size_t index) {
    const struct history_record *start = &order->records[index];
    struct hold hold = hold_from(start, index);
    for (size_t i = index + 1; i < order->count; i++) {
        const struct history_record *record = &order->records[i];
        if (record->client != start->client || record->resource != start->resource) continue;
        if (record->kind == HISTORY_RELEASED) return core_end(order, &hold, record) <= start->at;
        if (record->kind == HISTORY_ACQUIRED) break;
        note(&hold, record, i);
    }
    return core_end(order, &hold, NULL) <= start->at;
}

/* Cores overlap when each begins before the other ends. An empty one is a point, and must not lie
 * inside another. */
static bool meet(const struct order *order, const struct hold *hold, rl_ns end, size_t index) {
    const struct history_record *owner = &order->records[hold->acquired],
                                *other = &order->records[index];
    if (other->until <= other->at) return false; /* it claims nothing */
    if (other->at >= end) return false;
    return other->at > owner->at || !empty_core(order, index);
}

static void judge_cores(struct order *order, const struct hold *hold,
                        const struct history_record *released) {
    const struct history_record *owner = &order->records[hold->acquired];
    rl_ns end = core_end(order, hold, released);
    if (hold->next == NOWHERE || end <= owner->at) return;
    for (size_t i = hold->next; i < order->count && order->records[i].at < end; i++) {
        const struct history_record *other = &order->records[i];
        if (other->kind != HISTORY_ACQUIRED || other->resource != owner->resource) continue;
        if (other->at >= hold->shared_since && other->result == JUDGE_SHARED) continue;
        if (!meet(order, hold, end, i)) continue;
        if (judge_was_broken(order->report->history, hold->token, i)) return;
        if (judge_was_broken(order->report->history, other->token, i)) continue;
        const char *how =
            end > hold->until
                ? "%s acquired %s at %s, yet %s, who had it before, released it as its owner at %s"
                : "%s acquired %s at %s, when it was not free: %s had it until %s";
        judge_found(order->report, CHECK_LINEARIZABLE, hold->acquired, i, other->at, end, how,
                    judge_client(other->client).text, judge_resource(other->resource).text,
                    judge_ms(other->at).text, judge_client(owner->client).text, judge_ms(end).text);
        return;
    }
}

/* ---- releases ------------------------------------------------------------------------------- */

/* Did anything happen to the token's keys before that record? */
static bool disturbed(const struct order *order, const struct hold *hold, size_t until) {
    int resource = order->records[hold->acquired].resource;
    if (judge_was_broken(order->report->history, hold->token, until)) return true;
    for (size_t i = 0; i < until; i++) {
        const struct history_record *record = &order->records[i];
        if (record->kind == HISTORY_NODE_CLOCK || record->kind == HISTORY_NODE_RATE) return true;
        if (record->kind == HISTORY_NODE_SPLIT || record->kind == HISTORY_NODE_OLD_ENDS)
            return true;
        if (record->kind == HISTORY_NODE_FAILOVER || record->kind == HISTORY_NODE_RESYNCED ||
            (record->kind == HISTORY_NODE_RESTART && record->value == 2))
            return true; /* older data: an extension may be gone, and the key has ended */
        if (record->kind == HISTORY_NODE_NATIVE && record->at > 0)
            return true; /* what it granted as the other kind of node is not its lock any more */
        if (record->resource != resource) continue;
        if (record->kind == HISTORY_KEY_FOREIGN) return true;
        /* the key that all readers stand behind */
        if (hold->shared_since != RL_NEVER && record->kind == HISTORY_KEY_LOST) return true;
        if (record->token != hold->token) continue;
        if (record->kind == HISTORY_KEY_LOST ||
            ((record->kind == HISTORY_KEY_DELETED || record->kind == HISTORY_READER_GONE) &&
             i > hold->release))
            return true;
    }
    return false;
}

static void judge_release(struct order *order, const struct hold *hold, size_t index) {
    const struct history_record *record = &order->records[index];
    if (!hold->open && record->result == JUDGE_OK) {
        judge_found(order->report, CHECK_LINEARIZABLE, index, index, record->at, record->at,
                    "%s's release of %s said ok at %s, but %s had nothing to release",
                    judge_client(record->client).text, judge_resource(record->resource).text,
                    judge_ms(record->at).text, judge_client(record->client).text);
    }
    if (hold->open && record->result == JUDGE_LOST && record->at < hold->until &&
        !disturbed(order, hold, index)) {
        judge_found(
            order->report, CHECK_LINEARIZABLE, hold->acquired, index, record->at, hold->until,
            "%s's release of %s said at %s that it was lost, but its validity ran until %s and nothing had "
            "happened to its keys",
            judge_client(record->client).text, judge_resource(record->resource).text,
            judge_ms(record->at).text, judge_ms(hold->until).text);
    }
}

static void released(struct order *order, size_t index) {
    const struct history_record *record = &order->records[index];
    struct hold *hold = &order->holds[record->resource][record->client];
    judge_release(order, hold, index);
    if (hold->open) judge_cores(order, hold, record);
    hold->open = false;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void acquired(struct order *order, size_t index) {
    const struct history_record *record = &order->records[index];
    struct hold *holds = order->holds[record->resource];
    struct hold *own = &holds[record->client];
    for (unsigned client = 0; client < JUDGE_CLIENTS; client++) {
        if (holds[client].open && holds[client].next == NOWHERE) holds[client].next = index;
    }
    if (own->open) judge_cores(order, own, NULL); /* acquired anew without a release */
    *own = hold_from(record, index);
}

static void step(struct order *order, size_t index) {
    const struct history_record *record = &order->records[index];
    if (record->resource < 0 || record->client < 0) return;
    struct hold *hold = &order->holds[record->resource][record->client];
    switch (record->kind) {
    case HISTORY_ACQUIRED: acquired(order, index); break;
    case HISTORY_RELEASED: released(order, index); break;
    default:
        if (hold->open) note(hold, record, index);
        break;
    }
}

void judge_order(struct report *report) {
    struct order order;
    memset(&order, 0, sizeof order);
    order.report = report;
    order.records = report->history->records;
    order.count = report->history->count;
    for (size_t i = 0; i < order.count; i++) step(&order, i);
    for (unsigned resource = 0; resource < JUDGE_RESOURCES; resource++) {
        for (unsigned client = 0; client < JUDGE_CLIENTS; client++) {
            if (order.holds[resource][client].open)
                judge_cores(&order, &order.holds[resource][client], NULL);
        }
    }
}
