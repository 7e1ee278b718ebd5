/* SPDX-License-Identifier: BSD-2-Clause Every guarded request against a real server: record and
 * fences, votes under the right nonce and a wrong one, several keys, scripts that were flushed, and
 * the least that an ACL must allow. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "servers.h"

#define FENCE INT64_C(1700000000000000)

static uint64_t nonces[1];
static int64_t reported[RL_STRIPES];

static void begin(struct server *server, struct world *world, const char *const *arguments,
                  const char *userinfo) {
    char url[100];
    server_start(server, arguments);
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    struct net_options options = world_options(url);
    options.guarded = true;
    world_open(world, &options);
    world_until_ready(world, 1);
}

static void end(struct server *server, struct world *world) {
    world_close(world);
    server_stop(server);
}

/* ---- asking ---- */

static int ask_guarded(struct world *world, struct ask *ask, enum net_op op, const char *keys,
                       const char *token, int64_t fence) {
    static const uint16_t stripes[8] = {0, 4095, 17, 3,
                                        4, 5,    6,  7}; /* of the first key, the second ... */
    ask_init(ask, op, keys, token, op == NET_EXTEND ? 90000 : 60000);
    ask_guard(ask, nonces, fence, stripes, ask->request.keys_count);
    return ask_and_wait(world, ask);
}

static int ask_fence(struct world *world, enum net_op op, const char *keys, const char *token,
                     int64_t fence) {
    struct ask ask;
    return ask_guarded(world, &ask, op, keys, token, fence);
}

static int read_fences(struct world *world, bool kept) {
    struct ask ask;
    ask_init(&ask, NET_FENCES, "", "", 0);
    ask.request.nonces = nonces;
    ask.request.was_kept = kept;
    ask.fences = reported;
    return ask_and_wait(world, &ask);
}

struct change {
    uint64_t expected, nonce;
    bool was_kept, keep;
    const int64_t *floor;
};

static int write_record(struct world *world, struct change change) {
    char nonce[17];
    struct net_bytes fields[4] = {{"nonce", 5}, {nonce, 16}, {"bytes", 5}, {"a\0b", 3}};
    struct ask ask;
    snprintf(nonce, sizeof(nonce), "%016llx", (unsigned long long)change.nonce);
    ask_init(&ask, NET_RECORD_WRITE, "", "", 0);
    ask.request.expected = change.expected;
    ask.request.nonce = change.nonce;
    ask.request.was_kept = change.was_kept;
    ask.request.keep = change.keep;
    ask.request.floor = change.floor;
    ask.request.fields = fields;
    ask.request.fields_count = 4;
    return ask_and_wait(world, &ask);
}

/* An intact node with this nonce, and every fence at 0. */
static void make_intact(struct world *world, struct server *server, uint64_t nonce) {
    static const int64_t zero[RL_STRIPES];
    freeReplyObject(server_ask(server, "FLUSHALL"));
    assert_int_equal(write_record(world, (struct change){.nonce = nonce, .floor = zero}),
                     REDLOCK_VERDICT_GRANTED);
    nonces[0] = nonce;
}

static int64_t score(struct server *server, uint64_t nonce, int stripe) {
    char name[64];
    snprintf(name, sizeof(name), "redlock:fences:%016llx", (unsigned long long)nonce);
    redisReply *reply = server_ask(server, "ZSCORE %s %d", name, stripe);
    int64_t value = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;
    freeReplyObject(reply);
    return value;
}

/* ---- record and fences ---- */

static void records(struct world *world, struct server *server) {
    static int64_t floor[RL_STRIPES];
    struct ask record;
    freeReplyObject(server_ask(server, "FLUSHALL"));
    ask_init(&record, NET_RECORD, "", "", 0);
    assert_int_equal(ask_and_wait(world, &record), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(record.items, 0);

    /* Claimed: no fences yet. */
    assert_int_equal(write_record(world, (struct change){.expected = 9, .nonce = 1, .keep = true}),
                     REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 0);
    assert_int_equal(write_record(world, (struct change){.nonce = 1, .keep = true}),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(write_record(world, (struct change){.nonce = 2, .keep = true}),
                     REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_and_wait(world, &record), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(record.items, 4);
    assert_memory_equal(record.value, "nonce 0000000000000001 bytes a\0b ", 33);
    nonces[0] = 1;
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_RECOVERING);

    /* Installed: every stripe exists and is at least its floor. */
    for (int i = 0; i < RL_STRIPES; i++) floor[i] = i % 3 == 0 ? 0 : REDLOCK_FENCE_MAX - i;
    assert_int_equal(
        write_record(
            world,
            (struct change){.expected = 1, .nonce = UINT64_MAX, .was_kept = true, .floor = floor}),
        REDLOCK_VERDICT_GRANTED);
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_RECOVERING); /* of the old nonce */
    nonces[0] = UINT64_MAX;
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_GRANTED);
    assert_memory_equal(reported, floor, sizeof(floor));

    /* Written anew: the fences go along, and are what they were. Then kept, and raised under the
     * name of a nonce. */
    assert_int_equal(write_record(world, (struct change){.expected = UINT64_MAX, .nonce = 5}),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_RECOVERING);
    nonces[0] = 5;
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_GRANTED);
    assert_memory_equal(reported, floor, sizeof(floor));
    assert_int_equal(write_record(world, (struct change){.expected = 5, .nonce = 6, .keep = true}),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(read_fences(world, true), REDLOCK_VERDICT_GRANTED);
    assert_memory_equal(reported, floor, sizeof(floor));
    floor[0] = 77;
    floor[1] = 5; /* lower than what is there */
    assert_int_equal(
        write_record(world,
                     (struct change){.expected = 6, .nonce = 7, .was_kept = true, .floor = floor}),
        REDLOCK_VERDICT_GRANTED);
    nonces[0] = 7;
    assert_int_equal(read_fences(world, true), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(reported[0], 77);
    assert_int_equal(reported[1], REDLOCK_FENCE_MAX - 1);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 2);
}

static void strange_data(struct world *world, struct server *server) {
    struct ask record;
    freeReplyObject(server_ask(server, "FLUSHALL"));
    nonces[0] = 1;
    server_ask_integer(server, "ZADD redlock:fences:0000000000000001 1 x");
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_PROTOCOL);
    server_ask_integer(server, "DEL redlock:fences:0000000000000001");
    server_ask_integer(server, "ZADD redlock:fences:0000000000000001 1.5 4");
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_PROTOCOL);
    freeReplyObject(server_ask(server, "SET redlock:fences:0000000000000001 x"));
    assert_int_equal(read_fences(world, false), REDLOCK_VERDICT_RECOVERING);
    /* as if they were gone */
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t", 9), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(ask_fence(world, NET_RAISE, "k", "t", 9), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t", 9), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t", 9), REDLOCK_VERDICT_RECOVERING);
    freeReplyObject(server_ask(server, "SET redlock:node x"));
    ask_init(&record, NET_RECORD, "", "", 0);
    assert_int_equal(ask_and_wait(world, &record), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(write_record(world, (struct change){.nonce = 2}), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(world_node(world, 0).reconnects, 0);
}

/* ---- votes ---- */

static void one_key(struct world *world, struct server *server) {
    struct ask ask;
    make_intact(world, server, 0xabc);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t1", FENCE), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 50000, 60000);
    assert_int_equal(score(server, 0xabc, 0), FENCE);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t2", FENCE + 1), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t2", FENCE), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t1", FENCE + 2), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 80000, 90000);
    assert_int_equal(score(server, 0xabc, 0), FENCE + 2);
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t1", FENCE),
                     REDLOCK_VERDICT_GRANTED); /* it has at least that */
    assert_int_equal(score(server, 0xabc, 0), FENCE + 2);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t1", FENCE + 2), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t1", FENCE + 3), REDLOCK_VERDICT_STALE);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t2", FENCE + 2), REDLOCK_VERDICT_STALE);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t1", FENCE + 3), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t1", FENCE + 2), REDLOCK_VERDICT_STALE);

    /* Too low: the key is ours, the fence is not; raising says what is in the way. */
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t3", FENCE + 2), REDLOCK_VERDICT_STALE);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_guarded(world, &ask, NET_RAISE, "k", "t3", FENCE + 2),
                     REDLOCK_VERDICT_STALE);
    assert_int_equal(ask.fence, FENCE + 2);
    assert_int_equal(ask_guarded(world, &ask, NET_RAISE, "k", "t3", REDLOCK_FENCE_MAX),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask.fence, 0);
    assert_int_equal(ask_guarded(world, &ask, NET_RAISE, "k", "t3", REDLOCK_FENCE_MAX),
                     REDLOCK_VERDICT_STALE);
    assert_int_equal(ask.fence, REDLOCK_FENCE_MAX);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t3", REDLOCK_FENCE_MAX),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_PEEK, "k", "", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_PEEK_VALUE, "k", "", 0), REDLOCK_VERDICT_GRANTED);
}

static void one_break(struct world *world, struct server *server) {
    struct ask ask;
    make_intact(world, server, 0xabc);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t1", FENCE), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_guarded(world, &ask, NET_BREAK, "k", "t1", FENCE), REDLOCK_VERDICT_STALE);
    assert_int_equal(ask.fence, FENCE);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_fence(world, NET_BREAK, "k", "t2", FENCE + 1), REDLOCK_VERDICT_DENIED);
    assert_int_equal(score(server, 0xabc, 0), FENCE + 1);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_fence(world, NET_BREAK, "k", "t1", FENCE + 2), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(score(server, 0xabc, 0), FENCE + 2);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0);
    assert_int_equal(ask_fence(world, NET_RAISE, "k", "t1", FENCE + 9), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_fence(world, NET_BREAK, "k", "t1", FENCE + 3), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(score(server, 0xabc, 0), FENCE + 3);
    server_ask_integer(server, "LPUSH k x");
    assert_int_equal(ask_fence(world, NET_BREAK, "k", "t1", FENCE + 4), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(score(server, 0xabc, 0), FENCE + 3);
    server_ask_integer(server, "DEL k");
    ask_init(&ask, NET_BREAK, "k", "t1", 60000);
    static const uint16_t stripe = 0;
    ask_guard(&ask, nonces, FENCE + 5, &stripe, 1);
    ask.request.nonce = UINT64_C(0xfffffffe00000001); /* the halves: two less, and one more */
    assert_int_equal(ask_and_wait(world, &ask), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(score(server, 0xabc, 0), -1);
    assert_int_equal(score(server, UINT64_C(0xfffffffe00000abd), 0), FENCE + 5);
    assert_int_equal(ask_fence(world, NET_BREAK, "k", "t1", FENCE + 6), REDLOCK_VERDICT_RECOVERING);
    redisReply *reply = server_ask(server, "HGET redlock:node nonce");
    assert_string_equal(reply->str, "fffffffe00000abd");
    freeReplyObject(reply);
}

static void wrong_nonce(struct world *world, struct server *server) {
    make_intact(world, server, 0xabc);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t", FENCE), REDLOCK_VERDICT_GRANTED);
    nonces[0] = 0xabd;
    assert_int_equal(ask_fence(world, NET_EXTEND, "k", "t", FENCE), REDLOCK_VERDICT_RECOVERING);
    assert_in_range(server_ask_integer(server, "PTTL k"), 50000, 60000); /* nothing was changed */
    assert_int_equal(ask_fence(world, NET_RAISE, "k", "t", FENCE + 1), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "k", "t", FENCE), REDLOCK_VERDICT_RECOVERING);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "k", "t", FENCE + 1), REDLOCK_VERDICT_STALE);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "l m", "t", FENCE + 1), REDLOCK_VERDICT_STALE);
    assert_int_equal(score(server, 0xabc, 0), FENCE);
    assert_int_equal(score(server, 0xabd, 0), -1); /* never created */
    assert_int_equal(server_ask_integer(server, "EXISTS k l m"), 3);
}

static void several_keys(struct world *world, struct server *server) {
    struct ask ask;
    make_intact(world, server, 1);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "a b c", "t1", FENCE), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "EXISTS a b c"), 3);
    assert_int_equal(score(server, 1, 0), FENCE);
    assert_int_equal(score(server, 1, 4095), FENCE);
    assert_int_equal(score(server, 1, 17), FENCE);
    assert_int_equal(score(server, 1, 3), 0);
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "x b y", "t2", FENCE + 1),
                     REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS x y"), 0);
    assert_int_equal(score(server, 1, 0), FENCE);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "a b c", "t1", FENCE), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_fence(world, NET_RAISE, "a", "t1", FENCE + 5), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_fence(world, NET_CONFIRM, "a b c", "t1", FENCE + 1),
                     REDLOCK_VERDICT_STALE);
    assert_int_equal(ask_guarded(world, &ask, NET_RAISE, "a b c", "t1", FENCE + 3),
                     REDLOCK_VERDICT_STALE);
    assert_int_equal(ask.fence, FENCE + 5);
    assert_int_equal(score(server, 1, 17), FENCE); /* all or none */
    assert_int_equal(ask_fence(world, NET_EXTEND, "a b c", "t1", FENCE + 4),
                     REDLOCK_VERDICT_GRANTED);
    assert_int_equal(score(server, 1, 0), FENCE + 5);
    assert_int_equal(score(server, 1, 17), FENCE + 4);
    server_ask_integer(server, "DEL b");
    assert_int_equal(ask_fence(world, NET_EXTEND, "a b c", "t1", FENCE + 9),
                     REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(server, "SET b other"));
    assert_int_equal(ask_fence(world, NET_EXTEND, "a b c", "t1", FENCE + 9),
                     REDLOCK_VERDICT_DENIED);
    assert_int_equal(score(server, 1, 17), FENCE + 4);
    server_ask_integer(server, "DEL a b c");
    assert_int_equal(ask_fence(world, NET_ACQUIRE, "a b c", "t2", FENCE + 5),
                     REDLOCK_VERDICT_STALE);
    assert_int_equal(server_ask_integer(server, "EXISTS a b c"), 3);
}

static void everything(struct world *world, struct server *server) {
    records(world, server);
    one_key(world, server);
    one_break(world, server);
    wrong_nonce(world, server);
    several_keys(world, server);
}

static void test_every_request(void **state) {
    struct server server = {0};
    struct world world;
    (void)state;
    begin(&server, &world, NULL, "");
    everything(&world, &server);
    strange_data(&world, &server);
    assert_false(world_node(&world, 0).uses_transactions);
    end(&server, &world);
}

static void test_flushed_scripts(void **state) {
    static const enum net_op ops[] = {NET_EXTEND, NET_RAISE, NET_CONFIRM};
    struct server server = {0};
    struct world world;
    struct ask raise, release;
    (void)state;
    begin(&server, &world, NULL, "");
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    make_intact(&world, &server, 3);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(ask_fence(&world, NET_ACQUIRE, "a b", "t", FENCE), REDLOCK_VERDICT_GRANTED);
    for (int i = 0; i < 3; i++) {
        freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
        assert_int_equal(ask_fence(&world, ops[i], "a b", "t", FENCE + 1),
                         i == 1 ? REDLOCK_VERDICT_STALE : REDLOCK_VERDICT_GRANTED);
    }
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(write_record(&world, (struct change){.expected = 3, .nonce = 4}),
                     REDLOCK_VERDICT_GRANTED);
    nonces[0] = 4;

    /* A raise that would land behind its own release fails, and raises nothing. */
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    static const uint16_t stripes[1] = {0};
    ask_init(&raise, NET_RAISE, "a", "t", 0);
    ask_guard(&raise, nonces, FENCE + 9, stripes, 1);
    ask_init(&release, NET_RELEASE, "a b", "t", 0);
    raise.calls[0].owner = release.calls[0].owner = &raise;
    ask_send(&world, &raise, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 1000);
    world_until_done(&world, &raise, 2);
    assert_int_equal(score(&server, 4, 0), FENCE + 1);
    assert_int_equal(server_ask_integer(&server, "EXISTS a b"), 0);
    end(&server, &world);
}

/* Many at once: the two replies of each go to their own call. */
static void test_pipelined(void **state) {
    enum { CALLS = 500 };
    static struct ask sets[CALLS], releases[CALLS];
    static char names[CALLS][8];
    static const uint16_t stripe = 9;
    struct server server = {0};
    struct world world;
    (void)state;
    begin(&server, &world, NULL, "");
    make_intact(&world, &server, 3);
    for (int i = 0; i < CALLS; i++) {
        /* Every third key is taken, every fourth fence is too low. */
        snprintf(names[i], sizeof(names[i]), "k%d", i);
        if (i % 3 == 0) freeReplyObject(server_ask(&server, "SET %s x", names[i]));
        ask_init(&sets[i], NET_ACQUIRE, names[i], "t", 60000);
        ask_guard(&sets[i], nonces, i % 4 == 0 ? 1 : 1000 + i, &stripe, 1);
        ask_init(&releases[i], NET_RELEASE, names[i], "t", 0);
    }
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(ask_send(&world, &sets[i], 1, 5000, 0), 1);
        if (i % 2) assert_int_equal(ask_send(&world, &releases[i], 1, 5000, 5000), 1);
    }
    world_until_done(&world, &releases[CALLS - 1], 1);
    for (int i = 0; i < CALLS; i++) {
        int verdict = i % 3 == 0   ? REDLOCK_VERDICT_DENIED
                      : i % 4 == 0 ? REDLOCK_VERDICT_STALE
                                   : REDLOCK_VERDICT_GRANTED;
        assert_int_equal(sets[i].verdicts[0], verdict);
        if (i % 2)
            assert_int_equal(releases[i].verdicts[0],
                             i % 3 ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_DENIED);
    }
    end(&server, &world);
}

/* ---- what must be allowed ---- */

#define CLASSIC                                                                                    \
    "+set", "+get", "+del", "+exists", "+pttl", "+pexpire", "+eval", "+evalsha", "+info",          \
        "+getrange"
#define GUARDED                                                                                    \
    "+zadd", "+zscore", "+zcard", "+zrange", "+hget", "+hset", "+hgetall", "+rename", "+time"

static void test_least_acl(void **state) {
    static const char *const arguments[] = {"--user",     "bob",   "on",    ">pw", "~?",
                                            "~redlock:*", CLASSIC, GUARDED, NULL};
    struct server server = {0};
    struct world world;
    (void)state;
    begin(&server, &world, arguments, "bob:pw@");
    everything(&world, &server);
    end(&server, &world);
}

static void expect_refused(const char *const *arguments, const char *text) {
    struct server server = {0};
    struct world world;
    char url[100];
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://bob:pw@127.0.0.1:%d", server.port);
    struct net_options options = world_options(url);
    options.guarded = true;
    world_open(&world, &options);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_NOPERM);
    if (!strstr(world_node(&world, 0).text, text))
        fail_msg("\"%s\" lacks \"%s\"", world_node(&world, 0).text, text);
    world_close(&world);
    /* In classic mode there are ways around each of them. */
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    world_close(&world);
    server_stop(&server);
}

static void test_refused_by_acl(void **state) {
    static const char *const classic[] = {"--user", "bob", "on", ">pw", "~*", CLASSIC, NULL};
    static const char *const other_keys[] = {"--user",  "bob",   "on", ">pw",
                                             "~lock:*", "+@all", NULL};
    static const char *const no_eval[] = {"--user", "bob",   "on",    ">pw",
                                          "~*",     "+@all", "-eval", NULL};
    static const char *const no_evalsha[] = {"--user", "bob",   "on",       ">pw",
                                             "~*",     "+@all", "-evalsha", NULL};
    static const char *const no_info[] = {"--user", "bob",   "on",    ">pw",
                                          "~*",     "+@all", "-info", NULL};
    (void)state;
    expect_refused(classic, "allow ~redlock:* +eval");
    expect_refused(other_keys, "allow ~redlock:* +eval");
    expect_refused(no_eval, "scripts are refused");
    expect_refused(no_evalsha, "scripts are refused");
    expect_refused(no_info, "allow +info");
}

/* ---- clocks ---- */

static void test_wall_clock(void **state) {
    struct world world;
    (void)state;
    world_open_urls(&world, "unix:///nonexistent/socket");
    int64_t before = (int64_t)time(NULL);
    int64_t us = net_wall_us(world.net);
    assert_in_range(us / 1000000, before - 1, before + 5);
    assert_in_range(us, 1, REDLOCK_FENCE_MAX);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_request),  cmocka_unit_test(test_flushed_scripts),
        cmocka_unit_test(test_pipelined),      cmocka_unit_test(test_least_acl),
        cmocka_unit_test(test_refused_by_acl), cmocka_unit_test(test_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
