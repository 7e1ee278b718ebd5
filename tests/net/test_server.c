/* SPDX-License-Identifier: BSD-2-Clause Every request against a real server: over TCP and a Unix
 * socket, with passwords, with scripts that were flushed. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servers.h"

static void every_request(struct world *world, struct server *server) {
    assert_int_equal(ask_one(world, NET_ACQUIRE, "k", "t1", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "k", "t2", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 90000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 80000, 90000);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 1000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL k"), 80000, 90000); /* never shortened */
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t2", 90000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t2", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask_one(world, NET_EXTEND, "k", "t1", 1000), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0); /* never recreated */
}

static void every_request_of_several_keys(struct world *world, struct server *server) {
    assert_int_equal(ask_one(world, NET_ACQUIRE, "a b c", "t1", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "EXISTS a b c"), 3);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "x b y", "t2", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS x y"), 0); /* all or nothing */
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 90000), REDLOCK_VERDICT_GRANTED);
    assert_in_range(server_ask_integer(server, "PTTL c"), 80000, 90000);
    server_ask_integer(server, "DEL b");
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 990000), REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(server, "SET b other"));
    assert_int_equal(ask_one(world, NET_EXTEND, "a b c", "t1", 990000), REDLOCK_VERDICT_DENIED);
    assert_in_range(server_ask_integer(server, "PTTL a"), 80000,
                    90000); /* neither changed anything */
    assert_int_equal(ask_one(world, NET_RELEASE, "a b c", "t1", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS a c"), 0);
    assert_int_equal(server_ask_integer(server, "EXISTS b"), 1);
    server_ask_integer(server, "DEL b");
    assert_int_equal(ask_one(world, NET_RELEASE, "a b c", "t1", 0), REDLOCK_VERDICT_ABSENT);
}

static void wrong_types(struct world *world, struct server *server) {
    server_ask_integer(server, "RPUSH list x");
    assert_int_equal(ask_one(world, NET_ACQUIRE, "list", "t", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "free list", "t", 60000), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_EXTEND, "list", "t", 60000), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask_one(world, NET_RELEASE, "list", "t", 0), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "mine", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_RELEASE, "list mine", "t", 0), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(server_ask_integer(server, "EXISTS mine"),
                     0); /* the other key is not kept for it */
    server_ask_integer(server, "DEL list");
}

static void looking(struct world *world, struct server *server) {
    struct ask ask;
    static char big[1200];
    memset(big, 'v', sizeof(big));
    freeReplyObject(server_ask(server, "SET look %b PX 60000", "a\0b\r\n", (size_t)5));
    ask_init(&ask, NET_PEEK_VALUE, "look", "", 0);
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask.value_bytes, 5);
    assert_memory_equal(ask.value, "a\0b\r\n", 5);
    assert_in_range(ask.remaining_ms, 50000, 60000);
    assert_false(ask.truncated);

    freeReplyObject(server_ask(server, "SET look %b", big, sizeof(big)));
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 2);
    assert_int_equal(ask.value_bytes, REDLOCK_TOKEN_BYTES_MAX);
    assert_true(ask.truncated);
    assert_int_equal(ask.remaining_ms, -1);

    freeReplyObject(server_ask(server, "SET look %b", "", (size_t)0));
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 3);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask.value_bytes, 0);

    assert_int_equal(ask_one(world, NET_PEEK_VALUE, "nothing", "", 0), REDLOCK_VERDICT_ABSENT);
    server_ask_integer(server, "RPUSH list x");
    assert_int_equal(ask_one(world, NET_PEEK_VALUE, "list", "", 0), REDLOCK_VERDICT_WRONGTYPE);
    ask_init(&ask, NET_TYPE, "list", "", 0);
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask.value_bytes, 4);
    assert_memory_equal(ask.value, "list", 4);
    assert_int_equal(ask_one(world, NET_TYPE, "nothing", "", 0), REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(server, "FLUSHALL"));
}

static void peeking(struct world *world, struct server *server) {
    struct ask ask;
    freeReplyObject(server_ask(server, "SET p1 x PX 20000"));
    freeReplyObject(server_ask(server, "SET p2 x PX 50000"));
    ask_init(&ask, NET_PEEK, "p1 p2 p3", "", 0);
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 1);
    assert_in_range(ask.remaining_ms, 40000, 50000);
    freeReplyObject(server_ask(server, "SET p3 x"));
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 2);
    assert_int_equal(ask.remaining_ms, -1);
    freeReplyObject(server_ask(server, "FLUSHALL"));
    ask_send(world, &ask, 1, 1000, 0);
    world_until_done(world, &ask, 3);
    assert_int_equal(ask.remaining_ms, -2);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_ABSENT);
}

static void scanning(struct world *world, struct server *server) {
    struct ask ask;
    for (int i = 0; i < 300; i++) freeReplyObject(server_ask(server, "SET lock*[%d v", i));
    freeReplyObject(server_ask(server, "SET lockx[1 v"));
    ask_init(&ask, NET_SCAN, "lock*[", "", 0);
    unsigned turns = 0;
    do {
        ask_send(world, &ask, 1, 1000, 0);
        world_until_done(world, &ask, ++turns);
        assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_GRANTED);
        ask.request.cursor = ask.cursor;
    } while (ask.cursor != 0);
    assert_int_equal(ask.items, 300); /* the prefix is bytes, not a glob */
    freeReplyObject(server_ask(server, "FLUSHALL"));
}

static void everything(struct world *world, struct server *server) {
    world_until_ready(world, 1);
    every_request(world, server);
    every_request_of_several_keys(world, server);
    wrong_types(world, server);
    looking(world, server);
    peeking(world, server);
    scanning(world, server);
}

static void test_tcp(void **state) {
    struct server server = {0};
    struct world world;
    char url[64];
    (void)state;
    server_start(&server, NULL);
    server_url(&server, url, sizeof(url));
    world_open_urls(&world, url);
    everything(&world, &server);
    struct net_node_status status = world_node(&world, 0);
    assert_int_equal(status.verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(strlen(status.run_id), 40);
    assert_true(strchr(status.version, '.') != NULL);
    assert_false(status.uses_transactions);
    world_close(&world);
    server_stop(&server);
}

static void test_unix_socket_and_database(void **state) {
    static const char *const arguments[] = {"--unixsocket", "socket", "--requirepass",
                                            "p@ss:,/word", NULL};
    struct server server = {.password = "p@ss:,/word"};
    struct world world;
    char url[160];
    (void)state;
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "unix://:p%%40ss%%3a%%2c%%2Fword@%s/socket", server.dir);
    world_open_urls(&world, url);
    everything(&world, &server);
    world_close(&world);

    snprintf(url, sizeof(url), "unix://:p%%40ss%%3a%%2c%%2Fword@%s/socket?db=7", server.dir);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(&server, "EXISTS k"), 0); /* we look at database 0 */
    assert_null(strstr(world_node(&world, 0).url, "word"));
    assert_null(strstr(world.log, "word"));
    world_close(&world);

    snprintf(url, sizeof(url), "redis://:p%%40ss%%3a%%2c%%2Fword@127.0.0.1:%d/99", server.port);
    world_open_urls(&world, url);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_UNFIT);
    assert_non_null(strstr(world_node(&world, 0).text, "DB index"));
    world_close(&world);
    server_stop(&server);
}

static void expect_auth(const struct server *server, const char *userinfo, int verdict,
                        const char *text) {
    struct world world;
    char url[160];
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    world_open_urls(&world, url);
    world_until_verdict(&world, 0, verdict);
    if (text && !strstr(world_node(&world, 0).text, text))
        fail_msg("\"%s\" lacks \"%s\"", world_node(&world, 0).text, text);
    assert_null(strstr(world_node(&world, 0).text, "secret"));
    assert_null(strstr(world.log, "secret"));
    world_close(&world);
}

static void test_passwords(void **state) {
    static const char *const arguments[] = {"--requirepass", "secret1", "--user", "ann", "on",
                                            ">secret2",      "~*",      "+@all",  NULL};
    struct server server = {.password = "secret1"}, open_server = {0};
    (void)state;
    server_start(&server, arguments);
    server_start(&open_server, NULL);
    expect_auth(&server, ":secret1@", REDLOCK_VERDICT_GRANTED, NULL);
    expect_auth(&server, "ann:secret2@", REDLOCK_VERDICT_GRANTED, NULL);
    expect_auth(&server, "ann:secret3@", REDLOCK_VERDICT_AUTH, "wrong user or password");
    expect_auth(&server, ":secret3@", REDLOCK_VERDICT_AUTH, "wrong user or password");
    expect_auth(&server, "", REDLOCK_VERDICT_AUTH, "put it in the URL");
    expect_auth(&open_server, ":secret1@", REDLOCK_VERDICT_AUTH, "remove the one in the URL");
    server_stop(&server);
    server_stop(&open_server);
}

static void test_flushed_scripts(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set, release, extend;
    char url[64];
    (void)state;
    server_start(&server, NULL);
    server_url(&server, url, sizeof(url));
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    every_request(&world, &server);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    every_request_of_several_keys(&world, &server);

    /* Pipelined: the release that follows its SET is sent again and still deletes it. */
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 1000);
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);

    /* An acquisition must not land behind its own release: it fails, and no key is left. */
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    ask_init(&set, NET_ACQUIRE, "k1 k2", "t", 60000);
    ask_init(&release, NET_RELEASE, "k1 k2", "t", 0);
    set.calls[0].owner = release.calls[0].owner = &set;
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 1000);
    world_until_done(&world, &set, 2);
    assert_int_equal(server_ask_integer(&server, "EXISTS k1 k2"), 0);

    /* Without a release behind it, it is repeated in the same attempt. */
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k1 k2", "t", 60000), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    ask_init(&extend, NET_EXTEND, "k1 k2", "t", 90000);
    ask_send(&world, &extend, 1, 1000, 0);
    world_until_done(&world, &extend, 1);
    assert_int_equal(extend.verdicts[0], REDLOCK_VERDICT_GRANTED);
    world_close(&world);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_unix_socket_and_database),
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_flushed_scripts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
