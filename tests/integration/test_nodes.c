/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What nodes do to commands: forget scripts, forbid them, refuse writes for reasons of their own.
 */
#include "notices.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_with(struct servers *servers, unsigned count, const char *const *arguments) {
    *servers = (struct servers){.count = count};
    size_t used = 0;
    for (unsigned i = 0; i < count; i++) {
        server_start(&servers->at[i], arguments);
        used += (size_t)snprintf(servers->urls + used, sizeof servers->urls - used,
                                 "%sredis://127.0.0.1:%d", i ? "," : "", servers->at[i].port);
    }
}

/* The answer must not be an error. */
static void command(struct server *server, const char *text) {
    redisReply *reply = server_ask(server, text);
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("%s: %s", text, reply->str);
    freeReplyObject(reply);
}

static struct redlock_lock *new_pair(struct redlock_client *client, const char *a, const char *b) {
    const struct redlock_bytes names[] = {{a, strlen(a)}, {b, strlen(b)}};
    struct redlock_lock *lock = NULL;
    assert_result(redlock_lock_new_multi(client, names, 2, NULL, &lock, NULL), REDLOCK_OK);
    return lock;
}

/* ---- scripts forgotten ---- */

static void flush_scripts(struct servers *servers) {
    for (unsigned i = 0; i < servers->count; i++) command(&servers->at[i], "SCRIPT FLUSH");
}

static void scripts_forgotten_are_loaded_within_the_attempt(void **state) {
    (void)state;
    struct servers five;
    servers_start(&five, 5);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *pair = new_pair(client, "s1", "s2"), *one = new_lock(client, "s3", NULL);
    for (int round = 0; round < 2; round++) {
        flush_scripts(&five);
        assert_result(redlock_try(pair), REDLOCK_OK);
        wait_until(granted_by(pair) == 5,
                   3000); /* a node that owes an answer is not asked to extend */
        flush_scripts(&five);
        assert_result(redlock_extend(pair, 40000), REDLOCK_OK);
        for (int i = 0; i < 5; i++)
            wait_until(server_ask_integer(&five.at[i], "PTTL s2") > 30000, 3000);
        flush_scripts(&five);
        assert_result(redlock_release(pair), REDLOCK_OK);
        nap_ms(50);
        assert_int_equal(servers_holding(&five, "s1") + servers_holding(&five, "s2"), 0);
        assert_result(redlock_try(one), REDLOCK_OK);
        flush_scripts(&five);
        assert_result(redlock_release(one), REDLOCK_OK);
        nap_ms(50);
        assert_int_equal(servers_holding(&five, "s3"), 0);
        /* And on nodes that never saw them. */
        for (unsigned i = 0; i < 5; i++) server_restart(&five.at[i]);
        wait_until(nodes_ready(client) == 5, 3000);
    }
    assert_int_equal(stats_of(client).attempts, 4);
    assert_int_equal(stats_of(client).extensions_failed, 0);
    redlock_lock_free(pair);
    redlock_lock_free(one);
    redlock_client_free(client);
    servers_stop(&five);
}

/* ---- scripts forbidden ---- */

static void assert_transactions(struct redlock_client *client, int expected) {
    for (size_t i = 0; i < redlock_client_nodes(client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, i, &status), REDLOCK_OK);
        assert_int_equal(status.verdict, REDLOCK_VERDICT_GRANTED);
        assert_int_equal(status.uses_transactions, expected);
    }
}

static void one_lock_works(struct redlock_client *client, struct servers *servers) {
    struct redlock_lock *a = new_lock(client, "t1", NULL), *b = new_lock(client, "t1", NULL);
    assert_result(redlock_try(a), REDLOCK_OK);
    assert_result(redlock_try(b), REDLOCK_HELD);
    nap_ms(20); /* who still owes an answer is not asked to extend */
    assert_result(redlock_extend(a, 60000), REDLOCK_OK);
    wait_until(server_ask_integer(&servers->at[0], "PTTL t1") > 50000, 1000);
    assert_result(redlock_extend(a, 1000), REDLOCK_OK);
    wait_until(server_ask_integer(&servers->at[0], "PTTL t1") > 50000, 1000);
    assert_result(redlock_release(a), REDLOCK_OK);
    wait_until(servers_holding(servers, "t1") == 0, 1000);
    /* Another's lock is neither extended nor released. */
    assert_result(redlock_try(a), REDLOCK_OK);
    nap_ms(50);
    for (unsigned i = 0; i < servers->count; i++)
        command(&servers->at[i], "SET t1 stranger PX 5000");
    assert_result(redlock_extend(a, 60000), REDLOCK_LOST);
    assert_result(redlock_release(a), REDLOCK_LOST);
    nap_ms(50);
    assert_int_equal(servers_holding(servers, "t1"), servers->count);
    assert_true(server_ask_integer(&servers->at[0], "PTTL t1") <= 5000);
    for (unsigned i = 0; i < servers->count; i++) command(&servers->at[i], "DEL t1");
    redlock_lock_free(a);
    redlock_lock_free(b);
}

static void several_resources_work(struct redlock_client *client, struct servers *servers) {
    struct redlock_lock *pair = new_pair(client, "t2", "t3"), *one = new_lock(client, "t3", NULL);
    assert_result(redlock_try(one), REDLOCK_OK);
    assert_result(redlock_try(pair), REDLOCK_HELD);
    nap_ms(50);
    assert_int_equal(servers_holding(servers, "t2"), 0);
    assert_result(redlock_release(one), REDLOCK_OK);
    assert_result(redlock_acquire(pair, 1000), REDLOCK_OK);
    assert_result(redlock_try(one), REDLOCK_HELD);
    nap_ms(20);
    assert_result(redlock_extend(pair, 60000), REDLOCK_OK);
    wait_until(server_ask_integer(&servers->at[0], "PTTL t2") > 50000, 1000);
    wait_until(server_ask_integer(&servers->at[0], "PTTL t3") > 50000, 1000);
    assert_result(redlock_release(pair), REDLOCK_OK);
    nap_ms(50);
    assert_int_equal(servers_holding(servers, "t2") + servers_holding(servers, "t3"), 0);
    redlock_lock_free(pair);
    redlock_lock_free(one);
}

static void scripts_renamed_away(void **state) {
    (void)state;
    static const char *const arguments[] = {"--rename-command", "EVAL", "",  "--rename-command",
                                            "EVALSHA",          "",     NULL};
    struct servers three;
    start_with(&three, 3, arguments);
    struct redlock_client *client = open_calm(&three);
    assert_transactions(client, 1);
    one_lock_works(client, &three);
    several_resources_work(client, &three);
    redlock_client_free(client);
    servers_stop(&three);
}

static void scripts_refused_by_acl(void **state) {
    (void)state;
    struct servers three;
    servers_start(&three, 3);
    struct redlock_client *client = NULL;
    char urls[400] = "";
    for (int i = 0; i < 3; i++) {
        command(&three.at[i], "ACL SETUSER locks on >pw ~* +@all -eval -evalsha");
        snprintf(urls + strlen(urls), sizeof urls - strlen(urls), "redis://locks:pw@127.0.0.1:%d ",
                 three.at[i].port);
    }
    assert_result(redlock_client_open(urls, NULL, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 3);
    assert_transactions(client, 1);
    one_lock_works(client, &three);
    several_resources_work(client, &three);
    redlock_client_free(client);
    servers_stop(&three);
}

/* Some nodes run scripts, one does not: each is spoken to in its own way. */
static void one_node_without_scripts_among_three(void **state) {
    (void)state;
    static const char *const renamed[] = {"--rename-command", "EVAL", "", NULL};
    struct servers three;
    servers_start(&three, 3);
    int port = three.at[1].port;
    three.at[1].arguments = renamed;
    server_restart(&three.at[1]);
    assert_int_equal(three.at[1].port, port);
    struct redlock_client *client = open_calm(&three);
    for (size_t i = 0; i < 3; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, i, &status), REDLOCK_OK);
        assert_int_equal(status.uses_transactions, i == 1);
    }
    one_lock_works(client, &three);
    several_resources_work(client, &three);
    redlock_client_free(client);
    servers_stop(&three);
}

/* ---- strangers' locks ---- */

enum { MANY = 120 };

static void *take_over(void *argument) {
    struct server *server = argument;
    redisContext *context = redisConnect("127.0.0.1", server->port);
    for (int i = 0; i < MANY; i++) redisAppendCommand(context, "SET many%d stranger", MANY - 1 - i);
    for (int i = 0; i < MANY; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(context, (void **)&reply) == REDIS_OK) freeReplyObject(reply);
    }
    redisFree(context);
    return NULL;
}

static void count_done(void *context, struct redlock_lock *lock, int result) {
    atomic_int *counts = context;
    (void)lock;
    counts[result == REDLOCK_OK ? 0 : result == REDLOCK_LOST ? 1 : 2]++;
}

/* All are released at once while a stranger takes the keys over, in the other direction. Whatever
 * the order, what the stranger has set must stay. */
static void releases_spare_strangers(struct servers *single) {
    struct redlock_client *client = open_calm(single);
    struct redlock_lock *locks[MANY];
    for (int round = 0; round < 5; round++) {
        atomic_int counts[3] = {0};
        pthread_t stranger;
        for (int i = 0; i < MANY; i++) {
            char name[16];
            snprintf(name, sizeof name, "many%d", i);
            locks[i] = new_lock(client, name, NULL);
            assert_result(redlock_try(locks[i]), REDLOCK_OK);
        }
        assert_int_equal(pthread_create(&stranger, NULL, take_over, &single->at[0]), 0);
        for (int i = 0; i < MANY; i++)
            assert_result(redlock_release_start(locks[i], count_done, counts), REDLOCK_OK);
        wait_until(counts[0] + counts[1] + counts[2] == MANY, 5000);
        pthread_join(stranger, NULL);
        for (int i = 0; i < MANY; i++) {
            char name[16], value[64] = "nothing";
            snprintf(name, sizeof name, "many%d", i);
            server_get(&single->at[0], name, value, sizeof value);
            assert_string_equal(value, "stranger");
            redlock_lock_free(locks[i]);
        }
        assert_int_equal(counts[2], 0);
        command(&single->at[0], "FLUSHALL");
    }
    redlock_client_free(client);
}

static void releases_by_transaction_spare_strangers(void **state) {
    (void)state;
    static const char *const arguments[] = {"--rename-command", "EVAL", "", NULL};
    struct servers single;
    start_with(&single, 1, arguments);
    releases_spare_strangers(&single);
    servers_stop(&single);
}

static void count_second(void *context, int level, const char *text) {
    (void)level;
    if (strstr(text, "second connection")) (*(atomic_int *)context)++;
}

/* A release that has waited longer than the stall timeout has its full time on the next
 * connection. */
static void a_release_kept_for_long_arrives_by_transaction(void **state) {
    (void)state;
    static const char *const arguments[] = {"--rename-command", "EVAL", "", NULL};
    struct servers one;
    static atomic_int failures; /* outlives a failing test's client */
    start_with(&one, 1, arguments);
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.stall_timeout_ms = 200;
    options.log = count_second;
    options.log_context = &failures;
    options.log_level = REDLOCK_LOG_INFO;
    struct redlock_client *client = open_client(&one, &options);
    struct redlock_lock *lock = new_lock(client, "late", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    server_pause(&one.at[0]);
    assert_result(redlock_release(lock), REDLOCK_NO_QUORUM);
    nap_ms(800);
    server_resume(&one.at[0]);
    wait_until(nodes_ready(client) == 1, 3000);
    assert_int_equal(servers_holding(&one, "late"), 0);
    assert_true(failures <= 3);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&one);
}

static void releases_by_script_spare_strangers(void **state) {
    (void)state;
    struct servers single;
    servers_start(&single, 1);
    releases_spare_strangers(&single);
    servers_stop(&single);
}

/* ---- refusals, each by a real server ---- */

static int verdict_of_try(struct redlock_client *client) {
    struct redlock_lock *lock = new_lock(client, "refused", NULL);
    int verdict = -1;
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(redlock_verdicts(lock, &verdict, 1), 1);
    redlock_lock_free(lock);
    return verdict;
}

static void assert_verdict(int verdict, int expected) {
    if (verdict != expected)
        fail_msg("the verdict is \"%s\", not \"%s\"", redlock_verdict_text(verdict),
                 redlock_verdict_text(expected));
}

/* On a connection that was good before, and on one that comes up in the middle of it. */
static void refused(struct servers *single, const char *how, const char *undo, int expected) {
    struct redlock_client *before = open_calm(single);
    command(&single->at[0], how);
    assert_verdict(verdict_of_try(before), expected);
    struct redlock_client *after = open_calm(single);
    assert_verdict(verdict_of_try(after), expected);
    command(&single->at[0], undo);
    struct redlock_client *clients[] = {before, after};
    for (int i = 0; i < 2; i++) {
        wait_until(nodes_ready(clients[i]) == 1, 3000);
        struct redlock_lock *lock = new_lock(clients[i], "refused", NULL);
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_result(redlock_release(lock), REDLOCK_OK);
        redlock_lock_free(lock);
        redlock_client_free(clients[i]);
    }
}

static struct servers single;

static int start_single(void **state) {
    (void)state;
    servers_start(&single, 1);
    return 0;
}

static int stop_single(void **state) {
    (void)state;
    servers_stop(&single);
    return 0;
}

static void out_of_memory(void **state) {
    (void)state;
    refused(&single, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", REDLOCK_VERDICT_OOM);
}

static void a_replica(void **state) {
    (void)state;
    refused(&single, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", REDLOCK_VERDICT_READONLY);
}

static void a_replica_without_its_master(void **state) {
    (void)state;
    command(&single.at[0], "CONFIG SET replica-serve-stale-data no");
    command(&single.at[0], "REPLICAOF 127.0.0.1 1");
    struct redlock_client *client = open_calm(&single);
    assert_verdict(verdict_of_try(client), REDLOCK_VERDICT_MASTERDOWN);
    redlock_client_free(client);
}

static void too_few_replicas(void **state) {
    (void)state;
    refused(&single, "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
            REDLOCK_VERDICT_NOREPLICAS);
}

static void no_permission(void **state) {
    (void)state;
    refused(&single, "ACL SETUSER default -set", "ACL SETUSER default +set",
            REDLOCK_VERDICT_NOPERM);
}

/* The dump's name is that of a directory. */
static void cannot_persist(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/dump.rdb", single.at[0].dir);
    assert_int_equal(mkdir(path, 0700), 0);
    freeReplyObject(server_ask(&single.at[0], "CONFIG SET save %s", "3600 1"));
    command(&single.at[0], "CONFIG SET stop-writes-on-bgsave-error no");
    command(&single.at[0], "BGSAVE");
    for (bool failed = false; !failed; nap_ms(10)) {
        redisReply *reply = server_ask(&single.at[0], "INFO persistence");
        failed = strstr(reply->str, "rdb_last_bgsave_status:err") != NULL;
        freeReplyObject(reply);
    }
    refused(&single, "CONFIG SET stop-writes-on-bgsave-error yes",
            "CONFIG SET stop-writes-on-bgsave-error no", REDLOCK_VERDICT_MISCONF);
}

static void busy_with_a_script(void **state) {
    (void)state;
    command(&single.at[0], "CONFIG SET lua-time-limit 1");
    struct redlock_client *client = open_calm(&single);
    redisContext *context = redisConnect("127.0.0.1", single.at[0].port);
    redisReply *reply = NULL;
    int done = 0;
    redisAppendCommand(context, "EVAL %s 0", "while true do end");
    while (!done) assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
    nap_ms(100);
    assert_verdict(verdict_of_try(client), REDLOCK_VERDICT_BUSY);
    command(&single.at[0], "SCRIPT KILL");
    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    redisFree(context);
    struct redlock_lock *lock = new_lock(client, "busy", NULL);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void too_many_clients(void **state) {
    (void)state;
    redisContext *context = redisConnect("127.0.0.1", single.at[0].port);
    freeReplyObject(redisCommand(context, "CONFIG SET maxclients 1"));
    struct redlock_client *client = open_calm(&single);
    assert_verdict(verdict_of_try(client), REDLOCK_VERDICT_MAXCLIENTS);
    freeReplyObject(redisCommand(context, "CONFIG SET maxclients 100"));
    wait_until(nodes_ready(client) == 1, 4000);
    redlock_client_free(client);
    redisFree(context);
}

static bool is_written(void) {
    redisReply *reply = server_ask(&single.at[0], "INFO persistence");
    bool done = strstr(reply->str, "aof_rewrite_in_progress:0") != NULL &&
                strstr(reply->str, "aof_rewrite_scheduled:0") != NULL;
    freeReplyObject(reply);
    return done;
}

/* Before 7.0 a server that loads a snapshot answers after every 2 MiB only, and when it loads an
 * append-only file after every 1000 commands. */
static void restart_slowly(void) {
    static const char *const snapshot[] = {"--key-load-delay", "3000",
                                           "--loading-process-events-interval-bytes", "1024", NULL};
    static const char *const commands[] = {"--key-load-delay", "20", "--appendonly", "yes", NULL};
    const bool old = servers_version() < 700;
    freeReplyObject(
        server_ask(&single.at[0], "EVAL %s 0 %d",
                   "for i = 1, ARGV[1] do redis.call('SET', 'k' .. i, string.rep('x', 100)) end",
                   old ? 20000 : 500));
    if (old) {
        command(&single.at[0], "CONFIG SET aof-use-rdb-preamble no");
        command(&single.at[0], "CONFIG SET appendonly yes");
        wait_until(is_written(), 5000);
    } else {
        command(&single.at[0], "SAVE");
    }
    single.at[0].arguments = old ? commands : snapshot;
    server_restart(&single.at[0]);
}

static void still_loading(void **state) {
    (void)state;
    restart_slowly();
    struct redlock_client *client = open_calm(&single);
    assert_verdict(verdict_of_try(client), REDLOCK_VERDICT_LOADING);
    struct redlock_lock *lock = new_lock(client, "loaded", NULL);
    assert_result(redlock_acquire(lock, 10000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_cluster_node(void **state) {
    (void)state;
    char bus[8];
    const char *const cluster[] = {"--cluster-enabled", "yes", "--cluster-port", bus, NULL};
    const char *const any_bus[] = {"--cluster-enabled", "yes", NULL};
    snprintf(bus, sizeof bus, "%d", server_free_port());
    if (servers_version() < 700) { /* the port of the bus is the server's and 10000 */
        server_stop(&single.at[0]);
        server_start(&single.at[0], any_bus);
        server_url(&single.at[0], single.urls, sizeof single.urls);
    } else {
        single.at[0].arguments = cluster;
        server_restart(&single.at[0]);
    }
    struct redlock_client *client = open_calm(&single);
    assert_verdict(verdict_of_try(client), REDLOCK_VERDICT_CLUSTER);
    redlock_client_free(client);
}

static void something_else_under_the_key(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&single);
    struct redlock_lock *lock = new_lock(client, "list", NULL);
    struct redlock_view view;
    int verdict;
    assert_result(redlock_try(lock), REDLOCK_OK);
    command(&single.at[0], "DEL list");
    command(&single.at[0], "RPUSH list x");
    assert_int_not_equal(redlock_extend(lock, 0), REDLOCK_OK);
    redlock_verdicts(lock, &verdict, 1);
    assert_verdict(verdict, REDLOCK_VERDICT_WRONGTYPE);
    assert_int_not_equal(redlock_release(lock), REDLOCK_OK);
    redlock_verdicts(lock, &verdict, 1);
    assert_verdict(verdict, REDLOCK_VERDICT_WRONGTYPE);
    assert_result(redlock_try(lock), REDLOCK_HELD); /* something is there, and it is not ours */
    assert_result(redlock_peek(client, "list", 4, &view, 1), REDLOCK_OK);
    assert_verdict(view.verdict, REDLOCK_VERDICT_WRONGTYPE);
    assert_int_equal(server_ask_integer(&single.at[0], "LLEN list"), 1);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_forgotten_are_loaded_within_the_attempt),
        cmocka_unit_test(scripts_renamed_away),
        cmocka_unit_test(scripts_refused_by_acl),
        cmocka_unit_test(one_node_without_scripts_among_three),
        cmocka_unit_test(releases_by_transaction_spare_strangers),
        cmocka_unit_test(a_release_kept_for_long_arrives_by_transaction),
        cmocka_unit_test(releases_by_script_spare_strangers),
        cmocka_unit_test_setup_teardown(out_of_memory, start_single, stop_single),
        cmocka_unit_test_setup_teardown(a_replica, start_single, stop_single),
        cmocka_unit_test_setup_teardown(a_replica_without_its_master, start_single, stop_single),
        cmocka_unit_test_setup_teardown(too_few_replicas, start_single, stop_single),
        cmocka_unit_test_setup_teardown(no_permission, start_single, stop_single),
        cmocka_unit_test_setup_teardown(cannot_persist, start_single, stop_single),
        cmocka_unit_test_setup_teardown(busy_with_a_script, start_single, stop_single),
        cmocka_unit_test_setup_teardown(too_many_clients, start_single, stop_single),
        cmocka_unit_test_setup_teardown(still_loading, start_single, stop_single),
        cmocka_unit_test_setup_teardown(a_cluster_node, start_single, stop_single),
        cmocka_unit_test_setup_teardown(something_else_under_the_key, start_single, stop_single),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
