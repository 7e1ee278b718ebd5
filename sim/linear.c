/* SPDX-License-Identifier: BSD-2-Clause
 *
 * LINEARIZABLE: is there an order of the operations, each at a point between its beginning and its
 * end, that a lock explains? The lock, as a sequential object per resource, has an owner or none:
 *
 *   acquire(t) -> OK        only if there is no owner; t becomes it
 *   acquire(t) -> anything else   always allowed: classic Redlock refuses spuriously (split
 *                           votes), and changes nothing
 *   release(t) -> OK        only if t is the owner; frees
 *   release(t) -> unknown   (NO_QUORUM, or never answered) as OK or as nothing, at any time after
 * it began release(t) -> LOST      as unknown, but only if the validity was over by its end: a
 * majority did not have the key expiry of t             only if t is the owner, at `until` as last
 * moved or after LOST, or later, or never; frees
 *
 * A crash frees nothing: what the crashed client held is taken until it expires. An acquisition
 * that a crash cut off may have happened or not; choosing "not" never forbids anything, so it can
 * be left out.
 *
 * Why no search (Wing and Gong) is needed. A token is acquired once and freed at most once, so that
 * an order is a choice, for each token t, of a point a(t) in [ACQUIRE, ACQUIRED] and a point f(t)
 * where it is freed, such that the spans [a, f) of different tokens do not overlap. f(t) lies in a
 * window that starts at
 *   - RELEASE, if the release said OK: it must itself be what frees;
 *   - the first of `until`, LOST and RELEASE, as far as they came, if it said anything else, or
 *     never began;
 * and every span, whatever is chosen, contains the core [ACQUIRED, start of f's window). Spans
 * disjoint, hence cores disjoint; and cores disjoint, hence the choice a = ACQUIRED, f = start of
 * the window is an order (a core of no length is a point that must not lie inside another). So an
 * order exists exactly if the cores of different tokens do not overlap, and if no release says OK
 * to a client without a lock, or LOST while there is validity left. tests/sim/test_check_order.c
 * compares this with a search, on every small history that it draws.
 *
 * Where the list of members has changed since the lock was acquired, a release that says OK may
 * have found the key on nodes that are not members any more: it says nothing of a time after
 * validity.
 *
 * The core differs from EXCLUSION's interval: it goes on after a crash, and after the validity is
 * over when the release says that the lock was there all the same. EXCLUSION sees nothing of a
 * grant over the keys of a crashed holder, nor of a release that says OK to a client that was not
 * the owner any more.
 *
 * LOST from a release while validity is left is excused when something befell the keys on the way
 * there (the list of members, a key of the token lost, changed by others, a node's clock stepped or
 * false, or older data in the place of a node's), and when the release did delete a key: LOST says
 * that a majority had it not, and a node that is asked again because its answer was lost has it not
 * any more. What is left to be found is a release that passes the keys by.
 */
#include "judges.h"

#include <string.h>

#define NOWHERE SIZE_MAX

struct hold {
    bool open;
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
    size_t changed; /* the last record of another list of members; 0: none */
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
    bool same_members = order->changed <= hold->acquired;
    if (released != NULL && released->result == JUDGE_OK && same_members) return release_at;
    return hold->until < release_at ? hold->until : release_at;
}

static struct hold hold_from(const struct history_record *record, size_t index) {
    return (struct hold){.open = true,
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
        if (!meet(order, hold, end, i)) continue;
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

static bool befell(const struct order *order, const struct hold *hold, size_t until) {
    int resource = order->records[hold->acquired].resource;
    for (size_t i = 0; i < until; i++) {
        const struct history_record *record = &order->records[i];
        if (record->kind == HISTORY_NODE_MEMBERS && i > hold->acquired)
            return true; /* of more members a majority may not have had it */
        if (record->kind == HISTORY_NODE_CLOCK || record->kind == HISTORY_NODE_RATE) return true;
        if (record->kind == HISTORY_NODE_SPLIT || record->kind == HISTORY_NODE_OLD_ENDS)
            return true;
        if (record->kind == HISTORY_NODE_FAILOVER || record->kind == HISTORY_NODE_RESYNCED ||
            (record->kind == HISTORY_NODE_RESTART && record->value == 2))
            return true; /* an extension may be gone with what was lost, and the key ends as it
                            would have */
        if (record->resource != resource) continue;
        if (record->kind == HISTORY_KEY_FOREIGN) return true;
        if (record->token != hold->token) continue;
        if (record->kind == HISTORY_KEY_LOST ||
            (record->kind == HISTORY_KEY_DELETED && i > hold->release))
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
        !befell(order, hold, index)) {
        judge_found(
            order->report, CHECK_LINEARIZABLE, hold->acquired, index, record->at, hold->until,
            "%s's release of %s said at %s that it was lost, but its validity ran until %s and nothing had "
            "befallen its keys",
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
    if (record->kind == HISTORY_NODE_MEMBERS) order->changed = index;
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
