/* SPDX-License-Identifier: BSD-2-Clause TLS to real servers: who is trusted, who is not, and which
 * files are refused. Run by with_certificates.sh. */
#include "world.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy.h"
#include "servers.h"

static char ca[128], stranger[128], cert[128], key[128], missing[128], noise[128];
static char tls_port[8], server_cert[128], server_key[128];

static char protocols[16] = "TLSv1.2 TLSv1.3";

static const char *const arguments[] = {"--tls-port",
                                        tls_port,
                                        "--tls-cert-file",
                                        server_cert,
                                        "--tls-key-file",
                                        server_key,
                                        "--tls-ca-cert-file",
                                        ca,
                                        "--tls-protocols",
                                        protocols,
                                        NULL};

static void path(char *to, const char *name) {
    const char *dir = getenv("REDLOCK_TEST_CERTIFICATES");
    if (!dir) fail_msg("REDLOCK_TEST_CERTIFICATES is not set: run this by with_certificates.sh");
    snprintf(to, 128, "%s/%s", dir, name);
}

/* server_start() finds a port for plain TCP; TLS needs one more. */
static void choose_tls_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(tls_port, sizeof(tls_port), "%d", ntohs(address.sin_port));
    close(fd);
}

static int start(void **state) {
    static struct server server;
    path(ca, "ca.pem");
    path(stranger, "stranger.pem");
    path(cert, "client.pem");
    path(key, "client.key");
    path(missing, "missing.pem");
    path(noise, "openssl.log");
    path(server_cert, "server.pem");
    path(server_key, "server.key");
    choose_tls_port();
    server_start(&server, arguments);
    *state = &server;
    return 0;
}

static int stop(void **state) {
    server_stop(*state);
    return 0;
}

static struct net_options options_for(const char *host) {
    static char url[64];
    snprintf(url, sizeof(url), "rediss://%s:%s", host, tls_port);
    struct net_options options = world_options(url);
    options.tls_ca_file = ca;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    return options;
}

static void expect_ready(const struct net_options *options) {
    struct world world;
    world_open(&world, options);
    world_until_ready(&world, 1);
    assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000), REDLOCK_VERDICT_GRANTED);
    assert_int_equal(ask_one(&world, NET_RELEASE, "k", "t", 0), REDLOCK_VERDICT_GRANTED);
    world_close(&world);
}

static void expect_refused(const struct net_options *options, const char *text) {
    struct world world;
    world_open(&world, options);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_TLS);
    if (!strstr(world_node(&world, 0).text, text))
        fail_msg("\"%s\" lacks \"%s\"", world_node(&world, 0).text, text);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    world_close(&world);
}

static void test_trusted(void **state) {
    (void)state;
    struct net_options by_name = options_for("localhost");
    expect_ready(&by_name);
    struct net_options by_address = options_for("127.0.0.1");
    expect_ready(&by_address);
    by_address.tls_server_name = "localhost";
    expect_ready(&by_address);
}

static void test_not_trusted(void **state) {
    (void)state;
    struct net_options options = options_for("127.0.0.1");
    options.tls_ca_file = stranger;
    expect_refused(&options, "certificate");
    options.tls_ca_file = NULL; /* the system's store does not know our CA */
    expect_refused(&options, "certificate");
    options = options_for("127.0.0.1");
    options.tls_server_name = "elsewhere.example";
    expect_refused(&options, "hostname mismatch");
}

static void test_server_of_another_name(void **state) {
    struct server *server = *state;
    struct net_options options = options_for("127.0.0.1");
    path(server_cert, "elsewhere.pem");
    path(server_key, "elsewhere.key");
    server_restart(server);
    expect_refused(&options, "mismatch");
    options.tls_server_name = "elsewhere.example";
    expect_ready(&options);
    path(server_cert, "server.pem");
    path(server_key, "server.key");
    server_restart(server);
}

/* In TLS 1.3 the server refuses a missing client certificate only after our handshake is over. */
static void test_without_client_certificate(void **state) {
    struct world world;
    (void)state;
    struct net_options options = options_for("127.0.0.1");
    options.tls_cert_file = options.tls_key_file = NULL;
    world_open(&world, &options);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_TLS);
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    world_close(&world);
}

static void test_no_common_protocol(void **state) {
    struct server *server = *state;
    struct net_options options = options_for("127.0.0.1");
    snprintf(protocols, sizeof(protocols), "TLSv1.1");
    server_restart(server);
    expect_refused(&options, "protocol version");
    snprintf(protocols, sizeof(protocols), "TLSv1.2 TLSv1.3");
    server_restart(server);
}

/* Bytes that were damaged on their way say nothing about what the two sides are. */
static void test_damaged_bytes_are_a_lost_connection(void **state) {
    struct world world;
    struct proxy *proxy = proxy_start(atoi(tls_port));
    char url[64];
    (void)state;
    struct net_options options = options_for("127.0.0.1");
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d", proxy_port(proxy));
    options.nodes = url;
    proxy_damage(proxy, 1);
    world_open(&world, &options);
    for (int round = 0; round < 2; round++) { /* in the handshake, and in an answer */
        if (round == 1)
            assert_int_equal(ask_one(&world, NET_ACQUIRE, "k", "t", 60000),
                             REDLOCK_VERDICT_DISCONNECTED);
        world_until_verdict(&world, 0, REDLOCK_VERDICT_DISCONNECTED);
        assert_non_null(strstr(world_node(&world, 0).text, "TLS failed: "));
        proxy_damage(proxy, 0);
        world_until_ready(&world, 1);
        proxy_damage(proxy, 1);
    }
    world_close(&world);
    proxy_stop(proxy);
}

/* It waits for the end of a line that TLS never sends. */
static void test_not_a_tls_server(void **state) {
    struct server *server = *state;
    struct world world;
    char url[64];
    struct net_options options = options_for("127.0.0.1");
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d", server->port);
    options.nodes = url;
    options.connect_timeout = 200 * RL_MS;
    world_open(&world, &options);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_TIMEOUT);
    assert_non_null(strstr(world_node(&world, 0).text, "does this port speak TLS?"));
    world_close(&world);
}

static bool is_sent_to_tls(struct world *world, void *context) {
    (void)context;
    return strstr(world_node(world, 0).text, "use rediss://") != NULL;
}

static void test_a_tls_server_without_tls(void **state) {
    struct world world;
    char url[64];
    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%s", tls_port);
    world_open_urls(&world, url);
    world_until(&world, is_sent_to_tls, NULL, "the hint to use rediss://");
    assert_int_equal(net_ready(world.net, net_now(world.net)), 0);
    world_close(&world);
}

static void expect_bad_file(struct net_options options, const char *says, const char *names) {
    struct net_handlers handlers = {.reply = NULL};
    struct net_error error = {0};
    struct net *net = NULL;
    assert_int_equal(net_open(&net, &options, &handlers, &error), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(error.result, REDLOCK_BAD_ARGUMENT);
    assert_null(net);
    if (!strstr(error.text, says) || !strstr(error.text, names))
        fail_msg("\"%s\" lacks %s or %s", error.text, says, names);
}

static void test_bad_files(void **state) {
    (void)state;
    struct net_options options = options_for("127.0.0.1");
    options.tls_ca_file = missing;
    expect_bad_file(options, "No such file", missing);
    options.tls_ca_file = noise;
    expect_bad_file(options, "PEM", noise);
    options.tls_ca_file = "/";
    expect_bad_file(options, "Is a directory", "/");
    options = options_for("127.0.0.1");
    options.tls_cert_file = missing;
    expect_bad_file(options, "No such file", missing);
    options.tls_cert_file = NULL;
    expect_bad_file(options, "certificate is missing", "certificate");
    options = options_for("127.0.0.1");
    options.tls_key_file = NULL;
    expect_bad_file(options, "key is missing", "key");
    options.tls_key_file = server_key; /* of another certificate */
    expect_bad_file(options, "key", server_key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusted),
        cmocka_unit_test(test_not_trusted),
        cmocka_unit_test(test_server_of_another_name),
        cmocka_unit_test(test_without_client_certificate),
        cmocka_unit_test(test_no_common_protocol),
        cmocka_unit_test(test_damaged_bytes_are_a_lost_connection),
        cmocka_unit_test(test_not_a_tls_server),
        cmocka_unit_test(test_a_tls_server_without_tls),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
