/* SPDX-License-Identifier: BSD-2-Clause
 * A node's standing: whether it may be asked, and if not, why. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "net/conn.h"
#include "net/verdict.h"

const struct net_call *conn_oldest(const struct conn *conn) {
    return conn->kind == CONN_AUX ? conn->node->tx.calls.head : conn->calls.head;
}

/* Ready means that a SET sent now has a fair chance: connected, nothing overdue on either way, and
 * no release that still waits to be sent (a SET must not overtake it). */
bool node_is_ready(const struct node *node, rl_ns now) {
    const struct net_call *main = node->main.calls.head, *tx = node->tx.calls.head;
    if (node->main.state != CONN_READY || node->main.broken || node->kept.head) return false;
    return !(main && main->due < now) && !(tx && tx->due < now);
}

bool node_is_settled(const struct node *node) {
    return node->main.state == CONN_READY || node->failed;
}

void node_tell(struct node *node, rl_ns now) {
    bool ready = node_is_ready(node, now), settled = node_is_settled(node);
    if (ready == node->told_ready && settled == node->told_settled) return;
    node->told_ready = ready;
    node->told_settled = settled;
    node->net->handlers.node(node->net->handlers.context, node->index);
}

/* One server under two addresses would vote twice. The first listed counts. */
static bool is_twice_listed(struct conn *conn) {
    struct node *node = conn->node;
    struct net *net = node->net;
    if (conn->run_id[0] == '\0') return false;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct node *other = &net->node[i];
        if (other == node || other->main.state != CONN_READY ||
            strcmp(other->run_id, conn->run_id) != 0)
            continue;
        char text[160];
        const char *first = i < node->index ? other->url.text : node->url.text;
        snprintf(text, sizeof(text), "same server as %.110s; list it once", first);
        if (i < node->index) {
            conn_fail(conn, REDLOCK_VERDICT_TWICE_LISTED, text);
            return true;
        }
        conn_break(&other->main, REDLOCK_VERDICT_TWICE_LISTED, text);
    }
    return false;
}

static void log_silence(struct conn *conn) {
    struct node *node = conn->node;
    bool silent = node->net->guarded && !conn->announces;
    if (silent && !node->logged_silence)
        net_log(node->net, REDLOCK_LOG_WARNING,
                "%s: a loss of this server's data is noticed up to a second late: %s; allow +hello "
                "+client|tracking",
                node->url.text, conn->refusal);
    node->logged_silence = silent;
}

void node_up(struct conn *conn) {
    struct node *node = conn->node;
    struct net *net = node->net;
    if (conn->kind == CONN_MAIN && is_twice_listed(conn)) return;
    conn->state = CONN_READY;
    conn->backoff = 0;
    timers_set(&net->timers, &conn->deadline, RL_NEVER);
    if (conn->kind == CONN_WATCH) tracking_up(node);
    if (conn->kind != CONN_MAIN) return;
    memcpy(node->run_id, conn->run_id, sizeof(node->run_id));
    memcpy(node->quorum, conn->quorum, sizeof(node->quorum));
    node->uses_transactions = conn->scripting_refused;
    if (node->was_ready) node->reconnects++;
    node->was_ready = true;
    node->failed = false;
    node_changed(net);
    node->up_since = net_now(net);
    node->verdict = node->logged = REDLOCK_VERDICT_GRANTED;
    node->text[0] = '\0';
    net_log(net, REDLOCK_LOG_INFO, "%s: connected (version %s%s)", node->url.text,
            node->version[0] ? node->version : "unknown",
            node->uses_transactions ? ", scripting refused: using transactions" : "");
    log_silence(conn);
    node_send_kept(node);
}

static void main_down(struct node *node, int verdict, const char *text, bool was_up) {
    struct net *net = node->net;
    struct call_queue lost = node->main.calls, transactions, looks;
    node->failed = !was_up || verdict == REDLOCK_VERDICT_TWICE_LISTED;
    node_changed(net);
    node->verdict = verdict;
    snprintf(node->text, sizeof(node->text), "%s", text);
    if (verdict != node->logged)
        net_log(net, REDLOCK_LOG_WARNING, "%s: %s: %s", node->url.text, verdict_text(verdict),
                text);
    node->logged = verdict;
    /* One life for both connections: what the next server behind this address allows is asked
     * anew. */
    if (node->aux.state != CONN_DOWN) conn_close(&node->aux, conn_has_unanswered_write(&node->aux));
    timers_set(&net->timers, &node->aux.retry, RL_NEVER);
    node->aux.backoff = 0;
    looks = tracking_main_down(node);
    node->main.calls = (struct call_queue){.head = NULL};
    node->main.writes = 0;
    node->answered = node->sent;
    transactions = transaction_take_all(node);
    calls_append(&lost, &transactions);
    node_lose_calls(node, &lost,
                    verdict == REDLOCK_VERDICT_PROTOCOL ? verdict : REDLOCK_VERDICT_DISCONNECTED);
    node_lose_calls(node, &looks, REDLOCK_VERDICT_DISCONNECTED);
}

void node_down(struct conn *conn, int verdict, const char *text) {
    struct node *node = conn->node;
    if (conn->kind == CONN_MAIN) {
        main_down(node, verdict, text, node->verdict == REDLOCK_VERDICT_GRANTED);
        return;
    }
    if (conn->kind == CONN_WATCH) {
        tracking_down(node, text);
        return;
    }
    net_log(node->net, REDLOCK_LOG_INFO, "%s: second connection: %s", node->url.text, text);
    transaction_lost(node,
                     verdict == REDLOCK_VERDICT_PROTOCOL ? verdict : REDLOCK_VERDICT_DISCONNECTED);
}

static void memory_fired(struct net_timer *timer) {
    struct node *node = (struct node *)((char *)timer - offsetof(struct node, memory_timer));
    if (node->main.state != CONN_READY) return;
    node_send_kept(node);
    transaction_pump(node);
}

static void keep_fired(struct net_timer *timer) {
    node_expire_kept((struct node *)((char *)timer - offsetof(struct node, keep_timer)));
}

void node_init(struct node *node, struct net *net, unsigned index) {
    node->net = net;
    node->index = index;
    node->verdict = REDLOCK_VERDICT_CONNECTING;
    node->memory_timer.fire = memory_fired;
    node->keep_timer.fire = keep_fired;
    conn_init(&node->main, node, CONN_MAIN);
    conn_init(&node->aux, node, CONN_AUX);
    conn_init(&node->watch, node, CONN_WATCH);
}

/* The server is refused by those above us, and the next connection most likely reaches it again: so
 * the pause grows although each connection comes up. The verdict is set at once, so that going down
 * counts as a failed try to connect: nobody need wait for such a node. */
void net_reconnect(struct net *net, unsigned index, int verdict, const char *text) {
    assert(index < net->nodes && verdict != REDLOCK_VERDICT_GRANTED);
    struct node *node = &net->node[index];
    struct conn *conn = &node->main;
    if (conn->broken) return;
    if (conn->state == CONN_READY) {
        if (net_now(net) - node->up_since > NET_REFUSAL_FORGIVEN) node->refused_pause = 0;
        conn->backoff = node->refused_pause;
        node->refused_pause = node->refused_pause == 0 ? NET_BACKOFF_MIN : 2 * node->refused_pause;
        if (node->refused_pause > NET_BACKOFF_MAX) node->refused_pause = NET_BACKOFF_MAX;
    }
    node->verdict = verdict;
    snprintf(node->text, sizeof(node->text), "%s", text);
    if (conn->state != CONN_DOWN) conn_break(conn, verdict, text);
}

static void look_until(struct net *net, const struct net_call *first) {
    if (first) node_awaits(net, first->due);
}

/* Asked at every step of every lock, and mostly the same: kept until an answer is overdue, or
 * node_changed(). One that is overdue already speaks for itself until it is gone (call_taken()). */
static void find_standing(struct net *net, rl_ns now) {
    net->ready = net->settled = 0;
    net->known_until = RL_NEVER;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct node *node = &net->node[i];
        if (node_is_settled(node)) net->settled |= rl_bit(i);
        if (!node_is_ready(node, now)) continue;
        net->ready |= rl_bit(i);
        look_until(net, node->main.calls.head);
        look_until(net, node->tx.calls.head);
    }
}

rl_mask net_ready(struct net *net, rl_ns now) {
    if (now > net->known_until) find_standing(net, now);
    return net->ready;
}

rl_mask net_settled(struct net *net) {
    if (net->known_until == INT64_MIN) find_standing(net, net_now(net));
    return net->settled;
}

static bool has_write(const struct call_queue *queue) {
    for (const struct net_call *call = queue->head; call; call = call->next)
        if (net_op_is_write(call->request->op)) return true;
    return false;
}

static bool waits_for_memory(const struct node *node) {
    return node->kept.head && node->main.state == CONN_READY;
}

rl_mask net_busy_writes(struct net *net) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < net->nodes; i++)
        if (net->node[i].main.writes > 0 || has_write(&net->node[i].tx.calls) ||
            waits_for_memory(&net->node[i]))
            mask |= rl_bit(i);
    return mask;
}

void net_node(struct net *net, unsigned index, rl_ns now, struct net_node_status *status) {
    assert(index < net->nodes);
    const struct node *node = &net->node[index];
    memset(status, 0, sizeof(*status));
    status->url = node->url.text;
    status->verdict = node->verdict;
    bool up = node->main.state == CONN_READY && node->verdict == REDLOCK_VERDICT_GRANTED;
    if (up && !node_is_ready(node, now)) status->verdict = REDLOCK_VERDICT_TIMEOUT;
    status->connected = node->main.state == CONN_READY && !node->main.broken;
    memcpy(status->run_id, node->run_id, sizeof(status->run_id));
    memcpy(status->version, node->version, sizeof(status->version));
    memcpy(status->text, node->text, sizeof(status->text));
    status->uses_transactions = node->uses_transactions;
    status->announces = status->connected && node->main.announces;
    memcpy(status->quorum, node->quorum, sizeof(status->quorum));
    status->scheme = node->url.scheme;
    status->reconnects = node->reconnects;
}
