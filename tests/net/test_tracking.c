/* SPDX-License-Identifier: BSD-2-Clause Being told of changes by a real server: by whomever, once
 * for each look, again after each loss; and the line of those who wait. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servers.h"

static struct server server;
static bool guarded; /* the nets are */

static int start_server(void **state) {
    (void)state;
    server_start(&server, NULL);
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    server_stop(&server);
    return 0;
}

static bool is_watched(struct world *world, void *context) {
    return net_tracked(world->net) == *(rl_mask *)context;
}

static void until_watched(struct world *world, rl_mask nodes) {
    world_until(world, is_watched, &nodes, "the nodes tell of changes");
}

static bool has_changes(struct world *world, void *context) {
    return world->changes >= *(unsigned *)context;
}
static void until_changes(struct world *world, unsigned count) {
    world_until(world, has_changes, &count, "a change is told");
}
static bool has_ranks(struct world *world, void *context) {
    return world->ranks >= *(unsigned *)context;
}

static void open_url(struct world *world, const char *url) {
    struct net_options options = world_options(url);
    options.guarded = guarded;
    world_open(world, &options);
    world_until_ready(world, 1);
}

static void open_world(struct world *world) {
    char url[64];
    server_url(&server, url, sizeof(url));
    open_url(world, url);
    assert_int_equal(world_node(world, 0).announces, guarded);
}

static void watch(struct world *world) {
    net_track(world->net, true);
    until_watched(world, 1);
    world->changes = 0; /* the first says that the node tells from now on */
}

static int look(struct world *world) { return ask_one(world, NET_WATCH, "k", "", 0); }

static long long subscribers(void) {
    return server_ask_integer(&server, "EVAL %s 0",
                              "return #redis.call('PUBSUB', 'CHANNELS', 'redlock:wake:*')");
}

static void a_change_is_reported_whoever_makes_it(void **state) {
    (void)state;
    struct world world;
    struct ask ask;
    open_world(&world);
    assert_int_equal(net_tracked(world.net), 0);
    assert_int_equal(subscribers(), 0); /* nobody waits: no second connection */
    watch(&world);
    assert_int_equal(subscribers(), 1);
    freeReplyObject(server_ask(&server, "SET k other PX 60000"));
    ask_init(&ask, NET_WATCH, "k", "", 0);
    assert_int_equal(ask_and_wait(&world, &ask), REDLOCK_VERDICT_GRANTED);
    assert_in_range(ask.remaining_ms, 50000, 60000);
    server_ask_integer(&server, "DEL k");
    until_changes(&world, 1);
    assert_string_equal(world.key, "k");
    server_ask_integer(&server, "DEL k"); /* once only; and nothing has changed */
    assert_int_equal(look(&world), REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(&server, "SET k other PX 60000")); /* absent keys are told of too */
    until_changes(&world, 2);
    assert_int_equal(look(&world), REDLOCK_VERDICT_GRANTED);
    server_ask_integer(&server, "PEXPIRE k 90000"); /* a renewal looks the same */
    until_changes(&world, 3);
    assert_int_equal(look(&world), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "FLUSHALL"));
    until_changes(&world, 4);
    world_for(&world, 50);
    assert_int_equal(world.changes, 4);
    world_close(&world);
}

static void what_we_do_ourselves_is_not_reported(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    watch(&world);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(look(&world), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "SET other x")); /* nor what nobody looked at */
    world_for(&world, 50);
    assert_int_equal(world.changes, guarded); /* there only what changes nothing is not told */
    world_close(&world);
}

/* A waiter that tries in vain must not be told of that, or it would never sleep. */
static void a_try_in_vain_is_not_reported(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    watch(&world);
    freeReplyObject(server_ask(&server, "SET k other PX 60000"));
    assert_int_equal(look(&world), REDLOCK_VERDICT_GRANTED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_DENIED);
        assert_int_equal(ask_one(&world, NET_EXTEND, "k", "t", 60000), REDLOCK_VERDICT_DENIED);
        assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_DENIED);
    }
    world_for(&world, 50);
    assert_int_equal(world.changes, 0);
    server_ask_integer(&server, "DEL k");
    until_changes(&world, 1);
    assert_int_equal(look(&world), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_ABSENT);
    world_for(&world, 50);
    assert_int_equal(world.changes, 1);
    world_close(&world);
}

/* The database of the URL is the one that is looked at; and one server is looked at, and not
 * another. */
static void a_look_is_at_the_right_place(void **state) {
    (void)state;
    struct world world;
    char url[64];
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d/3", server.port);
    open_url(&world, url);
    watch(&world);
    freeReplyObject(server_ask(&server, "SET k other PX 60000")); /* in database 0 */
    assert_int_equal(look(&world), REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(&server, "MOVE k 3"));
    until_changes(&world, 1);
    assert_int_equal(look(&world), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "FLUSHALL"));
    world_close(&world);
}

/* Calls that are out when the connection goes are done, and say so. */
static void looks_are_lost_with_their_connection(void **state) {
    (void)state;
    struct world world;
    for (int i = 0; i < 2; i++) {
        struct ask ask;
        open_world(&world);
        watch(&world);
        ask_init(&ask, NET_WATCH, "k", "", 0);
        server_pause(&server);
        assert_int_equal(ask_send(&world, &ask, 1, 1000, 0), 1);
        world_for(&world, 5);
        assert_int_equal(ask.done, 0);
        if (i == 0) {
            net_reconnect(world.net, 0, REDLOCK_VERDICT_ERROR, "so the test says");
            world_for(&world, 5);
            assert_int_equal(ask.done, 1);
        }
        world_close(&world);
        assert_int_equal(ask.done, 1);
        assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
        server_resume(&server);
    }
}

/* A look that is never answered says nothing against the votes. */
static void a_look_that_stalls_ends_its_connection_alone(void **state) {
    (void)state;
    struct world world;
    struct ask ask;
    char url[64];
    if (!guarded) return;
    server_url(&server, url, sizeof(url));
    struct net_options options = world_options(url);
    options.guarded = true;
    options.stall_timeout = 1000 * RL_MS; /* far above the 30 ms below, also on a busy machine */
    world_open(&world, &options);
    world_until_ready(&world, 1);
    watch(&world);
    ask_init(&ask, NET_WATCH, "k", "", 0);
    server_pause(&server);
    assert_int_equal(ask_send(&world, &ask, 1, 10, 0), 1);
    world_for(&world, 30);
    assert_int_equal(ask.done, 0);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    world_until_done(&world, &ask, 1);
    assert_int_equal(ask.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(net_tracked(world.net), 0);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    server_resume(&server);
    until_watched(&world, 1);
    assert_int_equal(world_node(&world, 0).reconnects, 0);
    world_close(&world);
}

static void a_node_that_does_not_report_takes_no_look(void **state) {
    (void)state;
    struct world world;
    struct ask ask;
    if (!guarded) return;
    open_world(&world);
    ask_init(&ask, NET_WATCH, "k", "", 0);
    assert_int_equal(ask_send(&world, &ask, 1, 1000, 0), 0);
    assert_false(ask.calls[0].busy);
    net_track(world.net, true);
    assert_int_equal(ask_send(&world, &ask, 1, 1000, 0), 0);
    until_watched(&world, 1);
    assert_int_equal(ask_and_wait(&world, &ask), REDLOCK_VERDICT_ABSENT);
    world_close(&world);
}

static void a_lost_connection_is_made_again_and_reported(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < 3; i++) {
        watch(&world);
        assert_int_equal(look(&world), REDLOCK_VERDICT_ABSENT);
        if (i < 2)
            server_ask_integer(&server, i == 0 ? "CLIENT KILL TYPE pubsub"
                                               : "CLIENT KILL TYPE normal SKIPME yes");
        else
            net_reconnect(world.net, 0, REDLOCK_VERDICT_ERROR, "so the test says");
        until_watched(&world, 0);
        until_watched(&world, 1);
        assert_string_equal(world.key, ""); /* any key may have changed meanwhile */
        world.changes = 0;
        assert_int_equal(look(&world), REDLOCK_VERDICT_ABSENT);
        freeReplyObject(server_ask(&server, "SET k x"));
        until_changes(&world, 1);
        assert_string_equal(world.key, "k");
        server_ask_integer(&server, "DEL k");
    }
    world_close(&world);
}

static void nobody_waits_any_more(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    watch(&world);
    net_track(world.net, false);
    assert_int_equal(net_tracked(world.net), 0);
    net_track(world.net, true);
    assert_int_equal(net_tracked(world.net), 1); /* at once: the connection stays for a while */
    world_close(&world);
}

/* ---- the line ---- */

static int line(struct world *world, enum net_op op, const char *token, int64_t ttl_ms,
                int64_t age_us, bool passes) {
    struct ask ask;
    ask_init(&ask, op, NET_KEY_WAITING "k " NET_KEY_WAITERS "k", token, ttl_ms);
    ask.request.age_us = age_us;
    ask.request.passes = passes;
    assert_int_equal(ask_and_wait(world, &ask), REDLOCK_VERDICT_GRANTED);
    return (int)ask.count;
}

static void a_line_is_by_age_and_forgets_the_dead(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "a", 5000, 0, false), 0);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "b", 5000, 0, false), 1);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "c", 5000, 9000000, false),
                     0); /* has waited elsewhere for 9 s */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "b", 5000, 0, false), 2);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "a", 5000, 0, false),
                     1); /* its place is that of the first time */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "c", 0, 0, false), 2);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "c", 0, 0, false),
                     2); /* who is not there leaves nothing */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "b", 5000, 0, false), 1);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "d", 5000, 0, false), 2);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "b", 0, 0, true),
                     1); /* and takes along whoever did not come before it */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "d", 5000, 0, false), 0);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "e", 20, 0, false), 1);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "f", 5000, 0, false), 2);
    world_for(&world, 30);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "f", 5000, 0, false),
                     1); /* e has said nothing for too long */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "d", 0, 0, false), 1);
    assert_in_range(server_ask_integer(&server, "PTTL " NET_KEY_WAITING "k"), 1000,
                    20000); /* nothing stays for ever */
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "f", 0, 0, false), 0);
    assert_int_equal(
        server_ask_integer(&server, "EXISTS " NET_KEY_WAITING "k " NET_KEY_WAITERS "k"), 0);
    world_close(&world);
}

static void whose_turn_it_is_is_reported(void **state) {
    (void)state;
    struct world world;
    unsigned one = 1;
    char token[32];
    open_world(&world);
    watch(&world);
    snprintf(token, sizeof(token), "%.*s", (int)net_waiter(world.net).bytes,
             (const char *)net_waiter(world.net).data);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "a", 5000, 0, false), 0);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, "b", 5000, 0, false), 1);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_ENTER, token, 5000, 0, false), 2);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "a", 0, 0, false),
                     2); /* ours is not the next turn yet */
    world_for(&world, 30);
    assert_int_equal(world.ranks, 0);
    assert_int_equal(line(&world, NET_WAIT_QUEUE_LEAVE, "b", 0, 0, false), 1);
    world_until(&world, has_ranks, &one, "the rank is told");
    assert_int_equal(world.rank, 0);
    assert_string_equal(world.key, "k");
    /* Anybody may publish anything. */
    static const char *const nonsense[] = {"", " ", "x", "1", "-1 k", "99999999 k", "0", "0x k"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        server_ask_integer(&server, "PUBLISH %s%s %s", NET_CHANNEL_WAKE, token, nonsense[i]);
    world_for(&world, 30);
    assert_int_equal(world.ranks, 1);
    assert_int_equal(net_tracked(world.net), 1);
    line(&world, NET_WAIT_QUEUE_LEAVE, token, 0, 0, false);
    world_close(&world);
}

/* Whoever may not subscribe, or not ask to be told, polls; and the log says so. */
static void refusals_are_no_failures(void **state) {
    (void)state;
    static const char *const refused[] = {"-subscribe", "resetchannels", "-client"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct world world;
        char url[64];
        freeReplyObject(
            server_ask(&server, "ACL SETUSER w reset on >p ~* &* +@all %s", refused[i]));
        snprintf(url, sizeof(url), "redis://w:p@127.0.0.1:%d", server.port);
        open_url(&world, url);
        net_track(world.net, true);
        world_for(&world, 60);
        assert_int_equal(net_tracked(world.net), 0);
        assert_non_null(strstr(world.log, "waiting polls"));
        assert_null(strstr(strstr(world.log, "waiting polls") + 1, "waiting polls")); /* once */
        assert_int_equal(ask_one(&world, NET_PEEK, "k", "", 0),
                         REDLOCK_VERDICT_ABSENT); /* all else goes on */
        world_close(&world);
    }
}

int main(int count, char **arguments) {
    (void)arguments;
    guarded = count > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_reported_whoever_makes_it),
        cmocka_unit_test(what_we_do_ourselves_is_not_reported),
        cmocka_unit_test(a_try_in_vain_is_not_reported),
        cmocka_unit_test(a_look_is_at_the_right_place),
        cmocka_unit_test(looks_are_lost_with_their_connection),
        cmocka_unit_test(a_look_that_stalls_ends_its_connection_alone),
        cmocka_unit_test(a_node_that_does_not_report_takes_no_look),
        cmocka_unit_test(a_lost_connection_is_made_again_and_reported),
        cmocka_unit_test(nobody_waits_any_more),
        cmocka_unit_test(a_line_is_by_age_and_forgets_the_dead),
        cmocka_unit_test(whose_turn_it_is_is_reported),
        cmocka_unit_test(refusals_are_no_failures),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
