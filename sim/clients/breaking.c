/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operators who break locks, by the library's own code. When a lock is broken, its operator admits
 * the fence at the register, as docs/use/fencing.md asks.
 */
#include <string.h>

#include "client/change/change.h"
#include "clients.h"

#define PATIENCE (3000 * RL_MS)

/* The key of a shared lock: to break it is to break the lock of each reader. */
static bool is_of_readers(const struct break_view *view) {
    const size_t bytes = sizeof(NODE_SHARED_MARKER) - 1;
    return view->token_bytes == bytes && memcmp(view->token, NODE_SHARED_MARKER, bytes) == 0;
}

static struct history_record breaking_record(const struct actor *actor, enum history_kind kind) {
    struct world *world = actor->world;
    const struct rl_break *machine = &actor->breaking->machine;
    struct history_record record = actor_record(world, kind, (unsigned)(actor - world->actor));
    record.resource = (int8_t)actor->breaks;
    for (unsigned i = 0; i < machine->wish.nodes; i++) {
        const struct break_view *view = &actor->breaking->view[i];
        if (machine->holder[i] != machine->token) continue;
        record.token =
            token_number(&world->tokens, (struct net_bytes){view->token, view->token_bytes});
        record.result = is_of_readers(view);
    }
    record.value = actor->breaking->machine.fence;
    return record;
}

static int result_of(const struct break_task *task) {
    switch (task->machine.outcome) {
    case RL_BREAK_OUTCOME_BROKEN:
    case RL_BREAK_OUTCOME_FREE: return REDLOCK_OK;
    case RL_BREAK_OUTCOME_CHANGED: return REDLOCK_CONFLICT;
    default: return REDLOCK_NO_QUORUM;
    }
}

static void write_broken(struct actor *actor) {
    const struct break_task *task = actor->breaking;
    struct world *world = actor->world;
    struct history_record broken = breaking_record(actor, HISTORY_BROKEN);
    broken.message = rl_count(rl_break_silent(&task->machine, break_members(task)));
    broken.message += break_unlisted(task);
    world_write(world, &broken);
    if (world->reg[actor->breaks].fence < broken.value)
        world->reg[actor->breaks].fence = broken.value;
}

/* Not from within a callback of the library. */
static void over(struct world *world, void *argument, int64_t number) {
    struct actor *actor = &world->actor[number];
    if (actor->breaking != argument) return;
    int result = result_of(actor->breaking);
    if (!actor->crashed && actor->breaking->machine.outcome == RL_BREAK_OUTCOME_BROKEN)
        write_broken(actor);
    breaking_drop(actor);
    if (actor->crashed) return;
    struct history_record record = actor_record(world, HISTORY_OPERATED, (unsigned)number);
    record.result = (int16_t)result;
    world_write(world, &record);
}

static void notified(struct break_task *task) {
    struct actor *actor = task->context;
    struct world *world = actor->world;
    if (task->over) {
        world_at(world, world->now, over, task, (int64_t)(actor - world->actor));
        return;
    }
    struct history_record record = breaking_record(actor, HISTORY_BREAK);
    world_write(world, &record);
}

void breaking_drop(struct actor *actor) {
    if (actor->breaking) break_free(actor->breaking);
    actor->breaking = NULL;
    actor->thinks = false;
}

static void begin(struct world *world, unsigned client, const struct world_operation *what) {
    struct actor *actor = &world->actor[client];
    const struct node_bytes key = resource_key(what->resource);
    const struct net_bytes named =
        what->token ? token_bytes(&world->tokens, what->token) : (struct net_bytes){NULL, 0};
    actor->breaks = what->resource;
    world->links[client].broke |= (uint8_t)(1u << what->resource);
    struct break_task *task = break_start(actor->redlock, (struct net_bytes){key.data, key.bytes},
                                          named, PATIENCE, NULL, actor);
    if (!task) return;
    actor->breaking = task;
    task->notify = notified;
    if (task->over) notified(task);
    actor_rearm(world, client);
}

/* ---- what the operator has seen ---- */

/* On the first node that has a key. */
static uint32_t token_seen(struct world *world, unsigned resource) {
    for (unsigned i = 0; i < world->options.nodes; i++) {
        struct server *server = &world->server[i];
        if (!server->up) continue;
        struct node_bytes held =
            node_get(server->table, resource_key(resource), server_wall_ms(server));
        if (held.bytes > 0)
            return token_number(&world->tokens, (struct net_bytes){held.data, held.bytes});
    }
    return 0;
}

static void decided(struct world *world, void *argument, int64_t number) {
    struct actor *actor = &world->actor[number];
    (void)argument;
    if (!actor->thinks || actor->crashed) return;
    actor->thinks = false;
    actor_operate(world, (unsigned)number, actor->decided);
}

void breaking_act(struct world *world, unsigned client, const struct world_operation *what) {
    struct actor *actor = &world->actor[client];
    struct history_record record = actor_record(world, HISTORY_OPERATE, client);
    if (what->think > 0) {
        actor->decided = *what;
        actor->decided.think = 0;
        actor->decided.token = token_seen(world, what->resource);
        actor->thinks = true;
        world_at(world, world->now + what->think, decided, NULL, client);
        return;
    }
    record.value = what->kind;
    record.token = what->token;
    world_write(world, &record);
    begin(world, client, what);
}
