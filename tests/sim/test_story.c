/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sentences and pictures of histories written by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pictures/draw.h"
#include "net/net.h"
#include "pictures/phrase.h"
#include "redlock.h"
#include "scene_runner/scene.h"
#include "pictures/story.h"

static const char *const clients[] = {"A", "B"};
static const char *const resources[] = {"job"};
static const struct story_names names = {clients, resources};

static struct history history;

static int setup(void **state) {
    (void)state;
    history_init(&history, 2, 5, 1);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    history_free(&history);
    return 0;
}

/* A record of nobody and nothing at this millisecond; the caller says the rest. */
static struct history_record record_at(int64_t ms, enum history_kind kind) {
    return (struct history_record){
        .at = ms * RL_MS, .kind = (uint8_t)kind, .client = -1, .node = -1, .resource = -1};
}

static void client_record(int64_t ms, enum history_kind kind, int client, uint32_t token,
                          int64_t until_ms) {
    struct history_record record = record_at(ms, kind);
    record.client = (int8_t)client;
    record.resource = 0;
    record.token = token;
    record.until = until_ms * RL_MS;
    history_add(&history, &record);
}

static void about_node(int64_t ms, enum history_kind kind, int node, uint32_t token,
                       int64_t value) {
    struct history_record record = record_at(ms, kind);
    record.node = (int8_t)node;
    record.resource =
        kind == HISTORY_KEY_SET || kind == HISTORY_KEY_EXPIRED || kind == HISTORY_KEY_LOST ? 0 : -1;
    record.token = token;
    record.value = value;
    history_add(&history, &record);
}

static void message_record(int64_t ms, enum history_kind kind, int node, uint32_t message,
                           int result) {
    struct history_record record = record_at(ms, kind);
    record.client = 0;
    record.node = (int8_t)node;
    record.resource = 0;
    record.op = NET_ACQUIRE;
    record.token = 1;
    record.message = message;
    record.result = (int16_t)result;
    history_add(&history, &record);
}

static void expect_sentence(size_t number, const char *text) {
    struct story story;
    story_describe(&story, &history, &names);
    assert_in_range(number, 1, story.count);
    assert_string_equal(story.events[number - 1].text, text);
    story_free(&story);
}

static size_t count_sentences(void) {
    struct story story;
    story_describe(&story, &history, &names);
    size_t count = story.count;
    story_free(&story);
    return count;
}

/* ---- phrases --------------------------------------------------------------------------------- */

static void test_times(void **state) {
    (void)state;
    assert_string_equal(phrase_time(0).text, "0 ms");
    assert_string_equal(phrase_time(101500000).text, "101.5 ms");
    assert_string_equal(phrase_time(999999999).text, "999.999 ms");
    assert_string_equal(phrase_time(1000 * RL_MS).text, "1 s");
    assert_string_equal(phrase_time(9998 * RL_MS).text, "9.998 s");
    assert_string_equal(phrase_step(-4000 * RL_MS).text, "-4 s");
    assert_string_equal(phrase_step(3600 * 1000 * RL_MS).text, "+1 h");
}

static void test_nodes(void **state) {
    (void)state;
    assert_string_equal(phrase_nodes(0).text, "no node");
    assert_string_equal(phrase_nodes(1u << 2).text, "node 3");
    assert_string_equal(phrase_nodes(3).text, "nodes 1 and 2");
    assert_string_equal(phrase_nodes(31).text, "nodes 1 to 5");
    assert_string_equal(phrase_nodes(1 | 2 | 8).text, "nodes 1, 2 and 4");
}

static void test_durations(void **state) {
    (void)state;
    rl_ns span = 0;
    assert_true(scene_duration("1.5s", &span));
    assert_int_equal(span, 1500 * RL_MS);
    assert_true(scene_duration("50us", &span));
    assert_int_equal(span, 50000);
    assert_true(scene_duration("2h", &span));
    assert_int_equal(span, 7200 * 1000 * RL_MS);
    static const char *const bad[] = {
        "", "s", "5", "5 s", "1.2.3s", "1.2345s", "-5s", "5sec", "9999999999999s", "999999999999h"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (scene_duration(bad[i], &span)) fail_msg("'%s' was taken for a duration", bad[i]);
    }
}

/* ---- stories --------------------------------------------------------------------------------- */

static void test_asking_is_one_sentence(void **state) {
    (void)state;
    client_record(100, HISTORY_ACQUIRE, 0, 0, 0);
    for (int node = 0; node < 3; node++)
        message_record(100, HISTORY_SENT, node, (uint32_t)node + 1, 0);
    for (int node = 0; node < 2; node++)
        message_record(101, HISTORY_ARRIVED, node, (uint32_t)node + 1, REDLOCK_VERDICT_GRANTED);
    for (int node = 0; node < 2; node++)
        message_record(102, HISTORY_ANSWERED, node, (uint32_t)node + 1, REDLOCK_VERDICT_GRANTED);
    message_record(102, HISTORY_DROPPED, 2, 3, 0);
    client_record(102, HISTORY_ACQUIRED, 0, 1, 9998);
    expect_sentence(1, "A asks nodes 1 to 3 for job.");
    expect_sentence(2, "Lost: A's request to node 3.");
    expect_sentence(3, "A holds job until 9.998 s: nodes 1 and 2 granted it, a majority.");
    assert_int_equal(count_sentences(), 3);
}

static void test_a_restart_names_the_keys_it_lost(void **state) {
    (void)state;
    message_record(100, HISTORY_SENT, 2, 1, 0);
    about_node(101, HISTORY_KEY_SET, 2, 1, 0);
    about_node(1000, HISTORY_NODE_CRASH, 2, 0, 0);
    about_node(2000, HISTORY_KEY_LOST, 2, 1, 0);
    about_node(2000, HISTORY_NODE_RESTART, 2, 0, 0);
    expect_sentence(3, "Restart of node 3, without any data; gone is A's key.");
    assert_int_equal(count_sentences(), 3);
}

static void test_keys_that_end_together(void **state) {
    (void)state;
    message_record(100, HISTORY_SENT, 0, 1, 0);
    about_node(10101, HISTORY_KEY_EXPIRED, 0, 1, 0);
    about_node(10102, HISTORY_KEY_EXPIRED, 1, 1, 0);
    about_node(10102, HISTORY_KEY_EXPIRED, 2, 7, 0);
    expect_sentence(2, "A's key ends on nodes 1 and 2.");
    expect_sentence(3, "The stranger's key ends on node 3.");
}

static void test_a_loss_says_what_is_left(void **state) {
    (void)state;
    client_record(100, HISTORY_ACQUIRED, 0, 1, 9998);
    client_record(8998, HISTORY_LOST, 0, 1, 0);
    client_record(20000, HISTORY_LOST, 0, 1, 0);
    expect_sentence(2, "A is told that job is lost, 1 s before its validity ends.");
    expect_sentence(3, "A is told that job is lost.");
}

/* ---- pictures -------------------------------------------------------------------------------- */

static char *drawn(void (*draw)(FILE *, const struct picture *), const struct picture *picture) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    draw(out, picture);
    assert_int_equal(fclose(out), 0);
    return text;
}

static struct picture some_picture(void) {
    return (struct picture){.name = "NAME",
                            .title = "<script>alert(1)</script> & \"more\"",
                            .sources = {"it's \x01<b>"},
                            .prose = "Prose.",
                            .verdict = "classic: holds",
                            .why = "",
                            .names = names,
                            .history = &history};
}

static void draw_page(FILE *out, const struct picture *picture) { draw_html(out, picture, 1); }

static void test_text_is_escaped(void **state) {
    (void)state;
    client_record(100, HISTORY_ACQUIRED, 0, 1, 9998);
    struct picture picture = some_picture();
    void (*const draws[])(FILE *, const struct picture *) = {draw_svg, draw_page, draw_thumbnail};
    for (size_t i = 0; i < sizeof draws / sizeof draws[0]; i++) {
        char *text = drawn(draws[i], &picture);
        assert_null(strstr(text, "<script"));
        assert_null(strstr(text, "<b>"));
        assert_null(strchr(text, '\x01'));
        assert_non_null(
            strstr(text, "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"));
        free(text);
    }
}

static void test_nothing_happened(void **state) {
    (void)state;
    struct picture picture = some_picture();
    char *text = drawn(draw_svg, &picture);
    assert_non_null(strstr(text, "</svg>"));
    free(text);
}

/* The band of a violation reaches from where it begins to where it ends: as wide as the bars that
 * it is about. */
static void test_the_violation_is_marked(void **state) {
    (void)state;
    client_record(100, HISTORY_ACQUIRED, 0, 1, 9000);
    client_record(3000, HISTORY_ACQUIRED, 1, 2, 12000);
    client_record(13000, HISTORY_END, -1, 0, 0);
    const struct check_violation violation = {.rule = CHECK_EXCLUSION,
                                              .first = 0,
                                              .second = 1,
                                              .from = 3000 * RL_MS,
                                              .until = 9000 * RL_MS,
                                              .text = "both at once"};
    struct picture picture = some_picture();
    char *without = drawn(draw_svg, &picture);
    picture.violations = &violation;
    picture.violations_count = 1;
    char *with = drawn(draw_svg, &picture), *again = drawn(draw_svg, &picture);
    assert_null(strstr(without, "fill=\"url(#pv)\""));
    assert_non_null(strstr(with, "fill=\"url(#pv)\""));
    assert_non_null(strstr(with, "EXCLUSION: both at once"));
    assert_string_equal(with, again);
    free(without);
    free(with);
    free(again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test_setup_teardown(test_asking_is_one_sentence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_restart_names_the_keys_it_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_that_end_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_loss_says_what_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_is_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_happened, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_violation_is_marked, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
