/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The large parts that few messages have. They are reused.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct payload *payload_new(struct world *world) {
    struct payload *payload = world->spare_payloads;
    if (payload) {
        world->spare_payloads = payload->next;
    } else {
        payload = memory_new(sizeof(*payload));
        payload->all = world->payloads;
        world->payloads = payload;
    }
    payload->users = 1;
    payload->words_count = payload->text_bytes = 0;
    payload->has_fences = false;
    return payload;
}

struct payload *payload_share(struct payload *payload) {
    payload->users++;
    return payload;
}

void payload_drop(struct world *world, struct payload *payload) {
    if (!payload || --payload->users > 0) return;
    payload->next = world->spare_payloads;
    world->spare_payloads = payload;
}

void payload_add(struct payload *payload, const void *data, size_t bytes) {
    assert(payload->words_count < PAYLOAD_WORDS && payload->text_bytes + bytes <= PAYLOAD_TEXT);
    payload->words[payload->words_count++] =
        (struct word){(uint16_t)payload->text_bytes, (uint16_t)bytes};
    if (bytes > 0) memcpy(payload->text + payload->text_bytes, data, bytes);
    payload->text_bytes += bytes;
}

struct net_bytes payload_word(const struct payload *payload, size_t index) {
    assert(index < payload->words_count);
    return (struct net_bytes){payload->text + payload->words[index].at,
                              payload->words[index].bytes};
}

void payload_set_fences(struct payload *payload, const int64_t *fences) {
    memcpy(payload->fences, fences, sizeof(payload->fences));
    payload->has_fences = true;
}

/* Frees the payloads that an earlier run left in its messages and logs. */
void payloads_begin(struct world *world) {
    world->spare_payloads = NULL;
    for (struct payload *payload = world->payloads; payload; payload = payload->all) {
        payload->next = world->spare_payloads;
        world->spare_payloads = payload;
    }
}

void payloads_free(struct world *world) {
    while (world->payloads) {
        struct payload *payload = world->payloads;
        world->payloads = payload->all;
        free(payload);
    }
}
