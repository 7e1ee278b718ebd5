/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the parts of a table do with drawn calls (behaviour.h): arrays in pieces, times in order,
 * hash tables, lists of readers, and hashes. Each grows beyond what a piece holds, and shrinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "behaviour.h"
#include "node/buckets.h"
#include "node/chunks.h"
#include "node/ends.h"
#include "node/hash.h"
#include "node/memory.h"
#include "node/reader_lists.h"

/* A size to grow or shrink to: any, or one next to what some pieces hold. */
static size_t draw_size(size_t each, size_t most) {
    if (one_in(2)) return draw_count(most + 1);
    const size_t pieces = 1 + draw_count(most / each), near = pieces * each - 2 + draw_count(5);
    return near < most ? near : most;
}

/* ---- chunks ---- */

static void fold_chunks(const struct chunks *chunks) {
    fold((int64_t)chunks->count);
    fold((int64_t)chunks->capacity);
    fold((int64_t)chunks_bytes(chunks));
}

static void fold_last(const struct chunks *chunks) {
    const unsigned char *piece = chunks->count ? chunks->chunk[chunks->count - 1] : NULL;
    unsigned char any = 0;
    for (size_t i = 0; piece && i < NODE_CHUNK_BYTES; i++) any |= piece[i];
    fold(any);
}

static void walk_chunks(void) {
    struct chunks chunks = {NULL, 0, 0};
    for (size_t more = 0; more < 3; more++) fold((int64_t)chunks_bytes_more(&chunks, more));
    for (int i = 0; i < 120; i++) {
        draw_memory(9);
        if (chunks.count && one_in(3))
            chunks_drop(&chunks);
        else
            fold(chunks_add(&chunks));
        fold_last(&chunks);
        fold_chunks(&chunks);
        fold((int64_t)chunks_bytes_more(&chunks, one_in(3) ? draw_count(3) : draw_count(40)));
        fold_memory();
        if (one_in(100)) chunks_free(&chunks);
    }
    chunks_free(&chunks);
    fold_chunks(&chunks);
    fold(chunks.chunk != NULL);
}

/* ---- ends ---- */

enum { ENDS_MOST = 1700, ENDS_EACH = 512, SPARE = 8 };

static struct item items[3500];
static uint32_t loose[3500]; /* numbers of items: the first `used` of them are in */
static size_t used;

static void loosen(size_t count) {
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < count; i++) loose[i] = (uint32_t)i;
    used = 0;
}

/* The number of one that is out; it is in now. */
static uint32_t draw_out(size_t count) {
    const size_t at = used + draw_count(count - used);
    const uint32_t number = loose[at];
    loose[at] = loose[used];
    loose[used++] = number;
    return number;
}

static uint32_t draw_in(bool goes) {
    const size_t at = draw_count(used);
    const uint32_t number = loose[at];
    if (!goes) return number;
    loose[at] = loose[--used];
    loose[used] = number;
    return number;
}

static int64_t draw_time(void) {
    if (one_in(3)) return (int64_t)draw(4);
    return one_in(20) ? INT64_MAX - (int64_t)draw(2) : (int64_t)draw(1000);
}

static size_t draw_more(const struct ends *ends) {
    const size_t some[] = {0,
                           1,
                           2,
                           ENDS_EACH - 1,
                           ENDS_EACH,
                           ENDS_EACH + 1,
                           UINT32_MAX - (size_t)ends->count,
                           UINT32_MAX,
                           UINT32_MAX - (size_t)ends->count + 1};
    return one_in(4) ? some[draw_count(9)] : draw_count(3 * ENDS_EACH);
}

static void fold_ends(const struct ends *ends, bool all) {
    const struct item *first = ends_first(ends);
    fold(first ? first - items : -1);
    fold(ends_next(ends));
    fold(ends->count);
    fold_chunks(&ends->chunks);
    fold((int64_t)ends_bytes_more(ends, draw_more(ends)));
    for (size_t i = 0; all && i < used; i++) {
        fold(items[loose[i]].place);
        fold(ends_time(ends, &items[loose[i]]));
    }
}

/* There is room if it returns true: for more than one, or of no more than a few pieces. */
static bool room(struct ends *ends) {
    draw_memory(12);
    if (!one_in(20)) return ends_reserve(ends, 1);
    const size_t more = draw_more(ends);
    if (more > 3 * ENDS_EACH) memory_left = (long)draw(3);
    const bool reserved = ends_reserve(ends, more);
    fold(reserved);
    memory_left = -1;
    return ends_reserve(ends, 1) && reserved;
}

static void change_ends(struct ends *ends, bool grows) {
    const uint64_t what = draw(10);
    if (used == 0 || (grows ? what < 7 : what < 1)) {
        const bool has_room = room(ends);
        fold(has_room);
        if (!has_room || used == ENDS_MOST) return;
        const int64_t time = draw_time();
        ends_add(ends, &items[draw_out(ENDS_MOST)], time);
    } else if (what < 8) {
        ends_remove(ends, &items[draw_in(true)]);
    } else if (one_in(4)) { /* it is somewhere else in memory now */
        const uint32_t from = draw_in(true), to = draw_out(ENDS_MOST);
        const struct item moved = items[from];
        items[to] = moved;
        ends_move(ends, &items[to], ends_time(ends, &items[to]));
    } else {
        struct item *item = &items[draw_in(false)];
        const int64_t time = ends_time(ends, item);
        const bool near = one_in(3) && time > 0 && time < INT64_MAX - 1;
        ends_move(ends, item, near ? time + (int64_t)draw(3) - 1 : draw_time());
    }
}

static void walk_ends(void) {
    struct ends ends = {{NULL, 0, 0}, 0};
    loosen(ENDS_MOST);
    for (int leg = 0; leg < 4; leg++) {
        const size_t to = draw_size(ENDS_EACH, ENDS_MOST);
        const bool grows = to > used;
        for (int i = 0; i < 3000 && used != to; i++) {
            change_ends(&ends, grows);
            fold_ends(&ends, i % 256 == 0);
        }
        fold_ends(&ends, true);
        fold_memory();
    }
    ends_free(&ends);
    fold_ends(&ends, false);
}

/* ---- buckets ---- */

enum { BUCKETS_MOST = 3300, BUCKETS_EACH = 1024 };

static void fold_bucket(const struct item *item) {
    for (; item; item = item->next) fold(item - items);
    fold(-1);
}

static void fold_scan(const struct buckets *buckets) {
    uint32_t cursor = (uint32_t)(one_in(2) ? 0 : draw(UINT32_MAX));
    do {
        fold_bucket(buckets_scan(buckets, cursor, &cursor));
        fold(cursor);
    } while (cursor != 0);
}

static void fold_buckets(const struct buckets *buckets) {
    fold(buckets->count);
    fold((int64_t)buckets->items);
    fold_chunks(&buckets->chunks);
    fold_bucket(buckets_first(buckets, (uint32_t)draw(UINT32_MAX)));
    if (one_in(150)) fold_scan(buckets);
}

static void change_buckets(struct buckets *buckets, bool grows) {
    if (used > 0 && (grows ? one_in(5) : !one_in(5))) {
        struct item *item = &items[draw_in(true)];
        buckets_remove(buckets, item);
        fold_bucket(buckets_first(buckets, item->hash));
        return;
    }
    if (used == BUCKETS_MOST) return;
    struct item *item = &items[draw_out(BUCKETS_MOST)];
    item->hash = (uint32_t)(one_in(9) ? draw(20) : draw(UINT64_C(1) << 32));
    draw_memory(6);
    buckets_add(buckets, item, !one_in(8));
    fold_bucket(buckets_first(buckets, item->hash));
}

static void walk_buckets(void) {
    struct buckets buckets;
    memory_left = -1;
    loosen(BUCKETS_MOST);
    fold(buckets_begin(&buckets));
    for (int leg = 0; leg < 4; leg++) {
        const size_t to = leg == 1 ? draw_count(300) : draw_size(BUCKETS_EACH, BUCKETS_MOST);
        const bool grows = to > used;
        for (int i = 0; i < 5000 && used != to; i++) {
            change_buckets(&buckets, grows);
            fold_buckets(&buckets);
        }
        fold_scan(&buckets);
        fold_memory();
    }
    buckets_free(&buckets);
    memory_left = (long)draw(2);
    fold(buckets_begin(&buckets));
    buckets_free(&buckets);
}

/* ---- lists of readers ---- */

/* Enough of both for more than the fewest buckets. */
enum { KEYS = 30, TOKENS = 60, NAME_BYTES = 16 };

static struct node_bytes draw_text(char name[NAME_BYTES], const char *const some[3],
                                   unsigned most) {
    const char *const chosen = some[draw(3)];
    const int width = (int)draw(3);
    const unsigned number = (unsigned)draw(most);
    const int bytes = one_in(4) ? snprintf(name, NAME_BYTES, "%s", chosen)
                                : snprintf(name, NAME_BYTES, "%*u", width, number);
    return (struct node_bytes){name, one_in(40) ? 0 : (size_t)bytes};
}

static struct node_bytes draw_key(char name[NAME_BYTES], unsigned most) {
    static const char *const some[] = {SAME_HASH_KEYS, SAME_HASH_LIST};
    return draw_text(name, some, most);
}

static struct node_bytes draw_token(char name[NAME_BYTES]) {
    static const char *const some[] = {SAME_HASH_TOKENS, ""};
    return draw_text(name, some, TOKENS);
}

static void fold_reader(const struct reader *reader) {
    fold_bytes((struct node_bytes){reader->token, reader->bytes});
    fold(reader->expires_ms);
    fold(reader->item.hash);
}

static void fold_lists(const struct reader_lists *lists, bool all) {
    unsigned dropped = 0;
    for (const struct readers *list = lists->dropped; list; list = list->next) dropped++;
    fold(dropped);
    fold((int64_t)lists->bytes);
    fold((int64_t)lists_bytes(lists));
    const size_t key_bytes = draw_count(40);
    fold((int64_t)lists_bytes_more(lists, key_bytes, draw_count(40)));
    fold((int64_t)lists->by_key.items << 32 | lists->by_key.count);
    fold((int64_t)lists->by_token.items << 32 | lists->by_token.count);
    fold_memory();
    const struct readers *before = NULL;
    for (struct readers *list = lists->first; all && list; before = list, list = list->next) {
        fold_bytes((struct node_bytes){list->key, list->key_bytes});
        fold(list->expires_ms);
        fold(list->previous == before);
        const struct reader *behind = NULL;
        for (const struct reader *reader = list->first; reader; reader = reader->next) {
            fold_reader(reader);
            fold(reader->previous == behind && reader->list == list);
            behind = reader;
        }
        fold(list->last == behind);
    }
}

static void change_reader(struct reader_lists *lists, struct readers *list) {
    char name[NAME_BYTES];
    const struct node_bytes token = draw_token(name);
    const int64_t expires_ms = (int64_t)draw(40);
    struct reader *reader = lists_reader(lists, list, token);
    fold(reader != NULL);
    draw_memory(12);
    if (!reader) {
        reader = lists_add_reader(lists, list, token, expires_ms);
        fold(reader != NULL);
    } else if (one_in(3)) {
        fold_reader(reader);
        lists_drop_reader(lists, reader);
    } else {
        fold_reader(reader);
        lists_move_reader(reader, expires_ms);
    }
}

static void change_lists(struct reader_lists *lists, unsigned keys) {
    char name[NAME_BYTES];
    const struct node_bytes key = draw_key(name, keys);
    struct readers *list = lists_find(lists, key);
    const uint64_t what = draw(40);
    fold(list != NULL);
    draw_memory(4);
    if (!list) {
        list = lists_add(lists, key);
        fold(list != NULL);
        if (list) list->expires_ms = (int64_t)draw(50);
    } else if (what < 36) {
        change_reader(lists, list);
    } else if (what < 37) {
        lists_drop_ended(lists, list, (int64_t)draw(30));
    } else if (what < 38) {
        lists_drop(lists, list);
    } else if (what < 39) {
        fold((int64_t)lists_free_some(lists, draw_count(12)));
    } else if (one_in(20)) {
        lists_drop_all(lists);
    }
}

static void walk_lists(void) {
    static const size_t at_once[] = {1, 3, 16, SIZE_MAX};
    struct reader_lists lists = {.seed = SAME_HASH_SEED, .at_once = at_once[draw(4)]};
    const unsigned keys = one_in(2) ? 2 : KEYS;
    if (one_in(2)) lists.seed = draw(UINT64_MAX);
    for (int i = 0; i < 1000; i++) {
        change_lists(&lists, keys);
        fold_lists(&lists, i % 16 == 0);
        if (!one_in(300)) continue;
        lists_free(&lists);
        fold_lists(&lists, true);
    }
    lists_free(&lists);
}

/* ---- hashes, and what memory is charged for ---- */

static void walk_hashes(void) {
    unsigned char bytes[80];
    const uint64_t seed = one_in(4) ? 0 : draw(UINT64_MAX);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)draw(256);
    for (size_t i = 0; i < sizeof bytes; i++) {
        fold(node_hash(seed, (struct node_bytes){bytes, i}));
        fold(node_hash(seed, (struct node_bytes){bytes + 1, i}));
        fold((int64_t)node_memory_charge(i));
    }
}

/* ---- the kinds ---- */

enum kind { CHUNKS, ENDS, BUCKETS, LISTS, HASHES, KINDS };

static const struct kept_number kept[KINDS] = {
    [CHUNKS] = {"chunks", UINT64_C(0xc3c3f4563f3b43e6)},
    [ENDS] = {"ends", UINT64_C(0xf293e7c822fbda4d)},
    [BUCKETS] = {"buckets", UINT64_C(0x488eeb3c7a175ef9)},
    [LISTS] = {"lists of readers", UINT64_C(0x7304328a7e6ef098)},
    [HASHES] = {"hashes", UINT64_C(0x4b183a144d1630e5)},
};

static uint64_t number_of(unsigned kind) {
    static void (*const walks[KINDS])(void) = {walk_chunks, walk_ends, walk_buckets, walk_lists,
                                               walk_hashes};
    static const int count[KINDS] = {50, 30, 20, 60, 20};
    for (int i = 0; i < count[kind]; i++) walks[kind]();
    memory_left = -1;
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of the parts of a table", tests, NULL, NULL);
}
