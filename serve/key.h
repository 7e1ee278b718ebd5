/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The keys that an operation uses now, or whose lock was taken through this gateway. This state is
 * a cache and never the truth: the truth is on the nodes. A gateway that has just started serves
 * every lock as well.
 */
#ifndef SERVE_KEY_H
#define SERVE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <redlock.h>

#include "script.h"
#include "observation.h"

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
    uint64_t not_kept; /* locks that did not fit */
};

struct key {
    struct gateway *gateway;
    TAILQ_HEAD(key_queue, key_op) queue; /* operations that want the key; the first one has it */
    struct redlock_lock *lock;           /* NULL: no lock is cached */
    int64_t ends_ns;                     /* when the key has expired on the nodes */
    int64_t believed_until_ns;
    struct event *end;
    struct script_bytes name; /* stored behind the struct */
};

/* NULL: out of memory. */
struct key *key_get(struct gateway *gateway, struct script_bytes name);
/* Frees the key when no operation uses it and no lock is cached. */
void key_rest(struct key *key);

/* Whether a lock of this name fits, by the number of cached locks and by their memory. */
bool keys_have_room(const struct gateway *gateway, struct script_bytes name);
/* The key owns the lock from now on. When it does not fit, the lock is freed and the nodes keep it.
 */
void key_keep(struct key *key, struct redlock_lock *lock, int64_t ends_ns);
/* Frees the cached lock, and leaves it as it is on the nodes. */
void key_forget(struct key *key);
/* Returns the cached lock if it is valid and has this token; else NULL. */
struct redlock_lock *key_lock(const struct key *key, const struct observation *observation);
/* Whether the gateway may answer from the cache, without asking the nodes; fills *observation. */
bool key_believed(const struct key *key, struct observation *observation);

/* Frees all cached locks. */
void keys_close(struct gateway *gateway);

#endif
