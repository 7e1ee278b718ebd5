/* SPDX-License-Identifier: BSD-2-Clause Each allocation fails in turn: opening says so, a
 * connection comes back, a release is never lost. */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "servers.h"

/* The C library lets a program bring its own malloc; ours fails once, at the allocation that is
 * due. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
#define FOR_THE_LIBRARIES_TOO __attribute__((visibility("default")))
FOR_THE_LIBRARIES_TOO void *malloc(size_t bytes);
FOR_THE_LIBRARIES_TOO void *calloc(size_t count, size_t bytes);
FOR_THE_LIBRARIES_TOO void *realloc(void *old, size_t bytes);

static long countdown = -1; /* -1: nothing fails */
static bool has_failed;

static bool fails(void) {
    if (countdown < 0 || countdown-- > 0) return false;
    has_failed = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }

static void on_reply(void *context, struct net_call *call, const struct net_reply *reply) {
    (void)context;
    struct ask *ask = call->owner;
    ask->verdicts[0] = reply->verdict;
    ask->done++;
}
static void on_node(void *context, unsigned node) { (void)context, (void)node; }
static void on_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    (void)context, (void)node, (void)key, (void)rank;
}

static void turn_until_done(struct net *net, struct ask *ask) {
    rl_ns end = net_now(net) + 5000 * RL_MS;
    while (ask->done == 0) {
        struct net_batch batch;
        rl_ns timer = net_next_timer(net);
        net_wait(net, timer < end ? timer : end, &batch);
        net_process(net, &batch);
        if (net_now(net) >= end) fail_msg("a call is never done");
    }
}

/* Tries until it is answered by the server. */
static int insist_on(struct net *net, const struct net_request *request) {
    static struct ask ask;
    enum net_op op = request->op;
    rl_ns end = net_now(net) + 5000 * RL_MS;
    for (;;) {
        struct net_batch batch;
        ask_init(&ask, op, "", "", 0);
        ask.request = *request;
        rl_ns now = net_now(net), soon = now + 5 * RL_MS, timer = net_next_timer(net);
        if (now >= end) fail_msg("the node is never ready");
        if (net_send(net, 1, &ask.request, ask.calls, now + 1000 * RL_MS, now + 5000 * RL_MS) ==
            0) {
            if (op == NET_RELEASE) fail_msg("a release was not taken");
            net_wait(net, timer < soon ? timer : soon,
                     &batch); /* it may be ready and have lacked memory only now */
            net_process(net, &batch);
            continue;
        }
        net_flush(net);
        turn_until_done(net, &ask);
        int verdict = ask.verdicts[0];
        bool server_said = verdict <= REDLOCK_VERDICT_ABSENT || verdict == REDLOCK_VERDICT_STALE;
        if (server_said) return verdict;
        if (op == NET_RELEASE) fail_msg("a release was lost: verdict %d", verdict);
    }
}

static int insist(struct net *net, enum net_op op, const char *keys) {
    struct ask ask;
    ask_init(&ask, op, keys, "t", 60000);
    return insist_on(net, &ask.request);
}

/* NULL: memory failed, and it says so. */
static struct net *open_net(const char *url, bool guarded) {
    struct net_options options = {.nodes = url,
                                  .connect_timeout = 1000 * RL_MS,
                                  .stall_timeout = 5000 * RL_MS,
                                  .guarded = guarded};
    struct net_handlers handlers = {.reply = on_reply, .node = on_node, .wake = on_wake};
    struct net_error error = {0};
    struct net *net = NULL;
    int result = net_open(&net, &options, &handlers, &error);
    if (result == REDLOCK_OK) return net;
    assert_int_equal(result, REDLOCK_NO_MEMORY);
    assert_int_equal(error.result, REDLOCK_NO_MEMORY);
    assert_true(has_failed && error.text[0] != '\0');
    return NULL;
}

static void one_life(const char *url, const char *keys) {
    struct net *net = open_net(url, false);
    if (!net) return;
    int set = insist(net, NET_ACQUIRE, keys);
    assert_true(set == REDLOCK_VERDICT_GRANTED ||
                (has_failed && set == REDLOCK_VERDICT_DENIED)); /* by our lost SET */
    assert_int_equal(insist(net, NET_EXTEND, keys), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(insist(net, NET_PEEK_VALUE, keys), REDLOCK_VERDICT_GRANTED);
    int release = insist(net, NET_RELEASE, keys);
    assert_true(release == REDLOCK_VERDICT_GRANTED ||
                (has_failed && release == REDLOCK_VERDICT_ABSENT));
    net_close(net, false);
}

/* Record, lock with its fence, fences. What is asked again because an answer was lost may find its
 * own doing. */
static void one_guarded_life(const char *url, const char *keys) {
    static const uint64_t nonces[1] = {8};
    static const uint16_t stripes[8] = {0, 4095, 17};
    static int64_t floor[RL_STRIPES];
    static const struct net_bytes fields[2] = {{"nonce", 5}, {"0000000000000008", 16}};
    struct net_request write = {
        .op = NET_RECORD_WRITE, .nonce = 8, .floor = floor, .fields = fields, .fields_count = 2};
    struct net_request read = {.op = NET_RECORD}, fences = {.op = NET_FENCES, .nonces = nonces};
    struct ask lock;
    struct net *net = open_net(url, true);
    if (!net) return;
    for (int i = 0; i < RL_STRIPES; i++) floor[i] = 1000 + i;
    ask_init(&lock, NET_ACQUIRE, keys, "t", 60000);
    ask_guard(&lock, nonces, 100000, stripes, lock.request.keys_count);
    int wrote = insist_on(net, &write);
    assert_true(wrote == REDLOCK_VERDICT_GRANTED ||
                (has_failed && wrote == REDLOCK_VERDICT_DENIED));
    assert_int_equal(insist_on(net, &read), REDLOCK_VERDICT_GRANTED);
    int set = insist_on(net, &lock.request);
    assert_true(set == REDLOCK_VERDICT_GRANTED || (has_failed && set == REDLOCK_VERDICT_DENIED));
    lock.request.op = NET_EXTEND;
    assert_int_equal(insist_on(net, &lock.request), REDLOCK_VERDICT_GRANTED);
    lock.request.op = NET_CONFIRM;
    assert_int_equal(insist_on(net, &lock.request), REDLOCK_VERDICT_GRANTED);
    lock.request.op = NET_RAISE;
    assert_int_equal(insist_on(net, &lock.request), REDLOCK_VERDICT_STALE);
    assert_int_equal(insist_on(net, &fences), REDLOCK_VERDICT_GRANTED);
    struct net_request state = {.op = NET_STATE};
    assert_int_equal(insist_on(net, &state), REDLOCK_VERDICT_GRANTED);
    net_track(net, true);
    assert_int_equal(insist(net, NET_WATCH, keys), REDLOCK_VERDICT_GRANTED);
    int release = insist(net, NET_RELEASE, keys);
    assert_true(release == REDLOCK_VERDICT_GRANTED ||
                (has_failed && release == REDLOCK_VERDICT_ABSENT));
    net_close(net, false);
}

typedef void life(const char *url, const char *keys);

static void sweep(struct server *server, const char *userinfo, const char *keys, bool flushed,
                  life *live) {
    char url[100];
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    for (long n = 0;; n++) {
        if (flushed) freeReplyObject(server_ask(server, "SCRIPT FLUSH"));
        has_failed = false;
        countdown = n;
        live(url, keys);
        countdown = -1;
        server_ask_integer(server, "DEL redlock:node redlock:fences:0000000000000008");
        assert_int_equal(server_ask_integer(server, "DBSIZE"), 0);
        if (!has_failed) {
            if (n <= 8) fail_msg("only %ld", n); /* it did sweep something */
            return;
        }
    }
}

static void test_scripts(void **state) {
    struct server server = {0};
    (void)state;
    server_start(&server, NULL);
    sweep(&server, "", "k", false, one_life);
    sweep(&server, "", "k l m", true, one_life);
    server_stop(&server);
}

static void test_transactions(void **state) {
    static const char *const arguments[] = {"--user", "bob",   "on",       ">pw", "~*",
                                            "+@all",  "-eval", "-evalsha", NULL};
    struct server server = {0};
    (void)state;
    server_start(&server, arguments);
    sweep(&server, "bob:pw@", "k l", false, one_life);
    server_stop(&server);
}

static void test_guarded(void **state) {
    struct server server = {0};
    (void)state;
    server_start(&server, NULL);
    sweep(&server, "", "k", false, one_guarded_life);
    sweep(&server, "", "k l m", true, one_guarded_life);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts),
                                       cmocka_unit_test(test_transactions),
                                       cmocka_unit_test(test_guarded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
