/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A real redis-server whose wall clock the test holds.
 */
#ifndef TESTS_NODE_REAL_H
#define TESTS_NODE_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

struct real;

struct real *real_start(const char *stepclock,
                        int64_t now_us); /* the path of the preloaded library */
void real_stop(struct real *real);
void real_clock(struct real *real, int64_t now_us);
/* Empty, with an empty snapshot. */
void real_reset(struct real *real);
/* Active expiry ends when `count` keys are left; clocks are not its business. */
void real_do(struct real *real, const struct request *request, long long count,
             struct answer *answer);
/* By product and version. */
enum node_end_rule real_end_rule(const struct real *real);
/* ZADD GT and ZMSCORE are of 6.2. */
bool real_is_guarded(const struct real *real);
long long real_count(struct real *real);

#endif
