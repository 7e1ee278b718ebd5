/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's commands: init, add, remove. Blocking procedures over the client's own
 * connections, while its guard goes on in the background. Whatever they write is a compare-and-set
 * on what they read: who comes second reads again. So they hold no lock between two questions, and
 * can be interrupted anywhere.
 */
#ifndef RL_CLIENT_QUORUM_H
#define RL_CLIENT_QUORUM_H

#include "redlock/admin.h"
#include "client/guarding/guarding.h"
#include "client/operator/operator.h"

/* One node of the client, as it was last heard. */
struct quorum_seat {
    const char *url;
    int verdict; /* of the last question; GRANTED, ABSENT and DENIED are answers */
    bool heard;  /* the last reading of its record was answered: `empty`, or `unreadable`, or
                    `record` */
    bool empty, unreadable;
    char run_id[RL_RUN_ID_BYTES]; /* of the server that answered then ... */
    struct net_state state;       /* ... and what it said of itself ahead of it */
    struct rl_record record;
    struct rl_record writing; /* for quorum_write() */
};

struct quorum_work {
    struct redlock_client *client;
    struct redlock_quorum_options options;
    struct redlock_error error; /* of the last try */
    unsigned nodes;
    uint64_t quorum_id; /* the one that is meant: pinned, or taken by the client; 0: the only one
                           that the records name */
    bool pinned;
    int adding;     /* which node a change is to add, whatever its record says; -1: none */
    bool no_memory; /* some question could not be asked for that */
    bool no_random; /* some id or nonce could not be drawn: nothing is written from then on */
    struct quorum_seat seat[RL_NODES_MAX];
    struct rl_guard view; /* what the records say together; by quorum_look() */
    int64_t floor[RL_STRIPES];
};

/* quorum_ask.c: questions. Each waits for its answers, at most the connect timeout; the mutex is
 * not held. */
rl_mask
quorum_connect(struct quorum_work *work); /* waits as acquiring does; nodes that can be asked */
rl_mask quorum_read(struct quorum_work *work, rl_mask nodes); /* records; nodes that were heard */
rl_mask quorum_look(struct quorum_work *work);                /* reads all and works out `view` */
void quorum_judge(struct quorum_work *work);                  /* `view` again, of what was read */
/* Writes seat[].writing with a fresh nonce over what was read, for the server and the data that it
 * was read of; `floor`: raises all stripes to work->floor. Returns the nodes of which it is known
 * that they took it; seat[].record is then the new one. */
rl_mask quorum_write(struct quorum_work *work, rl_mask nodes, bool floor);
/* Raises work->floor to the fences of those intact, or to the kept ones. Returns who answered, in
 * `without` who has none. A node whose data are not those that its record was read of has not
 * answered. */
rl_mask quorum_fences(struct quorum_work *work, rl_mask nodes, bool kept, rl_mask *without);

/* quorum_wait.c */
uint64_t quorum_random(struct quorum_work *work); /* 0: there is none, and no_random is set */
int64_t
quorum_wall_us(struct quorum_work *work); /* 0: it is out of range, or the client was forked */
rl_ns quorum_now(struct quorum_work *work);
rl_ns quorum_quarantine(const struct quorum_work *work, int64_t ttl_ms);
void quorum_pause(struct quorum_work *work, rl_ns span);
void quorum_pause_randomly(struct quorum_work *work,
                           unsigned tries); /* longer with each: others are at it as well */
void quorum_tell(struct quorum_work *work, const char *text, rl_ns left); /* left < 0: not known */
/* Waits so long, telling `text`; looks every second whether it goes on. False: `unbroken` said
 * no. */
bool quorum_wait(struct quorum_work *work, rl_ns span, const char *text,
                 bool (*unbroken)(struct quorum_work *, void *), void *context);
int quorum_fail(struct quorum_work *work, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int quorum_fail_random(struct quorum_work *work); /* SYSTEM: some bytes could not be drawn */
/* NO_QUORUM: "URL: what it said (detail). cure" */
int quorum_fail_node(struct quorum_work *work, unsigned node, const char *cure);

/* quorum_check.c */
int quorum_check_fit(struct quorum_work *work, rl_mask nodes); /* that were looked at */
/* TWO_QUORUMS: the node's, and another one that is meant. */
int quorum_fail_other(struct quorum_work *work, unsigned node, uint64_t meant);
/* A majority is intact, and none belongs to another quorum but the one that is to be added; node
 * -1: none is. */
int quorum_check_members(struct quorum_work *work, int node);
int quorum_check_change(struct quorum_work *work, const struct rl_change *change, int node);

/* quorum.c */
/* Heard, and its record is for the server that is there, and for the data that it has. */
bool quorum_same_server(const struct quorum_seat *seat);

/* quorum_plan.c */
struct quorum_plan {
    struct rl_record record; /* what all nodes get, but for what is a node's own */
    bool never_intact;       /* whatever is there was left by an init that came to nothing */
    /* The longest ttl_max that is known: locks that may be held there have ended when it has
     * passed. 0: none is known. */
    int64_t ttl_max_ms_longest;
};
int quorum_plan_begin(struct quorum_work *work,
                      struct quorum_plan *plan); /* may what was found be written over? */
void quorum_plan_records(struct quorum_work *work, struct quorum_plan *plan);
const struct rl_record *quorum_record_at(const struct quorum_work *work,
                                         unsigned node); /* NULL: none that can be read */
uint64_t quorum_loss_of_init(uint64_t quorum_id, uint32_t epoch);
bool quorum_is_of_init(const struct rl_record *record);
const struct rl_member *quorum_member_at(const struct quorum_work *work,
                                         const char *url); /* NULL: it is none */
/* The member that the node is to be; 0: it has a record that is not to be written over, or is no
 * member. */
uint64_t quorum_left_by_other(const struct quorum_work *work, unsigned node);

int quorum_init(struct quorum_work *work); /* quorum_init.c */
int quorum_change(struct quorum_work *work, struct rl_change *change,
                  int node); /* quorum_change.c; node -1: remove */
/* Writes the node down as that member, as if it had lost its data: clients bring it back. 0: that
 * could not be done. */
rl_mask quorum_claim(struct quorum_work *work, unsigned node, uint64_t id);
/* quorum_settle.c: brings the epoch that is there to its end. `last`: the change that made it;
 * NULL: not known. */
int quorum_settle(struct quorum_work *work, const struct rl_change *last);

#endif
