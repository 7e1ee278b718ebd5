/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The members of a guarded quorum, from the records of its nodes, compared with the nodes that this
 * command was given.
 */
#ifndef CLI_MEMBERSHIP_H
#define CLI_MEMBERSHIP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <redlock/admin.h>

#include "frame/session.h"

enum membership_state {
    MEMBERSHIP_INTACT,   /* every member is intact */
    MEMBERSHIP_DEGRADED, /* a majority is, or lacks only the newest change */
    MEMBERSHIP_LOST,     /* fewer are */
    MEMBERSHIP_ABSENT    /* no node has a record */
};

struct membership {
    enum membership_state state;
    /* Enough members are intact, and still no client with this list of nodes takes a lock: why, and
     * the cure. "": that is not so. */
    char unaccepted[160];
    struct redlock_quorum_status quorum;
    struct redlock_member members[REDLOCK_NODES_MAX];
};

/* 0, or the exit status after a message. Too few intact members do not count as a failure of this
 * call. */
int membership_peek(struct session *session, struct membership *membership);
/* The same, but nodes of two quorums do not count as a failure either; they set *two. */
int membership_peek_at_any(struct session *session, struct membership *membership, bool *two);
/* Waits until the member of that id (NULL: every one) is intact, or until that time. False: it is
 * not. `report`: a redlock_progress_fn. 0, or the exit status after a message. */
int membership_await(struct session *session, struct membership *membership, const char *id,
                     int64_t until_ns, redlock_progress_fn *report, void *context);
bool is_intact(const struct redlock_member *member);
/* Fewer than three members cannot bring each other back: what they do not survive, as a sentence
 * without its full stop. */
const char *what_few_survive(size_t members);

/* Finds a member by its id or its URL; -1: none. */
int member_named(struct session *session, const struct membership *membership, const char *name);
/* Which of the command's nodes is this member, or -1; and the member's URL. */
const char *member_url(struct session *session, const struct redlock_member *member);
/* Whether this node of the command, at the member's URL, still has a record of this quorum from
 * before: the add that takes it back was interrupted. Where no majority is intact, this record may
 * be the newer one. */
bool is_of_half_added(const struct membership *membership, const struct redlock_member *member,
                      const struct redlock_node_status *status);
/* An id or a URL that the user gave, for a message: without user and password. */
enum { SHOWN_BYTES = 256 };
const char *shown_name(const char *name, char *out, size_t size);
/* Whether two URLs name one place: without user and password, with the default port and database
 * filled in. */
bool same_place(const char *a, const char *b);
/* Whether one of the listed URLs names the place. *at (may be NULL) is its index, else their
 * number. */
bool list_has(const char *nodes, const char *url, size_t *at);

/* The command that finishes the last change, if that is not finished. "": it is, or no record shows
 * which one it was. Returns `out`. */
char *unfinished_text(const struct membership *membership, char *out, size_t size);

/* Prints the table, and the conclusion below it. `advises`: to run init, where that is the cure. */
void membership_print(struct session *session, const struct membership *membership, bool advises,
                      FILE *out);
json_t *membership_json(struct session *session, const struct membership *membership);
/* The members' URLs for REDLOCK_NODES, without passwords. The caller frees it; NULL: out of memory.
 */
char *membership_nodes(struct session *session, const struct membership *membership);

#endif
