/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a node does with drawn requests (behaviour.h), on a stock table and on a native one: plain
 * locks, guarded mode and its record, shared locks, slots, what other programs do, and snapshots.
 * Times are small numbers, so that many requests come at the very end of a key. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "behaviour.h"
#include "node/slots.h"

enum {
    WALKS = 160,
    REQUESTS = 400,
    SLOTS = 6, /* of one resource; their keys are among the others */
    KEYS = 44,
    LONG = 4, /* the last keys are as long as a node hashes, and longer */
    LONG_BYTES = 4098,
    STRIPES = 6,
    NONCES = 4,
    AT_ONCE = 4, /* keys of a request */
    NAME_BYTES = 16
};

/* ---- names ---- */

static char names[KEYS][NAME_BYTES], long_names[LONG][LONG_BYTES];
static struct node_bytes keys[KEYS];
static char slot_names[NODE_SLOTS_MAX][NAME_BYTES + 8];
static struct node_bytes slots[NODE_SLOTS_MAX];
/* The first and the last are where arrays end. */
static const uint16_t stripes[STRIPES] = {0, 4095, 7, 8, 63, 64};

static uint16_t stripe_of(struct node_bytes key) {
    return rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
}

static struct node_bytes text(const char *bytes) {
    return (struct node_bytes){bytes, strlen(bytes)};
}

/* Each has one of the stripes, so that many are neighbours. */
static struct node_bytes find_key(unsigned key) {
    for (unsigned i = 0;; i++) {
        snprintf(names[key], NAME_BYTES, "k%x-%x", key, i);
        if (stripe_of(text(names[key])) == stripes[key % STRIPES]) return text(names[key]);
    }
}

static void name_slots(void) {
    for (unsigned slot = 1; slot <= NODE_SLOTS_MAX; slot++) {
        snprintf(slot_names[slot - 1], sizeof slot_names[0], "r:slot:%u", slot);
        slots[slot - 1] = text(slot_names[slot - 1]);
    }
}

static int name_keys(void **state) {
    static const char *const same_hash[] = {SAME_HASH_KEYS};
    (void)state;
    name_slots();
    for (unsigned i = 0; i < KEYS; i++) keys[i] = find_key(i);
    keys[0] = text(same_hash[0]);
    keys[1] = text(same_hash[1]);
    for (unsigned i = 0; i < SLOTS; i++) keys[2 + i] = slots[i];
    for (unsigned i = 0; i < LONG; i++) {
        memset(long_names[i], 'a' + (int)i, LONG_BYTES);
        keys[KEYS - LONG + i] = (struct node_bytes){long_names[i], LONG_BYTES - LONG + 1 + i};
    }
    return 0;
}

#define HEX "000000000000000000000000000000000000000"
static const char *const tokens[] = {"",        "x",       "y",       HEX "1/3",         HEX "2/3",
                                     HEX "3/3", HEX "1/2", HEX "4/6", NODE_SHARED_MARKER};
enum { TOKENS = sizeof tokens / sizeof tokens[0] };

/* ---- the world ---- */

enum focus { PLAIN, GUARDED, SHARED, SLOTTED, OTHERS, FOCI };

static struct node_table *table, *snapshot;
static bool native;
static int64_t now_ms;
static uint64_t nonce; /* of the record; 0: none */
static bool kept;      /* its fences are */
static unsigned keys_used, readers_used;
static uint64_t cursor, memory_rare;
static int64_t floors[NODE_STRIPES + 1];

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    fold((int64_t)change << 8 | (context == &snapshot));
    fold_bytes(key);
    fold_bytes(token);
    fold(expires_ms);
}

static unsigned draw_key(void) {
    return one_in(12) ? (unsigned)draw(KEYS) : (unsigned)draw(keys_used);
}

static struct node_bytes draw_token(void) { return text(tokens[draw(TOKENS)]); }

/* Mostly that of the key's holder, if the snapshot does not know better. */
static struct node_bytes holder_or_any(struct node_bytes key) {
    const struct node_bytes held = node_get(table, key, now_ms);
    static char kept_token[64];
    if (held.bytes == 0 || held.bytes > sizeof kept_token || one_in(5)) return draw_token();
    memcpy(kept_token, held.data, held.bytes);
    return (struct node_bytes){kept_token, held.bytes};
}

static int64_t draw_ttl(void) { return 1 + (int64_t)(one_in(9) ? draw(100) : draw(14)); }

static uint64_t draw_nonce(void) { return one_in(12) ? draw(NONCES + 1) : nonce; }

/* Next to the highest of a stripe. */
static int64_t draw_fence(uint16_t stripe) {
    const int64_t *fences = node_fences(table, kept ? 0 : nonce);
    const int64_t fence = (fences ? fences[stripe] : 0) + (int64_t)draw(4) - 1;
    return fence < 1 ? 1 : fence;
}

struct request {
    struct node_bytes keys[AT_ONCE], token;
    uint16_t stripes[AT_ONCE + 1];
    size_t count, stripes_count;
    int64_t ttl_ms, fence;
    uint64_t nonce;
};

static void name_stripe(struct request *request, uint16_t stripe) {
    for (size_t i = 0; i < request->stripes_count; i++)
        if (request->stripes[i] == stripe) return;
    request->stripes[request->stripes_count++] = stripe;
}

static struct request draw_request(bool by_holder) {
    struct request request = {.count = one_in(3) ? 1 + draw_count(AT_ONCE) : 1};
    for (size_t i = 0; i < request.count; i++) request.keys[i] = keys[draw_key()];
    request.token = by_holder ? holder_or_any(request.keys[0]) : draw_token();
    request.ttl_ms = draw_ttl();
    for (size_t i = 0; i < request.count; i++)
        if (!one_in(12)) name_stripe(&request, stripe_of(request.keys[i]));
    if (request.stripes_count == 0 || one_in(9)) name_stripe(&request, stripes[draw(STRIPES)]);
    request.fence = draw_fence(request.stripes[draw(request.stripes_count)]);
    request.nonce = draw_nonce();
    return request;
}

/* ---- requests ---- */

static void plain(void) {
    const uint64_t what = draw(6);
    const struct request r = draw_request(what >= 2);
    if (what < 2)
        fold(node_acquire(table, r.keys, r.count, r.token, r.ttl_ms, now_ms));
    else if (what < 4)
        fold(node_extend(table, r.keys, r.count, r.token, r.ttl_ms, now_ms));
    else if (what < 5)
        fold(node_release(table, r.keys, r.count, r.token, now_ms));
    else
        node_expire_key(table, r.keys[0], now_ms);
}

static void write_record(void) {
    static char large[65536];
    char digits[17];
    const uint64_t next = 1 + draw(NONCES);
    snprintf(digits, sizeof digits, "%016" PRIx64, next);
    const struct node_field fields[] = {
        {text("quorum"), text("q")}, {text("nonce"), text(digits)}, {text(""), text("")}};
    struct node_field written[NODE_FIELDS_MAX];
    const bool first = one_in(2);
    struct node_record_write write = {.nonce = next, .fields = written};
    write.expected = one_in(9) ? draw(NONCES + 1) : nonce;
    write.was_kept = one_in(9) ? one_in(2) : kept;
    write.keep = one_in(3);
    if (!first) written[write.fields_count++] = fields[0];
    written[write.fields_count++] = fields[1];
    if (one_in(2)) written[write.fields_count++] = fields[2];
    if (one_in(4)) { /* 65536 bytes, or one more or less */
        const size_t before = (first ? 0 : 7) + 5 + 16;
        const size_t bytes = sizeof large - before - 2 + draw_count(3);
        written[write.fields_count++] =
            (struct node_field){text("l"), {large, bytes < sizeof large ? bytes : sizeof large}};
    }
    if (!one_in(3)) write.floor = floors;
    for (unsigned i = 0; i < STRIPES; i++)
        floors[stripes[i]] = one_in(2) ? 0 : draw_fence(stripes[i]);
    const enum node_answer answer = node_record_write(table, &write);
    fold(answer);
    if (answer != NODE_GRANTED) return;
    nonce = next;
    kept = write.keep;
}

static enum node_answer break_lock(const struct request *r, int64_t *highest) {
    const uint64_t next = native ? nonce : 1 + draw(NONCES);
    const enum node_answer answer =
        node_break(table, r->keys[0], r->token, r->nonce, (uint32_t)(next - r->nonce), r->fence,
                   r->stripes, r->stripes_count, now_ms, highest);
    if (answer == NODE_GRANTED || answer == NODE_ABSENT || answer == NODE_DENIED) nonce = next;
    return answer;
}

static void guarded(void) {
    const uint64_t what = draw(20);
    const struct request r = draw_request(what >= 5);
    const size_t none_or_all = one_in(6) ? 0 : r.count;
    int64_t highest = -7;
    enum node_answer answer = NODE_GRANTED;
    if (what < 5)
        answer = node_acquire_guarded(table, r.keys, r.count, r.token, r.ttl_ms, r.nonce, r.fence,
                                      r.stripes, r.stripes_count, now_ms);
    else if (what < 8)
        answer = node_extend_guarded(table, r.keys, r.count, r.token, r.ttl_ms, r.nonce, r.fence,
                                     r.stripes, r.stripes_count, now_ms);
    else if (what < 12)
        answer = node_raise(table, r.keys, none_or_all, r.token, r.nonce, r.fence, r.stripes,
                            r.stripes_count, now_ms, &highest);
    else if (what < 14)
        answer = break_lock(&r, &highest);
    else if (what < 17)
        answer = node_confirm(table, r.keys, r.count, r.token, r.nonce, r.fence, r.stripes,
                              r.stripes_count, now_ms);
    else if (what < 19 && !native)
        answer = node_zadd(table, r.nonce, r.fence, r.stripes, r.stripes_count);
    else if (what == 19)
        write_record();
    fold(answer);
    fold(highest);
}

static void visit_reader(void *context, struct node_bytes reader, int64_t expires_ms) {
    (void)context;
    fold_bytes(reader);
    fold(expires_ms);
}

static void look_at_readers(struct node_bytes key, struct node_bytes reader) {
    int64_t count = -7;
    fold(node_is_shared(table, key, now_ms));
    fold(node_share_is_listed(table, key, reader, now_ms));
    fold(node_readers_count(table, key, now_ms, &count));
    fold(count);
    node_readers(table, key, now_ms, visit_reader, NULL);
}

static void shared(void) {
    char name[16];
    const unsigned number = (unsigned)draw(readers_used);
    snprintf(name, sizeof name, "r%u", number);
    struct node_share share = {.key = keys[draw_key()], .reader = text(name)};
    share.ttl_ms = draw_ttl();
    share.guarded = one_in(4);
    share.nonce = draw_nonce();
    share.stripe = one_in(9) ? stripes[draw(STRIPES)] : stripe_of(share.key);
    share.fence = draw_fence(share.stripe);
    int64_t fence = -7;
    const uint64_t what = draw(20);
    if (one_in(6)) share.reader = holder_or_any(share.key);
    if (share.reader.bytes == sizeof NODE_SHARED_MARKER - 1) share.reader = text(name);
    if (what < 9)
        fold(node_share(table, &share, now_ms, &fence));
    else if (what < 12)
        fold(node_share_extend(table, &share, now_ms));
    else if (what < 14)
        fold(node_share_release(table, &share, now_ms));
    else if (what < 16) /* one that may become a reader */
        fold(node_acquire(table, &share.key, 1, share.reader, share.ttl_ms, now_ms));
    else if (what < 17)
        fold((int64_t)node_free_some(table, draw_count(6)));
    else if (what < 18 && !native)
        node_lists_expire(table, now_ms, one_in(2));
    else
        look_at_readers(share.key, share.reader);
    fold(fence);
}

static void slotted(void) {
    static const unsigned counts[] = {3, 3, 3, 3, 3, 2, 6, 1, 64};
    uint8_t order[SLOTS];
    uint16_t of_slots[NODE_SLOTS_MAX];
    struct node_slot_request request = {.names = slots, .order = order};
    request.count = counts[draw(9)];
    request.token = draw_token();
    request.ttl_ms = draw_ttl();
    for (unsigned i = 0; i < SLOTS && i < request.count; i++)
        if (!one_in(6)) order[request.order_count++] = (uint8_t)(i + 1);
    for (unsigned i = 1; i < request.order_count; i++) {
        const unsigned other = (unsigned)draw(i + 1);
        const uint8_t slot = order[i];
        order[i] = order[other];
        order[other] = slot;
    }
    if (one_in(4)) request.barred = draw(64);
    if (one_in(2)) {
        for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) of_slots[i] = stripe_of(slots[i]);
        request.stripes = of_slots;
        request.nonce = draw_nonce();
        request.fence = draw_fence(of_slots[draw(3)]);
    }
    const struct node_slot_answer answer = node_acquire_slot(table, &request, now_ms);
    fold((int64_t)answer.answer | (int64_t)answer.slot << 8 | (int64_t)answer.other_count << 16);
    fold(answer.remaining_ms);
}

/* Record and fences too, by their names. */
static struct node_bytes draw_any_name(void) {
    static const char *const some[] = {"redlock:node", "redlock:fences:kept",
                                       "redlock:fences:0000000000000001", "redlock:fences:x"};
    return one_in(5) ? text(some[draw(4)]) : keys[draw_key()];
}

static bool is_gone(struct node_bytes name) {
    return name.bytes == strlen("redlock:node") && memcmp(name.data, "redlock:node", 12) == 0;
}

static void others(void) {
    const struct node_bytes key = keys[draw_key()], name = draw_any_name();
    const struct node_bytes value = draw_token();
    const uint64_t what = draw(40);
    const int64_t ttl_ms = one_in(4) ? 0 : draw_ttl();
    if (what < 12) {
        fold(node_set(table, key, value, ttl_ms, now_ms));
    } else if (what < 16) {
        fold(node_set_other_type(table, key, now_ms));
    } else if (what < 20) {
        fold(node_delete(table, name, now_ms));
        if (!native && is_gone(name)) nonce = 0;
    } else if (what < 22) {
        fold(node_evict_key(table, name));
        if (!native && is_gone(name)) nonce = 0;
    } else if (what < 26) {
        fold(node_pexpire(table, key, ttl_ms - (int64_t)draw(2), now_ms));
    } else if (what < 30) {
        node_expire_due(table, now_ms);
    } else if (what < 36) {
        fold((int64_t)node_expire_some(table, now_ms, draw_count(4)));
    } else if (what < 37) {
        node_flush_all(table);
        nonce = 0;
    } else if (what < 38) {
        fold(node_table_copy(snapshot, table));
    } else if (what < 39) {
        const struct node_field *fields;
        fold(node_table_copy(table, snapshot));
        nonce = 0;
        for (size_t i = 0, count = node_record(table, &fields); i < count; i++)
            if (fields[i].name.bytes == 5)
                nonce = (uint64_t)((const char *)fields[i].value.data)[15] - '0';
        kept = node_fences(table, 0) != NULL;
    }
}

/* ---- what there is ---- */

static void visit(void *context, const struct node_lock *lock) {
    (void)context;
    fold_bytes(lock->key);
    fold_bytes(lock->token);
    fold(lock->expires_ms);
    fold(lock->fence);
    fold(lock->other_type);
}

static void look(void) {
    const struct node_bytes key = keys[draw_key()];
    struct node_lock lock;
    const uint64_t what = draw(6);
    if (what == 0) fold(node_pttl(table, key, now_ms));
    if (what == 1) fold_bytes(node_get(table, key, now_ms));
    if (what == 2 && node_look(table, key, now_ms, &lock)) visit(NULL, &lock);
    if (what != 3) return;
    cursor = node_scan(table, cursor, draw_count(4), now_ms, visit, NULL);
    fold((int64_t)cursor);
    if (one_in(9)) cursor = draw(UINT32_MAX);
}

static void fold_counts(const struct node_table *of) {
    fold((int64_t)node_count(of));
    fold(node_next_expiry(of));
    fold((int64_t)node_bytes_locked(of));
    fold((int64_t)node_bytes_used(of));
    fold((int64_t)node_lists(of) << 1 | node_frees_more(of));
    fold_memory();
}

/* It changes nothing: a stock table keeps what has ended. */
static void fold_all(const struct node_table *of) {
    const struct node_field *fields;
    fold_counts(of);
    fold((int64_t)node_scan(of, 0, SIZE_MAX, now_ms, visit, NULL));
    const size_t count = node_record(of, &fields);
    fold((int64_t)count);
    for (size_t i = 0; i < count; i++) {
        fold_bytes(fields[i].name);
        fold((int64_t)fields[i].value.bytes);
    }
    for (uint64_t name = 0; name <= NONCES; name++) {
        const int64_t *fences = node_fences(of, name);
        fold(fences != NULL);
        for (unsigned i = 0; fences && i < STRIPES; i++) fold(fences[stripes[i]]);
    }
    for (unsigned i = 0; i < keys_used; i++) node_readers(of, keys[i], now_ms, visit_reader, NULL);
}

static void pass(void) {
    const int64_t next_ms = node_next_expiry(table);
    if (one_in(4)) now_ms += (int64_t)draw(4);
    if (one_in(5) && next_ms >= now_ms && next_ms < now_ms + 1000) {
        now_ms = next_ms + (int64_t)draw(3) - 1;
        if (now_ms < 0) now_ms = 0;
    }
    if (!native && one_in(60) && now_ms > 5) now_ms -= (int64_t)draw(5);
}

static void one_request(enum focus focus) {
    static void (*const kinds[FOCI])(void) = {plain, guarded, shared, slotted, others};
    draw_memory(memory_rare);
    kinds[one_in(5) ? draw(FOCI) : focus]();
    memory_left = -1;
    look();
    fold_counts(table);
}

/* Next to what the pieces of an empty table take, so that some keys still fit; and with one more
 * piece, so that a table that may not grow can grow again. */
static size_t draw_limit(void) {
    const size_t piece = 8192, lists = 8 * sizeof(void *);
    if (!native || one_in(3)) return 0;
    const size_t pieces = 2 + draw_count(4), more = 16 * draw_count(200);
    return pieces * (piece + lists) + more - (one_in(4) ? 1 : 0);
}

static void walk(void) {
    static const unsigned some[] = {1, 2, 6, 12, KEYS};
    struct node_options options = {.native = native, .seed = draw(3), .on_change = on_change};
    const enum focus focus = (enum focus)draw(FOCI);
    if (one_in(2)) options.seed = SAME_HASH_SEED;
    memory_rare = one_in(3) ? 4 : 40;
    options.ends = (enum node_end_rule)draw(3);
    options.bytes_max = draw_limit();
    keys_used = some[draw(5)];
    readers_used = one_in(3) ? 60 : 4;
    table = node_table_open(&options);
    options.context = &snapshot;
    snapshot = node_table_open(&options);
    now_ms = (int64_t)draw(3);
    nonce = cursor = 0;
    kept = false;
    if (!one_in(4)) write_record();
    for (int i = 0; i < REQUESTS; i++) {
        pass();
        one_request(focus);
        if (i % 50 == 0) fold_all(table);
    }
    fold_all(table);
    fold_all(snapshot);
    node_table_free(table);
    node_table_free(snapshot);
}

/* No table without memory. */
static void fold_opening(void) {
    const struct node_options options = {.native = native};
    for (memory_left = 0; memory_left >= 0;) {
        const long left = memory_left;
        struct node_table *opened = node_table_open(&options);
        fold(opened != NULL);
        node_table_free(opened);
        memory_left = opened ? -1 : left + 1;
    }
}

/* ---- the names of slots, and their tokens ---- */

/* Of pieces, between digits that do not belong to it. */
static struct node_bytes draw_slot_key(char at[1200]) {
    static const char *const pieces[] = {":slot:", "1", "9", "12", "64", "0",  "r", "slot:",
                                         ":slot",  "a", "7", "5",  "/",  "::", "",  ":slot:"};
    const size_t resource = one_in(3) ? 1020 + draw_count(8) : draw_count(4);
    size_t bytes = resource;
    memset(at, '4', 1200);
    memset(at + 1, 'n', resource);
    for (uint64_t i = 0, count = draw(5); i < count; i++) {
        const struct node_bytes piece = text(i == 0 ? ":slot:" : pieces[draw(16)]);
        memcpy(at + 1 + bytes, piece.data, piece.bytes);
        bytes += piece.bytes;
    }
    return (struct node_bytes){at + 1, bytes};
}

static void walk_names(void) {
    char around[1200], out[NODE_SLOT_KEY_BYTES_MAX + 1];
    struct node_bytes first = {"", 0};
    const struct node_bytes key = draw_slot_key(around);
    const unsigned slot = 1 + (unsigned)draw(NODE_SLOTS_MAX);
    out[NODE_SLOT_KEY_BYTES_MAX] = 'x';
    fold(node_slot_first(key, &first, out));
    fold_bytes(first);
    const size_t resource =
        one_in(4) ? NODE_SLOT_RESOURCE_BYTES_MAX - draw_count(2) : draw_count(5);
    fold_bytes(node_slot_key((struct node_bytes){around, resource}, slot, out));
    fold(out[NODE_SLOT_KEY_BYTES_MAX]);
}

static void walk_tokens(void) {
    static const char near[] = "09afAF/:`gG@ 5", ends[] = "0123456789:/x";
    char token[60];
    for (unsigned i = 0; i < NODE_SLOT_TOKEN_DIGITS; i++) token[i] = near[draw(6)];
    token[NODE_SLOT_TOKEN_DIGITS] = one_in(20) ? '0' : '/';
    for (unsigned i = NODE_SLOT_TOKEN_DIGITS + 1; i < sizeof token; i++) token[i] = ends[draw(13)];
    const size_t odd = draw_count(NODE_SLOT_TOKEN_DIGITS);
    if (one_in(3)) token[odd] = near[draw(14)];
    if (one_in(9)) token[0] = near[draw(14)];
    if (one_in(9)) token[NODE_SLOT_TOKEN_DIGITS - 1] = near[draw(14)];
    const size_t bytes = one_in(20) ? draw_count(41) : NODE_SLOT_TOKEN_DIGITS + draw_count(7);
    fold(node_slot_count((struct node_bytes){token, bytes}));
}

/* ---- the kinds ---- */

enum kind { STOCK, NATIVE, NAMES, TOKENS_OF_SLOTS, KINDS };

static const struct kept_number numbers[KINDS] = {
    [STOCK] = {"stock", UINT64_C(0xe92702595113d8eb)},
    [NATIVE] = {"native", UINT64_C(0xa97fc1cba2f1a395)},
    [NAMES] = {"names of slots", UINT64_C(0xe29b8bba1da00428)},
    [TOKENS_OF_SLOTS] = {"tokens of slots", UINT64_C(0x88cd232b889c76dd)},
};

static uint64_t number_of(unsigned kind) {
    native = kind == NATIVE;
    floors[NODE_STRIPES] = INT64_MAX;
    if (kind <= NATIVE) fold_opening();
    for (int i = 0; kind <= NATIVE && i < WALKS; i++) walk();
    for (int i = 0; kind == NAMES && i < 3000; i++) walk_names();
    for (int i = 0; kind == TOKENS_OF_SLOTS && i < 20000; i++) walk_tokens();
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(numbers, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of a table", tests, name_keys, NULL);
}
