/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of the world, for what stands in it and on it: world.c (time), message.c, wire.c
 * (the network). nodes/nodes.h and clients/clients.h have what is at its two ends.
 */
#ifndef SIM_INSIDE_H
#define SIM_INSIDE_H

#include "clock.h"
#include "history/memory.h"
#include "net/net.h"
#include "random.h"
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

/* The head of all messages, then a part for each family. Of a request, each operation has the
 * common part; which others it has depends on its subject (policy/ops.h) and its mode. */
struct message {
    struct message *next;
    rl_ns arrives_at;
    uint32_t number;     /* in the history */
    uint32_t connection; /* the number of its connection on its link */
    uint16_t client;
    uint8_t slot;
    uint8_t what;    /* enum message_what */
    bool breaks;     /* lost: the connection breaks when the message would arrive */
    int16_t verdict; /* of an answer: to CONNECT, TRACK and REQUEST */

    /* CONNECT, answered: the server process; the id in its record, 0: it has none. */
    struct {
        uint32_t process;
        bool native;
        uint64_t quorum;
    } welcome;
    /* HINT */
    struct {
        int resource; /* -1: about any key */
        int rank;     /* -1: the key has changed */
        rl_ns notified_at;
    } hint;
    /* ANNOUNCEMENT */
    struct {
        bool all; /* all data changed */
    } announcement;

    /* REQUEST, all operations. */
    uint8_t op, part;
    bool guarded;
    bool stranger; /* the commands and scripts of another project: on plain keys */
    uint8_t keys_count;
    uint16_t keys[WORLD_RESOURCES_MAX]; /* resources */
    uint32_t token;
    int64_t ttl_ms;
    uint8_t question;          /* SERVER_INFO */
    struct message_body *body; /* of RECORD_WRITE, or of an answer */
    /* In guarded mode. `added`: BREAK, to the nonce. An answer has its own fence there. */
    struct {
        uint64_t nonce, added;
        int64_t fence;
        uint8_t stripes_count;
        uint16_t stripes[WORLD_RESOURCES_MAX];
    } fencing;
    /* RECORD_WRITE: the nonce of the new record, and the one that must be there. */
    struct {
        uint64_t nonce, expected;
        bool was_kept, keep;
    } record;
    /* WAIT_QUEUE_*, TURN_*, and acquisitions that wait. `name`: of a native node's waiter. */
    struct {
        uint32_t waiter;
        bool passes, reads;
        uint8_t name_bytes;
        char name[WAITER_BYTES_MAX];
        int64_t age_us, since_us, remember_us;
    } waiting;
    /* ACQUIRE_SLOT, TURN_WAIT, WATCH: how many there are; those to try. */
    struct {
        uint8_t count, order_count, order[WORLD_SLOTS_MAX];
    } slots;
    /* The answer, next to the verdict, the fence and the body. */
    struct {
        int64_t remaining_ms, count, age_us;
        uint32_t value;            /* a token */
        uint8_t present;           /* SCAN: resources whose keys exist */
        uint8_t slot, other_slots; /* ACQUIRE_SLOT: the one that was taken, or another number */
    } reply;
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
    uint16_t client;
    uint8_t slot; /* its place in links.link */
    bool fresh;   /* the other one of the pair is the client's main one */
    unsigned node;
    int moves_to;        /* the node that the next connections reach; -1: the same */
    uint32_t connection; /* numbers its connections */
    uint32_t hole;       /* the number of the one that is a black hole; 0: none */
    bool left; /* the client has closed it, and requests are still on their way to the node */
    bool open; /* the node has the connection open */
    bool old;  /* connected to the old incarnation of a node whose replica has taken its place */
    int16_t set_verdict; /* the SET's answer, until its ZADD arrives */
    unsigned cut;        /* enum link_way, since ... */
    rl_ns cut_at;
    rl_ns delay_next;
    bool lose_next_answer;
    struct channel channels[WAYS];
    struct random random;
    /* The unrequested messages of its node. */
    struct random hints_random;
    uint32_t tracks; /* number of the connection that tracks; 0: none */
    uint8_t armed;   /* the client's resources, by bits: read, and not changed since */
    bool wakes_lost, wakes_again;
    /* Guarded clients: the node announces its changes among the answers. */
    bool guarded;     /* the client requests it */
    bool asks_quorum; /* the handshake reports a record, and is guarded where there is one */
    bool announces;   /* the node does it, on this connection */
    bool native;      /* the node was found to be native: an acquisition is one command */
    struct random announcements_random;
};

/* Of one client: its links, and what nodes know of it. */
struct links {
    unsigned slots;
    struct link link[2 * RL_NODES_MAX]; /* the pairs are RL_NODES_MAX apart */
    uint32_t waiter; /* the number by which nodes know it as a waiter; 0: it has not waited yet */
    uint8_t broke;   /* the resources of its breaks so far, by bits */
};

/* The links of all clients, one after the other; `before` NULL: the first. NULL: no more. */
struct link *link_next(struct world *world, const struct link *before);
struct link *link_next_of(struct world *world, unsigned client, const struct link *before);
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

/* ---- the world ---- */

/* Requests about a node's record and state in one second, which begins with the first of them.
 * Counted also where the history leaves out messages. */
struct asked {
    rl_ns since;
    uint32_t count;
};

/* Wall clocks show a day of 2026, and differ slightly from each other. */
#define WALL_BEGIN (INT64_C(1767225600000) * RL_MS)
#define WALL_SPREAD (2000 * RL_MS)
#define BOOT_BEGIN                                                                                 \
    (INT64_C(3600000) * RL_MS) /* CLOCK_BOOTTIME, an hour after its machine started */

/* A key, as the steps know it. */
struct steps_key {
    uint32_t token;
    int64_t expires_ms;
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
    struct links *links;   /* clients_room */
    struct actor *actor;   /* the same */
    unsigned clients_room; /* at least WORLD_CLIENTS_MAX */
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
    unsigned names, names_room;          /* the numbers of resources are below the first */
    struct asked (*asked)[RL_NODES_MAX]; /* the row before those of the clients: by all of them */
    struct member_list *lists;           /* WORLD_LISTS_MAX */
    unsigned lists_count;
    void *owner;
    bool running;
    /* The keys, as the steps know them, and those that the present request has changed, by bits. */
    struct steps_key steps_keys[RL_NODES_MAX][WORLD_KEYS_MAX];
    unsigned steps_changed;
    uint32_t bodies_count; /* the numbers of bodies */
};

const struct world_client_options *world_client_options(const struct world *world, unsigned client);
/* The clients that have a resource, one after the other; `before` -1: the first. -1: no more. */
int world_client_with(const struct world *world, unsigned resource, int before);

/* Adds a record with the present time; the caller fills in the fields of its kind. */
struct history_record world_record(const struct world *world, enum history_kind kind);
void world_write(struct world *world, const struct history_record *record);
/* The history leaves out messages and connections unless the options ask for them. */
void world_write_message(struct world *world, enum history_kind kind,
                         const struct message *message);

#endif
