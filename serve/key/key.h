/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The keys that an operation uses now, or whose lock was taken through this gateway. This state is
 * a cache and never the truth: the truth is on the nodes. A gateway that has just started serves
 * every lock as well.
 *
 * Operations on a key run one at a time. A command, a script or a transaction takes the key, makes
 * its calls one after the other and gives the key back. Clients of other gateways may change the
 * key meanwhile. An effect is therefore bound to the token that this operation has observed. If the
 * key holds another token by then, the operation restarts, because it has changed nothing yet.
 */
#ifndef SERVE_KEY_H
#define SERVE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <redlock.h>

#include "observation.h"
#include "script/key_call.h"

/* A cached lock is believed for this long after a majority of the nodes confirmed it; then the
 * gateway asks them again. So it soon notices a deletion through another gateway, and many clients
 * that ask for one key cost the nodes ten peeks a second. */
#define KEY_BELIEVED_NS INT64_C(100000000)
/* The gateway does not cache more locks, or more bytes (--lock-memory): it finds them on the nodes
 * when a client asks for them. */
#define KEYS_KEPT_MAX 65536

/* The memory of a cached lock without its name, which is stored here and in the library's lock;
 * measured. */
#define KEY_LOCK_BYTES 1024

struct event;
struct gateway;
struct key_op;

struct keys {
    void *tree; /* tsearch(3) */
    size_t kept, kept_bytes;
    struct event *ends;            /* works off `due` in turns */
    TAILQ_HEAD(key_ends, key) due; /* keys whose time has ended */
    size_t lost;                   /* of the kept: lost when the nodes were made a guarded quorum */
    uint64_t not_kept;             /* locks that did not fit */
};

struct key {
    struct gateway *gateway;
    TAILQ_HEAD(key_queue, key_op) queue; /* operations that want the key; the first one has it */
    unsigned watchers;                   /* while there are any, the key stays */
    LIST_HEAD(, renewal) renewals;       /* each of them watches it */
    uint64_t version;                    /* counts its changes that this gateway knows of */
    struct redlock_lock *lock;           /* NULL: no lock is cached */
    bool lost;                           /* counted in keys.lost */
    int64_t ends_ns;                     /* when the key has expired on the nodes */
    int64_t believed_until_ns;
    struct event *end;
    TAILQ_ENTRY(key) due;
    bool is_due;
    struct bytes name; /* stored behind the struct */
};

/* A program decides the next step of an operation: a call, or the end with its result. `answer` is
 * the answer to the last call; NULL: begin, or begin anew. WAITS: the program reports the step
 * later, by key_op_said(). */
typedef enum program_step key_op_program(struct key_op *op, const struct answer *answer,
                                         struct key_call *call, struct answer *result);
/* Called at the end; the key has been given back. `result` lives until this returns. */
typedef void key_op_over(struct key_op *op, const struct answer *result);

struct key_op {
    struct gateway *gateway;
    struct key *key;            /* NULL: the operation has none */
    TAILQ_ENTRY(key_op) queued; /* in the key's queue */
    TAILQ_ENTRY(key_op) ready;
    bool running, is_ready;
    key_op_program *program;
    key_op_over *over;
    struct observation observation; /* what this operation knows of the key; NONE: nothing yet */
    bool watched;                   /* `observation` is assumed; if it does not hold ... */
    bool changed;                   /* ... this is set, and the operation does not restart */
    bool asks;                      /* it reads the nodes, however fresh the cache is */
    unsigned calls, effects, restarts, peeks, tries;
    int64_t since_ns; /* the time it was queued; later, when the current step began */
    struct key_call call;
    bool abandoned;            /* nobody waits for it: callbacks leave it alone */
    struct redlock_lock *lock; /* of the current step, unless it uses the cached one */
    struct redlock_view *views;
    char text[1024]; /* the sentence of an error */
};

/* Operations that may begin, after the function that gave the key back has returned. */
TAILQ_HEAD(key_op_queue, key_op);
struct ops {
    struct event *event;
    struct key_op_queue ready;
    unsigned running;
};

/* ---- the cached lock ---- */

/* Whether a lock of this name fits, by the number of cached locks and by their memory. */
bool keys_have_room(const struct gateway *gateway, struct bytes name);
/* The key owns the lock from now on. When it does not fit, the lock is freed and the nodes keep it.
 */
void key_keep(struct key *key, struct redlock_lock *lock, int64_t ends_ns);
/* Frees a lock, and leaves it as it is on the nodes: a client holds it. One that is being extended
 * while the gateway ends stays in memory, since to free it would be to release it. */
void lock_leave(struct redlock_lock *lock);
/* Frees the cached lock, and leaves it as it is on the nodes. */
void key_forget(struct key *key);
/* Returns the cached lock if it is valid and has this token; else NULL. */
struct redlock_lock *key_lock(const struct key *key, const struct observation *observation);
/* Whether the lock was taken here, has this token, and is surely held no longer. Its keys may stay
 * on the nodes. */
bool key_is_over(const struct key *key, const struct observation *observation);
/* The client has become guarded (mode auto). Returns how many locks are lost by that. */
size_t keys_turn_guarded(struct gateway *gateway);
/* Whether the gateway may answer from the cache, without asking the nodes; fills *observation. */
bool key_believed(const struct key *key, struct observation *observation);

/* Its lock is gone from the nodes: "del" or "expired". Tells the subscribers. */
void key_ended(struct key *key, const char *what);

/* Keeps the key, with its version, for a client that watches it. NULL: out of memory. */
struct key *key_watch(struct gateway *gateway, struct bytes name);
void key_unwatch(struct key *key);

/* Frees all cached locks. */
void keys_close(struct gateway *gateway);

/* ---- operations ---- */

/* And what ends the locks whose time has passed. */
bool key_ops_open(struct gateway *gateway);
void key_ops_close(struct gateway *gateway);

/* Asks for the key; the operation may end before this returns. False: out of memory. */
bool key_op_begin(struct key_op *op, struct gateway *gateway, struct bytes key,
                  key_op_program *program, key_op_over *over);
/* For a program that begins: its effects apply to the lock that was observed earlier, if that is
 * still there. */
void key_op_assume(struct key_op *op, const struct observation *observation);
/* Reports the next step of a program that answered WAITS. */
void key_op_said(struct key_op *op, enum program_step step, const struct key_call *call,
                 const struct answer *result);
/* The result is no longer needed. True: the operation had not begun and is freed; false: it
 * continues to its end. */
bool key_op_abandon(struct key_op *op);

/* ---- step.c: the requests of an operation to the nodes: peek, acquire, extend, release ---- */

/* True: *value is the answer. False: the answer comes later, by key_op_go() or key_op_late(). */
bool step_call(struct key_op *op, const struct key_call *call, struct answer *value);
/* Frees what the last step needed. */
void step_close(struct key_op *op);
/* Of an operation that never ends, because the gateway does. */
void step_abandon(struct key_op *op);

/* ---- key.c, for step.c ---- */

/* Continues with the answer to the call. */
void key_op_go(struct key_op *op, const struct answer *answer);
/* The lock that this operation observed was replaced before the effect. `answer` is for an
 * operation that cannot restart. */
void key_op_late(struct key_op *op, const struct answer *answer);

#endif
