/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Times, the earliest first: a heap in which each item knows its place, so that one can be moved or
 * taken out. Items with equal times are in an order that depends only on what was done before. */
#ifndef RL_NODE_ENDS_H
#define RL_NODE_ENDS_H

#include "node/buckets.h"

struct ends {
    struct chunks chunks;
    uint32_t count;
};

/* Room for so many more. False: no memory, and nothing was changed but that there may be room. */
bool ends_reserve(struct ends *ends, size_t more);
size_t ends_bytes_more(const struct ends *ends, size_t more);      /* what that would take */
void ends_add(struct ends *ends, struct item *item, int64_t time); /* there is room */
/* Also of an item that has moved in memory, with its place. */
void ends_move(struct ends *ends, struct item *item, int64_t time);
void ends_remove(struct ends *ends, struct item *item);
int64_t ends_time(const struct ends *ends, const struct item *item);
struct item *ends_first(const struct ends *ends); /* NULL: none */
int64_t ends_next(const struct ends *ends);       /* its time; INT64_MAX: none */
void ends_free(struct ends *ends);

#endif
