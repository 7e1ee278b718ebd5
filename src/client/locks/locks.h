/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks: made, taken, renewed, released, and waited for. lock.c and many.c have the functions of
 * redlock.h; this header has what the rest of src/client needs. The mutex is held. */
#ifndef RL_CLIENT_LOCKS_H
#define RL_CLIENT_LOCKS_H

#include "client/client.h"

extern const size_t locks_bytes; /* of client->locks, which starts as zeros */
void locks_init(struct redlock_client *client);
bool locks_reserve(struct redlock_client *client); /* the net is open; false: no memory */
void locks_free(struct redlock_client *client);    /* frees what it points to; memory only */
/* For the schedule: runs a lock's callbacks. */
void locks_report(struct notified *notified);
/* The client ends: removes callbacks that no caller waits for any more. */
void locks_drop_callback(struct notified *notified);
/* Nodes came or went: acquisitions that wait for nodes check again. */
void locks_check(struct redlock_client *client);
/* The client ends. True: late nodes still get keys of disowned locks. */
bool locks_disowned(const struct redlock_client *client);
void locks_end_disowned(struct redlock_client *client);
/* The mode knows more of the nodes: extensions that wait for that continue. */
void locks_resume(struct redlock_client *client);

/* A clock was measured to run faster: leases that it shortens end earlier, or are lost. */
void locks_shorten(struct redlock_client *client);

/* Mode auto has become guarded. Acquisitions under way begin again as guarded; locks that are held
 * as classic are lost. */
void locks_turn_guarded(struct redlock_client *client);

struct redlock_client *lock_client(const struct redlock_lock *lock);
/* As it was made. */
const struct redlock_lock_options *lock_options(const struct redlock_lock *lock);
/* An operation of another part of the client on a free lock. OK: lock_give_back() must follow once;
 * or BUSY. `stop` fires when lock_is_stopped() becomes true; NULL: the operation ends soon. */
int lock_borrow(struct redlock_lock *lock, redlock_done_fn *done, void *context,
                struct net_timer *stop);
bool lock_is_stopped(const struct redlock_lock *lock); /* cancelled or freed */
/* The user has freed the lock, so the user's memory must not be used. */
bool lock_is_freed(const struct redlock_lock *lock);
void lock_give_back(struct redlock_lock *lock, int result);
/* Its whole key, prefix included; NULL: it has several keys. */
const struct net_bytes *lock_key(const struct redlock_lock *lock);
rl_ns lock_node_timeout(const struct redlock_lock *lock);

/* False, with the reason: what nodes keep of locks is there, so no lock can be. The mutex need not
 * be held. */
bool resource_permitted(const struct redlock_client *client, struct redlock_bytes resource,
                        struct redlock_error *error);

/* See handlers.wake() in net.h. */
void wait_queue_wake(void *client, unsigned node, struct net_bytes key, int rank);

extern const struct lock_mode classic_locks, guarded_locks;

#endif
