/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client opened as the settings say, and what its failures mean to whoever called the command.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <redlock.h>

#include "settings.h"

struct session {
    struct redlock_client *client;
    const char *nodes;  /* the URL list in use; belongs to the settings or the environment */
    int mode;           /* enum redlock_mode */
    const char *quorum; /* guarded: the id that is pinned; NULL: none. Belongs to those too */
    int allow_replicas; /* guarded */
    const struct settings *settings;
};

/* The list that the command is to use: -N, else the environment, else the file; NULL: there is
 * none. */
const char *find_nodes(const struct settings *settings);
/* 0, or the exit status after a message. */
int session_open(struct session *session, const struct settings *settings);
/* Waits for connections where an operation would not: until all are there or have failed, or a
 * majority is and one more node timeout has passed. */
void session_connect(struct session *session);
/* Lets the connections live until then. */
void session_live_until(struct session *session, int64_t until_ns);
void session_close(struct session *session);

/* 0, or the exit status after a message: a resource or a prefix that cannot be a key. */
int resource_check(const struct settings *settings, const char *resource);

/* A lock with the settings' TTL and retry delays; `change` may alter the options further. */
typedef void lock_options_fn(void *context, struct redlock_lock_options *options);
int session_lock(struct session *session, const char *resource, lock_options_fn *change,
                 void *context, struct redlock_lock **lock);

/* Says why `result` came about, node by node unless -q, and returns the exit status it stands
 * for. */
int session_failure(struct session *session, struct redlock_lock *lock, const char *resource,
                    int result);
/* The same for redlock_peek(), whose views say what each node said. */
int session_unseen(struct session *session, const struct redlock_view *views, const char *resource,
                   int result);
/* Nodes on which the session's mode, or its list, lets no lock be had, whatever they answer: the
 * exit status after a message; else 0. For what takes no lock; taking one finds it out by itself.
 * To be called when nodes are connected. */
int session_check(struct session *session, const char *resource);

/* Whether any node refuses our password. */
bool session_is_refused(struct session *session);
/* True when so many nodes refuse our password that no majority can come about, however long one
 * waits. */
bool session_shut_out(struct session *session);

size_t quorum_of(size_t nodes);
const char *node_url(struct session *session, size_t node);
/* "granted", "no_quorum", ...: for machines. */
const char *verdict_name(int verdict);

/* "host:pid", or what the user said. */
void default_owner(const struct settings *settings, char *out, size_t size);

#endif
