/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Opens, closes and queries a client. */
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "client/ask/ask.h"
#include "client/change/change.h"
#include "client/guarding/guarding.h"
#include "client/locks/locks.h"
#include "client/look/look.h"

#define STRINGIFY(x) #x
#define VERSION_TEXT(a, b, c) STRINGIFY(a) "." STRINGIFY(b) "." STRINGIFY(c)

const char *redlock_version(void) {
    return VERSION_TEXT(REDLOCK_VERSION_MAJOR, REDLOCK_VERSION_MINOR, REDLOCK_VERSION_PATCH);
}

int redlock_client_wait_ready(struct redlock_client *client, int64_t wait_ms) {
    if (!client || wait_ms < 0 || wait_ms > REDLOCK_TTL_MS_MAX) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather(client, net_now(client->net) + wait_ms * RL_MS);
    int ready = (int)rl_count(client_ready(client, net_now(client->net)));
    return client_leave_notifying(client, ready);
}

/* ---- what the net calls ---- */

static void on_reply(void *context, struct net_call *call, const struct net_reply *reply) {
    (void)context;
    call->answered(call, reply);
}

static void hurry_for_callers(struct redlock_client *client) {
    if (client->gatherings || client->tasks || client->breaks) client_hurry(client);
}

/* One server under two names would vote twice. The run_id shows it once both nodes are
 * connected. */
static void on_node(void *context, unsigned node) {
    struct redlock_client *client = context;
    if (!client->net) return; /* still inside net_open() */
    struct net_node_status status = client_status(client, node);
    if (status.verdict == REDLOCK_VERDICT_TWICE_LISTED) client->twice_listed = true;
    client->natives &= (rl_mask)~rl_bit(node);
    client->readerless &= (rl_mask)~rl_bit(node);
    client->slotless &= (rl_mask)~rl_bit(node);
    const rl_mask native = status.connected && status.native ? rl_bit(node) : 0;
    client->natives |= native;
    if (!status.keeps_readers) client->readerless |= native;
    if (!status.keeps_slots) client->slotless |= native;
    if (client->node_mode->node) client->node_mode->node(client, node, &status);
    hurry_for_callers(client);
    locks_check(client);
    gatherings_check(client);
    tasks_check(client);
    observers_check(client);
}

static void on_changed(void *context, unsigned node) {
    struct redlock_client *client = context;
    if (!client->net) return;
    if (client->guard) {
        guard_changed(client, node);
    } else {
        struct net_node_status status = client_status(client, node);
        client->node_mode->node(client, node, &status);
    }
}

static void on_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    wait_queue_wake(context, node, key, rank);
    if (rank >= 0) return;
    watchers_wake(context, key);
    observers_wake(context, key);
}

static void voters_changed(struct redlock_client *client) {
    hurry_for_callers(client);
    locks_resume(client);
    locks_check(client);
    gatherings_check(client);
    tasks_check(client);
    breaks_check(client);
    observers_check(client);
}

static void turned_guarded(struct redlock_client *client) {
    client->lock_mode = client->lock_layout;
    locks_turn_guarded(client);
}

/* A callback is due: of an observer, or of a lock. */
static void report(struct schedule *schedule, struct notified *notified) {
    if (!observers_report(RL_CONTAINER(schedule, struct redlock_client, schedule), notified, false))
        locks_report(notified);
}

static void drop_callbacks(struct redlock_client *client) {
    for (struct notified *notified; (notified = schedule_next_reported(&client->schedule));)
        if (!observers_report(client, notified, true)) locks_drop_callback(notified);
}

static void on_log(void *context, int level, const char *text) {
    struct redlock_client *client = context;
    if (client->options.log && level <= (int)client->options.log_level)
        client->options.log(client->options.log_context, level, text);
}

/* ---- closing ---- */

static void free_memory(struct redlock_client *client) {
    locks_free(client);
    free(client->guard);
    automode_free(client);
    rates_free(client);
    free(client);
}

static void client_destroy(struct redlock_client *client) {
    schedule_destroy(&client->schedule);
    pthread_mutex_destroy(&client->reload_mutex);
    free_memory(client);
}

/* Releases and leaves may be under way on live connections, and nodes may be late for the key of a
 * lock that is kept: wait one node timeout for them. */
static void drain(struct redlock_client *client) {
    rl_ns end = net_now(client->net) + client_node_timeout(client);
    if (client->node_mode->leave) client->node_mode->leave(client);
    net_flush(client->net);
    while ((net_busy_writes(client->net) || locks_disowned(client)) && net_now(client->net) < end) {
        struct net_batch batch;
        rl_ns next = net_next_timer(client->net);
        net_wait(client->net, next < end ? next : end, &batch);
        net_process(client->net, &batch);
    }
}

/* No object uses the client any more. */
static void end(struct schedule *schedule) {
    struct redlock_client *client = RL_CONTAINER(schedule, struct redlock_client, schedule);
    schedule_unwatch_exit(schedule);
    bool forked = schedule_is_forked(schedule);
    if (forked) {
        /* Another thread was changing something at the fork. A half-changed state cannot be
         * freed. */
        if (pthread_mutex_trylock(&schedule->mutex) != 0) return;
    } else {
        service_stop(schedule);
        drain(client);
        locks_end_disowned(client);
    }
    client->closing = true;
    net_close(client->net, forked);
    if (forked) {
        /* Threads of the parent may have held the mutex. So it is not destroyed here; only memory
         * is freed. */
        free_memory(client);
        return;
    }
    drop_callbacks(client);
    client_destroy(client);
}

/* ---- opening ---- */

static struct redlock_client *client_create(const struct redlock_client_options *options) {
    static const struct {
        const struct node_mode *nodes;
        const struct lock_mode *locks, *layout;
    } modes[] = {[REDLOCK_MODE_CLASSIC] = {&classic_nodes, &classic_locks, &classic_locks},
                 [REDLOCK_MODE_GUARDED] = {&guarded_nodes, &guarded_locks, &guarded_locks},
                 [REDLOCK_MODE_AUTO] = {&auto_nodes, &classic_locks, &guarded_locks}};
    size_t prefix = options->key_prefix_bytes;
    struct redlock_client *client = calloc(1, sizeof *client + locks_bytes + prefix);
    if (!client) return NULL;
    client->locks = (struct locks *)(void *)(client + 1);
    client->key_prefix = (char *)client->locks + locks_bytes;
    if (prefix) memcpy(client->key_prefix, options->key_prefix, prefix);
    client->options = *options;
    client->options.key_prefix = client->key_prefix;
    client->node_mode = modes[options->mode].nodes;
    client->lock_mode = modes[options->mode].locks;
    client->lock_layout = modes[options->mode].layout;
    client->voters = (rl_mask)~0u;
    client->voters_changed = voters_changed;
    client->turned_guarded = turned_guarded;
    atomic_init(&client->refs, 1);
    client->rates_grown = locks_shorten;
    schedule_init(&client->schedule, report, end);
    pthread_mutex_init(&client->reload_mutex, NULL);
    locks_init(client);
    return client;
}

static int connect_all(struct redlock_client *client, const char *nodes,
                       struct redlock_error *error) {
    const struct redlock_client_options *o = &client->options;
    const struct net_options options = {
        .nodes = nodes,
        .connect_timeout = o->connect_timeout_ms * RL_MS,
        .stall_timeout = o->stall_timeout_ms * RL_MS,
        .tls_ca_file = o->tls_ca_file,
        .tls_cert_file = o->tls_cert_file,
        .tls_key_file = o->tls_key_file,
        .tls_server_name = o->tls_server_name,
        .user = o->user,
        .password_file = o->password_file,
        .password = o->password,
        .password_context = o->password_context,
        .log_level = o->log ? (int)o->log_level : -1,
        .guarded = client->lock_mode->fenced,
        .asks_quorum = o->mode == REDLOCK_MODE_AUTO,
    };
    const struct net_handlers handlers = {.reply = on_reply,
                                          .node = on_node,
                                          .log = on_log,
                                          .wake = on_wake,
                                          .changed = on_changed,
                                          .context = client};
    struct net_error net_error = {0};
    int result = net_open(&client->net, &options, &handlers, &net_error);
    if (result != REDLOCK_OK) return fail(error, result, "%s", net_error.text);
    client->schedule.net = client->net;
    client->nodes = net_nodes(client->net);
    const char *trace = secure_getenv("REDLOCK_TRACE");
    client->traced = o->log && trace && strcmp(trace, "1") == 0;
    client->opened_at = net_now(client->net);
    const struct node_mode *mode = client->node_mode;
    if (!locks_reserve(client) || !rates_start(client) || (mode->start && !mode->start(client))) {
        struct net *net = client->net;
        client->net = NULL; /* from here on the handlers do nothing */
        net_close(net, false);
        return fail(error, REDLOCK_NO_MEMORY, "out of memory while opening a client");
    }
    struct net_node_status first = client_status(client, 0);
    client->scheme = first.scheme; /* a scheme other than SET belongs to the only node */
    /* The caller's strings are valid only during redlock_client_open(). */
    client->options.tls_ca_file = client->options.tls_cert_file = NULL;
    client->options.tls_key_file = client->options.tls_server_name = client->options.quorum = NULL;
    client->options.user = client->options.password_file = NULL;
    return REDLOCK_OK;
}

static int open_client(const char *nodes, const struct redlock_client_options *checked,
                       struct redlock_client **out, struct redlock_error *error) {
    struct redlock_client *client = client_create(checked);
    if (!client) return fail(error, REDLOCK_NO_MEMORY, "out of memory while opening a client");
    int result = connect_all(client, nodes, error);
    if (result != REDLOCK_OK) {
        client_destroy(client);
        return result;
    }
    if (checked->service_thread && service_start(&client->schedule, checked->queue) != REDLOCK_OK) {
        net_close(client->net, false);
        client_destroy(client);
        return fail(error, REDLOCK_SYSTEM,
                    "the service thread cannot be started: too many threads or descriptors, or no "
                    "memory");
    }
    if (net_uses_tls(client->net)) schedule_watch_exit(&client->schedule);
    *out = client;
    return REDLOCK_OK;
}

static int open_configured(struct redlock_client_options *options, struct redlock_client **out,
                           struct redlock_error *error) {
    struct client_fields fields = CLIENT_FIELDS_DEFAULTS;
    int result = configured_read(&fields, options, error);
    if (result == REDLOCK_OK) {
        result = options_agree(options, error) ? open_client(fields.nodes, options, out, error)
                                               : REDLOCK_BAD_ARGUMENT;
        if (result == REDLOCK_BAD_ARGUMENT) configured_blame(error);
    }
    client_fields_free(&fields);
    return result;
}

int redlock_client_open(const char *nodes, const struct redlock_client_options *options,
                        struct redlock_client **out, struct redlock_error *error) {
    struct redlock_client_options checked;
    if (!out)
        return fail(error, REDLOCK_BAD_ARGUMENT, "redlock_client_open: client must not be NULL");
    if (!options_client(&checked, options, error)) return REDLOCK_BAD_ARGUMENT;
    if (nodes && !options_agree(&checked, error)) return REDLOCK_BAD_ARGUMENT;
    cancellation_off();
    int result =
        nodes ? open_client(nodes, &checked, out, error) : open_configured(&checked, out, error);
    cancellation_back();
    return result;
}

int redlock_client_reload(struct redlock_client *client, struct redlock_error *error) {
    struct tls_context *fresh = NULL;
    struct net_error net_error = {0};
    if (!client) return fail_null(error);
    if (schedule_is_forked(&client->schedule)) return fail_forked(error);
    cancellation_off();
    /* reading files may be slow, and locks do not wait for it */
    pthread_mutex_lock(&client->reload_mutex);
    int result = net_check_passwords(client->net, &net_error)
                     ? net_read_tls(client->net, &fresh, &net_error)
                     : net_error.result;
    if (result == REDLOCK_OK) {
        pthread_mutex_lock(&client->schedule.mutex);
        net_use_tls(client->net, fresh);
        pthread_mutex_unlock(&client->schedule.mutex);
    }
    pthread_mutex_unlock(&client->reload_mutex);
    cancellation_back();
    return result == REDLOCK_OK ? REDLOCK_OK : fail(error, result, "%s", net_error.text);
}

void redlock_client_free(struct redlock_client *client) {
    if (client) client_unref(client);
}

/* ---- queries ---- */

size_t redlock_client_nodes(const struct redlock_client *client) { return client->nodes; }

int redlock_client_node(struct redlock_client *client, size_t node,
                        struct redlock_node_status *out) {
    if (!client || node >= client->nodes || !out || out->size < FIRST_NODE_STATUS)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    client_hurry(client); /* else it would show for up to half a minute that the node is unread */
    struct net_node_status status = client_status(client, (unsigned)node);
    struct redlock_node_status seen = {.url = status.url,
                                       .verdict = status.verdict,
                                       .uses_transactions = status.uses_transactions,
                                       .scheme = status.scheme,
                                       .native = status.native};
    memcpy(seen.run_id, status.run_id, sizeof seen.run_id);
    memcpy(seen.version, status.version, sizeof seen.version);
    memcpy(seen.text, status.text, sizeof seen.text);
    if (client->node_mode->status) client->node_mode->status(client, (unsigned)node, &seen);
    client_exit(client);
    sized_fill(out, out->size, &seen, sizeof seen);
    return REDLOCK_OK;
}

int redlock_client_mode(struct redlock_client *client) {
    if (client_enter(client) != REDLOCK_OK) return client->options.mode;
    int mode = client->guard ? REDLOCK_MODE_GUARDED : client->options.mode;
    client_exit(client);
    return mode;
}

int redlock_client_stats(struct redlock_client *client, struct redlock_stats *stats) {
    if (!client || !stats || stats->size < FIRST_STATS) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct redlock_stats seen = client->stats;
    for (unsigned i = 0; i < client->nodes; i++) {
        struct net_node_status status = client_status(client, i);
        seen.reconnects += status.reconnects;
    }
    if (client->guard) seen.ttl_max_ms = guard_ttl_max_ms(client->guard);
    client_exit(client);
    histogram_count(&seen.waited);
    histogram_count(&seen.held);
    histogram_count(&seen.validity_left);
    histogram_count(&seen.handed_over);
    sized_fill(stats, stats->size, &seen, sizeof seen);
    return REDLOCK_OK;
}

int64_t redlock_now_ns(void) { return net_now(NULL); }

int redlock_client_fd(struct redlock_client *client) {
    if (client_enter(client) != REDLOCK_OK) return -1;
    const struct schedule *schedule = &client->schedule;
    int fd = schedule->queued ? net_bell(client->net) : -1;
    if (!schedule->service_runs) fd = net_fd(client->net);
    client_leave(client);
    return fd;
}

int redlock_process(struct redlock_client *client) {
    if (!client) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = REDLOCK_OK;
    if (!client->schedule.service_runs)
        net_process(client->net, NULL);
    else if (client->schedule.queued)
        schedule_loop(&client->schedule);
    else
        result = REDLOCK_BAD_ARGUMENT;
    return client_leave_notifying(client, result);
}
