/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether something costs twice as much when there is twice as much of it, or four times. Processor
 * time of this process alone, the two sizes in turn, the median of several: so other processes'
 * work is not measured.
 *
 * What a sanitizer adds to each access and each allocation is not the library's cost: there the
 * same is done once for few of them, for the sanitizer to look at, and nothing is compared.
 */
#ifndef TESTS_COSTS_H
#define TESTS_COSTS_H

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* after the above */
#include <cmocka.h>

#if defined(__has_feature) /* clang; gcc has macros */
#define COST_HAS_FEATURE(name) __has_feature(name)
#else
#define COST_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    COST_HAS_FEATURE(address_sanitizer) || COST_HAS_FEATURE(thread_sanitizer)
#define COST_SANITIZED 1
#else
#define COST_SANITIZED 0
#endif

enum { COST_RUNS = 5, COST_SANITIZED_PART = 8 };
#define COST_RATIO_MAX 3.0
#define COST_MS_MIN 20.0 /* less is too little to compare: then each size is done several times */
enum { COST_TIMES_MAX = 64 };

static inline double cpu_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* Does it once with `n` of them; returns what the part in question took, in milliseconds of
 * cpu_ms(). */
typedef double cost_fn(unsigned n);

static inline int cost_order(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static inline double cost_median(double *costs) {
    qsort(costs, COST_RUNS, sizeof *costs, cost_order);
    return costs[COST_RUNS / 2];
}

static inline double cost_of_several(cost_fn *cost, unsigned n, unsigned times) {
    double sum = 0;
    for (unsigned i = 0; i < times; i++) sum += cost(n);
    return sum / times;
}

static inline double cost_ratio(const char *what, cost_fn *cost, unsigned n, unsigned factor,
                                unsigned times) {
    double once[COST_RUNS], more[COST_RUNS];
    for (int i = 0; i < COST_RUNS; i++) {
        once[i] = cost_of_several(cost, n, times);
        more[i] = cost_of_several(cost, factor * n, times);
    }
    double of_n = cost_median(once), of_more = cost_median(more);
    printf("%s: %.2f ms of %u, %.2f ms of %u: %.2f times\n", what, of_n, n, of_more, factor * n,
           of_more / of_n);
    return of_more / of_n;
}

/* `factor` times as many cost at most COST_RATIO_MAX times as much. */
static inline void assert_cost_of_more(const char *what, cost_fn *cost, unsigned n,
                                       unsigned factor) {
    unsigned times = 1;
    if (COST_SANITIZED) {
        cost(factor * n / COST_SANITIZED_PART);
        printf("%s: under a sanitizer nothing is compared\n", what);
        return;
    }
    /* Memory once had is kept: else what is measured is the kernel giving it and taking it back. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    cost(factor * n);
    while (times < COST_TIMES_MAX && times * cost(n) < COST_MS_MIN) times *= 2;
    /* Other processes empty the caches that both share, which costs the larger size more: such a
     * ratio does not come twice. One that is due to a walk does. */
    double ratio = cost_ratio(what, cost, n, factor, times);
    if (ratio > COST_RATIO_MAX) ratio = cost_ratio(what, cost, n, factor, times);
    if (ratio > COST_RATIO_MAX)
        fail_msg("%s: %u times as many cost %.1f times as much", what, factor, ratio);
}

/* So many that a list walked for each of them would be most of the cost, and so few that twice as
 * many are not slower only because they are in a slower memory. */
static inline void assert_cost_grows_with(const char *what, cost_fn *cost, unsigned n) {
    assert_cost_of_more(what, cost, n, 2);
}

#endif
