/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who leads now. observer.h explains the states, and what a report promises. */
#include "core/observer.h"

#include <assert.h>
#include <string.h>

#include "core/mix.h"

/* Between two looks, at least: a lock that changes all the time must not become a storm of reads.
 */
#define LOOKS_APART RL_MS
/* An announcement follows its grant by one round trip: the first looks that miss it are repeated
 * after 1, 2, 4, ... ms. */
enum { MISSES_MAX = 6 };

void rl_observer_init(struct rl_observer *observer, const struct rl_observer_rules *rules) {
    assert(rules->nodes >= 1 && rules->nodes <= RL_NODES_MAX && rules->answer_timeout > 0);
    assert(0 < rules->poll_min && rules->poll_min <= rules->poll_max);
    assert(0 < rules->notified_poll_min && rules->notified_poll_min <= rules->notified_poll_max);
    memset(observer, 0, sizeof *observer);
    observer->rules = *rules;
    observer->look_at = RL_NEVER;
}

static const struct {
    const char *name;
    unsigned to;
} states[] = {
    [RL_OBSERVER_IDLE] = {"idle", 1 << RL_OBSERVER_READING},
    [RL_OBSERVER_READING] = {"reading", 1 << RL_OBSERVER_PROVING | 1 << RL_OBSERVER_RESTING},
    [RL_OBSERVER_PROVING] = {"proving", 1 << RL_OBSERVER_RESTING},
    [RL_OBSERVER_RESTING] = {"resting", 1 << RL_OBSERVER_READING},
};

const char *rl_observer_state_name(enum rl_observer_state state) { return states[state].name; }

/* The only place where the state changes. */
static void move(struct rl_observer *observer, enum rl_observer_state to, rl_ns now) {
    assert(states[observer->state].to & 1u << to);
    observer->state = to;
    observer->since = now;
}

/* ---- reports ---- */

/* The only place where a report is made. */
static void report(struct rl_observer *observer, const struct rl_observation *news, rl_ns now,
                   struct rl_observer_actions *actions) {
    if (news->state == RL_OBSERVED_LEADER) {
        assert(news->token != 0 && news->term > 0 && now < news->sure_until);
        assert(news->term >= observer->term_seen); /* terms only grow */
        observer->term_seen = news->term;
    }
    (void)now;
    const struct rl_observation *known = &observer->known;
    if (news->state != known->state || news->token != known->token || news->term != known->term ||
        news->sure_until != known->sure_until)
        actions->report = true;
    observer->known = *news;
}

static void report_state(struct rl_observer *observer, enum rl_observed state, rl_ns now,
                         struct rl_observer_actions *actions) {
    report(observer, &(struct rl_observation){.state = state}, now, actions);
}

/* What a leader was reported for has run out, and nothing newer is known. */
static void run_out(struct rl_observer *observer, rl_ns now, struct rl_observer_actions *actions) {
    if (observer->known.state == RL_OBSERVED_LEADER && now >= observer->known.sure_until)
        report_state(observer, RL_OBSERVED_UNKNOWN, now, actions);
}

/* ---- between looks ---- */

static rl_ns next_look(struct rl_observer *observer, const struct rl_observer_event *event,
                       rl_ns now) {
    const struct rl_observer_rules *rules = &observer->rules;
    const bool notified = rl_count(event->ready & event->notified) >= event->quorum;
    rl_ns at =
        now + (notified ? rl_draw_between(&observer->random, rules->notified_poll_min,
                                          rules->notified_poll_max)
                        : rl_draw_between(&observer->random, rules->poll_min, rules->poll_max));
    if (observer->misses > 0 && observer->misses <= MISSES_MAX)
        at = now + ((rl_ns)1 << (observer->misses - 1)) * RL_MS;
    if (observer->woken) at = now;
    /* A notification of the renewal may be lost: a second look still comes in time. */
    if (observer->known.state == RL_OBSERVED_LEADER) {
        const rl_ns half = now + (observer->known.sure_until - now) / 2;
        if (half < at) at = half;
    }
    const rl_ns soonest = observer->asked_at + LOOKS_APART;
    return at > soonest ? at : soonest;
}

static void rest(struct rl_observer *observer, const struct rl_observer_event *event, rl_ns now) {
    observer->look_at = next_look(observer, event, now);
    move(observer, RL_OBSERVER_RESTING, now);
}

/* This look shows no leader, and not that there is none. The first of such looks are most likely
 * between a grant and its announcement: they are no news. */
static void miss(struct rl_observer *observer, const struct rl_observer_event *event, rl_ns now,
                 struct rl_observer_actions *actions) {
    observer->misses++;
    if (observer->known.state != RL_OBSERVED_LEADER && observer->misses > MISSES_MAX)
        report_state(observer, RL_OBSERVED_UNKNOWN, now, actions);
    rest(observer, event, now);
}

/* ---- reading ---- */

static void look(struct rl_observer *observer, const struct rl_observer_event *event, rl_ns now,
                 struct rl_observer_actions *actions) {
    observer->asked_at = now;
    observer->round++;
    observer->woken = false;
    observer->answered = observer->proven = 0;
    memset(observer->token, 0, sizeof observer->token);
    memset(observer->announced, 0, sizeof observer->announced);
    observer->pending = observer->pending_terms = event->ready & rl_all(observer->rules.nodes);
    actions->read = observer->pending;
    move(observer, RL_OBSERVER_READING, now);
    if (rl_count(observer->pending) >= event->quorum) return;
    actions->read = 0; /* too few to learn anything */
    miss(observer, event, now, actions);
}

/* Of these nodes. */
static rl_mask holders(const struct rl_observer *observer, rl_mask answered, uint8_t token) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < observer->rules.nodes; i++)
        if ((answered & rl_bit(i)) && observer->token[i] == token) nodes |= rl_bit(i);
    return nodes;
}

/* The term of that token, by an announcement of that token; 0: there is none yet. */
static int64_t term_of(const struct rl_observer *observer, uint8_t token) {
    for (unsigned i = 0; i < observer->rules.nodes; i++)
        if (observer->announced[i] == token) return observer->terms[i];
    return 0;
}

/* A term below the last one is old news, and so is another token of the same term. */
static bool is_old(const struct rl_observer *observer, uint8_t token, int64_t term) {
    if (term != observer->term_seen) return term < observer->term_seen;
    return observer->known.state == RL_OBSERVED_LEADER && observer->known.token != token;
}

static void prove(struct rl_observer *observer, rl_mask nodes, rl_ns now,
                  struct rl_observer_actions *actions) {
    observer->round++;
    observer->pending = nodes;
    actions->prove = nodes;
    actions->token = observer->candidate;
    actions->term = observer->candidate_term;
    move(observer, RL_OBSERVER_PROVING, now);
}

/* How many members have not said what they hold; some of them may not be in our list. */
static unsigned unheard(const struct rl_observer_event *event, rl_mask answered) {
    const unsigned listed = rl_count(event->members), least = 2u * event->quorum - 2;
    const unsigned unlisted = least > listed ? least + 1 - listed : 0;
    return rl_count(event->members & (rl_mask)~answered) + unlisted;
}

static void judge_reading(struct rl_observer *observer, const struct rl_observer_event *event,
                          rl_ns now, struct rl_observer_actions *actions) {
    rl_mask most = 0;
    const rl_mask answered = observer->answered & (rl_mask)~event->voided;
    for (unsigned i = 0; i < observer->rules.nodes; i++) {
        if (observer->token[i] == 0) continue;
        const rl_mask same = holders(observer, answered, observer->token[i]);
        if (rl_count(same) <= rl_count(most)) continue;
        most = same;
        observer->candidate = observer->token[i];
    }
    if (rl_count(most) >= event->quorum) {
        observer->candidate_term = term_of(observer, observer->candidate);
        if (observer->candidate_term == 0 && observer->pending_terms != 0) return;
        if (observer->candidate_term == 0 ||
            is_old(observer, observer->candidate, observer->candidate_term))
            miss(observer, event, now, actions);
        else
            prove(observer, most, now, actions);
        return;
    }
    if (rl_count(most) + rl_count(observer->pending & (rl_mask)~event->voided) >= event->quorum)
        return;
    /* a silent node may hold what would make a majority */
    if (rl_count(most) + unheard(event, answered) >= event->quorum) {
        if (observer->pending == 0) miss(observer, event, now, actions);
        return;
    }
    observer->misses = 0;
    report_state(observer, RL_OBSERVED_NONE, now, actions);
    rest(observer, event, now);
}

static void take_key(struct rl_observer *observer, const struct rl_observer_event *event) {
    const rl_mask node = rl_bit(event->node);
    if (!(observer->pending & node)) return;
    observer->pending &= (rl_mask)~node;
    if (event->vote != RL_VOTE_GRANTED && event->vote != RL_VOTE_ABSENT) return;
    observer->answered |= node;
    if (event->vote == RL_VOTE_ABSENT || event->remaining < 0) return;
    const struct rl_terms drift = {.drift_ppm = observer->rules.drift_ppm,
                                   .drift_fixed = observer->rules.drift_fixed,
                                   .rates = observer->rules.rates};
    const uint32_t ppm = rl_allowance(&drift, node, 1);
    observer->token[event->node] = event->token;
    /* it was read after the question was sent */
    observer->ends[event->node] =
        observer->asked_at + event->remaining - rl_drift_at(&drift, ppm, event->remaining);
}

static void take_term(struct rl_observer *observer, const struct rl_observer_event *event) {
    if (!(observer->pending_terms & rl_bit(event->node))) return;
    observer->pending_terms &= (rl_mask)~rl_bit(event->node);
    if (event->vote != RL_VOTE_GRANTED || event->term < 1) return;
    observer->announced[event->node] = event->token;
    observer->terms[event->node] = event->term;
}

/* ---- proving ---- */

/* A majority has a key until here: the time at which too few are left. */
static rl_ns sure_until(const struct rl_observer *observer, rl_mask proven, unsigned quorum) {
    return rl_nth_time(observer->ends, proven, rl_count(proven) - quorum + 1);
}

static void judge_proof(struct rl_observer *observer, const struct rl_observer_event *event,
                        rl_ns now, struct rl_observer_actions *actions) {
    const rl_mask proven = observer->proven & (rl_mask)~event->voided,
                  pending = observer->pending & (rl_mask)~event->voided;
    if (rl_count(proven) < event->quorum) {
        if (rl_count(proven | pending) < event->quorum) miss(observer, event, now, actions);
        return;
    }
    struct rl_observation news = {.state = RL_OBSERVED_LEADER,
                                  .token = observer->candidate,
                                  .term = observer->candidate_term,
                                  .sure_until = sure_until(observer, proven, event->quorum)};
    /* What was promised before for the same leader still holds. */
    if (observer->known.token == news.token && observer->known.sure_until > news.sure_until)
        news.sure_until = observer->known.sure_until;
    if (news.sure_until <= now) {
        miss(observer, event, now, actions);
        return;
    }
    observer->misses = 0;
    report(observer, &news, now, actions);
    rest(observer, event, now);
}

/* ---- the step ---- */

static void take(struct rl_observer *observer, const struct rl_observer_event *event) {
    switch (event->type) {
    case RL_OBSERVER_BEGIN: observer->random = event->seed; break;
    case RL_OBSERVER_KEY:
        if (observer->state == RL_OBSERVER_READING && event->round == observer->round)
            take_key(observer, event);
        break;
    case RL_OBSERVER_TERM:
        if (observer->state == RL_OBSERVER_READING && event->round == observer->round)
            take_term(observer, event);
        break;
    case RL_OBSERVER_PROVEN:
        if (observer->state != RL_OBSERVER_PROVING || event->round != observer->round) break;
        if (event->vote == RL_VOTE_GRANTED) observer->proven |= rl_bit(event->node);
        observer->pending &= (rl_mask)~rl_bit(event->node);
        break;
    case RL_OBSERVER_WAKE:
        observer->woken = true;
        if (observer->state == RL_OBSERVER_RESTING)
            observer->look_at = observer->asked_at + LOOKS_APART;
        break;
    case RL_OBSERVER_NODES:
    case RL_OBSERVER_TICK: break;
    }
}

/* Nodes that are silent count as failed. */
static void close_late(struct rl_observer *observer, rl_ns now) {
    if (now < observer->since + observer->rules.answer_timeout) return;
    observer->pending = observer->pending_terms = 0;
}

static rl_ns wake_at(const struct rl_observer *observer) {
    rl_ns at = observer->state == RL_OBSERVER_RESTING
                   ? observer->look_at
                   : observer->since + observer->rules.answer_timeout;
    if (observer->known.state == RL_OBSERVED_LEADER && observer->known.sure_until < at)
        at = observer->known.sure_until;
    return at;
}

void rl_observer_step(struct rl_observer *observer, const struct rl_observer_event *event,
                      rl_ns now, struct rl_observer_actions *actions) {
    memset(actions, 0, sizeof *actions);
    take(observer, event);
    if (event->type == RL_OBSERVER_TICK) close_late(observer, now);
    if (observer->state == RL_OBSERVER_READING)
        judge_reading(observer, event, now, actions);
    else if (observer->state == RL_OBSERVER_PROVING)
        judge_proof(observer, event, now, actions);
    run_out(observer, now, actions);
    const bool begins = event->type == RL_OBSERVER_BEGIN && observer->state == RL_OBSERVER_IDLE;
    if (begins || (observer->state == RL_OBSERVER_RESTING && now >= observer->look_at))
        look(observer, event, now, actions);
    actions->round = observer->round;
    actions->wake_at = wake_at(observer);
}
