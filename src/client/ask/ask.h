/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Asks some nodes, outlives the asker, counts the answers. This room knows no lock. The mutex is
 * held. */
#ifndef RL_CLIENT_ASK_H
#define RL_CLIENT_ASK_H

#include "client/client.h"

/* ---- ask.c ---- */

struct question;
/* An answer has come. True: the asker does not wait for the rest. */
typedef bool ask_answered_fn(struct question *question, unsigned node,
                             const struct net_reply *reply);

/* What goes to some nodes. It owns its calls, so a script that must be sent twice does not wait for
 * those of other questions (net/conn/send.c). */
struct question {
    struct ask *ask;
    struct net_request request;
    struct net_bytes keys[2];
    struct net_call *calls; /* by node */
    /* By node, copies of what it answered, each with items and value in one block; verdict NONE: it
     * has not answered. NULL: the asker takes the replies themselves. */
    struct net_reply *answers;
};

/* The struct of an asker begins with this. It has copies of all that it sends, and stays until the
 * last node has answered, which may be after the asker has gone. */
struct ask {
    struct redlock_client *client;
    unsigned refs; /* one for the asker, one for each busy call */
    size_t pending;
    rl_ns until;
    void *asker;            /* NULL: it has gone, and nobody needs the answers */
    struct ask *next, **at; /* in the asker's list; `at` is NULL outside it */
    struct waiter *waiter;
    ask_answered_fn *answered;
    struct question *questions;
    size_t questions_count;
    unsigned char *room;
};

/* `size`: of the struct that begins with the ask. `bytes`: the room for copies. With `answered`
 * NULL all answers are kept. NULL: no memory. */
void *ask_new(struct redlock_client *client, size_t size, size_t questions, size_t bytes,
              ask_answered_fn *answered);
void ask_unref(struct ask *ask);
/* From now on the ask is one of the asker's, which need not keep its reference. */
void ask_join(struct ask *ask, void *asker, struct ask **asks);
void asks_leave(struct ask **asks); /* the asker goes */

/* Takes `bytes` of the room; the first ones are aligned for any object. */
void *ask_room(struct ask *ask, size_t bytes);
struct net_bytes ask_copy(struct ask *ask, struct net_bytes from);
/* `head`, the client's prefix, the resource. */
struct net_bytes ask_key(struct ask *ask, const char *head, struct net_bytes resource);

/* `request`: the question's own, or another one that stays as long. Returns the nodes that were
 * asked. `until`: an answer after this time is late. */
rl_mask ask_send(struct question *question, rl_mask nodes, const struct net_request *request,
                 rl_ns until);
/* Waits for all that was sent. Answers that come later are not kept. */
void ask_wait(struct ask *ask);

/* Keeps the answer: for an `answered` that was set later. */
void ask_keep(struct question *question, unsigned node, const struct net_reply *reply);
/* The node says what it holds. */
static inline bool is_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_WRONGTYPE;
}
static inline enum rl_vote vote_of(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_GRANTED: return RL_VOTE_GRANTED;
    case REDLOCK_VERDICT_DENIED: return RL_VOTE_DENIED;
    case REDLOCK_VERDICT_ABSENT: return RL_VOTE_ABSENT;
    case REDLOCK_VERDICT_STALE: return RL_VOTE_STALE;
    default: return RL_VOTE_FAILED;
    }
}
/* `silent`: the verdict if it has not answered. Returns is_answer(). */
bool ask_view(const struct net_reply *answer, int silent, struct redlock_view *view);
int ask_silence(struct redlock_client *client, unsigned node); /* why it does not answer */

/* Whether the client may use this name. */
static inline bool ask_fits(const struct redlock_client *client, const void *resource,
                            size_t bytes) {
    return resource && bytes > 0 &&
           bytes <= REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes;
}
static inline bool begins_with(struct net_bytes key, const char *head) { /* and goes on */
    return key.bytes > strlen(head) && memcmp(key.data, head, strlen(head)) == 0;
}
static inline struct net_bytes bytes_after(struct net_bytes whole, size_t head) {
    return (struct net_bytes){(const char *)whole.data + head, whole.bytes - head};
}

/* ---- gather.c ---- */

/* How long a look at the nodes waits for the others when a majority is connected. One that hangs
 * is left out; one that is far away has connected by then. */
#define LOOK_PATIENCE (250 * RL_MS)

/* Waits until every node is connected or has failed. Returns the nodes that are ready. */
rl_mask gather(struct redlock_client *client, rl_ns until);
rl_ns gather_until(struct redlock_client *client); /* now plus the connect timeout */
/* Waits like gather(), at most until gather_until(), but not longer than `patience` for the other
 * nodes once so many may vote: one of them may hang. */
void gather_majority(struct redlock_client *client, unsigned quorum, rl_ns patience);
/* Nodes came or went. */
void gatherings_check(struct redlock_client *client);

#endif
