/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Swarm testing: each seed draws which kinds of fault there are at all, and how many. Some runs are
 * all partitions, others all crashes, and rare mixes occur too. The draws stay inside classic
 * mode's assumptions unless one of them is switched off.
 */
#include "plan.h"

#include <string.h>

#include "world/random.h"

/* The drift of 1 % is split between the two clocks that disagree: a key must not end before its
 * holder's validity. (1 + n) / (1 - c) <= 1 / 0.99 for node rates up to n and client rates down to
 * c. */
#define BOTH_OFF_PPM 5000
#define ONE_OFF_PPM 10000

static int64_t between(struct plan *plan, int64_t low, int64_t high) {
    return random_between(&plan->random, low, high);
}
static bool chance(struct plan *plan, unsigned percent) {
    return random_chance(&plan->random, percent * 10000);
}

/* In this range, with each power of two as likely as the next. */
static int64_t log_between(struct plan *plan, int64_t low, int64_t high) {
    unsigned powers = 0;
    while (low << (powers + 1) <= high) powers++;
    int64_t from = low << between(plan, 0, powers);
    int64_t to = from * 2 < high ? from * 2 : high;
    return between(plan, from, to);
}

static rl_ns ttl_of(const struct plan *plan) { return plan->options.client[0].lock.ttl_ms * RL_MS; }

rl_ns plan_node_timeout(const struct plan *plan) {
    rl_ns timeout = ttl_of(plan) / 20;
    if (timeout > 50 * RL_MS) return 50 * RL_MS;
    return timeout < 5 * RL_MS ? 5 * RL_MS : timeout;
}

/* At most a minority of the nodes loses its data at a time. */
static bool loses_few(const struct plan *plan) {
    return plan->broken == PLAN_BREAK_NOTHING || plan->broken == PLAN_BREAK_VM_STOP;
}

/* ---- options --------------------------------------------------------------------------------- */

/* One node timeout is for a whole attempt: one round trip of votes, or, guarded, also one to raise
 * and one to confirm.
 */
static void draw_link(struct plan *plan) {
    struct world_link *link = &plan->options.link;
    rl_ns timeout = plan_node_timeout(plan) / (plan->guarded ? 3 : 1);
    link->delay_max = log_between(plan, timeout / 64, timeout * 2 / 5);
    link->delay_min = between(plan, link->delay_max / 16, link->delay_max);
    if (chance(plan, 40)) {
        link->tail_ppm = (uint32_t)log_between(plan, 1000, 200000);
        link->tail_max = log_between(plan, timeout / 2, timeout * 8);
        if (link->tail_max < link->delay_max) link->tail_max = link->delay_max;
    }
    if (chance(plan, 20)) link->request_loss_ppm = (uint32_t)log_between(plan, 500, 50000);
    if (chance(plan, 20)) link->reply_loss_ppm = (uint32_t)log_between(plan, 500, 50000);
}

static void draw_client(struct plan *plan, unsigned index) {
    struct world_client_options *client = &plan->options.client[index];
    const struct world_client_options *first = &plan->options.client[0];
    struct redlock_lock_options *lock = &client->lock;
    lock->ttl_ms = first->lock.ttl_ms;
    client->client.stall_timeout_ms = log_between(plan, 50, 5000);
    client->client.connect_timeout_ms = log_between(plan, 50, 1000);
    lock->renew = chance(plan, 50);
    if (chance(plan, 30)) lock->hold_ms_max = between(plan, lock->ttl_ms / 2, lock->ttl_ms * 4);
    if (chance(plan, 20)) lock->renew_count_max = (uint32_t)between(plan, 1, 4);
    if (chance(plan, 50)) lock->lost_margin_ms = 0;
    rl_ns round_trip = 2 * plan->options.link.delay_max;
    lock->retry_delay_ms_max =
        log_between(plan, 10 + round_trip / RL_MS * 8, 600 + round_trip / RL_MS * 8);
    lock->retry_delay_ms_min = between(plan, 0, lock->retry_delay_ms_max / 4);
    if (chance(plan, 20)) lock->retry_count_max = (uint32_t)between(plan, 1, 20);
}

static uint32_t off_by(struct plan *plan, int64_t most) {
    int64_t off = plan->biased || chance(plan, 40) ? most : between(plan, 0, most);
    return (uint32_t)(1000000 + (chance(plan, 50) ? off : -off));
}

static void draw_clocks(struct plan *plan) {
    int64_t nodes_off = 0, clients_off = 0;
    switch (between(plan, 0, 3)) {
    case 0: break;
    case 1: nodes_off = ONE_OFF_PPM; break;
    case 2: clients_off = ONE_OFF_PPM; break;
    default: nodes_off = clients_off = BOTH_OFF_PPM; break;
    }
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        plan->node_ppm[i] =
            nodes_off && i < plan->options.nodes ? off_by(plan, nodes_off) : 1000000;
    for (unsigned i = 0; i < plan->options.clients; i++)
        plan->options.client[i].clock_ppm = clients_off ? off_by(plan, clients_off) : 1000000;
}

/* Guarded mode: any fault may happen, but the quorum's own nodes are the same for all clients,
 * whatever their lists. A can always work, and recovers nodes that lost their data, so that the
 * faults can go on. */
static void draw_guarded_client(struct plan *plan, unsigned index) {
    struct world_client_options *client = &plan->options.client[index];
    client->client.mode = REDLOCK_MODE_GUARDED;
    client->client.allow_replicas = 1; /* these nodes are promoted */
    client->client.confirm = chance(plan, 30) || plan->broken == PLAN_BREAK_VM_STOP;
    if (plan->clocks_apart) client->wall_off = between(plan, -3600000, 3600000) * RL_MS;
    if (plan->patient)
        client->client.node_timeout_ms =
            between(plan, client->lock.ttl_ms / 4, client->lock.ttl_ms * 3 / 4);
    client->client.recover = index == 0 || chance(plan, 80);
    if (index == 0) return;
    client->short_lived = chance(plan, 25);
    if (!chance(plan, 25)) return;
    while (rl_count(client->nodes) <
           rl_quorum(plan->options.nodes)) /* with fewer, no client can acquire */
        client->nodes = (rl_mask)between(plan, 1, (int64_t)rl_all(plan->options.nodes));
}

static void draw_guarded_options(struct plan *plan) {
    struct world_options *options = &plan->options;
    int64_t ttl_ms = options->client[0].lock.ttl_ms;
    options->guarded = options->fenced = true;
    options->ttl_ms_max =
        plan->biased || chance(plan, 50) ? ttl_ms : between(plan, ttl_ms, 2 * ttl_ms);
    plan->ttl_ms_longest = options->ttl_ms_max;
    plan->clocks_apart = chance(plan, 60);
    plan->patient = chance(plan, plan->biased ? 50 : 20);
    if (chance(plan, 50)) options->split_ppm = (uint32_t)log_between(plan, 1000, 200000);
    for (unsigned i = 0; i < options->clients; i++) draw_guarded_client(plan, i);
    if (chance(plan, 50)) options->clients_elsewhere = (uint32_t)log_between(plan, 10, 1000);
}

/* Lists of some of the nodes each, which share no majority with each other. */
static void mix_configurations(struct plan *plan) {
    struct world_options *options = &plan->options;
    for (unsigned i = 0; i < options->clients; i++) {
        rl_mask nodes = 0;
        while (nodes == 0) nodes = (rl_mask)between(plan, 1, (int64_t)rl_all(options->nodes));
        options->client[i].nodes = nodes;
    }
}

static void draw_options(struct plan *plan) {
    static const uint8_t nodes[] = {1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7};
    struct world_options *options = &plan->options;
    world_options_init(options);
    options->seed = plan->seed;
    options->record_messages = 0;
    options->nodes = nodes[between(plan, 0, (int64_t)sizeof(nodes) - 1)];
    if (plan->biased) options->nodes = chance(plan, 80) ? 3 : 5;
    if ((plan->broken == PLAN_BREAK_MIXED_CONFIG || plan->guarded) && options->nodes < 3)
        options->nodes += 2;
    options->clients = (unsigned)between(plan, 2, 5);
    options->resources = chance(plan, 25) ? 2 : 1;
    options->client[0].lock.ttl_ms = log_between(plan, 100, 10000);
    draw_link(plan);
    for (unsigned i = 0; i < options->clients; i++) draw_client(plan, i);
    draw_clocks(plan);
    if (plan->broken == PLAN_BREAK_MIXED_CONFIG) mix_configurations(plan);
    if (plan->guarded) draw_guarded_options(plan);
}

/* From a sequence of its own: a seed whose nodes do not notify stays what it was before
 * notifications existed. */
static void draw_wakes(struct plan *plan) {
    plan->random = random_named(plan->seed, 8);
    struct world_wakes *wakes = &plan->options.wakes;
    wakes->on = chance(plan, 75);
    if (!wakes->on) return;
    if (chance(plan, 40)) wakes->lost_ppm = (uint32_t)log_between(plan, 1000, 1000000);
    if (chance(plan, 30)) wakes->twice_ppm = (uint32_t)log_between(plan, 1000, 1000000);
    if (chance(plan, 40)) {
        wakes->late_ppm = (uint32_t)log_between(plan, 1000, 1000000);
        wakes->late_max = log_between(plan, RL_MS, 4 * ttl_of(plan));
    }
    if (chance(plan, 40)) wakes->false_ppm = (uint32_t)log_between(plan, 1000, 1000000);
    if (chance(plan, 20))
        wakes->deaf = (rl_mask)between(plan, 1, (int64_t)rl_all(plan->options.nodes));
}

/* Also from a sequence of its own: in some worlds there are more locks, and clients acquire and
 * release several in one call. */
static void draw_many(struct plan *plan) {
    plan->random = random_named(plan->seed, 9);
    if (!chance(plan, 20)) return;
    plan->options.together = true;
    plan->options.resources = (unsigned)between(plan, 2, WORLD_RESOURCES_MAX);
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind != PLAN_SESSION || !chance(plan, 60)) continue;
        action->many = (uint8_t)between(plan, 1, (1 << plan->options.resources) - 1);
    }
}

/* ---- actions --------------------------------------------------------------------------------- */

/* NULL: the plan is full. */
static struct plan_action *add(struct plan *plan, enum plan_kind kind) {
    if (plan->count == PLAN_ACTIONS_MAX) return NULL;
    struct plan_action *action = &plan->actions[plan->count++];
    *action = (struct plan_action){.kind = (uint8_t)kind};
    action->at = between(plan, 0, plan->faults_end * 9 / 10);
    action->client = (uint8_t)between(plan, 0, plan->options.clients - 1);
    action->node = (uint8_t)between(plan, 0, plan->options.nodes - 1);
    action->resource = (uint8_t)between(plan, 0, plan->options.resources - 1);
    return action;
}

static rl_ns draw_hold(struct plan *plan) {
    rl_ns ttl = ttl_of(plan);
    int64_t kind = between(plan, 0, 9);
    if (kind < 5) return between(plan, 0, ttl / 8);
    if (kind < 8) return between(plan, 0, ttl);
    return between(plan, ttl, (plan->guarded ? 4 : 2) * ttl);
}

/* The client checks validity in whole milliseconds: a write that takes less than one arrives within
 * the validity, whatever the rate of the client's clock. */
static rl_ns draw_late(struct plan *plan) {
    rl_ns ttl = ttl_of(plan);
    bool stops = plan->broken == PLAN_BREAK_PAUSE_WRITE || plan->guarded;
    if (stops && chance(plan, 20)) return between(plan, ttl / 4, 3 * ttl);
    return chance(plan, 50) ? 0 : between(plan, 0, RL_MS * 9 / 10);
}

static void draw_session(struct plan *plan) {
    rl_ns ttl = ttl_of(plan);
    struct plan_action *action = add(plan, PLAN_SESSION);
    if (!action) return;
    action->span = draw_hold(plan);
    action->number = chance(plan, 20) ? 0 : between(plan, 0, 2 * ttl / RL_MS);
    action->updates = (uint32_t)between(plan, 0, 3);
    action->think = between(plan, 0, ttl / (chance(plan, 80) ? 20 : 2));
    action->late = draw_late(plan);
    if (chance(plan, 20)) {
        action->extend_at = between(plan, 1, ttl);
        action->extend_ms = between(plan, 10, (plan->guarded ? 4 : 2) * ttl / RL_MS);
    }
    if (chance(plan, 5)) action->cancel_at = between(plan, 1, ttl / 4);
}

static void draw_crash(struct plan *plan, struct plan_action *action) {
    action->number = NODE_KEEPS_ALL;
    action->span = log_between(plan, RL_MS, ttl_of(plan) * 2);
    if (plan->broken == PLAN_BREAK_DATA_LOSS)
        action->number = chance(plan, 50) ? NODE_KEEPS_NOTHING : NODE_LOSES_LAST_SECOND;
    if (plan->guarded) action->number = between(plan, NODE_KEEPS_NOTHING, NODE_LOSES_LAST_SECOND);
}

static void draw_mode(struct plan *plan, struct plan_action *action) {
    static const int16_t modes[] = {REDLOCK_VERDICT_READONLY,  REDLOCK_VERDICT_OOM,
                                    REDLOCK_VERDICT_LOADING,   REDLOCK_VERDICT_MISCONF,
                                    REDLOCK_VERDICT_BUSY,      REDLOCK_VERDICT_NOREPLICAS,
                                    REDLOCK_VERDICT_MASTERDOWN};
    action->number = modes[between(plan, 0, (int64_t)(sizeof(modes) / sizeof(modes[0])) - 1)];
    action->span = log_between(plan, RL_MS, ttl_of(plan));
}

/* Within the rates that draw_clocks() gave the nodes, or, with the assumption off, far outside. */
static void draw_rate(struct plan *plan, struct plan_action *action) {
    uint32_t now = plan->node_ppm[action->node];
    int64_t off = now > 1000000 ? now - 1000000 : 1000000 - now;
    action->number = between(plan, 1000000 - off, 1000000 + off);
    if (plan->broken == PLAN_BREAK_CLOCK_STEP)
        action->number = chance(plan, 30) ? 0 : between(plan, 100000, 3000000);
}

static void draw_details(struct plan *plan, struct plan_action *action) {
    rl_ns ttl = ttl_of(plan);
    switch ((enum plan_kind)action->kind) {
    case PLAN_NODE_CRASH: draw_crash(plan, action); break;
    case PLAN_NODE_PAUSE: action->span = log_between(plan, RL_MS, ttl * 2); break;
    case PLAN_NODE_MODE: draw_mode(plan, action); break;
    case PLAN_NODE_RATE: draw_rate(plan, action); break;
    case PLAN_NODE_STEP: action->number = between(plan, -ttl, 2 * ttl); break;
    case PLAN_NODE_FAILOVER: action->number = log_between(plan, RL_MS, ttl); break;
    case PLAN_NODE_SPLIT:
        action->number = log_between(plan, RL_MS, ttl);
        action->span = log_between(plan, RL_MS, ttl * 4);
        break;
    case PLAN_NODE_TRIP:
        action->number = log_between(plan, RL_MS, ttl);
        action->span = log_between(plan, RL_MS, ttl * 2);
        action->late = chance(plan, 50) ? 0 : between(plan, 1, action->span * 3 / 2);
        action->many = ttl >= 1000 * RL_MS && chance(plan, 20);
        if (action->many) action->span = between(plan, 2500, 8000) * RL_MS;
        break;
    case PLAN_NODE_POLICY: action->span = between(plan, 2500, 8000) * RL_MS; break;
    case PLAN_CUT:
        action->number = between(plan, LINK_REQUESTS, LINK_BOTH);
        action->span = log_between(plan, RL_MS, ttl * 2);
        break;
    case PLAN_DELAY: action->number = log_between(plan, RL_MS, ttl); break;
    case PLAN_CLIENT_PAUSE: action->span = log_between(plan, RL_MS, ttl * 3); break;
    case PLAN_CLIENT_FREEZE: action->span = log_between(plan, RL_MS, ttl * 6); break;
    case PLAN_CLIENT_CLOCK: action->number = between(plan, -3600000, 3600000) * RL_MS; break;
    case PLAN_CLIENT_CRASH:
        action->client = (uint8_t)between(plan, 1, plan->options.clients - 1);
        break;
    default: break;
    }
}

static void draw_faults(struct plan *plan, enum plan_kind kind, unsigned percent, int64_t most) {
    if (!chance(plan, percent)) return;
    for (int64_t left = between(plan, 1, most); left > 0; left--) {
        struct plan_action *action = add(plan, kind);
        if (action) draw_details(plan, action);
    }
}

static void draw_broken(struct plan *plan) {
    switch (plan->broken) {
    case PLAN_BREAK_DATA_LOSS:
        draw_faults(plan, PLAN_NODE_CRASH, 70, 10);
        draw_faults(plan, PLAN_NODE_FLUSH, 40, 8);
        draw_faults(plan, PLAN_NODE_EVICT, 40, 8);
        draw_faults(plan, PLAN_NODE_FAILOVER, 40, 8);
        break;
    case PLAN_BREAK_CLOCK_STEP:
        draw_faults(plan, PLAN_NODE_STEP, 80, 12);
        draw_faults(plan, PLAN_NODE_RATE, 50, 8);
        break;
    default: break;
    }
}

static void draw_guarded(struct plan *plan) {
    draw_faults(plan, PLAN_NODE_CRASH, 70, 12);
    draw_faults(plan, PLAN_NODE_FLUSH, 50, 8);
    draw_faults(plan, PLAN_NODE_FAILOVER, 50, 8);
    draw_faults(plan, PLAN_NODE_SPLIT, 50, 8);
    draw_faults(plan, PLAN_NODE_STEP, 10, 8);
    draw_faults(plan, PLAN_NODE_EVICT, 10, 6);
    if (plan->broken == PLAN_BREAK_VM_STOP) draw_faults(plan, PLAN_CLIENT_FREEZE, 100, 8);
}

void plan_sort(struct plan *plan) {
    for (size_t i = 1; i < plan->count; i++) {
        struct plan_action action = plan->actions[i];
        size_t at = i;
        for (; at > 0 && plan->actions[at - 1].at > action.at; at--)
            plan->actions[at] = plan->actions[at - 1];
        plan->actions[at] = action;
    }
}

static void draw_actions(struct plan *plan) {
    plan->faults_end = ttl_of(plan) * between(plan, 3, 8);
    if (plan->guarded) {
        plan->faults_end = ttl_of(plan) * between(plan, 6, 16);
        draw_guarded(plan);
    } else {
        draw_broken(plan);
        draw_faults(plan, PLAN_NODE_CRASH, 40, 6);
    }
    draw_faults(plan, PLAN_NODE_PAUSE, 40, 6);
    draw_faults(plan, PLAN_NODE_MODE, 30, 5);
    draw_faults(plan, PLAN_NODE_RATE, 20, 4);
    draw_faults(plan, PLAN_CUT, 50, 8);
    draw_faults(plan, PLAN_BREAK, 30, 6);
    draw_faults(plan, PLAN_LOSE_ANSWER, 40, 10);
    draw_faults(plan, PLAN_DELAY, 30, 8);
    draw_faults(plan, PLAN_CLIENT_PAUSE, 50, 6);
    draw_faults(plan, PLAN_CLIENT_CRASH, 20, 2);
    draw_faults(plan, PLAN_CLIENT_CLOCK, 20, 4);
    for (int64_t left = between(plan, 12, 70); left > 0; left--) draw_session(plan);
    plan_sort(plan);
}

/* ---- changes under connected clients -------------------------------------------------------- */

/* One node's clock steps forward while another node is cut off from all clients: too few clocks
 * remain to judge the step by. */
static void draw_step_forgotten(struct plan *plan) {
    struct plan_action *step = chance(plan, 5) ? add(plan, PLAN_NODE_STEP) : NULL;
    if (!step) return;
    rl_ns at = step->at, span = between(plan, 500, 4000) * RL_MS;
    uint8_t other =
        (uint8_t)((step->node + between(plan, 1, plan->options.nodes - 1)) % plan->options.nodes);
    step->number = between(plan, ttl_of(plan) / 4, ttl_of(plan));
    for (unsigned i = 0; i < plan->options.clients; i++) {
        struct plan_action *cut = add(plan, PLAN_CUT);
        if (!cut) return;
        cut->at = at > span / 4 ? at - span / 4 : 0;
        cut->client = (uint8_t)i;
        cut->node = other;
        cut->number = LINK_BOTH;
        cut->span = span;
    }
}

/* Some clients name no mode, like a command without --mode. */
static void draw_forgotten_modes(struct plan *plan) {
    struct world_options *options = &plan->options;
    bool any = chance(plan, 15) &&
               plan->broken == PLAN_BREAK_NOTHING; /* without records no client can know */
    for (unsigned i = 1; i < options->clients && any; i++) {
        struct world_client_options *client = &options->client[i];
        if (!chance(plan, 50)) continue;
        client->client.mode = REDLOCK_MODE_AUTO;
        client->client.confirm = 0;
        client->nodes = 0;
    }
}

static void befall_others(struct plan *plan, unsigned first) {
    static const uint8_t kinds[] = {PLAN_NODE_CRASH, PLAN_NODE_FLUSH, PLAN_NODE_PAUSE,
                                    PLAN_NODE_TRIP, PLAN_CUT};
    for (int64_t left = between(plan, 0, 6); left > 0; left--) {
        struct plan_action *action =
            add(plan, (enum plan_kind)kinds[between(plan, 0, sizeof(kinds) - 1)]);
        if (!action) return;
        action->node = (uint8_t)between(plan, first, plan->options.nodes - 1);
        draw_details(plan, action);
        /* At most one of them forgets that it is in the second quorum: else that quorum has no node
         * left. */
        if (action->kind == PLAN_NODE_FLUSH) action->node = (uint8_t)first;
        if (action->kind == PLAN_NODE_CRASH) action->number = NODE_KEEPS_ALL;
    }
}

/* Servers of a second quorum, as in a migration: at most as many as in the first. Some clients list
 * both. A client that names no quorum is refused if the two are equal in number; else it may find
 * the first before the second, and choose it. */
static void draw_second_quorum(struct plan *plan) {
    struct world_options *options = &plan->options;
    unsigned first = options->nodes;
    if (!chance(plan, 12)) return;
    options->nodes += chance(plan, 50) ? first : (unsigned)between(plan, 1, first);
    options->others = (rl_mask)(rl_all(options->nodes) & ~rl_all(first));
    for (unsigned i = 0; i < options->clients; i++) {
        struct world_client_options *client = &options->client[i];
        bool both = i > 0 && !client->refused && chance(plan, 60);
        if (client->nodes == 0) client->nodes = rl_all(first);
        if (!both) continue;
        client->nodes = rl_all(options->nodes);
        client->client.quorum = chance(plan, 40) ? world_quorum_name(false) : NULL;
        if (client->client.quorum) continue;
        plan->may_be_refused |= 1u << i;
        client->refused = options->nodes == 2 * first;
    }
    befall_others(plan, first);
}

/* From a sequence of its own, after everything else: these draws leave the rest of a seed
 * unchanged. */
static void draw_changes(struct plan *plan) {
    plan->random = random_named(plan->seed, 10);
    if (!plan->guarded) return;
    plan->options.replicas = (rl_mask)between(plan, 0, rl_all(plan->options.nodes));
    if (chance(plan, plan->biased ? 40 : 12))
        plan->options.unannounced = chance(plan, 50)
                                        ? rl_all(plan->options.nodes)
                                        : (rl_mask)between(plan, 1, rl_all(plan->options.nodes));
    /* Round trips only where they are announced: elsewhere a client notices one up to a second
     * late, which is documented. */
    size_t kept = plan->count;
    draw_faults(plan, PLAN_NODE_TRIP, 50, 6);
    for (size_t i = kept; i < plan->count; i++)
        if (!(plan->options.unannounced & rl_bit(plan->actions[i].node)))
            plan->actions[kept++] = plan->actions[i];
    plan->count = kept;
    draw_faults(plan, PLAN_NODE_REPLICA, 20, 4);
    draw_faults(plan, PLAN_NODE_POLICY, ttl_of(plan) >= 1000 * RL_MS ? 25 : 0, 3);
    draw_faults(plan, PLAN_NODE_EVICT_APART, 15, 4);
    draw_step_forgotten(plan);
    draw_forgotten_modes(plan);
    draw_second_quorum(plan);
    plan_sort(plan);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* New nodes that operators can add, and operators, which list all of them; all other clients list
 * them too. One operator's wall clock is ahead of all others: where all data are lost, it gives the
 * floor of the tokens. */
static void draw_operators(struct plan *plan) {
    struct world_options *options = &plan->options;
    unsigned nodes = options->nodes, clients = options->clients;
    options->changes = true;
    options->nodes += (unsigned)between(plan, 1, 2);
    options->spare = (rl_mask)(rl_all(options->nodes) & ~rl_all(nodes));
    plan->operators = (unsigned)between(plan, 2, 3);
    options->clients += plan->operators;
    for (unsigned i = 0; i < options->clients; i++) {
        struct world_client_options *client = &options->client[i];
        if (i >= clients) {
            *client = options->client[0];
            client->wall_off = 4 * 3600000 * RL_MS;
            client->client.recover = chance(plan, 50);
        }
        client->nodes = 0;
        /* A majority of the list may be new nodes and one that has lost its data:
         * docs/inside/guarded.md.
         */
        if (rl_count(options->spare) > 1 && client->client.mode == REDLOCK_MODE_AUTO)
            client->client.mode = REDLOCK_MODE_GUARDED;
    }
}

static uint8_t an_operator(struct plan *plan) {
    return (uint8_t)(plan->options.clients - 1 - (unsigned)between(plan, 0, plan->operators - 1));
}

/* NULL: the plan is full. */
static struct plan_action *draw_one_operation(struct plan *plan, unsigned kind) {
    struct plan_action *action = add(plan, PLAN_OPERATE);
    if (!action) return NULL;
    action->client = an_operator(plan);
    action->number = kind;
    action->many = kind == OPERATION_ADD && chance(plan, 40);
    action->updates = (uint32_t)between(plan, 0, 4);
    action->think = log_between(plan, 10 * RL_MS, 2 * ttl_of(plan));
    action->span = kind == OPERATION_INIT && chance(plan, 30); /* and gives the floor */
    return action;
}

static void name_quorum(struct plan *plan) {
    for (unsigned i = 0; i < plan->options.clients; i++)
        plan->options.client[i].client.quorum = world_quorum_name(false);
}

/* All of them at about the same time; some keep their data, but as new processes. */
static void draw_power_cut(struct plan *plan) {
    struct plan_action *cut = add(plan, PLAN_POWER_CUT);
    if (!cut) return;
    cut->at = between(plan, plan->faults_end / 8, plan->faults_end * 5 / 8);
    cut->span = log_between(plan, RL_MS, ttl_of(plan));
    cut->many = chance(plan, 50) ? (uint8_t)between(plan, 0, 255) : 0;
    name_quorum(plan);
    for (unsigned i = 0; i < plan->operators; i++) {
        rl_ns at = cut->at + cut->span + between(plan, RL_MS, ttl_of(plan));
        struct plan_action *init = draw_one_operation(plan, OPERATION_INIT);
        if (init) init->at = at;
    }
}

static void draw_fresh(struct plan *plan) {
    plan->fresh = true;
    plan->options.spare = rl_all(plan->options.nodes);
    rl_ns at = between(plan, RL_MS, ttl_of(plan));
    for (unsigned i = 0; i < plan->operators; i++) {
        struct plan_action *init = draw_one_operation(plan, OPERATION_INIT);
        if (init) init->at = at + (chance(plan, 50) ? 0 : between(plan, 0, ttl_of(plan)));
    }
}

static void befall_operators(struct plan *plan) {
    static const uint8_t kinds[] = {PLAN_CLIENT_PAUSE, PLAN_CLIENT_PAUSE, PLAN_CUT,
                                    PLAN_BREAK,        PLAN_LOSE_ANSWER,  PLAN_DELAY,
                                    PLAN_NODE_CRASH,   PLAN_NODE_FLUSH,   PLAN_CLIENT_CRASH};
    for (int64_t left = between(plan, 0, 16); left > 0; left--) {
        struct plan_action *action =
            add(plan, (enum plan_kind)kinds[between(plan, 0, sizeof(kinds) - 1)]);
        if (!action) return;
        draw_details(plan, action);
        action->client = an_operator(plan);
    }
}

/* Again from a sequence of its own. Not in worlds where something else already decides what the
 * quorum is. */
static void draw_membership(struct plan *plan, bool always) {
    plan->random = random_named(plan->seed, 11);
    struct world_options *options = &plan->options;
    bool fits = plan->guarded && loses_few(plan) && options->others == 0;
    bool drawn = chance(plan, 5);
    if (!fits || !(drawn || always)) return;
    draw_operators(plan);
    int64_t begins = between(plan, 0, 9);
    if (begins >= 4 && chance(plan, 60)) name_quorum(plan);
    if (begins < 2 && plan->may_be_refused == 0)
        draw_fresh(plan);
    else if (begins < 4 && plan->may_be_refused == 0)
        draw_power_cut(plan);
    for (int64_t left = between(plan, 2, 8); left > 0; left--)
        draw_one_operation(plan, chance(plan, 55) ? OPERATION_ADD : OPERATION_REMOVE);
    befall_operators(plan);
    plan_sort(plan);
}

/* Operators change ttl_max. Locks of several TTLs are held, and the longest may be too long at
 * times (for other reasons than a wrong list). Again from a sequence of its own. */
static void draw_ttl_max(struct plan *plan) {
    struct world_options *options = &plan->options;
    int64_t ttl_ms = options->client[0].lock.ttl_ms, timeout_ms = plan_node_timeout(plan) / RL_MS;
    plan->random = random_named(plan->seed, 12);
    if (plan->operators == 0 || !chance(plan, 40)) return;
    if (chance(plan, 30)) options->ttl_ms_max = between(plan, ttl_ms / 4, ttl_ms);
    for (unsigned i = 1; i < options->clients && !plan->patient; i++) {
        struct world_client_options *client = &options->client[i];
        if (chance(plan, 40)) continue;
        client->lock.ttl_ms = between(plan, ttl_ms / 4, ttl_ms);
        client->lock.hold_ms_max = 0;
        client->client.node_timeout_ms = timeout_ms;
    }
    for (int64_t left = between(plan, 1, 5); left > 0; left--) {
        struct plan_action *change = draw_one_operation(plan, OPERATION_SET_TTL_MAX);
        if (!change) break;
        change->extend_ms = log_between(plan, ttl_ms / 4, 2 * ttl_ms);
        if (change->extend_ms > plan->ttl_ms_longest) plan->ttl_ms_longest = change->extend_ms;
    }
    plan_sort(plan);
}

/* ---- breaks ---------------------------------------------------------------------------------- */

static void add_breaks(struct plan *plan) {
    for (int64_t left = between(plan, 1, 8); left > 0; left--) {
        struct plan_action *action = add(plan, PLAN_BREAKS_LOCK);
        if (!action) break;
        action->client = (uint8_t)between(plan, 0, plan->options.clients - plan->operators - 1);
        if (chance(plan, 60)) action->think = log_between(plan, RL_MS, ttl_of(plan));
    }
    plan_sort(plan);
}

/* Some clients also break locks: any other client's, or their own. Not the operators of the quorum:
 * their clocks are ahead, and the floor of an init that follows a power cut is above all tokens
 * only if no one has raised a fence by such a clock. Once more from a sequence of its own, so that
 * seeds without breaks stay what they were. */
static void draw_breaks(struct plan *plan, bool always) {
    plan->random = random_named(plan->seed, 13);
    const bool fits = loses_few(plan) && plan->options.others == 0;
    const bool drawn = chance(plan, 8);
    if (fits && (drawn || always)) add_breaks(plan);
}

bool plan_has_breaks(const struct plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].kind == PLAN_BREAKS_LOCK) return true;
    return false;
}

/* ---- before the first record ----------------------------------------------------------------- */

static bool harms_classic(const struct plan_action *action) {
    switch ((enum plan_kind)action->kind) {
    case PLAN_SESSION:
    case PLAN_NODE_PAUSE:
    case PLAN_NODE_MODE:
    case PLAN_NODE_RATE:
    case PLAN_NODE_REPLICA:
    case PLAN_CUT:
    case PLAN_BREAK:
    case PLAN_LOSE_ANSWER:
    case PLAN_DELAY:
    case PLAN_BLACK_HOLE:
    case PLAN_CLIENT_PAUSE:
    case PLAN_CLIENT_CRASH:
    case PLAN_CLIENT_CLOCK:
    case PLAN_BREAKS_LOCK: return false;
    /* A client that has not asked again since the first init counts a majority of its own list. */
    case PLAN_OPERATE: return action->number == OPERATION_ADD || action->number == OPERATION_REMOVE;
    default: return true;
    }
}

/* While no node has a record, mode auto is classic mode. So a fresh world has either clients that
 * name no mode or faults that classic mode does not stand against. */
static void draw_before_records(struct plan *plan) {
    struct world_options *options = &plan->options;
    bool any = false;
    for (unsigned i = 0; i < options->clients; i++)
        any = any || options->client[i].client.mode == REDLOCK_MODE_AUTO;
    if (!plan->fresh || !any) return;
    plan->random = random_named(plan->seed, 15);
    bool named = chance(plan, 50);
    for (unsigned i = 0; i < options->clients && named; i++)
        options->client[i].client.mode = REDLOCK_MODE_GUARDED;
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (named || !harms_classic(&plan->actions[i])) plan->actions[kept++] = plan->actions[i];
    plan->count = kept;
}

/* ---- native nodes ---------------------------------------------------------------------------- */

/* What does not matter to native nodes, and so befalls any number of them at a time. */
static void befall_native(struct plan *plan) {
    static const enum plan_kind kinds[] = {PLAN_NODE_STEP,  PLAN_NODE_EVICT, PLAN_NODE_STRANGER,
                                           PLAN_NODE_FLUSH, PLAN_NODE_TRIP,  PLAN_NODE_EVICT_APART};
    const rl_ns ttl = ttl_of(plan);
    const size_t before = plan->count;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        draw_faults(plan, kinds[i], 40, 8);
    for (size_t i = before; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        action->native = true;
        if (action->kind == PLAN_NODE_STEP && chance(plan, 30))
            action->number = between(plan, -ttl, 3600000 * RL_MS);
        if (action->kind == PLAN_NODE_STRANGER) {
            action->number = between(plan, 0, 3);
            action->late = between(plan, RL_MS, ttl);
        }
    }
}

/* The module comes and goes while clients run, one server at a time as a rule. */
static void draw_upgrades(struct plan *plan) {
    draw_faults(plan, PLAN_NODE_KIND, 70, 8);
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind != PLAN_NODE_KIND) continue;
        action->number = chance(plan, 70);
        action->span = log_between(plan, RL_MS, ttl_of(plan));
        action->many = (uint8_t)between(plan, NODE_KEEPS_NOTHING, NODE_LOSES_LAST_SECOND);
        if (!plan->guarded) action->many = NODE_KEEPS_ALL;
    }
}

/* A stranger's key may be in the way of clients, and keys that outlive their locks (those of a
 * process that has ended) may live longer by a wall clock that was set back. */
static rl_ns keys_late(const struct plan *plan) {
    rl_ns late = ttl_of(plan) * 11 / 10;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].kind == PLAN_NODE_STEP && plan->actions[i].number < 0)
            late -= plan->actions[i].number;
    return late;
}

/* In classic mode, some clients are of another project: their locks are plain keys everywhere. */
/* A stranger's break would reach the copies alone. */
static void breakers_are_ours(struct plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].kind == PLAN_BREAKS_LOCK)
            plan->options.client[plan->actions[i].client].stranger = false;
}

static void draw_strangers(struct plan *plan) {
    for (unsigned i = 0; i < plan->options.clients && !plan->guarded; i++)
        plan->options.client[i].stranger = chance(plan, 30);
    breakers_are_ours(plan);
}

/* Which nodes are native. From a sequence of its own: worlds of stock nodes stay what they were. */
static void draw_native(struct plan *plan, enum plan_nodes wish) {
    static const enum plan_nodes drawn[] = {PLAN_NODES_STOCK, PLAN_NODES_STOCK, PLAN_NODES_MIXED,
                                            PLAN_NODES_NATIVE};
    const rl_mask all = rl_all(plan->options.nodes);
    plan->random = random_named(plan->seed, 14);
    plan->nodes = drawn[between(plan, 0, 3)];
    if (!plan->guarded) plan->nodes = PLAN_NODES_STOCK;
    if (wish != PLAN_NODES_DRAWN) plan->nodes = wish;
    if (plan->nodes == PLAN_NODES_STOCK) return;
    plan->options.native = plan->nodes == PLAN_NODES_NATIVE ? all : (rl_mask)between(plan, 0, all);
    if (plan->nodes == PLAN_NODES_MIXED) draw_upgrades(plan);
    if (plan->guarded) befall_native(plan);
    draw_strangers(plan);
    plan->keys_late = keys_late(plan);
    plan_sort(plan);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* The clients' locks have slots, and in some worlds one client has another number of them than the
 * others. Each client has one lock. A register belongs to one lock, so it has no place here. */
static void draw_slots(struct plan *plan, bool always) {
    struct world_options *options = &plan->options;
    plan->random = random_named(plan->seed, 17);
    const bool drawn = chance(plan, 10);
    bool fits = plan->broken == PLAN_BREAK_NOTHING && !options->changes && plan->operators == 0 &&
                options->others == 0 && !plan->fresh && !options->client[0].lock.leader &&
                !plan_has_breaks(plan);
    if (!fits || !(drawn || always)) return;
    options->slots = true;
    options->resources = 1;
    const uint32_t slots = (uint32_t)between(plan, 1, WORLD_SLOTS_MAX - 1);
    for (unsigned i = 0; i < options->clients; i++) options->client[i].lock.slots = slots;
    if (options->clients > 1 && chance(plan, 40)) {
        const unsigned other = (unsigned)between(plan, 0, options->clients - 1);
        options->client[other].lock.slots = slots + 1;
        plan->may_be_refused |= 1u << other;
        /* It need not come back after the faults: another one must bring back lost nodes. */
        options->client[other == 0].client.recover = 1;
    }
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        const bool evicts = action->kind != PLAN_SESSION && action->resource == 0;
        action->resource = evicts ? (uint8_t)between(plan, 0, (int64_t)slots - 1) : 0;
        if (action->kind != PLAN_SESSION) continue;
        action->many = 0;
    }
}

/* ---- shared locks ---------------------------------------------------------------------------- */

/* Each client reads some resources and writes the others; some writers become readers. */
static void draw_shared(struct plan *plan, bool always) {
    struct world_options *options = &plan->options;
    plan->random = random_named(plan->seed, 18);
    const bool drawn = chance(plan, 12);
    const bool fits = loses_few(plan) && !options->slots && !options->client[0].lock.leader;
    if (!fits || !(drawn || always)) return;
    options->shared = true;
    for (unsigned i = 0; i < options->clients; i++) {
        const bool all = chance(plan, 40), none = chance(plan, 30);
        const uint8_t some = (uint8_t)between(plan, 0, (1 << WORLD_RESOURCES_MAX) - 1);
        options->client[i].reads = all ? (1 << WORLD_RESOURCES_MAX) - 1 : none ? 0 : some;
    }
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind == PLAN_SESSION && !action->many && chance(plan, 40))
            action->downgrade_at = log_between(plan, 1, action->span + 1);
    }
    if (always && options->others == 0 && !plan_has_breaks(plan) && chance(plan, 30)) {
        add_breaks(plan);
        breakers_are_ours(plan);
    }
}

/* ---- locks that are taken over by their tokens ----------------------------------------------- */

/* Only if it is asked for. A break ends the lock of a token for good, so it has no place here, and
 * neither has what does not adopt: leaders and slots. */
static void draw_adoptions(struct plan *plan, bool wish) {
    const struct world_options *options = &plan->options;
    if (!wish || options->slots || options->client[0].lock.leader || plan_has_breaks(plan)) return;
    plan->random = random_named(plan->seed, 19);
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind != PLAN_SESSION || action->many) continue;
        action->adopts = chance(plan, 30);
        if (chance(plan, 40)) action->adopt_at = log_between(plan, 1, action->span + 1);
    }
}

/* A key that is set just before the faults end lives one TTL and its drift. Then connections return
 * (one longest backoff and connect timeout), an overdue answer is given up, and the remaining
 * clients try until no other try interferes. */
static rl_ns bound_of(const struct plan *plan) {
    rl_ns bound = ttl_of(plan) * 11 / 10 + 2500 * RL_MS + plan->keys_late, longest = 0, stall = 0;
    for (unsigned i = 0; i < plan->options.clients; i++) {
        const struct world_client_options *client = &plan->options.client[i];
        if (client->lock.retry_delay_ms_max * RL_MS > longest)
            longest = client->lock.retry_delay_ms_max * RL_MS;
        if (client->client.stall_timeout_ms * RL_MS > stall)
            stall = client->client.stall_timeout_ms * RL_MS;
    }
    bound += stall + 30 * (longest + 2 * (plan->patient ? ttl_of(plan) : plan_node_timeout(plan)));
    /* A node that lost its data waits; clients that check once a second then find it, read the
     * fences and install them. */
    if (plan->guarded) bound += 2 * (plan->ttl_ms_longest * RL_MS * 102 / 100) + 5000 * RL_MS;
    /* An operator first ends its current command, and then begins anew if too few nodes are intact.
     */
    if (plan->operators) bound += 8 * (plan->ttl_ms_longest * RL_MS * 102 / 100) + 30000 * RL_MS;
    return bound;
}

/* From a sequence of its own: in some guarded worlds every holder is a leader, and some clients
 * observe who leads. */
static void draw_observers(struct plan *plan) {
    plan->random = random_named(plan->seed, 16);
    if (!plan->guarded || !chance(plan, 30)) return;
    for (unsigned i = 0; i < plan->options.clients; i++) {
        struct world_client_options *client = &plan->options.client[i];
        client->lock.leader = 1;
        if (chance(plan, 60)) client->observes = (1 << WORLD_RESOURCES_MAX) - 1;
    }
}

/* ---- black holes ----------------------------------------------------------------------------- */

/* While it acquires, while it holds, or at any time. */
static rl_ns draw_hole_time(struct plan *plan) {
    const struct plan_action *action = &plan->actions[between(plan, 0, (int64_t)plan->count - 1)];
    const bool early = chance(plan, 50);
    const rl_ns later = early ? 4 * plan->options.link.delay_max : action->span;
    const rl_ns at = action->at + between(plan, 0, later);
    return at < plan->faults_end ? at : between(plan, 0, plan->faults_end * 9 / 10);
}

/* A firewall forgets a client's connections, mostly all of them at once. From a sequence of its
 * own: worlds without that stay what they were. */
static void draw_black_holes(struct plan *plan) {
    plan->random = random_named(plan->seed, 20);
    plan->options.paths_apart = chance(plan, 50);
    if (!chance(plan, 25)) return;
    for (int64_t left = between(plan, 1, 4); left > 0; left--) {
        const rl_ns at = draw_hole_time(plan);
        const uint8_t client = (uint8_t)between(plan, 0, plan->options.clients - 1);
        const rl_mask all = rl_all(plan->options.nodes);
        const rl_mask nodes = chance(plan, 60) ? all : (rl_mask)between(plan, 1, all);
        for (unsigned i = 0; i < plan->options.nodes; i++) {
            struct plan_action *action = nodes & rl_bit(i) ? add(plan, PLAN_BLACK_HOLE) : NULL;
            if (!action) continue;
            action->at = at;
            action->client = client;
            action->node = (uint8_t)i;
        }
    }
    plan_sort(plan);
}

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_wish *wish) {
    *plan = (struct plan){.seed = seed,
                          .broken = wish->broken,
                          .guarded = wish->guarded,
                          .biased = wish->biased,
                          .random = random_named(seed, 7)};
    draw_options(plan);
    draw_actions(plan);
    draw_wakes(plan);
    draw_many(plan);
    draw_changes(plan);
    draw_membership(plan, wish->operators);
    draw_ttl_max(plan);
    draw_breaks(plan, wish->operators);
    draw_native(plan, wish->nodes);
    if (plan->biased) bias_actions(plan);
    draw_before_records(plan);
    draw_observers(plan);
    draw_slots(plan, wish->slots);
    draw_shared(plan, wish->shared);
    draw_black_holes(plan);
    draw_adoptions(plan, wish->adopt);
    plan->liveness_bound = bound_of(plan);
}
