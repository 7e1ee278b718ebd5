/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gate in memory: who is admitted, what a full one does, threads, arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/fence.h>

static struct redlock_fence_gate *gate_for(size_t resources) {
    struct redlock_fence_gate_options options;
    struct redlock_fence_gate *gate = NULL;
    redlock_fence_gate_options_init(&options);
    options.resources = resources;
    assert_int_equal(redlock_fence_gate_open(&options, &gate, NULL), REDLOCK_OK);
    return gate;
}

static int admit(struct redlock_fence_gate *gate, const char *resource, int64_t fence) {
    return redlock_fence_admit(gate, resource, strlen(resource), fence);
}

static int64_t least(struct redlock_fence_gate *gate, const char *resource) {
    int64_t fence = 0;
    assert_int_equal(redlock_fence_least(gate, resource, strlen(resource), &fence), REDLOCK_OK);
    return fence;
}

static void test_admits_what_is_not_below(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = gate_for(100);
    assert_int_equal(least(gate, "a"), 1);
    assert_int_equal(admit(gate, "a", 5), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", 5), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", 4), REDLOCK_FENCED);
    assert_int_equal(least(gate, "a"), 5);
    assert_int_equal(admit(gate, "b", 1), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", REDLOCK_FENCE_MAX), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", REDLOCK_FENCE_MAX - 1), REDLOCK_FENCED);
    redlock_fence_gate_free(gate);
}

static void count(void *context) { ++*(int *)context; }

static void test_acts_only_when_admitted(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = gate_for(1);
    int acts = 0;
    assert_int_equal(redlock_fence_do(gate, "a", 1, 7, count, &acts), REDLOCK_OK);
    assert_int_equal(redlock_fence_do(gate, "a", 1, 6, count, &acts), REDLOCK_FENCED);
    assert_int_equal(redlock_fence_do(gate, "a", 1, 0, count, &acts), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(acts, 1);
    redlock_fence_gate_free(gate);
}

/* A resource's bytes may hold a NUL. */
static void test_resources_are_bytes(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = gate_for(1000);
    assert_int_equal(redlock_fence_admit(gate, "a\0b", 3, 9), REDLOCK_OK);
    assert_int_equal(redlock_fence_admit(gate, "a\0c", 3, 8), REDLOCK_OK);
    assert_int_equal(redlock_fence_admit(gate, "a", 1, 7), REDLOCK_OK);
    redlock_fence_gate_free(gate);
}

/* Against a model that remembers everything: the gate may refuse too many, but never admits what
 * the model refuses. And the price is bounded: where everything fits nothing is refused wrongly,
 * and a fence that is the highest of all is admitted however full the gate is. */
static unsigned against_model(size_t room, unsigned resources) {
    static int64_t highest[512];
    struct redlock_fence_gate *gate = gate_for(room);
    unsigned wrongly_refused = 0;
    int64_t top = 0;
    memset(highest, 0, sizeof highest);
    srand(1);
    for (int i = 0; i < 200000; i++) {
        unsigned resource = (unsigned)rand() % resources;
        int64_t fence = 1 + i / 4 + rand() % 1000;
        char name[16];
        snprintf(name, sizeof name, "r%u", resource);
        int result = admit(gate, name, fence);
        if (fence < highest[resource]) assert_int_equal(result, REDLOCK_FENCED);
        if (fence >= top) assert_int_equal(result, REDLOCK_OK);
        if (fence >= highest[resource] && result != REDLOCK_OK) wrongly_refused++;
        if (result == REDLOCK_OK && fence > highest[resource]) highest[resource] = fence;
        if (fence > top) top = fence;
    }
    redlock_fence_gate_free(gate);
    return wrongly_refused;
}

static void test_never_admits_wrongly_however_full(void **state) {
    (void)state;
    assert_int_equal(against_model(4096, 100), 0);
    unsigned roomy = against_model(600, 300), crowded = against_model(60, 512),
             one = against_model(1, 512);
    print_message("wrongly refused of 200000: 300 in 600: %u, 512 in 60: %u, 512 in 1: %u\n", roomy,
                  crowded, one);
    assert_true(crowded > 0 && one > 0);
    assert_true(roomy < crowded);
}

static int admit_reader(struct redlock_fence_gate *gate, const char *resource, int64_t fence) {
    return redlock_fence_admit_shared(gate, resource, strlen(resource), fence);
}

static void test_readers(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = gate_for(100);
    int acts = 0;
    assert_int_equal(admit(gate, "a", 5), REDLOCK_OK);
    assert_int_equal(admit_reader(gate, "a", 4), REDLOCK_FENCED);
    /* readers do not refuse each other, and the late write of the writer before them is refused */
    assert_int_equal(admit_reader(gate, "a", 7), REDLOCK_OK);
    assert_int_equal(admit_reader(gate, "a", 5), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", 5), REDLOCK_FENCED);
    assert_int_equal(admit(gate, "a", 7), REDLOCK_FENCED);
    assert_int_equal(least(gate, "a"), 8);
    assert_int_equal(admit(gate, "a", 8), REDLOCK_OK);
    assert_int_equal(admit_reader(gate, "a", 7), REDLOCK_FENCED);
    assert_int_equal(admit_reader(gate, "a", 8), REDLOCK_OK);
    assert_int_equal(admit_reader(gate, "a", REDLOCK_FENCE_MAX), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", REDLOCK_FENCE_MAX), REDLOCK_FENCED);
    assert_int_equal(redlock_fence_do_shared(gate, "b", 1, 3, count, &acts), REDLOCK_OK);
    assert_int_equal(redlock_fence_do(gate, "b", 1, 4, count, &acts), REDLOCK_OK);
    assert_int_equal(redlock_fence_do_shared(gate, "b", 1, 3, count, &acts), REDLOCK_FENCED);
    assert_int_equal(acts, 2);
    assert_int_equal(redlock_fence_admit_shared(gate, "b", 1, 0), REDLOCK_BAD_ARGUMENT);
    redlock_fence_gate_free(gate);
}

/* As against_model(), with readers. */
static unsigned readers_against_model(size_t room, unsigned resources) {
    static int64_t writers[512], readers[512];
    struct redlock_fence_gate *gate = gate_for(room);
    unsigned wrongly_refused = 0;
    int64_t top = 0;
    memset(writers, 0, sizeof writers);
    memset(readers, 0, sizeof readers);
    srand(2);
    for (int i = 0; i < 200000; i++) {
        const unsigned resource = (unsigned)rand() % resources;
        const int64_t fence = 1 + i / 4 + rand() % 1000;
        const bool reads = rand() % 2 == 0;
        char name[16];
        snprintf(name, sizeof name, "r%u", resource);
        const int result = (reads ? admit_reader : admit)(gate, name, fence);
        const bool right = fence >= writers[resource] && (reads || fence > readers[resource]);
        if (!right) assert_int_equal(result, REDLOCK_FENCED);
        if (fence > top) assert_int_equal(result, REDLOCK_OK);
        if (right && result != REDLOCK_OK) wrongly_refused++;
        int64_t *highest = reads ? &readers[resource] : &writers[resource];
        if (result == REDLOCK_OK && fence > *highest) *highest = fence;
        if (fence > top) top = fence;
    }
    redlock_fence_gate_free(gate);
    return wrongly_refused;
}

static void test_readers_however_full(void **state) {
    (void)state;
    assert_int_equal(readers_against_model(4096, 100), 0);
    const unsigned roomy = readers_against_model(600, 300), one = readers_against_model(1, 512);
    print_message("wrongly refused of 200000: 300 in 600: %u, 512 in 1: %u\n", roomy, one);
    assert_true(one > 0 && roomy < one);
}

struct shared {
    struct redlock_fence_gate *gate;
    pthread_mutex_t mutex;
    int64_t next, written; /* the resource: the fence that wrote last */
    unsigned admitted, fenced, backwards;
};

static void write_resource(void *context) {
    int64_t *mine = context;
    struct shared *shared = (struct shared *)(uintptr_t)mine[1];
    if (mine[0] < shared->written) shared->backwards++;
    shared->written = mine[0];
    shared->admitted++;
}

static void *writer(void *context) {
    struct shared *shared = context;
    unsigned fenced = 0;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&shared->mutex);
        int64_t mine[2] = {++shared->next, (int64_t)(uintptr_t)shared};
        pthread_mutex_unlock(&shared->mutex);
        int result = redlock_fence_do(shared->gate, "r", 1, mine[0], write_resource, mine);
        if (result == REDLOCK_FENCED) fenced++;
    }
    pthread_mutex_lock(&shared->mutex);
    shared->fenced += fenced;
    pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

/* What they share in write_resource() is guarded by the gate alone: the thread sanitizer looks
 * on. */
static void test_threads(void **state) {
    (void)state;
    struct shared shared = {.gate = gate_for(10), .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writer, &shared), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(shared.backwards, 0);
    assert_int_equal(shared.admitted + shared.fenced, 80000);
    assert_int_equal(shared.written, 80000);
    redlock_fence_gate_free(shared.gate);
}

static void test_arguments(void **state) {
    (void)state;
    struct redlock_fence_gate_options options;
    struct redlock_error error = {0};
    struct redlock_fence_gate *gate = NULL;
    redlock_fence_gate_options_init(&options);
    options.resources = 0;
    assert_int_equal(redlock_fence_gate_open(&options, &gate, &error), REDLOCK_BAD_ARGUMENT);
    assert_string_equal(error.text, "a gate is made for 1 to 16777216 resources, not 0");
    options.resources = REDLOCK_FENCE_RESOURCES_MAX + 1;
    assert_int_equal(redlock_fence_gate_open(&options, &gate, &error), REDLOCK_BAD_ARGUMENT);
    redlock_fence_gate_options_init(&options);
    options.create = 2;
    assert_int_equal(redlock_fence_gate_open(&options, &gate, &error), REDLOCK_BAD_ARGUMENT);
    assert_string_equal(error.text, "create is 2; it must be 0 or 1");
    redlock_fence_gate_options_init(&options);
    options.path = "";
    assert_int_equal(redlock_fence_gate_open(&options, &gate, &error), REDLOCK_BAD_ARGUMENT);
    struct {
        struct redlock_fence_gate_options known;
        char newer[16];
    } from_the_future = {.newer = "\1"};
    redlock_fence_gate_options_init(&from_the_future.known);
    from_the_future.known.size = sizeof from_the_future;
    assert_int_equal(redlock_fence_gate_open(&from_the_future.known, &gate, &error),
                     REDLOCK_BAD_ARGUMENT);
    from_the_future.newer[0] = 0;
    assert_int_equal(redlock_fence_gate_open(&from_the_future.known, &gate, &error), REDLOCK_OK);
    redlock_fence_gate_free(gate);
    gate = NULL;
    options.size = 0;
    assert_int_equal(redlock_fence_gate_open(&options, &gate, &error), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_fence_gate_open(NULL, NULL, &error), REDLOCK_BAD_ARGUMENT);
    assert_null(gate);
    assert_int_equal(redlock_fence_gate_open(NULL, &gate, &error), REDLOCK_OK);
    assert_int_equal(admit(gate, "a", 0), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(admit(gate, "a", -1), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(admit(gate, "a", REDLOCK_FENCE_MAX + 1), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(admit(gate, "", 1), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_fence_admit(gate, NULL, 1, 1), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_fence_admit(NULL, "a", 1, 1), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_fence_least(gate, "a", 1, NULL), REDLOCK_BAD_ARGUMENT);
    char *big = calloc(1, REDLOCK_RESOURCE_BYTES_MAX + 1);
    assert_non_null(big);
    assert_int_equal(redlock_fence_admit(gate, big, REDLOCK_RESOURCE_BYTES_MAX, 1), REDLOCK_OK);
    assert_int_equal(redlock_fence_admit(gate, big, REDLOCK_RESOURCE_BYTES_MAX + 1, 1),
                     REDLOCK_BAD_ARGUMENT);
    free(big);
    redlock_fence_gate_free(gate);
    redlock_fence_gate_free(NULL);
}

static void test_after_fork(void **state) {
    (void)state;
    struct redlock_fence_gate *gate = gate_for(10);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int result = admit(gate, "a", 1);
        redlock_fence_gate_free(gate);
        _exit(result == REDLOCK_FORKED ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(least(gate, "a"), 1);
    redlock_fence_gate_free(gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admits_what_is_not_below),
        cmocka_unit_test(test_acts_only_when_admitted),
        cmocka_unit_test(test_resources_are_bytes),
        cmocka_unit_test(test_never_admits_wrongly_however_full),
        cmocka_unit_test(test_readers),
        cmocka_unit_test(test_readers_however_full),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
