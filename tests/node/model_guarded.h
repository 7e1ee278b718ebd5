/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guarded half of the model.
 */
#ifndef TESTS_NODE_MODEL_GUARDED_H
#define TESTS_NODE_MODEL_GUARDED_H

#include "request.h"

void model_guarded_do(struct node_table *table, const struct request *request, int64_t now_ms,
                      struct answer *answer);
/* Puts in numbers what was drawn in terms of what there is. */
void model_guarded_resolve(const struct node_table *table, struct request *request);
size_t model_guarded_count(
    const struct node_table *table); /* record and sets of fences: as a server counts keys */
/* How often each operation had each answer; false, and told, if one of them never had one that it
 * can have. */
bool model_guarded_saw_all(void);

#endif
