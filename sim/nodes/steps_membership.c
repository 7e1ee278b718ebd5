/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The steps of membership: the records on all servers, and who reads them. Nothing here changes the
 * run. */
#include <inttypes.h>

#include "core/guard.h"
#include "nodes.h"
#include "world/steps.h"

static bool prints(const struct world *world) {
    return world->options.steps && world->options.guarded;
}

/* The present server of a node has an even number, a former one that lives on an odd one. */
static unsigned number_of(const struct server *server) { return 2 * server->node + server->old; }

static char change_letter(const struct rl_change *change) {
    switch (change->kind) {
    case RL_CHANGE_ADD: return 'a';
    case RL_CHANGE_REMOVE: return 'r';
    case RL_CHANGE_TTL_MAX: return 't';
    case RL_CHANGE_NONE: break;
    }
    return '-';
}

void steps_members(const struct server *server) {
    const struct world *world = server->world;
    FILE *out = world->options.steps;
    struct rl_record record;
    if (!prints(world)) return;
    const bool known = server_guard_record(server, &record);
    fprintf(out, "H %" PRId64 " %u %d %u %d", world->now, number_of(server),
            known && server->intact, world->serving ? world->serving->client + 1u : 0u,
            server->raised);
    if (known) {
        const struct rl_change *change = &record.accepted;
        const uint64_t what =
            change->kind == RL_CHANGE_TTL_MAX ? (uint64_t)change->ttl_ms : change->id;
        fprintf(out, " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu32 " %" PRIu32 " %d",
                record.quorum_id, record.node_id, record.nonce, record.loss, record.begun,
                record.epoch, record.settled);
        fprintf(out, " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %c %" PRIx64,
                record.ttl_max_ms, record.ttl_next_ms, record.ballot, record.accepted_ballot,
                change_letter(change), what);
        for (unsigned i = 0; i < record.members_count; i++)
            fprintf(out, " %" PRIx64, record.members[i].id);
    }
    fputc('\n', out);
}

/* The fences of a record's nonce show that this is the record. */
void steps_read(const struct server *server, const struct message *message) {
    const struct world *world = server->world;
    struct rl_record record;
    if (!prints(world) || message->verdict != REDLOCK_VERDICT_GRANTED) return;
    if (message->op != NET_RECORD && message->op != NET_FENCES) return;
    if (!server_guard_record(server, &record)) return;
    if (message->op == NET_FENCES && message->fencing.nonce != record.nonce) return;
    fprintf(world->options.steps, "J %" PRId64 " %u %u %" PRIu32 " %d\n", world->now,
            number_of(server), message->client, message->number, message->op == NET_FENCES);
}
