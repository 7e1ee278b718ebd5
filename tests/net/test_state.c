/* SPDX-License-Identifier: BSD-2-Clause
 * What a server says of itself and of the quorum it is a member of: on real servers in RESP2 and
 * RESP3, and by one that says what it should not. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "servers.h"

static void open_url(struct world *world, const char *url, bool guarded, bool asks_quorum) {
    struct net_options options = world_options(url);
    options.guarded = guarded;
    options.asks_quorum = asks_quorum;
    world_open(world, &options);
    world_until_ready(world, 1);
}

static void open_server(struct world *world, const struct server *server, bool guarded) {
    char url[64];
    server_url(server, url, sizeof(url));
    open_url(world, url, guarded, false);
}

/* ---- NET_STATE ---- */

static int ask_state(struct world *world, struct net_state *reported) {
    struct ask ask;
    ask_init(&ask, NET_STATE, "", "", 0);
    int verdict = ask_and_wait(world, &ask);
    assert_int_equal(ask.has_state, verdict == REDLOCK_VERDICT_GRANTED);
    *reported = ask.reported;
    return verdict;
}

static void expect_state(struct server *server, struct server *other, bool guarded) {
    struct world world;
    struct net_state reported, again;
    open_server(&world, server, guarded);
    assert_int_equal(ask_state(&world, &reported), REDLOCK_VERDICT_GRANTED);
    int64_t now_us = (int64_t)time(NULL) * 1000000;
    assert_in_range(reported.wall_us, now_us - 2000000, now_us + 2000000);
    assert_int_equal(strlen(reported.replid), 40);
    assert_false(reported.replica);
    assert_int_equal(reported.replicas, 0);
    assert_false(reported.may_evict);
    assert_int_equal(reported.evicted, 0);
    assert_int_equal(reported.clients, guarded ? 1 : 0); /* this one */

    freeReplyObject(server_ask(server, "CONFIG SET maxmemory-policy volatile-random"));
    assert_int_equal(ask_state(&world, &again), REDLOCK_VERDICT_GRANTED);
    assert_true(again.may_evict);
    assert_in_range(again.wall_us, reported.wall_us + 1, reported.wall_us + 60000000);
    freeReplyObject(server_ask(server, "SET gone x PX 60000"));
    freeReplyObject(server_ask(server, "CONFIG SET maxmemory 1"));
    freeReplyObject(server_ask(server, "SET other x"));
    assert_int_equal(ask_state(&world, &again), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(again.evicted, 1);
    freeReplyObject(server_ask(server, "CONFIG SET maxmemory 0"));
    freeReplyObject(server_ask(server, "CONFIG SET maxmemory-policy noeviction"));
    freeReplyObject(server_ask(server, "CONFIG RESETSTAT"));

    freeReplyObject(server_ask(server, "REPLICAOF 127.0.0.1 %d", other->port));
    assert_int_equal(ask_state(&world, &again), REDLOCK_VERDICT_GRANTED);
    assert_true(again.replica); /* from then on, and not from when it has the other's data */
    assert_false(again.may_evict);
    freeReplyObject(server_ask(server, "REPLICAOF NO ONE"));
    assert_int_equal(ask_state(&world, &again), REDLOCK_VERDICT_GRANTED);
    assert_false(again.replica);
    assert_string_not_equal(again.replid, reported.replid); /* a round trip is seen afterwards */
    world_close(&world);
}

static bool has_replicas(struct world *world, void *context) {
    struct net_state reported;
    assert_int_equal(ask_state(world, &reported), REDLOCK_VERDICT_GRANTED);
    return reported.replicas == *(unsigned *)context;
}

static void test_state_of_servers(void **state) {
    static const char *const arguments[] = {"--repl-diskless-sync-delay", "0", NULL};
    struct server server = {0}, other = {0};
    struct world world;
    unsigned one = 1;
    (void)state;
    server_start(&server, arguments);
    server_start(&other, arguments);
    expect_state(&server, &other, true);
    expect_state(&server, &other, false);
    open_server(&world, &server, true);
    freeReplyObject(server_ask(&other, "REPLICAOF 127.0.0.1 %d", server.port));
    world_until(&world, has_replicas, &one, "the replica is seen");
    world_close(&world);
    server_stop(&server);
    server_stop(&other);
}

#define TIME "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
#define REPLID "0123456789abcdef0123456789abcdef01234567"
#define REPLICATION "role:master\r\nconnected_slaves:2\r\nmaster_replid:" REPLID "\r\n"
#define MEMORY "maxmemory_policy:noeviction\r\n"
#define STATS "evicted_keys:18446744073709551615\r\n"
#define CLIENTS "connected_clients:9\r\ntracking_clients:7\r\n"

struct answers {
    const char *time, *replication, *memory, *stats, *clients;
};

/* As RESP3 has it: verbatim. An error or another kind goes as it is. */
static void say(struct fake *fake, const char *text) {
    char reply[512];
    bool raw = text[0] == '-' || text[0] == ':';
    if (raw)
        snprintf(reply, sizeof(reply), "%s", text);
    else
        snprintf(reply, sizeof(reply), "=%zu\r\ntxt:%s\r\n", strlen(text) + 4, text);
    fake_say_text(fake, reply);
}

static struct ask asked;

static void report_state(struct fake *fake, struct world *world, struct answers answers) {
    char url[64];
    fake_open(fake);
    fake->guarded = true;
    fake_url(fake, url, sizeof(url));
    struct net_options options = world_options(url);
    options.guarded = true;
    world_open(world, &options);
    fake_greet(fake, world);
    world_until_ready(world, 1);
    ask_init(&asked, NET_STATE, "", "", 0);
    ask_send(world, &asked, 1, 1000, 0);
    fake_await(fake, world, FAKE_GREETED_GUARDED + 5);
    static const char commands[] = "*1\r\n$4\r\nTIME\r\n*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n*"
                                   "2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n"
                                   "*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n"
                                   "*2\r\n$4\r\nINFO\r\n$7\r\nclients\r\n";
    size_t bytes = sizeof(commands) - 1;
    assert_memory_equal(fake->input + fake->input_bytes - bytes, commands, bytes);
    fake_say_text(fake, answers.time);
    say(fake, answers.replication);
    say(fake, answers.memory);
    say(fake, answers.stats);
    say(fake, answers.clients);
    world_until_done(world, &asked, 1);
}

static void expect_verdict(struct answers answers, int verdict, bool breaks) {
    struct fake fake;
    struct world world;
    report_state(&fake, &world, answers);
    if (asked.verdicts[0] != verdict)
        fail_msg("%s %s %s %s: %d, not %d", answers.time, answers.replication, answers.memory,
                 answers.stats, asked.verdicts[0], verdict);
    assert_int_equal(asked.has_state, verdict == REDLOCK_VERDICT_GRANTED);
    assert_int_equal(net_ready(world.net, net_now(world.net)), !breaks);
    world_close(&world);
    fake_close(&fake);
}

static void expect_malformed(struct answers answers) {
    expect_verdict(answers, REDLOCK_VERDICT_PROTOCOL, false);
}

static void test_what_a_server_should_not_say(void **state) {
    static const char *const replications[] = {
        "",
        "connected_slaves:0\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nconnected_slaves:0\r\n",
        "role:sentinel\r\nconnected_slaves:0\r\nmaster_replid:" REPLID "\r\n",
        "role:masters\r\nconnected_slaves:0\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nconnected_slaves:x\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nconnected_slaves:-1\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nconnected_slaves:4294967296\r\nmaster_replid:" REPLID "\r\n",
        "role:master\r\nconnected_slaves:0\r\nmaster_replid:" REPLID "8\r\n",
        "role:master\r\nconnected_slaves:0\r\nmaster_replid:012\r\n",
        "role:master\r\nconnected_slaves:0\r\nmaster_replid:x" REPLID "\r\n",
        "connected_slaves:0\r\nrole:master\r\nmaster_replid:0123456789abcdef0123456789ABCDEF0123x\r\n",
    };
    static const char *const times[] = {
        "*2\r\n$1\r\nx\r\n$1\r\n0\r\n",
        "*2\r\n$1\r\n1\r\n$7\r\n1000000\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n0\r\n",
        "*2\r\n$20\r\n99999999999999999999\r\n$1\r\n0\r\n",
        "*2\r\n$13\r\n9223372036855\r\n$1\r\n0\r\n",
    };
    struct fake fake;
    struct world world;
    (void)state;
    report_state(&fake, &world, (struct answers){TIME, REPLICATION, MEMORY, STATS, CLIENTS});
    assert_int_equal(asked.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_true(asked.has_state);
    assert_int_equal(asked.reported.wall_us, INT64_C(1700000000123456));
    assert_string_equal(asked.reported.replid, REPLID);
    assert_int_equal(asked.reported.replicas, 2);
    assert_true(asked.reported.evicted == UINT64_MAX);
    assert_int_equal(asked.reported.clients, 7);
    world_close(&world);
    fake_close(&fake);

    /* servers of other makers may not count them */
    report_state(&fake, &world,
                 (struct answers){TIME, REPLICATION, MEMORY, STATS, "connected_clients:9\r\n"});
    assert_int_equal(asked.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(asked.reported.clients, 0);
    world_close(&world);
    fake_close(&fake);

    for (size_t i = 0; i < sizeof(replications) / sizeof(replications[0]); i++)
        expect_malformed((struct answers){TIME, replications[i], MEMORY, STATS, CLIENTS});
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        expect_malformed((struct answers){times[i], REPLICATION, MEMORY, STATS, CLIENTS});
    expect_malformed((struct answers){TIME, REPLICATION, "", STATS, CLIENTS});
    expect_malformed((struct answers){TIME, REPLICATION, "maxmemory_policy:\r\n", STATS, CLIENTS});
    expect_malformed((struct answers){TIME, REPLICATION, MEMORY,
                                      "evicted_keys:18446744073709551616\r\n", CLIENTS});
    expect_malformed((struct answers){TIME, REPLICATION, MEMORY, "expired_keys:1\r\n", CLIENTS});

    /* An error is the verdict, whatever else is told. */
    expect_verdict((struct answers){"-NOPERM x\r\n", REPLICATION, MEMORY, STATS, CLIENTS},
                   REDLOCK_VERDICT_NOPERM, false);
    expect_verdict((struct answers){TIME, "-LOADING x\r\n", "", "", CLIENTS},
                   REDLOCK_VERDICT_LOADING, false);
    expect_verdict((struct answers){TIME, REPLICATION, MEMORY, "-BUSY x\r\n", CLIENTS},
                   REDLOCK_VERDICT_BUSY, false);
    expect_verdict((struct answers){TIME, "", "-BUSY x\r\n", STATS, CLIENTS},
                   REDLOCK_VERDICT_PROTOCOL, false);
    /* Another kind of reply is the end of the connection. */
    expect_verdict((struct answers){TIME, ":1\r\n", MEMORY, STATS, CLIENTS},
                   REDLOCK_VERDICT_PROTOCOL, true);
    expect_verdict((struct answers){"*1\r\n$1\r\n1\r\n", REPLICATION, MEMORY, STATS, CLIENTS},
                   REDLOCK_VERDICT_PROTOCOL, true);
}

/* ---- the quorum ---- */

static void expect_quorum(struct server *server, const char *userinfo, const char *quorum) {
    struct world world;
    char url[100];
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    for (int guarded = 0; guarded < 2; guarded++) {
        if (guarded && userinfo[0] != '\0') continue;
        open_url(&world, url, guarded, true);
        assert_string_equal(world_node(&world, 0).quorum, quorum);
        world_close(&world);
        open_url(&world, url, guarded, false);
        assert_string_equal(world_node(&world, 0).quorum, ""); /* nobody asked */
        world_close(&world);
    }
}

/* Whether there is a record or not: the client may not know. Who does not ask does not care. */
static void expect_unreadable(struct server *server, const char *userinfo) {
    struct world world;
    char url[100];
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    struct net_options options = world_options(url);
    options.asks_quorum = true;
    world_open(&world, &options);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_NOPERM);
    assert_non_null(strstr(world_node(&world, 0).text, "+hget %R~redlock:node"));
    world_close(&world);
    open_url(&world, url, false, false);
    world_close(&world);
}

static void test_quorum_of_a_member(void **state) {
    struct server server = {0};
    (void)state;
    server_start(&server, NULL);
    freeReplyObject(server_ask(&server, "ACL SETUSER bob on >pw ~lock:* +@all"));
    bool permits_reading = servers_version() >= 700; /* a permission to read alone */
    if (permits_reading)
        freeReplyObject(
            server_ask(&server, "ACL SETUSER eve on >pw ~lock:* %%R~redlock:node +@all"));
    freeReplyObject(server_ask(&server, "ACL SETUSER joe on >pw ~* +@all -eval -evalsha"));
    expect_quorum(&server, "", "");
    server_ask_integer(&server, "HSET redlock:node nonce 1");
    expect_quorum(&server, "", "");
    server_ask_integer(&server, "HSET redlock:node quorum 0123456789abcdef");
    expect_quorum(&server, "", "0123456789abcdef");
    expect_unreadable(&server, "bob:pw@");
    if (permits_reading) expect_quorum(&server, "eve:pw@", "0123456789abcdef");
    expect_quorum(&server, "joe:pw@", "0123456789abcdef"); /* transactions */
    server_ask_integer(&server, "HSET redlock:node quorum %b", "a b\0\nc\xffZ0123456789",
                       (size_t)17);
    expect_quorum(&server, "", "a?b??c?Z01234567");
    server_ask_integer(&server, "HSET redlock:node quorum %s", "");
    expect_quorum(&server, "", "");
    server_ask_integer(&server, "DEL redlock:node");
    freeReplyObject(server_ask(&server, "SET redlock:node x"));
    expect_quorum(&server, "", "");
    server_stop(&server);
}

/* It is the one of the server that is there now. */
static void test_quorum_of_the_next_server(void **state) {
    struct server server = {0};
    struct world world;
    char url[64];
    (void)state;
    server_start(&server, NULL);
    server_ask_integer(&server, "HSET redlock:node quorum 0123456789abcdef");
    server_url(&server, url, sizeof(url));
    open_url(&world, url, false, true);
    server_restart(&server);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_string_equal(world_node(&world, 0).quorum, "0123456789abcdef");
    world_until_ready(&world, 1);
    assert_string_equal(world_node(&world, 0).quorum, "");
    world_close(&world);
    server_stop(&server);
}

static void test_quorum_is_asked_for(void **state) {
    struct server server = {0};
    struct world world;
    struct ask ask;
    (void)state;
    server_start(&server, NULL);
    for (int guarded = 0; guarded < 2; guarded++) {
        server_ask_integer(&server, "DEL redlock:node");
        open_server(&world, &server, guarded);
        ask_init(&ask, NET_SERVER_INFO, "", "", 0);
        ask.request.question = NET_ASK_QUORUM;
        assert_int_equal(ask_and_wait(&world, &ask), REDLOCK_VERDICT_GRANTED);
        assert_int_equal(ask.items, 0);
        server_ask_integer(&server, "HSET redlock:node quorum 0123456789abcdef");
        assert_int_equal(ask_and_wait(&world, &ask), REDLOCK_VERDICT_GRANTED);
        assert_int_equal(ask.items, 1);
        assert_memory_equal(ask.value, "0123456789abcdef ", 17);
        server_ask_integer(&server, "DEL redlock:node");
        freeReplyObject(server_ask(&server, "SET redlock:node x"));
        assert_int_equal(ask_and_wait(&world, &ask), REDLOCK_VERDICT_WRONGTYPE);
        world_close(&world);
    }
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_of_servers),
        cmocka_unit_test(test_what_a_server_should_not_say),
        cmocka_unit_test(test_quorum_of_a_member),
        cmocka_unit_test(test_quorum_of_the_next_server),
        cmocka_unit_test(test_quorum_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
