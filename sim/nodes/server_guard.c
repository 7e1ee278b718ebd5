/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node's record and fences: its answers in guarded mode (by src/node/table.h), and the state that
 * restarts and replicas roll back to.
 */
#include <stdio.h>
#include <string.h>

#include "client/guarding/record.h"
#include "nodes.h"
#include "world/steps.h"

/* Of most nodes, and of the others. */
#define QUORUM_ID UINT64_C(0x7265646c6f636b31)
#define OTHER_QUORUM_ID UINT64_C(0x7265646c6f636b32)

const char *world_quorum_name(bool other) {
    return other ? "7265646c6f636b32" : "7265646c6f636b31";
}

static const struct node_bytes record_name = {NET_KEY_RECORD, sizeof(NET_KEY_RECORD) - 1};

/* ---- the log of changes, for replay --------------------------------------------------------- */

/* Of what is among the keys: nothing rolls a native node back. But its keys may be those of a stock
 * node, which it was and becomes again. */
static void remember(struct server *server, struct guard_change change) {
    const bool of_keys = change.what == GUARD_FLUSHED || change.what == GUARD_DELETED;
    if (server->native && !of_keys) {
        body_drop(server->world, change.body);
        return;
    }
    if (server->guard_count == server->guard_capacity)
        server->guard =
            memory_grow(server->guard, &server->guard_capacity, sizeof(server->guard[0]), 64);
    server->guard[server->guard_count++] = change;
}

static void remember_raise(struct server *server, const struct message *request) {
    if (server->old || request->verdict == REDLOCK_VERDICT_RECOVERING) return;
    struct guard_change change = {.at = server->world->now,
                                  .what = GUARD_RAISED,
                                  .nonce = request->fencing.nonce,
                                  .fence = request->fencing.fence,
                                  .stripes_count = request->fencing.stripes_count};
    memcpy(change.stripes, request->fencing.stripes, sizeof(change.stripes));
    remember(server, change);
}

void server_guard_flushed(struct server *server) {
    server->sound = server->sound && server->native;
    server->body_changed = true;
    if (server->world->options.guarded && !server->old)
        remember(server, (struct guard_change){.at = server->world->now, .what = GUARD_FLUSHED});
}

bool server_guard_delete(struct server *server) {
    if (!node_delete(server->keys, record_name, server_wall_ms(server))) return false;
    server->body_changed = true;
    remember(server, (struct guard_change){.at = server->world->now, .what = GUARD_DELETED});
    return true;
}

static void forget_from(struct server *server, size_t first) {
    for (size_t i = first; i < server->guard_count; i++)
        body_drop(server->world, server->guard[i].body);
    server->guard_count = first;
}

void server_guard_forget(struct server *server) { forget_from(server, 0); }

static enum node_answer write_record(struct node_table *table, const struct guard_change *change) {
    struct node_field fields[BODY_WORDS / 2];
    const struct message_body *body = change->body;
    struct node_record_write write = {.expected = change->expected,
                                      .nonce = change->nonce,
                                      .was_kept = change->was_kept,
                                      .keep = change->keep,
                                      .floor = body->has_fences ? body->fences : NULL,
                                      .fields = fields,
                                      .fields_count = body->words_count / 2};
    for (size_t i = 0; i < write.fields_count; i++) {
        struct net_bytes name = body_word(body, 2 * i), value = body_word(body, 2 * i + 1);
        fields[i] = (struct node_field){{name.data, name.bytes}, {value.data, value.bytes}};
    }
    return node_record_write(table, &write);
}

/* Replays this node's record and fences into an empty table; later changes never happened. */
void server_guard_go_back(struct server *server, struct node_table *table, rl_ns as_of) {
    size_t i = 0;
    for (; i < server->guard_count && server->guard[i].at <= as_of; i++) {
        const struct guard_change *change = &server->guard[i];
        switch ((enum guard_change_kind)change->what) {
        case GUARD_RAISED:
            (void)node_zadd(table, change->nonce, change->fence, change->stripes,
                            change->stripes_count);
            break;
        case GUARD_WRITTEN: (void)write_record(table, change); break;
        case GUARD_RENAMED: node_rename(table, change->expected, change->nonce); break;
        case GUARD_FLUSHED: node_flush_all(table); break;
        case GUARD_DELETED: (void)node_delete(table, record_name, 0); break;
        }
    }
    forget_from(server, i);
}

/* ---- eligibility ---------------------------------------------------------------------------- */

static void note_list(struct server *server, const struct rl_record *record) {
    struct world *world = server->world;
    if (!world->options.changes) return;
    unsigned before = server->list;
    server->list = world_list_of(world, record);
    server->identity = record ? record->node_id : 0;
    server->ttl_allowed = record ? rl_record_ttl_allowed(record) : 0;
    if (server->list == before) return;
    struct history_record members = server_record(server, HISTORY_NODE_MEMBERS);
    members.message = server->list;
    members.result = server->old;
    members.value = record ? record->epoch : 0;
    members.until = server->list ? world->lists[server->list - 1].nodes : 0;
    world_write(world, &members);
}

static void note_eligibility(struct server *server, int64_t epoch) {
    if (server->old) return;
    struct history_record eligibility = server_record(server, HISTORY_NODE_ELIGIBILITY);
    eligibility.result = server->intact;
    eligibility.value = epoch;
    world_write(server->world, &eligibility);
}

/* One write may change both. A node that stops being intact does so first: it never carries the
 * list of the new record as an intact one. */
void server_guard_check(struct server *server) {
    struct rl_record record;
    if (!server->world->options.guarded) return;
    bool was = server->intact;
    bool known = server_guard_record(server, &record);
    int64_t epoch = known ? record.epoch : 0;
    server->intact = known && record.eligibility == RL_RECORD_INTACT &&
                     strcmp(record.run_id, server->run_id) == 0 &&
                     record.evicted == server->evicted && server->sound;
    if (was && !server->intact) note_eligibility(server, epoch);
    note_list(server, known ? &record : NULL);
    if (!was && server->intact) note_eligibility(server, epoch);
    steps_body(server);
    steps_members(server);
}

uint64_t server_guard_quorum(const struct server *server) {
    struct rl_record record;
    return server_guard_record(server, &record) ? record.quorum_id : 0;
}

bool node_lives_on(const struct world *world, unsigned node) { return world->old[node].up; }

rl_mask world_carriers(const struct world *world) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < world->options.nodes; i++)
        if (server_guard_quorum(&world->server[i]) != 0) nodes |= rl_bit(i);
    return nodes;
}

bool node_is_up(const struct world *world, unsigned node) { return world->server[node].up; }

static void write_vote(struct server *server, const struct message *request) {
    if (request->verdict != REDLOCK_VERDICT_GRANTED || request->keys_count == 0) return;
    struct history_record record = server_record(server, HISTORY_VOTE);
    record.client = (int8_t)request->client;
    record.resource = (int8_t)request->keys[0];
    record.token = request->token;
    record.value = request->fencing.fence;
    record.result = server->intact;
    record.message = server->list;
    world_write(server->world, &record);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void acquire_native(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    const struct node_fence_request fences = {.nonce = request->fencing.nonce,
                                              .fence = request->fencing.fence,
                                              .stripes = request->fencing.stripes,
                                              .stripes_count = request->fencing.stripes_count};
    request->verdict = verdict_of(turns_acquire(server, request, &what, &fences));
    if (request->verdict == REDLOCK_VERDICT_DENIED) native_deny(server, request);
    write_vote(server, request);
    server_await_expiry(server);
}

static void acquire(struct server *server, struct message *request) {
    struct link *link = link_of(server->world, request);
    if (request->part == PART_SECOND)
        request->verdict = link->set_verdict;
    else
        server_write_op(server, request);
    if (request->part == PART_FIRST) {
        link->set_verdict = request->verdict;
        return;
    }
    /* The second command of the pipeline is executed whatever the first one answers. */
    enum node_answer answer =
        node_zadd(server->table, request->fencing.nonce, request->fencing.fence,
                  request->fencing.stripes, request->fencing.stripes_count);
    remember_raise(server, request);
    if (request->verdict == REDLOCK_VERDICT_GRANTED) request->verdict = verdict_of(answer);
    write_vote(server, request);
}

static void acquire_slot(struct server *server, struct message *request) {
    server_acquire_slot(server, request);
    if (request->reply.slot == 0) return;
    struct message raised = *request; /* the fence of that slot alone */
    raised.fencing.stripes[0] = request->fencing.stripes[request->reply.slot - 1];
    raised.fencing.stripes_count = 1;
    remember_raise(server, &raised);
    write_vote(server, request);
}

static void extend(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    request->verdict = verdict_of(
        node_extend_guarded(server->table, what.keys, what.count, what.token, request->ttl_ms,
                            request->fencing.nonce, request->fencing.fence,
                            request->fencing.stripes, request->fencing.stripes_count, what.now_ms));
    if (request->verdict == REDLOCK_VERDICT_GRANTED) {
        remember_raise(server, request);
        if (server->native) native_copy(server, &what);
    }
    server_await_expiry(server);
}

static void raise(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    int64_t highest = 0;
    request->verdict = verdict_of(
        node_raise(server->table, what.keys, what.count, what.token, request->fencing.nonce,
                   request->fencing.fence, request->fencing.stripes, request->fencing.stripes_count,
                   what.now_ms, &highest));
    remember_raise(server, request);
    write_vote(server, request);
    if (request->verdict == REDLOCK_VERDICT_STALE) request->fencing.fence = highest;
}

static void renamed(struct server *server, const struct message *request) {
    server_record_changed(server);
    steps_members(server);
    if (server->old) return;
    remember(server, (struct guard_change){.at = server->world->now,
                                           .what = GUARD_RENAMED,
                                           .expected = request->fencing.nonce,
                                           .nonce = request->fencing.added});
}

/* On a native node also a key that holds the token and has no lock. */
static void break_lock(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    int64_t highest = 0;
    enum node_answer answer =
        node_break(server->table, what.keys[0], what.token, request->fencing.nonce,
                   request->fencing.added, request->fencing.fence, request->fencing.stripes,
                   request->fencing.stripes_count, what.now_ms, &highest);
    bool raised = answer == NODE_GRANTED || answer == NODE_ABSENT || answer == NODE_DENIED;
    if (answer == NODE_ABSENT && server->native) answer = native_release(server, &what);
    request->verdict = verdict_of(answer);
    if (raised) remember_raise(server, request);
    if (raised && !server->native) renamed(server, request);
    if (answer == NODE_STALE) request->fencing.fence = highest;
}

static void confirm(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    request->verdict = verdict_of(node_confirm(server->table, what.keys, what.count, what.token,
                                               request->fencing.nonce, request->fencing.fence,
                                               request->fencing.stripes,
                                               request->fencing.stripes_count, what.now_ms));
}

static void share(struct server *server, struct message *request) {
    readers_serve(server, request);
    if (request->verdict != REDLOCK_VERDICT_GRANTED) return;
    remember_raise(server, request);
    if (request->op == NET_SHARE) write_vote(server, request);
}

static void report_record(struct server *server, struct message *request) {
    const struct node_field *fields;
    size_t count = node_record(server->table, &fields);
    request->verdict = count > 0 ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_ABSENT;
    if (count == 0) return;
    request->body = body_new(server->world);
    for (size_t i = 0; i < count; i++) {
        body_add(request->body, fields[i].name.data, fields[i].name.bytes);
        body_add(request->body, fields[i].value.data, fields[i].value.bytes);
    }
}

static void take_record(struct server *server, struct message *request) {
    const struct guard_change change = {.at = server->world->now,
                                        .what = GUARD_WRITTEN,
                                        .nonce = request->record.nonce,
                                        .expected = request->record.expected,
                                        .was_kept = request->record.was_kept,
                                        .keep = request->record.keep,
                                        .body = request->body};
    enum node_answer answer = write_record(server->table, &change);
    request->verdict = verdict_of(answer);
    if (answer == NODE_GRANTED) {
        server_record_changed(server);
        bool installed = change.body->has_fences && change.was_kept && !change.keep;
        if (installed) server->sound = true;
    }
    server->raised = answer == NODE_GRANTED && change.body->has_fences;
    request->body = NULL; /* the answer has none: the log takes it over */
    if (answer == NODE_GRANTED && !server->old)
        remember(server, change);
    else
        body_drop(server->world, change.body);
    server_guard_check(server);
    server->raised = false;
}

static void report_fences(struct server *server, struct message *request) {
    const int64_t *fences = node_fences(server->table, request->fencing.nonce);
    request->verdict = fences ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_RECOVERING;
    if (!fences) return;
    request->body = body_new(server->world);
    body_set_fences(request->body, fences);
}

static void report(struct message *request, const char *word) {
    body_add(request->body, word, strlen(word));
}

static void server_info(struct server *server, struct message *request) {
    const char *policy = server->may_evict ? "volatile-lru" : "noeviction"; /* of its keys */
    const bool replica = server_mode(server) == REDLOCK_VERDICT_READONLY;
    const uint64_t quorum_id = server_guard_quorum(server);
    rl_ns wall = clock_read(&server->clock, server->world->now);
    char text[64];
    request->verdict = REDLOCK_VERDICT_GRANTED;
    request->body = body_new(server->world);
    switch ((enum net_question)request->question) {
    case NET_ASK_TIME:
        snprintf(text, sizeof(text), "%lld", (long long)(wall / (1000 * RL_MS)));
        report(request, text);
        snprintf(text, sizeof(text), "%lld", (long long)(wall % (1000 * RL_MS) / 1000));
        report(request, text);
        break;
    case NET_ASK_INFO_MEMORY:
        snprintf(text, sizeof(text), "maxmemory_policy:%s\r\n", policy);
        report(request, text);
        break;
    case NET_ASK_INFO_REPLICATION:
        report(request, replica ? "role:slave\r\n" : "role:master\r\n");
        break;
    case NET_ASK_POLICY:
        report(request, "maxmemory-policy");
        report(request, policy);
        break;
    case NET_ASK_QUORUM:
        snprintf(text, sizeof(text), "%016llx", (unsigned long long)quorum_id);
        if (quorum_id) report(request, text);
        break;
    default: /* the simulated nodes have no configuration to report, and no users: all is allowed */
        if (request->question < NET_ASK_MAY ||
            !net_permission(server->native, (unsigned)request->question - NET_ASK_MAY))
            request->verdict = REDLOCK_VERDICT_ERROR;
        break;
    }
}

static void report_state(struct server *server, struct message *request) {
    const struct sim_clock *clock = server->native ? &server->boot : &server->clock;
    struct net_state state = {
        .wall_us = clock_read(clock, server->world->now) / 1000,
        .replica = server_mode(server) == REDLOCK_VERDICT_READONLY,
        .replicas = server->replicas,
        .may_evict = server->may_evict && !server->native,
        .evicted = server->evicted,
        .clients = server_clients(server),
    };
    memcpy(state.replid, server->replid, sizeof(state.replid));
    request->verdict = REDLOCK_VERDICT_GRANTED;
    request->body = body_new(server->world);
    body_add(request->body, &state, sizeof(state));
}

void server_guard_serve(struct server *server, struct message *request) {
    switch ((enum net_op)request->op) {
    case NET_ACQUIRE:
        if (server->native)
            acquire_native(server, request);
        else
            acquire(server, request);
        break;
    case NET_ACQUIRE_SLOT: acquire_slot(server, request); break;
    case NET_SHARE:
    case NET_SHARE_EXTEND: share(server, request); break;
    case NET_EXTEND: extend(server, request); break;
    case NET_RAISE: raise(server, request); break;
    case NET_BREAK: break_lock(server, request); break;
    case NET_CONFIRM: confirm(server, request); break;
    case NET_RECORD: report_record(server, request); break;
    case NET_RECORD_WRITE: take_record(server, request); break;
    case NET_FENCES: report_fences(server, request); break;
    case NET_SERVER_INFO: server_info(server, request); break;
    case NET_STATE: report_state(server, request); break;
    default: request->verdict = REDLOCK_VERDICT_ERROR; break;
    }
}

/* ---- beginning ------------------------------------------------------------------------------- */

static bool is_other(const struct world *world, unsigned node) {
    return (world->options.others & rl_bit(node)) != 0;
}

static void fill_record(const struct world *world, bool other, struct rl_record *record) {
    memset(record, 0, sizeof(*record));
    record->format = RL_RECORD_FORMAT;
    record->quorum_id = other ? OTHER_QUORUM_ID : QUORUM_ID;
    record->epoch = 1;
    record->settled = true;
    record->eligibility = RL_RECORD_INTACT;
    record->ttl_max_ms = record->ttl_next_ms = world->options.ttl_ms_max;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        if (is_other(world, i) != other || (world->options.spare & rl_bit(i))) continue;
        struct rl_member *member = &record->members[record->members_count++];
        member->id = i + 1;
        member->incarnation.number = 1;
        snprintf(member->url, sizeof(member->url), "%s", world->server[i].url);
        memcpy(member->incarnation.run_id, world->server[i].run_id,
               sizeof(member->incarnation.run_id));
    }
}

static void begin_one(struct server *server, struct rl_record *record, const int64_t *floor) {
    static struct record_text text;
    struct world *world = server->world;
    record->node_id = server->node + 1;
    record->nonce = random_named(world->options.seed, 500 + server->node).state | 1;
    memcpy(record->run_id, server->run_id, sizeof(record->run_id));
    memcpy(record->replid, server->replid, sizeof(record->replid));
    record_write(&text, record);
    const struct guard_change change = {.at = -RL_NEVER, /* no replica lags that far */
                                        .what = GUARD_WRITTEN,
                                        .nonce = record->nonce,
                                        .body = body_new(world)};
    for (size_t i = 0; i < text.fields_count; i++)
        body_add(change.body, text.fields[i].data, text.fields[i].bytes);
    body_set_fences(change.body, floor);
    (void)write_record(server->table, &change);
    remember(server, change);
    server->sound = server->intact = true;
    if (!world->options.changes) return;
    note_list(server, record);
    struct history_record eligibility = server_record(server, HISTORY_NODE_ELIGIBILITY);
    eligibility.result = 1;
    eligibility.value = record->epoch;
    world_write(world, &eligibility);
}

void server_guard_begin(struct world *world) {
    static int64_t floor[NODE_STRIPES];
    struct rl_record records[2];
    for (unsigned i = 0; i < NODE_STRIPES; i++) floor[i] = WALL_BEGIN / 1000;
    for (int other = 0; other < 2; other++) fill_record(world, other, &records[other]);
    for (unsigned i = 0; i < world->options.nodes; i++) {
        world->server[i].guard_count = 0; /* the incarnations of an earlier run are spare again */
        world->server[i].list = 0;
        world->server[i].sound = world->server[i].intact = false;
        if (world->options.spare & rl_bit(i)) continue;
        begin_one(&world->server[i], &records[is_other(world, i)], floor);
    }
}
