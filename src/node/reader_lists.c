/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/reader_lists.h"

#include <assert.h>
#include <string.h>

#include "node/hash.h"
#include "node/memory.h"

static size_t list_charge(size_t key_bytes) {
    return node_memory_charge(sizeof(struct readers) + key_bytes);
}

static size_t reader_charge(size_t token_bytes) {
    return node_memory_charge(sizeof(struct reader) + token_bytes);
}

static bool begin(struct buckets *buckets) {
    if (buckets->count > 0 || buckets_begin(buckets)) return true;
    buckets_free(buckets);
    buckets->count = 0;
    return false;
}

/* ---- lists ---- */

struct readers *lists_find(const struct reader_lists *lists, struct node_bytes key) {
    if (lists->by_key.items == 0) return NULL;
    const uint32_t hash = node_hash(lists->seed, key);
    struct item *item = buckets_first(&lists->by_key, hash);
    for (; item; item = item->next) {
        struct readers *list = (struct readers *)item;
        if (item->hash == hash && node_equal((struct node_bytes){list->key, list->key_bytes}, key))
            break;
    }
    return (struct readers *)item;
}

struct readers *lists_add(struct reader_lists *lists, struct node_bytes key) {
    assert(key.bytes <= UINT32_MAX && !lists_find(lists, key));
    if (!begin(&lists->by_key) || !begin(&lists->by_token)) return NULL;
    struct readers *list = node_memory_take(sizeof *list + key.bytes);
    if (!list) return NULL;
    *list = (struct readers){.item.hash = node_hash(lists->seed, key),
                             .next = lists->first,
                             .key_bytes = (uint32_t)key.bytes};
    if (key.bytes) memcpy(list->key, key.data, key.bytes);
    if (lists->first) lists->first->previous = list;
    lists->first = list;
    lists->bytes += list_charge(list->key_bytes);
    buckets_add(&lists->by_key, &list->item, true);
    return list;
}

size_t lists_free_some(struct reader_lists *lists, size_t limit) {
    size_t freed = 0;
    for (; freed < limit && lists->dropped; freed++) {
        struct readers *list = lists->dropped;
        if (list->first) {
            lists_drop_reader(lists, list->first);
            continue;
        }
        lists->dropped = list->next;
        lists->bytes -= list_charge(list->key_bytes);
        node_memory_give(list);
    }
    return freed;
}

void lists_drop(struct reader_lists *lists, struct readers *list) {
    buckets_remove(&lists->by_key, &list->item);
    *(list->previous ? &list->previous->next : &lists->first) = list->next;
    if (list->next) list->next->previous = list->previous;
    list->next = lists->dropped;
    lists->dropped = list;
    (void)lists_free_some(lists, lists->at_once);
}

void lists_drop_all(struct reader_lists *lists) {
    while (lists->first) lists_drop(lists, lists->first);
    (void)lists_free_some(lists, SIZE_MAX);
}

void lists_free(struct reader_lists *lists) {
    lists_drop_all(lists);
    buckets_free(&lists->by_key);
    buckets_free(&lists->by_token);
    lists->by_key.count = lists->by_token.count = 0;
}

size_t lists_bytes(const struct reader_lists *lists) {
    return lists->bytes + chunks_bytes(&lists->by_key.chunks) +
           chunks_bytes(&lists->by_token.chunks);
}

/* Each of the two tables may need one more piece. */
size_t lists_bytes_more(const struct reader_lists *lists, size_t key_bytes, size_t token_bytes) {
    return list_charge(key_bytes) + reader_charge(token_bytes) +
           chunks_bytes_more(&lists->by_key.chunks, 1) +
           chunks_bytes_more(&lists->by_token.chunks, 1);
}

/* ---- readers ---- */

static uint32_t hash_of(const struct reader_lists *lists, const struct readers *list,
                        struct node_bytes token) {
    return node_hash(lists->seed + list->item.hash, token);
}

struct reader *lists_reader(const struct reader_lists *lists, const struct readers *list,
                            struct node_bytes token) {
    const uint32_t hash = hash_of(lists, list, token);
    struct item *item = buckets_first(&lists->by_token, hash);
    for (; item; item = item->next) {
        struct reader *reader = (struct reader *)item;
        if (item->hash == hash && reader->list == list &&
            node_equal((struct node_bytes){reader->token, reader->bytes}, token))
            break;
    }
    return (struct reader *)item;
}

/* From the end of the list on: most readers that come, or extend, are the last to end. */
static void put(struct reader *reader) {
    struct readers *list = reader->list;
    struct reader *before = list->last;
    while (before && before->expires_ms > reader->expires_ms) before = before->previous;
    reader->previous = before;
    reader->next = before ? before->next : list->first;
    *(before ? &before->next : &list->first) = reader;
    *(reader->next ? &reader->next->previous : &list->last) = reader;
}

static void take(struct reader *reader) {
    struct readers *list = reader->list;
    *(reader->previous ? &reader->previous->next : &list->first) = reader->next;
    *(reader->next ? &reader->next->previous : &list->last) = reader->previous;
}

struct reader *lists_add_reader(struct reader_lists *lists, struct readers *list,
                                struct node_bytes token, int64_t expires_ms) {
    assert(token.bytes <= UINT32_MAX);
    struct reader *reader = node_memory_take(sizeof *reader + token.bytes);
    if (!reader) return NULL;
    *reader = (struct reader){.item.hash = hash_of(lists, list, token),
                              .list = list,
                              .expires_ms = expires_ms,
                              .bytes = (uint32_t)token.bytes};
    if (token.bytes) memcpy(reader->token, token.data, token.bytes);
    lists->bytes += reader_charge(token.bytes);
    buckets_add(&lists->by_token, &reader->item, true);
    put(reader);
    return reader;
}

void lists_move_reader(struct reader *reader, int64_t expires_ms) {
    take(reader);
    reader->expires_ms = expires_ms;
    put(reader);
}

void lists_drop_reader(struct reader_lists *lists, struct reader *reader) {
    take(reader);
    buckets_remove(&lists->by_token, &reader->item);
    lists->bytes -= reader_charge(reader->bytes);
    node_memory_give(reader);
}

void lists_drop_ended(struct reader_lists *lists, struct readers *list, int64_t now_ms) {
    for (size_t i = 0; i < lists->at_once; i++) {
        if (!list->first || list->first->expires_ms > now_ms) return;
        lists_drop_reader(lists, list->first);
    }
}
