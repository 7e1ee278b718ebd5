/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sends calls, and handles their answers.
 *
 * A node gets the requests in the order of net_send(). Two things could break this order.
 *
 * 1. A script's text goes with its first call on a connection, and its hash with the later ones. If
 *    the server has dropped the script since then (NOSCRIPT), the call is sent a second time, with
 *    the text, and then comes behind requests that were queued after it.
 *    - A late RELEASE does no harm: it deletes its own token or nothing.
 *    - An ACQUIRE behind its own RELEASE would leave a key that no client deletes. A late RAISE
 *      would hold a fence for a lock that was released. A read of the record would come before the
 *      RECORD_WRITE that it follows. So a call fails (verdict ERROR) if a later call of the same
 *      owner is queued.
 *    - Behind calls of other owners any script may be late. Fences only grow, so the order of two
 *      raises does not matter. A RECORD_WRITE compares the nonce when it runs, so a late one has
 *      the effect of one that was sent late. The nonce for votes is read again when a vote is
 *      encoded, and a vote under a newer nonce proves at least as much.
 *    A guarded ACQUIRE of one key is a SET and a ZADD, not a script, and keeps its place.
 * 2. Where transactions are used, a SET on the main connection could overtake a release that waits
 *    for its turn on the other connection. So a request that shares a key with a waiting
 *    transaction waits behind it, in the same queue.
 *
 * A WATCH on the notifier (tracking.c) has no place in this order: it only reads, and its result is
 * a hint. */
#include <assert.h>
#include <stdio.h>

#include "net/codec/command.h"
#include "net/conn/conn.h"
#include "net/codec/form.h"
#include "net/codec/error_reply.h"

/* net_call.state, ored */
enum {
    CALL_SENT_WHOLE = 2 * CALL_SENT_BEFORE, /* the script went as EVAL */
    CALL_PLAIN = 2 * CALL_SENT_WHOLE,       /* command_answer_plain() can read the answer */
    CALL_VOTE_PAIR = 2 * CALL_PLAIN,        /* so can command_answer_vote() */
    CALL_NATIVE = 2 * CALL_VOTE_PAIR,       /* it went as the module's own command */
    CALL_NATIVE_WRITE = 2 * CALL_NATIVE,    /* command_answer_native() can read the answer */
    CALL_DELETER = 2 * CALL_NATIVE_WRITE    /* it went as one command in place of a script */
};

/* The trial's answers have come, or never will. */
static void deleter_tried(struct node *node, struct net_call *call, const struct net_reply *reply) {
    call->busy = false;
    call->next = NULL;
    node->main->deletes = reply->verdict == REDLOCK_VERDICT_GRANTED;
}

void call_done(struct net *net, struct net_call *call, const struct net_reply *reply) {
    struct net_reply reported;
    if (call == &net->trials[call->node]) {
        deleter_tried(&net->node[call->node], call, reply);
        return;
    }
    int verdict = policy_verdict(call, reply->verdict);
    if (verdict != reply->verdict) {
        reported = *reply;
        reported.verdict = verdict;
        reply = &reported;
    }
    call->busy = false;
    call->next = NULL;
    if (call->request->op != NET_SERVER_INFO) node_note_refusal(&net->node[call->node], reply);
    if (call->request->op == NET_TRACK || call->request->op == NET_PROBE) {
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

/* Called last, when the node is not in the middle of a state change: handlers may send again. */
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

static void keep(struct node *node, struct net_call *call) {
    struct net *net = node->net;
    policy_keep(&net->policy, node->index, call);
    arm_keep_timer(node);
    nodes_connect(net, policy_needed(&net->policy, net_now(net)));
    /* with the connection up, only memory failed */
    if (node->main->state == CONN_READY) retry_memory(node);
}

/* ---- sending ---- */

/* Whether the release is one command that compares and deletes. */
static bool goes_by_deleter(const struct node *node, const struct net_request *request) {
    return node->main->deletes && form_of_deleter(request, node->main->deleter == COMMAND_DELIFEQ);
}

static bool goes_by_transaction(struct node *node, const struct net_request *request) {
    if (node->status.uses_transactions && command_needs_script(request, node->status.native) &&
        !goes_by_deleter(node, request))
        return true;
    return node->aux.calls.head && transaction_conflicts(node, request);
}

/* Questions about all calls on a connection (does an owner have another call, is a key being read?)
 * are answered by counts; otherwise each would walk the whole queue. Counting begins at the first
 * such question and ends when the calls of that time are answered: mostly nothing is counted. */

/* Rarely called, and kept out of the code that runs for each answer. */
#define SELDOM __attribute__((cold, noinline))

static uint64_t owner_of(const struct net_call *call) { return (uintptr_t)call->owner; }

static uint64_t key_hash(struct net_bytes key) {
    return rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes);
}

/* `count` is bag_add() or bag_remove(). */
static void each_number(struct conn *conn, const struct net_call *call,
                        void (*count)(struct bag *bag, uint64_t number)) {
    if (conn->kind == CONN_MAIN) count(&conn->counted, owner_of(call));
    for (size_t i = 0; conn->kind != CONN_MAIN && i < call->request->keys_count; i++)
        count(&conn->counted, key_hash(call->request->keys[i]));
}

SELDOM void conn_count_call(struct conn *conn, const struct net_call *call) {
    each_number(conn, call, bag_add);
}

SELDOM void conn_uncount_call(struct conn *conn, const struct net_call *call) {
    each_number(conn, call, bag_remove);
    if (conn->counted_until == call) conn_stop_counting(conn);
}

void conn_stop_counting(struct conn *conn) {
    conn->counted_until = NULL;
    bag_clear(&conn->counted);
}

/* Counts the calls in `counted`, from now until the calls that are there now are answered. False:
 * no memory. */
static bool counts(struct conn *conn) {
    if (!conn->counted_until && conn->calls.head) {
        conn->counted_until = conn->calls.tail;
        for (const struct net_call *call = conn->calls.head; call; call = call->next)
            each_number(conn, call, bag_add);
    }
    return bag_is_whole(&conn->counted);
}

/* Only where many calls wait their keys are counted. Of the first call, `replies` shows which keys
 * have their answer already (two replies each; on CONN_AUX none). */
bool conn_has_key(struct conn *conn, struct net_bytes key) {
    enum { MANY = 16 };
    const size_t answered = conn->replies / 2;
    unsigned calls = 0;
    for (const struct net_call *call = conn->calls.head; call; call = call->next) {
        const struct net_request *request = call->request;
        if (++calls == MANY && counts(conn)) {
            uint32_t times = bag_times(&conn->counted, key_hash(key));
            for (size_t i = 0; i < answered; i++)
                times -= bytes_equal(conn->calls.head->request->keys[i], key);
            return times > 0;
        }
        for (size_t i = calls == 1 ? answered : 0; i < request->keys_count; i++)
            if (bytes_equal(request->keys[i], key)) return true;
    }
    return false;
}

static bool owner_has_another(struct conn *conn, const struct net_call *call) {
    if (counts(conn)) return bag_times(&conn->counted, owner_of(call)) > 0;
    for (const struct net_call *later = conn->calls.head; later; later = later->next)
        if (later->owner == call->owner) return true;
    return false;
}

static void expect(struct conn *conn, struct net_call *call, uint8_t state) {
    struct node *node = conn->node;
    if (state & CALL_DELETER) {
        state |= CALL_NATIVE_WRITE; /* both answer 1 */
    } else if (node->status.native && form_of_native(call->request)) {
        state |= CALL_NATIVE;
        if (command_is_native_write(call->request)) state |= CALL_NATIVE_WRITE;
    } else {
        if (command_is_plain(call->request)) state |= CALL_PLAIN;
        if (command_is_vote(call->request)) state |= CALL_VOTE_PAIR;
    }
    call->state = (uint8_t)((call->state & CALL_SENT_BEFORE) | state);
    if (conn->counted_until) conn_count_call(conn, call);
    policy_asked(&node->net->policy, &conn->calls, call);
    conn->queued++;
    if (conn->kind == CONN_MAIN) node->sent++;
    if (!net_timer_is_armed(&conn->deadline) || conn->deadline.at > call->due)
        conn_arm_deadline(conn);
}

static bool serves(const struct node *node, const struct net_request *request) {
    if (request->op == NET_ACQUIRE_SLOT) return node->status.keeps_slots;
    return !net_op_is(request->op, NET_OP_READERS) || node->status.keeps_readers;
}

/* A request in each style, for several nodes. A style is written at the first node that takes it,
 * since most quorums have only one kind of node. */
struct encodings {
    /* 1 << the script that a stock node needs, and a native one; 0: not known yet */
    uint32_t script[2];
    struct {
        size_t nonce_at;
        bool tried, done;
    } each[COMMAND_STYLES];
};

/* NULL: no memory. */
static const struct buffer *encode(struct encodings *encodings, const struct net_request *request,
                                   const struct node *node, enum command_style style) {
    struct buffer *buffer = &node->net->scratch[style];
    if (!encodings->each[style].tried) {
        encodings->each[style].tried = true;
        encodings->each[style].done =
            command_encode(request, node->index, style, buffer, NET_WIRE_BYTES_MAX,
                           &encodings->each[style].nonce_at);
    } else if (encodings->each[style].nonce_at) {
        command_for_node(request, node->index, encodings->each[style].nonce_at, buffer);
    }
    return encodings->each[style].done ? buffer : NULL;
}

static void clear_encodings(struct net *net, const struct encodings *encodings) {
    for (int style = 0; style < COMMAND_STYLES; style++)
        if (encodings->each[style].tried) buffer_clear(&net->scratch[style]);
}

/* ---- one command that compares and deletes ----
 *
 * Redis has DELEX key IFEQ token, and Valkey DELIFEQ key token: less than half of a script's work,
 * and no script is needed. There are servers that accept such a command and do not compare; there
 * it would delete another client's lock. So before the first request on a connection that changes
 * keys, the command is tried on a key of our own: it must leave another value alone, and delete its
 * own. Until the trial is passed, and where it is refused, scripts go on.
 *
 * Both answer 0 whether the key is absent or another client's. Who must tell these apart
 * (`tells_holder`) has the script asked after it; so is it after an error, since only the script
 * has the words for it: DELEX has its own for a key of another type. */

/* No other process uses the key, and a node has one trial at a time. */
static void try_deleter(struct conn *conn) {
    struct node *node = conn->node;
    struct net *net = node->net;
    struct net_call *call = &net->trials[node->index];
    const struct net_bytes waiter = net_waiter(net);
    size_t nonce_at;
    conn->deleter_tried = true;
    if (call->busy || !waiter.data) return;
    if (net->trial.keys_count == 0) {
        snprintf(net->trial_text, sizeof(net->trial_text), NET_KEY_WAITING "%s" TRIAL_SUFFIX,
                 net->waiter);
        net->trial_key = (struct net_bytes){net->trial_text, strlen(net->trial_text)};
        net->trial =
            (struct net_request){.op = NET_DELETE_TRIAL, .keys = &net->trial_key, .keys_count = 1};
    }
    *call = (struct net_call){.request = &net->trial,
                              .owner = net,
                              .due = net_now(net) + net->connect_timeout,
                              .node = (uint8_t)node->index};
    if (!command_encode(&net->trial, node->index, conn->deleter, &conn->out, NET_WIRE_BYTES_MAX,
                        &nonce_at))
        return;
    call->busy = true;
    expect(conn, call, 0);
}

/* False: no memory or no connection, and nothing happened. */
static bool post(struct node *node, struct net_call *call, struct encodings *encodings) {
    const struct net_request *request = call->request;
    if (goes_by_transaction(node, request)) {
        transaction_add(node, call);
        return true;
    }
    struct conn *conn = tracking_way(node, request->op);
    if (!conn) return false;
    const bool native = node->status.native;
    if (conn->deleter != COMMAND_STOCK && !conn->deleter_tried && net_op_is_write(request->op))
        try_deleter(conn);
    /* where there is no memory for one more style, the script goes as it did before */
    const bool deleter =
        goes_by_deleter(node, request) && encode(encodings, request, node, conn->deleter);
    if (!encodings->script[native])
        encodings->script[native] = UINT32_C(1) << command_script(request, native);
    const uint32_t script = deleter ? UINT32_C(1) << NODE_SCRIPTS_ALL : encodings->script[native];
    const bool whole = !(conn->scripts & script);
    const struct buffer *encoded = encode(encodings, request, node,
                                          deleter  ? conn->deleter
                                          : whole  ? COMMAND_WHOLE
                                          : native ? COMMAND_NATIVE
                                                   : COMMAND_STOCK);
    if (!encoded ||
        !buffer_append(&conn->out, buffer_data(encoded), buffer_bytes(encoded), NET_WIRE_BYTES_MAX))
        return false;
    conn->scripts |= script;
    expect(conn, call, deleter ? CALL_DELETER : whole ? CALL_SENT_WHOLE : 0);
    return true;
}

void node_send_kept(struct node *node) {
    struct net *net = node->net;
    struct net_call *call;
    rl_ns now = net_now(net);
    while ((call = policy_take_kept(&net->policy, node->index, now))) {
        struct encodings encodings = {0};
        const bool sent = serves(node, call->request) && post(node, call, &encodings);
        clear_encodings(net, &encodings);
        if (sent) continue;
        policy_put_back(&net->policy, node->index, call);
        retry_memory(node);
        break;
    }
    arm_keep_timer(node);
}

rl_mask net_send(struct net *net, rl_mask nodes, const struct net_request *request,
                 struct net_call *calls, rl_ns due, rl_ns keep_until) {
    rl_mask taken = 0;
    struct encodings encodings = {0};
    if (net->closing) return 0;
    assert(request->keys_count <= REDLOCK_RESOURCES_MAX &&
           request->stripes_count <= REDLOCK_RESOURCES_MAX);
    assert(net->guarded || !command_is_guarded(request));
    const bool kept = net_op_is(request->op, NET_OP_KEPT);
    struct node *node = net->node;
    for (unsigned i = 0, count = net->nodes; i < count; i++, node++) {
        struct net_call *call = &calls[i];
        const bool takes = policy_takes(&net->policy, i);
        if (!(nodes & rl_bit(i)) || !(takes || kept) || !serves(node, request)) continue;
        assert(!call->busy);
        /* a second entry in the queue would cut off all calls between the two */
        if (call->busy) continue;
        call->request = request;
        call->due = due;
        call->keep_until = keep_until;
        call->node = (uint8_t)i;
        call->busy = true;
        call->state = 0;
        const bool sent = takes && post(node, call, &encodings);
        if (!sent && kept) keep(node, call);
        if (sent || kept)
            taken |= rl_bit(i);
        else
            call->busy = false;
    }
    clear_encodings(net, &encodings);
    return taken;
}

/* ---- answers ---- */

static inline struct net_call *take_first(struct conn *conn) {
    struct net_call *call = policy_answered(&conn->node->net->policy, &conn->calls);
    if (conn->counted_until) conn_uncount_call(conn, call);
    conn->answered++;
    if (conn->kind == CONN_MAIN) conn->node->answered++;
    conn->replies = 0;
    return call;
}

static void send_whole(struct conn *conn, struct net_call *call) {
    struct node *node = conn->node;
    bool release = net_op_is(call->request->op, NET_OP_KEPT);
    size_t nonce_at;
    if (!release && owner_has_another(conn, call)) {
        call_failed(node->net, call, REDLOCK_VERDICT_ERROR);
        return;
    }
    if (command_encode(call->request, node->index, COMMAND_WHOLE, &conn->out, NET_WIRE_BYTES_MAX,
                       &nonce_at)) {
        expect(conn, call, CALL_SENT_WHOLE);
    } else if (release) {
        keep(node, call);
    } else {
        call_failed(node->net, call, REDLOCK_VERDICT_NO_MEMORY);
    }
}

/* Nothing was deleted. An error may mean that the permission is gone: the script stays in use. */
static void deleter_answered(struct conn *conn) {
    static const struct net_reply none = {.verdict = REDLOCK_VERDICT_ABSENT, .remaining_ms = -2};
    struct node *node = conn->node;
    const bool failed = reader_is_error(&conn->reader);
    const struct reply_slot *slot = &conn->reader.slots[0];
    if (!failed && (slot->type != REPLY_INTEGER || slot->integer != 0)) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
        return;
    }
    if (failed) conn->deletes = false;
    struct net_call *call = take_first(conn);
    if (!failed && !call->request->tells_holder)
        call_done(node->net, call, &none);
    else if (node->status.uses_transactions)
        transaction_add(node, call);
    else
        send_whole(conn, call);
}

/* Calls are in their owners' memory, so with hundreds under way each one is a cache miss. The next
 * ones are prefetched while this one is processed. */
static void send_for_next(const struct net_call *call) {
    const struct net_call *next = call->next;
    if (!next) return;
    __builtin_prefetch(next->owner, 1);
    __builtin_prefetch(next->next, 1);
}

/* The module was unloaded: what the node held is gone, and another kind of node is there now. */
static bool module_is_gone(const struct net_call *call, const struct reader *reader) {
    const struct net_request *request = call->request;
    bool of_the_module = (call->state & CALL_NATIVE) &&
                         (request->op != NET_SERVER_INFO || request->question == NET_ASK_QUORUM);
    return of_the_module && reader_is_error(reader) &&
           error_reply_is_unknown_command(reader->bytes[0]);
}

/* One reply on a connection that is ready. */
void call_reply(struct conn *conn) {
    struct net_call *call = conn->calls.head;
    const struct reader *reader = &conn->reader;
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
    if ((call->state & CALL_NATIVE_WRITE) && command_answer_native(reader, &conn->answer)) {
        call_done(conn->node->net, take_first(conn), &conn->answer);
        return;
    }
    if (call->state & CALL_DELETER) {
        deleter_answered(conn);
        return;
    }
    if (module_is_gone(call, reader)) {
        conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED,
                  "the module redlock was unloaded: connecting again");
        return;
    }
    const bool native = (call->state & CALL_NATIVE) != 0;
    if (reader_is_error(reader) && command_needs_script(call->request, native) &&
        !(call->state & CALL_SENT_WHOLE) && error_reply_is_noscript(reader->bytes[0])) {
        send_whole(conn, take_first(conn));
        return;
    }
    struct answer_room room = {conn->node->net->fences, &conn->state_reported,
                               native ? conn->node->status.run_id : NULL};
    if (!command_answer(call->request, conn->replies, reader, room, &conn->answer)) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
        return;
    }
    if (++conn->replies < command_replies(call->request, native)) return;
    /* no reply is read before the handler returns */
    call_done(conn->node->net, take_first(conn), &conn->answer);
}
