/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Five servers that carry a quorum's record, and clients in guarded mode on them.
 */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include "notices.h"

/* With more patience than the default, so that a busy machine does not look like a dead node. */
static inline struct redlock_client_options guarded_options(void) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.mode = REDLOCK_MODE_GUARDED;
    options.node_timeout_ms = 300;
    return options;
}

static inline struct redlock_client *open_guarded_at(const char *urls,
                                                     const struct redlock_client_options *options) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (redlock_client_open(urls, options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    redlock_client_wait_ready(client, 2000);
    return client;
}

static inline struct redlock_client *open_guarded(const struct servers *servers) {
    const struct redlock_client_options options = guarded_options();
    return open_guarded_at(servers->urls, &options);
}

/* Fresh servers become a quorum. */
static inline void init_quorum(const char *urls, int64_t ttl_ms_max) {
    const struct redlock_client_options client_options = guarded_options();
    struct redlock_client *client = open_guarded_at(urls, &client_options);
    struct redlock_quorum_options options;
    struct redlock_error error = {0};
    redlock_quorum_options_init(&options);
    options.ttl_ms_max = ttl_ms_max;
    options.never_used = 1;
    if (redlock_quorum_init(client, &options, &error) != REDLOCK_OK) fail_msg("%s", error.text);
    redlock_client_free(client);
}

static inline void start_quorum(struct servers *servers, unsigned count, int64_t ttl_ms_max) {
    servers_start(servers, count);
    init_quorum(servers->urls, ttl_ms_max);
}

static inline struct redlock_node_status node_status(struct redlock_client *client, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    assert_result(redlock_client_node(client, node, &status), REDLOCK_OK);
    return status;
}

#define assert_verdict(verdict, expected)                                                          \
    do {                                                                                           \
        int got_ = (verdict);                                                                      \
        if (got_ != (expected))                                                                    \
            fail_msg("%s is \"%s\", not \"%s\"", #verdict, redlock_verdict_text(got_),             \
                     redlock_verdict_text(expected));                                              \
    } while (0)

/* The answer must not be an error. */
static inline void command(struct server *server, const char *text) {
    redisReply *reply = server_ask(server, text);
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("%s: %s", text, reply->str);
    freeReplyObject(reply);
}

/* As the registration of another member does it: the fences move along. `nonce`: 16 hex digits. */
static inline void change_nonce(struct server *server, const char *nonce) {
    redisReply *reply = server_ask(
        server, "EVAL %s 0 %s",
        "local was = redis.call('HGET', 'redlock:node', 'nonce') "
        "redis.call('HSET', 'redlock:node', 'nonce', ARGV[1]) "
        "return redis.call('RENAME', 'redlock:fences:' .. was, 'redlock:fences:' .. ARGV[1])",
        nonce);
    if (reply->type != REDIS_REPLY_STATUS) fail_msg("%s", reply->str ? reply->str : "?");
    freeReplyObject(reply);
}

/* How often a command was called since CONFIG RESETSTAT. */
static inline long calls_of(struct server *server, const char *name) {
    char field[64];
    redisReply *reply = server_ask(server, "INFO commandstats");
    snprintf(field, sizeof field, "cmdstat_%s:calls=", name);
    const char *at = strstr(reply->str, field);
    long calls = at ? strtol(at + strlen(field), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* A script's first call on a connection is an EVAL. */
static inline long scripts_called(struct server *server) {
    return calls_of(server, "eval") + calls_of(server, "evalsha");
}

/* 0: the node carries no fences for its record's nonce. */
static inline int64_t fence_of(struct server *server, int stripe) {
    redisReply *reply = server_ask(
        server, "EVAL %s 0 %d",
        "local name = 'redlock:fences:' .. (redis.call('HGET', 'redlock:node', 'nonce') or '') "
        "return redis.call('ZSCORE', name, ARGV[1])",
        stripe);
    int64_t fence = reply->type == REDIS_REPLY_STRING ? (int64_t)strtod(reply->str, NULL) : 0;
    freeReplyObject(reply);
    return fence;
}

#endif
