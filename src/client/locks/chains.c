/* SPDX-License-Identifier: BSD-2-Clause */
#include "chains.h"

#include <stdlib.h>

enum { PER_CHAIN = 2 };

static void put(struct chained **chain, struct chained *thing) {
    thing->next = *chain;
    thing->at = chain;
    if (thing->next) thing->next->at = &thing->next;
    *chain = thing;
}

/* Without memory the table stays as it is: longer chains, but nothing is lost. */
static void grow(struct chains *chains, uint32_t to) {
    struct chained **chain = calloc(to, sizeof *chain);
    if (!chain) return;
    for (uint32_t i = 0; i < chains->chains; i++) {
        for (struct chained *thing = chains->chain[i], *next; thing; thing = next) {
            next = thing->next;
            put(&chain[thing->hash & (to - 1)], thing);
        }
    }
    free(chains->chain);
    chains->chain = chain;
    chains->chains = to;
}

bool chains_add(struct chains *chains, struct chained *thing, uint32_t hash, uint32_t least) {
    bool full = chains->count / PER_CHAIN >= chains->chains && chains->chains <= UINT32_MAX / 4;
    if (chains->chains == 0)
        grow(chains, least);
    else if (full && !chains->walked)
        grow(chains, chains->chains * 2);
    if (chains->chains == 0) return false;
    thing->hash = hash;
    put(&chains->chain[hash & (chains->chains - 1)], thing);
    chains->count++;
    return true;
}

void chains_remove(struct chains *chains, struct chained *thing) {
    *thing->at = thing->next;
    if (thing->next) thing->next->at = thing->at;
    chains->count--;
}

static struct chained *of_hash(struct chained *thing, uint32_t hash) {
    while (thing && thing->hash != hash) thing = thing->next;
    return thing;
}

struct chained *chains_first(const struct chains *chains, uint32_t hash) {
    return chains->chains == 0 ? NULL : of_hash(chains->chain[hash & (chains->chains - 1)], hash);
}

struct chained *chains_next(const struct chained *thing) {
    return of_hash(thing->next, thing->hash);
}

void chains_free(struct chains *chains, void (*end)(void *thing)) {
    for (uint32_t i = 0; end && i < chains->chains; i++) {
        for (struct chained *thing = chains->chain[i], *next; thing; thing = next) {
            next = thing->next;
            end(thing);
        }
    }
    free(chains->chain);
    *chains = (struct chains){0};
}
