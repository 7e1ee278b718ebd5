/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Those of one client that wait for the same key stand in a line: the first one contends, for all
 * of them. On the nodes the client has one place in the key's line of all clients. See
 * docs/waiting.md.
 */
#include <stdlib.h>
#include <string.h>

#include "lock.h"

enum { CHAINS_LEAST = 1024, CROWDS = 64 };
#define LEASE_MIN (500 * RL_MS) /* so long a waiter who says nothing is believed to wait, ... */
#define LEASE_MAX (10000 * RL_MS)
#define LEASE_POLLS 3              /* ... and at least so many times as long as he says nothing */
#define CROWD_KEPT (10000 * RL_MS) /* that others waited when we left is remembered */
/* Who never had to wait is told by nobody that others do. Taking a lock again so soon after giving
 * it back, it asks. */
#define SOON (10 * RL_MS)
#define ASK_EVERY (10 * RL_MS)

/* ---- whose place it is ---- */

static struct place *place_of(struct redlock_lock *lock) { return &lock->acquisition->place; }
static const struct rl_acquire *machine_of(const struct redlock_lock *lock) {
    return &lock->acquisition->machine;
}
static rl_ns node_timeout_of(const struct redlock_lock *lock) {
    return lock->kind->terms.node_timeout;
}

/* One key. It stays until the last of its calls is done. */
struct line {
    struct chained by_key;
    struct redlock_client *client;
    unsigned busy; /* calls under way, and who uses it just now */
    struct redlock_lock *first, **last;
    rl_mask stood; /* nodes where we have a place */
    bool standing; /* a question for our rank is under way, ... */
    bool outdated; /* ... asked for one who has left since */
    int32_t told;  /* the rank that we were told since it was asked; INT32_MAX: none */
    struct net_bytes key, names[2];
    struct net_request look, stand, leave;
    struct net_call calls[]; /* nodes looks, nodes stands, nodes leaves */
};

struct lines {
    unsigned waiting; /* locks in all lines */
    rl_mask refused;  /* nodes that keep no lines */
    rl_ns asked;      /* when a crowd was last asked for */
    struct chains by_key;
    struct {
        uint32_t hash;
        rl_ns until;
    } crowd[CROWDS];
};

static uint32_t hash_of(struct net_bytes key) { /* FNV-1a */
    const unsigned char *at = key.data;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.bytes; i++) hash = (hash ^ at[i]) * 16777619u;
    return hash;
}

static struct line *find(const struct lines *lines, struct net_bytes key, uint32_t hash) {
    for (struct chained *thing = chains_first(&lines->by_key, hash); thing;
         thing = chains_next(thing)) {
        struct line *line = RL_CONTAINER(thing, struct line, by_key);
        if (line->key.bytes == key.bytes && memcmp(line->key.data, key.data, key.bytes) == 0)
            return line;
    }
    return NULL;
}

/* ---- making and freeing ---- */

/* One allocation: the line, its calls, the two names; the key is the end of the first. */
static struct line *line_new(struct redlock_client *client, struct net_bytes key) {
    unsigned nodes = client->nodes;
    size_t prefix = sizeof NET_KEY_WAITING - 1, bytes = prefix + key.bytes;
    _Static_assert(sizeof NET_KEY_WAITING == sizeof NET_KEY_WAITERS, "both names are as long");
    struct line *line = calloc(1, sizeof *line + 3 * nodes * sizeof line->calls[0] + 2 * bytes);
    if (!line) return NULL;
    char *text = (char *)(line->calls + 3 * nodes);
    line->client = client;
    line->last = &line->first;
    for (int i = 0; i < 2; i++, text += bytes) {
        memcpy(text, i == 0 ? NET_KEY_WAITING : NET_KEY_WAITERS, prefix);
        memcpy(text + prefix, key.data, key.bytes);
        line->names[i] = (struct net_bytes){text, bytes};
    }
    line->key = (struct net_bytes){(const char *)line->names[0].data + prefix, key.bytes};
    line->look = (struct net_request){
        .op = NET_WATCH, .keys = &line->key, .keys_count = 1, .scheme = client->scheme};
    line->stand = (struct net_request){.op = NET_STAND, .keys = line->names, .keys_count = 2};
    line->leave = (struct net_request){.op = NET_LEAVE, .keys = line->names, .keys_count = 2};
    for (unsigned i = 0; i < 3 * nodes; i++) {
        /* Looks have an owner of their own: what is sent again after NOSCRIPT must not overtake its
         * own owner's. */
        line->calls[i].owner = i < nodes ? (void *)line : (void *)&line->stand;
        line->calls[i].tag = (uint8_t)(i < nodes       ? CALL_LINE_LOOK
                                       : i < 2 * nodes ? CALL_LINE_STAND
                                                       : CALL_LINE_LEAVE);
    }
    return line;
}

static struct line *line_of(const struct net_call *call) {
    return call->tag == CALL_LINE_LOOK ? call->owner
                                       : RL_CONTAINER(call->owner, struct line, stand);
}

static struct line *open_line(struct redlock_client *client, struct net_bytes key) {
    struct lines *lines = client->locks->lines;
    if (!lines) lines = client->locks->lines = calloc(1, sizeof *lines);
    if (!lines) return NULL;
    uint32_t hash = hash_of(key);
    struct line *line = find(lines, key, hash);
    if (line || !(line = line_new(client, key))) return line;
    if (chains_add(&lines->by_key, &line->by_key, hash, CHAINS_LEAST)) return line;
    free(line);
    return NULL;
}

static void close_line(struct line *line) {
    if (line->first || line->busy > 0) return;
    chains_remove(&line->client->locks->lines->by_key, &line->by_key);
    free(line);
}

void lines_free(struct lines *lines) {
    if (lines) chains_free(&lines->by_key, free);
    free(lines);
}

/* ---- asking ---- */

static void send_calls(struct line *line, rl_mask nodes, struct net_request *request,
                       struct net_call *calls, rl_ns now) {
    struct redlock_client *client = line->client;
    rl_ns due = now + (line->first ? node_timeout_of(line->first) : 50 * RL_MS);
    for (unsigned i = 0; i < client->nodes; i++)
        if (calls[i].busy) nodes &= (rl_mask)~rl_bit(i);
    line->busy += rl_count(nodes ? net_send(client->net, nodes, request, calls, due, now) : 0);
}

/* All clients must come to the same, however they list the nodes: the server whose name goes best
 * with the key's. */
static rl_mask keeper(const struct line *line, rl_ns now) {
    struct redlock_client *client = line->client;
    rl_mask may = client_ready(client, now) & (rl_mask)~client->locks->lines->refused;
    uint32_t best = 0;
    rl_mask keeper = 0;
    for (unsigned i = 0; i < client->nodes; i++) {
        struct net_node_status status;
        if (!(may & rl_bit(i))) continue;
        net_node(client->net, i, now, &status);
        if (status.uses_transactions) continue;
        const char *name = status.run_id[0] ? status.run_id : status.url;
        uint32_t score =
            (hash_of((struct net_bytes){name, strlen(name)}) ^ line->by_key.hash) * 2654435761u;
        score ^= score >> 15;
        if (keeper != 0 && score <= best) continue;
        best = score;
        keeper = rl_bit(i);
    }
    return keeper;
}

static void leave_nodes(struct line *line, rl_mask nodes, rl_ns now) {
    line->stood &= (rl_mask)~nodes;
    line->outdated = line->standing;
    line->leave.token = net_waiter(line->client->net);
    send_calls(line, nodes, &line->leave, line->calls + 2 * line->client->nodes, now);
}

static rl_ns lease_of(const struct redlock_lock *lock) {
    rl_ns lease = LEASE_POLLS * machine_of(lock)->rules.delay_max;
    if (lease < LEASE_MIN) return LEASE_MIN;
    return lease < LEASE_MAX ? lease : LEASE_MAX;
}

/* False: nobody can tell us our rank. */
static bool stand(struct line *line, struct redlock_lock *lock, rl_ns now) {
    struct net *net = line->client->net;
    if (line->standing) return true;
    rl_mask node = keeper(line, now);
    if (line->stood & (rl_mask)~node) leave_nodes(line, line->stood & (rl_mask)~node, now);
    if (node == 0) return false;
    line->stand.token = net_waiter(net);
    line->stand.ttl_ms = lease_of(lock) / RL_MS;
    line->stand.age_us = (now - place_of(lock)->since) / 1000;
    unsigned busy = line->busy;
    send_calls(line, node, &line->stand, line->calls + line->client->nodes, now);
    if (line->busy == busy) return false;
    line->standing = true;
    line->outdated = false;
    line->told = INT32_MAX;
    line->stood |= node;
    return true;
}

/* ---- members ---- */

static void join(struct redlock_lock *lock, struct line *line, rl_ns now) {
    struct redlock_client *client = lock->client;
    struct place *place = place_of(lock);
    *place = (struct place){.line = line, .since = now};
    place->at = line->last;
    *line->last = lock;
    line->last = &place->next;
    if (client->locks->lines->waiting++ == 0) net_watch(client->net, true);
}

static bool waits(struct redlock_lock *lock) {
    return lock->phase == PHASE_ACQUIRING && place_of(lock)->line;
}

void line_leave(struct redlock_lock *lock) {
    if (!waits(lock)) return;
    struct redlock_client *client = lock->client;
    struct place *place = place_of(lock);
    struct line *line = place->line;
    rl_ns now = net_now(client->net);
    bool was_first = line->first == lock;
    *place->at = place->next;
    if (place->next)
        place_of(place->next)->at = place->at;
    else
        line->last = place->at;
    place->line = NULL;
    const struct rl_acquire *machine = machine_of(lock);
    line->leave.passes =
        machine->state == RL_ACQUIRE_WON && machine->waiting.active && machine->waiting.rank > 0;
    if (was_first && line->stood) leave_nodes(line, line->stood, now);
    if (was_first && line->first)
        net_timer_set(client->net, &line->first->timer, now); /* its turn, but not from in here */
    if (--client->locks->lines->waiting == 0) net_watch(client->net, false);
    close_line(line);
}

/* What we know of the crowd was told when we left it; another key of the same hash only costs a
 * question. */
static bool is_crowded(const struct lines *lines, uint32_t hash, rl_ns now) {
    return lines->crowd[hash % CROWDS].hash == hash && lines->crowd[hash % CROWDS].until > now;
}

static void note_crowd(struct line *line, int64_t remaining) {
    struct lines *lines = line->client->locks->lines;
    uint32_t at = line->by_key.hash % CROWDS;
    if (remaining == 0 && lines->crowd[at].hash != line->by_key.hash) return;
    lines->crowd[at].hash = line->by_key.hash;
    lines->crowd[at].until = remaining > 0 ? net_now(line->client->net) + CROWD_KEPT : 0;
}

/* Beside the try, which does not wait for the answer. */
static void ask_for_crowd(struct redlock_lock *lock, rl_ns now) {
    struct redlock_client *client = lock->client;
    rl_ns released = lock->lease.unlocking_since;
    bool soon = released != 0 && now - released < SOON;
    if (!soon || (client->locks->lines && now - client->locks->lines->asked < ASK_EVERY)) return;
    struct net_bytes waiter = net_waiter(client->net);
    struct line *line = waiter.data ? open_line(client, lock->keys[0]) : NULL;
    if (!line) return;
    client->locks->lines->asked = now;
    line->leave.token = waiter;
    line->leave.passes = false;
    send_calls(line, keeper(line, now), &line->leave, line->calls + 2 * client->nodes, now);
    close_line(line);
}

/* Whoever counts his tries wants them made; and what several keys have in common is no line. */
static bool can_wait(const struct redlock_lock *lock) {
    return lock->keys_count == 1 && machine_of(lock)->rules.retries_max == UINT32_MAX;
}

void line_begin(struct redlock_lock *lock, bool may_wait, struct rl_event *start) {
    if (!may_wait || !can_wait(lock)) return;
    rl_ns now = net_now(lock->client->net);
    ask_for_crowd(lock, now);
    struct lines *lines = lock->client->locks->lines;
    if (!lines) return;
    uint32_t hash = hash_of(lock->keys[0]);
    struct line *line = find(lines, lock->keys[0], hash);
    start->crowded = is_crowded(lines, hash, now);
    if (!start->crowded && (!line || !line->first)) return;
    if (!line) line = open_line(lock->client, lock->keys[0]);
    if (line) join(lock, line, now);
}

void line_event(struct redlock_lock *lock, struct rl_event *event) {
    const struct redlock_client *client = lock->client;
    if (!waits(lock)) return;
    event->watched = net_watched(client->net) & client->voters;
    event->behind = place_of(lock)->line->first != lock;
}

void line_carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    if (machine_of(lock)->state == RL_ACQUIRE_SLEEPING && !place_of(lock)->line && can_wait(lock)) {
        struct line *line = open_line(lock->client, lock->keys[0]);
        if (!line) return;
        join(lock, line, now);
        struct net *net = lock->client->net;
        /* To hear that it is behind others, or that nodes tell of changes already. */
        if (line->first != lock || net_watched(net)) net_timer_set(net, &lock->timer, now);
    }
    struct line *line = place_of(lock)->line;
    if (!line || line->first != lock) return;
    if (actions->look) send_calls(line, actions->look, &line->look, line->calls, now);
    if (actions->stand && !stand(line, lock, now)) lock->unranked = true;
}

/* ---- hearing ---- */

/* The line stays at least until close_line(). */
static void tell_first(struct line *line, struct rl_event event) {
    if (!line->first || line->first->phase != PHASE_ACQUIRING) return;
    line->busy++;
    lock_step(line->first, event);
    line->busy--;
}

void line_released(struct redlock_lock *lock, rl_mask nodes) {
    struct lines *lines = lock->client->locks->lines;
    if (!lines || lines->waiting == 0 || lock->keys_count != 1) return;
    struct line *line = find(lines, lock->keys[0], hash_of(lock->keys[0]));
    if (!line) return;
    for (unsigned i = 0; i < lock->client->nodes; i++)
        if (nodes & rl_bit(i))
            tell_first(line, (struct rl_event){.type = RL_EVENT_WAKE, .node = (uint8_t)i});
    close_line(line);
}

static void tell_all_of(struct redlock_client *client, unsigned node) {
    struct chains *chains = &client->locks->lines->by_key;
    chains->walked = true;
    for (uint32_t i = 0; i < chains->chains; i++) {
        for (struct chained *thing = chains->chain[i], *next; thing; thing = next) {
            struct line *line = RL_CONTAINER(thing, struct line, by_key);
            tell_first(line, (struct rl_event){.type = RL_EVENT_WAKE, .node = (uint8_t)node});
            tell_first(line, (struct rl_event){.type = RL_EVENT_NODES});
            next = thing->next;
            close_line(line);
        }
    }
    chains->walked = false;
}

void line_wake(struct redlock_client *client, unsigned node, struct net_bytes key, int rank) {
    struct lines *lines = client->locks->lines;
    if (!lines) return;
    if (!key.data) {
        lines->refused &= (rl_mask)~rl_bit(node); /* it may be another server by now */
        tell_all_of(client, node);
        return;
    }
    struct line *line = find(lines, key, hash_of(key));
    if (!line) return;
    client->stats.wakeups++;
    if (rank >= 0 && rank < line->told) line->told = rank;
    struct rl_event event = {
        .type = rank < 0 ? RL_EVENT_WAKE : RL_EVENT_RANK, .node = (uint8_t)node, .rank = rank};
    tell_first(line, event);
    close_line(line);
}

static void looked(struct line *line, const struct net_call *call, const struct net_reply *reply) {
    struct rl_event event = {.type = RL_EVENT_LOOKED, .node = call->node, .vote = RL_VOTE_FAILED};
    if (reply->verdict == REDLOCK_VERDICT_ABSENT) event.vote = RL_VOTE_ABSENT;
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) event.vote = RL_VOTE_GRANTED;
    /* A key without a TTL does not end; one with a TTL beyond any lock's is no lock. */
    bool ends = reply->remaining_ms >= 0 && reply->remaining_ms <= REDLOCK_TTL_MS_MAX;
    event.remaining = ends ? reply->remaining_ms * RL_MS : -1;
    tell_first(line, event);
}

static void stood(struct line *line, const struct net_call *call, const struct net_reply *reply) {
    struct redlock_client *client = line->client;
    bool told = reply->verdict == REDLOCK_VERDICT_GRANTED, outdated = line->outdated;
    line->standing = line->outdated = false;
    if (!told) line->stood &= (rl_mask)~rl_bit(call->node);
    if (reply->verdict == REDLOCK_VERDICT_NOPERM) {
        client->locks->lines->refused |= rl_bit(call->node);
        client_log(client, REDLOCK_LOG_INFO, "waiting: a node keeps no line of those who wait: %s",
                   redlock_verdict_text(reply->verdict));
    }
    if (!line->first) return;
    if (outdated && stand(line, line->first, net_now(client->net)))
        return; /* that was for another */
    int32_t rank = told && !outdated && reply->count <= INT32_MAX ? (int32_t)reply->count : -1;
    if (rank > line->told)
        rank = line->told; /* news of how others left, which overtook the answer */
    tell_first(line, (struct rl_event){.type = RL_EVENT_RANK, .rank = rank});
}

void line_reply(struct net_call *call, const struct net_reply *reply) {
    struct line *line = line_of(call);
    if (call->tag == CALL_LINE_LOOK)
        looked(line, call, reply);
    else if (call->tag == CALL_LINE_STAND)
        stood(line, call, reply);
    else if (reply->verdict == REDLOCK_VERDICT_GRANTED)
        note_crowd(line, reply->count);
    line->busy--;
    close_line(line);
}
