/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks on native nodes: real servers that load the module, alone, next to stock ones, and one
 * after the other during an upgrade. Skipped where the module is not built.
 */
#include "guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#define TTL_MAX 600
#define PATIENCE_MS 20000
#define TOKEN "0123456789012345678901234567890123456789"

static const char *module;
static const char *native_arguments[] = {"--loadmodule", NULL, NULL};

/* One letter for each node: n, native; s, stock. */
static void start_nodes(struct servers *nodes, const char *kinds) {
    *nodes = (struct servers){.count = (unsigned)strlen(kinds)};
    for (unsigned i = 0; i < nodes->count; i++) {
        server_start(&nodes->at[i], kinds[i] == 'n' ? native_arguments : NULL);
        snprintf(nodes->urls + strlen(nodes->urls), sizeof nodes->urls - strlen(nodes->urls),
                 "%sredis://127.0.0.1:%d", i ? "," : "", nodes->at[i].port);
    }
}

static void start_quorum_of(struct servers *nodes, const char *kinds) {
    start_nodes(nodes, kinds);
    init_quorum(nodes->urls, TTL_MAX);
}

static struct redlock_client *open_mode(const struct servers *nodes, bool guarded) {
    return guarded ? open_guarded(nodes) : open_calm(nodes);
}

/* A lock of the longest TTL that is allowed, renewed. */
static struct redlock_lock *renewed_lock(struct redlock_client *client, const char *resource,
                                         struct notices *notices) {
    *notices = (struct notices){0};
    const struct redlock_lock_options options = notices_options(TTL_MAX, notices);
    return new_lock(client, resource, &options);
}

static void close_lock(struct redlock_lock *lock, struct redlock_client *client) {
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static unsigned natives(struct redlock_client *client) {
    unsigned count = 0;
    for (size_t i = 0; i < redlock_client_nodes(client); i++)
        count += node_status(client, i).native == 1;
    return count;
}

/* ---- what a lock is -------------------------------------------------------------------------- */

static void all_of_a_lock(const char *kinds, bool guarded) {
    struct servers nodes;
    start_nodes(&nodes, kinds);
    if (guarded) init_quorum(nodes.urls, TTL_MAX);
    struct redlock_client *client = open_mode(&nodes, guarded), *rival = open_mode(&nodes, guarded);
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "job", &options),
                        *other = new_lock(rival, "job", &options);
    const unsigned count = (unsigned)strlen(kinds);
    for (int64_t turn = 0, fence = 0; turn < 3; turn++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        if (guarded) assert_true(redlock_fence(lock) > fence);
        fence = redlock_fence(lock);
        wait_until(servers_holding(&nodes, "job") == count, 1000); /* keys, for other programs */
        assert_result(redlock_try(other), REDLOCK_HELD);
        nap_ms(TTL_MAX / 2);
        assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        nap_ms(TTL_MAX / 2 + 20);
        assert_result(redlock_try(other), REDLOCK_HELD); /* the extension counts */
        assert_int_equal(redlock_fence(lock), fence);
        assert_result(redlock_release(lock), REDLOCK_OK);
        wait_until(servers_holding(&nodes, "job") == 0, 1000);
    }
    /* Not extended: it ends, and another client gets it. */
    assert_result(redlock_try(lock), REDLOCK_OK);
    const int64_t fence = redlock_fence(lock);
    assert_result(redlock_acquire(other, 4 * TTL_MAX), REDLOCK_OK);
    if (guarded) assert_true(redlock_fence(other) > fence);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    assert_result(redlock_release(other), REDLOCK_OK);
    redlock_lock_free(other);
    redlock_client_free(rival);
    close_lock(lock, client);
    servers_stop(&nodes);
}

static void classic_locks(void **state) {
    (void)state;
    all_of_a_lock("nnn", false);
    all_of_a_lock("nsn", false);
}

static void guarded_locks(void **state) {
    (void)state;
    all_of_a_lock("nnn", true);
    all_of_a_lock("sns", true);
}

static bool was_asked(struct server *node, const char *command) {
    redisReply *reply = server_ask(node, "INFO commandstats");
    const bool found = reply->type == REDIS_REPLY_STRING && strstr(reply->str, command);
    freeReplyObject(reply);
    return found;
}

/* Its fence is between that of the broken holder and those of all later ones. */
static void one_broken(const char *kinds) {
    struct servers nodes;
    struct redlock_break_report report;
    struct redlock_error error;
    start_quorum_of(&nodes, kinds);
    struct redlock_client *client = open_guarded(&nodes), *operator_ = open_guarded(&nodes);
    struct redlock_lock_options options = lock_options(TTL_MAX);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "job", &options),
                        *next = new_lock(operator_, "job", &options);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    redlock_break_report_init(&report);
    assert_result(redlock_break(operator_, "job", 3, NULL, &report, &error), REDLOCK_OK);
    assert_true(report.deleted && report.certain);
    assert_true(report.fence > redlock_fence(lock));
    assert_int_equal(servers_holding(&nodes, "job"), 0);
    int extended = redlock_extend(lock, 0);
    /* a busy machine answers too late now and then */
    for (int i = 0; i < 10 && extended == REDLOCK_NO_QUORUM; i++) {
        nap_ms(20);
        extended = redlock_extend(lock, 0);
    }
    assert_result(extended, REDLOCK_LOST);
    assert_result(redlock_acquire(next, 1000), REDLOCK_OK);
    assert_true(redlock_fence(next) > report.fence);
    for (unsigned i = 0; i < nodes.count; i++)
        assert_int_equal(was_asked(&nodes.at[i], "cmdstat_redlock.break:"), kinds[i] == 'n');
    close_lock(lock, client);
    close_lock(next, operator_);
    servers_stop(&nodes);
}

static void broken(void **state) {
    (void)state;
    one_broken("nnn");
    one_broken("sns");
}

static void several_resources(void **state) {
    static const struct redlock_bytes both[] = {{"a", 1}, {"b", 1}};
    (void)state;
    for (int guarded = 0; guarded < 2; guarded++) {
        struct servers nodes;
        start_nodes(&nodes, "nns");
        if (guarded) init_quorum(nodes.urls, TTL_MAX);
        struct redlock_client *client = open_mode(&nodes, guarded);
        const struct redlock_lock_options options = lock_options(TTL_MAX);
        struct redlock_lock *lock = NULL, *one = new_lock(client, "b", &options);
        struct redlock_error error;
        assert_result(redlock_lock_new_multi(client, both, 2, &options, &lock, &error), REDLOCK_OK);
        assert_result(redlock_try(lock), REDLOCK_OK);
        wait_until(servers_holding(&nodes, "a") == 3 && servers_holding(&nodes, "b") == 3, 1000);
        assert_result(redlock_try(one), REDLOCK_HELD);
        assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        assert_result(redlock_release(lock), REDLOCK_OK);
        assert_result(redlock_acquire(one, 1000), REDLOCK_OK);
        assert_result(redlock_try(lock), REDLOCK_HELD);
        wait_until(servers_holding(&nodes, "a") == 0, 1000); /* all or none */
        redlock_lock_free(lock);
        close_lock(one, client);
        servers_stop(&nodes);
    }
}

/* Programs that do not know the module: SET NX PX, and a compare-and-delete. */
static void strangers(void **state) {
    (void)state;
    struct servers nodes;
    start_nodes(&nodes, "nnn");
    struct redlock_client *client = open_mode(&nodes, false);
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    struct redlock_lock *lock = new_lock(client, "shared", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&nodes, "shared") == 3, 1000);
    for (unsigned i = 0; i < 3; i++) {
        redisReply *reply = server_ask(&nodes.at[i], "SET shared x NX PX 60000");
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
        freeReplyObject(reply);
    }
    assert_result(redlock_release(lock), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) command(&nodes.at[i], "SET shared " TOKEN " NX PX 400");
    const double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_HELD);
    /* The denial says when the stranger's key ends. */
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK);
    assert_true(now_ms() - began > 350);
    assert_less(now_ms() - began, 400 + 1000);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* Readers together and writers alone, in a quorum of both kinds: each node is asked in its own way.
 * And the last writer becomes a reader. */
static void readers_and_writers(const char *kinds, bool guarded) {
    struct servers nodes;
    start_nodes(&nodes, kinds);
    if (guarded) init_quorum(nodes.urls, TTL_MAX);
    struct redlock_client *client = open_mode(&nodes, guarded);
    const struct redlock_lock_options alone = lock_options(TTL_MAX);
    struct redlock_lock_options options = alone;
    options.shared = 1;
    struct redlock_lock *reader = new_lock(client, "job", &options),
                        *other = new_lock(client, "job", &options),
                        *writer = new_lock(client, "job", &alone);
    for (int64_t turn = 0, fence = 0; turn < 3; turn++) {
        assert_result(redlock_acquire(reader, 1000), REDLOCK_OK);
        assert_result(redlock_try(other), REDLOCK_OK);
        if (guarded) assert_true(redlock_fence(reader) >= fence);
        if (guarded) fence = redlock_fence(reader);
        wait_until(servers_holding(&nodes, "job") == nodes.count, 1000);
        assert_result(redlock_try(writer), REDLOCK_HELD);
        nap_ms(2 * TTL_MAX); /* both are renewed */
        assert_result(redlock_extend(other, 0), REDLOCK_OK);
        assert_result(redlock_release(reader), REDLOCK_OK);
        assert_result(redlock_try(writer), REDLOCK_HELD);
        assert_result(redlock_release(other), REDLOCK_OK);
        assert_result(redlock_acquire(writer, 1000), REDLOCK_OK);
        if (guarded) assert_true(redlock_fence(writer) > fence);
        fence = redlock_fence(writer);
        assert_result(redlock_try(reader), REDLOCK_HELD);
        assert_result(redlock_downgrade(writer), REDLOCK_OK);
        assert_result(redlock_acquire(reader, 1000), REDLOCK_OK);
        if (guarded) assert_true(redlock_fence(reader) >= fence);
        assert_result(redlock_release(writer), REDLOCK_OK);
        assert_result(redlock_release(reader), REDLOCK_OK);
        wait_until(servers_holding(&nodes, "job") == 0, 1000);
        assert_int_equal(servers_holding(&nodes, "redlock:shared:job"), 0);
    }
    redlock_lock_free(reader);
    redlock_lock_free(other);
    close_lock(writer, client);
    servers_stop(&nodes);
}

static void shared_locks(void **state) {
    (void)state;
    readers_and_writers("nnn", false);
    readers_and_writers("sns", false);
    readers_and_writers("nnn", true);
    readers_and_writers("nsn", true);
}

/* A denial reports how long the holder's key has left, so a native node is not asked for it. The
 * servers refuse tracking: else a waiter would look at the key for another reason. */
static void denials_say_when_to_come_back(void **state) {
    static const char *untracked[] = {"--rename-command", "CLIENT", "", "--loadmodule", NULL, NULL};
    static const char *const untracked_stock[] = {"--rename-command", "CLIENT", "", NULL};
    (void)state;
    struct servers nodes = {.count = 3};
    untracked[4] = module;
    for (unsigned i = 0; i < 3; i++) {
        server_start(&nodes.at[i], i == 0 ? untracked : untracked_stock);
        snprintf(nodes.urls + strlen(nodes.urls), sizeof nodes.urls - strlen(nodes.urls),
                 "%sredis://127.0.0.1:%d", i ? "," : "", nodes.at[i].port);
    }
    struct redlock_client *client = open_mode(&nodes, false), *rival = open_mode(&nodes, false);
    struct redlock_lock_options options = lock_options(400);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "soon", &options);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 30000;
    struct redlock_lock *other = new_lock(rival, "soon", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&nodes, "soon") == 3, 1000);
    const double began = now_ms();
    assert_result(redlock_acquire(other, 20000), REDLOCK_OK);
    assert_less(now_ms() - began, 400 + 5000); /* and not 30 s */
    assert_int_equal(calls_of(&nodes.at[0], "redlock.pttl"), 0);
    /* One of them was among the first two that denied. */
    assert_true(calls_of(&nodes.at[1], "pttl") + calls_of(&nodes.at[2], "pttl") > 0);
    redlock_lock_free(other);
    redlock_client_free(rival);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* ---- what ends locks on stock servers -------------------------------------------------------- */

/* If a rival gets the lock, the message shows whether there are two holders, or whether the machine
 * was too busy for the renewals. */
static void refused(struct redlock_lock *other, struct redlock_lock *lock,
                    const struct notices *notices) {
    const int result = redlock_try(other);
    const int64_t validity = redlock_validity_ms(lock);
    if (result == REDLOCK_OK && validity > 0)
        fail_msg("two holders: the first one's validity is still %lld ms", (long long)validity);
    assert_int_equal(notices->count[REDLOCK_CHANGE_LOST], 0);
    assert_result(result, REDLOCK_HELD);
}

/* A lock that is held and renewed while `harm` is done to all nodes. */
static void held_through(bool guarded, void (*harm)(struct server *server)) {
    struct servers nodes;
    struct notices notices;
    start_nodes(&nodes, "nnn");
    if (guarded) init_quorum(nodes.urls, TTL_MAX);
    struct redlock_client *client = open_mode(&nodes, guarded), *rival = open_mode(&nodes, guarded);
    struct redlock_lock *lock = renewed_lock(client, "held", &notices);
    const struct redlock_lock_options options = lock_options(TTL_MAX);
    struct redlock_lock *other = new_lock(rival, "held", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    const int64_t fence = redlock_fence(lock);
    for (int round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 3; i++) harm(&nodes.at[i]);
        refused(other, lock, &notices);
        const int renewed = notices.count[REDLOCK_CHANGE_RENEWED];
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > renewed, 5 * TTL_MAX);
        refused(other, lock, &notices);
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 0);
    assert_int_equal(nodes_ready(client), 3); /* no node recovers: it has lost nothing */
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_acquire(other, 2000), REDLOCK_OK);
    if (guarded) assert_true(redlock_fence(other) > fence);
    redlock_lock_free(other);
    redlock_client_free(rival);
    close_lock(lock, client);
    servers_stop(&nodes);
}

static void flush(struct server *server) { command(server, "FLUSHALL"); }

static void delete_key(struct server *server) { command(server, "DEL held redlock:node"); }

/* The server may delete any key, and has to. */
static void evict(struct server *server) {
    command(server, "CONFIG SET maxmemory-policy allkeys-random");
    redisReply *reply = server_ask(server, "INFO memory");
    const char *used = strstr(reply->str, "used_memory:");
    assert_non_null(used);
    char limit[80];
    snprintf(limit, sizeof limit, "CONFIG SET maxmemory %lld", atoll(used + 12) + 400000);
    freeReplyObject(reply);
    command(server, limit);
    freeReplyObject(server_ask(
        server, "EVAL %s 0",
        "for i = 1, 3000 do redis.call('SET', 'filler:' .. i, string.rep('x', 1000)) end"));
    for (int i = 0; i < 200; i++)
        freeReplyObject(server_ask(server, "SET filler-%d %1000d PX 1000", i, i));
    reply = server_ask(server, "INFO stats");
    const char *evicted = strstr(reply->str, "evicted_keys:");
    assert_non_null(evicted);
    assert_true(atoll(evicted + 13) > 0);
    freeReplyObject(reply);
    command(server, "CONFIG SET maxmemory 0");
}

static void flushed(void **state) {
    (void)state;
    held_through(false, flush);
    held_through(true, flush);
}

static void deleted(void **state) {
    (void)state;
    held_through(false, delete_key);
    held_through(true, delete_key);
}

static void evicted(void **state) {
    (void)state;
    held_through(false, evict);
    held_through(true, evict);
}

/* The servers' wall clocks, which the test sets; the servers of one test step together. */
static struct {
    char path[64];
    int64_t *ahead_us;
} clocks;

static void step_clocks(struct server *server) {
    static const int64_t hours[] = {1, -1, 100, 0, -30};
    static int at;
    *clocks.ahead_us = hours[at++ / 3 % 5] * 3600 * INT64_C(1000000);
    redisReply *reply = server_ask(server, "TIME");
    const double ahead_s = atof(reply->element[0]->str) - (double)time(NULL);
    assert_in_range(ahead_s - (double)*clocks.ahead_us / 1e6 + 60, 0, 120);
    freeReplyObject(reply);
}

/* On stock servers a step forward ends every lock, and a step back prolongs it. */
static void clocks_step(void **state) {
    (void)state;
    const char *shim = getenv("STEPCLOCK");
    if (!shim || shim[0] == '\0') skip();
    snprintf(clocks.path, sizeof clocks.path, "/tmp/redlock-test-clock-XXXXXX");
    int fd = mkstemp(clocks.path);
    assert_true(fd >= 0 && ftruncate(fd, sizeof(int64_t)) == 0);
    clocks.ahead_us = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(clocks.ahead_us != MAP_FAILED);
    close(fd);
    setenv("STEPCLOCK_FILE", clocks.path, 1);
    setenv("STEPCLOCK_RUNS", "1", 1);
    setenv("LD_PRELOAD", shim, 1); /* of the servers: this process has begun */
    held_through(false, step_clocks);
    *clocks.ahead_us = 0;
    held_through(true, step_clocks);
    unsetenv("LD_PRELOAD");
    munmap(clocks.ahead_us, sizeof(int64_t));
    unlink(clocks.path);
}

/* Made a replica, and master again: the same process and table. While it is a replica it refuses
 * votes. */
static void round_trip(void **state) {
    (void)state;
    struct servers nodes;
    struct notices notices;
    start_quorum_of(&nodes, "nnn");
    struct redlock_client *client = open_guarded(&nodes);
    struct redlock_lock *lock = renewed_lock(client, "round", &notices);
    assert_result(redlock_try(lock), REDLOCK_OK);
    char to_first[64];
    snprintf(to_first, sizeof to_first, "REPLICAOF 127.0.0.1 %d", server_free_port());
    command(&nodes.at[2], to_first);
    wait_until(node_status(client, 2).verdict != REDLOCK_VERDICT_GRANTED, PATIENCE_MS);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    command(&nodes.at[2], "REPLICAOF NO ONE");
    wait_until(node_status(client, 2).verdict == REDLOCK_VERDICT_GRANTED, PATIENCE_MS);
    wait_until(granted_by(lock) == 3, PATIENCE_MS);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* ---- a quorum's life --------------------------------------------------------------------------
 */

/* Each node in turn is killed and started again, empty, while a lock is held and renewed. */
static void restarted_nodes_recover(const char *kinds) {
    struct servers nodes;
    struct notices notices;
    start_quorum_of(&nodes, kinds);
    struct redlock_client *client = open_guarded(&nodes);
    struct redlock_lock *lock = renewed_lock(client, "long", &notices);
    assert_result(redlock_try(lock), REDLOCK_OK);
    const int64_t fence = redlock_fence(lock);
    for (unsigned i = 0; i < nodes.count; i++) {
        char before[41];
        memcpy(before, node_status(client, i).run_id, sizeof before);
        server_restart(&nodes.at[i]);
        const double began = now_ms();
        wait_until(strcmp(node_status(client, i).run_id, before) != 0, PATIENCE_MS);
        wait_until(node_status(client, i).verdict == REDLOCK_VERDICT_GRANTED, PATIENCE_MS);
        assert_true(now_ms() - began > TTL_MAX / 2);              /* it has waited */
        wait_until(granted_by(lock) == nodes.count, PATIENCE_MS); /* repaired there */
        const int renewed = notices.count[REDLOCK_CHANGE_RENEWED];
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > renewed + 1, PATIENCE_MS);
        assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    }
    assert_int_equal(redlock_fence(lock), fence);
    assert_result(redlock_release(lock), REDLOCK_OK);
    /* No process is left that was there when the fence was granted. */
    struct redlock_client *late = open_guarded(&nodes);
    struct redlock_lock *next = renewed_lock(late, "long", &notices);
    assert_result(redlock_acquire(next, 2000), REDLOCK_OK);
    assert_true(redlock_fence(next) > fence);
    close_lock(next, late);
    close_lock(lock, client);
    servers_stop(&nodes);
}

static void nodes_recover(void **state) {
    (void)state;
    restarted_nodes_recover("nnn");
    restarted_nodes_recover("nsn");
}

static void members_are_replaced(void **state) {
    (void)state;
    struct servers nodes, four;
    struct notices notices;
    struct redlock_error error = {0};
    struct redlock_quorum_options options;
    start_quorum_of(&nodes, "nnn");
    four = nodes;
    server_start(&four.at[3], native_arguments);
    four.count = 4;
    snprintf(four.urls + strlen(four.urls), sizeof four.urls - strlen(four.urls),
             ",redis://127.0.0.1:%d", four.at[3].port);
    struct redlock_client *client = open_guarded(&four);
    struct redlock_lock *lock = renewed_lock(client, "kept", &notices);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_quorum_options_init(&options);
    struct redlock_client *operator_ = open_guarded(&four);
    if (redlock_quorum_add(operator_, 3, &options, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    char id[17];
    memcpy(id, node_status(operator_, 0).node_id, sizeof id);
    wait_until(nodes_ready(client) == 4, PATIENCE_MS);
    if (redlock_quorum_remove(operator_, id, &options, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    wait_until(node_status(client, 0).verdict == REDLOCK_VERDICT_FOREIGN, PATIENCE_MS);
    wait_until(granted_by(lock) == 3, PATIENCE_MS);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(natives(client), 4);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(operator_);
    close_lock(lock, client);
    servers_stop(&four);
}

/* ---- from stock to native ----------------------------------------------------------------------
 */

/* One server after the other is started again with the module. Clients that connected before the
 * upgrade stay, and hold a lock through all of it; others come and go. */
static void upgraded(void **state) {
    (void)state;
    struct servers nodes;
    struct notices notices, brief;
    start_quorum_of(&nodes, "sss");
    struct redlock_client *client = open_guarded(&nodes), *worker = open_guarded(&nodes);
    struct redlock_lock *lock = renewed_lock(client, "through", &notices);
    struct redlock_lock *work = renewed_lock(worker, "work", &brief);
    assert_result(redlock_try(lock), REDLOCK_OK);
    const int64_t first = redlock_fence(lock);
    int64_t fence = 0;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(natives(client), i);
        nodes.at[i].arguments = native_arguments;
        server_restart(&nodes.at[i]);
        wait_until(node_status(client, i).native == 1, PATIENCE_MS);
        for (bool back = false; !back;) {
            back = node_status(client, i).verdict == REDLOCK_VERDICT_GRANTED;
            assert_result(redlock_acquire(work, 5000), REDLOCK_OK);
            if (redlock_fence(work) <= fence) fail_msg("a fence came twice");
            fence = redlock_fence(work);
            assert_result(redlock_release(work), REDLOCK_OK);
        }
        wait_until(granted_by(lock) == 3, PATIENCE_MS);
        /* As docs/inside/guarded.md asks of an operator with three servers. */
        nap_ms(TTL_MAX);
        assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    }
    assert_int_equal(natives(client), 3);
    assert_int_equal(redlock_fence(lock), first);
    assert_result(redlock_release(lock), REDLOCK_OK);
    close_lock(work, worker);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* False also while the server is loading its data. */
static bool is_there(struct server *server, const char *key) {
    redisReply *reply = server_ask(server, "EXISTS %s", key);
    const bool there = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    freeReplyObject(reply);
    return there;
}

/* The server keeps its data over the restart: the stock record stays among the keys. It makes no
 * vote, and a client without a mode is guarded all the same. */
static void a_record_from_before_the_module(void **state) {
    static const char *persistent[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    static const char *upgraded_too[] = {
        "--appendonly", "yes", "--appendfsync", "always", "--loadmodule", NULL, NULL};
    (void)state;
    struct servers nodes = {.count = 1};
    upgraded_too[5] = module;
    server_start(&nodes.at[0], persistent);
    snprintf(nodes.urls, sizeof nodes.urls, "redis://127.0.0.1:%d", nodes.at[0].port);
    init_quorum(nodes.urls, TTL_MAX);
    nodes.at[0].arguments = upgraded_too;
    server_restart(&nodes.at[0]);
    wait_until(is_there(&nodes.at[0], "redlock:node"), PATIENCE_MS);
    struct redlock_client *client = open_calm(&nodes); /* mode auto */
    wait_until(redlock_client_mode(client) == REDLOCK_MODE_GUARDED, PATIENCE_MS);
    struct notices notices;
    struct redlock_lock *lock = renewed_lock(client, "x", &notices);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(node_status(client, 0).verdict, REDLOCK_VERDICT_NO_RECORD);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* A running server unloads the module, under a client that is connected. */
static void unloaded(void **state) {
    (void)state;
    const char *const arguments[] = {"--loadmodule", module, "--enable-module-command", "yes",
                                     NULL};
    struct servers nodes = {.count = 1};
    struct notices notices;
    if (servers_version() < 700) skip();
    server_start(&nodes.at[0], arguments);
    snprintf(nodes.urls, sizeof nodes.urls, "redis://127.0.0.1:%d", nodes.at[0].port);
    struct redlock_client *client = open_calm(&nodes);
    struct redlock_lock *lock = renewed_lock(client, "one", &notices);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(natives(client), 1);
    assert_result(redlock_release(lock), REDLOCK_OK);
    /* No lock is left, so the module goes. The next vote finds out. */
    redisReply *reply = server_ask(&nodes.at[0], "MODULE UNLOAD redlock");
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("%s", reply->str);
    freeReplyObject(reply);
    assert_result(redlock_acquire(lock, PATIENCE_MS), REDLOCK_OK);
    assert_int_equal(natives(client), 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* The rules of docs/operate/acl.md: the module's commands alone. */
static void least_permissions(void **state) {
    static const char classic[] =
        "+redlock.hello +redlock.lock +redlock.unlock +redlock.acquire +redlock.extend "
        "+redlock.release +redlock.pttl +info";
    static const char guarded[] =
        "~redlock:node +redlock.raise +redlock.confirm +redlock.state +redlock.record "
        "+redlock.recordwrite +redlock.fences +hello +client|tracking";
    (void)state;
    if (servers_version() < 700) skip(); /* client|tracking */
    for (int mode = 0; mode < 2; mode++) {
        struct servers nodes;
        start_nodes(&nodes, "nnn");
        nodes.urls[0] = '\0';
        for (unsigned i = 0; i < 3; i++) {
            char rules[600];
            snprintf(rules, sizeof rules,
                     "ACL SETUSER locks on >pw resetkeys ~lock:* resetchannels -@all %s %s",
                     classic, mode ? guarded : "");
            command(&nodes.at[i], rules);
            snprintf(nodes.urls + strlen(nodes.urls), sizeof nodes.urls - strlen(nodes.urls),
                     "%sredis://locks:pw@127.0.0.1:%d", i ? "," : "", nodes.at[i].port);
        }
        if (mode) init_quorum(nodes.urls, TTL_MAX);
        struct redlock_client_options options = guarded_options();
        options.mode = mode ? REDLOCK_MODE_GUARDED : REDLOCK_MODE_CLASSIC;
        options.key_prefix = "lock:";
        struct notices notices = {0};
        struct redlock_client *client = open_guarded_at(nodes.urls, &options);
        struct redlock_lock *lock = renewed_lock(client, "x", &notices);
        assert_result(redlock_try(lock), REDLOCK_OK);
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > 0, PATIENCE_MS);
        wait_until(granted_by(lock) == 3, PATIENCE_MS);
        assert_result(redlock_release(lock), REDLOCK_OK);
        if (mode) assert_int_equal(stats_of(client).extensions_failed, 0);
        for (unsigned i = 0; i < 3; i++)
            if (mode) assert_int_equal(node_status(client, i).verdict, REDLOCK_VERDICT_GRANTED);
        close_lock(lock, client);
        servers_stop(&nodes);
    }
}

/* A user that may not use the module is not served as by a stock node. */
static void not_permitted(void **state) {
    (void)state;
    struct servers nodes;
    start_nodes(&nodes, "n");
    command(&nodes.at[0], "ACL SETUSER old on >pw ~* &* +@all -redlock.hello");
    snprintf(nodes.urls, sizeof nodes.urls, "redis://old:pw@127.0.0.1:%d", nodes.at[0].port);
    struct redlock_client *client = open_calm(&nodes);
    assert_int_equal(node_status(client, 0).verdict, REDLOCK_VERDICT_NOPERM);
    assert_non_null(strstr(node_status(client, 0).text, "+redlock.hello"));
    struct redlock_lock *lock = new_lock(client, "x", NULL);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(server_ask_integer(&nodes.at[0], "EXISTS x"), 0);
    close_lock(lock, client);
    servers_stop(&nodes);
}

/* ---- what servers report -----------------------------------------------------------------------
 */

static void reported(void **state) {
    (void)state;
    struct servers nodes;
    struct redlock_server infos[3];
    start_quorum_of(&nodes, "nsn");
    struct redlock_client *client = open_guarded(&nodes);
    wait_until(nodes_ready(client) == 3, PATIENCE_MS);
    for (int i = 0; i < 3; i++) redlock_server_init(&infos[i]);
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, infos, 3), REDLOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(infos[i].native, i != 1);
        assert_int_equal(infos[i].mirror, i != 1 ? 1 : -1);
        assert_int_equal(infos[i].module[0] != '\0', i != 1);
        assert_string_equal(infos[i].quorum, infos[0].quorum);
        assert_int_equal(strlen(infos[i].quorum), 16);
        assert_int_equal(infos[i].stale, 0);
        assert_int_equal(infos[i].announces, 1);
    }
    /* The module's identity, not the process's. */
    assert_string_not_equal(node_status(client, 0).run_id, infos[0].run_id);
    assert_string_equal(node_status(client, 1).run_id, infos[1].run_id);
    redlock_client_free(client);
    servers_stop(&nodes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classic_locks),
        cmocka_unit_test(guarded_locks),
        cmocka_unit_test(broken),
        cmocka_unit_test(several_resources),
        cmocka_unit_test(strangers),
        cmocka_unit_test(shared_locks),
        cmocka_unit_test(denials_say_when_to_come_back),
        cmocka_unit_test(flushed),
        cmocka_unit_test(deleted),
        cmocka_unit_test(evicted),
        cmocka_unit_test(clocks_step),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(nodes_recover),
        cmocka_unit_test(members_are_replaced),
        cmocka_unit_test(upgraded),
        cmocka_unit_test(a_record_from_before_the_module),
        cmocka_unit_test(unloaded),
        cmocka_unit_test(least_permissions),
        cmocka_unit_test(not_permitted),
        cmocka_unit_test(reported),
    };
    module = getenv("REDLOCK_MODULE");
    if (!module || module[0] == '\0') {
        puts("skipped: REDLOCK_MODULE does not name the module");
        return 77;
    }
    native_arguments[1] = module;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
