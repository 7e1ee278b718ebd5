/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <inttypes.h>
#include <string.h>

void steps_outside(const struct world *world, const char *reason) {
    if (!world->options.steps) return;
    fprintf(world->options.steps, "O %" PRId64 " %s\n", world->now, reason);
}

void steps_reads(const struct world *world, uint32_t token) {
    if (!world->options.steps) return;
    fprintf(world->options.steps, "R %" PRId64 " %" PRIu32 "\n", world->now, token);
}

uint64_t steps_number(const struct world *world, uint32_t number, unsigned resource) {
    if (!world->options.slots) return number;
    return number == 0 ? 0 : (uint64_t)number * WORLD_SLOTS_MAX + resource - WORLD_SLOT_FIRST;
}

unsigned steps_first(const struct world *world) {
    return world->options.slots ? WORLD_SLOT_FIRST : 0;
}

unsigned steps_resources(const struct world *world) {
    return world->options.slots ? WORLD_SLOTS_MAX : world->options.resources;
}

/* The slots that the message asks for, or its keys. */
static unsigned asked_by(const struct message *message, uint16_t *keys) {
    unsigned count = message->keys_count;
    memcpy(keys, message->keys, sizeof(message->keys));
    if (message->op != NET_ACQUIRE_SLOT) return count;
    for (count = 0; count < message->slots.order_count; count++)
        keys[count] = (uint16_t)(WORLD_SLOT_FIRST + message->slots.order[count] - 1);
    return count;
}

static void print_sent_for(struct world *world, const struct message *message, const uint16_t *keys,
                           unsigned count) {
    FILE *out = world->options.steps;
    const char kind = message->op == NET_EXTEND ? 'E' : message->op == NET_RELEASE ? 'X' : 'S';
    fprintf(out, "%c %" PRId64 " %u %" PRIu64 " %u %" PRIu64, kind, world->now, message->client,
            steps_number(world, message->token, keys[0]), link_of(world, message)->node,
            steps_number(world, message->number, keys[0]));
    if (kind != 'X') fprintf(out, " %" PRId64, message->ttl_ms * RL_MS);
    for (unsigned i = 0; kind == 'S' && i < count; i++)
        fprintf(out, " %u", keys[i] - steps_first(world));
    fputc('\n', out);
}

static void print_sent(struct world *world, const struct message *message) {
    uint16_t keys[WORLD_RESOURCES_MAX];
    const unsigned count = asked_by(message, keys);
    const unsigned lines = world->options.slots ? count : 1;
    for (unsigned i = 0; i < lines; i++) print_sent_for(world, message, &keys[i], count / lines);
}

/* A slot that was asked for is one key, given or not. */
unsigned steps_count(const struct world *world, const struct message *message) {
    const bool several = world->options.slots && message->op != NET_ACQUIRE_SLOT;
    return several && message->keys_count > 0 ? message->keys_count : 1;
}

uint64_t steps_request(const struct world *world, const struct message *message, unsigned i) {
    const bool has_key = message->op != NET_FENCES;
    return steps_number(world, message->number, has_key ? message->keys[i] : steps_first(world));
}

static void print_verdict(struct world *world, const struct message *message) {
    const bool granted = message->verdict == REDLOCK_VERDICT_GRANTED;
    if (!granted && message->verdict != REDLOCK_VERDICT_DENIED &&
        message->verdict != REDLOCK_VERDICT_ABSENT)
        return;
    for (unsigned i = 0; i < steps_count(world, message); i++)
        fprintf(world->options.steps, "V %" PRId64 " %u %" PRIu64 " %d\n", world->now,
                link_of(world, message)->node, steps_request(world, message, i), granted);
}

/* The keys come behind it, so that the reader knows why they have changed: those that it is about,
 * changed or not, and any other that changed. */
static void print_keys(struct world *world, const struct message *message) {
    FILE *out = world->options.steps;
    const unsigned node = link_of(world, message)->node;
    unsigned keys = world->steps_changed;
    for (unsigned i = 0; i < message->keys_count; i++) keys |= 1u << message->keys[i];
    for (unsigned i = 0; i < WORLD_KEYS_MAX; i++) {
        const struct steps_key *key = &world->steps_keys[node][i];
        if ((keys >> i & 1) != 0)
            fprintf(out, "Y %" PRId64 " %u %u %" PRIu64 " %" PRId64 "\n", world->now, node,
                    i - steps_first(world), steps_number(world, key->token, i),
                    key->expires_ms * RL_MS);
    }
    world->steps_changed = 0;
}

char steps_letter(const struct message *message) {
    switch ((enum net_op)message->op) {
    case NET_ACQUIRE:
    case NET_ACQUIRE_SLOT: return 'A';
    case NET_EXTEND: return 'E';
    case NET_RAISE: return 'T';
    case NET_CONFIRM: return 'C';
    case NET_RELEASE: return 'X';
    case NET_BREAK: return 'B';
    case NET_FENCES: return 'F';
    case NET_SHARE:
    case NET_SHARE_EXTEND:
    case NET_SHARE_RELEASE: return 'S';
    default: return 0;
    }
}

static void print_guarded_sent(const struct world *world, const struct message *message) {
    const char letter = steps_letter(message);
    if (!letter || !world->options.steps) return;
    uint16_t keys[WORLD_RESOURCES_MAX];
    const unsigned count = asked_by(message, keys), slots = world->options.slots ? count : 1;
    if (count > 1 && !world->options.slots) steps_outside(world, "several resources");
    for (unsigned i = 0; i < (letter == 'F' ? 1 : slots); i++) {
        const unsigned key = letter == 'F' ? steps_first(world) : keys[i];
        fprintf(world->options.steps,
                "M %" PRId64 " %" PRIu64 " %c %u %" PRIu64 " %" PRId64 " %u %" PRId64 "\n",
                world->now, steps_number(world, message->number, key), letter, message->client,
                steps_number(world, message->token, key), message->ttl_ms * RL_MS,
                key - steps_first(world), message->fencing.fence);
    }
}

static void print_answered(const struct world *world, const struct message *message) {
    const char letter = steps_letter(message);
    for (unsigned i = 0; letter && i < steps_count(world, message); i++)
        fprintf(world->options.steps, "A %" PRId64 " %" PRIu64 "\n", world->now,
                steps_request(world, message, i));
}

void steps_message(struct world *world, enum history_kind kind, const struct message *message) {
    if (!world->options.steps || message->what != MESSAGE_REQUEST) return;
    if (kind == HISTORY_ANSWERED) print_answered(world, message);
    if (kind == HISTORY_ANSWERED && world->options.guarded &&
        (message->op == NET_RECORD || message->op == NET_FENCES))
        fprintf(world->options.steps, "a %" PRId64 " %" PRIu32 "\n", world->now, message->number);
    if (world->options.guarded) {
        if (kind == HISTORY_SENT) print_guarded_sent(world, message);
        return;
    }
    const bool known = message->op == NET_ACQUIRE || message->op == NET_ACQUIRE_SLOT ||
                       message->op == NET_EXTEND || message->op == NET_RELEASE;
    if (kind == HISTORY_SENT && known) print_sent(world, message);
    if (kind == HISTORY_ARRIVED && known) print_verdict(world, message);
    if (kind == HISTORY_ARRIVED && (known || net_op_is(message->op, NET_OP_READERS)))
        print_keys(world, message);
}

void steps_key(struct world *world, unsigned node, enum node_change change, unsigned resource,
               uint32_t token, int64_t expires_ms) {
    if (!world->options.steps || world->options.guarded) return;
    const bool there = change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED;
    world->steps_keys[node][resource] =
        (struct steps_key){there ? token : 0, there ? expires_ms : 0};
    if (change == NODE_CHANGE_EXPIRED)
        fprintf(world->options.steps, "Z %" PRId64 " %u %u\n", world->now, node,
                resource - steps_first(world));
    else if (change == NODE_CHANGE_LOST || !world->serving)
        steps_outside(world, "a key changes without a request");
    else
        world->steps_changed |= 1u << resource;
}
