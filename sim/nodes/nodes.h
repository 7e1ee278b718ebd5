/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The nodes of the world: their servers, and what these do with requests.
 */
#ifndef SIM_NODES_H
#define SIM_NODES_H

#include "node/queue.h"
#include "node/slots.h"
#include "queue.h"
#include "world/inside.h"

struct change { /* of one key, for restarts and replicas to roll back */
    rl_ns at;
    uint16_t resource;
    uint32_t token; /* 0: deleted */
    int64_t expires_ms;
};

/* A reader's place in a shared lock, or a change of it in a log. */
struct place {
    rl_ns at;
    uint32_t token;
    uint8_t resource;
    bool seen;
    int64_t expires_ms; /* 0: it is gone */
};
struct places {
    struct place *list;
    size_t count, capacity;
};

/* A change of record or fences, replayed up to the time to which a node rolls back. */
enum guard_change_kind { GUARD_RAISED, GUARD_WRITTEN, GUARD_RENAMED, GUARD_FLUSHED, GUARD_DELETED };
struct guard_change {
    rl_ns at;
    uint8_t what, stripes_count;
    bool was_kept, keep;
    uint16_t stripes[WORLD_RESOURCES_MAX];
    uint64_t nonce, expected;
    int64_t fence;
    struct message_body *body;
};

struct server {
    struct world *world;
    unsigned node;
    char url[16];
    /* the old incarnation of a node whose replica has taken its place: its keys are not the node's
     */
    bool old;
    uint32_t process; /* numbers the server processes of the world: each has its own run_id */
    char run_id[41];
    unsigned list;       /* number of the member list in its record; 0: none ... */
    uint64_t identity;   /* ... and the identity of this node in it */
    bool intact;         /* the record says so, for this process and these data */
    int64_t ttl_allowed; /* by the record, in milliseconds */
    /* What the server reports about itself. */
    char replid[41];
    bool replica, may_evict;
    /* no data were lost since it was installed; its record cannot know this by itself */
    bool sound;
    rl_ns resync_to;  /* as a replica: the time whose data it will have */
    uint32_t resyncs; /* numbers the resyncs; a promotion cancels one that is not done */
    uint32_t replicas;
    uint64_t evicted, evicted_before; /* the latter: when its body began */
    bool record_changed;              /* and not announced yet, ... */
    const struct link *changer;       /* ... to all links but this one; NULL: to all */
    uint32_t changer_connection;
    struct random announcements_random;
    struct guard_change *guard;
    size_t guard_count, guard_capacity;
    bool native;
    struct node_table *keys;  /* what a stock server has; a native node: copies of its locks ... */
    struct node_table *own;   /* ... which are here; NULL: it has never been native */
    struct node_table *table; /* the one of them on which its votes rest */
    struct sim_clock clock;   /* the wall clock: keys end by it, ... */
    struct sim_clock boot;    /* ... and the locks of a native node by CLOCK_BOOTTIME */
    bool up, paused;
    int mode;         /* a verdict; GRANTED: normal */
    uint32_t counted; /* server_clients(), at ... */
    rl_ns counted_at;
    uint64_t received;       /* messages, while it was up */
    struct messages backlog; /* requests in its sockets while it is stopped */
    struct change *changes;
    size_t changes_count, changes_capacity;
    /* The readers that are listed, as the history knows them; their changes; those of old data. */
    struct places places, places_log, places_then;
    rl_ns expiry_at;     /* time of the event that removes expired keys; RL_NEVER: none */
    rl_ns ends_at;       /* native: the same for its locks */
    struct queue *queue; /* the waiters of each resource, or of its slots; world->names */
    /* The announcement of a leader, by resource: its text, a token's number; 0: none. */
    struct announced {
        uint32_t text;
        int64_t expires_ms;
    } announced[WORLD_RESOURCES_MAX];
    struct node_queue *turns; /* native: the same; NULL: an old process */
    rl_ns turns_at;           /* native: time of the event for its queue */
    /* For the steps of guarded mode: the number of its body (proof/README.md), whether it has
     * become another one since that was printed, and its keys. */
    uint32_t body;
    bool body_changed;
    struct steps_key body_keys[WORLD_KEYS_MAX];
    bool raised; /* the write of its record that is under way raises its fences */
};

/* The parts of a request as src/node takes them. */
struct node_request {
    struct node_bytes keys[WORLD_RESOURCES_MAX], token;
    size_t count;
    int64_t now_ms;
};
struct rl_record;
/* server_state.c */
struct node_bytes resource_key(unsigned resource); /* below WORLD_NAMES_MAX */
int resource_of(const void *key, size_t bytes);    /* -1: not a resource of the world */
const struct node_bytes *server_slot_names(void);  /* NODE_SLOTS_MAX */
int64_t server_wall_ms(const struct server *server);
int64_t server_now_ms(const struct server *server); /* by the clock that ends its locks */
void run_id_write(const struct world *world, uint32_t process, char run_id[41]);
void server_new_process(struct server *server);
void server_new_replid(struct server *server);
bool server_refuses_all(const struct server *server); /* even handshakes */
int server_mode(const struct server *server); /* its answer to writes; GRANTED: it executes them */
int16_t verdict_of(enum node_answer answer);
struct node_request node_request(const struct server *server, const struct message *request);
bool server_guard_record(const struct server *server, struct rl_record *record); /* false: none */
struct history_record server_record(const struct server *server, enum history_kind kind);
void server_write(const struct server *server, enum history_kind kind, int64_t value);
/* server.c: its tables, and requests */
struct node_table *server_table_new(void); /* of keys, and reports nothing */
struct node_table *server_table_of(struct server *server, bool native); /* a new one */
void servers_begin(struct world *world);
void servers_free(struct world *world);
void server_receive(struct world *world, struct message *request);
/* executes at once, even if the server is stopped */
void server_serve(struct server *server, struct message *request);
void server_forget_ends(struct server *server); /* before server_await_expiry(): clocks changed */
void server_read(struct server *server, struct message *request);
void server_acquire_slot(struct server *server, struct message *request);
void server_write_op(struct server *server, struct message *request); /* without fences */
void server_await_expiry(struct server *server); /* call after each change of a key's end */
/* readers.c: shared locks */
void readers_begin(struct server *server);
void readers_free(struct server *server);
void readers_serve(struct server *server, struct message *request); /* SHARE, _EXTEND, _RELEASE */
void readers_count(struct server *server, struct message *request); /* READERS */
bool readers_hold(struct node_bytes value); /* a key with this value is shared */
bool readers_would_change(struct server *server, const struct message *request);
void readers_look(struct server *server); /* after anything that may change a list or its key */
void readers_go_back(struct server *server, struct node_table *table, rl_ns as_of);
/* server_native.c: what the module does with its locks and with their copies among the keys */
void native_begin(struct server *server, bool native); /* a new process: its table is empty */
void native_changed(struct server *server, enum node_change change, struct node_bytes key,
                    struct node_bytes token, int64_t expires_ms);
bool native_is_anothers(struct server *server, const struct node_request *what);
void native_adopt(struct server *server, const struct node_request *what, int64_t ttl_ms);
enum node_answer native_release(struct server *server, const struct node_request *what);
void native_copy(struct server *server, const struct node_request *what);
int64_t native_pttl(struct server *server, struct node_bytes key);
struct node_bytes native_get(struct server *server, struct node_bytes key);
void native_deny(struct server *server, struct message *request);
/* Slots that only the keyspace has: bars them. Returns the other number with which one is held; 0:
 * none. *left_ms: until the first of them ends; -1: unknown. */
unsigned native_bar_slots(struct server *server, struct node_slot_request *what, int64_t *left_ms);
enum node_answer native_share(struct server *server, struct message *request,
                              const struct node_share *share); /* the same three */
/* turns.c: the wait queue of a native node */
void turns_begin(struct server *server, bool on);
rl_ns turns_next(const struct server *server, world_fn **look); /* when to look at it again */
void turns_freed(struct server *server, struct node_bytes key);
enum node_answer turns_acquire(struct server *server, struct message *request,
                               const struct node_request *what,
                               const struct node_fence_request *fences);
enum node_answer turns_share(struct server *server, struct message *request,
                             const struct node_share *share);
/* `what` without what only the keyspace has. */
enum node_answer turns_share_extend(struct server *server, const struct node_share *share);
struct node_slot_answer turns_acquire_slot(struct server *server, struct message *request,
                                           struct node_slot_request *what);
void turns_serve(struct server *server, struct message *request); /* TURN_* */
/* server_faults.c */
void servers_heal(struct world *world);
/* notify.c: client tracking, the wait queues, and announcements */
void notify_serve(struct server *server, struct message *request); /* WATCH, WAIT_QUEUE_* */
void notify_track(struct server *server, struct message *request);
void notify_changed(struct server *server, unsigned resource, bool expired);
void notify_flushed(struct server *server);
void notify_waiter(struct server *server, uint32_t waiter, int resource, int rank);
/* the client received it, or it was lost */
void notify_record(struct world *world, enum history_kind kind, const struct message *hint);
void server_forget_waiters(struct server *server);
uint32_t server_clients(struct server *server); /* that are notified of such changes */
void server_announce(struct server *server);    /* all data changed: sent before any later answer */
/* changed by the request that is served, or by a stranger: announced soon */
void server_record_changed(struct server *server);
void server_announce_record(struct server *server); /* if it has changed: now */
/* server_guard.c: record and fences */
void server_guard_begin(struct world *world); /* writes the records that `redlock up` would write */
void server_guard_serve(struct server *server, struct message *request);
void server_guard_go_back(struct server *server, struct node_table *table, rl_ns as_of);
void server_guard_forget(struct server *server);
void server_guard_flushed(struct server *server);
bool server_guard_delete(struct server *server); /* only the record; false: it has none */
/* call after anything that may change whether the record is intact */
void server_guard_check(struct server *server);
uint64_t server_guard_quorum(const struct server *server); /* id in its record; 0: none */
/* announced.c */
void announced_serve(struct server *server, struct message *request); /* ANNOUNCE, TERM */
/* member_lists.c */
/* A list of members, as in a record. */
struct member_list {
    uint64_t quorum_id;
    uint32_t epoch;
    unsigned count;
    uint64_t id[RL_NODES_MAX];
    uint8_t node[RL_NODES_MAX];
    rl_mask nodes;
};
unsigned world_list_of(struct world *world, const struct rl_record *record);
const struct member_list *world_newest_list(const struct world *world); /* on an intact node */
/* steps_guarded.c: what steps.h says of bodies; these do nothing unless the options ask for it */
void steps_guarded_begin(struct world *world);
void steps_served(struct server *server, const struct message *message);
void steps_body(struct server *server); /* its record was written, or it is another body */
void steps_body_key(struct server *server, enum node_change change, unsigned resource,
                    uint32_t token, int64_t expires_ms);
/* steps_membership.c: what steps.h says of records */
void steps_members(const struct server *server); /* its record was written or lost */
void steps_read(const struct server *server, const struct message *message);

#endif
