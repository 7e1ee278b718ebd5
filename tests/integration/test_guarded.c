/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode on real servers, one thing at a time: what an acquisition costs, that fencing tokens
 * grow, and what becomes of a node that lost its data, of a record that changed under a lease, of a
 * node that is no member.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guarded.h"
#include "proxy.h"

#define TTL_MAX 1000

static struct servers five;

static int start_five(void **state) {
    (void)state;
    start_quorum(&five, 5, TTL_MAX);
    return 0;
}

static int stop_five(void **state) {
    (void)state;
    servers_stop(&five);
    return 0;
}

static struct redlock_lock *guarded_lock(struct redlock_client *client, const char *resource) {
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    return new_lock(client, resource, &options);
}

/* ---- what it costs ---- */

static void reset_stats(void) {
    for (unsigned i = 0; i < 5; i++) command(&five.at[i], "CONFIG RESETSTAT");
}

/* Commands that cost a node something and are not our own questions. */
static long all_calls(struct server *server) {
    long calls = 0;
    redisReply *reply = server_ask(server, "INFO commandstats");
    for (const char *at = reply->str; (at = strstr(at, "cmdstat_")); at++) {
        bool ours = strncmp(at, "cmdstat_info", 12) == 0 || strncmp(at, "cmdstat_config", 14) == 0;
        const char *count = strstr(at, "calls=");
        if (!ours && count) calls += strtol(count + 6, NULL, 10);
    }
    freeReplyObject(reply);
    return calls;
}

static void an_acquisition_is_one_set_and_one_zadd_a_node(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = guarded_lock(client, "cost");
    assert_int_equal(nodes_ready(client), 5);
    assert_result(redlock_try(lock), REDLOCK_OK); /* the first one also tries a command (send.c) */
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(50);
    reset_stats();
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "cost") == 5, 1000);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(calls_of(&five.at[i], "set"), 1);
        assert_int_equal(calls_of(&five.at[i], "zadd"), 1);
        /* Beside them what servers_holding() asked, and the samples of the clock. */
        assert_int_equal(all_calls(&five.at[i]) - calls_of(&five.at[i], "exists") -
                             calls_of(&five.at[i], "time"),
                         2);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- fencing tokens ---- */

/* All clients must agree on which stripe a key has. */
static void a_keys_fence_is_where_every_client_looks_for_it(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    options.key_prefix = "jobs:";
    struct redlock_client *client = open_guarded_at(five.urls, &options);
    struct redlock_lock *lock = guarded_lock(client, "nightly");
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "jobs:nightly") == 5, 1000);
    nap_ms(20);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(fence_of(&five.at[i], 1898), redlock_fence(lock));
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* A node counts for a lease because it has the lease's fence: where it was lost, an extension sets
 * it. */
static void an_extension_raises_fences_that_are_lower(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = guarded_lock(client, "jobs:nightly");
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "jobs:nightly") == 5, 1000);
    nap_ms(20);
    for (unsigned i = 0; i < 5; i++)
        freeReplyObject(server_ask(
            &five.at[i], "EVAL %s 0",
            "return redis.call('ZADD', 'redlock:fences:' .. redis.call('HGET', 'redlock:node', "
            "'nonce'), 'XX', 'CH', 7, 1898)"));
    assert_int_equal(fence_of(&five.at[4], 1898), 7);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        wait_until(fence_of(&five.at[i], 1898) == redlock_fence(lock), 500);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void fencing_tokens_grow(void **state) {
    (void)state;
    struct redlock_client *a = open_guarded(&five), *b = open_guarded(&five);
    struct redlock_lock *locks[] = {guarded_lock(a, "grow"), guarded_lock(b, "grow")};
    int64_t before = 0;
    for (int i = 0; i < 40; i++) {
        struct redlock_lock *lock = locks[i % 2];
        assert_int_equal(redlock_fence(lock), 0);
        assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
        int64_t fence = redlock_fence(lock);
        if (fence <= before)
            fail_msg("fence %lld came after %lld", (long long)fence, (long long)before);
        before = fence;
        if (i == 10) nap_ms(20); /* who still owes an answer is not asked to extend */
        if (i == 10) assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        assert_int_equal(redlock_fence(lock), fence);
        assert_result(redlock_release(lock), REDLOCK_OK);
        assert_int_equal(redlock_fence(lock), 0);
    }
    for (int i = 0; i < 2; i++) redlock_lock_free(locks[i]);
    redlock_client_free(a);
    redlock_client_free(b);
}

static void two_contenders_exclude_each_other(void **state) {
    (void)state;
    struct redlock_client *a = open_guarded(&five), *b = open_guarded(&five);
    struct redlock_lock *mine = guarded_lock(a, "both"), *yours = guarded_lock(b, "both");
    assert_result(redlock_try(mine), REDLOCK_OK);
    assert_result(redlock_try(yours), REDLOCK_HELD);
    assert_int_equal(redlock_fence(yours), 0);
    int64_t fence = redlock_fence(mine);
    assert_result(redlock_release(mine), REDLOCK_OK);
    assert_result(redlock_acquire(yours, 1000), REDLOCK_OK);
    assert_true(redlock_fence(yours) > fence);
    redlock_lock_free(mine);
    redlock_lock_free(yours);
    redlock_client_free(a);
    redlock_client_free(b);
}

/* As if locks had been granted by a client whose clock is far ahead. */
static void raise_all_fences(struct server *server, long long ahead_us) {
    redisReply *reply = server_ask(
        server, "EVAL %s 0 %lld",
        "local name = 'redlock:fences:' .. redis.call('HGET', 'redlock:node', 'nonce') "
        "local t = redis.call('TIME') local fence = t[1] * 1000000 + t[2] + ARGV[1] "
        "for i = 0, 4095 do redis.call('ZADD', name, 'XX', 'GT', string.format('%.0f', fence), i) end "
        "return redis.call('ZCARD', name)",
        ahead_us);
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 4096)
        fail_msg("%s", reply->str ? reply->str : "no fences");
    freeReplyObject(reply);
}

static void a_stale_proposal_costs_one_round_trip_and_only_once(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = guarded_lock(client, "stale"),
                        *other = guarded_lock(client, "other");
    int64_t now_us = (int64_t)time(NULL) * 1000000;
    for (unsigned i = 0; i < 5; i++) raise_all_fences(&five.at[i], 1000000000);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(stats_of(client).attempts, 1);
    assert_true(redlock_fence(lock) > now_us + 1000000000);
    nap_ms(50);
    reset_stats();
    assert_result(redlock_try(other),
                  REDLOCK_OK); /* by now the client knows how far ahead others are */
    nap_ms(50);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(calls_of(&five.at[i], "zadd"), 1);
        assert_int_equal(calls_of(&five.at[i], "evalsha"), 0);
    }
    redlock_lock_free(lock);
    redlock_lock_free(other);
    redlock_client_free(client);
}

static void several_resources_are_one_lock(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    const struct redlock_bytes names[] = {{"m1", 2}, {"m2", 2}, {"m3", 2}};
    struct redlock_lock *many = NULL, *one = guarded_lock(client, "m2");
    assert_result(redlock_lock_new_multi(client, names, 3, &options, &many, NULL), REDLOCK_OK);
    assert_result(redlock_try(one), REDLOCK_OK);
    int64_t fence = redlock_fence(one);
    assert_result(redlock_try(many), REDLOCK_HELD);
    assert_int_equal(servers_holding(&five, "m1") + servers_holding(&five, "m3"), 0);
    assert_result(redlock_release(one), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) raise_all_fences(&five.at[i], 2000000000);
    assert_result(redlock_acquire(many, 1000), REDLOCK_OK);
    assert_true(redlock_fence(many) > fence + 1000000000);
    wait_until(servers_holding(&five, "m3") == 5, 1000);
    nap_ms(20);
    assert_result(redlock_extend(many, 0), REDLOCK_OK);
    assert_result(redlock_try(one), REDLOCK_HELD);
    assert_result(redlock_release(many), REDLOCK_OK);
    redlock_lock_free(many);
    redlock_lock_free(one);
    redlock_client_free(client);
}

/* After a win a majority is asked once more, and a client that asked is as good as any other. */
static void a_confirmed_lock_works(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    options.confirm = 1;
    struct redlock_client *client = open_guarded_at(five.urls, &options);
    struct redlock_lock *lock = guarded_lock(client, "confirmed");
    assert_result(redlock_try(lock),
                  REDLOCK_OK); /* from here on the client proposes what is high enough */
    int64_t fence = redlock_fence(lock);
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(50);
    reset_stats();
    assert_result(redlock_try(lock), REDLOCK_OK);
    unsigned asked = 0;
    for (unsigned i = 0; i < 5; i++) asked += scripts_called(&five.at[i]) > 0;
    assert_true(asked >= 3);
    assert_true(redlock_fence(lock) > fence);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- a node that lost its data ---- */

static bool holds_token(struct server *server, const char *key, const char *token) {
    char value[200];
    return server_get(server, key, value, sizeof value) && strcmp(value, token) == 0;
}

static void a_flushed_node_does_not_vote_until_it_has_recovered(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct notices notices = {0};
    const struct redlock_lock_options options = notices_options(TTL_MAX, &notices);
    struct redlock_lock *lease = new_lock(client, "kept", &options),
                        *other = guarded_lock(client, "during");
    char token[REDLOCK_TOKEN_HEX_BYTES + 1] = "";
    int verdicts[5];
    assert_result(redlock_try(lease), REDLOCK_OK);
    int64_t fence = redlock_fence(lease);
    memcpy(token, redlock_token(lease).data, REDLOCK_TOKEN_HEX_BYTES);
    wait_until(servers_holding(&five, "kept") == 5, 1000);

    double flushed = now_ms();
    command(&five.at[2], "FLUSHALL");
    wait_until(node_status(client, 2).verdict == REDLOCK_VERDICT_RECOVERING,
               TTL_MAX); /* a renewal has met it */
    struct redlock_node_status status = node_status(client, 2);
    assert_true(status.recovering_ms > 0 && status.recovering_ms <= TTL_MAX + 100);
    assert_non_null(strstr(status.text, "lost its lock data"));
    assert_result(redlock_try(other), REDLOCK_OK);
    nap_ms(20);
    assert_int_equal(redlock_verdicts(other, verdicts, 5), 5);
    assert_verdict(verdicts[2], REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(server_ask_integer(&five.at[2], "EXISTS during kept"), 0);
    assert_int_equal(servers_holding(&five, "during"), 4);
    assert_result(redlock_release(other), REDLOCK_OK);

    wait_until(node_status(client, 2).verdict == REDLOCK_VERDICT_GRANTED, 4 * TTL_MAX);
    assert_true(now_ms() - flushed >= TTL_MAX);
    wait_until(holds_token(&five.at[2], "kept", token), TTL_MAX); /* the lease is repaired there */
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > 5, 5 * TTL_MAX);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(redlock_lock_state(lease), REDLOCK_STATE_HELD);
    assert_int_equal(redlock_fence(lease), fence);
    assert_result(redlock_release(lease), REDLOCK_OK);
    redlock_lock_free(lease);
    redlock_lock_free(other);
    redlock_client_free(client);
}

/* One minority at a time, and every fence that a majority has granted is there again. */
static void fences_survive_that_each_node_in_turn_loses_its_data(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, 500);
    struct redlock_client *client = open_guarded(&three);
    const struct redlock_lock_options options = lock_options(400);
    struct redlock_lock *lock = new_lock(client, "turns", &options);
    for (unsigned i = 0; i < 3; i++) raise_all_fences(&three.at[i], 1000000000);
    assert_result(redlock_try(lock), REDLOCK_OK);
    int64_t fence = redlock_fence(lock);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    for (unsigned i = 0; i < 3; i++) {
        struct redlock_client *agent = open_guarded(&three);
        server_kill(&three.at[i]);
        server_restart(&three.at[i]);
        wait_until(nodes_ready(agent) == 3, 5000);
        redlock_client_free(agent);
    }
    /* A client that has seen nothing of all this, and whose clock is far behind the fences. */
    struct redlock_client *late = open_guarded(&three);
    lock = new_lock(late, "turns", &options);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    assert_true(redlock_fence(lock) > fence);
    redlock_lock_free(lock);
    redlock_client_free(late);
    redlock_client_free(client);
    servers_stop(&three);
}

/* Whoever comes for a moment only: each hands on what it has waited. */
static void short_lived_clients_bring_a_node_back_together(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, 1500);
    command(&three.at[1], "FLUSHALL");
    double began = now_ms(), longest = 0;
    bool back = false;
    unsigned clients = 0;
    while (!back && now_ms() - began < 20000) {
        double opened = now_ms();
        struct redlock_client *client = open_guarded(&three);
        back = nodes_ready(client) == 3;
        if (!back) nap_ms(15); /* shorter than what a client waits before it hands on of itself */
        redlock_client_free(client);
        if (now_ms() - opened > longest) longest = now_ms() - opened;
        clients++;
    }
    assert_true(back);
    assert_true(clients > 20);
    assert_true(now_ms() - began > 1500);
    assert_less(longest, 1500);
    servers_stop(&three);
}

/* ---- a record that changes under a lease ---- */

/* At all nodes at once, so that an extension that were told failed where its nonce is gone would
 * fail as a whole. */
static void an_extension_outlives_a_changed_nonce(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "changed", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    int64_t fence = redlock_fence(lock);
    wait_until(servers_holding(&five, "changed") == 5, 1000);
    nap_ms(300);
    for (unsigned i = 0; i < 5; i++) change_nonce(&five.at[i], "00000000000000aa");
    const int64_t extended = (int64_t)now_ms();
    assert_result(redlock_extend(lock, TTL_MAX), REDLOCK_OK);
    assert_true(redlock_validity_ms(lock) > TTL_MAX - 300);
    for (unsigned i = 0; i < 5; i++) /* the end is the new one, however late this looks */
        wait_until(server_ask_integer(&five.at[i], "PTTL changed") + (int64_t)now_ms() - extended >
                       TTL_MAX - 100,
                   1000);
    assert_int_equal(redlock_fence(lock), fence);
    assert_int_equal(stats_of(client).extensions_failed, 0);
    wait_until(nodes_ready(client) == 5, 500);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void an_acquisition_outlives_a_changed_nonce(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = guarded_lock(client, "renonced");
    for (unsigned i = 0; i < 5; i++) change_nonce(&five.at[i], "00000000000000bb");
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(stats_of(client).attempts, 1);
    wait_until(nodes_ready(client) == 5, 500);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* No other node's answer sets the attempt going again: that the record has been read must. */
static void an_attempt_goes_on_when_the_record_was_read(void **state) {
    (void)state;
    struct servers one;
    start_quorum(&one, 1, TTL_MAX);
    struct redlock_client *client = open_guarded(&one);
    struct redlock_lock *lock = guarded_lock(client, "all");
    change_nonce(&one.at[0], "00000000000000cc");
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(stats_of(client).attempts, 1);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&one);
}

/* Of an answer that stands behind a push nobody knows whether the data are still those of the
 * record: it is asked again, when the record has been read. */
static void an_answer_behind_a_push_is_asked_for_again(void **state) {
    (void)state;
    struct servers one;
    char url[64];
    start_quorum(&one, 1, TTL_MAX);
    struct proxy *proxy = proxy_start(one.at[0].port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(proxy));
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(url, &options);
    struct redlock_lock_options unrenewed = lock_options(TTL_MAX);
    unrenewed.renew = 0;
    struct redlock_lock *lock = new_lock(client, "behind", &unrenewed);
    assert_int_equal(nodes_ready(client), 1);
    for (int extends = 0; extends < 2; extends++) {
        if (extends) assert_result(redlock_extend(lock, 0), REDLOCK_OK); /* it knows the script */
        proxy_delay(proxy, 40);
        command(&one.at[0], "CONFIG RESETSTAT");
        command(
            &one.at[0],
            "HSET redlock:node format 2"); /* the push is on its way when the request goes out */
        assert_result(extends ? redlock_extend(lock, 0) : redlock_try(lock), REDLOCK_OK);
        assert_int_equal(scripts_called(&one.at[0]),
                         extends ? 2 : 1); /* the raise; both extensions */
        proxy_delay(proxy, 0);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    proxy_stop(proxy);
    servers_stop(&one);
}

static bool is_intact(struct server *server) {
    redisReply *reply = server_ask(server, "HGET redlock:node standing");
    bool intact = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "intact") == 0;
    freeReplyObject(reply);
    return intact;
}

/* The sum of the members' numbers: five of them have had one body each at first. */
static long incarnations_of(struct server *server) {
    long sum = 0;
    redisReply *reply = server_ask(server, "HGET redlock:node members");
    if (reply->type != REDIS_REPLY_STRING) fail_msg("there is no record");
    for (const char *line = reply->str; *line; line = strchr(line, '\n') + 1)
        sum += strtol(line + 17, NULL, 10);
    freeReplyObject(reply);
    return sum;
}

/* The client itself writes a record while a vote is under way there: that the old nonce's fences
 * are gone then is no news, and no loss. */
static void what_this_client_writes_itself_is_no_loss(void **state) {
    (void)state;
    struct servers mine;
    start_quorum(&mine, 5, 5000);
    struct redlock_client *client = open_guarded(&mine);
    struct redlock_lock_options options = lock_options(5000);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "own", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&mine, "own") == 5, 1000);
    server_kill(&mine.at[2]);
    server_pause(&mine.at[1]);
    server_restart(&mine.at[2]);
    wait_until(server_ask_integer(&mine.at[2], "EXISTS redlock:node") == 1,
               2000); /* claimed: registered elsewhere next */
    wait_until(is_intact(&mine.at[0]) && incarnations_of(&mine.at[0]) > 5, 500);
    /* At node 1 behind the registration, under the nonce before it. A busy machine may need more
     * than a node timeout. */
    wait_until(redlock_extend(lock, 0) == REDLOCK_OK, 2000);
    server_resume(&mine.at[1]);
    wait_until(incarnations_of(&mine.at[1]) > 5, 500);
    for (int i = 0; i < 40; i++) {
        nap_ms(5);
        assert_true(is_intact(&mine.at[1]));
    }
    assert_verdict(node_status(client, 1).verdict, REDLOCK_VERDICT_GRANTED);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&mine);
}

/* It was a replica for a moment, too short for anybody to look, and took nothing over as a whole,
 * so no push came: but its master may have deleted keys there. A client that watched all the time
 * does not vouch for it. */
static void a_server_that_was_promoted_recovers(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, 500);
    struct redlock_client *client = open_guarded(&three);
    assert_int_equal(nodes_ready(client), 3);
    command(&three.at[0], "REPLICAOF 127.0.0.1 1");
    command(&three.at[0], "REPLICAOF NO ONE");
    wait_until(!is_intact(&three.at[0]), 3000);
    wait_until(nodes_ready(client) == 3, 6000);
    redlock_client_free(client);
    servers_stop(&three);
}

static pid_t watcher(const char *urls) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = NULL;
    if (redlock_client_open(urls, &options, &client, NULL) != REDLOCK_OK) _exit(1);
    for (;;) pause();
}

/* A client that was stopped between the question for the time and its answer, and finds that the
 * record has changed too. It must not take the time that it was stopped for a step of the server's
 * clock. */
static void a_client_that_was_stopped_suspects_nobody(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, 3000);
    pid_t pid = watcher(three.urls);
    nap_ms(1500);
    server_pause(&three.at[0]);
    nap_ms(1300); /* it asks once a second */
    kill(pid, SIGSTOP);
    server_resume(&three.at[0]);
    command(&three.at[0], "HSET redlock:node waited 0");
    nap_ms(1500);
    command(&three.at[0], "HDEL redlock:node waited");
    kill(pid, SIGCONT);
    for (int i = 0; i < 150; i++) {
        assert_true(is_intact(&three.at[0]));
        nap_ms(20);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    servers_stop(&three);
}

/* ---- what is refused ---- */

static void a_ttl_above_the_quorums_is_refused(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    const struct redlock_lock_options options = lock_options(TTL_MAX + 1);
    struct redlock_lock *lock = new_lock(client, "long", &options),
                        *short_one = guarded_lock(client, "short");
    assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
    assert_result(redlock_try(short_one), REDLOCK_OK);
    nap_ms(20);
    assert_result(redlock_extend(short_one, TTL_MAX + 1), REDLOCK_TTL_MAX_EXCEEDED);
    assert_result(redlock_extend(short_one, TTL_MAX), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_lock_free(short_one);
    redlock_client_free(client);
    /* Also when nothing is known yet. */
    const struct redlock_client_options fresh = guarded_options();
    assert_result(redlock_client_open(five.urls, &fresh, &client, NULL), REDLOCK_OK);
    lock = new_lock(client, "long", &options);
    assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
    assert_int_equal(servers_holding(&five, "long"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* What is refused must not touch what is under way: here the release of the lock's use before, on
 * the node that is stopped. */
static void a_refused_lock_leaves_its_release_alone(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    const struct redlock_lock_options options = lock_options(TTL_MAX + 1);
    struct redlock_lock *lock = new_lock(client, "refused", &options),
                        *next = guarded_lock(client, "next");
    server_pause(&five.at[4]);
    for (int i = 0; i < 3; i++) {
        assert_result(redlock_lock_adopt(lock, "token-of-another", 16), REDLOCK_OK);
        assert_result(redlock_release(lock), REDLOCK_LOST);
        assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
        assert_result(redlock_try(next), REDLOCK_OK);
        assert_result(redlock_release(next), REDLOCK_OK);
    }
    server_resume(&five.at[4]);
    wait_until(nodes_ready(client) == 5, 6000);
    assert_result(redlock_try(next), REDLOCK_OK);
    assert_result(redlock_release(next), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_lock_free(next);
    redlock_client_free(client);
}

static void ignore_leader(void *context, const struct redlock_leader *leader) {
    (void)context;
    (void)leader;
}

/* Every function that takes the name of a lock refuses a reserved one. */
static void refuse_resource(struct redlock_client *client, const char *resource, int expected) {
    const size_t bytes = strlen(resource);
    struct redlock_lock *lock = NULL;
    struct redlock_observer *observer = NULL;
    struct redlock_break_report report;
    redlock_break_report_init(&report);
    assert_result(redlock_await_free(client, resource, bytes, 0), expected);
    assert_result(redlock_break(client, resource, bytes, NULL, &report, NULL), expected);
    if (redlock_client_mode(client) != REDLOCK_MODE_CLASSIC)
        assert_result(
            redlock_observe_start(client, resource, bytes, ignore_leader, NULL, &observer, NULL),
            expected);
    redlock_observe_stop(observer);
    struct redlock_error error = {0};
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    assert_result(redlock_lock_new(client, resource, strlen(resource), &options, &lock, &error),
                  expected);
    redlock_lock_free(lock);
}

static void what_nodes_keep_is_no_resource(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    struct redlock_client *guarded = open_guarded(&five), *open = open_calm(&five);
    options.mode = REDLOCK_MODE_CLASSIC;
    struct redlock_client *classic = open_guarded_at(five.urls, &options);
    options.mode = REDLOCK_MODE_GUARDED;
    options.key_prefix = "redlock:";
    struct redlock_client *prefixed = open_guarded_at(five.urls, &options);
    refuse_resource(guarded, "redlock:node", REDLOCK_BAD_ARGUMENT);
    refuse_resource(guarded, "redlock:fences:", REDLOCK_BAD_ARGUMENT);
    refuse_resource(guarded, "redlock:fences:kept", REDLOCK_BAD_ARGUMENT);
    refuse_resource(guarded, "redlock:nodes", REDLOCK_OK);
    refuse_resource(guarded, "redlock:fences", REDLOCK_BAD_ARGUMENT);
    refuse_resource(prefixed, "node", REDLOCK_BAD_ARGUMENT);
    refuse_resource(prefixed, "fences:0123456789abcdef", REDLOCK_BAD_ARGUMENT);
    refuse_resource(prefixed, "redlock:node", REDLOCK_OK);
    refuse_resource(classic, "redlock:node", REDLOCK_BAD_ARGUMENT);
    refuse_resource(open, "redlock:node", REDLOCK_BAD_ARGUMENT);
    redlock_client_free(guarded);
    redlock_client_free(open);
    redlock_client_free(classic);
    redlock_client_free(prefixed);
}

static void an_adopted_lock_needs_its_fence(void **state) {
    (void)state;
    struct redlock_client *a = open_guarded(&five), *b = open_guarded(&five);
    struct redlock_lock *mine = guarded_lock(a, "handed"), *yours = guarded_lock(b, "handed");
    char token[REDLOCK_TOKEN_HEX_BYTES];
    assert_result(redlock_try(mine), REDLOCK_OK);
    int64_t fence = redlock_fence(mine);
    memcpy(token, redlock_token(mine).data, sizeof token);
    wait_until(servers_holding(&five, "handed") == 5, 1000);
    assert_result(redlock_lock_disown(mine), REDLOCK_OK);
    assert_int_equal(redlock_fence(mine), 0);

    assert_result(redlock_lock_adopt(yours, token, sizeof token), REDLOCK_OK);
    assert_result(redlock_extend(yours, 0), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_disown(yours), REDLOCK_OK);
    assert_result(redlock_lock_adopt_fenced(yours, token, sizeof token, -1), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_adopt_fenced(yours, token, sizeof token, REDLOCK_FENCE_MAX + 1),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_adopt_fenced(yours, token, sizeof token, fence), REDLOCK_OK);
    assert_int_equal(redlock_fence(yours), 0); /* nothing is proven yet */
    assert_result(redlock_extend(yours, 0), REDLOCK_OK);
    assert_true(redlock_fence(yours) > fence);
    assert_result(redlock_lock_disown(yours), REDLOCK_OK);

    assert_result(redlock_lock_adopt(mine, token, sizeof token),
                  REDLOCK_OK); /* a release needs none */
    assert_result(redlock_release(mine), REDLOCK_OK);
    assert_int_equal(servers_holding(&five, "handed"), 0);
    redlock_lock_free(mine);
    redlock_lock_free(yours);
    redlock_client_free(a);
    redlock_client_free(b);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    struct redlock_client *client = NULL;
    struct redlock_client_options options = guarded_options();
    options.mode = 3;
    assert_result(redlock_client_open("redis://127.0.0.1:1", &options, &client, NULL),
                  REDLOCK_BAD_ARGUMENT);
    options = guarded_options();
    options.recover = 2;
    assert_result(redlock_client_open("redis://127.0.0.1:1", &options, &client, NULL),
                  REDLOCK_BAD_ARGUMENT);
    options = guarded_options();
    options.mode = REDLOCK_MODE_CLASSIC;
    options.confirm = 1;
    assert_result(redlock_client_open("redis://127.0.0.1:1", &options, &client, NULL),
                  REDLOCK_BAD_ARGUMENT);
    assert_null(client);
}

/* ---- who is no member, or not fit ---- */

static void servers_without_a_record_do_not_vote(void **state) {
    (void)state;
    struct servers fresh;
    servers_start(&fresh, 3);
    struct redlock_client *client = open_guarded(&fresh);
    struct redlock_lock *lock = guarded_lock(client, "none");
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    int verdicts[3];
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    redlock_verdicts(lock, verdicts, 3);
    for (int i = 0; i < 3; i++) assert_verdict(verdicts[i], REDLOCK_VERDICT_NO_RECORD);
    assert_int_equal(servers_holding(&fresh, "none"), 0);
    assert_result(redlock_quorum_peek(client, &quorum, NULL, 0), REDLOCK_NO_QUORUM);
    assert_int_equal(quorum.known, 0);
    /* Made by another client, and found by this one by itself. */
    init_quorum(fresh.urls, TTL_MAX);
    wait_until(nodes_ready(client) == 3, 3000);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&fresh);
}

struct lines {
    char text[4096];
};

static void keep_line(void *context, int level, const char *text) {
    struct lines *lines = context;
    size_t used = strlen(lines->text);
    if (level <= REDLOCK_LOG_WARNING)
        snprintf(lines->text + used, sizeof lines->text - used, "%s\n", text);
}

static void quorum_id(const char *urls, char id[17]) {
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(urls, &options);
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    for (int i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    assert_result(redlock_quorum_peek(client, &quorum, members, REDLOCK_NODES_MAX), REDLOCK_OK);
    memcpy(id, quorum.id, 17);
    redlock_client_free(client);
}

/* Its elements lie further apart than this library's. */
static void members_of_a_newer_program(void **state) {
    (void)state;
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(five.urls, &options);
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[5];
    struct {
        struct redlock_member known;
        int64_t appended[3];
    } newer[5];
    for (int i = 0; i < 5; i++) {
        members[i].size = sizeof members[i];
        newer[i].known.size = sizeof newer[i];
    }
    assert_result(redlock_quorum_peek(client, &quorum, members, 5), REDLOCK_OK);
    assert_result(redlock_quorum_peek(client, &quorum, &newer[0].known, 5), REDLOCK_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(newer[i].known.size, sizeof newer[i]);
        assert_string_equal(newer[i].known.id, members[i].id);
        assert_int_equal(newer[i].known.verdict, REDLOCK_VERDICT_GRANTED);
        assert_int_equal(newer[i].appended[0] | newer[i].appended[2], 0);
    }
    redlock_client_free(client);
}

/* Neither is taken unless it is chosen. */
static void two_quorums_are_refused(void **state) {
    (void)state;
    struct servers stranger;
    char urls[2 * sizeof five.urls], id[17];
    start_quorum(&stranger, 1, TTL_MAX);
    snprintf(urls, sizeof urls, "%s,%s", five.urls, stranger.urls);
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(urls, &options);
    struct redlock_lock *lock = guarded_lock(client, "two");
    wait_until(redlock_try(lock) == REDLOCK_TWO_QUORUMS, 1000);
    assert_result(redlock_try(lock), REDLOCK_TWO_QUORUMS);
    quorum_id(five.urls, id);
    assert_non_null(strstr(node_status(client, 0).text, id));
    assert_non_null(strstr(node_status(client, 5).text, "--quorum"));
    assert_int_equal(servers_holding(&five, "two") + servers_holding(&stranger, "two"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&stranger);
}

static void a_node_of_another_quorum_is_foreign(void **state) {
    (void)state;
    struct servers stranger;
    struct lines lines = {""};
    char urls[2 * sizeof five.urls], id[17];
    int verdicts[6];
    quorum_id(five.urls, id);
    start_quorum(&stranger, 1, TTL_MAX);
    snprintf(urls, sizeof urls, "%s,%s", five.urls, stranger.urls);
    struct redlock_client_options options = guarded_options();
    options.log = keep_line;
    options.log_context = &lines;
    options.quorum = id;
    struct redlock_client *client = open_guarded_at(urls, &options);
    struct redlock_lock *lock = guarded_lock(client, "foreign");
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(50);
    assert_int_equal(redlock_verdicts(lock, verdicts, 6), 6);
    assert_verdict(verdicts[5], REDLOCK_VERDICT_FOREIGN);
    assert_int_equal(servers_holding(&stranger, "foreign"), 0);
    struct redlock_node_status status = node_status(client, 5);
    assert_verdict(status.verdict, REDLOCK_VERDICT_FOREIGN);
    assert_non_null(strstr(status.text, "quorum status names the members"));
    redlock_lock_free(lock);
    redlock_client_free(client);
    if (!strstr(lines.text, "quorum status names the members"))
        fail_msg("the log says: %s", lines.text);
    servers_stop(&stranger);
}

/* Three of five are a majority, two are not: the list decides nothing. */
static void the_quorum_is_that_of_the_records(void **state) {
    (void)state;
    for (unsigned listed = 2; listed <= 3; listed++) {
        char urls[256] = "";
        struct lines lines = {""};
        for (unsigned i = 0; i < listed; i++)
            snprintf(urls + strlen(urls), sizeof urls - strlen(urls), "redis://localhost:%d ",
                     five.at[i].port);
        struct redlock_client_options options = guarded_options();
        options.log = keep_line;
        options.log_context = &lines;
        struct redlock_client *client = open_guarded_at(urls, &options);
        struct redlock_lock *lock = guarded_lock(client, "listed");
        assert_result(redlock_try(lock), listed == 3 ? REDLOCK_OK : REDLOCK_NO_QUORUM);

        struct redlock_quorum_status quorum = {.size = sizeof quorum};
        struct redlock_member members[5];
        for (int i = 0; i < 5; i++) members[i] = (struct redlock_member){.size = sizeof members[i]};
        assert_result(redlock_quorum_peek(client, &quorum, members, 4), REDLOCK_BAD_ARGUMENT);
        assert_result(redlock_quorum_peek(client, &quorum, members, 5),
                      listed == 3 ? REDLOCK_OK : REDLOCK_NO_QUORUM);
        assert_int_equal(quorum.known, 1);
        assert_int_equal(quorum.members, 5);
        assert_int_equal(quorum.votes_needed, 3);
        assert_int_equal(quorum.intact, listed);
        assert_int_equal(quorum.ttl_ms_max, TTL_MAX);
        unsigned unlisted = 0;
        for (int i = 0; i < 5; i++) {
            unlisted += members[i].node == -1;
            if (members[i].node < 0) continue;
            assert_verdict(members[i].verdict, REDLOCK_VERDICT_GRANTED);
            assert_string_equal(members[i].id,
                                node_status(client, (size_t)members[i].node).node_id);
        }
        assert_int_equal(unlisted, 5 - listed);
        redlock_lock_free(lock);
        redlock_client_free(client);
        if (!strstr(lines.text,
                    listed == 3 ? "lacks 2 of the quorum's 5 members" : "too many for any lock"))
            fail_msg("the log says: %s", lines.text);
    }
}

static void a_server_that_may_evict_locks_is_not_fit(void **state) {
    (void)state;
    struct servers three;
    int verdicts[3];
    start_quorum(&three, 3, TTL_MAX);
    command(&three.at[0], "CONFIG SET maxmemory-policy allkeys-lru");
    struct redlock_client *client = open_guarded(&three);
    struct redlock_lock *lock = guarded_lock(client, "unfit");
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_verdicts(lock, verdicts, 3);
    assert_verdict(verdicts[0], REDLOCK_VERDICT_UNFIT);
    nap_ms(20);
    assert_int_equal(server_ask_integer(&three.at[0], "EXISTS unfit"), 0);
    assert_non_null(strstr(node_status(client, 0).text, "noeviction"));
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&three);
}

/* One that looks only: it votes with those that others bring back. */
static void a_client_that_does_not_recover_leaves_nodes_alone(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, 500);
    struct redlock_client_options options = guarded_options();
    options.recover = 0;
    struct redlock_client *watcher = open_guarded_at(three.urls, &options);
    const struct redlock_lock_options short_ttl = lock_options(400);
    struct redlock_lock *lock = new_lock(watcher, "watched", &short_ttl);
    command(&three.at[0], "FLUSHALL");
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(node_status(watcher, 0).verdict == REDLOCK_VERDICT_RECOVERING, 2000);
    nap_ms(1200);
    assert_int_equal(server_ask_integer(&three.at[0], "EXISTS redlock:node"), 0);
    struct redlock_client *agent = open_guarded(&three);
    wait_until(node_status(watcher, 0).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    redlock_client_free(agent);
    redlock_lock_free(lock);
    redlock_client_free(watcher);
    servers_stop(&three);
}

/* A promoted replica may lack locks. */
static void a_server_with_a_replica_is_refused_unless_allowed(void **state) {
    (void)state;
    struct servers three, spare;
    start_quorum(&three, 3, 500);
    servers_start(&spare, 1);
    struct redlock_client_options options = guarded_options();
    struct redlock_client *strict = open_guarded_at(three.urls, &options);
    options.allow_replicas = 1;
    struct redlock_client *lenient = open_guarded_at(three.urls, &options);
    freeReplyObject(server_ask(&spare.at[0], "REPLICAOF 127.0.0.1 %d", three.at[0].port));
    wait_until(node_status(strict, 0).verdict == REDLOCK_VERDICT_UNFIT, 5000);
    assert_non_null(strstr(node_status(strict, 0).text, "1 replica,"));
    /* Its new replication id says that its data may be others: it sits out once, and then it votes
     * with its replica. */
    wait_until(node_status(lenient, 0).verdict == REDLOCK_VERDICT_RECOVERING, 3000);
    wait_until(nodes_ready(lenient) == 3, 6000);
    assert_verdict(node_status(strict, 0).verdict, REDLOCK_VERDICT_UNFIT);
    command(&spare.at[0], "REPLICAOF NO ONE");
    wait_until(nodes_ready(strict) == 3, 5000);
    redlock_client_free(strict);
    redlock_client_free(lenient);
    servers_stop(&spare);
    servers_stop(&three);
}

/* Three of four listed nodes carry the quorum's record: more than half. */
static void a_node_whose_record_may_not_be_read_stops_nobody(void **state) {
    (void)state;
    struct servers three, spare;
    start_quorum(&three, 3, 500);
    servers_start(&spare, 1);
    command(&spare.at[0], "ACL SETUSER default -hgetall");
    char urls[sizeof three.urls + sizeof spare.urls];
    snprintf(urls, sizeof urls, "%s,%s", three.urls, spare.urls);
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(urls, &options);
    wait_until(nodes_ready(client) == 3, 3000);
    assert_verdict(node_status(client, 3).verdict, REDLOCK_VERDICT_NOPERM);
    const struct redlock_lock_options terms = lock_options(400);
    struct redlock_lock *lock = new_lock(client, "stranger", &terms);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&spare);
    servers_stop(&three);
}

/* ---- who has chosen no mode ---- */

static void a_client_without_a_mode_follows_the_nodes(void **state) {
    (void)state;
    struct servers three;
    servers_start(&three, 3);
    struct redlock_client *early = open_calm(&three);
    const struct redlock_lock_options options = lock_options(TTL_MAX), of_10s = lock_options(10000);
    struct redlock_lock *lock = new_lock(early, "auto", &options),
                        *held = new_lock(early, "held", &of_10s);
    assert_int_equal(redlock_client_mode(early), REDLOCK_MODE_AUTO);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(redlock_fence(lock), 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_try(held), REDLOCK_OK);
    init_quorum(three.urls, TTL_MAX);
    wait_until(redlock_client_mode(early) == REDLOCK_MODE_GUARDED, 3000);
    /* Its votes rested on the absence of records. Its keys stay until it is released. */
    assert_int_equal(redlock_lock_state(held), REDLOCK_STATE_LOST);
    assert_int_equal(redlock_validity_ms(held), 0);
    assert_result(redlock_extend(held, 0), REDLOCK_LOST);
    assert_int_equal(servers_holding(&three, "held"), 3);
    assert_result(redlock_release(held), REDLOCK_OK);
    assert_result(redlock_try(held), REDLOCK_TTL_MAX_EXCEEDED);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_true(redlock_fence(lock) > 0);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) command(&three.at[i], "FLUSHALL");
    for (unsigned i = 0; i < 3; i++) command(&three.at[i], "CLIENT KILL TYPE normal");
    nap_ms(1300); /* it has asked again, and found nothing: it is never classic again */
    assert_int_equal(redlock_client_mode(early), REDLOCK_MODE_GUARDED);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(servers_holding(&three, "auto"), 0);
    redlock_lock_free(lock);
    redlock_lock_free(held);
    redlock_client_free(early);
    servers_stop(&three);
}

static void an_acquisition_begins_before_the_mode_is_known(void **state) {
    (void)state;
    struct servers three;
    start_quorum(&three, 3, TTL_MAX);
    const struct redlock_lock_options options = lock_options(TTL_MAX), of_10s = lock_options(10000);
    for (int64_t wait_ms = 0; wait_ms <= 2000; wait_ms += 2000) {
        struct redlock_client *client = NULL;
        assert_result(redlock_client_open(three.urls, NULL, &client, NULL), REDLOCK_OK);
        struct redlock_lock *lock = new_lock(client, "auto", &options),
                            *too_long = new_lock(client, "long", &of_10s);
        assert_result(redlock_acquire(lock, wait_ms), REDLOCK_OK);
        assert_true(redlock_fence(lock) > 0);
        assert_result(redlock_try(too_long), REDLOCK_TTL_MAX_EXCEEDED);
        assert_result(redlock_release(lock), REDLOCK_OK);
        redlock_lock_free(lock);
        redlock_lock_free(too_long);
        redlock_client_free(client);
    }
    servers_stop(&three);
}

static void note_result(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    atomic_store((atomic_int *)context, result);
}

/* While a rival holds it, as classic: the try goes on as guarded, with a fence. */
static void a_waiting_acquisition_turns_guarded(void **state) {
    (void)state;
    struct servers three;
    servers_start(&three, 3);
    struct redlock_client *client = open_calm(&three), *rival = open_calm(&three);
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    struct redlock_lock *lock = new_lock(client, "wanted", &options),
                        *held = new_lock(rival, "wanted", &options);
    assert_result(redlock_try(held), REDLOCK_OK);
    atomic_int result = 1;
    assert_result(redlock_acquire_start(lock, 10000, note_result, &result), REDLOCK_OK);
    init_quorum(three.urls, TTL_MAX);
    wait_until(redlock_lock_state(held) == REDLOCK_STATE_LOST, 3000);
    wait_until(redlock_client_mode(client) == REDLOCK_MODE_GUARDED, 3000);
    assert_result(redlock_release(held), REDLOCK_OK);
    wait_until(redlock_lock_state(lock) == REDLOCK_STATE_HELD, 5000);
    wait_until(atomic_load(&result) != 1, 1000);
    assert_result(atomic_load(&result), REDLOCK_OK);
    assert_true(redlock_fence(lock) > 0);
    redlock_lock_free(lock);
    redlock_lock_free(held);
    redlock_client_free(client);
    redlock_client_free(rival);
    servers_stop(&three);
}

/* ---- another database is flushed all the time ---- */

static atomic_bool flushing;

/* Hundreds of times a second. Each of them is announced to every client: all keys may be gone. */
static void *flush_another(void *argument) {
    struct server *server = argument;
    redisContext *context = redisConnect("127.0.0.1", server->port);
    freeReplyObject(redisCommand(context, "SELECT 7"));
    while (flushing) {
        freeReplyObject(redisCommand(context, "FLUSHDB"));
        nap_ms(3);
    }
    redisFree(context);
    return NULL;
}

/* While an answer takes longer than the next flush, each record is stale when it comes. */
static void a_stale_record_is_read_again_without_a_pause(void **state) {
    (void)state;
    struct servers one;
    char url[64];
    pthread_t thread;
    start_quorum(&one, 1, TTL_MAX);
    struct proxy *proxy = proxy_start(one.at[0].port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(proxy));
    const struct redlock_client_options options = guarded_options();
    struct redlock_client *client = open_guarded_at(url, &options);
    struct redlock_lock *lock = guarded_lock(client, "stale");
    assert_int_equal(nodes_ready(client), 1);
    proxy_delay(proxy, 8);
    flushing = true;
    assert_int_equal(pthread_create(&thread, NULL, flush_another, &one.at[0]), 0);
    wait_until(nodes_ready(client) == 0, 1000);
    command(&one.at[0], "CONFIG RESETSTAT");
    nap_ms(1000);
    assert_in_range(calls_of(&one.at[0], "hgetall"), 20, 1000); /* of 125; with pauses 9 */
    flushing = false;
    pthread_join(thread, NULL);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    proxy_stop(proxy);
    servers_stop(&one);
}

static void flushes_of_another_database_delay_no_acquisition(void **state) {
    (void)state;
    enum { TRIES = 30 };
    pthread_t threads[5];
    unsigned won = 0;
    flushing = true;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flush_another, &five.at[i]), 0);
    for (int i = 0; i < TRIES; i++) {
        struct redlock_client *client = open_guarded(&five);
        struct redlock_lock *lock = guarded_lock(client, "flushed");
        won += redlock_acquire(lock, 2000) == REDLOCK_OK;
        redlock_lock_free(lock);
        redlock_client_free(client);
    }
    flushing = false;
    for (unsigned i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    assert_int_equal(won, TRIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acquisition_is_one_set_and_one_zadd_a_node),
        cmocka_unit_test(fencing_tokens_grow),
        cmocka_unit_test(two_contenders_exclude_each_other),
        cmocka_unit_test(a_keys_fence_is_where_every_client_looks_for_it),
        cmocka_unit_test(an_extension_raises_fences_that_are_lower),
        cmocka_unit_test(a_stale_proposal_costs_one_round_trip_and_only_once),
        cmocka_unit_test(several_resources_are_one_lock),
        cmocka_unit_test(a_confirmed_lock_works),
        cmocka_unit_test(a_flushed_node_does_not_vote_until_it_has_recovered),
        cmocka_unit_test(fences_survive_that_each_node_in_turn_loses_its_data),
        cmocka_unit_test(short_lived_clients_bring_a_node_back_together),
        cmocka_unit_test(an_extension_outlives_a_changed_nonce),
        cmocka_unit_test(an_acquisition_outlives_a_changed_nonce),
        cmocka_unit_test(an_attempt_goes_on_when_the_record_was_read),
        cmocka_unit_test(an_answer_behind_a_push_is_asked_for_again),
        cmocka_unit_test(what_this_client_writes_itself_is_no_loss),
        cmocka_unit_test(a_server_that_was_promoted_recovers),
        cmocka_unit_test(a_client_that_was_stopped_suspects_nobody),
        cmocka_unit_test(a_ttl_above_the_quorums_is_refused),
        cmocka_unit_test(a_refused_lock_leaves_its_release_alone),
        cmocka_unit_test(what_nodes_keep_is_no_resource),
        cmocka_unit_test(an_adopted_lock_needs_its_fence),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(servers_without_a_record_do_not_vote),
        cmocka_unit_test(members_of_a_newer_program),
        cmocka_unit_test(two_quorums_are_refused),
        cmocka_unit_test(a_node_of_another_quorum_is_foreign),
        cmocka_unit_test(the_quorum_is_that_of_the_records),
        cmocka_unit_test(a_server_that_may_evict_locks_is_not_fit),
        cmocka_unit_test(a_server_with_a_replica_is_refused_unless_allowed),
        cmocka_unit_test(a_node_whose_record_may_not_be_read_stops_nobody),
        cmocka_unit_test(a_client_without_a_mode_follows_the_nodes),
        cmocka_unit_test(an_acquisition_begins_before_the_mode_is_known),
        cmocka_unit_test(a_waiting_acquisition_turns_guarded),
        cmocka_unit_test(a_client_that_does_not_recover_leaves_nodes_alone),
        cmocka_unit_test(a_stale_record_is_read_again_without_a_pause),
        cmocka_unit_test_setup_teardown(flushes_of_another_database_delay_no_acquisition,
                                        start_five, stop_five),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
