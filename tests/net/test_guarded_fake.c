/* SPDX-License-Identifier: BSD-2-Clause Guarded requests and a node that says what it should not:
 * half answers, errors in between, wrong kinds, scripts gone, a handshake that lacks something; and
 * connections given up from above. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

enum { GREETED = FAKE_GREETED_GUARDED };

static uint64_t nonces[2] = {0xa, 0xb};
static const uint16_t stripes[2] = {7, 8};

static void open_guarded(struct fake *fake, struct world *world) {
    char url[64];
    fake_open(fake);
    fake->guarded = true;
    fake_url(fake, url, sizeof(url));
    struct net_options options = world_options(url);
    options.guarded = true;
    world_open(world, &options);
}

static void begin(struct fake *fake, struct world *world) {
    open_guarded(fake, world);
    fake_greet(fake, world);
    world_until_ready(world, 1);
}

static void end(struct fake *fake, struct world *world) {
    world_close(world);
    fake_close(fake);
}

static void ask_guarded(struct ask *ask, enum net_op op, const char *keys) {
    nonces[0] = 0xa;
    ask_init(ask, op, keys, "t", 1000);
    ask_guard(ask, nonces, 50, stripes, ask->request.keys_count);
}

static bool was_sent(const struct fake *fake, const char *text) {
    return memmem(fake->input, fake->input_bytes, text, strlen(text)) != NULL;
}

static void test_half_replies(void **state) {
    static const char reply[] = "+OK\r\n:1\r\n$-1\r\n-OOM no\r\n";
    struct fake fake;
    struct world world;
    struct ask first, second;
    (void)state;
    begin(&fake, &world);
    ask_guarded(&first, NET_ACQUIRE, "a");
    ask_guarded(&second, NET_ACQUIRE, "b");
    ask_send(&world, &first, 1, 1000, 0);
    ask_send(&world, &second, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 4);
    for (size_t i = 0; i < sizeof(reply) - 1; i++) {
        assert_int_equal(first.done, i > 8 ? 1 : 0); /* the SET's answer alone is none */
        assert_int_equal(second.done, 0);
        fake_say(&fake, reply + i, 1);
        world_for(&world, 2);
    }
    assert_int_equal(first.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(second.verdicts[0], REDLOCK_VERDICT_DENIED);
    end(&fake, &world);
}

/* Each call takes its own two replies, whatever they are: the next call's are not mistaken for
 * them. */
static void test_errors_in_between(void **state) {
    static const struct {
        const char *replies;
        int verdict;
    } table[] = {
        {"+OK\r\n-NOPERM x\r\n", REDLOCK_VERDICT_NOPERM},
        {"-OOM x\r\n-OOM x\r\n", REDLOCK_VERDICT_OOM},
        {"+OK\r\n:1\r\n", REDLOCK_VERDICT_GRANTED},
        {"-NOPERM x\r\n:1\r\n", REDLOCK_VERDICT_NOPERM},
        {"+OK\r\n:0\r\n", REDLOCK_VERDICT_STALE},
        {"$-1\r\n-NOPERM x\r\n", REDLOCK_VERDICT_DENIED},
        {"+OK\r\n:1\r\n", REDLOCK_VERDICT_GRANTED},
        /* No script was sent: an error that says there is none of that name is an error. */
        {"+OK\r\n-NOSCRIPT x\r\n", REDLOCK_VERDICT_ERROR},
        {"-NOSCRIPT x\r\n:1\r\n", REDLOCK_VERDICT_ERROR},
    };
    enum { ROWS = sizeof(table) / sizeof(table[0]) };
    static struct ask asks[ROWS];
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world);
    for (size_t i = 0; i < ROWS; i++) {
        ask_guarded(&asks[i], NET_ACQUIRE, "a");
        ask_send(&world, &asks[i], 1, 1000, 0);
    }
    fake_await(&fake, &world, GREETED + 2 * ROWS);
    for (size_t i = 0; i < ROWS; i++) fake_say_text(&fake, table[i].replies);
    world_until_done(&world, &asks[ROWS - 1], 1);
    for (size_t i = 0; i < ROWS; i++) assert_int_equal(asks[i].verdicts[0], table[i].verdict);
    assert_int_equal(fake.seen, GREETED + 2 * ROWS);
    end(&fake, &world);
}

static void expect_end(enum net_op op, const char *keys, const char *bad) {
    struct fake fake;
    struct world world;
    struct ask ask;
    begin(&fake, &world);
    ask_guarded(&ask, op, keys);
    ask_send(&world, &ask, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + (op == NET_ACQUIRE && !strchr(keys, ' ') ? 2 : 1));
    fake_say_text(&fake, bad);
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    /* What leaves no key needs no reset. */
    assert_int_equal(fake_await_end(&fake, &world), net_op_is_write(op) ? FAKE_RESET : FAKE_FIN);
    end(&fake, &world);
}

static void test_wrong_kinds(void **state) {
    (void)state;
    expect_end(NET_ACQUIRE, "a", "+OK\r\n+OK\r\n");
    expect_end(NET_ACQUIRE, "a", ":1\r\n");
    expect_end(NET_ACQUIRE, "a", "+OK\r\n:7\r\n");
    expect_end(NET_ACQUIRE, "a b", ":7\r\n");
    expect_end(NET_EXTEND, "a", "+OK\r\n");
    expect_end(NET_RAISE, "a", ":49\r\n");
    expect_end(NET_RAISE, "a", "*0\r\n");
    expect_end(NET_CONFIRM, "a", ":9\r\n");
    expect_end(NET_RECORD, "", ":1\r\n");
    expect_end(NET_RECORD, "", "*1\r\n$1\r\na\r\n");
    expect_end(NET_RECORD_WRITE, "", ":-1\r\n");
    expect_end(NET_FENCES, "", "+OK\r\n");
    expect_end(NET_FENCES, "", "*2\r\n$1\r\n1\r\n*0\r\n");
    expect_end(NET_FENCES, "", "garbage\r\n");
}

/* Data that are nobody's of ours are told as such; the connection and the calls on it live on. */
static void test_no_fences(void **state) {
    static int64_t reported[RL_STRIPES];
    struct fake fake;
    struct world world;
    struct ask fences, peek;
    (void)state;
    begin(&fake, &world);
    ask_guarded(&fences, NET_FENCES, "");
    fences.fences = reported;
    ask_init(&peek, NET_PEEK, "a", "", 0);
    ask_send(&world, &fences, 1, 1000, 0);
    ask_send(&world, &peek, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 2);
    assert_true(was_sent(&fake, "ZRANGE\r\n$31\r\nredlock:fences:000000000000000a\r\n"));
    fake_say_text(&fake, "*2\r\n$1\r\nx\r\n$1\r\n1\r\n:5\r\n");
    world_until_done(&world, &peek, 1);
    assert_int_equal(fences.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    assert_false(fences.has_fences);
    assert_int_equal(peek.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_GRANTED);

    ask_send(&world, &fences, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 3);
    fake_say_text(&fake, "*2\r\n$4\r\n4095\r\n$1\r\n9\r\n");
    world_until_done(&world, &fences, 2);
    assert_int_equal(fences.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_true(fences.has_fences);
    assert_int_equal(reported[4095], 9);
    assert_int_equal(reported[0], 0);
    end(&fake, &world);
}

/* Between the answer to the SET and that to the ZADD. */
static void test_closed_in_between(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    begin(&fake, &world);
    ask_guarded(&set, NET_ACQUIRE, "a");
    ask_guarded(&release, NET_RELEASE, "a");
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, GREETED + 3);
    fake_say_text(&fake, "+OK\r\n");
    fake_hang_up(&fake);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    fake_greet(&fake, &world);
    fake_await(&fake, &world, GREETED + 1);
    /* The half answer is not carried over to the next connection. */
    fake_say_text(&fake, ":1\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);
    end(&fake, &world);
}

/* ---- NOSCRIPT ---- */

/* The first call of a script has its text, and the next ones have its hash. */
static void teach(struct fake *fake, struct world *world, enum net_op op, const char *keys,
                  size_t seen) {
    struct ask ask;
    ask_guarded(&ask, op, keys);
    ask_send(world, &ask, 1, 1000, 0);
    fake_await(fake, world, seen);
    assert_true(was_sent(fake, "$4\r\nEVAL\r\n"));
    fake_say_text(fake, op == NET_RAISE ? ":60\r\n" : ":1\r\n");
    world_until_done(world, &ask, 1);
}

static void expect_sent_again(enum net_op op, const char *keys, const char *reply, int verdict) {
    struct fake fake;
    struct world world;
    struct ask ask, stranger;
    begin(&fake, &world);
    teach(&fake, &world, op, keys, GREETED + 1);
    ask_guarded(&ask, op, keys);
    ask_init(&stranger, NET_PEEK, "a", "", 0);
    ask_send(&world, &ask, 1, 1000, 0);
    ask_send(&world, &stranger, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 3);
    assert_false(was_sent(&fake, "redlock:fences:000000000000000c"));
    nonces[0] = 0xc; /* what is known by now */
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n:5\r\n");
    fake_await(&fake, &world, GREETED + 4);
    assert_int_equal(ask.done, 0);
    assert_int_equal(was_sent(&fake, "redlock:fences:000000000000000c"), op != NET_RECORD_WRITE);
    fake_say_text(&fake, reply);
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], verdict);
    end(&fake, &world);
}

static void test_noscript(void **state) {
    (void)state;
    expect_sent_again(NET_ACQUIRE, "a b", ":-1\r\n", REDLOCK_VERDICT_STALE);
    expect_sent_again(NET_EXTEND, "a", ":-2\r\n", REDLOCK_VERDICT_RECOVERING);
    expect_sent_again(NET_RAISE, "a", ":60\r\n", REDLOCK_VERDICT_STALE);
    expect_sent_again(NET_CONFIRM, "a", ":1\r\n", REDLOCK_VERDICT_GRANTED);
    expect_sent_again(NET_RECORD_WRITE, "", ":0\r\n", REDLOCK_VERDICT_DENIED);
}

/* What the owner has asked behind it must not come before it. */
static void expect_failed(enum net_op op, const char *keys, enum net_op behind) {
    struct fake fake;
    struct world world;
    struct ask ask, later;
    begin(&fake, &world);
    teach(&fake, &world, op, keys, GREETED + 1);
    ask_guarded(&ask, op, keys);
    ask_guarded(&later, behind, keys);
    later.calls[0].owner = &ask; /* counts both */
    ask_send(&world, &ask, 1, 1000, 0);
    ask_send(&world, &later, 1, 1000, 1000);
    fake_await(&fake, &world, GREETED + 3);
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n");
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_ERROR);
    fake_say_text(&fake, behind == NET_RECORD ? "*0\r\n" : ":0\r\n");
    world_until_done(&world, &ask, 2);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_ABSENT);
    assert_int_equal(fake.seen, GREETED + 3); /* nothing was sent again */
    end(&fake, &world);
}

static void test_noscript_before_a_later_call(void **state) {
    (void)state;
    expect_failed(NET_ACQUIRE, "a b", NET_RELEASE);
    expect_failed(NET_EXTEND, "a", NET_RELEASE);
    expect_failed(NET_RAISE, "a", NET_RELEASE);
    expect_failed(NET_CONFIRM, "a", NET_RELEASE);
    expect_failed(NET_RECORD_WRITE, "", NET_RECORD);
}

/* ---- each node its own nonce ---- */

static void test_nonce_of_each_node(void **state) {
    struct fake fake[2];
    struct world world;
    struct ask ask;
    char urls[128];
    (void)state;
    fake_open(&fake[0]);
    fake_open(&fake[1]);
    fake[0].guarded = fake[1].guarded = true;
    snprintf(urls, sizeof(urls), "redis://127.0.0.1:%d,redis://127.0.0.1:%d", fake[0].port,
             fake[1].port);
    struct net_options options = world_options(urls);
    options.guarded = true;
    world_open(&world, &options);
    fake_greet(&fake[0], &world);
    fake_greet(&fake[1], &world);
    world_until_ready(&world, 3);
    ask_guarded(&ask, NET_ACQUIRE, "a");
    assert_int_equal(ask_send(&world, &ask, 3, 1000, 0), 3);
    fake_await(&fake[0], &world, GREETED + 2);
    fake_await(&fake[1], &world, GREETED + 2);
    assert_true(was_sent(&fake[0], "redlock:fences:000000000000000a"));
    assert_false(was_sent(&fake[0], "redlock:fences:000000000000000b"));
    assert_true(was_sent(&fake[1], "redlock:fences:000000000000000b"));
    assert_false(was_sent(&fake[1], "redlock:fences:000000000000000a"));
    fake_say_text(&fake[0], "+OK\r\n:1\r\n");
    fake_say_text(&fake[1], "+OK\r\n:0\r\n");
    world_until_done(&world, &ask, 2);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask.verdicts[1], REDLOCK_VERDICT_STALE);

    /* One of them knows the script, and the other one does not. */
    teach(&fake[0], &world, NET_ACQUIRE, "a b", GREETED + 3);
    ask_guarded(&ask, NET_ACQUIRE, "a b");
    assert_int_equal(ask_send(&world, &ask, 3, 1000, 0), 3);
    fake_await(&fake[0], &world, GREETED + 4);
    fake_await(&fake[1], &world, GREETED + 3);
    assert_true(was_sent(&fake[0], "$7\r\nEVALSHA\r\n"));
    assert_false(was_sent(&fake[0], "redlock:fences:000000000000000b"));
    assert_true(was_sent(&fake[1], "$4\r\nEVAL\r\n"));
    assert_false(was_sent(&fake[1], "redlock:fences:000000000000000a"));
    for (int i = 0; i < 2; i++) fake_say_text(&fake[i], ":1\r\n");
    world_until_done(&world, &ask, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(ask.verdicts[i], REDLOCK_VERDICT_GRANTED);
    world_close(&world);
    fake_close(&fake[0]);
    fake_close(&fake[1]);
}

/* ---- at the door ---- */

static void expect_refusal(const char *first_words, int verdict, const char *text) {
    struct fake fake;
    struct world world;
    open_guarded(&fake, &world);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, GREETED);
    fake_say_text(&fake, FAKE_HELLO);
    fake_say_text(&fake, first_words);
    world_until_verdict(&world, 0, verdict);
    if (!strstr(world_node(&world, 0).text, text))
        fail_msg("\"%s\" lacks \"%s\"", world_node(&world, 0).text, text);
    assert_int_equal(strlen(world_node(&world, 0).text) < sizeof(world_node(&world, 0).text) - 1,
                     1); /* not cut off */
    assert_int_equal(net_settled(world.net), 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    end(&fake, &world);
}

#define RUN_ID "run_id:0123456789012345678901234567890123456789\r\n"
#define FIT FAKE_STOCK "$76\r\nredis_version:6.2.0\r\n" RUN_ID "padd\r\n\r\n" FAKE_NO_DELETERS
#define SCRIPTS ":0\r\n:0\r\n"

#define NO_LUA "-ERR Could not find scripting engine 'lua'\r\n"

static void expect_refusal_of(const char *info, int verdict, const char *text) {
    char reply[512];
    snprintf(reply, sizeof(reply), FAKE_STOCK "$%zu\r\n%s\r\n", strlen(info), info);
    expect_refusal(reply, verdict, text);
}

static void test_refused_handshakes(void **state) {
    (void)state;
    expect_refusal_of("redis_version:6.0.16\r\n" RUN_ID, REDLOCK_VERDICT_UNFIT,
                      "6.0.16; guarded mode needs Redis 6.2");
    expect_refusal_of("redis_version:6.1.99\r\n" RUN_ID, REDLOCK_VERDICT_UNFIT, "6.2");
    expect_refusal_of("redis_version:5.10.1\r\n" RUN_ID, REDLOCK_VERDICT_UNFIT, "6.2");
    expect_refusal_of("redis_version:unknown\r\n" RUN_ID, REDLOCK_VERDICT_UNFIT, "6.2");
    expect_refusal_of(RUN_ID, REDLOCK_VERDICT_UNFIT, "version unknown");
    expect_refusal_of("redis_version:7.2.4\r\n", REDLOCK_VERDICT_UNFIT, "run_id");
    expect_refusal(FAKE_STOCK "-NOPERM this user has no permissions\r\n", REDLOCK_VERDICT_NOPERM,
                   "allow +info");
    expect_refusal(FAKE_STOCK "-ERR unknown command 'INFO'\r\n", REDLOCK_VERDICT_UNFIT,
                   "does not know INFO");
    expect_refusal(FAKE_STOCK "-LOADING Redis is loading\r\n", REDLOCK_VERDICT_LOADING, "loading");
    expect_refusal(FIT "-NOPERM no eval\r\n", REDLOCK_VERDICT_NOPERM,
                   "allow ~redlock:* +eval +evalsha +zadd");
    expect_refusal(FIT ":0\r\n-ERR unknown command 'EVALSHA'\r\n", REDLOCK_VERDICT_UNFIT,
                   "does not know EVALSHA");
    expect_refusal(FIT NO_LUA "-NOSCRIPT No matching script.\r\n", REDLOCK_VERDICT_UNFIT,
                   "no Lua engine");
    expect_refusal(FIT SCRIPTS "-NOPERM no zadd\r\n", REDLOCK_VERDICT_NOPERM,
                   "more than a classic lock: allow ~redlock:*");
    expect_refusal(FIT SCRIPTS "-ERR unknown command 'ZADD'\r\n", REDLOCK_VERDICT_UNFIT,
                   "does not know ZADD");
}

static void expect_welcome(const char *first_words) {
    struct fake fake;
    struct world world;
    open_guarded(&fake, &world);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, GREETED);
    fake_say_text(&fake, FAKE_HELLO);
    fake_say_text(&fake, first_words);
    world_until_ready(&world, 1);
    end(&fake, &world);
}

/* What passes by itself is no reason to turn a node away. */
static void test_handshakes_with_passing_errors(void **state) {
    (void)state;
    expect_welcome(FIT SCRIPTS ":0\r\n");
    expect_welcome(FIT SCRIPTS "-OOM x\r\n");
    expect_welcome(FIT "-OOM x\r\n-NOSCRIPT x\r\n-READONLY x\r\n");
    expect_welcome(FIT "-MISCONF x\r\n:0\r\n:0\r\n");
    expect_welcome(FAKE_STOCK "$76\r\nredis_version:7.0.0\r\n" RUN_ID
                              "padd\r\n\r\n" FAKE_NO_DELETERS SCRIPTS ":0\r\n");
    expect_welcome(FAKE_STOCK "$78\r\nredis_version:10.11.0\r\n" RUN_ID
                              "padd\r\n\r\n" FAKE_NO_DELETERS SCRIPTS ":0\r\n");
}

/* Another node has a record, so the handshake goes on in RESP3; what came too early is part of no
 * answer. */
static void turn_guarded_after(const char *surplus) {
    struct fake fake;
    struct world world;
    char url[64];
    fake_open(&fake);
    fake_url(&fake, url, sizeof(url));
    struct net_options options = world_options(url);
    options.asks_quorum = true;
    world_open(&world, &options);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    net_become_guarded(world.net);
    char text[512];
    snprintf(text, sizeof(text), FIT "$-1\r\n:0\r\n:0\r\n%s", surplus);
    fake_say_text(&fake, text);
    if (surplus[0] == '\0') {
        fake_await(&fake, &world, FAKE_GREETED + 3);
        fake_say_text(&fake, FAKE_HELLO ":0\r\n");
        world_until_ready(&world, 1);
    } else {
        world_until_verdict(&world, 0, REDLOCK_VERDICT_PROTOCOL);
        assert_string_equal(world_node(&world, 0).text, "more answers than commands");
    }
    end(&fake, &world);
}

static void test_more_answers_than_commands(void **state) {
    (void)state;
    turn_guarded_after("");
    turn_guarded_after(":1\r\n");
    turn_guarded_after("$5\r\nhal");
    turn_guarded_after("*");
}

/* ---- given up from above ---- */

static void test_reconnect(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    begin(&fake, &world);
    ask_guarded(&set, NET_ACQUIRE, "a");
    ask_guarded(&release, NET_RELEASE, "a");
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, GREETED + 3);
    net_reconnect(world.net, 0, REDLOCK_VERDICT_FOREIGN, "not the server that was registered");
    assert_int_equal(set.done, 0); /* no handler runs in there */
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_FOREIGN);
    net_reconnect(world.net, 0, REDLOCK_VERDICT_UNFIT, "said twice: the first stands");
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(release.done, 0);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_FOREIGN);
    assert_string_equal(world_node(&world, 0).text, "not the server that was registered");
    assert_int_equal(net_settled(world.net), 1);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_RESET); /* a SET is unanswered */
    fake_greet(&fake, &world);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, ":1\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);
    world_until_ready(&world, 1);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(world_node(&world, 0).reconnects, 1);
    end(&fake, &world);
}

/* While there is no connection only the words change; while there is half a one, it is given up. */
static void test_reconnect_while_down(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    open_guarded(&fake, &world);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, GREETED);
    net_reconnect(world.net, 0, REDLOCK_VERDICT_UNFIT, "no");
    assert_int_equal(fake_await_end(&fake, &world), FAKE_FIN);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_UNFIT);
    net_reconnect(world.net, 0, REDLOCK_VERDICT_FOREIGN, "nor this");
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_FOREIGN);
    assert_string_equal(world_node(&world, 0).text, "nor this");
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    end(&fake, &world);
}

/* A server that is refused each time it is reached is not asked a hundred times a second. */
static void test_reconnect_again_and_again(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world);
    rl_ns until = net_now(world.net) + 400 * RL_MS;
    unsigned refused = 0;
    while (net_now(world.net) < until && refused < 100) {
        if (net_ready(world.net, net_now(world.net))) {
            refused++;
            net_reconnect(world.net, 0, REDLOCK_VERDICT_FOREIGN,
                          "not the server that was registered");
            assert_int_equal(fake_await_end(&fake, &world), FAKE_FIN);
            fake_greet(&fake, &world);
        } else {
            world_turn(&world, until);
        }
    }
    assert_in_range(refused, 2, 15);
    end(&fake, &world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_replies),
        cmocka_unit_test(test_errors_in_between),
        cmocka_unit_test(test_wrong_kinds),
        cmocka_unit_test(test_no_fences),
        cmocka_unit_test(test_closed_in_between),
        cmocka_unit_test(test_noscript),
        cmocka_unit_test(test_noscript_before_a_later_call),
        cmocka_unit_test(test_nonce_of_each_node),
        cmocka_unit_test(test_refused_handshakes),
        cmocka_unit_test(test_handshakes_with_passing_errors),
        cmocka_unit_test(test_more_answers_than_commands),
        cmocka_unit_test(test_reconnect),
        cmocka_unit_test(test_reconnect_while_down),
        cmocka_unit_test(test_reconnect_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
