/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages are drawn as arrows. Only a message that is lost, late, or asked again gets a sentence.
 */
#include "story.h"

#include <ctype.h>
#include <stdio.h>

#include "net/net.h"
#include "phrase.h"
#include "redlock.h"

/* An answer within this time is normal, and needs no sentence. */
#define PROMPT (20 * RL_MS)

static const char *what(int op) {
    return op == NET_ACQUIRE ? "request" : op == NET_EXTEND ? "extension" : "release";
}

static bool is_answer(const struct story *story, const struct history_record *record) {
    return record->message < story->exchanges_count &&
           story->exchanges[record->message].arrived != STORY_NONE;
}

static rl_mask alike(struct story *story, size_t index, rl_ns within) {
    const struct history *history = story->history;
    const struct history_record *first = &history->records[index];
    bool answers = is_answer(story, first);
    rl_mask nodes = 0;
    for (size_t i = index; i < history->count && history->records[i].at - first->at <= within;
         i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != first->kind || record->client != first->client ||
            record->op != first->op || story->described[i])
            continue;
        if (record->node < 0 || record->result != first->result) continue;
        if (record->kind == HISTORY_DROPPED && is_answer(story, record) != answers) continue;
        if (record->kind == HISTORY_SENT && record->token != first->token) continue;
        nodes |= rl_bit((unsigned)record->node);
        story->described[i] = 1;
    }
    return nodes;
}

/* The client deletes a token that it has begun to break. */
static bool is_break(const struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    for (size_t i = 0; i < index; i++) {
        const struct history_record *before = &story->history->records[i];
        if (before->kind == HISTORY_BREAK && before->client == record->client &&
            before->token == record->token)
            return true;
    }
    return false;
}

static void describe_sent(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    const char *client = story_client(story, record->client);
    /* A client sends to all nodes at once, so the group has the same time. */
    const struct phrase_nodes nodes = phrase_nodes(alike(story, index, 0));
    if (record->op == NET_ACQUIRE)
        story_say(story_add(story, index, "asks"), "%s asks %s.", client, nodes.text);
    else if (record->op == NET_EXTEND)
        story_say(story_add(story, index, "renews"), "%s asks %s to extend its key.", client,
                  nodes.text);
    else if (is_break(story, index))
        story_say(story_add(story, index, "deletes"),
                  "%s asks %s to delete the holder's key, and no other.", client, nodes.text);
    else
        story_say(story_add(story, index, "takes back"),
                  "%s takes back what it may have set on %s.", client, nodes.text);
}

static void describe_dropped(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    bool answer = is_answer(story, record);
    const char *client = story_client(story, record->client);
    const struct phrase_nodes nodes = phrase_nodes(alike(story, index, STORY_TOGETHER));
    struct story_event *event = story_add(story, index, ""); /* the cross on the arrow shows it */
    if (answer)
        story_say(event, "Lost: the answer to %s's %s from %s, after it took effect.", client,
                  what(record->op), nodes.text);
    else
        story_say(event, "Lost: %s's %s to %s.", client, what(record->op), nodes.text);
}

static const char *verdict_words(const struct history_record *record) {
    if (record->result == REDLOCK_VERDICT_GRANTED)
        return record->op == NET_RELEASE ? "key deleted" : "granted";
    if (record->result == REDLOCK_VERDICT_DENIED) return "refused, the key is another's,";
    if (record->result == REDLOCK_VERDICT_ABSENT) return "no such key";
    if (record->result == REDLOCK_VERDICT_STALE)
        return "the key is set, and counts for nothing without its fence,";
    return "answered with an error";
}

static void describe_late(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (record->message >= story->exchanges_count) return;
    const struct story_exchange *exchange = &story->exchanges[record->message];
    bool arrival = record->kind == HISTORY_ARRIVED;
    size_t before = arrival ? exchange->sent : exchange->arrived;
    if (before == STORY_NONE || record->at - story->history->records[before].at <= PROMPT) return;
    const char *client = story_client(story, record->client);
    rl_mask nodes = alike(story, index, STORY_TOGETHER);
    const struct phrase_time took = phrase_time(record->at - story->history->records[before].at);
    struct story_event *event = story_add(story, index, "late");
    if (arrival) {
        event->client = -1;
        event->nodes = nodes;
        story_say(event, "%s's %s arrives after %s: %s by %s.", client, what(record->op), took.text,
                  verdict_words(record), phrase_nodes(nodes).text);
    } else {
        story_say(event, "%s sees the answer to its %s from %s only now, %s after it was given.",
                  client, what(record->op), phrase_nodes(nodes).text, took.text);
    }
}

/* Messages that are lost with a connection need no sentence of their own. */
static bool drops_with_it(struct story *story, size_t index) {
    const struct history *history = story->history;
    const struct history_record *gone = &history->records[index];
    bool any = false;
    size_t from = index;
    while (from > 0 && history->records[from - 1].at == gone->at) from--;
    for (size_t i = from; i < history->count && history->records[i].at == gone->at; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != HISTORY_DROPPED || record->client != gone->client) continue;
        story->described[i] = 1;
        any = any || net_op_is_write(record->op);
    }
    return any;
}

static void describe_disconnected(struct story *story, size_t index) {
    const struct history *history = story->history;
    const struct history_record *record = &history->records[index];
    /* The sentence of a crash or a failover covers it. */
    for (size_t i = index + 1; i > 0 && record->at - history->records[i - 1].at <= STORY_TOGETHER;
         i--) {
        const struct history_record *cause = &history->records[i - 1];
        bool node = cause->node == record->node &&
                    (cause->kind == HISTORY_NODE_CRASH || cause->kind == HISTORY_NODE_FAILOVER);
        bool client = cause->client == record->client && cause->kind == HISTORY_CLIENT_CRASH;
        if (node || client) return;
    }
    bool carried = drops_with_it(story, index);
    rl_mask nodes = alike(story, index, 0);
    story_say(story_add(story, index, "connection gone"),
              "The connection between %s and %s is gone%s.", story_client(story, record->client),
              phrase_nodes(nodes).text, carried ? ", and what was on its way with it" : "");
}

static void describe_woken(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    bool lost = record->kind == HISTORY_WAKE_LOST;
    const struct phrase_nodes nodes = phrase_nodes(story_same_on(story, index, STORY_TOGETHER));
    const char *label = lost ? "" : record->value == 0 ? "called" : "woken";
    struct story_event *event = story_add(story, index, label);
    story_say(event, lost ? "Lost: what %s told %s: " : "%s told %s: ", nodes.text,
              story_client(story, record->client));
    if (record->value == NET_WAKE_TURN)
        story_say(event, "it is its turn.");
    else if (record->value < 0)
        story_say(event, "the key has changed.");
    else if (record->value == 0)
        story_say(event, "it is the first in the line.");
    else
        story_say(event, "in the line there are %d before it.", (int)record->value);
    event->text[0] = (char)toupper((unsigned char)event->text[0]);
}

/* The clients to which one node announces, at about this time, that all its data have changed. */
static void describe_announced(struct story *story, size_t index) {
    const struct history *history = story->history;
    const struct history_record *first = &history->records[index];
    unsigned clients = 0, count = 0, said = 0;
    for (size_t i = index;
         i < history->count && history->records[i].at - first->at <= STORY_TOGETHER; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != HISTORY_ANNOUNCED || record->node != first->node || record->value != 1)
            continue;
        clients |= 1u << record->client;
        story->described[i] = 1;
    }
    struct story_event *event = story_add(story, index, "announces it");
    event->client = -1;
    event->nodes = rl_bit((unsigned)first->node);
    story_say(event, "Node %d announces that all its data are others: to", first->node + 1);
    for (unsigned i = 0; i < history->clients; i++) count += clients >> i & 1;
    for (unsigned i = 0; i < history->clients; i++) {
        if (!(clients >> i & 1)) continue;
        story_say(event, "%s %s",
                  said == 0           ? ""
                  : said + 1 == count ? " and"
                                      : ",",
                  story_client(story, (int)i));
        said++;
    }
    story_say(event, ".");
}

void story_message_event(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (story->described[index] || record->client < 0 || record->node < 0) return;
    if (record->kind == HISTORY_ANNOUNCED) {
        if (record->value == 1) describe_announced(story, index);
        return;
    }
    if (record->kind == HISTORY_DISCONNECTED) {
        describe_disconnected(story, index);
        return;
    }
    if (record->kind == HISTORY_WOKEN || record->kind == HISTORY_WAKE_LOST) {
        describe_woken(story, index);
        return;
    }
    if (!net_op_is_write(record->op)) return;
    switch (record->kind) {
    case HISTORY_SENT: describe_sent(story, index); break;
    case HISTORY_DROPPED: describe_dropped(story, index); break;
    case HISTORY_ARRIVED:
    case HISTORY_ANSWERED: describe_late(story, index); break;
    default: break;
    }
}
