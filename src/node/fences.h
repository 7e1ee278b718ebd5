/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node's fences by their names: for each stripe the highest token that was accepted. There is one
 * set unless a person writes by hand. Sets have names so that a request under an old name cannot
 * find fences that now have a new one. */
#ifndef RL_NODE_FENCES_H
#define RL_NODE_FENCES_H

#include "node/table.h"

#define FENCES_KEPT 0 /* no nonce is 0 */

struct fences {
    struct fences *next;
    uint64_t name; /* the nonce, or FENCES_KEPT */
    int64_t of[NODE_STRIPES];
};

struct fences_list {
    struct fences *first;
    struct fences *spare; /* a dropped set, for the next use */
};

struct fences *fences_find(const struct fences_list *list, uint64_t name); /* NULL: none */
struct fences *fences_make(struct fences_list *list, uint64_t name); /* all 0; NULL: no memory */
/* Replaces a set that has the new name. */
void fences_rename(struct fences_list *list, struct fences *fences, uint64_t name);
bool fences_drop(struct fences_list *list, uint64_t name); /* false: there was none */
void fences_drop_all(struct fences_list *list);
bool fences_copy(struct fences_list *to, const struct fences_list *from); /* false: no memory */
void fences_free(struct fences_list *list);

/* Every stripe is below `fence`. */
bool fences_all_below(const struct fences *fences, int64_t fence, const uint16_t *stripes,
                      size_t count);
/* Returns how many were raised. */
size_t fences_raise(struct fences *fences, int64_t fence, const uint16_t *stripes, size_t count);

#endif
