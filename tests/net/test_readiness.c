/* SPDX-License-Identifier: BSD-2-Clause Which nodes may be asked: servers that die, come back, stop
 * answering, or are listed under two names. */
#include "world.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers.h"

static void start_with(struct server *server, struct world *world, const char *const *arguments) {
    char url[64];
    server_start(server, arguments);
    server_url(server, url, sizeof(url));
    world_open_urls(world, url);
}

static void start(struct server *server, struct world *world) {
    start_with(server, world, NULL);
    world_until_ready(world, 1);
}

static void stop(struct server *server, struct world *world) {
    world_close(world);
    server_stop(server);
}

static void test_killed_and_restarted(void **state) {
    struct server server = {0};
    struct world world;
    (void)state;
    start(&server, &world);
    char first[41];
    memcpy(first, world_node(&world, 0).run_id, sizeof(first));
    unsigned reported = world.reported[0];
    server_kill(&server);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_REFUSED);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    assert_int_equal(net_settled(world.net), 1);
    assert_true(world.reported[0] > reported);
    struct ask ask;
    ask_init(&ask, NET_ACQUIRE, "k", "t", 60000);
    assert_int_equal(ask_send(&world, &ask, 1, 1000, 0), 0);
    assert_false(ask.calls[0].busy);
    server_restart(&server);
    world_until_ready(&world, 1);
    assert_string_not_equal(first, world_node(&world, 0).run_id);
    assert_int_equal(world_node(&world, 0).reconnects, 1);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    stop(&server, &world);
}

static void test_killed_with_calls_out(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set, release;
    (void)state;
    start(&server, &world);
    server_pause(&server);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 5000);
    assert_int_equal(net_busy_writes(world.net), 1);
    server_kill(&server);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(release.done, 0); /* kept for the next connection, which was not tried yet */
    assert_int_equal(net_busy_writes(world.net), 1);
    server_restart(&server);
    freeReplyObject(server_ask(&server, "SET k t"));
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(&server, "EXISTS k"), 0);
    stop(&server, &world);
}

static void test_release_kept_until(void **state) {
    struct server server = {0};
    struct world world;
    struct ask early, late;
    (void)state;
    start(&server, &world);
    server_kill(&server);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_REFUSED);
    ask_init(&late, NET_RELEASE, "k", "t", 0);
    ask_init(&early, NET_RELEASE, "k", "t", 0);
    assert_int_equal(ask_send(&world, &late, 1, 10, 4000), 1);
    assert_int_equal(ask_send(&world, &early, 1, 10, 100), 1);
    world_until_done(&world, &early, 1);
    assert_int_equal(early.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(late.done, 0);
    server_restart(&server);
    world_until_done(&world, &late, 1);
    assert_int_equal(late.verdicts[0], REDLOCK_VERDICT_ABSENT);
    stop(&server, &world);
}

static bool not_ready(struct world *world, void *context) {
    (void)context;
    return net_ready(world->net, net_now(world->net)) == 0;
}

static void test_overdue_is_not_ready(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set;
    (void)state;
    start(&server, &world);
    server_pause(&server);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_send(&world, &set, 1, 30, 0);
    unsigned reported = world.reported[0];
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    world_until(&world, not_ready, NULL, "the answer is overdue");
    assert_true(
        world.reported[0] > reported ||
        (world_turn(&world, net_now(world.net) + 50 * RL_MS), world.reported[0] > reported));
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_TIMEOUT);
    assert_int_equal(net_settled(world.net), 1);
    server_resume(&server);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_GRANTED); /* late, but an answer */
    world_until_ready(&world, 1);
    assert_int_equal(world_node(&world, 0).reconnects, 0);
    stop(&server, &world);
}

static void test_stalled_is_given_up(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set;
    char url[64];
    (void)state;
    server_start(&server, NULL);
    server_url(&server, url, sizeof(url));
    struct net_options options = world_options(url);
    options.stall_timeout = 200 * RL_MS;
    options.connect_timeout = 200 * RL_MS;
    world_open(&world, &options);
    world_until_ready(&world, 1);
    server_pause(&server);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_send(&world, &set, 1, 10, 0);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_TIMEOUT);
    server_resume(&server);
    world_until_ready(&world, 1);
    stop(&server, &world);
}

static void expect_twice_listed(const char *first, const char *second, int port) {
    struct world world;
    char urls[128];
    snprintf(urls, sizeof(urls), "redis://%s:%d redis://%s:%d", first, port, second, port);
    world_open_urls(&world, urls);
    world_until_verdict(&world, 1, REDLOCK_VERDICT_TWICE_LISTED);
    world_until_ready(&world, 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    assert_int_equal(net_settled(world.net), 3);
    assert_non_null(strstr(world_node(&world, 1).text, first));
    world_close(&world);
}

/* The name answers last, because it must be resolved. The first in the list counts all the same. */
static void test_twice_listed(void **state) {
    struct server server = {0};
    (void)state;
    server_start(&server, NULL);
    expect_twice_listed("127.0.0.1", "localhost", server.port);
    expect_twice_listed("localhost", "127.0.0.1", server.port);
    server_stop(&server);
}

/* A question that may take long must not hide that the answer behind it is overdue. */
static void test_overdue_behind_a_patient_call(void **state) {
    struct server server = {0};
    struct world world;
    struct ask look, set;
    (void)state;
    start(&server, &world);
    server_pause(&server);
    ask_init(&look, NET_PEEK_VALUE, "k", "", 0);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    assert_int_equal(ask_send(&world, &look, 1, 60000, 0), 1);
    assert_int_equal(ask_send(&world, &set, 1, 30, 0), 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    unsigned reported = world.reported[0];
    world_for(&world, 60);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    assert_int_equal(world.reported[0], reported + 1); /* by a timer: nothing else happened */
    server_resume(&server);
    world_until_done(&world, &set, 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    stop(&server, &world);
}

static void test_cluster_mode(void **state) {
    static const char *const arguments[] = {"--cluster-enabled", "yes", NULL};
    struct server server = {0};
    struct world world;
    (void)state;
    start_with(&server, &world, arguments);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_CLUSTER);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    stop(&server, &world);
}

static void test_too_many_clients(void **state) {
    static const char *const arguments[] = {"--maxclients", "1", NULL};
    struct server server = {0};
    struct world world, second;
    char url[64];
    (void)state;
    start_with(&server, &world, arguments);
    world_until_ready(&world, 1);
    server_url(&server, url, sizeof(url));
    world_open_urls(&second, url);
    world_until_verdict(&second, 0, REDLOCK_VERDICT_MAXCLIENTS);
    world_close(&world);
    world_until_ready(&second, 1);
    stop(&server, &second);
}

static void test_nobody_there(void **state) {
    struct world world;
    (void)state;
    world_open_urls(&world, "redis://no-such-host.invalid unix:///nonexistent/socket");
    world_until_verdict(&world, 0, REDLOCK_VERDICT_NAME);
    world_until_verdict(&world, 1, REDLOCK_VERDICT_REFUSED);
    assert_int_equal(net_settled(world.net), 3);
    world_close(&world);
}

/* Every answer of the real server that a lock may meet: with a script, and without ("k l" is two
 * keys). */
static void test_verdicts_of_a_real_server(void **state) {
    static const struct {
        const char *cause, *cure;
        int verdict;
    } cases[] = {
        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", REDLOCK_VERDICT_OOM},
        {"CONFIG SET min-replicas-to-write 3", "CONFIG SET min-replicas-to-write 0",
         REDLOCK_VERDICT_NOREPLICAS},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", REDLOCK_VERDICT_READONLY},
    };
    struct server server = {0};
    struct world world;
    (void)state;
    start(&server, &world);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        freeReplyObject(server_ask(&server, cases[i].cause));
        assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), cases[i].verdict);
        assert_int_equal(ask_one(&world, NET_ACQUIRE, "k l", "t", 60000), cases[i].verdict);
        freeReplyObject(server_ask(&server, cases[i].cure));
    }
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    stop(&server, &world);
}

/* A child after fork(2) frees its copy; the parent's connection does not notice. */
static void test_forked_child_lets_go(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set;
    int status = -1;
    (void)state;
    start(&server, &world);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_send(&world, &set, 1, 1000, 0);
    pid_t child = fork();
    if (child == 0) {
        net_close(world.net, true);
        _exit(set.done == 0 ? 0 : 1); /* no handler ran */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(world_node(&world, 0).reconnects, 0);
    stop(&server, &world);
}

/* A connection given up is reset even while a forked child still has the descriptor, and epoll
 * forgets it. */
static void test_given_up_while_a_child_has_the_socket(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set;
    int hold[2], status;
    (void)state;
    start(&server, &world);
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    server_pause(&server);
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_send(&world, &set, 1, 1000, 0);
    world_close(&world);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    server_resume(&server);
    rl_ns end = net_now(NULL) + 5000 * RL_MS;
    /* Only the connection that asks is left, though the child is alive. */
    for (long long clients = 2; clients > 1;) {
        redisReply *reply = server_ask(&server, "INFO clients");
        clients = strtoll(strstr(reply->str, "connected_clients:") + 18, NULL, 10);
        freeReplyObject(reply);
        if (net_now(NULL) > end) fail_msg("the connection is still there");
    }
    close(hold[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    server_stop(&server);
}

static void on_fire(struct net_timer *timer) { timer->at = 0; }

/* One descriptor tells of answers, timers and new connections, in any loop that can poll it. */
static void test_one_descriptor(void **state) {
    struct server server = {0};
    struct world world;
    struct ask set;
    (void)state;
    start_with(&server, &world, NULL);
    struct pollfd poll_fd = {.fd = net_fd(world.net), .events = POLLIN};
    while (net_ready(world.net, net_now(world.net)) == 0) {
        assert_int_equal(poll(&poll_fd, 1, 5000), 1);
        net_process(world.net, NULL);
    }
    ask_init(&set, NET_ACQUIRE, "k", "t", 60000);
    ask_send(&world, &set, 1, 60000, 0);
    while (set.done == 0) {
        assert_int_equal(poll(&poll_fd, 1, 5000), 1);
        net_process(world.net, NULL);
    }
    struct net_timer timer = {.fire = on_fire};
    rl_ns at = net_now(world.net) + 30 * RL_MS;
    net_timer_set(world.net, &timer, at);
    net_flush(world.net); /* arms the descriptor */
    while (timer.at != 0) {
        assert_int_equal(poll(&poll_fd, 1, 5000), 1);
        net_process(world.net, NULL);
    }
    assert_true(net_now(world.net) >= at);
    assert_int_equal(poll(&poll_fd, 1, 0), 0); /* and is quiet when nothing is due */
    stop(&server, &world);
}

static void *kick(void *net) {
    net_kick(net);
    return NULL;
}

static void test_kicked_from_another_thread(void **state) {
    struct world world;
    pthread_t thread;
    struct net_batch batch;
    (void)state;
    world_open_urls(&world, "unix:///nonexistent/socket");
    world_for(&world, 20);
    assert_int_equal(pthread_create(&thread, NULL, kick, world.net), 0);
    net_wait(world.net, RL_NEVER, &batch);
    assert_int_equal(batch.count, 1);
    net_process(world.net, &batch);
    pthread_join(thread, NULL);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_and_restarted),
        cmocka_unit_test(test_killed_with_calls_out),
        cmocka_unit_test(test_release_kept_until),
        cmocka_unit_test(test_overdue_is_not_ready),
        cmocka_unit_test(test_overdue_behind_a_patient_call),
        cmocka_unit_test(test_stalled_is_given_up),
        cmocka_unit_test(test_twice_listed),
        cmocka_unit_test(test_cluster_mode),
        cmocka_unit_test(test_too_many_clients),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_verdicts_of_a_real_server),
        cmocka_unit_test(test_forked_child_lets_go),
        cmocka_unit_test(test_given_up_while_a_child_has_the_socket),
        cmocka_unit_test(test_one_descriptor),
        cmocka_unit_test(test_kicked_from_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
