/* SPDX-License-Identifier: BSD-2-Clause What real servers rarely do: half replies, garbage,
 * silence, closing in the middle, answers nobody asked for. */
#include "fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/scripts.h"
#include "redlock/admin.h"

enum { GREETED = FAKE_GREETED };

/* Up to the client's greeting, which is not answered. */
static void begin_silent(struct fake *fake, struct world *world) {
    char url[64];
    fake_open(fake);
    fake_url(fake, url, sizeof(url));
    world_open_urls(world, url);
    fake_accept(fake, world);
    fake_await(fake, world, GREETED);
}

static void begin(struct fake *fake, struct world *world) {
    char url[64];
    fake_open(fake);
    fake_url(fake, url, sizeof(url));
    world_open_urls(world, url);
    fake_greet(fake, world);
    world_until_ready(world, 1);
}

static void end(struct fake *fake, struct world *world) {
    if (world->net) world_close(world);
    fake_close(fake);
}

static void test_half_replies(void **state) {
    static const char reply[] = "+OK\r\n$-1\r\n";
    struct fake fake;
    struct world world;
    struct ask first, second;
    (void)state;
    begin(&fake, &world);
    ask_init(&first, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&second, NET_ACQUIRE, "b", "t", 1000);
    ask_send(&world, &first, 1, 1000, 0);
    ask_send(&world, &second, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 2);
    for (size_t i = 0; i < sizeof(reply) - 1; i++) {
        assert_int_equal(first.done, i > 4 ? 1 : 0);
        assert_int_equal(second.done, 0);
        fake_say(&fake, reply + i, 1);
        world_for(&world, 3);
    }
    assert_int_equal(first.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(second.verdicts[0], REDLOCK_VERDICT_DENIED);
    end(&fake, &world);
}

/* In a child, since a build with assertions stops there. 0: it was refused, and all that was under
 * way is answered. */
static int send_busy_call(void) {
    const struct rlimit no_core = {0, 0};
    struct fake fake;
    struct world world;
    struct ask first, second;
    setrlimit(RLIMIT_CORE, &no_core);
    begin(&fake, &world);
    ask_init(&first, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&second, NET_ACQUIRE, "b", "t", 1000);
    ask_send(&world, &first, 1, 1000, 0);
    ask_send(&world, &second, 1, 1000, 0);
    if (ask_send(&world, &first, 1, 1000, 0) != 0) return 1;
    fake_await(&fake, &world, GREETED + 2);
    fake_say_text(&fake, "+OK\r\n$-1\r\n");
    world_for(&world, 200);
    bool right = first.done == 1 && second.done == 1 &&
                 first.verdicts[0] == REDLOCK_VERDICT_GRANTED &&
                 second.verdicts[0] == REDLOCK_VERDICT_DENIED;
    end(&fake, &world);
    return right ? 0 : 2;
}

static void test_a_call_under_way_is_not_sent_again(void **state) {
    int status = 0;
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(send_busy_call());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGABRT); /* the assertion */
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* The connection ends by a reset, the acquisition with the verdict, the release on the next
 * connection. */
static void expect_end(const char *bad, size_t bytes, int verdict) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    begin(&fake, &world);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_init(&release, NET_RELEASE, "a", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, GREETED + 2);
    fake_say(&fake, bad, bytes);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], verdict);
    assert_int_equal(release.done, 0);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_RESET);
    fake_greet(&fake, &world);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, ":1\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);
    end(&fake, &world);
}

/* Sent twice, because the first answer was lost: what the second time finds may be the first time's
 * doing. */
static void expect_second_time(const char *answer, int verdict) {
    struct fake fake;
    struct world world;
    struct ask release;
    begin(&fake, &world);
    ask_init(&release, NET_RELEASE, "a", "t", 0);
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, GREETED + 1);
    fake_hang_up(&fake);
    fake_greet(&fake, &world);
    fake_await(&fake, &world, GREETED + 1);
    assert_int_equal(release.done, 0);
    fake_say_text(&fake, answer);
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], verdict);
    /* The call itself is as new when it is made anew. */
    ask_send(&world, &release, 1, 1000, 4000);
    fake_await(&fake, &world, GREETED + 2);
    fake_say_text(&fake, ":0\r\n");
    world_until_done(&world, &release, 2);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_ABSENT);
    end(&fake, &world);
}

static void test_release_sent_twice(void **state) {
    (void)state;
    expect_second_time(":0\r\n", REDLOCK_VERDICT_DISCONNECTED);
    expect_second_time(":-1\r\n", REDLOCK_VERDICT_DISCONNECTED);
    expect_second_time(":1\r\n", REDLOCK_VERDICT_GRANTED);
}

static void test_bad_answers(void **state) {
    static const char *const bad[] = {
        "garbage\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        ":1\r\n", /* not an answer to SET */
        "$3\r\nabc\r\n",
        "*1\r\n+OK\r\n",
        "+QUEUED\r\n",
        "$-7\r\n",
        ":\r\n",
        "$2000000\r\n", /* announced, beyond the limit */
        "*1000000\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+deep\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_end(bad[i], strlen(bad[i]), REDLOCK_VERDICT_PROTOCOL);
    expect_end("+O\0K\r\n", 6, REDLOCK_VERDICT_PROTOCOL);
}

static void test_endless_answer(void **state) {
    struct fake fake;
    struct world world;
    struct ask set;
    char line[16384];
    (void)state;
    begin(&fake, &world);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_send(&world, &set, 1, 4000, 0);
    fake_await(&fake, &world, GREETED + 1);
    memset(line, 'x', sizeof(line));
    line[0] = '+';
    for (int i = 0; i < 100 && set.done == 0; i++) {
        fake_say(&fake, line, sizeof(line));
        world_for(&world, 1);
        line[0] = 'x';
    }
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    end(&fake, &world);
}

static void test_unasked_answer(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world);
    fake_say_text(&fake, "+OK\r\n");
    assert_int_equal(fake_await_end(&fake, &world),
                     FAKE_FIN); /* nothing of ours was under way: a plain close */
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_PROTOCOL);
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    assert_int_equal(world_node(&world, 0).reconnects, 1);
    end(&fake, &world);
}

/* A reply that was read before its request was written, whole or in part, grants nothing. */
static void test_answer_before_its_request(void **state) {
    static const char *const answers[] = {"+OK\r\n+OK\r\n", "+OK\r\n+O"};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct fake fake;
        struct world world;
        struct ask first, second;
        begin(&fake, &world);
        ask_init(&first, NET_ACQUIRE, "a", "t", 1000);
        ask_init(&second, NET_ACQUIRE, "b", "t", 1000);
        first.then = &second;
        ask_send(&world, &first, 1, 1000, 0);
        fake_await(&fake, &world, GREETED + 1);
        fake_say_text(&fake, answers[i]);
        world_until_done(&world, &first, 1);
        world_until_done(&world, &second, 1);
        assert_int_equal(first.verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_int_equal(second.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
        end(&fake, &world);
    }
}

static void test_closed_within_an_answer(void **state) {
    struct fake fake;
    struct world world;
    struct ask set;
    (void)state;
    begin(&fake, &world);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_send(&world, &set, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, "+O");
    fake_hang_up(&fake);
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    end(&fake, &world);
}

static void test_one_bad_node_is_one_bad_node(void **state) {
    struct fake good, bad;
    struct world world;
    struct ask set;
    char urls[128];
    (void)state;
    fake_open(&good);
    fake_open(&bad);
    snprintf(urls, sizeof(urls), "redis://127.0.0.1:%d,redis://127.0.0.1:%d", good.port, bad.port);
    world_open_urls(&world, urls);
    fake_greet(&good, &world);
    fake_greet(&bad, &world);
    world_until_ready(&world, 3);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    assert_int_equal(ask_send(&world, &set, 3, 1000, 0), 3);
    fake_await(&good, &world, GREETED + 1);
    fake_await(&bad, &world, GREETED + 1);
    fake_say_text(&bad, "?\r\n");
    world_until_done(&world, &set, 1);
    fake_say_text(&good, "+OK\r\n");
    world_until_done(&world, &set, 2);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(set.verdicts[1], REDLOCK_VERDICT_PROTOCOL);
    assert_int_equal(world_node(&world, 0).reconnects, 0);
    world_close(&world);
    fake_close(&good);
    fake_close(&bad);
}

static void test_closing(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, peek;
    (void)state;
    begin(&fake, &world);
    world_close(&world);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_FIN);
    end(&fake, &world);

    begin(&fake, &world);
    ask_init(&peek, NET_PEEK, "a", "", 0);
    ask_send(&world, &peek, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 1);
    world_close(&world);
    assert_int_equal(peek.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_FIN);
    end(&fake, &world);

    begin(&fake, &world);
    ask_init(&set, NET_ACQUIRE, "a", "t", 1000);
    ask_send(&world, &set, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 1);
    world_close(&world);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_RESET);
    end(&fake, &world);
}

static void expect_refusal(const char *first_words, int verdict, const char *text) {
    struct fake fake;
    struct world world;
    char url[100];
    fake_open(&fake);
    snprintf(url, sizeof(url), "redis://:secret@127.0.0.1:%d", fake.port);
    world_open_urls(&world, url);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, first_words);
    world_until_verdict(&world, 0, verdict);
    if (!strstr(world_node(&world, 0).text, text))
        fail_msg("\"%s\" lacks \"%s\"", world_node(&world, 0).text, text);
    assert_null(strstr(world_node(&world, 0).text, "secret"));
    assert_null(strstr(world.log, "secret"));
    assert_int_equal(net_settled(world.net), 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    end(&fake, &world);
}

static void test_refused_handshakes(void **state) {
    (void)state;
    expect_refusal("-ERR max number of clients reached\r\n", REDLOCK_VERDICT_MAXCLIENTS,
                   "max number");
    expect_refusal("-DENIED Redis is running in protected mode\r\n", REDLOCK_VERDICT_AUTH,
                   "protected mode: set a password on the server, or bind it to a private address");
    expect_refusal("\x15\x03\x03\x01\x02\x02", REDLOCK_VERDICT_TLS, "use rediss://");
    expect_refusal("-ERR invalid password\r\n", REDLOCK_VERDICT_AUTH, "wrong user or password");
    expect_refusal("-ERR unknown command `AUTH`, with args beginning with: `secret`\r\n",
                   REDLOCK_VERDICT_AUTH, "");
    expect_refusal("+OK\r\n" FAKE_STOCK "-LOADING Redis is loading the dataset in memory\r\n",
                   REDLOCK_VERDICT_LOADING, "loading");
    expect_refusal("+OK\r\n" FAKE_STOCK "-NOPERM no INFO\r\n" FAKE_NO_DELETERS
                   "-MASTERDOWN Link with MASTER is down\r\n",
                   REDLOCK_VERDICT_MASTERDOWN, "down");
    expect_refusal("+OK\r\n" FAKE_STOCK "-BUSY Redis is busy running a script\r\n",
                   REDLOCK_VERDICT_BUSY, "busy");
    expect_refusal("+OK\r\n" FAKE_STOCK ":1\r\n", REDLOCK_VERDICT_PROTOCOL, "INFO");
}

/* A port of another protocol hangs up at once; a server that has answered speaks ours. */
static void test_hung_up_on(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin_silent(&fake, &world);
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_non_null(
        strstr(world_node(&world, 0).text, "before its first answer, to REDLOCK.HELLO"));
    assert_non_null(strstr(world_node(&world, 0).text, "a TLS port (use rediss://) or a proxy"));
    end(&fake, &world);

    begin_silent(&fake, &world);
    fake_say_text(&fake, FAKE_STOCK);
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_non_null(strstr(world_node(&world, 0).text, "before its answer to INFO"));
    end(&fake, &world);

    begin(&fake, &world);
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_null(strstr(world_node(&world, 0).text, "before"));
    end(&fake, &world);
}

/* An emulator, a proxy, a managed service: whatever words it has for that, classic mode needs
 * neither INFO nor scripts. */
static void test_neither_info_nor_scripts(void **state) {
    static const struct {
        const char *info, *eval;
        int scripts;
    } table[] = {
        {"-ERR unknown command 'INFO'\r\n", "-ERR unknown command 'EVAL'\r\n",
         REDLOCK_SCRIPTS_UNKNOWN},
        {"-FORBIDDEN ask your administrator\r\n", "-ERR invalid request\r\n",
         REDLOCK_SCRIPTS_DENIED},
        {"-unsupported command 'info'\r\n", "-ERR Could not find scripting engine 'lua'\r\n",
         REDLOCK_SCRIPTS_NO_ENGINE},
        {"$0\r\n\r\n", ":1\r\n", REDLOCK_SCRIPTS_RUN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake fake;
        struct world world;
        begin_silent(&fake, &world);
        fake_say_text(&fake, FAKE_STOCK);
        fake_say_text(&fake, table[i].info);
        fake_say_text(&fake, FAKE_NO_DELETERS);
        for (int n = 0; n < 2; n++) fake_say_text(&fake, table[i].eval);
        world_until_ready(&world, 1);
        assert_string_equal(world_node(&world, 0).run_id, "");
        assert_int_equal(world_node(&world, 0).scripts, table[i].scripts);
        end(&fake, &world);
    }
}

static void greet_as(struct fake *fake, struct world *world, int identity) {
    fake_accept(fake, world);
    fake_await(fake, world, GREETED);
    fake_introduce(fake, identity);
    fake_say_text(fake, ":0\r\n:0\r\n");
}

/* A load balancer: the first server comes back, so it did not restart. */
static void test_an_address_of_several_servers(void **state) {
    struct fake fake;
    struct world world;
    char url[64];
    (void)state;
    fake_open(&fake);
    fake_url(&fake, url, sizeof(url));
    world_open_urls(&world, url);
    for (int identity = 1; identity <= 2; identity++) {
        greet_as(&fake, &world, identity);
        world_until_ready(&world, 1);
        fake_hang_up(&fake);
        world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    }
    greet_as(&fake, &world, 1);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_UNFIT);
    assert_non_null(strstr(world_node(&world, 0).text, "list each server itself"));
    assert_non_null(strstr(world.log, "several servers at a time"));
    greet_as(&fake, &world, 1);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_UNFIT);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    end(&fake, &world);
}

static void test_silent_handshake(void **state) {
    struct fake fake;
    struct world world;
    char url[64];
    (void)state;
    fake_open(&fake);
    fake_url(&fake, url, sizeof(url));
    struct net_options options = world_options(url);
    options.connect_timeout = 100 * RL_MS;
    world_open(&world, &options);
    assert_int_equal(net_settled(world.net), 0);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_TIMEOUT);
    assert_int_equal(net_settled(world.net), 1);
    end(&fake, &world);
}

/* A node that does not tell who it is may hold locks all the same. */
static void test_info_forbidden(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin_silent(&fake, &world);
    fake_say_text(&fake, FAKE_STOCK "-NOPERM this user has no permissions\r\n" FAKE_NO_DELETERS
                                    ":0\r\n:0\r\n");
    world_until_ready(&world, 1);
    assert_string_equal(world_node(&world, 0).run_id, "");
    assert_false(world_node(&world, 0).uses_transactions);
    end(&fake, &world);
}

static void extend_once(struct world *world, struct fake *fake, const char *by, size_t seen) {
    struct ask extend;
    ask_init(&extend, NET_EXTEND, "a", "t", 1000);
    const size_t before = fake->input_bytes;
    ask_send(world, &extend, 1, 1000, 0);
    fake_await(fake, world, seen);
    assert_non_null(memmem(fake->input + before, fake->input_bytes - before, by, strlen(by)));
    fake_say_text(fake, ":1\r\n");
    world_until_done(world, &extend, 1);
    assert_int_equal(extend.verdicts[0], REDLOCK_VERDICT_GRANTED);
}

/* A node that is far away answers a call in one round trip, also the first one. */
static void test_a_first_call_has_the_text(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world);
    extend_once(&world, &fake, node_scripts[NODE_EXTEND].text, GREETED + 1);
    extend_once(&world, &fake, node_scripts[NODE_EXTEND].sha1, GREETED + 2);
    fake_hang_up(&fake);
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    extend_once(&world, &fake, node_scripts[NODE_EXTEND].text, GREETED + 1);
    end(&fake, &world);
}

static void test_noscript_before_a_release(void **state) {
    struct fake fake;
    struct world world;
    struct ask set, release;
    (void)state;
    begin(&fake, &world);
    ask_init(&set, NET_ACQUIRE, "a b", "t", 1000);
    ask_send(&world, &set, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, ":1\r\n");
    world_until_done(&world, &set, 1);

    ask_init(&set, NET_ACQUIRE, "a b", "t", 1000);
    ask_init(&release, NET_RELEASE, "a b", "t", 0);
    set.calls[0].owner = &set;
    release.calls[0].owner = &set; /* one lock's */
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 1000);
    fake_await(&fake, &world, GREETED + 3);
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n");
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_ERROR);
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n");
    fake_await(&fake, &world, GREETED + 4); /* the release again, and nothing else */
    assert_null(memmem(fake.input + fake.input_bytes - 60, 60, "PX", 2));
    fake_say_text(&fake, ":0\r\n");
    world_until_done(&world, &set, 2);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_ABSENT);
    assert_int_equal(fake.seen, GREETED + 4);

    /* NOSCRIPT to an EVAL is an error like any other: no loop. */
    ask_init(&set, NET_ACQUIRE, "a b", "t", 1000);
    ask_send(&world, &set, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 5);
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n");
    fake_await(&fake, &world, GREETED + 6);
    fake_say_text(&fake, "-NOSCRIPT No matching script.\r\n");
    world_until_done(&world, &set, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_ERROR);
    end(&fake, &world);
}

static void test_a_peer_that_does_not_read(void **state) {
    enum { CALLS = 20 };
    static struct ask sets[CALLS];
    struct fake fake;
    struct world world;
    size_t bytes = 1 << 20, taken = 0;
    char *token = calloc(1, bytes + 1);
    (void)state;
    memset(token, 't', bytes);
    begin(&fake, &world);
    for (unsigned i = 0; i < CALLS; i++) {
        ask_init(&sets[i], NET_ACQUIRE, "a", token, 1000);
        taken += ask_send(&world, &sets[i], 1, 4000, 0);
    }
    /* The limit is on what waits here: what the kernel took does not count. */
    assert_in_range(taken, 15, CALLS);
    fake_await(&fake, &world, GREETED + taken);
    for (size_t i = 0; i < taken; i++) fake_say_text(&fake, "+OK\r\n");
    world_until_done(&world, &sets[taken - 1], 1);
    free(token);
    end(&fake, &world);
}

/* ---- where scripts are refused: `second` is the connection for transactions ---- */

static void begin_refusing(struct fake *fake, struct fake *second, struct world *world) {
    char url[64];
    fake_open(fake);
    *second = (struct fake){.listener = fake->listener, .peer = -1, .port = fake->port};
    fake_url(fake, url, sizeof(url));
    world_open_urls(world, url);
    fake_accept(fake, world);
    fake_await(fake, world, GREETED);
    fake_introduce(fake, fake->port);
    fake_say_text(fake, "-NOPERM\r\n-NOPERM\r\n");
    world_until_ready(world, 1);
}

static void end_refusing(struct fake *fake, struct fake *second, struct world *world) {
    fake_hang_up(second);
    free(second->input);
    end(fake, world);
}

static void test_transaction_waits_for_what_was_sent_before(void **state) {
    struct fake fake, second;
    struct world world;
    struct ask set, release;
    (void)state;
    begin_refusing(&fake, &second, &world);
    ask_init(&set, NET_ACQUIRE, "k", "t", 1000);
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &set, 1, 1000, 0);
    ask_send(&world, &release, 1, 1000, 4000);
    unsigned turns = world.turns;
    world_for(&world, 30);
    /* It sleeps meanwhile, and does not even connect: the SET is unanswered. */
    assert_in_range(world.turns - turns, 1, 20);
    assert_int_equal(accept(fake.listener, NULL, NULL), -1);
    fake_await(&fake, &world, GREETED + 1);
    fake_say_text(&fake, "+OK\r\n");
    fake_accept(&second, &world);
    fake_await(&second, &world, 1);
    fake_introduce(&second, fake.port);
    fake_await(&second, &world, 1 + 4); /* WATCH, PTTL, GETRANGE, MULTI */
    fake_say_text(&second, "+OK\r\n:900\r\n$1\r\nt\r\n+OK\r\n");
    fake_await(&second, &world, 1 + 4 + 2); /* DEL, EXEC */
    fake_say_text(&second, "+QUEUED\r\n*1\r\n:1\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(set.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_GRANTED);

    /* The next: others keep writing the key between our WATCH and EXEC. Three tries, then an
     * error. */
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &release, 1, 1000, 4000);
    for (size_t try = 0; try < 3; try++) {
        fake_await(&second, &world, 7 + try * 6 + 4);
        fake_say_text(&second, "+OK\r\n:900\r\n$1\r\nt\r\n+OK\r\n");
        fake_await(&second, &world, 7 + try * 6 + 6);
        fake_say_text(&second, "+QUEUED\r\n*-1\r\n");
    }
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_ERROR);

    /* Refused within: EXECABORT only repeats it. */
    ask_init(&release, NET_EXTEND, "k", "t", 5000);
    ask_send(&world, &release, 1, 1000, 0);
    fake_await(&second, &world, 25 + 4);
    fake_say_text(&second, "+OK\r\n:900\r\n$1\r\nt\r\n+OK\r\n");
    fake_await(&second, &world, 25 + 6);
    fake_say_text(&second, "-READONLY x\r\n-EXECABORT y\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_READONLY);

    /* Without MULTI the change would be executed at once: it is not sent. */
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &release, 1, 1000, 0);
    fake_await(&second, &world, 31 + 4);
    const size_t before = second.input_bytes;
    fake_say_text(&second, "+OK\r\n:900\r\n$1\r\nt\r\n"
                           "-NOPERM this user has no permissions to run the 'multi' command\r\n");
    fake_await(&second, &world, 31 + 5); /* UNWATCH */
    assert_null(memmem(second.input + before, second.input_bytes - before, "DEL", 3));
    fake_say_text(&second, "+OK\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_NOPERM);
    assert_string_equal(world_node(&world, 0).denied, "multi");

    /* Without EXEC the connection is inside the transaction for ever. */
    ask_init(&release, NET_RELEASE, "k", "t", 0);
    ask_send(&world, &release, 1, 1000, 0);
    fake_await(&second, &world, 36 + 4);
    fake_say_text(&second, "+OK\r\n:900\r\n$1\r\nt\r\n+OK\r\n");
    fake_await(&second, &world, 36 + 6);
    fake_say_text(&second, "+QUEUED\r\n-NOPERM this user has no permissions to run the 'exec' "
                           "command\r\n");
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_NOPERM);
    assert_int_not_equal(fake_await_end(&second, &world), FAKE_OPEN);
    end_refusing(&fake, &second, &world);
}

static void test_second_connection_to_another_server(void **state) {
    struct fake fake, second;
    struct world world;
    struct ask release;
    (void)state;
    begin_refusing(&fake, &second, &world);
    ask_init(&release, NET_EXTEND, "k", "t", 1000);
    ask_send(&world, &release, 1, 1000, 0);
    fake_accept(&second, &world);
    fake_await(&second, &world, 1);
    fake_introduce(&second, 7);
    world_until_done(&world, &release, 1);
    assert_int_equal(release.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    world_until_ready(&world, 1);
    end_refusing(&fake, &second, &world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_replies),
        cmocka_unit_test(test_a_call_under_way_is_not_sent_again),
        cmocka_unit_test(test_release_sent_twice),
        cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_endless_answer),
        cmocka_unit_test(test_unasked_answer),
        cmocka_unit_test(test_answer_before_its_request),
        cmocka_unit_test(test_closed_within_an_answer),
        cmocka_unit_test(test_one_bad_node_is_one_bad_node),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_refused_handshakes),
        cmocka_unit_test(test_hung_up_on),
        cmocka_unit_test(test_neither_info_nor_scripts),
        cmocka_unit_test(test_an_address_of_several_servers),
        cmocka_unit_test(test_silent_handshake),
        cmocka_unit_test(test_info_forbidden),
        cmocka_unit_test(test_a_first_call_has_the_text),
        cmocka_unit_test(test_noscript_before_a_release),
        cmocka_unit_test(test_a_peer_that_does_not_read),
        cmocka_unit_test(test_transaction_waits_for_what_was_sent_before),
        cmocka_unit_test(test_second_connection_to_another_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
