/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A turn of a slot: which lock it wants, and what it writes down of it for judge.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

uint32_t slot_random(struct slot *slot, uint32_t below) {
    return below == 0 ? 0 : (uint32_t)rand_r(&slot->seed) % below;
}

static void note(const struct slot *slot, enum chaos_kind kind, uint32_t resource, int64_t at_ns,
                 int64_t end_ns, int64_t fence, int64_t asked_ns) {
    const struct chaos_record record = {.at_ns = at_ns,
                                        .end_ns = end_ns,
                                        .fence = fence,
                                        .asked_ns = asked_ns,
                                        .kind = (uint32_t)kind,
                                        .resource = resource,
                                        .slot = slot->id,
                                        .turn = slot->turn};
    chaos_log_write(slot->worker->log, &record);
}

/* The end of validity is read before the time: an end that is later than true would accuse the
 * library of what it did not do. */
static void on_change(void *context, struct redlock_lock *lock, int change) {
    const struct slot *slot = context;
    int64_t end_ns = redlock_validity_end_ns(lock);
    if (change == REDLOCK_CHANGE_LOST) {
        for (uint32_t i = 0; i < slot->count; i++)
            note(slot, CHAOS_LOST, slot->resources[i], chaos_now_ns(), 0, 0, 0);
    } else if (end_ns > 0) {
        for (uint32_t i = 0; i < slot->count; i++)
            note(slot, CHAOS_EXTENDED, slot->resources[i], chaos_now_ns(), end_ns, 0, 0);
    }
}

/* ---- a turn ---- */

/* A few resources are hot, so that holders have rivals; the others bring the numbers. */
static uint32_t draw_resource(struct slot *slot) {
    uint32_t all = slot->worker->resources, hot = all / 8 + 1;
    return slot_random(slot, 10) < 3 ? slot_random(slot, hot) : slot_random(slot, all);
}

static bool of_100(struct slot *slot, uint32_t percent) {
    return percent > 0 && slot_random(slot, 100) < percent;
}

static uint32_t slots_of(uint32_t semaphore) { return 2 + semaphore % 3; }

/* Which lock the turn is about, as record.h numbers them; the semaphore's slot is not known yet. */
static enum turn draw_turn(struct slot *slot) {
    const struct worker *worker = slot->worker;
    slot->count = 1;
    if (worker->elections > 0 && of_100(slot, 60)) {
        slot->resources[0] = CHAOS_ELECTIONS + slot_random(slot, worker->elections);
        return TURN_LEADS;
    }
    if (worker->semaphores > 0 && of_100(slot, 25)) {
        slot->semaphore = slot_random(slot, worker->semaphores);
        slot->resources[0] = CHAOS_SEMAPHORES + CHAOS_SLOTS_STEP * slot->semaphore;
        return TURN_SLOTS;
    }
    slot->resources[0] = draw_resource(slot);
    if (of_100(slot, worker->shared_percent)) return TURN_READS;
    slot->resources[1] = (slot->resources[0] + 1) % worker->resources;
    if (slot_random(slot, 32) == 0 && worker->resources > 1) slot->count = 2;
    return TURN_WRITES;
}

static void name_of(const struct slot *slot, uint32_t i, char *text, size_t size) {
    switch (slot->kind) {
    case TURN_LEADS: snprintf(text, size, "l%u", slot->resources[i] - CHAOS_ELECTIONS); break;
    case TURN_SLOTS: snprintf(text, size, "s%u", slot->semaphore); break;
    default: snprintf(text, size, "r%u", slot->resources[i]); break;
    }
}

void slot_begin(struct slot *slot) {
    struct worker *worker = slot->worker;
    struct redlock_lock_options options;
    struct redlock_error error = {0};
    struct redlock_bytes names[2];
    char text[2][16];
    slot->turn++;
    slot->kind = draw_turn(slot);
    slot->only_reads = slot->kind == TURN_READS;
    for (uint32_t i = 0; i < slot->count; i++) {
        name_of(slot, i, text[i], sizeof text[i]);
        names[i] = (struct redlock_bytes){text[i], strlen(text[i])};
    }
    redlock_lock_options_init(&options);
    options.ttl_ms = worker->ttl_ms;
    options.owner = worker->owner;
    options.retry_delay_ms_min = 5;
    options.retry_delay_ms_max = 40;
    options.on_change = on_change;
    options.on_change_context = slot;
    options.shared = slot->kind == TURN_READS;
    options.leader = slot->kind == TURN_LEADS;
    options.slots = slot->kind == TURN_SLOTS ? slots_of(slot->semaphore) : 0;
    slot->lock = NULL;
    if (redlock_lock_new_multi(worker->client, names, slot->count, &options, &slot->lock, &error) !=
        REDLOCK_OK)
        die(text[0], error.text);
    slot->asked_ns = chaos_now_ns();
}

int64_t slot_wait_ms(struct slot *slot) {
    static const int64_t waits[] = {0, 0, 30, 100, 300};
    return waits[slot_random(slot, 5)];
}

static void use_register(const struct slot *slot) {
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    if (fence <= 0 || chaos_now_ns() >= end_ns) return;
    for (uint32_t i = 0; i < slot->count; i++) {
        uint32_t resource = slot->resources[i];
        struct chaos_cell *cell = &slot->worker->cells[resource];
        int64_t higher =
            slot->only_reads ? chaos_register_read(cell, fence) : chaos_register_write(cell, fence);
        if (higher) note(slot, CHAOS_REFUSED, resource, chaos_now_ns(), end_ns, fence, higher);
    }
}

void slot_entered(struct slot *slot) {
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    int64_t at_ns = chaos_now_ns(), hold_us = slot->worker->hold_us_max;
    uint32_t kind = slot_random(slot, 1000);
    if (slot->kind == TURN_SLOTS) slot->resources[0] += redlock_slot(slot->lock);
    for (uint32_t i = 0; i < slot->count; i++)
        note(slot, slot->only_reads ? CHAOS_SHARED : CHAOS_GRANT, slot->resources[i], at_ns, end_ns,
             fence, slot->asked_ns);
    use_register(slot);
    /* Most turns are short; some last until the lock was renewed, or until it is lost. */
    if (slot->kind == TURN_LEADS) hold_us = slot->worker->ttl_ms * (kind < 900 ? 300 : 2000);
    if (kind >= 996) hold_us = slot->worker->ttl_ms * 2000;
    if (kind < 996 && kind >= 976 && slot->kind != TURN_LEADS) hold_us = slot->worker->ttl_ms * 200;
    slot->leave_ns = at_ns + 1000 * (int64_t)slot_random(slot, (uint32_t)hold_us + 1);
    slot->downgrade_ns = INT64_MAX;
    if (slot->kind == TURN_WRITES && slot->count == 1 && of_100(slot, slot->worker->shared_percent))
        slot->downgrade_ns = at_ns + (slot->leave_ns - at_ns) / (2 + slot_random(slot, 3));
    slot->last_result = REDLOCK_OK;
}

void slot_downgrades(struct slot *slot) {
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    use_register(slot);
    slot->only_reads = true;
    slot->downgrade_ns = INT64_MAX;
    note(slot, CHAOS_DOWNGRADE, slot->resources[0], chaos_now_ns(), end_ns, fence, 0);
}

void slot_leaves(struct slot *slot) {
    use_register(slot);
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    int64_t at_ns = chaos_now_ns();
    for (uint32_t i = 0; i < slot->count; i++)
        note(slot, CHAOS_LEAVE, slot->resources[i], at_ns, end_ns, fence, 0);
}

void slot_failed(struct slot *slot, int result) {
    /* All workers give the same number of slots, and they ask stock servers. */
    if (result == REDLOCK_OTHER_SLOTS || result == REDLOCK_NO_SLOTS || result == REDLOCK_NO_SHARED)
        die("an acquisition", redlock_result_text(result));
    if (result != slot->last_result)
        note(slot, CHAOS_RESULT, slot->resources[0], chaos_now_ns(), result, 0, slot->asked_ns);
    slot->last_result = result;
}

void slot_end(struct slot *slot) {
    redlock_lock_free(slot->lock);
    slot->lock = NULL;
}
