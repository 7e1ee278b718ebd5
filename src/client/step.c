/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Between the protocol's machines and the connections: an event goes in, its actions are carried out,
 * a node's answer comes back as the next event. One sample of the clock a step.
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* ---- rounds: what was sent with one token ---- */

static struct net_call *vote_call(struct round *round, unsigned node) { return &round->calls[node]; }
static struct net_call *unlock_calls(struct round *round) { return &round->calls[round->lock->terms.nodes]; }
static struct net_call *peek_calls(struct round *round) { return &round->calls[2 * round->lock->terms.nodes]; }

static void request_init(struct net_request *request, enum net_op op, struct redlock_lock *lock, struct round *round) {
    *request = (struct net_request){
        .op = op,
        .keys = lock->keys,
        .keys_count = lock->keys_count,
        .token = {round->token, round->token_bytes},
        .ttl_ms = lock->options.ttl_ms,
    };
}

static struct round *round_new(struct redlock_lock *lock) {
    unsigned nodes = lock->terms.nodes;
    size_t fenced = lock->client->guard ? fenced_bytes(nodes) : 0;
    struct round *round = calloc(1, sizeof *round + 3 * nodes * sizeof round->calls[0] + fenced);
    if (!round) return NULL;
    round->lock = lock;
    round->refs = 1;
    lock->refs++;
    for (unsigned i = 0; i < 3 * nodes; i++) {
        round->calls[i].owner = round;
        round->calls[i].tag = (uint8_t)(i < nodes ? CALL_VOTE : i < 2 * nodes ? CALL_UNLOCK : CALL_PEEK);
    }
    return round;
}

/* Once per token: the requests point at the round's own copy. */
static void round_ready(struct redlock_lock *lock, struct round *round) {
    request_init(&round->acquire, NET_ACQUIRE, lock, round);
    request_init(&round->extend, NET_EXTEND, lock, round);
    request_init(&round->release, NET_RELEASE, lock, round);
    request_init(&round->peek, NET_PEEK, lock, round);
    if (lock->client->guard) fenced_round(round);
}

static void round_unref(struct round *round) {
    if (--round->refs > 0) return;
    struct redlock_lock *lock = round->lock;
    free(round);
    lock_unref(lock);
}

void lock_drop_round(struct redlock_lock *lock) {
    struct round *round = lock->round;
    lock->round = NULL;
    if (round) round_unref(round);
}

/* 20 random bytes in hexadecimal, then the owner: the form that other clients' scripts compare as bytes. */
static bool draw_token(struct redlock_lock *lock, struct round *round) {
    unsigned char random[REDLOCK_TOKEN_HEX_BYTES / 2];
    if (net_random(lock->client->net, random, sizeof random) != 0) return false;
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof random; i++) {
        round->token[2 * i] = (unsigned char)digits[random[i] >> 4];
        round->token[2 * i + 1] = (unsigned char)digits[random[i] & 15];
    }
    round->token_bytes = REDLOCK_TOKEN_HEX_BYTES;
    if (lock->options.owner_bytes > 0) {
        round->token[round->token_bytes++] = ':';
        memcpy(round->token + round->token_bytes, lock->options.owner, lock->options.owner_bytes);
        round->token_bytes += (unsigned)lock->options.owner_bytes;
    }
    return true;
}

/* A round that nobody else holds on to is used again, so that a lock taken again and again allocates nothing. */
int lock_fresh_round(struct redlock_lock *lock, const void *token, size_t bytes) {
    if (lock->round && lock->round->refs > 1) lock_drop_round(lock);
    if (!lock->round) lock->round = round_new(lock);
    if (!lock->round) return REDLOCK_NO_MEMORY;
    if (token) {
        memmove(lock->round->token, token, bytes); /* it may be its own, after redlock_lock_disown() */
        lock->round->token_bytes = (unsigned)bytes;
    } else if (!draw_token(lock, lock->round)) {
        lock_drop_round(lock); /* its requests say nothing yet, or name an old token */
        return REDLOCK_SYSTEM;
    }
    round_ready(lock, lock->round);
    return REDLOCK_OK;
}

/* ---- carrying out actions ---- */

static int result_of(enum rl_outcome outcome) {
    switch (outcome) {
    case RL_OUTCOME_OK: return REDLOCK_OK;
    case RL_OUTCOME_HELD: return REDLOCK_HELD;
    case RL_OUTCOME_EXPIRED: return REDLOCK_EXPIRED;
    case RL_OUTCOME_LOST: return REDLOCK_LOST;
    case RL_OUTCOME_CANCELLED: return REDLOCK_CANCELLED;
    case RL_OUTCOME_LIMIT: return REDLOCK_LIMIT;
    case RL_OUTCOME_NONE:
    case RL_OUTCOME_NO_QUORUM: break;
    }
    return REDLOCK_NO_QUORUM;
}

void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request, struct net_call *calls, rl_ns now) {
    if (!nodes) return;
    struct net *net = lock->client->net;
    bool release = request->op == NET_RELEASE;
    /* A key of ours can outlive its SET by one TTL at most: so long a release is worth keeping. */
    rl_mask taken = net_send(net, nodes, request, calls, now + lock->terms.node_timeout, release ? now + lock->terms.ttl : now);
    for (unsigned i = 0; i < lock->terms.nodes; i++) lock->round->refs += (unsigned)(taken >> i) & 1u;
    if (request->op == NET_PEEK) return;
    if (release) lock->unsent_release |= (rl_mask)(nodes & ~taken);
    else lock->unsent |= (rl_mask)(nodes & ~taken);
}

/* A new round of votes: whoever is not asked says why, the others have not answered yet. */
static void verdicts_open(struct redlock_lock *lock, rl_mask asked, rl_ns now) {
    for (unsigned i = 0; i < lock->terms.nodes; i++) {
        if (asked & rl_bit(i)) {
            lock->verdicts[i] = REDLOCK_VERDICT_NONE;
            continue;
        }
        struct net_node_status status;
        net_node(lock->client->net, i, now, &status);
        int verdict = client_verdict(lock->client, i, status.verdict);
        lock->verdicts[i] = verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : verdict;
    }
}

/* A round that ended at its deadline counts the silent nodes as failed; one that was decided earlier does not. */
static void verdicts_close(struct redlock_lock *lock, const struct rl_tally *tally) {
    for (unsigned i = 0; i < lock->terms.nodes; i++) {
        if (lock->verdicts[i] == REDLOCK_VERDICT_NONE && (tally->failed & rl_bit(i)))
            lock->verdicts[i] = REDLOCK_VERDICT_TIMEOUT;
    }
}

static void carry_out_sends(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    if (actions->fresh_token) {
        int result = lock->abort_result != REDLOCK_OK ? lock->abort_result : lock_fresh_round(lock, NULL, 0);
        if (result != REDLOCK_OK) {
            lock->abort_result = result;
            lock->unsent |= actions->acquire;
            return;
        }
        lock->client->stats.attempts++;
    }
    if (actions->acquire) verdicts_open(lock, actions->acquire, now);
    if (actions->extend) verdicts_open(lock, actions->extend, now);
    if (!lock->round) { /* no memory for one: nothing was sent with it */
        lock->unsent_release |= actions->release;
        return;
    }
    struct round *round = lock->round;
    if (actions->extend) round->extend.ttl_ms = (actions->extend_ttl + RL_MS - 1) / RL_MS;
    if (lock->client->guard) {
        fenced_votes(lock, actions, now);
    } else {
        lock_send(lock, actions->acquire | actions->repair, &round->acquire, round->calls, now);
        lock_send(lock, actions->extend, &round->extend, round->calls, now);
    }
    if (actions->release && lock->phase == PHASE_RELEASING) verdicts_open(lock, actions->release, now);
    lock_send(lock, actions->release, &round->release, unlock_calls(round), now);
    lock_send(lock, actions->peek, &round->peek, peek_calls(round), now);
}

static void op_finish(struct redlock_lock *lock, struct op *op, int result) {
    if (!op->active) return;
    op->active = false;
    op->finished = true;
    op->result = result;
    if (op->waiter) {
        waiter_finish(op->waiter);
        lock->client->finished = true;
    } else if (op->done) {
        client_tell(lock->client, lock);
    }
}

static void notice(struct redlock_lock *lock, unsigned notices) {
    static const struct {
        enum rl_notice notice;
        enum redlock_change change;
    } map[] = {{RL_NOTICE_RENEWED, REDLOCK_CHANGE_RENEWED},
               {RL_NOTICE_UNSURE, REDLOCK_CHANGE_UNSURE},
               {RL_NOTICE_SURE, REDLOCK_CHANGE_SURE},
               {RL_NOTICE_LOST, REDLOCK_CHANGE_LOST}};
    if (notices & RL_NOTICE_LOST) lock->client->stats.lost++;
    if (notices & RL_NOTICE_RENEWED) lock->client->stats.extensions++;
    if (notices & RL_NOTICE_UNSURE) lock->client->stats.extensions_failed++;
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (notices & (unsigned)map[i].notice) lock->changes |= 1u << map[i].change;
    }
    if (lock->changes && lock->options.on_change) client_tell(lock->client, lock);
}

void lease_begin(struct redlock_lock *lock, rl_ns validity_end, rl_mask asked) {
    const struct redlock_lock_options *o = &lock->options;
    const struct rl_lease_rules rules = {
        .renew_every = o->renew ? o->renew_interval_ms * RL_MS : 0,
        .hold_max = o->hold_ms_max * RL_MS,
        .renewals_max = o->renew_count_max,
        .lost_margin = o->lost_margin_ms * RL_MS,
    };
    rl_lease_init(&lock->lease, &lock->terms, &rules);
    lock->phase = PHASE_LEASED;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_START, .validity_end = validity_end, .asked = asked});
}

static void count_votes(struct redlock_lock *lock) {
    struct redlock_stats *stats = &lock->client->stats;
    const struct rl_tally *tally = &lock->acquire.attempt.tally;
    stats->votes_granted += rl_count(tally->granted);
    stats->votes_denied += rl_count(tally->denied);
    stats->votes_lost += rl_count(tally->failed);
}

static void acquisition_over(struct redlock_lock *lock, enum rl_outcome outcome) {
    acquiring_remove(lock);
    if (outcome == RL_OUTCOME_OK) {
        lock->client->stats.acquired++;
        if (lock->client->guard) fenced_won(lock);
        lease_begin(lock, lock->acquire.attempt.validity_end, lock->acquire.attempt.tally.asked);
        op_finish(lock, &lock->op, REDLOCK_OK);
        return;
    }
    lock->phase = PHASE_FREE;
    lock_drop_round(lock);
    op_finish(lock, &lock->op, lock->abort_result != REDLOCK_OK ? lock->abort_result : result_of(outcome));
}

static void release_over(struct redlock_lock *lock, enum rl_outcome outcome) {
    verdicts_close(lock, &lock->lease.unlocking);
    lock->phase = PHASE_FREE;
    lock->client->stats.released += outcome == RL_OUTCOME_OK;
    op_finish(lock, &lock->extension, REDLOCK_LOST);
    op_finish(lock, &lock->op, result_of(outcome));
}

static void carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    carry_out_sends(lock, actions, now);
    net_timer_set(lock->client->net, &lock->timer, actions->wake_at);
    notice(lock, actions->notices);
    if (actions->extend_outcome != RL_OUTCOME_NONE) {
        if (lock->lease.round.asked) verdicts_close(lock, &lock->lease.round);
        if (actions->extend_outcome == RL_OUTCOME_OK) lock->client->stats.extensions++;
        else lock->client->stats.extensions_failed++;
        op_finish(lock, &lock->extension, result_of(actions->extend_outcome));
    }
    if (actions->outcome == RL_OUTCOME_NONE) return;
    if (lock->phase == PHASE_ACQUIRING) acquisition_over(lock, actions->outcome);
    else release_over(lock, actions->outcome);
}

static void step_acquire(struct redlock_lock *lock, const struct rl_event *event, rl_ns now, struct rl_actions *actions) {
    enum rl_attempt_state before = lock->acquire.attempt.state;
    uint32_t tries = lock->acquire.tries;
    rl_acquire_step(&lock->acquire, event, now, actions);
    enum rl_attempt_state after = lock->acquire.attempt.state;
    bool was_open = before == RL_ATTEMPT_VOTING || before == RL_ATTEMPT_CONFIRMING;
    bool over = was_open && (after == RL_ATTEMPT_WON || after == RL_ATTEMPT_LOST);
    if (over && after == RL_ATTEMPT_LOST) verdicts_close(lock, &lock->acquire.attempt.tally);
    if (over) count_votes(lock);
    if (tries > 0 && lock->acquire.tries > tries) lock->client->stats.retries++;
    /* Given up before anyone was asked: the report says why of those that could not be. */
    if (lock->acquire.tries > tries && !actions->acquire) verdicts_open(lock, event->ready, now);
}

static void step_lease(struct redlock_lock *lock, const struct rl_event *event, rl_ns now, struct rl_actions *actions) {
    rl_ns t1 = lock->lease.round_t1;
    rl_lease_step(&lock->lease, event, now, actions);
    if (lock->lease.round_t1 != t1 && !lock->lease.round.asked) verdicts_open(lock, event->ready, now);
}

static void step_once(struct redlock_lock *lock, struct rl_event event) {
    struct redlock_client *client = lock->client;
    rl_ns now = net_now(client->net);
    event.settled = client_settled(client);
    event.ready = client_ready(client, now);
    if (client->guard) fenced_event(lock, &event);
    if (lock->phase == PHASE_LEASED && lock->round) {
        for (unsigned i = 0; i < lock->terms.nodes; i++) {
            if (vote_call(lock->round, i)->busy) event.ready &= (rl_mask)~rl_bit(i);
        }
    }
    struct rl_actions actions;
    if (lock->phase == PHASE_ACQUIRING) step_acquire(lock, &event, now, &actions);
    else step_lease(lock, &event, now, &actions);
    carry_out(lock, &actions, now);
}

static unsigned first_of(rl_mask mask) {
    unsigned node = 0;
    while (!(mask & rl_bit(node))) node++;
    return node;
}

static void tell_unsent(struct redlock_lock *lock) {
    lock->stepping = true;
    while ((lock->unsent | lock->unsent_release) && lock->phase != PHASE_FREE) {
        bool release = lock->unsent == 0;
        rl_mask *mask = release ? &lock->unsent_release : &lock->unsent;
        unsigned node = first_of(*mask);
        *mask &= (rl_mask)~rl_bit(node);
        if (lock->verdicts[node] == REDLOCK_VERDICT_NONE) lock->verdicts[node] = REDLOCK_VERDICT_DISCONNECTED;
        step_once(lock, (struct rl_event){.type = release ? RL_EVENT_UNLOCKED : RL_EVENT_VOTE, .node = (uint8_t)node, .vote = RL_VOTE_FAILED});
    }
    lock->unsent = lock->unsent_release = 0;
    if (lock->abort_result != REDLOCK_OK && lock->phase == PHASE_ACQUIRING)
        step_once(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
    lock->stepping = false;
}

/* Sends that failed at once are told to the machine as votes, one after the other and not from within its own step. */
void lock_step(struct redlock_lock *lock, struct rl_event event) {
    lock->refs++;
    step_once(lock, event);
    if (!lock->stepping) tell_unsent(lock);
    lock_unref(lock);
}

/* ---- answers ---- */

static enum rl_vote vote_of(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_GRANTED: return RL_VOTE_GRANTED;
    case REDLOCK_VERDICT_DENIED: return RL_VOTE_DENIED;
    case REDLOCK_VERDICT_ABSENT: return RL_VOTE_ABSENT;
    default: return RL_VOTE_FAILED;
    }
}

/* Verdicts are those of the last round. Of a lost attempt, a vote that comes in while its keys are cleaned up is told,
 * unless the node was late already. */
static bool reportable(const struct redlock_lock *lock, const struct net_call *call) {
    if (lock->phase == PHASE_RELEASING) return call->tag == CALL_UNLOCK;
    if (call->tag != CALL_VOTE) return false;
    bool lost = lock->phase == PHASE_ACQUIRING && lock->acquire.attempt.state == RL_ATTEMPT_LOST;
    return !lost || lock->verdicts[call->node] == REDLOCK_VERDICT_NONE;
}

/* A key without a TTL does not say when it ends; one with a TTL beyond any lock's is no lock (and in nanoseconds may be
 * beyond 64 bits). One that has gone meanwhile was most likely a rival's lost try: to come back at once would meet the
 * rival again, so then the random delay stands. */
static bool tells_end(const struct net_reply *reply) {
    return reply->verdict == REDLOCK_VERDICT_GRANTED && reply->remaining_ms >= 0 &&
           reply->remaining_ms <= REDLOCK_TTL_MS_MAX;
}

static void answer(struct redlock_lock *lock, const struct net_call *call, const struct net_reply *reply) {
    struct rl_event event = {.node = call->node, .vote = vote_of(reply->verdict)};
    switch ((enum call_tag)call->tag) {
    case CALL_VOTE:
        event.type = RL_EVENT_VOTE;
        break;
    case CALL_UNLOCK: event.type = RL_EVENT_UNLOCKED; break;
    case CALL_PEEK:
        event.type = RL_EVENT_HINT;
        if (lock->phase != PHASE_ACQUIRING || !tells_end(reply)) return;
        event.remaining = reply->remaining_ms * RL_MS;
        break;
    default: return;
    }
    if (lock->phase == PHASE_FREE) return;
    if (reportable(lock, call)) lock->verdicts[call->node] = reply->verdict;
    if (lock->client->guard && call->tag == CALL_VOTE && !fenced_vote(lock, call, reply, &event)) return;
    lock_step(lock, event);
}

void lock_reply(struct net_call *call, const struct net_reply *reply) {
    struct round *round = call->owner;
    struct redlock_lock *lock = round->lock;
    if (lock->client->guard) fenced_heard(lock, round, call, reply);
    if (lock->round == round) answer(lock, call, reply);
    round_unref(round);
}

static void on_timer(struct net_timer *timer) {
    struct redlock_lock *lock = RL_CONTAINER(timer, struct redlock_lock, timer);
    if (lock->phase != PHASE_FREE) lock_step(lock, (struct rl_event){.type = RL_EVENT_TICK});
}

void lock_timer_init(struct redlock_lock *lock) { lock->timer.fire = on_timer; }

/* ---- acquisitions hear of nodes that come and go ---- */

void acquiring_add(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    lock->acquiring_next = client->acquiring;
    lock->acquiring_at = &client->acquiring;
    if (lock->acquiring_next) lock->acquiring_next->acquiring_at = &lock->acquiring_next;
    client->acquiring = lock;
}

void acquiring_remove(struct redlock_lock *lock) {
    if (!lock->acquiring_at) return;
    *lock->acquiring_at = lock->acquiring_next;
    if (lock->acquiring_next) lock->acquiring_next->acquiring_at = lock->acquiring_at;
    lock->acquiring_at = NULL;
}

void locks_check(struct redlock_client *client) {
    struct redlock_lock *next;
    for (struct redlock_lock *lock = client->acquiring; lock; lock = next) {
        next = lock->acquiring_next; /* a step ends at most the acquisition of its own lock */
        if (client->twice_listed) {
            lock->abort_result = REDLOCK_TWICE_LISTED;
            lock_step(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
        } else if (lock->acquire.state == RL_ACQUIRE_GATHERING || client->guard) {
            lock_step(lock, (struct rl_event){.type = RL_EVENT_NODES});
        }
    }
}
