/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client that is opened from the settings, and the meaning of its failures for the user of the
 * command.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <redlock.h>

#include "settings.h"

/* What a node refused. */
enum need {
    NEED_LOCK, /* to take, extend or end a lock */
    NEED_READ, /* to read what it holds under a name */
    NEED_LIST  /* to list the names */
};

struct session {
    struct redlock_client *client;
    const char *nodes;  /* the URL list in use; owned by the settings or the environment */
    int mode;           /* enum redlock_mode; see session_mode() */
    bool mode_open;     /* no mode is set: the nodes say which one applies */
    const char *quorum; /* guarded: the pinned id; NULL: none. Owned like `nodes` */
    int allow_replicas; /* guarded */
    const struct settings *settings;
    unsigned other_slots; /* OTHER_SLOTS: the number of the others */
    /* The last failure, for JSON. */
    struct {
        int result;       /* enum redlock_result; OK: there was none */
        char reason[700]; /* in a sentence, without the name of the resource */
        char owner[REDLOCK_OWNER_BYTES_MAX * 4 + 1]; /* HELD: by this client; "": unknown */
        int64_t remaining_ms;                        /* HELD: -1: unknown, or without an end */
    } failed;
};

/* The list to use: -N, else the environment, else the file; NULL: there is none. */
const char *find_nodes(const struct settings *settings);
/* 0, or the exit status after a message. */
int session_open(struct session *session, const struct settings *settings);
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

/* Prints the cause of `result`, node by node unless -q, and returns its exit status. */
int session_failure(struct session *session, struct redlock_lock *lock, const char *resource,
                    int result);
/* The same for redlock_peek(); its views hold the answer of each node. */
int session_unseen(struct session *session, const struct redlock_view *views, const char *resource,
                   int result);
/* The same for a walk over the names: `verdicts` hold why nodes gave none. */
int session_unlisted(struct session *session, const int *verdicts, enum need need, int result);
/* Whether a majority cannot be read because this user may not, though the nodes take its locks. */
bool session_reads_refused(struct session *session, const int *verdicts);
/* Whether the session's mode or node list makes every lock impossible on these nodes, whatever they
 * answer: the exit status after a message; else 0. For commands that take no lock; a command that
 * takes one gets this error anyway. Call it when nodes are connected. */
int session_check(struct session *session, const char *resource);

/* The verdict of a node on a try that gave it `verdict`, and its text in `reason`. */
int session_verdict(struct session *session, size_t node, int verdict, char *reason, size_t size);

/* Whether any node refuses the password. */
bool session_is_refused(struct session *session);
/* Whether so many nodes answered the last try with an error that a majority was impossible: out of
 * memory, say. That may pass. */
bool session_writes_refused(struct session *session, struct redlock_lock *lock);
/* True when so many nodes must be corrected (a password, a certificate, a permission, a setting,
 * the list) that a majority is impossible, however long the command waits. `lock`, which may be
 * NULL, knows the last votes. */
bool session_shut_out(struct session *session, struct redlock_lock *lock);
/* Warns in one line of the nodes that must be corrected; returns how many there are. Nodes that are
 * merely down do not count. */
size_t session_warn(struct session *session);
/* Whether a node with this verdict does not answer at all. */
bool node_is_silent(int verdict);
/* Of how many nodes it is known whether they carry a record. */
enum reach { REACH_NONE, REACH_SOME, REACH_ALL };
/* NONE: no node answers at all. */
enum reach session_reach(struct session *session);
/* The same for the nodes' records: a server that is unfit answers, but its record is unknown. */
enum reach session_reach_of_records(struct session *session);
/* Why a node does not vote, once: `detail` is the text of its status. Returns `out`. */
char *reason_text(int verdict, const char *detail, char *out, size_t size);

/* What the key of a lock holds that is not a string (foreign_text()). Asks the nodes. */
char *session_foreign(struct session *session, const char *resource, size_t bytes, char *out,
                      size_t size);

size_t quorum_of(size_t nodes); /* majority.c */
/* How many votes a lock needs: of the members in guarded mode, else of the listed nodes. */
size_t session_votes_needed(struct session *session);
const char *node_url(struct session *session, size_t node);
/* "granted", "no_quorum", ...: names for machines. */
const char *verdict_name(int verdict);

/* "host:pid", or the name that the user gave. */
/* The resource of a slot, for the other commands; slot 0: the resource itself. malloc(); NULL: no
 * memory. */
char *slot_name(const char *resource, unsigned slot);
void default_owner(const struct settings *settings, char *out, size_t size);

#endif
