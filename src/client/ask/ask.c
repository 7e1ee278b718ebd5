/* SPDX-License-Identifier: BSD-2-Clause */
#include "ask.h"

#include <stdlib.h>
#include <string.h>

static void leave_list(struct ask *ask) {
    if (!ask->at) return;
    *ask->at = ask->next;
    if (ask->next) ask->next->at = ask->at;
    ask->at = NULL;
}

void ask_unref(struct ask *ask) {
    if (--ask->refs > 0) return;
    leave_list(ask);
    const struct net_reply *answers = ask->questions->answers;
    for (size_t i = 0; answers && i < ask->questions_count * ask->client->nodes; i++)
        free((void *)(uintptr_t)answers[i].items);
    free(ask);
}

/* ---- answers ---- */

void ask_keep(struct question *question, unsigned node, const struct net_reply *reply) {
    struct net_reply *kept = &question->answers[node];
    size_t bytes = reply->value.bytes;
    if (!question->ask->asker) return;
    for (size_t i = 0; i < reply->items_count; i++) bytes += reply->items[i].bytes;
    struct net_bytes *items = malloc(reply->items_count * sizeof items[0] + bytes + 1);
    free((void *)(uintptr_t)kept->items);
    *kept = items ? *reply : (struct net_reply){.verdict = REDLOCK_VERDICT_NO_MEMORY};
    kept->items = items;
    kept->fences = NULL; /* these two are valid during the call only */
    kept->state = NULL;
    if (!items) return;
    unsigned char *at = (unsigned char *)(items + reply->items_count);
    for (size_t i = 0; i < reply->items_count; i++) {
        items[i] = (struct net_bytes){at, reply->items[i].bytes};
        memcpy(at, reply->items[i].data, reply->items[i].bytes);
        at += reply->items[i].bytes;
    }
    kept->value.data = at;
    if (reply->value.bytes) memcpy(at, reply->value.data, reply->value.bytes);
}

static void on_reply(struct net_call *call, const struct net_reply *reply) {
    struct question *question = call->owner;
    struct ask *ask = question->ask;
    bool decided = false;
    ask->pending--;
    if (ask->answered)
        decided = ask->answered(question, call->node, reply);
    else
        ask_keep(question, call->node, reply);
    if (ask->waiter && (decided || ask->pending == 0)) waiter_finish(ask->waiter);
    ask_unref(ask);
}

int ask_silence(struct redlock_client *client, unsigned node) {
    const int verdict = client_status(client, node).verdict;
    return verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : verdict;
}

bool ask_view(const struct net_reply *answer, int silent, struct redlock_view *view) {
    *view = (struct redlock_view){
        .verdict = answer->verdict == REDLOCK_VERDICT_NONE ? silent : answer->verdict,
        .remaining_ms = answer->remaining_ms,
        .token_truncated = answer->truncated};
    view->token_bytes =
        answer->value.bytes < sizeof view->token ? answer->value.bytes : sizeof view->token;
    if (view->token_bytes) memcpy(view->token, answer->value.data, view->token_bytes);
    return is_answer(view->verdict);
}

/* ---- asking ---- */

void *ask_new(struct redlock_client *client, size_t size, size_t questions, size_t bytes,
              ask_answered_fn *answered) {
    const size_t cells = questions * client->nodes;
    struct ask *ask =
        calloc(1, size + questions * sizeof(struct question) + cells * sizeof(struct net_call) +
                      (answered ? 0 : cells * sizeof(struct net_reply)) + bytes);
    if (!ask) return NULL;
    struct question *question = (struct question *)(void *)((char *)ask + size);
    struct net_call *call = (struct net_call *)(void *)(question + questions);
    struct net_reply *answer = (struct net_reply *)(void *)(call + cells);
    *ask = (struct ask){.client = client,
                        .refs = 1,
                        .asker = ask,
                        .answered = answered,
                        .questions = question,
                        .questions_count = questions,
                        .room = (unsigned char *)(answered ? answer : answer + cells)};
    for (size_t i = 0; i < cells; i++)
        call[i] = (struct net_call){.owner = &question[i / client->nodes], .answered = on_reply};
    for (size_t i = 0; i < questions; i++, call += client->nodes, answer += client->nodes)
        question[i] =
            (struct question){.ask = ask, .calls = call, .answers = answered ? NULL : answer};
    return ask;
}

void ask_join(struct ask *ask, void *asker, struct ask **asks) {
    ask->asker = asker;
    ask->next = *asks;
    ask->at = asks;
    if (ask->next) ask->next->at = &ask->next;
    *asks = ask;
}

void asks_leave(struct ask **asks) {
    while (*asks) {
        (*asks)->asker = NULL;
        leave_list(*asks);
    }
}

void *ask_room(struct ask *ask, size_t bytes) {
    ask->room += bytes;
    return ask->room - bytes;
}

struct net_bytes ask_copy(struct ask *ask, struct net_bytes from) {
    void *to = ask_room(ask, from.bytes);
    if (from.bytes) memcpy(to, from.data, from.bytes);
    return (struct net_bytes){to, from.bytes};
}

struct net_bytes ask_key(struct ask *ask, const char *head, struct net_bytes resource) {
    const struct redlock_client *client = ask->client;
    const size_t prefix = client->options.key_prefix_bytes;
    const struct net_bytes key = ask_copy(ask, (struct net_bytes){head, strlen(head)});
    ask_copy(ask, (struct net_bytes){client->key_prefix, prefix});
    ask_copy(ask, resource);
    return (struct net_bytes){key.data, key.bytes + prefix + resource.bytes};
}

rl_mask ask_send(struct question *question, rl_mask nodes, const struct net_request *request,
                 rl_ns until) {
    struct ask *ask = question->ask;
    const rl_mask taken =
        nodes ? net_send(ask->client->net, nodes, request, question->calls, until, until) : 0;
    ask->pending += rl_count(taken);
    ask->refs += rl_count(taken);
    ask->until = until;
    return taken;
}

void ask_wait(struct ask *ask) {
    struct waiter waiter;
    if (ask->pending > 0) {
        waiter_init(&waiter);
        ask->waiter = &waiter;
        schedule_wait_until(&ask->client->schedule, &waiter, ask->until);
        ask->waiter = NULL;
    }
    ask->asker = NULL;
}
