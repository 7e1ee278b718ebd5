/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What all parts of a node use: the names of its keys, its clocks and ids, its mode, its record,
 * and what it writes to the history.
 */
#include <stdio.h>
#include <string.h>

#include "client/guarding/record.h"
#include "nodes.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const struct node_bytes keys[WORLD_KEYS_MAX] = {
    {"r1", 2},        {"r2", 2},        {"r3", 2},        {"r4", 2},
    {"r1:slot:1", 9}, {"r1:slot:2", 9}, {"r1:slot:3", 9}, {"r1:slot:4", 9}};

/* The names of a fleet. */
static struct node_bytes fleet_key(unsigned number) {
    static char names[WORLD_FLEET_MAX][12];
    char *name = names[number];
    if (!name[0]) snprintf(name, sizeof(names[0]), "f%u", number);
    return (struct node_bytes){name, strlen(name)};
}

static int fleet_resource(const char *name, size_t bytes) {
    unsigned number = 0;
    for (size_t i = 1; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9') return -1;
        number = number * 10 + (unsigned)(name[i] - '0');
    }
    return WORLD_KEYS_MAX + (int)number;
}

struct node_bytes resource_key(unsigned resource) {
    return resource < WORLD_KEYS_MAX ? keys[resource] : fleet_key(resource - WORLD_KEYS_MAX);
}

int resource_of(const void *key, size_t bytes) {
    const char *name = key;
    const size_t slot = sizeof("r1:slot:") - 1;
    if (bytes > 1 && bytes < 7 && name[0] == 'f') return fleet_resource(name, bytes);
    if (bytes == slot + 1 && memcmp(name, "r1:slot:", slot) == 0 && name[slot] >= '1' &&
        name[slot] < '1' + WORLD_SLOTS_MAX)
        return WORLD_SLOT_FIRST + name[slot] - '1';
    if (bytes != 2 || name[0] != 'r' || name[1] < '1' || name[1] > '0' + WORLD_RESOURCES_MAX)
        return -1;
    return name[1] - '1';
}

/* The keys of all slots that a client may have, though the world uses few of them. */
const struct node_bytes *server_slot_names(void) {
    static char text[NODE_SLOTS_MAX][16];
    static struct node_bytes names[NODE_SLOTS_MAX];
    for (unsigned i = 0; !names[NODE_SLOTS_MAX - 1].data && i < NODE_SLOTS_MAX; i++) {
        int bytes = snprintf(text[i], sizeof(text[i]), "r1:slot:%u", i + 1);
        names[i] = (struct node_bytes){text[i], (size_t)bytes};
    }
    return names;
}

/* ---- clocks and ids -------------------------------------------------------------------------- */

int64_t server_wall_ms(const struct server *server) {
    return clock_read(&server->clock, server->world->now) / RL_MS;
}

int64_t server_now_ms(const struct server *server) {
    const struct sim_clock *clock = server->native ? &server->boot : &server->clock;
    return clock_read(clock, server->world->now) / RL_MS;
}

static void write_id(const struct world *world, uint64_t name, char id[41]) {
    struct random random = random_named(world->options.seed, name);
    for (int i = 0; i < 40; i += 8)
        snprintf(id + i, 9, "%08x", (unsigned)(random_next(&random) >> 32));
}

void run_id_write(const struct world *world, uint32_t process, char run_id[41]) {
    write_id(world, UINT64_C(10000) + process, run_id);
}

/* A native node shows its incarnation: no resynchronisation reaches its locks. */
void server_new_replid(struct server *server) {
    if (server->native)
        memcpy(server->replid, server->run_id, sizeof(server->replid));
    else
        write_id(server->world, UINT64_C(20000) + ++server->world->replids, server->replid);
}

/* With its configuration file: settings made at run time are lost. */
void server_new_process(struct server *server) {
    server->process = ++server->world->processes;
    server->body_changed = true;
    run_id_write(server->world, server->process, server->run_id);
    server_new_replid(server);
    server->sound = false;
    server->resyncs++;
    server->may_evict = (server->world->options.may_evict & rl_bit(server->node)) != 0;
    server->evicted = server->evicted_before = 0;
    server->replica = server->record_changed = false;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Everything is answered with an error, handshakes too. */
bool server_refuses_all(const struct server *server) {
    return server->mode == REDLOCK_VERDICT_LOADING || server->mode == REDLOCK_VERDICT_BUSY ||
           server->mode == REDLOCK_VERDICT_MASTERDOWN || server->mode == REDLOCK_VERDICT_AUTH ||
           server->mode == REDLOCK_VERDICT_MAXCLIENTS || server->mode == REDLOCK_VERDICT_CLUSTER;
}

int server_mode(const struct server *server) {
    bool refuses = server_refuses_all(server);
    return server->replica && !refuses ? REDLOCK_VERDICT_READONLY : server->mode;
}

int16_t verdict_of(enum node_answer answer) {
    static const int16_t verdicts[] = {
        [NODE_GRANTED] = REDLOCK_VERDICT_GRANTED,     [NODE_DENIED] = REDLOCK_VERDICT_DENIED,
        [NODE_ABSENT] = REDLOCK_VERDICT_ABSENT,       [NODE_STALE] = REDLOCK_VERDICT_STALE,
        [NODE_WRONGTYPE] = REDLOCK_VERDICT_WRONGTYPE, [NODE_GONE] = REDLOCK_VERDICT_RECOVERING,
        [NODE_NO_MEMORY] = REDLOCK_VERDICT_OOM,
    };
    return verdicts[answer];
}

struct node_request node_request(const struct server *server, const struct message *request) {
    struct net_bytes token = token_bytes(&server->world->tokens, request->token);
    struct node_request what = {.count = request->keys_count,
                                .token = {token.data, token.bytes},
                                .now_ms = server_now_ms(server)};
    for (size_t i = 0; i < what.count; i++) what.keys[i] = resource_key(request->keys[i]);
    return what;
}

/* ---- record and history ---------------------------------------------------------------------- */

bool server_guard_record(const struct server *server, struct rl_record *record) {
    const struct node_field *fields;
    struct net_bytes words[BODY_WORDS];
    size_t count = node_record(server->table, &fields);
    for (size_t i = 0; i < count && 2 * i + 1 < BODY_WORDS; i++) {
        words[2 * i] = (struct net_bytes){fields[i].name.data, fields[i].name.bytes};
        words[2 * i + 1] = (struct net_bytes){fields[i].value.data, fields[i].value.bytes};
    }
    return count > 0 && record_read(record, words, 2 * count);
}

struct history_record server_record(const struct server *server, enum history_kind kind) {
    struct history_record record = world_record(server->world, kind);
    record.node = (int8_t)server->node;
    return record;
}

void server_write(const struct server *server, enum history_kind kind, int64_t value) {
    struct history_record record = server_record(server, kind);
    record.value = value;
    world_write(server->world, &record);
}
