/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scheme=setnx against the pattern as it is found in the field: SETNX with a timestamp, GET,
 * GETSET, DEL (docs/use/older-ways.md). The field's code is here in C, command by command.
 */
#include "notices.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct server one;

static int start_one(void **state) {
    (void)state;
    server_start(&one, NULL);
    return 0;
}

static int stop_one(void **state) {
    (void)state;
    server_stop(&one);
    return 0;
}

static int flush(void **state) {
    (void)state;
    freeReplyObject(server_ask(&one, "FLUSHALL"));
    return 0;
}

static struct redlock_client *open_scheme(const char *scheme) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    char url[80];
    redlock_client_options_init(&options);
    options.node_timeout_ms = 300;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?scheme=%s", one.port, scheme);
    if (redlock_client_open(url, &options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 1);
    return client;
}

static struct redlock_client *open_setnx(void) { return open_scheme("setnx"); }

static struct redlock_lock *unrenewed(struct redlock_client *client, int64_t ttl_ms) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.renew = 0;
    return new_lock(client, "job", &options);
}

/* ---- the field's code ---- */

enum form {
    WHOLE,
    FRACTION,
    MILLISECONDS
}; /* int(time.time()), time.time(), System.currentTimeMillis() */

struct field {
    redisContext *redis;
    enum form form;
    char value[40]; /* what it wrote last */
};

static void field_open(struct field *field, enum form form) {
    field->redis = redisConnect("127.0.0.1", one.port);
    field->form = form;
    if (!field->redis || field->redis->err) fail_msg("cannot connect");
}

static void field_close(struct field *field) { redisFree(field->redis); }

static double wall_clock(enum form form) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    double seconds = (double)at.tv_sec + (double)at.tv_nsec / 1e9;
    if (form == WHOLE) return (double)at.tv_sec;
    return form == MILLISECONDS ? (double)(int64_t)(seconds * 1000) : seconds;
}

/* "current Unix time + lock timeout + 1" */
static const char *stamp_for(struct field *field, double timeout_s) {
    double each = field->form == MILLISECONDS ? 1000 : 1;
    snprintf(field->value, sizeof field->value, field->form == FRACTION ? "%.6f" : "%.0f",
             wall_clock(field->form) + timeout_s * each + 1);
    return field->value;
}

/* As strict as the strictest: int() and parseLong() take digits alone. */
static double parse(enum form form, const char *text) {
    char *end;
    double number = form == FRACTION ? strtod(text, &end) : (double)strtoll(text, &end, 10);
    if (*end != '\0' || end == text) fail_msg("the field's code cannot read \"%s\"", text);
    return number;
}

static bool is_over(const struct field *field, const char *text) {
    return parse(field->form, text) < wall_clock(field->form);
}

static redisReply *say(struct field *field, const char *command, const char *value) {
    redisReply *reply = value ? redisCommand(field->redis, "%s job %s", command, value)
                              : redisCommand(field->redis, "%s job", command);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply ? reply->str : "no answer");
    return reply;
}

static bool field_sets(struct field *field, double timeout_s) {
    redisReply *reply = say(field, "SETNX", stamp_for(field, timeout_s));
    bool set = reply->integer == 1;
    freeReplyObject(reply);
    return set;
}

static bool field_finds_it_over(struct field *field) {
    redisReply *reply = say(field, "GET", NULL);
    bool over = reply->type == REDIS_REPLY_NIL || is_over(field, reply->str);
    freeReplyObject(reply);
    return over;
}

/* C4: what was there is over still. Else another was faster (C5), and its value is overwritten. */
static bool field_takes_over(struct field *field, double timeout_s) {
    redisReply *reply = say(field, "GETSET", stamp_for(field, timeout_s));
    bool ours = reply->type == REDIS_REPLY_NIL || is_over(field, reply->str);
    freeReplyObject(reply);
    return ours;
}

static bool field_tries(struct field *field, double timeout_s) {
    return field_sets(field, timeout_s) ||
           (field_finds_it_over(field) && field_takes_over(field, timeout_s));
}

/* "make sure ... before deleting the key" */
static void field_releases(struct field *field) {
    if (!is_over(field, field->value)) freeReplyObject(say(field, "DEL", NULL));
}

/* ---- what is there ---- */

static double value_there(char *text, size_t size) {
    if (!server_get(&one, "job", text, size)) return 0;
    return strtod(text, NULL);
}

static double value_seconds(void) {
    char text[80];
    return value_there(text, sizeof text);
}

static double server_seconds(void) {
    redisReply *reply = server_ask(&one, "TIME");
    double now = strtod(reply->element[0]->str, NULL) + strtod(reply->element[1]->str, NULL) / 1e6;
    freeReplyObject(reply);
    return now;
}

static void put_back(double seconds_ago) {
    freeReplyObject(server_ask(&one, "SET job %.0f", wall_clock(WHOLE) - seconds_ago));
}

/* ---- exclusion ---- */

static void each_excludes_the_other(const char *scheme, enum form form) {
    struct redlock_client *client = open_scheme(scheme);
    struct redlock_lock *lock = unrenewed(client, 20000);
    struct field field;
    char before[80], after[80];
    int verdict = 0;
    field_open(&field, form);
    assert_result(redlock_try(lock), REDLOCK_OK);
    double there = value_there(before, sizeof before);
    assert_false(field_tries(&field, 10));
    assert_true(value_there(after, sizeof after) == there);
    assert_string_equal(before, after);
    assert_result(redlock_extend(lock, 30000), REDLOCK_OK);
    assert_false(field_tries(&field, 10));
    assert_result(redlock_release(lock), REDLOCK_OK);

    assert_true(field_tries(&field, 10));
    value_there(before, sizeof before);
    assert_result(redlock_try(lock), REDLOCK_HELD);
    redlock_verdicts(lock, &verdict, 1);
    assert_int_equal(verdict, REDLOCK_VERDICT_DENIED);
    value_there(after, sizeof after);
    assert_string_equal(before, after); /* nothing of it was touched, and nothing is left behind */
    assert_int_equal(server_ask_integer(&one, "DBSIZE"), 1);
    field_releases(&field);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(server_ask_integer(&one, "DBSIZE"), 0);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void with_whole_seconds(void **state) {
    (void)state;
    each_excludes_the_other("setnx", WHOLE);
}

static void with_fractions(void **state) {
    (void)state;
    each_excludes_the_other("setnx", FRACTION);
}

static void with_milliseconds(void **state) {
    (void)state;
    each_excludes_the_other("setnx-ms", MILLISECONDS);
}

/* Where the two write different units ours waits all the same: it reads both. */
static void ours_reads_both_units(void **state) {
    static const char *const schemes[] = {"setnx", "setnx-ms"};
    (void)state;
    for (enum form form = WHOLE; form <= MILLISECONDS; form++) {
        for (int i = 0; i < 2; i++) {
            struct redlock_client *client = open_scheme(schemes[i]);
            struct redlock_lock *lock = unrenewed(client, 20000);
            struct field field;
            field_open(&field, form);
            assert_true(field_tries(&field, 10));
            assert_result(redlock_try(lock), REDLOCK_HELD);
            field_releases(&field);
            field_close(&field);
            redlock_lock_free(lock);
            redlock_client_free(client);
        }
    }
}

/* A lock that is renewed outlives the timestamp that it began with many times over. */
static void a_renewed_lock_excludes_for_as_long_as_it_is_held(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(600, &notices);
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = new_lock(client, "job", &options);
    struct field field;
    field_open(&field, FRACTION);
    assert_result(redlock_try(lock), REDLOCK_OK);
    double first = value_seconds();
    wait_until(server_seconds() > first + 1 || field_tries(&field, 1), 10000);
    assert_true(server_seconds() > first + 1);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_true(notices.count[REDLOCK_CHANGE_RENEWED] > 2);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_true(field_tries(&field, 1));
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* A Redlock token, a counter, a word: another's, and none of it is overwritten. */
static void what_is_no_timestamp_is_anothers(void **state) {
    (void)state;
    static const char *const values[] = {"f6209a5dc9c53f97103f5f356890d91a9746295f", "1", "locked",
                                         "12345", ""};
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 1000);
    char after[80];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        freeReplyObject(server_ask(&one, "SET job %s", values[i]));
        assert_result(redlock_try(lock), REDLOCK_HELD);
        value_there(after, sizeof after);
        assert_string_equal(after, values[i]);
    }
    server_ask_integer(&one, "DEL job");
    server_ask_integer(&one, "RPUSH job x");
    assert_result(redlock_try(lock), REDLOCK_HELD);
    assert_int_equal(server_ask_integer(&one, "LLEN job"), 1);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- time ---- */

/* Validity ends a whole second, and the drift, before anybody may call the timestamp over. */
static void validity_ends_well_before_the_timestamp(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 700);
    for (int i = 0; i < 40; i++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        double left = (double)redlock_validity_ms(lock) / 1000,
               over = value_seconds() - server_seconds();
        assert_less(0.5, left);
        assert_less(left, 0.7 - 0.007);
        assert_less(left + 0.95, over); /* what asking took is not in `over` */
        assert_less(over, 0.7 + 2.001);
        assert_result(redlock_release(lock), REDLOCK_OK);
        nap_ms(23); /* through all parts of a second */
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void wait_until_over(double seconds) { wait_until(server_seconds() >= seconds, 5000); }

static void an_expired_lock_is_not_deleted(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 400);
    assert_result(redlock_try(lock), REDLOCK_OK);
    double there = value_seconds();
    wait_until(redlock_lock_state(lock) == REDLOCK_STATE_LOST, 1000);
    wait_until_over(there);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_true(value_seconds() == there);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Lost by our own clock, and the timestamp not over yet: it is ours to delete still. */
static void a_lost_lock_is_deleted_while_its_timestamp_lasts(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 400);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(redlock_lock_state(lock) == REDLOCK_STATE_LOST, 1000);
    assert_result(redlock_extend(lock, 400), REDLOCK_LOST); /* never brought back */
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(server_ask_integer(&one, "DBSIZE"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void hold_until_killed(int notices) {
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 400);
    bool held = redlock_try(lock) == REDLOCK_OK && write(notices, "h", 1) == 1;
    while (held) pause();
    _exit(1);
}

static void a_crash(void) {
    int notices[2];
    char byte;
    assert_int_equal(pipe(notices), 0);
    pid_t child = fork();
    if (child == 0) hold_until_killed(notices[1]);
    close(notices[1]);
    assert_int_equal(read(notices[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(notices[0]);
}

/* Nobody deletes it, nothing announces its end: the timestamp itself tells when to come. */
static void after_a_crash_the_next_one_takes_it(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_lock *lock = new_lock(client, "job", &options);
    a_crash();
    double there = value_seconds();
    assert_result(redlock_acquire(lock, 10000), REDLOCK_OK);
    double late =
        server_seconds() - (there + 1); /* those who compare whole seconds call it over by then */
    assert_less(-0.01, late);
    assert_less(late, 0.5);
    assert_result(redlock_release(lock), REDLOCK_OK);

    struct field field;
    field_open(&field, WHOLE);
    a_crash();
    assert_false(field_tries(&field, 1));
    wait_until(field_tries(&field, 1), 5000);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void *release_soon(void *argument) {
    struct field *field = argument;
    nap_ms(150); /* the waiter has fallen asleep by then, or not: both must work */
    field_releases(field);
    return NULL;
}

static void a_release_by_others_wakes_us(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_lock *lock = new_lock(client, "job", &options);
    struct field field;
    pthread_t thread;
    field_open(&field, FRACTION);
    assert_true(field_tries(&field, 20));
    assert_int_equal(pthread_create(&thread, NULL, release_soon, &field), 0);
    double began = now_ms();
    assert_result(redlock_acquire(lock, 15000), REDLOCK_OK);
    assert_less(now_ms() - began, 5000);
    pthread_join(thread, NULL);
    assert_result(redlock_release(lock), REDLOCK_OK);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- C4 and C5 ---- */

/* A value that another has put over ours is not ours any more, whatever it may mean: no extension,
 * no deletion. It is over when it says so, and then the next one takes it. */
static void overwritten_by_one_who_came_too_late(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 5000);
    struct field field;
    int verdict = 0;
    field_open(&field, WHOLE);
    put_back(3);
    for (int i = 0; i < 2; i++) {
        assert_false(field_sets(&field, 0));
        assert_true(field_finds_it_over(&field));
        assert_result(redlock_try(lock), REDLOCK_OK); /* C4 */
        assert_false(field_takes_over(&field, 0));    /* C5 */
        assert_true(redlock_validity_ms(lock) > 0);
        if (i == 0) {
            assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
            redlock_verdicts(lock, &verdict, 1);
            assert_int_equal(verdict, REDLOCK_VERDICT_DENIED);
        }
        double began = now_ms();
        assert_result(redlock_release(lock), REDLOCK_LOST);
        assert_less(now_ms() - began, 300); /* at once: nothing is waited for */
        assert_true(value_seconds() == strtod(field.value, NULL));
        put_back(3);
    }
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(server_ask_integer(&one, "DBSIZE"), 0);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* The other way round ours never overwrites in vain: what it does not get it has not touched. */
static void ours_leaves_a_faster_ones_value(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 5000);
    struct field field;
    field_open(&field, FRACTION);
    put_back(3);
    assert_true(field_tries(&field, 10));
    assert_result(redlock_try(lock), REDLOCK_HELD);
    char there[80];
    value_there(there, sizeof there);
    assert_string_equal(there, field.value);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

enum { ROUNDS = 400, OURS = 2, RACERS = OURS + 1 };

static struct race {
    pthread_barrier_t begin, end;
    atomic_int holders[ROUNDS];
    atomic_int wins[RACERS];
    atomic_int lost; /* of ours, at the release: overwritten */
} race;

/* Whoever has won keeps it until all have tried. */
static void *run_ours(void *argument) {
    size_t who = *(size_t *)argument;
    struct redlock_client *client = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 5000);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&race.begin);
        /* Theirs takes three round trips, ours one: a start that lets ours fall before, between and
         * behind them. */
        nanosleep(&(struct timespec){0, i % 16 * 30000}, NULL);
        bool won = redlock_try(lock) == REDLOCK_OK;
        race.holders[i] += won;
        race.wins[who] += won;
        pthread_barrier_wait(&race.end);
        if (won) race.lost += redlock_release(lock) == REDLOCK_LOST;
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    return NULL;
}

static void *run_field(void *argument) {
    struct field field;
    (void)argument;
    field_open(&field, WHOLE);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&race.begin);
        bool won = field_tries(&field, 5);
        race.holders[i] += won;
        race.wins[OURS] += won;
        pthread_barrier_wait(&race.end);
    }
    field_close(&field);
    return NULL;
}

/* Two of ours and one of theirs find the same dead lock at the same moment, again and again: one of
 * them gets it. */
static void exactly_one_takes_an_expired_lock(void **state) {
    (void)state;
    pthread_t threads[RACERS];
    size_t names[RACERS] = {0, 1, 2};
    memset(&race, 0, sizeof race);
    pthread_barrier_init(&race.begin, NULL, RACERS + 1);
    pthread_barrier_init(&race.end, NULL, RACERS + 1);
    for (size_t i = 0; i < RACERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < OURS ? run_ours : run_field, &names[i]), 0);
    for (int i = 0; i < ROUNDS; i++) {
        put_back(3);
        pthread_barrier_wait(&race.begin);
        pthread_barrier_wait(&race.end);
        if (race.holders[i] != 1) fail_msg("round %d: %d holders", i, race.holders[i]);
    }
    for (size_t i = 0; i < RACERS; i++) pthread_join(threads[i], NULL);
    print_message("won by ours %d and %d times, by theirs %d times; ours overwritten %d times\n",
                  race.wins[0], race.wins[1], race.wins[2], race.lost);
    assert_true(race.wins[0] + race.wins[1] > 0 && race.wins[2] > 0);
    pthread_barrier_destroy(&race.begin);
    pthread_barrier_destroy(&race.end);
}

/* ---- what such a node is not for ---- */

static void refuses(const char *nodes, int mode, const char *words) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    options.mode = mode;
    assert_result(redlock_client_open(nodes, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_null(client);
}

static void more_than_one_lock_on_one_server_is_refused(void **state) {
    (void)state;
    refuses("redis://a?scheme=setnx,redis://b,redis://c", REDLOCK_MODE_CLASSIC,
            "a lock on one server");
    refuses("redis://a?scheme=setnx", REDLOCK_MODE_GUARDED, "guarded mode");
    struct redlock_client *client = open_setnx();
    struct redlock_bytes resources[2] = {{"a", 1}, {"b", 1}};
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    struct redlock_node_status status = {.size = sizeof status};
    assert_result(redlock_lock_new_multi(client, resources, 2, NULL, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "one resource"));
    assert_null(lock);
    assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
    assert_int_equal(status.scheme, REDLOCK_SCHEME_SETNX);
    redlock_client_free(client);
}

/* ---- looking ---- */

static void count_resource(void *context, const void *resource, size_t bytes) {
    char *all = context;
    snprintf(all + strlen(all), 200 - strlen(all), "%.*s ", (int)bytes, (const char *)resource);
}

static void looking_reports_whose_it_is_and_how_long(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx();
    struct redlock_lock_options options = lock_options(20000);
    options.owner = "ann";
    struct redlock_lock *lock = new_lock(client, "job", &options);
    struct redlock_view view;
    struct field field;
    char listed[200] = "";
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_peek(client, "job", 3, &view, 1), REDLOCK_OK);
    assert_int_equal(view.verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(view.token_bytes, 44);
    assert_memory_equal(view.token + 40, ":ann", 4);
    assert_in_range(view.remaining_ms, 20000, 23000);
    assert_result(redlock_list(client, count_resource, listed), REDLOCK_OK);
    assert_string_equal(listed, "job ");
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_peek(client, "job", 3, &view, 1), REDLOCK_OK);
    assert_int_equal(view.verdict, REDLOCK_VERDICT_ABSENT);

    field_open(&field, FRACTION);
    assert_true(field_tries(&field, 10));
    assert_result(redlock_peek(client, "job", 3, &view, 1), REDLOCK_OK);
    assert_int_equal(view.token_bytes, strlen(field.value));
    assert_memory_equal(view.token, field.value, view.token_bytes);
    assert_in_range(view.remaining_ms, 11000, 12001);
    field_close(&field);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Another process goes on by the token, which nobody could guess from the value. */
static void a_token_is_handed_on(void **state) {
    (void)state;
    struct redlock_client *client = open_setnx(), *other = open_setnx();
    struct redlock_lock *lock = unrenewed(client, 5000), *adopted = unrenewed(other, 5000);
    char token[80], value[80];
    assert_result(redlock_try(lock), REDLOCK_OK);
    struct redlock_bytes bytes = redlock_token(lock);
    memcpy(token, bytes.data, bytes.bytes);
    value_there(value, sizeof value);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_result(redlock_lock_adopt(adopted, value, strlen(value)), REDLOCK_OK);
    assert_result(redlock_release(adopted), REDLOCK_LOST);
    assert_result(redlock_lock_adopt(adopted, token, bytes.bytes), REDLOCK_OK);
    assert_result(redlock_extend(adopted, 15000), REDLOCK_OK);
    assert_less(server_seconds() + 14, value_seconds());
    assert_result(redlock_release(adopted), REDLOCK_OK);
    assert_int_equal(server_ask_integer(&one, "DBSIZE"), 0);
    redlock_lock_free(adopted);
    redlock_lock_free(lock);
    redlock_client_free(other);
    redlock_client_free(client);
}

/* Lines of docs/use/older-ways.md, with scripts and without. */
static void the_least_permissions_suffice(void **state) {
    (void)state;
    static const char *const may[] = {"+eval +evalsha", "+watch +unwatch +discard"};
    for (size_t i = 0; i < 2; i++) {
        struct redlock_client *client = NULL;
        struct redlock_view view;
        char rule[400], url[100];
        snprintf(
            rule, sizeof rule,
            "ACL SETUSER locks%zu on >PASSWORD resetkeys ~lock:* ~redlock:setnx:lock:* ~redlock:node resetchannels -@all +set "
            "+getrange "
            "+del +pttl +pexpire +hmset +hmget +time %s +multi +exec +info +hget",
            i, may[i]);
        freeReplyObject(server_ask(&one, rule));
        snprintf(url, sizeof url, "redis://locks%zu:PASSWORD@127.0.0.1:%d?scheme=setnx", i,
                 one.port);
        assert_result(redlock_client_open(url, NULL, &client, NULL), REDLOCK_OK);
        assert_int_equal(redlock_client_wait_ready(client, 2000), 1);
        struct redlock_lock *lock = new_lock(client, "lock:job", NULL);
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
        assert_int_equal(status.uses_transactions, i);
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_result(redlock_extend(lock, 60000), REDLOCK_OK);
        assert_result(redlock_peek(client, "lock:job", 8, &view, 1), REDLOCK_OK);
        assert_int_equal(view.verdict, REDLOCK_VERDICT_GRANTED);
        assert_result(redlock_release(lock), REDLOCK_OK);
        assert_int_equal(server_ask_integer(&one, "DBSIZE"), 0);
        redlock_lock_free(lock);
        redlock_client_free(client);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(with_whole_seconds, flush),
        cmocka_unit_test_setup(with_fractions, flush),
        cmocka_unit_test_setup(with_milliseconds, flush),
        cmocka_unit_test_setup(ours_reads_both_units, flush),
        cmocka_unit_test_setup(a_renewed_lock_excludes_for_as_long_as_it_is_held, flush),
        cmocka_unit_test_setup(what_is_no_timestamp_is_anothers, flush),
        cmocka_unit_test_setup(validity_ends_well_before_the_timestamp, flush),
        cmocka_unit_test_setup(an_expired_lock_is_not_deleted, flush),
        cmocka_unit_test_setup(a_lost_lock_is_deleted_while_its_timestamp_lasts, flush),
        cmocka_unit_test_setup(after_a_crash_the_next_one_takes_it, flush),
        cmocka_unit_test_setup(a_release_by_others_wakes_us, flush),
        cmocka_unit_test_setup(overwritten_by_one_who_came_too_late, flush),
        cmocka_unit_test_setup(ours_leaves_a_faster_ones_value, flush),
        cmocka_unit_test_setup(exactly_one_takes_an_expired_lock, flush),
        cmocka_unit_test_setup(more_than_one_lock_on_one_server_is_refused, flush),
        cmocka_unit_test_setup(looking_reports_whose_it_is_and_how_long, flush),
        cmocka_unit_test_setup(a_token_is_handed_on, flush),
        cmocka_unit_test_setup(the_least_permissions_suffice, flush),
    };
    return cmocka_run_group_tests(tests, start_one, stop_one);
}
