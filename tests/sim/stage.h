/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A world for one test, and questions to its history.
 */
#ifndef TESTS_SIM_STAGE_H
#define TESTS_SIM_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/run.h"

enum { A, B, C };

struct stage {
    struct world *world;
    struct world_options options;
    struct history history;
};

/* Options first, then stage_begin(): connections are up 10 ms later. Every delay is 1 ms unless the
 * test says else. */
void stage_open(struct stage *stage);
/* Instead of it: guarded, with fences; A and B bring no node back. */
void stage_open_guarded(struct stage *stage);
void stage_begin(struct stage *stage);
/* ... and until 100 ms; A has acquired. */
void stage_begin_held_by_a(struct stage *stage);
void stage_close(struct stage *stage);
void stage_run(struct stage *stage, int64_t until_ms);

#define ANYBODY (-2)
/* The n-th record (from 0) of that kind; fields that are ANYBODY may be anything. NULL: there is
 * none. */
const struct history_record *stage_find(const struct stage *stage, enum history_kind kind,
                                        int client, int node, unsigned nth);
unsigned stage_count(const struct stage *stage, enum history_kind kind, int client, int node);
/* The record must be there. */
const struct history_record *stage_need(const struct stage *stage, enum history_kind kind,
                                        int client, int node, unsigned nth);
/* The n-th message of that operation, at that stage of its way. */
const struct history_record *stage_message(const struct stage *stage, enum history_kind kind,
                                           unsigned op, int client, int node, unsigned nth);
void stage_print(const struct stage *stage); /* for a test that fails */

#endif
