/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_readers() on real servers: who shares a lock, on which nodes and for how long, page by
 * page, and for other keys that there are no readers.
 */
#include "fixtures.h"

enum { NODES = 3, READERS = 1000, TTL_MS = 20000 };
#define NAME "catalogue"
#define LIST "redlock:shared:" NAME

struct listed {
    size_t count;
    unsigned nodes[READERS]; /* by the number in the token: bits */
    int64_t least_ms, most_ms;
    size_t resource;
};

/* Tokens of this test are "reader:NUMBER". */
static void on_reader(void *context, size_t resource, size_t node, const void *token, size_t bytes,
                      int64_t remaining_ms) {
    struct listed *listed = context;
    char text[64];
    unsigned number = READERS;
    assert_true(node < NODES && bytes < sizeof text);
    memcpy(text, token, bytes);
    text[bytes] = '\0';
    sscanf(text, "reader:%u", &number);
    assert_true(number < READERS);
    assert_false(listed->nodes[number] >> node & 1); /* nobody renews: each comes once */
    listed->nodes[number] |= 1U << node;
    listed->resource = resource;
    if (listed->count++ == 0) listed->least_ms = listed->most_ms = remaining_ms;
    if (remaining_ms < listed->least_ms) listed->least_ms = remaining_ms;
    if (remaining_ms > listed->most_ms) listed->most_ms = remaining_ms;
}

static const struct redlock_bytes name = {NAME, sizeof NAME - 1};

static struct listed ask(struct redlock_client *client, size_t most,
                         struct redlock_readers_view views[NODES], int expected) {
    struct listed listed = {.count = 0};
    assert_result(redlock_readers(client, &name, 1, most, on_reader, &listed, views), expected);
    return listed;
}

/* Many readers at once, without as many locks: as share.lua writes them. `step_ms`: between the
 * ends of two. */
static void fill(struct server *server, int count, int step_ms) {
    freeReplyObject(server_ask(
        server, "EVAL %s 2 " NAME " " LIST " %d %d %d",
        "if redis.replicate_commands then redis.replicate_commands() end "
        "redis.call('DEL', KEYS[2]) redis.call('SET', KEYS[1], 'redlock:shared', 'PX', 60000) "
        "local time = redis.call('TIME') "
        "local now = time[1] * 1000 + math.floor(time[2] / 1000) "
        "for i = 0, ARGV[1] - 1 do "
        "redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2] + i * ARGV[3]), "
        "'reader:' .. i) end return 1",
        count, TTL_MS, step_ms));
    assert_int_equal(server_ask_integer(server, "ZCARD " LIST), count);
}

static void clear(struct servers *servers) {
    for (unsigned i = 0; i < servers->count; i++)
        freeReplyObject(server_ask(&servers->at[i], "DEL " NAME " " LIST));
}

static void every_reader_is_listed_page_by_page(void **state) {
    static const int steps[] = {1, 0}; /* 0: all end at once, so an end does not tell them apart */
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], READERS, steps[i]);
        struct listed listed = ask(client, REDLOCK_READERS_MAX, views, REDLOCK_OK);
        assert_int_equal(listed.count, READERS * NODES);
        for (size_t j = 0; j < READERS; j++) assert_int_equal(listed.nodes[j], 7);
        assert_true(listed.least_ms > 0 && listed.most_ms <= TTL_MS + READERS);
        for (size_t j = 0; j < NODES; j++) {
            assert_int_equal(views[j].verdict, REDLOCK_VERDICT_GRANTED);
            assert_int_equal(views[j].readers, READERS);
        }
    }
    clear(&three);
    redlock_client_free(client);
}

static void so_many_are_listed_as_are_asked_for(void **state) {
    static const size_t mosts[] = {0, 1, 256, 300};
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    (void)state;
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], READERS, 1);
    for (size_t i = 0; i < sizeof mosts / sizeof mosts[0]; i++) {
        struct listed listed = ask(client, mosts[i], views, REDLOCK_OK);
        assert_int_equal(listed.count, mosts[i] * NODES);
        for (size_t j = 0; j < READERS; j++) /* those that end first */
            assert_int_equal(listed.nodes[j], j < mosts[i] ? 7 : 0);
        assert_int_equal(views[0].readers, READERS);
    }
    clear(&three);
    redlock_client_free(client);
}

static int64_t commands_of(struct server *server) {
    redisReply *reply = server_ask(server, "INFO stats");
    const char *at = strstr(reply->str, "total_commands_processed:");
    assert_non_null(at);
    const int64_t count = strtoll(at + strlen("total_commands_processed:"), NULL, 10);
    freeReplyObject(reply);
    return count;
}

/* The script counts as one command, and the three that it calls, too. */
static void one_page_takes_one_question(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    (void)state;
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], 200, 1);
    (void)ask(client, 256, views, REDLOCK_OK); /* loads the script */
    const int64_t before = commands_of(&three.at[0]);
    (void)ask(client, 256, views, REDLOCK_OK);
    assert_true(commands_of(&three.at[0]) - before <= 1 + 1 + 4);
    clear(&three);
    redlock_client_free(client);
}

static void readers_whose_end_has_come_are_not_listed(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    (void)state;
    for (unsigned j = 0; j < NODES; j++) {
        fill(&three.at[j], 3, 1);
        server_ask_integer(&three.at[j], "ZADD " LIST " 1000 reader:1");
    }
    struct listed listed = ask(client, 256, views, REDLOCK_OK);
    assert_int_equal(listed.count, 2 * NODES);
    assert_int_equal(listed.nodes[1], 0);
    assert_int_equal(views[0].readers, 2);
    clear(&three);
    redlock_client_free(client);
}

/* A list may outlive its key: nobody in it is a reader any more. */
static void other_keys_have_no_readers(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    (void)state;
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], 3, 1);
    freeReplyObject(server_ask(&three.at[0], "DEL " NAME));
    freeReplyObject(server_ask(&three.at[1], "SET " NAME " token PX 60000"));
    freeReplyObject(server_ask(&three.at[2], "DEL " NAME));
    server_ask_integer(&three.at[2], "RPUSH " NAME " x");
    struct listed listed = ask(client, 256, views, REDLOCK_OK);
    assert_int_equal(listed.count, 0);
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_ABSENT);
    assert_int_equal(views[1].verdict, REDLOCK_VERDICT_DENIED);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_WRONGTYPE);
    clear(&three);
    redlock_client_free(client);
}

static void note_length(void *context, size_t resource, size_t node, const void *token,
                        size_t bytes, int64_t remaining_ms) {
    (void)resource, (void)node, (void)token;
    size_t *longest = context;
    assert_true(remaining_ms > 0);
    if (bytes > *longest) *longest = bytes;
}

/* What a person may have put there does not end the connection. */
static void foreign_members_are_cut(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    char member[2000];
    size_t longest = 0;
    (void)state;
    memset(member, 'x', sizeof member - 1);
    member[sizeof member - 1] = '\0';
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], 2, 1);
    freeReplyObject(server_ask(&three.at[0], "ZADD " LIST " +inf %s", member));
    assert_result(redlock_readers(client, &name, 1, 9, note_length, &longest, views), REDLOCK_OK);
    assert_int_equal(longest, REDLOCK_TOKEN_BYTES_MAX);
    assert_int_equal(views[0].readers, 3);
    assert_int_equal(views[1].readers, 2);
    clear(&three);
    redlock_client_free(client);
}

static void several_resources_are_asked_at_once(void **state) {
    enum { MANY = REDLOCK_SURVEY_MAX };
    struct redlock_bytes resources[MANY];
    char names[MANY][16];
    struct redlock_client *client = open_client(&three, NULL);
    struct redlock_readers_view *views = calloc(MANY * NODES, sizeof *views);
    struct listed listed = {.count = 0};
    (void)state;
    assert_non_null(views);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        resources[i] = (struct redlock_bytes){names[i], strlen(names[i])};
    }
    resources[77] = name;
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], READERS, 1);
    assert_result(
        redlock_readers(client, resources, MANY, REDLOCK_READERS_MAX, on_reader, &listed, views),
        REDLOCK_OK);
    assert_int_equal(listed.count, READERS * NODES);
    assert_int_equal(listed.resource, 77);
    assert_int_equal(views[77 * NODES].readers, READERS);
    assert_int_equal(views[76 * NODES].verdict, REDLOCK_VERDICT_ABSENT);
    free(views);
    clear(&three);
    redlock_client_free(client);
}

static void without_a_majority_it_says_so(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.connect_timeout_ms = 200;
    struct redlock_client *client = open_client(&three, &options);
    (void)state;
    for (unsigned j = 0; j < NODES; j++) fill(&three.at[j], 3, 1);
    server_pause(&three.at[2]);
    struct listed listed = ask(client, 256, views, REDLOCK_OK);
    assert_int_equal(listed.count, 6);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_TIMEOUT);
    server_pause(&three.at[1]);
    nap_ms(50);
    listed = ask(client, 256, views, REDLOCK_NO_QUORUM);
    assert_int_equal(listed.count, 3);
    for (unsigned j = 1; j < NODES; j++) server_resume(&three.at[j]);
    redlock_client_free(client);
    clear(&three);
}

static void the_readers_of_a_real_lock(void **state) {
    struct redlock_lock_options options = lock_options(TTL_MS);
    struct redlock_readers_view views[NODES];
    struct redlock_view seen[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    options.shared = 1;
    (void)state;
    struct redlock_lock *locks[] = {new_lock(client, NAME, &options),
                                    new_lock(client, NAME, &options)};
    for (int i = 0; i < 2; i++) assert_result(redlock_acquire(locks[i], 1000), REDLOCK_OK);
    nap_ms(50);
    assert_result(redlock_peek(client, NAME, sizeof NAME - 1, seen, NODES), REDLOCK_OK);
    assert_int_equal(seen[0].token_bytes, sizeof REDLOCK_SHARED_MARKER - 1);
    assert_memory_equal(seen[0].token, REDLOCK_SHARED_MARKER, seen[0].token_bytes);
    assert_result(redlock_readers(client, &name, 1, 0, NULL, NULL, views), REDLOCK_OK);
    for (int i = 0; i < NODES; i++) assert_int_equal(views[i].readers, 2);
    for (int i = 0; i < 2; i++) redlock_lock_free(locks[i]);
    redlock_client_free(client);
}

static void arguments_are_checked(void **state) {
    struct redlock_readers_view views[NODES];
    struct redlock_client *client = open_client(&three, NULL);
    struct redlock_bytes none = {NAME, 0}, nothing = {NULL, 1};
    struct listed listed = {.count = 0};
    (void)state;
    assert_result(redlock_readers(client, NULL, 1, 1, on_reader, &listed, views),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_readers(client, &name, 1, 1, NULL, &listed, views), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_readers(client, &name, 1, 1, on_reader, &listed, NULL),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_readers(client, &none, 1, 1, on_reader, &listed, views),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_readers(client, &nothing, 1, 1, on_reader, &listed, views),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(
        redlock_readers(client, &name, REDLOCK_SURVEY_MAX + 1, 1, on_reader, &listed, views),
        REDLOCK_BAD_ARGUMENT);
    assert_result(
        redlock_readers(client, &name, 1, REDLOCK_READERS_MAX + 1, on_reader, &listed, views),
        REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_readers(client, NULL, 0, 1, on_reader, &listed, NULL), REDLOCK_OK);
    assert_result(redlock_readers(client, &name, 1, 0, NULL, NULL, views), REDLOCK_OK);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reader_is_listed_page_by_page),
        cmocka_unit_test(so_many_are_listed_as_are_asked_for),
        cmocka_unit_test(one_page_takes_one_question),
        cmocka_unit_test(readers_whose_end_has_come_are_not_listed),
        cmocka_unit_test(other_keys_have_no_readers),
        cmocka_unit_test(foreign_members_are_cut),
        cmocka_unit_test(several_resources_are_asked_at_once),
        cmocka_unit_test(without_a_majority_it_says_so),
        cmocka_unit_test(the_readers_of_a_real_lock),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
