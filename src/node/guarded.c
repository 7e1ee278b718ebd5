/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode on one node: the record and the fences, acquire_guarded.lua and its siblings, and
 * the plain commands that go with them. Stripes are below NODE_STRIPES and each is named once. A
 * set of fences has all its stripes, as record_write.lua makes them. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mix.h"
#include "node/inside.h"
#include "node/memory.h"

enum {
    NONCE_DIGITS = 16,
    KEPT = 0,               /* as a name of fences; no nonce is 0 */
    UNKNOWN = NODE_STRIPES, /* as a stripe */
    LONG_KEY_BYTES = 4096,
    /* A native node's limit is on its locks; a record has this one. It needs a tenth. */
    NATIVE_RECORD_BYTES_MAX = 65536
};

/* ---- fences, by their names ---- */

static struct fences *find(const struct node_table *table, uint64_t name) {
    struct fences *fences = table->fences;
    while (fences && fences->name != name) fences = fences->next;
    return fences;
}

/* Nonce 0 belongs to no record: a request with it finds nothing. */
static struct fences *of_nonce(const struct node_table *table, uint64_t nonce) {
    return nonce == 0 ? NULL : find(table, nonce);
}

bool guarded_has_fences(const struct node_table *table, uint64_t nonce) {
    return of_nonce(table, nonce) != NULL;
}

/* A native node keeps three numbers for each stripe. */
static size_t numbers_of(const struct node_table *table) {
    return (table->options.native ? 3 : 1) * (size_t)NODE_STRIPES;
}

static size_t fences_bytes(const struct node_table *table) {
    return sizeof(struct fences) + numbers_of(table) * sizeof(int64_t);
}

static struct fences *take_fences(struct node_table *table) {
    struct fences *fences = table->spare_fences;
    if (fences) {
        table->spare_fences = fences->next;
        return fences;
    }
    fences = node_memory_take(fences_bytes(table));
    if (!fences) return NULL;
    bool native = table->options.native;
    fences->highest = fences->numbers;
    fences->floor = native ? fences->numbers + NODE_STRIPES : NULL;
    fences->bound = native ? fences->numbers + (size_t)2 * NODE_STRIPES : NULL;
    return fences;
}

/* All stripes are 0. NULL: no memory. */
static struct fences *make(struct node_table *table, uint64_t name) {
    struct fences *fences = take_fences(table);
    assert(!find(table, name) && !(table->options.native && table->fences));
    if (!fences) return NULL;
    memset(fences->numbers, 0, numbers_of(table) * sizeof(int64_t));
    fences->name = name;
    fences->next = table->fences;
    table->fences = fences;
    return fences;
}

/* False: there were none of that name. */
static bool drop(struct node_table *table, uint64_t name) {
    struct fences **at = &table->fences;
    while (*at && (*at)->name != name) at = &(*at)->next;
    struct fences *fences = *at;
    if (!fences) return false;
    *at = fences->next;
    fences->next = table->spare_fences;
    table->spare_fences = fences;
    return true;
}

static void free_fences(struct fences *fences) {
    for (struct fences *next; fences; fences = next) {
        next = fences->next;
        node_memory_give(fences);
    }
}

static void at_least(int64_t *number, int64_t least) {
    if (*number < least) *number = least;
}

/* ---- what a request must exceed, and what it raises ---- */

/* What a request names. Its keys exist, but for those that an unlocked request names. */
struct claim {
    const struct node_bytes *keys;
    size_t count;
    const uint16_t *stripes;
    size_t stripes_count;
    int64_t now_ms;
};

/* The stripes to which keys of the request belong. Most requests have one: it costs less to keep
 * than to clear the bits of all. */
struct own_stripes {
    enum { NONE, ONE, SEVERAL } how_many;
    unsigned one;
    uint64_t bits[NODE_STRIPES / 64]; /* SEVERAL: the first one included */
};

static uint16_t stripe_of(struct node_bytes key) {
    return rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
}

/* The hash takes a nanosecond for each byte. So that of a long key is its client's, if it names
 * one stripe for one key; a client that is wrong about it is then as wrong as on a stock node. */
static void find_stripe(const struct node_table *table, struct entry *entry,
                        const struct claim *claim, struct node_bytes key) {
    bool told = claim->count == 1 && claim->stripes_count == 1;
    entry->stripe = told ? claim->stripes[0] : stripe_of(key);
    assert(entry->stripe < NODE_STRIPES);
    at_least(&entry->fence, table->fences->floor[entry->stripe]);
}

static void set_bit(struct own_stripes *own, unsigned stripe) {
    own->bits[stripe / 64] |= UINT64_C(1) << stripe % 64;
}

static void add_own(struct own_stripes *own, unsigned stripe) {
    if (own->how_many == NONE) {
        own->how_many = ONE;
        own->one = stripe;
        return;
    }
    if (own->how_many == ONE) {
        if (own->one == stripe) return;
        own->how_many = SEVERAL;
        memset(own->bits, 0, sizeof own->bits);
        set_bit(own, own->one);
    }
    set_bit(own, stripe);
}

static bool is_own(const struct own_stripes *own, unsigned stripe) {
    if (own->how_many == SEVERAL) return own->bits[stripe / 64] >> stripe % 64 & 1;
    return own->how_many == ONE && own->one == stripe;
}

static struct entry *entry_of(struct node_table *table, const struct claim *claim, size_t key,
                              struct own_stripes *own) {
    struct entry *entry = table_find(table, claim->keys[key], claim->now_ms, HOLDS);
    if (!entry) return NULL;
    if (entry->stripe == UNKNOWN) find_stripe(table, entry, claim, claim->keys[key]);
    add_own(own, entry->stripe);
    return entry;
}

static int64_t own_fence(const struct fences *fences, const struct entry *entry) {
    int64_t fence = entry->fence;
    at_least(&fence, fences->bound[entry->stripe]);
    return fence;
}

enum which { LOWEST, HIGHEST };

/* The lowest or the highest of what concerns the request. Native: the fences of its keys, and
 * `highest` of those stripes that belong to none of them. Stock: the stripes. */
static int64_t fence_of(struct node_table *table, const struct fences *fences,
                        const struct claim *claim, enum which which) {
    struct own_stripes own;
    own.how_many = NONE;
    int64_t found = which == LOWEST ? INT64_MAX : 0;
    for (size_t i = 0; table->options.native && i < claim->count; i++) {
        const struct entry *entry = entry_of(table, claim, i, &own);
        if (!entry) continue;
        int64_t fence = own_fence(fences, entry);
        if (which == LOWEST ? fence < found : fence > found) found = fence;
    }
    for (size_t i = 0; i < claim->stripes_count; i++) {
        assert(claim->stripes[i] < NODE_STRIPES);
        if (is_own(&own, claim->stripes[i])) continue;
        int64_t fence = fences->highest[claim->stripes[i]];
        if (which == LOWEST ? fence < found : fence > found) found = fence;
    }
    return found;
}

/* To at least the fence. */
static void raise_fences(struct node_table *table, struct fences *fences, int64_t fence,
                         const struct claim *claim) {
    struct own_stripes own;
    own.how_many = NONE;
    for (size_t i = 0; table->options.native && i < claim->count; i++) {
        struct entry *entry = entry_of(table, claim, i, &own);
        if (!entry) continue;
        at_least(&entry->fence, fence);
        at_least(&fences->highest[entry->stripe], fence);
    }
    for (size_t i = 0; i < claim->stripes_count; i++) {
        unsigned stripe = claim->stripes[i];
        assert(stripe < NODE_STRIPES);
        if (is_own(&own, stripe)) continue;
        at_least(&fences->highest[stripe], fence);
        if (!table->options.native) continue;
        at_least(&fences->floor[stripe], fence);
        at_least(&fences->bound[stripe], fence);
    }
}

/* A native node knows the key's own fence: a busy neighbour in the stripe does not raise that of a
 * reader. */
int64_t guarded_raise_to(struct node_table *table, struct node_bytes key, uint64_t nonce,
                         int64_t fence, uint16_t stripe, int64_t now_ms) {
    const struct claim claim = {&key, 1, &stripe, 1, now_ms};
    struct fences *fences = of_nonce(table, nonce);
    assert(fences);
    raise_fences(table, fences, fence, &claim);
    return fence_of(table, fences, &claim, HIGHEST);
}

/* One key, and its own stripe: what most requests name. */
static bool is_simple(const struct node_table *table, const struct claim *claim,
                      const struct entry *entry) {
    return table->options.native && claim->count == 1 && claim->stripes_count == 1 &&
           claim->stripes[0] == entry->stripe;
}

/* The same as fence_of() and raise_fences() for such a request, which is what a node does most. */
static enum node_answer raise_one(struct fences *fences, struct entry *entry, int64_t fence) {
    if (own_fence(fences, entry) >= fence) return NODE_STALE;
    entry->fence = fence;
    at_least(&fences->highest[entry->stripe], fence);
    return NODE_GRANTED;
}

void guarded_entry_begins(const struct node_table *table, struct entry *entry,
                          struct node_bytes key) {
    entry->stripe = UNKNOWN;
    if (!table->options.native || key.bytes > LONG_KEY_BYTES) return;
    entry->stripe = stripe_of(key);
    if (table->fences) at_least(&entry->fence, table->fences->floor[entry->stripe]);
}

void guarded_entry_goes(struct node_table *table, const struct entry *entry) {
    if (entry->stripe == UNKNOWN) return; /* no fence was ever accepted for it */
    if (table->options.native && table->fences)
        at_least(&table->fences->floor[entry->stripe], entry->fence);
}

/* ---- the record ---- */

static struct node_bytes append(char **end, struct node_bytes bytes) {
    struct node_bytes kept = {*end, bytes.bytes};
    if (bytes.bytes) memcpy(*end, bytes.data, bytes.bytes);
    *end += bytes.bytes;
    return kept;
}

/* Replaces the whole record; the fields may be those of the record itself. False: no memory, and
 * nothing was changed. */
static bool put_record(struct record *record, uint64_t nonce, const struct node_field *fields,
                       size_t count) {
    size_t bytes = 0;
    assert(nonce != 0 && count > 0 && count <= NODE_FIELDS_MAX);
    for (size_t i = 0; i < count; i++) bytes += fields[i].name.bytes + fields[i].value.bytes;
    char *data = node_memory_take(bytes ? bytes : 1), *end = data;
    if (!data) return false;
    for (size_t i = 0; i < count; i++) {
        record->fields[i].name = append(&end, fields[i].name);
        record->fields[i].value = append(&end, fields[i].value);
    }
    node_memory_give(record->data);
    record->data = data;
    record->bytes = bytes;
    record->fields_count = count;
    record->nonce = nonce;
    return true;
}

static void drop_record(struct record *record) {
    record->nonce = 0;
    record->fields_count = record->bytes = 0;
}

static bool is_text(struct node_bytes bytes, const char *text) {
    return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}

/* ---- votes ---- */

enum node_answer node_zadd(struct node_table *table, uint64_t nonce, int64_t fence,
                           const uint16_t *stripes, size_t count) {
    struct fences *fences = of_nonce(table, nonce);
    size_t raised = 0;
    assert(!table->options.native);
    if (!fences) return NODE_STALE;
    for (size_t i = 0; i < count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        raised += fences->highest[stripes[i]] < fence;
        at_least(&fences->highest[stripes[i]], fence);
    }
    return raised == count ? NODE_GRANTED : NODE_STALE;
}

enum node_answer node_acquire_guarded(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t ttl_ms,
                                      uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                      size_t stripes_count, int64_t now_ms) {
    const struct claim claim = {keys, count, stripes, stripes_count, now_ms};
    enum node_answer answer = node_acquire(table, keys, count, token, ttl_ms, now_ms);
    if (answer != NODE_GRANTED) return answer;
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_STALE;
    struct entry *last = table->recent; /* the last that was set */
    if (is_simple(table, &claim, last)) return raise_one(fences, last, fence);
    if (fence_of(table, fences, &claim, HIGHEST) >= fence) return NODE_STALE;
    raise_fences(table, fences, fence, &claim);
    return NODE_GRANTED;
}

enum node_answer node_extend_guarded(struct node_table *table, const struct node_bytes *keys,
                                     size_t count, struct node_bytes token, int64_t ttl_ms,
                                     uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                     size_t stripes_count, int64_t now_ms) {
    const struct claim claim = {keys, count, stripes, stripes_count, now_ms};
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    enum node_answer answer = node_extend(table, keys, count, token, ttl_ms, now_ms);
    if (answer == NODE_GRANTED) raise_fences(table, fences, fence, &claim);
    return answer;
}

/* GRANTED: every key holds the token. DENIED, or WRONGTYPE when a key that is not a string comes
 * first. */
static enum node_answer keys_are_ours(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t now_ms) {
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = table_find(table, keys[i], now_ms, HOLDS);
        if (!entry) return NODE_DENIED;
        if (entry->other_type) return NODE_WRONGTYPE;
        if (!table_holds(entry, token)) return NODE_DENIED;
    }
    return NODE_GRANTED;
}

enum node_answer node_raise(struct node_table *table, const struct node_bytes *keys, size_t count,
                            struct node_bytes token, uint64_t nonce, int64_t fence,
                            const uint16_t *stripes, size_t stripes_count, int64_t now_ms,
                            int64_t *highest) {
    const struct claim claim = {keys, count, stripes, stripes_count, now_ms};
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    enum node_answer answer = keys_are_ours(table, keys, count, token, now_ms);
    if (answer != NODE_GRANTED) return answer;
    int64_t found = fence_of(table, fences, &claim, HIGHEST);
    if (found >= fence) {
        *highest = found;
        return NODE_STALE;
    }
    raise_fences(table, fences, fence, &claim);
    return NODE_GRANTED;
}

void node_rename(struct node_table *table, uint64_t nonce, uint64_t added) {
    char digits[NONCE_DIGITS + 1];
    struct record *record = &table->record;
    struct fences *fences = of_nonce(table, nonce);
    const uint64_t name = rl_nonce_sum(nonce, added);
    assert(!table->options.native && fences && record->nonce == nonce && name != 0);
    snprintf(digits, sizeof digits, "%016" PRIx64, name);
    const struct node_field *field = record->fields;
    while (!is_text(field->name, "nonce")) field++; /* a record names its nonce */
    memcpy(record->data + ((const char *)field->value.data - record->data), digits, NONCE_DIGITS);
    record->nonce = name;
    if (name == nonce) return;
    drop(table, name);
    fences->name = name;
}

enum node_answer node_break(struct node_table *table, struct node_bytes key,
                            struct node_bytes token, uint64_t nonce, uint64_t added, int64_t fence,
                            const uint16_t *stripes, size_t stripes_count, int64_t now_ms,
                            int64_t *highest) {
    const struct claim claim = {NULL, 0, stripes, stripes_count, now_ms};
    struct fences *fences = of_nonce(table, nonce);
    if (!fences || table->record.nonce != nonce) return NODE_GONE;
    int64_t found = fence_of(table, fences, &claim, HIGHEST);
    if (found >= fence) {
        *highest = found;
        return NODE_STALE;
    }
    const struct entry *entry = table_find(table, key, now_ms, HOLDS);
    if (entry && entry->other_type) return NODE_WRONGTYPE;
    raise_fences(table, fences, fence, &claim);
    if (!table->options.native) node_rename(table, nonce, added);
    return entry ? node_release(table, &key, 1, token, now_ms) : NODE_ABSENT;
}

enum node_answer node_confirm(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, uint64_t nonce, int64_t fence,
                              const uint16_t *stripes, size_t stripes_count, int64_t now_ms) {
    const struct claim claim = {keys, count, stripes, stripes_count, now_ms};
    const struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    if (fence_of(table, fences, &claim, LOWEST) < fence) return NODE_STALE;
    enum node_answer answer = keys_are_ours(table, keys, count, token, now_ms);
    return answer == NODE_DENIED ? NODE_STALE : answer;
}

/* ---- writing the record ---- */

size_t node_record(const struct node_table *table, const struct node_field **fields) {
    *fields = table->record.fields;
    return table->record.fields_count;
}

const int64_t *node_fences(const struct node_table *table, uint64_t nonce) {
    const struct fences *fences = find(table, nonce);
    return fences ? fences->highest : NULL;
}

static bool names_its_nonce(const struct node_record_write *write) {
    char digits[NONCE_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, write->nonce);
    for (size_t i = 0; i < write->fields_count; i++)
        if (is_text(write->fields[i].name, "nonce")) return is_text(write->fields[i].value, digits);
    return false;
}

static size_t text_bytes(const struct node_record_write *write) {
    size_t bytes = 0;
    for (size_t i = 0; i < write->fields_count; i++)
        bytes += write->fields[i].name.bytes + write->fields[i].value.bytes;
    return bytes;
}

static void install(struct fences *fences, const int64_t *floor) {
    for (unsigned i = 0; i < NODE_STRIPES; i++) {
        at_least(&fences->highest[i], floor[i]);
        if (!fences->floor) continue;
        at_least(&fences->floor[i], floor[i]);
        at_least(&fences->bound[i], floor[i]);
    }
}

enum node_answer node_record_write(struct node_table *table,
                                   const struct node_record_write *write) {
    bool sound = names_its_nonce(write), native = table->options.native;
    assert(sound);
    (void)sound;
    if (table->record.nonce != write->expected) return NODE_DENIED;
    if (native && text_bytes(write) > NATIVE_RECORD_BYTES_MAX) return NODE_NO_MEMORY;
    uint64_t name = write->keep ? KEPT : write->nonce;
    struct fences *before = write->was_kept ? find(table, KEPT) : of_nonce(table, write->expected);
    struct fences *after = before ? before : find(table, name), *made = NULL;
    /* Native: a set under a name that the writer did not expect is taken over. What this process
     * has accepted is never forgotten, and there is one set. */
    if (!after && write->floor && native) after = before = table->fences;
    if (!after && write->floor) {
        after = made = make(table, name);
        if (!made) return NODE_NO_MEMORY;
    }
    if (!put_record(&table->record, write->nonce, write->fields, write->fields_count)) {
        if (made) drop(table, name);
        return NODE_NO_MEMORY;
    }
    if (before && before->name != name) {
        drop(table, name);
        before->name = name;
    }
    if (write->floor) install(after, write->floor);
    return NODE_GRANTED;
}

size_t node_bytes_used(const struct node_table *table) {
    size_t bytes =
        table->record.bytes + table->record.fields_count * sizeof table->record.fields[0];
    for (const struct fences *fences = table->fences; fences; fences = fences->next)
        bytes += fences_bytes(table);
    return bytes;
}

/* ---- what other programs do to them ---- */

bool guarded_delete(struct node_table *table, struct node_bytes key) {
    char name[sizeof "redlock:fences:" + NONCE_DIGITS];
    if (table->options.native) return false;
    if (is_text(key, "redlock:node")) {
        bool existed = table->record.nonce != 0;
        drop_record(&table->record);
        return existed;
    }
    for (const struct fences *fences = table->fences; fences; fences = fences->next) {
        snprintf(name, sizeof name, "redlock:fences:%016" PRIx64, fences->name);
        if (is_text(key, fences->name == KEPT ? "redlock:fences:kept" : name))
            return drop(table, fences->name);
    }
    return false;
}

void guarded_flush(struct node_table *table) {
    drop_record(&table->record);
    while (table->fences) drop(table, table->fences->name);
}

bool guarded_copy(struct node_table *to, const struct node_table *from) {
    guarded_flush(to);
    for (const struct fences *fences = from->fences; fences; fences = fences->next) {
        struct fences *copy = make(to, fences->name);
        if (!copy) return false;
        memcpy(copy->numbers, fences->numbers, numbers_of(to) * sizeof(int64_t));
    }
    const struct record *record = &from->record;
    return record->nonce == 0 ||
           put_record(&to->record, record->nonce, record->fields, record->fields_count);
}

void guarded_free(struct node_table *table) {
    node_memory_give(table->record.data);
    free_fences(table->fences);
    free_fences(table->spare_fences);
}
