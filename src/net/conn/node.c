/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node comes up and goes down; and why it cannot be asked. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "net/conn/conn.h"
#include "redlock/admin.h"

/* The server process, which may be listed once: also if one of the connections is from before the
 * module was loaded. Where the process is not known, the module's incarnation stands for it. */
static const char *server_of(const struct conn *conn) {
    return conn->run_id[0] != '\0' ? conn->run_id : conn->hello.incarnation;
}

static bool is_twice_listed(struct conn *conn) {
    struct node *node = conn->node;
    struct net *net = node->net;
    char text[160];
    int before = policy_listed_before(&net->policy, node->index, server_of(conn));
    const struct node *first = before >= 0 ? &net->node[before] : node;
    snprintf(text, sizeof(text), "same server as %.110s; list it once", first->url.text);
    if (before >= 0) {
        conn_fail(conn, REDLOCK_VERDICT_TWICE_LISTED, text);
        return true;
    }
    rl_mask again = policy_listed_again(&net->policy, node->index, server_of(conn));
    for (unsigned i = 0; i < net->nodes; i++)
        if (again & rl_bit(i)) conn_break(net->node[i].main, REDLOCK_VERDICT_TWICE_LISTED, text);
    return false;
}

/* ---- a fresh connection, next to a main one whose answer is overdue ---- */

static void fresh_close(struct node *node) {
    if (node->fresh->state != CONN_DOWN) conn_close(node->fresh, false);
}

static void fresh_beaten(struct node *node) {
    fresh_close(node);
    policy_fresh_beaten(&node->net->policy, node->index);
    conn_pause(node->fresh, &policy_of(node)->fresh_backoff);
}

void fresh_pump(struct node *node, rl_ns now) {
    struct policy *policy = &node->net->policy;
    struct conn *fresh = node->fresh;
    if (fresh->state != CONN_DOWN) {
        if (!policy_fresh_goes_on(policy, node->index, now)) fresh_beaten(node);
    } else if (!net_timer_is_armed(&fresh->retry) &&
               now >= policy_fresh_at(policy, node->index, now)) {
        policy_fresh_tried(policy, node->index, now);
        conn_start(fresh);
    }
}

/* The layers above learn that the old connection is down before this one is up: nothing that they
 * know of the node is valid any more. */
static void take_over(struct conn *fresh) {
    struct node *node = fresh->node;
    struct conn *old = node->main;
    fresh->state = CONN_READY;
    conn_fail(old, REDLOCK_VERDICT_TIMEOUT, "an answer is overdue, and a new connection works");
    net_report(node->net);
    old->kind = CONN_FRESH;
    fresh->kind = CONN_MAIN;
    node->main = fresh;
    node->fresh = old;
    policy_of(node)->calls = &fresh->calls;
    conn_pause(old, &policy_of(node)->fresh_backoff);
}

/* An answer that waits in the old connection's socket comes first. */
static bool takes_over(struct conn *fresh) {
    struct node *node = fresh->node;
    struct policy *policy = &node->net->policy;
    const uint32_t generation = fresh->generation;
    conn_read(node->main);
    if (fresh->generation != generation) return false; /* the old one is down, and this one too */
    const rl_ns now = net_now(node->net);
    if (policy_takes_over(policy, node->index, server_of(fresh), now)) return true;
    if (policy_fresh_goes_on(policy, node->index, now))
        conn_fail(fresh, REDLOCK_VERDICT_TWICE_LISTED, "it reaches the server of another node");
    else
        fresh_beaten(node);
    return false;
}

/* ---- a node comes and goes ---- */

static void note_server(struct net_node_status *status, const struct conn *conn) {
    const bool needs_scripts = !conn->native || status->scheme != REDLOCK_SCHEME_SET;
    status->native = conn->native;
    memcpy(status->run_id, conn->native ? conn->hello.incarnation : conn->run_id,
           sizeof(status->run_id));
    memcpy(status->module, conn->hello.version, sizeof(status->module));
    memcpy(status->quorum, conn->quorum, sizeof(status->quorum));
    status->mirror = conn->hello.mirror;
    status->uses_transactions = conn->scripting_refused && needs_scripts;
    status->scripts = !status->uses_transactions ? REDLOCK_SCRIPTS_RUN
                      : conn->lua_missing        ? REDLOCK_SCRIPTS_NO_ENGINE
                      : conn->unknown_command    ? REDLOCK_SCRIPTS_UNKNOWN
                                                 : REDLOCK_SCRIPTS_DENIED;
    /* On a stock server scripts keep the readers of shared locks, on a native node the module does.
     * Where scripts are refused, a request for a slot goes to the transactions, which refuse it. */
    status->keeps_readers = conn->native ? conn->hello.shared : !status->uses_transactions;
    status->keeps_slots = !conn->native || conn->hello.slots;
    status->text[0] = status->denied[0] = status->unknown[0] = '\0';
}

void node_up(struct conn *conn) {
    struct node *node = conn->node;
    struct net *net = node->net;
    if (conn->kind == CONN_MAIN && is_twice_listed(conn)) return;
    if (conn->kind == CONN_FRESH) {
        if (!takes_over(conn)) return;
        take_over(conn);
    }
    conn->state = CONN_READY;
    if (conn->kind == CONN_AUX) conn->backoff.pause = 0;
    timers_set(&net->timers, &conn->deadline, RL_NEVER);
    if (conn->kind == CONN_NOTIFIER) tracking_up(node);
    if (conn->kind != CONN_MAIN) return;
    policy_up(&net->policy, node->index, server_of(conn), net_now(net));
    note_server(&node->status, conn);
    node->logged = REDLOCK_VERDICT_GRANTED;
    net_log(net, REDLOCK_LOG_INFO, "%s: connected (version %s%s%s%s)", node->url.text,
            node->status.version[0] ? node->status.version : "unknown",
            conn->native ? ", native node " : "", conn->hello.version,
            node->status.uses_transactions ? ", scripting refused: using transactions" : "");
    bool silent = conn->guarded && !conn->announces;
    if (silent && !node->logged_silence)
        net_log(net, REDLOCK_LOG_WARNING,
                "%s: a loss of this server's data is noticed up to a second late: %s; allow +hello "
                "+client|tracking",
                node->url.text, conn->refusal);
    node->logged_silence = silent;
    node_send_kept(node);
}

void nodes_connect(struct net *net, rl_mask nodes) {
    for (unsigned i = 0; nodes >> i; i++)
        if (nodes & rl_bit(i)) conn_pause(net->node[i].main, &net->policy.node[i].backoff);
}

void net_spread(struct net *net, rl_ns spread) { net->policy.spread = spread; }

void net_hurry(struct net *net) { nodes_connect(net, policy_hurry(&net->policy)); }

/* Of the calls whose connection is lost. */
static int verdict_of_lost(int verdict) {
    return verdict == REDLOCK_VERDICT_PROTOCOL ? verdict : REDLOCK_VERDICT_DISCONNECTED;
}

static void main_down(struct node *node, int verdict, const char *text) {
    struct net *net = node->net;
    struct call_queue lost = node->main->calls, transactions, reads;
    policy_down(&net->policy, node->index, verdict);
    snprintf(node->status.text, sizeof(node->status.text), "%s", text);
    if (verdict != node->logged) net_log(net, REDLOCK_LOG_WARNING, "%s: %s", node->url.text, text);
    node->logged = verdict;
    /* All connections end together: the permissions of the next server behind this address are
     * checked again. A fresh one that is complete takes over. */
    if (node->fresh->state != CONN_READY) fresh_close(node);
    if (node->aux.state != CONN_DOWN) conn_close(&node->aux, conn_has_unanswered_write(&node->aux));
    timers_set(&net->timers, &node->aux.retry, RL_NEVER);
    node->aux.backoff.pause = 0;
    bool was_live;
    reads = tracking_main_down(node, &was_live);
    node->main->calls = (struct call_queue){.head = NULL};
    node->answered = node->sent;
    transactions = transaction_take_all(node);
    calls_append(&lost, &transactions);
    node_lose_calls(node, &lost, verdict_of_lost(verdict));
    node_lose_calls(node, &reads, REDLOCK_VERDICT_DISCONNECTED);
    if (was_live) tracking_lost(node, "the other connection is down");
    nodes_connect(net, policy_needed(&net->policy, net_now(net)));
}

void node_down(struct conn *conn, int verdict, const char *text) {
    struct node *node = conn->node;
    if (conn->kind == CONN_MAIN) {
        main_down(node, verdict, text);
    } else if (conn->kind == CONN_NOTIFIER) {
        tracking_down(node, text);
    } else if (conn->kind == CONN_FRESH) {
        net_log(node->net, REDLOCK_LOG_INFO, "%s: fresh connection: %s", node->url.text, text);
    } else {
        net_log(node->net, REDLOCK_LOG_INFO, "%s: second connection: %s", node->url.text, text);
        transaction_lost(node, verdict_of_lost(verdict));
    }
}

/* The names are of this reply only with these verdicts: short answers leave them as they were. */
void node_note_refusal(struct node *node, const struct net_reply *reply) {
    if (reply->verdict == REDLOCK_VERDICT_NOPERM && reply->denied[0] != '\0')
        memcpy(node->status.denied, reply->denied, sizeof(node->status.denied));
    if (reply->verdict == REDLOCK_VERDICT_ERROR && reply->unknown[0] != '\0')
        memcpy(node->status.unknown, reply->unknown, sizeof(node->status.unknown));
}

static void memory_fired(struct net_timer *timer) {
    struct node *node = (struct node *)((char *)timer - offsetof(struct node, memory_timer));
    if (node->main->state != CONN_READY) return;
    node_send_kept(node);
    transaction_pump(node);
}

static void keep_fired(struct net_timer *timer) {
    node_expire_kept((struct node *)((char *)timer - offsetof(struct node, keep_timer)));
}

void node_init(struct node *node, struct net *net, unsigned index, const struct url *url) {
    node->net = net;
    node->index = index;
    node->url = *url;
    node->status = (struct net_node_status){
        .url = url->text, .scheme = url->scheme, .keeps_readers = true, .keeps_slots = true};
    node->main = &node->first;
    node->fresh = &node->second;
    policy_of(node)->calls = &node->main->calls;
    policy_of(node)->turn = &node->aux.calls;
    node->memory_timer.fire = memory_fired;
    node->keep_timer.fire = keep_fired;
    /* the places are in the order of the kinds */
    for (int kind = 0; kind < CONNS_PER_NODE; kind++)
        conn_init(&node->conns[kind], node, (enum conn_kind)kind);
}

void net_reconnect(struct net *net, unsigned index, int verdict, const char *text) {
    assert(index < net->nodes && verdict != REDLOCK_VERDICT_GRANTED);
    struct node *node = &net->node[index];
    struct conn *conn = node->main;
    if (!policy_refuse(&net->policy, index, verdict, net_now(net))) return;
    snprintf(node->status.text, sizeof(node->status.text), "%s", text);
    if (conn->state != CONN_DOWN) conn_break(conn, verdict, text);
}

/* The node stays unsettled meanwhile: acquisitions wait for it as for a first connection. */
static void node_again(struct net *net, unsigned index) {
    policy_again(&net->policy, index);
    conn_break(net->node[index].main, REDLOCK_VERDICT_DISCONNECTED,
               "connecting again, because a node of the list carries a record");
}

void net_become_guarded(struct net *net) {
    net->guarded = true;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct conn *conn = net->node[i].main;
        if (conn->state == CONN_READY && !conn->guarded) node_again(net, i);
    }
}

rl_mask net_ready(struct net *net, rl_ns now) { return policy_ready(&net->policy, now); }

rl_mask net_settled(struct net *net) { return policy_settled(&net->policy); }

rl_mask net_busy_writes(struct net *net) { return policy_busy_writes(&net->policy); }

void net_node(struct net *net, unsigned index, rl_ns now, struct net_node_status *status) {
    assert(index < net->nodes);
    const struct node *node = &net->node[index];
    const struct policy_node *policy = policy_of(node);
    *status = node->status;
    status->verdict = policy_shown_verdict(&net->policy, index, now);
    status->connected = policy->up && !policy->leaving;
    status->announces = status->connected && node->main->announces;
    status->reconnects = policy->reconnects;
}
