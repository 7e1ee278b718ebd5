/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages and what they consist of: tokens, which have numbers, and the large parts that few
 * messages have. All of them are reused, also by the next run.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

struct net_bytes token_bytes(const struct tokens *tokens, uint32_t number) {
    if (number == 0) return (struct net_bytes){NULL, 0};
    const struct token *token = &tokens->each[number - 1];
    return (struct net_bytes){tokens->bytes + token->at, token->bytes};
}

/* The hash only finds a number again; no code walks in its order. */
static uint32_t *find(const struct tokens *tokens, struct net_bytes bytes) {
    size_t mask = tokens->slots_count - 1;
    for (size_t at = (size_t)rl_fnv1a(RL_FNV_BASIS, bytes.data, bytes.bytes) & mask;;
         at = (at + 1) & mask) {
        if (tokens->slots[at] == 0) return &tokens->slots[at];
        struct net_bytes here = token_bytes(tokens, tokens->slots[at]);
        if (here.bytes == bytes.bytes && memcmp(here.data, bytes.data, bytes.bytes) == 0)
            return &tokens->slots[at];
    }
}

static void rehash(struct tokens *tokens) {
    free(tokens->slots);
    tokens->slots_count = tokens->slots_count ? tokens->slots_count * 2 : 256;
    tokens->slots = memory_new(tokens->slots_count * sizeof(tokens->slots[0]));
    for (uint32_t number = 1; number <= tokens->count; number++)
        *find(tokens, token_bytes(tokens, number)) = number;
}

uint32_t token_number(struct tokens *tokens, struct net_bytes bytes) {
    if (bytes.bytes == 0) return 0;
    if ((tokens->count + 1) * 2 > tokens->slots_count) rehash(tokens);
    uint32_t *slot = find(tokens, bytes);
    if (*slot != 0) return *slot;
    if (tokens->count == tokens->capacity)
        tokens->each = memory_grow(tokens->each, &tokens->capacity, sizeof(tokens->each[0]), 128);
    while (tokens->bytes_count + bytes.bytes > tokens->bytes_capacity)
        tokens->bytes = memory_grow(tokens->bytes, &tokens->bytes_capacity, 1, 8192);
    memcpy(tokens->bytes + tokens->bytes_count, bytes.data, bytes.bytes);
    tokens->each[tokens->count++] = (struct token){tokens->bytes_count, bytes.bytes};
    tokens->bytes_count += bytes.bytes;
    return *slot = (uint32_t)tokens->count;
}

void tokens_clear(struct tokens *tokens) {
    tokens->count = tokens->bytes_count = 0;
    if (tokens->slots) memset(tokens->slots, 0, tokens->slots_count * sizeof(tokens->slots[0]));
}

/* ---- large parts ----------------------------------------------------------------------------- */

struct message_body *body_new(struct world *world) {
    struct message_body *body = world->spare_bodies;
    if (body) {
        world->spare_bodies = body->next;
    } else {
        body = memory_new(sizeof(*body));
        body->all = world->bodies;
        world->bodies = body;
    }
    body->words_count = body->text_bytes = 0;
    body->has_fences = false;
    return body;
}

void body_drop(struct world *world, struct message_body *body) {
    if (!body) return;
    body->next = world->spare_bodies;
    world->spare_bodies = body;
}

void body_add(struct message_body *body, const void *data, size_t bytes) {
    assert(body->words_count < BODY_WORDS && body->text_bytes + bytes <= BODY_TEXT);
    body->words[body->words_count++] = (struct word){(uint16_t)body->text_bytes, (uint16_t)bytes};
    if (bytes > 0) memcpy(body->text + body->text_bytes, data, bytes);
    body->text_bytes += bytes;
}

struct net_bytes body_word(const struct message_body *body, size_t index) {
    assert(index < body->words_count);
    return (struct net_bytes){body->text + body->words[index].at, body->words[index].bytes};
}

void body_set_fences(struct message_body *body, const int64_t *fences) {
    memcpy(body->fences, fences, sizeof(body->fences));
    body->has_fences = true;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { MESSAGES_AT_ONCE = 256 };

struct chunk {
    struct chunk *next;
    struct message messages[MESSAGES_AT_ONCE];
};

static void spare_chunk(struct world *world, struct chunk *chunk) {
    for (size_t i = 0; i < MESSAGES_AT_ONCE; i++) {
        chunk->messages[i].body = NULL; /* an earlier run may have left one there */
        message_free(world, &chunk->messages[i]);
    }
}

/* Takes back the messages and bodies that an earlier run left under way and in logs. */
void messages_begin(struct world *world) {
    world->spare = NULL;
    world->spare_bodies = NULL;
    world->messages_count = 0;
    for (struct message_body *body = world->bodies; body; body = body->all) {
        body->next = world->spare_bodies;
        world->spare_bodies = body;
    }
    for (struct chunk *chunk = world->chunks; chunk; chunk = chunk->next) spare_chunk(world, chunk);
}

void messages_free(struct world *world) {
    while (world->chunks) {
        struct chunk *chunk = world->chunks;
        world->chunks = chunk->next;
        free(chunk);
    }
    while (world->bodies) {
        struct message_body *body = world->bodies;
        world->bodies = body->all;
        free(body);
    }
    free(world->tokens.bytes);
    free(world->tokens.each);
    free(world->tokens.slots);
}

struct message *message_new(struct world *world) {
    if (!world->spare) {
        struct chunk *chunk = memory_new(sizeof(*chunk));
        chunk->next = world->chunks;
        world->chunks = chunk;
        spare_chunk(world, chunk);
    }
    struct message *message = world->spare;
    world->spare = message->next;
    memset(message, 0, sizeof(*message));
    return message;
}

void message_free(struct world *world, struct message *message) {
    body_drop(world, message->body);
    message->body = NULL;
    message->next = world->spare;
    world->spare = message;
}

void messages_push(struct messages *queue, struct message *message) {
    message->next = NULL;
    if (queue->tail)
        queue->tail->next = message;
    else
        queue->head = message;
    queue->tail = message;
}

struct message *messages_pop(struct messages *queue) {
    struct message *message = queue->head;
    if (!message) return NULL;
    queue->head = message->next;
    if (!queue->head) queue->tail = NULL;
    message->next = NULL;
    return message;
}

void messages_drop(struct world *world, struct messages *queue) {
    struct message *message;
    while ((message = messages_pop(queue))) message_free(world, message);
}
