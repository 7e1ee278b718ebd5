/* SPDX-License-Identifier: BSD-2-Clause
 * Servers that refuse scripts: WATCH/MULTI/EXEC on a second connection, in the order of sending. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "servers.h"

#define NO_SCRIPTS "-eval", "-evalsha"

static void every_request(struct world *world, struct server *server) {
    assert_true(world_node(world, 0).uses_transactions);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "k", "t1", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "k", "t2", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 90000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 80000, 90000);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 1000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 80000, 90000);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t2", 90000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t2", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t", 0),
                     REDLOCK_VERDICT_DENIED); /* a prefix of the token */
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 1000), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0);
}

static void every_request_of_several_keys(struct world *world, struct server *server) {
    assert_int_equal(ask_one(world, NET_ACQUIRE, "a b c", "t1", 60000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL c"), 50000, 60000);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "x b y", "t2", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS x y"), 0);
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 90000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL c"), 80000, 90000);
    server_ask_integer(server, "DEL b");
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 990000), REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(server, "SET b other"));
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 990000), REDLOCK_VERDICT_DENIED);
    assert_in_range(server_ask_integer(server, "PTTL a"), 80000, 90000);
    assert_int_equal(ask_one(world, NET_RELEASE, "a b c", "t1", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS a c"), 0);
    assert_int_equal(server_ask_integer(server, "DEL b"), 1);
    server_ask_integer(server, "RPUSH list x");
    assert_int_equal(ask_one(world, NET_ACQUIRE, "a list", "t", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_RELEASE, "list", "t", 0), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask_one(world, NET_EXTEND, "list", "t", 60000), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "mine", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_RELEASE, "list mine", "t", 0), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(server_ask_integer(server, "EXISTS mine"), 0);
    server_ask_integer(server, "DEL list");
}

static void in_order(struct world *world, struct server *server) {
    enum { ROUNDS = 30 };
    static struct ask set[ROUNDS], release[ROUNDS];
    /* All at once: each SET of the same key must see the release before it done. */
    for (unsigned i = 0; i < ROUNDS; i++) {
        ask_init(&set[i], NET_ACQUIRE, "same", "token", 60000);
        ask_init(&release[i], NET_RELEASE, "same", "token", 0);
        assert_int_equal(ask_send(world, &set[i], 1, 5000, 0), 1);
        assert_int_equal(ask_send(world, &release[i], 1, 5000, 5000), 1);
    }
    world_until_done(world, &release[ROUNDS - 1], 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        assert_int_equal(set[i].verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_int_equal(release[i].verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_true(set[i].order[0] < release[i].order[0]);
    }
    assert_int_equal(server_ask_integer(server, "EXISTS same"), 0);
}

static void run(const char *const *arguments, const char *userinfo) {
    struct server server = {0};
    struct world world;
    char url[100];
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    every_request(&world, &server);
    every_request_of_several_keys(&world, &server);
    in_order(&world, &server);
    world_close(&world);
    server_stop(&server);
}

static void test_refused_by_acl(void **state) {
    static const char *const arguments[] = {"--user", "bob",   "on",       ">pw",
                                            "~*",     "+@all", NO_SCRIPTS, NULL};
    (void)state;
    run(arguments, "bob:pw@");
}

static void test_evalsha_alone_refused(void **state) {
    static const char *const arguments[] = {"--user", "bob",   "on",       ">pw",
                                            "~*",     "+@all", "-evalsha", NULL};
    (void)state;
    run(arguments, "bob:pw@");
}

static void test_refused_by_rename(void **state) {
    static const char *const arguments[] = {"--rename-command", "EVAL", "",  "--rename-command",
                                            "EVALSHA",          "",     NULL};
    (void)state;
    run(arguments, "");
}

/* Valkey 9.1 and later: scripts need a module. */
static void test_no_lua(void **state) {
    static const char *const arguments[] = {"--enable-module-command", "local", NULL};
    struct server server = {0};
    struct world world;
    char url[100];
    (void)state;
    if (servers_version() < 901) skip();
    server_start(&server, arguments);
    redisReply *unloaded = server_ask(&server, "MODULE UNLOAD lua");
    bool is_module = unloaded->type == REDIS_REPLY_STATUS;
    freeReplyObject(unloaded);
    if (!is_module) {
        server_stop(&server);
        skip();
    }
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    every_request(&world, &server);
    every_request_of_several_keys(&world, &server);
    world_close(&world);
    server_stop(&server);
}

/* With its one key the user cannot try a command in place of a script. */
static void test_transactions_refused_too(void **state) {
    static const char *const arguments[] = {"--user", "bob",      "on",     ">pw", "~k",
                                            "+@all",  NO_SCRIPTS, "-watch", NULL};
    struct server server = {0};
    struct world world;
    char url[100];
    (void)state;
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://bob:pw@127.0.0.1:%d", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_NOPERM);
    assert_int_equal(ask_one(&world, NET_EXTEND, "k", "t", 0), REDLOCK_VERDICT_NOPERM);
    assert_int_equal(server_ask_integer(&server, "EXISTS k"), 1);
    world_close(&world);
    server_stop(&server);
}

static void test_release_survives_the_second_connection(void **state) {
    static const char *const arguments[] = {"--user", "bob",   "on",       ">pw",
                                            "~*",     "+@all", NO_SCRIPTS, NULL};
    struct server server = {0};
    struct world world;
    struct ask release;
    char url[100];
    (void)state;
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://bob:pw@127.0.0.1:%d", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "other", "t", 0),
                     REDLOCK_VERDICT_ABSENT); /* both are open now */
    server_pause(&server);
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &release, 1, 5000, 5000);
    server_resume(&server);
    server_ask_integer(&server, "CLIENT KILL TYPE normal SKIPME yes");
    world_until_done(&world, &release, 1);
    world_until_ready(&world, 1);
    assert_int_equal(server_ask_integer(&server, "EXISTS k"), 0);
    world_close(&world);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_by_acl),
        cmocka_unit_test(test_evalsha_alone_refused),
        cmocka_unit_test(test_refused_by_rename),
        cmocka_unit_test(test_no_lua),
        cmocka_unit_test(test_transactions_refused_too),
        cmocka_unit_test(test_release_survives_the_second_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
