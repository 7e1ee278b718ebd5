/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Corner cases. Faults that are drawn independently rarely meet: a second loss at the moment in
 * which a node votes again, a request that is late by almost a TTL, an extension in the last
 * millisecond. Here each group of actions has one moment, and its actions come at the moments that
 * matter to each other: at it, a TTL later, when the wait of a recovering node ends.
 *
 * plan.c also draws fewer nodes for such a plan, clocks at the edge of drift, and TTL = ttl_max.
 */
#include "plan.h"

enum { FAULTS_KEPT_PERCENT = 40, GROUPS_MOST = 8 };

/* One group. */
struct moment {
    struct plan *plan;
    rl_ns at, ttl, wait;          /* `wait`: of a recovering node */
    uint8_t node, other, apart;   /* different nodes, if there are three */
    uint8_t holder, rival, third; /* different clients, if there are three */
    uint8_t resource;
};

static int64_t between(struct plan *plan, int64_t low, int64_t high) {
    return random_between(&plan->random, low, high);
}

static bool chance(struct plan *plan, unsigned percent) {
    return random_chance(&plan->random, percent * 10000);
}

/* Most often very close to it, before or after. */
static rl_ns near_to(const struct moment *moment, rl_ns at) {
    struct plan *plan = moment->plan;
    rl_ns most = moment->ttl >> between(plan, 3, 16);
    rl_ns off = chance(plan, 20) ? 0 : between(plan, -most, most);
    return at + off > 0 ? at + off : 0;
}

/* From then on, the next request is the one that is sent at this time. */
static rl_ns just_before(rl_ns at) { return at > RL_MS ? at - RL_MS : 0; }

static rl_ns almost(const struct moment *moment, rl_ns span) {
    return span * between(moment->plan, 900, 1050) / 1000;
}

static struct plan_action *add(const struct moment *moment, enum plan_kind kind, rl_ns at) {
    static struct plan_action left_out;
    struct plan *plan = moment->plan;
    struct plan_action *action =
        plan->count < PLAN_ACTIONS_MAX ? &plan->actions[plan->count++] : &left_out;
    *action = (struct plan_action){.at = near_to(moment, at),
                                   .kind = (uint8_t)kind,
                                   .client = moment->holder,
                                   .node = moment->node,
                                   .resource = moment->resource};
    return action;
}

static struct plan_action *add_session(const struct moment *moment, uint8_t client, rl_ns at,
                                       rl_ns hold) {
    struct plan_action *action = add(moment, PLAN_SESSION, at);
    action->client = client;
    action->span = hold;
    action->number = chance(moment->plan, 30) ? 0 : 2 * moment->ttl / RL_MS;
    action->updates = (uint32_t)between(moment->plan, 0, 2);
    action->think = between(moment->plan, 0, moment->ttl / 20);
    return action;
}

static struct plan_action *cut(const struct moment *moment, uint8_t client, uint8_t node, rl_ns at,
                               rl_ns span) {
    struct plan_action *action = add(moment, PLAN_CUT, at);
    action->client = client;
    action->node = node;
    action->number = LINK_BOTH;
    action->span = span;
    return action;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void lose_process(const struct moment *moment, struct plan_action *loss) {
    struct plan *plan = moment->plan;
    switch ((enum plan_kind)loss->kind) {
    case PLAN_NODE_CRASH:
        loss->number = chance(plan, 60) ? NODE_KEEPS_NOTHING : NODE_LOSES_LAST_SECOND;
        loss->span = between(plan, RL_MS, moment->ttl >> between(plan, 2, 10));
        break;
    case PLAN_NODE_FAILOVER: loss->number = between(plan, RL_MS, moment->ttl); break;
    case PLAN_NODE_SPLIT:
        loss->number = between(plan, RL_MS, moment->ttl);
        loss->span = almost(moment, chance(plan, 50) ? moment->ttl : moment->wait);
        break;
    default: break;
    }
}

/* Of a node's data; in classic mode, which would not stand it, a node that is stopped or keeps its
 * data. */
static void lose(const struct moment *moment, uint8_t node, rl_ns at) {
    static const uint8_t losses[] = {PLAN_NODE_CRASH, PLAN_NODE_CRASH,    PLAN_NODE_FLUSH,
                                     PLAN_NODE_FLUSH, PLAN_NODE_FAILOVER, PLAN_NODE_SPLIT};
    struct plan *plan = moment->plan;
    const bool guarded = plan->guarded;
    const uint8_t kind = guarded            ? losses[between(plan, 0, sizeof losses - 1)]
                         : chance(plan, 50) ? PLAN_NODE_PAUSE
                                            : PLAN_NODE_CRASH;
    struct plan_action *loss = add(moment, (enum plan_kind)kind, at);
    loss->node = node;
    if (guarded) {
        lose_process(moment, loss);
        return;
    }
    loss->number = NODE_KEEPS_ALL;
    loss->span = almost(moment, moment->ttl >> between(plan, 0, 6));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* A lock is granted, a node that granted it loses its data, and a rival comes at once, when the
 * node votes again, and when the lock must have ended. */
static void grant_and_loss(const struct moment *moment) {
    struct plan *plan = moment->plan;
    add_session(moment, moment->holder, moment->at,
                chance(plan, 50) ? 3 * moment->ttl : moment->ttl);
    lose(moment, moment->node, moment->at);
    add_session(moment, moment->rival, moment->at, moment->ttl / 4);
    add_session(moment, moment->rival, moment->at + moment->wait, moment->ttl / 4);
    add_session(moment, moment->rival, moment->at + moment->ttl, moment->ttl / 4);
}

/* Another node is lost when the first one votes again, and then the first one once more. */
static void loss_after_loss(const struct moment *moment) {
    lose(moment, moment->node, moment->at);
    lose(moment, moment->other, moment->at + moment->wait);
    lose(moment, moment->node, moment->at + 2 * moment->wait);
    add_session(moment, moment->holder, moment->at + moment->wait, 2 * moment->ttl);
    add_session(moment, moment->rival, moment->at + 2 * moment->wait, moment->ttl / 4);
}

/* A node is lost again while it waits. */
static void loss_in_wait(const struct moment *moment) {
    const rl_ns part = moment->wait * between(moment->plan, 1, 10) / 10;
    lose(moment, moment->node, moment->at);
    lose(moment, moment->node, moment->at + part);
    add_session(moment, moment->holder, moment->at, 2 * moment->ttl);
    add_session(moment, moment->rival, moment->at + part + moment->wait, moment->ttl / 4);
}

/* A request that arrives after almost a TTL, at a node that has lost its data meanwhile or not. */
static void late_request(const struct moment *moment) {
    struct plan *plan = moment->plan;
    struct plan_action *delay = add(moment, PLAN_DELAY, moment->at);
    delay->number = almost(moment, chance(plan, 50) ? moment->ttl : moment->wait);
    add_session(moment, moment->holder, moment->at, moment->ttl / 2);
    if (chance(plan, 60)) lose(moment, moment->node, moment->at + moment->ttl / 8);
    if (chance(plan, 40)) lose(moment, moment->other, moment->at + moment->ttl);
    add_session(moment, moment->rival, moment->at + moment->ttl, moment->ttl / 2);
}

/* The holder is stopped for almost a TTL, while a rival waits. */
static void stopped_holder(const struct moment *moment) {
    const rl_ns late = almost(moment, moment->ttl), span = almost(moment, moment->ttl);
    struct plan_action *session = add_session(moment, moment->holder, moment->at, moment->ttl);
    session->late = moment->plan->guarded ? late : 0;
    add(moment, PLAN_CLIENT_PAUSE, moment->at)->span = span;
    add_session(moment, moment->rival, moment->at + moment->ttl, moment->ttl / 4);
    if (chance(moment->plan, 50)) lose(moment, moment->node, moment->at + moment->ttl / 2);
}

/* All clients are cut off from one node, so that each majority is bare, and another node is lost as
 * the cut ends. */
static void bare_majority(const struct moment *moment) {
    const rl_ns span = almost(moment, 2 * moment->ttl);
    for (unsigned i = 0; i < moment->plan->options.clients; i++)
        cut(moment, (uint8_t)i, moment->node, moment->at, span);
    add_session(moment, moment->holder, moment->at, 3 * moment->ttl);
    lose(moment, moment->other, moment->at + span);
    add_session(moment, moment->rival, moment->at + span, moment->ttl / 4);
    add_session(moment, moment->rival, moment->at + span + moment->wait, moment->ttl / 4);
}

/* An extension in the last moment, with a loss next to it. */
static void last_extension(const struct moment *moment) {
    struct plan *plan = moment->plan;
    struct plan_action *session = add_session(moment, moment->holder, moment->at, 3 * moment->ttl);
    session->extend_at = moment->ttl * between(plan, 900, 990) / 1000;
    session->extend_ms = moment->ttl / RL_MS;
    lose(moment, moment->node, moment->at + session->extend_at);
    add_session(moment, moment->rival, moment->at + moment->ttl, moment->ttl / 4);
    add_session(moment, moment->rival, moment->at + session->extend_at + moment->wait,
                moment->ttl / 4);
}

/* The client that recovers a node is stopped until the wait is done. */
static void stopped_agent(const struct moment *moment) {
    lose(moment, moment->node, moment->at);
    for (unsigned i = 0; i < moment->plan->options.clients; i++) {
        if (i != 0 && !chance(moment->plan, 30)) continue;
        struct plan_action *pause = add(moment, PLAN_CLIENT_PAUSE, moment->at + moment->wait / 16);
        pause->client = (uint8_t)i;
        pause->span = almost(moment, moment->wait);
    }
    add_session(moment, moment->holder, moment->at, 2 * moment->ttl);
    if (chance(moment->plan, 50)) lose(moment, moment->node, moment->at + moment->wait);
    add_session(moment, moment->rival, moment->at + moment->wait, moment->ttl / 4);
}

/* ---- two sides --------------------------------------------------------------------------------
 */

/* From a fraction of the network's delay to the time that a client waits for an answer. */
static rl_ns soon(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns delay = plan->options.link.delay_max;
    const rl_ns most[] = {delay, 4 * delay, 16 * delay, moment->ttl / 8, moment->ttl * 3 / 4};
    return between(plan, delay / 4, most[between(plan, 0, 4)]);
}

/* Something happens between the holder and a node of its side just after it has asked for the
 * lock. */
static void disturb(const struct moment *moment, rl_ns asked) {
    struct plan *plan = moment->plan;
    const uint8_t node = chance(plan, 50) ? moment->node : moment->other;
    struct plan_action *action;
    switch (between(plan, 0, 4)) {
    case 0:
        action = add(moment, PLAN_DELAY, 0);
        action->at = just_before(asked);
        action->number = soon(moment);
        break;
    case 1:
        action = add(moment, PLAN_CUT, 0);
        action->number = between(plan, LINK_REQUESTS, LINK_BOTH);
        action->at = asked + soon(moment);
        action->span = almost(moment, moment->wait);
        break;
    case 2:
        action = add(moment, PLAN_CLIENT_CLOCK, asked);
        action->number = between(plan, -600000, 600000) * RL_MS;
        break;
    default:
        action = add(moment, chance(plan, 60) ? PLAN_BREAK : PLAN_LOSE_ANSWER, 0);
        action->at = asked + soon(moment);
        break;
    }
    action->node = node;
}

/* The replica of the node takes its place, and the node lives on, for the holder alone. */
static void replace(const struct moment *moment) {
    struct plan *plan = moment->plan;
    if (chance(plan, 25)) add(moment, PLAN_NODE_FLUSH, moment->at);
    struct plan_action *split = add(moment, PLAN_NODE_SPLIT, moment->at);
    split->number = chance(plan, 50) ? between(plan, RL_MS, moment->ttl) : soon(moment);
    split->span = 4 * moment->wait;
    for (unsigned i = 0; i < plan->options.clients; i++) {
        if (i == moment->holder) continue;
        struct plan_action *action = add(moment, PLAN_BREAK, 0);
        action->at = split->at + soon(moment);
        action->client = (uint8_t)i;
    }
}

/* The holder has one majority and its rival another, and the one node that both have is replaced or
 * loses its data. */
static void two_sides(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns before = moment->at > 16 * RL_MS ? moment->at - 16 * RL_MS : 0;
    const rl_ns asks[] = {before, moment->at + moment->wait * 3 / 5, moment->at + moment->wait};
    const rl_ns asked = near_to(moment, asks[between(plan, 0, 2)]);
    cut(moment, moment->holder, moment->apart, before / 2, 4 * moment->wait);
    if (chance(plan, 60))
        cut(moment, moment->rival, moment->other, before / 2,
            moment->at - before / 2 + almost(moment, moment->wait));
    if (plan->guarded && chance(plan, 70))
        replace(moment);
    else
        lose(moment, moment->node, moment->at);
    add_session(moment, moment->holder, 0, 4 * moment->ttl)->at = asked;
    for (int64_t left = between(plan, 0, 3); left > 0; left--) disturb(moment, asked);
    add_session(moment, moment->rival, moment->at + soon(moment), moment->ttl / 8);
    add_session(moment, moment->rival, moment->at + moment->wait, moment->ttl / 4);
    add_session(moment, moment->rival, moment->at + moment->wait * between(plan, 4, 12) / 5,
                moment->ttl / 4);
}

/* A node may evict keys, and does so once all clients must have seen it; the holder has a bare
 * majority with it, and a rival that waits has the others. */
static void evicting_node(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns span = 8000 * RL_MS;
    cut(moment, moment->holder, moment->apart, moment->at / 2, span);
    cut(moment, moment->rival, moment->other, moment->at / 2, span);
    add_session(moment, moment->holder, moment->at, span);
    struct plan_action *policy = add(moment, PLAN_NODE_POLICY, moment->at);
    policy->span = between(plan, 2500, 8000) * RL_MS;
    struct plan_action *waits = add_session(moment, moment->rival, moment->at, moment->ttl / 4);
    waits->number = span / RL_MS;
}

/* A vote is under way to one node while another one, which has voted, loses its data and comes
 * back: by then it must know the fence of that vote. The holder's wall clock is ahead, so its fence
 * is. */
static void vote_in_flight(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns delay = plan->options.link.delay_max, at = moment->at;
    struct plan_action *ahead = add(moment, PLAN_CLIENT_CLOCK, at / 2);
    /* The floor of an init is above all tokens only if no clock is as far ahead as an operator's.
     */
    ahead->number = between(plan, 0, plan->operators ? 600000 : 3 * 3600000) * RL_MS;
    plan->patient = true; /* the holder waits for the late answer */
    struct world_client_options *holder = &plan->options.client[moment->holder];
    holder->client.node_timeout_ms = holder->lock.ttl_ms * 3 / 4;
    cut(moment, moment->holder, moment->apart, at / 2, at / 2 + moment->ttl);
    struct plan_action *late = add(moment, PLAN_DELAY, 0), *session;
    late->at = just_before(at);
    late->node = moment->other;
    late->number = between(plan, moment->ttl / 8, moment->ttl * 3 / 5);
    session = add_session(moment, moment->holder, 0, moment->ttl / 2);
    session->at = at;
    struct plan_action *loss = add(moment, PLAN_NODE_FLUSH, 0);
    loss->at = at + between(plan, 2 * delay, 8 * delay);
    if (chance(plan, 90)) {
        struct plan_action *apart_now = cut(moment, moment->holder, moment->node, 0, moment->wait);
        apart_now->at = at + between(plan, 2 * delay, 4 * delay);
    }
    session = add_session(moment, moment->rival, 0, RL_MS);
    session->at = loss->at + soon(moment);
    cut(moment, moment->third, moment->other, at + moment->wait, 2 * moment->wait);
    add_session(moment, moment->third, loss->at + moment->wait, moment->ttl / 4)->number =
        2 * moment->ttl / RL_MS;
}

/* A rival's vote and the news that the node has other data are on their way together. */
static void vote_and_news(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns delay = plan->options.link.delay_max;
    cut(moment, moment->holder, moment->apart, moment->at / 2, 3 * moment->wait);
    cut(moment, moment->rival, moment->other, moment->at / 2, 3 * moment->wait);
    add_session(moment, moment->holder, moment->at, 3 * moment->ttl);
    struct plan_action *asks = add_session(moment, moment->rival, 0, moment->ttl / 4);
    asks->at = moment->at + moment->ttl / 4;
    if (plan->guarded && !(plan->options.unannounced & rl_bit(moment->node))) {
        struct plan_action *trip = add(moment, PLAN_NODE_TRIP, 0);
        trip->at = asks->at + between(plan, 0, 2 * delay);
        trip->number = almost(moment, moment->ttl / 2);
        trip->span = between(plan, 1, 2 * delay);
        trip->late = between(plan, 0, trip->span);
    } else {
        lose(moment, moment->node, asks->at + between(plan, 0, 2 * delay));
    }
}

/* A lock is broken while its holder acquires or renews it; what is under way arrives late, and a
 * node of the break's majority loses its data. */
static void broken_lock(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns at = moment->at, renewed = at + moment->ttl / 3;
    /* One draw a statement: compilers differ in the order within one expression. */
    rl_ns broken = near_to(moment, chance(plan, 50) ? at : renewed);
    broken += soon(moment);
    struct plan_action *action = add(moment, PLAN_CLIENT_CLOCK, at / 2);
    action->client = moment->third;
    action->number = -between(plan, 0, 3 * 3600000) * RL_MS;
    /* The break of another project's client would reach the copies alone. */
    plan->options.client[moment->third].stranger = false;
    if (chance(plan, 60)) cut(moment, moment->third, moment->apart, at / 2, 4 * moment->wait);
    if (chance(plan, 60)) {
        action = add(moment, PLAN_DELAY, 0);
        action->at = just_before(chance(plan, 50) ? at : broken);
        action->node = moment->other;
        action->client = chance(plan, 50) ? moment->holder : moment->third;
        action->number = soon(moment);
    }
    add_session(moment, moment->holder, 0, 3 * moment->ttl)->at = at;
    action = add(moment, PLAN_BREAKS_LOCK, 0);
    action->at = broken;
    action->client = moment->third;
    action->think = chance(plan, 50) ? 0 : soon(moment);
    if (chance(plan, 60)) {
        const uint8_t lost = chance(plan, 50) ? moment->node : moment->other;
        lose(moment, lost, broken + soon(moment));
    }
    add_session(moment, moment->rival, broken + soon(moment), moment->ttl / 4);
    add_session(moment, moment->rival, broken + moment->wait, moment->ttl / 4);
}

/* The holder's machine stops with its clock between its request and the votes. A node forgets its
 * vote, others hold the lock meanwhile, and a third client comes after the holder is back. The
 * clocks that tokens are taken from differ, so the forgotten one may be the highest. */
static void stopped_machine(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns delay = plan->options.link.delay_max, at = moment->at;
    const rl_ns span = moment->wait * between(plan, 8, 30) / 8;
    struct plan_action *action = add(moment, PLAN_CLIENT_CLOCK, at / 2);
    action->number = between(plan, 0, 600000) * RL_MS;
    cut(moment, moment->holder, moment->apart, at / 2, at / 2 + span);
    if (chance(plan, 70)) {
        action = add(moment, PLAN_DELAY, 0);
        action->at = just_before(at);
        action->node = moment->other;
        action->number = span * between(plan, 800, 1000) / 1000;
    }
    add_session(moment, moment->holder, 0, moment->ttl)->at = at;
    action = add(moment, PLAN_CLIENT_FREEZE, 0);
    action->at = at + between(plan, 1, 3 * delay);
    action->span = span;
    lose(moment, moment->node, at + moment->ttl / 8);
    for (int64_t left = between(plan, 1, 3); left > 0; left--)
        add_session(moment, moment->rival, at + span * between(plan, 1, 8) / 8, RL_MS);
    add_session(moment, moment->third, at + span, moment->ttl / 8)->number =
        2 * moment->ttl / RL_MS;
}

/* ---- what needs a long TTL --------------------------------------------------------------------
 */

/* For a moment, the holder cannot reach the third node, so its majority is bare. */
static void add_bare_session(const struct moment *moment) {
    const rl_ns span = 20 * moment->plan->options.link.delay_max;
    cut(moment, moment->holder, moment->apart, 0, RL_MS + span)->at = just_before(moment->at);
    add_session(moment, moment->holder, 0, moment->ttl)->at = moment->at;
    if (chance(moment->plan, 70)) moment->plan->options.client[moment->holder].lock.renew = false;
}

/* Rivals come when all clients can know that the clock of a node of the holder's majority stepped.
 * Meanwhile the third node is cut off, or recovers, so that too few can act at once. */
static void stepped_clock(const struct moment *moment) {
    struct plan *plan = moment->plan;
    const rl_ns stepped = moment->at + between(plan, 100 * RL_MS, moment->ttl / 4);
    add_bare_session(moment);
    struct plan_action *step = add(moment, PLAN_NODE_STEP, 0), *action;
    step->at = stepped;
    step->number = between(plan, moment->ttl / 4, moment->ttl);
    const rl_ns back = stepped + between(plan, -500, 1500) * RL_MS;
    switch (between(plan, 0, 2)) {
    case 0:
        action = add(moment, PLAN_NODE_FLUSH, 0);
        action->node = moment->apart;
        action->at = back > moment->wait ? back - moment->wait : 0;
        break;
    case 1: {
        rl_ns from = stepped - between(plan, 100, 1200) * RL_MS;
        if (from < 0) from = 0;
        const rl_ns span = back + 500 * RL_MS - from;
        for (unsigned i = 0; i < plan->options.clients; i++)
            cut(moment, (uint8_t)i, moment->apart, 0, span > 0 ? span : RL_MS)->at = from;
        break;
    }
    default: break;
    }
    for (int64_t left = between(plan, 1, 3); left > 0; left--)
        add_session(moment, moment->rival, stepped + between(plan, 2300 * RL_MS, moment->ttl),
                    RL_MS);
}

/* An operator lowers ttl_max, and a node of the holder's majority loses its data: it must wait for
 * the longer value. The rival's TTL is one that the shorter value allows. */
static void lowered_ttl_max(const struct moment *moment) {
    struct plan *plan = moment->plan;
    struct world_client_options *rival = &plan->options.client[moment->rival];
    const int64_t shorter_ms = moment->ttl / RL_MS / 4;
    if (moment->rival == 0 || plan->patient) return; /* the first client's TTL is the longest */
    rival->lock.ttl_ms = shorter_ms;
    rival->lock.hold_ms_max = 0;
    rival->client.node_timeout_ms = plan_node_timeout(plan) / RL_MS;
    add_bare_session(moment);
    struct plan_action *action = add(moment, PLAN_OPERATE, 0);
    action->at = moment->at + soon(moment);
    if (chance(plan, 30)) action->at = just_before(moment->at);
    action->client = (uint8_t)(plan->options.clients - 1);
    action->number = OPERATION_SET_TTL_MAX;
    action->extend_ms = shorter_ms;
    action->updates = 2;
    action->think = moment->ttl / 32;
    const rl_ns lost = action->at + between(plan, moment->ttl / 64, moment->ttl / 2);
    lose(moment, moment->node, lost);
    for (int64_t left = between(plan, 1, 3); left > 0; left--)
        add_session(moment, moment->rival, lost + between(plan, moment->ttl / 4, moment->ttl),
                    RL_MS);
}

/* ---- a plan ---------------------------------------------------------------------------------- */

static struct moment draw_moment(struct plan *plan) {
    const struct world_options *options = &plan->options;
    const rl_ns ttl = options->client[0].lock.ttl_ms * RL_MS;
    const int64_t ttl_max_ms = plan->guarded ? options->ttl_ms_max : options->client[0].lock.ttl_ms;
    const unsigned clients = options->clients - plan->operators;
    struct moment moment = {.plan = plan, .ttl = ttl, .wait = ttl_max_ms * RL_MS * 101 / 100};
    /* One after the other: compilers differ in the order within one initializer. */
    moment.at = between(plan, ttl / 8, plan->faults_end * 3 / 4);
    moment.node = (uint8_t)between(plan, 0, options->nodes - 1);
    moment.holder = (uint8_t)between(plan, 0, clients - 1);
    moment.resource = (uint8_t)between(plan, 0, options->resources - 1);
    moment.other = (uint8_t)((moment.node + between(plan, 1, options->nodes - 1)) % options->nodes);
    moment.rival = (uint8_t)((moment.holder + between(plan, 1, clients - 1)) % clients);
    moment.apart = (uint8_t)((2u * options->nodes - moment.node - moment.other) % options->nodes);
    moment.third = (uint8_t)((2u * clients - moment.holder - moment.rival) % clients);
    return moment;
}

/* From a sequence of its own: the other actions of a seed stay what they were. */
static void add_long(struct plan *plan) {
    if (!plan->guarded) return;
    plan->random = random_named(plan->seed, 19);
    const bool lowers = plan->operators != 0 && chance(plan, 40), steps = chance(plan, 40);
    for (int64_t left = between(plan, 1, 3); left > 0; left--) {
        const struct moment moment = draw_moment(plan);
        if (lowers)
            lowered_ttl_max(&moment);
        else if (steps && moment.ttl > 3000 * RL_MS)
            stepped_clock(&moment);
    }
}

/* The faults have an end. */
static void leave_out_late(struct plan *plan) {
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].at < plan->faults_end) plan->actions[kept++] = plan->actions[i];
    plan->count = kept;
}

/* Many faults at any time would only blur the moments. */
static void thin_out(struct plan *plan) {
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const enum plan_kind kind = (enum plan_kind)plan->actions[i].kind;
        if (kind == PLAN_OPERATE || kind == PLAN_BREAKS_LOCK || kind == PLAN_POWER_CUT ||
            chance(plan, FAULTS_KEPT_PERCENT))
            plan->actions[kept++] = plan->actions[i];
    }
    plan->count = kept;
}

void bias_actions(struct plan *plan) {
    static void (*const groups[])(
        const struct moment *) = {grant_and_loss, loss_after_loss, loss_in_wait,   late_request,
                                  stopped_holder, bare_majority,   last_extension, stopped_agent,
                                  two_sides,      two_sides,       two_sides,      vote_and_news,
                                  vote_in_flight, evicting_node}; /* the last ones: guarded */
    enum { GROUPS = sizeof groups / sizeof groups[0], GUARDED_ONLY = 2 };
    plan->random = random_named(plan->seed, 18);
    if (plan->options.nodes < 2) return;
    const bool breaks = plan_has_breaks(plan);
    thin_out(plan);
    for (int64_t left = between(plan, 2, GROUPS_MOST); left > 0; left--) {
        const struct moment moment = draw_moment(plan);
        if (plan->broken == PLAN_BREAK_VM_STOP && chance(plan, 50))
            stopped_machine(&moment);
        else if (breaks && chance(plan, 50))
            broken_lock(&moment);
        else
            groups[between(plan, 0, plan->guarded ? GROUPS - 1 : GROUPS - 1 - GUARDED_ONLY)](
                &moment);
    }
    add_long(plan);
    leave_out_late(plan);
    plan_sort(plan);
}
