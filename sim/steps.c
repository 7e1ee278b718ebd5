/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <inttypes.h>

static void print_clock(const struct world *world, char whose, unsigned index,
                        const struct sim_clock *clock) {
    fprintf(world->options.steps, "%c %u %" PRId64 " %" PRId64 " %" PRIu32 "\n", whose, index,
            clock->since, clock->shown, clock->ppm);
}

void steps_outside(const struct world *world, const char *reason) {
    if (!world->options.steps) return;
    fprintf(world->options.steps, "O %" PRId64 " %s\n", world->now, reason);
}

void steps_begin(struct world *world) {
    FILE *out = world->options.steps;
    if (!out) return;
    fprintf(out, "seed %" PRIu64 "\n", world->options.seed);
    for (unsigned i = 0; i < world->options.clients; i++) {
        const struct actor *actor = &world->actor[i];
        const struct redlock_client_options *options = &world->options.client[i].client;
        fprintf(out, "D %u %" PRIu32 " %" PRId64 "\nN %u", i, (uint32_t)options->drift_ppm,
                (int64_t)options->drift_ms * RL_MS, i);
        for (unsigned slot = 0; slot < actor->slots; slot++)
            fprintf(out, " %u", actor->link[slot].node);
        fputc('\n', out);
        print_clock(world, 'C', i, &actor->clock);
    }
    for (unsigned i = 0; i < world->options.nodes; i++)
        print_clock(world, 'K', i, &world->server[i].clock);
    if (world->options.guarded) {
        steps_guarded_begin(world);
        return;
    }
    if (world->options.native) steps_outside(world, "native nodes");
    if (world->options.slots) steps_outside(world, "slots");
    if (world->options.shared) steps_outside(world, "shared locks");
}

void steps_end(struct world *world) {
    if (world->options.steps) fputs(".\n", world->options.steps);
    world->options.steps = NULL;
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

void steps_message(struct world *world, enum history_kind kind, const struct message *message) {
    if (!world->options.steps || message->what != MESSAGE_REQUEST) return;
    if (world->options.guarded) {
        if (kind == HISTORY_SENT) steps_guarded_sent(world, message);
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

static void print_told(const struct world *world, char kind, const struct history_record *record) {
    const struct hold *hold = &world->actor[record->client].hold[record->resource];
    fprintf(world->options.steps, "%c %" PRId64 " %" PRIu32, kind, record->at, record->token);
    if (kind == 'W' || kind == 'P')
        fprintf(world->options.steps, " %" PRId64, redlock_validity_end_ns(hold->lock));
    if (kind == 'W' && world->options.guarded)
        fprintf(world->options.steps, " %" PRId64, record->value);
    fputc('\n', world->options.steps);
    if (kind == 'W' && world->options.guarded && record->value == 0)
        steps_outside(world, "a lock without a fence");
}

void steps_record(const struct world *world, const struct history_record *record) {
    /* A slot is a resource of its own here, which no hold has. */
    if (!world->options.steps || record->resource >= WORLD_RESOURCES_MAX) return;
    switch (record->kind) {
    case HISTORY_ACQUIRED: print_told(world, 'W', record); break;
    case HISTORY_RENEWED: print_told(world, 'P', record); break;
    case HISTORY_EXTENDED:
        if (record->result == REDLOCK_OK) print_told(world, 'P', record);
        break;
    case HISTORY_LOST: print_told(world, 'L', record); break;
    case HISTORY_RELEASE: print_told(world, 'R', record); break;
    case HISTORY_OPERATE:
        if (world->options.guarded && record->value != 5) /* 5 breaks a lock */
            steps_outside(world, "operators change the quorum");
        break;
    case HISTORY_NODE_NATIVE: steps_outside(world, "native nodes"); break;
    case HISTORY_BREAK: steps_outside(world, "an operator breaks a lock"); break;
    case HISTORY_NODE_RATE:
    case HISTORY_NODE_CLOCK:
        print_clock(world, 'K', (unsigned)record->node, &world->server[record->node].clock);
        break;
    default: break;
    }
}
