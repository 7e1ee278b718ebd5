/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks on the nodes: the requests of readers (by src/node/shared.c), the records of their
 * places, and the lists that restarts and replicas roll back to.
 */
#include <stdlib.h>
#include <string.h>

#include "nodes.h"

static const struct node_bytes marker = {NODE_SHARED_MARKER, sizeof(NODE_SHARED_MARKER) - 1};

static struct node_bytes bytes_of(const struct world *world, uint32_t token) {
    struct net_bytes bytes = token_bytes(&world->tokens, token);
    return (struct node_bytes){bytes.data, bytes.bytes};
}

bool readers_hold(struct node_bytes value) {
    return value.bytes == marker.bytes && memcmp(value.data, marker.data, marker.bytes) == 0;
}

static bool is_marked(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    return readers_hold(node_get(table, key, now_ms));
}

/* ---- requests -------------------------------------------------------------------------------- */

void readers_serve(struct server *server, struct message *request) {
    const struct node_share share = {.key = resource_key(request->keys[0]),
                                     .reader = bytes_of(server->world, request->token),
                                     .ttl_ms = request->ttl_ms,
                                     .guarded = request->guarded,
                                     .nonce = request->fencing.nonce,
                                     .fence = request->fencing.fence,
                                     .stripe = request->fencing.stripes[0]};
    const int64_t now_ms = server_now_ms(server);
    enum node_answer answer;
    if (server->native)
        answer = native_share(server, request, &share);
    else if (request->op == NET_SHARE)
        answer = node_share(server->table, &share, now_ms, &request->fencing.fence);
    else if (request->op == NET_SHARE_EXTEND)
        answer = node_share_extend(server->table, &share, now_ms);
    else
        answer = node_share_release(server->table, &share, now_ms);
    request->verdict = verdict_of(answer);
    if (server->native && request->op == NET_SHARE && answer == NODE_DENIED)
        native_deny(server, request);
    server_await_expiry(server);
}

/* For an observer: how many there are. */
void readers_count(struct server *server, struct message *request) {
    request->reply.count = 0;
    request->verdict = verdict_of(node_readers_count(server->table, resource_key(request->keys[0]),
                                                     server_now_ms(server), &request->reply.count));
}

struct search {
    struct node_bytes reader;
    bool found;
};

static void look_for_reader(void *context, struct node_bytes reader, int64_t expires_ms) {
    struct search *search = context;
    (void)expires_ms;
    if (reader.bytes == search->reader.bytes &&
        memcmp(reader.data, search->reader.data, reader.bytes) == 0)
        search->found = true;
}

bool readers_would_change(struct server *server, const struct message *request) {
    const int64_t now_ms = server_now_ms(server);
    const struct node_bytes key = resource_key(request->keys[0]);
    struct search search = {.reader = bytes_of(server->world, request->token)};
    if (!is_marked(server->table, key, now_ms)) return false;
    node_readers(server->table, key, now_ms, look_for_reader, &search);
    return search.found;
}

/* ---- places ---------------------------------------------------------------------------------- */

static struct place *place_of(struct places *places, uint8_t resource, uint32_t token) {
    for (size_t i = 0; i < places->count; i++)
        if (places->list[i].resource == resource && places->list[i].token == token)
            return &places->list[i];
    return NULL;
}

static struct place *add(struct places *places, struct place place) {
    if (places->count == places->capacity)
        places->list = memory_grow(places->list, &places->capacity, sizeof(places->list[0]), 16);
    places->list[places->count] = place;
    return &places->list[places->count++];
}

/* An end of 0: the place is gone. */
static void set(struct places *places, struct place place) {
    struct place *here = place_of(places, place.resource, place.token);
    if (place.expires_ms == 0) {
        if (here) *here = places->list[--places->count];
    } else if (here) {
        *here = place;
    } else {
        add(places, place);
    }
}

/* The place ends when its node's clock shows the end, and not a millisecond later. */
static void note(struct server *server, struct place place, int64_t before_ms, int64_t now_ms) {
    const bool gone = place.expires_ms == 0;
    struct history_record record =
        server_record(server, gone ? HISTORY_READER_GONE : HISTORY_READER_LISTED);
    record.resource = (int8_t)place.resource;
    record.token = place.token;
    if (gone)
        record.value = before_ms <= now_ms;
    else
        record.until =
            clock_when(server->native ? &server->boot : &server->clock, place.expires_ms * RL_MS);
    world_write(server->world, &record);
    place.at = server->world->now;
    if (!server->native) add(&server->places_log, place); /* nothing rolls a native node back */
    set(&server->places, place);
}

struct look {
    struct server *server;
    uint8_t resource;
    int64_t now_ms;
};

static void look_at_reader(void *context, struct node_bytes reader, int64_t expires_ms) {
    const struct look *look = context;
    struct server *server = look->server;
    const uint32_t token =
        token_number(&server->world->tokens, (struct net_bytes){reader.data, reader.bytes});
    struct place *place = place_of(&server->places, look->resource, token);
    if (place) place->seen = true;
    if (place && place->expires_ms == expires_ms) return;
    note(server,
         (struct place){
             .resource = look->resource, .token = token, .expires_ms = expires_ms, .seen = true},
         0, look->now_ms);
}

void readers_look(struct server *server) {
    const int64_t now_ms = server_now_ms(server);
    if (!server->world->options.shared || server->old || !server->up || server->paused) return;
    for (size_t i = 0; i < server->places.count; i++) server->places.list[i].seen = false;
    for (unsigned i = 0; i < server->world->options.resources; i++) {
        struct look look = {server, (uint8_t)i, now_ms};
        if (is_marked(server->table, resource_key(i), now_ms))
            node_readers(server->table, resource_key(i), now_ms, look_at_reader, &look);
    }
    for (size_t i = server->places.count; i-- > 0;) {
        struct place place = server->places.list[i];
        const int64_t before_ms = place.expires_ms;
        if (place.seen) continue;
        place.expires_ms = 0;
        note(server, place, before_ms, now_ms);
    }
}

/* ---- restarts and replicas ------------------------------------------------------------------- */

/* `table` has the keys already. A list without its key has no readers. */
void readers_go_back(struct server *server, struct node_table *table, rl_ns as_of) {
    struct places *then = &server->places_then;
    then->count = 0;
    for (size_t i = 0; i < server->places_log.count && server->places_log.list[i].at <= as_of; i++)
        set(then, server->places_log.list[i]);
    for (size_t i = 0; i < then->count; i++) {
        const struct place *place = &then->list[i];
        const struct node_share share = {.key = resource_key(place->resource),
                                         .reader = bytes_of(server->world, place->token),
                                         .ttl_ms = place->expires_ms};
        int64_t fence;
        if (is_marked(table, share.key, 0)) (void)node_share(table, &share, 0, &fence);
    }
}

void readers_begin(struct server *server) { server->places.count = server->places_log.count = 0; }

void readers_free(struct server *server) {
    free(server->places.list);
    free(server->places_log.list);
    free(server->places_then.list);
}
