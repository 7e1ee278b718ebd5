/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode on one node: acquire_guarded.lua and its siblings, and the plain commands that go
 * with them. Stripes are below NODE_STRIPES and each is named once. A set of fences has all its
 * stripes, as record_write.lua makes them.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/inside.h"

static const char record_name[] = "redlock:node";
static const char fences_prefix[] = "redlock:fences:";
static const char kept_suffix[] = "kept";
enum { NONCE_DIGITS = 16 };

/* Nonce 0 belongs to no record: a request with it finds nothing. */
static struct fences *of_nonce(const struct node_table *table, uint64_t nonce) {
    return nonce == 0 ? NULL : fences_find(&table->fences, nonce);
}

/* ---- votes ----------------------------------------------------------------------------------- */

enum node_answer node_zadd(struct node_table *table, uint64_t nonce, int64_t fence,
                           const uint16_t *stripes, size_t count) {
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_STALE;
    return fences_raise(fences, fence, stripes, count) == count ? NODE_GRANTED : NODE_STALE;
}

static bool raise_all_or_none(struct fences *fences, int64_t fence, const uint16_t *stripes,
                              size_t count) {
    if (!fences_all_below(fences, fence, stripes, count)) return false;
    fences_raise(fences, fence, stripes, count);
    return true;
}

enum node_answer node_acquire_guarded(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t ttl_ms,
                                      uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                      size_t stripes_count, int64_t now_ms) {
    enum node_answer answer = node_acquire(table, keys, count, token, ttl_ms, now_ms);
    if (answer != NODE_GRANTED) return answer;
    struct fences *fences = of_nonce(table, nonce);
    if (!fences || !raise_all_or_none(fences, fence, stripes, stripes_count)) return NODE_STALE;
    return NODE_GRANTED;
}

enum node_answer node_extend_guarded(struct node_table *table, const struct node_bytes *keys,
                                     size_t count, struct node_bytes token, int64_t ttl_ms,
                                     uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                     size_t stripes_count, int64_t now_ms) {
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    enum node_answer answer = node_extend(table, keys, count, token, ttl_ms, now_ms);
    if (answer == NODE_GRANTED) fences_raise(fences, fence, stripes, stripes_count);
    return answer;
}

/* GRANTED: every key holds the token. DENIED, or WRONGTYPE when a key that is not a string comes
 * first. */
static enum node_answer keys_are_ours(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t now_ms) {
    for (size_t i = 0; i < count; i++) {
        struct node_bytes held = node_get(table, keys[i], now_ms);
        if (!held.data)
            return node_pttl(table, keys[i], now_ms) == -2 ? NODE_DENIED : NODE_WRONGTYPE;
        if (held.bytes != token.bytes) return NODE_DENIED;
        if (held.bytes && memcmp(held.data, token.data, held.bytes) != 0) return NODE_DENIED;
    }
    return NODE_GRANTED;
}

enum node_answer node_raise(struct node_table *table, const struct node_bytes *keys, size_t count,
                            struct node_bytes token, uint64_t nonce, int64_t fence,
                            const uint16_t *stripes, size_t stripes_count, int64_t now_ms,
                            int64_t *highest) {
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    enum node_answer answer = keys_are_ours(table, keys, count, token, now_ms);
    if (answer != NODE_GRANTED) return answer;
    if (raise_all_or_none(fences, fence, stripes, stripes_count)) return NODE_GRANTED;
    *highest = 0;
    for (size_t i = 0; i < stripes_count; i++)
        if (fences->of[stripes[i]] > *highest) *highest = fences->of[stripes[i]];
    return NODE_STALE;
}

enum node_answer node_confirm(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, uint64_t nonce, int64_t fence,
                              const uint16_t *stripes, size_t stripes_count, int64_t now_ms) {
    const struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    for (size_t i = 0; i < stripes_count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        if (fences->of[stripes[i]] < fence) return NODE_STALE;
    }
    enum node_answer answer = keys_are_ours(table, keys, count, token, now_ms);
    return answer == NODE_DENIED ? NODE_STALE : answer;
}

/* ---- record and fences ----------------------------------------------------------------------- */

size_t node_record(const struct node_table *table, const struct node_field **fields) {
    *fields = table->record.fields;
    return table->record.fields_count;
}

const int64_t *node_fences(const struct node_table *table, uint64_t nonce) {
    const struct fences *fences = fences_find(&table->fences, nonce);
    return fences ? fences->of : NULL;
}

static bool is_text(struct node_bytes bytes, const char *text) {
    return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}

static bool names_its_nonce(const struct node_record_write *write) {
    char digits[NONCE_DIGITS + 1];
    snprintf(digits, sizeof(digits), "%016" PRIx64, write->nonce);
    for (size_t i = 0; i < write->fields_count; i++)
        if (is_text(write->fields[i].name, "nonce")) return is_text(write->fields[i].value, digits);
    return false;
}

static struct fences *fences_before(const struct node_table *table,
                                    const struct node_record_write *write) {
    if (write->was_kept) return fences_find(&table->fences, FENCES_KEPT);
    return of_nonce(table, write->expected);
}

static void raise_to_floor(struct fences *fences, const int64_t *floor) {
    for (unsigned i = 0; i < NODE_STRIPES; i++)
        if (fences->of[i] < floor[i]) fences->of[i] = floor[i];
}

enum node_answer node_record_write(struct node_table *table,
                                   const struct node_record_write *write) {
    bool sound = names_its_nonce(write);
    uint64_t name = write->keep ? FENCES_KEPT : write->nonce;
    assert(sound);
    (void)sound;
    if (table->record.nonce != write->expected) return NODE_DENIED;
    struct fences *before = fences_before(table, write), *after = before;
    bool made = false;
    if (!after) after = fences_find(&table->fences, name);
    if (!after && write->floor) {
        after = fences_make(&table->fences, name);
        if (!after) return NODE_NO_MEMORY;
        made = true;
    }
    if (!record_put(&table->record, write->nonce, write->fields, write->fields_count)) {
        if (made) fences_drop(&table->fences, name);
        return NODE_NO_MEMORY;
    }
    if (before) fences_rename(&table->fences, before, name);
    if (write->floor) raise_to_floor(after, write->floor);
    return NODE_GRANTED;
}

size_t node_bytes_used(const struct node_table *table) {
    size_t bytes =
        table->record.bytes + table->record.fields_count * sizeof(table->record.fields[0]);
    for (const struct fences *fences = table->fences.first; fences; fences = fences->next)
        bytes += sizeof(*fences);
    return bytes;
}

/* ---- what befalls them ----------------------------------------------------------------------- */

/* Lower-case digits only: another key's name does not match. */
static bool parse_nonce(const char *digits, uint64_t *nonce) {
    *nonce = 0;
    for (int i = 0; i < NONCE_DIGITS; i++) {
        bool decimal = digits[i] >= '0' && digits[i] <= '9';
        if (!decimal && (digits[i] < 'a' || digits[i] > 'f')) return false;
        *nonce = *nonce << 4 | (uint64_t)(decimal ? digits[i] - '0' : digits[i] - 'a' + 10);
    }
    return *nonce != 0;
}

bool guarded_delete(struct node_table *table, struct node_bytes key) {
    size_t prefix = sizeof(fences_prefix) - 1;
    uint64_t name = FENCES_KEPT;
    if (is_text(key, record_name)) {
        bool existed = table->record.nonce != 0;
        record_drop(&table->record);
        return existed;
    }
    if (key.bytes <= prefix || memcmp(key.data, fences_prefix, prefix) != 0) return false;
    struct node_bytes suffix = {(const char *)key.data + prefix, key.bytes - prefix};
    if (!is_text(suffix, kept_suffix) &&
        (suffix.bytes != NONCE_DIGITS || !parse_nonce(suffix.data, &name)))
        return false;
    return fences_drop(&table->fences, name);
}

void guarded_flush(struct node_table *table) {
    record_drop(&table->record);
    fences_drop_all(&table->fences);
}

bool guarded_copy(struct node_table *to, const struct node_table *from) {
    if (!fences_copy(&to->fences, &from->fences)) return false;
    if (from->record.nonce == 0) {
        record_drop(&to->record);
        return true;
    }
    return record_put(&to->record, from->record.nonce, from->record.fields,
                      from->record.fields_count);
}

void guarded_free(struct node_table *table) {
    record_free(&table->record);
    fences_free(&table->fences);
}
