/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The keys that somebody is busy with, or whose lock was taken through this gateway. What is kept
 * here is a help, never the truth: that is on the nodes, and a gateway that has just started serves
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

/* A lock kept here is believed this long after a majority of the nodes has said so; then they are
 * asked again. So what was deleted through another gateway is noticed soon, and a crowd that asks
 * for one key costs the nodes ten looks a second. */
#define KEY_BELIEVED_NS INT64_C(100000000)
/* More locks, or more bytes (--lock-memory), are not kept: they are found again on the nodes when
 * they are asked for. */
#define KEYS_KEPT_MAX 65536

/* What a lock takes, apart from its name, which is here and in the library's lock; measured. */
#define KEY_LOCK_BYTES 1024

struct event;
struct gateway;
struct key_op;

struct keys {
    void *tree; /* tsearch(3) */
    size_t kept, kept_bytes;
    uint64_t not_kept; /* locks that there was no room for */
};

struct key {
    struct gateway *gateway;
    TAILQ_HEAD(key_queue, key_op) queue; /* who wants it; the first has the key */
    struct redlock_lock *lock;           /* NULL: none is kept here */
    int64_t ends_ns;                     /* when the nodes will have forgotten it */
    int64_t believed_until_ns;
    struct event *end;
    struct script_bytes name; /* behind the struct */
};

/* NULL: out of memory. */
struct key *key_get(struct gateway *gateway, struct script_bytes name);
/* Forgets the key when nobody is busy with it and no lock is kept. */
void key_rest(struct key *key);

/* Whether a lock of this name can be kept: by the number of the others, and by what they take. */
bool keys_have_room(const struct gateway *gateway, struct script_bytes name);
/* The key owns the lock from now on. Where there is no room for it, the lock is forgotten. */
void key_keep(struct key *key, struct redlock_lock *lock, int64_t ends_ns);
/* Forgets the lock, and leaves it as it is on the nodes. */
void key_forget(struct key *key);
/* The kept lock, if its validity lasts and it has this token; else NULL. */
struct redlock_lock *key_lock(const struct key *key, const struct observation *observation);
/* Whether what is kept may be answered without asking the nodes; fills *observation. */
bool key_believed(const struct key *key, struct observation *observation);

/* Forgets all of them. */
void keys_close(struct gateway *gateway);

#endif
