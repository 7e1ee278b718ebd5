/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What twice as many timers, kept releases, calls in flight and waiting transactions cost: about
 * twice as much, for every list of src/net. (Those of src/client: tests/integration/test_costs.c.)
 */
#include "costs.h"
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn/timers.h"
#include "servers.h"

static uint64_t random_state = 1;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

/* ---- timers ---- */

static double of_timers(unsigned n) {
    struct net_timer *timers = calloc(n, sizeof(*timers));
    struct timers heap = {NULL};
    assert_non_null(timers);
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++) timers_set(&heap, &timers[i], draw(1000000));
    for (unsigned i = 0; i < n; i++) timers_move(&heap, &timers[i], draw(1000000));
    for (unsigned i = 0; i < n; i += 2) timers_set(&heap, &timers[draw(n)], RL_NEVER);
    while (timers_due(&heap, 1000000)) continue;
    double cost = cpu_ms() - began;
    assert_null(heap.root);
    free(timers);
    return cost;
}

static void test_timers(void **state) {
    (void)state;
    assert_cost_grows_with("timers", of_timers, 4000);
}

struct asks {
    struct net_bytes key;
    struct net_request request;
    struct net_call (*calls)[RL_NODES_MAX];
};

static void asks_init(struct asks *asks, enum net_op op, unsigned n) {
    *asks = (struct asks){.key = {"k", 1}};
    asks->request = (struct net_request){
        .op = op, .keys = &asks->key, .keys_count = 1, .token = {"t", 1}, .ttl_ms = 9};
    asks->calls = calloc(n, sizeof(*asks->calls));
    assert_non_null(asks->calls);
}

static unsigned done;
static void on_reply(void *context, struct net_call *call, const struct net_reply *reply) {
    (void)context, (void)call, (void)reply;
    done++;
}
static void on_node(void *context, unsigned node) { (void)context, (void)node; }

static void open_net(struct world *world, const struct fake *fake) {
    char url[64];
    struct net_handlers handlers = {.reply = on_reply, .node = on_node, .context = world};
    struct net_error error = {0};
    fake_url(fake, url, sizeof(url));
    struct net_options options = world_options(url);
    options.log_level = REDLOCK_LOG_ERROR;
    memset(world, 0, sizeof(*world));
    if (net_open(&world->net, &options, &handlers, &error) != REDLOCK_OK)
        fail_msg("net_open: %s", error.text);
}

/* ---- kept releases ---- */

/* They end one after the other, in any order, within so long. The clock is ours meanwhile (the
 * linker's --wrap): it goes from one end to the next, however long the work takes. */
enum { ENDING_MS = 400 };
static rl_ns our_clock; /* 0: the real one */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    if (our_clock == 0 || clock != CLOCK_BOOTTIME) return __real_clock_gettime(clock, now);
    *now = (struct timespec){(time_t)(our_clock / 1000000000), (long)(our_clock % 1000000000)};
    return 0;
}

static double of_kept(unsigned n) {
    struct fake fake;
    struct world world;
    struct asks asks;
    fake_open(&fake);
    open_net(&world, &fake);
    asks_init(&asks, NET_RELEASE, n);
    rl_ns now = our_clock = net_now(NULL);
    done = 0;
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++) {
        rl_ns keep_until = now + 100 * RL_MS + draw(ENDING_MS * 1000) * (RL_MS / 1000);
        assert_int_equal(net_send(world.net, 1, &asks.request, asks.calls[i], now, keep_until), 1);
    }
    while (done < n && our_clock < now + 2000 * RL_MS) {
        our_clock =
            net_next_timer(world.net) > our_clock ? net_next_timer(world.net) : our_clock + 1;
        net_process(world.net, NULL);
    }
    double cost = cpu_ms() - began;
    our_clock = 0;
    assert_int_equal(done, n);
    net_close(world.net, false);
    fake_close(&fake);
    free(asks.calls);
    return cost;
}

static void test_kept_releases(void **state) {
    (void)state;
    assert_cost_grows_with("kept releases that end", of_kept, 4000);
}

/* ---- calls in flight ---- */

static void greet(struct world *world, struct fake *fake) {
    fake_open(fake);
    open_net(world, fake);
    fake_greet(fake, world);
    while (net_ready(world->net, net_now(world->net)) == 0)
        world_turn(world, net_now(world->net) + RL_MS);
    done = 0;
}

static void part(struct world *world, struct fake *fake) {
    net_close(world->net, false);
    fake_close(fake);
}

/* In parts that the socket takes. */
static void answer_all(struct world *world, struct fake *fake, const char *answer, unsigned n) {
    enum { PART = 200 };
    char text[PART * 40];
    for (unsigned i = 0; i < n;) {
        size_t bytes = 0;
        for (unsigned end = i + PART < n ? i + PART : n; i < end; i++)
            bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, "%s\r\n", answer);
        fake_say(fake, text, bytes);
        world_turn(world, net_now(world->net));
    }
}

/* Each is due sooner than the one before it. */
static double of_falling_dues(unsigned n) {
    struct fake fake;
    struct world world;
    struct asks asks;
    greet(&world, &fake);
    asks_init(&asks, NET_ACQUIRE, n);
    rl_ns due = net_now(world.net) + 60000 * RL_MS;
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(net_send(world.net, 1, &asks.request, asks.calls[i], due - i, 0), 1);
    double cost = cpu_ms() - began;
    fake_await(&fake, &world, FAKE_GREETED + n);
    began = cpu_ms();
    answer_all(&world, &fake, "+OK", n);
    for (int i = 0; done < n && i < 1000; i++) world_turn(&world, net_now(world.net) + RL_MS);
    cost += cpu_ms() - began;
    assert_int_equal(done, n);
    part(&world, &fake);
    free(asks.calls);
    return cost;
}

static void test_falling_dues(void **state) {
    (void)state;
    assert_cost_grows_with("calls that are due sooner and sooner", of_falling_dues, 4000);
}

/* A server has lost its scripts: each call has an owner of its own, and is sent again. */
static double of_noscript(unsigned n) {
    struct fake fake;
    struct world world;
    struct asks asks;
    greet(&world, &fake);
    asks_init(&asks, NET_EXTEND, n);
    rl_ns due = net_now(world.net) + 60000 * RL_MS;
    /* the first call has the text */
    assert_int_equal(net_send(world.net, 1, &asks.request, asks.calls[0], due, 0), 1);
    fake_await(&fake, &world, FAKE_GREETED + 1);
    answer_all(&world, &fake, ":1", 1);
    while (done < 1) world_turn(&world, net_now(world.net) + RL_MS);
    done = 0;
    for (unsigned i = 0; i < n; i++) {
        asks.calls[i][0].owner = asks.calls[i];
        assert_int_equal(net_send(world.net, 1, &asks.request, asks.calls[i], due, 0), 1);
    }
    fake_await(&fake, &world, FAKE_GREETED + 1 + n);
    double began = cpu_ms();
    answer_all(&world, &fake, "-NOSCRIPT No matching script.", n);
    double cost = cpu_ms() - began;
    fake_await(&fake, &world, FAKE_GREETED + 1 + 2 * n);
    assert_int_equal(done, 0);
    answer_all(&world, &fake, ":1", n);
    for (int i = 0; done < n && i < 1000; i++) world_turn(&world, net_now(world.net) + RL_MS);
    assert_int_equal(done, n);
    part(&world, &fake);
    free(asks.calls);
    return cost;
}

static void test_noscript(void **state) {
    (void)state;
    assert_cost_grows_with("scripts that are sent again", of_noscript, 4000);
}

/* ---- transactions ---- */

enum { KEY_BYTES = 12 };
struct keyed {
    char text[KEY_BYTES];
    struct net_bytes key;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
};

static struct keyed *keyed_new(enum net_op op, char kind, unsigned n) {
    struct keyed *all = calloc(n, sizeof(*all));
    assert_non_null(all);
    for (unsigned i = 0; i < n; i++) {
        struct keyed *one = &all[i];
        one->key =
            (struct net_bytes){one->text, (size_t)snprintf(one->text, KEY_BYTES, "%c%u", kind, i)};
        one->request = (struct net_request){
            .op = op, .keys = &one->key, .keys_count = 1, .token = {"t", 1}, .ttl_ms = 9};
    }
    return all;
}

/* A node without scripts: each SET is compared with the releases that wait. */
static double of_transactions(unsigned n) {
    struct fake fake;
    struct world world;
    struct keyed *releases = keyed_new(NET_RELEASE, 'r', n), *sets = keyed_new(NET_ACQUIRE, 's', n);
    fake_open(&fake);
    open_net(&world, &fake);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, FAKE_GREETED);
    fake_introduce(&fake, 1);
    fake_say_text(&fake,
                  "-NOPERM this user has no permissions to run the 'eval' command\r\n:0\r\n");
    while (net_ready(world.net, net_now(world.net)) == 0)
        world_turn(&world, net_now(world.net) + RL_MS);
    rl_ns due = net_now(world.net) + 60000 * RL_MS;
    done = 0;
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(net_send(world.net, 1, &releases[i].request, releases[i].calls, due, due),
                         1);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(net_send(world.net, 1, &sets[i].request, sets[i].calls, due, due), 1);
    double cost = cpu_ms() - began;
    fake_await(&fake, &world, FAKE_GREETED + n); /* the SETs go past the releases */
    part(&world, &fake);
    assert_int_equal(done, 2 * n);
    free(releases);
    free(sets);
    return cost;
}

static void test_transactions(void **state) {
    (void)state;
    assert_cost_grows_with("requests compared with transactions that wait", of_transactions, 2000);
}

/* ---- looks ---- */

static unsigned wakes;
static void on_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    (void)context, (void)node, (void)rank;
    if (key.data) wakes++;
}
static void on_changed(void *context, unsigned node) { (void)context, (void)node; }

static void open_watching(struct world *world, const struct server *server) {
    char url[64];
    struct net_handlers handlers = {.reply = on_reply,
                                    .node = on_node,
                                    .wake = on_wake,
                                    .changed = on_changed,
                                    .context = world};
    struct net_error error = {0};
    server_url(server, url, sizeof(url));
    struct net_options options = world_options(url);
    options.log_level = REDLOCK_LOG_ERROR;
    options.guarded = true;
    memset(world, 0, sizeof(*world));
    if (net_open(&world->net, &options, &handlers, &error) != REDLOCK_OK)
        fail_msg("net_open: %s", error.text);
    while (net_ready(world->net, net_now(world->net)) == 0)
        world_turn(world, net_now(world->net) + RL_MS);
    net_track(world->net, true);
    while (net_tracked(world->net) == 0) world_turn(world, net_now(world->net) + RL_MS);
    done = wakes = 0;
}

static void look_at(struct world *world, struct keyed *looks, unsigned n) {
    rl_ns due = net_now(world->net) + 60000 * RL_MS;
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(net_send(world->net, 1, &looks[i].request, looks[i].calls, due, due), 1);
}

static void until_done(struct world *world, unsigned n) {
    for (int i = 0; done < n && i < 10000; i++) world_turn(world, net_now(world->net) + RL_MS);
    assert_int_equal(done, n);
}

/* As many keys change while as many others are being looked at: each change is compared with the
 * looks. */
static double of_looks(unsigned n) {
    struct server server = {.pid = 0};
    struct world world;
    struct keyed *before = keyed_new(NET_WATCH, 'b', n), *later = keyed_new(NET_WATCH, 'l', n);
    server_start(&server, NULL);
    open_watching(&world, &server);
    look_at(&world, before, n);
    until_done(&world, n);
    char number[16];
    snprintf(number, sizeof(number), "%u", n);
    freeReplyObject(server_ask(&server, "EVAL %s 0 %s",
                               "for i = 0, ARGV[1] - 1 do redis.call('SET', 'b' .. i, 'x') end",
                               number));
    double began = cpu_ms();
    look_at(&world, later, n);
    until_done(&world, 2 * n);
    double cost = cpu_ms() - began;
    assert_int_equal(wakes, n);
    net_close(world.net, false);
    server_stop(&server);
    free(before);
    free(later);
    return cost;
}

static void test_looks(void **state) {
    (void)state;
    assert_cost_grows_with("changes while others are looked at", of_looks, 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers),       cmocka_unit_test(test_kept_releases),
        cmocka_unit_test(test_falling_dues), cmocka_unit_test(test_noscript),
        cmocka_unit_test(test_transactions), cmocka_unit_test(test_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
