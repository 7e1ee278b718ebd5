/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The metrics file on a disk that hangs: neither the library's events nor the end of the run wait
 * for it for long. And many renewals are few writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <redlock/metrics.h>

#include "process/boottime.h"
#include "run/metrics_file.h"

static redlock_event_fn *observer;
static atomic_bool hangs;
static atomic_uint renames, hanging;

/* In place of the library's. */
int redlock_client_observe(struct redlock_client *client, redlock_event_fn *each, void *context) {
    (void)client;
    assert_null(context);
    observer = each;
    return REDLOCK_OK;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    for (hanging++; hangs;) pause_ms(1);
    hanging--;
    renames++;
    return __real_rename(from, to);
}

static void happen(int kind, int result) {
    const struct redlock_event event = {.size = sizeof event,
                                        .kind = kind,
                                        .result = result,
                                        .began_ns = now_ns(),
                                        .ended_ns = now_ns(),
                                        .acquired_ns = now_ns(),
                                        .validity_end_ns = now_ns() + 1000 * MS};
    observer(NULL, &event);
}

static void a_disk_that_hangs_delays_nothing(void **state) {
    enum { MANY = 10000 };
    const struct outcome outcome = {.kind = OUTCOME_COMMAND, .exit = 0};
    char directory[] = "/tmp/redlock-test-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/job.prom", directory);
    struct settings settings = {.run.metrics_file = path};
    assert_int_equal(metrics_file_check(&settings), 0);
    metrics_file_begin(&settings, "job");
    metrics_file_follow(NULL);
    assert_non_null(observer);

    while (renames == 0) pause_ms(1); /* the first content */
    happen(REDLOCK_EVENT_ACQUIRED, REDLOCK_OK);
    while (renames == 1) pause_ms(1);
    for (int i = 0; i < MANY; i++) happen(REDLOCK_EVENT_EXTENDED, REDLOCK_OK);
    assert_true(renames <= 3);

    hangs = true;
    int64_t from = now_ns();
    while (hanging == 0 && now_ns() - from < 3000 * MS) { /* the writer is late by a second */
        happen(REDLOCK_EVENT_EXTENDED, REDLOCK_OK);
        pause_ms(1);
    }
    assert_int_equal(hanging, 1);
    from = now_ns();
    for (int i = 0; i < MANY; i++) happen(REDLOCK_EVENT_LOST, REDLOCK_LOST);
    int64_t took = now_ns() - from;
    if (took > 500 * MS) fail_msg("%d events took %lld ms", MANY, (long long)(took / MS));
    from = now_ns();
    metrics_file_end(&outcome); /* with a warning */
    took = now_ns() - from;
    if (took > 3000 * MS) fail_msg("the end took %lld ms", (long long)(took / MS));

    const unsigned before = renames;
    hangs = false;
    while (renames < before + 2) pause_ms(1); /* what hung, and the last content */
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_disk_that_hangs_delays_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
