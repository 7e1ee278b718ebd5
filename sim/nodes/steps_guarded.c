/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The steps of guarded mode: bodies, records and fences. Nothing here changes the run. */
#include <inttypes.h>
#include <string.h>

#include "core/guard.h"
#include "core/mix.h"
#include "nodes.h"
#include "world/steps.h"

/* A client asks a server what its votes rest on unless it did so within the last second of the
 * client's own clock. */
#define UNSEEN (1200 * RL_MS)

/* Servers that belong to no quorum, or to another one, have no body: they have no vote. */
static bool prints(const struct server *server) {
    const struct world_options *options = &server->world->options;
    return options->steps && options->guarded &&
           !((options->others | options->spare) & rl_bit(server->node));
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void print_fence(struct server *server, unsigned resource) {
    struct rl_record record;
    const int64_t *fences = NULL;
    const struct node_bytes key = resource_key(resource);
    if (server_guard_record(server, &record)) fences = node_fences(server->table, record.nonce);
    if (!fences) fences = node_fences(server->table, 0); /* kept */
    const uint64_t stripe = rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
    fprintf(server->world->options.steps, "F %" PRId64 " %" PRIu32 " %u %" PRId64 "\n",
            server->world->now, server->body, resource - steps_first(server->world),
            fences ? fences[stripe] : 0);
}

static void print_key(const struct server *server, unsigned resource) {
    const struct steps_key *key = &server->body_keys[resource];
    fprintf(server->world->options.steps, "Y %" PRId64 " %" PRIu32 " %u %" PRIu64 " %" PRId64 "\n",
            server->world->now, server->body, resource - steps_first(server->world),
            steps_number(server->world, key->token, resource), key->expires_ms * RL_MS);
}

/* The first 60 bits suffice to tell and to order the run_ids of a world. */
static uint64_t start_of(const char *run_id) {
    uint64_t start = 0;
    for (unsigned i = 0; i < 15 && run_id[i]; i++)
        start = start << 4 | (uint64_t)(run_id[i] <= '9' ? run_id[i] - '0' : run_id[i] - 'a' + 10);
    return start;
}

static void print_record(const struct server *server) {
    FILE *out = server->world->options.steps;
    struct rl_record record;
    const struct link *writer = server->world->serving;
    fprintf(out, "I %" PRId64 " %" PRIu32 " %d %u", server->world->now, server->body,
            server->intact, writer ? writer->client + 1u : 0u);
    if (server_guard_record(server, &record))
        for (unsigned i = 0; i < record.members_count; i++)
            fprintf(out, " %" PRIu64 " %" PRIu32 " %" PRIu64, record.members[i].id - 1,
                    record.members[i].incarnation.number,
                    start_of(record.members[i].incarnation.run_id));
    fputc('\n', out);
}

void steps_body(struct server *server) {
    struct world *world = server->world;
    const bool born = server->body_changed;
    if (!prints(server)) return;
    if (born) {
        const struct server *old = &world->old[server->node];
        const bool lives_on = !server->old && old->up && old->body == server->body;
        const uint32_t former = lives_on ? 0 : server->body + 1;
        server->body = ++world->bodies_count;
        server->body_changed = false;
        const bool evicted = server->evicted != server->evicted_before;
        server->evicted_before = server->evicted;
        fprintf(world->options.steps, "B %" PRId64 " %" PRIu32 " %u %" PRIu32 " %" PRId64 "\n",
                world->now, server->body, server->node, former, evicted ? world->now + UNSEEN : 0);
        for (unsigned i = 0; i < steps_resources(world); i++)
            print_key(server, steps_first(world) + i);
    }
    print_record(server);
    for (unsigned i = 0; i < steps_resources(world); i++)
        print_fence(server, steps_first(world) + i);
}

void steps_body_key(struct server *server, enum node_change change, unsigned resource,
                    uint32_t token, int64_t expires_ms) {
    if (!prints(server)) return;
    const bool there = change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED;
    server->body_keys[resource] = (struct steps_key){there ? token : 0, there ? expires_ms : 0};
    if (change == NODE_CHANGE_EXPIRED && !server->body_changed)
        fprintf(server->world->options.steps, "Z %" PRId64 " %" PRIu32 " %u\n", server->world->now,
                server->body, resource - steps_first(server->world));
}

/* ---- requests -------------------------------------------------------------------------------- */

static char verdict_letter(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_GRANTED: return 'g';
    case REDLOCK_VERDICT_DENIED: return 'd';
    case REDLOCK_VERDICT_ABSENT: return 'a';
    case REDLOCK_VERDICT_STALE: return 's';
    case REDLOCK_VERDICT_RECOVERING: return 'r';
    default: return 'n'; /* nothing was executed */
    }
}

/* 0 the whole request, 1 its SET, 2 its ZADD. Of a break 1: the record has another nonce now. */
static int part_of(struct server *server, const struct message *message) {
    struct rl_record record;
    if (message->op != NET_BREAK) return message->part;
    return server_guard_record(server, &record) && record.nonce != message->fencing.nonce;
}

/* Keys and fences come behind it. */
void steps_served(struct server *server, const struct message *message) {
    const struct world *world = server->world;
    const char letter = steps_letter(message);
    const bool all = world->options.slots && letter != 'F';
    if (!prints(server) || !letter) return;
    if (server->body_changed) steps_body(server);
    const unsigned first = steps_first(world), count = steps_count(world, message);
    for (unsigned i = 0; i < count; i++)
        fprintf(world->options.steps, "V %" PRId64 " %" PRIu32 " %" PRIu64 " %d %c\n", world->now,
                server->body, steps_request(world, message, i), part_of(server, message),
                verdict_letter(message->verdict));
    if (letter == 'F') return;
    for (unsigned i = 0; i < count; i++) print_fence(server, message->keys[i]);
    for (unsigned i = first; i < first + steps_resources(world) && !server->old; i++)
        if (all || i == message->keys[0]) print_key(server, i);
}

void steps_guarded_begin(struct world *world) {
    FILE *out = world->options.steps;
    const unsigned members =
        rl_count(rl_all(world->options.nodes) & ~(world->options.others | world->options.spare));
    if (members == 0) steps_outside(world, "nobody has made the quorum yet");
    fprintf(out, "G %u %u %" PRId64 "\n", members, world->options.resources,
            world->options.ttl_ms_max * RL_MS);
    if (world->options.native) steps_outside(world, "native nodes");
    for (unsigned i = 0; i < members; i++) {
        struct server *server = &world->server[i];
        memset(server->body_keys, 0, sizeof(server->body_keys));
        server->body = world->bodies_count++;
        server->body_changed = world->old[i].body_changed = false;
        steps_body(server);
    }
    world->bodies_count--; /* the next one gets the next number */
    for (unsigned i = 0; i < world->options.nodes; i++) steps_members(&world->server[i]);
}
