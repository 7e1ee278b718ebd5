/* SPDX-License-Identifier: BSD-2-Clause
 * The client's net as a whole: opening, the event loop's steps, closing. */
#include "net/net.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/guard.h"
#include "net/conn/conn.h"

/* A handler may arm a timer that is due at once. The loop must still return to the sockets. */
enum { TIMERS_PER_PROCESS = 1024 };
#define LONG_SLEEP (1000 * RL_MS)

/* ---- opening and closing ---- */

static bool open_descriptors(struct net *net, struct net_error *error) {
    net->epoll = net->sockets = net_above_standard(epoll_create1(EPOLL_CLOEXEC));
    net->kick = net_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    net->sleeper = net_above_standard(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (net->epoll >= 0 && net_watch(net, net->kick, ITEM_KICK) &&
        net_watch(net, net->sleeper, ITEM_SLEEPER))
        return true;
    error->result = REDLOCK_SYSTEM;
    snprintf(error->text, sizeof(error->text),
             "cannot create an epoll set, an eventfd and a timerfd: %s", strerror(errno));
    return false;
}

static void close_descriptor(int fd) {
    if (fd >= 0) close(fd);
}

/* A forked child may have closed them all, as daemons do, and opened others under these numbers. */
static bool owns_descriptors(const struct net *net, bool forked) { return !net->bereft && !forked; }

static void free_net(struct net *net, bool forked) {
    for (unsigned i = 0; i < net->nodes; i++) url_free(&net->node[i].url);
    if (owns_descriptors(net, forked)) {
        close_descriptor(net->epoll);
        close_descriptor(net->kick);
        close_descriptor(net->bell);
        close_descriptor(net->ring);
        if (net->sockets != net->epoll) close_descriptor(net->sockets);
        close_descriptor(net->timer);
        close_descriptor(net->sleeper);
    }
    tls_context_free(net->tls);
    passwords_close(&net->passwords, false);
    for (int style = 0; style < COMMAND_STYLES; style++) buffer_free(&net->scratch[style]);
    pthread_mutex_destroy(&net->sleeper_mutex);
    explicit_bzero(net->random, sizeof(net->random));
    free(net);
}

static bool open_nodes(struct net *net, const struct net_options *options,
                       struct net_error *error) {
    struct url urls[RL_NODES_MAX];
    bool tls = options->tls_ca_file || options->tls_cert_file || options->tls_key_file;
    if (urls_parse(options->nodes, urls, &net->nodes, error) != REDLOCK_OK) return false;
    policy_init(&net->policy, net->nodes);
    for (unsigned i = 0; i < net->nodes; i++) {
        node_init(&net->node[i], net, i, &urls[i]);
        tls = tls || urls[i].kind == URL_TLS;
    }
    if (options->guarded && urls[0].scheme) {
        error->result = REDLOCK_BAD_ARGUMENT;
        snprintf(
            error->text, sizeof(error->text),
            "guarded mode does not support scheme=setnx: a key with a timestamp in it has no fencing token; remove the option from the URL, or use classic mode");
        return false;
    }
    if (!passwords_open(&net->passwords, options, error)) return false;
    if (!tls) return true;
    net->tls = tls_context_new(options, error);
    return net->tls != NULL;
}

int net_open(struct net **net, const struct net_options *options,
             const struct net_handlers *handlers, struct net_error *error) {
    const bool may_guard = options->guarded || options->asks_quorum;
    struct net *new = calloc(1, sizeof(*new) + (may_guard ? RL_STRIPES * sizeof(int64_t) : 0));
    if (!new) {
        error->result = REDLOCK_NO_MEMORY;
        snprintf(error->text, sizeof(error->text), "out of memory");
        return error->result;
    }
    atomic_init(&new->process, net_process_number());
    new->guarded = options->guarded;
    new->fences = may_guard ? (int64_t *)(void *)(new + 1) : NULL;
    new->epoll = new->sockets = new->kick = new->timer = new->sleeper = new->ring = new->bell = -1;
    pthread_mutex_init(&new->sleeper_mutex, NULL);
    new->handlers = *handlers;
    new->log_level = options->log_level;
    new->connect_timeout = options->connect_timeout;
    new->stall_timeout = options->stall_timeout;
    new->asks_quorum = options->asks_quorum;
    tracking_init(new);
    if (!open_nodes(new, options, error) || !open_descriptors(new, error)) {
        free_net(new, false);
        return error->result;
    }
    /* By the timer, so that no handler runs inside this function. */
    for (unsigned i = 0; i < new->nodes; i++)
        timers_set(&new->timers, &new->node[i].main->retry, net_now(new));
    new->pending = true;
    net_kick(new);
    *net = new;
    return REDLOCK_OK;
}

int net_read_tls(const struct net *net, struct tls_context **fresh, struct net_error *error) {
    *fresh = net->tls ? tls_context_again(net->tls, error) : NULL;
    return net->tls && !*fresh ? error->result : REDLOCK_OK;
}

void net_use_tls(struct net *net, struct tls_context *fresh) {
    if (!fresh) return;
    tls_context_free(net->tls);
    net->tls = fresh;
}

bool net_check_passwords(const struct net *net, struct net_error *error) {
    return passwords_check(&net->passwords, error);
}

static void close_node(struct net *net, struct node *node) {
    struct call_queue all = node->main->calls, transactions;
    struct net_call *call;
    for (int i = 0; i < CONNS_PER_NODE; i++)
        conn_close(&node->conns[i], conn_has_unanswered_write(&node->conns[i]));
    node->main->calls = (struct call_queue){.head = NULL};
    policy_down(&net->policy, node->index, REDLOCK_VERDICT_DISCONNECTED);
    calls_append(&all, &node->notifier.calls);
    transactions = transaction_take_all(node);
    calls_append(&all, &transactions);
    calls_append(&all, &policy_of(node)->kept);
    while ((call = calls_pop(&all))) call_failed(net, call, REDLOCK_VERDICT_DISCONNECTED);
}

void net_close(struct net *net, bool forked) {
    if (!net) return;
    net->closing = true;
    passwords_close(&net->passwords, forked);
    for (unsigned i = 0; i < net->nodes; i++) {
        struct node *node = &net->node[i];
        lookup_drop(node, forked);
        if (!forked) close_node(net, node);
        for (int at = 0; at < CONNS_PER_NODE; at++) conn_free(&node->conns[at]);
    }
    free_net(net, forked);
}

/* ---- properties and timers ---- */

bool net_is_bereft(const struct net *net) { return net->bereft; }
bool net_uses_tls(const struct net *net) { return net->tls != NULL; }

unsigned net_nodes(const struct net *net) { return net->nodes; }

void net_timer_set(struct net *net, struct net_timer *timer, rl_ns at) {
    timers_set(&net->timers, timer, at);
}
void net_timer_move(struct net *net, struct net_timer *timer, rl_ns at, rl_ns late) {
    timers_move(&net->timers, timer, timers_together(at, late));
}

rl_ns net_next_timer(struct net *net) { return net->pending ? 0 : timers_next(&net->timers); }

static void arm_timer(struct net *net) {
    rl_ns at = timers_next(&net->timers);
    if (net->timer < 0 || net->pending || at == net->timer_at) return; /* pending: armed soon */
    struct itimerspec when = {0};
    if (at != RL_NEVER)
        when.it_value = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
    if (at <= 0) when.it_value.tv_nsec = 1; /* all zero would disarm it */
    timerfd_settime(net->timer, TFD_TIMER_ABSTIME, &when, NULL);
    net->timer_at = at;
}

int net_fd(struct net *net) {
    if (!net_may_touch(net)) return -1;
    if (net->timer >= 0) return net->epoll;
    int timer = net_above_standard(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!net_watch(net, timer, ITEM_TIMER)) {
        close_descriptor(timer);
        return -1;
    }
    net->timer = timer;
    net->timer_at = RL_NEVER;
    arm_timer(net);
    return net->epoll;
}

/* ---- waiting ---- */

enum { BEREFT_POLL_MS = 10 };

static void wait_ms(struct net *net, int set, int timeout, struct net_batch *batch) {
    struct epoll_event events[sizeof(batch->item) / sizeof(batch->item[0])];
    int count = -1;
    if (!net->bereft) {
        count = epoll_wait(set, events, (int)(sizeof(events) / sizeof(events[0])), timeout);
        if (count < 0 && errno != EINTR) net->bereft = true;
    }
    /* Nothing can wake us now. The timers still tell what is lost. */
    if (net->bereft)
        poll(NULL, 0, timeout < 0 || timeout > BEREFT_POLL_MS ? BEREFT_POLL_MS : timeout);
    batch->count = count > 0 ? count : 0;
    for (int i = 0; i < batch->count; i++) {
        batch->item[i].events = events[i].events;
        batch->item[i].what = events[i].data.u64;
    }
}

/* epoll's own timeout does not count the time for which the machine is suspended: after a long
 * suspend the loss of a lock would be reported late. */
static void wake_after_suspend(struct net *net, rl_ns now, rl_ns until) {
    pthread_mutex_lock(&net->sleeper_mutex);
    /* a time between the two wakes us early, once, and we check again */
    if (net->sleeper_at <= now || net->sleeper_at > until) {
        struct itimerspec when = {
            .it_value = {(time_t)(until / 1000000000), (long)(until % 1000000000)}};
        timerfd_settime(net->sleeper, TFD_TIMER_ABSTIME, &when, NULL);
        net->sleeper_at = until;
    }
    pthread_mutex_unlock(&net->sleeper_mutex);
}

/* May run in parallel with net_process() in another thread, even twice. It uses only the parts of
 * the net that never change, and the sleeper under its mutex. */
void net_wait(struct net *net, rl_ns until, struct net_batch *batch) {
    int timeout = -1;
    batch->count = 0;
    if (net_is_forked(net)) return;
    if (until != RL_NEVER) {
        rl_ns now = clock_now(); /* not net_now(): a sample belongs to another thread */
        rl_ns left = until - now;
        /* rounded up: waking too early would spin */
        rl_ns ms = left <= 0 ? 0 : (left + RL_MS - 1) / RL_MS;
        timeout = ms > INT_MAX ? INT_MAX : (int)ms;
        if (left > LONG_SLEEP) wake_after_suspend(net, now, until);
    }
    wait_ms(net, net->epoll, timeout, batch);
}

/* ---- working ---- */

static void handle(struct net *net, uint64_t what, uint32_t events) {
    uint64_t ignored;
    unsigned item = (unsigned)(what >> 56), index = (unsigned)(what >> 48) & 0xff;
    if (!net_may_touch(net)) return; /* an earlier event's log callback forked */
    if (item == ITEM_SOCKETS) {
        struct net_batch batch;
        wait_ms(net, net->sockets, 0, &batch);
        for (int i = 0; i < batch.count; i++) handle(net, batch.item[i].what, batch.item[i].events);
        return;
    }
    if (item >= CONNS_PER_NODE) {
        int fd = item == ITEM_KICK ? net->kick : item == ITEM_TIMER ? net->timer : net->sleeper;
        ssize_t got = read(fd, &ignored, sizeof(ignored));
        (void)got; /* nothing to read: another thread's net_process() was first */
        /* it has run out: what is still due must set it again */
        if (item == ITEM_TIMER) net->timer_at = RL_NEVER;
        return;
    }
    if (index >= net->nodes) return;
    struct conn *conn = &net->node[index].conns[item];
    if (conn->generation == (uint32_t)what) conn_event(conn, events);
}

/* The numbers may be in use for something else by now: nothing is closed. */
static void lose_descriptors(struct net *net) {
    static const char why[] =
        "the program has closed the descriptors of this client (closefrom(3), "
        "or a loop over close(2)): open a new client afterwards";
    if (net->bereft_noted) return;
    net->bereft_noted = true;
    net_log(net, REDLOCK_LOG_ERROR, "%s", why);
    for (unsigned i = 0; i < net->nodes; i++)
        for (int kind = CONNS_PER_NODE; kind-- > 0;) {
            struct conn *conn = &net->node[i].conns[kind];
            conn->fd = -1;
            if (conn->state != CONN_DOWN) conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED, why);
        }
}

static bool waits_for_lookup(const struct node *node) {
    bool any = false;
    for (int i = 0; i < CONNS_PER_NODE; i++) any |= node->conns[i].state == CONN_RESOLVING;
    return any;
}

static void take_answer(struct node *node) {
    struct addresses addresses;
    const char *failure;
    if (!lookup_answers(node, &addresses, &failure)) return;
    /* The connection has given up and pauses. After the pause it would start the same lookup. */
    if (node->main->state == CONN_DOWN && net_timer_is_armed(&node->main->retry))
        conn_start(node->main);
    lookup_drop(node, false);
    for (int i = CONNS_PER_NODE; i-- > 0;)
        if (node->conns[i].state == CONN_RESOLVING)
            conn_resolved(&node->conns[i], &addresses, failure);
}

static void pump_passwords(struct net *net) {
    const char *password, *failure;
    if (!passwords_answers(&net->passwords, &password, &failure)) return;
    for (struct node *node = net->node, *end = node + net->nodes; node < end; node++) {
        /* It has given up and pauses. After the pause it would ask again. */
        if (node->main->password_late && node->main->state == CONN_DOWN) conn_start(node->main);
        for (int i = CONNS_PER_NODE; i-- > 0;)
            if (node->conns[i].state == CONN_PASSWORD)
                conn_given_password(&node->conns[i], password, failure);
    }
    passwords_drop(&net->passwords);
}

static void pump_lookups(struct net *net) {
    if (!net->resolving) return;
    struct node *end = net->node + net->nodes;
    for (struct node *node = net->node; node < end; node++) take_answer(node);
    for (struct node *node = net->node; node < end; node++) {
        if (!waits_for_lookup(node) || lookup_begin(node)) continue;
        for (int i = CONNS_PER_NODE; i-- > 0;)
            if (node->conns[i].state == CONN_RESOLVING)
                conn_fail(&node->conns[i], REDLOCK_VERDICT_NO_MEMORY, LOOKUP_NO_THREAD);
    }
    net->resolving = false;
    for (struct node *node = net->node; node < end; node++)
        net->resolving |= node->lookup != NULL || waits_for_lookup(node);
}

bool net_saw_sockets(const struct net_batch *batch) {
    return batch->count == 1 && batch->item[0].what >> 56 == ITEM_SOCKETS;
}

void net_process(struct net *net, const struct net_batch *batch) {
    struct net_batch own;
    struct net_timer *timer;
    if (net_is_forked(net)) return;
    if (!batch) {
        wait_ms(net, net->sockets, 0, &own);
        batch = &own;
    }
    net->pending = false;
    if (net->bereft) lose_descriptors(net);
    for (int i = 0; i < batch->count; i++) handle(net, batch->item[i].what, batch->item[i].events);
    rl_ns now = net->sample = clock_now();
    for (int i = 0; i < TIMERS_PER_PROCESS && (timer = timers_due(&net->timers, now)); i++)
        timer->fire(timer);
    net->sample = 0;
    pump_passwords(net);
    pump_lookups(net);
    struct node *end = net->node + net->nodes;
    for (struct node *node = net->node; node < end; node++) {
        for (int i = CONNS_PER_NODE; i-- > 0;) conn_give_up_broken(&node->conns[i]);
        transaction_pump(node);
        tracking_pump(node);
        fresh_pump(node, now);
    }
    net_report(net);
    net_flush(net);
}

/* Calls no handler: net_process() opens a connection for transactions, and closes a broken one. */
void net_flush(struct net *net) {
    if (!net_may_touch(net)) return;
    for (struct node *node = net->node, *end = node + net->nodes; node < end; node++) {
        if (transaction_is_due(node)) {
            if (node->aux.state == CONN_READY) {
                transaction_pump(node);
            } else if (node->aux.state == CONN_DOWN && !net_timer_is_armed(&node->aux.retry)) {
                net->pending = true;
                net_kick(net);
            }
        }
        for (struct conn *conn = node->conns; conn < node->conns + CONNS_PER_NODE; conn++)
            if (buffer_bytes(&conn->out) > 0) conn_flush(conn);
    }
    arm_timer(net);
}
