/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/policy.h"

#include <string.h>

/* ---- pauses ---- */

static rl_ns doubled(rl_ns pause) {
    if (pause == 0) return BACKOFF_MIN;
    return 2 * pause < BACKOFF_MAX ? 2 * pause : BACKOFF_MAX;
}

rl_ns backoff_next(struct backoff *backoff, uint32_t random) {
    backoff->pause = doubled(backoff->pause);
    return (rl_ns)((uint64_t)backoff->pause * random >> 32);
}

/* ---- readiness ---- */

void policy_init(struct policy *policy, unsigned nodes) {
    memset(policy, 0, sizeof *policy);
    policy->nodes = nodes;
    policy_changed(policy);
    for (unsigned i = 0; i < nodes; i++) {
        policy->node[i].verdict = REDLOCK_VERDICT_CONNECTING;
        policy->node[i].kept_at = RL_NEVER;
    }
}

static const struct net_call *first_of(const struct call_queue *queue) {
    return queue ? queue->head : NULL;
}

static bool is_overdue(const struct call_queue *queue, rl_ns now) {
    const struct net_call *first = first_of(queue);
    return first && first->due < now;
}

bool policy_is_ready(const struct policy *policy, unsigned node, rl_ns now) {
    const struct policy_node *at = &policy->node[node];
    return policy_takes(policy, node) && !is_overdue(at->calls, now) && !is_overdue(at->turn, now);
}

bool policy_is_settled(const struct policy *policy, unsigned node) {
    const struct policy_node *at = &policy->node[node];
    return (at->up && !at->again) || at->failed;
}

static void lasts_until(struct policy *policy, const struct call_queue *queue) {
    const struct net_call *first = first_of(queue);
    if (first) policy_awaits(policy, first->due);
}

/* Every step of every lock asks for this, mostly with the same answer. So the answer is kept until
 * a call becomes overdue, or policy_changed(). A call that is overdue already counts until it
 * leaves its queue (policy_taken()). */
rl_mask policy_find_readiness(struct policy *policy, rl_ns now) {
    policy->ready = policy->settled = 0;
    policy->known_until = RL_NEVER;
    for (unsigned i = 0; i < policy->nodes; i++) {
        if (policy_is_settled(policy, i)) policy->settled |= rl_bit(i);
        if (!policy_is_ready(policy, i, now)) continue;
        policy->ready |= rl_bit(i);
        lasts_until(policy, policy->node[i].calls);
        lasts_until(policy, policy->node[i].turn);
    }
    return policy->ready;
}

rl_mask policy_reports(struct policy *policy, rl_ns now) {
    rl_mask ready = policy_ready(policy, now), settled = policy_settled(policy);
    rl_mask changed = (ready ^ policy->reported_ready) | (settled ^ policy->reported_settled);
    policy->reported_ready = ready;
    policy->reported_settled = settled;
    return changed;
}

int policy_shown_verdict(const struct policy *policy, unsigned node, rl_ns now) {
    const struct policy_node *at = &policy->node[node];
    bool good = at->up && at->verdict == REDLOCK_VERDICT_GRANTED;
    return good && !policy_is_ready(policy, node, now) ? (int)REDLOCK_VERDICT_TIMEOUT : at->verdict;
}

static bool has_write(const struct call_queue *queue) {
    for (const struct net_call *call = first_of(queue); call; call = call->next)
        if (net_op_is_awaited(call->request->op)) return true;
    return false;
}

rl_mask policy_busy_writes(const struct policy *policy) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < policy->nodes; i++) {
        const struct policy_node *at = &policy->node[i];
        /* for memory, or for a connection that was not tried since the last one ended */
        const bool waits = at->kept.head && (at->up ? !at->leaving : !at->failed);
        if (at->writes > 0 || waits || has_write(at->turn)) mask |= rl_bit(i);
    }
    return mask;
}

/* ---- a connection's life ---- */

static bool may_wait(struct policy *policy, unsigned node, rl_ns now) {
    const struct policy_node *at = &policy->node[node];
    const rl_mask others = policy_ready(policy, now) & (rl_mask)~rl_bit(node);
    return policy->spread > 0 && !at->again && !at->kept.head &&
           rl_count(others) >= rl_quorum(policy->nodes);
}

rl_ns policy_pause(struct policy *policy, unsigned node, uint32_t random, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    if (!may_wait(policy, node, now)) return backoff_next(&at->backoff, random);
    policy->put_off |= rl_bit(node);
    return (rl_ns)((uint64_t)policy->spread * random >> 32);
}

rl_mask policy_needed(struct policy *policy, rl_ns now) {
    rl_mask needed = 0;
    for (unsigned i = 0; policy->put_off >> i; i++)
        if ((policy->put_off & rl_bit(i)) && !may_wait(policy, i, now)) needed |= rl_bit(i);
    policy->put_off &= (rl_mask)~needed;
    return needed;
}

rl_mask policy_hurry(struct policy *policy) {
    const rl_mask needed = policy->put_off;
    policy->put_off = 0;
    return needed;
}

static bool is_server(const struct policy_node *at, const char *run_id) {
    return at->up && run_id[0] != '\0' && strcmp(at->run_id, run_id) == 0;
}

int policy_listed_before(const struct policy *policy, unsigned node, const char *run_id) {
    for (unsigned i = 0; i < node; i++)
        if (is_server(&policy->node[i], run_id)) return (int)i;
    return -1;
}

rl_mask policy_listed_again(const struct policy *policy, unsigned node, const char *run_id) {
    rl_mask mask = 0;
    for (unsigned i = node + 1; i < policy->nodes; i++)
        if (is_server(&policy->node[i], run_id)) mask |= rl_bit(i);
    return mask;
}

static bool is_run_id(const struct policy_server *server, const char *run_id) {
    return strcmp(server->run_id, run_id) == 0;
}

bool policy_reached(struct policy *policy, unsigned node, const char *run_id, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    struct policy_server *place = &at->earlier[0];
    bool back = false;
    if (run_id[0] == '\0' || is_run_id(&at->reached, run_id)) return now < at->several_until;
    for (unsigned i = 0; i < POLICY_SERVERS && !back; i++) {
        struct policy_server *earlier = &at->earlier[i];
        back = is_run_id(earlier, run_id);
        if (back || earlier->left < place->left) place = earlier;
    }
    if (back && now - place->left < POLICY_COMES_BACK) at->several_until = now + POLICY_COMES_BACK;
    *place = at->reached;
    place->left = now;
    memcpy(at->reached.run_id, run_id, strlen(run_id) + 1);
    return now < at->several_until;
}

void policy_up(struct policy *policy, unsigned node, const char *run_id, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    memcpy(at->run_id, run_id, strlen(run_id) + 1);
    if (at->was_up) at->reconnects++;
    at->up = at->was_up = true;
    at->failed = false;
    at->verdict = REDLOCK_VERDICT_GRANTED;
    at->backoff.pause = 0;
    at->up_since = now;
    policy_tries(policy, node);
    policy_changed(policy);
}

void policy_leave(struct policy *policy, unsigned node) {
    policy->node[node].leaving = true;
    policy_changed(policy);
}

void policy_again(struct policy *policy, unsigned node) {
    policy->node[node].again = true;
    policy_leave(policy, node);
}

void policy_down(struct policy *policy, unsigned node, int verdict) {
    struct policy_node *at = &policy->node[node];
    bool was_good = at->verdict == REDLOCK_VERDICT_GRANTED;
    at->failed = !was_good || verdict == REDLOCK_VERDICT_TWICE_LISTED;
    at->up = at->leaving = at->again = false;
    at->verdict = verdict;
    at->writes = 0;
    at->tracking_refused = false; /* the next server behind this address is asked again */
    at->tracking_backoff.pause = 0;
    policy_changed(policy);
}

bool policy_refuse(struct policy *policy, unsigned node, int verdict, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    if (at->leaving) return false;
    if (at->up) {
        if (now - at->up_since > BACKOFF_FORGIVEN) at->refused_pause = 0;
        at->backoff.pause = at->refused_pause;
        at->refused_pause = doubled(at->refused_pause);
    }
    at->verdict = verdict;
    return true;
}

/* ---- a fresh connection ---- */

static rl_ns first_due(const struct call_queue *queue) {
    const struct net_call *first = first_of(queue);
    return first ? first->due : RL_NEVER;
}

rl_ns policy_fresh_at(const struct policy *policy, unsigned node, rl_ns now) {
    const struct policy_node *at = &policy->node[node];
    if (!at->up || at->leaving) return RL_NEVER;
    const rl_ns calls = first_due(at->calls), turn = first_due(at->turn);
    const rl_ns due = calls < turn ? calls : turn;
    const bool forgotten = now - at->tried_at > PATIENCE_FORGOTTEN;
    return due == RL_NEVER || forgotten ? due : due + at->patience;
}

void policy_fresh_tried(struct policy *policy, unsigned node, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    if (now - at->tried_at > PATIENCE_FORGOTTEN) at->patience = 0;
    if (now - at->tried_at > BACKOFF_FORGIVEN) at->fresh_backoff.pause = 0;
    at->tried_at = now;
    at->heard_before = at->heard;
    at->turn_heard_before = at->turn_heard;
}

bool policy_fresh_goes_on(const struct policy *policy, unsigned node, rl_ns now) {
    const struct policy_node *at = &policy->node[node];
    const bool silent = first_due(at->calls) <= now && at->heard == at->heard_before;
    const bool turn_silent = first_due(at->turn) <= now && at->turn_heard == at->turn_heard_before;
    return at->up && !at->leaving && (silent || turn_silent);
}

void policy_fresh_beaten(struct policy *policy, unsigned node) {
    policy->node[node].patience = doubled(policy->node[node].patience);
}

bool policy_takes_over(const struct policy *policy, unsigned node, const char *run_id, rl_ns now) {
    return policy_fresh_goes_on(policy, node, now) &&
           policy_listed_before(policy, node, run_id) < 0 &&
           policy_listed_again(policy, node, run_id) == 0;
}

/* ---- calls ---- */

struct net_call *policy_answered(struct policy *policy, struct call_queue *calls) {
    struct net_call *call = calls_pop(calls);
    if (!call) return NULL;
    policy->node[call->node].writes -= net_op_is_awaited((enum net_op)call->op);
    policy_heard(policy, call->node);
    policy_taken(policy, call->node);
    return call;
}

int policy_verdict(const struct net_call *call, int verdict) {
    bool not_found = verdict == REDLOCK_VERDICT_ABSENT || verdict == REDLOCK_VERDICT_DENIED;
    if (not_found && (call->state & CALL_SENT_BEFORE)) return REDLOCK_VERDICT_DISCONNECTED;
    return verdict;
}

void policy_start_again(struct net_call *call, rl_ns now) {
    if (call->due < now) call->due = now - 1;
}

bool policy_is_stalled(const struct net_call *first, rl_ns now, rl_ns stall_timeout) {
    return first && now >= first->due + stall_timeout;
}

rl_ns policy_deadline(const struct net_call *first, rl_ns armed, rl_ns fresh_at, rl_ns now,
                      rl_ns stall_timeout) {
    if (policy_looks_in_time(first, armed)) return armed;
    if (first->due > now) return first->due;
    const rl_ns stalls_at = first->due + stall_timeout;
    return fresh_at > now && fresh_at < stalls_at ? fresh_at : stalls_at;
}

/* ---- kept releases ---- */

/* A search for releases that end looks at all of them: the more there are, the longer the pause
 * until the next search. A release that is kept a little too long does no harm. */
#define KEPT_CHECK_PAUSE                                                                           \
    (2 * RL_MS / 1000) /* for each release; looking at one takes a few hundredths of that */

static void look_next(struct policy_node *at, rl_ns now) {
    at->kept_at = RL_NEVER;
    at->kept_look_at = now;
    for (const struct net_call *call = at->kept.head; call; call = call->next) {
        if (call->keep_until < at->kept_at) at->kept_at = call->keep_until;
        at->kept_look_at += KEPT_CHECK_PAUSE;
    }
    if (at->kept_at < at->kept_look_at) at->kept_at = at->kept_look_at;
}

static void look_for(struct policy_node *at, const struct net_call *call) {
    rl_ns when = call->keep_until > at->kept_look_at ? call->keep_until : at->kept_look_at;
    if (when < at->kept_at) at->kept_at = when;
}

bool policy_keeps(const struct net_call *call, rl_ns now) {
    return net_op_is(call->request->op, NET_OP_KEPT) && call->keep_until > now;
}

void policy_keep(struct policy *policy, unsigned node, struct net_call *call) {
    struct policy_node *at = &policy->node[node];
    calls_push(&at->kept, call);
    look_for(at, call);
    policy_changed(policy);
}

struct call_queue policy_expire(struct policy *policy, unsigned node, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    struct call_queue all = at->kept, over = {.head = NULL};
    struct net_call *call;
    at->kept = (struct call_queue){.head = NULL};
    while ((call = calls_pop(&all))) calls_push(policy_keeps(call, now) ? &at->kept : &over, call);
    look_next(at, now);
    policy_changed(policy);
    return over;
}

/* Earlier calls stay before releases that were kept later. */
struct call_queue policy_lose(struct policy *policy, unsigned node, struct call_queue *lost,
                              rl_ns now) {
    struct policy_node *at = &policy->node[node];
    struct call_queue kept = {.head = NULL}, over = {.head = NULL};
    struct net_call *call;
    while ((call = calls_pop(lost))) {
        call->state = CALL_SENT_BEFORE;
        calls_push(policy_keeps(call, now) ? &kept : &over, call);
    }
    calls_append(&kept, &at->kept);
    at->kept = kept;
    look_next(at, now);
    policy_changed(policy);
    return over;
}

struct net_call *policy_take_kept(struct policy *policy, unsigned node, rl_ns now) {
    struct policy_node *at = &policy->node[node];
    struct net_call *call = calls_pop(&at->kept);
    if (call) policy_start_again(call, now);
    if (!at->kept.head) at->kept_at = RL_NEVER;
    policy_changed(policy);
    return call;
}

void policy_put_back(struct policy *policy, unsigned node, struct net_call *call) {
    struct policy_node *at = &policy->node[node];
    call->next = at->kept.head;
    at->kept.head = call;
    if (!call->next) at->kept.tail = call;
    look_for(at, call);
    policy_changed(policy);
}

/* ---- being notified of changes ---- */

rl_ns policy_track(struct policy *policy, bool on, rl_ns now) {
    policy->caller_waits = on;
    return on ? RL_NEVER : now + TRACKING_LINGER;
}

bool policy_track_end(struct policy *policy) {
    for (unsigned i = 0; i < policy->nodes && !policy->caller_waits; i++) {
        policy->node[i].tracking_live = false;
        policy->node[i].tracking_backoff.pause = 0;
    }
    return !policy->caller_waits;
}

rl_mask policy_tracked(const struct policy *policy) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < policy->nodes && policy->caller_waits; i++)
        if (policy->node[i].tracking_live) mask |= rl_bit(i);
    return mask;
}

void policy_tracking_live(struct policy *policy, unsigned node) {
    policy->node[node].tracking_live = true;
    policy->node[node].tracking_backoff.pause = 0;
}

bool policy_tracking_lost(struct policy *policy, unsigned node) {
    bool was_live = policy->node[node].tracking_live;
    policy->node[node].tracking_live = false;
    return was_live;
}

bool policy_tracking_refused(struct policy *policy, unsigned node, int verdict) {
    bool for_good = verdict == REDLOCK_VERDICT_NOPERM || verdict == REDLOCK_VERDICT_ERROR;
    if (for_good) policy->node[node].tracking_refused = true;
    return for_good;
}
