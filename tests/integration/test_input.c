/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bad input, each refused in words that name the problem and the cure; and what others put under
 * our keys: binary tokens, locks of other clients, keys that are no locks.
 */
#include "fixtures.h"
#include "notices.h"
#include "proxy.h"

static void assert_says(const struct redlock_error *error, const char *problem, const char *cure) {
    assert_int_equal(error->result, REDLOCK_BAD_ARGUMENT);
    if (!strstr(error->text, problem) || !strstr(error->text, cure))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", error->text, problem, cure);
}

/* ---- clients ---- */

static void bad_nodes(void **state) {
    (void)state;
    static const struct {
        const char *nodes, *problem, *cure;
    } cases[] = {
        {"", "no nodes", "redis://"},
        {" , ", "no nodes", "redis://"},
        {"redis://a,redis://a", "listed twice", "once"},
        {"redis://a:6379 redis://A", "listed twice", "once"},
        {"unix:///run/a.sock,unix:///run/a.sock?db=1", "listed twice", "once"},
        {"http://a", "unknown scheme \"http\"", "redis://"},
        {"localhost:6379", "\"localhost:6379\"", "redis://localhost:6379"},
        {"redis://", "host", "redis://host"},
        {"redis://a:99999", "port", "65535"},
        {"redis://a:0", "port", "65535"},
        {"redis://a/x", "database", "redis://host:6379/0"},
        {"redis://a/1/2", "number", "redis://host:6379/0"},
        {"redis://a?db=1", "unix:// only", "host/db"},
        {"redis://u@a", "user without a password", ":password@host"},
        {"redis://a#b", "'#'", "%23"},
        {"redis://[::1", "not a URL", "redis://"},
        {"unix://run/a.sock", "three slashes", "unix:///"},
        {"redis://a1,redis://a2,redis://a3,redis://a4,redis://a5,redis://a6,redis://a7,redis://a8,redis://a9,redis://"
         "a10,"
         "redis://a11,redis://a12,redis://a13,redis://a14,redis://a15,redis://a16",
         "too many nodes", "at most 15"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redlock_client *client = NULL;
        struct redlock_error error = {0};
        if (redlock_client_open(cases[i].nodes, NULL, &client, &error) != REDLOCK_BAD_ARGUMENT)
            fail_msg("\"%s\" was accepted", cases[i].nodes);
        assert_null(client);
        assert_says(&error, cases[i].problem, cases[i].cure);
        assert_result(redlock_client_open(cases[i].nodes, NULL, &client, NULL),
                      REDLOCK_BAD_ARGUMENT);
    }
}

/* A list cut in the wrong place must not show what was meant as a password. */
static void no_password_in_messages(void **state) {
    (void)state;
    static const char *const lists[] = {
        "redis://:hunter2@a,hunter2",
        "redis://:x,hunter2@a",
        "hunter2@a",
        "http://:hunter2@a",
        "redis://u:hunter2@a:99999",
        "redis://u:hunter2@a,redis://u:hunter2@a",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct redlock_client *client = NULL;
        struct redlock_error error = {0};
        assert_result(redlock_client_open(lists[i], NULL, &client, &error), REDLOCK_BAD_ARGUMENT);
        if (strstr(error.text, "hunter2")) fail_msg("%s: %s", lists[i], error.text);
        assert_true(strlen(error.text) > 0);
    }
}

#define CASE(field_, value_, problem_, cure_)                                                      \
    { offsetof(struct redlock_client_options, field_), value_, problem_, cure_ }

/* A program knows the struct of the header that it was built against, which may have fewer fields
 * or more. */
static void defaults_for_another_header(void **state) {
    (void)state;
    struct redlock_lock_options known, shorter;
    struct longer {
        struct redlock_lock_options known;
        int64_t more;
    } longer = {.more = -1};
    redlock_lock_options_init(&known);
    memset(&shorter, 0xee, sizeof shorter);
    size_t size = offsetof(struct redlock_lock_options, retry_delay_ms_min);
    redlock_lock_options_fill(&shorter, size);
    assert_int_equal(shorter.size, size);
    assert_int_equal(shorter.ttl_ms, known.ttl_ms);
    for (size_t i = size; i < sizeof shorter; i++)
        assert_int_equal(((unsigned char *)&shorter)[i], 0xee);
    redlock_lock_options_fill(&longer.known, sizeof longer);
    assert_int_equal(longer.known.size, sizeof longer);
    assert_int_equal(longer.known.retry_delay_ms_max, known.retry_delay_ms_max);
    assert_int_equal(longer.more, 0);
}

static void bad_client_options(void **state) {
    (void)state;
    static const struct {
        size_t at;
        int64_t value;
        const char *problem, *cure;
    } cases[] = {
        CASE(node_timeout_ms, -1, "node_timeout_ms is -1", "between"),
        CASE(node_timeout_ms, 60001, "node_timeout_ms is 60001", "60000"),
        CASE(connect_timeout_ms, 0, "connect_timeout_ms is 0", "between 1"),
        CASE(stall_timeout_ms, 9, "stall_timeout_ms is 9", "between 10"),
    };
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redlock_client_options_init(&options);
        memcpy((char *)&options + cases[i].at, &cases[i].value, sizeof cases[i].value);
        assert_result(redlock_client_open(three.urls, &options, &client, &error),
                      REDLOCK_BAD_ARGUMENT);
        assert_says(&error, cases[i].problem, cases[i].cure);
    }
    redlock_client_options_init(&options);
    options.drift_ppm = 500001;
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "drift_ppm is 500001", "500000");
    redlock_client_options_init(&options);
    options.service_thread = 2;
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "service_thread is 2", "between 0 and 1");
    redlock_client_options_init(&options);
    options.log_level = 7; /* syslog's LOG_DEBUG */
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "log_level is 7", "between 0 and 3");
    redlock_client_options_init(&options);
    options.key_prefix = "x";
    options.key_prefix_bytes = REDLOCK_RESOURCE_BYTES_MAX;
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "key prefix", "65535");
    memset(&options, 0, sizeof options);
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "unknown size", "redlock_client_options_init");
    assert_null(client);
}

/* ---- locks ---- */

static void assert_refused(struct redlock_client *client, const void *resource, size_t bytes,
                           const struct redlock_lock_options *options, const char *problem,
                           const char *cure) {
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    assert_result(redlock_lock_new(client, resource, bytes, options, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_null(lock);
    assert_says(&error, problem, cure);
}

#define LOCK_CASE(field_, value_, problem_, cure_)                                                 \
    { offsetof(struct redlock_lock_options, field_), value_, problem_, cure_ }

static void bad_lock_options(void **state) {
    (void)state;
    static const struct {
        size_t at;
        int64_t value;
        const char *problem, *cure;
    } cases[] = {
        LOCK_CASE(ttl_ms, 0, "ttl_ms is 0", "between 10"),
        LOCK_CASE(ttl_ms, -5, "ttl_ms is -5", "between 10"),
        LOCK_CASE(ttl_ms, 9, "ttl_ms is 9", "between 10"),
        LOCK_CASE(ttl_ms, 86400001, "ttl_ms is 86400001", "86400000"),
        LOCK_CASE(validity_ms_min, 30000, "validity_ms_min is 30000", "29999"),
        LOCK_CASE(validity_ms_min, 29999, "no validity", "drift"),
        LOCK_CASE(lost_margin_ms, 30000, "lost_margin_ms is 30000", "29999"),
        LOCK_CASE(renew_interval_ms, 30000, "renew_interval_ms is 30000", "29999"),
        LOCK_CASE(hold_ms_max, -1, "hold_ms_max is -1", "between 0"),
        LOCK_CASE(retry_delay_ms_min, 251, "retry_delay_ms_min is 251", "250"),
        LOCK_CASE(retry_delay_ms_max, -1, "retry_delay_ms_max is -1", "between 0"),
    };
    struct redlock_client *client = open_calm(&three);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redlock_lock_options options = lock_options(30000);
        memcpy((char *)&options + cases[i].at, &cases[i].value, sizeof cases[i].value);
        assert_refused(client, "r", 1, &options, cases[i].problem, cases[i].cure);
    }
    struct redlock_lock_options brief = lock_options(30000);
    brief.hold_ms_max = 500;
    brief.validity_ms_min = 501;
    assert_refused(client, "r", 1, &brief, "hold_ms_max (500 ms) leaves no validity", "501");
    brief.validity_ms_min = 1;
    brief.lost_margin_ms = 500;
    assert_refused(client, "r", 1, &brief, "hold_ms_max (500 ms) leaves no validity", "501");
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    struct redlock_lock_options options = lock_options(30000);
    memset(owner, 'o', sizeof owner);
    options.owner = owner;
    options.owner_bytes = sizeof owner;
    assert_refused(client, "r", 1, &options, "129", "128");
    options = lock_options(30000);
    options.renew = -1;
    assert_refused(client, "r", 1, &options, "renew is -1", "between 0 and 1");
    redlock_client_free(client);

    struct redlock_client_options client_options;
    redlock_client_options_init(&client_options);
    client_options.node_timeout_ms = 500;
    client = open_client(&three, &client_options);
    options = lock_options(400);
    assert_refused(client, "r", 1, &options, "node timeout (500 ms)", "TTL (400 ms)");
    redlock_client_free(client);
}

static void bad_resources(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    char *big = malloc(REDLOCK_RESOURCE_BYTES_MAX + 1);
    struct redlock_bytes names[REDLOCK_RESOURCES_MAX + 1];
    memset(big, 'r', REDLOCK_RESOURCE_BYTES_MAX + 1);
    assert_refused(client, "", 0, NULL, "empty", "1 to 65536");
    assert_refused(client, big, REDLOCK_RESOURCE_BYTES_MAX + 1, NULL, "65537", "65536");
    static const char *const reserved[] = {
        "redlock:node", "redlock:fences:x", "redlock:term:x", "redlock:waiting:x",
        "redlock:waiters:x", "redlock:setnx:x", "redlock:shared:x", "redlock:shared:",
        /* "redlock:shared:slot:1" is where the readers of "slot:1" are listed. */
        "redlock:shared", "redlock:term", "redlock:waiting"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        assert_refused(client, reserved[i], strlen(reserved[i]), NULL, "is reserved", "another");
    static const char *const free_names[] = {"redlock:node-1", "redlock:share", "redlock:shared-"};
    for (size_t i = 0; i < sizeof free_names / sizeof free_names[0]; i++) {
        assert_result(
            redlock_lock_new(client, free_names[i], strlen(free_names[i]), NULL, &lock, &error),
            REDLOCK_OK);
        redlock_lock_free(lock);
    }
    for (size_t i = 0; i <= REDLOCK_RESOURCES_MAX; i++)
        names[i] = (struct redlock_bytes){big, i + 1};
    assert_result(
        redlock_lock_new_multi(client, names, REDLOCK_RESOURCES_MAX + 1, NULL, &lock, &error),
        REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "65", "1 to 64");
    assert_result(redlock_lock_new_multi(client, names, 0, NULL, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "0", "1 to 64");
    names[2] = names[0];
    assert_result(redlock_lock_new_multi(client, names, 3, NULL, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_says(&error, "resource 3 is the same as resource 1", "once");
    /* At the limit both work. */
    names[2] = (struct redlock_bytes){big, 3};
    assert_result(redlock_lock_new_multi(client, names, REDLOCK_RESOURCES_MAX, NULL, &lock, &error),
                  REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    assert_result(redlock_lock_new(client, big, REDLOCK_RESOURCE_BYTES_MAX, NULL, &lock, &error),
                  REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    free(big);
    redlock_client_free(client);
}

static void bad_calls(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = new_lock(client, "calls", NULL);
    struct redlock_view views[3];
    char token[REDLOCK_TOKEN_BYTES_MAX + 1] = "";
    assert_result(redlock_acquire(lock, -2), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_acquire_start(lock, 0, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_result(redlock_lock_disown(lock), REDLOCK_LOST);
    assert_result(redlock_lock_adopt(lock, token, 0), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_adopt(lock, token, sizeof token), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_BUSY);
    assert_result(redlock_lock_adopt(lock, "t", 1), REDLOCK_BUSY);
    assert_result(redlock_extend(lock, 9), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_extend(lock, 86400001), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_peek(client, "calls", 5, views, 2), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_peek(client, "", 0, views, 3), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_process(client), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_client_fd(client), -1);
    redlock_lock_free(lock);
    redlock_lock_free(NULL);
    redlock_client_free(client);
    redlock_client_free(NULL);
}

/* ---- what others put there ---- */

static void a_binary_token_survives(void **state) {
    (void)state;
    static const char token[] = "\0\xff\r\n$5 '\"\0end", near_miss[] = "\0\xff\r\n$5 '\"\0enD";
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = new_lock(client, "binary", NULL),
                        *other = new_lock(client, "binary", NULL);
    for (int i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET binary %b PX 5000", token, sizeof token - 1));
    assert_result(redlock_lock_adopt(other, near_miss, sizeof near_miss - 1), REDLOCK_OK);
    assert_result(redlock_extend(other, 20000), REDLOCK_LOST);
    assert_result(redlock_release(other), REDLOCK_LOST);
    assert_result(redlock_lock_adopt(other, token, 1),
                  REDLOCK_OK); /* the part before the second byte is not it */
    assert_result(redlock_release(other), REDLOCK_LOST);
    assert_int_equal(servers_holding(&three, "binary"), 3);
    assert_result(redlock_lock_adopt(lock, token, sizeof token - 1), REDLOCK_OK);
    assert_result(redlock_extend(lock, 20000), REDLOCK_OK);
    nap_ms(20);
    for (int i = 0; i < 3; i++)
        assert_in_range(server_ask_integer(&three.at[i], "PTTL binary"), 15000, 20000);
    assert_int_equal(redlock_token(lock).bytes, sizeof token - 1);
    assert_memory_equal(redlock_token(lock).data, token, sizeof token - 1);
    struct redlock_view views[3];
    assert_result(redlock_peek(client, "binary", 6, views, 3), REDLOCK_OK);
    assert_int_equal(views[2].token_bytes, sizeof token - 1);
    assert_memory_equal(views[2].token, token, sizeof token - 1);
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(20);
    assert_int_equal(servers_holding(&three, "binary"), 0);
    redlock_lock_free(lock);
    redlock_lock_free(other);
    redlock_client_free(client);
}

static void looking_at_locks_of_others(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_view views[3];
    char *long_token = malloc(REDLOCK_TOKEN_BYTES_MAX + 10);
    memset(long_token, 'x', REDLOCK_TOKEN_BYTES_MAX + 10);
    freeReplyObject(server_ask(&three.at[0], "SET seen value NX PX 9000"));
    freeReplyObject(server_ask(&three.at[1], "SET seen forever"));
    assert_result(redlock_peek(client, "seen", 4, views, 3), REDLOCK_OK);
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(views[0].token_bytes, 5);
    assert_memory_equal(views[0].token, "value", 5);
    assert_in_range(views[0].remaining_ms, 8000, 9000);
    assert_int_equal(views[1].verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(views[1].remaining_ms, -1);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_ABSENT);
    freeReplyObject(server_ask(&three.at[0], "SET seen %b PX 9000", long_token,
                               (size_t)REDLOCK_TOKEN_BYTES_MAX + 10));
    freeReplyObject(server_ask(&three.at[1], "DEL seen"));
    freeReplyObject(server_ask(&three.at[1], "HSET seen a b"));
    freeReplyObject(server_ask(&three.at[2], "SET seen %b PX 9000", "", (size_t)0));
    assert_result(redlock_peek(client, "seen", 4, views, 3), REDLOCK_OK);
    assert_int_equal(views[0].token_bytes, REDLOCK_TOKEN_BYTES_MAX);
    assert_true(views[0].token_truncated);
    assert_memory_equal(views[0].token, long_token, REDLOCK_TOKEN_BYTES_MAX);
    assert_int_equal(views[1].verdict, REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(views[2].token_bytes, 0);
    server_pause(&three.at[0]);
    server_kill(&three.at[1]);
    assert_result(redlock_peek(client, "seen", 4, views, 3), REDLOCK_NO_QUORUM);
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_TIMEOUT);
    assert_true(views[1].verdict == REDLOCK_VERDICT_REFUSED ||
                views[1].verdict == REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_GRANTED);
    server_resume(&three.at[0]);
    server_restart(&three.at[1]);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "FLUSHALL"));
    free(long_token);
    redlock_client_free(client);
}

struct listing {
    unsigned held[40], others;
};

static void on_resource(void *context, const void *resource, size_t bytes) {
    struct listing *listing = context;
    char name[40] = "";
    unsigned number;
    memcpy(name, resource, bytes < sizeof name ? bytes : sizeof name - 1);
    if (sscanf(name, "l%u", &number) == 1 && number < 40)
        listing->held[number]++;
    else
        listing->others++;
}

static void listing_what_is_locked(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = "p[*]:"; /* what SCAN's MATCH would take for a pattern */
    struct redlock_client *client = open_client(&three, &options);
    struct listing listing = {0};
    for (int i = 0; i < 30; i++)
        freeReplyObject(server_ask(&three.at[i % 3], "SET p[*]:l%d v PX 20000", i));
    freeReplyObject(server_ask(&three.at[0], "SET p*:l30 v PX 20000")); /* another prefix */
    freeReplyObject(server_ask(&three.at[0], "SET p[*]:l31 v"));        /* no TTL: no lock */
    freeReplyObject(server_ask(&three.at[0], "RPUSH p[*]:l32 v"));      /* no string */
    freeReplyObject(server_ask(&three.at[0], "SET p[*]: v PX 20000"));  /* no resource */
    assert_result(redlock_list(client, on_resource, &listing), REDLOCK_OK);
    for (int i = 0; i < 30; i++) assert_true(listing.held[i] >= 1);
    for (int i = 30; i < 40; i++) assert_int_equal(listing.held[i], 0);
    assert_int_equal(listing.others, 0);
    server_kill(&three.at[0]);
    server_kill(&three.at[1]);
    assert_result(redlock_list(client, on_resource, &listing), REDLOCK_NO_QUORUM);
    server_restart(&three.at[0]);
    server_restart(&three.at[1]);
    freeReplyObject(server_ask(&three.at[2], "FLUSHALL"));
    redlock_client_free(client);
}

/* What SCAN returns, in its order, against what is reported. */
struct order {
    char *names;
    size_t used, count;
};

static void note_order(void *context, const void *resource, size_t bytes) {
    struct order *order = context;
    memcpy(order->names + order->used, resource, bytes);
    order->used += bytes;
    order->names[order->used++] = ' ';
    order->count++;
}

static struct order scanned(struct server *server, const char *prefix, size_t room) {
    struct order order = {.names = calloc(1, room)};
    char cursor[24] = "0";
    assert_non_null(order.names);
    do {
        redisReply *reply = server_ask(server, "SCAN %s MATCH %s* COUNT 50", cursor, prefix);
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            note_order(&order, reply->element[1]->element[i]->str + strlen(prefix),
                       reply->element[1]->element[i]->len - strlen(prefix));
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    return order;
}

/* More than twice as many keys as go together, and each answer comes late: one question for each
 * key would take LATE_MS times their number. */
static void a_list_asks_for_many_keys_together(void **state) {
    (void)state;
    enum { KEYS = 700, LATE_MS = 10, ROOM = 16 * KEYS };
    bool moved;
    struct proxy *proxy = proxy_start(three.at[0].port);
    struct servers seen = three;
    snprintf(seen.urls, sizeof seen.urls, "redis://127.0.0.1:%d", proxy_port(proxy));
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = "many:";
    struct redlock_client *client = open_client(&seen, &options);
    for (int i = 0; i < KEYS; i++)
        freeReplyObject(server_ask(&three.at[0], "SET many:%d v PX 60000", i));
    struct order order = {.names = calloc(1, ROOM)};
    assert_non_null(order.names);
    /* While the server moves its keys to a larger table, the order of SCAN changes. */
    struct order expected = scanned(&three.at[0], "many:", ROOM), before;
    do {
        nap_ms(200);
        before = expected;
        expected = scanned(&three.at[0], "many:", ROOM);
        assert_int_equal(expected.count, KEYS);
        moved = strcmp(before.names, expected.names) != 0;
        free(before.names);
    } while (moved);
    proxy_delay(proxy, LATE_MS);
    const double began = now_ms();
    assert_result(redlock_list(client, note_order, &order), REDLOCK_OK);
    const double took = now_ms() - began;
    if (took > KEYS * LATE_MS / 2.0) fail_msg("%d keys took %.0f ms", KEYS, took);
    assert_int_equal(order.count, KEYS);
    assert_string_equal(order.names, expected.names);
    free(order.names);
    free(expected.names);
    redlock_client_free(client);
    proxy_stop(proxy);
    freeReplyObject(server_ask(&three.at[0], "FLUSHALL"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_nodes),
        cmocka_unit_test(no_password_in_messages),
        cmocka_unit_test(defaults_for_another_header),
        cmocka_unit_test(bad_client_options),
        cmocka_unit_test(bad_lock_options),
        cmocka_unit_test(bad_resources),
        cmocka_unit_test(bad_calls),
        cmocka_unit_test(a_binary_token_survives),
        cmocka_unit_test(looking_at_locks_of_others),
        cmocka_unit_test(listing_what_is_locked),
        cmocka_unit_test(a_list_asks_for_many_keys_together),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
