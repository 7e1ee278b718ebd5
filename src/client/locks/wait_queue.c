/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Callers of one client that wait for the same key form a queue. The first one contends, for all of
 * them. On the nodes the client has one place in the key's wait queue of all clients. See
 * docs/use/waiting.md. */
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "lock.h"

enum { CHAINS_LEAST = 1024, CROWDS = 64, REPAIR_NAME_BYTES = 40 };
#define AGE_US_MAX (INT64_C(1) << 52) /* what a node accepts */
/* a client that sends nothing counts as waiting for this long, ... */
#define LEASE_MIN (500 * RL_MS)
#define LEASE_MAX (10000 * RL_MS)
/* ... and for at least this many times the interval between its requests */
#define LEASE_POLLS 3
#define CROWD_KEPT (10000 * RL_MS) /* how long we remember that others waited when we left */
/* A client that never had to wait does not learn from any node that others wait. When it takes a
 * lock again this soon after its release, it asks. */
#define SOON (10 * RL_MS)
#define ASK_EVERY (10 * RL_MS)

/* ---- whose place it is ---- */

static struct place *place_of(struct redlock_lock *lock) {
    return &lock->extra->acquisition->place;
}
static const struct rl_acquire *machine_of(const struct redlock_lock *lock) {
    return &lock->extra->acquisition->machine;
}

/* Clients that wait for any slot of a resource stand in the queue of the first one. */
static struct net_bytes queue_key(const struct redlock_lock *lock) {
    return slots_of(lock) ? slots_of(lock)->keys[0] : lock->keys[0];
}

/* One key's queue. It stays until the last of its calls is done. */
struct wait_queue {
    struct chained by_key;
    struct redlock_client *client;
    unsigned busy; /* calls under way, and functions that use it now */
    struct redlock_lock *first, **last;
    rl_mask entered;  /* nodes where we have a place */
    rl_mask queued;   /* native nodes where we may have one */
    rl_mask again;    /* nodes to leave when the answer to the leaving before is there */
    bool asking;      /* a question for our rank is under way, ... */
    rl_mask asked;    /* ... to this node, ... */
    bool outdated;    /* ... sent for a caller that has left since */
    int32_t reported; /* The rank that nodes reported since the question; INT32_MAX: none. */
    struct net_bytes key, names[2];
    struct slots *slots; /* the keys of all slots; NULL: the lock has one key */
    struct net_request watch, enter, leave, turn, turn_leave;
    struct net_call calls[]; /* by node: each kind of request in turn (enum kind) */
};

enum kind { WATCHES, ENTERS, LEAVES, TURNS, TURN_LEAVES, KINDS };

struct wait_queues {
    unsigned waiting; /* locks in all queues */
    rl_mask refused;  /* nodes that keep no queues */
    rl_ns asked;      /* when a node was last asked whether others wait */
    struct chains by_key;
    struct crowd {
        uint32_t hash;
        rl_ns until;
    } crowd[CROWDS];
};

static uint32_t hash_of(struct net_bytes key) { /* FNV-1a */
    const unsigned char *at = key.data;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.bytes; i++) hash = (hash ^ at[i]) * 16777619u;
    return hash;
}

/* A lock with slots has a queue of its own, apart from that of the lock on the first slot's key. */
static struct wait_queue *find(const struct wait_queues *queues, struct net_bytes key,
                               uint32_t hash, bool slots) {
    for (struct chained *thing = chains_first(&queues->by_key, hash); thing;
         thing = chains_next(thing)) {
        struct wait_queue *queue = RL_CONTAINER(thing, struct wait_queue, by_key);
        if (slots == (queue->slots != NULL) && bytes_equal(queue->key, key)) return queue;
    }
    return NULL;
}

/* ---- making and freeing ---- */

static net_answered_fn on_answer;

/* One allocation: the queue, its calls, the two names; the key is the end of the first name. */
static struct wait_queue *wait_queue_new(struct redlock_client *client, struct net_bytes key,
                                         struct slots *slots) {
    unsigned nodes = client->nodes;
    size_t prefix = sizeof NET_KEY_WAITING - 1, bytes = prefix + key.bytes;
    _Static_assert(sizeof NET_KEY_WAITING == sizeof NET_KEY_WAITERS, "both names are as long");
    struct wait_queue *queue =
        calloc(1, sizeof *queue + KINDS * nodes * sizeof queue->calls[0] + 2 * bytes);
    if (!queue) return NULL;
    char *text = (char *)(queue->calls + KINDS * nodes);
    queue->client = client;
    queue->slots = slots;
    queue->last = &queue->first;
    for (int i = 0; i < 2; i++, text += bytes) {
        memcpy(text, i == 0 ? NET_KEY_WAITING : NET_KEY_WAITERS, prefix);
        memcpy(text + prefix, key.data, key.bytes);
        queue->names[i] = (struct net_bytes){text, bytes};
    }
    queue->key = (struct net_bytes){(const char *)queue->names[0].data + prefix, key.bytes};
    queue->watch = (struct net_request){
        .op = NET_WATCH, .keys = &queue->key, .keys_count = 1, .scheme = client->scheme};
    if (slots) {
        queue->watch.keys = slots->keys;
        queue->watch.keys_count = queue->watch.slots = slots->count;
    }
    queue->enter =
        (struct net_request){.op = NET_WAIT_QUEUE_ENTER, .keys = queue->names, .keys_count = 2};
    queue->leave =
        (struct net_request){.op = NET_WAIT_QUEUE_LEAVE, .keys = queue->names, .keys_count = 2};
    queue->turn = (struct net_request){.op = NET_TURN_WAIT, .keys = &queue->key, .keys_count = 1};
    queue->turn_leave =
        (struct net_request){.op = NET_TURN_LEAVE, .keys = &queue->key, .keys_count = 1};
    for (unsigned i = 0; i < KINDS * nodes; i++) {
        /* Watches have an owner of their own: a request that is sent again after NOSCRIPT must not
         * overtake another one of the same owner. */
        queue->calls[i].owner = i < nodes ? (void *)queue : (void *)&queue->enter;
        queue->calls[i].answered = on_answer;
    }
    return queue;
}

static void wait_queue_free(void *argument) {
    struct wait_queue *queue = argument;
    free(queue->slots);
    free(queue);
}

static struct wait_queue *find_of(const struct redlock_lock *lock) {
    const struct net_bytes key = queue_key(lock);
    return find(lock->client->locks->wait_queues, key, hash_of(key), slots_of(lock) != NULL);
}

static struct wait_queue *open_queue(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    struct wait_queues *queues = client->locks->wait_queues;
    if (!queues) queues = client->locks->wait_queues = calloc(1, sizeof *queues);
    if (!queues) return NULL;
    struct wait_queue *queue = find_of(lock);
    if (queue) return queue;
    /* The lock may be freed while a request of the queue is under way. */
    struct slots *slots = slots_of(lock) ? slots_new(lock->keys[0], slots_of(lock)->count) : NULL;
    if (!slots_of(lock) || slots) queue = wait_queue_new(client, queue_key(lock), slots);
    if (!queue) {
        free(slots);
        return NULL;
    }
    if (chains_add(&queues->by_key, &queue->by_key, hash_of(queue->key), CHAINS_LEAST))
        return queue;
    wait_queue_free(queue);
    return NULL;
}

static void close_queue(struct wait_queue *queue) {
    if (queue->first || queue->busy > 0) return;
    chains_remove(&queue->client->locks->wait_queues->by_key, &queue->by_key);
    wait_queue_free(queue);
}

void wait_queues_free(struct wait_queues *queues) {
    if (queues) chains_free(&queues->by_key, wait_queue_free);
    free(queues);
}

/* ---- asking ---- */

static void send_calls(struct wait_queue *queue, rl_mask nodes, struct net_request *request,
                       enum kind kind, rl_ns now) {
    struct redlock_client *client = queue->client;
    struct net_call *calls = queue->calls + kind * client->nodes;
    rl_ns due = now + (queue->first ? queue->first->config->terms.node_timeout : 50 * RL_MS);
    nodes &= (rl_mask)~client_busy(client, calls);
    queue->busy += rl_count(nodes ? net_send(client->net, nodes, request, calls, due, now) : 0);
}

/* The node that keeps the key's queue. All clients must choose the same one, whatever the order of
 * their lists: the server whose name matches the key's best. */
static rl_mask keeper(const struct wait_queue *queue, rl_ns now) {
    struct redlock_client *client = queue->client;
    rl_mask may = client_ready(client, now) & (rl_mask)~client->locks->wait_queues->refused;
    uint32_t best = 0;
    rl_mask keeper = 0;
    for (unsigned i = 0; i < client->nodes; i++) {
        if (!(may & rl_bit(i))) continue;
        struct net_node_status status = client_status(client, i);
        /* a native node keeps queues of its own */
        if (status.uses_transactions || status.native) continue;
        const char *name = status.run_id[0] ? status.run_id : status.url;
        uint32_t score =
            (hash_of((struct net_bytes){name, strlen(name)}) ^ queue->by_key.hash) * 2654435761u;
        score ^= score >> 15;
        if (keeper != 0 && score <= best) continue;
        best = score;
        keeper = rl_bit(i);
    }
    return keeper;
}

static void send_leaves(struct wait_queue *queue, rl_mask nodes, struct net_request *request,
                        enum kind kind, rl_ns now) {
    const struct redlock_client *client = queue->client;
    queue->again |= nodes & client_busy(client, queue->calls + kind * client->nodes);
    send_calls(queue, nodes, request, kind, now);
}

static void leave_nodes(struct wait_queue *queue, rl_mask nodes, rl_ns now) {
    queue->entered &= (rl_mask)~nodes;
    if (queue->asked & nodes) queue->outdated = queue->asking;
    queue->leave.token = net_waiter(queue->client->net);
    send_leaves(queue, nodes, &queue->leave, LEAVES, now);
}

/* For how long a node believes that we wait. */
static rl_ns lease_of(const struct redlock_lock *lock) {
    const struct rl_acquire *machine = machine_of(lock);
    const unsigned quiet = machine->turns.active ? machine->turns.quiet : machine->waiting.quiet;
    rl_ns lease = LEASE_POLLS * rl_poll_delay_most(machine->rules.delay_max, quiet);
    if (lease < LEASE_MIN) return LEASE_MIN;
    return lease < LEASE_MAX ? lease : LEASE_MAX;
}

/* False: no node can report our rank. A node that owes an answer keeps the queue no longer: else
 * its waiters would wait until the connection is given up, while others pass on the lock. */
static bool enter(struct wait_queue *queue, struct redlock_lock *lock, rl_ns now) {
    struct net *net = queue->client->net;
    rl_mask node = keeper(queue, now);
    if (queue->asking && (node == queue->asked || node == 0)) return true;
    if (queue->entered & (rl_mask)~node) leave_nodes(queue, queue->entered & (rl_mask)~node, now);
    if (node == 0) return false;
    queue->enter.token = net_waiter(net);
    queue->enter.ttl_ms = lease_of(lock) / RL_MS;
    queue->enter.age_us = (now - place_of(lock)->since) / 1000;
    unsigned busy = queue->busy;
    send_calls(queue, node, &queue->enter, ENTERS, now);
    if (queue->busy == busy) return false;
    queue->asking = true;
    queue->asked = node;
    queue->outdated = false;
    queue->reported = INT32_MAX;
    queue->entered |= node;
    return true;
}

/* ---- queues of native nodes ---- */

static rl_mask native_keepers(const struct redlock_client *client) {
    if (rl_count(client->natives) < rl_quorum(client->nodes)) return 0;
    return net_waiter(client->net).data ? client->natives & net_tracked(client->net) : 0;
}

static void name_waiter(struct redlock_lock *lock, struct net_request *request, rl_ns now) {
    request->waiter = net_waiter(lock->client->net);
    request->since_us = place_of(lock)->since_us;
    request->waited_us = (now - place_of(lock)->since) / 1000;
    request->remember_us = lease_of(lock) / 1000;
}

static void await_turn(struct wait_queue *queue, rl_mask nodes, rl_ns now) {
    const struct redlock_client *client = queue->client;
    /* a request must not change under way */
    nodes &= (rl_mask)~client_busy(client, queue->calls + TURNS * client->nodes);
    if (nodes == 0) return;
    name_waiter(queue->first, &queue->turn, now);
    queue->turn.reads = queue->first->shared;
    queue->turn.slots = queue->slots ? queue->slots->count : 0;
    queue->queued |= nodes;
    send_calls(queue, nodes, &queue->turn, TURNS, now);
}

static void leave_turns(struct wait_queue *queue, rl_mask nodes, rl_ns now) {
    queue->queued &= (rl_mask)~nodes;
    queue->turn_leave.waiter = net_waiter(queue->client->net);
    send_leaves(queue, nodes & queue->client->natives, &queue->turn_leave, TURN_LEAVES, now);
}

/* We may have come and gone since the request that was answered now. */
static void left(struct wait_queue *queue, const struct net_call *call) {
    const rl_mask again = queue->again & rl_bit(call->node);
    const rl_ns now = net_now(queue->client->net);
    queue->again &= (rl_mask)~again;
    if (call->request == &queue->leave)
        leave_nodes(queue, again & (rl_mask)~queue->entered, now);
    else
        leave_turns(queue, again & (rl_mask)~queue->queued, now);
}

static int32_t rank_of(const struct net_reply *reply) {
    return reply->count < 0 ? -1 : reply->count < INT32_MAX ? (int32_t)reply->count : INT32_MAX;
}

/* ---- members ---- */

static void join(struct redlock_lock *lock, struct wait_queue *queue, rl_ns now) {
    struct redlock_client *client = lock->client;
    struct place *place = place_of(lock);
    int64_t wall_us = net_wall_us(client->net);
    *place = (struct place){.queue = queue, .at = queue->last, .since = now};
    place->since_us = wall_us > 0 ? wall_us : 0;
    *queue->last = lock;
    queue->last = &place->next;
    client->locks->wait_queues->waiting++;
    client_track(client, true);
}

static void note_crowd(struct redlock_client *client, uint32_t hash, int64_t remaining) {
    struct crowd *crowd = &client->locks->wait_queues->crowd[hash % CROWDS];
    if (remaining == 0 && crowd->hash != hash) return;
    crowd->hash = hash;
    crowd->until = remaining > 0 ? net_now(client->net) + CROWD_KEPT : 0;
}

void wait_queue_granted(struct redlock_lock *lock, const struct net_call *call,
                        const struct net_reply *reply) {
    struct redlock_client *client = lock->client;
    const enum net_op op = call->request->op;
    bool says = (op == NET_ACQUIRE || op == NET_ACQUIRE_SLOT) &&
                reply->verdict == REDLOCK_VERDICT_GRANTED && (client->natives & rl_bit(call->node));
    if (says && client->locks->wait_queues && lock->keys_count == 1)
        note_crowd(client, hash_of(queue_key(lock)), reply->count);
}

/* A node that grants the lock takes us out of its queue. One that has not answered yet most likely
 * grants it; where it does not, its answer makes us leave. */
static void leave_turns_of(struct wait_queue *queue, const struct rl_acquire *machine, rl_ns now) {
    const struct rl_tally *votes = &machine->attempt.tally;
    rl_mask nodes = queue->queued;
    if (machine->state == RL_ACQUIRE_WON)
        nodes &= (rl_mask) ~(votes->granted | rl_tally_pending(votes));
    leave_turns(queue, nodes, now);
    queue->queued = 0;
}

static bool waits(struct redlock_lock *lock) {
    return lock->phase == PHASE_ACQUIRING && place_of(lock)->queue;
}

void wait_queue_leave(struct redlock_lock *lock) {
    if (!waits(lock)) return;
    struct redlock_client *client = lock->client;
    struct place *place = place_of(lock);
    struct wait_queue *queue = place->queue;
    rl_ns now = net_now(client->net);
    bool was_first = queue->first == lock;
    *place->at = place->next;
    if (place->next)
        place_of(place->next)->at = place->at;
    else
        queue->last = place->at;
    place->queue = NULL;
    const struct rl_acquire *machine = machine_of(lock);
    bool won = machine->state == RL_ACQUIRE_WON;
    queue->leave.passes = won && machine->waiting.active && machine->waiting.rank > 0;
    if (was_first && queue->entered) leave_nodes(queue, queue->entered, now);
    if (was_first && queue->queued) leave_turns_of(queue, machine, now);
    /* it is its turn, but not inside this call */
    if (was_first && queue->first) net_timer_set(client->net, &queue->first->timer, now);
    client->locks->wait_queues->waiting--;
    client_track(client, false);
    close_queue(queue);
}

/* Runs in parallel with the try, which does not wait for the answer. */
static void ask_for_crowd(struct redlock_lock *lock, rl_ns now) {
    struct redlock_client *client = lock->client;
    const struct wait_queues *queues = client->locks->wait_queues;
    rl_ns released = lock->lease.unlocking_since;
    /* A reader meets no denial while a writer waits for the readers before it. */
    if (!lock->shared && (released == 0 || now - released >= SOON)) return;
    /* these report it with their votes */
    if (rl_count(client->natives) >= rl_quorum(client->nodes)) return;
    if (queues && now - queues->asked < ASK_EVERY) return;
    struct net_bytes waiter = net_waiter(client->net);
    struct wait_queue *queue = waiter.data ? open_queue(lock) : NULL;
    if (!queue) return;
    client->locks->wait_queues->asked = now;
    queue->leave.token = waiter;
    queue->leave.passes = false;
    send_calls(queue, keeper(queue, now), &queue->leave, LEAVES, now);
    close_queue(queue);
}

/* A caller that counts its tries wants them made. And several keys have no common queue. */
static bool can_wait(const struct redlock_lock *lock) {
    return lock->keys_count == 1 && machine_of(lock)->rules.retries_max == UINT32_MAX;
}

void wait_queue_begin(struct redlock_lock *lock, bool may_wait, struct rl_event *start) {
    if (!may_wait || !can_wait(lock)) return;
    rl_ns now = net_now(lock->client->net);
    ask_for_crowd(lock, now);
    struct wait_queues *queues = lock->client->locks->wait_queues;
    if (!queues) return;
    uint32_t hash = hash_of(queue_key(lock));
    struct wait_queue *queue = find_of(lock);
    /* The report of other waiters dates from when we left the queue. Another key with the same hash
     * only costs a question. */
    const struct crowd *crowd = &queues->crowd[hash % CROWDS];
    start->crowded = crowd->hash == hash && crowd->until > now;
    if (!start->crowded && (!queue || !queue->first)) return;
    if (!queue) queue = open_queue(lock);
    if (queue) join(lock, queue, now);
}

void wait_queue_event(struct redlock_lock *lock, struct rl_event *event) {
    const struct redlock_client *client = lock->client;
    if (!waits(lock)) return;
    event->watched = net_tracked(client->net) & client->voters;
    event->keepers = native_keepers(client) & client->voters;
    event->behind = place_of(lock)->queue->first != lock;
}

void wait_queue_carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    if (machine_of(lock)->state == RL_ACQUIRE_SLEEPING && !place_of(lock)->queue &&
        can_wait(lock)) {
        struct wait_queue *queue = open_queue(lock);
        if (!queue) return;
        join(lock, queue, now);
        struct net *net = lock->client->net;
        /* This reports that it is behind others, or that nodes notify already. */
        if (queue->first != lock || net_tracked(net)) net_timer_set(net, &lock->timer, now);
    }
    struct wait_queue *queue = place_of(lock)->queue;
    if (!queue || queue->first != lock) return;
    if (actions->watch) send_calls(queue, actions->watch, &queue->watch, WATCHES, now);
    if (actions->queue) await_turn(queue, actions->queue, now);
    if (actions->enter_queue && !enter(queue, lock, now)) lock->extra->acquisition->unranked = true;
}

void wait_queue_try(struct redlock_lock *lock, struct net_request *acquire, rl_ns now) {
    acquire->waiter = (struct net_bytes){NULL, 0};
    if (!waits(lock) || !machine_of(lock)->turns.active) return;
    struct wait_queue *queue = place_of(lock)->queue;
    if (queue->first != lock) return;
    name_waiter(lock, acquire, now);
    queue->queued |= lock->client->natives;
}

/* A lock is reserved for another waiter where the holder lost its key. The holder is not held up by
 * that: it comes with the greatest age, and under a name of its own, which the node forgets. */
void wait_queue_repair(struct net_request *repair) {
    repair->waiter = repair->token;
    if (repair->waiter.bytes > REPAIR_NAME_BYTES) repair->waiter.bytes = REPAIR_NAME_BYTES;
    repair->since_us = 0;
    repair->waited_us = AGE_US_MAX;
    repair->remember_us = 1;
}

bool wait_queue_denied(struct round *round, const struct net_call *call,
                       const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    const struct net_request *request = call->request;
    bool repair = request->waited_us == AGE_US_MAX;
    const bool tries =
        request->op == NET_ACQUIRE || request->op == NET_SHARE || request->op == NET_ACQUIRE_SLOT;
    if (!tries || !request->waiter.data || repair) return false;
    if (round_now(lock) == round && waits(lock)) {
        struct rl_event event = {.type = RL_EVENT_QUEUED,
                                 .node = call->node,
                                 .vote = RL_VOTE_GRANTED,
                                 .remaining = reports_end(reply) ? reply->remaining_ms * RL_MS : -1,
                                 .rank = rank_of(reply)};
        round->told |= rl_bit(call->node);
        lock_step(lock, event);
        return true;
    }
    /* It was sent for a try that was won without this node, or that has ended. */
    struct wait_queue *queue = reply->count >= 0 ? open_queue(lock) : NULL;
    if (!queue) return true;
    if (!queue->first) leave_turns(queue, rl_bit(call->node), net_now(lock->client->net));
    close_queue(queue);
    return true;
}

/* ---- status ---- */

/* How many are before it; -1: unknown. A client has one place in the queue of all clients, and its
 * own callers stand behind each other in that place. */
static int64_t count_ahead(const struct redlock_lock *lock) {
    int64_t own = 0;
    const struct redlock_lock *first = lock->extra->acquisition->place.queue->first;
    for (const struct redlock_lock *each = first; each != lock;
         each = each->extra->acquisition->place.next)
        own++;
    const struct rl_waiting *waiting = &machine_of(first)->waiting;
    const struct rl_turns *turns = &machine_of(first)->turns;
    if (turns->active) return turns->rank >= 0 ? turns->rank + own : -1;
    return waiting->active && waiting->rank >= 0 ? waiting->rank + own : -1;
}

int redlock_lock_wait_status(struct redlock_lock *lock, struct redlock_wait_status *status) {
    if (!lock || !status || status->size < FIRST_WAIT_STATUS) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(lock->client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct redlock_wait_status now = {.ahead = -1};
    if (waits(lock)) {
        now.waiting = 1;
        now.waited_ms = (net_now(lock->client->net) - place_of(lock)->since) / RL_MS;
        now.ahead = count_ahead(lock);
    }
    client_exit(lock->client);
    sized_fill(status, status->size, &now, sizeof now);
    return REDLOCK_OK;
}

/* ---- hearing ---- */

/* The queue stays at least until close_queue(). */
static void notify_head(struct wait_queue *queue, struct rl_event event) {
    if (!queue->first || queue->first->phase != PHASE_ACQUIRING) return;
    queue->busy++;
    lock_step(queue->first, event);
    queue->busy--;
}

void wait_queue_released(struct redlock_lock *lock, rl_mask nodes) {
    struct wait_queues *queues = lock->client->locks->wait_queues;
    if (!queues || queues->waiting == 0 || lock->keys_count != 1) return;
    struct wait_queue *queue = find_of(lock);
    if (!queue) return;
    for (unsigned i = 0; i < lock->client->nodes; i++)
        if (nodes & rl_bit(i))
            notify_head(queue, (struct rl_event){.type = RL_EVENT_WAKE, .node = (uint8_t)i});
    close_queue(queue);
}

static void notify_all_of(struct redlock_client *client, unsigned node) {
    struct chains *chains = &client->locks->wait_queues->by_key;
    chains->walked = true;
    for (uint32_t i = 0; i < chains->chains; i++) {
        for (struct chained *thing = chains->chain[i], *next; thing; thing = next) {
            struct wait_queue *queue = RL_CONTAINER(thing, struct wait_queue, by_key);
            notify_head(queue, (struct rl_event){.type = RL_EVENT_WAKE, .node = (uint8_t)node});
            notify_head(queue, (struct rl_event){.type = RL_EVENT_QUEUED,
                                                 .node = (uint8_t)node,
                                                 .vote = RL_VOTE_FAILED});
            notify_head(queue, (struct rl_event){.type = RL_EVENT_NODES});
            next = thing->next;
            close_queue(queue);
        }
    }
    chains->walked = false;
}

static void notify_queue(struct wait_queue *queue, unsigned node, int rank) {
    if (!queue) return;
    queue->client->stats.wakeups++;
    if (rank >= 0 && rank < queue->reported) queue->reported = rank;
    enum rl_event_type type = rank == NET_WAKE_TURN ? RL_EVENT_TURN
                              : rank < 0            ? RL_EVENT_WAKE
                                                    : RL_EVENT_RANK;
    notify_head(queue, (struct rl_event){.type = type, .node = (uint8_t)node, .rank = rank});
    close_queue(queue);
}

void wait_queue_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    struct redlock_client *client = context;
    struct wait_queues *queues = client->locks->wait_queues;
    if (!queues) return;
    if (!key.data) {
        queues->refused &= (rl_mask)~rl_bit(node); /* another server may be there by now */
        notify_all_of(client, node);
        return;
    }
    unsigned char text[SLOTS_KEY_BYTES_MAX];
    struct net_bytes first = key; /* the key's bytes may be gone after the first notification */
    const bool of_slots = slots_first(&first, text);
    notify_queue(find(queues, key, hash_of(key), false), node, rank);
    if (of_slots) notify_queue(find(queues, first, hash_of(first), true), node, rank);
}

/* The key is being watched, or we are in a native node's queue. */
static void watched(struct wait_queue *queue, enum rl_event_type type, const struct net_call *call,
                    const struct net_reply *reply) {
    struct rl_event event = {.type = type, .node = call->node, .vote = RL_VOTE_FAILED};
    if (reply->verdict == REDLOCK_VERDICT_ABSENT) event.vote = RL_VOTE_ABSENT;
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) event.vote = RL_VOTE_GRANTED;
    event.remaining = reports_end(reply) ? reply->remaining_ms * RL_MS : -1;
    if (type == RL_EVENT_QUEUED) event.rank = rank_of(reply);
    notify_head(queue, event);
}

static void entered(struct wait_queue *queue, const struct net_call *call,
                    const struct net_reply *reply) {
    struct redlock_client *client = queue->client;
    const rl_mask node = rl_bit(call->node);
    bool reported = reply->verdict == REDLOCK_VERDICT_GRANTED, outdated = queue->outdated;
    if (!reported) queue->entered &= (rl_mask)~node;
    if (node != queue->asked) { /* it was overdue, and we are in another node's queue */
        if (reported) leave_nodes(queue, node, net_now(client->net));
        return;
    }
    queue->asking = queue->outdated = false;
    if (reply->verdict == REDLOCK_VERDICT_NOPERM) {
        client->locks->wait_queues->refused |= rl_bit(call->node);
        client_log(client, REDLOCK_LOG_INFO, "waiting: a node keeps no wait queue: %s",
                   redlock_verdict_text(reply->verdict));
    }
    if (!queue->first) return;
    /* the answer was for another caller */
    if (outdated && enter(queue, queue->first, net_now(client->net))) return;
    int32_t rank = reported && !outdated && reply->count <= INT32_MAX ? (int32_t)reply->count : -1;
    /* a report that others left overtook the answer */
    if (rank > queue->reported) rank = queue->reported;
    notify_head(queue, (struct rl_event){.type = RL_EVENT_RANK, .rank = rank});
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    const enum net_op op = call->request->op;
    struct wait_queue *queue = op == NET_WATCH
                                   ? call->owner /* see wait_queue_new() */
                                   : RL_CONTAINER(call->owner, struct wait_queue, enter);
    if (op == NET_WATCH)
        watched(queue, RL_EVENT_WATCHED, call, reply);
    else if (op == NET_WAIT_QUEUE_ENTER)
        entered(queue, call, reply);
    else if (op == NET_TURN_WAIT)
        watched(queue, RL_EVENT_QUEUED, call, reply);
    else if (op == NET_WAIT_QUEUE_LEAVE && reply->verdict == REDLOCK_VERDICT_GRANTED)
        note_crowd(queue->client, queue->by_key.hash, reply->count);
    if (queue->again && (op == NET_WAIT_QUEUE_LEAVE || op == NET_TURN_LEAVE)) left(queue, call);
    queue->busy--;
    close_queue(queue);
}
