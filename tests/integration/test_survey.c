/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_scan() and redlock_survey(): an observer of many locks sees what is there, whatever the
 * servers hold besides, and changes nothing.
 */
#include "fixtures.h"
#include "notices.h"

#include <pthread.h>

enum { KEYS = 700, NODES = 3 };

/* ---- walking ---- */

struct walked {
    size_t locks[KEYS], others, queues, steps;
    char queue[64];
};

static void on_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    struct walked *walked = context;
    unsigned number;
    char name[64];
    assert_true(node < NODES && bytes < sizeof name);
    memcpy(name, resource, bytes);
    name[bytes] = '\0';
    assert_null(strstr(name, "redlock:")); /* the nodes' own */
    if (what == REDLOCK_KEY_WAITING) {
        walked->queues++;
        memcpy(walked->queue, name, bytes + 1);
    } else if (sscanf(name, "job:%u", &number) == 1 && number < KEYS) {
        walked->locks[number] |= (size_t)1 << node;
    } else {
        walked->others++;
    }
}

static struct redlock_client *open_prefixed(const char *prefix) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = prefix;
    return open_client(&three, &options);
}

static void walk(struct redlock_client *client, uint32_t effort, struct walked *walked) {
    struct redlock_walk scan;
    redlock_walk_init(&scan);
    scan.effort = effort;
    memset(walked, 0, sizeof *walked);
    while (scan.ended != 7) {
        assert_result(redlock_scan(client, &scan, on_key, walked), REDLOCK_OK);
        assert_int_equal(scan.failed, 0);
        assert_less((double)++walked->steps, 1000);
    }
    assert_true(scan.bytes > 0);
}

/* What the prefix leaves out, and what is not a lock at all. */
static void fill(void) {
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < KEYS; j++)
            freeReplyObject(server_ask(&three.at[i], "SET a*b:job:%d x PX 60000", j));
        freeReplyObject(server_ask(&three.at[i], "SET other x PX 60000"));
        freeReplyObject(server_ask(&three.at[i], "SET x:a*b:job:1 x PX 60000"));
        freeReplyObject(server_ask(&three.at[i], "SET aab:job:1 x PX 60000"));
    }
    server_ask_integer(&three.at[1], "ZADD redlock:waiting:a*b:job:5 1 w");
    server_ask_integer(&three.at[1], "ZADD redlock:waiters:a*b:job:5 1 w");
    server_ask_integer(&three.at[1], "ZADD redlock:waiting:other 1 w");
    server_ask_integer(&three.at[1], "HSET redlock:node field x"); /* not locks */
    server_ask_integer(&three.at[1], "ZADD redlock:fences:0123456789abcdef 1 1");
}

static void a_walk_finds_every_key_of_the_prefix_and_its_queues(void **state) {
    (void)state;
    static const uint32_t efforts[] = {1000, 50};
    struct walked walked;
    fill();
    struct redlock_client *client = open_prefixed("a*b:");
    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++) {
        walk(client, efforts[i], &walked);
        for (int j = 0; j < KEYS; j++) assert_int_equal(walked.locks[j], 7);
        assert_int_equal(walked.others, 0);
        assert_true(walked.queues >= 1);
        assert_string_equal(walked.queue, "job:5");
    }
    assert_true(walked.steps > KEYS / 200); /* it is the effort that bounds a step */
    redlock_client_free(client);
    client = open_prefixed(NULL);
    walk(client, 1000, &walked);
    assert_true(walked.others >= (KEYS + 3) * NODES); /* other, x:a*b:job:1, aab:job:1 too */
    assert_true(walked.queues >= 2);
    redlock_client_free(client);
}

static void a_walk_goes_on_without_a_node_and_asks_it_again(void **state) {
    (void)state;
    struct walked walked = {.steps = 0};
    struct redlock_walk scan;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.connect_timeout_ms = 200;
    struct redlock_client *client = open_client(&three, &options);
    redlock_walk_init(&scan);
    scan.effort = 1000;
    server_pause(&three.at[2]);
    while ((scan.ended & 3) != 3)
        assert_result(redlock_scan(client, &scan, on_key, &walked), REDLOCK_OK);
    assert_int_equal(scan.ended, 3);
    assert_int_equal(scan.failed, 4);
    assert_result(redlock_scan(client, &scan, on_key, &walked), REDLOCK_NO_QUORUM);
    server_resume(&three.at[2]);
    for (double end = now_ms() + 10000; scan.ended != 7 && now_ms() < end;) {
        redlock_client_wait_ready(client, 100);
        if (redlock_scan(client, &scan, on_key, &walked) == REDLOCK_NO_QUORUM) nap_ms(10);
    }
    assert_int_equal(scan.ended, 7);
    assert_int_equal(scan.failed, 0);
    redlock_client_free(client);
}

static void arguments_are_checked(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&three, NULL);
    struct redlock_walk scan;
    struct walked walked;
    struct redlock_view views[NODES];
    static char longest[REDLOCK_RESOURCE_BYTES_MAX + 1];
    struct redlock_bytes resource = {longest, REDLOCK_RESOURCE_BYTES_MAX + 1};
    redlock_walk_init(&scan);
    assert_result(redlock_scan(client, &scan, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_scan(client, NULL, on_key, &walked), REDLOCK_BAD_ARGUMENT);
    scan.effort = 0;
    assert_result(redlock_scan(client, &scan, on_key, &walked), REDLOCK_BAD_ARGUMENT);
    scan.effort = 1001;
    assert_result(redlock_scan(client, &scan, on_key, &walked), REDLOCK_BAD_ARGUMENT);
    scan.effort = 1;
    scan.size = 8;
    assert_result(redlock_scan(client, &scan, on_key, &walked), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_survey(client, &resource, 1, views, NULL), REDLOCK_BAD_ARGUMENT);
    resource.bytes = 0;
    assert_result(redlock_survey(client, &resource, 1, views, NULL), REDLOCK_BAD_ARGUMENT);
    resource.bytes = 1;
    assert_result(redlock_survey(client, &resource, REDLOCK_SURVEY_MAX + 1, views, NULL),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_survey(client, &resource, 1, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_survey(client, NULL, 0, NULL, NULL), REDLOCK_OK);
    resource.bytes = REDLOCK_RESOURCE_BYTES_MAX; /* the longest that a lock can have */
    assert_result(redlock_survey(client, &resource, 1, views, NULL), REDLOCK_OK);
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_ABSENT);
    redlock_client_free(client);
}

/* ---- many resources ---- */

static void *wait_for_it(void *argument) {
    return (void *)(intptr_t)redlock_acquire(argument, 20000);
}

static int64_t waiters_of(const struct redlock_queue_view *queues, int64_t *oldest_ms) {
    int64_t waiters = 0;
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(queues[i].verdict, REDLOCK_VERDICT_GRANTED);
        if (queues[i].waiters > waiters) waiters = queues[i].waiters;
        if (queues[i].oldest_ms > *oldest_ms) *oldest_ms = queues[i].oldest_ms;
    }
    return waiters;
}

static void holders_and_waiters_are_seen_as_they_are(void **state) {
    (void)state;
    struct redlock_client *observer = open_calm(&three), *holds = open_calm(&three),
                          *waits[2] = {open_calm(&three), open_calm(&three)};
    const struct redlock_bytes resources[] = {{"free", 4}, {"held", 4}, {"cached", 6}, {"list", 4}};
    struct redlock_view views[4 * NODES], same[NODES];
    struct redlock_queue_view queues[4 * NODES];
    struct redlock_lock *lock = new_lock(holds, "held", NULL), *others[2];
    pthread_t threads[2];
    assert_result(redlock_try(lock), REDLOCK_OK);
    server_ask_integer(&three.at[0], "RPUSH list x");
    freeReplyObject(server_ask(&three.at[0], "SET cached text"));
    for (int i = 0; i < 2; i++) {
        others[i] = new_lock(waits[i], "held", NULL);
        pthread_create(&threads[i], NULL, wait_for_it, others[i]);
    }
    int64_t waiters = 0, oldest_ms = 0;
    for (double end = now_ms() + 10000; (waiters != 2 || oldest_ms == 0) && now_ms() < end;) {
        assert_result(redlock_survey(observer, resources, 4, views, queues), REDLOCK_OK);
        waiters = waiters_of(&queues[NODES], &oldest_ms);
    }
    assert_int_equal(waiters, 2);
    assert_true(oldest_ms > 0 && oldest_ms < 10000);
    assert_result(redlock_peek(observer, "held", 4, same, NODES), REDLOCK_OK);
    for (int i = 0; i < NODES; i++) {
        const struct redlock_view *view = &views[NODES + i];
        struct redlock_bytes token = redlock_token(lock);
        assert_int_equal(views[i].verdict, REDLOCK_VERDICT_ABSENT);
        assert_int_equal(queues[i].waiters, 0);
        assert_int_equal(queues[i].oldest_ms, 0);
        assert_int_equal(view->verdict, REDLOCK_VERDICT_GRANTED);
        assert_int_equal(view->token_bytes, token.bytes);
        assert_memory_equal(view->token, token.data, token.bytes);
        assert_memory_equal(view->token, same[i].token, token.bytes);
        assert_true(view->remaining_ms > 20000 && view->remaining_ms <= 30000);
    }
    assert_int_equal(views[2 * NODES].verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(views[2 * NODES].remaining_ms, -1);
    assert_int_equal(views[3 * NODES].verdict, REDLOCK_VERDICT_WRONGTYPE);
    for (int i = 0; i < 2; i++) {
        redlock_cancel(others[i]);
        void *result;
        pthread_join(threads[i], &result);
        assert_result((int)(intptr_t)result, REDLOCK_CANCELLED);
        redlock_lock_free(others[i]);
    }
    redlock_release(lock);
    redlock_lock_free(lock);
    for (int i = 0; i < 2; i++) redlock_client_free(waits[i]);
    redlock_client_free(holds);
    redlock_client_free(observer);
}

/* Each script is unknown to the server at first, for all resources at once. */
static void the_most_resources_go_in_one_call(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, 1000, 0);
    static char names[REDLOCK_SURVEY_MAX][16];
    static struct redlock_bytes resources[REDLOCK_SURVEY_MAX];
    static struct redlock_view views[REDLOCK_SURVEY_MAX * NODES];
    static struct redlock_queue_view queues[REDLOCK_SURVEY_MAX * NODES];
    for (int i = 0; i < NODES; i++) freeReplyObject(server_ask(&three.at[i], "SCRIPT FLUSH"));
    for (size_t i = 0; i < REDLOCK_SURVEY_MAX; i++) {
        snprintf(names[i], sizeof names[i], "many:%zu", i);
        resources[i] = (struct redlock_bytes){names[i], strlen(names[i])};
        for (int j = 0; j < NODES; j++)
            freeReplyObject(
                server_ask(&three.at[j], "SET %s token:%u PX 60000", names[i], (unsigned)i));
    }
    assert_result(redlock_survey(client, resources, REDLOCK_SURVEY_MAX, views, queues), REDLOCK_OK);
    for (size_t i = 0; i < REDLOCK_SURVEY_MAX * NODES; i++) {
        char token[32];
        snprintf(token, sizeof token, "token:%zu", i / NODES);
        assert_int_equal(queues[i].verdict, REDLOCK_VERDICT_GRANTED);
        assert_int_equal(queues[i].waiters, 0);
        assert_int_equal(views[i].token_bytes, strlen(token));
        assert_memory_equal(views[i].token, token, strlen(token));
    }
    redlock_client_free(client);
}

static void nodes_that_cannot_answer_have_a_reason(void **state) {
    (void)state;
    struct servers own;
    servers_start(&own, 3);
    struct redlock_client *client = open_calm(&own);
    const struct redlock_bytes resource = {"r", 1};
    struct redlock_view views[NODES];
    struct redlock_queue_view queues[NODES];
    server_kill(&own.at[0]);
    for (double end = now_ms() + 5000; now_ms() < end;) {
        assert_result(redlock_survey(client, &resource, 1, views, queues), REDLOCK_OK);
        if (views[0].verdict == REDLOCK_VERDICT_REFUSED) break;
        nap_ms(10);
    }
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_REFUSED);
    assert_int_equal(queues[0].verdict, REDLOCK_VERDICT_NONE);
    freeReplyObject(server_ask(&own.at[1], "ACL SETUSER default -zcard"));
    freeReplyObject(server_ask(&own.at[1], "ACL SETUSER default -redlock.queue")); /* if native */
    assert_result(redlock_survey(client, &resource, 1, views, queues), REDLOCK_OK);
    assert_int_equal(views[1].verdict, REDLOCK_VERDICT_ABSENT);
    assert_true(queues[1].verdict == REDLOCK_VERDICT_NOPERM ||
                queues[1].verdict == REDLOCK_VERDICT_ERROR);
    server_kill(&own.at[1]);
    for (double end = now_ms() + 5000; now_ms() < end; nap_ms(10))
        if (redlock_survey(client, &resource, 1, views, queues) == REDLOCK_NO_QUORUM) break;
    assert_result(redlock_survey(client, &resource, 1, views, queues), REDLOCK_NO_QUORUM);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_ABSENT);
    redlock_client_free(client);
    servers_stop(&own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_finds_every_key_of_the_prefix_and_its_queues),
        cmocka_unit_test(a_walk_goes_on_without_a_node_and_asks_it_again),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(holders_and_waiters_are_seen_as_they_are),
        cmocka_unit_test(the_most_resources_go_in_one_call),
        cmocka_unit_test(nodes_that_cannot_answer_have_a_reason),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
