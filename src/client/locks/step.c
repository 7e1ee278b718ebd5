/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Connects the protocol's machines with the connections: an event goes in, its actions are carried
 * out, and a node's answer comes back as the next event. Each step uses one sample of the clock. */
#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "lock.h"

/* To go out together with others, a renewal may come this much later, and at most this part of the
 * interval. */
#define RENEWALS_LATE (20 * RL_MS)
enum { RENEWALS_APART = 64 };

/* ---- carrying out actions ---- */

static int result_of(enum rl_outcome outcome) {
    switch (outcome) {
    case RL_OUTCOME_OK: return REDLOCK_OK;
    case RL_OUTCOME_HELD: return REDLOCK_HELD;
    case RL_OUTCOME_EXPIRED: return REDLOCK_EXPIRED;
    case RL_OUTCOME_LOST: return REDLOCK_LOST;
    case RL_OUTCOME_CANCELLED: return REDLOCK_CANCELLED;
    case RL_OUTCOME_LIMIT: return REDLOCK_LIMIT;
    case RL_OUTCOME_OTHER_SLOTS: return REDLOCK_OTHER_SLOTS;
    case RL_OUTCOME_NONE:
    case RL_OUTCOME_NO_QUORUM: break;
    }
    return REDLOCK_NO_QUORUM;
}

/* The node is connected, but keeps no readers. */
static void note_not_shared(struct redlock_lock *lock, unsigned node, rl_ns now) {
    struct net_node_status status;
    net_node(lock->client->net, node, now, &status);
    if (!status.keeps_readers) lock_verdicts(lock)[node] = REDLOCK_VERDICT_NOT_SHARED;
}

void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request,
               struct net_call *calls, rl_ns now) {
    if (!nodes) return;
    struct net *net = lock->client->net;
    bool release = net_op_is(request->op, NET_OP_KEPT);
    /* A key of ours outlives its SET by at most one TTL, so a release is kept for that long. */
    rl_mask taken = net_send(net, nodes, request, calls, now + lock->config->terms.node_timeout,
                             release ? now + lock->config->terms.ttl : now);
    struct round *round = round_now(lock);
    round->refs += rl_count(taken);
    for (unsigned i = 0; net_op_is(request->op, NET_OP_READERS) && i < lock->config->terms.nodes;
         i++)
        if (nodes & (rl_mask)~taken & rl_bit(i)) note_not_shared(lock, i, now);
    if (calls == round->calls) round->voting |= taken;
    if (release)
        lock->extra->unsent_release |= (rl_mask)(nodes & ~taken);
    else if (request->op != NET_PEEK)
        lock->extra->unsent |= (rl_mask)(nodes & ~taken);
}

/* A new round of votes: nodes that are not asked get their reason as a verdict, the others have not
 * answered yet. */
static void verdicts_open(struct redlock_lock *lock, rl_mask asked, rl_ns now) {
    uint8_t *verdicts = lock_verdicts(lock);
    for (unsigned i = 0; i < lock->config->terms.nodes; i++) {
        verdicts[i] = REDLOCK_VERDICT_NONE;
        if (asked & rl_bit(i)) continue;
        struct net_node_status status;
        net_node(lock->client->net, i, now, &status);
        int verdict = client_verdict(lock->client, i, status.verdict);
        if (verdict == REDLOCK_VERDICT_GRANTED) verdict = REDLOCK_VERDICT_TIMEOUT;
        verdicts[i] = (uint8_t)verdict;
    }
}

/* A reader's requests go in a round of their own, repairs too: the writer's may still be under way
 * on slow nodes, and a request must not change meanwhile. */
static void leave_writers_round(struct redlock_lock *lock) {
    const struct round *round = round_now(lock);
    if (lock->reads && round && round->acquire.op == NET_ACQUIRE) lock_drop_round(lock);
}

static void carry_out_sends(struct redlock_lock *lock, const struct rl_actions *actions,
                            rl_ns now) {
    if (actions->announce) lock_announce(lock, actions->announce, now);
    if (actions->fresh_token) {
        int *abort_result = &lock->extra->acquisition->abort_result;
        if (*abort_result == REDLOCK_OK) *abort_result = lock_fresh_round(lock, NULL, 0);
        if (*abort_result != REDLOCK_OK) {
            lock_drop_round(lock); /* of the try before, or of a release that is unanswered */
            lock->extra->unsent |= actions->acquire;
            return;
        }
        lock->client->stats.attempts++;
    }
    /* A try that failed before it sent anything has nothing to release. */
    if (actions->release && lock->phase == PHASE_ACQUIRING && !round_now(lock)) {
        lock->extra->unsent_release |= actions->release;
        return;
    }
    if (actions->acquire && actions->slot == 0) verdicts_open(lock, actions->acquire, now);
    if (actions->extend) verdicts_open(lock, actions->extend, now);
    bool sends = actions->acquire | actions->repair | actions->extend | actions->catch_up |
                 actions->release | actions->peek | actions->raise | actions->confirm |
                 actions->leave;
    if (!sends) return;
    if (actions->extend | actions->acquire) client_hurry(lock->client);
    if (actions->extend | actions->catch_up) leave_writers_round(lock);
    struct round *round = round_of(lock, lock->phase == PHASE_RELEASING);
    if (!round) { /* without memory for requests it is as if every node had failed */
        rl_mask votes = actions->acquire | actions->extend | actions->raise | actions->confirm;
        for (unsigned i = 0; (votes | actions->release) >> i; i++)
            if ((votes | actions->release) & rl_bit(i))
                lock_verdicts(lock)[i] = REDLOCK_VERDICT_NO_MEMORY;
        lock->extra->unsent |= votes;
        lock->extra->unsent_release |= actions->release;
        return;
    }
    if (slots_of(lock)) slots_settle(lock);
    if (actions->acquire) wait_queue_try(lock, &round->acquire, now);
    if (actions->repair) round_fill_repair(round, actions->repair_ttl);
    if (actions->peek) round_fill_in(round, &round->peek);
    if (actions->extend | actions->catch_up) {
        const rl_ns extend_ttl = actions->extend ? actions->extend_ttl : actions->repair_ttl;
        round_fill_in(round, &round->extend);
        round->extend.ttl_ms = (extend_ttl + RL_MS - 1) / RL_MS;
    } /* else it may be under way, and be sent again */
    const rl_mask votes =
        actions->acquire | actions->extend | actions->catch_up | actions->raise | actions->confirm;
    poll_before_votes(lock->client, votes);
    lock->config->mode->send_votes(lock, actions, now);
    if (actions->release && lock->phase == PHASE_RELEASING)
        verdicts_open(lock, actions->release, now);
    struct net_call *unlocks = round->calls + lock->config->terms.nodes;
    /* the caller may read it in the verdicts; the keys of a lost try only have to go */
    if (actions->release) round->release.tells_holder = lock->phase == PHASE_RELEASING;
    lock_send(lock, actions->release, &round->release, unlocks, now);
    lock_send(lock, actions->peek & (rl_mask)~round->told, &round->peek,
              unlocks + lock->config->terms.nodes, now);
    if (actions->leave) slots_leave(lock, actions->leave, now);
    if (actions->release && lock->phase == PHASE_RELEASING)
        wait_queue_released(lock, actions->release);
}

static void leased_add(struct redlock_lock *lock) {
    struct redlock_lock **first = &lock->client->locks->leased;
    lock->leased_next = *first;
    lock->leased_at = first;
    if (lock->leased_next) lock->leased_next->leased_at = &lock->leased_next;
    *first = lock;
    client_engaged(lock->client, lock->config->options.ttl_ms);
}

void leased_remove(struct redlock_lock *lock) {
    if (!lock->leased_at) return;
    *lock->leased_at = lock->leased_next;
    if (lock->leased_next) lock->leased_next->leased_at = lock->leased_at;
    lock->leased_at = NULL;
    client_disengaged(lock->client);
}

void lease_init(struct redlock_lock *lock) {
    rl_lease_init(&lock->lease, &extra_of_step(lock)->work, &lock->config->terms,
                  &lock->config->rules);
    lock->phase = PHASE_LEASED;
    if (!lock->leased_at) leased_add(lock);
}

/* True: won, and the lease begins with this event. */
static bool acquisition_over(struct redlock_lock *lock, enum rl_outcome outcome, rl_ns now,
                             struct rl_event *start) {
    wait_queue_leave(lock);
    if (outcome == RL_OUTCOME_OK) {
        *start = rl_lease_start(&lock->extra->acquisition->machine.attempt);
        if (lock->config->mode->won)
            lock->config->mode->won(lock, lock->extra->acquisition->machine.attempt.fence);
        if (slots_of(lock)) slots_won(lock);
        events_acquired(lock, now);
        acquiring_remove(lock);
        lease_init(lock);
        return true;
    }
    const struct acquisition *acquisition = lock->extra->acquisition;
    /* They answered neither the last try nor its release. */
    if (outcome == RL_OUTCOME_CANCELLED)
        verdicts_close(lock, rl_tally_pending(&acquisition->machine.cleaning));
    int result = acquisition->abort_result;
    if (result == REDLOCK_OK) result = result_of(outcome);
    if (slots_of(lock)) slots_of(lock)->other = acquisition->machine.attempt.slots.other_slots;
    events_failed(lock, result, now);
    acquiring_remove(lock);
    lock->phase = PHASE_FREE;
    lock_drop_round(lock);
    op_finish(lock, lock_op(lock), result);
    return false;
}

/* The cancelled acquisition begins again, by the rules of guarded mode, with the time that is left.
 * No key of the classic try is left by now. False: `abort_result` has the reason. */
static bool begins_again(struct redlock_lock *lock, struct rl_event *start) {
    struct redlock_client *client = lock->client;
    struct acquisition *acquisition = lock->extra->acquisition;
    const struct rl_retry_rules rules = acquisition->machine.rules;
    if (acquisition->abort_result != TURNED_GUARDED) return false;
    wait_queue_leave(lock);
    lock_drop_round(lock);
    *start = (struct rl_event){.type = RL_EVENT_START};
    acquisition->abort_result = lock_config_follow_mode(lock);
    if (net_random(client->net, &start->seed, sizeof start->seed) != 0)
        acquisition->abort_result = REDLOCK_SYSTEM;
    if (acquisition->abort_result != REDLOCK_OK) return false;
    rl_acquire_init(&acquisition->machine, &lock->config->terms, &rules);
    wait_queue_begin(lock, rules.deadline > net_now(client->net), start);
    return true;
}

/* Renewals that are due at about the same time go out together: one write for each node, not one
 * for each lock. A wake that reports a loss, or that follows a failed renewal, is not delayed. */
static rl_ns may_come_late(const struct redlock_lock *lock, rl_ns wake_at) {
    const struct rl_lease *lease = &lock->lease;
    if (lock->phase != PHASE_LEASED || lease->state != RL_LEASE_HELD || wake_at != lease->renew_at)
        return 0;
    const struct rl_lease_rules *rules = &lock->config->rules;
    rl_ns late = rules->renew_every / RENEWALS_APART < RENEWALS_LATE
                     ? rules->renew_every / RENEWALS_APART
                     : RENEWALS_LATE;
    return wake_at + 2 * late < lease->validity_end - rules->lost_margin ? late : 0;
}

/* After the sends. `t1`: round_t1 as it was before the step. */
static void carry_out_rest(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns t1,
                           rl_ns now) {
    if (lock->phase == PHASE_DISOWNED) { /* its user has no part in it */
        net_timer_set(lock->client->net, &lock->timer, late_wake_at(lock, actions->wake_at));
        return;
    }
    net_timer_move(lock->client->net, &lock->timer, actions->wake_at,
                   may_come_late(lock, actions->wake_at));
    if (lock->phase == PHASE_ACQUIRING) wait_queue_carry_out(lock, actions, now);
    /* of the renewal that failed, for the callback */
    const bool failed = (actions->notices & (RL_NOTICE_UNSURE | RL_NOTICE_LOST)) != 0;
    const struct rl_lease_work *work = lock->lease.work; /* NULL: of an acquisition */
    const bool late = now >= t1 + lock->config->terms.node_timeout;
    if (failed && work->round.asked && lock->lease.round_t1 == t1)
        verdicts_close(lock, work->round.failed | (late ? rl_tally_pending(&work->round) : 0));
    if (actions->notices) lock_notice(lock, actions->notices);
    const bool extended = actions->extend_outcome != RL_OUTCOME_NONE;
    if (!extended && !actions->notices) return;
    const int result = result_of(actions->extend_outcome);
    if (extended && work->round.asked) verdicts_close(lock, work->round.failed);
    events_lease(lock, actions, result, t1, now);
    if (!extended) return;
    if (actions->extend_outcome == RL_OUTCOME_OK)
        lock->client->stats.extensions++;
    else
        lock->client->stats.extensions_failed++;
    op_finish(lock, lock_extension(lock), result);
}

static void step_acquire(struct redlock_lock *lock, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    struct rl_acquire *acquire = &lock->extra->acquisition->machine;
    const struct rl_attempt *attempt = &acquire->attempt;
    const struct rl_tally *tally = &attempt->tally;
    struct redlock_stats *stats = &lock->client->stats;
    bool was_open = attempt->state == RL_ATTEMPT_VOTING || attempt->state == RL_ATTEMPT_CONFIRMING;
    uint32_t tries = acquire->tries;
    rl_acquire_step(acquire, event, now, actions);
    bool lost = attempt->state == RL_ATTEMPT_LOST;
    if (was_open && (lost || attempt->state == RL_ATTEMPT_WON)) {
        if (lost) verdicts_close(lock, tally->failed);
        stats->votes_granted += rl_count(tally->granted);
        stats->votes_denied += rl_count(tally->denied);
        stats->votes_lost += rl_count(tally->failed);
        stats->splits += lost && attempt->outcome == RL_OUTCOME_HELD && tally->granted;
    }
    if (tries > 0 && acquire->tries > tries) stats->retries++;
    /* The try ended before it asked any node: the report has the reasons of the nodes that could
     * not be asked. */
    if (acquire->tries > tries && !actions->acquire) verdicts_open(lock, event->ready, now);
}

/* Returns round_t1 as it was before. */
static rl_ns step_lease(struct redlock_lock *lock, struct rl_event *event, rl_ns now,
                        struct rl_actions *actions) {
    struct extra *extra = extra_of_step(lock);
    if (!lock->lease.work)
        rl_lease_lend(&lock->lease, &extra->work, &lock->config->terms, &lock->config->rules);
    const bool releases = event->type == RL_EVENT_RELEASE && lock->lease.validity_end > now &&
                          rl_lease_holds(&lock->lease);
    const bool unproven = lock->lease.state == RL_LEASE_NONE;
    rl_ns t1 = lock->lease.round_t1;
    renewals_event(lock, event);
    rl_lease_step(&lock->lease, event, now, actions);
    /* UNSURE: the renewal that was due in the same step has failed */
    const bool taken_over = unproven && lock->lease.adopted && rl_lease_holds(&lock->lease);
    if (taken_over && lock->config->mode->won) lock->config->mode->won(lock, lock->lease.fence);
    renewals_stepped(lock, actions, now);
    if (lock->lease.round_t1 != t1 && !lock->lease.work->round.asked)
        verdicts_open(lock, event->ready, now);
    const bool lost = (actions->notices & RL_NOTICE_LOST) != 0 && lock->phase != PHASE_DISOWNED;
    if (releases || (lost && event->type != RL_EVENT_START)) events_hold_ended(lock, lost, now);
    return t1;
}

/* Passes an event to the machine and carries out its actions. Returns the outcome; *at is the time
 * of the step. */
static enum rl_outcome advance(struct redlock_lock *lock, struct rl_event *event, rl_ns *at) {
    struct redlock_client *client = lock->client;
    rl_ns now = net_now(client->net), t1 = 0;
    if (lock->phase == PHASE_ACQUIRING &&
        lock->extra->acquisition->machine.state <= RL_ACQUIRE_GATHERING)
        client_hurry(client);
    event->settled = client_settled(client);
    event->ready = client_ready(client, now);
    if (lock->config->mode->event) lock->config->mode->event(lock, event);
    /* an old module has no rule for them, and a script there reaches no lock */
    const bool slots = slots_of(lock) != NULL;
    const rl_mask unfit = slots ? client->slotless : lock->shared ? client->readerless : 0;
    if (unfit && lock->phase == PHASE_ACQUIRING && abort_result_of(lock) == REDLOCK_OK)
        lock->extra->acquisition->abort_result = slots ? REDLOCK_NO_SLOTS : REDLOCK_NO_SHARED;
    wait_queue_event(lock, event);
    const bool leased = lock->phase == PHASE_LEASED || lock->phase == PHASE_DISOWNED;
    const struct round *round = round_now(lock);
    if (leased && round) event->busy = round->voting;
    event->ready &= (rl_mask)~event->busy;
    struct rl_actions actions;
    if (lock->phase == PHASE_ACQUIRING)
        step_acquire(lock, event, now, &actions);
    else
        t1 = step_lease(lock, event, now, &actions);
    if (client->traced) lock_trace(lock, event, &actions, now);
    carry_out_sends(lock, &actions, now);
    carry_out_rest(lock, &actions, t1, now);
    *at = now;
    return actions.outcome;
}

static void step_once(struct redlock_lock *lock, struct rl_event *event) {
    bool won = false;
    rl_ns now = 0;
    for (enum rl_outcome outcome; (outcome = advance(lock, event, &now)) != RL_OUTCOME_NONE;) {
        if (lock->phase == PHASE_ACQUIRING) {
            if (outcome != RL_OUTCOME_OK && begins_again(lock, event)) continue;
            if (!acquisition_over(lock, outcome, now, event)) return;
            won = true;
            continue;
        }
        verdicts_close(lock, lock->lease.work->unlocking.failed);
        fenced_unpark(lock);
        leased_remove(lock);
        lock->phase = PHASE_FREE;
        lock->client->stats.released += outcome == RL_OUTCOME_OK;
        events_released(lock, result_of(outcome), now);
        op_finish(lock, lock_extension(lock), REDLOCK_LOST);
        op_finish(lock, lock_op(lock), result_of(outcome));
        return;
    }
    if (won) op_finish(lock, lock_op(lock), REDLOCK_OK);
}

static bool is_unranked(const struct redlock_lock *lock) {
    return lock->phase == PHASE_ACQUIRING && lock->extra->acquisition->unranked;
}

static void report_unsent(struct redlock_lock *lock) {
    struct extra *extra = lock->extra; /* until the end of the step */
    lock->stepping = true;
    while ((extra->unsent | extra->unsent_release) && lock->phase != PHASE_FREE) {
        bool release = extra->unsent == 0;
        rl_mask *mask = release ? &extra->unsent_release : &extra->unsent;
        unsigned node = first_of(*mask);
        *mask &= (rl_mask)~rl_bit(node);
        if (lock_verdicts(lock)[node] == REDLOCK_VERDICT_NONE)
            lock_verdicts(lock)[node] = REDLOCK_VERDICT_DISCONNECTED;
        struct rl_event event = {.type = release ? RL_EVENT_UNLOCKED : RL_EVENT_VOTE,
                                 .node = (uint8_t)node,
                                 .vote = RL_VOTE_FAILED};
        step_once(lock, &event);
    }
    extra->unsent = extra->unsent_release = 0;
    if (abort_result_of(lock) != REDLOCK_OK) {
        struct rl_event cancel = {.type = RL_EVENT_CANCEL};
        step_once(lock, &cancel);
    }
    if (is_unranked(lock)) {
        struct rl_event unranked = {.type = RL_EVENT_RANK, .rank = -1};
        extra->acquisition->unranked = false;
        step_once(lock, &unranked);
    }
    if (is_unranked(lock)) extra->acquisition->unranked = false;
    lock->stepping = false;
}

/* Sends that failed at once become votes for the machine, one after the other, and not inside its
 * own step. */
void lock_step(struct redlock_lock *lock, struct rl_event event) {
    lock->refs++;
    step_once(lock, &event);
    bool unreported = lock->extra->unsent || lock->extra->unsent_release ||
                      abort_result_of(lock) != REDLOCK_OK || is_unranked(lock);
    if (unreported && !lock->stepping) report_unsent(lock);
    late_stepped(lock);
    if (!lock->stepping) extra_rest(lock);
    lock_unref(lock);
}

/* ---- answers ---- */

/* After any answer: the round may no longer be needed. */
static void call_done(struct round *round) {
    struct redlock_lock *lock = round->lock;
    lock->refs++;
    round_unref(round);
    lock_rest(lock);
    lock_unref(lock);
}

/* A native node's denial says how long the holder's key has left, so the node is not peeked at. The
 * hint comes before the vote, which may be the last one. */
static void use_denial(struct round *round, const struct net_call *call,
                       const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    bool says = reply->verdict == REDLOCK_VERDICT_DENIED && reply->remaining_ms != -2;
    if (!says || wait_queue_denied(round, call, reply)) return;
    if (round_now(lock) != round || lock->phase != PHASE_ACQUIRING) return;
    round->told |= rl_bit(call->node);
    if (reports_end(reply))
        lock_step(lock, (struct rl_event){.type = RL_EVENT_HINT,
                                          .node = call->node,
                                          .vote = RL_VOTE_GRANTED,
                                          .remaining = reply->remaining_ms * RL_MS});
}

void lock_vote_reply(struct net_call *call, const struct net_reply *reply) {
    struct round *round = call->owner;
    round->voting &= (rl_mask)~rl_bit(call->node);
    wait_queue_granted(round->lock, call, reply);
    use_denial(round, call, reply);
    round->lock->config->mode->answer(round, call, reply);
    call_done(round);
}

void lock_unlock_reply(struct net_call *call, const struct net_reply *reply) {
    struct round *round = call->owner;
    struct redlock_lock *lock = round->lock;
    if (round_now(lock) == round && lock->phase != PHASE_FREE) {
        if (lock->phase == PHASE_RELEASING)
            lock_verdicts(lock)[call->node] = (uint8_t)reply->verdict;
        lock_step(lock, (struct rl_event){.type = RL_EVENT_UNLOCKED,
                                          .node = call->node,
                                          .vote = lock_vote_of(reply->verdict)});
    }
    call_done(round);
}

/* A key that has gone meanwhile most likely belonged to a rival's lost try: an immediate retry
 * would meet the rival again, so the random delay stays. */
void lock_peek_reply(struct net_call *call, const struct net_reply *reply) {
    struct round *round = call->owner;
    struct redlock_lock *lock = round->lock;
    bool held = reply->verdict == REDLOCK_VERDICT_GRANTED && reports_end(reply);
    if (round_now(lock) == round && lock->phase == PHASE_ACQUIRING && held)
        lock_step(lock, (struct rl_event){.type = RL_EVENT_HINT,
                                          .node = call->node,
                                          .vote = RL_VOTE_GRANTED,
                                          .remaining = reply->remaining_ms * RL_MS});
    call_done(round);
}

void lock_on_timer(struct net_timer *timer) {
    struct redlock_lock *lock = RL_CONTAINER(timer, struct redlock_lock, timer);
    if (lock->phase != PHASE_FREE) lock_step(lock, (struct rl_event){.type = RL_EVENT_TICK});
}

/* ---- acquisitions learn of nodes that come and go ---- */

bool acquiring_add(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    struct extra *extra = extra_take(lock, false);
    struct acquisition *acquisition =
        extra ? pool_take(&client->locks->acquisitions, sizeof *acquisition, 0) : NULL;
    if (!acquisition) return false;
    acquisition->abort_result = REDLOCK_OK;
    acquisition->unranked = false;
    acquisition->lock = lock;
    acquisition->place = (struct place){0};
    acquisition->next = client->locks->acquiring;
    acquisition->at = &client->locks->acquiring;
    if (acquisition->next) acquisition->next->at = &acquisition->next;
    client->locks->acquiring = acquisition;
    extra->acquisition = acquisition;
    client_engaged(client, lock->config->options.ttl_ms);
    return true;
}

void acquiring_remove(struct redlock_lock *lock) {
    struct acquisition *acquisition = extra_of(lock)->acquisition;
    if (!acquisition) return;
    *acquisition->at = acquisition->next;
    if (acquisition->next) acquisition->next->at = acquisition->at;
    lock->extra->acquisition = NULL;
    client_disengaged(lock->client);
    pool_give(&lock->client->locks->acquisitions, acquisition);
}

void locks_check(struct redlock_client *client) {
    late_check(client);
    struct acquisition *next;
    for (struct acquisition *acquisition = client->locks->acquiring; acquisition;
         acquisition = next) {
        struct redlock_lock *lock = acquisition->lock;
        next = acquisition->next; /* a step ends at most the acquisition of its own lock */
        int refusal = client_refusal(client);
        if (refusal != REDLOCK_OK) {
            acquisition->abort_result = refusal;
            lock_step(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
        } else if (acquisition->machine.state == RL_ACQUIRE_GATHERING ||
                   lock->config->mode->fenced) {
            lock_step(lock, (struct rl_event){.type = RL_EVENT_NODES});
        }
    }
}

/* ---- clocks run faster than it was thought ---- */

void locks_shorten(struct redlock_client *client) {
    struct redlock_lock *next;
    for (struct redlock_lock *lock = client->locks->leased; lock; lock = next) {
        next = lock->leased_next; /* a step ends at most the lease of its own lock */
        if (lock->phase == PHASE_LEASED) lock_step(lock, (struct rl_event){.type = RL_EVENT_TICK});
    }
}

/* ---- mode auto becomes guarded ---- */

/* A classic vote rests on it that no node carries a record. That has ended, so the lease has ended
 * too. Its keys stay until the user releases it. A token that was adopted, and not yet extended, is
 * guarded from now on. */
static void turn_lease(struct redlock_lock *lock) {
    leased_remove(lock);
    if (lock->phase != PHASE_LEASED) return;
    if (lock->lease.state != RL_LEASE_NONE) {
        rl_lease_void(&lock->lease, net_now(lock->client->net));
        lock_step(lock, (struct rl_event){.type = RL_EVENT_TICK});
        return;
    }
    renewals_forget(lock);
    lock_drop_round(lock);
    op_finish(lock, lock_extension(lock), REDLOCK_NO_QUORUM);
    int result = lock_config_follow_mode(lock);
    if (result == REDLOCK_OK && lock->config->mode->adopt(lock, lock_fence(lock)) != REDLOCK_OK)
        lock_fenced(lock)->fence = 0;
    lease_init(lock);
    lock_step(lock, (struct rl_event){.type = RL_EVENT_START,
                                      .asked = rl_all(lock->client->nodes),
                                      .fence = lock_fence(lock)});
}

void locks_turn_guarded(struct redlock_client *client) {
    struct acquisition *next;
    for (struct acquisition *acquisition = client->locks->acquiring; acquisition;
         acquisition = next) {
        struct redlock_lock *lock = acquisition->lock;
        next = acquisition->next; /* a step ends at most the acquisition of its own lock */
        if (acquisition->abort_result == REDLOCK_OK) acquisition->abort_result = TURNED_GUARDED;
        lock_step(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
    }
    struct redlock_lock *held = client->locks->leased;
    client->locks->leased = NULL;
    if (held) held->leased_at = &held;
    while (held) turn_lease(held);
}
