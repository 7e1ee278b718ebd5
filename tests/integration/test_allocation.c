/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every allocation made to fail in turn, while a client is opened, takes a lock, extends it, looks
 * at it, releases it and is closed. For n = 1, 2, 3, ... until a whole run goes by without a
 * failure: a clear error, no crash, no leak, no key left behind, no hang, and once memory is there
 * again the same client takes the same lock.
 *
 * Linked twice, see failing.h: with --wrap, each and every allocation of the library's own code;
 * with a malloc of our own, those inside of other libraries too, in growing steps, because TLS
 * makes thousands.
 */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing.h"
#include "guarded.h"

#define NODES 3
#define TTL_MS 60000 /* what is left behind stays: a key that is gone was deleted */
#define RUN_SECONDS_MAX 30

enum ending { RELEASED, FREED_WHILE_HELD };

struct scenario {
    const char *name;
    struct servers *servers;
    size_t resources;
    int service_thread;
    enum ending ending;
    enum failing_how how;
    const char *ca_file; /* TLS when given */
    bool is_configured;  /* a file names the nodes */
};

static struct servers scripted, scriptless, encrypted, recorded;
static char ca_file[128], prefix[32];
static const struct redlock_bytes names[] = {{"first", 5}, {"second", 6}, {"third", 5}};
static atomic_int
    connections_lost; /* as far as the library tells in its log, since the run began */

static const char *const no_scripts[] = {"--rename-command", "EVAL", "",  "--rename-command",
                                         "EVALSHA",          "",     NULL};

static void start_scriptless(void) {
    scriptless.count = NODES;
    for (unsigned i = 0; i < NODES; i++) {
        server_start(&scriptless.at[i], no_scripts);
        snprintf(scriptless.urls + strlen(scriptless.urls), 40, " redis://127.0.0.1:%d",
                 scriptless.at[i].port);
    }
}

static void count_lost(void *context, int level, const char *text) {
    (void)context, (void)text;
    if (level <= REDLOCK_LOG_WARNING || strstr(text, "second connection"))
        atomic_fetch_add(&connections_lost, 1);
}

/* A test that failed may have left it on. */
static int anew(void **state) {
    (void)state;
    failing_end();
    return 0;
}

/* ---- what must hold after each step ---- */

/* Of this run: a node that a closed client had given up may still carry out what it had
 * received. */
static unsigned keys_left(const struct scenario *scenario) {
    unsigned left = 0;
    for (unsigned i = 0; i < NODES; i++) {
        redisReply *reply = server_ask(&scenario->servers->at[i], "KEYS %s*", prefix);
        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        left += (unsigned)reply->elements;
        freeReplyObject(reply);
    }
    return left;
}

/* Once gone is enough: what a minority is still to be asked has its release queued behind it. */
static void assert_no_key(const struct scenario *scenario, struct redlock_client *client,
                          unsigned long n) {
    double until = now_ms() + 3000;
    unsigned left;
    while ((left = keys_left(scenario)) > 0 && now_ms() < until) {
        if (client && !scenario->service_thread) redlock_process(client);
        nap_ms(5);
    }
    if (left > 0) fail_msg("%s, allocation %lu: %u keys are left behind", scenario->name, n, left);
}

static void assert_clear(const struct scenario *scenario, unsigned long n, int result,
                         const struct redlock_error *error) {
    if (result == REDLOCK_OK || result != error->result || strlen(error->text) < 10)
        fail_msg("%s, allocation %lu: result %d with error %d \"%s\"", scenario->name, n, result,
                 error->result, error->text);
}

static void assert_one_of(const struct scenario *scenario, unsigned long n, const char *what,
                          int result, const int *allowed) {
    for (; *allowed != 1; allowed++) {
        if (*allowed == result) return;
    }
    fail_msg("%s, allocation %lu: %s is %d (%s)", scenario->name, n, what, result,
             redlock_result_text(result));
}

/* ---- one run ---- */

static int open_one(const struct scenario *scenario, struct redlock_client **client,
                    struct redlock_error *error) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.service_thread = scenario->service_thread;
    options.mode = scenario->servers == &recorded ? REDLOCK_MODE_GUARDED : REDLOCK_MODE_CLASSIC;
    options.key_prefix = prefix;
    options.log = count_lost;
    options.log_level = REDLOCK_LOG_INFO;
    options.tls_ca_file = scenario->ca_file;
    options.node_timeout_ms = 100;
    const char *nodes = scenario->is_configured ? NULL : scenario->servers->urls;
    return redlock_client_open(nodes, &options, client, error);
}

static int new_one(const struct scenario *scenario, struct redlock_client *client,
                   struct redlock_lock **lock, struct redlock_error *error) {
    struct redlock_lock_options options = lock_options(TTL_MS);
    options.owner = "someone";
    return redlock_lock_new_multi(client, names, scenario->resources, &options, lock, error);
}

/* When memory is there again, so must the lock be. One excuse: OpenSSL calls a CA certificate well
 * loaded although it had no memory to decode its key. Such a client trusts no server from then on,
 * and says so. */
static void assert_excusable(const struct scenario *scenario, unsigned long n, int result,
                             struct redlock_client *client) {
    for (unsigned i = 0; i < NODES; i++) {
        struct redlock_node_status node = {.size = sizeof node};
        assert_result(redlock_client_node(client, i, &node), REDLOCK_OK);
        if (scenario->ca_file && node.verdict == REDLOCK_VERDICT_TLS &&
            strstr(node.text, "certificate"))
            continue;
        fail_msg("%s, allocation %lu: no lock ever again: %s; %s: %s %s", scenario->name, n,
                 redlock_result_text(result), node.url, redlock_verdict_text(node.verdict),
                 node.text);
    }
}

static void no_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    (void)context, (void)node, (void)what, (void)resource, (void)bytes;
}

static void no_reader(void *context, size_t resource, size_t node, const void *token, size_t bytes,
                      int64_t remaining_ms) {
    (void)context, (void)resource, (void)node, (void)token, (void)bytes, (void)remaining_ms;
}

static void observe(const struct scenario *scenario, unsigned long n,
                    struct redlock_client *client) {
    static const int seen[] = {REDLOCK_OK, REDLOCK_NO_MEMORY, REDLOCK_NO_QUORUM, 1};
    const struct redlock_bytes resources[] = {{"first", 5}, {"none", 4}};
    struct redlock_view views[2 * NODES];
    struct redlock_queue_view queues[2 * NODES];
    struct redlock_readers_view readers[2 * NODES];
    struct redlock_walk walk;
    redlock_walk_init(&walk);
    assert_one_of(scenario, n, "redlock_scan()", redlock_scan(client, &walk, no_key, NULL), seen);
    assert_one_of(scenario, n, "redlock_survey()",
                  redlock_survey(client, resources, 2, views, queues), seen);
    assert_one_of(scenario, n, "redlock_readers()",
                  redlock_readers(client, resources, 2, 9, no_reader, NULL, readers), seen);
}

/* A single failed allocation costs one node or the call, never the lock to somebody else (HELD: by
 * a key of our own).
 */
static void use(const struct scenario *scenario, unsigned long n, struct redlock_client *client,
                struct redlock_lock *lock) {
    static const int taken[] = {REDLOCK_OK, REDLOCK_NO_MEMORY, REDLOCK_NO_QUORUM, 1};
    static const int released[] = {REDLOCK_OK, REDLOCK_NO_QUORUM, 1};
    /* several resources; without scripts */
    static const int downgraded[] = {REDLOCK_OK,           REDLOCK_NO_MEMORY, REDLOCK_NO_QUORUM,
                                     REDLOCK_BAD_ARGUMENT, REDLOCK_NO_SHARED, 1};
    struct redlock_view views[NODES];
    int result = redlock_try(lock);
    assert_one_of(scenario, n, "redlock_try()", result, taken);
    if (result == REDLOCK_OK) {
        assert_true(redlock_validity_ms(lock) > TTL_MS / 2);
        assert_one_of(scenario, n, "redlock_extend()", redlock_extend(lock, TTL_MS + 10000), taken);
        assert_one_of(scenario, n, "redlock_look()", redlock_peek(client, "first", 5, views, NODES),
                      taken);
        observe(scenario, n, client);
        assert_one_of(scenario, n, "redlock_downgrade()", redlock_downgrade(lock), downgraded);
        if (scenario->ending == RELEASED)
            assert_one_of(scenario, n, "redlock_release()", redlock_release(lock), released);
    }
    if (scenario->ending == FREED_WHILE_HELD) return;
    if (scenario->how == FAIL_ALL_LATER) failing_end(); /* memory is there again */
    if (!failing_hit()) return;
    assert_no_key(scenario, client, n);
    result = redlock_acquire(lock, 2000);
    if (result != REDLOCK_OK) {
        assert_excusable(scenario, n, result, client);
        return;
    }
    assert_one_of(scenario, n, "the second redlock_release()", redlock_release(lock), released);
    assert_no_key(scenario, client, n);
}

/* Freed without a release: the client's last node timeout must do for it, unless a connection was
 * lost by then. */
static void assert_no_key_at_the_end(const struct scenario *scenario, unsigned long n) {
    if (atomic_load(&connections_lost) == 0) assert_no_key(scenario, NULL, n);
}

/* Returns false when nothing failed: the sweep is over. */
static bool run_once(const struct scenario *scenario, unsigned long n) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    static unsigned long runs;
    snprintf(prefix, sizeof prefix, "run%lu:", ++runs);
    atomic_store(&connections_lost, 0);
    alarm(RUN_SECONDS_MAX); /* a hang ends the program */
    failing_begin(n, scenario->how);
    int result = open_one(scenario, &client, &error);
    if (result != REDLOCK_OK) {
        failing_end();
        assert_clear(scenario, n, result, &error);
        assert_null(client);
        return true;
    }
    redlock_client_wait_ready(client, 1000);
    result = new_one(scenario, client, &lock, &error);
    if (result != REDLOCK_OK)
        assert_clear(scenario, n, result, &error);
    else
        use(scenario, n, client, lock);
    redlock_lock_free(lock);
    redlock_client_free(client);
    bool hit = failing_hit();
    failing_end();
    assert_no_key_at_the_end(scenario, n);
    return hit;
}

static bool run(const struct scenario *scenario, unsigned long n) {
    long before = failing_live();
    bool hit = run_once(scenario, n);
    long leaked = failing_live() - before;
    /* What others keep for later, they keep once. */
    for (int i = 0; i < 3 && leaked > 0 && !failing_live_is_exact(); i++) {
        before = failing_live();
        run_once(scenario, n);
        leaked = failing_live() - before;
    }
    if (leaked != 0 && (leaked > 0 || failing_live_is_exact()))
        fail_msg("%s, allocation %lu: %ld allocations are leaked", scenario->name, n, leaked);
    return hit;
}

/* Where all later ones fail, neighbours differ little, and each run waits for nodes to be connected
 * anew. */
static unsigned long step_after(const struct scenario *scenario, unsigned long n) {
    if (scenario->how == FAIL_ALL_LATER) return 1 + n / 8;
    return failing_live_is_exact() ? 1 : 1 + n / 25;
}

static void sweep(const struct scenario *scenario) {
    unsigned long n = 1, runs = 0;
    double began = now_ms();
    run_once(scenario, 1000000000); /* what is set up once in a process is set up now */
    for (; run(scenario, n); runs++) n += step_after(scenario, n);
    printf("%s: %lu runs, up to allocation %lu, %.1f s\n", scenario->name, runs, n - 1,
           (now_ms() - began) / 1e3);
    fflush(stdout);
    assert_true(
        n > 40); /* a client on three nodes cannot do with less: else nothing was made to fail */
}

/* ---- tests ---- */

static void one_fails_with_the_service_thread(void **state) {
    (void)state;
    sweep(&(struct scenario){"one resource, service thread", &scripted, 1, 1, RELEASED, FAIL_ONE,
                             NULL, false});
}

static void one_fails_without_a_thread(void **state) {
    (void)state;
    sweep(&(struct scenario){"one resource, no thread", &scripted, 1, 0, RELEASED, FAIL_ONE, NULL,
                             false});
}

static void one_fails_and_the_lock_is_freed_while_held(void **state) {
    (void)state;
    sweep(&(struct scenario){"freed while held", &scripted, 1, 1, FREED_WHILE_HELD, FAIL_ONE, NULL,
                             false});
}

static void one_fails_with_several_resources(void **state) {
    (void)state;
    sweep(&(struct scenario){"three resources", &scripted, 3, 1, RELEASED, FAIL_ONE, NULL, false});
}

static void one_fails_with_transactions(void **state) {
    (void)state;
    sweep(&(struct scenario){"three resources, transactions", &scriptless, 3, 1, RELEASED, FAIL_ONE,
                             NULL, false});
}

static void all_later_ones_fail(void **state) {
    (void)state;
    sweep(&(struct scenario){"all later ones too", &scripted, 1, 1, RELEASED, FAIL_ALL_LATER, NULL,
                             false});
}

static void all_later_ones_fail_with_transactions(void **state) {
    (void)state;
    sweep(&(struct scenario){"transactions, all later ones too", &scriptless, 2, 0, RELEASED,
                             FAIL_ALL_LATER, NULL, false});
}

static void one_fails_in_guarded_mode(void **state) {
    (void)state;
    sweep(&(struct scenario){"guarded", &recorded, 1, 1, RELEASED, FAIL_ONE, NULL, false});
}

static void one_fails_in_guarded_mode_with_several_resources(void **state) {
    (void)state;
    sweep(&(struct scenario){"guarded, three resources, no thread", &recorded, 3, 0, RELEASED,
                             FAIL_ONE, NULL, false});
}

static void all_later_ones_fail_in_guarded_mode(void **state) {
    (void)state;
    sweep(&(struct scenario){"guarded, all later ones too", &recorded, 1, 1, FREED_WHILE_HELD,
                             FAIL_ALL_LATER, NULL, false});
}

/* ---- a release, without memory ---- */

enum { OTHERS = 20 };

/* A node that owes answers keeps the memory of what it was asked; so nothing is left over of what
 * the others gave back. A lock that is held is released all the same: one round is in reserve for
 * that. */
static void a_release_needs_no_memory(void **state) {
    const struct scenario scenario = {
        "released without memory", &scripted, 1, 0, RELEASED, FAIL_ALL_LATER, NULL, false};
    struct redlock_client *client = NULL;
    struct redlock_lock *held = NULL, *others[OTHERS];
    struct redlock_lock_options options = lock_options(TTL_MS);
    struct redlock_error error = {0};
    (void)state;
    snprintf(prefix, sizeof prefix, "reserve:");
    assert_result(open_one(&scenario, &client, &error), REDLOCK_OK);
    redlock_client_wait_ready(client, 2000);
    assert_result(new_one(&scenario, client, &held, &error), REDLOCK_OK);
    assert_result(redlock_acquire(held, 2000), REDLOCK_OK);
    server_pause(&scripted.at[2]);
    for (int i = 0; i < OTHERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "other:%d", i);
        others[i] = new_lock(client, name, &options);
        if (i < OTHERS / 2) assert_result(redlock_acquire(others[i], 2000), REDLOCK_OK);
    }
    failing_begin(1, FAIL_ALL_LATER);
    assert_result(redlock_acquire(others[OTHERS - 1], 0), REDLOCK_NO_MEMORY);
    assert_result(redlock_release(held), REDLOCK_OK);
    failing_end();
    server_resume(&scripted.at[2]);
    for (int i = 0; i < OTHERS / 2; i++) assert_result(redlock_release(others[i]), REDLOCK_OK);
    assert_no_key(&scenario, client, 0);
    assert_result(redlock_acquire(others[OTHERS - 1], 2000), REDLOCK_OK);
    for (int i = 0; i < OTHERS; i++) redlock_lock_free(others[i]);
    redlock_lock_free(held);
    redlock_client_free(client);
}

static int start(void **state) {
    (void)state;
    servers_start(&scripted, NODES);
    start_quorum(&recorded, NODES, 10 * TTL_MS);
    start_scriptless();
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&scripted);
    servers_stop(&scriptless);
    servers_stop(&encrypted);
    servers_stop(&recorded);
    return 0;
}

/* ---- TLS, where failures reach into OpenSSL ---- */

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static bool listens_with_tls(struct server *server, int port) {
    redisReply *reply = server_ask(server, "CONFIG SET tls-port %d", port);
    bool listens = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return listens;
}

/* The certificate is its own authority and lies in the first server's directory. */
static void start_encrypted(void) {
    char command[512];
    servers_start(&encrypted, NODES);
    const char *dir = encrypted.at[0].dir;
    snprintf(ca_file, sizeof ca_file, "%s/cert.pem", dir);
    snprintf(
        command, sizeof command,
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test "
        "-addext subjectAltName=IP:127.0.0.1 -keyout %s/key.pem -out %s 2>%s/openssl.log",
        dir, ca_file, dir);
    assert_int_equal(system(command), 0);
    encrypted.urls[0] = 0;
    for (unsigned i = 0; i < NODES; i++) {
        int port;
        freeReplyObject(
            server_ask(&encrypted.at[i],
                       "CONFIG SET tls-auth-clients no tls-cert-file %s tls-key-file %s/key.pem",
                       ca_file, dir));
        do port = free_port();
        while (!listens_with_tls(&encrypted.at[i], port));
        snprintf(encrypted.urls + strlen(encrypted.urls), 40, " rediss://127.0.0.1:%d", port);
    }
}

static void one_fails_with_tls(void **state) {
    (void)state;
    if (!servers_know_tls()) {
        puts("this redis-server was built without TLS");
        skip();
    }
    start_encrypted();
    sweep(&(struct scenario){"TLS", &encrypted, 1, 1, RELEASED, FAIL_ONE, ca_file, false});
}

static void one_fails_with_a_file(void **state) {
    (void)state;
    char path[100];
    snprintf(path, sizeof path, "%s/redlock.conf", scripted.at[0].dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "tls-server-name = x\nnode-timeout = 100ms\n[p]\nnodes = %s\n[q]\nprefix = q\n",
            scripted.urls);
    assert_int_equal(fclose(file), 0);
    setenv("REDLOCK_CONFIG", path, 1);
    setenv("REDLOCK_PROFILE", "p", 1);
    sweep(&(struct scenario){"configured", &scripted, 1, 0, RELEASED, FAIL_ONE, NULL, true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_fails_with_the_service_thread, anew),
        cmocka_unit_test_setup(one_fails_without_a_thread, anew),
        cmocka_unit_test_setup(one_fails_and_the_lock_is_freed_while_held, anew),
        cmocka_unit_test_setup(one_fails_with_several_resources, anew),
        cmocka_unit_test_setup(one_fails_with_transactions, anew),
        cmocka_unit_test_setup(all_later_ones_fail, anew),
        cmocka_unit_test_setup(all_later_ones_fail_with_transactions, anew),
        cmocka_unit_test_setup(one_fails_in_guarded_mode, anew),
        cmocka_unit_test_setup(one_fails_in_guarded_mode_with_several_resources, anew),
        cmocka_unit_test_setup(all_later_ones_fail_in_guarded_mode, anew),
        cmocka_unit_test_setup(a_release_needs_no_memory, anew),
        cmocka_unit_test_setup(one_fails_with_a_file, anew),
        cmocka_unit_test_setup(one_fails_with_tls, anew),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
