/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clients: programs that use the unchanged library from one event loop each, and their faults.
 * A stopped program does nothing at all. When it resumes, its loop first passes the waiting input
 * to the library; then the program carries out the actions that wait.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients.h"
#include "world/steps.h"

struct history_record actor_record(const struct world *world, enum history_kind kind,
                                   unsigned client) {
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)client;
    return record;
}

/* ---- driving --------------------------------------------------------------------------------- */

static bool runs(const struct actor *actor) { return !actor->paused && !actor->crashed; }

static void wake(struct world *world, void *argument, int64_t number) {
    struct actor *actor = &world->actor[number];
    (void)argument;
    if (actor->wake_at != world->now) return;
    actor->wake_at = RL_NEVER;
    actor_drive(world, (unsigned)number);
}

void actor_rearm(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (!runs(actor)) return;
    rl_ns at = clock_when(&actor->clock, net_next_timer(actor->net));
    if (at < world->now) at = world->now;
    if (at >= actor->wake_at) return;
    actor->wake_at = at;
    world_at(world, at, wake, NULL, (int64_t)client);
}

void actor_drive(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (!runs(actor)) return;
    (void)redlock_process(actor->redlock);
    for (unsigned i = 0; i < world->options.resources; i++) hold_print_answers(&actor->hold[i]);
    actor_rearm(world, client);
}

void actor_receive(struct world *world, unsigned client, struct message *message) {
    net_receive(world->actor[client].net, message);
    actor_drive(world, client);
}

/* ---- actions of clients --------------------------------------------------------------------- */

static void reopen(struct world *world, unsigned client);

static void act(struct world *world, unsigned client, const struct client_action *action) {
    bool acquires = action->kind == ACTION_ACQUIRE || action->kind == ACTION_ACQUIRE_MANY ||
                    action->kind == ACTION_ADOPT;
    if (acquires && world_client_options(world, client)->short_lived) reopen(world, client);
    struct hold *hold = world->actor[client].hold;
    if (action->kind < ACTION_ACQUIRE_MANY) hold += action->resource;
    switch (action->kind) {
    case ACTION_ACQUIRE: hold_acquire(hold, action->number); break;
    case ACTION_EXTEND: hold_extend(hold, action->number); break;
    case ACTION_ADOPT: hold_adopt(hold, action->number); break;
    case ACTION_DOWNGRADE: hold_downgrade(hold); break;
    case ACTION_RELEASE: hold_release(hold); break;
    case ACTION_CANCEL: hold_cancel(hold); break;
    case ACTION_UPDATE: update_begin(world, hold, action->think, action->late); break;
    case ACTION_WRITE: update_write(world, (size_t)action->number); break;
    case ACTION_ACQUIRE_MANY: holds_acquire(world, client, action->resource, action->number); break;
    case ACTION_RELEASE_MANY: holds_release(world, client, action->resource); break;
    case ACTION_OPERATE: operator_act(world, client, &action->operation); break;
    }
}

static void act_or_wait(struct world *world, unsigned client, struct client_action action) {
    struct actor *actor = &world->actor[client];
    if (actor->crashed) return;
    if (!actor->paused) {
        act(world, client, &action);
        return;
    }
    if (actor->actions_count == actor->actions_capacity)
        actor->actions =
            memory_grow(actor->actions, &actor->actions_capacity, sizeof(actor->actions[0]), 8);
    actor->actions[actor->actions_count++] = action;
}

void actor_act(struct world *world, unsigned client, enum client_action_kind kind,
               unsigned resource, int64_t number) {
    act_or_wait(
        world, client,
        (struct client_action){.kind = kind, .resource = (uint8_t)resource, .number = number});
}

void update_thought(struct world *world, void *argument, int64_t number) {
    const struct update *update = &world->updates[number];
    (void)argument;
    actor_act(world, update->client, ACTION_WRITE, update->resource, number);
}

void actor_update(struct world *world, unsigned client, unsigned resource, rl_ns think,
                  rl_ns late) {
    act_or_wait(
        world, client,
        (struct client_action){
            .kind = ACTION_UPDATE, .resource = (uint8_t)resource, .think = think, .late = late});
}

void actor_operate(struct world *world, unsigned client, struct world_operation operation) {
    act_or_wait(world, client,
                (struct client_action){.kind = ACTION_OPERATE, .operation = operation});
}

bool actor_believes(struct world *world, unsigned client, unsigned resource) {
    const struct actor *actor = &world->actor[client];
    return !actor->crashed && redlock_validity_end_ns(actor->hold[resource].lock) != 0;
}

bool actor_alive(struct world *world, unsigned client) { return !world->actor[client].crashed; }

bool actor_idle(struct world *world, unsigned client, unsigned resource) {
    const struct actor *actor = &world->actor[client];
    const struct hold *hold = &actor->hold[resource];
    if (actor->crashed || actor->actions_count > 0 || hold->acquiring || hold->releasing)
        return false;
    return redlock_lock_state(hold->lock) == REDLOCK_STATE_FREE;
}

static bool is_prompt(const struct channel *channel, rl_ns now) {
    return !channel->stalled && channel->last <= now + 300 * RL_MS;
}

bool node_is_in_touch(struct world *world, unsigned node) {
    const struct server *server = &world->server[node];
    if (!server->up || server->paused || server->mode != REDLOCK_VERDICT_GRANTED) return false;
    for (const struct link *link = NULL; (link = link_next(world, link));) {
        const struct actor *actor = &world->actor[link->client];
        if (link->node != node || link->fresh || actor->crashed) continue;
        if (actor->paused || link->cut || link->old || link->delay_next > 0) return false;
        if (!is_prompt(&link->channels[WAY_REQUESTS], world->now) ||
            !is_prompt(&link->channels[WAY_ANSWERS], world->now))
            return false;
    }
    return true;
}

/* ---- faults of clients ---------------------------------------------------------------------- */

static void write_fault(struct world *world, enum history_kind kind, unsigned client,
                        int64_t value) {
    struct history_record record = actor_record(world, kind, client);
    record.value = value;
    world_write(world, &record);
}

void actor_pause(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (!runs(actor)) return;
    actor->paused = true;
    actor->wake_at = RL_NEVER;
    write_fault(world, HISTORY_PAUSE, client, 0);
}

void actor_freeze(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (!runs(actor)) return;
    actor_pause(world, client);
    actor->frozen = true;
    clock_set(&actor->clock, world->now, 0, 0);
    steps_outside(world, "a client's clock stops");
}

void actor_resume(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (!actor->paused || actor->crashed) return;
    actor->paused = false;
    write_fault(world, HISTORY_RESUME, client, 0);
    if (actor->frozen) clock_set(&actor->clock, world->now, 0, actor->rate);
    /* The validity of a client that was frozen lasts longer in world time than it had reported. */
    for (unsigned i = 0; i < world->options.resources && actor->frozen; i++)
        if (redlock_validity_end_ns(actor->hold[i].lock) != 0)
            hold_write_until(&actor->hold[i], HISTORY_RENEWED);
    actor->frozen = false;
    actor_drive(world, client);
    for (size_t i = 0; i < actor->actions_count; i++) {
        struct client_action next = actor->actions[i];
        act(world, client, &next);
    }
    actor->actions_count = 0;
}

void actor_crash(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    if (actor->crashed) return;
    actor->crashed = true;
    actor->paused = false;
    actor->actions_count = 0;
    write_fault(world, HISTORY_CLIENT_CRASH, client, 0);
    net_abandon(actor->net); /* its kernel still sends what it had written */
}

/* It is at most a hint: the simulator shows that rule. */
void actor_clock_step(struct world *world, unsigned client, rl_ns step) {
    world->actor[client].wall += step;
    write_fault(world, HISTORY_CLIENT_CLOCK, client, step);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void init_link(struct world *world, unsigned client, unsigned slot, unsigned node) {
    unsigned name = client * 100 + slot;
    world->links[client].link[slot] = (struct link){
        .client = (uint16_t)client,
        .slot = (uint8_t)slot,
        .fresh = slot >= RL_NODES_MAX,
        .node = node,
        .moves_to = -1,
        .random = random_named(world->options.seed, 1000 + name),
        .hints_random = random_named(world->options.seed, 5000 + name),
        .announcements_random = random_named(world->options.seed, 7000 + name),
    };
}

static void list_node(struct world *world, unsigned client, unsigned node) {
    unsigned slot = world->links[client].slots++;
    init_link(world, client, slot, node);
    init_link(world, client, slot + RL_NODES_MAX, node);
}

static void list_nodes(struct world *world, unsigned client) {
    const struct world_client_options *options = world_client_options(world, client);
    rl_mask nodes = options->nodes ? options->nodes : rl_all(world->options.nodes);
    world->links[client].slots = 0;
    for (unsigned i = 0; i < world->options.nodes; i++)
        if (nodes & rl_bit(i)) list_node(world, client, i);
    if (options->twice_listed >= 0) list_node(world, client, (unsigned)options->twice_listed);
}

static void must(int result, const char *text) {
    if (result == REDLOCK_OK) return;
    fprintf(stderr, "redlock-sim: %s\n", text);
    abort();
}

static void open_client(struct world *world, unsigned client) {
    const struct world_client_options *options = world_client_options(world, client);
    struct actor *actor = &world->actor[client];
    struct redlock_error error = {0};
    char nodes[RL_NODES_MAX * 16]; /* the names in it mean nothing here */
    size_t at = 0;
    for (unsigned i = 0; i < world->links[client].slots; i++)
        at += (size_t)snprintf(nodes + at, sizeof(nodes) - at, "redis://n%u ", i + 1);
    world->links[client].waiter = 0; /* each process is a waiter of its own */
    net_opens_in(world);
    world->opening = client;
    must(redlock_client_open(nodes, &options->client, &actor->redlock, &error), error.text);
    for (unsigned i = 0; i < world->options.resources; i++) {
        struct hold *hold = &actor->hold[i];
        struct redlock_lock_options lock = options->lock;
        lock.on_change = hold_on_change;
        lock.on_change_context = hold;
        struct node_bytes key = resource_key(hold->resource);
        lock.shared = options->reads >> i & 1;
        hold->slots = (uint8_t)lock.slots;
        hold->shared = hold->made_shared = lock.shared != 0;
        must(redlock_lock_new(actor->redlock, key.data, key.bytes, &lock, &hold->lock, &error),
             error.text);
    }
    observers_begin(actor, client);
}

static void close_client(struct world *world, struct actor *actor) {
    net_abandon(actor->net);
    actor->ends = true;
    operator_drop(actor);
    observers_end(actor);
    for (unsigned r = 0; r < world->options.resources; r++) redlock_lock_free(actor->hold[r].lock);
    redlock_client_free(actor->redlock);
    actor->net = NULL;
    actor->ends = false;
}

/* The program that had the lock before has ended; this is a new one. */
static void reopen(struct world *world, unsigned client) {
    struct actor *actor = &world->actor[client];
    bool used = false;
    if (actor_operates(world, client)) return;
    for (unsigned r = 0; r < world->options.resources; r++) {
        const struct hold *hold = &actor->hold[r];
        if (hold->acquiring || hold->releasing ||
            redlock_lock_state(hold->lock) != REDLOCK_STATE_FREE)
            return;
        used = used || hold->tries > 0;
    }
    if (!used) return;
    close_client(world, actor);
    wire_end(world, client);
    actor->wake_at = RL_NEVER;
    open_client(world, client);
    actor_rearm(world, client);
}

void actors_begin(struct world *world) {
    for (unsigned i = 0; i < world->options.clients; i++) {
        struct actor *actor = &world->actor[i];
        actor->world = world;
        actor->task = NULL;
        actor->breaking = NULL;
        actor->thinks = false;
        world->links[i].broke = 0;
        actor->random = random_named(world->options.seed, 200 + i);
        actor->paused = actor->frozen = actor->crashed = false;
        actor->wake_at = RL_NEVER;
        actor->actions_count = 0;
        actor->rate = world_client_options(world, i)->clock_ppm;
        actor->clock = (struct sim_clock){
            0, random_between(&actor->random, 10000 * RL_MS, 1000000000 * RL_MS), actor->rate};
        struct random wall = random_named(world->options.seed, 300 + i);
        actor->wall = WALL_BEGIN + world_client_options(world, i)->wall_off +
                      random_between(&wall, -WALL_SPREAD, WALL_SPREAD) - actor->clock.shown;
        list_nodes(world, i);
        for (unsigned r = 0; r < world->options.resources; r++)
            actor->hold[r] =
                (struct hold){.world = world,
                              .client = (uint16_t)i,
                              .resource = (uint16_t)(world_first_resource(world, i) + r)};
        open_client(world, i);
        actor_rearm(world, i);
    }
}

void actors_end(struct world *world) {
    for (unsigned i = 0; i < world->options.clients; i++) close_client(world, &world->actor[i]);
}
