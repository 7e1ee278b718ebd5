/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clients are in five zones, with a node in each. Four of five clients hold a lock of their
 * own for ever. The others share names, twenty clients each: each waits, holds the lock for half a
 * second, and waits again.
 */
#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/memory.h"
#include "plot.h"
#include "run/run.h"
#include "world/random.h"

enum { NODES = FLEET_NODES, HOLDERS = 4, EACH = 5, SHARE = 20, TTL_S = 30 };
/* Messages of a client to a node in a second, whatever happens: what all clients do at one time
 * grows with their number, and not with its square. */
enum { EACH_MOST = 10 };
#define SECOND (1000 * RL_MS)
#define HOLD (500 * RL_MS)
/* A server that is restarted is back after this time. */
#define DOWN (2 * SECOND)
enum { RESTARTS_AT = 200, RESTART_EVERY = 45 };

enum what { STEADY, ZONE_FAILS, ZONE_HEALS, MAJORITY_CUT, MAJORITY_HEALS, RESTARTS, END };
static const struct fleet_phase phases[] = {
    [STEADY] = {60, "steady"},        [ZONE_FAILS] = {90, "a zone fails"},
    [ZONE_HEALS] = {105, "heals"},    [MAJORITY_CUT] = {145, "three nodes are cut off"},
    [MAJORITY_HEALS] = {157, "heal"}, [RESTARTS] = {RESTARTS_AT, "five restarts, one by one"},
    [END] = {FLEET_SECONDS, NULL},
};
_Static_assert(RESTARTS_AT + NODES * RESTART_EVERY <= FLEET_SECONDS, "all are over by the end");

struct fleet {
    const struct fleet_options *options;
    struct world *world;
    struct history history;
    struct random random;
    unsigned holders, names;
    struct fleet_counts counts;
    rl_ns *served; /* by client: when it last was; -1: not yet */
    bool *waits;   /* by client: it waited as the present phase began, and was not served since */
    unsigned waiting; /* so many of those are left */
    rl_ns last[END];  /* by phase: after this time the last of them was served; -1: some are left */
    enum what phase;
    int *holder; /* by name: the client that was granted it last; -1: none */
    unsigned granted, granted_twice, lost;
};

static struct fleet *of(struct world *world) { return world_owner(world); }

static unsigned zone_of(unsigned client) { return client % NODES; }

/* ---- the clients ---- */

static void acquire(struct world *world, void *argument, int64_t client) {
    (void)argument;
    actor_act(world, (unsigned)client, ACTION_ACQUIRE, 0, REDLOCK_WAIT_FOREVER);
}

static void give_back(struct world *world, void *argument, int64_t client) {
    (void)argument;
    actor_act(world, (unsigned)client, ACTION_RELEASE, 0, 0);
}

static void on_acquired(struct world *world, unsigned client, unsigned resource, int result) {
    struct fleet *fleet = of(world);
    (void)resource;
    if (result != REDLOCK_OK) {
        world_at(world, world_now(world) + SECOND, acquire, NULL, client);
        return;
    }
    fleet->granted++;
    fleet->served[client] = world_now(world);
    if (fleet->waits[client] && --fleet->waiting == 0)
        fleet->last[fleet->phase] = world_now(world) - phases[fleet->phase].at * SECOND;
    fleet->waits[client] = false;
    if (client < fleet->holders) return;
    int *holder = &fleet->holder[(client - fleet->holders) % fleet->names];
    if (*holder >= 0 && *holder != (int)client && actor_believes(world, (unsigned)*holder, 0))
        fleet->granted_twice++;
    *holder = (int)client;
    world_at(world, world_now(world) + HOLD, give_back, NULL, client);
}

/* Not from within the callback: the library would report this lock as busy. */
static void on_released(struct world *world, unsigned client, unsigned resource, int result) {
    (void)resource;
    (void)result;
    world_at(world, world_now(world), acquire, NULL, client);
}

/* A holder that has lost its lock takes it again. */
static void tend_holders(struct fleet *fleet) {
    for (unsigned i = 0; i < fleet->holders; i++)
        if (fleet->served[i] >= 0 && !actor_believes(fleet->world, i, 0))
            give_back(fleet->world, NULL, i);
}

/* ---- time ---- */

static void count(struct world *world, void *argument, int64_t tenth) {
    struct fleet *fleet = of(world);
    (void)argument;
    for (unsigned node = 0; node < NODES; node++)
        fleet->counts.until[node][tenth] = node_received(world, node);
    if (tenth < FLEET_SECONDS * 10)
        world_at(world, (tenth + 1) * SECOND / 10, count, NULL, tenth + 1);
    if (tenth % 10 != 0) return;
    for (size_t i = 0; i < fleet->history.count; i++)
        fleet->lost += fleet->history.records[i].kind == HISTORY_LOST;
    history_clear(&fleet->history); /* nothing judges it */
    tend_holders(fleet);
}

/* ---- faults ---- */

static void each_link(struct world *world, bool (*is_cut)(unsigned client, unsigned node),
                      bool heals) {
    const struct fleet *fleet = of(world);
    for (unsigned client = 0; client < fleet->options->clients; client++)
        for (unsigned node = 0; node < NODES; node++) {
            if (!is_cut(client, node)) continue;
            if (heals)
                link_heal(world, client, node);
            else
                link_cut(world, client, node, LINK_BOTH);
        }
}

static bool zone_leaves(unsigned client, unsigned node) {
    return (zone_of(client) == 0) != (node == 0);
}
static bool majority_leaves(unsigned client, unsigned node) { return (void)client, node < 3; }

static void count_waiters(struct fleet *fleet, enum what what) {
    fleet->phase = what;
    fleet->waiting = 0;
    fleet->last[what] = -1;
    for (unsigned i = fleet->holders; i < fleet->options->clients; i++) {
        fleet->waits[i] = !actor_believes(fleet->world, i, 0);
        fleet->waiting += fleet->waits[i];
    }
}

static void happens(struct world *world, void *argument, int64_t what) {
    (void)argument;
    count_waiters(of(world), (enum what)what);
    switch ((enum what)what) {
    case ZONE_FAILS: each_link(world, zone_leaves, false); break;
    case ZONE_HEALS: each_link(world, zone_leaves, true); break;
    case MAJORITY_CUT: each_link(world, majority_leaves, false); break;
    case MAJORITY_HEALS: each_link(world, majority_leaves, true); break;
    default: break;
    }
}

static void down(struct world *world, void *argument, int64_t node) {
    (void)argument;
    node_crash(world, (unsigned)node);
}
static void up(struct world *world, void *argument, int64_t node) {
    (void)argument;
    node_restart(world, (unsigned)node, NODE_KEEPS_ALL);
}

static void plan(struct fleet *fleet) {
    struct world *world = fleet->world;
    for (unsigned i = 0; i < fleet->options->clients; i++)
        world_at(world, random_between(&fleet->random, SECOND, 20 * SECOND), acquire, NULL, i);
    for (int what = STEADY; what < END; what++)
        world_at(world, phases[what].at * SECOND, happens, NULL, what);
    for (int node = 0; node < NODES; node++) {
        const rl_ns at = (phases[RESTARTS].at + node * RESTART_EVERY) * SECOND;
        world_at(world, at, down, NULL, node);
        world_at(world, at + DOWN, up, NULL, node);
    }
    count(world, NULL, 0);
}

/* ---- what came of it ---- */

static double steady_rate(const struct fleet *fleet) {
    return fleet_mean(&fleet->counts, phases[STEADY].at, phases[ZONE_FAILS].at);
}

static bool report(const struct fleet *fleet) {
    const double steady = steady_rate(fleet);
    bool kept = fleet->granted_twice == 0 && fleet->lost == 0;
    printf("%u clients: %u holders, and %u waiters of %u names; seed %" PRIu64 "\n",
           fleet->options->clients, fleet->holders, fleet->options->clients - fleet->holders,
           fleet->names, fleet->options->seed);
    puts(
        "messages per node and second        mean     peak  peak/steady  last waiter served after");
    for (int what = STEADY; what < END; what++) {
        const int from = phases[what].at, to = phases[what + 1].at;
        const double peak = fleet_peak(&fleet->counts, from, to);
        printf("%-30s %9.0f %8.0f %12.2f", phases[what].name, fleet_mean(&fleet->counts, from, to),
               peak, peak / steady);
        if (fleet->last[what] < 0)
            puts("                    (some were not)");
        else
            printf(" %23.1f s\n", (double)fleet->last[what] / (double)SECOND);
        kept = kept && peak <= (double)EACH_MOST * fleet->options->clients;
        if (what == ZONE_HEALS || what == MAJORITY_HEALS) kept = kept && fleet->last[what] >= 0;
    }
    printf("granted %u; twice at a time %u; lost by their holders %u\n", fleet->granted,
           fleet->granted_twice, fleet->lost);
    return kept;
}

static bool plot(const struct fleet *fleet) {
    char title[120];
    snprintf(title, sizeof(title), "Messages per second at the busiest of %d nodes, %u clients",
             NODES, fleet->options->clients);
    return fleet_plot(&fleet->counts, phases, 3 * steady_rate(fleet), title, fleet->options->svg);
}

static void configure(const struct fleet *fleet, struct world_options *options) {
    world_options_init(options);
    options->seed = fleet->options->seed;
    options->nodes = NODES;
    options->clients = fleet->options->clients;
    options->alone = fleet->holders;
    options->hot = fleet->names;
    options->record_messages = 0;
    options->wakes.on = true;
    options->resent_late = true;
    options->guarded = options->fenced = fleet->options->guarded;
    options->native = fleet->options->native ? rl_all(NODES) : 0;
    options->ttl_ms_max = TTL_S * 1000;
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++) {
        struct world_client_options *client = &options->client[i];
        client->client.mode = fleet->options->guarded ? REDLOCK_MODE_GUARDED : REDLOCK_MODE_CLASSIC;
        client->lock.ttl_ms = TTL_S * 1000;
        client->lock.renew = 1;
    }
}

bool fleet_run(const struct fleet_options *options) {
    static struct fleet fleet;
    struct world_options world;
    fleet = (struct fleet){.options = options, .world = world_new()};
    fleet.holders = options->clients / EACH * HOLDERS;
    fleet.names = (options->clients - fleet.holders + SHARE - 1) / SHARE;
    fleet.random = random_named(options->seed, 1);
    fleet.served = memory_new(options->clients * sizeof(fleet.served[0]));
    fleet.waits = memory_new(options->clients * sizeof(fleet.waits[0]));
    fleet.holder = memory_new(fleet.names * sizeof(fleet.holder[0]));
    for (unsigned i = 0; i < options->clients; i++) fleet.served[i] = -1;
    for (unsigned i = 0; i < fleet.names; i++) fleet.holder[i] = -1;
    history_init(&fleet.history, 0, 0, 0);
    configure(&fleet, &world);
    world_begin(fleet.world, &world, &fleet.history);
    world_report_to(fleet.world, &fleet, &(struct world_reports){on_acquired, on_released, NULL});
    plan(&fleet);
    world_run_until(fleet.world, FLEET_SECONDS * SECOND);
    bool kept = report(&fleet);
    if (options->svg && !plot(&fleet)) {
        fprintf(stderr, "redlock sim: %s cannot be written\n", options->svg);
        kept = false;
    }
    world_end(fleet.world);
    world_free(fleet.world);
    history_free(&fleet.history);
    free(fleet.served);
    free(fleet.waits);
    free(fleet.holder);
    return kept;
}
