/* SPDX-License-Identifier: BSD-2-Clause scheme=setnx: timestamps, the commands and their answers,
 * and every request on a real server, by scripts and without.
 */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/codec/command.h"
#include "net/codec/setnx.h"
#include "node/scripts.h"
#include "servers.h"

#define SECOND INT64_C(1000000)
#define AT (INT64_C(1700000000) * SECOND)

static struct net_bytes text_of(const char *text) { return (struct net_bytes){text, strlen(text)}; }

/* ---- timestamps ---- */

static void test_timestamps(void **state) {
    static const struct {
        const char *text;
        int64_t over;
    } good[] = {
        {"1700000000", AT},
        {"0001700000000", AT},
        {"1700000000.25", AT + 250000},
        {"1700000000.0", AT},
        {"1700000000.1234567", AT + 123457},
        {"1700000000123", AT + 123000}, /* milliseconds */
        {"1700000000123.5", AT + 123500},
        {"1000000000", INT64_C(1000000000) * SECOND},
        {"9999999999", INT64_C(9999999999) * SECOND},
    };
    static const char *const others[] = {"",
                                         "0",
                                         "1",
                                         "locked",
                                         "12345",
                                         "999999999",
                                         "17000000001",
                                         "170000000012",
                                         "17000000001234",
                                         "1700000000.",
                                         ".1700000000",
                                         "1700000000 ",
                                         " 1700000000",
                                         "-1700000000",
                                         "+1700000000",
                                         "1.7e9",
                                         "1700000000.5.5",
                                         "1700000000x",
                                         "1700000000.x",
                                         "0x65538A00",
                                         "000000000000000000000001700000000",
                                         "4b2c1700000000aa",
                                         "1700000000.0000000000000000000000000"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t over = 0;
        if (!setnx_parse(text_of(good[i].text), &over)) fail_msg("%s was refused", good[i].text);
        if (over != good[i].over) fail_msg("%s: over %" PRId64, good[i].text, over);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        int64_t over;
        if (setnx_parse(text_of(others[i]), &over))
            fail_msg("\"%s\" was taken for a timestamp", others[i]);
    }
}

/* At least a whole second lies behind the TTL, and less than a unit more. */
static void test_own_timestamps(void **state) {
    (void)state;
    assert_int_equal(setnx_stamp_at(REDLOCK_SCHEME_SETNX, AT, 5000), 1700000006);
    assert_int_equal(setnx_stamp_at(REDLOCK_SCHEME_SETNX, AT + 1, 5000), 1700000007);
    assert_int_equal(setnx_stamp_at(REDLOCK_SCHEME_SETNX_MS, AT + 1, 5000), INT64_C(1700000006001));
    for (int64_t us = 0; us < 3 * SECOND; us += 33333) {
        int64_t behind =
            setnx_stamp_at(REDLOCK_SCHEME_SETNX, AT + us, 1500) * SECOND - (AT + us + 1500000);
        assert_in_range(behind, SECOND, 2 * SECOND - 1);
        behind =
            setnx_stamp_at(REDLOCK_SCHEME_SETNX_MS, AT + us, 1500) * 1000 - (AT + us + 1500000);
        assert_in_range(behind, SECOND, SECOND + 999);
    }
}

/* ---- words ---- */

static void expect(const struct net_request *request, const char *text) {
    struct buffer out = {0};
    size_t nonce_at = 1;
    assert_true(command_encode(request, 0, COMMAND_STOCK, &out, (size_t)1 << 20, &nonce_at));
    assert_int_equal(nonce_at, 0);
    assert_int_equal(buffer_bytes(&out), strlen(text));
    assert_memory_equal(buffer_data(&out), text, strlen(text));
    unsigned commands = 0;
    for (const char *at = text; (at = strstr(at, "*")); at++) commands++;
    assert_int_equal(command_replies(request, false), commands);
    buffer_free(&out);
}

static void test_words(void **state) {
    struct net_bytes key = {"k", 1};
    struct net_request request = {.op = NET_ACQUIRE,
                                  .keys = &key,
                                  .keys_count = 1,
                                  .token = {"t", 1},
                                  .ttl_ms = 9,
                                  .scheme = REDLOCK_SCHEME_SETNX};
    char text[1024];
    (void)state;
    snprintf(
        text, sizeof(text),
        "*8\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$15\r\nredlock:setnx:k\r\n$1\r\nt\r\n$1\r\n9\r\n"
        "$7\r\n1000000\r\n",
        node_scripts[NODE_SETNX_ACQUIRE].sha1);
    expect(&request, text);
    assert_true(command_needs_script(&request, false));
    assert_false(command_is_plain(&request));
    request.op = NET_EXTEND;
    request.scheme = REDLOCK_SCHEME_SETNX_MS;
    snprintf(
        text, sizeof(text),
        "*8\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$15\r\nredlock:setnx:k\r\n$1\r\nt\r\n$1\r\n9\r\n"
        "$4\r\n1000\r\n",
        node_scripts[NODE_SETNX_EXTEND].sha1);
    expect(&request, text);
    request.op = NET_RELEASE;
    snprintf(
        text, sizeof(text),
        "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$15\r\nredlock:setnx:k\r\n$1\r\nt\r\n",
        node_scripts[NODE_SETNX_RELEASE].sha1);
    expect(&request, text);
    request.op = NET_PEEK;
    expect(
        &request,
        "*4\r\n$8\r\nGETRANGE\r\n$1\r\nk\r\n$1\r\n0\r\n$2\r\n39\r\n*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n"
        "*1\r\n$4\r\nTIME\r\n");
    request.op = NET_WATCH;
    expect(
        &request,
        "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n*4\r\n$8\r\nGETRANGE\r\n$1\r\nk\r\n$1\r\n0\r\n"
        "$2\r\n39\r\n*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n*1\r\n$4\r\nTIME\r\n");
    request.op = NET_PEEK_VALUE;
    expect(
        &request,
        "*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nTIME\r\n*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n"
        "*4\r\n$8\r\nGETRANGE\r\n$1\r\nk\r\n$1\r\n0\r\n$4\r\n1024\r\n"
        "*4\r\n$5\r\nHMGET\r\n$15\r\nredlock:setnx:k\r\n$5\r\nvalue\r\n$5\r\ntoken\r\n*1\r\n$4\r\nEXEC\r\n");
    /* What has nothing to do with a lock's value is as ever. */
    request.op = NET_SCAN;
    assert_false(setnx_speaks(&request));
    request.op = NET_WAIT_QUEUE_ENTER;
    assert_false(setnx_speaks(&request));
}

/* ---- answers ---- */

/* False: not an answer to this. */
static bool feed(enum net_op op, const char *const *texts, struct net_reply *answer) {
    struct net_bytes key = {"k", 1};
    struct net_request request = {
        .op = op, .keys = &key, .keys_count = 1, .scheme = REDLOCK_SCHEME_SETNX};
    struct reader reader;
    bool right = true;
    assert_true(reader_open(&reader));
    for (unsigned i = 0; right && i < command_replies(&request, false); i++) {
        assert_true(reader_feed(&reader, texts[i], strlen(texts[i])));
        assert_int_equal(reader_next(&reader), READER_REPLY);
        right = command_answer(&request, i, &reader, (struct answer_room){.fences = NULL}, answer);
    }
    answer->value.data = NULL; /* gone with the reader */
    reader_close(&reader);
    return right;
}

#define TIME_AT "*2\r\n$10\r\n1700000000\r\n$6\r\n500000\r\n"

static void peeks(const char *value, const char *pttl, int verdict, int64_t remaining_ms) {
    struct net_reply answer;
    char bulk[80];
    snprintf(bulk, sizeof(bulk), "$%zu\r\n%s\r\n", strlen(value), value);
    const char *const peek[] = {bulk, pttl, TIME_AT}, *const watch[] = {"+OK\r\n", bulk, pttl,
                                                                        TIME_AT};
    assert_true(feed(NET_PEEK, peek, &answer));
    assert_int_equal(answer.verdict, verdict);
    assert_int_equal(answer.remaining_ms, remaining_ms);
    assert_true(feed(NET_WATCH, watch, &answer));
    assert_int_equal(answer.verdict, verdict);
    assert_int_equal(answer.remaining_ms, remaining_ms);
}

static void test_peeks(void **state) {
    (void)state;
    peeks("1700000003", ":-1\r\n", REDLOCK_VERDICT_GRANTED, 3500);
    peeks("1700000000", ":-1\r\n", REDLOCK_VERDICT_GRANTED, 500);
    peeks("1699999999", ":-1\r\n", REDLOCK_VERDICT_ABSENT, -2); /* over */
    peeks("1699999999.5", ":-1\r\n", REDLOCK_VERDICT_ABSENT, -2);
    peeks("1699999999.600001", ":-1\r\n", REDLOCK_VERDICT_GRANTED, 101); /* rounded up */
    peeks("", ":-2\r\n", REDLOCK_VERDICT_ABSENT, -2);
    peeks("", ":-1\r\n", REDLOCK_VERDICT_GRANTED, -1); /* an empty value: something else */
    peeks("token", ":-1\r\n", REDLOCK_VERDICT_GRANTED, -1);
    peeks("token", ":700\r\n", REDLOCK_VERDICT_GRANTED, 700);
    peeks("1699999999", ":700\r\n", REDLOCK_VERDICT_GRANTED,
          700); /* a key with a TTL ends by that */
}

static void test_wrong_answers(void **state) {
    struct net_reply answer;
    const char *const no_string[] = {":1\r\n", ":-1\r\n", TIME_AT},
                      *const no_number[] = {"$1\r\nx\r\n", "+x\r\n", TIME_AT},
                      *const no_time[] = {"$1\r\nx\r\n", ":-1\r\n", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"},
                      *const half_time[] = {"$1\r\nx\r\n", ":-1\r\n", "*1\r\n$1\r\n1\r\n"},
                      *const long_time[] = {"$1\r\nx\r\n", ":-1\r\n",
                                            "*2\r\n$18\r\n999999999999999999\r\n$1\r\n1\r\n"},
                      *const many_us[] =
                          {"$1\r\nx\r\n", ":-1\r\n",
                           "*2\r\n$13\r\n9223372036853\r\n$18\r\n999999999999999999\r\n"},
                      *const refused[] = {"$10\r\n1700000003\r\n", ":-1\r\n",
                                          "-NOPERM this user has no permissions\r\n"};
    (void)state;
    assert_false(feed(NET_PEEK, no_string, &answer));
    assert_false(feed(NET_PEEK, no_number, &answer));
    assert_false(feed(NET_PEEK, no_time, &answer));
    assert_false(feed(NET_PEEK, half_time, &answer));
    assert_false(feed(NET_PEEK, long_time, &answer));
    assert_false(feed(NET_PEEK, many_us, &answer));
    assert_true(feed(NET_PEEK, refused, &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_NOPERM);

#define QUEUED "+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n"
    const char *const undone[] = {QUEUED, "*-1\r\n"},
                      *const three[] = {QUEUED, "*3\r\n" TIME_AT ":1\r\n$1\r\nx\r\n"},
                      *const no_left[] = {QUEUED, "*4\r\n" TIME_AT
                                                  ":-3\r\n$1\r\nx\r\n*2\r\n$-1\r\n$-1\r\n"},
                      *const at_once[] = {"+OK\r\n", ":1\r\n", "", "", "", ""},
                      *const nothing_beside[] = {QUEUED, "*4\r\n" TIME_AT
                                                         ":-1\r\n$1\r\nx\r\n*2\r\n$-1\r\n$-1\r\n"},
                      *const list_beside[] = {QUEUED, "*4\r\n" TIME_AT
                                                      ":-1\r\n$1\r\nx\r\n-WRONGTYPE Operation\r\n"},
                      *const a_list[] = {QUEUED,
                                         "*4\r\n" TIME_AT
                                         ":-1\r\n-WRONGTYPE Operation\r\n*2\r\n$-1\r\n$-1\r\n"};
#undef QUEUED
    assert_false(feed(NET_PEEK_VALUE, undone, &answer));
    assert_false(feed(NET_PEEK_VALUE, three, &answer));
    assert_false(feed(NET_PEEK_VALUE, no_left, &answer));
    assert_false(feed(NET_PEEK_VALUE, at_once, &answer));
    assert_true(feed(NET_PEEK_VALUE, nothing_beside, &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(answer.value.bytes, 1);
    assert_true(feed(NET_PEEK_VALUE, list_beside, &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_GRANTED);
    assert_true(feed(NET_PEEK_VALUE, a_list, &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_WRONGTYPE);
}

/* ---- on a server ---- */

static int ask(struct world *world, enum net_op op, const char *key, const char *token,
               int64_t ttl_ms, struct ask *into) {
    static struct ask own;
    if (!into) into = &own;
    ask_init(into, op, key, token, ttl_ms);
    into->request.scheme = REDLOCK_SCHEME_SETNX;
    return ask_and_wait(world, into);
}

static int64_t server_clock(struct server *server) {
    redisReply *reply = server_ask(server, "TIME");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * SECOND +
                 strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

static int64_t stamp_in(struct server *server, const char *key) {
    char value[80] = "";
    if (!server_get(server, key, value, sizeof(value))) return -1;
    assert_int_equal(strspn(value, "0123456789"),
                     strlen(value)); /* digits alone: for those who read whole numbers */
    return strtoll(value, NULL, 10);
}

static void put(struct server *server, const char *key, int64_t seconds) {
    freeReplyObject(server_ask(server, "SET %s %lld", key, (long long)seconds));
}

static void every_request(struct world *world, struct server *server) {
    struct ask look;
    int64_t now_us = server_clock(server);
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t1", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    int64_t stamp = stamp_in(server, "k");
    assert_in_range(stamp * SECOND, now_us + 61 * SECOND, server_clock(server) + 62 * SECOND);
    assert_int_equal(server_ask_integer(server, "PTTL k"), -1);
    assert_in_range(server_ask_integer(server, "PTTL redlock:setnx:k"), 60000, 63000);
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t2", 60000, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask(world, NET_PEEK_VALUE, "k", "", 0, &look), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(look.value_bytes, 2);
    assert_memory_equal(look.value, "t1", 2);
    assert_in_range(look.remaining_ms, 60000, 63000);
    assert_int_equal(ask(world, NET_PEEK, "k", "", 0, &look), REDLOCK_VERDICT_GRANTED);
    assert_in_range(look.remaining_ms, 60000, 63000);
    assert_int_equal(ask(world, NET_EXTEND, "k", "t1", 90000, NULL), REDLOCK_VERDICT_GRANTED);
    int64_t later = stamp_in(server, "k");
    assert_in_range(later - stamp, 29, 32);
    assert_int_equal(ask(world, NET_EXTEND, "k", "t1", 1000, NULL), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(stamp_in(server, "k"), later); /* never shortened */
    assert_int_equal(ask(world, NET_EXTEND, "k", "t2", 190000, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t2", 0, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(stamp_in(server, "k"), later);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t1", 0, NULL), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 0);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t1", 0, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask(world, NET_EXTEND, "k", "t1", 1000, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask(world, NET_PEEK_VALUE, "k", "", 0, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 0); /* never recreated */
}

/* What was overwritten, by whomever, is another's, whatever it says; also when it says the same. */
static void overwritten(struct world *world, struct server *server) {
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t1", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    int64_t stamp = stamp_in(server, "k");
    put(server, "k", stamp + 5);
    assert_int_equal(ask(world, NET_EXTEND, "k", "t1", 90000, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t1", 0, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(stamp_in(server, "k"), stamp + 5);
    put(server, "k", server_clock(server) / SECOND - 2);
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t2", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(server, "HSET redlock:setnx:k token t3 value %lld",
                               (long long)stamp_in(server, "k")));
    assert_int_equal(ask(world, NET_RELEASE, "k", "t2", 0, NULL), REDLOCK_VERDICT_DENIED);
    freeReplyObject(server_ask(server, "FLUSHALL"));
}

/* Over, and nobody has come: not deleted, not extended; the next one takes it. */
static void over(struct world *world, struct server *server) {
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t1", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    int64_t past = server_clock(server) / SECOND - 2;
    put(server, "k", past); /* as if so long ago */
    freeReplyObject(server_ask(server, "HSET redlock:setnx:k value %lld", (long long)past));
    assert_int_equal(ask(world, NET_EXTEND, "k", "t1", 60000, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t1", 0, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(stamp_in(server, "k"), past);
    assert_int_equal(ask(world, NET_PEEK_VALUE, "k", "", 0, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask(world, NET_PEEK, "k", "", 0, NULL), REDLOCK_VERDICT_ABSENT);
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t2", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t1", 0, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t2", 0, NULL), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(server_ask_integer(server, "DBSIZE"), 0);
}

/* The rules of the script and of transactions are those of setnx_parse(). */
static void what_may_be_taken(struct world *world, struct server *server) {
    static const char *const values[] = {"1700000000",
                                         "1700000000.5",
                                         "1700000000123",
                                         "1700000000123.25",
                                         "0001700000000",
                                         "9999999999",
                                         "9999999999999",
                                         "9999999999.5",
                                         "",
                                         "0",
                                         "1",
                                         "12345",
                                         "17000000001",
                                         "1700000000.",
                                         "1700000000 ",
                                         "1.7e9",
                                         "-1700000000",
                                         "1700000000x",
                                         "token",
                                         "1700000000.5.5",
                                         "000000000000000000000001700000000",
                                         "4f1e9c4b2c1700000000aa"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        int64_t over_us;
        bool taken =
            setnx_parse(text_of(values[i]), &over_us) && over_us + SECOND < server_clock(server);
        freeReplyObject(server_ask(server, "SET k %b", values[i], strlen(values[i])));
        int verdict = ask(world, NET_ACQUIRE, "k", "t", 60000, NULL);
        if (verdict != (taken ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_DENIED))
            fail_msg("\"%s\": %s", values[i], verdict_text(verdict));
        char left[80] = "";
        assert_true(server_get(server, "k", left, sizeof(left)));
        if (!taken) assert_string_equal(left, values[i]);
    }
    /* A number with a TTL may be the token of a lock that ends by itself. */
    freeReplyObject(server_ask(server, "SET k 1700000000 PX 60000"));
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t", 60000, NULL), REDLOCK_VERDICT_DENIED);
    server_ask_integer(server, "DEL k");
    server_ask_integer(server, "RPUSH k x");
    assert_int_equal(ask(world, NET_ACQUIRE, "k", "t", 60000, NULL), REDLOCK_VERDICT_DENIED);
    assert_int_equal(ask(world, NET_EXTEND, "k", "t", 60000, NULL), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask(world, NET_RELEASE, "k", "t", 0, NULL), REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(ask(world, NET_PEEK_VALUE, "k", "", 0, NULL), REDLOCK_VERDICT_WRONGTYPE);
    freeReplyObject(server_ask(server, "FLUSHALL"));
}

static void on_a_server(const char *const *arguments, bool transactions) {
    struct server server = {0};
    struct world world;
    char url[120];
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?scheme=setnx", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    assert_int_equal(world_node(&world, 0).uses_transactions, transactions);
    assert_int_equal(world_node(&world, 0).scheme, REDLOCK_SCHEME_SETNX);
    every_request(&world, &server);
    overwritten(&world, &server);
    over(&world, &server);
    what_may_be_taken(&world, &server);
    world_close(&world);
    server_stop(&server);
}

static void test_with_scripts(void **state) {
    (void)state;
    on_a_server(NULL, false);
}

static void test_without_scripts(void **state) {
    static const char *const arguments[] = {"--rename-command", "EVAL", "",  "--rename-command",
                                            "EVALSHA",          "",     NULL};
    (void)state;
    on_a_server(arguments, true);
}

static void test_flushed_scripts(void **state) {
    struct server server = {0};
    struct world world;
    char url[120];
    (void)state;
    server_start(&server, NULL);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d/3?scheme=setnx", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(ask(&world, NET_ACQUIRE, "k", "t", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(ask(&world, NET_EXTEND, "k", "t", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    freeReplyObject(server_ask(&server, "SCRIPT FLUSH"));
    assert_int_equal(ask(&world, NET_RELEASE, "k", "t", 0, NULL), REDLOCK_VERDICT_GRANTED);
    world_close(&world);
    server_stop(&server);
}

/* A user who may not read the lock is not answered as if another client held it. */
static void test_reading_is_denied(void **state) {
    static const char *const arguments[] = {"--user", "bob",   "on",        ">pw",
                                            "~*",     "+@all", "-getrange", NULL};
    struct server server = {0};
    struct world world;
    char url[120];
    (void)state;
    server_start(&server, arguments);
    snprintf(url, sizeof(url), "redis://bob:pw@127.0.0.1:%d?scheme=setnx", server.port);
    world_open_urls(&world, url);
    world_until_ready(&world, 1);
    assert_int_equal(ask(&world, NET_ACQUIRE, "free", "t", 60000, NULL), REDLOCK_VERDICT_GRANTED);
    put(&server, "k", server_clock(&server) / SECOND - 2);
    assert_int_equal(ask(&world, NET_ACQUIRE, "k", "t", 60000, NULL), REDLOCK_VERDICT_NOPERM);
    world_close(&world);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timestamps),
        cmocka_unit_test(test_own_timestamps),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_peeks),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_with_scripts),
        cmocka_unit_test(test_without_scripts),
        cmocka_unit_test(test_flushed_scripts),
        cmocka_unit_test(test_reading_is_denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
