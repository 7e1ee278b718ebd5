/* SPDX-License-Identifier: BSD-2-Clause */
#include "story.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/memory.h"
#include "net/net.h"

int story_owner(const struct story *story, uint32_t token) {
    return token < story->owners_count ? story->owners[token] : -1;
}

const char *story_client(const struct story *story, int client) {
    return client < 0 ? "the stranger" : story->names.clients[client];
}

struct story_event *story_add(struct story *story, size_t index, const char *label) {
    if (story->count == story->capacity)
        story->events = memory_grow(story->events, &story->capacity, sizeof *story->events, 64);
    const struct history_record *record = &story->history->records[index];
    struct story_event *event = &story->events[story->count++];
    *event = (struct story_event){.at = record->at, .client = record->client, .resource = -1};
    snprintf(event->label, sizeof event->label, "%s", label);
    return event;
}

void story_say(struct story_event *event, const char *format, ...) {
    size_t used = strlen(event->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(event->text + used, sizeof event->text - used, format, arguments);
    va_end(arguments);
}

rl_mask story_same_on(struct story *story, size_t index, rl_ns within) {
    const struct history *history = story->history;
    const struct history_record *first = &history->records[index];
    rl_mask nodes = 0;
    for (size_t i = index; i < history->count && history->records[i].at - first->at <= within;
         i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != first->kind || record->node < 0 || record->client != first->client ||
            record->resource != first->resource || record->token != first->token ||
            record->value != first->value || record->result != first->result)
            continue;
        nodes |= rl_bit((unsigned)record->node);
        story->described[i] = 1;
    }
    return nodes;
}

/* Finds the owners of tokens and the records of each message. */
static void index_records(struct story *story) {
    const struct history *history = story->history;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (record->token >= story->owners_count) story->owners_count = record->token + 1;
        if (record->message >= story->exchanges_count) story->exchanges_count = record->message + 1;
    }
    story->owners = memory_new(story->owners_count + 1);
    memset(story->owners, -1, story->owners_count);
    story->exchanges = memory_new((story->exchanges_count + 1) * sizeof *story->exchanges);
    for (size_t i = 0; i < story->exchanges_count; i++)
        story->exchanges[i] =
            (struct story_exchange){STORY_NONE, STORY_NONE, STORY_NONE, STORY_NONE};
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        struct story_exchange *exchange = &story->exchanges[record->message];
        bool owns = record->kind == HISTORY_SENT || record->kind == HISTORY_ACQUIRED;
        /* an observer asks about another client's token */
        if (record->kind == HISTORY_SENT && record->op == NET_CONFIRM) owns = false;
        if (owns && record->token != 0 && record->client >= 0)
            story->owners[record->token] = record->client;
        switch (record->kind) {
        case HISTORY_SENT: exchange->sent = i; break;
        case HISTORY_ARRIVED: exchange->arrived = i; break;
        case HISTORY_ANSWERED: exchange->answered = i; break;
        case HISTORY_DROPPED: exchange->dropped = i; break;
        default: break;
        }
    }
}

/* The latest event comes last, whatever order the sentences were found in. */
static void sort_events(struct story *story) {
    for (size_t i = 1; i < story->count; i++) {
        struct story_event event = story->events[i];
        size_t j = i;
        for (; j > 0 && story->events[j - 1].at > event.at; j--)
            story->events[j] = story->events[j - 1];
        story->events[j] = event;
    }
}

void story_describe(struct story *story, const struct history *history,
                    const struct story_names *names) {
    *story = (struct story){.history = history, .names = *names};
    index_records(story);
    story->described = memory_new(history->count + 1);
    /* Causes before effects: the sentence of a restart names the keys that it lost, so it comes
     * before theirs. */
    for (size_t i = 0; i < history->count; i++) story_node_event(story, i);
    for (size_t i = 0; i < history->count; i++) {
        if (story->described[i]) continue;
        story_client_event(story, i);
        story_key_event(story, i);
        story_message_event(story, i);
    }
    sort_events(story);
}

void story_free(struct story *story) {
    free(story->events);
    free(story->exchanges);
    free(story->owners);
    free(story->described);
    *story = (struct story){0};
}
