/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top without servers and without a terminal: what looks make of rows and rates, and that
 * no line of a screen is wider than it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/boottime.h"
#include "process/message.h"
#include "page.h"
#include "screen.h"
#include "words.h"

enum { NODES = 5, ROWS = 1000 };

static struct top_observer observer;
static struct top_model *const model = &observer.model;
static int64_t now_s; /* the model's clock: time is an input */

static int begin(void **state) {
    (void)state;
    memset(&observer, 0, sizeof observer);
    top_model_init(model, NODES, ROWS);
    now_s = 1000;
    for (size_t i = 0; i < NODES; i++) {
        model->nodes[i].verdict = REDLOCK_VERDICT_GRANTED;
        snprintf(model->nodes[i].url, sizeof model->nodes[i].url, "redis://db%zu:6379", i);
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    top_model_free(model);
    return 0;
}

/* ---- looks ---- */

static void found(const char *resource, int what) {
    assert_true(top_model_found(model, 0, what, resource, strlen(resource)));
}

static struct top_row *row_of(const char *resource) {
    struct top_row *row = top_model_row(model, resource, strlen(resource));
    if (row == NULL) fail_msg("no row shows %s", resource);
    return row;
}

/* One letter for each node: '-' no key, '!' no answer; else the token is 40 of that letter. */
static void views_of(const char *letters, struct redlock_view views[NODES]) {
    memset(views, 0, NODES * sizeof views[0]);
    for (size_t i = 0; i < NODES; i++) {
        const char letter = letters[i];
        views[i].verdict = letter == '-'   ? REDLOCK_VERDICT_ABSENT
                           : letter == '!' ? REDLOCK_VERDICT_TIMEOUT
                                           : REDLOCK_VERDICT_GRANTED;
        if (views[i].verdict != REDLOCK_VERDICT_GRANTED) continue;
        views[i].token_bytes = REDLOCK_TOKEN_HEX_BYTES;
        memset(views[i].token, letter, REDLOCK_TOKEN_HEX_BYTES);
        views[i].remaining_ms = 1000 * (int64_t)(i + 1);
    }
}

static void saw(const char *resource, const char *letters, int64_t waiters) {
    struct redlock_view views[NODES];
    struct redlock_queue_view queues[NODES] = {{.verdict = REDLOCK_VERDICT_NONE}};
    views_of(letters, views);
    queues[1] = (struct redlock_queue_view){REDLOCK_VERDICT_GRANTED, waiters, waiters * 500};
    top_model_saw(model, row_of(resource), views, waiters < 0 ? NULL : queues, now_s * 1000 * MS);
}

/* All nodes have been walked in one step. */
static void walked(void) {
    model->walk.ended = (1u << NODES) - 1;
    assert_true(top_model_stepped(model));
}

static void looked(void) {
    top_model_looked(model, now_s * 1000 * MS);
    now_s++;
}

static size_t shown(enum top_sort by, bool reversed, char names[200]) {
    const struct top_row *rows[ROWS];
    const size_t count = top_model_sorted(model, by, reversed, rows);
    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strncat(names, i > 0 ? " " : "", 2);
        strncat(names, rows[i]->resource, rows[i]->bytes);
    }
    return count;
}

static void a_majority_decides_who_holds(void **state) {
    (void)state;
    struct {
        const char *letters;
        enum majority_verdict verdict;
        size_t votes;
        int64_t remaining_ms;
    } cases[] = {
        {"aaaaa", MAJORITY_HELD, 5, 3000}, /* until two more nodes lose it */
        {"aaa--", MAJORITY_HELD, 3, 1000},  {"-b!bb", MAJORITY_HELD, 3, 2000},
        {"aabb-", MAJORITY_SPLIT, 0, -1},   {"-----", MAJORITY_FREE, 0, -1},
        {"aa!!!", MAJORITY_UNKNOWN, 0, -1},
    };
    found("r", REDLOCK_KEY_OTHER);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        saw("r", cases[i].letters, 0);
        assert_int_equal(row_of("r")->verdict, cases[i].verdict);
        assert_int_equal(row_of("r")->votes, cases[i].votes);
        assert_int_equal(row_of("r")->remaining_ms, cases[i].remaining_ms);
    }
}

static void a_key_on_a_node_that_does_not_vote_counts_only_in_classic_mode(void **state) {
    (void)state;
    found("r", REDLOCK_KEY_OTHER);
    model->nodes[0].verdict = REDLOCK_VERDICT_RECOVERING;
    saw("r", "aaa--", 0);
    assert_int_equal(row_of("r")->verdict, MAJORITY_HELD);
    model->quorum.mode = REDLOCK_MODE_GUARDED;
    saw("r", "aaa--", 0);
    assert_int_equal(row_of("r")->verdict, MAJORITY_SPLIT);
    saw("r", "aaaa-", 0);
    assert_int_equal(row_of("r")->votes, 3);
}

static void the_owner_comes_from_the_token_and_the_token_stays_secret(void **state) {
    (void)state;
    struct redlock_view views[NODES];
    found("r", REDLOCK_KEY_OTHER);
    views_of("aaaaa", views);
    for (size_t i = 0; i < NODES; i++) {
        memcpy(views[i].token + REDLOCK_TOKEN_HEX_BYTES, ":host:7\033", 8);
        views[i].token_bytes = REDLOCK_TOKEN_HEX_BYTES + 8;
    }
    top_model_saw(model, row_of("r"), views, NULL, 1);
    assert_int_equal(row_of("r")->owner_bytes, 7);
    char cells[TOP_CELLS][TOP_CELL_BYTES];
    top_row_cells(model, row_of("r"), false, cells);
    assert_string_equal(cells[TOP_CELL_OWNER], "host:7\\x1b");
    assert_string_equal(cells[TOP_CELL_NODES], "5/5");
    assert_string_equal(cells[TOP_CELL_WAIT], "-"); /* no node reported a queue */
    assert_int_equal(row_of("r")->head_bytes, TOKEN_SHOWN_MAX);
    saw("r", "bbbbb", 0);
    top_row_cells(model, row_of("r"), true, cells);
    assert_string_equal(cells[TOP_CELL_OWNER], "token bbbbbbbb...");
    memset(views, 0, sizeof views);
    for (size_t i = 0; i < NODES; i++) {
        views[i].verdict = REDLOCK_VERDICT_GRANTED;
        views[i].token_bytes = 3;
        memcpy(views[i].token, "pwd", 3);
    }
    top_model_saw(model, row_of("r"), views, NULL, 1);
    top_row_cells(model, row_of("r"), true, cells);
    assert_string_equal(cells[TOP_CELL_OWNER], "token p...");
}

/* '-': the node has no key; else so many readers, and the marker. */
static void saw_readers(const char *counts) {
    struct redlock_view views[NODES];
    struct redlock_readers_view readers[NODES] = {{0}};
    views_of(counts, views);
    for (size_t i = 0; i < NODES; i++) {
        if (counts[i] == '-') continue;
        views[i].token_bytes = sizeof REDLOCK_SHARED_MARKER - 1;
        memcpy(views[i].token, REDLOCK_SHARED_MARKER, views[i].token_bytes);
        readers[i] = (struct redlock_readers_view){REDLOCK_VERDICT_GRANTED, counts[i] - '0'};
    }
    top_model_saw(model, row_of("r"), views, NULL, now_s * 1000 * MS);
    top_model_saw_readers(model, row_of("r"), readers);
}

static void a_shared_lock_has_the_readers_that_a_majority_counts(void **state) {
    (void)state;
    static const struct {
        const char *counts, *owner;
    } cases[] = {{"22222", "shared: 2 readers"},
                 {"12399", "shared: 3 readers"},
                 {"111--", "shared: 1 reader"},
                 {"99---", "(free)"}};
    char cells[TOP_CELLS][TOP_CELL_BYTES];
    found("r", REDLOCK_KEY_OTHER);
    saw("r", "aaaaa", 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        saw_readers(cases[i].counts);
        top_row_cells(model, row_of("r"), false, cells);
        assert_string_equal(cells[TOP_CELL_OWNER], cases[i].owner);
    }
    model->quorum.mode = REDLOCK_MODE_GUARDED; /* a node that does not vote does not count */
    model->nodes[4].verdict = REDLOCK_VERDICT_RECOVERING;
    saw_readers("12399");
    top_row_cells(model, row_of("r"), false, cells);
    assert_string_equal(cells[TOP_CELL_OWNER], "shared: 2 readers");
    assert_true(top_row_is_shown(row_of("r")));
    assert_int_equal(model->hand_overs, 1); /* from the exclusive holder to readers */
    saw("r", "bbbbb", 0);
    top_row_cells(model, row_of("r"), false, cells);
    assert_string_equal(cells[TOP_CELL_OWNER], "token bbbbbbbb…");
}

static void an_age_is_a_lower_bound_unless_the_lock_was_seen_to_begin(void **state) {
    (void)state;
    found("old", REDLOCK_KEY_OTHER);
    saw("old", "aaaaa", 0);
    walked();
    looked();
    found("new", REDLOCK_KEY_OTHER); /* the look before passed all keys, and this was not there */
    saw("new", "bbbbb", 0);
    saw("old", "aaaaa", 0);
    assert_true(row_of("old")->is_older);
    assert_false(row_of("new")->is_older);
    walked();
    looked();
    found("newer", REDLOCK_KEY_OTHER);
    saw("newer", "bbbbb", 0);
    assert_false(row_of("newer")->is_older);
    assert_int_equal(top_row_age_ms(model, row_of("old")), 1000);
    looked(); /* without a complete walk ... */
    walked(); /* ... which took two looks: what is new may be as old as the walk */
    looked();
    found("late", REDLOCK_KEY_OTHER);
    saw("late", "ccccc", 0);
    assert_true(row_of("late")->is_older);
    saw("old", "ddddd", 0);
    assert_false(row_of("old")->is_older); /* its change was seen */
    looked();
    assert_int_equal(top_row_age_ms(model, row_of("old")), 0);
    assert_int_equal(top_row_age_ms(model, row_of("late")), 0);
}

/* A walk of two nodes of five proves nothing about what a majority holds. */
static void a_walk_of_a_minority_has_not_seen_all(void **state) {
    (void)state;
    model->walk.ended = 3;
    model->walk.failed = 28;
    assert_true(top_model_stepped(model));
    looked();
    found("r", REDLOCK_KEY_OTHER);
    saw("r", "aaaaa", 0);
    assert_true(row_of("r")->is_older);
    model->walk.failed = 31; /* no node has ended: nothing was seen at all */
    assert_false(top_model_stepped(model));
}

static void rates_are_of_the_last_looks(void **state) {
    (void)state;
    found("r", REDLOCK_KEY_OTHER);
    saw("r", "aaaaa", 0);
    looked();
    assert_int_equal(top_model_rates(model).over_ms, 0);
    saw("r", "bbbbb", 0); /* one hand-over in a second */
    looked();
    assert_int_equal(top_model_rates(model).over_ms, 1000);
    assert_true(top_model_rates(model).hand_overs == 1.0);
    saw("r", "aabb-", 0); /* no majority */
    looked();
    assert_true(top_model_rates(model).hand_overs == 0.5);
    assert_true(top_model_rates(model).splits == 0.5);
    saw("r", "-----", 0);
    looked();
    saw("r", "bbbbb", 0); /* the same holder as before */
    looked();
    assert_int_equal(model->hand_overs_total, 1);
    saw("r", "ccccc", 0); /* after a time without a holder it is another one */
    looked();
    assert_int_equal(model->hand_overs_total, 2);
    for (int i = 0; i < TOP_RATE_LOOKS; i++) {
        saw("r", "ccccc", 0);
        looked();
    }
    assert_int_equal(top_model_rates(model).over_ms, 1000 * TOP_RATE_LOOKS);
    assert_true(top_model_rates(model).hand_overs == 0);
    assert_true(top_model_rates(model).splits == 0);
    assert_int_equal(model->hand_overs_total, 2);
    assert_int_equal(model->splits_total, 1);
}

static void only_what_is_held_or_waited_for_is_shown(void **state) {
    (void)state;
    char names[200];
    struct redlock_view views[NODES];
    found("held", REDLOCK_KEY_OTHER);
    found("waited", REDLOCK_KEY_WAITING);
    found("cached", REDLOCK_KEY_OTHER);
    saw("held", "aaaaa", 0);
    saw("waited", "-----", 3);
    views_of("aaaaa", views);
    for (size_t i = 0; i < NODES; i++) views[i].token_bytes = 17; /* no form of a token */
    top_model_saw(model, row_of("cached"), views, NULL, 1);
    assert_int_equal(shown(TOP_BY_WAITERS, false, names), 2);
    assert_string_equal(names, "waited held");
    assert_int_equal(row_of("waited")->waiters, 3);
    assert_int_equal(row_of("waited")->oldest_ms, 1500);
    looked();
    assert_null(top_model_row(model, "cached", 6)); /* it would take the room of locks */
    saw("held", "-----", 0);
    saw("waited", "-----", 0);
    looked();
    assert_int_equal(shown(TOP_BY_WAITERS, false, names), 0);
    assert_non_null(top_model_row(model, "held", 4)); /* for a while: to see a hand-over */
    assert_null(top_model_row(model, "waited", 6));
    for (int i = 0; i < 12; i++) looked();
    assert_null(top_model_row(model, "held", 4));
    assert_int_equal(model->bytes, 0);
    model->every_value = true;
    found("cached", REDLOCK_KEY_OTHER);
    top_model_saw(model, row_of("cached"), views, NULL, 1);
    assert_int_equal(shown(TOP_BY_WAITERS, false, names), 1);
}

static void rows_are_sorted_by_each_key(void **state) {
    (void)state;
    static const struct {
        enum top_sort by;
        bool reversed;
        const char *names;
    } orders[] = {
        {TOP_BY_WAITERS, false, "b c a d"},  {TOP_BY_WAITERS, true, "a d c b"},
        {TOP_BY_RESOURCE, false, "a b c d"}, {TOP_BY_RESOURCE, true, "d c b a"},
        {TOP_BY_AGE, false, "a b c d"},      {TOP_BY_LEFT, false, "c b a d"},
    };
    char names[200];
    found("a", REDLOCK_KEY_OTHER);
    saw("a", "aaaaa", 0); /* 3 s left */
    looked();
    found("b", REDLOCK_KEY_OTHER);
    saw("b", "-bbb-", 5); /* 2 s */
    looked();
    found("c", REDLOCK_KEY_OTHER);
    saw("c", "ccc--", 1); /* 1 s */
    found("d", REDLOCK_KEY_OTHER);
    saw("d", "ddee-", 0); /* split: neither age nor time left */
    looked();
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        assert_int_equal(shown(orders[i].by, orders[i].reversed, names), 4);
        assert_string_equal(names, orders[i].names);
    }
}

static void there_is_room_for_a_number_and_a_weight(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "held:%d", i);
        found(name, REDLOCK_KEY_OTHER);
        saw(name, "aaaaa", 0);
    }
    found("one more", REDLOCK_KEY_OTHER);
    assert_null(top_model_row(model, "one more", 8));
    assert_true(model->left_out);
    found("waited", REDLOCK_KEY_WAITING); /* takes the place of one that is only held */
    assert_int_equal(model->rows_count, ROWS);
    saw("waited", "aaaaa", 2);
    saw("held:7", "-----", 0);
    found("one more", REDLOCK_KEY_OTHER); /* and this one of one that nobody misses */
    assert_non_null(top_model_row(model, "one more", 8));
    assert_non_null(top_model_row(model, "waited", 6));
    char text[80];
    top_share_text(model, 1000, text, sizeof text);
    assert_string_equal(text, "showing 1000, there are more");
    walked();
    top_share_text(model, 1000, text, sizeof text);
    assert_string_equal(text, "showing 1000 of about 1002");
    top_model_free(model);
    char *heavy = malloc(REDLOCK_RESOURCE_BYTES_MAX);
    assert_non_null(heavy);
    memset(heavy, 'x', REDLOCK_RESOURCE_BYTES_MAX);
    for (int i = 0; i < ROWS; i++) {
        memcpy(heavy, &i, sizeof i);
        assert_true(
            top_model_found(model, 0, REDLOCK_KEY_OTHER, heavy, REDLOCK_RESOURCE_BYTES_MAX));
    }
    free(heavy);
    assert_int_equal(model->rows_count, TOP_BYTES_MAX / REDLOCK_RESOURCE_BYTES_MAX);
}

static void a_filter_keeps_what_contains_it(void **state) {
    (void)state;
    found("tenant:1", REDLOCK_KEY_OTHER);
    found("NIGHTLY", REDLOCK_KEY_OTHER);
    top_model_filter(model, "night");
    assert_int_equal(model->rows_count, 1);
    assert_non_null(top_model_row(model, "NIGHTLY", 7));
    found("tenant:2", REDLOCK_KEY_OTHER);
    found("midnight", REDLOCK_KEY_OTHER);
    assert_int_equal(model->rows_count, 2);
    top_model_filter(model, "");
    found("tenant:2", REDLOCK_KEY_OTHER);
    assert_int_equal(model->rows_count, 3);
}

static void a_step_weighs_bytes(void **state) {
    (void)state;
    assert_int_equal(top_model_effort(model), 50);
    model->names_of_walk = 100;
    model->walk.bytes = 100 * 20;
    assert_int_equal(top_model_effort(model), 250);
    model->walk.bytes = 100 * 1000;
    assert_in_range(top_model_effort(model), 100, 140);
    model->walk.bytes = 100 * 60000;
    assert_int_equal(top_model_effort(model), 10);
}

static void a_round_trip_is_the_median_of_recent_ones(void **state) {
    (void)state;
    static const int64_t trips[] = {100, 100, 100, 5, 6, 900000, 8, 4, 3, 2, 7, 9};
    assert_int_equal(top_node_trip_us(&model->nodes[0]), -1);
    for (size_t i = 0; i < sizeof trips / sizeof trips[0]; i++) top_model_trip(model, 0, trips[i]);
    assert_int_equal(top_node_trip_us(&model->nodes[0]), 6);
    top_model_trip(model, 0, -1); /* it did not answer: an old number would look like health */
    assert_int_equal(top_node_trip_us(&model->nodes[0]), -1);
}

/* ---- words ---- */

static void durations_are_brief(void **state) {
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0.0s"},
                 {440, "0.4s"},
                 {2000, "2s"},
                 {9990, "9.9s"},
                 {10900, "10s"},
                 {99999, "99s"},
                 {100000, "1m40s"},
                 {725000, "12m05s"},
                 {5999999, "99m59s"},
                 {6000000, "1h40m"},
                 {172799999, "47h59m"},
                 {172800000, "2d00h"},
                 {86400000000, "1000d00h"}};
    char text[16];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(top_brief(text, sizeof text, cases[i].ms), cases[i].text);
}

static void text_is_cut_and_padded_by_columns(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t columns;
        bool ascii;
        const char *fit;
    } cases[] = {{"abc", 5, false, "abc  "},         {"abcdef", 5, false, "abcd…"},
                 {"abcdef", 5, true, "abcd~"},       {"名前名前", 5, false, "名前…"},
                 {"名前名", 6, false, "名前名"},     {"名前名前", 4, false, "名… "},
                 {"日本", 3, true, "?? "},           {"x", 0, false, ""},
                 {"\xff\033\x7f", 4, false, "??? "}, {"e\xcc\x81t", 3, false, "e\xcc\x81t "}};
    char fit[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        top_fit(fit, sizeof fit, cases[i].text, cases[i].columns, cases[i].ascii);
        assert_string_equal(fit, cases[i].fit);
        assert_int_equal(top_columns(fit, cases[i].ascii), cases[i].columns);
    }
    char small[8]; /* bytes end sooner than columns */
    top_fit(small, sizeof small, "名前名前", 8, false);
    assert_true(strlen(small) < sizeof small);
}

/* ---- pages ---- */

static struct top_page page;

/* A shared lock in detail, with more readers than any screen has lines. */
static void fill_hostile_readers(void) {
    static const unsigned char token[] = "0123456789012345678901234567890123456789:\033]0;名前\a";
    static struct reader list[100];
    struct top_detail *detail = &observer.detail;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        list[i] =
            (struct reader){token, sizeof token - 1 - i % 50, i % 5 + 1, i % 2, INT64_MAX / 2};
    detail->seen = true;
    detail->readers = (struct readers){.list = list, .count = 100, .total = INT64_MAX};
    for (size_t i = 0; i < NODES; i++) {
        detail->views[i] = (struct redlock_view){.verdict = REDLOCK_VERDICT_GRANTED,
                                                 .token_bytes = sizeof REDLOCK_SHARED_MARKER - 1};
        memcpy(detail->views[i].token, REDLOCK_SHARED_MARKER, detail->views[i].token_bytes);
        detail->readers.views[i] =
            (struct redlock_readers_view){REDLOCK_VERDICT_GRANTED, INT64_MAX - (int64_t)i};
    }
}

static void fill_hostile(void) {
    static const char *const names[] = {
        "short",
        "名前名前名前名前名前名前名前名前名前名前名前名前名前",
        "\033[2Jclear\r\n\t\x7f",
        "\xff\xfe stray",
        "e\xcc\x81\xcc\x81\xcc\x81 combining",
        ("a very long name that is longer than any column of any terminal could ever be, and then "
         "some more words, because people do write names like this one")};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found(names[i], REDLOCK_KEY_OTHER);
        saw(names[i], i % 2 ? "aaaaa" : "aabb-", 123456789);
    }
    model->nodes[1].verdict = REDLOCK_VERDICT_RECOVERING;
    model->nodes[1].recovering_ms = 41000;
    model->nodes[2].verdict = REDLOCK_VERDICT_ERROR;
    snprintf(model->nodes[2].reason, sizeof model->nodes[2].reason,
             "\033]0;title\a a server may say anything, also 名前 and at great length, to anybody");
    model->quorum.mode = REDLOCK_MODE_GUARDED;
    model->quorum.status = (struct redlock_quorum_status){
        .known = 1, .epoch = 4000000000u, .ttl_ms_max = 86400000, .members = 15, .intact = 3};
    memset(model->quorum.status.id, 'f', 16);
    fill_hostile_readers();
    looked();
}

static void assert_fits(const struct top_view *view, const char *what) {
    assert_int_equal(page.count, view->height);
    assert_int_equal(page.lines[page.count - 1].style, TOP_FOOT);
    for (size_t i = 0; i < page.count; i++) {
        const char *text = page.lines[i].text;
        const size_t columns = top_columns(text, view->ascii);
        if (columns > view->width)
            fail_msg("%s, %zux%zu, line %zu has %zu columns: %s", what, view->width, view->height,
                     i, columns, text);
        for (const char *at = text; *at != '\0'; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7f || (view->ascii && *at & 0x80))
                fail_msg("%s: byte %d on line %zu", what, *at, i);
    }
}

static void no_line_is_wider_than_the_screen(void **state) {
    (void)state;
    static const char *const modes[] = {"list", "detail", "help"};
    fill_hostile();
    struct top_view view = {.interval_ms = 2000};
    for (int mode = TOP_LIST; mode <= TOP_HELP; mode++)
        for (view.width = 1; view.width <= 220; view.width += view.width < 100 ? 1 : 7)
            for (view.height = 1; view.height <= 60; view.height += 3)
                for (int ascii = 0; ascii < 2; ascii++) {
                    view.mode = (enum top_mode)mode;
                    view.ascii = ascii;
                    view.editing = view.height % 2 == 0;
                    top_draw(&page, &observer, &view);
                    assert_fits(&view, modes[mode]);
                }
}

static bool is_on_page(const char *text) {
    for (size_t i = 0; i < page.count; i++)
        if (strstr(page.lines[i].text, text) != NULL) return true;
    return false;
}

static void the_page_says_what_the_model_knows(void **state) {
    (void)state;
    struct top_view view = {.width = 80, .height = 24, .interval_ms = 2000};
    found("nightly", REDLOCK_KEY_OTHER);
    saw("nightly", "aaaa-", 2);
    walked();
    looked();
    model->nodes[3].verdict = REDLOCK_VERDICT_RECOVERING;
    model->nodes[3].recovering_ms = 41000;
    top_draw(&page, &observer, &view);
    assert_int_equal(page.count, 24);
    assert_true(is_on_page("classic: 4 of 5 nodes answer, 3 needed"));
    assert_true(is_on_page("no: recovering, 41s left"));
    assert_true(is_on_page("1 held, 2 waiting"));
    assert_true(is_on_page("nightly"));
    assert_true(is_on_page("4/5     2"));
    assert_int_equal(view.rows, 1);
    view.height = 8; /* those that do not vote come first when not all have room */
    top_draw(&page, &observer, &view);
    assert_true(is_on_page("db3:6379") && is_on_page("and 3 more"));
    model->nodes[0].verdict = model->nodes[1].verdict = REDLOCK_VERDICT_REFUSED;
    top_draw(&page, &observer, &view);
    assert_int_equal(page.lines[1].style, TOP_BAD); /* two of five: no lock can be taken */
}

/* The bar keeps its row when others come and go around it. */
static void the_bar_follows_its_row(void **state) {
    (void)state;
    struct top_view view = {.width = 80, .height = 14, .sort = TOP_BY_RESOURCE};
    char name[16], selected[] = "row:50";
    for (int i = 10; i < 90; i++) {
        snprintf(name, sizeof name, "row:%d", i);
        found(name, REDLOCK_KEY_OTHER);
        saw(name, "aaaaa", 0);
    }
    looked();
    view.selected = selected;
    view.selected_bytes = 6;
    top_draw(&page, &observer, &view);
    assert_int_equal(view.position, 40);
    assert_in_range(view.position, view.first, view.first + view.rows_on_page - 1);
    assert_true(is_on_page("row:50"));
    for (int i = 10; i < 40; i++) {
        snprintf(name, sizeof name, "row:%d", i);
        saw(name, "-----", 0);
    }
    top_draw(&page, &observer, &view);
    assert_int_equal(view.position, 10);
    assert_true(is_on_page("row:50"));
    saw("row:50", "-----", 0);
    top_draw(&page, &observer, &view);
    assert_int_equal(view.position, 10); /* the next one */
    for (int i = 40; i < 90; i++) {
        snprintf(name, sizeof name, "row:%d", i);
        saw(name, "-----", 0);
    }
    top_draw(&page, &observer, &view);
    assert_int_equal(view.position, 0);
    assert_true(is_on_page("no lock is held or waited for"));
}

/* This program is linked with what a build without ncurses has. */
static void without_ncurses_the_rest_is_named(void **state) {
    (void)state;
    char error[300] = "";
    assert_false(top_screen_open(error, sizeof error));
    assert_non_null(strstr(error, "--once and --json"));
    assert_non_null(strstr(error, "libncurses-dev"));
    assert_int_equal(top_screen_key(0), TOP_KEY_GONE); /* a loop of keys ends */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_majority_decides_who_holds, begin, end),
        cmocka_unit_test_setup_teardown(
            a_key_on_a_node_that_does_not_vote_counts_only_in_classic_mode, begin, end),
        cmocka_unit_test_setup_teardown(the_owner_comes_from_the_token_and_the_token_stays_secret,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_shared_lock_has_the_readers_that_a_majority_counts, begin,
                                        end),
        cmocka_unit_test_setup_teardown(an_age_is_a_lower_bound_unless_the_lock_was_seen_to_begin,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_walk_of_a_minority_has_not_seen_all, begin, end),
        cmocka_unit_test_setup_teardown(rates_are_of_the_last_looks, begin, end),
        cmocka_unit_test_setup_teardown(only_what_is_held_or_waited_for_is_shown, begin, end),
        cmocka_unit_test_setup_teardown(rows_are_sorted_by_each_key, begin, end),
        cmocka_unit_test_setup_teardown(there_is_room_for_a_number_and_a_weight, begin, end),
        cmocka_unit_test_setup_teardown(a_filter_keeps_what_contains_it, begin, end),
        cmocka_unit_test_setup_teardown(a_step_weighs_bytes, begin, end),
        cmocka_unit_test_setup_teardown(a_round_trip_is_the_median_of_recent_ones, begin, end),
        cmocka_unit_test(without_ncurses_the_rest_is_named),
        cmocka_unit_test(durations_are_brief),
        cmocka_unit_test(text_is_cut_and_padded_by_columns),
        cmocka_unit_test_setup_teardown(no_line_is_wider_than_the_screen, begin, end),
        cmocka_unit_test_setup_teardown(the_page_says_what_the_model_knows, begin, end),
        cmocka_unit_test_setup_teardown(the_bar_follows_its_row, begin, end),
    };
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 77; /* no columns without it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
