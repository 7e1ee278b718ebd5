/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A program that names no nodes: the environment and redlock.conf(5) do.
 */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static struct servers three;
static char path[100];

static int start(void **state) {
    (void)state;
    servers_start(&three, 3);
    snprintf(path, sizeof path, "%s/redlock.conf", three.at[0].dir);
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&three);
    return 0;
}

static int reset(void **state) {
    (void)state;
    static const char *const names[] = {"REDLOCK_NODES", "REDLOCK_MODE", "REDLOCK_QUORUM",
                                        "REDLOCK_ALLOW_REPLICAS", "REDLOCK_PROFILE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
    return setenv("REDLOCK_CONFIG", path, 1);
}

/* Each "%s" becomes the list of nodes. */
static void write_file(const char *text) {
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    for (const char *at; (at = strstr(text, "%s")) != NULL; text = at + 2)
        fprintf(to, "%.*s%s", (int)(at - text), text, three.urls);
    fputs(text, to);
    assert_int_equal(fclose(to), 0);
}

static struct redlock_client *open_with(const struct redlock_client_options *options) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (redlock_client_open(NULL, options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    return client;
}

/* The lock "x" stands under `key`, on `count` servers. */
static void assert_locks(struct redlock_client *client, const char *key, unsigned count) {
    struct redlock_lock *lock = NULL;
    assert_int_equal(redlock_client_wait_ready(client, 5000), count);
    assert_result(redlock_lock_new(client, "x", 1, NULL, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK);
    double until = now_ms() + 5000; /* a majority is enough for an acquisition */
    while (servers_holding(&three, key) < count && now_ms() < until) nap_ms(2);
    assert_int_equal(servers_holding(&three, key), count);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void assert_refused(const struct redlock_client_options *options, const char *said) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    assert_result(redlock_client_open(NULL, options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_null(client);
    if (strstr(error.text, said) == NULL) fail_msg("\"%s\" is not in: %s", said, error.text);
    if (strstr(error.text, "geheim")) fail_msg("a secret: %s", error.text);
}

static void the_file_has_nodes_and_options(void **state) {
    (void)state;
    write_file("nodes = %s\nprefix = lock:\nttl = 7s\nlisten = unix:///x\n");
    assert_locks(open_with(NULL), "lock:x", 3);
}

static void the_program_comes_first(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = "mine:";
    options.mode = REDLOCK_MODE_CLASSIC;
    write_file("nodes = %s\nprefix = lock:\nmode = guarded\nallow-replicas = yes\n");
    struct redlock_client *client = open_with(&options);
    assert_int_equal(redlock_client_mode(client), REDLOCK_MODE_CLASSIC);
    assert_locks(client, "mine:x", 3);
    struct redlock_client *guarded = open_with(NULL);
    assert_int_equal(redlock_client_mode(guarded), REDLOCK_MODE_GUARDED);
    redlock_client_free(guarded);
}

static void a_list_of_the_program_reads_nothing(void **state) {
    (void)state;
    struct redlock_client *client = NULL;
    write_file("prefix = lock:\nwrong\n");
    assert_result(redlock_client_open(three.urls, NULL, &client, NULL), REDLOCK_OK);
    assert_locks(client, "x", 3);
}

static void the_environment_comes_before_the_file(void **state) {
    (void)state;
    char url[40];
    server_url(&three.at[1], url, sizeof url);
    write_file("nodes = redis://127.0.0.1:1\nmode = guarded\nprefix = lock:\n");
    setenv("REDLOCK_NODES", url, 1);
    setenv("REDLOCK_MODE", "single", 1);
    assert_locks(open_with(NULL), "lock:x", 1);
    setenv("REDLOCK_NODES", three.urls, 1);
    assert_refused(NULL, "mode single is for one node");
    setenv("REDLOCK_MODE", "strict", 1);
    assert_refused(NULL, "REDLOCK_MODE: 'strict' is not auto, single, classic or guarded");
    setenv("REDLOCK_MODE", "classic", 1);
    setenv("REDLOCK_ALLOW_REPLICAS", "yes", 1);
    assert_refused(NULL, "REDLOCK_ALLOW_REPLICAS is 'yes'; it must be 0 or 1");
    setenv("REDLOCK_ALLOW_REPLICAS", "1", 1);
    setenv("REDLOCK_NODES", "redis://a:geheim@b:c", 1);
    assert_refused(NULL, "REDLOCK_NODES and /");
}

static void a_profile(void **state) {
    (void)state;
    write_file("prefix = all:\n[prod]\nnodes = %s\nprefix = prod:\n[test]\nnodes = redis://t\n");
    assert_refused(NULL, "no nodes: name them in REDLOCK_NODES, or by `nodes =` lines in /");
    assert_refused(NULL, "REDLOCK_PROFILE chooses one of its profiles: prod, test");
    setenv("REDLOCK_PROFILE", "prod", 1);
    assert_locks(open_with(NULL), "prod:x", 3);
    setenv("REDLOCK_PROFILE", "prdo", 1);
    assert_refused(NULL, "has no profile [prdo]; it has prod, test");
}

static void a_login(void **state) {
    (void)state;
    char text[300], password[120];
    snprintf(password, sizeof password, "%s/password", three.at[0].dir);
    FILE *to = fopen(password, "w");
    assert_non_null(to);
    fputs("geheim\n", to);
    fclose(to);
    for (unsigned i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "ACL SETUSER app on >geheim ~* &* +@all"));
    snprintf(text, sizeof text,
             "nodes = %%s\nprefix = app:\nnode-user = app\nnode-password-file = %s\n", password);
    write_file(text);
    assert_locks(open_with(NULL), "app:x", 3);
    write_file("nodes = %s\nnode-user = app\n");
    assert_refused(NULL, "redlock.conf: user 'app' needs a password");
}

static int give(void *context, char *password, size_t size, struct redlock_error *error) {
    (void)context, (void)error;
    snprintf(password, size, "geheim");
    return REDLOCK_OK;
}

static void a_command_for_the_password(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    write_file("nodes = %s\nprefix = app:\nnode-user = app\nnode-password-command = echo geheim\n");
    assert_refused(&options, "redlock.conf: node-password-command is for redlock's own programs");
    options.password = give;
    assert_locks(open_with(&options), "app:x", 3);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"nodez = redis://a\n", ":1: unknown key 'nodez'; did you mean 'nodes'?"},
        {"nodes = redis://a\n\ntls-ca = x\n", ":3: unknown key 'tls-ca'"},
        {"mode = strict\n", ":1: mode: 'strict' is not auto, single, classic or guarded"},
        {"[a]\nnode-timeout = 2 parsecs\n", ":2: node-timeout: '2 parsecs' has an unknown unit"},
        {"mode = guarded\nmode = classic\n", ":2: 'mode' is set twice"},
        {"nodes = redis://a:geheim@b:c\n", "redlock.conf: "},
        {"nodes = rediss://a\ntls-ca-file = /not/there\n",
         "redlock.conf: cannot read the TLS CA file /not/there"},
        {"nodes = rediss://a\ntls-key-file = /k\n", "redlock.conf: a TLS client certificate needs"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_file(files[i][0]);
        assert_refused(NULL, files[i][1]);
    }
    setenv("REDLOCK_CONFIG", "/not/there", 1);
    assert_refused(NULL, "cannot read the configuration file /not/there: No such file");
}

/* This program as a setuid one, for a while: who starts it must not lead it. */
static void a_setuid_program(void **state) {
    (void)state;
    char copy[120], self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    if (geteuid() != 0) skip(); /* it cannot make a program another user's */
    snprintf(copy, sizeof copy, "%s/setuid", three.at[0].dir);
    assert_int_equal(chmod(three.at[0].dir, 0755), 0);
    setenv("REDLOCK_NODES", three.urls, 1);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("cp", "cp", self, copy, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(chown(copy, 65534, (gid_t)-1), 0);
    assert_int_equal(chmod(copy, 04755), 0);
    pid = fork();
    if (pid == 0) {
        execl(copy, copy, "opens", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) skip(); /* the file system knows no setuid */
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* 0: it did not see the nodes of the environment. */
static int opens(void) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (geteuid() == getuid()) return 2;
    return redlock_client_open(NULL, NULL, &client, &error) != REDLOCK_BAD_ARGUMENT ||
           !strstr(error.text, "/etc/redlock.conf");
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) _exit(opens());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_file_has_nodes_and_options, reset),
        cmocka_unit_test_setup(the_program_comes_first, reset),
        cmocka_unit_test_setup(a_list_of_the_program_reads_nothing, reset),
        cmocka_unit_test_setup(the_environment_comes_before_the_file, reset),
        cmocka_unit_test_setup(a_profile, reset),
        cmocka_unit_test_setup(a_login, reset),
        cmocka_unit_test_setup(a_command_for_the_password, reset),
        cmocka_unit_test_setup(what_is_wrong_is_named, reset),
        cmocka_unit_test_setup(a_setuid_program, reset),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
