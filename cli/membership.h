/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The members of a guarded quorum as its nodes' records tell them, beside the nodes that this
 * command was given.
 */
#ifndef CLI_MEMBERSHIP_H
#define CLI_MEMBERSHIP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <redlock/admin.h>

#include "session.h"

enum membership_state {
    MEMBERSHIP_INTACT,   /* every member */
    MEMBERSHIP_DEGRADED, /* a majority */
    MEMBERSHIP_LOST,     /* fewer */
    MEMBERSHIP_ABSENT    /* no record was found */
};

struct membership {
    enum membership_state state;
    struct redlock_quorum_status quorum;
    struct redlock_member members[REDLOCK_NODES_MAX];
};

/* 0, or the exit status after a message. Too few intact members is no failure of looking. */
int membership_peek(struct session *session, struct membership *membership);
/* The same where nodes of two quorums are no failure either, but *two. */
int membership_peek_at_any(struct session *session, struct membership *membership, bool *two);
/* Until the member of that id (NULL: every one) is intact, or until then. False: it is not.
 * `report`: a redlock_progress_fn. 0, or the exit status after a message. */
int membership_await(struct session *session, struct membership *membership, const char *id,
                     int64_t until_ns, redlock_progress_fn *report, void *context);
bool is_intact(const struct redlock_member *member);

/* A member by its id or its URL; -1: there is none. */
int member_named(struct session *session, const struct membership *membership, const char *name);
/* Which of the command's nodes stands for the member, or -1; and its URL. */
const char *member_url(struct session *session, const struct redlock_member *member);
/* Whether two URLs name one place: without user and password, with the default port and
 * database. */
bool same_place(const char *a, const char *b);
/* Whether one of the listed URLs names the place; *at (which may be NULL) is its index, else their
 * number. */
bool list_has(const char *nodes, const char *url, size_t *at);

/* The table, and below it what it comes to. */
void membership_print(struct session *session, const struct membership *membership, FILE *out);
json_t *membership_json(struct session *session, const struct membership *membership);
/* The members' URLs for REDLOCK_NODES, without passwords. To be freed; NULL: out of memory. */
char *membership_nodes(struct session *session, const struct membership *membership);

#endif
