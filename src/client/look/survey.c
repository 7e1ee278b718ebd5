/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many locks at once, for an observer: steps of a walk over all keys, and what nodes hold under
 * many resources. Only connected nodes are asked. */
#include <string.h>

#include "abi/sized.h"
#include "client/ask/ask.h"
#include "look.h"

enum { EFFORT_MAX = 1000 };

/* ---- a step of a walk ---- */

/* One question; each node has a request of its own. */
struct step {
    struct ask ask;
    struct net_request requests[REDLOCK_NODES_MAX];
};

static struct step *step_new(struct redlock_client *client, const struct redlock_walk *walk) {
    struct step *step = ask_new(client, sizeof *step, 1, client->options.key_prefix_bytes, NULL);
    if (!step) return NULL;
    struct net_bytes *prefix = &step->ask.questions->keys[0];
    *prefix = ask_key(&step->ask, "", (struct net_bytes){"", 0});
    for (unsigned i = 0; i < client->nodes; i++)
        step->requests[i] = (struct net_request){.op = NET_SCAN,
                                                 .keys = prefix,
                                                 .keys_count = 1,
                                                 .cursor = walk->cursors[i],
                                                 .effort = walk->effort,
                                                 .anywhere = true,
                                                 .scheme = client->scheme};
    return step;
}

/* To the caller. */
struct report {
    struct net_bytes prefix;
    bool leaders;
    redlock_scan_fn *each;
    void *context;
};

/* A node's own keys are not locks, whatever the prefix. The two sets of a wait queue have the same
 * name. */
static void report_key(const struct report *report, unsigned node, struct net_bytes key) {
    const struct net_bytes prefix = report->prefix;
    int what = REDLOCK_KEY_OTHER;
    if (begins_with(key, NET_KEY_WAITERS) || begins_with(key, NET_KEY_FENCES) ||
        (begins_with(key, NET_KEY_TERM) && !report->leaders) || begins_with(key, NET_KEY_SHARED) ||
        net_is_text(key, NET_KEY_RECORD))
        return;
    if (begins_with(key, NET_KEY_WAITING)) {
        what = REDLOCK_KEY_WAITING;
        key = bytes_after(key, strlen(NET_KEY_WAITING));
    } else if (begins_with(key, NET_KEY_TERM)) {
        what = REDLOCK_KEY_LEADER;
        key = bytes_after(key, strlen(NET_KEY_TERM));
    }
    if (key.bytes <= prefix.bytes || memcmp(key.data, prefix.data, prefix.bytes) != 0) return;
    key = bytes_after(key, prefix.bytes);
    report->each(report->context, node, what, key.data, key.bytes);
}

static bool has_page(const struct step *step, unsigned node) {
    return step->ask.questions->answers[node].verdict == REDLOCK_VERDICT_GRANTED;
}

static void take_pages(const struct step *step, struct redlock_walk *walk) {
    const bool has_verdicts = walk->size >= SIZED_THROUGH(redlock_walk, verdicts);
    for (unsigned i = 0; i < step->ask.client->nodes; i++) {
        const struct net_reply *page = &step->ask.questions->answers[i];
        const uint32_t bit = (uint32_t)1 << i;
        if (walk->ended & bit) continue;
        walk->failed &= ~bit;
        if (has_verdicts)
            walk->verdicts[i] = page->verdict != REDLOCK_VERDICT_NONE
                                    ? page->verdict
                                    : ask_silence(step->ask.client, i);
        if (!has_page(step, i)) {
            walk->failed |= bit;
            continue;
        }
        walk->cursors[i] = page->cursor;
        for (size_t j = 0; j < page->items_count; j++) walk->bytes += page->items[j].bytes;
        if (page->cursor == 0) walk->ended |= bit;
    }
}

/* The mutex is not held. Returns whether any node answered. */
static bool report_pages(const struct step *step, const struct redlock_walk *walk,
                         redlock_scan_fn *each, void *context) {
    const struct question *question = step->ask.questions;
    const bool leaders = walk->size >= SIZED_THROUGH(redlock_walk, leaders) && walk->leaders;
    const struct report report = {question->keys[0], leaders, each, context};
    bool any = false;
    for (unsigned i = 0; i < step->ask.client->nodes; i++) {
        for (size_t j = 0; j < question->answers[i].items_count; j++)
            report_key(&report, i, question->answers[i].items[j]);
        any = any || has_page(step, i);
    }
    return any;
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
        const rl_mask asked = net_ready(client->net, net_now(client->net)) & (rl_mask)~walk->ended;
        for (unsigned i = 0; i < client->nodes; i++)
            ask_send(step->ask.questions, asked & rl_bit(i), &step->requests[i],
                     gather_until(client));
        ask_wait(&step->ask);
        take_pages(step, walk);
        schedule_unlock(&client->schedule);
        result = report_pages(step, walk, each, context) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
        schedule_relock(&client->schedule);
        ask_unref(&step->ask);
    }
    return client_leave_notifying(client, result);
}

/* ---- many resources ---- */

/* Of each resource two questions: the lock's key, and its wait queue. */
enum { LOCK, QUEUE, EACH };

/* The key is the end of the first name of the queue. */
static void put_questions(struct question *at, struct net_bytes resource) {
    const struct redlock_client *client = at->ask->client;
    at[QUEUE].keys[0] = ask_key(at->ask, NET_KEY_WAITING, resource);
    at[QUEUE].keys[1] = ask_key(at->ask, NET_KEY_WAITERS, resource);
    at[LOCK].keys[0] = bytes_after(at[QUEUE].keys[0], sizeof NET_KEY_WAITING - 1);
    at[LOCK].request = (struct net_request){
        .op = NET_PEEK_VALUE, .keys = at[LOCK].keys, .keys_count = 1, .scheme = client->scheme};
    at[QUEUE].request =
        (struct net_request){.op = NET_WAIT_QUEUE_PEEK, .keys = at[QUEUE].keys, .keys_count = 2};
}

static struct ask *survey_new(struct redlock_client *client, const struct redlock_bytes *resources,
                              size_t count) {
    const size_t most = sizeof NET_KEY_WAITING + client->options.key_prefix_bytes;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += 2 * (most + resources[i].bytes);
    struct ask *survey = ask_new(client, sizeof *survey, EACH * count, bytes, NULL);
    for (size_t i = 0; survey && i < count; i++)
        put_questions(survey->questions + EACH * i,
                      (struct net_bytes){resources[i].data, resources[i].bytes});
    return survey;
}

static rl_mask keep_queues(struct redlock_client *client, rl_mask nodes) {
    for (unsigned i = 0; i < client->nodes; i++)
        if (client_status(client, i).uses_transactions) nodes &= (rl_mask)~rl_bit(i);
    return nodes;
}

static void survey_ask(struct ask *survey, bool queues) {
    struct redlock_client *client = survey->client;
    const rl_ns until = gather_until(client);
    const rl_mask ready = net_ready(client->net, net_now(client->net));
    const rl_mask keepers = queues ? keep_queues(client, ready) : 0;
    for (size_t i = 0; i < survey->questions_count; i++) {
        struct question *question = &survey->questions[i];
        ask_send(question, i % EACH == LOCK ? ready : keepers, &question->request, until);
    }
    ask_wait(survey);
}

/* A node that did not answer has a verdict with the reason. */
static int survey_result(const struct ask *survey, struct redlock_view *views,
                         struct redlock_queue_view *queues) {
    const unsigned nodes = survey->client->nodes;
    int silent[REDLOCK_NODES_MAX], result = REDLOCK_OK;
    for (unsigned n = 0; n < nodes; n++) silent[n] = ask_silence(survey->client, n);
    for (size_t i = 0; i < survey->questions_count / EACH; i++) {
        const struct question *at = survey->questions + EACH * i;
        unsigned reported = 0;
        for (unsigned n = 0; n < nodes; n++) {
            const struct net_reply *queue = &at[QUEUE].answers[n];
            reported += ask_view(&at[LOCK].answers[n], silent[n], &views[i * nodes + n]);
            if (!queues) continue;
            queues[i * nodes + n] = (struct redlock_queue_view){.verdict = queue->verdict,
                                                                .waiters = queue->count,
                                                                .oldest_ms = queue->age_us / 1000};
        }
        if (reported < rl_quorum(nodes)) result = REDLOCK_NO_QUORUM;
    }
    return result;
}

int redlock_survey(struct redlock_client *client, const struct redlock_bytes *resources,
                   size_t count, struct redlock_view *views, struct redlock_queue_view *queues) {
    if (count == 0) return REDLOCK_OK;
    if (!client || !resources || !views || count > REDLOCK_SURVEY_MAX) return REDLOCK_BAD_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        if (!ask_fits(client, resources[i].data, resources[i].bytes)) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct ask *survey = survey_new(client, resources, count);
    int result = REDLOCK_NO_MEMORY;
    if (survey) {
        survey_ask(survey, queues != NULL);
        result = survey_result(survey, views, queues);
        ask_unref(survey);
    }
    return client_leave_notifying(client, result);
}
