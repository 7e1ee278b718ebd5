/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The line that a simulated node keeps, against src/node/waiting.lua on a real server: ranks, who
 * remains, and who is told what, request by request. The server's clock stands still but for what
 * the test moves it by (stepclock.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node/scripts.h"
#include "nodes/queue.h"
#include "world/random.h"
#include "servers.h"

enum { WAITERS = 7, REQUESTS = 4000 };

static struct server server;
static redisContext *asks, *hears;
static const char *stepclock;
static volatile int64_t *clock_us;

static void open_clock(char *path) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(int64_t)), 0);
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    clock_us = map;
    *clock_us = INT64_C(1767225600000000);
}

static int start(void **state) {
    char path[] = "/tmp/queue-clock-XXXXXX";
    (void)state;
    open_clock(path);
    setenv("STEPCLOCK_FILE", path, 1);
    setenv("LD_PRELOAD", stepclock, 1);
    server_start(&server, NULL);
    unsetenv("LD_PRELOAD");
    unlink(path); /* both have it open */
    asks = redisConnect("127.0.0.1", server.port);
    hears = redisConnect("127.0.0.1", server.port);
    assert_true(asks && hears && !asks->err && !hears->err);
    freeReplyObject(redisCommand(hears, "PSUBSCRIBE wake:*"));
    return 0;
}

static int stop(void **state) {
    (void)state;
    redisFree(asks);
    redisFree(hears);
    server_stop(&server);
    munmap((void *)(uintptr_t)clock_us, sizeof(int64_t));
    return 0;
}

static int64_t ask_server(const struct queue_request *request, unsigned armed) {
    const struct node_script_text *script = &node_scripts[NODE_WAITING];
    redisReply *reply =
        redisCommand(asks, "EVAL %b 2 waiting waiters %u %lld %lld %u wake: job %d", script->text,
                     script->bytes, request->waiter, (long long)request->lease_ms,
                     (long long)request->age_us, armed, request->passes);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    int64_t answer = reply->integer;
    freeReplyObject(reply);
    return answer;
}

static void assert_seen_alike(const struct queue *queue) {
    const struct node_script_text *script = &node_scripts[NODE_WAITERS];
    int64_t age_us, count = queue_peek(queue, *clock_us, &age_us);
    redisReply *reply =
        redisCommand(asks, "EVAL %b 2 waiting waiters", script->text, script->bytes);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->elements, 2);
    assert_int_equal(count, reply->element[0]->integer);
    assert_int_equal(age_us, reply->element[1]->integer);
    freeReplyObject(reply);
}

/* What was published since, up to a message of our own, as "waiter rank;" each. */
static void hear(char *text, size_t size) {
    freeReplyObject(redisCommand(asks, "PUBLISH wake:end end"));
    text[0] = '\0';
    for (;;) {
        redisReply *message = NULL;
        assert_int_equal(redisGetReply(hears, (void **)&message), REDIS_OK);
        const char *to = message->element[2]->str + strlen("wake:"),
                   *what = message->element[3]->str;
        bool over = strcmp(to, "end") == 0;
        size_t used = strlen(text);
        if (!over) snprintf(text + used, size - used, "%s %s;", to, what);
        freeReplyObject(message);
        if (over) return;
    }
}

static void write_news(const struct queue_news *news, char *text, size_t size) {
    text[0] = '\0';
    for (unsigned i = 0; i < news->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%u %d job;", (unsigned)news->notices[i].place.waiter,
                 news->notices[i].rank);
    }
}

static struct queue_request draw(struct random *random) {
    struct queue_request request = {.waiter = (uint32_t)random_between(random, 1, WAITERS)};
    if (random_chance(random, 600000)) {
        request.lease_ms = random_between(random, 1, random_chance(random, 200000) ? 3 : 60);
        request.age_us = random_between(random, 0, 20) * 1000;
    } else {
        request.passes = random_chance(random, 300000);
    }
    return request;
}

static void the_line_is_the_scripts(void **state) {
    struct random random = random_named(1, 1);
    struct queue queue = {0};
    unsigned notices = 0;
    (void)state;
    for (int i = 0; i < REQUESTS; i++) {
        struct queue_request request = draw(&random);
        unsigned armed = (unsigned)random_between(&random, 1, 3);
        struct queue_news news;
        char real[256], simulated[256];
        int64_t answer = ask_server(&request, armed);
        assert_int_equal(queue_ask(&queue, &request, *clock_us, armed, &news), answer);
        hear(real, sizeof(real));
        write_news(&news, simulated, sizeof(simulated));
        assert_string_equal(simulated, real);
        notices += news.count;
        if (random_chance(&random, 500000)) *clock_us += random_between(&random, 0, 4) * 1000;
        assert_seen_alike(&queue); /* with waiters that have expired since */
    }
    assert_true(notices > REQUESTS / 4);
}

static void a_full_line_takes_nobody(void **state) {
    struct queue queue = {0};
    struct queue_news news;
    (void)state;
    struct queue_request request = {.lease_ms = 1000};
    for (request.waiter = 1; request.waiter <= QUEUE_MAX; request.waiter++)
        assert_int_equal(queue_ask(&queue, &request, request.waiter, 1, &news), request.waiter - 1);
    assert_int_equal(queue_ask(&queue, &request, 100, 1, &news), -1);
    request.waiter = 1;
    assert_int_equal(queue_ask(&queue, &request, 100, 1, &news), 0);
}

int main(int argc, char **argv) {
    assert_int_equal(argc, 2);
    stepclock = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_is_the_scripts),
        cmocka_unit_test(a_full_line_takes_nobody),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
