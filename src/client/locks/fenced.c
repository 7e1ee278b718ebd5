/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What differs for locks of guarded mode: the contents of their requests, and an extension during
 * which a record has changed. vote.c has the meaning of the answers. */
#include <string.h>

#include "client/guarding/guarding.h"
#include "lock.h"

/* ---- keys and their stripes ---- */

static void choose_stripes(struct redlock_lock *lock) {
    struct fenced *fenced = lock_fenced(lock);
    fenced->stripes_count = 0;
    for (size_t i = 0; i < lock->keys_count; i++) {
        uint16_t stripe = fenced_stripe(lock->keys[i]);
        size_t at = 0;
        while (at < fenced->stripes_count && fenced->stripes[at] != stripe) at++;
        fenced->stripes[at] = stripe;
        if (at == fenced->stripes_count) fenced->stripes_count++;
    }
}

/* ---- requests ---- */

static void carry_fences(struct net_request *request, const struct round *round) {
    const struct slots *slots = slots_of(round->lock);
    const struct fenced *fenced = lock_fenced(round->lock);
    request->nonces = round->nonces;
    request->stripes = fenced->stripes;
    request->stripes_count = fenced->stripes_count;
    if (!slots) return;
    const bool all = request->op == NET_ACQUIRE_SLOT;
    request->stripes = all ? slots->stripes : &slots->stripes[slots->held ? slots->held - 1 : 0];
    request->stripes_count = all ? slots->count : 1;
}

/* `repair` and `again` are seldom needed, and are written when they are sent. */
static void round_carry(struct round *round) {
    unsigned nodes = round->lock->config->terms.nodes;
    round->repair = (struct net_request *)(void *)&round->calls[3 * nodes];
    round->again = round->repair + 1;
    round->nonces = (uint64_t *)(void *)(round->again + nodes);
    memset(round->nonces, 0, nodes * sizeof round->nonces[0]);
    carry_fences(&round->acquire, round);
    carry_fences(&round->extend, round);
    if (round->slots) carry_fences(&round->slots->choose, round);
}

/* A node is asked under the nonce that is known now. A confirmation is about the vote, so it uses
 * the vote's nonce, and goes only to nodes where that is still the record: a promoted copy with the
 * same names may be behind that address by now. */
static void send_votes(struct redlock_lock *lock, rl_mask nodes, struct net_request *request,
                       rl_ns now) {
    const struct guard *guard = lock->client->guard;
    for (unsigned i = 0; i < lock->config->terms.nodes; i++)
        if (nodes & rl_bit(i)) round_now(lock)->nonces[i] = guard->nonces[i];
    lock_send(lock, nodes, request, round_now(lock)->calls, now);
}

/* Each request keeps the nonces and the fence that it was sent with, because it may be encoded
 * again while it is under way. */
static void send_again(struct redlock_lock *lock, enum net_op op, rl_mask nodes, int64_t fence,
                       rl_ns now) {
    const struct redlock_client *client = lock->client;
    for (unsigned i = 0; i < lock->config->terms.nodes; i++) {
        struct net_request *request = &round_now(lock)->again[i];
        if (!(nodes & rl_bit(i))) continue;
        *request = round_now(lock)->acquire;
        request->op = op;
        request->fence = fence;
        if (!slots_of(lock))
            request->waiter = (struct net_bytes){NULL, 0};
        else if (op != NET_ACQUIRE_SLOT)
            request->keys = lock_keys(lock, &request->keys_count);
        carry_fences(request, round_now(lock));
        if (lock_reads(lock)) request->op = op == NET_RAISE ? NET_SHARE : NET_SHARE_EXTEND;
        if (lock->phase == PHASE_LEASED) request->ttl_ms = round_now(lock)->extend.ttl_ms;
        if (op == NET_RAISE || op == NET_ACQUIRE_SLOT)
            send_votes(lock, rl_bit(i), request, now);
        else if ((client->voters & rl_bit(i)) &&
                 client->guard->nonces[i] == round_now(lock)->nonces[i])
            lock_send(lock, rl_bit(i), request, round_now(lock)->calls, now);
        else
            lock->extra->unsent |= rl_bit(i);
    }
}

static bool park(struct redlock_lock *lock, unsigned node);

static void park_all(struct redlock_lock *lock, rl_mask nodes) {
    for (unsigned i = 0; nodes >> i; i++)
        if ((nodes & rl_bit(i)) && !park(lock, i)) lock->extra->unsent |= rl_bit(i);
}

/* For an adopted lock. */
static void send_raise(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    const rl_mask voters = lock->client->voters;
    guard_proposed_fence(lock->client->guard, actions->fence);
    send_again(lock, NET_RAISE, actions->raise & voters, actions->fence, now);
    park_all(lock, actions->raise & (rl_mask)~voters);
}

/* A lease must not outlast the wait of a recovering node, whatever the quorum's ttl_max was when
 * the lock began. */
static void send_extension(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    const rl_mask voters = lock->client->voters;
    fenced_unpark(lock);
    round_now(lock)->extend.fence = lock_fence(lock);
    if (slots_of(lock)) carry_fences(&round_now(lock)->extend, round_now(lock));
    if (guard_ttl_too_long(lock->client->guard, round_now(lock)->extend.ttl_ms)) {
        lock->extra->unsent |= actions->extend;
        return;
    }
    send_votes(lock, actions->extend & voters, &round_now(lock)->extend, now);
    park_all(lock, actions->extend & (rl_mask)~voters);
}

static void send_late_extension(struct redlock_lock *lock, const struct rl_actions *actions,
                                rl_ns now) {
    const rl_mask nodes = actions->catch_up & lock->client->voters;
    round_now(lock)->extend.fence = lock_fence(lock);
    if (slots_of(lock)) carry_fences(&round_now(lock)->extend, round_now(lock));
    lock->extra->unsent |= actions->catch_up & (rl_mask)~nodes;
    send_votes(lock, nodes, &round_now(lock)->extend, now);
}

static void send_all_votes(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    struct round *round = round_now(lock);
    if (actions->acquire && actions->slot != 0) {
        send_again(lock, NET_ACQUIRE_SLOT, actions->acquire, actions->fence, now);
    } else if (actions->acquire) {
        struct net_request *request =
            slots_of(lock) ? slots_request(lock, actions) : &round->acquire;
        request->fence = actions->fence;
        guard_proposed_fence(lock->client->guard, actions->fence);
        send_votes(lock, actions->acquire, request, now);
    }
    lock_send(lock, actions->repair, round->repair, round->calls, now);
    if (actions->extend) send_extension(lock, actions, now);
    if (actions->catch_up) send_late_extension(lock, actions, now);
    if (actions->raise && lock->phase == PHASE_LEASED)
        send_raise(lock, actions, now);
    else if (actions->raise)
        send_again(lock, NET_RAISE, actions->raise, actions->fence, now);
    if (actions->confirm) send_again(lock, NET_CONFIRM, actions->confirm, actions->fence, now);
}

/* ---- steps ---- */

static void prepare_event(struct redlock_lock *lock, struct rl_event *event) {
    struct guard *guard = lock->client->guard;
    lock->config->terms.quorum = (uint8_t)guard->machine.votes_needed;
    lock->config->terms.ttl_max = guard_ttl_max_ms(guard) * RL_MS;
    /* An extension also goes to a node whose record is being read again: it waits until that read
     * is done. */
    if (lock->phase == PHASE_LEASED && guard->reread)
        event->ready |= guard->reread & net_ready(lock->client->net, net_now(lock->client->net));
    bool round_open = lock->phase == PHASE_LEASED && lock->lease.round_open;
    /* A node that was voided since the round began gave its vote as an incarnation, or in an epoch,
     * that has ended. */
    event->voided = round_open ? guard_voided_since(guard, lock->lease.round_t1) : guard->voided;
    event->foreign = guard->foreign;
    if (lock->phase == PHASE_ACQUIRING || lock_adopts(lock))
        event->fence_hint = guard_fence_hint(guard);
    if (lock->phase != PHASE_ACQUIRING) return;
    if (guard_ttl_too_long(guard, lock->config->options.ttl_ms))
        lock->extra->acquisition->abort_result = REDLOCK_TTL_MAX_EXCEEDED;
}

static void won(struct redlock_lock *lock, int64_t fence) {
    lock_fenced(lock)->fence = fence;
    guard_saw_fence(lock->client->guard, fence);
}

/* ---- answers ---- */

/* Also used for a node that the lock no longer waits for. */
static void learn(const struct round *round, const struct net_call *call,
                  const struct net_reply *reply) {
    struct guard *guard = round->lock->client->guard;
    if (round->lock->client->closing) return;
    if (reply->verdict == REDLOCK_VERDICT_STALE) guard_saw_fence(guard, reply->fence);
    /* A fence that was not raised may be higher there, or gone. A lock that raises it again learns
     * which. A lock that wins without this node does not ask, so the node would never be
     * recovered. */
    bool unreported = reply->verdict == REDLOCK_VERDICT_STALE &&
                      (call->request->op == NET_ACQUIRE || call->request->op == NET_ACQUIRE_SLOT);
    if (unreported) guard_peek(guard, call->node);
    if (reply->verdict == REDLOCK_VERDICT_RECOVERING)
        guard_no_fences(guard, call->node, round->nonces[call->node]);
}

static bool in_round(const struct redlock_lock *lock, rl_ns t1) {
    return lock->phase == PHASE_LEASED && lock->lease.round_open && lock->lease.round_t1 == t1;
}

/* The record has changed during an extension, as it does when another member comes back. Most
 * likely the node still votes. So its answer is only late, not lost. */
static bool park(struct redlock_lock *lock, unsigned node) {
    struct redlock_client *client = lock->client;
    const struct rl_guard_node *at = &client->guard->machine.node[node];
    if (lock->phase != PHASE_LEASED || !lock->lease.round_open) return false;
    /* an answer of an earlier round */
    if (!(rl_tally_pending(&lock->lease.work->round) & rl_bit(node))) return false;
    if (!at->up ||
        (at->eligibility != RL_ELIGIBILITY_UNKNOWN && at->eligibility != RL_ELIGIBILITY_INTACT))
        return false;
    struct extra *extra = lock->extra; /* its round is open */
    guard_hurry(client);
    extra->parked |= rl_bit(node);
    extra->parked_t1 = lock->lease.round_t1;
    lock_verdicts(lock)[node] = REDLOCK_VERDICT_TIMEOUT; /* until its record is read */
    if (extra->parked_at) return true;
    extra->parked_next = client->locks->parked;
    extra->parked_at = &client->locks->parked;
    if (extra->parked_next) extra->parked_next->extra->parked_at = &extra->parked_next;
    client->locks->parked = lock;
    return true;
}

void fenced_unpark(struct redlock_lock *lock) {
    struct extra *extra = lock->extra;
    if (!extra || !extra->parked_at) return;
    *extra->parked_at = extra->parked_next;
    if (extra->parked_next) extra->parked_next->extra->parked_at = extra->parked_at;
    extra->parked_at = NULL;
    extra->parked = 0;
}

/* What the node was asked last. */
static void ask_again(struct redlock_lock *lock, rl_mask nodes) {
    const rl_ns now = net_now(lock->client->net);
    const rl_mask raises = lock_adopts(lock) ? nodes & lock->lease.work->extended : 0;
    send_votes(lock, nodes & (rl_mask)~raises, &round_now(lock)->extend, now);
    if (raises) send_again(lock, NET_RAISE, raises, lock->lease.fence, now);
}

/* Uses the present knowledge of the nodes: the request goes out again, or counts as failed. */
static void resume(struct redlock_lock *lock) {
    const struct rl_guard *machine = &lock->client->guard->machine;
    struct extra *extra = lock->extra;
    const rl_ns t1 = extra->parked_t1;
    rl_mask again = 0, failed = 0;
    for (unsigned i = 0; i < lock->config->terms.nodes; i++) {
        const struct rl_guard_node *node = &machine->node[i];
        if (!(extra->parked & rl_bit(i)) ||
            (node->up && node->eligibility == RL_ELIGIBILITY_UNKNOWN))
            continue;
        if (node->up && node->eligibility == RL_ELIGIBILITY_INTACT)
            again |= rl_bit(i);
        else
            failed |= rl_bit(i);
        if (failed & rl_bit(i)) lock_verdicts(lock)[i] = REDLOCK_VERDICT_RECOVERING;
    }
    extra->parked &= (rl_mask) ~(again | failed);
    /* The record that was read meanwhile may allow less. Under its nonce the extension would count,
     * and last longer than a recovering node waits. */
    if (guard_ttl_too_long(lock->client->guard, round_now(lock)->extend.ttl_ms)) {
        failed |= again;
        again = 0;
    }
    if (extra->parked == 0) fenced_unpark(lock);
    /* First the present knowledge: the round may have ended, and the next one may have asked these
     * nodes, or parked them again. */
    lock_step(lock, (struct rl_event){.type = RL_EVENT_NODES});
    if (!in_round(lock, t1)) return;
    if (again) ask_again(lock, again);
    struct rl_event vote = {.type = RL_EVENT_VOTE, .vote = RL_VOTE_FAILED};
    for (; failed >> vote.node && in_round(lock, t1); vote.node++)
        if (failed & rl_bit(vote.node)) lock_step(lock, vote);
    if (extra_of(lock)->unsent && lock->phase != PHASE_FREE)
        lock_step(lock, (struct rl_event){.type = RL_EVENT_NODES});
}

void locks_resume(struct redlock_client *client) {
    struct redlock_lock *next;
    for (struct redlock_lock *lock = client->locks->parked; lock; lock = next) {
        next = lock->extra->parked_next; /* a step of one lock unparks no other */
        if (in_round(lock, lock->extra->parked_t1))
            resume(lock);
        else
            fenced_unpark(lock);
    }
}

static void answer(struct round *round, const struct net_call *call,
                   const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    int verdict;
    learn(round, call, reply);
    if (round_now(lock) != round || lock->phase == PHASE_FREE) return;
    const struct rl_event event = guarded_vote(lock, call, reply, &verdict);
    if (verdict == REDLOCK_VERDICT_RECOVERING && call_extends(call) && park(lock, call->node))
        resume(lock); /* the record may have been read already, for another lock */
    else
        lock_step(lock, event);
}

/* ---- the caller's extensions, and tokens from elsewhere ---- */

/* Renewals that follow keep to ttl_max by themselves. */
static int may_extend(const struct redlock_lock *lock, int64_t ttl_ms) {
    if (lock_fence(lock) == 0) return REDLOCK_BAD_ARGUMENT;
    bool too_long = guard_ttl_too_long(lock->client->guard, ttl_ms);
    return too_long ? REDLOCK_TTL_MAX_EXCEEDED : REDLOCK_OK;
}

static int adopt(struct redlock_lock *lock, int64_t fence) {
    if (!guard_fence_plausible(lock->client->guard, fence)) return REDLOCK_BAD_ARGUMENT;
    lock_fenced(lock)->fence = fence;
    return REDLOCK_OK;
}

const struct lock_mode guarded_locks = {
    .fenced = true,
    .round_bytes = sizeof(struct net_request),                         /* repair, ... */
    .round_bytes_each = sizeof(struct net_request) + sizeof(uint64_t), /* ... again, nonces */
    .choose_stripes = choose_stripes,
    .round_carry = round_carry,
    .event = prepare_event,
    .send_votes = send_all_votes,
    .won = won,
    .answer = answer,
    .may_extend = may_extend,
    .adopt = adopt,
};
