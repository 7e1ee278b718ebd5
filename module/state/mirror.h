/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The keyspace, next to the table: with the option `mirror` each lock is a plain string key too, so
 * that a stranger's SET NX is refused; and a key that is not in the table is a stranger's lock. The
 * table never depends on the mirror. Without the option nothing here looks at the keyspace.
 *
 * What may be done to the keyspace depends on what runs (node.running); server_api.h says why. */
#ifndef MODULE_MIRROR_H
#define MODULE_MIRROR_H

#include "state/state.h"

/* A key that only the keyspace has. */
enum outside { OUTSIDE_NONE, OUTSIDE_STRING, OUTSIDE_OTHER_TYPE };
struct outside_key {
    enum outside what;
    bool same_token;    /* as the one that was asked for */
    int64_t left_ms;    /* -1: no end */
    size_t shown_bytes; /* of its value */
    char shown[SHOWN_OUTSIDE_BYTES];
};
/* The key is not held in the table. NONE: not in the keyspace either, or there is no mirror. The
 * answer is valid until the next call. */
const struct outside_key *mirror_look(struct server_string *name, struct node_bytes token);

/* The same for a key that the table holds: its copy, or what a stranger has put there instead. */
const struct outside_key *mirror_look_at_copy(struct server_string *name, struct node_bytes token);

/* The same, for keys of which the table may hold some: NONE if the keyspace does not have the key,
 * else the answer is not about the table. A key that was not found stays open until mirror_put() of
 * the same name, or mirror_close(): looking a key up is what costs. */
bool mirror_is_free(struct server_string *name);
void mirror_close(void);

/* A lock of ours was set, or extended: its key exists afterwards, unless a stranger has it. */
void mirror_put(struct server_string *name, struct node_bytes token, int64_t left_ms);
/* A lock of ours is gone: so is its key, if it holds the token. True: it was deleted. Only a
 * command that is declared write, and the cron (if the key does not end by itself), delete it. */
bool mirror_drop(struct server_string *name, struct node_bytes token);
/* After a signal. From Redis 8.6 on it deletes a copy that has ended, and what is to be passed on
 * then waits for the end of a command. Between commands the server would end by a failed assertion,
 * so one is called there. */
void mirror_signalled(struct server_string *name);
/* Whether copies must be deleted when their locks end: the wall clock stepped back, so that they do
 * not end by themselves. Between commands only the server's cron may do that (ends.c). */
bool mirror_needs_cron(void);

/* About once a second: whether somebody follows the changes of the keyspace. */
void mirror_ask_for_replicas(struct server_ctx *ctx);

#endif
