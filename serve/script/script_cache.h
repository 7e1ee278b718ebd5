/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is kept of scripts, by their names: the gateway keeps texts, a worker the code that Lua has
 * compiled. The number is bounded: a new entry replaces the one unused for longest.
 */
#ifndef SERVE_SCRIPT_CACHE_H
#define SERVE_SCRIPT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "script_name.h"

/* The first member of a block from malloc(), which the cache frees. */
struct script_entry {
    TAILQ_ENTRY(script_entry) used;
    char sha[SCRIPT_SHA_BYTES + 1];
};

struct script_cache {
    TAILQ_HEAD(script_entries, script_entry) used; /* the one unused for longest first */
    void *by_sha;                                  /* tsearch(3) */
    size_t count, count_max;
};

void cache_open(struct script_cache *cache, size_t count_max);
/* Drops all entries. */
void cache_clear(struct script_cache *cache);
/* The entry, or NULL. It lives until another one is kept. `sha` may be in upper or lower case. */
void *cache_find(const struct script_cache *cache, const char *sha);
/* The same, and marks it as used. */
void *cache_use(struct script_cache *cache, const char *sha);
/* Owns the entry, whose name is not kept yet. False: out of memory. */
bool cache_keep(struct script_cache *cache, const char *sha, struct script_entry *entry);

#endif
