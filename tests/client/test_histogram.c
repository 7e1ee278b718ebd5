/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Histograms: bounds, the bucket of each duration, the longest ones, and sums of several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/client.h"

/* after the above: it has a macro fail() */
#include <cmocka.h>

enum { LAST = REDLOCK_HISTOGRAM_BUCKETS - 1 };

static size_t bucket_of(rl_ns duration) {
    struct redlock_histogram histogram = {0};
    histogram_add(&histogram, duration);
    histogram_count(&histogram);
    assert_int_equal(histogram.count, 1);
    assert_int_equal(histogram.sum_ns, duration);
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS; i++) {
        if (histogram.buckets[i] == 0) continue;
        assert_int_equal(histogram.buckets[i], 1);
        return i;
    }
    fail_msg("%lld ns is in no bucket", (long long)duration);
    return 0;
}

/* The numbers are frozen: dashboards and histograms of other releases use them. */
static void bounds_are_two_for_each_power(void **state) {
    (void)state;
    static const int64_t first[] = {16000, 24000, 32000, 48000, 64000, 96000, 128000};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        assert_int_equal(redlock_histogram_bound_ns(i), first[i]);
    for (size_t i = 2; i < LAST; i++)
        assert_int_equal(redlock_histogram_bound_ns(i), 2 * redlock_histogram_bound_ns(i - 2));
    assert_int_equal(redlock_histogram_bound_ns(LAST - 1), INT64_C(34359738368000));
    assert_int_equal(redlock_histogram_bound_ns(LAST), INT64_MAX);
    assert_int_equal(redlock_histogram_bound_ns(LAST + 1), INT64_MAX);
    assert_int_equal(redlock_histogram_bound_ns(SIZE_MAX), INT64_MAX);
}

static void an_upper_bound_belongs_to_its_bucket(void **state) {
    (void)state;
    for (size_t i = 0; i < LAST; i++) {
        int64_t bound = redlock_histogram_bound_ns(i);
        assert_int_equal(bucket_of(bound), i);
        assert_int_equal(bucket_of(bound - 1), i);
        assert_int_equal(bucket_of(bound + 1), i + 1);
    }
}

static void the_shortest_and_the_longest(void **state) {
    (void)state;
    assert_int_equal(bucket_of(0), 0);
    assert_int_equal(bucket_of(1), 0);
    assert_int_equal(bucket_of(INT64_MAX), LAST);
}

static void sums_of_several(void **state) {
    (void)state;
    struct redlock_histogram sum = {0}, one = {0}, other = {0};
    for (int64_t duration = 1; duration < INT64_C(1) << 50; duration *= 3) {
        histogram_add(&one, duration);
        histogram_add(&other, 2 * duration);
    }
    histogram_count(&one);
    histogram_count(&other);
    redlock_histogram_merge(&sum, &one);
    assert_memory_equal(&sum, &one, sizeof sum);
    redlock_histogram_merge(&sum, &other);
    assert_int_equal(sum.count, one.count + other.count);
    assert_int_equal(sum.sum_ns, 3 * one.sum_ns);
    uint64_t count = 0;
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS; i++) {
        assert_int_equal(sum.buckets[i], one.buckets[i] + other.buckets[i]);
        count += sum.buckets[i];
    }
    assert_int_equal(count, sum.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_two_for_each_power),
        cmocka_unit_test(an_upper_bound_belongs_to_its_bucket),
        cmocka_unit_test(the_shortest_and_the_longest),
        cmocka_unit_test(sums_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
