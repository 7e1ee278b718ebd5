/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What programs do around a library: they close all descriptors, give threads small stacks, and
 * unload what they have loaded.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/fence.h>

#include "fixtures.h"
#include "notices.h"

/* ---- descriptors ---- */

static double processor_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

#define must(expression)                                                                           \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #expression);                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void close_all_with_a_lock(int service_thread) {
    struct notices notices = {0};
    struct redlock_lock_options renewed = notices_options(600, &notices);
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL, *next = NULL;
    redlock_client_options_init(&options);
    options.service_thread = service_thread;
    must(redlock_client_open(three.urls, &options, &client, NULL) == REDLOCK_OK);
    must(redlock_client_wait_ready(client, 2000) == 3);
    must(redlock_lock_new(client, "bereft", 6, &renewed, &lock, NULL) == REDLOCK_OK);
    must(redlock_lock_new(client, "next", 4, NULL, &next, NULL) == REDLOCK_OK);
    must(redlock_try(lock) == REDLOCK_OK);
    for (int fd = 3; fd < 256; fd++) close(fd);
    const double used = processor_ms(), until = now_ms() + 1500;
    while (now_ms() < until) {
        if (!service_thread) must(redlock_process(client) == REDLOCK_OK);
        nap_ms(20);
    }
    must(processor_ms() - used < 500);
    must(notices.count[REDLOCK_CHANGE_LOST] == 1);
    must(redlock_validity_ms(lock) == 0);
    must(redlock_acquire(next, 500) == REDLOCK_SYSTEM);
    const int own = dup(2); /* the number of one of ours: it is not closed with the client */
    redlock_lock_free(lock);
    redlock_lock_free(next);
    redlock_client_free(client);
    must(write(own, "", 0) == 0);
    _exit(0);
}

static void the_program_closes_all_descriptors(void **state) {
    (void)state;
    for (int service_thread = 0; service_thread < 2; service_thread++) {
        pid_t child = fork();
        int status = -1;
        if (child == 0) close_all_with_a_lock(service_thread);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) fail_msg("service_thread = %d: 0x%x", service_thread, (unsigned)status);
    }
}

/* What such a program prints must not reach a server, nor the file of a gate. */
static void open_all_without_standard_descriptors(int service_thread) {
    struct redlock_fence_gate_options gated;
    struct redlock_fence_gate *gate = NULL;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    char path[] = "/tmp/redlock-gate.XXXXXX";
    must(close(mkstemp(path)) == 0 && unlink(path) == 0);
    for (int fd = 0; fd < 3; fd++) close(fd);
    redlock_fence_gate_options_init(&gated);
    gated.path = path;
    must(redlock_fence_gate_open(&gated, &gate, NULL) == REDLOCK_OK);
    must(unlink(path) == 0);
    redlock_client_options_init(&options);
    options.service_thread = service_thread;
    options.queue = service_thread;
    must(redlock_client_open(three.urls, &options, &client, NULL) == REDLOCK_OK);
    must(redlock_client_fd(client) > 2);
    must(redlock_client_wait_ready(client, 2000) == 3);
    must(redlock_lock_new(client, "silent", 6, NULL, &lock, NULL) == REDLOCK_OK);
    must(redlock_try(lock) == REDLOCK_OK);
    for (int fd = 0; fd < 3; fd++) must(fcntl(fd, F_GETFD) < 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
    redlock_fence_gate_free(gate);
    _exit(0);
}

static void the_program_has_no_standard_descriptors(void **state) {
    (void)state;
    for (int service_thread = 0; service_thread < 2; service_thread++) {
        pid_t child = fork();
        int status = -1;
        if (child == 0) open_all_without_standard_descriptors(service_thread);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) fail_msg("service_thread = %d: 0x%x", service_thread, (unsigned)status);
    }
}

/* ---- stacks ---- */

enum { PAINTED = 1 << 20, PAINT = 0xa5, PROMISED = 64 << 10 }; /* the promise: redlock.h */

static void *use_the_library(void *argument) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_client_options options;
    (void)argument;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    must(redlock_client_open(three.urls, &options, &client, NULL) == REDLOCK_OK);
    must(redlock_client_wait_ready(client, 2000) == 3);
    must(redlock_lock_new(client, "small", 5, NULL, &lock, NULL) == REDLOCK_OK);
    must(redlock_acquire(lock, 1000) == REDLOCK_OK);
    must(redlock_extend(lock, 0) == REDLOCK_OK);
    must(redlock_release(lock) == REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    return NULL;
}

static void a_small_stack_is_enough(void **state) {
    (void)state;
    unsigned char *stack =
        mmap(NULL, PAINTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    size_t clean = 0;
    assert_ptr_not_equal(stack, MAP_FAILED);
    memset(stack, PAINT, PAINTED);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, PAINTED), 0);
    assert_int_equal(pthread_create(&thread, &attributes, use_the_library, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    while (clean < PAINTED && stack[clean] == PAINT) clean++;
    print_message("%zu bytes of stack\n", PAINTED - clean);
    assert_in_range(PAINTED - clean, 4096, PROMISED);
    munmap(stack, PAINTED);
}

/* ---- unloading ---- */

/* A thread that resolves a name, and the exit handler, may run after dlclose(3). */
static void the_library_stays_after_dlclose(void **state) {
    (void)state;
    const char *path = getenv("REDLOCK_SHARED");
    assert_non_null(path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    assert_non_null(dlsym(library, "redlock_client_open"));
    assert_int_equal(dlclose(library), 0);
    assert_non_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_closes_all_descriptors),
        cmocka_unit_test(the_program_has_no_standard_descriptors),
        cmocka_unit_test(a_small_stack_is_enough),
        cmocka_unit_test(the_library_stays_after_dlclose),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
