/* SPDX-License-Identifier: BSD-2-Clause
 * One command that compares and deletes, in place of the script of a release: used where the server
 * has shown on a key of our own that it compares. */
#include "fake.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/scripts.h"
#include "servers.h"

enum { GREETED = FAKE_GREETED, TRIAL = 4 };

#define NO(name) "-ERR unknown command '" name "', with args beginning with: \r\n"
#define KNOWS(name) "-ERR wrong number of arguments for '" name "' command\r\n"
#define PASSED "+OK\r\n:0\r\n:1\r\n:0\r\n"

static const struct kind {
    const char *deleters, *trial, *release;
} kinds[] = {
    {KNOWS("delex") NO("DELIFEQ"), "*4\r\n$5\r\nDELEX\r\n$38\r\nredlock:waiting:",
     "*4\r\n$5\r\nDELEX\r\n$1\r\na\r\n$4\r\nIFEQ\r\n$1\r\nt\r\n"},
    {NO("DELEX") KNOWS("delifeq"), "*3\r\n$7\r\nDELIFEQ\r\n$38\r\nredlock:waiting:",
     "*3\r\n$7\r\nDELIFEQ\r\n$1\r\na\r\n$1\r\nt\r\n"},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void greet(struct fake *fake, struct world *world, const char *deleters) {
    char url[64];
    fake_open(fake);
    fake->deleters = deleters;
    fake_url(fake, url, sizeof(url));
    world_open_urls(world, url);
    fake_greet(fake, world);
    world_until_ready(world, 1);
}

static void end(struct fake *fake, struct world *world) {
    world_close(world);
    fake_close(fake);
}

/* Sends the request, and checks what the server gets after what it has seen: `commands`, the last
 * of which is `by`. */
static void send(struct fake *fake, struct world *world, struct ask *ask, size_t commands,
                 const char *by) {
    const size_t before = fake->input_bytes, seen = fake->seen;
    ask_send(world, ask, 1, 1000, 4000);
    fake_await(fake, world, seen + commands);
    assert_int_equal(fake->seen, seen + commands);
    if (!memmem(fake->input + before, fake->input_bytes - before, by, strlen(by)))
        fail_msg("\"%s\" was not sent, but \"%.*s\"", by, (int)(fake->input_bytes - before),
                 fake->input + before);
}

static void answers(struct fake *fake, struct world *world, struct ask *ask, const char *answer,
                    int verdict) {
    fake_say_text(fake, answer);
    world_until_done(world, ask, 1);
    assert_int_equal(ask->verdicts[0], verdict);
}

static void expect(struct fake *fake, struct world *world, enum net_op op, size_t commands,
                   const char *by, const char *answer, int verdict) {
    struct ask ask;
    ask_init(&ask, op, "a", "t", 1000);
    ask.request.tells_holder = false;
    send(fake, world, &ask, commands, by);
    answers(fake, world, &ask, answer, verdict);
}

/* The server's answers to the trial come before that to the first write. */
static void pass(struct fake *fake, struct world *world, const struct kind *kind) {
    expect(fake, world, NET_ACQUIRE, TRIAL + 1, kind->trial, PASSED "+OK\r\n",
           REDLOCK_VERDICT_GRANTED);
}

/* The release of a caller who wants to know who held the key is under way, as one command. */
static void begin_release(struct fake *fake, struct world *world, struct ask *release) {
    greet(fake, world, kinds[0].deleters);
    pass(fake, world, &kinds[0]);
    ask_init(release, NET_RELEASE, "a", "t", 0);
    assert_true(release->request.tells_holder);
    send(fake, world, release, 1, kinds[0].release);
}

static void test_one_command_releases(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *kind = &kinds[i];
        struct fake fake;
        struct world world;
        greet(&fake, &world, kind->deleters);
        expect(&fake, &world, NET_PEEK, 1, "PTTL", ":-2\r\n", REDLOCK_VERDICT_ABSENT);
        pass(&fake, &world, kind);
        expect(&fake, &world, NET_RELEASE, 1, kind->release, ":1\r\n", REDLOCK_VERDICT_GRANTED);
        expect(&fake, &world, NET_RELEASE, 1, kind->release, ":0\r\n", REDLOCK_VERDICT_ABSENT);
        expect(&fake, &world, NET_ACQUIRE, 1, "SET", "+OK\r\n", REDLOCK_VERDICT_GRANTED);
        expect(&fake, &world, NET_EXTEND, 1, node_scripts[NODE_EXTEND].text, ":1\r\n",
               REDLOCK_VERDICT_GRANTED);
        fake_hang_up(&fake); /* another connection, perhaps to another server */
        fake.deleters = NULL;
        fake_greet(&fake, &world);
        world_until_ready(&world, 1);
        expect(&fake, &world, NET_ACQUIRE, 1, "SET", "+OK\r\n", REDLOCK_VERDICT_GRANTED);
        expect(&fake, &world, NET_RELEASE, 1, "EVALSHA", ":1\r\n", REDLOCK_VERDICT_GRANTED);
        end(&fake, &world);
    }
}

/* An emulator that does not compare must not lose another client's lock; a user without the
 * permission goes on as before. */
static void test_a_trial_that_fails(void **state) {
    static const char denied[] =
        "-NOPERM this user has no permissions to run the 'delex' command\r\n";
    /* after each of them DEL finds nothing */
    static const char *const trials[][3] = {
        {"+OK\r\n", ":1\r\n", ":0\r\n"},   /* it deletes whatever there is */
        {"+OK\r\n", ":0\r\n", ":0\r\n"},   /* it never deletes */
        {"+OK\r\n", ":1\r\n", ":1\r\n"},   /* it does nothing */
        {"+OK\r\n", "+OK\r\n", "+OK\r\n"}, /* it takes the command for another one */
        {"+OK\r\n", "*0\r\n", "$-1\r\n"},
        {"$-1\r\n", ":0\r\n", ":1\r\n"},
        {"+OK\r\n", denied, denied},
        {"-NOPERM no keys\r\n", denied, denied},
        {"-OOM no memory\r\n", ":0\r\n", ":0\r\n"},
        {"-READONLY a replica\r\n", "-READONLY a replica\r\n", "-READONLY a replica\r\n"},
        {"+OK\r\n", "-ERR x\r\n", "-ERR x\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        struct fake fake;
        struct world world;
        char text[512];
        greet(&fake, &world, kinds[0].deleters);
        snprintf(text, sizeof(text), "%s%s%s:0\r\n+OK\r\n", trials[i][0], trials[i][1],
                 trials[i][2]);
        expect(&fake, &world, NET_ACQUIRE, TRIAL + 1, kinds[0].trial, text,
               REDLOCK_VERDICT_GRANTED);
        expect(&fake, &world, NET_RELEASE, 1, node_scripts[NODE_RELEASE].sha1, ":1\r\n",
               REDLOCK_VERDICT_GRANTED);
        assert_string_equal(world_node(&world, 0).denied, ""); /* no lock needs it */
        end(&fake, &world);
    }
}

/* What a server says to the names alone: only an objection to the number of arguments counts. */
static void test_a_server_that_does_not_know_it(void **state) {
    static const char *const deleters[] = {
        "+OK\r\n+OK\r\n",
        ":0\r\n:0\r\n",
        "-NOPERM no\r\n-NOPERM no\r\n",
        "-ERR invalid request\r\n-ERR invalid request\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(deleters) / sizeof(deleters[0]); i++) {
        struct fake fake;
        struct world world;
        greet(&fake, &world, deleters[i]);
        expect(&fake, &world, NET_ACQUIRE, 1, "SET", "+OK\r\n", REDLOCK_VERDICT_GRANTED);
        expect(&fake, &world, NET_RELEASE, 1, "EVALSHA", ":1\r\n", REDLOCK_VERDICT_GRANTED);
        end(&fake, &world);
    }
}

static void test_a_release_before_the_trial_is_over(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    greet(&fake, &world, kinds[1].deleters);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&release, NET_RELEASE, "a", "t", 0);
    send(&fake, &world, &set, TRIAL + 1, kinds[1].trial);
    send(&fake, &world, &release, 1, "EVALSHA");
    answers(&fake, &world, &release, PASSED "+OK\r\n:1\r\n", REDLOCK_VERDICT_GRANTED);
    expect(&fake, &world, NET_RELEASE, 1, kinds[1].release, ":1\r\n", REDLOCK_VERDICT_GRANTED);
    end(&fake, &world);
}

/* Its 0 says neither "absent" nor "another's", and an error is only the script's to explain. */
static void test_the_script_is_asked_after_it(void **state) {
    static const struct {
        const char *first, *then;
        int verdict;
        bool goes_on;
    } table[] = {
        {":0\r\n", ":-1\r\n", REDLOCK_VERDICT_DENIED, true},
        {":0\r\n", ":0\r\n", REDLOCK_VERDICT_ABSENT, true},
        {":0\r\n", ":1\r\n", REDLOCK_VERDICT_GRANTED, true},
        {"-ERR Key should be of string type if conditions are specified\r\n",
         "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
         REDLOCK_VERDICT_WRONGTYPE, false},
        {"-NOPERM no delex\r\n", ":1\r\n", REDLOCK_VERDICT_GRANTED, false},
        {"-ERR unknown command 'DELEX'\r\n", ":1\r\n", REDLOCK_VERDICT_GRANTED, false},
        {"-READONLY x\r\n", "-READONLY x\r\n", REDLOCK_VERDICT_READONLY, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake fake;
        struct world world;
        struct ask release;
        begin_release(&fake, &world, &release);
        fake_say_text(&fake, table[i].first);
        fake_await(&fake, &world, GREETED + TRIAL + 1 + 2);
        assert_int_equal(release.done, 0);
        answers(&fake, &world, &release, table[i].then, table[i].verdict);
        expect(&fake, &world, NET_RELEASE, 1, table[i].goes_on ? kinds[0].release : "EVALSHA",
               ":1\r\n", REDLOCK_VERDICT_GRANTED);
        end(&fake, &world);
    }
}

static void test_a_wrong_answer_ends_the_connection(void **state) {
    static const char *const wrong[] = {":2\r\n", ":-1\r\n", "+OK\r\n", "$-1\r\n", "*0\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fake fake;
        struct world world;
        struct ask release;
        begin_release(&fake, &world, &release);
        fake_say_text(&fake, wrong[i]);
        world_until_verdict(&world, 0, REDLOCK_VERDICT_PROTOCOL);
        fake_greet(&fake, &world);
        fake_await(&fake, &world, GREETED + TRIAL + 1); /* tried anew; the release is sent again */
        answers(&fake, &world, &release, PASSED ":0\r\n", REDLOCK_VERDICT_DISCONNECTED);
        end(&fake, &world);
    }
}

/* Lost with its connection, the trial does not count, and the next connection has its own. */
static void test_a_trial_is_lost(void **state) {
    struct fake fake;
    struct world world;
    struct ask set;
    (void)state;
    greet(&fake, &world, kinds[0].deleters);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    send(&fake, &world, &set, TRIAL + 1, kinds[0].trial);
    fake_say_text(&fake, "+OK\r\n:0\r\n");
    world_for(&world, 10);
    fake_hang_up(&fake);
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    pass(&fake, &world, &kinds[0]);
    expect(&fake, &world, NET_RELEASE, 1, kinds[0].release, ":1\r\n", REDLOCK_VERDICT_GRANTED);
    end(&fake, &world);
}

/* ---- real servers ---- */

/* The command that this server has for it; "": none. */
static const char *known_to(struct server *server) {
    static const char *const names[] = {"delex", "delifeq"};
    for (size_t i = 0; i < 2; i++) {
        redisReply *reply = server_ask(server, names[i]);
        const bool known = strstr(reply->str, "wrong number of arguments") != NULL;
        freeReplyObject(reply);
        if (known) return names[i];
    }
    return "";
}

/* Calls that were carried out. */
static long long calls_of(struct server *server, const char *name) {
    char field[40];
    long long calls = 0;
    redisReply *reply = server_ask(server, "INFO commandstats");
    snprintf(field, sizeof(field), "cmdstat_%s:calls=", name);
    const char *at = strstr(reply->str, field);
    if (at) calls = strtoll(at + strlen(field), NULL, 10);
    freeReplyObject(reply);
    return calls;
}

static void open_server(struct server *server, struct world *world, const char *user) {
    char url[96];
    server_start(server, NULL);
    if (user[0] != '\0') freeReplyObject(server_ask(server, user));
    if (user[0] != '\0')
        snprintf(url, sizeof(url), "redis://locks:x@127.0.0.1:%d", server->port);
    else
        server_url(server, url, sizeof(url));
    world_open_urls(world, url);
    world_until_ready(world, 1);
}

static void every_release(struct world *world, struct server *server) {
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask_one(world, NET_ACQUIRE, "k", "t1", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t2", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_DENIED);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 1);
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "EXISTS k"), 0);
    server_ask_integer(server, "RPUSH k x");
    assert_int_equal(ask_one(world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(server_ask_integer(server, "DEL k"), 1);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 0);
}

static void test_on_a_server(void **state) {
    struct server server = {0};
    struct world world;
    (void)state;
    open_server(&server, &world, "");
    every_release(&world, &server);
    const char *name = known_to(&server);
    world_close(&world);
    char url[64];
    server_url(&server, url, sizeof(url));
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    const long long before = calls_of(&server, "evalsha"), deleted = calls_of(&server, name);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
        assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    }
    const bool known = name[0] != '\0';
    assert_int_equal(calls_of(&server, "evalsha") - before, known ? 0 : 5);
    if (known) assert_int_equal(calls_of(&server, name) - deleted, 2 + 5);
    assert_int_equal(server_ask_integer(&server, "DBSIZE"), 0);
    world_close(&world);
    server_stop(&server);
}

/* Each with the permissions of docs/operate/acl.md, and without this one. */
static void test_without_permission(void **state) {
    static const char *const users[] = {
        "ACL SETUSER locks on >x resetkeys ~k resetchannels -@all +set +get +del +exists +pttl "
        "+pexpire +eval +evalsha +info",
        "ACL SETUSER locks on >x resetkeys ~k ~redlock:waiting:* resetchannels -@all +set +get +del "
        "+exists +pttl +pexpire +eval +evalsha +info",
        "ACL SETUSER locks on >x resetkeys ~k resetchannels -@all +set +getrange +del +pttl "
        "+pexpire +watch +unwatch +multi +exec +discard +info",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        struct server server = {0};
        struct world world;
        open_server(&server, &world, users[i]);
        assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t1", 60000), REDLOCK_VERDICT_GRANTED);
        assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t2", 0), REDLOCK_VERDICT_DENIED);
        assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_GRANTED);
        assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t1", 0), REDLOCK_VERDICT_ABSENT);
        assert_string_equal(world_node(&world, 0).denied, "");
        const char *name = known_to(&server);
        if (name[0] != '\0') assert_int_equal(calls_of(&server, name), 0);
        assert_int_equal(server_ask_integer(&server, "DBSIZE"), 0); /* nothing of the trial's */
        world_close(&world);
        server_stop(&server);
    }
}

/* Scripts are refused, the command is not: no transaction is needed, but for the second question.
 */
static void test_without_scripts(void **state) {
    struct server server = {0};
    struct world world;
    char user[256];
    (void)state;
    server_start(&server, NULL);
    const char *name = known_to(&server);
    server_stop(&server);
    snprintf(user, sizeof(user),
             "ACL SETUSER locks on >x resetkeys ~* resetchannels -@all +set +getrange +del +pttl "
             "+pexpire +watch +unwatch +multi +exec +discard +info %s%s",
             name[0] != '\0' ? "+" : "", name);
    open_server(&server, &world, user);
    assert_true(world_node(&world, 0).uses_transactions);
    const long long before = calls_of(&server, "multi");
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(calls_of(&server, "multi") - before, name[0] != '\0' ? 0 : 1);
    every_release(&world, &server);
    world_close(&world);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_command_releases),
        cmocka_unit_test(test_a_trial_that_fails),
        cmocka_unit_test(test_a_server_that_does_not_know_it),
        cmocka_unit_test(test_a_release_before_the_trial_is_over),
        cmocka_unit_test(test_the_script_is_asked_after_it),
        cmocka_unit_test(test_a_wrong_answer_ends_the_connection),
        cmocka_unit_test(test_a_trial_is_lost),
        cmocka_unit_test(test_on_a_server),
        cmocka_unit_test(test_without_permission),
        cmocka_unit_test(test_without_scripts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
