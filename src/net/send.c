/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Calls on their way out, and their answers.
 *
 * Order on one node is the order of net_send(). Two things could break it:
 * - After NOSCRIPT a script is sent again, whole, behind what was queued after it. A release may
 *   be late: it deletes its own token or nothing. An ACQUIRE behind its own RELEASE would leave a
 *   key that no client deletes; so the call fails (verdict ERROR) if a later call of the same owner
 *   is queued. The same holds for guarded calls: a late RAISE would hold a fence against others for
 *   a lock that was released, and a read of the record would come before the RECORD_WRITE that it
 *   follows. Behind the calls of other owners each may land. The SET and ZADD of a guarded ACQUIRE
 *   of one key are not a script and keep their place. Fences only grow, so the order of two raises
 *   does not matter. A late RECORD_WRITE does what one sent late does: votes under the old nonce
 *   went before it, and its nonce is compared where it lands. The nonce of the votes is read anew,
 *   and a vote under a newer nonce says no less.
 * - Where transactions are used, a SET on the main connection could overtake a release that waits
 *   its turn on the other. A request that shares a key with a waiting transaction waits behind it,
 *   in the same queue.
 * A WATCH on a connection of its own (tracking.c) has no place in this order: it only reads, and
 * what it sees is a hint.
 */
#include <assert.h>

#include "net/command.h"
#include "net/conn.h"
#include "net/verdict.h"

/* net_call.state, ored */
enum {
    CALL_SENT_WHOLE = 2 * CALL_SENT_BEFORE, /* the script went as EVAL */
    CALL_PLAIN = 2 * CALL_SENT_WHOLE,       /* command_answer_plain() will do */
    CALL_VOTE_PAIR = 2 * CALL_PLAIN         /* command_answer_vote() will do */
};

void call_done(struct net *net, struct net_call *call, const struct net_reply *reply) {
    struct net_reply reported;
    int verdict = policy_verdict(call, reply->verdict);
    if (verdict != reply->verdict) {
        reported = *reply;
        reported.verdict = verdict;
        reply = &reported;
    }
    call->busy = false;
    call->next = NULL;
    if (call->request->op == NET_TRACK) {
        tracking_answered(net, call, reply);
        return;
    }
    net->handlers.reply(net->handlers.context, call, reply);
}

void call_failed(struct net *net, struct net_call *call, int verdict) {
    struct net_reply reply = {.verdict = verdict, .remaining_ms = -2};
    call_done(net, call, &reply);
}

/* ---- kept releases ---- */

static void arm_keep_timer(struct node *node) {
    timers_set(&node->net->timers, &node->keep_timer, policy_of(node)->kept_at);
}

static void keep(struct node *node, struct net_call *call) {
    policy_keep(&node->net->policy, node->index, call);
    arm_keep_timer(node);
}

/* Handlers are called last, when the node is not in the middle of a state change, because they may
 * send again. */
static void fail_all(struct net *net, struct call_queue *queue, int verdict) {
    struct net_call *call;
    while ((call = calls_pop(queue))) call_failed(net, call, verdict);
}

void node_expire_kept(struct node *node) {
    struct net *net = node->net;
    struct call_queue over = policy_expire(&net->policy, node->index, net_now(net));
    arm_keep_timer(node);
    fail_all(net, &over, REDLOCK_VERDICT_DISCONNECTED);
}

void node_lose_calls(struct node *node, struct call_queue *lost, int verdict) {
    struct net *net = node->net;
    struct call_queue over = policy_lose(&net->policy, node->index, lost, net_now(net));
    arm_keep_timer(node);
    fail_all(net, &over, verdict);
}

static void retry_memory(struct node *node) {
    timers_set(&node->net->timers, &node->memory_timer, net_now(node->net) + NET_MEMORY_RETRY);
}

/* ---- sending ---- */

static bool goes_by_transaction(struct node *node, const struct net_request *request) {
    if (node->uses_transactions && command_needs_script(request)) return true;
    return node->tx.calls.head && transaction_conflicts(node, request);
}

/* Questions about all calls on a connection (does an owner have another call, is a key being read?)
 * are answered by counts; otherwise each would walk the whole queue. Counting begins at the first
 * such question and ends when the calls of that time are answered: mostly nothing is counted. */

/* Rarely called, and kept out of the code that runs for each answer. */
#define SELDOM __attribute__((cold, noinline))

static uint64_t owner_of(const struct net_call *call) { return (uintptr_t)call->owner; }

/* Counts a call: bag_add() or bag_remove(). */
typedef void bag_fn(struct bag *bag, uint64_t number);

SELDOM static void each_number(struct conn *conn, const struct net_call *call, bag_fn *fn) {
    if (conn->kind != CONN_NOTIFIER) {
        fn(&conn->counted, owner_of(call));
        return;
    }
    for (size_t i = 0; i < call->request->keys_count; i++)
        fn(&conn->counted, key_hash(call->request->keys[i]));
}

SELDOM static void uncount_call(struct conn *conn, const struct net_call *call) {
    each_number(conn, call, bag_remove);
    if (conn->counted_until == call) conn_stop_counting(conn);
}

void conn_stop_counting(struct conn *conn) {
    conn->counted_until = NULL;
    bag_clear(&conn->counted);
}

bool conn_counts(struct conn *conn) {
    if (!conn->counted_until && conn->calls.head) {
        conn->counted_until = conn->calls.tail;
        for (const struct net_call *call = conn->calls.head; call; call = call->next)
            each_number(conn, call, bag_add);
    }
    return bag_is_whole(&conn->counted);
}

static bool owner_has_another(struct conn *conn, const struct net_call *call) {
    if (conn_counts(conn)) return bag_times(&conn->counted, owner_of(call)) > 0;
    for (const struct net_call *later = conn->calls.head; later; later = later->next)
        if (later->owner == call->owner) return true;
    return false;
}

static void expect(struct conn *conn, struct net_call *call, uint8_t state) {
    struct node *node = conn->node;
    if (command_is_plain(call->request)) state |= CALL_PLAIN;
    if (command_is_vote(call->request)) state |= CALL_VOTE_PAIR;
    call->state = (uint8_t)((call->state & CALL_SENT_BEFORE) | state);
    if (conn->counted_until) each_number(conn, call, bag_add);
    policy_asked(&node->net->policy, &conn->calls, call);
    if (conn->kind == CONN_MAIN) node->sent++;
    if (conn->deadline.index == 0 || conn->deadline.at > call->due) conn_arm_deadline(conn);
}

/* `encoded` NULL: encode it here. False: no memory or no connection, and nothing happened. */
static bool post(struct node *node, struct net_call *call, const struct buffer *encoded) {
    if (goes_by_transaction(node, call->request)) {
        transaction_add(node, call);
        return true;
    }
    struct conn *conn = call->request->op == NET_WATCH ? tracking_way(node) : &node->main;
    if (!conn) return false;
    struct buffer *out = &conn->out;
    size_t nonce_at;
    bool done =
        encoded
            ? buffer_append(out, buffer_data(encoded), buffer_bytes(encoded), NET_WIRE_BYTES_MAX)
            : command_encode(call->request, node->index, false, out, NET_WIRE_BYTES_MAX, &nonce_at);
    if (done) expect(conn, call, 0);
    return done;
}

void node_send_kept(struct node *node) {
    struct policy *policy = &node->net->policy;
    struct net_call *call;
    rl_ns now = net_now(node->net);
    while ((call = policy_take_kept(policy, node->index, now))) {
        if (post(node, call, NULL)) continue;
        policy_put_back(policy, node->index, call);
        retry_memory(node);
        break;
    }
    arm_keep_timer(node);
}

/* True when the node took the call. */
static bool send_one(struct node *node, struct net_call *call, const struct buffer *encoded) {
    bool can_post = policy_takes(&node->net->policy, node->index) &&
                    (encoded || goes_by_transaction(node, call->request));
    if (can_post && post(node, call, encoded)) return true;
    if (!net_op_is(call->request->op, NET_OP_KEPT)) return false;
    keep(node, call);
    /* With the connection up, only memory failed. */
    if (node->main.state == CONN_READY) retry_memory(node);
    return true;
}

rl_mask net_send(struct net *net, rl_mask nodes, const struct net_request *request,
                 struct net_call *calls, rl_ns due, rl_ns keep_until) {
    rl_mask taken = 0;
    size_t nonce_at = 0;
    if (net->closing) return 0;
    assert(request->keys_count <= REDLOCK_RESOURCES_MAX &&
           request->stripes_count <= REDLOCK_RESOURCES_MAX);
    assert(net->guarded || !command_is_guarded(request));
    buffer_clear(&net->scratch);
    bool encoded = command_encode(request, 0, false, &net->scratch, NET_WIRE_BYTES_MAX, &nonce_at);
    const bool kept = net_op_is(request->op, NET_OP_KEPT);
    struct node *node = net->node;
    for (unsigned i = 0, count = net->nodes; i < count; i++, node++) {
        struct net_call *call = &calls[i];
        if (!(nodes & rl_bit(i)) || !(kept || policy_takes(&net->policy, i))) continue;
        assert(!call->busy);
        /* a second entry in the queue would cut off all calls between the two */
        if (call->busy) continue;
        call->request = request;
        call->due = due;
        call->keep_until = keep_until;
        call->node = (uint8_t)i;
        call->busy = true;
        call->state = 0;
        if (nonce_at) command_for_node(request, i, nonce_at, &net->scratch);
        if (send_one(node, call, encoded ? &net->scratch : NULL))
            taken |= rl_bit(i);
        else
            call->busy = false;
    }
    buffer_clear(&net->scratch);
    return taken;
}

/* ---- answers ---- */

static inline struct net_call *take_first(struct conn *conn) {
    struct net_call *call = policy_answered(&conn->node->net->policy, &conn->calls);
    if (conn->counted_until) uncount_call(conn, call);
    if (conn->kind == CONN_MAIN) conn->node->answered++;
    conn->replies = 0;
    return call;
}

static void send_whole(struct conn *conn) {
    struct node *node = conn->node;
    struct net_call *call = take_first(conn);
    bool release = net_op_is(call->request->op, NET_OP_KEPT);
    size_t nonce_at;
    if (!release && owner_has_another(conn, call)) {
        call_failed(node->net, call, REDLOCK_VERDICT_ERROR);
        return;
    }
    if (command_encode(call->request, node->index, true, &conn->out, NET_WIRE_BYTES_MAX,
                       &nonce_at)) {
        expect(conn, call, CALL_SENT_WHOLE);
    } else if (release) {
        keep(node, call);
        retry_memory(node);
    } else {
        call_failed(node->net, call, REDLOCK_VERDICT_NO_MEMORY);
    }
}

/* Calls are in their owners' memory, so with hundreds under way each one is a cache miss. The next
 * ones are prefetched while this one is processed. */
static void send_for_next(const struct net_call *call) {
    const struct net_call *next = call->next;
    if (!next) return;
    __builtin_prefetch(next->owner, 1);
    __builtin_prefetch(next->next, 1);
}

/* One reply on a connection that is ready. */
void call_reply(struct conn *conn) {
    struct net_call *call = conn->calls.head;
    const struct reader *reader = &conn->reader;
    if (!call) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "an answer without a request");
        return;
    }
    send_for_next(call);
    if ((call->state & CALL_PLAIN) &&
        command_answer_plain((enum net_op)call->op, reader, &conn->answer)) {
        call_done(conn->node->net, take_first(conn), &conn->answer);
        return;
    }
    if ((call->state & CALL_VOTE_PAIR) &&
        command_answer_vote(conn->replies, reader, &conn->answer)) {
        if (++conn->replies == 2) call_done(conn->node->net, take_first(conn), &conn->answer);
        return;
    }
    if (reader_is_error(reader) && command_needs_script(call->request) &&
        !(call->state & CALL_SENT_WHOLE) && verdict_is_noscript(reader->bytes[0])) {
        send_whole(conn);
        return;
    }
    struct answer_room room = {conn->node->net->fences, &conn->state_reported};
    if (!command_answer(call->request, conn->replies, reader, room, &conn->answer)) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
        return;
    }
    if (++conn->replies < command_replies(call->request)) return;
    /* no reply is read before the handler returns */
    call_done(conn->node->net, take_first(conn), &conn->answer);
}
