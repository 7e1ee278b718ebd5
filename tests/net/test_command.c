/* SPDX-License-Identifier: BSD-2-Clause
 * Requests as bytes on the wire, binary keys and tokens included. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "net/codec/command.h"
#include "net/codec/form.h"
#include "node/scripts.h"

static void expect(const struct net_request *request, bool whole, const char *text, size_t bytes) {
    struct buffer out = {0};
    size_t nonce_at = 1;
    assert_true(command_encode(request, 0, whole ? COMMAND_WHOLE : COMMAND_STOCK, &out,
                               (size_t)1 << 20, &nonce_at));
    assert_int_equal(nonce_at, 0); /* every node is sent the same */
    assert_int_equal(buffer_bytes(&out), bytes);
    assert_memory_equal(buffer_data(&out), text, bytes);
    buffer_free(&out);
}

#define EXPECT(request, whole, text) expect(request, whole, text, sizeof(text) - 1)

static void test_encoding(void **state) {
    struct net_bytes keys[2] = {{"k\0\r\n", 4}, {"l", 1}};
    struct net_request request = {
        .op = NET_ACQUIRE, .keys = keys, .keys_count = 1, .token = {"t\0k", 3}, .ttl_ms = 12345};
    (void)state;
    EXPECT(
        &request, false,
        "*6\r\n$3\r\nSET\r\n$4\r\nk\0\r\n\r\n$3\r\nt\0k\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n12345\r\n");
    request.op = NET_PEEK;
    request.keys_count = 2;
    EXPECT(&request, false, "*2\r\n$4\r\nPTTL\r\n$4\r\nk\0\r\n\r\n*2\r\n$4\r\nPTTL\r\n$1\r\nl\r\n");
    assert_int_equal(command_replies(&request, false), 2);
    request.op = NET_PEEK_VALUE;
    EXPECT(
        &request, false,
        "*2\r\n$4\r\nPTTL\r\n$4\r\nk\0\r\n\r\n*4\r\n$8\r\nGETRANGE\r\n$4\r\nk\0\r\n\r\n$1\r\n0\r\n$4\r\n1024\r\n");
    /* a leader's announcement, and how it is read */
    struct net_bytes name = {"redlock:term:k", 14};
    struct net_request announce = {
        .op = NET_ANNOUNCE, .keys = &name, .keys_count = 1, .token = {"70 t", 4}, .ttl_ms = 100};
    EXPECT(&announce, false,
           "*5\r\n$3\r\nSET\r\n$14\r\nredlock:term:k\r\n$4\r\n70 t\r\n$2\r\nPX\r\n$3\r\n100\r\n");
    announce.op = NET_TERM;
    EXPECT(
        &announce, false,
        "*2\r\n$4\r\nPTTL\r\n$14\r\nredlock:term:k\r\n*4\r\n$8\r\nGETRANGE\r\n$14\r\nredlock:term:k\r\n$1\r\n0\r\n$4\r\n1024\r\n");
    struct net_bytes prefix = {"a*[?\\\0b", 7};
    struct net_request scan = {
        .op = NET_SCAN, .keys = &prefix, .keys_count = 1, .cursor = UINT64_MAX};
    EXPECT(
        &scan, false,
        "*6\r\n$4\r\nSCAN\r\n$20\r\n18446744073709551615\r\n$5\r\nMATCH\r\n$12\r\na\\*\\[\\?\\\\\0b*\r\n$"
        "5\r\nCOUNT\r\n$2\r\n50\r\n");
    scan.anywhere = true;
    scan.effort = 1000;
    scan.cursor = 7;
    EXPECT(&scan, false,
           "*6\r\n$4\r\nSCAN\r\n$1\r\n7\r\n$5\r\nMATCH\r\n$13\r\n*a\\*\\[\\?\\\\\0b*\r\n$"
           "5\r\nCOUNT\r\n$4\r\n1000\r\n");
    prefix.bytes = 0; /* one star is enough */
    EXPECT(
        &scan, false,
        "*6\r\n$4\r\nSCAN\r\n$1\r\n7\r\n$5\r\nMATCH\r\n$1\r\n*\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n");
}

/* The scripts of classic locks, with keys and arguments in the order that they take. */
static void test_scripts(void **state) {
    struct net_bytes keys[2] = {{"k", 1}, {"l", 1}};
    struct net_request request = {
        .op = NET_ACQUIRE, .keys = keys, .keys_count = 2, .token = {"t", 1}, .ttl_ms = 9};
    char text[4096];
    (void)state;
    int n = snprintf(text, sizeof(text),
                     "*7\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$1\r\nl\r\n"
                     "$1\r\nt\r\n$1\r\n9\r\n",
                     node_scripts[NODE_ACQUIRE_MANY].sha1);
    expect(&request, false, text, (size_t)n);
    request.op = NET_EXTEND;
    n = snprintf(text, sizeof(text),
                 "*7\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$1\r\nl\r\n"
                 "$1\r\nt\r\n$1\r\n9\r\n",
                 node_scripts[NODE_EXTEND].bytes, node_scripts[NODE_EXTEND].text);
    expect(&request, true, text, (size_t)n);
    /* A release, a peek and a look are the same for a guarded lock. */
    uint64_t nonces[1] = {7};
    uint16_t stripes[2] = {1, 2};
    request.nonces = nonces;
    request.stripes = stripes;
    request.stripes_count = 2;
    request.op = NET_RELEASE;
    n = snprintf(text, sizeof(text),
                 "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n$1\r\nk\r\n$1\r\nl\r\n"
                 "$1\r\nt\r\n",
                 node_scripts[NODE_RELEASE].sha1);
    expect(&request, false, text, (size_t)n);
    assert_false(command_is_guarded(&request));
    request.op = NET_PEEK;
    EXPECT(&request, false, "*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n*2\r\n$4\r\nPTTL\r\n$1\r\nl\r\n");
    request.op = NET_PEEK_VALUE;
    EXPECT(
        &request, false,
        "*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n*4\r\n$8\r\nGETRANGE\r\n$1\r\nk\r\n$1\r\n0\r\n$4\r\n1024\r\n");
}

static void test_server_info(void **state) {
    (void)state;
    struct net_request server_info = {.op = NET_SERVER_INFO};
    EXPECT(&server_info, false, "*1\r\n$4\r\nTIME\r\n");
    server_info.question = NET_ASK_INFO_PERSISTENCE;
    EXPECT(&server_info, false, "*2\r\n$4\r\nINFO\r\n$11\r\npersistence\r\n");
    server_info.question = NET_ASK_SAVE;
    EXPECT(&server_info, false, "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n");
    /* Nothing but questions, and none for a password. */
    for (unsigned q = 0; q < NET_QUESTIONS; q++) {
        struct buffer out = {0};
        server_info.question = (enum net_question)q;
        size_t nonce_at;
        assert_true(
            command_encode(&server_info, 0, COMMAND_STOCK, &out, (size_t)1 << 20, &nonce_at));
        assert_null(memmem(buffer_data(&out), buffer_bytes(&out), "pass", 4));
        assert_non_null(memmem(buffer_data(&out), buffer_bytes(&out),
                               q == NET_ASK_TIME    ? "TIME"
                               : q < NET_ASK_POLICY ? "INFO"
                                                    : "GET",
                               3));
        assert_int_equal(command_replies(&server_info, false), 1);
        assert_false(net_op_is_write(server_info.op));
        buffer_free(&out);
    }
}

static void test_limit(void **state) {
    struct net_bytes key = {"k", 1};
    struct net_request request = {
        .op = NET_ACQUIRE, .keys = &key, .keys_count = 1, .token = {"t", 1}, .ttl_ms = 1000};
    struct buffer out = {0};
    (void)state;
    size_t nonce_at;
    assert_false(command_encode(&request, 0, COMMAND_STOCK, &out, 10, &nonce_at));
    assert_int_equal(buffer_bytes(&out), 0);
    buffer_free(&out);
}

static bool feed(struct reader *reader, const struct net_request *request, unsigned nth,
                 const char *text, struct net_reply *answer) {
    assert_true(reader_feed(reader, text, strlen(text)));
    assert_int_equal(reader_next(reader), READER_REPLY);
    return command_answer(request, nth, reader, (struct answer_room){.fences = NULL}, answer);
}

static void test_answers(void **state) {
    static const struct {
        enum net_op op;
        size_t keys;
        const char *text;
        int verdict; /* NONE: not an answer to it */
    } table[] = {
        {NET_ACQUIRE, 1, "+OK\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, 1, "$-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, 1, "-OOM x\r\n", REDLOCK_VERDICT_OOM},
        {NET_ACQUIRE, 1, "+QUEUED\r\n", REDLOCK_VERDICT_NONE},
        {NET_ACQUIRE, 1, ":1\r\n", REDLOCK_VERDICT_NONE},
        {NET_ACQUIRE, 2, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, 2, ":0\r\n", REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, 2, ":-1\r\n", REDLOCK_VERDICT_NONE},
        {NET_ACQUIRE, 2, "+OK\r\n", REDLOCK_VERDICT_NONE},
        {NET_EXTEND, 1, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_EXTEND, 1, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_EXTEND, 1, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_EXTEND, 1, ":2\r\n", REDLOCK_VERDICT_NONE},
        {NET_RELEASE, 1, "$1\r\n1\r\n", REDLOCK_VERDICT_NONE},
        {NET_PEEK, 1, ":-3\r\n", REDLOCK_VERDICT_NONE},
        {NET_SCAN, 1, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SCAN, 1, "*2\r\n$1\r\nx\r\n*0\r\n", REDLOCK_VERDICT_NONE},
        {NET_SCAN, 1, "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n", REDLOCK_VERDICT_NONE},
        {NET_SCAN, 1, "*2\r\n$1\r\n0\r\n*1\r\n*1\r\n$1\r\na\r\n", REDLOCK_VERDICT_NONE},
        {NET_SCAN, 1, "*0\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, "*2\r\n:3\r\n:1500\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_WAIT_QUEUE_PEEK, 2, "-NOPERM x\r\n", REDLOCK_VERDICT_NOPERM},
        {NET_WAIT_QUEUE_PEEK, 2, "*2\r\n:-1\r\n:0\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, "*2\r\n:1\r\n:-1\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, "*1\r\n:1\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, "*3\r\n:1\r\n:1\r\n:1\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, "*2\r\n:1\r\n$1\r\n1\r\n", REDLOCK_VERDICT_NONE},
        {NET_WAIT_QUEUE_PEEK, 2, ":1\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*3\r\n:0\r\n:0\r\n:0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_READERS, 2, "*4\r\n:9\r\n:17\r\n:1\r\n$3\r\n5 t\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_READERS, 2, "*4\r\n:9\r\n:17\r\n:1\r\n$2\r\n5 \r\n", REDLOCK_VERDICT_GRANTED},
        {NET_READERS, 2, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_READERS, 2, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_READERS, 2, "-WRONGTYPE x\r\n", REDLOCK_VERDICT_WRONGTYPE},
        {NET_READERS, 2, ":1\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*2\r\n:0\r\n:0\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*3\r\n:-1\r\n:0\r\n:0\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*3\r\n:0\r\n:0\r\n:4294967296\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*3\r\n:0\r\n:0\r\n$1\r\n0\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*4\r\n:1\r\n:0\r\n:0\r\n:5\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*4\r\n:1\r\n:0\r\n:0\r\n$1\r\n5\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*4\r\n:1\r\n:0\r\n:0\r\n$2\r\n t\r\n", REDLOCK_VERDICT_NONE},
        {NET_READERS, 2, "*4\r\n:1\r\n:0\r\n:0\r\n$4\r\n-5 t\r\n", REDLOCK_VERDICT_NONE},
        {NET_SERVER_INFO, 0, "$9\r\nrole:slav\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SERVER_INFO, 0, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SERVER_INFO, 0, "*0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SERVER_INFO, 0, "-NOPERM x\r\n", REDLOCK_VERDICT_NOPERM},
        {NET_SERVER_INFO, 0, "-ERR unknown command 'CONFIG'\r\n", REDLOCK_VERDICT_ERROR},
        {NET_SERVER_INFO, 0, "+OK\r\n", REDLOCK_VERDICT_NONE},
        {NET_SERVER_INFO, 0, ":1\r\n", REDLOCK_VERDICT_NONE},
        {NET_SERVER_INFO, 0, "$-1\r\n", REDLOCK_VERDICT_NONE},
        {NET_SERVER_INFO, 0, "*2\r\n:1\r\n:2\r\n", REDLOCK_VERDICT_NONE},
        {NET_SERVER_INFO, 0, "*1\r\n*1\r\n$1\r\na\r\n", REDLOCK_VERDICT_NONE},
    };
    struct reader reader;
    struct net_bytes keys[2] = {{"k", 1}, {"l", 1}};
    (void)state;
    assert_true(reader_open(&reader));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct net_request request = {.op = table[i].op,
                                      .keys = keys,
                                      .keys_count = table[i].keys,
                                      .token = {"t", 1},
                                      .ttl_ms = 1000};
        struct net_reply answer;
        bool right = feed(&reader, &request, 0, table[i].text, &answer);
        assert_int_equal(right, table[i].verdict != REDLOCK_VERDICT_NONE);
        if (right) assert_int_equal(answer.verdict, table[i].verdict);
    }
    reader_close(&reader);
}

/* An error among several replies is the answer, wherever it stands. */
static void test_first_error_of_several(void **state) {
    struct reader reader;
    struct net_bytes keys[2] = {{"k", 1}, {"l", 1}};
    struct net_request peek = {.op = NET_PEEK, .keys = keys, .keys_count = 2};
    struct net_reply answer;
    (void)state;
    assert_true(reader_open(&reader));
    assert_true(feed(&reader, &peek, 0, "-NOPERM x\r\n", &answer));
    assert_true(feed(&reader, &peek, 1, ":5\r\n", &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_NOPERM);
    assert_true(feed(&reader, &peek, 0, ":5\r\n", &answer));
    assert_true(feed(&reader, &peek, 1, "-NOPERM x\r\n", &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_NOPERM);
    assert_true(feed(&reader, &peek, 0, "-NOPERM x\r\n", &answer));
    assert_true(feed(&reader, &peek, 1, "-OOM x\r\n", &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_NOPERM);
    reader_close(&reader);
}

static void test_scripts_have_their_hashes(void **state) {
    (void)state;
    for (int i = 0; i < NODE_SCRIPTS_ALL; i++) {
        assert_int_equal(strlen(node_scripts[i].text), node_scripts[i].bytes);
        assert_int_equal(strlen(node_scripts[i].sha1), 40);
        assert_null(strstr(node_scripts[i].text, "--"));
    }
}

/* ---- the table of operations ---- */

static unsigned commands_in(const char *text) {
    unsigned count = 1;
    for (; *text != '\0'; text++) count += *text == ';';
    return count;
}

static void check_form(const struct form *form) {
    bool script = form->script != NODE_SCRIPTS_ALL;
    if (form->text) {
        assert_int_equal(form->replies, script ? 1 : commands_in(form->text));
        assert_int_equal(strchr(form->text, '|') != NULL, script);
        for (const char *at = form->text; (at = strchr(at, '%')); at++)
            assert_non_null(strchr("kKtlLcnNfsmMarbp#FOuvqSoexRz", at[1]));
    }
    assert_int_equal(form->verdicts != NULL, form->shape[0] == SHAPE_VERDICTS);
    if (!form->verdicts) return;
    assert_int_equal(strlen(form->verdicts), 4);
    assert_int_equal(strspn(form->verdicts, "GDASR-"), 4);
    assert_int_equal(form->verdicts[3], 'G');
}

/* Each row has the forms that its flags speak of. */
static void test_table(void **state) {
    (void)state;
    for (int i = 0; i < NET_OPS_COUNT; i++) {
        enum net_op op = (enum net_op)i;
        for (int j = 0; j < FORM_VARIANTS; j++) check_form(&forms[i][j]);
        bool by_mode = forms[i][1].script != forms[i][3].script ||
                       forms[i][1].more_keys != forms[i][3].more_keys;
        assert_int_equal(by_mode, net_op_is(op, NET_OP_FENCED));
        if (net_op_is_write(op)) {
            assert_int_equal(net_op_subject(op), NET_OF_LOCKS);
            assert_true(net_op_is(op, NET_OP_TOKEN));
        }
        /* What is sent a second time must change nothing that is not its own. */
        if (net_op_is(op, NET_OP_KEPT)) assert_true(op == NET_RELEASE || op == NET_SHARE_RELEASE);
        if (net_op_is(op, NET_OP_GUARDED)) assert_int_equal(net_op_subject(op), NET_OF_RECORD);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_server_info),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_first_error_of_several),
        cmocka_unit_test(test_scripts_have_their_hashes),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
