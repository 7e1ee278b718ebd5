/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A history in plain sentences: many records become few events. Each event has a number, which the
 * picture shows too.
 */
#ifndef SIM_STORY_H
#define SIM_STORY_H

#include "history/history.h"

struct story_names {
    const char *const *clients; /* one for each client of the history */
    const char *const *resources;
};

struct story_event {
    rl_ns at;
    int client;     /* the client of its row; -1: none */
    rl_mask nodes;  /* the nodes of its rows */
    int resource;   /* the register of its row; -1: none */
    char label[40]; /* in the picture */
    char text[400]; /* below the picture */
};

/* A request and its answer: indexes of the records, STORY_NONE where there is none. */
#define STORY_NONE SIZE_MAX
struct story_exchange {
    size_t sent, arrived, answered, dropped;
};

struct story {
    const struct history *history;
    struct story_names names;
    struct story_event *events;
    size_t count, capacity;
    struct story_exchange *exchanges; /* by message; [0] belongs to no message */
    size_t exchanges_count;
    int8_t *owners; /* by token: client, -1 for a stranger's; [0] belongs to no token */
    size_t owners_count;
    uint8_t *described; /* by record: a sentence already describes it */
};

void story_describe(struct story *story, const struct history *history,
                    const struct story_names *names);
void story_free(struct story *story);

/* The client of this token; -1: a stranger. */
int story_owner(const struct story *story, uint32_t token);
/* "A", or "the stranger" */
const char *story_client(const struct story *story, int client);

/* Adds an event of the record's time and, if it has one, client. */
struct story_event *story_add(struct story *story, size_t index, const char *label);
/* Continues its sentence; text that does not fit is left out. */
void story_say(struct story_event *event, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What has one cause happens within this: the messages left together. */
#define STORY_TOGETHER (5 * RL_MS)
/* All nodes to which the same happens within this time; marks those records as described. */
rl_mask story_same_on(struct story *story, size_t index, rl_ns within);

/* The parts of story_describe(), one a file: each says what it knows of the record at `index`. */
void story_client_event(struct story *story, size_t index);
void story_node_event(struct story *story, size_t index);
void story_key_event(struct story *story, size_t index);
void story_message_event(struct story *story, size_t index);

#endif
