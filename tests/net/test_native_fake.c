/* SPDX-License-Identifier: BSD-2-Clause
 * Native nodes at the other end: the handshake, a quorum of both kinds, a module that comes and
 * goes while we are connected, and further connections that reach another server. */
#include "fake.h"
#include "node/scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "0123456789abcdef0123456789abcdef01234567"
#define OTHER_ID "fffffff789abcdef0123456789abcdef01234567"
#define SAYS(id, quorum)                                                                              \
    "*10\r\n$8\r\nprotocol\r\n:1\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$11\r\nincarnation\r\n$40\r\n" id \
    "\r\n$6\r\nmirror\r\n:1\r\n$6\r\nquorum\r\n" quorum "\r\n"
#define NATIVE SAYS(ID, "$0\r\n")
#define UNKNOWN "-ERR unknown command 'REDLOCK.LOCK', with args beginning with: 'a' \r\n"
/* No server: INFO and every script are refused, as to a user with permissions for the module alone.
 */
#define NO "-NOPERM no\r\n"

static uint64_t nonces[3] = {0xa, 0xb, 0xc};
static const uint16_t stripes[2] = {7, 8};

static void open_fakes(struct fake *fakes, size_t count, struct world *world,
                       struct net_options options) {
    char urls[256] = "";
    for (size_t i = 0; i < count; i++) {
        fake_open(&fakes[i]);
        fakes[i].guarded = options.guarded;
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "%sredis://127.0.0.1:%d",
                 i > 0 ? "," : "", fakes[i].port);
    }
    options.nodes = urls;
    world_open(world, &options);
}

static void begin(struct fake *fake, struct world *world, const char *native) {
    open_fakes(fake, 1, world, world_options(NULL));
    fake->native = native;
    fake_greet(fake, world);
    world_until_ready(world, 1);
}

static void end(struct fake *fakes, size_t count, struct world *world) {
    world_close(world);
    for (size_t i = 0; i < count; i++) fake_close(&fakes[i]);
}

static bool was_sent(const struct fake *fake, const char *text) {
    return memmem(fake->input, fake->input_bytes, text, strlen(text)) != NULL;
}

/* ---- the handshake ---- */

static void test_identity(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world, NATIVE);
    struct net_node_status status = world_node(&world, 0);
    assert_true(status.native);
    assert_true(status.mirror);
    assert_string_equal(status.module, "1.2.3");
    assert_string_equal(status.run_id, ID);
    assert_string_equal(status.version, "9.9.9"); /* the server's */
    assert_non_null(strstr(world.log, "native node 1.2.3"));
    /* The next server at this address may be another kind. */
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_true(world_node(&world, 0).native); /* what it was last */
    fake.native = NULL;
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    status = world_node(&world, 0);
    assert_false(status.native);
    assert_false(status.mirror);
    assert_string_equal(status.module, "");
    assert_string_not_equal(status.run_id, ID);
    end(&fake, 1, &world);
}

/* Only a server that does not know the command is a stock one. */
static void test_refused_handshakes(void **state) {
    static const struct {
        const char *reply;
        int verdict;
        const char *text;
    } table[] = {
        {"-NOPERM this user has no permissions to run the 'redlock.hello' command\r\n",
         REDLOCK_VERDICT_NOPERM, "may not use it: allow +@redlock"},
        {"-ERR protocol 1 is not supported any more\r\n", REDLOCK_VERDICT_ERROR, "protocol 1"},
        {"-NOAUTH Authentication required.\r\n", REDLOCK_VERDICT_AUTH, "requires a password"},
        {"-LOADING Redis is loading the dataset in memory\r\n", REDLOCK_VERDICT_LOADING, "loading"},
        {"-DENIED Redis is running in protected mode\r\n", REDLOCK_VERDICT_AUTH, "protected mode"},
        {"+OK\r\n", REDLOCK_VERDICT_PROTOCOL, "REDLOCK.HELLO"},
        {"*2\r\n$8\r\nprotocol\r\n:2\r\n", REDLOCK_VERDICT_PROTOCOL, "update this program"},
        {"*0\r\n", REDLOCK_VERDICT_PROTOCOL, "REDLOCK.HELLO"},
        {"$-1\r\n", REDLOCK_VERDICT_PROTOCOL, "REDLOCK.HELLO"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake fake;
        struct world world;
        open_fakes(&fake, 1, &world, world_options(NULL));
        fake_accept(&fake, &world);
        fake_await(&fake, &world, FAKE_GREETED);
        fake_say_text(&fake, table[i].reply);
        world_until_verdict(&world, 0, table[i].verdict);
        const struct net_node_status status = world_node(&world, 0);
        if (!strstr(status.text, table[i].text))
            fail_msg("\"%s\" lacks \"%s\"", status.text, table[i].text);
        assert_true(strlen(status.text) + 1 < sizeof(status.text)); /* not cut off */
        assert_false(status.native);
        assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
        end(&fake, 1, &world);
    }
}

/* Neither scripts nor INFO are needed, in either mode. */
static void test_commands_of_the_module_alone(void **state) {
    (void)state;
    for (int guarded = 0; guarded < 2; guarded++) {
        struct fake fake;
        struct world world;
        struct ask ask;
        struct net_options options = world_options(NULL);
        options.guarded = guarded;
        open_fakes(&fake, 1, &world, options);
        fake_accept(&fake, &world);
        fake_await(&fake, &world, guarded ? FAKE_GREETED_GUARDED : FAKE_GREETED);
        if (guarded) fake_say_text(&fake, FAKE_HELLO);
        fake_say_text(&fake, NATIVE NO);
        for (int i = 0; i < (guarded ? 5 : 4); i++) fake_say_text(&fake, NO);
        world_until_ready(&world, 1);
        assert_string_equal(world_node(&world, 0).run_id, ID);
        assert_false(world_node(&world, 0).uses_transactions);
        size_t seen = fake.seen;
        ask_init(&ask, NET_RELEASE, "a b", "t", 0);
        ask_send(&world, &ask, 1, 1000, 0);
        fake_await(&fake, &world, seen + 1);
        assert_true(was_sent(&fake, "REDLOCK.RELEASE\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n"));
        fake_say_text(&fake, ":1\r\n");
        world_until_done(&world, &ask, 1);
        assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
        end(&fake, 1, &world);
    }
}

/* `quorum` of the module's record, `stock` of a record among the keys, left from before. */
static void expect_quorum(const char *native, const char *stock, const char *quorum) {
    struct fake fake;
    struct world world;
    struct net_options options = world_options(NULL);
    options.asks_quorum = true;
    open_fakes(&fake, 1, &world, options);
    fake.native = native;
    fake_accept(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    fake_introduce(&fake, 1);
    fake_say_text(&fake, stock);
    fake_say_text(&fake, ":0\r\n:0\r\n");
    world_until_ready(&world, 1);
    assert_string_equal(world_node(&world, 0).quorum, quorum);
    assert_int_equal(world.losses, quorum[0] != '\0'); /* it was reported, once */
    end(&fake, 1, &world);
}

static void test_quorum(void **state) {
    (void)state;
    expect_quorum(SAYS(ID, "$16\r\n00000000deadbeef"), "$-1\r\n", "00000000deadbeef");
    expect_quorum(SAYS(ID, "$16\r\n00000000deadbeef"), "$16\r\n00000000000000aa\r\n",
                  "00000000deadbeef");
    expect_quorum(NATIVE, "$16\r\n00000000000000aa\r\n", "00000000000000aa");
    expect_quorum(NATIVE, NO, "");
    expect_quorum(NATIVE, "$-1\r\n", "");
}

/* Another node's record was seen during the handshake: no scripts follow, but the announcements. */
static void test_turns_guarded(void **state) {
    struct fake fake;
    struct world world;
    struct net_options options = world_options(NULL);
    (void)state;
    options.asks_quorum = true;
    open_fakes(&fake, 1, &world, options);
    fake.native = NATIVE;
    fake_accept(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    net_become_guarded(world.net);
    fake_introduce(&fake, 1);
    fake_say_text(&fake, "$-1\r\n" NO NO);
    fake_await(&fake, &world, FAKE_GREETED + 3);
    fake_say_text(&fake, FAKE_HELLO);
    world_until_ready(&world, 1);
    assert_true(world_node(&world, 0).announces);
    assert_int_equal(fake.seen, FAKE_GREETED + 3);
    end(&fake, 1, &world);
}

/* ---- one server listed twice ---- */

/* One connection may be from before the module was loaded. */
static void expect_twice(const char *first, const char *second, bool info) {
    struct fake fakes[2];
    struct world world;
    open_fakes(fakes, 2, &world, world_options(NULL));
    fakes[0].native = first;
    fakes[1].native = second;
    for (int i = 0; i < 2; i++) {
        fake_accept(&fakes[i], &world);
        fake_await(&fakes[i], &world, FAKE_GREETED);
        if (info)
            fake_introduce(&fakes[i], 5);
        else
            fake_say_text(&fakes[i], i == 0 ? first : second);
        if (!info) fake_say_text(&fakes[i], NO FAKE_NO_DELETERS);
        fake_say_text(&fakes[i], ":0\r\n:0\r\n");
        if (i == 0) world_until_ready(&world, 1);
    }
    world_until_verdict(&world, 1, REDLOCK_VERDICT_TWICE_LISTED);
    end(fakes, 2, &world);
}

static void test_listed_twice(void **state) {
    (void)state;
    expect_twice(NATIVE, NATIVE, true);
    expect_twice(NULL, NATIVE, true);
    expect_twice(NATIVE, NULL, true);
    expect_twice(NATIVE, NATIVE, false);
}

/* ---- both kinds at once ---- */

static void say_and_expect(struct world *world, struct ask *ask, struct fake *fakes,
                           const char *const *replies, const int *verdicts) {
    for (int i = 0; i < 3; i++) fake_say_text(&fakes[i], replies[i]);
    world_until_done(world, ask, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ask->verdicts[i], verdicts[i]);
}

static void test_mixed_quorum(void **state) {
    static const char *const forms[3] = {
        "REDLOCK.LOCK\r\n$1\r\na\r\n$1\r\nt\r\n$26\r\n1000:000000000000000a:50:7\r\n",
        "ZADD\r\n$31\r\nredlock:fences:000000000000000b\r\n",
        "$26\r\n1000:000000000000000c:50:7\r\n"};
    struct fake fakes[3];
    struct world world;
    struct ask ask;
    (void)state;
    struct net_options options = world_options(NULL);
    options.guarded = true;
    open_fakes(fakes, 3, &world, options);
    fakes[0].native = NATIVE;
    fakes[2].native = SAYS(OTHER_ID, "$0\r\n");
    for (int i = 0; i < 3; i++) fake_greet(&fakes[i], &world);
    world_until_ready(&world, 7);
    ask_init(&ask, NET_ACQUIRE, "a", "t", 1000);
    ask_guard(&ask, nonces, 50, stripes, 1);
    assert_int_equal(ask_send(&world, &ask, 7, 1000, 0), 7);
    for (int i = 0; i < 3; i++) {
        fake_await(&fakes[i], &world, FAKE_GREETED_GUARDED + (i == 1 ? 2 : 1));
        assert_true(was_sent(&fakes[i], forms[i]));
    }
    say_and_expect(
        &world, &ask, fakes,
        (const char *const[]){"*4\r\n:0\r\n:1500\r\n:-1\r\n$3\r\nabc\r\n", "$-1\r\n:1\r\n",
                              ":-1\r\n"},
        (const int[]){REDLOCK_VERDICT_DENIED, REDLOCK_VERDICT_DENIED, REDLOCK_VERDICT_STALE});
    /* Only the stock node needs a script. */
    ask_init(&ask, NET_EXTEND, "a b", "t", 1000);
    ask_guard(&ask, nonces, 50, stripes, 2);
    assert_int_equal(ask_send(&world, &ask, 7, 1000, 0), 7);
    fake_await(&fakes[1], &world, FAKE_GREETED_GUARDED + 3);
    assert_true(was_sent(&fakes[1], node_scripts[NODE_EXTEND_GUARDED].text));
    for (int i = 0; i < 3; i += 2) {
        fake_await(&fakes[i], &world, FAKE_GREETED_GUARDED + 2);
        assert_true(was_sent(&fakes[i], "REDLOCK.EXTEND\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n"));
    }
    say_and_expect(&world, &ask, fakes, (const char *const[]){":1\r\n", ":1\r\n", ":-2\r\n"},
                   (const int[]){REDLOCK_VERDICT_GRANTED, REDLOCK_VERDICT_GRANTED,
                                 REDLOCK_VERDICT_RECOVERING});
    /* A module's command is not a script: that error is an error. */
    ask_init(&ask, NET_PEEK, "a", "t", 0);
    assert_int_equal(ask_send(&world, &ask, 7, 1000, 0), 7);
    for (int i = 0; i < 3; i++)
        fake_await(&fakes[i], &world, FAKE_GREETED_GUARDED + (i == 1 ? 4 : 3));
    say_and_expect(
        &world, &ask, fakes, (const char *const[]){"-NOSCRIPT x\r\n", ":5\r\n", ":6\r\n"},
        (const int[]){REDLOCK_VERDICT_ERROR, REDLOCK_VERDICT_GRANTED, REDLOCK_VERDICT_GRANTED});
    end(fakes, 3, &world);
}

static void expect_end(enum net_op op, const char *bad) {
    struct fake fake;
    struct world world;
    struct ask ask;
    begin(&fake, &world, NATIVE);
    ask_init(&ask, op, "a", "t", 1000);
    ask_send(&world, &ask, 1, 1000, 0);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    fake_say_text(&fake, bad);
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    assert_int_equal(fake_await_end(&fake, &world), net_op_is_write(op) ? FAKE_RESET : FAKE_FIN);
    end(&fake, 1, &world);
}

static void test_wrong_kinds(void **state) {
    (void)state;
    expect_end(NET_ACQUIRE, "+OK\r\n"); /* what a stock node says to SET */
    expect_end(NET_ACQUIRE, "$-1\r\n");
    expect_end(NET_ACQUIRE, ":-1\r\n");
    expect_end(NET_ACQUIRE, "*4\r\n:0\r\n:1\r\n:1\r\n:1\r\n");
    expect_end(NET_EXTEND, ":-2\r\n");
    expect_end(NET_RELEASE, "$1\r\n1\r\n");
    expect_end(NET_PEEK, "garbage\r\n");
    expect_end(NET_STATE, "*4\r\n:5\r\n$6\r\nmaster\r\n:0\r\n$40\r\n" OTHER_ID "\r\n");
}

/* ---- a module that comes and goes ---- */

/* The vote was not counted, and the release reaches the next server in the form that it takes. */
static void test_module_unloaded(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    begin(&fake, &world, NATIVE);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&release, NET_RELEASE, "a", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, FAKE_GREETED + 2);
    fake_say_text(&fake, UNKNOWN);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(release.done, 0);
    assert_non_null(strstr(world_node(&world, 0).text, "was unloaded"));
    fake.native = NULL;
    fake_greet(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    assert_true(was_sent(&fake, node_scripts[NODE_RELEASE].sha1));
    assert_false(was_sent(&fake, "REDLOCK.RELEASE"));
    fake_say_text(&fake, ":1\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(world_node(&world, 0).reconnects, 1);
    end(&fake, 1, &world);
}

/* A stock command that the server does not know says nothing about the module. */
static void test_other_unknown_commands(void **state) {
    struct fake fake;
    struct world world;
    struct ask ask;
    (void)state;
    begin(&fake, &world, NATIVE);
    ask_init(&ask, NET_SERVER_INFO, "", "", 0);
    ask.request.question = NET_ASK_SAVE;
    ask_send(&world, &ask, 1, 1000, 0);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    fake_say_text(&fake, "-ERR unknown command 'CONFIG'\r\n");
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_ERROR);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_GRANTED);
    end(&fake, 1, &world);
}

/* The server is started again, with the module. */
static void test_module_loaded(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    begin(&fake, &world, NULL);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&release, NET_RELEASE, "a", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    fake_say_text(&fake, "+OK\r\n");
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_GRANTED);
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    ask_send(&world, &release, 1, 1000, 4000);
    fake.native = NATIVE;
    fake_greet(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    assert_true(was_sent(&fake, "REDLOCK.UNLOCK\r\n$1\r\na\r\n$1\r\nt\r\n"));
    fake_say_text(&fake, ":0\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_ABSENT); /* it was never sent before */
    end(&fake, 1, &world);
}

/* ---- further connections ---- */

/* Locks of scheme=setnx are keys, also on a native node: without scripts, by transactions on the
 * second connection. It must reach the same module. */
static void second_connection(const char *native, bool same) {
    struct fake fake, second;
    struct world world;
    struct ask ask;
    char url[80];
    fake_open(&fake);
    second = (struct fake){.listener = fake.listener, .peer = -1, .port = fake.port};
    second.native = native;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?scheme=setnx", fake.port);
    world_open_urls(&world, url);
    fake.native = NATIVE;
    fake_accept(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED - 2); /* releases are scripts: no DELEX or DELIFEQ */
    fake_introduce(&fake, fake.port);
    fake_say_text(&fake, NO NO);
    world_until_ready(&world, 1);
    assert_true(world_node(&world, 0).native);
    assert_true(world_node(&world, 0).uses_transactions);
    ask_init(&ask, NET_RELEASE, "k", "t", 0);
    ask.request.scheme = REDLOCK_SCHEME_SETNX;
    ask_send(&world, &ask, 1, 1000, 0);
    fake_accept(&second, &world);
    fake_await(&second, &world, 2);
    fake_introduce(&second, fake.port);
    if (same) {
        fake_await(&second, &world, 2 + 6); /* WATCH, PTTL, GETRANGE, HMGET, TIME, MULTI */
        fake_say_text(&second, "+OK\r\n:-2\r\n$0\r\n\r\n*2\r\n$-1\r\n$-1\r\n*2\r\n$10\r\n1700000000"
                               "\r\n$1\r\n0\r\n+OK\r\n");
        fake_await(&second, &world, 2 + 7);
        fake_say_text(&second, "*0\r\n");
    }
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], same ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_PROTOCOL);
    fake_hang_up(&second);
    free(second.input);
    end(&fake, 1, &world);
}

static void test_second_connection(void **state) {
    (void)state;
    second_connection(NATIVE, true);
    second_connection(SAYS(OTHER_ID, "$0\r\n"), false);
    second_connection(NULL, false);
}

/* The connection that is open while a caller waits. */
static void expect_notifier(const char *native, bool same) {
    struct fake fake, second;
    struct world world;
    struct net_options options = world_options(NULL);
    options.guarded = true;
    open_fakes(&fake, 1, &world, options);
    second = (struct fake){.listener = fake.listener, .peer = -1, .port = fake.port};
    second.native = native;
    fake.native = NATIVE;
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    net_track(world.net, true);
    fake_accept(&second, &world);
    fake_await(&second, &world, 5); /* HELLO, CLIENT TRACKING, REDLOCK.HELLO, INFO, SUBSCRIBE */
    fake_say_text(&second, FAKE_HELLO);
    fake_introduce(&second, fake.port);
    if (same) {
        fake_say_text(&second, ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
        fake_await(&second, &world, 6); /* the test whether it notifies */
        assert_true(was_sent(&second, "redlock:waiting:"));
    } else {
        fake_await_end(&second, &world);
        assert_int_equal(net_tracked(world.net), 0);
    }
    fake_hang_up(&second);
    free(second.input);
    end(&fake, 1, &world);
}

static void test_notifier(void **state) {
    (void)state;
    expect_notifier(NATIVE, true);
    expect_notifier(SAYS(OTHER_ID, "$0\r\n"), false);
    expect_notifier(NULL, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_refused_handshakes),
        cmocka_unit_test(test_commands_of_the_module_alone),
        cmocka_unit_test(test_quorum),
        cmocka_unit_test(test_turns_guarded),
        cmocka_unit_test(test_listed_twice),
        cmocka_unit_test(test_mixed_quorum),
        cmocka_unit_test(test_wrong_kinds),
        cmocka_unit_test(test_module_unloaded),
        cmocka_unit_test(test_other_unknown_commands),
        cmocka_unit_test(test_module_loaded),
        cmocka_unit_test(test_second_connection),
        cmocka_unit_test(test_notifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
