/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Swarm testing: each seed draws which kinds of fault there are at all, and how many. Some runs are
 * all partitions, others all crashes, and rare mixes occur too. The draws stay inside classic
 * mode's assumptions unless one of them is switched off.
 */
#include "plan.h"

#include <string.h>

#include "random.h"

/* The drift of 1 % is split between the two clocks that disagree: a key must not end before its
 * holder's validity. (1 + n) / (1 - c) <= 1 / 0.99 for node rates up to n and client rates down to
 * c. */
#define BOTH_OFF_PPM 5000
#define ONE_OFF_PPM 10000

struct draw {
    struct plan *plan;
    struct random random;
};

static int64_t between(struct draw *draw, int64_t low, int64_t high) {
    return random_between(&draw->random, low, high);
}
static bool chance(struct draw *draw, unsigned percent) {
    return random_chance(&draw->random, percent * 10000);
}

/* In this range, with each power of two as likely as the next. */
static int64_t log_between(struct draw *draw, int64_t low, int64_t high) {
    unsigned powers = 0;
    while (low << (powers + 1) <= high) powers++;
    int64_t from = low << between(draw, 0, powers);
    int64_t to = from * 2 < high ? from * 2 : high;
    return between(draw, from, to);
}

static rl_ns ttl_of(const struct plan *plan) { return plan->options.client[0].lock.ttl_ms * RL_MS; }

static rl_ns node_timeout(const struct plan *plan) {
    rl_ns timeout = ttl_of(plan) / 20;
    if (timeout > 50 * RL_MS) return 50 * RL_MS;
    return timeout < 5 * RL_MS ? 5 * RL_MS : timeout;
}

/* ---- options --------------------------------------------------------------------------------- */

/* One node timeout is for a whole attempt: one round trip of votes, or, guarded, also one to raise
 * and one to confirm.
 */
static void draw_link(struct draw *draw) {
    struct world_link *link = &draw->plan->options.link;
    rl_ns timeout = node_timeout(draw->plan) / (draw->plan->guarded ? 3 : 1);
    link->delay_max = log_between(draw, timeout / 64, timeout * 2 / 5);
    link->delay_min = between(draw, link->delay_max / 16, link->delay_max);
    if (chance(draw, 40)) {
        link->tail_ppm = (uint32_t)log_between(draw, 1000, 200000);
        link->tail_max = log_between(draw, timeout / 2, timeout * 8);
        if (link->tail_max < link->delay_max) link->tail_max = link->delay_max;
    }
    if (chance(draw, 20)) link->request_loss_ppm = (uint32_t)log_between(draw, 500, 50000);
    if (chance(draw, 20)) link->reply_loss_ppm = (uint32_t)log_between(draw, 500, 50000);
}

static void draw_client(struct draw *draw, unsigned index) {
    struct plan *plan = draw->plan;
    struct world_client_options *client = &plan->options.client[index];
    const struct world_client_options *first = &plan->options.client[0];
    struct redlock_lock_options *lock = &client->lock;
    lock->ttl_ms = first->lock.ttl_ms;
    client->client.stall_timeout_ms = log_between(draw, 50, 5000);
    client->client.connect_timeout_ms = log_between(draw, 50, 1000);
    lock->renew = chance(draw, 50);
    if (chance(draw, 30)) lock->hold_ms_max = between(draw, lock->ttl_ms / 2, lock->ttl_ms * 4);
    if (chance(draw, 20)) lock->renew_count_max = (uint32_t)between(draw, 1, 4);
    if (chance(draw, 50)) lock->lost_margin_ms = 0;
    rl_ns round_trip = 2 * plan->options.link.delay_max;
    lock->retry_delay_ms_max =
        log_between(draw, 10 + round_trip / RL_MS * 8, 600 + round_trip / RL_MS * 8);
    lock->retry_delay_ms_min = between(draw, 0, lock->retry_delay_ms_max / 4);
    if (chance(draw, 20)) lock->retry_count_max = (uint32_t)between(draw, 1, 20);
}

static uint32_t off_by(struct draw *draw, int64_t most) {
    int64_t off = chance(draw, 40) ? most : between(draw, 0, most);
    return (uint32_t)(1000000 + (chance(draw, 50) ? off : -off));
}

static void draw_clocks(struct draw *draw) {
    struct plan *plan = draw->plan;
    int64_t nodes_off = 0, clients_off = 0;
    switch (between(draw, 0, 3)) {
    case 0: break;
    case 1: nodes_off = ONE_OFF_PPM; break;
    case 2: clients_off = ONE_OFF_PPM; break;
    default: nodes_off = clients_off = BOTH_OFF_PPM; break;
    }
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        plan->node_ppm[i] =
            nodes_off && i < plan->options.nodes ? off_by(draw, nodes_off) : 1000000;
    for (unsigned i = 0; i < plan->options.clients; i++)
        plan->options.client[i].clock_ppm = clients_off ? off_by(draw, clients_off) : 1000000;
}

/* Guarded mode: any fault may happen, but the quorum's own nodes are the same for all clients,
 * whatever their lists. A can always work, and recovers nodes that lost their data, so that the
 * faults can go on. */
static void draw_guarded_client(struct draw *draw, unsigned index) {
    struct plan *plan = draw->plan;
    struct world_client_options *client = &plan->options.client[index];
    client->client.mode = REDLOCK_MODE_GUARDED;
    client->client.allow_replicas = 1; /* these nodes are promoted */
    client->client.confirm = chance(draw, 30);
    if (plan->clocks_apart) client->wall_off = between(draw, -3600000, 3600000) * RL_MS;
    if (plan->patient)
        client->client.node_timeout_ms =
            between(draw, client->lock.ttl_ms / 4, client->lock.ttl_ms * 3 / 4);
    client->client.recover = index == 0 || chance(draw, 80);
    if (index == 0) return;
    client->short_lived = chance(draw, 25);
    if (!chance(draw, 25)) return;
    while (rl_count(client->nodes) <
           rl_quorum(plan->options.nodes)) /* with fewer, no client can acquire */
        client->nodes = (rl_mask)between(draw, 1, (int64_t)rl_all(plan->options.nodes));
}

static void draw_guarded_options(struct draw *draw) {
    struct world_options *options = &draw->plan->options;
    int64_t ttl_ms = options->client[0].lock.ttl_ms;
    options->guarded = options->fenced = true;
    options->ttl_ms_max = chance(draw, 50) ? ttl_ms : between(draw, ttl_ms, 2 * ttl_ms);
    draw->plan->clocks_apart = chance(draw, 60);
    draw->plan->patient = chance(draw, 20);
    if (chance(draw, 50)) options->split_ppm = (uint32_t)log_between(draw, 1000, 200000);
    for (unsigned i = 0; i < options->clients; i++) draw_guarded_client(draw, i);
}

/* Lists of some of the nodes each, which share no majority with each other. */
static void mix_configurations(struct draw *draw) {
    struct world_options *options = &draw->plan->options;
    for (unsigned i = 0; i < options->clients; i++) {
        rl_mask nodes = 0;
        while (nodes == 0) nodes = (rl_mask)between(draw, 1, (int64_t)rl_all(options->nodes));
        options->client[i].nodes = nodes;
    }
}

static void draw_options(struct draw *draw) {
    static const uint8_t nodes[] = {1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7};
    struct plan *plan = draw->plan;
    struct world_options *options = &plan->options;
    world_options_init(options);
    options->seed = plan->seed;
    options->record_messages = 0;
    options->nodes = nodes[between(draw, 0, (int64_t)sizeof(nodes) - 1)];
    if ((plan->broken == PLAN_BREAK_MIXED_CONFIG || plan->guarded) && options->nodes < 3)
        options->nodes += 2;
    options->clients = (unsigned)between(draw, 2, 5);
    options->resources = chance(draw, 25) ? 2 : 1;
    options->client[0].lock.ttl_ms = log_between(draw, 100, 10000);
    draw_link(draw);
    for (unsigned i = 0; i < options->clients; i++) draw_client(draw, i);
    draw_clocks(draw);
    if (plan->broken == PLAN_BREAK_MIXED_CONFIG) mix_configurations(draw);
    if (plan->guarded) draw_guarded_options(draw);
}

/* From a sequence of its own: a seed whose nodes do not notify stays what it was before
 * notifications existed. */
static void draw_wakes(struct plan *plan) {
    struct draw own = {plan, random_named(plan->seed, 8)}, *draw = &own;
    struct world_wakes *wakes = &plan->options.wakes;
    wakes->on = chance(draw, 75);
    if (!wakes->on) return;
    if (chance(draw, 40)) wakes->lost_ppm = (uint32_t)log_between(draw, 1000, 1000000);
    if (chance(draw, 30)) wakes->twice_ppm = (uint32_t)log_between(draw, 1000, 1000000);
    if (chance(draw, 40)) {
        wakes->late_ppm = (uint32_t)log_between(draw, 1000, 1000000);
        wakes->late_max = log_between(draw, RL_MS, 4 * ttl_of(plan));
    }
    if (chance(draw, 40)) wakes->false_ppm = (uint32_t)log_between(draw, 1000, 1000000);
    if (chance(draw, 20))
        wakes->deaf = (rl_mask)between(draw, 1, (int64_t)rl_all(plan->options.nodes));
}

/* Also from a sequence of its own: in some worlds there are more locks, and clients acquire and
 * release several in one call. */
static void draw_many(struct plan *plan) {
    struct draw own = {plan, random_named(plan->seed, 9)}, *draw = &own;
    if (!chance(draw, 20)) return;
    plan->options.together = true;
    plan->options.resources = (unsigned)between(draw, 2, WORLD_RESOURCES_MAX);
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind != PLAN_SESSION || !chance(draw, 60)) continue;
        action->many = (uint8_t)between(draw, 1, (1 << plan->options.resources) - 1);
    }
}

/* ---- actions --------------------------------------------------------------------------------- */

/* NULL: the plan is full. */
static struct plan_action *add(struct draw *draw, enum plan_kind kind) {
    struct plan *plan = draw->plan;
    if (plan->count == PLAN_ACTIONS_MAX) return NULL;
    struct plan_action *action = &plan->actions[plan->count++];
    *action = (struct plan_action){.kind = (uint8_t)kind};
    action->at = between(draw, 0, plan->faults_end * 9 / 10);
    action->client = (uint8_t)between(draw, 0, plan->options.clients - 1);
    action->node = (uint8_t)between(draw, 0, plan->options.nodes - 1);
    action->resource = (uint8_t)between(draw, 0, plan->options.resources - 1);
    return action;
}

static rl_ns draw_hold(struct draw *draw) {
    rl_ns ttl = ttl_of(draw->plan);
    int64_t kind = between(draw, 0, 9);
    if (kind < 5) return between(draw, 0, ttl / 8);
    if (kind < 8) return between(draw, 0, ttl);
    return between(draw, ttl, (draw->plan->guarded ? 4 : 2) * ttl);
}

/* The client checks validity in whole milliseconds: a write that takes less than one arrives within
 * the validity, whatever the rate of the client's clock. */
static rl_ns draw_late(struct draw *draw) {
    rl_ns ttl = ttl_of(draw->plan);
    bool stops = draw->plan->broken == PLAN_BREAK_PAUSE_WRITE || draw->plan->guarded;
    if (stops && chance(draw, 20)) return between(draw, ttl / 4, 3 * ttl);
    return chance(draw, 50) ? 0 : between(draw, 0, RL_MS * 9 / 10);
}

static void draw_session(struct draw *draw) {
    rl_ns ttl = ttl_of(draw->plan);
    struct plan_action *action = add(draw, PLAN_SESSION);
    if (!action) return;
    action->span = draw_hold(draw);
    action->number = chance(draw, 20) ? 0 : between(draw, 0, 2 * ttl / RL_MS);
    action->updates = (uint32_t)between(draw, 0, 3);
    action->think = between(draw, 0, ttl / (chance(draw, 80) ? 20 : 2));
    action->late = draw_late(draw);
    if (chance(draw, 20)) {
        action->extend_at = between(draw, 1, ttl);
        action->extend_ms = between(draw, 10, (draw->plan->guarded ? 4 : 2) * ttl / RL_MS);
    }
    if (chance(draw, 5)) action->cancel_at = between(draw, 1, ttl / 4);
}

static void draw_crash(struct draw *draw, struct plan_action *action) {
    action->number = NODE_KEEPS_ALL;
    action->span = log_between(draw, RL_MS, ttl_of(draw->plan) * 2);
    if (draw->plan->broken == PLAN_BREAK_DATA_LOSS)
        action->number = chance(draw, 50) ? NODE_KEEPS_NOTHING : NODE_LOSES_LAST_SECOND;
    if (draw->plan->guarded)
        action->number = between(draw, NODE_KEEPS_NOTHING, NODE_LOSES_LAST_SECOND);
}

static void draw_mode(struct draw *draw, struct plan_action *action) {
    static const int16_t modes[] = {REDLOCK_VERDICT_READONLY,  REDLOCK_VERDICT_OOM,
                                    REDLOCK_VERDICT_LOADING,   REDLOCK_VERDICT_MISCONF,
                                    REDLOCK_VERDICT_BUSY,      REDLOCK_VERDICT_NOREPLICAS,
                                    REDLOCK_VERDICT_MASTERDOWN};
    action->number = modes[between(draw, 0, (int64_t)(sizeof(modes) / sizeof(modes[0])) - 1)];
    action->span = log_between(draw, RL_MS, ttl_of(draw->plan));
}

/* Within the rates that draw_clocks() gave the nodes, or, with the assumption off, far outside. */
static void draw_rate(struct draw *draw, struct plan_action *action) {
    uint32_t now = draw->plan->node_ppm[action->node];
    int64_t off = now > 1000000 ? now - 1000000 : 1000000 - now;
    action->number = between(draw, 1000000 - off, 1000000 + off);
    if (draw->plan->broken == PLAN_BREAK_CLOCK_STEP)
        action->number = chance(draw, 30) ? 0 : between(draw, 100000, 3000000);
}

static void draw_details(struct draw *draw, struct plan_action *action) {
    rl_ns ttl = ttl_of(draw->plan);
    switch ((enum plan_kind)action->kind) {
    case PLAN_NODE_CRASH: draw_crash(draw, action); break;
    case PLAN_NODE_PAUSE: action->span = log_between(draw, RL_MS, ttl * 2); break;
    case PLAN_NODE_MODE: draw_mode(draw, action); break;
    case PLAN_NODE_RATE: draw_rate(draw, action); break;
    case PLAN_NODE_STEP: action->number = between(draw, -ttl, 2 * ttl); break;
    case PLAN_NODE_FAILOVER: action->number = log_between(draw, RL_MS, ttl); break;
    case PLAN_NODE_SPLIT:
        action->number = log_between(draw, RL_MS, ttl);
        action->span = log_between(draw, RL_MS, ttl * 4);
        break;
    case PLAN_NODE_TRIP:
        action->number = log_between(draw, RL_MS, ttl);
        action->span = log_between(draw, RL_MS, ttl * 2);
        action->late = chance(draw, 50) ? 0 : between(draw, 1, action->span * 3 / 2);
        action->many = ttl >= 1000 * RL_MS && chance(draw, 20);
        if (action->many) action->span = between(draw, 2500, 8000) * RL_MS;
        break;
    case PLAN_NODE_POLICY: action->span = between(draw, 2500, 8000) * RL_MS; break;
    case PLAN_CUT:
        action->number = between(draw, LINK_REQUESTS, LINK_BOTH);
        action->span = log_between(draw, RL_MS, ttl * 2);
        break;
    case PLAN_DELAY: action->number = log_between(draw, RL_MS, ttl); break;
    case PLAN_CLIENT_PAUSE: action->span = log_between(draw, RL_MS, ttl * 3); break;
    case PLAN_CLIENT_CLOCK: action->number = between(draw, -3600000, 3600000) * RL_MS; break;
    case PLAN_CLIENT_CRASH:
        action->client = (uint8_t)between(draw, 1, draw->plan->options.clients - 1);
        break;
    default: break;
    }
}

static void draw_faults(struct draw *draw, enum plan_kind kind, unsigned percent, int64_t most) {
    if (!chance(draw, percent)) return;
    for (int64_t left = between(draw, 1, most); left > 0; left--) {
        struct plan_action *action = add(draw, kind);
        if (action) draw_details(draw, action);
    }
}

static void draw_broken(struct draw *draw) {
    switch (draw->plan->broken) {
    case PLAN_BREAK_DATA_LOSS:
        draw_faults(draw, PLAN_NODE_CRASH, 70, 10);
        draw_faults(draw, PLAN_NODE_FLUSH, 40, 8);
        draw_faults(draw, PLAN_NODE_EVICT, 40, 8);
        draw_faults(draw, PLAN_NODE_FAILOVER, 40, 8);
        break;
    case PLAN_BREAK_CLOCK_STEP:
        draw_faults(draw, PLAN_NODE_STEP, 80, 12);
        draw_faults(draw, PLAN_NODE_RATE, 50, 8);
        break;
    default: break;
    }
}

static void draw_guarded(struct draw *draw) {
    struct plan *plan = draw->plan;
    draw_faults(draw, PLAN_NODE_CRASH, 70, 12);
    draw_faults(draw, PLAN_NODE_FLUSH, 50, 8);
    draw_faults(draw, PLAN_NODE_FAILOVER, 50, 8);
    draw_faults(draw, PLAN_NODE_SPLIT, 50, 8);
    size_t before = plan->count;
    draw_faults(draw, PLAN_NODE_STEP, 10, 8);
    plan->clocks_step = plan->count > before;
    draw_faults(draw, PLAN_NODE_EVICT, 10, 6);
    plan->keys_end_early = plan->count > before;
    for (size_t i = before; i < plan->count; i++)
        plan->evicts_at_once = plan->evicts_at_once || plan->actions[i].kind == PLAN_NODE_EVICT;
}

static void sort_by_time(struct plan *plan) {
    for (size_t i = 1; i < plan->count; i++) {
        struct plan_action action = plan->actions[i];
        size_t at = i;
        for (; at > 0 && plan->actions[at - 1].at > action.at; at--)
            plan->actions[at] = plan->actions[at - 1];
        plan->actions[at] = action;
    }
}

static void draw_actions(struct draw *draw) {
    struct plan *plan = draw->plan;
    plan->faults_end = ttl_of(plan) * between(draw, 3, 8);
    if (plan->guarded) {
        plan->faults_end = ttl_of(plan) * between(draw, 6, 16);
        draw_guarded(draw);
    } else {
        draw_broken(draw);
        draw_faults(draw, PLAN_NODE_CRASH, 40, 6);
    }
    draw_faults(draw, PLAN_NODE_PAUSE, 40, 6);
    draw_faults(draw, PLAN_NODE_MODE, 30, 5);
    draw_faults(draw, PLAN_NODE_RATE, 20, 4);
    draw_faults(draw, PLAN_CUT, 50, 8);
    draw_faults(draw, PLAN_BREAK, 30, 6);
    draw_faults(draw, PLAN_LOSE_ANSWER, 40, 10);
    draw_faults(draw, PLAN_DELAY, 30, 8);
    draw_faults(draw, PLAN_CLIENT_PAUSE, 50, 6);
    draw_faults(draw, PLAN_CLIENT_CRASH, 20, 2);
    draw_faults(draw, PLAN_CLIENT_CLOCK, 20, 4);
    for (int64_t left = between(draw, 12, 70); left > 0; left--) draw_session(draw);
    sort_by_time(plan);
}

/* ---- changes under connected clients -------------------------------------------------------- */

/* One node's clock steps forward while another node is cut off from all clients: too few clocks
 * remain to judge the step by. */
static void draw_step_forgotten(struct draw *draw) {
    struct plan *plan = draw->plan;
    struct plan_action *step = chance(draw, 5) ? add(draw, PLAN_NODE_STEP) : NULL;
    if (!step) return;
    rl_ns at = step->at, span = between(draw, 500, 4000) * RL_MS;
    uint8_t other =
        (uint8_t)((step->node + between(draw, 1, plan->options.nodes - 1)) % plan->options.nodes);
    step->number = between(draw, ttl_of(plan) / 4, ttl_of(plan));
    plan->clocks_step = plan->keys_end_early = true;
    for (unsigned i = 0; i < plan->options.clients; i++) {
        struct plan_action *cut = add(draw, PLAN_CUT);
        if (!cut) return;
        cut->at = at > span / 4 ? at - span / 4 : 0;
        cut->client = (uint8_t)i;
        cut->node = other;
        cut->number = LINK_BOTH;
        cut->span = span;
    }
}

/* Some clients name no mode, like a command without --mode. */
static void draw_forgotten_modes(struct draw *draw) {
    struct world_options *options = &draw->plan->options;
    bool any = chance(draw, 15) &&
               draw->plan->broken == PLAN_BREAK_NOTHING; /* without records no client can know */
    for (unsigned i = 1; i < options->clients && any; i++) {
        struct world_client_options *client = &options->client[i];
        if (!chance(draw, 50)) continue;
        client->client.mode = REDLOCK_MODE_AUTO;
        client->client.confirm = client->client.allow_replicas = 0;
        client->nodes = 0;
        client->refused = true;
        draw->plan->may_be_refused |= 1u << i;
    }
}

static void befall_others(struct draw *draw, unsigned first) {
    static const uint8_t kinds[] = {PLAN_NODE_CRASH, PLAN_NODE_FLUSH, PLAN_NODE_PAUSE,
                                    PLAN_NODE_TRIP, PLAN_CUT};
    for (int64_t left = between(draw, 0, 6); left > 0; left--) {
        struct plan_action *action =
            add(draw, (enum plan_kind)kinds[between(draw, 0, sizeof(kinds) - 1)]);
        if (!action) return;
        action->node = (uint8_t)between(draw, first, draw->plan->options.nodes - 1);
        draw_details(draw, action);
        /* At most one of them forgets that it is in the second quorum: else that quorum has no node
         * left. */
        if (action->kind == PLAN_NODE_FLUSH) action->node = (uint8_t)first;
        if (action->kind == PLAN_NODE_CRASH) action->number = NODE_KEEPS_ALL;
    }
}

/* Servers of a second quorum, as in a migration: at most as many as in the first. Some clients list
 * both. A client that names no quorum is refused if the two are equal in number; else it may find
 * the first before the second, and choose it. */
static void draw_second_quorum(struct draw *draw) {
    struct plan *plan = draw->plan;
    struct world_options *options = &plan->options;
    unsigned first = options->nodes;
    if (!chance(draw, 12)) return;
    options->nodes += chance(draw, 50) ? first : (unsigned)between(draw, 1, first);
    options->others = (rl_mask)(rl_all(options->nodes) & ~rl_all(first));
    for (unsigned i = 0; i < options->clients; i++) {
        struct world_client_options *client = &options->client[i];
        bool both = i > 0 && !client->refused && chance(draw, 60);
        if (client->nodes == 0) client->nodes = rl_all(first);
        if (!both) continue;
        client->nodes = rl_all(options->nodes);
        client->client.quorum = chance(draw, 40) ? world_quorum_name(false) : NULL;
        if (client->client.quorum) continue;
        plan->may_be_refused |= 1u << i;
        client->refused = options->nodes == 2 * first;
    }
    befall_others(draw, first);
}

/* From a sequence of its own, after everything else: these draws leave the rest of a seed
 * unchanged. */
static void draw_changes(struct plan *plan) {
    struct draw own = {plan, random_named(plan->seed, 10)}, *draw = &own;
    if (!plan->guarded) return;
    plan->options.replicas = (rl_mask)between(draw, 0, rl_all(plan->options.nodes));
    if (chance(draw, 12))
        plan->options.unannounced = chance(draw, 50)
                                        ? rl_all(plan->options.nodes)
                                        : (rl_mask)between(draw, 1, rl_all(plan->options.nodes));
    /* Round trips only where they are announced: elsewhere a client notices one up to a second
     * late, which is documented. */
    size_t kept = plan->count;
    draw_faults(draw, PLAN_NODE_TRIP, 50, 6);
    for (size_t i = kept; i < plan->count; i++)
        if (!(plan->options.unannounced & rl_bit(plan->actions[i].node)))
            plan->actions[kept++] = plan->actions[i];
    plan->count = kept;
    draw_faults(draw, PLAN_NODE_REPLICA, 20, 4);
    draw_faults(draw, PLAN_NODE_POLICY, ttl_of(plan) >= 1000 * RL_MS ? 25 : 0, 3);
    draw_faults(draw, PLAN_NODE_EVICT_APART, 15, 4);
    draw_step_forgotten(draw);
    draw_forgotten_modes(draw);
    draw_second_quorum(draw);
    sort_by_time(plan);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* New nodes that operators can add, and operators, which list all of them; all other clients list
 * them too. One operator's wall clock is ahead of all others: where all data are lost, it gives the
 * floor of the tokens. */
static void draw_operators(struct draw *draw) {
    struct plan *plan = draw->plan;
    struct world_options *options = &plan->options;
    unsigned nodes = options->nodes, clients = options->clients;
    options->changes = true;
    options->nodes += (unsigned)between(draw, 1, 2);
    options->spare = (rl_mask)(rl_all(options->nodes) & ~rl_all(nodes));
    plan->operators = (unsigned)between(draw, 2, 3);
    options->clients += plan->operators;
    for (unsigned i = 0; i < options->clients; i++) {
        struct world_client_options *client = &options->client[i];
        if (i >= clients) {
            *client = options->client[0];
            client->wall_off = 4 * 3600000 * RL_MS;
            client->client.recover = chance(draw, 50);
        }
        client->nodes = 0;
    }
}

static uint8_t an_operator(struct draw *draw) {
    const struct plan *plan = draw->plan;
    return (uint8_t)(plan->options.clients - 1 - (unsigned)between(draw, 0, plan->operators - 1));
}

/* NULL: the plan is full. */
static struct plan_action *draw_one_operation(struct draw *draw, unsigned kind) {
    struct plan *plan = draw->plan;
    struct plan_action *action = add(draw, PLAN_OPERATE);
    if (!action) return NULL;
    action->client = an_operator(draw);
    action->number = kind;
    action->many = kind == OPERATION_ADD && chance(draw, 40);
    action->updates = (uint32_t)between(draw, 0, 4);
    action->think = log_between(draw, 10 * RL_MS, 2 * ttl_of(plan));
    action->span = kind == OPERATION_INIT && chance(draw, 30); /* and gives the floor */
    return action;
}

static void name_quorum(struct plan *plan) {
    for (unsigned i = 0; i < plan->options.clients; i++)
        plan->options.client[i].client.quorum = world_quorum_name(false);
}

/* All of them at about the same time; some keep their data, but as new processes. */
static void draw_power_cut(struct draw *draw) {
    struct plan *plan = draw->plan;
    struct plan_action *cut = add(draw, PLAN_POWER_CUT);
    if (!cut) return;
    cut->at = between(draw, plan->faults_end / 8, plan->faults_end * 5 / 8);
    cut->span = log_between(draw, RL_MS, ttl_of(plan));
    cut->many = chance(draw, 50) ? (uint8_t)between(draw, 0, 255) : 0;
    name_quorum(plan);
    for (unsigned i = 0; i < plan->operators; i++) {
        rl_ns at = cut->at + cut->span + between(draw, RL_MS, ttl_of(plan));
        struct plan_action *init = draw_one_operation(draw, OPERATION_INIT);
        if (init) init->at = at;
    }
}

static void draw_fresh(struct draw *draw) {
    struct plan *plan = draw->plan;
    plan->fresh = true;
    plan->options.spare = rl_all(plan->options.nodes);
    rl_ns at = between(draw, RL_MS, ttl_of(plan));
    for (unsigned i = 0; i < plan->operators; i++) {
        struct plan_action *init = draw_one_operation(draw, OPERATION_INIT);
        if (init) init->at = at + (chance(draw, 50) ? 0 : between(draw, 0, ttl_of(plan)));
    }
}

static void befall_operators(struct draw *draw) {
    static const uint8_t kinds[] = {PLAN_CLIENT_PAUSE, PLAN_CLIENT_PAUSE, PLAN_CUT,
                                    PLAN_BREAK,        PLAN_LOSE_ANSWER,  PLAN_DELAY,
                                    PLAN_NODE_CRASH,   PLAN_NODE_FLUSH,   PLAN_CLIENT_CRASH};
    for (int64_t left = between(draw, 0, 16); left > 0; left--) {
        struct plan_action *action =
            add(draw, (enum plan_kind)kinds[between(draw, 0, sizeof(kinds) - 1)]);
        if (!action) return;
        draw_details(draw, action);
        action->client = an_operator(draw);
    }
}

/* Again from a sequence of its own. Not in worlds where something else already decides what the
 * quorum is. */
static void draw_membership(struct plan *plan, bool always) {
    struct draw own = {plan, random_named(plan->seed, 11)}, *draw = &own;
    struct world_options *options = &plan->options;
    bool fits = plan->guarded && plan->broken == PLAN_BREAK_NOTHING && options->others == 0;
    bool drawn = chance(draw, 5);
    if (!fits || !(drawn || always)) return;
    draw_operators(draw);
    int64_t begins = between(draw, 0, 9);
    if (begins >= 4 && chance(draw, 60)) name_quorum(plan);
    if (begins < 2 && plan->may_be_refused == 0)
        draw_fresh(draw);
    else if (begins < 4 && plan->may_be_refused == 0)
        draw_power_cut(draw);
    for (int64_t left = between(draw, 2, 8); left > 0; left--)
        draw_one_operation(draw, chance(draw, 55) ? OPERATION_ADD : OPERATION_REMOVE);
    befall_operators(draw);
    sort_by_time(plan);
}

/* A key that is set just before the faults end lives one TTL and its drift. Then connections return
 * (one longest backoff and connect timeout), an overdue answer is given up, and the remaining
 * clients try until no other try interferes. */
static rl_ns bound_of(const struct plan *plan) {
    rl_ns bound = ttl_of(plan) * 11 / 10 + 2500 * RL_MS, longest = 0, stall = 0;
    for (unsigned i = 0; i < plan->options.clients; i++) {
        const struct world_client_options *client = &plan->options.client[i];
        if (client->lock.retry_delay_ms_max * RL_MS > longest)
            longest = client->lock.retry_delay_ms_max * RL_MS;
        if (client->client.stall_timeout_ms * RL_MS > stall)
            stall = client->client.stall_timeout_ms * RL_MS;
    }
    bound += stall + 30 * (longest + 2 * (plan->patient ? ttl_of(plan) : node_timeout(plan)));
    /* A node that lost its data waits; clients that check once a second then find it, read the
     * fences and install them. */
    if (plan->guarded) bound += 2 * (plan->options.ttl_ms_max * RL_MS * 102 / 100) + 5000 * RL_MS;
    /* An operator first ends its current command, and then begins anew if too few nodes are intact.
     */
    if (plan->operators)
        bound += 8 * (plan->options.ttl_ms_max * RL_MS * 102 / 100) + 30000 * RL_MS;
    return bound;
}

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_wish *wish) {
    struct draw draw = {plan, random_named(seed, 7)};
    *plan = (struct plan){.seed = seed, .broken = wish->broken, .guarded = wish->guarded};
    draw_options(&draw);
    draw_actions(&draw);
    draw_wakes(plan);
    draw_many(plan);
    draw_changes(plan);
    draw_membership(plan, wish->operators);
    plan->liveness_bound = bound_of(plan);
}
