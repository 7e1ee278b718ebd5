/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client that is opened from the settings.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <redlock.h>

#include "settings.h"

struct session {
    struct redlock_client *client;
    const char *nodes;  /* the URL list in use; owned by the settings or the environment */
    int mode;           /* enum redlock_mode; see session_mode() */
    bool single;        /* the mode is classic, and there must be one node */
    bool mode_open;     /* no mode is set: the nodes say which one applies */
    const char *quorum; /* guarded: the pinned id; NULL: none. Owned like `nodes` */
    int allow_replicas; /* guarded */
    const struct settings *settings;
    int64_t shut_out_since; /* of session_waits_in_vain(); 0: it is not */
    /* The last failure, for JSON. */
    struct {
        int result;       /* enum redlock_result; OK: there was none */
        char reason[700]; /* in a sentence, without the name of the resource */
        char owner[REDLOCK_OWNER_BYTES_MAX * 4 + 1]; /* HELD: by this client; "": unknown */
        int64_t remaining_ms;                        /* HELD: -1: unknown, or without an end */
        const int *verdicts; /* on which `reason` rests; NULL: the lock has them still */
    } failed;
};

/* The list to use: -N, else the environment, else the file; NULL: there is none. */
const char *find_nodes(const struct settings *settings);
/* 0, or the exit status after a message. Nothing has to be closed then. */
int session_open(struct session *session, const struct settings *settings);
/* The same for a command that only looks at locks of these names: refuses what no lock can be
 * called. */
int session_open_named(struct session *session, const struct settings *settings, int count,
                       char *const *names);
/* The least count that is more than half of them. */
static inline size_t quorum_of(size_t nodes) { return nodes / 2 + 1; }
/* Waits for connections where an operation does not wait: until every node is connected or has
 * failed, or until a majority is connected and one more node timeout has passed. */
void session_connect(struct session *session);
/* Auto: `mode` becomes guarded once a node has shown a record. session_connect() calls it. */
int session_mode(struct session *session);
/* Processes the connections until that time. */
void session_live_until(struct session *session, int64_t until_ns);
void session_close(struct session *session);

/* 0, or the exit status after a message: the resource or the prefix cannot be a key. */
int resource_check(const struct settings *settings, const char *resource);

/* Makes a lock with the settings' TTL and retry delays; `change` may alter further options. */
typedef void lock_options_fn(void *context, struct redlock_lock_options *options);
int session_lock(struct session *session, const char *resource, lock_options_fn *change,
                 void *context, struct redlock_lock **lock);

/* Whether a list of locks also has values that do not have the form of a token. */
bool session_lists_every_value(const struct session *session);
const char *node_url(struct session *session, size_t node);
/* The resource of a slot, for the other commands; slot 0: the resource itself. malloc(); NULL: no
 * memory. */
char *slot_name(const char *resource, unsigned slot);
/* "host:pid", or the name that the user gave. */
void default_owner(const struct settings *settings, char *out, size_t size);

#endif
