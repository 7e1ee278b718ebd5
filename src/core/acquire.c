/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An acquisition: attempts, with cleaning up and a random delay between them.
 *
 * Other implementations got these rules wrong. A retry starts only when its own keys from the try
 * before are gone, or one node timeout has passed; otherwise its own keys would deny it. A
 * cancelled caller's releases are sent too. The delay is drawn again each time; otherwise two
 * clients that tie would tie forever. */
#include "core/core.h"
#include "core/mix.h"

#include <assert.h>
#include <string.h>

/* A key's PTTL is in whole milliseconds, and other clients wait for the same key. So each client
 * comes a little later, after a delay of its own. */
#define HINT_JITTER_MIN (1 * RL_MS)
#define HINT_JITTER_MAX (10 * RL_MS)
#define WAKE_JITTER_MAX (2 * RL_MS)
#define SLEEP_MIN (1 * RL_MS)

void rl_acquire_init(struct rl_acquire *acquire, const struct rl_terms *terms,
                     const struct rl_retry_rules *rules) {
    assert(rules->delay_min >= 0 && rules->delay_min <= rules->delay_max &&
           rules->connect_timeout >= 0);
    memset(acquire, 0, sizeof *acquire);
    acquire->terms = terms;
    acquire->rules = *rules;
    acquire->wake_at = RL_NEVER;
}

static const unsigned char allowed[] = {
    [RL_ACQUIRE_IDLE] = 1 << RL_ACQUIRE_GATHERING | 1 << RL_ACQUIRE_OVER,
    [RL_ACQUIRE_GATHERING] =
        1 << RL_ACQUIRE_VOTING | 1 << RL_ACQUIRE_SLEEPING | 1 << RL_ACQUIRE_OVER,
    [RL_ACQUIRE_VOTING] = 1 << RL_ACQUIRE_CLEANING | 1 << RL_ACQUIRE_WON,
    [RL_ACQUIRE_CLEANING] = 1 << RL_ACQUIRE_SLEEPING | 1 << RL_ACQUIRE_OVER,
    [RL_ACQUIRE_SLEEPING] = 1 << RL_ACQUIRE_VOTING | 1 << RL_ACQUIRE_OVER,
    [RL_ACQUIRE_WON] = 0,
    [RL_ACQUIRE_OVER] = 0,
};

/* The only place where the state changes. */
static void move(struct rl_acquire *acquire, enum rl_acquire_state to, rl_ns now) {
    assert(allowed[acquire->state] & 1 << to);
    (void)allowed;
    switch (to) {
    case RL_ACQUIRE_WON:
        assert(acquire->attempt.state == RL_ATTEMPT_WON && !acquire->cancelled);
        assert(rl_count(acquire->attempt.tally.granted) >= acquire->attempt.tally.quorum);
        break;
    case RL_ACQUIRE_CLEANING: assert(acquire->attempt.state == RL_ATTEMPT_LOST); break;
    case RL_ACQUIRE_SLEEPING: assert(!acquire->cancelled); break;
    default: break;
    }
    acquire->state = to;
    acquire->since = now;
    acquire->wake_at = RL_NEVER;
}

static void end(struct rl_acquire *acquire, enum rl_outcome outcome, rl_ns now,
                struct rl_actions *actions) {
    acquire->outcome = outcome;
    actions->outcome = outcome;
    move(acquire, outcome == RL_OUTCOME_OK ? RL_ACQUIRE_WON : RL_ACQUIRE_OVER, now);
}

/* When a majority could be free, according to the hints. RL_NEVER when the hints do not determine
 * it, or when a majority needs no hint (then the random delay alone decides). */
static rl_ns majority_free_at(const struct rl_acquire *acquire) {
    const struct rl_tally *votes = &acquire->attempt.tally;
    unsigned nodes = acquire->terms->nodes;
    unsigned free_now = nodes - rl_count(votes->denied | votes->failed);
    if (free_now >= votes->quorum) return RL_NEVER;
    rl_mask known = 0;
    for (unsigned node = 0; node < nodes; node++)
        if ((votes->denied & rl_bit(node)) && acquire->free_at[node] != 0) known |= rl_bit(node);
    return rl_nth_time(acquire->free_at, known, votes->quorum - free_now);
}

static void wake_by(struct rl_acquire *acquire, rl_ns at) {
    if (at < acquire->wake_at) acquire->wake_at = at;
}

static void use_hints(struct rl_acquire *acquire, rl_ns now) {
    rl_ns at = majority_free_at(acquire);
    if (at == RL_NEVER) return;
    at += rl_draw_between(&acquire->random, HINT_JITTER_MIN, HINT_JITTER_MAX);
    wake_by(acquire, at > now + SLEEP_MIN ? at : now + SLEEP_MIN);
}

/* Too many nodes did not vote. So a key that is free is no reason to try again at once: that try
 * would be lost as well, and so on as fast as the network allows. */
static bool is_starved(const struct rl_acquire *acquire) {
    const unsigned failed = rl_count(acquire->attempt.tally.failed);
    return acquire->terms->nodes - failed < acquire->attempt.tally.quorum;
}

/* "it should try again after a random delay in order to try to desynchronize multiple clients" */
static void sleep_before_retry(struct rl_acquire *acquire, rl_ns now) {
    move(acquire, RL_ACQUIRE_SLEEPING, now);
    acquire->starved = is_starved(acquire);
    rl_ns delay =
        rl_draw_between(&acquire->random, acquire->rules.delay_min, acquire->rules.delay_max);
    acquire->wake_at = now + (delay > SLEEP_MIN ? delay : SLEEP_MIN);
    use_hints(acquire, now);
    wake_by(acquire, acquire->rules.deadline); /* one last try happens at the deadline itself */
}

/* A try at exactly the deadline is allowed, none after it. So a wait of 0 is one try. */
static bool was_last(const struct rl_acquire *acquire, rl_ns now) {
    const struct rl_retry_rules *rules = &acquire->rules;
    if (acquire->tries > rules->retries_max) return true; /* tries = retries + 1 */
    return now >= rules->deadline;
}

/* So many nodes hold slots with another number of slots that a majority is out of reach for that
 * reason alone. Waiting does not help: one of the clients has the wrong number. */
static bool numbers_differ(const struct rl_acquire *acquire) {
    const struct rl_attempt *attempt = &acquire->attempt;
    const unsigned others = rl_count(attempt->slots.others & attempt->tally.denied);
    return attempt->outcome == RL_OUTCOME_OTHER_SLOTS &&
           acquire->terms->nodes - others < attempt->tally.quorum;
}

/* The caller learns of a loss only now, so that no key of ours is left on a reachable node. */
static void clean(struct rl_acquire *acquire, rl_ns now, struct rl_actions *actions) {
    rl_ns latest = acquire->since + acquire->terms->node_timeout;
    acquire->wake_at = latest;
    if (rl_tally_pending(&acquire->cleaning) != 0 && now < latest) return;
    if (acquire->cancelled)
        end(acquire, RL_OUTCOME_CANCELLED, now, actions);
    else if (was_last(acquire, now) || numbers_differ(acquire))
        end(acquire, acquire->attempt.outcome, now, actions);
    else
        sleep_before_retry(acquire, now);
}

/* After a step of the attempt: has it ended, and how? */
static void follow(struct rl_acquire *acquire, rl_ns now, struct rl_actions *actions) {
    switch (acquire->attempt.state) {
    case RL_ATTEMPT_IDLE: break; /* never: the step before this one has started it */
    case RL_ATTEMPT_VOTING:
    case RL_ATTEMPT_CONFIRMING: acquire->wake_at = actions->wake_at; break;
    case RL_ATTEMPT_WON: end(acquire, RL_OUTCOME_OK, now, actions); break;
    case RL_ATTEMPT_LOST:
        actions->outcome = RL_OUTCOME_NONE; /* the attempt's, not the acquisition's */
        move(acquire, RL_ACQUIRE_CLEANING, now);
        rl_tally_open(&acquire->cleaning, acquire->terms->nodes, acquire->terms->quorum,
                      acquire->attempt.tally.asked);
        /* the answer about slots says when the first of them ends */
        if (!acquire->cancelled && !was_last(acquire, now) && acquire->terms->slots == 0)
            actions->peek = acquire->attempt.tally.denied;
        clean(acquire, now, actions);
        break;
    }
}

static bool keep_queues(const struct rl_acquire *acquire, const struct rl_event *event) {
    return rl_count(event->keepers & rl_all(acquire->terms->nodes)) >= acquire->terms->quorum;
}

static void begin_turns(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now) {
    rl_turns_begin(&acquire->turns, acquire->terms, acquire->rules.delay_min,
                   acquire->rules.delay_max, rl_splitmix64(&acquire->random), event->keepers, now);
}

static void try_once(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions) {
    struct rl_event start = *event;
    start.type = RL_EVENT_START;
    acquire->tries++;
    memset(acquire->free_at, 0, sizeof acquire->free_at);
    /* A node that denies the try keeps a place for us. */
    if (acquire->tries == 1 && keep_queues(acquire, event)) begin_turns(acquire, event, now);
    rl_turns_try(&acquire->turns);
    /* Some nodes may have accepted the proposal of the try before. */
    int64_t fence_seen = acquire->attempt.fence_seen;
    if (acquire->attempt.fence > fence_seen) fence_seen = acquire->attempt.fence;
    rl_attempt_init(&acquire->attempt, acquire->terms);
    acquire->attempt.fence_seen = fence_seen;
    move(acquire, RL_ACQUIRE_VOTING, now);
    rl_attempt_step(&acquire->attempt, &start, now, actions);
    follow(acquire, now, actions);
}

/* ---- waiting among others ------------------------------------------------------------------ */

static bool is_watched(const struct rl_acquire *acquire, const struct rl_event *event) {
    return rl_count(event->watched & rl_all(acquire->terms->nodes)) >= acquire->terms->quorum;
}

/* Hints come and go with the connections that bring them. Without them the random delay decides, as
 * always. */
static void use_watchers(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    const struct rl_retry_rules *rules = &acquire->rules;
    bool keeps = keep_queues(acquire, event), watched = !keeps && is_watched(acquire, event);
    if (watched == acquire->waiting.active && keeps == acquire->turns.active) return;
    acquire->waiting.active = acquire->turns.active = false;
    if (keeps) {
        begin_turns(acquire, event, now);
        rl_turns_enter(&acquire->turns, now, actions);
    } else if (watched) {
        rl_waiting_begin(&acquire->waiting, acquire->terms, rules->delay_min, rules->delay_max,
                         rl_splitmix64(&acquire->random), now, actions);
    } else {
        acquire->wake_at =
            now + rl_draw_between(&acquire->random, rules->delay_min, rules->delay_max);
    }
}

/* Behind other callers of this process there is nothing to do. One of them contends, and each one
 * that finishes wakes the next. */
static bool stays_parked(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now) {
    bool was_parked = acquire->parked;
    acquire->parked = event->behind;
    if (event->behind) {
        acquire->waiting.active = acquire->turns.active = false;
        acquire->wake_at = RL_NEVER;
    } else if (was_parked) {
        acquire->wake_at = now;
    }
    return event->behind;
}

static void wait_until_hinted(struct rl_acquire *acquire) {
    if (acquire->waiting.active) acquire->wake_at = rl_waiting_wake_at(&acquire->waiting);
    if (acquire->turns.active) acquire->wake_at = rl_turns_wake_at(&acquire->turns);
}

/* Either a try was just lost, or other clients waited already when this one came. */
static void lie_down(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions) {
    const bool parked = stays_parked(acquire, event, now);
    if (acquire->starved) acquire->waiting.active = acquire->turns.active = false;
    if (!parked && !acquire->starved) {
        if (acquire->waiting.active) rl_waiting_resume(&acquire->waiting, now, actions);
        if (acquire->turns.active)
            rl_turns_resume(&acquire->turns, acquire->cleaning.granted, now, actions);
        use_watchers(acquire, event, now, actions);
        wait_until_hinted(acquire);
    }
    wake_by(acquire, acquire->rules.deadline);
}

/* Connecting is no part of an attempt, nor of the time the caller waits for the lock. */
static void gather(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions) {
    rl_mask all = rl_all(acquire->terms->nodes);
    bool majority = rl_count(event->ready & all) >= acquire->terms->quorum;
    acquire->wake_at = acquire->since + acquire->rules.connect_timeout;
    if (majority) wake_by(acquire, acquire->since + acquire->terms->node_timeout);
    if ((event->settled & all) != all && now < acquire->wake_at) return;
    /* A reader would be granted the lock, so it stays away even until notifications come. */
    const bool watched = is_watched(acquire, event);
    bool may_wait = acquire->rules.deadline > now &&
                    (event->behind || (acquire->crowded && (watched || acquire->terms->shared)));
    if (!may_wait) {
        try_once(acquire, event, now, actions);
        return;
    }
    move(acquire, RL_ACQUIRE_SLEEPING, now);
    if (!watched && !event->behind)
        acquire->wake_at = now + rl_draw_between(&acquire->random, acquire->rules.delay_min,
                                                 acquire->rules.delay_max);
}

/* Whether it is time to try. */
static bool is_roused(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                      struct rl_actions *actions) {
    if (stays_parked(acquire, event, now)) {
        wake_by(acquire, acquire->rules.deadline);
        return now >= acquire->wake_at;
    }
    if (acquire->starved) return now >= acquire->wake_at;
    use_watchers(acquire, event, now, actions);
    if (acquire->waiting.active || acquire->turns.active) {
        bool tries = acquire->turns.active
                         ? rl_turns_step(&acquire->turns, event, now, actions)
                         : rl_waiting_step(&acquire->waiting, event, now, actions);
        wait_until_hinted(acquire);
        wake_by(acquire, acquire->rules.deadline);
        return tries || now >= acquire->rules.deadline;
    }
    if (event->type == RL_EVENT_HINT) use_hints(acquire, now);
    if (event->type == RL_EVENT_WAKE)
        wake_by(acquire, now + rl_draw_between(&acquire->random, 0, WAKE_JITTER_MAX));
    wake_by(acquire, acquire->rules.deadline);
    return now >= acquire->wake_at;
}

static void doze(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                 struct rl_actions *actions) {
    if (!is_roused(acquire, event, now, actions)) return;
    /* A caller that waited behind others the whole time got no answer from a node that another
     * client holds the lock. Still, that is the case. */
    enum rl_outcome outcome = acquire->attempt.outcome;
    if (outcome == RL_OUTCOME_NONE) outcome = RL_OUTCOME_HELD;
    /* A timer is always a little late, so the try at the deadline may start that much after it. A
     * process that was stopped meanwhile has used up its time. */
    if (now - acquire->terms->node_timeout > acquire->rules.deadline)
        end(acquire, outcome, now, actions);
    else
        try_once(acquire, event, now, actions);
}

static void cancel(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions) {
    switch (acquire->state) {
    case RL_ACQUIRE_IDLE:
    case RL_ACQUIRE_GATHERING:
    case RL_ACQUIRE_SLEEPING: end(acquire, RL_OUTCOME_CANCELLED, now, actions); break;
    case RL_ACQUIRE_VOTING:
        /* Requests that were sent are released as after any other loss: a cancelled acquisition
         * must not leave keys behind. */
        acquire->cancelled = true;
        rl_attempt_step(&acquire->attempt, event, now, actions);
        follow(acquire, now, actions);
        break;
    case RL_ACQUIRE_CLEANING:
        acquire->cancelled = true;
        clean(acquire, now, actions);
        break;
    case RL_ACQUIRE_WON:
    case RL_ACQUIRE_OVER: break;
    }
}

void rl_acquire_step(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions) {
    memset(actions, 0, sizeof *actions);
    bool ends = event->type == RL_EVENT_HINT ||
                (event->type == RL_EVENT_QUEUED && event->vote == RL_VOTE_GRANTED);
    if (ends && event->node < acquire->terms->nodes &&
        event->remaining >= 0) /* 0: the key has ended already */
        acquire->free_at[event->node] = now + event->remaining;
    rl_waiting_note(&acquire->waiting, event, now);
    rl_turns_note(&acquire->turns, event, now);
    bool was_asleep = acquire->state == RL_ACQUIRE_SLEEPING;
    if (event->type == RL_EVENT_CANCEL) {
        cancel(acquire, event, now, actions);
        actions->wake_at = acquire->wake_at;
        return;
    }
    switch (acquire->state) {
    case RL_ACQUIRE_IDLE:
        if (event->type != RL_EVENT_START) break;
        acquire->random = event->seed;
        acquire->crowded = event->crowded;
        move(acquire, RL_ACQUIRE_GATHERING, now);
        gather(acquire, event, now, actions);
        break;
    case RL_ACQUIRE_GATHERING: gather(acquire, event, now, actions); break;
    case RL_ACQUIRE_VOTING:
        rl_attempt_step(&acquire->attempt, event, now, actions);
        follow(acquire, now, actions);
        break;
    case RL_ACQUIRE_CLEANING:
        /* A WAKE has no value here: our own releases cause it as well. */
        if (event->type == RL_EVENT_VOTE) rl_attempt_step(&acquire->attempt, event, now, actions);
        if (event->type == RL_EVENT_UNLOCKED)
            rl_tally_vote(&acquire->cleaning, event->node, event->vote);
        clean(acquire, now, actions);
        break;
    case RL_ACQUIRE_SLEEPING: doze(acquire, event, now, actions); break;
    case RL_ACQUIRE_WON:
    case RL_ACQUIRE_OVER: break;
    }
    if (!was_asleep && acquire->state == RL_ACQUIRE_SLEEPING)
        lie_down(acquire, event, now, actions);
    actions->wake_at = acquire->wake_at;
}
