/* SPDX-License-Identifier: BSD-2-Clause A resolver that hangs: getaddrinfo(3) is ours here (the
 * linker's --wrap), and answers when the test says so. */
#include "fake.h"

#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 5, THREADS_MAX = 3 }; /* for half of the nodes, rounded up */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool answers;          /* names that hang are answered from now on, ... */
static bool fails;            /* ... as unknown */
static unsigned asked[NODES]; /* how often, by the digit at a name's end */

static const char *const hanging[NODES] = {"hang0", "hang1", "hang2", "hang3", "hang4"};

/* "hangN" waits for the test, "workN" is answered at once: both are this machine. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list) {
    bool hangs = strncmp(host, "hang", 4) == 0, works = strncmp(host, "work", 4) == 0;
    if ((hints->ai_flags & AI_NUMERICHOST) || !(hangs || works))
        return __real_getaddrinfo(host, port, hints, list);
    pthread_mutex_lock(&mutex);
    asked[host[4] - '0']++;
    while (hangs && !answers) pthread_cond_wait(&changed, &mutex);
    bool unknown = hangs && fails;
    pthread_mutex_unlock(&mutex);
    return unknown ? EAI_NONAME : __real_getaddrinfo("127.0.0.1", port, hints, list);
}

static void set_answers(bool now, bool failing) {
    pthread_mutex_lock(&mutex);
    answers = now;
    fails = failing;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static unsigned times_asked(unsigned name) {
    pthread_mutex_lock(&mutex);
    unsigned times = asked[name];
    pthread_mutex_unlock(&mutex);
    return times;
}

static unsigned entries(const char *path) {
    unsigned count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* Without those that the test's own sanitizer or the C library may have. */
static unsigned threads_before, descriptors_before;
static unsigned threads(void) { return entries("/proc/self/task") - threads_before; }
static unsigned descriptors(void) { return entries("/proc/self/fd") - descriptors_before; }

static void begin(struct world *world, struct fake *fakes, const char *const *names,
                  unsigned count) {
    char urls[NODES * 64] = "";
    pthread_mutex_lock(&mutex);
    memset(asked, 0, sizeof(asked));
    pthread_mutex_unlock(&mutex);
    set_answers(false, false);
    for (unsigned i = 0; i < count; i++) {
        size_t used = strlen(urls);
        fake_open(&fakes[i]);
        snprintf(urls + used, sizeof(urls) - used, "%sredis://%s:%d", used ? "," : "", names[i],
                 fakes[i].port);
    }
    threads_before = entries("/proc/self/task");
    descriptors_before = entries("/proc/self/fd");
    struct net_options options = world_options(urls);
    options.connect_timeout = 20 * RL_MS;
    world_open(world, &options);
}

static bool no_thread(void) {
    for (int i = 0; i < 5000 && threads() > 0; i++) usleep(1000);
    return threads() == 0;
}

static void end(struct world *world, struct fake *fakes, unsigned count) {
    if (world->net) world_close(world);
    set_answers(true, false);
    assert_true(no_thread());
    for (unsigned i = 0; i < count; i++) fake_close(&fakes[i]);
}

/* Many tries to connect later there are no more threads and descriptors than in the beginning. */
static void test_hanging_names_take_few_threads(void **state) {
    struct fake fakes[NODES];
    struct world world;
    (void)state;
    begin(&world, fakes, hanging, NODES);
    world_for(&world, 100);
    unsigned first = descriptors();
    for (int i = 0; i < 20; i++) {
        world_for(&world, 100);
        assert_in_range(threads(), 1, THREADS_MAX);
        assert_in_range(descriptors(), 1, first);
    }
    for (unsigned i = 0; i < NODES; i++) {
        assert_in_range(times_asked(i), 0, 1);
        assert_int_equal(world_node(&world, i).verdict, REDLOCK_VERDICT_TIMEOUT);
        assert_non_null(strstr(world_node(&world, i).text, "the resolver has not answered for "));
    }
    assert_null(strstr(world_node(&world, 0).text, " 0."));
    end(&world, fakes, NODES);
}

static void test_closing_does_not_wait(void **state) {
    struct fake fakes[NODES];
    struct world world;
    (void)state;
    begin(&world, fakes, hanging, NODES);
    world_for(&world, 100);
    rl_ns before = net_now(world.net);
    world_close(&world);
    assert_in_range((net_now(NULL) - before) / RL_MS, 0, 1000);
    assert_int_equal(descriptors(), 0);
    assert_int_equal(threads(), THREADS_MAX);
    end(&world, fakes, NODES);
    assert_int_equal(threads(), 0);
}

/* Several tries to connect have given up by then. */
static void test_a_late_answer_is_used(void **state) {
    static const char *const names[1] = {"hang0"};
    struct fake fake;
    struct world world;
    (void)state;
    begin(&world, &fake, names, 1);
    world_for(&world, 300);
    assert_int_equal(world_node(&world, 0).verdict, REDLOCK_VERDICT_TIMEOUT);
    set_answers(true, false);
    fake_accept(&fake, &world);
    assert_int_equal(times_asked(0), 1);
    end(&world, &fake, 1);
}

static void test_a_late_refusal_is_reported(void **state) {
    static const char *const names[1] = {"hang0"};
    struct fake fake;
    struct world world;
    (void)state;
    begin(&world, &fake, names, 1);
    world_for(&world, 300);
    set_answers(true, true);
    world_until_verdict(&world, 0, REDLOCK_VERDICT_NAME);
    assert_non_null(strstr(world_node(&world, 0).text, "host name not found"));
    end(&world, &fake, 1);
}

static void test_names_that_hang_keep_no_majority_away(void **state) {
    static const char *const names[NODES] = {"hang0", "hang1", "work2", "work3", "work4"};
    struct fake fakes[NODES];
    struct world world;
    (void)state;
    begin(&world, fakes, names, NODES);
    for (unsigned i = 2; i < NODES; i++) fake_accept(&fakes[i], &world);
    for (unsigned i = 0; i < 2; i++) { /* their threads may begin late */
        for (int tries = 0; tries < 500 && times_asked(i) == 0; tries++) world_for(&world, 10);
        assert_int_equal(times_asked(i), 1);
    }
    end(&world, fakes, NODES);
}

/* What had to wait is asked when there is room. */
static void test_names_that_waited_are_asked(void **state) {
    struct fake fakes[NODES];
    struct world world;
    (void)state;
    begin(&world, fakes, hanging, NODES);
    world_for(&world, 300);
    set_answers(true, false);
    for (unsigned i = 0; i < NODES; i++) fake_accept(&fakes[i], &world);
    end(&world, fakes, NODES);
}

static void *nothing(void *context) { return context; }

int main(void) {
    pthread_t first; /* with the first thread a sanitizer begins one of its own */
    if (pthread_create(&first, NULL, nothing, NULL) != 0 || pthread_join(first, NULL) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hanging_names_take_few_threads),
        cmocka_unit_test(test_closing_does_not_wait),
        cmocka_unit_test(test_a_late_answer_is_used),
        cmocka_unit_test(test_a_late_refusal_is_reported),
        cmocka_unit_test(test_names_that_hang_keep_no_majority_away),
        cmocka_unit_test(test_names_that_waited_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
