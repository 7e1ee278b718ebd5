/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_cache.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int compare(const void *a, const void *b) {
    const struct script_entry *one = a, *other = b;
    return strcasecmp(one->sha, other->sha);
}

void cache_open(struct script_cache *cache, size_t count_max) {
    assert(count_max > 0);
    *cache = (struct script_cache){.count_max = count_max};
    TAILQ_INIT(&cache->used);
}

void *cache_find(const struct script_cache *cache, const char *sha) {
    struct script_entry wanted;
    if (strnlen(sha, SCRIPT_SHA_BYTES + 1) != SCRIPT_SHA_BYTES) return NULL;
    memcpy(wanted.sha, sha, sizeof wanted.sha);
    struct script_entry *const *found = tfind(&wanted, &cache->by_sha, compare);
    return found != NULL ? *found : NULL;
}

void *cache_use(struct script_cache *cache, const char *sha) {
    struct script_entry *entry = cache_find(cache, sha);
    if (entry == NULL) return NULL;
    TAILQ_REMOVE(&cache->used, entry, used);
    TAILQ_INSERT_TAIL(&cache->used, entry, used);
    return entry;
}

static void drop_oldest(struct script_cache *cache) {
    struct script_entry *entry = TAILQ_FIRST(&cache->used);
    tdelete(entry, &cache->by_sha, compare);
    TAILQ_REMOVE(&cache->used, entry, used);
    cache->count--;
    free(entry);
}

void cache_clear(struct script_cache *cache) {
    while (cache->count > 0) drop_oldest(cache);
}

bool cache_keep(struct script_cache *cache, const char *sha, struct script_entry *entry) {
    memcpy(entry->sha, sha, SCRIPT_SHA_BYTES);
    entry->sha[SCRIPT_SHA_BYTES] = '\0';
    if (tsearch(entry, &cache->by_sha, compare) == NULL) {
        free(entry);
        return false;
    }
    TAILQ_INSERT_TAIL(&cache->used, entry, used);
    if (++cache->count > cache->count_max) drop_oldest(cache);
    return true;
}
