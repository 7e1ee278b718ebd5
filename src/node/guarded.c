/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode on one node: the record and the fences, acquire_guarded.lua and its siblings, and
 * the plain commands that go with them. Stripes are below NODE_STRIPES and each is named once. A
 * set of fences has all its stripes, as record_write.lua makes them. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/inside.h"

enum { NONCE_DIGITS = 16, KEPT = 0 /* as a name of fences; no nonce is 0 */ };

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

/* The caller sets the stripes: they are those of a dropped set, or undefined. NULL: no memory. */
static struct fences *make(struct node_table *table, uint64_t name) {
    struct fences *fences = table->spare_fences;
    assert(!find(table, name));
    if (fences)
        table->spare_fences = fences->next;
    else
        fences = malloc(sizeof *fences);
    if (!fences) return NULL;
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
        free(fences);
    }
}

static int64_t highest_of(const struct fences *fences, const uint16_t *stripes, size_t count) {
    int64_t highest = 0;
    for (size_t i = 0; i < count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        if (fences->of[stripes[i]] > highest) highest = fences->of[stripes[i]];
    }
    return highest;
}

/* Returns how many were raised. */
static size_t raise_fences(struct fences *fences, int64_t fence, const uint16_t *stripes,
                           size_t count) {
    size_t raised = 0;
    for (size_t i = 0; i < count; i++) {
        assert(stripes[i] < NODE_STRIPES);
        if (fences->of[stripes[i]] >= fence) continue;
        fences->of[stripes[i]] = fence;
        raised++;
    }
    return raised;
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
    char *data = malloc(bytes ? bytes : 1), *end = data;
    if (!data) return false;
    for (size_t i = 0; i < count; i++) {
        record->fields[i].name = append(&end, fields[i].name);
        record->fields[i].value = append(&end, fields[i].value);
    }
    free(record->data);
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

/* ---- votes ---- */

enum node_answer node_zadd(struct node_table *table, uint64_t nonce, int64_t fence,
                           const uint16_t *stripes, size_t count) {
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_STALE;
    return raise_fences(fences, fence, stripes, count) == count ? NODE_GRANTED : NODE_STALE;
}

enum node_answer node_acquire_guarded(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t ttl_ms,
                                      uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                      size_t stripes_count, int64_t now_ms) {
    enum node_answer answer = node_acquire(table, keys, count, token, ttl_ms, now_ms);
    if (answer != NODE_GRANTED) return answer;
    struct fences *fences = of_nonce(table, nonce);
    if (!fences || highest_of(fences, stripes, stripes_count) >= fence) return NODE_STALE;
    raise_fences(fences, fence, stripes, stripes_count);
    return NODE_GRANTED;
}

enum node_answer node_extend_guarded(struct node_table *table, const struct node_bytes *keys,
                                     size_t count, struct node_bytes token, int64_t ttl_ms,
                                     uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                     size_t stripes_count, int64_t now_ms) {
    struct fences *fences = of_nonce(table, nonce);
    if (!fences) return NODE_GONE;
    enum node_answer answer = node_extend(table, keys, count, token, ttl_ms, now_ms);
    if (answer == NODE_GRANTED) raise_fences(fences, fence, stripes, stripes_count);
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
    int64_t found = highest_of(fences, stripes, stripes_count);
    if (found >= fence) {
        *highest = found;
        return NODE_STALE;
    }
    raise_fences(fences, fence, stripes, stripes_count);
    return NODE_GRANTED;
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

/* ---- writing the record ---- */

size_t node_record(const struct node_table *table, const struct node_field **fields) {
    *fields = table->record.fields;
    return table->record.fields_count;
}

const int64_t *node_fences(const struct node_table *table, uint64_t nonce) {
    const struct fences *fences = find(table, nonce);
    return fences ? fences->of : NULL;
}

static bool is_text(struct node_bytes bytes, const char *text) {
    return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}

static bool names_its_nonce(const struct node_record_write *write) {
    char digits[NONCE_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, write->nonce);
    for (size_t i = 0; i < write->fields_count; i++)
        if (is_text(write->fields[i].name, "nonce")) return is_text(write->fields[i].value, digits);
    return false;
}

enum node_answer node_record_write(struct node_table *table,
                                   const struct node_record_write *write) {
    bool sound = names_its_nonce(write);
    assert(sound);
    (void)sound;
    if (table->record.nonce != write->expected) return NODE_DENIED;
    uint64_t name = write->keep ? KEPT : write->nonce;
    struct fences *before = write->was_kept ? find(table, KEPT) : of_nonce(table, write->expected);
    struct fences *after = before ? before : find(table, name), *made = NULL;
    if (!after && write->floor) {
        after = made = make(table, name);
        if (!made) return NODE_NO_MEMORY;
        memset(made->of, 0, sizeof made->of);
    }
    if (!put_record(&table->record, write->nonce, write->fields, write->fields_count)) {
        if (made) drop(table, name);
        return NODE_NO_MEMORY;
    }
    if (before && before->name != name) {
        drop(table, name);
        before->name = name;
    }
    for (unsigned i = 0; write->floor && i < NODE_STRIPES; i++)
        if (after->of[i] < write->floor[i]) after->of[i] = write->floor[i];
    return NODE_GRANTED;
}

size_t node_bytes_used(const struct node_table *table) {
    size_t bytes =
        table->record.bytes + table->record.fields_count * sizeof table->record.fields[0];
    for (const struct fences *fences = table->fences; fences; fences = fences->next)
        bytes += sizeof *fences;
    return bytes;
}

/* ---- what other programs do to them ---- */

bool guarded_delete(struct node_table *table, struct node_bytes key) {
    char name[sizeof "redlock:fences:" + NONCE_DIGITS];
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
        memcpy(copy->of, fences->of, sizeof copy->of);
    }
    const struct record *record = &from->record;
    return record->nonce == 0 ||
           put_record(&to->record, record->nonce, record->fields, record->fields_count);
}

void guarded_free(struct node_table *table) {
    free(table->record.data);
    free_fences(table->fences);
    free_fences(table->spare_fences);
}
