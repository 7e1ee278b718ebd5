/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many locks at once, for an observer: steps of a walk over all keys, and what nodes hold under
 * many resources. Only connected nodes are asked. */
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "operator.h"

enum { EFFORT_MAX = 1000 };

/* ---- a step of a walk ---- */

struct step {
    struct inquiry inquiry;
    struct net_bytes prefix;
    struct {
        struct net_request request;
        bool answered;
        int refused; /* the verdict of an answer that is no page; NONE: there is none */
        uint64_t cursor;
        struct net_bytes *items; /* copies in one block */
        size_t items_count, bytes;
    } node[REDLOCK_NODES_MAX];
    struct net_call calls[REDLOCK_NODES_MAX];
};

static void copy_items(struct step *step, unsigned node, const struct net_reply *reply) {
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
    step->node[node].items = items;
    step->node[node].items_count = reply->items_count;
    step->node[node].bytes = bytes;
    step->node[node].cursor = reply->cursor;
    step->node[node].answered = true;
}

/* An answer after the asker has gone would be a copy that is not freed. */
static void on_page(struct net_call *call, const struct net_reply *reply) {
    struct step *step = RL_CONTAINER(call->owner, struct step, inquiry);
    if (reply->verdict != REDLOCK_VERDICT_GRANTED)
        step->node[call->node].refused = reply->verdict;
    else if (step->inquiry.waiter)
        copy_items(step, call->node, reply);
    inquiry_answered(&step->inquiry, false);
}

static struct step *step_new(struct redlock_client *client, const struct redlock_walk *walk) {
    struct step *step = calloc(1, sizeof *step + client->options.key_prefix_bytes);
    if (!step) return NULL;
    inquiry_init(&step->inquiry, client, step->calls, REDLOCK_NODES_MAX, on_page);
    /* by value: a late answer may need the request after the client has gone */
    memcpy(step + 1, client->key_prefix, client->options.key_prefix_bytes);
    step->prefix = (struct net_bytes){step + 1, client->options.key_prefix_bytes};
    for (unsigned i = 0; i < client->nodes; i++)
        step->node[i].request = (struct net_request){.op = NET_SCAN,
                                                     .keys = &step->prefix,
                                                     .keys_count = 1,
                                                     .cursor = walk->cursors[i],
                                                     .effort = walk->effort,
                                                     .anywhere = true,
                                                     .scheme = client->scheme};
    return step;
}

static bool begins_with(struct net_bytes key, struct net_bytes head) {
    return key.bytes > head.bytes && memcmp(key.data, head.data, head.bytes) == 0;
}

static struct net_bytes without(struct net_bytes key, size_t head) {
    return (struct net_bytes){(const char *)key.data + head, key.bytes - head};
}

/* A node's own keys are not locks, whatever the prefix. The two sets of a wait queue have the same
 * name. */
static void report_key(const struct step *step, unsigned node, struct net_bytes key,
                       redlock_scan_fn *each, void *context) {
    const struct net_bytes waiting = {NET_KEY_WAITING, sizeof NET_KEY_WAITING - 1},
                           waiters = {NET_KEY_WAITERS, sizeof NET_KEY_WAITERS - 1};
    const struct net_bytes fences = {NET_KEY_FENCES, sizeof NET_KEY_FENCES - 1},
                           terms = {NET_KEY_TERM, sizeof NET_KEY_TERM - 1},
                           shared = {NET_KEY_SHARED, sizeof NET_KEY_SHARED - 1};
    int what = REDLOCK_KEY_OTHER;
    if (begins_with(key, waiters) || begins_with(key, fences) || begins_with(key, terms) ||
        begins_with(key, shared) || net_is_text(key, NET_KEY_RECORD))
        return;
    if (begins_with(key, waiting)) {
        what = REDLOCK_KEY_WAITING;
        key = without(key, waiting.bytes);
    }
    if (!begins_with(key, step->prefix)) return;
    key = without(key, step->prefix.bytes);
    each(context, node, what, key.data, key.bytes);
}

/* Why a node gave no page. */
static int failure_of(const struct step *step, unsigned node) {
    const int verdict = client_status(step->inquiry.client, node).verdict;
    if (step->node[node].refused != REDLOCK_VERDICT_NONE) return step->node[node].refused;
    return verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : verdict;
}

static void take_pages(const struct step *step, struct redlock_walk *walk, rl_mask asked) {
    const bool has_verdicts = walk->size >= SIZED_THROUGH(redlock_walk, verdicts);
    for (unsigned i = 0; i < step->inquiry.client->nodes; i++) {
        const uint32_t bit = (uint32_t)1 << i;
        if (walk->ended & bit) continue;
        walk->failed &= ~bit;
        if (!(asked & rl_bit(i)) || !step->node[i].answered) {
            walk->failed |= bit;
            if (has_verdicts) walk->verdicts[i] = failure_of(step, i);
            continue;
        }
        if (has_verdicts) walk->verdicts[i] = REDLOCK_VERDICT_GRANTED;
        walk->cursors[i] = step->node[i].cursor;
        walk->bytes += step->node[i].bytes;
        if (walk->cursors[i] == 0) walk->ended |= bit;
    }
}

/* The mutex is not held. */
static void report_pages(struct step *step, redlock_scan_fn *each, void *context) {
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) {
        for (size_t j = 0; j < step->node[i].items_count; j++)
            report_key(step, i, step->node[i].items[j], each, context);
        free(step->node[i].items);
        step->node[i].items = NULL;
        step->node[i].items_count = 0;
    }
}

static bool any_answered(const struct step *step) {
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++)
        if (step->node[i].answered) return true;
    return false;
}

int redlock_scan(struct redlock_client *client, struct redlock_walk *walk, redlock_scan_fn *each,
                 void *context) {
    if (!client || !walk || walk->size < FIRST_WALK || !each || walk->effort < 1 ||
        walk->effort > EFFORT_MAX)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct step *step = step_new(client, walk);
    int result = REDLOCK_NO_MEMORY;
    if (step) {
        rl_mask asked = net_ready(client->net, net_now(client->net)) & (rl_mask)~walk->ended,
                all = 0;
        for (unsigned i = 0; i < client->nodes; i++)
            if (asked & rl_bit(i))
                all |= inquiry_send(&step->inquiry, rl_bit(i), &step->node[i].request, step->calls,
                                    gather_until(client));
        inquiry_wait(&step->inquiry);
        take_pages(step, walk, all);
        result = any_answered(step) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
        schedule_unlock(&client->schedule);
        report_pages(step, each, context);
        schedule_relock(&client->schedule);
        inquiry_unref(&step->inquiry);
    }
    return client_leave_notifying(client, result);
}

/* ---- many resources ---- */

/* What one node answers for one resource. */
struct seen {
    bool answered;
    struct redlock_view view;
    struct redlock_queue_view queue;
};

/* One resource. It is the owner of its calls: a script that must be sent twice must not wait for
 * those of other resources (net/conn/send.c). */
struct item {
    struct survey *survey;
    struct net_bytes keys[3]; /* the lock's, and the two of its wait queue */
    struct net_request peek, queue;
    struct net_call *calls; /* by node: peeks, then queues */
    struct seen *seen;      /* by node */
};

struct survey {
    struct inquiry inquiry;
    size_t count;
    struct item items[];
};

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct item *item = call->owner;
    struct seen *seen = &item->seen[call->node];
    if (call->request == &item->queue) {
        seen->queue.verdict = reply->verdict;
        seen->queue.waiters = reply->count;
        seen->queue.oldest_ms = reply->age_us / 1000;
    } else {
        struct redlock_view *view = &seen->view;
        seen->answered = true;
        view->verdict = reply->verdict;
        view->remaining_ms = reply->remaining_ms;
        view->token_truncated = reply->truncated;
        view->token_bytes =
            reply->value.bytes < sizeof view->token ? reply->value.bytes : sizeof view->token;
        if (view->token_bytes) memcpy(view->token, reply->value.data, view->token_bytes);
    }
    inquiry_answered(&item->survey->inquiry, false);
}

/* All three keys in a row; returns the end. The key is the end of the first name of the queue. */
static char *write_keys(struct item *item, const struct redlock_client *client,
                        const struct redlock_bytes *resource, char *at) {
    const size_t head = sizeof NET_KEY_WAITING - 1, prefix = client->options.key_prefix_bytes,
                 bytes = head + prefix + resource->bytes;
    static const char *const heads[] = {NET_KEY_WAITING, NET_KEY_WAITERS};
    _Static_assert(sizeof NET_KEY_WAITING == sizeof NET_KEY_WAITERS, "both names are as long");
    for (int i = 0; i < 2; i++, at += bytes) {
        memcpy(at, heads[i], head);
        if (prefix) memcpy(at + head, client->key_prefix, prefix);
        memcpy(at + head + prefix, resource->data, resource->bytes);
        item->keys[1 + i] = (struct net_bytes){at, bytes};
    }
    item->keys[0] = without(item->keys[1], head);
    return at;
}

static size_t keys_bytes(const struct redlock_client *client, const struct redlock_bytes *resources,
                         size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += 2 * (sizeof NET_KEY_WAITING - 1 + client->options.key_prefix_bytes +
                      resources[i].bytes);
    return bytes;
}

/* One block: the survey with its items, the calls, what is seen, the keys. */
static struct survey *survey_new(struct redlock_client *client,
                                 const struct redlock_bytes *resources, size_t count) {
    const size_t nodes = client->nodes, calls = 2 * nodes * count, cells = nodes * count,
                 keys = keys_bytes(client, resources, count);
    struct survey *survey =
        calloc(1, sizeof *survey + count * sizeof survey->items[0] +
                      calls * sizeof(struct net_call) + cells * sizeof(struct seen) + keys);
    if (!survey) return NULL;
    struct net_call *call = (struct net_call *)(void *)(survey->items + count);
    struct seen *seen = (struct seen *)(void *)(call + calls);
    char *at = (char *)(seen + cells);
    inquiry_init(&survey->inquiry, client, call, calls, on_answer);
    survey->count = count;
    for (size_t i = 0; i < count; i++, call += 2 * nodes, seen += nodes) {
        struct item *item = &survey->items[i];
        *item = (struct item){.survey = survey, .calls = call, .seen = seen};
        at = write_keys(item, client, &resources[i], at);
        item->peek = (struct net_request){
            .op = NET_PEEK_VALUE, .keys = item->keys, .keys_count = 1, .scheme = client->scheme};
        item->queue = (struct net_request){
            .op = NET_WAIT_QUEUE_PEEK, .keys = item->keys + 1, .keys_count = 2};
        for (size_t j = 0; j < 2 * nodes; j++) call[j].owner = item;
    }
    return survey;
}

static rl_mask keep_queues(struct redlock_client *client, rl_mask nodes) {
    for (unsigned i = 0; i < client->nodes; i++)
        if (client_status(client, i).uses_transactions) nodes &= (rl_mask)~rl_bit(i);
    return nodes;
}

static void survey_ask(struct survey *survey, bool queues) {
    struct redlock_client *client = survey->inquiry.client;
    const rl_ns until = gather_until(client);
    const rl_mask ready = net_ready(client->net, net_now(client->net));
    const rl_mask keepers = queues ? keep_queues(client, ready) : 0;
    for (size_t i = 0; i < survey->count; i++) {
        struct item *item = &survey->items[i];
        inquiry_send(&survey->inquiry, ready, &item->peek, item->calls, until);
        if (keepers)
            inquiry_send(&survey->inquiry, keepers, &item->queue, item->calls + client->nodes,
                         until);
    }
    inquiry_wait(&survey->inquiry);
}

static bool has_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_WRONGTYPE;
}

/* A node that did not answer has a verdict with the reason. */
static int survey_result(struct survey *survey, struct redlock_view *views,
                         struct redlock_queue_view *queues) {
    struct redlock_client *client = survey->inquiry.client;
    const unsigned nodes = client->nodes;
    int silent[REDLOCK_NODES_MAX], result = REDLOCK_OK;
    for (unsigned n = 0; n < nodes; n++) {
        silent[n] = client_status(client, n).verdict;
        if (silent[n] == REDLOCK_VERDICT_GRANTED) silent[n] = REDLOCK_VERDICT_TIMEOUT;
    }
    for (size_t i = 0; i < survey->count; i++) {
        unsigned reported = 0;
        for (unsigned n = 0; n < nodes; n++) {
            struct seen *seen = &survey->items[i].seen[n];
            if (!seen->answered) seen->view.verdict = silent[n];
            views[i * nodes + n] = seen->view;
            if (queues) queues[i * nodes + n] = seen->queue;
            reported += has_answer(seen->view.verdict);
        }
        if (reported < rl_quorum(nodes)) result = REDLOCK_NO_QUORUM;
    }
    return result;
}

int redlock_survey(struct redlock_client *client, const struct redlock_bytes *resources,
                   size_t count, struct redlock_view *views, struct redlock_queue_view *queues) {
    if (count == 0) return REDLOCK_OK;
    if (!client || !resources || !views || count > REDLOCK_SURVEY_MAX) return REDLOCK_BAD_ARGUMENT;
    const size_t most = REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes;
    for (size_t i = 0; i < count; i++)
        if (!resources[i].data || resources[i].bytes < 1 || resources[i].bytes > most)
            return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct survey *survey = survey_new(client, resources, count);
    int result = REDLOCK_NO_MEMORY;
    if (survey) {
        survey_ask(survey, queues != NULL);
        result = survey_result(survey, views, queues);
        inquiry_unref(&survey->inquiry);
    }
    return client_leave_notifying(client, result);
}
