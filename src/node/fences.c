/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/fences.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct fences *fences_find(const struct fences_list *list, uint64_t name) {
    struct fences *fences = list->first;
    while (fences && fences->name != name) fences = fences->next;
    return fences;
}

/* With the scores of whatever it was before. */
static struct fences *make_unset(struct fences_list *list, uint64_t name) {
    struct fences *fences = list->spare;
    assert(!fences_find(list, name));
    if (fences)
        list->spare = fences->next;
    else
        fences = malloc(sizeof(*fences));
    if (!fences) return NULL;
    fences->name = name;
    fences->next = list->first;
    list->first = fences;
    return fences;
}

struct fences *fences_make(struct fences_list *list, uint64_t name) {
    struct fences *fences = make_unset(list, name);
    if (fences) memset(fences->of, 0, sizeof(fences->of));
    return fences;
}

bool fences_drop(struct fences_list *list, uint64_t name) {
    struct fences **at = &list->first;
    while (*at && (*at)->name != name) at = &(*at)->next;
    struct fences *fences = *at;
    if (!fences) return false;
    *at = fences->next;
    fences->next = list->spare;
    list->spare = fences;
    return true;
}

void fences_drop_all(struct fences_list *list) {
    while (list->first) fences_drop(list, list->first->name);
}

void fences_rename(struct fences_list *list, struct fences *fences, uint64_t name) {
    if (fences->name == name) return;
    fences_drop(list, name);
    fences->name = name;
}

bool fences_copy(struct fences_list *to, const struct fences_list *from) {
    fences_drop_all(to);
    for (const struct fences *fences = from->first; fences; fences = fences->next) {
        struct fences *copy = make_unset(to, fences->name);
        if (!copy) return false;
        memcpy(copy->of, fences->of, sizeof(copy->of));
    }
    return true;
}

static void free_all(struct fences *fences) {
    while (fences) {
        struct fences *next = fences->next;
        free(fences);
        fences = next;
    }
}

void fences_free(struct fences_list *list) {
    free_all(list->first);
    free_all(list->spare);
}

bool fences_all_below(const struct fences *fences, int64_t fence, const uint16_t *stripes,
                      size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        if (fences->of[stripes[i]] >= fence) return false;
    }
    return true;
}

size_t fences_raise(struct fences *fences, int64_t fence, const uint16_t *stripes, size_t count) {
    size_t raised = 0;
    for (size_t i = 0; i < count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        int64_t *stripe = &fences->of[stripes[i]];
        if (*stripe >= fence) continue;
        *stripe = fence;
        raised++;
    }
    return raised;
}
