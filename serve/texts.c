/* SPDX-License-Identifier: BSD-2-Clause */
#include "texts.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

struct text {
    TAILQ_ENTRY(text) used; /* from the one unused for longest */
    char sha[SCRIPT_SHA_BYTES + 1];
    struct script_bytes bytes; /* behind the struct */
};

struct texts {
    TAILQ_HEAD(text_queue, text) used;
    void *by_sha; /* tsearch(3) */
    size_t count, count_max;
};

static int compare(const void *a, const void *b) {
    const struct text *one = a, *other = b;
    return strcasecmp(one->sha, other->sha);
}

static struct text *find(const struct texts *texts, const char *sha) {
    struct text key;
    if (strnlen(sha, SCRIPT_SHA_BYTES + 1) != SCRIPT_SHA_BYTES) return NULL;
    memcpy(key.sha, sha, sizeof key.sha);
    struct text *const *found = tfind(&key, &texts->by_sha, compare);
    return found != NULL ? *found : NULL;
}

static void forget(struct texts *texts, struct text *text) {
    tdelete(text, &texts->by_sha, compare);
    TAILQ_REMOVE(&texts->used, text, used);
    texts->count--;
    free(text);
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
    struct text *kept = malloc(sizeof *kept + text.bytes);
    if (kept == NULL) return false;
    memcpy(kept->sha, sha, SCRIPT_SHA_BYTES);
    kept->sha[SCRIPT_SHA_BYTES] = '\0';
    kept->bytes = (struct script_bytes){(char *)(kept + 1), text.bytes};
    if (text.bytes > 0) memcpy(kept + 1, text.data, text.bytes);
    if (tsearch(kept, &texts->by_sha, compare) == NULL) {
        free(kept);
        return false;
    }
    TAILQ_INSERT_TAIL(&texts->used, kept, used);
    if (++texts->count > texts->count_max) forget(texts, TAILQ_FIRST(&texts->used));
    return true;
}

bool texts_have(const struct texts *texts, const char *sha) { return find(texts, sha) != NULL; }

const struct script_bytes *texts_use(struct texts *texts, const char *sha) {
    struct text *text = find(texts, sha);
    if (text == NULL) return NULL;
    TAILQ_REMOVE(&texts->used, text, used);
    TAILQ_INSERT_TAIL(&texts->used, text, used);
    return &text->bytes;
}
