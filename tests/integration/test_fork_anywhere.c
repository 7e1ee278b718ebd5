/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A process is made at each system call of an acquisition, an extension and a release in turn (the
 * linker's --wrap counts them), in every way there is. Whether it frees what it was given, starts
 * another program or only ends: the parent's lock stays the parent's.
 */
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "at_each_call.h"
#include "fixtures.h"
#include "guarded.h"

extern char **environ;

static pid_t (*make_process)(void);
static struct redlock_client *inherited;
static struct redlock_lock *inherited_lock;

/* ---- ways to make a process: its end is awaited ---------------------------------------------- */

static void await(pid_t child) {
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail_msg("the child's status is 0x%x", (unsigned)status);
}

/* Without what sanitizers do at an exit: they wait a second for other threads. */
static void leave(int status) { syscall(SYS_exit_group, status); }

/* In the child: what the header allows. */
static void free_all(void) {
    if (redlock_extend(inherited_lock, 0) != REDLOCK_FORKED) leave(1);
    if (redlock_client_fd(inherited) != -1) leave(2);
    redlock_lock_free(inherited_lock);
    redlock_client_free(inherited);
    leave(0);
}

static pid_t by_fork(void) {
    const pid_t child = fork();
    if (child == 0) free_all();
    return child;
}

static pid_t by__Fork(void) {
    const pid_t child = _Fork();
    if (child == 0) free_all();
    return child;
}

static pid_t by_clone(void) {
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) free_all();
    return child;
}

/* daemon(3) without the end of the parent. */
static pid_t by_fork_twice(void) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (setsid() < 0) leave(3);
    const pid_t daemon = fork();
    if (daemon == 0) free_all();
    int status = -1;
    leave(waitpid(daemon, &status, 0) == daemon && status == 0 ? 0 : 4);
    return -1;
}

static pid_t by_vfork(void) {
    const pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(5);
    }
    return child;
}

static pid_t by_posix_spawn(void) {
    char name[] = "true", *arguments[] = {name, NULL};
    pid_t child = -1;
    assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ), 0);
    return child;
}

static pid_t (*const ways[])(void) = {by_fork,       by__Fork, by_clone,
                                      by_fork_twice, by_vfork, by_posix_spawn};

/* ---- at each system call --------------------------------------------------------------------- */

static void at_the_call(void) { await(make_process()); }

/* ---- locks ----------------------------------------------------------------------------------- */

static void assert_held_against(struct redlock_client *rival) {
    struct redlock_lock *theirs = new_lock(rival, "forked", NULL);
    assert_result(redlock_try(theirs), REDLOCK_HELD);
    redlock_lock_free(theirs);
}

/* Whether there was an nth call. */
static bool forked_at(struct redlock_client *client, struct redlock_client *rival, unsigned nth) {
    struct redlock_lock *lock = new_lock(client, "forked", NULL);
    inherited = client;
    inherited_lock = lock;
    hit = false;
    countdown = nth;
    assert_result(redlock_acquire(lock, 20000), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    const unsigned left = countdown;
    countdown = 0;
    assert_held_against(rival);
    countdown = left;
    assert_result(redlock_release(lock), REDLOCK_OK);
    countdown = 0;
    redlock_lock_free(lock);
    return hit;
}

static void forked_at_each_call(const char *urls, const struct redlock_client_options *given) {
    for (int service_thread = 0; service_thread <= 1; service_thread++) {
        struct redlock_client_options options = *given;
        struct redlock_client *client = NULL, *rival = NULL;
        options.service_thread = service_thread;
        options.node_timeout_ms = 8000; /* a sanitizer's fork takes long */
        assert_result(redlock_client_open(urls, &options, &client, NULL), REDLOCK_OK);
        assert_result(redlock_client_open(urls, &options, &rival, NULL), REDLOCK_OK);
        const int nodes = (int)redlock_client_nodes(client);
        assert_int_equal(redlock_client_wait_ready(client, 5000), nodes);
        assert_int_equal(redlock_client_wait_ready(rival, 5000), nodes);
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            unsigned nth = 1;
            make_process = ways[i];
            while (forked_at(client, rival, nth)) nth++;
            assert_in_range(nth, 3, 1000);
        }
        assert_int_equal(stats_of(client).reconnects, 0);
        redlock_client_free(client);
        redlock_client_free(rival);
    }
}

static void in_classic_mode(void **state) {
    struct redlock_client_options options;
    (void)state;
    redlock_client_options_init(&options);
    forked_at_each_call(three.urls, &options);
}

static void in_guarded_mode(void **state) {
    const struct redlock_client_options options = guarded_options();
    (void)state;
    init_quorum(three.urls, 60000);
    forked_at_each_call(three.urls, &options);
}

static void with_tls(void **state) {
    char directory[] = "/tmp/redlock-test-XXXXXX", certificate[60], key[60], port[8], url[60];
    char make[400];
    const char *arguments[] = {"--tls-port",
                               port,
                               "--tls-cert-file",
                               certificate,
                               "--tls-key-file",
                               key,
                               "--tls-auth-clients",
                               "no",
                               NULL};
    struct redlock_client_options options;
    struct server server = {0};
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(certificate, sizeof certificate, "%s/s.pem", directory);
    snprintf(key, sizeof key, "%s/s.key", directory);
    snprintf(make, sizeof make,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s "
             "-out %s -days 2 -subj /CN=s -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
             key, certificate);
    assert_int_equal(system(make), 0);
    snprintf(port, sizeof port, "%d", server_free_port());
    server_start(&server, arguments);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%s", port);
    redlock_client_options_init(&options);
    options.tls_ca_file = certificate;
    forked_at_each_call(url, &options);
    server_stop(&server);
    unlink(certificate);
    unlink(key);
    rmdir(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_classic_mode),
        cmocka_unit_test(with_tls),
        cmocka_unit_test(in_guarded_mode),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
