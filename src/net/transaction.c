/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where scripting is refused: WATCH, look, MULTI, change, EXEC. One at a time and on a connection
 * of its own: on a shared pipeline another's EXEC would clear our WATCH, and a stranger's key would
 * be deleted.
 *
 * A transaction starts only when all that was sent on the main connection before it has been
 * answered. EXEC undone by another's write is tried again, TX_TRIES in all. GETRANGE reads just
 * enough to compare: a foreign key may hold megabytes; PTTL tells the absent key from the empty
 * one.
 *
 * Guarded requests never come here: a guarded net has no use for a node without scripts.
 *
 * A lock of scheme=setnx looks at more than one key and changes two, in words of its own (setnx.c);
 * the course is the same.
 *
 * A request that only waited here because it shares a key with a transaction before it (PLAIN) is
 * sent as it is.
 */
#include <stdio.h>
#include <string.h>

#include "net/command.h"
#include "net/conn.h"
#include "net/verdict.h"

enum { TX_TRIES = 3 };

static bool share_a_key(const struct net_request *a, const struct net_request *b) {
    for (size_t i = 0; i < a->keys_count; i++)
        for (size_t j = 0; j < b->keys_count; j++)
            if (bytes_equal(a->keys[i], b->keys[j])) return true;
    return false;
}

/* Where many wait, a request is not compared with each of them; hashes of their keys are kept. Two
 * keys with one hash only make a request wait without need. */
enum { FEW_WAITING = 16 };

static void note_keys(struct transaction *tx, const struct net_request *request) {
    for (size_t i = 0; i < request->keys_count; i++) bag_add(&tx->keys, key_hash(request->keys[i]));
}

static bool keeps_hashes(const struct transaction *tx) { return tx->keys.slots_count > 0; }

static void push(struct transaction *tx, struct net_call *call) {
    calls_await(&tx->calls, call);
    tx->waiting++;
    if (keeps_hashes(tx)) note_keys(tx, call->request);
}

static struct net_call *pop(struct transaction *tx) {
    struct net_call *call = calls_pop(&tx->calls);
    const struct net_request *request = call->request;
    for (size_t i = 0; i < request->keys_count && keeps_hashes(tx); i++)
        bag_remove(&tx->keys, key_hash(request->keys[i]));
    if (--tx->waiting == 0) bag_clear(&tx->keys);
    return call;
}

bool transaction_conflicts(struct node *node, const struct net_request *request) {
    struct transaction *tx = &node->tx;
    if (request->op == NET_SCAN) return false;
    if (tx->waiting > FEW_WAITING && !keeps_hashes(tx) && bag_is_whole(&tx->keys))
        for (const struct net_call *call = tx->calls.head; call; call = call->next)
            note_keys(tx, call->request);
    if (keeps_hashes(tx) && bag_is_whole(&tx->keys)) {
        for (size_t i = 0; i < request->keys_count; i++)
            if (bag_times(&tx->keys, key_hash(request->keys[i])) > 0) return true;
        return false;
    }
    for (const struct net_call *call = tx->calls.head; call; call = call->next)
        if (share_a_key(call->request, request)) return true;
    return false;
}

void transaction_add(struct node *node, struct net_call *call) {
    call->order = node->sent;
    push(&node->tx, call);
    policy_awaits(&node->net->policy, call->due);
    conn_arm_deadline(&node->aux);
}

struct call_queue transaction_take_all(struct node *node) {
    struct call_queue all = node->tx.calls;
    bag_clear(&node->tx.keys);
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
        bool stays = policy_keeps(call, now);
        if (stays)
            push(&node->tx, call);
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
    struct words words;
    words_begin(&words, command);
    return send_words(node, &words);
}

static void enter(struct node *node, enum transaction_stage stage) {
    node->tx.stage = stage;
    node->tx.replies = node->tx.awaited = 0;
}

/* Half a transaction must never be written. The connection's buffer has nothing else in it, and a
 * failure ends the connection. */
static void no_memory(struct node *node) {
    conn_break(&node->aux, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
}

static bool send_check(struct node *node, const struct net_request *request) {
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
    tx->failure = REDLOCK_VERDICT_NONE;
    tx->ours = tx->foreign = tx->changed = 0;
    memset(tx->mine, 0, sizeof(tx->mine));
    memset(&tx->setnx, 0, sizeof(tx->setnx));
    if (!send_check(node, tx->calls.head->request)) no_memory(node);
}

static bool send_change(struct node *node, const struct net_request *request, size_t i) {
    struct words words;
    bool release = request->op == NET_RELEASE, acquire = request->op == NET_ACQUIRE;
    words_begin(&words, release ? "DEL" : acquire ? "SET" : "PEXPIRE");
    words_bytes(&words, request->keys[i]);
    if (acquire) {
        words_bytes(&words, request->token);
        words_text(&words, "NX");
        words_text(&words, "PX");
    }
    if (!release) words_number(&words, (uint64_t)request->ttl_ms);
    return send_words(node, &words);
}

static bool must_change(const struct transaction *tx, const struct net_request *request, size_t i) {
    switch (request->op) {
    case NET_ACQUIRE: return true;
    case NET_RELEASE: return tx->mine[i];
    default: return tx->left_ms[i] < request->ttl_ms; /* never shortens */
    }
}

static bool send_changes(struct node *node, const struct net_request *request) {
    if (request->scheme) {
        unsigned commands =
            setnx_send_changes(request, &node->tx.setnx, &node->aux.out, NET_WIRE_BYTES_MAX);
        node->tx.awaited += commands;
        return commands > 0;
    }
    for (size_t i = 0; i < request->keys_count; i++)
        if (must_change(&node->tx, request, i) && !send_change(node, request, i)) return false;
    return true;
}

static void begin_commit(struct node *node) {
    const struct net_request *request = node->tx.calls.head->request;
    enter(node, TX_COMMIT);
    bool sent = send_bare(node, "MULTI") && send_changes(node, request);
    if (!sent || !send_bare(node, "EXEC")) no_memory(node);
}

/* The answer is final, but the WATCH must end before the next transaction begins. */
static void begin_unwatch(struct node *node, int verdict) {
    node->tx.answer = (struct net_reply){.verdict = verdict, .remaining_ms = -2};
    enter(node, TX_UNWATCH);
    if (!send_bare(node, "UNWATCH")) no_memory(node);
}

static void finish(struct node *node, const struct net_reply *reply) {
    struct net_reply answer = *reply;
    struct net_call *call = pop(&node->tx);
    policy_taken(&node->net->policy, node->index);
    enter(node, TX_IDLE);
    node->tx.tries = 0;
    transaction_pump(node);
    call_done(node->net, call, &answer);
}

static void finish_with(struct node *node, int verdict) {
    struct net_reply reply = {.verdict = verdict, .remaining_ms = -2};
    finish(node, &reply);
}

/* ---- replies ---- */

static void note_error(struct node *node) {
    struct transaction *tx = &node->tx;
    struct net_bytes error = node->aux.reader.bytes[0];
    if (tx->failure != REDLOCK_VERDICT_NONE) return;
    tx->failure = verdict_of_error(error);
    /* WATCH and MULTI are refused too: this user cannot release here at all. */
    if (verdict_is_unknown_command(error)) tx->failure = REDLOCK_VERDICT_NOPERM;
}

/* The result of reading the keys: a change, or else the verdict that holds without one. */
static int judge(const struct transaction *tx, const struct net_request *request, bool *change) {
    unsigned work = 0;
    for (size_t i = 0; i < request->keys_count; i++)
        if (must_change(tx, request, i)) work++;
    bool clean = tx->failure == REDLOCK_VERDICT_NONE;
    switch (request->op) {
    case NET_ACQUIRE:
        *change = clean && tx->ours + tx->foreign == 0;
        return tx->ours + tx->foreign > 0 ? REDLOCK_VERDICT_DENIED : tx->failure;
    case NET_RELEASE: /* a key of another kind keeps none of ours */
        *change = work > 0 && (clean || tx->failure == REDLOCK_VERDICT_WRONGTYPE);
        break;
    default:
        *change = clean && work > 0 && tx->ours == request->keys_count;
        if (clean && tx->ours == request->keys_count) return REDLOCK_VERDICT_GRANTED;
        break;
    }
    if (!clean) return tx->failure;
    return tx->foreign > 0 ? REDLOCK_VERDICT_DENIED : REDLOCK_VERDICT_ABSENT;
}

static void decide(struct node *node) {
    const struct net_request *request = node->tx.calls.head->request;
    bool change = false;
    int verdict = request->scheme ? setnx_judge(request, &node->tx.setnx, node->tx.failure, &change)
                                  : judge(&node->tx, request, &change);
    if (change)
        begin_commit(node);
    else
        begin_unwatch(node, verdict);
}

static bool take_setnx_check(struct node *node) {
    struct transaction *tx = &node->tx;
    unsigned nth = tx->replies++;
    if (reader_is_error(&node->aux.reader))
        note_error(node);
    else if (!setnx_take_check(tx->calls.head->request, nth, &node->aux.reader, &tx->setnx))
        return false;
    if (tx->replies == tx->awaited) decide(node);
    return true;
}

/* WATCH, then PTTL and GETRANGE of each key. False: not a reply to it. */
static bool take_check(struct node *node) {
    struct transaction *tx = &node->tx;
    const struct reader *reader = &node->aux.reader;
    const struct net_request *request = tx->calls.head->request;
    unsigned nth = tx->replies++;
    if (reader_is_error(reader)) {
        /* An error of GETRANGE means a key that is not a string: to a release or an extension
         * another's, to an acquisition merely one that exists. */
        note_error(node);
        if (nth > 0 && nth % 2 == 1) tx->left_ms[nth / 2] = -2;
    } else if (nth == 0) {
        if (!reader_is_status(reader, 0, "OK")) return false;
    } else if (nth % 2 == 1) {
        if (reader->slots[0].type != REPLY_INTEGER) return false;
        tx->left_ms[nth / 2] = reader->slots[0].integer;
    } else {
        size_t key = nth / 2 - 1;
        const struct net_bytes *value = &reader->bytes[0];
        if (reader->slots[0].type != REPLY_STRING) return false;
        tx->mine[key] = bytes_equal(*value, request->token);
    }
    if (nth > 0 && nth % 2 == 0) {
        size_t key = nth / 2 - 1;
        if (tx->left_ms[key] == -2) tx->mine[key] = false;
        if (tx->mine[key]) tx->ours++;
        if (!tx->mine[key] && tx->left_ms[key] != -2) tx->foreign++;
    }
    if (tx->replies == tx->awaited) decide(node);
    return true;
}

static void take_elements(struct node *node) {
    const struct reader *reader = &node->aux.reader;
    for (size_t i = 1; i < reader->slots_count; i++) {
        const struct reply_slot *slot = &reader->slots[i];
        if (slot->type == REPLY_ERROR && node->tx.failure == REDLOCK_VERDICT_NONE)
            node->tx.failure = verdict_of_error(reader->bytes[i]);
        if (slot->type == REPLY_STATUS || (slot->type == REPLY_INTEGER && slot->integer > 0))
            node->tx.changed++;
    }
}

static void conclude(struct node *node, unsigned changes) {
    struct transaction *tx = &node->tx;
    const struct net_request *request = tx->calls.head->request;
    int verdict = tx->failure;
    if (verdict == REDLOCK_VERDICT_NONE && request->scheme) {
        verdict = REDLOCK_VERDICT_GRANTED; /* the WATCH held: what was seen was so */
    } else if (verdict == REDLOCK_VERDICT_NONE) {
        bool all = tx->changed == changes;
        switch (request->op) {
        case NET_RELEASE:
            verdict = tx->foreign   ? REDLOCK_VERDICT_DENIED
                      : tx->changed ? REDLOCK_VERDICT_GRANTED
                                    : REDLOCK_VERDICT_ABSENT;
            break;
        case NET_ACQUIRE: verdict = all ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_DENIED; break;
        default: verdict = all ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_ABSENT; break;
        }
    }
    finish_with(node, verdict);
}

/* MULTI, the changes, EXEC. */
static bool take_commit(struct node *node) {
    struct transaction *tx = &node->tx;
    const struct reader *reader = &node->aux.reader;
    unsigned nth = tx->replies++;
    bool last = tx->replies == tx->awaited;
    if (reader_is_error(reader)) {
        /* EXECABORT only repeats that an earlier command was refused. */
        note_error(node);
        if (last) conclude(node, tx->awaited - 2);
        return true;
    }
    if (!last) return reader_is_status(reader, 0, nth == 0 ? "OK" : "QUEUED");
    if (reader->slots[0].type == REPLY_NIL) {
        if (++tx->tries < TX_TRIES)
            begin_check(node);
        else
            finish_with(node, REDLOCK_VERDICT_ERROR);
        return true;
    }
    if (reader->slots[0].type != REPLY_ARRAY ||
        reader->slots[0].integer != (int64_t)tx->awaited - 2)
        return false;
    take_elements(node);
    conclude(node, tx->awaited - 2);
    return true;
}

static bool take_plain(struct node *node) {
    struct transaction *tx = &node->tx;
    const struct net_request *request = tx->calls.head->request;
    if (!command_answer(request, tx->replies++, &node->aux.reader, (struct answer_room){NULL, NULL},
                        &tx->answer))
        return false;
    if (tx->replies == tx->awaited) finish(node, &tx->answer);
    return true;
}

void transaction_reply(struct node *node) {
    bool right = false;
    switch (node->tx.stage) {
    case TX_IDLE: break;
    case TX_PLAIN: right = take_plain(node); break;
    case TX_CHECK:
        right = node->tx.calls.head->request->scheme ? take_setnx_check(node) : take_check(node);
        break;
    case TX_COMMIT: right = take_commit(node); break;
    case TX_UNWATCH:
        right = true;
        finish(node, &node->tx.answer);
        break;
    }
    if (!right) conn_fail(&node->aux, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
}

/* ---- the queue ---- */

static void begin_plain(struct node *node) {
    const struct net_request *request = node->tx.calls.head->request;
    size_t nonce_at;
    enter(node, TX_PLAIN);
    node->tx.awaited = command_replies(request);
    if (!command_encode(request, node->index, false, &node->aux.out, NET_WIRE_BYTES_MAX, &nonce_at))
        no_memory(node);
}

bool transaction_is_due(const struct node *node) {
    const struct net_call *first = node->tx.calls.head;
    return first && node->tx.stage == TX_IDLE && node->main.state == CONN_READY &&
           first->order <= node->answered;
}

void transaction_pump(struct node *node) {
    struct net_call *first = node->tx.calls.head;
    if (!transaction_is_due(node)) return;
    if (node->aux.state == CONN_DOWN && node->aux.retry.index == 0) conn_start(&node->aux);
    if (node->aux.state != CONN_READY || node->aux.broken) return;
    policy_start_again(first, net_now(node->net));
    policy_changed(&node->net->policy);
    if (command_needs_script(first->request))
        begin_check(node);
    else
        begin_plain(node);
    conn_arm_deadline(&node->aux);
}
