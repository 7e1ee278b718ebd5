/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The steps of a run: what stands at its beginning and at its end, and what the library reports.
 */
#include "steps_run.h"

#include <inttypes.h>

#include "clients/clients.h"
#include "world/steps.h"

static void print_clock(const struct world *world, char whose, unsigned index,
                        const struct sim_clock *clock) {
    fprintf(world->options.steps, "%c %u %" PRId64 " %" PRId64 " %" PRIu32 "\n", whose, index,
            clock->since, clock->shown, clock->ppm);
}

static void print_server_clock(const struct world *world, unsigned node) {
    const rl_mask left_out = world->options.others | world->options.spare;
    if (!(left_out & rl_bit(node))) print_clock(world, 'K', node, &world->server[node].clock);
}

void steps_begin(struct world *world) {
    FILE *out = world->options.steps;
    if (!out) return;
    fprintf(out, "seed %" PRIu64 "\n", world->options.seed);
    for (unsigned i = 0; i < world->options.clients; i++) {
        const struct actor *actor = &world->actor[i];
        const struct links *links = &world->links[i];
        const struct redlock_client_options *options = &world->options.client[i].client;
        fprintf(out, "D %u %" PRIu32 " %" PRId64 " %d\nN %u", i, (uint32_t)options->drift_ppm,
                (int64_t)options->drift_ms * RL_MS, options->confirm != 0, i);
        for (unsigned slot = 0; slot < links->slots; slot++)
            fprintf(out, " %u", links->link[slot].node);
        fputc('\n', out);
        print_clock(world, 'C', i, &actor->clock);
    }
    for (unsigned i = 0; i < world->options.nodes; i++) print_server_clock(world, i);
    if (world->options.slots) fprintf(out, "T %d\n", WORLD_SLOTS_MAX);
    if (world->options.guarded) {
        steps_guarded_begin(world);
        return;
    }
    if (world->options.native) steps_outside(world, "native nodes");
}

void steps_end(struct world *world) {
    if (world->options.steps) fputs(".\n", world->options.steps);
    world->options.steps = NULL;
}

static void print_told(const struct world *world, char kind, const struct history_record *record) {
    const unsigned resource = (unsigned)record->resource;
    const struct hold *hold = world->actor[record->client].hold;
    if (!world->options.slots) hold += resource;
    if (hold->reads) return;
    fprintf(world->options.steps, "%c %" PRId64 " %" PRIu64, kind, record->at,
            steps_number(world, record->token, resource));
    if (kind == 'W' || kind == 'P')
        fprintf(world->options.steps, " %" PRId64, redlock_validity_end_ns(hold->lock));
    if (kind == 'W' && world->options.guarded)
        fprintf(world->options.steps, " %" PRId64, record->value);
    fputc('\n', world->options.steps);
}

/* A result: it is the key of readers. Of these nothing is left to say: their key goes. */
static void print_broken(const struct world *world, const struct history_record *record) {
    if (record->result) return;
    fprintf(world->options.steps, "U %" PRId64 " %" PRIu64 "\n", record->at,
            steps_number(world, record->token, (unsigned)record->resource));
}

void steps_record(const struct world *world, const struct history_record *record) {
    if (!world->options.steps) return;
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
    case HISTORY_BREAK: print_broken(world, record); break;
    case HISTORY_NODE_RATE:
    case HISTORY_NODE_CLOCK: print_server_clock(world, (unsigned)record->node); break;
    default: break;
    }
}
