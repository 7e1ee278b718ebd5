/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How nodes are reached: passwords, users, the least permissions of docs/operate/acl.md, databases,
 * Unix sockets, TLS, and one server under two names.
 */
#include "notices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void command(struct server *server, const char *text) {
    redisReply *reply = server_ask(server, text);
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("%s: %s", text, reply->str);
    freeReplyObject(reply);
}

static void collect_log(void *context, int level, const char *text) {
    char *all = context;
    (void)level;
    size_t used = strlen(all);
    snprintf(all + used, 4000 - used, "%s\n", text);
}

static char logged[4000];

static struct redlock_client *open_url(const char *url,
                                       const struct redlock_client_options *given) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (given)
        options = *given;
    else
        redlock_client_options_init(&options);
    options.node_timeout_ms = 300;
    logged[0] = '\0';
    options.log = collect_log;
    options.log_context = logged;
    options.log_level = REDLOCK_LOG_DEBUG;
    if (redlock_client_open(url, &options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    redlock_client_wait_ready(client, 2000);
    return client;
}

static void assert_works(const char *url, const struct redlock_client_options *options) {
    struct redlock_client *client = open_url(url, options);
    struct redlock_node_status status = {.size = sizeof status};
    assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
    if (status.verdict != REDLOCK_VERDICT_GRANTED)
        fail_msg("%s: %s", redlock_verdict_text(status.verdict), status.text);
    struct redlock_lock *lock = new_lock(client, "works", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Refused with this verdict, in words that contain `words` and never `secret`. */
static void assert_refused(const char *url, const struct redlock_client_options *options,
                           int expected, const char *words, const char *secret) {
    struct redlock_client *client = open_url(url, options);
    struct redlock_lock *lock = new_lock(client, "refused", NULL);
    struct redlock_node_status status = {.size = sizeof status};
    int verdict = -1;
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    redlock_verdicts(lock, &verdict, 1);
    assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
    if (verdict != expected)
        fail_msg("\"%s\" (%s), not \"%s\"", redlock_verdict_text(verdict), status.text,
                 redlock_verdict_text(expected));
    if (expected != REDLOCK_VERDICT_NOPERM)
        assert_int_equal(status.verdict, expected); /* that is of one call, not of the node */
    if (!strstr(status.text, words)) fail_msg("\"%s\" does not say \"%s\"", status.text, words);
    if (secret) {
        assert_null(strstr(status.text, secret));
        assert_null(strstr(status.url, secret));
        assert_null(strstr(logged, secret));
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- passwords and users ---- */

static void a_password(void **state) {
    (void)state;
    static const char *const arguments[] = {"--requirepass", "s3cret/@:,", NULL};
    struct server server = {.password = "s3cret/@:,"};
    char url[120];
    server_start(&server, arguments);
    snprintf(url, sizeof url, "redis://:s3cret%%2F%%40%%3A%%2C@127.0.0.1:%d", server.port);
    assert_works(url, NULL);
    snprintf(url, sizeof url, "redis://default:s3cret%%2F%%40%%3A%%2C@127.0.0.1:%d", server.port);
    assert_works(url, NULL);
    snprintf(url, sizeof url, "redis://:verywrong@127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_AUTH, "wrong user or password", "verywrong");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_AUTH, "requires a password", NULL);
    server_stop(&server);
}

static void a_user(void **state) {
    (void)state;
    struct server server = {0};
    char url[120];
    server_start(&server, NULL);
    command(&server, "ACL SETUSER worker on >hunter22 ~* +@all");
    command(&server, "ACL SETUSER guest on >hunter22 ~other:* +@all");
    snprintf(url, sizeof url, "redis://worker:hunter22@127.0.0.1:%d", server.port);
    assert_works(url, NULL);
    snprintf(url, sizeof url, "redis://worker:hunter33@127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_AUTH, "wrong user or password", "hunter33");
    snprintf(url, sizeof url, "redis://nobody:hunter22@127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_AUTH, "wrong user or password", "hunter22");
    /* A password for a server that has none would hide a mistake. */
    snprintf(url, sizeof url, "redis://:hunter22@127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_AUTH, "has no password", "hunter22");
    snprintf(url, sizeof url, "redis://guest:hunter22@127.0.0.1:%d", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_NOPERM, "", "hunter22");
    server_stop(&server);
}

/* Lines of docs/operate/acl.md. */
static void the_least_permissions_suffice(void **state) {
    (void)state;
    static const char *const rules[] = {
        "ACL SETUSER locks on >PASSWORD resetkeys ~lock:* %sredlock:node resetchannels -@all +set +get +del "
        "+exists +pttl +pexpire +eval +evalsha +info +hget",
        "ACL SETUSER locks on >PASSWORD resetkeys ~lock:* %sredlock:node resetchannels -@all +set +getrange "
        "+del +pttl +pexpire +watch +unwatch +multi +exec +discard +info +hget",
    };
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = "lock:";
    for (size_t i = 0; i < 2; i++) {
        struct server server = {0};
        char url[120], rule[300];
        server_start(&server, NULL);
        snprintf(rule, sizeof rule, rules[i], servers_version() >= 700 ? "%%R~" : "~");
        command(&server, rule);
        snprintf(url, sizeof url, "redis://locks:PASSWORD@127.0.0.1:%d", server.port);
        assert_works(url, &options);
        struct redlock_client *client = open_url(url, &options);
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
        assert_int_equal(status.uses_transactions, i == 1);
        assert_int_equal(strlen(status.run_id), 40);
        const struct redlock_bytes names[] = {{"a", 1}, {"b", 1}};
        struct redlock_lock *pair = NULL, *waiter = new_lock(client, "a", NULL);
        assert_result(redlock_lock_new_multi(client, names, 2, NULL, &pair, NULL), REDLOCK_OK);
        assert_result(redlock_try(pair), REDLOCK_OK);
        assert_result(redlock_acquire(waiter, 100), REDLOCK_HELD);
        assert_result(redlock_extend(pair, 0), REDLOCK_OK);
        assert_result(redlock_release(pair), REDLOCK_OK);
        redlock_lock_free(waiter);
        redlock_lock_free(pair);
        redlock_client_free(client);
        server_stop(&server);
    }
}

/* ---- databases and sockets ---- */

static void a_database(void **state) {
    (void)state;
    struct server server = {0};
    char url[120];
    server_start(&server, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/3", server.port);
    assert_works(url, NULL);
    struct redlock_client *client = open_url(url, NULL);
    struct redlock_lock *lock = new_lock(client, "third", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(server_ask_integer(&server, "EXISTS third"), 0);
    redisReply *keyspace = server_ask(&server, "INFO keyspace");
    assert_non_null(strstr(keyspace->str, "db3:keys=1"));
    freeReplyObject(keyspace);
    redlock_lock_free(lock);
    redlock_client_free(client);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/99", server.port);
    assert_refused(url, NULL, REDLOCK_VERDICT_UNFIT, "DB index is out of range", NULL);
    server_stop(&server);
}

static void a_unix_socket(void **state) {
    (void)state;
    static const char *const arguments[] = {"--unixsocket", "redis.sock", NULL};
    struct server server = {0};
    char url[120];
    server_start(&server, arguments);
    snprintf(url, sizeof url, "unix://%s/redis.sock", server.dir);
    assert_works(url, NULL);
    snprintf(url, sizeof url, "unix://%s/redis.sock?db=2", server.dir);
    assert_works(url, NULL);
    snprintf(url, sizeof url, "unix://%s/none.sock", server.dir);
    assert_refused(url, NULL, REDLOCK_VERDICT_REFUSED, "No such file", NULL);
    server_stop(&server);
}

/* ---- one server under two names ---- */

static void assert_twice_listed(const char *urls) {
    struct redlock_client *client = open_url(urls, NULL);
    struct redlock_lock *lock = new_lock(client, "twice", NULL);
    assert_result(redlock_acquire(lock, 500), REDLOCK_TWICE_LISTED);
    bool named = false;
    for (size_t i = 0; i < redlock_client_nodes(client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, i, &status), REDLOCK_OK);
        named = named || (status.verdict == REDLOCK_VERDICT_TWICE_LISTED &&
                          strstr(status.text, "same server as redis://"));
    }
    assert_true(named);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void one_server_listed_twice(void **state) {
    (void)state;
    static const char *const arguments[] = {"--unixsocket", "redis.sock", NULL};
    struct server server = {0}, other = {0};
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    char urls[300];
    server_start(&server, arguments);
    server_start(&other, NULL);
    snprintf(urls, sizeof urls, "redis://127.0.0.1:%d redis://127.0.0.1:%d/1", server.port,
             server.port);
    assert_result(redlock_client_open(urls, NULL, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "listed twice"));
    assert_null(client);
    snprintf(urls, sizeof urls, "redis://127.0.0.1:%d,redis://127.0.0.1:%d,redis://localhost:%d",
             server.port, other.port, server.port);
    assert_twice_listed(urls);
    snprintf(urls, sizeof urls, "redis://127.0.0.1:%d,redis://127.0.0.1:%d,unix://%s/redis.sock",
             server.port, other.port, server.dir);
    assert_twice_listed(urls);
    assert_int_equal(server_ask_integer(&server, "EXISTS twice") +
                         server_ask_integer(&other, "EXISTS twice"),
                     0);
    server_stop(&server);
    server_stop(&other);
}

/* ---- TLS, with certificates made here ---- */

static char pki[64];

static void shell(const char *format, ...) {
    char line[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int status = system(line); /* the test's own constant commands */
    if (status != 0) fail_msg("status %d: %s", status, line);
}

static void make_certificate(const char *name, const char *ca, const char *extension) {
    shell(
        "cd %s && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s.key -out %s.csr "
        "-subj /CN=%s "
        ">/dev/null 2>&1 && printf '%s' > %s.ext && openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key "
        "-CAcreateserial "
        "-days 2 -extfile %s.ext -out %s.pem >/dev/null 2>&1",
        pki, name, name, name, extension, name, name, ca, ca, name, name);
}

static const char *file_of(const char *name) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", pki, name);
    return path;
}

static struct server secure;
static char tls_port[8], secure_url[64];

static int start_secure(void **state) {
    static char files[3][128];
    static const char *arguments[] = {"--tls-port",
                                      tls_port,
                                      "--tls-ca-cert-file",
                                      files[0],
                                      "--tls-cert-file",
                                      files[1],
                                      "--tls-key-file",
                                      files[2],
                                      "--tls-auth-clients",
                                      "yes",
                                      NULL};
    (void)state;
    snprintf(pki, sizeof pki, "/tmp/redlock-test-XXXXXX");
    assert_non_null(mkdtemp(pki));
    for (int i = 0; i < 2; i++)
        shell(
            "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s.key -out "
            "%s.pem -days 2 "
            "-subj /CN=%s >/dev/null 2>&1",
            pki, i ? "stranger" : "ca", i ? "stranger" : "ca", i ? "stranger" : "ca");
    make_certificate("server", "ca", "subjectAltName=IP:127.0.0.1,DNS:redis.test");
    make_certificate("client", "ca", "extendedKeyUsage=clientAuth");
    make_certificate("intruder", "stranger", "extendedKeyUsage=clientAuth");
    snprintf(files[0], sizeof files[0], "%s", file_of("ca.pem"));
    snprintf(files[1], sizeof files[1], "%s", file_of("server.pem"));
    snprintf(files[2], sizeof files[2], "%s", file_of("server.key"));
    snprintf(tls_port, sizeof tls_port, "%d", server_free_port());
    server_start(&secure, arguments);
    snprintf(secure_url, sizeof secure_url, "rediss://127.0.0.1:%s", tls_port);
    return 0;
}

static int stop_secure(void **state) {
    (void)state;
    server_stop(&secure);
    shell("rm -r %s", pki);
    return 0;
}

static struct redlock_client_options tls_options(const char *ca, const char *identity) {
    char name[40];
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.tls_ca_file = file_of(ca);
    if (!identity) return options;
    snprintf(name, sizeof name, "%s.pem", identity);
    options.tls_cert_file = file_of(name);
    snprintf(name, sizeof name, "%s.key", identity);
    options.tls_key_file = file_of(name);
    return options;
}

static void tls_with_a_client_certificate(void **state) {
    (void)state;
    struct redlock_client_options options = tls_options("ca.pem", "client");
    assert_works(secure_url, &options);
    options.tls_server_name = "redis.test";
    assert_works(secure_url, &options);
}

static void tls_refuses_a_wrong_name(void **state) {
    (void)state;
    char url[64];
    struct redlock_client_options options = tls_options("ca.pem", "client");
    options.tls_server_name = "elsewhere.test";
    assert_refused(secure_url, &options, REDLOCK_VERDICT_TLS, "ostname mismatch", NULL);
    options.tls_server_name = NULL;
    snprintf(url, sizeof url, "rediss://localhost:%s", tls_port);
    assert_refused(url, &options, REDLOCK_VERDICT_TLS, "ostname mismatch", NULL);
}

static void tls_refuses_an_unknown_authority(void **state) {
    (void)state;
    struct redlock_client_options options = tls_options("stranger.pem", "client");
    assert_refused(secure_url, &options, REDLOCK_VERDICT_TLS, "certificate was refused", NULL);
    options = tls_options("ca.pem", NULL);
    options.tls_ca_file = NULL; /* the system's store does not know it either */
    assert_refused(secure_url, &options, REDLOCK_VERDICT_TLS, "certificate was refused", NULL);
}

/* The server's no to us; with TLS 1.3 it comes after our side of the handshake is done. */
static void tls_without_a_certificate_it_trusts(void **state) {
    (void)state;
    struct redlock_client_options options = tls_options("ca.pem", NULL);
    assert_refused(secure_url, &options, REDLOCK_VERDICT_TLS, "", NULL);
    options = tls_options("ca.pem", "intruder");
    assert_refused(secure_url, &options, REDLOCK_VERDICT_TLS, "", NULL);
}

static void tls_to_a_plain_server(void **state) {
    (void)state;
    char url[64];
    struct redlock_client_options options = tls_options("ca.pem", "client");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", secure.port);
    assert_refused(url, &options, REDLOCK_VERDICT_TIMEOUT, "TLS handshake",
                   NULL); /* it waits for the end of our line */
}

static void assert_bad_tls(const struct redlock_client_options *options, const char *a,
                           const char *b) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    assert_result(redlock_client_open(secure_url, options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(error.result, REDLOCK_BAD_ARGUMENT);
    if (!strstr(error.text, a) || !strstr(error.text, b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", error.text, a, b);
    assert_null(client);
}

static void tls_files_that_cannot_be_used(void **state) {
    (void)state;
    struct redlock_client_options options = tls_options("nothing.pem", NULL);
    assert_bad_tls(&options, "nothing.pem", "No such file");
    options = tls_options("client.key", NULL);
    assert_bad_tls(&options, "client.key", "PEM");
    options = tls_options("ca.pem", "client");
    options.tls_key_file = file_of("intruder.key");
    assert_bad_tls(&options, "intruder.key", "key");
    options.tls_key_file = NULL;
    assert_bad_tls(&options, "tls_cert_file", "tls_key_file");
}

static int verdict_of(struct redlock_client *client) {
    struct redlock_node_status status = {.size = sizeof status};
    assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
    return status.verdict;
}

/* A certificate that the server refuses is replaced by one that it takes, and then by rubbish. */
static void tls_files_that_are_renewed(void **state) {
    (void)state;
    struct redlock_error error = {0};
    shell("cd %s && cp intruder.pem renewed.pem && cp intruder.key renewed.key", pki);
    struct redlock_client_options options = tls_options("ca.pem", "renewed");
    struct redlock_client *client = open_url(secure_url, &options);
    assert_int_not_equal(verdict_of(client), REDLOCK_VERDICT_GRANTED);
    shell("cd %s && cp client.pem renewed.pem && cp client.key renewed.key", pki);
    assert_result(redlock_client_reload(client, &error), REDLOCK_OK);
    wait_until(verdict_of(client) == REDLOCK_VERDICT_GRANTED, 5000);
    struct redlock_lock *lock = new_lock(client, "renewed", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    shell("cd %s && echo rubbish > renewed.pem", pki);
    assert_result(redlock_client_reload(client, &error), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(error.result, REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "renewed.pem"));
    assert_result(redlock_client_reload(client, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    /* What was read before holds on, for new connections too. */
    assert_true(server_ask_integer(&secure, "CLIENT KILL TYPE normal SKIPME yes") > 0);
    wait_until(redlock_extend(lock, 0) == REDLOCK_OK, 5000);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

struct reloading {
    struct redlock_client *client;
    atomic_bool stops;
    atomic_uint done;
};

static void *reload_all_the_time(void *context) {
    struct reloading *reloading = context;
    while (!reloading->stops)
        reloading->done += redlock_client_reload(reloading->client, NULL) == REDLOCK_OK;
    return NULL;
}

/* Two threads read the files while a third connects with what was read. The sanitizers see more of
 * it. */
static void tls_files_that_are_renewed_while_it_connects(void **state) {
    (void)state;
    pthread_t threads[2];
    struct redlock_client_options options = tls_options("ca.pem", "client");
    options.service_thread = 1;
    struct reloading reloading = {.client = open_url(secure_url, &options)};
    struct redlock_lock *lock = new_lock(reloading.client, "renewed meanwhile", NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reload_all_the_time, &reloading), 0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int round = 0; round < 10; round++) {
        assert_true(server_ask_integer(&secure, "CLIENT KILL TYPE normal SKIPME yes") > 0);
        wait_until(redlock_extend(lock, 0) == REDLOCK_OK, 5000);
    }
    reloading.stops = true;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_true(reloading.done >= 10);
    redlock_lock_free(lock);
    redlock_client_free(reloading.client);
}

/* OpenSSL's exit handler frees what the service thread uses in a handshake. */
static void tls_when_the_program_ends_meanwhile(void **state) {
    (void)state;
    const struct redlock_client_options options = tls_options("ca.pem", "client");
    for (int run = 0; run < 100; run++) {
        pid_t child = fork();
        if (child == 0) {
            struct redlock_client *clients[8];
            for (int i = 0; i < 8; i++)
                if (redlock_client_open(secure_url, &options, &clients[i], NULL) != REDLOCK_OK)
                    _exit(1);
            usleep((useconds_t)run * 100);
            exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) fail_msg("run %d: the program's status is 0x%x", run, (unsigned)status);
    }
}

int main(void) {
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(a_password),
        cmocka_unit_test(a_user),
        cmocka_unit_test(the_least_permissions_suffice),
        cmocka_unit_test(a_database),
        cmocka_unit_test(a_unix_socket),
        cmocka_unit_test(one_server_listed_twice),
    };
    const struct CMUnitTest tls[] = {
        cmocka_unit_test(tls_with_a_client_certificate),
        cmocka_unit_test(tls_refuses_a_wrong_name),
        cmocka_unit_test(tls_refuses_an_unknown_authority),
        cmocka_unit_test(tls_without_a_certificate_it_trusts),
        cmocka_unit_test(tls_to_a_plain_server),
        cmocka_unit_test(tls_files_that_are_renewed),
        cmocka_unit_test(tls_files_that_are_renewed_while_it_connects),
        cmocka_unit_test(tls_files_that_cannot_be_used),
        cmocka_unit_test(tls_when_the_program_ends_meanwhile),
    };
    int failed = cmocka_run_group_tests(plain, NULL, NULL);
    if (!servers_know_tls()) {
        puts("this redis-server was built without TLS: nothing of TLS is tested");
        return failed;
    }
    return failed + cmocka_run_group_tests(tls, start_secure, stop_secure);
}
