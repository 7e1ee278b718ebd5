/* SPDX-License-Identifier: BSD-2-Clause */
#include "texts.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

struct kept {
    TAILQ_ENTRY(kept) used; /* the one unused for longest first */
    char sha[SCRIPT_SHA_BYTES + 1];
    struct text text; /* its bytes are behind the struct */
};

struct texts {
    TAILQ_HEAD(kept_queue, kept) used;
    void *by_sha; /* tsearch(3) */
    size_t count, count_max;
};

static int compare(const void *a, const void *b) {
    const struct kept *one = a, *other = b;
    return strcasecmp(one->sha, other->sha);
}

static struct kept *find(const struct texts *texts, const char *sha) {
    struct kept key;
    if (strnlen(sha, SCRIPT_SHA_BYTES + 1) != SCRIPT_SHA_BYTES) return NULL;
    memcpy(key.sha, sha, sizeof key.sha);
    struct kept *const *found = tfind(&key, &texts->by_sha, compare);
    return found != NULL ? *found : NULL;
}

static void forget(struct texts *texts, struct kept *kept) {
    tdelete(kept, &texts->by_sha, compare);
    TAILQ_REMOVE(&texts->used, kept, used);
    texts->count--;
    free(kept);
}

struct texts *texts_new(size_t count_max) {
    assert(count_max > 0);
    struct texts *texts = calloc(1, sizeof *texts);
    if (texts == NULL) return NULL;
    texts->count_max = count_max;
    TAILQ_INIT(&texts->used);
    return texts;
}

void texts_forget(struct texts *texts) {
    while (!TAILQ_EMPTY(&texts->used)) forget(texts, TAILQ_FIRST(&texts->used));
}

void texts_free(struct texts *texts) {
    if (texts == NULL) return;
    texts_forget(texts);
    free(texts);
}

bool texts_keep(struct texts *texts, const char *sha, struct script_bytes text) {
    if (texts_use(texts, sha) != NULL) return true;
    struct kept *kept = malloc(sizeof *kept + text.bytes);
    if (kept == NULL) return false;
    memcpy(kept->sha, sha, SCRIPT_SHA_BYTES);
    kept->sha[SCRIPT_SHA_BYTES] = '\0';
    if (text.bytes > 0) memcpy(kept + 1, text.data, text.bytes);
    kept->text.bytes = (struct script_bytes){(char *)(kept + 1), text.bytes};
    kept->text.known = known_find(text);
    if (tsearch(kept, &texts->by_sha, compare) == NULL) {
        free(kept);
        return false;
    }
    TAILQ_INSERT_TAIL(&texts->used, kept, used);
    if (++texts->count > texts->count_max) forget(texts, TAILQ_FIRST(&texts->used));
    return true;
}

bool texts_have(const struct texts *texts, const char *sha) { return find(texts, sha) != NULL; }

const struct text *texts_use(struct texts *texts, const char *sha) {
    struct kept *kept = find(texts, sha);
    if (kept == NULL) return NULL;
    TAILQ_REMOVE(&texts->used, kept, used);
    TAILQ_INSERT_TAIL(&texts->used, kept, used);
    return &kept->text;
}
