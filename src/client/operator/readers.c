/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The readers of shared locks, as the nodes list them: page by page, the same page of all resources
 * and nodes in one round trip. Only connected nodes are asked. */
#include <stdlib.h>
#include <string.h>

#include "operator.h"

/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(sizeof REDLOCK_SHARED_MARKER == sizeof NET_SHARED_MARKER, "one marker");

enum {
    PAGE = 256,         /* readers of one answer: far below what a connection takes */
    PAGES_TOGETHER = 64 /* so much of a round may come from one node */
};

/* One resource at one node. */
struct place {
    struct net_request request;
    bool answered;
    int verdict;
    int64_t count;
    uint64_t next;
    uint32_t skip;
    struct net_bytes *items; /* copies in one block */
    size_t items_count;
};

/* One resource. It is the owner of its calls, as in a survey. */
struct item {
    struct round *round;
    struct net_bytes keys[2]; /* the lock's, and that of its readers */
    struct net_call *calls;   /* by node */
    struct place *places;     /* by node */
};

/* One page of everything. An answer may come after the asker has gone, so it has copies. */
struct round {
    struct inquiry inquiry;
    size_t count;
    struct item items[];
};

/* What the caller asks for, and where it is. */
struct walk {
    struct redlock_client *client;
    const struct redlock_bytes *resources;
    size_t count, most;
    redlock_reader_fn *each;
    void *context;
    struct redlock_readers_view *views;
    struct position {
        uint64_t next;
        uint32_t skip;
        size_t listed;
        bool ended;
    } * at; /* [resource * nodes + node] */
};

static void copy_items(struct place *place, const struct net_reply *reply) {
    size_t bytes = 0;
    for (size_t i = 0; i < reply->items_count; i++) bytes += reply->items[i].bytes;
    struct net_bytes *items = malloc(reply->items_count * sizeof items[0] + bytes + 1);
    if (!items) return;
    unsigned char *at = (unsigned char *)(items + reply->items_count);
    for (size_t i = 0; i < reply->items_count; i++) {
        items[i] = (struct net_bytes){at, reply->items[i].bytes};
        memcpy(at, reply->items[i].data, reply->items[i].bytes);
        at += reply->items[i].bytes;
    }
    place->items = items;
    place->items_count = reply->items_count;
    place->count = reply->count;
    place->next = reply->cursor;
    place->skip = reply->skip;
    place->answered = true;
}

/* An answer after the asker has gone would be a copy that is not freed. */
static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct item *item = call->owner;
    struct place *place = &item->places[call->node];
    place->verdict = reply->verdict;
    if (reply->verdict != REDLOCK_VERDICT_GRANTED)
        place->answered = true;
    else if (item->round->inquiry.waiter)
        copy_items(place, reply);
    inquiry_answered(&item->round->inquiry, false);
}

/* ---- one page ---- */

static char *write_keys(struct item *item, const struct redlock_client *client,
                        const struct redlock_bytes *resource, char *at) {
    const size_t head = sizeof NET_KEY_SHARED - 1, prefix = client->options.key_prefix_bytes,
                 bytes = prefix + resource->bytes;
    memcpy(at, NET_KEY_SHARED, head);
    if (prefix) memcpy(at + head, client->key_prefix, prefix);
    memcpy(at + head + prefix, resource->data, resource->bytes);
    item->keys[0] = (struct net_bytes){at + head, bytes};
    item->keys[1] = (struct net_bytes){at, head + bytes};
    return at + head + bytes;
}

static uint32_t effort_of(const struct walk *walk, size_t listed) {
    size_t page = PAGE;
    if (walk->count > PAGES_TOGETHER) page = PAGE * PAGES_TOGETHER / walk->count;
    return (uint32_t)(walk->most - listed < page ? walk->most - listed : page);
}

/* One block: the round with its items, the calls, the places, the keys. */
static struct round *round_new(const struct walk *walk) {
    const struct redlock_client *client = walk->client;
    const size_t nodes = client->nodes, cells = nodes * walk->count;
    size_t keys = 0;
    for (size_t i = 0; i < walk->count; i++)
        keys += sizeof NET_KEY_SHARED + client->options.key_prefix_bytes + walk->resources[i].bytes;
    struct round *round =
        calloc(1, sizeof *round + walk->count * sizeof round->items[0] +
                      cells * (sizeof(struct net_call) + sizeof(struct place)) + keys);
    if (!round) return NULL;
    struct net_call *call = (struct net_call *)(void *)(round->items + walk->count);
    struct place *place = (struct place *)(void *)(call + cells);
    char *at = (char *)(place + cells);
    inquiry_init(&round->inquiry, walk->client, call, cells, on_answer);
    round->count = walk->count;
    for (size_t i = 0; i < walk->count; i++, call += nodes, place += nodes) {
        struct item *item = &round->items[i];
        *item = (struct item){.round = round, .calls = call, .places = place};
        at = write_keys(item, client, &walk->resources[i], at);
        for (size_t n = 0; n < nodes; n++) {
            const struct position *position = &walk->at[i * nodes + n];
            call[n].owner = item;
            place[n].request = (struct net_request){.op = NET_READERS,
                                                    .keys = item->keys,
                                                    .keys_count = 2,
                                                    .cursor = position->next,
                                                    .skip = position->skip,
                                                    .effort = effort_of(walk, position->listed)};
        }
    }
    return round;
}

/* Why a node that is ready does not take the question: it could not have a shared lock either. */
static int verdict_of_silent(struct redlock_client *client, unsigned node) {
    const struct net_node_status status = client_status(client, node);
    if (status.verdict != REDLOCK_VERDICT_GRANTED) return status.verdict;
    return status.keeps_readers ? REDLOCK_VERDICT_TIMEOUT : REDLOCK_VERDICT_NOT_SHARED;
}

static void ask(const struct walk *walk, struct round *round) {
    struct redlock_client *client = walk->client;
    const rl_ns until = gather_until(client);
    const rl_mask ready = net_ready(client->net, net_now(client->net));
    for (size_t i = 0; i < walk->count; i++)
        for (unsigned n = 0; n < client->nodes; n++) {
            struct item *item = &round->items[i];
            if (walk->at[i * client->nodes + n].ended || !(ready & rl_bit(n))) continue;
            inquiry_send(&round->inquiry, rl_bit(n), &item->places[n].request, item->calls, until);
        }
    inquiry_wait(&round->inquiry);
}

/* A later page of a node does not change what the first one said. */
static bool take(struct walk *walk, struct round *round) {
    const unsigned nodes = walk->client->nodes;
    bool more = false;
    for (size_t cell = 0; cell < walk->count * nodes; cell++) {
        const unsigned node = (unsigned)(cell % nodes);
        struct position *position = &walk->at[cell];
        const struct place *place = &round->items[cell / nodes].places[node];
        struct redlock_readers_view *view = &walk->views[cell];
        if (position->ended) continue;
        if (view->verdict == REDLOCK_VERDICT_NONE) {
            view->verdict =
                place->answered ? place->verdict : verdict_of_silent(walk->client, node);
            view->readers = place->count;
        }
        position->listed += place->items_count;
        position->next = place->next;
        position->skip = place->skip;
        /* A page that is not full is the last one, whatever a server says: so the walk ends. */
        position->ended = place->next == 0 || place->items_count < place->request.effort ||
                          position->listed >= walk->most;
        more = more || !position->ended;
    }
    return more;
}

/* The mutex is not held. */
static void report(const struct walk *walk, struct round *round) {
    const unsigned nodes = walk->client->nodes;
    for (size_t cell = 0; cell < walk->count * nodes; cell++) {
        struct place *place = &round->items[cell / nodes].places[cell % nodes];
        for (size_t i = 0; i < place->items_count; i++) {
            const char *text = place->items[i].data,
                       *token = (const char *)memchr(text, ' ', place->items[i].bytes) + 1;
            walk->each(walk->context, cell / nodes, cell % nodes, token,
                       place->items[i].bytes - (size_t)(token - text), strtoll(text, NULL, 10));
        }
        free(place->items);
        place->items = NULL;
        place->items_count = 0;
    }
}

/* ---- all pages ---- */

static bool has_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_DENIED || verdict == REDLOCK_VERDICT_WRONGTYPE;
}

static int result_of(const struct walk *walk) {
    const unsigned nodes = walk->client->nodes;
    for (size_t i = 0; i < walk->count; i++) {
        unsigned answered = 0;
        for (unsigned n = 0; n < nodes; n++)
            answered += has_answer(walk->views[i * nodes + n].verdict);
        if (answered < rl_quorum(nodes)) return REDLOCK_NO_QUORUM;
    }
    return REDLOCK_OK;
}

/* The mutex is held. */
static int walk_all(struct walk *walk) {
    for (bool more = true; more;) {
        struct round *round = round_new(walk);
        if (!round) return REDLOCK_NO_MEMORY;
        ask(walk, round);
        more = take(walk, round);
        schedule_unlock(&walk->client->schedule);
        report(walk, round);
        schedule_relock(&walk->client->schedule);
        inquiry_unref(&round->inquiry);
    }
    return result_of(walk);
}

int redlock_readers(struct redlock_client *client, const struct redlock_bytes *resources,
                    size_t count, size_t most, redlock_reader_fn *each, void *context,
                    struct redlock_readers_view *views) {
    if (count == 0) return REDLOCK_OK;
    if (!client || !resources || !views || count > REDLOCK_SURVEY_MAX ||
        most > REDLOCK_READERS_MAX || (most > 0 && !each))
        return REDLOCK_BAD_ARGUMENT;
    const size_t longest = REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes;
    for (size_t i = 0; i < count; i++)
        if (!resources[i].data || resources[i].bytes < 1 || resources[i].bytes > longest)
            return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct walk walk = {client, resources, count, most, each, context, views, NULL};
    walk.at = calloc(count * client->nodes, sizeof *walk.at);
    int result = REDLOCK_NO_MEMORY;
    if (walk.at) {
        memset(views, 0, count * client->nodes * sizeof *views);
        result = walk_all(&walk);
    }
    free(walk.at);
    return client_leave_notifying(client, result);
}
