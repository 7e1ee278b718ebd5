/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A run of the simulated world: its options, its beginning and its end.
 */
#include "run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "steps_run.h"

/* ---- options --------------------------------------------------------------------------------- */

void world_options_init(struct world_options *options) {
    *options = (struct world_options){
        .seed = 1,
        .nodes = 5,
        .clients = 2,
        .resources = 1,
        .link = {.delay_min = RL_MS / 2, .delay_max = RL_MS * 3 / 2},
        .record_messages = 1,
    };
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++) {
        struct world_client_options *client = &options->client[i];
        redlock_client_options_init(&client->client);
        redlock_lock_options_init(&client->lock);
        client->client.service_thread = 0; /* a thread would make runs differ */
        client->client.mode = REDLOCK_MODE_CLASSIC;
        client->lock.ttl_ms = 10000;
        client->lock.renew = 0;
        client->clock_ppm = CLOCK_TRUE;
        client->twice_listed = -1;
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static const struct world_above above = {
    .request = server_receive,
    .alive = actor_alive,
    .answer = actor_receive,
    .record = steps_record,
};

static void make_room(struct world *world, unsigned clients) {
    if (clients <= world->clients_room) return;
    for (unsigned i = 0; i < world->clients_room; i++) free(world->actor[i].actions);
    free(world->links);
    free(world->actor);
    free(world->asked);
    world->clients_room = clients;
    world->links = memory_new(clients * sizeof(world->links[0]));
    world->actor = memory_new(clients * sizeof(world->actor[0]));
    world->asked = memory_new((clients + 1) * sizeof(world->asked[0]));
}

struct world *world_new(void) {
    struct world *world = memory_new(sizeof(*world));
    world->server = memory_new(RL_NODES_MAX * sizeof(world->server[0]));
    world->old = memory_new(RL_NODES_MAX * sizeof(world->old[0]));
    make_room(world, WORLD_CLIENTS_MAX);
    world->lists = memory_new(WORLD_LISTS_MAX * sizeof(world->lists[0]));
    world->above = &above;
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        world->server[i].world = world->old[i].world = world;
        world->server[i].node = world->old[i].node = i;
        world->old[i].old = true;
        snprintf(world->server[i].url, sizeof(world->server[i].url), "redis://n%u", i + 1);
    }
    return world;
}

void world_free(struct world *world) {
    if (!world) return;
    if (world->running) world_end(world);
    servers_free(world);
    free(world->events.heap);
    messages_free(world);
    for (unsigned i = 0; i < world->clients_room; i++) free(world->actor[i].actions);
    free(world->links);
    free(world->asked);
    free(world->updates);
    free(world->server);
    free(world->old);
    free(world->actor);
    free(world->lists);
    free(world);
}

void world_begin(struct world *world, const struct world_options *options,
                 struct history *history) {
    assert(!world->running && options->nodes >= 1 && options->nodes <= RL_NODES_MAX);
    const bool fleet = options->alone || options->hot;
    assert(options->clients <= (fleet ? WORLD_FLEET_MAX : WORLD_CLIENTS_MAX));
    assert(options->resources <= (fleet ? 1 : WORLD_RESOURCES_MAX));
    make_room(world, options->clients);
    world->names = WORLD_KEYS_MAX + options->alone + options->hot;
    world->options = *options;
    world->history = history;
    history_clear(history);
    history->clients = options->clients;
    history->nodes = options->nodes;
    history->resources = options->resources;
    history->others = options->others;
    history->refused = history->guarded = 0;
    for (unsigned i = 0; i < options->clients && !fleet; i++) {
        const struct world_client_options *client = &options->client[i];
        if (client->refused) history->refused |= UINT32_C(1) << i;
        if (client->client.mode == REDLOCK_MODE_GUARDED) history->guarded |= UINT32_C(1) << i;
    }
    world->now = 0;
    world->events.count = 0;
    world->events.sequence = 0;
    messages_begin(world);
    world->updates_count = 0;
    memset(world->reg, 0, sizeof(world->reg));
    world->reports = (struct world_reports){NULL, NULL, NULL};
    memset(world->asked, 0, (world->clients_room + 1) * sizeof(world->asked[0]));
    world->lists_count = 0;
    world->running = true;
    memset(world->steps_keys, 0, sizeof(world->steps_keys));
    world->steps_changed = 0;
    world->bodies_count = 0;
    world->options.steps = NULL; /* only now does the run begin */
    servers_begin(world);
    actors_begin(world);
    world->options.steps = options->steps;
    steps_begin(world);
}

void world_end(struct world *world) {
    if (!world->running) return;
    struct history_record record = world_record(world, HISTORY_END);
    world_write(world, &record);
    steps_end(world);
    actors_end(world);
    world->running = false;
}

void world_heal(struct world *world) {
    servers_heal(world);
    wire_heal_all(world);
    world->options.link.tail_ppm = 0;
    world->options.link.request_loss_ppm = world->options.link.reply_loss_ppm = 0;
    /* A clock that is slightly fast or slow stays so: that is not a fault, since drift allows for
     * it. */
    for (unsigned i = 0; i < world->options.clients; i++) actor_resume(world, i);
    struct history_record record = world_record(world, HISTORY_FAULTS_END);
    world_write(world, &record);
}
