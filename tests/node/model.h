/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table, asked the same way as the real server.
 */
#ifndef TESTS_NODE_MODEL_H
#define TESTS_NODE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

struct model;

struct model *model_new(enum node_end_rule ends);
void model_free(struct model *model);
/* Empty, with an empty snapshot. */
void model_reset(struct model *model);
/* What a request says in terms of what there is becomes numbers; both are then asked the same. */
void model_resolve(const struct model *model, struct request *request);
void model_do(struct model *model, const struct request *request, int64_t now_ms,
              struct answer *answer);
size_t model_count(const struct model *model);
int64_t model_next_end(const struct model *model); /* INT64_MAX: none */
/* What was told of changes, and nothing else, must lead to the keys that there are. */
bool model_reported_all(struct model *model, int64_t now_ms);

#endif
