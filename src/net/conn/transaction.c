/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests on a node that refuses scripts. Each becomes a transaction: WATCH the keys, read them,
 * MULTI, and if they need a change, change, then EXEC. A change is sent only when MULTI has been
 * accepted: where this user may not run it, the change would be executed at once, whoever has the
 * key by then. They run one at a time and on a connection of
 * their own (aux). On a shared pipeline the EXEC of another request would end our WATCH, and the
 * change could delete a key that meanwhile became another client's.
 *
 * A transaction starts only when all requests that were sent on the main connection before it have
 * been answered. When another client's write makes EXEC fail, the transaction starts again,
 * TX_TRIES times in all. GETRANGE reads one byte more than the token has, which is enough to
 * compare: another client's value may have megabytes. PTTL distinguishes an absent key from an
 * empty one.
 *
 * A request that shares a key with a waiting transaction waits here for its turn, so that it does
 * not overtake. If it needs no script, it is then sent as it is (PLAIN).
 *
 * MULTI goes with the reads: where it is refused, no change may follow, which would be made at once
 * and whatever the key holds by then. A transaction without a change ends by EXEC, too.
 *
 * A lock of scheme=setnx reads more than one key and changes two, by commands of its own (setnx.c);
 * the stages are the same. Guarded requests never come here: a guarded net does not use a node
 * without scripts. */
#include <string.h>

#include "net/codec/command.h"
#include "net/conn/conn.h"
#include "net/codec/error_reply.h"

enum { TX_TRIES = 3 };

static void push(struct node *node, struct net_call *call) {
    calls_await(&node->aux.calls, call);
    if (node->aux.counted_until) conn_count_call(&node->aux, call);
}

bool transaction_conflicts(struct node *node, const struct net_request *request) {
    if (request->op == NET_SCAN) return false;
    for (size_t i = 0; i < request->keys_count; i++)
        if (conn_has_key(&node->aux, request->keys[i])) return true;
    return false;
}

void transaction_add(struct node *node, struct net_call *call) {
    call->order = node->sent;
    push(node, call);
    policy_awaits(&node->net->policy, call->due);
    conn_arm_deadline(&node->aux);
}

struct call_queue transaction_take_all(struct node *node) {
    struct call_queue all = node->aux.calls;
    node->aux.calls = (struct call_queue){.head = NULL};
    conn_stop_counting(&node->aux);
    memset(&node->tx, 0, sizeof(node->tx));
    policy_changed(&node->net->policy);
    return all;
}

/* The second connection failed. Releases stay, in order, for the next one. */
void transaction_lost(struct node *node, int verdict) {
    struct call_queue all = transaction_take_all(node), over = {.head = NULL};
    struct net_call *call;
    rl_ns now = net_now(node->net);
    while ((call = calls_pop(&all))) {
        if (policy_keeps(call, now))
            push(node, call);
        else
            calls_push(&over, call);
    }
    while ((call = calls_pop(&over))) call_failed(node->net, call, verdict);
}

/* ---- the parts ---- */

static bool send_words(struct node *node, const struct words *words) {
    node->tx.awaited++;
    return words_end(words, &node->aux.out, NET_WIRE_BYTES_MAX);
}

static bool send_bare(struct node *node, const char *command) {
    node->tx.awaited++;
    return conn_command(&node->aux, command, NULL);
}

static void enter(struct node *node, enum transaction_stage stage) {
    node->tx.stage = stage;
    node->tx.replies = node->tx.awaited = 0;
    node->aux.queued++;
}

/* Half a transaction must never be written. The connection's buffer has nothing else in it, and
 * this ends the connection. */
static void no_memory(struct node *node) {
    conn_break(&node->aux, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
}

static bool send_reads(struct node *node, const struct net_request *request) {
    struct words words;
    if (request->scheme) {
        node->tx.awaited = SETNX_CHECKS;
        return setnx_send_checks(request, &node->aux.out, NET_WIRE_BYTES_MAX);
    }
    words_begin(&words, "WATCH");
    for (size_t i = 0; i < request->keys_count; i++) words_bytes(&words, request->keys[i]);
    if (!send_words(node, &words)) return false;
    for (size_t i = 0; i < request->keys_count; i++) {
        words_begin(&words, "PTTL");
        words_bytes(&words, request->keys[i]);
        if (!send_words(node, &words)) return false;
        words_begin(&words, "GETRANGE");
        words_bytes(&words, request->keys[i]);
        words_number(&words, 0);
        words_number(&words, request->token.bytes); /* one byte more than the token */
        if (!send_words(node, &words)) return false;
    }
    return true;
}

static void begin_check(struct node *node) {
    struct transaction *tx = &node->tx;
    enter(node, TX_CHECK);
    tx->answer = (struct net_reply){.verdict = REDLOCK_VERDICT_NONE, .remaining_ms = -2};
    tx->open = false;
    tx->ours = tx->foreign = tx->changed = 0;
    memset(tx->mine, 0, sizeof(tx->mine));
    memset(&tx->setnx, 0, sizeof(tx->setnx));
    if (!send_reads(node, node->aux.calls.head->request) || !send_bare(node, "MULTI"))
        no_memory(node);
}

static bool must_change(const struct transaction *tx, const struct net_request *request, size_t i) {
    switch (request->op) {
    case NET_ACQUIRE: return true;
    case NET_RELEASE: return tx->mine[i];
    default: return tx->left_ms[i] < request->ttl_ms; /* never shortens */
    }
}

static bool send_changes(struct node *node, const struct net_request *request) {
    bool release = request->op == NET_RELEASE, acquire = request->op == NET_ACQUIRE;
    struct words words;
    if (request->scheme) {
        unsigned commands =
            setnx_send_changes(request, &node->tx.setnx, &node->aux.out, NET_WIRE_BYTES_MAX);
        node->tx.awaited += commands;
        return commands > 0;
    }
    for (size_t i = 0; i < request->keys_count; i++) {
        if (!must_change(&node->tx, request, i)) continue;
        words_begin(&words, release ? "DEL" : acquire ? "SET" : "PEXPIRE");
        words_bytes(&words, request->keys[i]);
        if (acquire) {
            words_bytes(&words, request->token);
            words_text(&words, "NX");
            words_text(&words, "PX");
        }
        if (!release) words_number(&words, (uint64_t)request->ttl_ms);
        if (!send_words(node, &words)) return false;
    }
    return true;
}

static void finish(struct node *node) {
    struct net_reply answer = node->tx.answer;
    struct net_call *call = calls_pop(&node->aux.calls);
    if (node->aux.counted_until) conn_uncount_call(&node->aux, call);
    policy_turn_heard(&node->net->policy, node->index);
    policy_taken(&node->net->policy, node->index);
    enter(node, TX_IDLE);
    node->tx.tries = 0;
    transaction_pump(node);
    call_done(node->net, call, &answer);
}

static void finish_with(struct node *node, int verdict) {
    node->tx.answer.verdict = verdict;
    finish(node);
}

/* ---- replies ---- */

static void note_error(struct node *node) {
    struct net_reply *answer = &node->tx.answer;
    struct net_bytes error = node->aux.reader.bytes[0];
    if (answer->verdict != REDLOCK_VERDICT_NONE) return;
    answer->verdict = error_reply_verdict(error);
    error_reply_denied_command(error, answer->denied, sizeof(answer->denied));
    /* "EXECABORT Transaction discarded because of: NOPERM ..." */
    if (answer->denied[0] != '\0') answer->verdict = REDLOCK_VERDICT_NOPERM;
    error_reply_unknown_command(error, answer->unknown, sizeof(answer->unknown));
}

/* The result of reading the keys: a change, or else the verdict that holds without one. */
static int judge(const struct transaction *tx, const struct net_request *request, bool *change) {
    unsigned work = 0;
    for (size_t i = 0; i < request->keys_count; i++)
        if (must_change(tx, request, i)) work++;
    const int failure = tx->answer.verdict;
    bool clean = failure == REDLOCK_VERDICT_NONE;
    switch (request->op) {
    case NET_ACQUIRE:
        *change = clean && tx->ours + tx->foreign == 0;
        return tx->ours + tx->foreign > 0 ? REDLOCK_VERDICT_DENIED : failure;
    case NET_RELEASE: /* a key of another kind keeps none of ours */
        *change = work > 0 && (clean || failure == REDLOCK_VERDICT_WRONGTYPE);
        break;
    default:
        *change = clean && work > 0 && tx->ours == request->keys_count;
        if (clean && tx->ours == request->keys_count) return REDLOCK_VERDICT_GRANTED;
        break;
    }
    if (!clean) return failure;
    return tx->foreign > 0 ? REDLOCK_VERDICT_DENIED : REDLOCK_VERDICT_ABSENT;
}

static void decide(struct node *node) {
    const struct net_request *request = node->aux.calls.head->request;
    bool change = false;
    int verdict = request->scheme
                      ? setnx_judge(request, &node->tx.setnx, node->tx.answer.verdict, &change)
                      : judge(&node->tx, request, &change);
    bool sent;
    if (change && node->tx.open) {
        enter(node, TX_COMMIT);
        sent = send_changes(node, request) && send_bare(node, "EXEC");
    } else {
        /* The answer is final, but the WATCH must end before the next transaction begins. */
        node->tx.answer.verdict = change ? node->tx.refused : verdict;
        enter(node, TX_END);
        sent = send_bare(node, node->tx.open ? "EXEC" : "UNWATCH");
    }
    if (!sent) no_memory(node);
}

/* WATCH, then PTTL and GETRANGE of each key. False: not a reply to it. */
static bool take_key_check(struct transaction *tx, const struct net_request *request,
                           const struct reader *reader, unsigned nth) {
    const struct reply_slot *slot = &reader->slots[0];
    bool error = reader_is_error(reader);
    if (nth == 0) return error || reader_is_status(reader, 0, "OK");
    size_t key = (nth - 1) / 2;
    if (nth % 2 == 1) {
        tx->left_ms[key] = error ? -2 : slot->integer;
        return error || slot->type == REPLY_INTEGER;
    }
    /* An error of GETRANGE means a key that is not a string. For a release or an extension it is
     * another client's; for an acquisition it merely exists. */
    bool there = tx->left_ms[key] != -2;
    tx->mine[key] = there && !error && bytes_equal(reader->bytes[0], request->token);
    if (tx->mine[key]) tx->ours++;
    if (there && !tx->mine[key]) tx->foreign++;
    return error || slot->type == REPLY_STRING;
}

static bool take_multi(struct node *node) {
    struct transaction *tx = &node->tx;
    tx->open = reader_is_status(&node->aux.reader, 0, "OK");
    if (reader_is_error(&node->aux.reader)) {
        tx->refused = error_reply_verdict(node->aux.reader.bytes[0]);
        note_error(node);
    }
    return tx->open || reader_is_error(&node->aux.reader);
}

static bool take_check(struct node *node) {
    struct transaction *tx = &node->tx;
    const struct reader *reader = &node->aux.reader;
    const struct net_request *request = node->aux.calls.head->request;
    unsigned nth = tx->replies++;
    bool error = reader_is_error(reader), right = true, last = tx->replies == tx->awaited;
    if (error && !last) note_error(node);
    if (last)
        right = take_multi(node);
    else if (!request->scheme)
        right = take_key_check(tx, request, reader, nth);
    else if (!error)
        right = setnx_take_check(request, nth, reader, &tx->setnx);
    if (right && last) decide(node);
    return right;
}

/* What EXEC was refused for other reasons than a command before it leaves the connection inside the
 * transaction. */
static void leave_open_transaction(struct node *node) {
    static const char aborted[] = "EXECABORT";
    const struct net_bytes error = node->aux.reader.bytes[0];
    if (!node->tx.open ||
        memmem(error.data, error.bytes, aborted, sizeof(aborted) - 1) == error.data)
        return;
    conn_break(&node->aux, REDLOCK_VERDICT_DISCONNECTED, "EXEC is refused");
}

static void conclude(struct node *node, unsigned changes) {
    struct transaction *tx = &node->tx;
    const struct net_request *request = node->aux.calls.head->request;
    int verdict = tx->answer.verdict;
    if (verdict != REDLOCK_VERDICT_NONE) {
        finish(node);
        return;
    }
    if (request->scheme) /* the WATCH held: what was read was so */
        verdict = REDLOCK_VERDICT_GRANTED;
    else if (request->op == NET_RELEASE && tx->foreign)
        verdict = REDLOCK_VERDICT_DENIED;
    else if (request->op == NET_RELEASE ? tx->changed > 0 : tx->changed == changes)
        verdict = REDLOCK_VERDICT_GRANTED;
    else
        verdict = request->op == NET_ACQUIRE ? REDLOCK_VERDICT_DENIED : REDLOCK_VERDICT_ABSENT;
    finish_with(node, verdict);
}

/* The changes, EXEC. */
static bool take_commit(struct node *node) {
    struct transaction *tx = &node->tx;
    const struct reader *reader = &node->aux.reader;
    bool last = ++tx->replies == tx->awaited;
    if (reader_is_error(reader)) {
        /* EXECABORT only repeats that an earlier command was refused. */
        note_error(node);
        if (last) leave_open_transaction(node);
        if (last) conclude(node, tx->awaited - 1);
        return true;
    }
    if (!last) return reader_is_status(reader, 0, "QUEUED");
    if (reader->slots[0].type == REPLY_NIL) {
        if (++tx->tries < TX_TRIES)
            begin_check(node);
        else
            finish_with(node, REDLOCK_VERDICT_ERROR);
        return true;
    }
    if (reader->slots[0].type != REPLY_ARRAY ||
        reader->slots[0].integer != (int64_t)tx->awaited - 1)
        return false;
    for (size_t i = 1; i < reader->slots_count; i++) {
        const struct reply_slot *slot = &reader->slots[i];
        if (slot->type == REPLY_ERROR && tx->answer.verdict == REDLOCK_VERDICT_NONE)
            tx->answer.verdict = error_reply_verdict(reader->bytes[i]);
        if (slot->type == REPLY_STATUS || (slot->type == REPLY_INTEGER && slot->integer > 0))
            tx->changed++;
    }
    conclude(node, tx->awaited - 1);
    return true;
}

void transaction_reply(struct node *node) {
    struct transaction *tx = &node->tx;
    bool right = tx->stage == TX_END;
    switch (tx->stage) {
    case TX_IDLE: break;
    case TX_PLAIN:
        right = command_answer(node->aux.calls.head->request, tx->replies++, &node->aux.reader,
                               (struct answer_room){.fences = NULL}, &tx->answer);
        if (right && tx->replies == tx->awaited) finish(node);
        break;
    case TX_CHECK: right = take_check(node); break;
    case TX_COMMIT: right = take_commit(node); break;
    case TX_END:
        if (reader_is_error(&node->aux.reader)) leave_open_transaction(node);
        finish(node);
        break;
    }
    if (!right) conn_fail(&node->aux, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
}

/* ---- the queue ---- */

void transaction_pump(struct node *node) {
    struct net_call *first = node->aux.calls.head;
    if (!transaction_is_due(node)) return;
    if (node->aux.state == CONN_DOWN && !net_timer_is_armed(&node->aux.retry))
        conn_start(&node->aux);
    if (node->aux.state != CONN_READY || node->aux.broken) return;
    policy_start_again(first, net_now(node->net));
    policy_changed(&node->net->policy);
    if (first->request->op == NET_ACQUIRE_SLOT) { /* a choice among keys needs the script */
        node->tx.answer = (struct net_reply){.remaining_ms = -2};
        finish_with(node, REDLOCK_VERDICT_NO_SCRIPTS);
        return;
    }
    /* On a native node only locks of scheme=setnx come here, which are written as on a stock one.
     */
    if (command_needs_script(first->request, false)) {
        begin_check(node);
    } else {
        size_t nonce_at;
        enter(node, TX_PLAIN);
        node->tx.awaited = command_replies(first->request, false);
        if (!command_encode(first->request, node->index, COMMAND_STOCK, &node->aux.out,
                            NET_WIRE_BYTES_MAX, &nonce_at))
            no_memory(node);
    }
    conn_arm_deadline(&node->aux);
}
