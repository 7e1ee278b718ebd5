/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What `redlock show` looks at: one resource, or every lock that there is.
 */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "explain/denials.h"
#include "explain/failure.h"
#include "explain/readers.h"
#include "frame/session.h"

/* What the nodes hold under one resource. */
struct sight {
    const char *resource; /* the caller's */
    size_t bytes;
    int result; /* enum redlock_result. OK and NO_QUORUM: the views are filled */
    size_t count;
    char type[40]; /* of a key that a majority holds and that is not a string; "": unknown */
    struct redlock_view views[REDLOCK_NODES_MAX];
    struct readers readers; /* of a shared lock */
};
/* `named`: the user has named it, so its readers are listed, and not only counted. Call
 * sight_free() in any case. */
void sight_take(struct session *session, const char *resource, size_t bytes, bool named,
                struct sight *sight);
void sight_free(struct sight *sight);
void sight_print_head(struct session *session, const struct sight *sight, FILE *out);
void sight_print_node(struct session *session, const struct sight *sight, size_t node, FILE *out);
/* The head and every node. */
void sight_print(struct session *session, const struct sight *sight, FILE *out);
/* How many readers of a shared lock the node lists; -1: unknown. */
int64_t sight_readers(const struct sight *sight, size_t node);
json_t *sight_json(struct session *session, const struct sight *sight);
/* Whether a value has the form of a token, or no node holds one. */
bool sight_is_lock(const struct sight *sight);

/* The names of all keys that may be locks, in order, each once. */
struct listing {
    char **names;
    size_t *bytes;
    size_t count, room;
    bool failed, cut; /* no memory; there are more */
};
#define LOCKS_MAX 1000000
/* enum redlock_result. Call listing_free() in any case. */
int listing_take(struct session *session, struct listing *listing);
void listing_free(struct listing *listing);

/* Nodes that do not let this user list names, or read what they hold. */
struct unlisted {
    int verdicts[REDLOCK_NODES_MAX]; /* enum redlock_verdict, of a step of a walk */
    enum need need;                  /* NEED_READ: they list the names, and show no locks */
    bool unseen;                     /* so many that a lock may be missing from the list */
};
void unlisted_take(struct session *session, const struct listing *listing,
                   struct unlisted *unlisted);
/* A line for each of them: into `out`, or to standard error. */
void unlisted_text(struct session *session, const struct unlisted *unlisted, char *out,
                   size_t size);
void unlisted_report(struct session *session, const struct unlisted *unlisted);

/* show_watch.c: shows the resources (0: every lock) again and again, until ^C. Returns the exit
 * status. */
int show_watch(struct session *session, int count, char **resources);

#endif
