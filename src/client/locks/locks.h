/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks: made, taken, renewed, released, and waited for. What redlock.h says of them is in lock.c
 * and many.c; here is what the other rooms need. The mutex is held.
 */
#ifndef RL_CLIENT_LOCKS_H
#define RL_CLIENT_LOCKS_H

#include "client/client.h"

extern const size_t locks_bytes; /* of client->locks, which begins as zero */
void locks_init(struct redlock_client *client);
bool locks_reserve(struct redlock_client *client); /* the net is open; false: no memory */
void locks_free(struct redlock_client *client);    /* what it points to; memory only */
/* The schedule's: runs a lock's callbacks. */
void locks_report(struct notified *notified);
/* The client ends: callbacks that nobody waits for any more. */
void locks_untell(struct redlock_client *client);
/* Nodes came or went: acquisitions that wait for nodes look again. */
void locks_check(struct redlock_client *client);
/* The mode knows more of the nodes: extensions that wait for that go on. */
void locks_resume(struct redlock_client *client);

struct redlock_client *lock_client(const struct redlock_lock *lock);
/* An operation of another room's on a free lock: OK, and lock_give_back() follows once; or BUSY. */
int lock_borrow(struct redlock_lock *lock, redlock_done_fn *done, void *context);
/* By the user, whose memory must not be used then. */
bool lock_is_freed(const struct redlock_lock *lock);
void lock_give_back(struct redlock_lock *lock, int result);
/* Its whole key, prefix included; NULL: it has several. */
const struct net_bytes *lock_key(const struct redlock_lock *lock);
rl_ns lock_node_timeout(const struct redlock_lock *lock);

/* Answers. */
void lock_vote_reply(struct net_call *call, const struct net_reply *reply);
void lock_unlock_reply(struct net_call *call, const struct net_reply *reply);
void lock_peek_reply(struct net_call *call, const struct net_reply *reply);
void wait_queue_reply(struct net_call *call, const struct net_reply *reply);
/* As handlers.wake() in net.h. */
void wait_queue_wake(struct redlock_client *client, unsigned node, struct net_bytes key, int rank);

extern const struct lock_mode classic_locks, guarded_locks;

#endif
