/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fork(2) in the middle: the child is refused, the parent notices nothing.
 */
#include "fixtures.h"
#include "notices.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t parent;

/* The leak sanitizer asks. A child has one of its parent's threads: what the stacks of the others
 * pointed at is out of reach there, and no leak. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return getpid() != parent; }

/* In the child cmocka must not run on: it says what failed and leaves. */
#define child_assert(expression)                                                                   \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            dprintf(2, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #expression);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void assert_child_succeeds(pid_t child) {
    int status = -1;
    double give_up = now_ms() + PATIENT_MS;
    assert_true(child > 0);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_ms() > give_up) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            fail_msg("the child hangs");
        }
        nap_ms(5);
    }
    if (status != 0) fail_msg("the child's status is 0x%x", (unsigned)status);
}

static void no_resource(void *context, const void *resource, size_t bytes) {
    (void)context, (void)resource, (void)bytes;
}

static void no_key(void *context, size_t node, int what, const void *key, size_t bytes) {
    (void)context, (void)node, (void)what, (void)key, (void)bytes;
}

static void not_called(void *context, struct redlock_lock *lock, int result) {
    (void)context, (void)lock, (void)result;
    dprintf(2, "a callback in the child\n");
    _exit(1);
}

static void child_is_refused_everywhere(struct redlock_client *client, struct redlock_lock *lock) {
    struct redlock_lock *other = NULL;
    struct redlock_error error = {0};
    struct redlock_view views[3];
    struct redlock_readers_view readers[3];
    struct redlock_walk walk;
    const struct redlock_bytes resource = {"x", 1};
    redlock_walk_init(&walk);
    struct redlock_node_status status = {.size = sizeof status};
    struct redlock_stats stats = {.size = sizeof stats};
    int verdicts[3];
    child_assert(redlock_client_wait_ready(client, 1000) == REDLOCK_FORKED);
    child_assert(redlock_client_node(client, 0, &status) == REDLOCK_FORKED);
    child_assert(redlock_client_stats(client, &stats) == REDLOCK_FORKED);
    child_assert(redlock_client_fd(client) == -1);
    child_assert(redlock_process(client) == REDLOCK_FORKED);
    child_assert(redlock_lock_new(client, "x", 1, NULL, &other, &error) == REDLOCK_FORKED);
    child_assert(error.result == REDLOCK_FORKED && strstr(error.text, "fork") &&
                 strstr(error.text, "open a new one"));
    child_assert(redlock_try(lock) == REDLOCK_FORKED);
    child_assert(redlock_acquire(lock, 1000) == REDLOCK_FORKED);
    child_assert(redlock_extend(lock, 0) == REDLOCK_FORKED);
    child_assert(redlock_downgrade(lock) == REDLOCK_FORKED);
    child_assert(redlock_release(lock) == REDLOCK_FORKED);
    child_assert(redlock_acquire_start(lock, 0, not_called, NULL) == REDLOCK_FORKED);
    child_assert(redlock_extend_start(lock, 0, not_called, NULL) == REDLOCK_FORKED);
    child_assert(redlock_release_start(lock, not_called, NULL) == REDLOCK_FORKED);
    child_assert(redlock_lock_adopt(lock, "t", 1) == REDLOCK_FORKED);
    child_assert(redlock_lock_disown(lock) == REDLOCK_FORKED);
    child_assert(redlock_peek(client, "x", 1, views, 3) == REDLOCK_FORKED);
    child_assert(redlock_list(client, no_resource, NULL) == REDLOCK_FORKED);
    child_assert(redlock_scan(client, &walk, no_key, NULL) == REDLOCK_FORKED);
    child_assert(redlock_survey(client, &resource, 1, views, NULL) == REDLOCK_FORKED);
    child_assert(redlock_readers(client, &resource, 1, 0, NULL, NULL, readers) == REDLOCK_FORKED);
    child_assert(redlock_lock_state(lock) == REDLOCK_STATE_FREE);
    child_assert(redlock_validity_ms(lock) == 0 && redlock_validity_end_ns(lock) == 0);
    child_assert(redlock_token(lock).data == NULL);
    child_assert(redlock_verdicts(lock, verdicts, 3) == 0);
    redlock_cancel(lock);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void child_opens_its_own(const char *held) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_lock *taken = NULL, *own = NULL;
    redlock_client_options_init(&options);
    options.node_timeout_ms = PATIENT_NODE_MS;
    child_assert(redlock_client_open(three.urls, &options, &client, NULL) == REDLOCK_OK);
    child_assert(redlock_client_wait_ready(client, PATIENT_MS) == 3);
    child_assert(redlock_lock_new(client, held, strlen(held), NULL, &taken, NULL) == REDLOCK_OK);
    child_assert(redlock_lock_new(client, "own", 3, NULL, &own, NULL) == REDLOCK_OK);
    child_assert(redlock_try(taken) == REDLOCK_HELD);
    child_assert(redlock_try(own) == REDLOCK_OK);
    child_assert(redlock_extend(own, 0) == REDLOCK_OK);
    child_assert(redlock_release(own) == REDLOCK_OK);
    redlock_lock_free(taken);
    redlock_lock_free(own);
    redlock_client_free(client);
}

static void the_parent_goes_on(struct redlock_client *client, struct redlock_lock *lock,
                               struct notices *notices) {
    int renewals = notices->count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices->count[REDLOCK_CHANGE_RENEWED] >= renewals + 3, PATIENT_MS);
    assert_int_equal(notices->count[REDLOCK_CHANGE_UNSURE] + notices->count[REDLOCK_CHANGE_LOST],
                     0);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_int_equal(stats_of(client).reconnects, 0);
    assert_int_equal(nodes_ready(client), 3);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_child_beside_a_service_thread(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(PATIENT_TTL_MS, &notices);
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *lock = new_lock(client, "forked", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    /* The last answers arrive: a sanitizer's allocator does not survive a fork beside a busy
     * thread. */
    wait_until(granted_by(lock) == 3, PATIENT_MS);
    nap_ms(50);
    pid_t child = fork();
    if (child == 0) {
        child_is_refused_everywhere(client, lock);
        child_opens_its_own("forked");
        _exit(0);
    }
    assert_child_succeeds(child);
    the_parent_goes_on(client, lock, &notices);
}

static void a_child_of_an_embedding_program(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 0);
    struct redlock_lock *lock = new_lock(client, "embedded", NULL);
    assert_result(redlock_acquire(lock, PATIENT_MS), REDLOCK_OK);
    assert_true(redlock_client_fd(client) >= 0);
    pid_t child = fork();
    if (child == 0) {
        child_is_refused_everywhere(client, lock);
        child_opens_its_own("embedded");
        _exit(0);
    }
    assert_child_succeeds(child);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* A child that lives on with copies of the descriptors keeps nothing of the parent's alive or
 * stuck. */
static void a_child_that_keeps_the_descriptors(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(PATIENT_TTL_MS, &notices);
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *lock = new_lock(client, "kept", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    pid_t child = fork();
    if (child == 0) {
        nap_ms(3 * PATIENT_MS);
        _exit(0);
    }
    assert_true(child > 0);
    server_restart(
        &three.at[1]); /* a connection ends and is made again while the child has a copy */
    wait_until(nodes_ready(client) == 3, PATIENT_MS);
    wait_until(servers_holding(&three, "kept") == 3, PATIENT_MS);
    int renewals = notices.count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= renewals + 2, PATIENT_MS);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE] + notices.count[REDLOCK_CHANGE_LOST], 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&three, "kept"), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* As a daemon does: it closes all that it inherited, and opens files of its own. */
static void a_child_may_use_the_numbers_again(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    assert_int_equal(nodes_ready(client), 3);
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 3; fd < 100; fd++) child_assert(dup2(2, fd) == fd);
        redlock_client_free(client);
        for (int fd = 3; fd < 100; fd++) child_assert(fcntl(fd, F_GETFD) >= 0);
        _exit(0);
    }
    assert_child_succeeds(child);
    assert_int_equal(nodes_ready(client), 3);
    redlock_client_free(client);
}

static int connections_of(struct server *server) {
    redisReply *reply = server_ask(server, "INFO clients");
    const char *at = strstr(reply->str, "connected_clients:");
    const int count = at ? atoi(at + strlen("connected_clients:")) : -1;
    freeReplyObject(reply);
    return count;
}

/* A worker with copies of the descriptors never reads them: a server would keep for it what it
 * pushes. */
static void freed_connections_end_although_a_child_has_them(void **state) {
    (void)state;
    const int before = connections_of(&three.at[0]);
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    assert_int_equal(nodes_ready(client), 3);
    assert_true(connections_of(&three.at[0]) > before);
    pid_t child = fork();
    if (child == 0) {
        nap_ms(3 * PATIENT_MS);
        _exit(0);
    }
    assert_true(child > 0);
    redlock_client_free(client);
    wait_until(connections_of(&three.at[0]) == before, PATIENT_MS);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

struct traffic {
    struct redlock_client *client;
    atomic_bool stop;
    atomic_int rounds, failed;
};

static void *make_traffic(void *argument) {
    struct traffic *traffic = argument;
    struct redlock_lock *lock = NULL;
    if (redlock_lock_new(traffic->client, "traffic", 7, NULL, &lock, NULL) != REDLOCK_OK)
        return NULL;
    while (!traffic->stop) {
        if (redlock_acquire(lock, PATIENT_MS) != REDLOCK_OK || redlock_release(lock) != REDLOCK_OK)
            traffic->failed++;
        traffic->rounds++;
    }
    redlock_lock_free(lock);
    return NULL;
}

/* Other threads are inside the library at the moment of the fork, holding its mutex now and
 * then. */
static void forks_among_busy_threads(void **state) {
    (void)state;
    struct traffic traffic = {.client = open_patient(&three, PATIENT_NODE_MS, 1)};
    struct redlock_lock *lock = new_lock(traffic.client, "busy", NULL);
    pthread_t thread;
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, make_traffic, &traffic), 0);
    for (int i = 0; i < 25; i++) {
        const int rounds = traffic.rounds;
        wait_until(traffic.rounds > rounds, PATIENT_MS); /* the thread is in the midst of it */
        pid_t child = fork();
        if (child == 0) {
            child_is_refused_everywhere(traffic.client, lock);
            _exit(0);
        }
        assert_child_succeeds(child);
    }
    traffic.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(traffic.failed, 0);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_int_equal(stats_of(traffic.client).reconnects, 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(traffic.client);
}

/* A grandchild of a client that was opened in the child: refused again. */
static void a_child_of_a_child(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct redlock_client *client = NULL;
        struct redlock_lock *lock = NULL;
        child_assert(redlock_client_open(three.urls, NULL, &client, NULL) == REDLOCK_OK);
        child_assert(redlock_lock_new(client, "grand", 5, NULL, &lock, NULL) == REDLOCK_OK);
        child_assert(redlock_acquire(lock, PATIENT_MS) == REDLOCK_OK);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            child_is_refused_everywhere(client, lock);
            _exit(0);
        }
        int status = -1;
        child_assert(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        child_assert(redlock_release(lock) == REDLOCK_OK);
        redlock_lock_free(lock);
        redlock_client_free(client);
        _exit(0);
    }
    assert_child_succeeds(child);
}

/* ---- forks that no handler of pthread_atfork(3) sees ---- */

/* The thread sanitizer does not see them either: it takes the parent's threads for the child's, and
 * what they did before the fork for races with what the child does. The child is alone: it cannot
 * have any. */
#if defined(__has_feature)
#define THREAD_SANITIZED __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#else
#define THREAD_SANITIZED 0
#endif
#if THREAD_SANITIZED
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static void look_away(void) {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static void look_again(void) {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static void look_away(void) {}
static void look_again(void) {}
#endif

static pid_t by_Fork(void) { return _Fork(); }
static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }

static void a_child_frees_what_is_its_parents(pid_t (*make_child)(void)) {
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *lock = new_lock(client, "unnoticed", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(granted_by(lock) == 3, PATIENT_MS);
    nap_ms(50);
    pid_t child = make_child();
    if (child == 0) {
        look_away();
        child_assert(redlock_extend(lock, 0) == REDLOCK_FORKED);
        redlock_lock_free(lock);
        redlock_client_free(client);
        look_again();
        _exit(0);
    }
    assert_child_succeeds(child);
    assert_int_equal(servers_holding(&three, "unnoticed"), 3);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_child_of__Fork(void **state) {
    (void)state;
    a_child_frees_what_is_its_parents(by_Fork);
}

static void a_child_of_clone(void **state) {
    (void)state;
    a_child_frees_what_is_its_parents(by_clone);
}

/* ---- a callback that forks, and a child that returns from it ---- */

struct forking {
    struct redlock_lock *next;
    pid_t child, parent;
    int begun, result;
    atomic_bool done;
};

static void note_result(void *context, struct redlock_lock *lock, int result) {
    struct forking *forking = context;
    (void)lock;
    child_assert(getpid() == forking->parent);
    forking->result = result;
    forking->done = true;
}

/* The request of the lock that it starts is in the buffers when it forks. */
static void fork_and_return(void *context, struct redlock_lock *lock, int result) {
    struct forking *forking = context;
    (void)lock, (void)result;
    forking->begun = redlock_acquire_start(forking->next, 0, note_result, forking);
    forking->child = fork();
    if (forking->child > 0) nap_ms(200); /* so that the child would be first */
}

static void a_rival_is_not_overheard(struct redlock_client *client, struct forking *forking) {
    struct redlock_client *rival = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *theirs = new_lock(rival, "rivals", NULL),
                        *ours = new_lock(client, "rivals", NULL);
    assert_result(redlock_try(theirs), REDLOCK_OK);
    assert_result(redlock_try(ours), REDLOCK_HELD);
    assert_int_equal(forking->begun, REDLOCK_OK);
    assert_int_equal(forking->result, REDLOCK_OK);
    assert_int_equal(servers_holding(&three, "second"), 3);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(ours);
    redlock_lock_free(theirs);
    redlock_client_free(rival);
}

static void a_callback_forks_without_a_service_thread(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 0);
    struct redlock_lock *first = new_lock(client, "first", NULL),
                        *second = new_lock(client, "second", NULL);
    struct forking forking = {.next = second, .parent = getpid()};
    assert_result(redlock_acquire_start(first, 0, fork_and_return, &forking), REDLOCK_OK);
    while (forking.child == 0 && getpid() == forking.parent) {
        const int result = redlock_process(client);
        child_assert(result == (getpid() == forking.parent ? REDLOCK_OK : REDLOCK_FORKED));
        nap_ms(1);
    }
    if (getpid() != forking.parent) {
        redlock_lock_free(first);
        redlock_lock_free(second);
        redlock_client_free(client);
        _exit(0);
    }
    assert_child_succeeds(forking.child);
    wait_until(redlock_process(client) == REDLOCK_OK && forking.done, PATIENT_MS);
    a_rival_is_not_overheard(client, &forking);
    redlock_lock_free(first);
    redlock_lock_free(second);
    redlock_client_free(client);
}

/* The thread that waits runs the callback of another lock: in the child its wait ends. */
static void a_callback_forks_in_a_blocking_call(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 0),
                          *rival = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *first = new_lock(client, "first", NULL),
                        *second = new_lock(client, "second", NULL),
                        *waited = new_lock(client, "held", NULL),
                        *held = new_lock(rival, "held", NULL);
    struct forking forking = {.next = second, .parent = getpid()};
    assert_result(redlock_try(held), REDLOCK_OK);
    assert_result(redlock_acquire_start(first, 0, fork_and_return, &forking), REDLOCK_OK);
    const int result = redlock_acquire(waited, 2000);
    if (getpid() != forking.parent) {
        child_assert(result == REDLOCK_FORKED);
        _exit(0);
    }
    assert_result(result, REDLOCK_HELD);
    assert_child_succeeds(forking.child);
    a_rival_is_not_overheard(client, &forking);
    redlock_lock_free(first);
    redlock_lock_free(second);
    redlock_lock_free(waited);
    redlock_lock_free(held);
    redlock_client_free(client);
    redlock_client_free(rival);
}

/* The child is a copy of the service thread alone: it ends. */
static void a_callback_forks_on_the_service_thread(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *first = new_lock(client, "first", NULL),
                        *second = new_lock(client, "second", NULL);
    struct forking forking = {.next = second, .parent = getpid()};
    assert_result(redlock_acquire_start(first, 0, fork_and_return, &forking), REDLOCK_OK);
    wait_until(forking.done, PATIENT_MS);
    assert_child_succeeds(forking.child);
    a_rival_is_not_overheard(client, &forking);
    redlock_lock_free(first);
    redlock_lock_free(second);
    redlock_client_free(client);
}

/* The call is complete before its thread runs the callback of another lock. */
static void fork_only(void *context, struct redlock_lock *lock, int result) {
    struct forking *forking = context;
    (void)lock, (void)result;
    forking->child = fork();
    forking->done = true;
}

static int process_until_done(struct redlock_client *client, const struct forking *forking) {
    int result = REDLOCK_OK;
    while (result == REDLOCK_OK && !forking->done) result = redlock_process(client);
    return result;
}

static int peek_once(struct redlock_client *client) {
    struct redlock_view views[3];
    return redlock_peek(client, "x", 1, views, 3);
}

static void a_call_that_is_complete_when_a_callback_forks(void **state) {
    (void)state;
    for (int call = 0; call < 7; call++) {
        struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 0);
        struct redlock_lock *first = new_lock(client, "first", NULL),
                            *ours = new_lock(client, "ours", NULL);
        struct forking forking = {.parent = getpid()};
        if (call == 1) assert_result(redlock_try(ours), REDLOCK_OK);
        assert_result(redlock_acquire_start(first, 0, fork_only, &forking), REDLOCK_OK);
        int result = call == 0   ? redlock_try(ours)
                     : call == 1 ? redlock_release(ours)
                     : call == 2 ? peek_once(client)
                     : call == 3 ? redlock_acquire_many(&ours, 1, 1000, NULL)
                     : call == 4 ? redlock_acquire_all(&ours, 1, 1000)
                     : call == 5 ? redlock_await_free(client, "x", 1, 0)
                                 : REDLOCK_OK;
        if (!forking.done) result = process_until_done(client, &forking);
        if (getpid() != forking.parent) {
            child_assert(result == REDLOCK_FORKED);
            _exit(0);
        }
        assert_result(result, REDLOCK_OK);
        assert_child_succeeds(forking.child);
        redlock_lock_free(first);
        redlock_lock_free(ours);
        redlock_client_free(client);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_beside_a_service_thread),
        cmocka_unit_test(a_child_of_an_embedding_program),
        cmocka_unit_test(a_child_that_keeps_the_descriptors),
        cmocka_unit_test(a_child_may_use_the_numbers_again),
        cmocka_unit_test(freed_connections_end_although_a_child_has_them),
        cmocka_unit_test(forks_among_busy_threads),
        cmocka_unit_test(a_child_of_a_child),
        cmocka_unit_test(a_child_of__Fork),
        cmocka_unit_test(a_child_of_clone),
        cmocka_unit_test(a_callback_forks_without_a_service_thread),
        cmocka_unit_test(a_callback_forks_in_a_blocking_call),
        cmocka_unit_test(a_callback_forks_on_the_service_thread),
        cmocka_unit_test(a_call_that_is_complete_when_a_callback_forks),
    };
    parent = getpid();
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
