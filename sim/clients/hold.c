/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One lock of one client: the program's calls to the library, the library's reports, and the
 * records of both; and the use of the lock, updates of a register.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients.h"
#include "world/steps.h"

static struct history_record hold_record(const struct hold *hold, enum history_kind kind) {
    struct history_record record = actor_record(hold->world, kind, hold->client);
    record.resource = (int8_t)(hold->slot ? WORLD_SLOT_FIRST + hold->slot - 1 : hold->resource);
    record.token = hold->token;
    return record;
}

static void write_hold(const struct hold *hold, enum history_kind kind, int result) {
    struct history_record record = hold_record(hold, kind);
    record.result = (int16_t)result;
    world_write(hold->world, &record);
}

/* A client that asks for any slot asks for each of them, until it has one. */
static void write_slots(struct hold *hold, enum history_kind kind, int result, unsigned but) {
    const uint8_t slot = hold->slot;
    for (uint8_t i = 1; i <= hold->slots; i++) {
        hold->slot = i;
        if (i != but) write_hold(hold, kind, result);
    }
    hold->slot = slot;
}

static void write_tries(struct hold *hold, enum history_kind kind, int result, unsigned but) {
    if (hold->slots)
        write_slots(hold, kind, result, but);
    else
        write_hold(hold, kind, result);
}

/* The world time at which the client's own clock, at its present rate, shows the end of its
 * validity. */
static rl_ns validity_end(const struct hold *hold) {
    rl_ns end = redlock_validity_end_ns(hold->lock);
    return end == 0 ? hold->world->now : clock_when(&hold->world->actor[hold->client].clock, end);
}

void hold_write_until(const struct hold *hold, enum history_kind kind) {
    struct history_record record = hold_record(hold, kind);
    record.until = validity_end(hold);
    record.value = hold->fence;
    if (kind == HISTORY_ACQUIRED) {
        record.message = hold->slots;
        record.result = hold->shared;
    }
    world_write(hold->world, &record);
}

void hold_print_answers(const struct hold *hold) {
    FILE *out = hold->world->options.steps;
    if (!out || hold->token == 0 || hold->reads) return;
    const int state = redlock_lock_state(hold->lock);
    const unsigned resource = hold->slot ? WORLD_SLOT_FIRST + hold->slot - 1u : hold->resource;
    fprintf(out, "Q %" PRId64 " %" PRIu64 " %" PRId64 " %d %" PRId64 "\n", hold->world->now,
            steps_number(hold->world, hold->token, resource), redlock_validity_ms(hold->lock),
            state == REDLOCK_STATE_HELD || state == REDLOCK_STATE_UNSURE,
            redlock_fence(hold->lock));
}

/* ---- reports of the library ----------------------------------------------------------------- */

void hold_on_change(void *context, struct redlock_lock *lock, int change) {
    const struct hold *hold = context;
    (void)lock;
    switch (change) {
    case REDLOCK_CHANGE_RENEWED: hold_write_until(hold, HISTORY_RENEWED); break;
    case REDLOCK_CHANGE_UNSURE: write_hold(hold, HISTORY_UNSURE, 0); break;
    case REDLOCK_CHANGE_SURE: break; /* RENEWED comes with it */
    case REDLOCK_CHANGE_LOST: write_hold(hold, HISTORY_LOST, 0); break;
    }
}

/* The locks of a client share a context: the lock shows whose result it is. NULL: nobody's. */
static struct hold *hold_of(struct actor *actor, const struct redlock_lock *lock) {
    if (actor->ends) return NULL;
    struct hold *hold = actor->hold;
    while (hold->lock != lock) hold++;
    return hold;
}

static void remember(struct hold *hold, struct redlock_bytes token) {
    hold->last.bytes = token.bytes <= sizeof hold->last.token ? token.bytes : 0;
    memcpy(hold->last.token, token.data, hold->last.bytes);
    hold->last.number = hold->token;
    hold->last.fence = hold->fence;
}

static void on_acquired(void *context, struct redlock_lock *lock, int result) {
    struct hold *hold = hold_of(context, lock);
    if (!hold) return;
    struct world *world = hold->world;
    hold->acquiring = false;
    if (result == REDLOCK_OK) {
        struct redlock_bytes token = redlock_token(lock);
        hold->token = token_number(&world->tokens, (struct net_bytes){token.data, token.bytes});
        hold->count++;
        hold->fence = world->options.guarded ? redlock_fence(lock) : 0;
        hold->release_waits = false;
        hold->shared = hold->reads = hold->made_shared;
        hold->slot = (uint8_t)redlock_slot(lock);
        remember(hold, token);
        if (hold->slots) write_slots(hold, HISTORY_NOT_ACQUIRED, REDLOCK_CANCELLED, hold->slot);
        hold_write_until(hold, HISTORY_ACQUIRED);
    } else {
        write_tries(hold, HISTORY_NOT_ACQUIRED, result, 0);
    }
    if (world->reports.acquired)
        world->reports.acquired(world, hold->client, hold->resource, result);
}

static void on_extended(void *context, struct redlock_lock *lock, int result) {
    struct hold *hold = hold_of(context, lock);
    if (!hold) return;
    hold->extending = false;
    struct history_record record = hold_record(hold, HISTORY_EXTENDED);
    record.result = (int16_t)result;
    record.until = validity_end(hold);
    world_write(hold->world, &record);
}

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct hold *hold = hold_of(context, lock);
    if (!hold) return;
    struct world *world = hold->world;
    hold->releasing = false;
    write_hold(hold, HISTORY_RELEASED, result);
    hold->token = 0;
    if (world->reports.released)
        world->reports.released(world, hold->client, hold->resource, result);
}

/* ---- actions of clients --------------------------------------------------------------------- */

static bool begin_acquiring(struct hold *hold) {
    if (redlock_lock_state(hold->lock) != REDLOCK_STATE_FREE || hold->acquiring || hold->releasing)
        return false;
    hold->token = 0;
    write_tries(hold, HISTORY_ACQUIRE, 0, 0);
    hold->acquiring = true;
    hold->tries++;
    return true;
}

void hold_acquire(struct hold *hold, int64_t wait_ms) {
    if (!begin_acquiring(hold)) return;
    struct actor *actor = &hold->world->actor[hold->client];
    int result = redlock_acquire_start(hold->lock, wait_ms, on_acquired, actor);
    if (result != REDLOCK_OK) on_acquired(actor, hold->lock, result);
    actor_rearm(hold->world, hold->client);
}

static bool leased(const struct hold *hold) {
    int state = redlock_lock_state(hold->lock);
    return state == REDLOCK_STATE_HELD || state == REDLOCK_STATE_UNSURE ||
           state == REDLOCK_STATE_LOST;
}

/* One update after the other: a program does not read for its next update before it has written the
 * last. */
static const struct update *update_of(const struct world *world, const struct hold *hold) {
    for (size_t i = 0; i < world->updates_count; i++) {
        const struct update *update = &world->updates[i];
        bool same = update->client == hold->client && update->resource == hold->resource &&
                    update->hold == hold->count;
        if (update->active && same) return update;
    }
    return NULL;
}

/* ---- a lock that is taken over by its token -------------------------------------------------- */

/* As `redlock extend` in another process. Whatever was believed before, this is a grant of its own:
 * all judges see a new acquisition with the same token. */
static void on_adopted(void *context, struct redlock_lock *lock, int result) {
    struct hold *hold = hold_of(context, lock);
    if (!hold) return;
    struct world *world = hold->world;
    hold->acquiring = hold->adopting = false;
    if (result == REDLOCK_OK && redlock_validity_end_ns(lock) == 0)
        result = REDLOCK_EXPIRED; /* a short extension, which has been reported lost by now */
    if (result == REDLOCK_OK) {
        hold->count++;
        hold->fence = world->options.guarded ? redlock_fence(lock) : 0;
        hold->last.fence = hold->fence;
        hold->release_waits = false;
        hold_write_until(hold, HISTORY_ACQUIRED);
        if (hold->had) return;
    } else {
        write_hold(hold, HISTORY_NOT_ACQUIRED, result);
        (void)redlock_lock_disown(lock); /* the lock may be another process's */
        hold->token = 0;
    }
    void (*report)(struct world *, unsigned, unsigned, int) =
        hold->had ? world->reports.released : world->reports.acquired;
    if (report) report(world, hold->client, hold->resource, result);
}

static bool may_adopt(struct hold *hold, const struct update *update) {
    if (hold->acquiring || hold->extending || hold->releasing || hold->slots) return false;
    if (update && update->sent) return false;            /* as for a release */
    if (hold->shared != hold->made_shared) return false; /* the token is a reader's now */
    hold->had = leased(hold);
    return hold->had || redlock_lock_state(hold->lock) == REDLOCK_STATE_FREE;
}

void hold_adopt(struct hold *hold, int64_t ttl_ms) {
    struct actor *actor = &hold->world->actor[hold->client];
    if (!may_adopt(hold, update_of(hold->world, hold))) return;
    if (hold->had && redlock_lock_state(hold->lock) != REDLOCK_STATE_LOST)
        write_hold(hold, HISTORY_LOST, 0); /* from here on it does not act as holder */
    if (hold->had) (void)redlock_lock_disown(hold->lock);
    steps_outside(hold->world, "a lock is taken over by its token");
    hold->token = hold->last.bytes ? hold->last.number : 0;
    write_hold(hold, HISTORY_ACQUIRE, 0);
    hold->acquiring = hold->adopting = true;
    hold->tries++;
    int result =
        hold->last.bytes == 0
            ? REDLOCK_LOST
            : redlock_lock_adopt_fenced(hold->lock, hold->last.token, hold->last.bytes,
                                        hold->world->options.guarded ? hold->last.fence : 0);
    if (result == REDLOCK_OK) result = redlock_extend_start(hold->lock, ttl_ms, on_adopted, actor);
    if (result != REDLOCK_OK) on_adopted(actor, hold->lock, result);
    actor_rearm(hold->world, hold->client);
}

void hold_extend(struct hold *hold, int64_t ttl_ms) {
    if (!leased(hold) || hold->extending) return;
    write_hold(hold, HISTORY_EXTEND, 0);
    hold->extending = true;
    struct actor *actor = &hold->world->actor[hold->client];
    int result = redlock_extend_start(hold->lock, ttl_ms, on_extended, actor);
    if (result != REDLOCK_OK) on_extended(actor, hold->lock, result);
    actor_rearm(hold->world, hold->client);
}

static bool begin_releasing(struct hold *hold) {
    if (!leased(hold) || hold->releasing) return false;
    const struct update *update = update_of(hold->world, hold);
    if (update && update->sent) { /* a program does not release a lock during its write */
        hold->release_waits = true;
        return false;
    }
    write_hold(hold, HISTORY_RELEASE, 0);
    hold->releasing = true;
    return true;
}

/* As a release, it waits for no write: a program that writes does not downgrade. */
void hold_downgrade(struct hold *hold) {
    if (!leased(hold) || hold->extending || hold->releasing) return;
    const struct update *update = update_of(hold->world, hold);
    if (update && update->sent) return;
    write_hold(hold, HISTORY_DOWNGRADE, 0);
    hold->shared = true;
    hold->extending = true;
    struct actor *actor = &hold->world->actor[hold->client];
    int result = redlock_downgrade_start(hold->lock, on_extended, actor);
    hold->reads = result == REDLOCK_OK;
    if (hold->reads) steps_reads(hold->world, hold->token);
    if (result != REDLOCK_OK) on_extended(actor, hold->lock, result);
    actor_rearm(hold->world, hold->client);
}

void hold_release(struct hold *hold) {
    if (!begin_releasing(hold)) return;
    struct actor *actor = &hold->world->actor[hold->client];
    int result = redlock_release_start(hold->lock, on_released, actor);
    if (result != REDLOCK_OK) on_released(actor, hold->lock, result);
    actor_rearm(hold->world, hold->client);
}

void hold_cancel(struct hold *hold) {
    if (!hold->acquiring || hold->adopting) return;
    write_tries(hold, HISTORY_CANCEL, 0, 0);
    redlock_cancel(hold->lock);
    actor_rearm(hold->world, hold->client);
}

/* ---- several in one call --------------------------------------------------------------------- */

struct many {
    struct redlock_lock *locks[WORLD_RESOURCES_MAX];
    int results[WORLD_RESOURCES_MAX];
    size_t count;
};

static void gather(struct many *many, struct world *world, unsigned client, unsigned resources,
                   bool (*begin)(struct hold *hold)) {
    many->count = 0;
    for (unsigned i = 0; i < world->options.resources; i++) {
        struct hold *hold = &world->actor[client].hold[i];
        if (!(resources >> i & 1) || !begin(hold)) continue;
        many->results[many->count] = REDLOCK_BAD_ARGUMENT; /* must be overwritten */
        many->locks[many->count++] = hold->lock;
    }
}

/* What the call returned is the first result that is not OK. Locks that it refused are over. */
static void finish(struct world *world, unsigned client, const struct many *many, int first,
                   redlock_done_fn *over) {
    int expected = REDLOCK_OK;
    for (size_t i = 0; i < many->count && expected == REDLOCK_OK; i++) expected = many->results[i];
    if (first != expected) {
        fputs("redlock-sim: a call for several locks returned what none of them, or not the first, "
              "has as its result\n",
              stderr);
        abort();
    }
    for (size_t i = 0; i < many->count; i++)
        if (many->results[i] != REDLOCK_OK)
            over(&world->actor[client], many->locks[i], many->results[i]);
    actor_rearm(world, client);
}

void holds_acquire(struct world *world, unsigned client, unsigned resources, int64_t wait_ms) {
    struct many many;
    gather(&many, world, client, resources, begin_acquiring);
    int first = redlock_acquire_many_start(many.locks, many.count, wait_ms, many.results,
                                           on_acquired, &world->actor[client]);
    finish(world, client, &many, first, on_acquired);
}

void holds_release(struct world *world, unsigned client, unsigned resources) {
    struct many many;
    gather(&many, world, client, resources, begin_releasing);
    int first = redlock_release_many_start(many.locks, many.count, many.results, on_released,
                                           &world->actor[client]);
    finish(world, client, &many, first, on_released);
}

/* ---- updates of the register ----------------------------------------------------------------- */

/* A holder reads the register of its resource, thinks, and writes back the value plus one. A
 * reader reads it a second time instead. */

/* What the register checks: a reader passes if no writer with a higher fence was there. A writer
 * passes if, in addition, its fence is above those of all readers: the writer before a reader may
 * have the same fence as that reader. */
static bool is_stale(const struct world *world, unsigned resource, int64_t fence, bool reads) {
    if (!world->options.fenced) return false;
    return fence < world->reg[resource].fence ||
           (!reads && world->reg[resource].fence_of_readers != 0 &&
            fence <= world->reg[resource].fence_of_readers);
}

/* A read with a fence keeps holders of lower ones out. False: it is refused. */
static bool register_read(const struct hold *hold) {
    struct world *world = hold->world;
    int64_t *highest = hold->shared ? &world->reg[hold->resource].fence_of_readers
                                    : &world->reg[hold->resource].fence;
    const bool stale = is_stale(world, hold->resource, hold->fence, hold->shared);
    struct history_record record = hold_record(hold, stale ? HISTORY_READ_REFUSED : HISTORY_READ);
    record.value = stale ? hold->fence : world->reg[hold->resource].value;
    world_write(world, &record);
    if (world->options.fenced && hold->fence > *highest) *highest = hold->fence;
    return !stale;
}

static void register_write(struct world *world, const struct update *update) {
    bool fenced = world->options.fenced;
    bool stale = is_stale(world, update->resource, update->fence, false);
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
    actor_act(world, update->client, ACTION_RELEASE, update->resource, 0);
}

/* The careful program checks its validity, then writes: it cannot notice a pause between the two.
 */
void update_write(struct world *world, size_t number) {
    struct update *update = &world->updates[number];
    const struct hold *hold = &world->actor[update->client].hold[update->resource];
    const bool same =
        hold->count == update->hold && !hold->releasing && redlock_validity_ms(hold->lock) > 0;
    update->sent = same && !hold->shared;
    if (same && hold->shared) (void)register_read(hold);
    if (!update->sent)
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

void update_begin(struct world *world, struct hold *hold, rl_ns think, rl_ns late) {
    if (redlock_validity_ms(hold->lock) <= 0 || hold->releasing || update_of(world, hold)) return;
    if (!register_read(hold)) return;
    /* Auto, and no record was seen: classic mode does not stand against a late write (LATE-WRITE).
     */
    if (world->options.fenced && hold->fence == 0) late = 0;
    size_t number = update_new(world);
    world->updates[number] = (struct update){
        .client = hold->client,
        .resource = (uint8_t)hold->resource,
        .active = true,
        .hold = hold->count,
        .token = hold->token,
        .value = world->reg[hold->resource].value + 1,
        .fence = hold->fence,
        .late = late,
    };
    world_at(world, world->now + think, update_thought, NULL, (int64_t)number);
}
