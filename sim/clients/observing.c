/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Clients that observe who leads, by the library's own code.
 */
#include <string.h>

#include "client/look/look.h"
#include "clients.h"

/* A report, with the token, which the library does not show its user. */
static void on_leader(void *context, const struct redlock_leader *leader) {
    const struct hold *hold = context;
    struct world *world = hold->world;
    const struct actor *actor = &world->actor[hold->client];
    const struct redlock_observer *observer = actor->observers[hold->resource];
    struct history_record record = actor_record(world, HISTORY_OBSERVED, hold->client);
    record.resource = (int8_t)hold->resource;
    if (leader->state == REDLOCK_LEADER_KNOWN) {
        const struct observed_token *token = &observer->token[observer->machine.known.token];
        record.token = token_number(&world->tokens, (struct net_bytes){token->data, token->bytes});
        record.value = leader->term;
        record.until = clock_when(&actor->clock, leader->sure_until_ns);
    }
    record.result = (int16_t)leader->state;
    world_write(world, &record);
}

/* A client of mode classic cannot. */
void observers_begin(struct actor *actor, unsigned client) {
    const struct world_client_options *options = world_client_options(actor->world, client);
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++) {
        const struct node_bytes key = resource_key(i);
        struct redlock_error error;
        actor->observers[i] = NULL;
        if (!(options->observes >> i & 1) || i >= actor->world->options.resources) continue;
        if (redlock_observe_start(actor->redlock, key.data, key.bytes, on_leader, &actor->hold[i],
                                  &actor->observers[i], &error) != REDLOCK_OK)
            actor->observers[i] = NULL;
    }
}

void observers_end(struct actor *actor) {
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++) {
        redlock_observe_stop(actor->observers[i]);
        actor->observers[i] = NULL;
    }
}
