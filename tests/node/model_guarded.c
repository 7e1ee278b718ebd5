/* SPDX-License-Identifier: BSD-2-Clause */
#include "model_guarded.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS = NODE_GONE + 1 };

static unsigned long seen[REQUEST_OPS_COUNT][ANSWERS];

static _Noreturn void die(const char *why) {
    fprintf(stderr, "model: %s\n", why);
    abort();
}

/* ---- what there is --------------------------------------------------------------------------- */

/* The number of the record's nonce; 0: no record. */
static uint8_t present_nonce(const struct node_table *table) {
    const struct node_field *fields;
    size_t count = node_record(table, &fields);
    char digits[REQUEST_NONCE_BYTES];
    if (count == 0) return 0;
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name.bytes != 5 || memcmp(fields[i].name.data, "nonce", 5) != 0) continue;
        for (uint8_t n = 1; n < REQUEST_NONCES; n++) {
            request_nonce_text(request_nonce(n), digits);
            if (fields[i].value.bytes == 16 && memcmp(fields[i].value.data, digits, 16) == 0)
                return n;
        }
    }
    die("a record without a nonce of ours");
}

void model_guarded_resolve(const struct node_table *table, struct request *request) {
    uint8_t present = present_nonce(table);
    if (request->nonce == REQUEST_NONCE_PRESENT) request->nonce = present;
    if (request->op == REQUEST_RECORD_WRITE && !request->blind) {
        request->expected = present;
        request->was_kept = present == 0 || !node_fences(table, request_nonce(present));
    }
    uint8_t from = request->op == REQUEST_RECORD_WRITE ? request->expected : request->nonce;
    if (request->op == REQUEST_RECORD_WRITE && request->was_kept) from = 0;
    const int64_t *fences = node_fences(table, request_nonce(from));
    if (request->floor == FLOOR_IF_ABSENT) request->floor = fences ? FLOOR_NONE : FLOOR_FEW;
    request->fence = (fences ? fences[request->stripes[0]] : 0) + request->above;
    if (request->fence < 1) request->fence = 1;
    if (request->fence > REQUEST_FENCE_MAX) request->fence = REQUEST_FENCE_MAX;
}

size_t model_guarded_count(const struct node_table *table) {
    const struct node_field *fields;
    size_t count = node_record(table, &fields) > 0;
    for (uint8_t i = 0; i < REQUEST_NONCES; i++)
        count += node_fences(table, request_nonce(i)) != NULL;
    return count;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* As the script returns it, `integers` by enum node_answer. */
static void answer_script(struct answer *answer, enum node_answer what,
                          const int integers[ANSWERS]) {
    if (what == NODE_WRONGTYPE)
        answer_line(answer, "WRONGTYPE");
    else
        answer_line(answer, "(%d)", integers[what]);
}

static enum node_answer acquire(struct node_table *table, const struct request *request,
                                const struct node_bytes *keys, int64_t now_ms,
                                struct answer *answer) {
    static const int integers[ANSWERS] = {[NODE_GRANTED] = 1, [NODE_DENIED] = 0, [NODE_STALE] = -1};
    enum node_answer what =
        node_acquire_guarded(table, keys, request->keys_count, request_token(request->token),
                             request->number, request_nonce(request->nonce), request->fence,
                             request->stripes, request->stripes_count, now_ms);
    answer_script(answer, what, integers);
    return what;
}

static enum node_answer extend(struct node_table *table, const struct request *request,
                               const struct node_bytes *keys, int64_t now_ms,
                               struct answer *answer) {
    static const int integers[ANSWERS] = {
        [NODE_GRANTED] = 1, [NODE_ABSENT] = 0, [NODE_DENIED] = -1, [NODE_GONE] = -2};
    enum node_answer what =
        node_extend_guarded(table, keys, request->keys_count, request_token(request->token),
                            request->number, request_nonce(request->nonce), request->fence,
                            request->stripes, request->stripes_count, now_ms);
    answer_script(answer, what, integers);
    return what;
}

static enum node_answer share(struct node_table *table, const struct request *request,
                              int64_t now_ms, struct answer *answer) {
    static const int integers[ANSWERS] = {
        [NODE_GRANTED] = 1, [NODE_ABSENT] = 0, [NODE_DENIED] = -1, [NODE_GONE] = -2};
    const struct node_share what = {.key = request_key(request->keys[0]),
                                    .reader = request_token(request->token),
                                    .ttl_ms = request->number,
                                    .guarded = true,
                                    .nonce = request_nonce(request->nonce),
                                    .fence = request->fence,
                                    .stripe = request->stripes[0]};
    int64_t fence = 0;
    enum node_answer given = request->op == REQUEST_SHARE_GUARDED
                                 ? node_share(table, &what, now_ms, &fence)
                                 : node_share_extend(table, &what, now_ms);
    if (given == NODE_GRANTED && request->op == REQUEST_SHARE_GUARDED)
        answer_line(answer, "(%" PRId64 ")", fence);
    else
        answer_script(answer, given, integers);
    return given;
}

static enum node_answer confirm(struct node_table *table, const struct request *request,
                                const struct node_bytes *keys, int64_t now_ms,
                                struct answer *answer) {
    static const int integers[ANSWERS] = {[NODE_GRANTED] = 1, [NODE_STALE] = 0, [NODE_GONE] = -2};
    enum node_answer what =
        node_confirm(table, keys, request->keys_count, request_token(request->token),
                     request_nonce(request->nonce), request->fence, request->stripes,
                     request->stripes_count, now_ms);
    answer_script(answer, what, integers);
    return what;
}

static enum node_answer zadd(struct node_table *table, const struct request *request,
                             struct answer *answer) {
    enum node_answer what = node_zadd(table, request_nonce(request->nonce), request->fence,
                                      request->stripes, request->stripes_count);
    answer_line(answer, "%s", what == NODE_GRANTED ? "all raised" : "not all raised");
    return what;
}

static enum node_answer set_zadd(struct node_table *table, const struct request *request,
                                 struct node_bytes key, int64_t now_ms, struct answer *answer) {
    enum node_answer set =
        node_acquire(table, &key, 1, request_token(request->token), request->number, now_ms);
    answer_line(answer, "%s", set == NODE_GRANTED ? "OK" : "nil");
    enum node_answer raised = zadd(table, request, answer);
    return set == NODE_GRANTED ? raised : set;
}

static enum node_answer raise(struct node_table *table, const struct request *request,
                              const struct node_bytes *keys, int64_t now_ms,
                              struct answer *answer) {
    static const int integers[ANSWERS] = {[NODE_GRANTED] = 0, [NODE_DENIED] = -1, [NODE_GONE] = -2};
    int64_t highest = 0;
    enum node_answer what =
        node_raise(table, keys, request->keys_count, request_token(request->token),
                   request_nonce(request->nonce), request->fence, request->stripes,
                   request->stripes_count, now_ms, &highest);
    if (what == NODE_STALE)
        answer_line(answer, "(%" PRId64 ")", highest);
    else
        answer_script(answer, what, integers);
    return what;
}

static enum node_answer break_lock(struct node_table *table, const struct request *request,
                                   const struct node_bytes *keys, int64_t now_ms,
                                   struct answer *answer) {
    static const int integers[ANSWERS] = {
        [NODE_GRANTED] = -3, [NODE_ABSENT] = 0, [NODE_DENIED] = -1, [NODE_GONE] = -2};
    int64_t highest = 0;
    enum node_answer what =
        node_break(table, keys[0], request_token(request->token), request_nonce(request->nonce),
                   request_added(request), request->fence, request->stripes, request->stripes_count,
                   now_ms, &highest);
    if (what == NODE_STALE)
        answer_line(answer, "(%" PRId64 ")", highest);
    else
        answer_script(answer, what, integers);
    return what;
}

static enum node_answer write_record(struct node_table *table, const struct request *request,
                                     struct answer *answer) {
    char digits[REQUEST_NONCE_BYTES];
    struct node_field fields[NODE_FIELDS_MAX];
    struct node_record_write write = {.expected = request_nonce(request->expected),
                                      .nonce = request_nonce(request->nonce),
                                      .was_kept = request->was_kept,
                                      .keep = request->keep,
                                      .floor = request_floor_of(request),
                                      .fields = fields,
                                      .fields_count = request_fields(request, fields, digits)};
    enum node_answer what = node_record_write(table, &write);
    answer_line(answer, "(%d)", what == NODE_GRANTED);
    return what;
}

static void read_fences(const struct node_table *table, const struct request *request,
                        struct answer *answer) {
    for (uint8_t i = 0; i < REQUEST_NONCES; i++) {
        const int64_t *fences = node_fences(table, request_nonce(i));
        for (unsigned k = 0; k < request->stripes_count; k++) {
            if (fences)
                answer_line(answer, "=%" PRId64, fences[request->stripes[k]]);
            else
                answer_line(answer, "nil");
        }
    }
}

static void read_all_fences(const struct node_table *table, struct answer *answer) {
    char name[REQUEST_NAME_BYTES];
    for (uint8_t i = 0; i < REQUEST_NONCES; i++) {
        const int64_t *fences = node_fences(table, request_nonce(i));
        request_name(i, name);
        if (fences) answer_fences(answer, name, fences);
    }
}

static enum node_answer delete_name(struct node_table *table, const struct request *request,
                                    int64_t now_ms, struct answer *answer) {
    char name[REQUEST_NAME_BYTES];
    request_name(request->name, name);
    bool deleted = node_delete(table, (struct node_bytes){name, strlen(name)}, now_ms);
    answer_line(answer, "(%d)", deleted);
    return deleted ? NODE_GRANTED : NODE_ABSENT;
}

static enum node_answer look(struct node_table *table, const struct request *request,
                             struct answer *answer) {
    const struct node_field *fields;
    size_t count = node_record(table, &fields);
    if (request->op == REQUEST_RECORD) answer_fields(answer, fields, count);
    if (request->op == REQUEST_FENCES) read_fences(table, request, answer);
    if (request->op == REQUEST_ALL_FENCES) read_all_fences(table, answer);
    return count ? NODE_GRANTED : NODE_ABSENT;
}

static enum node_answer perform(struct node_table *table, const struct request *request,
                                int64_t now_ms, struct answer *answer) {
    struct node_bytes keys[REQUEST_KEYS_MAX];
    for (size_t i = 0; i < request->keys_count; i++) keys[i] = request_key(request->keys[i]);
    switch (request->op) {
    case REQUEST_SET_ZADD: return set_zadd(table, request, keys[0], now_ms, answer);
    case REQUEST_ZADD: return zadd(table, request, answer);
    case REQUEST_ACQUIRE_GUARDED: return acquire(table, request, keys, now_ms, answer);
    case REQUEST_EXTEND_GUARDED: return extend(table, request, keys, now_ms, answer);
    case REQUEST_SHARE_GUARDED:
    case REQUEST_SHARE_EXTEND_GUARDED: return share(table, request, now_ms, answer);
    case REQUEST_RAISE: return raise(table, request, keys, now_ms, answer);
    case REQUEST_BREAK: return break_lock(table, request, keys, now_ms, answer);
    case REQUEST_CONFIRM: return confirm(table, request, keys, now_ms, answer);
    case REQUEST_RECORD_WRITE: return write_record(table, request, answer);
    case REQUEST_DEL_NAME: return delete_name(table, request, now_ms, answer);
    default: return look(table, request, answer);
    }
}

void model_guarded_do(struct node_table *table, const struct request *request, int64_t now_ms,
                      struct answer *answer) {
    enum node_answer what = perform(table, request, now_ms, answer);
    if (what == NODE_NO_MEMORY) die("no memory");
    seen[request->op][what]++;
}

/* ---- was it worth anything? ------------------------------------------------------------------ */

bool model_guarded_saw_all(void) {
    static const struct {
        enum request_op op;
        const char *name;
        bool can[ANSWERS];
    } rows[] = {
        {REQUEST_SET_ZADD,
         "set, zadd",
         {[NODE_GRANTED] = true, [NODE_DENIED] = true, [NODE_STALE] = true}},
        {REQUEST_ZADD, "zadd", {[NODE_GRANTED] = true, [NODE_STALE] = true}},
        {REQUEST_ACQUIRE_GUARDED,
         "acquire",
         {[NODE_GRANTED] = true, [NODE_DENIED] = true, [NODE_STALE] = true}},
        {REQUEST_EXTEND_GUARDED,
         "extend",
         {[NODE_GRANTED] = true,
          [NODE_DENIED] = true,
          [NODE_ABSENT] = true,
          [NODE_WRONGTYPE] = true,
          [NODE_GONE] = true}},
        {REQUEST_SHARE_GUARDED,
         "share",
         {[NODE_GRANTED] = true, [NODE_DENIED] = true, [NODE_GONE] = true}},
        {REQUEST_SHARE_EXTEND_GUARDED,
         "prolong",
         {[NODE_GRANTED] = true,
          [NODE_DENIED] = true,
          [NODE_ABSENT] = true,
          [NODE_WRONGTYPE] = true,
          [NODE_GONE] = true}},
        {REQUEST_RAISE,
         "raise",
         {[NODE_GRANTED] = true,
          [NODE_DENIED] = true,
          [NODE_STALE] = true,
          [NODE_GONE] = true,
          [NODE_WRONGTYPE] = true}},
        {REQUEST_BREAK,
         "break",
         {[NODE_GRANTED] = true,
          [NODE_DENIED] = true,
          [NODE_ABSENT] = true,
          [NODE_STALE] = true,
          [NODE_GONE] = true,
          [NODE_WRONGTYPE] = true}},
        {REQUEST_CONFIRM,
         "confirm",
         {[NODE_GRANTED] = true, [NODE_STALE] = true, [NODE_GONE] = true, [NODE_WRONGTYPE] = true}},
        {REQUEST_RECORD_WRITE, "write", {[NODE_GRANTED] = true, [NODE_DENIED] = true}},
        {REQUEST_DEL_NAME, "delete", {[NODE_GRANTED] = true, [NODE_ABSENT] = true}},
    };
    static const char *const answers[ANSWERS] = {"granted",   "denied", "absent", "wrongtype",
                                                 "no memory", "stale",  "gone"};
    bool all = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        printf("%-10s", rows[i].name);
        for (int what = 0; what < ANSWERS; what++) {
            unsigned long times = seen[rows[i].op][what];
            if (rows[i].can[what] || times) printf(" %s %lu", answers[what], times);
            if (rows[i].can[what] && times == 0) all = false;
        }
        putchar('\n');
    }
    if (!all)
        puts("an answer that is possible never came: the comparison says less than it should");
    return all;
}
