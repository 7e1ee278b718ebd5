/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of the world, for the files that implement it: world.c (time), message.c, wire.c
 * (the network), server.c (the nodes), actor.c (the clients) and net.c (src/net/net.h on top of
 * them).
 */
#ifndef SIM_INSIDE_H
#define SIM_INSIDE_H

#include "clock.h"
#include "memory.h"
#include "net/net.h"
#include "node/queue.h"
#include "queue.h"
#include "random.h"
#include "node/slots.h"
#include "world.h"

/* ---- events of the future ---- */

/* A heap, ordered by (time, order of calls). It is never ordered by an address: runs would differ
 * between machines. */
struct events {
    struct event {
        rl_ns at;
        uint64_t sequence;
        world_fn *fn;
        void *argument;
        int64_t number;
    } * heap;
    size_t count, capacity;
    uint64_t sequence;
};

/* ---- tokens: each gets a number when it is first sent ---- */

struct tokens {
    char *bytes;
    size_t bytes_count, bytes_capacity;
    struct token {
        size_t at, bytes;
    } * each; /* [number - 1] */
    size_t count, capacity;
    uint32_t *slots; /* open addressing: numbers, 0 free */
    size_t slots_count;
};
uint32_t token_number(struct tokens *tokens, struct net_bytes bytes);
struct net_bytes token_bytes(const struct tokens *tokens, uint32_t number);
void tokens_clear(struct tokens *tokens);

/* ---- messages: a request, and then its answer ---- */

/* The large parts that few messages have: the fields of a record, the text of a server info, the
 * fences. Each belongs to one message, or to one entry in the log of a node. */
enum { BODY_TEXT = 16384, BODY_WORDS = 64 };

struct message_body {
    struct message_body *next; /* in the list of spare bodies */
    struct message_body *all;  /* in the list of all bodies */
    size_t words_count, text_bytes;
    struct word {
        uint16_t at, bytes;
    } words[BODY_WORDS];
    bool has_fences;
    char text[BODY_TEXT];
    int64_t fences[NODE_STRIPES];
};
struct message_body *body_new(struct world *world);
void body_drop(struct world *world, struct message_body *body); /* NULL is allowed */
void body_add(struct message_body *body, const void *data, size_t bytes);
struct net_bytes body_word(const struct message_body *body, size_t index);
void body_set_fences(struct message_body *body, const int64_t *fences);

enum { WAITER_BYTES_MAX = 40 };

enum message_what {
    MESSAGE_CONNECT, /* the TCP and Redis handshakes, in one */
    MESSAGE_REQUEST,
    MESSAGE_BYE,         /* to the client: the connection is closed */
    MESSAGE_TRACK,       /* the second connection, and the request for notifications on it */
    MESSAGE_HINT,        /* an unrequested message of a node; without keys: about any key */
    MESSAGE_ANNOUNCEMENT /* on the connection of the requests: the record, or all data, changed */
};

/* A guarded acquisition of one key is two commands, SET and ZADD, which may arrive in two pieces.
 */
enum message_part { PART_WHOLE, PART_FIRST, PART_SECOND };

struct message {
    struct message *next;
    rl_ns arrives_at;
    uint32_t number;     /* in the history */
    uint32_t connection; /* the number of its connection on its link */
    uint32_t token, value;
    uint8_t client, slot;
    uint8_t what, op;
    uint8_t keys_count, keys[WORLD_RESOURCES_MAX]; /* resources */
    uint8_t present;                               /* SCAN: resources whose keys exist */
    bool all;                                      /* ANNOUNCEMENT: all data changed */
    bool breaks; /* lost: the connection breaks when the message would arrive */
    int16_t verdict;
    int64_t ttl_ms, remaining_ms;
    uint32_t process; /* CONNECT: the server process that answered ... */
    bool native;      /* ... and whether it is a native node */
    uint64_t quorum;  /* CONNECT: the id in its record; 0: it has none */
    /* For messages of waiting callers. */
    uint32_t waiter;
    int rank;          /* HINT; -1: the key has changed */
    rl_ns notified_at; /* HINT */
    bool passes;
    int64_t age_us, since_us, remember_us, count;
    bool reads;         /* TURN_WAIT, SHARE */
    uint8_t name_bytes; /* a native node's waiter */
    char name[WAITER_BYTES_MAX];
    /* For guarded mode. */
    bool guarded;
    bool stranger; /* the commands and scripts of another project: on plain keys */
    uint8_t part, question, stripes_count;
    uint16_t stripes[WORLD_RESOURCES_MAX];
    /* ACQUIRE_SLOT: how many there are, those to try; the answer: the slot, or another number. */
    uint8_t slots, order_count, order[WORLD_SLOTS_MAX], given, other_slots;
    bool was_kept, keep;
    uint64_t nonce, expected;
    uint64_t added; /* BREAK: to the nonce */
    int64_t fence;
    struct message_body *body;
};

struct messages {
    struct message *head, *tail;
};
void messages_push(struct messages *queue, struct message *message);
struct message *messages_pop(struct messages *queue);
void messages_drop(struct world *world, struct messages *queue);
struct message *message_new(struct world *world);
void message_free(struct world *world, struct message *message);
void messages_begin(struct world *world);
void messages_free(struct world *world); /* with tokens and bodies */

/* ---- the network ---- */

/* One direction of one connection. Messages arrive in the order of sending, as with TCP. */
struct channel {
    struct messages under_way;
    rl_ns last; /* the arrival time of the last message */
    /* of the event for the first arrival: events of earlier generations are stale */
    uint32_t generation;
    bool awaited;
    bool stalled; /* the first message has come to a cut */
};

enum way { WAY_REQUESTS, WAY_ANSWERS, WAY_HINTS, WAYS };

/* Between a client and one entry of its node list, for one connection at a time. Each entry has
 * two: a client tries a fresh connection next to the one on which an answer is overdue. */
struct link {
    uint8_t client, slot; /* its place in links.link */
    bool fresh;           /* the other one of the pair is the client's main one */
    unsigned node;
    int moves_to;        /* the node that the next connections reach; -1: the same */
    uint32_t connection; /* numbers its connections */
    uint32_t hole;       /* the number of the one that is a black hole; 0: none */
    bool left; /* the client has closed it, and requests are still on their way to the node */
    bool open; /* the node has the connection open */
    bool old;  /* connected to the old incarnation of a node whose replica has taken its place */
    int16_t set_verdict; /* the SET's answer, until its ZADD arrives */
    unsigned cut;        /* enum link_way */
    rl_ns delay_next;
    bool lose_next_answer;
    struct channel channels[WAYS];
    struct random random;
    /* The unrequested messages of its node. */
    struct random hints_random;
    uint32_t tracks; /* number of the connection that tracks; 0: none */
    uint8_t armed;   /* resources, by bits, that were read and have not changed since */
    bool wakes_lost, wakes_again;
    /* Guarded clients: the node announces its changes among the answers. */
    bool guarded;     /* the client requests it */
    bool asks_quorum; /* the handshake reports a record, and is guarded where there is one */
    bool announces;   /* the node does it, on this connection */
    bool native;      /* the node was found to be native: an acquisition is one command */
    struct random announcements_random;
};

struct links { /* of one client */
    unsigned slots;
    struct link link[2 * RL_NODES_MAX]; /* the pairs are RL_NODES_MAX apart */
    uint32_t waiter; /* the number by which nodes know it as a waiter; 0: it has not waited yet */
};

/* The links of all clients, one after the other; `before` NULL: the first. NULL: no more. */
struct link *link_next(struct world *world, const struct link *before);
/* The main ones between these two, in the same way. */
struct link *link_between(struct world *world, unsigned client, unsigned node,
                          const struct link *before);
struct link *link_of(struct world *world, const struct message *message);
/* A new message on the present connection. */
struct message *message_on(struct world *world, const struct link *link, enum message_what what);

void wire_connect(struct world *world, struct link *link);
void wire_send(struct world *world, struct message *request);
void wire_answer(struct world *world, struct message *answer);
/* on a connection of its own */
void wire_notify(struct world *world, struct message *hint, rl_ns late);
/* its data changed, not only the record */
void wire_announce(struct world *world, struct link *link, bool all);
/* The client closes the connection: messages that have not arrived are lost. */
void wire_reset(struct world *world, struct link *link);
/* The same, but requests that are on their way still arrive: the reset comes after them. */
void wire_leave(struct world *world, struct link *link);
/* The client process has ended, and messages to it are lost with it. (A mere reset leaves them
 * under way: a message from an earlier connection must not matter.) */
void wire_end(struct world *world, unsigned client);
/* old: of its earlier incarnation */
void wire_node_died(struct world *world, unsigned node, bool old);
void wire_node_splits(struct world *world, unsigned node);
void wire_heal_all(struct world *world);
void link_write(struct world *world, enum history_kind kind, unsigned client, unsigned node,
                int64_t value);

/* ---- nodes ---- */

struct change { /* of one key, for restarts and replicas to roll back */
    rl_ns at;
    uint8_t resource;
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
    uint64_t evicted;
    bool record_changed;        /* and not announced yet, ... */
    const struct link *changer; /* ... to all links but this one; NULL: to all */
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
    int mode;                /* a verdict; GRANTED: normal */
    struct messages backlog; /* requests in its sockets while it is stopped */
    struct change *changes;
    size_t changes_count, changes_capacity;
    /* The readers that are listed, as the history knows them; their changes; those of old data. */
    struct places places, places_log, places_then;
    rl_ns expiry_at; /* time of the event that removes expired keys; RL_NEVER: none */
    rl_ns ends_at;   /* native: the same for its locks */
    struct queue queue[WORLD_KEYS_MAX]; /* the waiters of each resource, or of its slots */
    /* The announcement of a leader, by resource: its text, a token's number; 0: none. */
    struct announced {
        uint32_t text;
        int64_t expires_ms;
    } announced[WORLD_RESOURCES_MAX];
    struct node_queue *turns; /* native: the same; NULL: an old process */
    rl_ns turns_at;           /* native: time of the event for its queue */
    /* For the steps of guarded mode: the number of its body (docs/proof.md), whether it has become
     * another one since that was printed, and its keys. */
    uint32_t body;
    bool body_changed;
    struct steps_key {
        uint32_t token;
        int64_t expires_ms;
    } body_keys[WORLD_KEYS_MAX];
};

/* Wall clocks show a day of 2026, and differ slightly from each other. */
#define WALL_BEGIN (INT64_C(1767225600000) * RL_MS)
#define WALL_SPREAD (2000 * RL_MS)
#define BOOT_BEGIN                                                                                 \
    (INT64_C(3600000) * RL_MS) /* CLOCK_BOOTTIME, an hour after its machine started */

void run_id_write(const struct world *world, uint32_t process, char run_id[41]);
int16_t verdict_of(enum node_answer answer);
/* The parts of a request as src/node takes them. */
struct node_request {
    struct node_bytes keys[WORLD_RESOURCES_MAX], token;
    size_t count;
    int64_t now_ms;
};
struct node_request node_request(const struct server *server, const struct message *request);
struct node_table *server_table_new(void); /* of keys, and reports nothing */
struct node_table *server_table_of(struct server *server, bool native); /* a new one */
int server_mode(const struct server *server); /* its answer to writes; GRANTED: it executes them */
void server_new_process(struct server *server);
void server_new_replid(struct server *server);
void servers_begin(struct world *world);
void servers_free(struct world *world);
void server_receive(struct world *world, struct message *request);
/* executes at once, even if the server is stopped */
void server_serve(struct server *server, struct message *request);
int64_t server_wall_ms(const struct server *server);
int64_t server_now_ms(const struct server *server); /* by the clock that ends its locks */
void server_forget_ends(struct server *server); /* before server_await_expiry(): clocks changed */
bool server_refuses_all(const struct server *server); /* even handshakes */
void server_read(struct server *server, struct message *request);
void server_acquire_slot(struct server *server, struct message *request);
const struct node_bytes *server_slot_names(void);                     /* NODE_SLOTS_MAX */
void server_write_op(struct server *server, struct message *request); /* without fences */
void server_await_expiry(struct server *server); /* call after each change of a key's end */
/* readers.c: shared locks */
void readers_begin(struct server *server);
void readers_free(struct server *server);
void readers_serve(struct server *server, struct message *request); /* SHARE, _EXTEND, _RELEASE */
void readers_count(struct server *server, struct message *request); /* READERS */
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
struct history_record server_record(const struct server *server, enum history_kind kind);
void server_write(const struct server *server, enum history_kind kind, int64_t value);
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
void server_announce(struct server *server); /* all data changed: sent before any later answer */
/* changed by the request that is served, or by a stranger: announced soon */
void server_record_changed(struct server *server);
void server_announce_record(struct server *server); /* if it has changed: now */
/* server_guard.c: record and fences */
struct rl_record;
void server_guard_begin(struct world *world); /* writes the records that `redlock up` would write */
void server_guard_serve(struct server *server, struct message *request);
void server_guard_go_back(struct server *server, struct node_table *table, rl_ns as_of);
void server_guard_forget(struct server *server);
void server_guard_flushed(struct server *server);
bool server_guard_delete(struct server *server); /* only the record; false: it has none */
/* call after anything that may change whether the record is intact */
void server_guard_check(struct server *server);
bool server_guard_record(const struct server *server, struct rl_record *record); /* false: none */
uint64_t server_guard_quorum(const struct server *server); /* id in its record; 0: none */
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
struct node_bytes resource_key(unsigned resource); /* below WORLD_KEYS_MAX */
int resource_of(const void *key, size_t bytes);    /* -1: not a resource of the world */

/* ---- clients ---- */

/* What a client's program does: at once, or when it resumes. */
struct client_action {
    enum client_action_kind kind;
    uint8_t resource; /* MANY: resources, by bits */
    int64_t number;
    rl_ns think, late;
    struct world_operation operation;
};

/* An update under way: from its read to its write. */
struct update {
    uint8_t client, resource;
    bool active, sent;
    uint32_t hold, token;
    int64_t value, fence;
    rl_ns late;
};

struct hold { /* one lock of one client */
    struct world *world;
    uint8_t client, resource;
    uint8_t slots;    /* of the lock; 0: it has none */
    uint8_t slot;     /* that it holds, or held last */
    bool shared;      /* it is one of readers, since it was made ... */
    bool made_shared; /* ... or since its holder downgraded it */
    struct redlock_lock *lock;
    uint32_t tries;
    uint32_t count; /* numbers the acquisitions: an update of an earlier one must not write */
    uint32_t token;
    bool acquiring, extending, releasing;
    bool release_waits; /* until a write that is under way arrives */
    int64_t fence;
    bool adopting, had; /* had: it was held when the adoption began */
    struct {            /* the last that was acquired */
        uint8_t token[REDLOCK_TOKEN_HEX_BYTES];
        size_t bytes; /* 0: there was none */
        uint32_t number;
        int64_t fence;
    } last;
};

struct actor {
    struct world *world;
    struct quorum_task *task; /* its command as an operator; NULL: none */
    struct break_task *breaking;
    struct world_operation decided; /* a break, once the operator has thought */
    bool thinks;
    uint8_t breaks, broke; /* the resource of that break; the resources of all so far, by bits */
    struct redlock_client *redlock;
    struct net *net;
    struct sim_clock clock; /* BOOTTIME */
    rl_ns wall;             /* what its wall clock shows when BOOTTIME is 0 */
    uint32_t rate;          /* while it is not frozen */
    bool paused, frozen, crashed;
    rl_ns wake_at; /* the event that drives the client; RL_NEVER: none */
    struct random random;
    struct hold hold[WORLD_RESOURCES_MAX];
    struct redlock_observer *observers[WORLD_RESOURCES_MAX]; /* NULL: it does not observe */
    struct client_action *actions;                           /* that wait until it resumes */
    size_t actions_count, actions_capacity;
};

struct history_record actor_record(const struct world *world, enum history_kind kind,
                                   unsigned client);

/* hold.c */
void hold_acquire(struct hold *hold, int64_t wait_ms);
void hold_extend(struct hold *hold, int64_t ttl_ms);
void hold_adopt(struct hold *hold, int64_t ttl_ms);
void hold_downgrade(struct hold *hold);
void hold_release(struct hold *hold);
void hold_cancel(struct hold *hold);
/* The locks of one client, by bits. */
void holds_acquire(struct world *world, unsigned client, unsigned resources, int64_t wait_ms);
void holds_release(struct world *world, unsigned client, unsigned resources);
/* a record that says when validity ends */
void hold_write_until(const struct hold *hold, enum history_kind kind);
void hold_on_change(void *context, struct redlock_lock *lock, int change);

void update_begin(struct world *world, struct hold *hold, rl_ns think, rl_ns late);
/* writes, if the client runs */
void update_thought(struct world *world, void *argument, int64_t number);
void update_write(struct world *world, size_t number);
/* breaking.c */
void breaking_act(struct world *world, unsigned client, const struct world_operation *what);
void breaking_drop(struct actor *actor);
/* announced.c */
void announced_serve(struct server *server, struct message *request); /* ANNOUNCE, TERM */
/* observing.c */
void observers_begin(struct actor *actor, unsigned client);
void observers_end(struct actor *actor);
/* operator.c */
void operator_act(struct world *world, unsigned client, const struct world_operation *what);
void operator_drop(struct actor *actor); /* the change stays as far as it got */

/* The world that sim/net.c serves, and the client that it opens next: set around
 * redlock_client_open(). */
struct world *world_current(void);
void actors_begin(struct world *world);
void actors_end(struct world *world);
void actor_drive(struct world *world, unsigned client); /* its sockets or timers have work */
/* the message is its own from now on */
void actor_receive(struct world *world, unsigned client, struct message *message);
void actor_rearm(struct world *world, unsigned client);

/* net.c: a message arrives at a client; net owns it from now on */
void net_receive(struct net *net, struct message *message);
/* The client has ended: it sends nothing, receives nothing and waits for nothing from now on. */
void net_abandon(struct net *net);

/* ---- the world ---- */

/* Requests about a node's record and state in one second, which begins with the first of them.
 * Counted also where the history leaves out messages. */
struct asked {
    rl_ns since;
    uint32_t count;
};

/* What stands on the network, for its calls. */
struct world_above {
    void (*request)(struct world *world, struct message *request); /* it is at its node */
    bool (*alive)(struct world *world, unsigned client);
    void (*answer)(struct world *world, unsigned client, struct message *answer);
    void (*record)(const struct world *world, const struct history_record *record);
};

struct world {
    struct world_options options;
    struct history *history;
    rl_ns now;
    struct events events;
    struct tokens tokens;
    struct chunk *chunks; /* of messages */
    struct message *spare;
    uint32_t messages_count;
    const struct world_above *above;
    struct links links[WORLD_CLIENTS_MAX];
    struct actor *actor;   /* WORLD_CLIENTS_MAX */
    unsigned opening;      /* the client for which net_open() is called */
    struct server *server; /* RL_NODES_MAX */
    struct server *old;    /* old[i]: the former master of node i (node_split()) */
    uint32_t processes, waiters, replids;
    const struct link *serving; /* the link whose request a node executes now; NULL: none */
    struct message_body *bodies, *spare_bodies;
    struct node_table *scratch;
    struct {
        int64_t value, fence, fence_of_readers; /* the highest of either kind that it has seen */
    } reg[WORLD_RESOURCES_MAX];                 /* the register that each lock protects */
    struct update *updates;
    size_t updates_count, updates_capacity;
    struct world_reports reports;
    struct asked asked[WORLD_CLIENTS_MAX + 1][RL_NODES_MAX]; /* the last row: by all clients */
    struct member_list *lists;                               /* WORLD_LISTS_MAX */
    unsigned lists_count;
    void *owner;
    bool running;
    /* The keys, as the steps know them, and those that the present request has changed, by bits. */
    struct steps_key steps_keys[RL_NODES_MAX][WORLD_KEYS_MAX];
    unsigned steps_changed;
    uint32_t bodies_count; /* the numbers of bodies */
};

/* Adds a record with the present time; the caller fills in the fields of its kind. */
struct history_record world_record(const struct world *world, enum history_kind kind);
void world_write(struct world *world, const struct history_record *record);
/* The history leaves out messages and connections unless the options ask for them. */
void world_write_message(struct world *world, enum history_kind kind,
                         const struct message *message);

#endif
