/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The use of a lock: a holder reads the register of its resource, thinks, and writes back the value
 * plus one.
 */
#include "inside.h"

/* ---- updates of the register ----------------------------------------------------------------- */

static void register_write(struct world *world, const struct update *update) {
    bool fenced = world->options.fenced;
    bool stale = fenced && update->fence < world->reg[update->resource].fence;
    struct history_record record =
        actor_record(world, stale ? HISTORY_WRITE_REFUSED : HISTORY_WRITE, update->client);
    record.resource = (int8_t)update->resource;
    record.token = update->token;
    record.value = update->value;
    record.result = fenced;
    world_write(world, &record);
    if (stale) return;
    world->reg[update->resource].value = update->value;
    world->reg[update->resource].fence = update->fence;
}

static void write_arrives(struct world *world, void *argument, int64_t number) {
    struct update *update = &world->updates[number];
    struct hold *hold = &world->actor[update->client].hold[update->resource];
    (void)argument;
    register_write(world, update);
    update->active = false;
    if (!hold->release_waits || hold->count != update->hold) return;
    hold->release_waits = false;
    actor_release(world, update->client, update->resource);
}

/* The careful program checks its validity, then writes: it cannot notice a pause between the two.
 */
void update_write(struct world *world, size_t number) {
    struct update *update = &world->updates[number];
    const struct hold *hold = &world->actor[update->client].hold[update->resource];
    bool same =
        hold->count == update->hold && !hold->releasing && redlock_validity_ms(hold->lock) > 0;
    update->sent = same;
    if (!same)
        update->active = false;
    else if (update->late > 0)
        world_at(world, world->now + update->late, write_arrives, NULL, (int64_t)number);
    else
        write_arrives(world, NULL, (int64_t)number);
}

static size_t update_new(struct world *world) {
    for (size_t i = 0; i < world->updates_count; i++)
        if (!world->updates[i].active) return i;
    if (world->updates_count == world->updates_capacity)
        world->updates =
            memory_grow(world->updates, &world->updates_capacity, sizeof(world->updates[0]), 16);
    return world->updates_count++;
}

/* One update after the other: a program does not read for its next update before it has written the
 * last. */
const struct update *update_of(const struct world *world, const struct hold *hold) {
    for (size_t i = 0; i < world->updates_count; i++) {
        const struct update *update = &world->updates[i];
        bool same = update->client == hold->client && update->resource == hold->resource &&
                    update->hold == hold->count;
        if (update->active && same) return update;
    }
    return NULL;
}

/* Reading with a fence keeps holders of lower ones out until the write. */
static bool register_opens(struct world *world, const struct hold *hold) {
    int64_t *fence = &world->reg[hold->resource].fence;
    if (hold->fence >= *fence) {
        *fence = hold->fence;
        return true;
    }
    struct history_record record = hold_record(hold, HISTORY_READ_REFUSED);
    record.value = hold->fence;
    world_write(world, &record);
    return false;
}

void update_begin(struct world *world, struct hold *hold, rl_ns think, rl_ns late) {
    if (redlock_validity_ms(hold->lock) <= 0 || hold->releasing || update_of(world, hold)) return;
    if (world->options.fenced && !register_opens(world, hold)) return;
    size_t number = update_new(world);
    world->updates[number] = (struct update){
        .client = hold->client,
        .resource = hold->resource,
        .active = true,
        .hold = hold->count,
        .token = hold->token,
        .value = world->reg[hold->resource].value + 1,
        .fence = hold->fence,
        .late = late,
    };
    struct history_record record = hold_record(hold, HISTORY_READ);
    record.value = world->reg[hold->resource].value;
    world_write(world, &record);
    world_at(world, world->now + think, update_thought, NULL, (int64_t)number);
}
