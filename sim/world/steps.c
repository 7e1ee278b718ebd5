/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <inttypes.h>

void steps_outside(const struct world *world, const char *reason) {
    if (!world->options.steps) return;
    fprintf(world->options.steps, "O %" PRId64 " %s\n", world->now, reason);
}

static void print_sent(struct world *world, const struct message *message) {
    FILE *out = world->options.steps;
    const char kind = message->op == NET_ACQUIRE ? 'S' : message->op == NET_EXTEND ? 'E' : 'X';
    fprintf(out, "%c %" PRId64 " %u %" PRIu32 " %u %" PRIu32, kind, world->now, message->client,
            message->token, link_of(world, message)->node, message->number);
    if (message->op != NET_RELEASE) fprintf(out, " %" PRId64, message->ttl_ms * RL_MS);
    for (unsigned i = 0; message->op == NET_ACQUIRE && i < message->keys_count; i++)
        fprintf(out, " %u", message->keys[i]);
    fputc('\n', out);
}

/* The keys come behind it, so that the reader knows why they have changed: those that it is about,
 * changed or not, and any other that changed. */
static void print_served(struct world *world, const struct message *message) {
    FILE *out = world->options.steps;
    const unsigned node = link_of(world, message)->node;
    const bool granted = message->verdict == REDLOCK_VERDICT_GRANTED;
    if (granted || message->verdict == REDLOCK_VERDICT_DENIED ||
        message->verdict == REDLOCK_VERDICT_ABSENT)
        fprintf(out, "V %" PRId64 " %u %" PRIu32 " %d\n", world->now, node, message->number,
                granted);
    unsigned keys = world->steps_changed;
    for (unsigned i = 0; i < message->keys_count; i++) keys |= 1u << message->keys[i];
    for (unsigned i = 0; i < WORLD_KEYS_MAX; i++) {
        const struct steps_key *key = &world->steps_keys[node][i];
        if ((keys >> i & 1) != 0)
            fprintf(out, "Y %" PRId64 " %u %u %" PRIu32 " %" PRId64 "\n", world->now, node, i,
                    key->token, key->expires_ms * RL_MS);
    }
    world->steps_changed = 0;
}

char steps_letter(const struct message *message) {
    switch ((enum net_op)message->op) {
    case NET_ACQUIRE: return 'A';
    case NET_EXTEND: return 'E';
    case NET_RAISE: return 'T';
    case NET_CONFIRM: return 'C';
    case NET_RELEASE: return 'X';
    case NET_FENCES: return 'F';
    default: return 0;
    }
}

static void print_guarded_sent(const struct world *world, const struct message *message) {
    const char letter = steps_letter(message);
    if (message->op == NET_BREAK) steps_outside(world, "an operator breaks a lock");
    if (!letter || !world->options.steps) return;
    if (message->keys_count > 1) steps_outside(world, "several resources");
    fprintf(world->options.steps,
            "M %" PRId64 " %" PRIu32 " %c %u %" PRIu32 " %" PRId64 " %u %" PRId64 "\n", world->now,
            message->number, letter, message->client, message->token, message->ttl_ms * RL_MS,
            message->keys[0], message->fencing.fence);
}

void steps_message(struct world *world, enum history_kind kind, const struct message *message) {
    if (!world->options.steps || message->what != MESSAGE_REQUEST) return;
    if (kind == HISTORY_ANSWERED && steps_letter(message))
        fprintf(world->options.steps, "A %" PRId64 " %" PRIu32 "\n", world->now, message->number);
    if (world->options.guarded) {
        if (kind == HISTORY_SENT) print_guarded_sent(world, message);
        return;
    }
    if (message->op != NET_ACQUIRE && message->op != NET_EXTEND && message->op != NET_RELEASE)
        return;
    if (kind == HISTORY_SENT) print_sent(world, message);
    if (kind == HISTORY_ARRIVED) print_served(world, message);
}

void steps_key(struct world *world, unsigned node, enum node_change change, unsigned resource,
               uint32_t token, int64_t expires_ms) {
    if (!world->options.steps || world->options.guarded || world->options.slots) return;
    const bool there = change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED;
    world->steps_keys[node][resource] =
        (struct steps_key){there ? token : 0, there ? expires_ms : 0};
    if (change == NODE_CHANGE_EXPIRED)
        fprintf(world->options.steps, "Z %" PRId64 " %u %u\n", world->now, node, resource);
    else if (change == NODE_CHANGE_LOST || !world->serving)
        steps_outside(world, "a key changes without a request");
    else
        world->steps_changed |= 1u << resource;
}
