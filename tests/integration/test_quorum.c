/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's commands of guarded mode on real servers: init, add, remove; run again after
 * SIGKILL, beside others, and under load.
 */
#include "notices.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_MAX 300
/* How long a condition may take on a busy machine. Nothing waits that long if all is well. */
#define PATIENCE_MS 20000
/* How long a node may take to answer. Tests with a node that does not answer wait so long. */
#define ANSWER_TIMEOUT_MS 2000
#define ANSWER_TIMEOUT_MS_SHORT 500

/* All tests share the servers. Those of a test are the first `count`. */
static struct servers nodes;
static unsigned started;
static char urls[SERVERS_MAX][40];
static int64_t answer_timeout_ms; /* of the clients that a test opens */

struct list {
    char text[SERVERS_MAX * 40];
};

static bool is_left_alone(struct server *server) {
    double end = now_ms() + 1000;
    bool alone;
    do {
        redisReply *reply = server_ask(server, "INFO clients");
        alone = reply->type == REDIS_REPLY_STRING && strstr(reply->str, "connected_clients:1\r");
        freeReplyObject(reply);
    } while (!alone && now_ms() < end && (nap_ms(2), true));
    return alone;
}

/* As if it had just been started. A server that a test has killed, or that has clients of a test
 * that failed, is replaced: those clients would recover what the next test breaks. */
static void make_new(struct server *server) {
    static const char *const commands[] = {"REPLICAOF NO ONE", "CONFIG SET maxmemory 0",
                                           "CONFIG SET maxmemory-policy noeviction",
                                           "CONFIG RESETSTAT", "FLUSHALL"};
    char dump[80];
    snprintf(dump, sizeof dump, "%s/dump.rdb", server->dir);
    unlink(dump); /* a replica leaves it, and a restart would load it */
    if (server->pid != 0) server_resume(server);
    if (server->pid == 0 || !is_left_alone(server)) {
        server_stop(server);
        server_start(server, NULL);
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        freeReplyObject(server_ask(server, commands[i]));
}

static void start(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (i < started)
            make_new(&nodes.at[i]);
        else
            server_start(&nodes.at[started++], NULL);
        server_url(&nodes.at[i], urls[i], sizeof urls[i]);
    }
    nodes.count = count;
    nodes.urls[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        strcat(nodes.urls, urls[i]);
        strcat(nodes.urls, i + 1 < count ? "," : "");
    }
    answer_timeout_ms = ANSWER_TIMEOUT_MS;
}

static int stop_all(void **state) {
    (void)state;
    nodes.count = started;
    servers_stop(&nodes);
    return 0;
}

/* A list of some of the servers, by their numbers: "0134". */
static struct list some(const char *which) {
    struct list list = {""};
    for (; *which; which++) {
        strcat(list.text, urls[*which - '0']);
        strcat(list.text, which[1] ? "," : "");
    }
    return list;
}

static struct redlock_client *open_with(const char *which, int recover, int service_thread) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    options.mode = REDLOCK_MODE_GUARDED;
    options.recover = recover;
    options.service_thread = service_thread;
    options.node_timeout_ms = 90;
    options.connect_timeout_ms = answer_timeout_ms;
    if (redlock_client_open(some(which).text, &options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    return client;
}

static struct redlock_client *open_on(const char *which) { return open_with(which, 1, 1); }

static struct redlock_quorum_options quorum_options(void) {
    struct redlock_quorum_options options;
    redlock_quorum_options_init(&options);
    options.ttl_ms_max = TTL_MAX;
    return options;
}

#define assert_quorum(expression, expected, error)                                                 \
    do {                                                                                           \
        int got_ = (expression);                                                                   \
        if (got_ != (expected))                                                                    \
            fail_msg("%s is %d (%s), not %d: %s", #expression, got_, redlock_result_text(got_),    \
                     (int)(expected), (error).text);                                               \
    } while (0)

#define assert_says(error, part)                                                                   \
    do {                                                                                           \
        if (!strstr((error).text, (part)))                                                         \
            fail_msg("\"%s\" does not say \"%s\"", (error).text, (part));                          \
    } while (0)

static void init(struct redlock_client *client, int never_used) {
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    options.never_used = never_used;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
}

struct seen {
    int result;
    struct redlock_quorum_status quorum;
    struct redlock_member members[REDLOCK_NODES_MAX];
};

static struct seen peek(struct redlock_client *client) {
    struct seen seen = {.quorum = {.size = sizeof seen.quorum}};
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) seen.members[i].size = sizeof seen.members[i];
    seen.result = redlock_quorum_peek(client, &seen.quorum, seen.members, REDLOCK_NODES_MAX);
    return seen;
}

static unsigned intact(struct redlock_client *client) {
    return (unsigned)peek(client).quorum.intact;
}

static const char *id_of(struct redlock_client *client, unsigned server) {
    static char id[17];
    struct seen seen = peek(client);
    for (size_t i = 0; i < seen.quorum.members; i++) {
        if (strcmp(seen.members[i].url, urls[server]) != 0) continue;
        memcpy(id, seen.members[i].id, sizeof id);
        return id;
    }
    fail_msg("%s is no member", urls[server]);
    return NULL;
}

static int64_t take_within(struct redlock_client *client, const char *resource, int64_t wait_ms) {
    struct redlock_lock_options options = lock_options(TTL_MAX);
    struct redlock_lock *lock = new_lock(client, resource, &options);
    int result = redlock_acquire(lock, wait_ms);
    int64_t fence = result == REDLOCK_OK ? redlock_fence(lock) : 0;
    redlock_lock_free(lock);
    return fence;
}

/* Takes a lock once, releases it, and returns its fence; 0: the client did not get it. */
static int64_t take(struct redlock_client *client, const char *resource) {
    return take_within(client, resource, PATIENCE_MS);
}

/* Also not after a recovery would have ended. */
static bool is_refused(struct redlock_client *client, const char *resource) {
    return take_within(client, resource, 2 * TTL_MAX) == 0;
}

static void field_of(unsigned server, const char *field, char *value, size_t size) {
    redisReply *reply = server_ask(&nodes.at[server], "HGET redlock:node %s", field);
    if (reply->type != REDIS_REPLY_STRING)
        fail_msg("%s has no %s in its record", urls[server], field);
    snprintf(value, size, "%s", reply->str);
    freeReplyObject(reply);
}

static int64_t number_of(unsigned server, const char *field) {
    char value[32];
    field_of(server, field, value, sizeof value);
    return strtoll(value, NULL, 10);
}

static bool is_record(unsigned server, const char *field, const char *expected) {
    char value[64];
    field_of(server, field, value, sizeof value);
    return strcmp(value, expected) == 0;
}

static void wait_for_intact(struct redlock_client *client, size_t members) {
    double end = now_ms() + PATIENCE_MS;
    while (intact(client) != members && now_ms() < end) nap_ms(5);
    struct seen seen = peek(client);
    if (seen.quorum.intact == members) return;
    for (size_t i = 0; i < seen.quorum.members; i++)
        print_error("%s %s: %s\n", seen.members[i].id, seen.members[i].url,
                    redlock_verdict_text(seen.members[i].verdict));
    fail_msg("%zu of %zu members are intact, not %zu", seen.quorum.intact, seen.quorum.members,
             members);
}

/* What the members say of their quorum is the same everywhere, and settled. */
static void assert_agreed(const char *which, int64_t epoch, size_t members) {
    struct redlock_client *client = open_on(which);
    wait_for_intact(client, members);
    struct seen seen = peek(client);
    assert_int_equal(seen.quorum.members, members);
    if (epoch > 0) assert_int_equal(seen.quorum.epoch, epoch);
    assert_true(seen.quorum.settled);
    char first[4096], next[4096];
    for (size_t i = 0; i < members; i++) {
        unsigned server = 0;
        while (server < nodes.count && strcmp(urls[server], seen.members[i].url) != 0) server++;
        assert_true(server < nodes.count);
        assert_int_equal(number_of(server, "epoch"), seen.quorum.epoch);
        assert_true(is_record(server, "quorum", seen.quorum.id));
        assert_true(is_record(server, "node", seen.members[i].id));
        field_of(server, "members", i == 0 ? first : next, sizeof first);
        if (i == 0) continue;
        for (char *a = first, *b = next; *a && *b; a = strchr(a, '\n') + 1, b = strchr(b, '\n') + 1)
            assert_memory_equal(a, b, 16); /* bodies may be newer here than there */
    }
    assert_true(take(client, "agreed") > 0);
    redlock_client_free(client);
}

/* ---- what is refused -------------------------------------------------------------------- */

static void arguments_are_checked(void **state) {
    (void)state;
    start(3);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    struct redlock_client *classic = open_calm(&nodes), *client = open_on("012");
    assert_result(redlock_quorum_init(classic, &options, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(error, "GUARDED");
    assert_result(redlock_quorum_remove(classic, "0123456789abcdef", &options, NULL),
                  REDLOCK_BAD_ARGUMENT);
    options.ttl_ms_max = REDLOCK_TTL_MS_MIN - 1;
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT);
    options = quorum_options();
    options.ttl_ms_max_before = REDLOCK_TTL_MS_MAX + 1;
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT);
    options = quorum_options();
    options.fence_floor = REDLOCK_FENCE_MAX;
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT);
    options = quorum_options();
    options.size = 3;
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT);
    options = quorum_options();
    assert_result(redlock_quorum_add(client, 3, &options, &error), REDLOCK_BAD_ARGUMENT);
    const char *ids[] = {
        NULL, "", "12", "0000000000000000", "0123456789abcdeg", "0123456789abcdef0"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_result(redlock_quorum_remove(client, ids[i], &options, &error),
                      REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_quorum_remove(client, "0123456789abcdef", &options, &error),
                  REDLOCK_NO_QUORUM);
    assert_says(error, "quorum init");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(server_ask_integer(&nodes.at[i], "DBSIZE"), 0);
    redlock_client_free(client);
    redlock_client_free(classic);
}

static void init_refuses(const char *which, unsigned named, const char *says, int result) {
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    struct redlock_client *client = open_on(which);
    assert_quorum(redlock_quorum_init(client, &options, &error), result, error);
    assert_says(error, urls[named]);
    assert_says(error, says);
    redlock_client_free(client);
}

static void unfit_servers_are_refused(void **state) {
    (void)state;
    start(4);
    freeReplyObject(server_ask(&nodes.at[1], "CONFIG SET maxmemory-policy allkeys-lru"));
    init_refuses("012", 1, "noeviction", REDLOCK_NO_QUORUM);
    freeReplyObject(server_ask(&nodes.at[1], "CONFIG SET maxmemory-policy noeviction"));
    freeReplyObject(server_ask(&nodes.at[2], "REPLICAOF 127.0.0.1 %d", nodes.at[3].port));
    init_refuses("012", 2, "replica", REDLOCK_NO_QUORUM);
    freeReplyObject(server_ask(&nodes.at[2], "REPLICAOF NO ONE"));
    server_kill(&nodes.at[0]);
    init_refuses("012", 0, "refused", REDLOCK_NO_QUORUM);
    server_restart(&nodes.at[0]);
    char twice[40];
    memcpy(twice, urls[3], sizeof twice);
    snprintf(urls[3], sizeof urls[3], "redis://localhost:%d", nodes.at[2].port);
    init_refuses("0123", 3, "already", REDLOCK_TWICE_LISTED);
    memcpy(urls[3], twice, sizeof twice);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(server_ask_integer(&nodes.at[i], "EXISTS redlock:node"), 0);
}

static void records_of_others_are_refused(void **state) {
    (void)state;
    start(7);
    answer_timeout_ms = ANSWER_TIMEOUT_MS_SHORT;
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    struct redlock_client *first = open_on("012"), *second = open_on("345"), *list_of_both;
    init(first, 1);
    init(second, 1);
    init_refuses("01234", 3, "leave out", REDLOCK_TWO_QUORUMS);
    init_refuses("06", 0, "not in the list", REDLOCK_BAD_ARGUMENT);
    redlock_client_free(first);
    list_of_both = open_on("0123");
    assert_quorum(redlock_quorum_add(list_of_both, 3, &options, &error), REDLOCK_BAD_ARGUMENT,
                  error);
    assert_says(error, urls[3]);
    assert_says(error, "remove");
    assert_quorum(redlock_quorum_add(list_of_both, 1, &options, &error), REDLOCK_TWO_QUORUMS,
                  error);
    assert_says(error, urls[3]);
    assert_says(error, "leave out");
    redlock_client_free(list_of_both);
    list_of_both = open_on("012");
    assert_quorum(redlock_quorum_add(list_of_both, 1, &options, &error), REDLOCK_BAD_ARGUMENT,
                  error);
    assert_says(error, "already");
    freeReplyObject(server_ask(&nodes.at[6], "HSET redlock:node format 99"));
    init_refuses("6", 6, "cannot read", REDLOCK_NO_QUORUM);
    redlock_client_free(list_of_both);
    redlock_client_free(second);
}

/* ---- init ------------------------------------------------------------------------------- */

struct progress {
    int calls, waits;
    int64_t left_most;
};

static void count_progress(void *context, const char *text, int64_t left_ms) {
    struct progress *progress = context;
    assert_true(strlen(text) > 0 && left_ms >= -1);
    progress->calls++;
    progress->waits += strncmp(text, "waiting", 7) == 0;
    if (left_ms > progress->left_most) progress->left_most = left_ms;
}

static void never_used_is_ready_at_once(void **state) {
    (void)state;
    start(5);
    for (int service_thread = 0; service_thread < 2; service_thread++) {
        struct redlock_client *client = open_with("01234", 1, service_thread);
        struct redlock_quorum_options options = quorum_options();
        struct redlock_error error = {0};
        struct progress progress = {0, 0, -1};
        options.ttl_ms_max = 60000;
        options.never_used = 1;
        options.progress = count_progress;
        options.progress_context = &progress;
        assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
        struct redlock_lock *lock = new_lock(client, "at once", NULL);
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_int_equal(progress.waits, 0);
        struct timespec wall;
        clock_gettime(CLOCK_REALTIME, &wall);
        assert_true(redlock_fence(lock) > (int64_t)(wall.tv_sec - 60) * 1000000);
        redlock_lock_free(lock);
        struct seen seen = peek(client);
        assert_int_equal(seen.quorum.members, 5);
        assert_int_equal(seen.quorum.intact, 5);
        assert_int_equal(seen.quorum.epoch, 1);
        assert_true(seen.quorum.settled && seen.quorum.ttl_ms_max == 60000);
        assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_CONFLICT, error);
        assert_says(error, "intact");
        redlock_client_free(client);
        for (unsigned i = 0; i < 5; i++) freeReplyObject(server_ask(&nodes.at[i], "FLUSHALL"));
    }
}

static void init_waits_for_ttl_max(void **state) {
    (void)state;
    start(5);
    struct progress progress = {0, 0, -1};
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    struct redlock_client *client = open_on("01234");
    options.ttl_ms_max = 1500;
    options.fence_floor = INT64_C(3000000000000000);
    options.progress = count_progress;
    options.progress_context = &progress;
    double began = now_ms();
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    assert_true(now_ms() - began >= 1500);
    assert_true(progress.calls >= 3 && progress.left_most >= 1500 && progress.left_most < 1600);
    assert_true(take(client, "after") > options.fence_floor);
    assert_int_equal(intact(client), 5);
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_CONFLICT, error);
    struct redlock_lock_options too_long = lock_options(1501);
    struct redlock_lock *lock = new_lock(client, "long", &too_long);
    assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* All stripes of an intact node, as if it had granted a lock that nobody else remembers. */
static void raise_fences(unsigned server, int64_t fence) {
    redisReply *reply =
        server_ask(&nodes.at[server], "EVAL %s 0 %lld",
                   "local key = 'redlock:fences:' .. redis.call('HGET', 'redlock:node', 'nonce') "
                   "for i = 0, 4095 do redis.call('ZADD', key, 'XX', 'GT', ARGV[1], i) end "
                   "return redis.call('ZCARD', key)",
                   (long long)fence);
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 4096)
        fail_msg("no fences at %s", urls[server]);
    freeReplyObject(reply);
}

static void lose_data(const char *which) {
    for (; *which; which++) freeReplyObject(server_ask(&nodes.at[*which - '0'], "FLUSHALL"));
}

static void lost_majority_keeps_id_and_fences(void **state) {
    (void)state;
    start(6);
    struct redlock_client *client = open_on("01234");
    init(client, 1);
    struct seen before = peek(client);
    int64_t fence = take(client, "grows") + INT64_C(1000000000000);
    raise_fences(4, fence);
    lose_data("012");
    assert_true(is_refused(client, "grows"));
    double began = now_ms();
    init(client, 0);
    assert_true(now_ms() - began >= TTL_MAX);
    struct seen after = peek(client);
    assert_string_equal(after.quorum.id, before.quorum.id);
    assert_true(after.quorum.epoch > before.quorum.epoch);
    assert_string_equal(after.members[4].id, before.members[4].id);
    assert_int_equal(after.quorum.intact, 5);
    assert_true(take(client, "grows") > fence);
    redlock_client_free(client);

    /* With another server in the place of one that is gone for good. */
    lose_data("012");
    client = open_on("02345");
    init(client, 0);
    assert_string_equal(peek(client).quorum.id, before.quorum.id);
    assert_true(take(client, "grows") > fence);
    redlock_client_free(client);
    client = open_on("1");
    wait_until(is_refused(client, "old"), PATIENCE_MS);
    redlock_client_free(client);
}

/* The quorum is named by its id, and no record of it is seen: the one that is not listed has a
 * later epoch than 1. */
static void a_renewed_quorum_outranks_what_init_does_not_see(void **state) {
    (void)state;
    start(4);
    struct redlock_client_options pinned;
    struct redlock_client *client = open_on("012");
    char id[17];
    init(client, 1);
    snprintf(id, sizeof id, "%s", peek(client).quorum.id);
    redlock_client_free(client);
    lose_data("01");
    freeReplyObject(server_ask(&nodes.at[2], "HSET redlock:node epoch 3"));
    redlock_client_options_init(&pinned);
    pinned.mode = REDLOCK_MODE_GUARDED;
    pinned.quorum = id;
    assert_result(redlock_client_open(some("013").text, &pinned, &client, NULL), REDLOCK_OK);
    init(client, 0);
    assert_string_equal(peek(client).quorum.id, id);
    assert_true(number_of(0, "epoch") > 3);
    redlock_client_free(client);
}

/* never_used is a word about the servers; records there say otherwise. */
static void used_servers_are_not_never_used(void **state) {
    (void)state;
    start(3);
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    lose_data("01");
    options.never_used = 1;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "used before");
    options.never_used = 0;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    redlock_client_free(client);
}

enum command { INIT, NEVER_USED, ADD, REMOVE };

static bool killed(enum command command, const char *which, const char *id, int nth, long after_us);

/* ---- init: how long it waits (INIT-TOO-SOON) ---------------------------------------------- */

static double init_within(struct redlock_client *client, int64_t ttl_ms, int64_t before_ms) {
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    options.ttl_ms_max = ttl_ms;
    options.ttl_ms_max_before = before_ms;
    double began = now_ms();
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    return now_ms() - began;
}

/* A power cut has taken every record: only the operator knows how long a lock of before may
 * last. */
static void init_without_a_record_wants_a_ttl_max(void **state) {
    (void)state;
    start(3);
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options;
    struct redlock_error error = {0};
    redlock_quorum_options_init(&options);
    assert_int_equal(options.ttl_ms_max, 0);
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "--ttl-max");
    assert_says(error, "--never-used");
    assert_quorum(redlock_quorum_init(client, NULL, &error), REDLOCK_BAD_ARGUMENT, error);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(server_ask_integer(&nodes.at[i], "DBSIZE"), 0);
    assert_true(init_within(client, 0, 800) >= 800);
    assert_int_equal(peek(client).quorum.ttl_ms_max, 800);
    lose_data("012");
    assert_true(init_within(client, TTL_MAX, 800) >= 800);
    assert_int_equal(peek(client).quorum.ttl_ms_max, TTL_MAX);
    /* A client that is open would claim the first empty node before the others lose their data. */
    redlock_client_free(client);
    lose_data("012");
    client = open_on("012");
    options.never_used = 1;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    assert_int_equal(peek(client).quorum.ttl_ms_max, REDLOCK_QUORUM_TTL_MS_MAX);
    redlock_client_free(client);
}

static void start_with_ttl_max(int64_t ttl_ms) {
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    options.ttl_ms_max = ttl_ms;
    options.never_used = 1;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    redlock_client_free(client);
}

static void init_waits_for_the_longest_record(void **state) {
    (void)state;
    start(3);
    for (int format = 1; format <= 2; format++) {
        start_with_ttl_max(1200);
        if (format == 1) {
            freeReplyObject(server_ask(&nodes.at[2], "HSET redlock:node format 1"));
            freeReplyObject(server_ask(&nodes.at[2], "HDEL redlock:node replid evicted"));
        }
        lose_data("01");
        struct redlock_client *client = open_on("012");
        assert_true(init_within(client, TTL_MAX, 0) >= 1200);
        assert_int_equal(peek(client).quorum.ttl_ms_max, TTL_MAX);
        redlock_client_free(client);
        assert_agreed("012", 0, 3);
        lose_data("012");
    }
    start_with_ttl_max(1200);
    lose_data("01");
    struct redlock_client *client = open_on("012");
    assert_true(init_within(client, 0, 0) >= 1200);
    assert_int_equal(peek(client).quorum.ttl_ms_max, 1200);
    redlock_client_free(client);
}

/* The one that is named takes a node over which another quorum has left: locks that this one gave
 * may last as it says. */
static void init_waits_for_records_of_any_quorum(void **state) {
    (void)state;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    start(3);
    start_with_ttl_max(1200);
    lose_data("01");
    freeReplyObject(server_ask(&nodes.at[2], "HSET redlock:node run_id another"));
    redlock_client_options_init(&options);
    options.mode = REDLOCK_MODE_GUARDED;
    options.quorum = "00000000000000bb";
    assert_int_equal(redlock_client_open(some("012").text, &options, &client, NULL), REDLOCK_OK);
    assert_true(init_within(client, TTL_MAX, 0) >= 1200);
    assert_string_equal(peek(client).quorum.id, "00000000000000bb");
    redlock_client_free(client);
}

/* What the first run has written over told of a longer ttl_max than its own. */
static void an_interrupted_init_hands_on_how_long_to_wait(void **state) {
    (void)state;
    start(3);
    start_with_ttl_max(1200);
    lose_data("01");
    assert_true(killed(INIT, "012", NULL, 2, 0));
    for (unsigned i = 0; i < 3; i++) assert_int_equal(number_of(i, "ttl_max"), 1200);
    struct redlock_client *client = open_on("012");
    assert_true(init_within(client, TTL_MAX, 0) >= 1200);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(number_of(i, "ttl_max"), TTL_MAX);
    redlock_client_free(client);
}

/* A program that was built when the struct ended earlier, and one for which it goes on. */
static void shorter_options_are_understood(void **state) {
    (void)state;
    start(3);
    struct redlock_client *client = open_on("012");
    struct {
        struct redlock_quorum_options options;
        unsigned char behind[8];
    } longer;
    struct redlock_quorum_options *options = &longer.options;
    struct redlock_error error = {0};
    memset(&longer, 0x5a, sizeof longer);
    redlock_quorum_options_fill(options,
                                offsetof(struct redlock_quorum_options, ttl_ms_max_before));
    options->never_used = 1;
    assert_quorum(redlock_quorum_init(client, options, &error), REDLOCK_OK, error);
    assert_int_equal(peek(client).quorum.ttl_ms_max, REDLOCK_QUORUM_TTL_MS_MAX);
    options->size = sizeof longer;
    options->ttl_ms_max_before = 0;
    assert_quorum(redlock_quorum_init(client, options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "unknown size");
    redlock_client_free(client);
}

/* ---- init: what comes between --------------------------------------------------------------- */

static void (*happens)(void);

static void happen_while_waiting(void *context, const char *text, int64_t left_ms) {
    (void)context, (void)left_ms;
    if (strncmp(text, "waiting", 7) != 0) return;
    if (happens) happens();
    happens = NULL;
}

static void lose_one(void) { lose_data("1"); }

static void a_node_lost_meanwhile_is_named(void **state) {
    (void)state;
    start(3);
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    options.progress = happen_while_waiting;
    happens = lose_one;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_NO_QUORUM, error);
    assert_says(error, urls[1]);
    assert_says(error, "again");
    init(client, 0);
    assert_int_equal(intact(client), 3);
    redlock_client_free(client);
}

static void ask_for_nothing(unsigned server, const char *command, int port) {
    freeReplyObject(server_ask(&nodes.at[server], command, port));
}

static bool info_has(unsigned server, const char *section, const char *part) {
    redisReply *reply = server_ask(&nodes.at[server], "INFO %s", section);
    bool has = reply->type == REDIS_REPLY_STRING && strstr(reply->str, part);
    freeReplyObject(reply);
    return has;
}

/* Node 1 becomes the replica of its own promoted replica, and is promoted back: the same process,
 * record and nonce. */
static void round_trip(void) {
    ask_for_nothing(1, "CONFIG SET repl-diskless-sync-delay 0", 0);
    ask_for_nothing(3, "CONFIG SET repl-diskless-sync-delay 0", 0);
    ask_for_nothing(3, "REPLICAOF 127.0.0.1 %d", nodes.at[1].port);
    wait_until(info_has(3, "replication", "master_link_status:up"), PATIENCE_MS);
    ask_for_nothing(3, "REPLICAOF NO ONE", 0);
    ask_for_nothing(1, "REPLICAOF 127.0.0.1 %d", nodes.at[3].port);
    wait_until(info_has(1, "replication", "master_link_status:up"), PATIENCE_MS);
    ask_for_nothing(1, "REPLICAOF NO ONE", 0);
}

static void evict(void) {
    ask_for_nothing(1, "CONFIG SET maxmemory-policy volatile-random", 0);
    ask_for_nothing(1, "SET of_a_lock of_somebody PX 60000", 0);
    ask_for_nothing(1, "CONFIG SET maxmemory 1", 0);
    wait_until(!info_has(1, "stats", "evicted_keys:0"), PATIENCE_MS);
    ask_for_nothing(1, "CONFIG SET maxmemory 0", 0);
    ask_for_nothing(1, "CONFIG SET maxmemory-policy noeviction", 0);
}

/* Its data may be older than when the wait began, under a record that says nothing of it. */
static void init_is_not_deceived_by(void (*what)(void)) {
    start(4);
    struct redlock_client *client = open_with("012", 0, 1);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    options.progress = happen_while_waiting;
    happens = what;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_NO_QUORUM, error);
    assert_says(error, urls[1]);
    assert_says(error, "it has not waited");
    for (unsigned i = 0; i < 3; i++) assert_true(is_record(i, "standing", "recovering"));
    init(client, 0);
    wait_for_intact(client, 3);
    redlock_client_free(client);
}

static void a_round_trip_during_init_is_noticed(void **state) {
    (void)state;
    init_is_not_deceived_by(round_trip);
}

static void an_eviction_during_init_is_noticed(void **state) {
    (void)state;
    init_is_not_deceived_by(evict);
}

static pthread_t second_init;

static void *init_again(void *context) {
    struct redlock_quorum_options options = quorum_options();
    struct redlock_client *client = open_on("012");
    (void)context;
    int result = redlock_quorum_init(client, &options, NULL);
    redlock_client_free(client);
    return result == REDLOCK_OK ? NULL : (void *)redlock_result_text(result);
}

static void begin_second_init(void) { pthread_create(&second_init, NULL, init_again, NULL); }

/* What one has waited, the other has not. */
static void a_second_init_meanwhile_is_reported(void **state) {
    (void)state;
    start(3);
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    void *failure;
    options.ttl_ms_max = 5 * TTL_MAX; /* the second connects meanwhile */
    options.progress = happen_while_waiting;
    happens = begin_second_init;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_CONFLICT, error);
    assert_says(error, "another");
    assert_int_equal(intact(client), 0);
    pthread_join(second_init, &failure);
    if (failure) fail_msg("the second init: %s", (const char *)failure);
    wait_for_intact(client, 3);
    redlock_client_free(client);
}

/* ---- killed ----------------------------------------------------------------------------- */

static int report_parent[2];

static void report_and_go_on(void *context, const char *text, int64_t left_ms) {
    (void)context, (void)text, (void)left_ms;
    assert_int_equal(write(report_parent[1], "p", 1), 1);
}

/* ADD: the last of the list. */
static int run(enum command command, struct redlock_client *client, const char *which,
               const char *id, const struct redlock_quorum_options *options,
               struct redlock_error *error) {
    struct redlock_quorum_options own = *options;
    own.never_used = command == NEVER_USED;
    switch (command) {
    case INIT:
    case NEVER_USED: return redlock_quorum_init(client, &own, error);
    case ADD: return redlock_quorum_add(client, strlen(which) - 1, &own, error);
    case REMOVE: return redlock_quorum_remove(client, id, &own, error);
    }
    return REDLOCK_SYSTEM;
}

/* Kills the command so long after it has told of its progress the nth time. False: it was
 * quicker. */
static bool killed(enum command command, const char *which, const char *id, int nth,
                   long after_us) {
    assert_int_equal(pipe(report_parent), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct redlock_quorum_options options = quorum_options();
        struct redlock_error error = {0};
        options.progress = report_and_go_on;
        close(report_parent[0]);
        run(command, open_on(which), which, id, &options, &error);
        _exit(0);
    }
    close(report_parent[1]);
    char notices;
    while (nth > 0 && read(report_parent[0], &notices, 1) == 1) nth--;
    nanosleep(&(struct timespec){0, after_us * 1000}, NULL);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(report_parent[0]);
    return WIFSIGNALED(status);
}

static void init_is_killed_and_run_again(void **state) {
    (void)state;
    start(5);
    unsigned kills = 0;
    srand48(4);
    for (int round = 0; round < 6; round++) {
        enum command command = round % 3 == 2 ? NEVER_USED : INIT;
        for (int nth = 1; nth <= 2;
             nth++) /* often within the writing, for which there is a millisecond */
            kills += killed(command, "01234", NULL, nth,
                            nth == 1 ? lrand48() % 4000 : lrand48() % 400000);
        struct redlock_client *client = open_on("01234");
        struct redlock_quorum_options options = quorum_options();
        struct redlock_error error = {0};
        int result = redlock_quorum_init(client, &options, &error);
        if (result != REDLOCK_OK && result != REDLOCK_CONFLICT)
            fail_msg("round %d: %s", round, error.text);
        if (result == REDLOCK_CONFLICT) assert_says(error, "intact");
        redlock_client_free(client);
        assert_agreed("01234", 0, 5);
        lose_data("01234");
    }
    assert_true(kills >= 6);
}

/* The fences that survived are not forgotten by the runs that are killed. */
static void killed_init_keeps_fences(void **state) {
    (void)state;
    start(5);
    struct redlock_client *client = open_on("01234");
    init(client, 1);
    int64_t fence = take(client, "kept") + INT64_C(1000000000000);
    char id[17];
    memcpy(id, peek(client).quorum.id, sizeof id);
    redlock_client_free(client);
    raise_fences(3, fence);
    lose_data("124");
    for (int i = 0; i < 4; i++) assert_true(killed(INIT, "01234", NULL, 2, lrand48() % 200000));
    client = open_on("01234");
    init(client, 0);
    assert_string_equal(peek(client).quorum.id, id);
    assert_true(take(client, "kept") > fence);
    redlock_client_free(client);
    assert_agreed("01234", 0, 5);
}

/* As the last step would have done: intact, with fences. */
static void install_by_hand(const char *which) {
    for (; *which; which++) {
        redisReply *reply = server_ask(
            &nodes.at[*which - '0'], "EVAL %s 0",
            "redis.call('HSET', 'redlock:node', 'standing', 'intact', 'loss', '0000000000000000') "
            "local key = 'redlock:fences:' .. redis.call('HGET', 'redlock:node', 'nonce') "
            "for i = 0, 4095 do redis.call('ZADD', key, 5000000000000000, i) end "
            "return 1");
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        freeReplyObject(reply);
    }
}

/* What never voted needs not wait again. */
static void init_killed_in_its_last_step_is_finished(void **state) {
    (void)state;
    start(5);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    assert_true(killed(INIT, "01234", NULL, 2, 0));
    install_by_hand("013");
    struct redlock_client *client = open_with("01234", 0, 1);
    assert_int_equal(intact(client), 3);
    struct progress progress = {0, 0, -1};
    options.progress = count_progress;
    options.progress_context = &progress;
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    assert_int_equal(progress.waits, 0);
    assert_int_equal(intact(client), 5);
    assert_int_equal(peek(client).quorum.epoch, 1);
    server_kill(&nodes.at[0]);
    server_kill(&nodes.at[1]);
    assert_true(take(client, "r") > INT64_C(5000000000000000));
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_CONFLICT, error);
    redlock_client_free(client);
}

/* Every client that is about brings the rest back too, so that each may find its node written to by
 * another. */
static void init_is_finished_beside_others(void **state) {
    (void)state;
    start(5);
    for (int round = 0; round < 4; round++) {
        struct redlock_quorum_options options = quorum_options();
        struct redlock_client *clients[4];
        struct redlock_error error = {0};
        if (!killed(INIT, "01234", NULL, 2, 0)) fail_msg("round %d: init was not killed", round);
        install_by_hand("013");
        for (int i = 0; i < 4; i++) clients[i] = open_on("01234");
        nap_ms((int)(lrand48() % (TTL_MAX + 80)));
        int result = redlock_quorum_init(clients[0], &options, &error);
        if (result != REDLOCK_OK) {
            assert_quorum(result, REDLOCK_CONFLICT, error); /* they were quicker */
            assert_says(error, "init is not needed");
        }
        for (int i = 0; i < 4; i++) redlock_client_free(clients[i]);
        assert_agreed("01234", 1, 5);
        lose_data("01234");
    }
}

static void change_is_killed_and_run_again(enum command command, const char *which,
                                           const char *after, size_t members) {
    start(6);
    unsigned kills = 0;
    for (int round = 0; round < 3; round++) {
        struct redlock_client *client = open_on(command == ADD ? "01234" : which);
        init(client, 1);
        int64_t fence = take(client, "grows");
        char id[17];
        memcpy(id, id_of(client, 0), sizeof id);
        redlock_client_free(client);
        const long within_us[] = {1500, 8000, 300000};
        for (size_t i = 0; i < 3; i++)
            kills += killed(command, which, id, 1, lrand48() % within_us[i]);
        client = open_on(which);
        struct redlock_quorum_options options = quorum_options();
        struct redlock_error error = {0};
        int result = run(command, client, which, id, &options, &error);
        if (result == REDLOCK_BAD_ARGUMENT) /* it was done already */
            assert_says(error, command == ADD ? "is a member already" : "is not a member");
        else
            assert_quorum(result, REDLOCK_OK, error);
        assert_true(take(client, "grows") > fence);
        redlock_client_free(client);
        assert_agreed(after, 2, members);
        lose_data("012345");
    }
    if (kills < 5) fail_msg("only %u commands were killed", kills);
}

static void add_is_killed_and_run_again(void **state) {
    (void)state;
    change_is_killed_and_run_again(ADD, "012345", "012345", 6);
}

static void ask_all(const char *which, const char *command) {
    for (; *which; which++) freeReplyObject(server_ask(&nodes.at[*which - '0'], command));
}

static int add_again(const char *which) {
    struct redlock_client *client = open_on(which);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    int result = run(ADD, client, which, NULL, &options, &error);
    redlock_client_free(client);
    return result;
}

/* Killed when the members had the new list and the node had its record of before: nobody but a
 * second add would claim it. */
static void add_of_a_former_member_is_run_again(void **state) {
    (void)state;
    start(4);
    struct redlock_client *client = open_on("0123");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 3), &options, &error), REDLOCK_OK,
                  error);
    redlock_client_free(client);
    ask_all("3", "COPY redlock:node saved");
    assert_result(add_again("0123"), REDLOCK_OK);
    ask_all("3", "COPY saved redlock:node REPLACE");
    ask_all("012", "HSET redlock:node settled 0");
    assert_result(add_again("0123"), REDLOCK_OK);
    client = open_on("0123");
    wait_until(peek(client).quorum.intact == 4, PATIENCE_MS);
    redlock_client_free(client);
}

static void remove_is_killed_and_run_again(void **state) {
    (void)state;
    change_is_killed_and_run_again(REMOVE, "01234", "1234", 4);
}

/* Its settling is not done yet, and the records do not say which change it was. */
static void unsettled_change_is_settled_by_the_next(void **state) {
    (void)state;
    start(5);
    struct redlock_client *client = open_on("0123");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    redlock_client_free(client);
    assert_true(killed(ADD, "01234", NULL, 3, 0));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(number_of(i, "epoch"), 2);
        assert_int_equal(number_of(i, "settled"), 0);
        freeReplyObject(server_ask(&nodes.at[i], "HSET redlock:node accepted none"));
    }
    client = open_on("01234");
    assert_false(peek(client).quorum.settled);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 1), &options, &error), REDLOCK_OK,
                  error);
    redlock_client_free(client);
    assert_agreed("0234", 3, 4);
}

static void a_node_that_was_away_is_brought_up(void **state) {
    (void)state;
    start(6);
    struct redlock_client *client = open_on("01234");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    redlock_client_free(client);
    answer_timeout_ms = ANSWER_TIMEOUT_MS_SHORT;
    server_pause(&nodes.at[2]);
    client = open_on("012345");
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_OK, error);
    server_resume(&nodes.at[2]);
    assert_int_equal(number_of(2, "epoch"), 1);
    redlock_client_free(client);
    assert_agreed("012345", 2, 6);
}

/* An operator has had a change accepted by these, and was killed before anybody heard of it. */
static void accept_by_hand(const char *which, const char *change) {
    for (; *which; which++)
        freeReplyObject(
            server_ask(&nodes.at[*which - '0'],
                       "HSET redlock:node ballot 65537 accepted_ballot 65537 accepted %s", change));
}

static void accepted_change_is_finished_by_the_next(void **state) {
    (void)state;
    start(6);
    struct redlock_client *client = open_on("01234");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    char change[128];
    init(client, 1);
    snprintf(change, sizeof change, "remove %s", id_of(client, 2));
    redlock_client_free(client);
    accept_by_hand("034", change);
    client = open_on("012345");
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_CONFLICT, error);
    assert_says(error, "removing");
    assert_agreed("0134", 2, 4);
    assert_true(take(client, "between") > 0);
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_OK, error);
    assert_agreed("01345", 3, 5);

    /* One's own, under the id that it was given then. */
    snprintf(change, sizeof change, "add 00000000deadbeef %s", urls[2]);
    accept_by_hand("3", change);
    assert_quorum(redlock_quorum_add(client, 2, &options, &error), REDLOCK_OK, error);
    assert_string_equal(id_of(client, 2), "00000000deadbeef");
    assert_agreed("012345", 4, 6);
    redlock_client_free(client);
}

/* ---- add and remove --------------------------------------------------------------------- */

static int verdict_of(struct redlock_client *client, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    assert_result(redlock_client_node(client, node, &status), REDLOCK_OK);
    return status.verdict;
}

static void add_goes_on_with_the_old_list(void **state) {
    (void)state;
    start(6);
    struct redlock_client *old = open_on("01234"), *client;
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(old, 1);
    int64_t fence = take(old, "r");
    client = open_on("012345");
    double began = now_ms();
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_OK, error);
    assert_true(now_ms() - began >= TTL_MAX);
    int64_t next = take(old, "r");
    assert_true(next > fence);
    assert_true(take(client, "r") > next);
    wait_until(verdict_of(client, 5) == REDLOCK_VERDICT_GRANTED, PATIENCE_MS);
    assert_int_equal(peek(client).quorum.members, 6);
    wait_until(peek(client).quorum.settled, PATIENCE_MS); /* else an add would finish this one */
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "already");
    /* The new one is needed now: four of six. */
    server_kill(&nodes.at[0]);
    server_kill(&nodes.at[1]);
    wait_until(take(client, "r") > next, PATIENCE_MS);
    assert_true(is_refused(old, "r"));
    redlock_client_free(client);
    redlock_client_free(old);
}

/* Nobody who recovers nodes is there: the change is settled all the same, and the new one recovers
 * later. */
static void add_without_recovery_comes_to_its_end(void **state) {
    (void)state;
    start(4);
    struct redlock_client *client = open_with("012", 0, 0);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    redlock_client_free(client);
    client = open_with("0123", 0, 0);
    assert_quorum(redlock_quorum_add(client, 3, &options, &error), REDLOCK_OK, error);
    struct seen seen = peek(client);
    assert_int_equal(seen.quorum.members, 4);
    assert_true(seen.quorum.settled);
    assert_int_equal(verdict_of(client, 3), REDLOCK_VERDICT_RECOVERING);
    assert_true(take(client, "r") > 0);
    redlock_client_free(client);
    assert_agreed("0123", 2, 4);
}

static void remove_leaves_the_old_list_working(void **state) {
    (void)state;
    start(5);
    struct redlock_client *old = open_on("01234"), *client = open_on("01234");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    int64_t fence = take(old, "r");
    assert_quorum(redlock_quorum_remove(client, id_of(client, 1), &options, &error), REDLOCK_OK,
                  error);
    wait_until(take(old, "r") > fence, PATIENCE_MS);
    wait_until(verdict_of(old, 1) == REDLOCK_VERDICT_FOREIGN, PATIENCE_MS);
    assert_quorum(redlock_quorum_remove(client, "0123456789abcdef", &options, &error),
                  REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "not a member");
    /* A dead one, its URL in the list or not. */
    server_kill(&nodes.at[3]);
    wait_until(verdict_of(client, 3) != REDLOCK_VERDICT_GRANTED, PATIENCE_MS);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 3), &options, &error), REDLOCK_OK,
                  error);
    redlock_client_free(client);
    redlock_client_free(old);
    assert_agreed("024", 3, 3);
    client = open_on("024");
    server_kill(&nodes.at[4]);
    wait_for_intact(client, 2);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 0), &options, &error),
                  REDLOCK_NO_QUORUM, error);
    assert_says(error, "wait until");
    assert_quorum(redlock_quorum_remove(client, id_of(client, 4), &options, &error), REDLOCK_OK,
                  error);
    assert_agreed("02", 4, 2);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 2), &options, &error), REDLOCK_OK,
                  error);
    assert_agreed("0", 5, 1);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 0), &options, &error),
                  REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "last member");
    redlock_client_free(client);
    client = open_on("02");
    assert_quorum(redlock_quorum_add(client, 1, &options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "quorum of one");
    redlock_client_free(client);
}

/* A token that a majority knew is known when two of that majority are members no more and the third
 * is dead. */
static void fences_outlive_the_members_that_knew_them(void **state) {
    (void)state;
    start(5);
    struct redlock_client *client = open_on("01234");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    int64_t fence = take(client, "r") + INT64_C(1000000000000);
    for (unsigned i = 0; i < 3; i++) raise_fences(i, fence);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 0), &options, &error), REDLOCK_OK,
                  error);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 1), &options, &error), REDLOCK_OK,
                  error);
    redlock_client_free(client);
    server_kill(&nodes.at[2]);
    client = open_on("234"); /* one that has seen no fence */
    assert_true(take(client, "r") > fence);
    redlock_client_free(client);
}

static void a_node_that_cannot_be_reached_is_not_added(void **state) {
    (void)state;
    start(4);
    answer_timeout_ms = ANSWER_TIMEOUT_MS_SHORT;
    struct redlock_client *client = open_on("012");
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(client, 1);
    redlock_client_free(client);
    server_kill(&nodes.at[3]);
    client = open_on("0123");
    assert_quorum(redlock_quorum_add(client, 3, &options, &error), REDLOCK_NO_QUORUM, error);
    assert_says(error, urls[3]);
    redlock_client_free(client);
    /* Three are needed of four: with one of them gone there would be two. */
    server_restart(&nodes.at[3]);
    server_kill(&nodes.at[0]);
    client = open_on("0123");
    assert_quorum(redlock_quorum_add(client, 3, &options, &error), REDLOCK_NO_QUORUM, error);
    assert_says(error, "2 of 4");
    redlock_client_free(client);
    client = open_on("012");
    assert_true(take(client, "r") > 0);
    redlock_client_free(client);
}

/* ---- losses in between ---------------------------------------------------------------------- */

/* What is lost when the members are asked, which is after the first check. */
static const char *lost_meanwhile;

static void lose_when_asked(void *context, const char *text, int64_t left_ms) {
    (void)context, (void)left_ms;
    if (strcmp(text, "asking the members") == 0) lose_data(lost_meanwhile);
    lost_meanwhile = "";
}

/* Of seven three are lost: the other four can agree on a change, and six members would need four of
 * which they have three, for good. So it is not made, and the four go on. */
static void a_change_is_not_made_when_too_much_was_lost_meanwhile(enum command command,
                                                                  const char *which,
                                                                  const char *lost, unsigned goes,
                                                                  unsigned left) {
    struct redlock_client *client = open_with("0123456", 0, 1);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    char id[17];
    init(client, 1);
    memcpy(id, id_of(client, goes), sizeof id);
    redlock_client_free(client);
    options.progress = lose_when_asked;
    lost_meanwhile = lost;
    client = open_with(which, 0, 1);
    assert_quorum(run(command, client, which, id, &options, &error), REDLOCK_NO_QUORUM, error);
    /* On a slow machine one member may have accepted it before the loss: then it is a change that
     * was begun. */
    assert_says(error, command == REMOVE ? "now would leave 3 of 6" : "now would leave 4 of 8");
    redlock_client_free(client);
    client = open_with("0123456", 0, 1);
    assert_int_equal(peek(client).quorum.epoch, 1);
    assert_int_equal(intact(client), left);
    assert_true(take(client, "r") > 0);
    redlock_client_free(client);
    assert_agreed("0123456", 1, 7);
}

static void a_remove_is_checked_again_before_it_is_accepted(void **state) {
    (void)state;
    start(7);
    a_change_is_not_made_when_too_much_was_lost_meanwhile(REMOVE, "0123456", "012", 6, 4);
}

static void an_add_is_checked_again_before_it_is_accepted(void **state) {
    (void)state;
    start(8);
    a_change_is_not_made_when_too_much_was_lost_meanwhile(ADD, "01234567", "012", 6, 4);
    assert_int_equal(server_ask_integer(&nodes.at[7], "DBSIZE"), 0);
}

/* ---- others at the same time -------------------------------------------------------------- */

struct operator{
    enum command command;
    const char *which;
    char id[17];
    int result, conflicts;
    struct redlock_error error;
    pthread_t thread;
};

static void *operate(void *context) {
    struct operator* operator= context;
    struct redlock_quorum_options options = quorum_options();
    struct redlock_client *client = open_on(operator->which);
    for (;;) {
        struct redlock_error *error = &operator->error;
        *error = (struct redlock_error){0};
        operator->result =
            run(operator->command, client, operator->which, operator->id, &options, error);
        if (operator->result == REDLOCK_OK && error->text[0] != '\0')
            operator->result = REDLOCK_SYSTEM;
        if (operator->result != REDLOCK_CONFLICT || ++ operator->conflicts == 20) break;
        assert_true(strlen(error->text) > 20);
    }
    redlock_client_free(client);
    return NULL;
}

static void two_operators(enum command first, enum command second, const char *after,
                          size_t members) {
    /* A command that waited for what the other has changed since would wait that long. */
    answer_timeout_ms = PATIENCE_MS;
    for (int round = 0; round < 2; round++) {
        struct redlock_client *client = open_on("01234");
        double began = now_ms();
        init(client, 1);
        struct operator operators[2] = {{.command = first, .which = "012345"},
                                        {.command = second, .which = "012346"}};
        memcpy(operators[0].id, id_of(client, 0), sizeof operators[0].id);
        memcpy(operators[1].id, id_of(client, 1), sizeof operators[1].id);
        redlock_client_free(client);
        for (int i = 0; i < 2; i++) {
            if (operators[i].command == REMOVE) operators[i].which = "01234";
            pthread_create(&operators[i].thread, NULL, operate, &operators[i]);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(operators[i].thread, NULL);
            if (operators[i].result != REDLOCK_OK)
                fail_msg("operator %d: %s: %s", i, redlock_result_text(operators[i].result),
                         operators[i].error.text);
        }
        assert_less(now_ms() - began, PATIENCE_MS);
        assert_agreed(after, 3, members);
        lose_data("0123456");
    }
}

static void two_operators_add(void **state) {
    (void)state;
    start(7);
    two_operators(ADD, ADD, "0123456", 7);
}

static void two_operators_remove(void **state) {
    (void)state;
    start(7);
    two_operators(REMOVE, REMOVE, "234", 3);
}

static void one_adds_one_removes(void **state) {
    (void)state;
    start(7);
    two_operators(ADD, REMOVE, "02345", 5);
}

/* One quorum came about at most. Each may have been the faster one on some nodes; whoever finds
 * these, or the run after it, takes them into the quorum. */
static void two_inits_at_once(void **state) {
    (void)state;
    start(5);
    for (int round = 0; round < 4; round++) {
        struct operator operators[2] = {
            {.command = round % 2 ? INIT : NEVER_USED, .which = "01234"},
            {.command = round % 2 ? INIT : NEVER_USED, .which = "43210"}};
        for (int i = 0; i < 2; i++)
            pthread_create(&operators[i].thread, NULL, operate, &operators[i]);
        for (int i = 0; i < 2; i++) pthread_join(operators[i].thread, NULL);
        struct redlock_client *client = open_on("01234");
        struct redlock_quorum_options options = quorum_options();
        struct redlock_error error = {0};
        int result = redlock_quorum_init(client, &options, &error);
        if (result != REDLOCK_OK) assert_quorum(result, REDLOCK_CONFLICT, error);
        redlock_client_free(client);
        assert_agreed("01234", 0, 5);
        lose_data("01234");
    }
}

static void assert_last_member(int verdict) {
    struct redlock_client *client = open_with("01234", 0, 1);
    assert_int_equal(peek(client).members[4].verdict, verdict);
    redlock_client_free(client);
}

/* The node is of another quorum, until an init takes it over or somebody takes it out. */
static void assert_two_quorums(void) {
    struct redlock_client *client = open_with("01234", 0, 1);
    assert_result(peek(client).result, REDLOCK_TWO_QUORUMS);
    redlock_client_free(client);
}

/* A quorum of 01234, and on node 4 what an init of `other` wrote before it came to nothing. */
static void begin_beside_left(const char *other) {
    assert_true(killed(INIT, other, NULL, 2, 0));
    redisReply *left = server_ask(&nodes.at[4], "DUMP redlock:node");
    assert_int_equal(left->type, REDIS_REPLY_STRING);
    lose_data("0123456");
    struct redlock_client *client = open_with("01234", 0, 1);
    init(client, 1);
    redlock_client_free(client);
    freeReplyObject(
        server_ask(&nodes.at[4], "RESTORE redlock:node 0 %b REPLACE", left->str, left->len));
    freeReplyObject(left);
    assert_two_quorums();
}

static void init_takes_over_what_another_left(void **state) {
    (void)state;
    start(7);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    begin_beside_left("43210");
    struct redlock_client *client = open_with("01234", 0, 1);
    int64_t fence = take(client, "r");
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_OK, error);
    assert_last_member(REDLOCK_VERDICT_RECOVERING);
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_CONFLICT, error);
    assert_says(error, "intact");
    redlock_client_free(client);
    assert_agreed("01234", 0, 5);
    server_kill(&nodes.at[0]);
    server_kill(&nodes.at[1]);
    client = open_with("01234", 0, 1);
    assert_true(take(client, "r") > fence);
    redlock_client_free(client);
}

/* Its quorum may be alive where we do not look. */
static void init_leaves_what_others_may_need(void **state) {
    (void)state;
    start(7);
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    begin_beside_left("456");
    struct redlock_client *client = open_with("01234", 0, 1);
    assert_quorum(redlock_quorum_init(client, &options, &error), REDLOCK_BAD_ARGUMENT, error);
    assert_says(error, "list them too");
    redlock_client_free(client);
    assert_two_quorums();
}

/* A client keeps to the quorum that it found first, and the text names the cure. */
static void a_client_outlives_its_quorum(void **state) {
    (void)state;
    start(3);
    struct redlock_client *before = open_with("012", 0, 1), *after;
    init(before, 1);
    take(before, "r");
    lose_data("012");
    after = open_with("012", 0, 1);
    init(after, 1);
    take(after, "r");
    assert_true(peek(before).result != REDLOCK_OK);
    struct redlock_node_status status = {.size = sizeof status};
    assert_int_equal(redlock_client_node(before, 0, &status), REDLOCK_OK);
    if (!strstr(status.text, "open the client again")) fail_msg("text: %s", status.text);
    redlock_client_free(after);
    redlock_client_free(before);
}

/* ---- under load --------------------------------------------------------------------------- */

/* What the lock protects: whoever comes in while another is surely inside, or with an older fence,
 * is a violation. */
static struct {
    pthread_mutex_t mutex;
    int64_t held_until_ns, fence;
    unsigned entries, violations;
    atomic_bool over;
} witness = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static bool enter(struct redlock_lock *lock) {
    int64_t end = redlock_validity_end_ns(lock), fence = redlock_fence(lock);
    pthread_mutex_lock(&witness.mutex);
    bool valid = end > now_ns();
    if (valid) {
        if (witness.held_until_ns > now_ns() || fence <= witness.fence) witness.violations++;
        witness.held_until_ns = end;
        witness.fence = fence;
        witness.entries++;
    }
    pthread_mutex_unlock(&witness.mutex);
    return valid;
}

static void leave(int64_t fence) {
    pthread_mutex_lock(&witness.mutex);
    if (witness.fence == fence) witness.held_until_ns = 0;
    pthread_mutex_unlock(&witness.mutex);
}

static void *contend(void *context) {
    struct redlock_client *client = context;
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.renew = 0;
    options.retry_delay_ms_min = 1;
    options.retry_delay_ms_max = 10;
    struct redlock_lock *lock = new_lock(client, "contended", &options);
    while (!atomic_load(&witness.over)) {
        if (redlock_acquire(lock, 100) != REDLOCK_OK) continue;
        int64_t fence = redlock_fence(lock);
        if (enter(lock)) {
            nap_ms(1);
            leave(fence);
        }
        redlock_release(lock);
    }
    redlock_lock_free(lock);
    return NULL;
}

static unsigned entries(void) {
    pthread_mutex_lock(&witness.mutex);
    unsigned count = witness.entries;
    pthread_mutex_unlock(&witness.mutex);
    return count;
}

static void replace_under_load(void **state) {
    (void)state;
    start(6);
    struct redlock_client *old = open_on("01234"), *client, *next;
    struct redlock_quorum_options options = quorum_options();
    struct redlock_error error = {0};
    init(old, 1);
    client = open_on("012345");
    next = open_on("12345"); /* it has the new list before there is a new quorum */
    struct redlock_client *contenders[] = {old, old, client, next};
    pthread_t threads[4];
    atomic_store(&witness.over, false);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, contend, contenders[i]);
    wait_until(entries() > 20, PATIENCE_MS);
    unsigned before = entries();
    assert_quorum(redlock_quorum_add(client, 5, &options, &error), REDLOCK_OK, error);
    unsigned added = entries();
    wait_for_intact(client, 6);
    assert_quorum(redlock_quorum_remove(client, id_of(client, 0), &options, &error), REDLOCK_OK,
                  error);
    unsigned removed = entries();
    wait_until(entries() > removed + 20, PATIENCE_MS);
    atomic_store(&witness.over, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(witness.violations, 0);
    assert_true(added > before && removed > added); /* locks go on through a change */
    redlock_client_free(next);
    redlock_client_free(client);
    redlock_client_free(old);
    assert_agreed("12345", 3, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(unfit_servers_are_refused),
        cmocka_unit_test(records_of_others_are_refused),
        cmocka_unit_test(never_used_is_ready_at_once),
        cmocka_unit_test(init_waits_for_ttl_max),
        cmocka_unit_test(lost_majority_keeps_id_and_fences),
        cmocka_unit_test(a_renewed_quorum_outranks_what_init_does_not_see),
        cmocka_unit_test(used_servers_are_not_never_used),
        cmocka_unit_test(init_without_a_record_wants_a_ttl_max),
        cmocka_unit_test(init_waits_for_the_longest_record),
        cmocka_unit_test(init_waits_for_records_of_any_quorum),
        cmocka_unit_test(an_interrupted_init_hands_on_how_long_to_wait),
        cmocka_unit_test(shorter_options_are_understood),
        cmocka_unit_test(a_node_lost_meanwhile_is_named),
        cmocka_unit_test(a_round_trip_during_init_is_noticed),
        cmocka_unit_test(an_eviction_during_init_is_noticed),
        cmocka_unit_test(a_second_init_meanwhile_is_reported),
        cmocka_unit_test(init_is_killed_and_run_again),
        cmocka_unit_test(killed_init_keeps_fences),
        cmocka_unit_test(init_killed_in_its_last_step_is_finished),
        cmocka_unit_test(init_is_finished_beside_others),
        cmocka_unit_test(add_is_killed_and_run_again),
        cmocka_unit_test(add_of_a_former_member_is_run_again),
        cmocka_unit_test(remove_is_killed_and_run_again),
        cmocka_unit_test(accepted_change_is_finished_by_the_next),
        cmocka_unit_test(unsettled_change_is_settled_by_the_next),
        cmocka_unit_test(a_node_that_was_away_is_brought_up),
        cmocka_unit_test(add_goes_on_with_the_old_list),
        cmocka_unit_test(add_without_recovery_comes_to_its_end),
        cmocka_unit_test(remove_leaves_the_old_list_working),
        cmocka_unit_test(fences_outlive_the_members_that_knew_them),
        cmocka_unit_test(a_node_that_cannot_be_reached_is_not_added),
        cmocka_unit_test(a_remove_is_checked_again_before_it_is_accepted),
        cmocka_unit_test(an_add_is_checked_again_before_it_is_accepted),
        cmocka_unit_test(two_operators_add),
        cmocka_unit_test(two_operators_remove),
        cmocka_unit_test(one_adds_one_removes),
        cmocka_unit_test(two_inits_at_once),
        cmocka_unit_test(init_takes_over_what_another_left),
        cmocka_unit_test(init_leaves_what_others_may_need),
        cmocka_unit_test(a_client_outlives_its_quorum),
        cmocka_unit_test(replace_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, stop_all);
}
