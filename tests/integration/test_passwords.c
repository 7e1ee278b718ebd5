/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Passwords that are not in the URL: a file, and a function of the program. They change while locks
 * are held.
 */
#include "notices.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct server server; /* with a user "app", whose passwords the tests set */
static char url[120], file[600], logged[8000];

static void command(const char *text) {
    redisReply *reply = server_ask(&server, text);
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("%s: %s", text, reply->str);
    freeReplyObject(reply);
}

static int start(void **state) {
    (void)state;
    server_start(&server, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    snprintf(file, sizeof file, "%s/password", server.dir);
    return 0;
}

static int stop(void **state) {
    (void)state;
    server_stop(&server);
    return 0;
}

static int reset(void **state) {
    (void)state;
    command("ACL SETUSER app reset on >first ~* &* +@all");
    command("ACL LOG RESET");
    remove(file);
    return 0;
}

static void put_file(const char *text) {
    FILE *to = fopen(file, "w");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    assert_int_equal(fclose(to), 0);
}

static void kill_connections(void) {
    assert_true(server_ask_integer(&server, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

/* How often AUTH was refused. */
static size_t refusals(void) {
    redisReply *reply = server_ask(&server, "ACL LOG");
    const size_t count = reply->elements;
    freeReplyObject(reply);
    return count;
}

static void collect_log(void *context, int level, const char *text) {
    (void)context;
    (void)level;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

static struct redlock_client_options from_file(void) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.user = "app";
    options.password_file = file;
    options.node_timeout_ms = 300;
    options.log = collect_log;
    options.log_level = REDLOCK_LOG_DEBUG;
    logged[0] = '\0';
    return options;
}

static struct redlock_client *open_with(const struct redlock_client_options *options) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (redlock_client_open(url, options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    redlock_client_wait_ready(client, 3000);
    return client;
}

static struct redlock_client *open_with_file(const char *content) {
    put_file(content);
    const struct redlock_client_options options = from_file();
    return open_with(&options);
}

static struct redlock_node_status status_of(struct redlock_client *client) {
    struct redlock_node_status status;
    redlock_node_status_init(&status);
    assert_result(redlock_client_node(client, 0, &status), REDLOCK_OK);
    return status;
}

static void assert_node(struct redlock_client *client, int verdict, const char *words) {
    const struct redlock_node_status status = status_of(client);
    if (status.verdict != verdict || !strstr(status.text, words))
        fail_msg("\"%s\" (%s), not \"%s\" (%s)", redlock_verdict_text(status.verdict), status.text,
                 redlock_verdict_text(verdict), words);
}

/* ---- a file ---- */

/* The server takes both for a while; then the old one is gone, and so are all connections. */
static void rotate(const char *from, const char *to, const char *content) {
    freeReplyObject(server_ask(&server, "ACL SETUSER app >%s", to));
    put_file(content);
    freeReplyObject(server_ask(&server, "ACL SETUSER app <%s", from));
    kill_connections();
}

static void a_password_that_changes(void **state) {
    (void)state;
    static const char *const words[] = {"first", "second", "third", "first"};
    static const char *const contents[] = {"", "second", "third\r\nnot this line\n", "first\n\n"};
    struct notices notices = {0};
    struct redlock_client *client = open_with_file("first\n");
    const struct redlock_lock_options renewed = notices_options(600, &notices);
    struct redlock_lock *lock = NULL;
    assert_result(redlock_lock_new(client, "rotated", 7, &renewed, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int i = 1; i < 4; i++) {
        rotate(words[i - 1], words[i], contents[i]);
        const int renewals = notices.count[REDLOCK_CHANGE_RENEWED];
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > renewals + 1, 5000);
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(refusals(), 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Nothing reports that the file has changed: the next try reads it. */
static void a_wrong_password_that_is_corrected(void **state) {
    (void)state;
    struct redlock_client *client = open_with_file("mistaken");
    assert_node(client, REDLOCK_VERDICT_AUTH, "the password file /");
    assert_non_null(strstr(status_of(client).text, server.dir));
    assert_null(strstr(logged, "mistaken"));
    put_file("first");
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    redlock_client_free(client);
}

static void a_file_that_is_away_for_a_while(void **state) {
    (void)state;
    struct redlock_why_report why;
    struct redlock_error error = {0};
    struct redlock_client *client = open_with_file("first");
    assert_int_equal(remove(file), 0);
    assert_int_equal(redlock_client_reload(client, &error), REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, file));
    assert_node(client, REDLOCK_VERDICT_GRANTED, "");
    kill_connections();
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_AUTH, 5000);
    assert_node(client, REDLOCK_VERDICT_AUTH, "no password: cannot use the password file /");
    redlock_why_report_init(&why);
    assert_result(redlock_why(client, NULL, REDLOCK_NO_QUORUM, NULL, &why), REDLOCK_OK);
    assert_int_equal(why.node[0].obstacle, REDLOCK_OBSTACLE_ERROR);
    assert_int_equal(why.in_vain, 0);
    put_file("first");
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    assert_result(redlock_client_reload(client, &error), REDLOCK_OK);
    redlock_client_free(client);
}

static void assert_not_opened(const struct redlock_client_options *options, const char *words) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    assert_result(redlock_client_open(url, options, &client, &error), REDLOCK_BAD_ARGUMENT);
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_null(client);
}

static int never_asked(void *context, char *password, size_t size, struct redlock_error *error) {
    (void)context;
    (void)password;
    (void)size;
    (void)error;
    return REDLOCK_SYSTEM;
}

static void files_that_cannot_be_used(void **state) {
    (void)state;
    static char longest[REDLOCK_PASSWORD_BYTES_MAX + 2];
    struct redlock_client_options options = from_file();
    assert_not_opened(&options, "No such file");
    put_file("");
    assert_not_opened(&options, "empty");
    put_file("\nsecond line");
    assert_not_opened(&options, "empty");
    memset(longest, 'x', sizeof longest - 1);
    put_file(longest);
    assert_not_opened(&options, "longer than 65535 bytes");
    remove(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_not_opened(&options, "not a plain file");
    options.password_file = server.dir;
    assert_not_opened(&options, "not a plain file");
    options.password = never_asked;
    assert_not_opened(&options, "one of the two");
    options.password = NULL;
    options.password_file = NULL;
    assert_not_opened(&options, "user 'app' needs a password");
}

/* The longest: an authority that signs tokens may make long ones. */
static void a_long_password(void **state) {
    (void)state;
    static char longest[REDLOCK_PASSWORD_BYTES_MAX + 1];
    memset(longest, 'x', sizeof longest - 1);
    freeReplyObject(server_ask(&server, "ACL SETUSER app >%s", longest));
    struct redlock_client *client = open_with_file(longest);
    assert_node(client, REDLOCK_VERDICT_GRANTED, "");
    redlock_client_free(client);
}

static void a_password_in_the_url_stays(void **state) {
    (void)state;
    char with_password[160];
    put_file("mistaken");
    struct redlock_client_options options = from_file();
    struct redlock_client *client = NULL;
    snprintf(with_password, sizeof with_password, "redis://app:first@127.0.0.1:%d", server.port);
    assert_result(redlock_client_open(with_password, &options, &client, NULL), REDLOCK_OK);
    redlock_client_wait_ready(client, 3000);
    assert_node(client, REDLOCK_VERDICT_GRANTED, "");
    redlock_client_free(client);
}

/* ---- a function ---- */

struct source {
    const char *password; /* NULL: it fails */
    int takes_ms;
    atomic_int calls, running;
};

static int give(void *context, char *password, size_t size, struct redlock_error *error) {
    struct source *source = context;
    source->calls++;
    source->running++;
    nap_ms(source->takes_ms);
    if (source->password)
        snprintf(password, size, "%s", source->password);
    else
        snprintf(error->text, sizeof error->text, "the vault is sealed");
    source->running--;
    return source->password ? REDLOCK_OK : REDLOCK_SYSTEM;
}

static struct redlock_client_options from_source(struct source *source) {
    struct redlock_client_options options = from_file();
    options.password_file = NULL;
    options.password = give;
    options.password_context = source;
    return options;
}

static void a_function(void **state) {
    (void)state;
    struct source source = {.password = NULL};
    const struct redlock_client_options options = from_source(&source);
    struct redlock_client *client = open_with(&options);
    assert_node(client, REDLOCK_VERDICT_AUTH, "no password: the vault is sealed");
    source.password = "mistaken";
    wait_until(strstr(status_of(client).text, "wrong user or password"), 5000);
    source.password = "first";
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    assert_null(strstr(logged, "mistaken"));
    const int calls = source.calls;
    kill_connections();
    wait_until(source.calls > calls, 5000);
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    redlock_client_free(client);
}

/* Longer than the connection waits: the answer is used when it comes. */
static void a_function_that_takes_long(void **state) {
    (void)state;
    struct source source = {.password = "first", .takes_ms = 700};
    struct redlock_client_options options = from_source(&source);
    options.connect_timeout_ms = 100;
    struct redlock_client *client = open_with(&options);
    assert_node(client, REDLOCK_VERDICT_TIMEOUT, "no password: none within 100 ms");
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    assert_less(source.calls, 4);
    redlock_client_free(client);
}

static struct redlock_client *open_asking(struct source *source) {
    const struct redlock_client_options options = from_source(source);
    struct redlock_client *client = NULL;
    assert_result(redlock_client_open(url, &options, &client, NULL), REDLOCK_OK);
    wait_until(source->running == 1, 5000);
    return client;
}

/* What it uses may be freed afterwards. */
static void a_client_that_is_freed_while_it_asks(void **state) {
    (void)state;
    struct source source = {.password = "first", .takes_ms = 400};
    struct redlock_client *client = open_asking(&source);
    redlock_client_free(client);
    assert_int_equal(source.running, 0);
}

/* The thread that asks does not exist in the child. */
static void a_child_frees_the_client_while_the_parent_asks(void **state) {
    (void)state;
    struct source source = {.password = "first", .takes_ms = 400};
    struct redlock_client *client = open_asking(&source);
    const double began = now_ms();
    const pid_t child = fork();
    if (child == 0) {
        redlock_client_free(client);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_less(now_ms() - began, 350);
    wait_until(status_of(client).verdict == REDLOCK_VERDICT_GRANTED, 5000);
    redlock_client_free(client);
}

/* Five nodes that connect at once ask once. */
static void many_nodes_ask_together(void **state) {
    (void)state;
    struct servers many = {0};
    char urls[600] = "";
    struct source source = {.password = "first", .takes_ms = 50};
    servers_start(&many, 5);
    for (unsigned i = 0; i < 5; i++) {
        const size_t used = strlen(urls);
        freeReplyObject(server_ask(&many.at[i], "ACL SETUSER app on >first ~* &* +@all"));
        snprintf(urls + used, sizeof urls - used, "redis://127.0.0.1:%d,", many.at[i].port);
    }
    const struct redlock_client_options options = from_source(&source);
    struct redlock_client *client = NULL;
    assert_result(redlock_client_open(urls, &options, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 3000), 5);
    assert_int_equal(source.calls, 1);
    redlock_client_free(client);
    servers_stop(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_password_that_changes, reset),
        cmocka_unit_test_setup(a_wrong_password_that_is_corrected, reset),
        cmocka_unit_test_setup(a_file_that_is_away_for_a_while, reset),
        cmocka_unit_test_setup(files_that_cannot_be_used, reset),
        cmocka_unit_test_setup(a_long_password, reset),
        cmocka_unit_test_setup(a_password_in_the_url_stays, reset),
        cmocka_unit_test_setup(a_function, reset),
        cmocka_unit_test_setup(a_function_that_takes_long, reset),
        cmocka_unit_test_setup(a_client_that_is_freed_while_it_asks, reset),
        cmocka_unit_test_setup(a_child_frees_the_client_while_the_parent_asks, reset),
        cmocka_unit_test_setup(many_nodes_ask_together, reset),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
