/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Opening, closing and asking a client.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "client.h"
#include "client/operator/task.h"

#define STRINGIFY(x) #x
#define VERSION_TEXT(a, b, c) STRINGIFY(a) "." STRINGIFY(b) "." STRINGIFY(c)

const char *redlock_version(void) {
    return VERSION_TEXT(REDLOCK_VERSION_MAJOR, REDLOCK_VERSION_MINOR, REDLOCK_VERSION_PATCH);
}

const char *redlock_result_text(int result) {
    switch (result) {
#define TEXT(name, value, text)                                                                    \
    case value: return text;
        REDLOCK_RESULTS(TEXT)
    default: return "unknown result";
    }
}

const char *redlock_verdict_text(int verdict) {
    switch (verdict) {
        REDLOCK_VERDICTS(TEXT)
#undef TEXT
    default: return "unknown verdict";
    }
}

static void on_reply(void *context, struct net_call *call, const struct net_reply *reply) {
    (void)context;
    if (call->tag == CALL_LOOK)
        look_reply(call, reply);
    else if (call->tag == CALL_SURVEY)
        survey_reply(call, reply);
    else if (call->tag == CALL_GUARD)
        guard_reply(call, reply);
    else if (call->tag == CALL_FITNESS)
        fitness_reply(call, reply);
    else if (call->tag == CALL_AUTOMODE)
        automode_reply(call, reply);
    else if (call->tag == CALL_QUORUM)
        task_reply(call, reply);
    else if (call->tag >= CALL_LINE_LOOK)
        line_reply(call, reply);
    else
        lock_reply(call, reply);
}

/* One server under two names would vote twice: found by its run_id once both are connected. */
static void on_node(void *context, unsigned node) {
    struct redlock_client *client = context;
    if (!client->net) return; /* still inside net_open() */
    struct net_node_status status;
    net_node(client->net, node, net_now(client->net), &status);
    if (status.verdict == REDLOCK_VERDICT_TWICE_LISTED) client->twice_listed = true;
    if (client->guard) guard_node_changed(client->guard, node);
    if (client->automode && status.connected && status.quorum[0] != '\0')
        automode_found(client->automode, node, status.quorum);
    locks_check(client);
    gatherings_check(client);
}

static void on_changed(void *context, unsigned node) {
    struct redlock_client *client = context;
    if (client->net && client->guard) guard_changed(client->guard, node);
}

static void on_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    line_wake(context, node, key, rank);
}

static void on_log(void *context, int level, const char *text) {
    struct redlock_client *client = context;
    if (client->options.log && level <= (int)client->options.log_level)
        client->options.log(client->options.log_context, (enum redlock_log_level)level, text);
}

void client_log(struct redlock_client *client, enum redlock_log_level level, const char *format,
                ...) {
    if (!client->options.log || level > client->options.log_level) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    on_log(client, (int)level, text);
}

rl_mask client_settled(struct redlock_client *client) {
    return client->guard ? guard_settled(client->guard) : net_settled(client->net);
}

rl_mask client_ready(struct redlock_client *client, rl_ns now) {
    rl_mask ready = net_ready(client->net, now);
    if (client->automode && automode_refuses(client->automode)) return 0;
    return client->guard ? ready & client->guard->intact : ready;
}

int client_refusal(const struct redlock_client *client) {
    if (client->twice_listed) return REDLOCK_TWICE_LISTED;
    if (client->automode && automode_refuses(client->automode)) return REDLOCK_GUARDED_NODES;
    if (client->guard && client->guard->machine.other_quorum != 0) return REDLOCK_TWO_QUORUMS;
    return REDLOCK_OK;
}

int client_verdict(const struct redlock_client *client, unsigned node, int verdict) {
    if (client->automode && automode_names(client->automode, node)) return REDLOCK_VERDICT_GUARDED;
    return client->guard ? guard_verdict(client->guard, node, verdict) : verdict;
}

/* Kinds are left over only where locks were: in a child after fork(2). */
static void free_memory(struct redlock_client *client) {
    pool_empty(&client->rounds);
    pool_empty(&client->acquisitions);
    renewals_free(client);
    kinds_free(client);
    guard_free(client->guard);
    free(client->automode);
    lines_free(client);
    free(client->key_prefix);
    free(client);
}

static void client_destroy(struct redlock_client *client) {
    pthread_cond_destroy(&client->service_cond);
    pthread_cond_destroy(&client->told_cond);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->reload_mutex);
    free_memory(client);
}

static struct redlock_client *client_create(const struct redlock_client_options *options) {
    struct redlock_client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    client->options = *options;
    client->told_last = &client->told_first;
    renewals_init(client);
    client->asleep_last = &client->asleep;
    client->fork_generation = fork_generation();
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->reload_mutex, NULL);
    pthread_cond_init(&client->told_cond, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&client->service_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (options->key_prefix_bytes > 0) {
        client->key_prefix = malloc(options->key_prefix_bytes);
        if (!client->key_prefix) {
            client_destroy(client);
            return NULL;
        }
        memcpy(client->key_prefix, options->key_prefix, options->key_prefix_bytes);
    }
    client->options.key_prefix = client->key_prefix;
    if (options->mode == REDLOCK_MODE_GUARDED && !(client->guard = guard_new(client))) {
        client_destroy(client);
        return NULL;
    }
    if (options->mode == REDLOCK_MODE_AUTO && !(client->automode = automode_new(client))) {
        client_destroy(client);
        return NULL;
    }
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
        .log_level = o->log ? (int)o->log_level : -1,
        .guarded = client->guard != NULL,
        .asks_quorum = client->automode != NULL,
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
    client->nodes = net_nodes(client->net);
    if (!rounds_reserve(client)) {
        net_close(client->net, false);
        return fail(error, REDLOCK_NO_MEMORY, "out of memory while opening a client");
    }
    struct net_node_status first;
    net_node(client->net, 0, net_now(client->net), &first);
    client->scheme = first.scheme; /* one that is not SET is of the only node */
    if (client->guard) guard_start(client->guard);
    if (client->automode) automode_start(client->automode);
    /* The caller's strings end with redlock_client_open(). */
    client->options.tls_ca_file = client->options.tls_cert_file = NULL;
    client->options.tls_key_file = client->options.tls_server_name = client->options.quorum = NULL;
    return REDLOCK_OK;
}

int redlock_client_open(const char *nodes, const struct redlock_client_options *options,
                        struct redlock_client **out, struct redlock_error *error) {
    struct redlock_client_options checked;
    if (!nodes || !out)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "redlock_client_open: nodes and client must be given");
    if (!options_client(&checked, options, error)) return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = client_create(&checked);
    if (!client) return fail(error, REDLOCK_NO_MEMORY, "out of memory while opening a client");
    int result = connect_all(client, nodes, error);
    if (result != REDLOCK_OK) {
        client_destroy(client);
        return result;
    }
    if (checked.service_thread && service_start(client) != REDLOCK_OK) {
        net_close(client->net, false);
        client_destroy(client);
        return fail(error, REDLOCK_SYSTEM,
                    "the service thread cannot be started: too many threads, or no memory");
    }
    *out = client;
    return REDLOCK_OK;
}

int redlock_client_reload(struct redlock_client *client, struct redlock_error *error) {
    struct tls_context *fresh = NULL;
    struct net_error net_error = {0};
    if (client->fork_generation != fork_generation())
        return fail(error, REDLOCK_FORKED, "%s", redlock_result_text(REDLOCK_FORKED));
    pthread_mutex_lock(
        &client->reload_mutex); /* files may be slow: locks are not held up by that */
    int result = net_read_tls(client->net, &fresh, &net_error);
    if (result == REDLOCK_OK) {
        pthread_mutex_lock(&client->mutex);
        net_use_tls(client->net, fresh);
        pthread_mutex_unlock(&client->mutex);
    }
    pthread_mutex_unlock(&client->reload_mutex);
    return result == REDLOCK_OK ? REDLOCK_OK : fail(error, result, "%s", net_error.text);
}

/* Releases may be under way on connections that live: give them one node timeout. */
static void drain(struct redlock_client *client) {
    rl_ns timeout =
        client->options.node_timeout_ms ? client->options.node_timeout_ms * RL_MS : 50 * RL_MS;
    rl_ns end = net_now(client->net) + timeout;
    if (client->guard) guard_leave(client->guard);
    net_flush(client->net);
    while (net_busy_writes(client->net) && net_now(client->net) < end) {
        struct net_batch batch;
        rl_ns next = net_next_timer(client->net);
        net_wait(client->net, next < end ? next : end, &batch);
        net_process(client->net, &batch);
    }
}

void redlock_client_free(struct redlock_client *client) {
    if (!client) return;
    bool forked = client->fork_generation != fork_generation();
    if (forked) {
        /* Another thread was in the middle of something when it forked: what it left half-changed
         * cannot be freed. */
        if (pthread_mutex_trylock(&client->mutex) != 0) return;
    } else {
        service_stop(client);
        drain(client);
    }
    if (client->guard) client->guard->closing = true;
    if (client->automode) client->automode->closing = true;
    net_close(client->net, forked);
    if (forked) {
        /* Threads of the parent may have held the mutex: nothing of it can be destroyed here, only
         * freed. */
        free_memory(client);
        return;
    }
    client_untell(client);
    client_destroy(client);
}

size_t redlock_client_nodes(const struct redlock_client *client) { return client->nodes; }

int redlock_client_node(struct redlock_client *client, size_t node,
                        struct redlock_node_status *out) {
    if (node >= client->nodes || !out || out->size < FIRST_NODE_STATUS) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct net_node_status status;
    net_node(client->net, (unsigned)node, net_now(client->net), &status);
    struct redlock_node_status seen = {.url = status.url,
                                       .verdict = status.verdict,
                                       .uses_transactions = status.uses_transactions,
                                       .scheme = status.scheme};
    memcpy(seen.run_id, status.run_id, sizeof seen.run_id);
    memcpy(seen.version, status.version, sizeof seen.version);
    memcpy(seen.text, status.text, sizeof seen.text);
    if (client->guard) guard_status(client->guard, (unsigned)node, &seen);
    if (client->automode) automode_status(client->automode, (unsigned)node, &seen);
    pthread_mutex_unlock(&client->mutex);
    sized_fill(out, out->size, &seen, sizeof seen);
    return REDLOCK_OK;
}

int redlock_client_stats(struct redlock_client *client, struct redlock_stats *stats) {
    if (!stats || stats->size < FIRST_STATS) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct redlock_stats seen = client->stats;
    for (unsigned i = 0; i < client->nodes; i++) {
        struct net_node_status status;
        net_node(client->net, i, net_now(client->net), &status);
        seen.reconnects += status.reconnects;
    }
    pthread_mutex_unlock(&client->mutex);
    sized_fill(stats, stats->size, &seen, sizeof seen);
    return REDLOCK_OK;
}

int redlock_client_fd(struct redlock_client *client) {
    if (client_enter(client) != REDLOCK_OK) return -1;
    int fd = client->service_runs ? -1 : net_fd(client->net);
    client_leave(client);
    return fd;
}

int redlock_process(struct redlock_client *client) {
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = client->service_runs ? REDLOCK_BAD_ARGUMENT : REDLOCK_OK;
    if (result == REDLOCK_OK) net_process(client->net, NULL);
    client_leave_telling(client);
    return result;
}
