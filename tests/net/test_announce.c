/* SPDX-License-Identifier: BSD-2-Clause
 * The watch of the node's record on the voting connection: what a server announces comes before the
 * votes that stand behind it, wherever the stream is cut; and servers that refuse to announce. With
 * a scripted node, and with real ones. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers.h"

enum { GREETED = FAKE_GREETED_GUARDED };

#define FLUSHED ">2\r\n$10\r\ninvalidate\r\n_\r\n"
#define RECORD_CHANGED ">2\r\n$10\r\ninvalidate\r\n*1\r\n$12\r\nredlock:node\r\n"
#define SCRIPTS ":0\r\n:0\r\n:0\r\n" /* and ZADD */

static const uint64_t nonces[1] = {0xa};
static const uint16_t stripes[1] = {7};

static void open_guarded_url(struct world *world, const char *url) {
    struct net_options options = world_options(url);
    options.guarded = true;
    world_open(world, &options);
}

static void open_fake(struct fake *fake, struct world *world) {
    char url[64];
    fake_open(fake);
    fake->guarded = true;
    fake_url(fake, url, sizeof(url));
    open_guarded_url(world, url);
}

static void begin(struct fake *fake, struct world *world) {
    open_fake(fake, world);
    fake_greet(fake, world);
    world_until_ready(world, 1);
}

static void end(struct fake *fake, struct world *world) {
    world_close(world);
    fake_close(fake);
}

static void ask_vote(struct ask *ask, const char *key) {
    ask_init(ask, NET_ACQUIRE, key, "t", 60000);
    ask_guard(ask, nonces, 50, stripes, 1);
}

static bool was_sent(const struct fake *fake, const char *text) {
    return memmem(fake->input, fake->input_bytes, text, strlen(text)) != NULL;
}

static unsigned times_logged(const struct world *world, const char *text) {
    unsigned times = 0;
    for (const char *at = world->log; (at = strstr(at, text)); at++) times++;
    return times;
}
#define WEAKER "noticed up to a second late"

/* ---- order ---- */

static void test_asked_at_once(void **state) {
    struct fake fake;
    struct world world;
    (void)state;
    begin(&fake, &world);
    static const char asked[] =
        "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*7\r\n$6\r\nCLIENT\r\n$"
        "8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n$6\r\nPREFIX\r\n"
        "$12\r\nredlock:node\r\n$6\r\nNOLOOP\r\n*2\r\n$13\r\nREDLOCK.HELLO\r\n$1\r\n1\r\n*2\r\n$4\r\nINFO\r\n";
    assert_memory_equal(fake.input, asked, sizeof(asked) - 1);
    assert_true(world_node(&world, 0).announces);
    assert_int_equal(world.losses, 0);
    assert_int_equal(times_logged(&world, WEAKER), 0);
    fake_hang_up(&fake);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    assert_false(world_node(&world, 0).announces);
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    assert_true(world_node(&world, 0).announces);
    end(&fake, &world);
}

/* Two votes and three pushes in one stream, which is cut at every byte. */
static void expect_order(const char *stream, size_t cut, unsigned before_first,
                         unsigned before_second, unsigned all) {
    struct fake fake;
    struct world world;
    struct ask first, second;
    begin(&fake, &world);
    ask_vote(&first, "a");
    ask_vote(&second, "b");
    ask_send(&world, &first, 1, 1000, 0);
    ask_send(&world, &second, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 4);
    if (cut > 0) {
        fake_say(&fake, stream, cut);
        world_for(&world, 1);
    }
    fake_say_text(&fake, stream + cut);
    world_until_done(&world, &second, 1);
    world_for(&world, 1);
    assert_int_equal(first.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(second.verdicts[0], REDLOCK_VERDICT_DENIED);
    assert_int_equal(first.lost_before[0], before_first);
    assert_int_equal(second.lost_before[0], before_second);
    assert_int_equal(world.losses, all);
    end(&fake, &world);
}

static void test_a_push_comes_before_what_stands_behind_it(void **state) {
    static const char stream[] = "+OK\r\n" FLUSHED ":1\r\n" RECORD_CHANGED "_\r\n:0\r\n" FLUSHED;
    (void)state;
    for (size_t cut = 0; cut < sizeof(stream); cut++) expect_order(stream, cut, 1, 2, 3);
    expect_order(FLUSHED FLUSHED "+OK\r\n:1\r\n_\r\n:0\r\n", 0, 2, 2, 2);
    expect_order("+OK\r\n:1\r\n_\r\n" FLUSHED ":0\r\n", 0, 0, 1, 1);
    expect_order("+OK\r\n:1\r\n_\r\n:0\r\n", 0, 0, 0, 0);
}

/* A push of another kind says nothing of the record; one during the handshake, nothing that matters
 * yet. */
static void test_other_pushes(void **state) {
    (void)state;
    expect_order("+OK\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n>1\r\n+future\r\n_\r\n>"
                 "2\r\n:1\r\n$10\r\ninvalidate\r\n:0\r\n",
                 0, 0, 0, 0);
    struct fake fake;
    struct world world;
    open_fake(&fake, &world);
    fake_accept(&fake, &world);
    fake_await(&fake, &world, GREETED);
    fake_say_text(&fake, FAKE_HELLO FLUSHED);
    fake_introduce(&fake, 1);
    fake_say_text(&fake, RECORD_CHANGED SCRIPTS);
    world_until_ready(&world, 1);
    assert_int_equal(world.losses, 0);
    end(&fake, &world);
}

/* ---- shapes ---- */

static void test_maps_and_scores(void **state) {
    static int64_t reported[RL_STRIPES];
    struct fake fake;
    struct world world;
    struct ask record, fences, clock;
    (void)state;
    begin(&fake, &world);
    ask_init(&record, NET_RECORD, "", "", 0);
    ask_init(&fences, NET_FENCES, "", "", 0);
    fences.request.nonces = nonces;
    fences.fences = reported;
    ask_init(&clock, NET_SERVER_INFO, "", "", 0);
    clock.request.question = NET_ASK_INFO_SERVER;
    ask_send(&world, &record, 1, 1000, 0);
    ask_send(&world, &fences, 1, 1000, 0);
    ask_send(&world, &clock, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 3);
    fake_say_text(&fake, "%1\r\n$5\r\nnonce\r\n$1\r\n1\r\n"
                         "*2\r\n*2\r\n$1\r\n7\r\n,9007199254740991\r\n*2\r\n$4\r\n4095\r\n,0\r\n"
                         "=9\r\ntxt:a:1\r\n\r\n");
    world_until_done(&world, &clock, 1);
    assert_int_equal(record.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_memory_equal(record.value, "nonce 1 ", 8);
    assert_int_equal(fences.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(reported[7], REDLOCK_FENCE_MAX);
    assert_int_equal(reported[4095], 0);
    assert_int_equal(clock.verdicts[0], REDLOCK_VERDICT_GRANTED);
    assert_memory_equal(clock.value, "a:1\r\n ", 6);

    /* What is no fence is told as such, and nothing breaks. */
    ask_send(&world, &fences, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 4);
    fake_say_text(&fake, "*1\r\n*2\r\n$1\r\n7\r\n,1.5\r\n");
    world_until_done(&world, &fences, 2);
    assert_int_equal(fences.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    assert_true(world_node(&world, 0).announces);
    ask_send(&world, &record, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 5);
    fake_say_text(&fake, "%0\r\n");
    world_until_done(&world, &record, 2);
    assert_int_equal(record.verdicts[0], REDLOCK_VERDICT_ABSENT);
    end(&fake, &world);
}

static void expect_broken(const char *stream) {
    struct fake fake;
    struct world world;
    struct ask vote;
    begin(&fake, &world);
    ask_vote(&vote, "a");
    ask_send(&world, &vote, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 2);
    fake_say_text(&fake, stream);
    world_until_done(&world, &vote, 1);
    assert_int_equal(vote.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    assert_int_equal(fake_await_end(&fake, &world), FAKE_RESET);
    end(&fake, &world);
}

static void test_what_no_server_says(void **state) {
    (void)state;
    expect_broken(">2\r\n$10\r\ninvalidate\r\n$1048577\r\n");
    expect_broken(">65537\r\n");
    expect_broken(">0\r\n");
    expect_broken("+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n>1\r\n+a\r\n");
    expect_broken("+OK\r\n?\r\n");
    expect_broken("%1\r\n+OK\r\n+OK\r\n");
}

/* ---- refusals ---- */

/* The first answers, and whether tracking that does not help is taken back. */
static void expect_weaker(const char *hello, bool untracks, const char *why) {
    struct fake fake;
    struct world world;
    struct ask vote;
    open_fake(&fake, &world);
    for (int i = 0; i < 2; i++) {
        fake_accept(&fake, &world);
        fake_await(&fake, &world, GREETED);
        fake_say_text(&fake, hello);
        fake_introduce(&fake, 1);
        fake_say_text(&fake, SCRIPTS);
        if (untracks) {
            fake_await(&fake, &world, GREETED + 1);
            assert_true(was_sent(&fake, "TRACKING\r\n$3\r\nOFF\r\n"));
            fake_say_text(&fake, "+OK\r\n");
        }
        world_until_ready(&world, 1);
        assert_int_equal(fake.seen, GREETED + untracks);
        assert_false(world_node(&world, 0).announces);
        ask_vote(&vote, "a");
        ask_send(&world, &vote, 1, 1000, 0);
        fake_await(&fake, &world, GREETED + untracks + 2);
        fake_say_text(&fake, "+OK\r\n:1\r\n");
        world_until_done(&world, &vote, 1);
        assert_int_equal(vote.verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_int_equal(times_logged(&world, WEAKER), 1); /* once */
        assert_int_equal(times_logged(&world, why), 1);
        assert_int_equal(times_logged(&world, "allow +hello +client|tracking"), 1);
        if (i == 0) fake_hang_up(&fake);
        if (i == 0) world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    }
    end(&fake, &world);
}

static void test_refusals(void **state) {
    (void)state;
    expect_weaker("-ERR unknown command 'HELLO', with args beginning with: '3' \r\n+OK\r\n", true,
                  "HELLO is refused: ERR unknown command 'HELLO';");
    expect_weaker("-NOPERM no hello\r\n-NOPERM no client\r\n", false,
                  "HELLO is refused: NOPERM no hello;");
    expect_weaker("-NOPROTO unsupported protocol version\r\n+OK\r\n", true,
                  "HELLO is refused: NOPROTO");
    expect_weaker("*2\r\n$5\r\nproto\r\n:2\r\n+OK\r\n", true,
                  "HELLO 3 was answered in another protocol");
    expect_weaker("+OK\r\n-ERR unknown command\r\n", false,
                  "HELLO 3 was answered in another protocol");
    expect_weaker("%1\r\n$5\r\nproto\r\n:3\r\n-NOPERM no tracking\r\n", false,
                  "CLIENT TRACKING is refused: NOPERM no tracking;");
    expect_weaker("%1\r\n$5\r\nproto\r\n:3\r\n-ERR Unknown subcommand or wrong number of arguments "
                  "for 'TRACKING'. Try CLIENT HELP.\r\n",
                  false, "CLIENT TRACKING is refused: ERR Unknown");
}

/* After a refusal RESP3 is no language of this connection. */
static void test_resp3_where_it_was_refused(void **state) {
    struct fake fake;
    struct world world;
    struct ask vote;
    (void)state;
    open_fake(&fake, &world);
    fake.hello = "-NOPERM no hello\r\n-NOPERM no client\r\n";
    fake_greet(&fake, &world);
    world_until_ready(&world, 1);
    ask_vote(&vote, "a");
    ask_send(&world, &vote, 1, 1000, 0);
    fake_await(&fake, &world, GREETED + 2);
    fake_say_text(&fake, FLUSHED);
    world_until_done(&world, &vote, 1);
    assert_int_equal(vote.verdicts[0], REDLOCK_VERDICT_PROTOCOL);
    assert_int_equal(world.losses, 0);
    end(&fake, &world);
}

/* What a server says to the first command, whichever that is. */
static void test_not_about_hello(void **state) {
    static const struct {
        const char *reply;
        int verdict;
    } table[] = {
        {"-DENIED Redis is running in protected mode\r\n", REDLOCK_VERDICT_AUTH},
        {"-NOAUTH HELLO must be called with the client already authenticated\r\n",
         REDLOCK_VERDICT_AUTH},
        {"-ERR max number of clients reached\r\n", REDLOCK_VERDICT_MAXCLIENTS},
        {"-LOADING Redis is loading the dataset in memory\r\n", REDLOCK_VERDICT_LOADING},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake fake;
        struct world world;
        open_fake(&fake, &world);
        fake_accept(&fake, &world);
        fake_await(&fake, &world, GREETED);
        fake_say_text(&fake, table[i].reply);
        world_until_verdict(&world, 0, table[i].verdict);
        assert_int_equal(times_logged(&world, WEAKER), 0);
        end(&fake, &world);
    }
}

/* ---- the connection that is open while somebody waits ---- */

#define OK_TO_HELLO "%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n"
#define SUBSCRIBED ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
#define K_CHANGED ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
#define J_CHANGED ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nj\r\n$1\r\nk\r\n"
/* HELLO, CLIENT TRACKING, INFO, SUBSCRIBE; and then the test whether it notifies. */
enum { WATCH_GREETED = 4, PROBE_COMMANDS = 6, WATCH_PROVEN = WATCH_GREETED + PROBE_COMMANDS };

#define PROBE_MESSAGE ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nprobe\r\n"

/* The second connection to the same node. */
static struct fake begin_second(struct fake *fake, struct world *world) {
    struct fake second = {.peer = -1};
    begin(fake, world);
    second.listener = fake->listener;
    second.port = fake->port;
    net_track(world->net, true);
    fake_accept(&second, world);
    fake_await(&second, world, WATCH_GREETED);
    return second;
}

/* Answers the test, as a server that notifies does, or as one that does not. */
static void answer_probe(struct fake *second, struct world *world, bool notifies) {
    char push[128];
    fake_await(second, world, WATCH_PROVEN);
    const char *key = memmem(second->input, second->input_bytes, "redlock:waiting:", 16);
    assert_non_null(key);
    snprintf(push, sizeof(push), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$32\r\n%.32s\r\n", key);
    fake_say_text(second, "+OK\r\n:-2\r\n+OK\r\n");
    if (notifies) fake_say_text(second, push);
    fake_say_text(second, ":1\r\n+OK\r\n" PROBE_MESSAGE ":1\r\n");
}

static void end_second(struct fake *second, struct fake *fake, struct world *world) {
    end(fake, world);
    fake_hang_up(second);
    free(second->input);
}

static void test_looks_on_the_second_connection(void **state) {
    static const char answer[] = K_CHANGED "+OK\r\n" J_CHANGED ":5\r\n" K_CHANGED;
    struct fake fake;
    struct world world;
    (void)state;
    for (size_t cut = 1; cut < sizeof(answer); cut++) {
        struct fake second = begin_second(&fake, &world);
        struct ask look;
        assert_true(was_sent(&second, "TRACKING\r\n$2\r\nON\r\n$5\r\nOPTIN\r\n"));
        assert_int_equal(net_tracked(world.net), 0);
        fake_say_text(&second, OK_TO_HELLO);
        fake_introduce(&second, fake.port);
        fake_say(&second, SUBSCRIBED, cut % sizeof(SUBSCRIBED));
        world_for(&world, 1);
        fake_say_text(&second, &SUBSCRIBED[cut % sizeof(SUBSCRIBED)]);
        answer_probe(&second, &world, true);
        while (net_tracked(world.net) == 0) world_turn(&world, net_now(world.net) + RL_MS);
        assert_int_equal(world.changes, 1); /* any key may have changed before */
        ask_init(&look, NET_WATCH, "k", "", 0);
        assert_int_equal(ask_send(&world, &look, 1, 1000, 0), 1);
        fake_await(&second, &world, WATCH_PROVEN + 2);
        assert_int_equal(fake.seen, GREETED);
        fake_say(&second, answer, cut);
        world_for(&world, 1);
        fake_say_text(&second, answer + cut);
        world_until_done(&world, &look, 1);
        world_for(&world, 1);
        assert_int_equal(look.verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_int_equal(look.remaining_ms, 5);
        /* j, and k once: what was told of it before the answer, the answer knew. */
        assert_int_equal(world.changes, 3);
        assert_string_equal(world.key, "k");
        assert_int_equal(world.losses, 0); /* that is of the other connection */
        fake_say_text(&second, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n0 k\r\n" FLUSHED
                               ">1\r\n$1\r\nx\r\n>2\r\n:1\r\n:2\r\n");
        world_for(&world, 5);
        assert_int_equal(world.ranks, 1);
        assert_int_equal(world.changes, 4);
        assert_string_equal(world.key, "");
        assert_int_equal(net_tracked(world.net), 1);
        end_second(&second, &fake, &world);
    }
}

static void expect_polling(const char *hello, int identity, const char *subscribed,
                           const char *logged) {
    struct fake fake;
    struct world world;
    struct fake second = begin_second(&fake, &world);
    fake_say_text(&second, hello);
    fake_introduce(&second, identity ? identity : fake.port);
    fake_say_text(&second, subscribed);
    fake_await_end(&second, &world);
    assert_int_equal(net_tracked(world.net), 0);
    if (logged) assert_int_equal(times_logged(&world, logged), 1);
    assert_int_equal(times_logged(&world, "waiting polls"), logged != NULL);
    assert_true(world_node(&world, 0).announces);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    end_second(&second, &fake, &world);
}

static void test_second_connections_that_do_not_report(void **state) {
    (void)state;
    expect_polling("-NOPERM x\r\n-NOPERM x\r\n", 0, SUBSCRIBED,
                   "waiting polls: HELLO is refused: NOPERM x");
    expect_polling("*2\r\n$5\r\nproto\r\n:2\r\n+OK\r\n", 0, SUBSCRIBED, NULL);
    expect_polling("%1\r\n$5\r\nproto\r\n:3\r\n-NOPERM y\r\n", 0, SUBSCRIBED,
                   "waiting polls: CLIENT TRACKING is refused: NOPERM y");
    expect_polling(OK_TO_HELLO, 0, "-NOPERM z\r\n",
                   "waiting polls: SUBSCRIBE is refused: NOPERM z");
    expect_polling(OK_TO_HELLO, 0, "+OK\r\n", NULL);
    expect_polling(OK_TO_HELLO, 1, SUBSCRIBED, NULL); /* another server */
}

/* What the server says to the test, and whether waiters trust it then. */
static void expect_probe(const char *answer, bool trusted, const char *logged) {
    struct fake fake;
    struct world world;
    struct fake second = begin_second(&fake, &world);
    fake_say_text(&second, OK_TO_HELLO);
    fake_introduce(&second, fake.port);
    fake_say_text(&second, SUBSCRIBED);
    if (answer) {
        fake_await(&second, &world, WATCH_PROVEN);
        assert_int_equal(net_tracked(world.net), 0);
        fake_say_text(&second, answer);
    } else {
        answer_probe(&second, &world, false);
    }
    if (trusted)
        while (net_tracked(world.net) == 0) world_turn(&world, net_now(world.net) + RL_MS);
    else
        fake_await_end(&second, &world);
    assert_int_equal(net_tracked(world.net), trusted);
    assert_int_equal(times_logged(&world, "waiting polls"), logged != NULL);
    if (logged) assert_int_equal(times_logged(&world, logged), 1);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 1);
    end_second(&second, &fake, &world);
}

static void test_a_server_that_accepts_tracking_and_does_not_notify(void **state) {
    (void)state;
    expect_probe(NULL, false,
                 "CLIENT TRACKING is refused: it is accepted, but the change that tests it was not "
                 "reported, or was refused");
    expect_probe("+OK\r\n:-2\r\n-OOM no memory\r\n:0\r\n+OK\r\n:1\r\n", false, NULL);
    /* This user may not make the test. */
    expect_probe("+OK\r\n:-2\r\n-NOPERM x\r\n:0\r\n+OK\r\n:1\r\n", true, NULL);
    expect_probe("+OK\r\n:-2\r\n+OK\r\n:1\r\n+OK\r\n-NOPERM x\r\n", true, NULL);
}

/* ---- real servers ---- */

static void until_losses(struct world *world, unsigned losses) {
    rl_ns until = net_now(world->net) + 5000 * RL_MS;
    while (world->losses < losses) {
        if (net_now(world->net) >= until)
            fail_msg("%u losses were announced, not %u", world->losses, losses);
        world_turn(world, until);
    }
}

static void open_server(struct server *server, struct world *world, const char *const *arguments,
                        const char *userinfo) {
    char url[100];
    server_start(server, arguments);
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d", userinfo, server->port);
    open_guarded_url(world, url);
    world_until_ready(world, 1);
}

static void test_changes_on_a_server(void **state) {
    struct server server = {0};
    struct world world;
    (void)state;
    open_server(&server, &world, NULL, "");
    assert_true(world_node(&world, 0).announces);
    server_ask_integer(&server, "HSET redlock:node a 1");
    until_losses(&world, 1);
    server_ask_integer(&server, "DEL redlock:node");
    until_losses(&world, 2);
    freeReplyObject(server_ask(&server, "FLUSHDB ASYNC"));
    until_losses(&world, 3);
    freeReplyObject(server_ask(&server, "SET other x")); /* no record */
    world_for(&world, 30);
    assert_int_equal(world.losses, 3);
    assert_int_equal(times_logged(&world, WEAKER), 0);
    world_close(&world);
    server_stop(&server);
}

/* A vote before and one behind it, on one connection that is not read in between. */
static void expect_reported_before_the_vote(struct world *world, struct server *server,
                                            void (*lose)(struct server *)) {
    struct ask before, behind;
    ask_vote(&before, "k");
    assert_int_equal(ask_and_wait(world, &before),
                     REDLOCK_VERDICT_STALE); /* there are no fences: it does not matter */
    lose(server);
    ask_vote(&behind, "k");
    assert_int_equal(ask_and_wait(world, &behind), REDLOCK_VERDICT_STALE); /* the key is gone */
    if (behind.lost_before[0] == before.lost_before[0])
        fail_msg("a vote was counted before the loss was told");
    server_ask_integer(server, "DEL k");
}

static void flush(struct server *server) { freeReplyObject(server_ask(server, "FLUSHALL")); }

static struct server master;

/* Same process, same connections, other data. */
static void resynchronise(struct server *server) {
    bool up = false;
    freeReplyObject(server_ask(server, "REPLICAOF 127.0.0.1 %d", master.port));
    for (int i = 0; i < 5000 && !up; i++) {
        redisReply *info = server_ask(server, "INFO replication");
        up = strstr(info->str, "master_link_status:up") != NULL;
        freeReplyObject(info);
        if (!up) usleep(1000);
    }
    assert_true(up);
    freeReplyObject(server_ask(server, "REPLICAOF NO ONE"));
}

static void test_losses_on_a_server(void **state) {
    static const char *const plain[] = {"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay",
                                        "0", NULL};
    struct server server = {0};
    struct world world;
    (void)state;
    server_start(&master, plain);
    open_server(&server, &world, plain, "");
    for (int i = 0; i < 100; i++) expect_reported_before_the_vote(&world, &server, flush);
    for (int i = 0; i < 100; i++) expect_reported_before_the_vote(&world, &server, resynchronise);
    assert_int_equal(world_node(&world, 0).reconnects, 0);
    world_close(&world);
    server_stop(&server);
    server_stop(&master);
}

static void expect_weaker_server(const char *const *arguments) {
    struct server server = {0};
    struct world world;
    open_server(&server, &world, arguments, "bob:pw@");
    assert_false(world_node(&world, 0).announces);
    assert_int_equal(times_logged(&world, WEAKER), 1);
    server_ask_integer(&server, "HSET redlock:node a 1");
    assert_int_equal(ask_one(&world, NET_RECORD, "", "", 0), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(world.losses, 0);
    server_ask_integer(&server, "CLIENT KILL USER bob");
    world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
    world_until_ready(&world, 1);
    assert_int_equal(times_logged(&world, WEAKER), 1);
    world_close(&world);
    server_stop(&server);
}

/* (Redis itself lets no ACL forbid HELLO.) */
static void test_refused_by_a_server(void **state) {
    static const char *const no_tracking[] = {
        "--user", "bob", "on", ">pw", "~*", "&*", "+@all", "-client|tracking", NULL};
    static const char *const neither[] = {
        "--user",           "bob",   "on", ">pw", "~*", "&*", "+@all", "-client", "-hello",
        "--rename-command", "HELLO", "",   NULL};
    static const char *const renamed[] = {
        "--user", "bob", "on", ">pw", "~*", "&*", "+@all", "--rename-command", "HELLO", "", NULL};
    (void)state;
    /* before version 7 a subcommand cannot be forbidden by itself */
    if (servers_version() >= 700) expect_weaker_server(no_tracking);
    expect_weaker_server(neither);
    expect_weaker_server(renamed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked_at_once),
        cmocka_unit_test(test_a_push_comes_before_what_stands_behind_it),
        cmocka_unit_test(test_other_pushes),
        cmocka_unit_test(test_maps_and_scores),
        cmocka_unit_test(test_what_no_server_says),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_resp3_where_it_was_refused),
        cmocka_unit_test(test_not_about_hello),
        cmocka_unit_test(test_looks_on_the_second_connection),
        cmocka_unit_test(test_second_connections_that_do_not_report),
        cmocka_unit_test(test_a_server_that_accepts_tracking_and_does_not_notify),
        cmocka_unit_test(test_changes_on_a_server),
        cmocka_unit_test(test_losses_on_a_server),
        cmocka_unit_test(test_refused_by_a_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
