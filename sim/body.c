/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What few messages carry. Big, so it is used again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct body *body_new(struct world *world) {
    struct body *body = world->spare_bodies;
    if (body) {
        world->spare_bodies = body->next;
    } else {
        body = memory_new(sizeof(*body));
        body->all = world->bodies;
        world->bodies = body;
    }
    body->users = 1;
    body->words_count = body->text_bytes = 0;
    body->has_fences = false;
    return body;
}

struct body *body_share(struct body *body) {
    body->users++;
    return body;
}

void body_drop(struct world *world, struct body *body) {
    if (!body || --body->users > 0) return;
    body->next = world->spare_bodies;
    world->spare_bodies = body;
}

void body_add(struct body *body, const void *data, size_t bytes) {
    assert(body->words_count < BODY_WORDS && body->text_bytes + bytes <= BODY_TEXT);
    body->words[body->words_count++] = (struct word){(uint16_t)body->text_bytes, (uint16_t)bytes};
    if (bytes > 0) memcpy(body->text + body->text_bytes, data, bytes);
    body->text_bytes += bytes;
}

struct net_bytes body_word(const struct body *body, size_t index) {
    assert(index < body->words_count);
    return (struct net_bytes){body->text + body->words[index].at, body->words[index].bytes};
}

void body_set_fences(struct body *body, const int64_t *fences) {
    memcpy(body->fences, fences, sizeof(body->fences));
    body->has_fences = true;
}

/* Whatever an earlier run left with its messages and logs. */
void bodies_begin(struct world *world) {
    world->spare_bodies = NULL;
    for (struct body *body = world->bodies; body; body = body->all) {
        body->next = world->spare_bodies;
        world->spare_bodies = body;
    }
}

void bodies_free(struct world *world) {
    while (world->bodies) {
        struct body *body = world->bodies;
        world->bodies = body->all;
        free(body);
    }
}
