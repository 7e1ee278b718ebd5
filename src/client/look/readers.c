/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The readers of shared locks, as the nodes list them: page by page, the same page of all resources
 * and nodes in one round trip. Only connected nodes are asked. */
#include <stdlib.h>
#include <string.h>

#include "client/ask/ask.h"
#include "look.h"

/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(sizeof REDLOCK_SHARED_MARKER == sizeof NET_SHARED_MARKER, "one marker");

enum {
    PAGE = 256,         /* readers of one answer: far below what a connection takes */
    PAGES_TOGETHER = 64 /* so much of a round may come from one node */
};

/* One page of everything: a question for each resource. Each node has a request of its own. */
struct round {
    struct ask ask;
    struct net_request *requests; /* [resource * nodes + node] */
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

/* ---- one page ---- */

static uint32_t effort_of(const struct walk *walk, size_t listed) {
    size_t page = PAGE;
    if (walk->count > PAGES_TOGETHER) page = PAGE * PAGES_TOGETHER / walk->count;
    return (uint32_t)(walk->most - listed < page ? walk->most - listed : page);
}

static struct round *round_new(const struct walk *walk) {
    struct redlock_client *client = walk->client;
    const size_t cells = walk->count * client->nodes, head = sizeof NET_KEY_SHARED - 1,
                 most = head + client->options.key_prefix_bytes;
    size_t bytes = cells * sizeof(struct net_request);
    for (size_t i = 0; i < walk->count; i++) bytes += most + walk->resources[i].bytes;
    struct round *round = ask_new(client, sizeof *round, walk->count, bytes, NULL);
    if (!round) return NULL;
    round->requests = ask_room(&round->ask, cells * sizeof(struct net_request));
    for (size_t i = 0; i < walk->count; i++) {
        const struct redlock_bytes *resource = &walk->resources[i];
        struct question *question = &round->ask.questions[i];
        question->keys[1] = ask_key(&round->ask, NET_KEY_SHARED,
                                    (struct net_bytes){resource->data, resource->bytes});
        question->keys[0] = bytes_after(question->keys[1], head);
        for (size_t cell = i * client->nodes; cell < (i + 1) * client->nodes; cell++) {
            const struct position *position = &walk->at[cell];
            round->requests[cell] =
                (struct net_request){.op = NET_READERS,
                                     .keys = question->keys,
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
    return status.verdict == REDLOCK_VERDICT_GRANTED && !status.keeps_readers
               ? REDLOCK_VERDICT_NOT_SHARED
               : ask_silence(client, node);
}

static void ask(const struct walk *walk, struct round *round) {
    struct redlock_client *client = walk->client;
    const rl_ns until = gather_until(client);
    const rl_mask ready = net_ready(client->net, net_now(client->net));
    for (size_t cell = 0; cell < walk->count * client->nodes; cell++) {
        const rl_mask node = rl_bit((unsigned)(cell % client->nodes));
        if (!walk->at[cell].ended)
            ask_send(&round->ask.questions[cell / client->nodes], ready & node,
                     &round->requests[cell], until);
    }
    ask_wait(&round->ask);
}

static const struct net_reply *page_of(const struct round *round, size_t cell) {
    const size_t nodes = round->ask.client->nodes;
    return &round->ask.questions[cell / nodes].answers[cell % nodes];
}

/* A later page of a node does not change what the first one said. */
static bool take(struct walk *walk, const struct round *round) {
    bool more = false;
    for (size_t cell = 0; cell < walk->count * walk->client->nodes; cell++) {
        struct position *position = &walk->at[cell];
        const struct net_reply *page = page_of(round, cell);
        struct redlock_readers_view *view = &walk->views[cell];
        if (position->ended) continue;
        if (view->verdict == REDLOCK_VERDICT_NONE) {
            view->verdict = page->verdict;
            view->readers = page->count;
        }
        if (view->verdict == REDLOCK_VERDICT_NONE)
            view->verdict = verdict_of_silent(walk->client, (unsigned)(cell % walk->client->nodes));
        position->listed += page->items_count;
        position->next = page->cursor;
        position->skip = page->skip;
        /* A page that is not full is the last one, whatever a server says: so the walk ends. */
        position->ended = page->cursor == 0 || page->items_count < round->requests[cell].effort ||
                          position->listed >= walk->most;
        more = more || !position->ended;
    }
    return more;
}

/* The mutex is not held. */
static void report(const struct walk *walk, const struct round *round) {
    const unsigned nodes = walk->client->nodes;
    for (size_t cell = 0; cell < walk->count * nodes; cell++) {
        const struct net_reply *page = page_of(round, cell);
        for (size_t i = 0; i < page->items_count; i++) {
            const char *text = page->items[i].data,
                       *token = (const char *)memchr(text, ' ', page->items[i].bytes) + 1;
            walk->each(walk->context, cell / nodes, cell % nodes, token,
                       page->items[i].bytes - (size_t)(token - text), strtoll(text, NULL, 10));
        }
    }
}

/* ---- all pages ---- */

static int result_of(const struct walk *walk) {
    const unsigned nodes = walk->client->nodes;
    for (size_t i = 0; i < walk->count; i++) {
        unsigned answered = 0;
        for (unsigned n = 0; n < nodes; n++) {
            const int verdict = walk->views[i * nodes + n].verdict;
            answered += is_answer(verdict) || verdict == REDLOCK_VERDICT_DENIED;
        }
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
        ask_unref(&round->ask);
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
    for (size_t i = 0; i < count; i++)
        if (!ask_fits(client, resources[i].data, resources[i].bytes)) return REDLOCK_BAD_ARGUMENT;
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
