/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who shares a lock: the readers that the nodes list, put together.
 */
#ifndef CLI_READERS_H
#define CLI_READERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <redlock/admin.h>

#include "frame/session.h"

enum {
    READERS_SHOWN = 20, /* lines, if not all are asked for */
    READERS_ASKED = 256 /* of each node then: one round trip, and enough to put these together */
};

struct reader {
    const unsigned char *token;
    size_t bytes;
    size_t nodes;         /* that list it */
    bool holds;           /* a majority does */
    int64_t remaining_ms; /* until fewer than a majority list it; else until no node does */
};

struct readers {
    struct redlock_readers_view views[REDLOCK_NODES_MAX];
    struct reader *list; /* those that hold first, and of these the one that ends first */
    size_t count;
    bool cut;      /* the list is not complete */
    int64_t total; /* of those that hold; -1: unknown */
    int reason;    /* enum redlock_verdict: why it is unknown */
    unsigned char *bytes;
};

/* Asks if a node in `views` has the marker of a shared lock; else there are none. A node of another
 * view does not count. `most`: of each node; 0: the number alone, which is what most nodes say.
 * False: no memory; else call readers_free(). */
bool readers_take(struct session *session, const void *resource, size_t bytes,
                  const struct redlock_view *views, size_t count, size_t most,
                  struct readers *readers);
void readers_free(struct readers *readers);
int reader_compare(const struct reader *a, const struct reader *b); /* by their tokens */
/* As a node's answer, whose token and owner are written everywhere in the same way. */
void reader_view(const struct reader *reader, struct redlock_view *view);
/* How many to ask for: those of a resource that the user has named are shown. */
size_t readers_wanted(const struct session *session, bool named);

/* "web1, token 1234abcd…" */
char *reader_text(const struct reader *reader, bool whole, char *out, size_t size);
/* A line for each, READERS_SHOWN at most unless the settings ask for all, and how many there are
 * besides. */
void readers_print(const struct session *session, const struct readers *readers, size_t nodes,
                   FILE *out);
json_t *readers_json(const struct session *session, const struct readers *readers);

#endif
