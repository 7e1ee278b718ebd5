/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Random requests to a table and to the simplest thing that follows the same rules: an array that
 * is walked. Answers, reports, and all that can be looked at are the same, for native tables and
 * for stock tables of each rule. Then a sequence in which each allocation in turn fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mix.h"
#include "memory.h"
#include "node/table.h"

enum { KEYS = 48, TOKENS = 4, NAMED_MAX = 3, NAME_BYTES = 24, STEPS = 4000, SEEDS = 40 };
enum { STRIPES = 4 }; /* of all keys */
#define NONCE UINT64_C(0xa)

static char names[KEYS][NAME_BYTES];
static struct node_bytes keys[KEYS];
static uint16_t stripes[STRIPES];
static unsigned stripe_of[KEYS]; /* an index */
static const struct node_bytes tokens[TOKENS] = {{"x", 1}, {"", 0}, {"xy", 2}, {"\0longer", 7}};

/* Keys whose stripes are among the first few that were met. */
static int find_keys(void **state) {
    unsigned found = 0, known = 0;
    (void)state;
    for (unsigned i = 0; found < KEYS; i++) {
        int bytes = snprintf(names[found], NAME_BYTES, "%u:lock", i);
        uint64_t hash = rl_fnv1a(RL_FNV_BASIS, names[found], (size_t)bytes);
        unsigned at = 0;
        while (at < known && stripes[at] != hash % NODE_STRIPES) at++;
        if (at == known && known == STRIPES) continue;
        if (at == known) stripes[known++] = (uint16_t)(hash % NODE_STRIPES);
        stripe_of[found] = at;
        keys[found] = (struct node_bytes){names[found], (size_t)bytes};
        found++;
    }
    return 0;
}

static unsigned number_of(struct node_bytes key) {
    unsigned i = 0;
    while (i < KEYS && (keys[i].bytes != key.bytes || memcmp(names[i], key.data, key.bytes) != 0))
        i++;
    assert_true(i < KEYS);
    return i;
}

static bool same(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* ---- the model ---- */

struct held {
    bool exists;
    unsigned token;
    int64_t end_ms, fence, order;
};

struct model {
    bool native;
    enum node_end_rule rule;
    struct held held[KEYS];
    int64_t orders;
    bool has_fences;
    int64_t highest[STRIPES], floor[STRIPES], bound[STRIPES];
    /* As the table reports them. */
    struct held reported[KEYS];
};

static int64_t higher(int64_t a, int64_t b) { return a > b ? a : b; }

static bool ended(const struct model *model, unsigned key, int64_t now_ms, bool looks) {
    const struct held *held = &model->held[key];
    bool at = model->native || (model->rule == NODE_ENDS_EITHER && !looks);
    return held->exists && (at ? now_ms >= held->end_ms : now_ms > held->end_ms);
}

static void gone(struct model *model, unsigned key) {
    struct held *held = &model->held[key];
    int64_t *floor = &model->floor[stripe_of[key]];
    if (model->native && model->has_fences) *floor = higher(*floor, held->fence);
    held->exists = false;
}

static bool there(struct model *model, unsigned key, int64_t now_ms, bool looks, bool writes) {
    if (!model->held[key].exists) return false;
    if (!ended(model, key, now_ms, looks)) return true;
    if (!model->native || writes) gone(model, key);
    return false;
}

struct request {
    unsigned named[NAMED_MAX], count, token;
    int64_t ttl_ms, fence;
    uint16_t stripes[NAMED_MAX + 1];
    unsigned stripes_of[NAMED_MAX + 1], stripes_count;
};

static enum node_answer model_acquire(struct model *model, const struct request *request,
                                      int64_t now_ms) {
    for (unsigned i = 0; i < request->count; i++)
        if (there(model, request->named[i], now_ms, false, true)) return NODE_DENIED;
    for (unsigned i = 0; i < request->count; i++) {
        unsigned key = request->named[i];
        if (model->held[key].exists) continue;
        int64_t fence = model->native && model->has_fences ? model->floor[stripe_of[key]] : 0;
        model->held[key] =
            (struct held){true, request->token, now_ms + request->ttl_ms, fence, model->orders++};
    }
    return NODE_GRANTED;
}

static enum node_answer model_extend(struct model *model, const struct request *request,
                                     int64_t now_ms) {
    bool absent = false;
    for (unsigned i = 0; i < request->count; i++) {
        unsigned key = request->named[i];
        if (!there(model, key, now_ms, false, true))
            absent = true;
        else if (model->held[key].token != request->token)
            return NODE_DENIED;
    }
    if (absent) return NODE_ABSENT;
    for (unsigned i = 0; i < request->count; i++) {
        struct held *held = &model->held[request->named[i]];
        if (held->end_ms == INT64_MAX) held->end_ms = 0;
        held->end_ms = higher(held->end_ms, now_ms + request->ttl_ms);
    }
    return NODE_GRANTED;
}

static enum node_answer model_release(struct model *model, const struct request *request,
                                      int64_t now_ms) {
    bool deleted = false, foreign = false;
    for (unsigned i = 0; i < request->count; i++) {
        unsigned key = request->named[i];
        if (!there(model, key, now_ms, false, true)) continue;
        if (model->held[key].token != request->token) {
            foreign = true;
            continue;
        }
        gone(model, key);
        deleted = true;
    }
    if (foreign) return NODE_DENIED;
    return deleted ? NODE_GRANTED : NODE_ABSENT;
}

static bool is_ours(struct model *model, const struct request *request, int64_t now_ms) {
    for (unsigned i = 0; i < request->count; i++) {
        unsigned key = request->named[i];
        if (!there(model, key, now_ms, false, false)) return false;
        if (model->held[key].token != request->token) return false;
    }
    return true;
}

/* A stripe of none of the keys; in a stock table each. */
static bool is_alone(const struct model *model, const struct request *request, unsigned stripe) {
    for (unsigned i = 0; model->native && i < request->count; i++)
        if (stripe_of[request->named[i]] == stripe) return false;
    return true;
}

static void model_fences(const struct model *model, const struct request *request, int64_t *lowest,
                         int64_t *highest) {
    *lowest = INT64_MAX;
    *highest = 0;
    for (unsigned i = 0; i < request->count + request->stripes_count; i++) {
        int64_t fence;
        if (i < request->count) {
            unsigned key = request->named[i];
            if (!model->native) continue;
            fence = higher(model->held[key].fence, model->bound[stripe_of[key]]);
        } else {
            unsigned stripe = request->stripes_of[i - request->count];
            if (!is_alone(model, request, stripe)) continue;
            fence = model->highest[stripe];
        }
        *highest = higher(*highest, fence);
        if (fence < *lowest) *lowest = fence;
    }
}

static void model_raise(struct model *model, const struct request *request) {
    int64_t fence = request->fence;
    for (unsigned i = 0; model->native && i < request->count; i++) {
        struct held *held = &model->held[request->named[i]];
        int64_t *highest = &model->highest[stripe_of[request->named[i]]];
        held->fence = higher(held->fence, fence);
        *highest = higher(*highest, fence);
    }
    for (unsigned i = 0; i < request->stripes_count; i++) {
        unsigned stripe = request->stripes_of[i];
        if (!is_alone(model, request, stripe)) continue;
        model->highest[stripe] = higher(model->highest[stripe], fence);
        model->floor[stripe] = higher(model->floor[stripe], fence);
        model->bound[stripe] = higher(model->bound[stripe], fence);
    }
}

/* ---- both ---- */

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    struct held *reported = &((struct model *)context)->reported[number_of(key)];
    if (change == NODE_CHANGE_SET) {
        unsigned number = 0;
        while (number < TOKENS && !same(tokens[number], token)) number++;
        assert_true(number < TOKENS);
        *reported = (struct held){.exists = true, .token = number, .end_ms = expires_ms};
        return;
    }
    assert_true(reported->exists);
    assert_true(same(tokens[reported->token], token));
    if (change == NODE_CHANGE_EXTENDED) {
        assert_true(expires_ms > reported->end_ms || reported->end_ms == INT64_MAX);
    } else {
        assert_int_equal(expires_ms, reported->end_ms);
        reported->exists = false;
    }
    reported->end_ms = expires_ms;
}

static void compare_looks(struct node_table *table, struct model *model, int64_t now_ms,
                          unsigned key) {
    struct node_lock lock;
    bool found = node_look(table, keys[key], now_ms, &lock);
    assert_int_equal(found, there(model, key, now_ms, true, false));
    if (!found) return;
    const struct held *held = &model->held[key];
    assert_int_equal(lock.expires_ms, held->end_ms);
    assert_int_equal(lock.fence, model->native ? held->fence : 0);
    assert_true(same(lock.token, tokens[held->token]) && same(lock.key, keys[key]));
    assert_int_equal(node_pttl(table, keys[key], now_ms),
                     held->end_ms == INT64_MAX ? -1 : held->end_ms - now_ms);
}

static void compare_all(struct node_table *table, const struct model *model) {
    int64_t next_ms = INT64_MAX;
    size_t count = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        const struct held *held = &model->held[i], *reported = &model->reported[i];
        assert_int_equal(held->exists, reported->exists);
        if (!held->exists) continue;
        assert_int_equal(held->end_ms, reported->end_ms);
        assert_int_equal(held->token, reported->token);
        if (held->end_ms < next_ms) next_ms = held->end_ms;
        count++;
    }
    assert_int_equal(node_count(table), count);
    assert_int_equal(node_next_expiry(table), next_ms);
    const int64_t *fences = node_fences(table, NONCE);
    assert_int_equal(fences != NULL, model->has_fences);
    for (unsigned i = 0; fences && i < STRIPES; i++)
        assert_int_equal(fences[stripes[i]], model->highest[i]);
}

struct both {
    struct node_table *table;
    struct model *model;
    uint64_t random;
    int64_t now_ms;
};

static unsigned draw(struct both *both, unsigned limit) {
    return (unsigned)(rl_splitmix64(&both->random) % limit);
}

static struct request draw_request(struct both *both) {
    struct request request = {.token = draw(both, TOKENS),
                              .ttl_ms = 1 + draw(both, 60),
                              .count = draw(both, 3) ? 1 : 1 + draw(both, NAMED_MAX)};
    for (unsigned i = 0; i < request.count; i++) request.named[i] = draw(both, KEYS);
    for (unsigned i = 0; i <= request.count; i++) {
        /* now and then one of no key, or one is left out */
        unsigned kind = draw(both, 12);
        if (i == request.count ? kind != 0 : kind == 0) continue;
        unsigned stripe = i == request.count ? draw(both, STRIPES) : stripe_of[request.named[i]];
        bool named = false;
        for (unsigned k = 0; k < request.stripes_count; k++)
            named |= request.stripes_of[k] == stripe;
        if (named) continue;
        request.stripes_of[request.stripes_count] = stripe;
        request.stripes[request.stripes_count++] = stripes[stripe];
    }
    int64_t lowest, highest;
    model_fences(both->model, &request, &lowest, &highest);
    request.fence = highest - 1 + (int64_t)draw(both, 4);
    if (request.fence < 1) request.fence = 1;
    return request;
}

static void holder_of(struct both *both, struct request *request) {
    const struct held *held = &both->model->held[request->named[0]];
    if (held->exists && draw(both, 4)) request->token = held->token;
}

static void guarded_step(struct both *both, struct request *request, unsigned what) {
    struct node_table *table = both->table;
    struct model *model = both->model;
    struct node_bytes named[NAMED_MAX], token = tokens[request->token];
    int64_t now_ms = both->now_ms, lowest, found, highest = -1;
    for (unsigned i = 0; i < request->count; i++) named[i] = keys[request->named[i]];
    if (what == 0) {
        enum node_answer answer = model_acquire(model, request, now_ms);
        model_fences(model, request, &lowest, &found);
        if (answer == NODE_GRANTED && (!model->has_fences || found >= request->fence))
            answer = NODE_STALE;
        if (answer == NODE_GRANTED) model_raise(model, request);
        assert_int_equal(node_acquire_guarded(table, named, request->count, token, request->ttl_ms,
                                              NONCE, request->fence, request->stripes,
                                              request->stripes_count, now_ms),
                         answer);
    } else if (what == 1) {
        enum node_answer answer = NODE_GONE;
        if (model->has_fences) answer = model_extend(model, request, now_ms);
        if (answer == NODE_GRANTED) model_raise(model, request);
        assert_int_equal(node_extend_guarded(table, named, request->count, token, request->ttl_ms,
                                             NONCE, request->fence, request->stripes,
                                             request->stripes_count, now_ms),
                         answer);
    } else if (what == 2) {
        if (draw(both, 8) == 0) request->count = 0;
        bool ours = !model->has_fences || is_ours(model, request, now_ms);
        enum node_answer answer = !model->has_fences ? NODE_GONE
                                  : ours             ? NODE_GRANTED
                                                     : NODE_DENIED;
        model_fences(model, request, &lowest, &found);
        if (answer == NODE_GRANTED && found >= request->fence) answer = NODE_STALE;
        if (answer == NODE_GRANTED) model_raise(model, request);
        assert_int_equal(node_raise(table, named, request->count, token, NONCE, request->fence,
                                    request->stripes, request->stripes_count, now_ms, &highest),
                         answer);
        assert_int_equal(highest, answer == NODE_STALE ? found : -1);
    } else {
        enum node_answer answer = model->has_fences ? NODE_STALE : NODE_GONE;
        model_fences(model, request, &lowest, &found);
        if (model->has_fences && lowest >= request->fence && is_ours(model, request, now_ms))
            answer = NODE_GRANTED;
        assert_int_equal(node_confirm(table, named, request->count, token, NONCE, request->fence,
                                      request->stripes, request->stripes_count, now_ms),
                         answer);
    }
}

static void plain_step(struct both *both, const struct request *request, unsigned what) {
    struct node_table *table = both->table;
    struct model *model = both->model;
    struct node_bytes named[NAMED_MAX], token = tokens[request->token];
    int64_t now_ms = both->now_ms;
    for (unsigned i = 0; i < request->count; i++) named[i] = keys[request->named[i]];
    if (what == 0)
        assert_int_equal(node_acquire(table, named, request->count, token, request->ttl_ms, now_ms),
                         model_acquire(model, request, now_ms));
    else if (what == 1)
        assert_int_equal(node_extend(table, named, request->count, token, request->ttl_ms, now_ms),
                         model_extend(model, request, now_ms));
    else
        assert_int_equal(node_release(table, named, request->count, token, now_ms),
                         model_release(model, request, now_ms));
}

static bool write_floors(struct node_table *table, const int64_t *floor, bool first) {
    struct node_field field = {{"nonce", 5}, {"000000000000000a", 16}};
    struct node_record_write write = {first ? 0 : NONCE, NONCE, first, false, floor, &field, 1};
    return node_record_write(table, &write) == NODE_GRANTED;
}

static void install(struct both *both) {
    int64_t floor[NODE_STRIPES] = {0};
    struct model *model = both->model;
    for (unsigned i = 0; i < STRIPES; i++) {
        int64_t least = model->highest[i] + (int64_t)draw(both, 3) - 1;
        if (least < 0) least = 0;
        floor[stripes[i]] = least;
        model->highest[i] = higher(model->highest[i], least);
        model->floor[i] = higher(model->floor[i], least);
        model->bound[i] = higher(model->bound[i], least);
    }
    assert_true(write_floors(both->table, floor, !model->has_fences));
    model->has_fences = true;
}

static void expire(struct both *both) {
    struct model *model = both->model;
    size_t limit = 1 + draw(both, 4), due = 0;
    bool all = draw(both, 2);
    if (model->native && !all) {
        for (unsigned i = 0; i < KEYS; i++) due += ended(model, i, both->now_ms, false);
        assert_int_equal(node_expire_some(both->table, both->now_ms, limit),
                         due < limit ? due : limit);
        /* it takes the earliest; which of equal ones it reports */
        for (unsigned i = 0; i < KEYS; i++)
            if (model->held[i].exists && !model->reported[i].exists) {
                for (unsigned k = 0; k < KEYS; k++)
                    if (model->reported[k].exists)
                        assert_true(model->reported[k].end_ms >= model->held[i].end_ms);
                assert_true(ended(model, i, both->now_ms, false));
                gone(model, i);
            }
        return;
    }
    node_expire_due(both->table, both->now_ms);
    for (unsigned i = 0; i < KEYS; i++)
        if (ended(model, i, both->now_ms, false) ||
            (model->rule == NODE_EXPIRES_AT && model->held[i].exists &&
             model->held[i].end_ms == both->now_ms))
            gone(model, i);
}

static void set_plainly(struct both *both, unsigned key, unsigned token) {
    struct model *model = both->model;
    int64_t ttl_ms = draw(both, 4) ? 1 + draw(both, 60) : 0, fence = 0;
    int64_t end_ms = ttl_ms ? both->now_ms + ttl_ms : INT64_MAX;
    bool stays = there(model, key, both->now_ms, false, true);
    if (model->native && model->has_fences) fence = model->floor[stripe_of[key]];
    assert_int_equal(node_set(both->table, keys[key], tokens[token], ttl_ms, both->now_ms),
                     NODE_GRANTED);
    if (stays) fence = model->held[key].fence;
    int64_t order = stays ? model->held[key].order : model->orders++;
    model->held[key] = (struct held){true, token, end_ms, fence, order};
}

static void one_step(struct both *both) {
    struct model *model = both->model;
    struct request request = draw_request(both);
    unsigned what = draw(both, 100), key = request.named[0];
    if (what >= 30) holder_of(both, &request);
    if (what < 30)
        plain_step(both, &request, 0);
    else if (what < 40)
        plain_step(both, &request, 1);
    else if (what < 50)
        plain_step(both, &request, 2);
    else if (what < 86 && request.stripes_count > 0)
        guarded_step(both, &request, (what - 50) / 9);
    else if (what < 88 && both->now_ms > 400)
        install(both);
    else if (what < 90)
        set_plainly(both, key, request.token);
    else if (what < 92)
        assert_int_equal(node_delete(both->table, keys[key], both->now_ms),
                         there(model, key, both->now_ms, false, true) ? (gone(model, key), 1) : 0);
    else if (what < 95)
        expire(both);
    else
        compare_looks(both->table, model, both->now_ms, key);
    int64_t step = draw(both, 5) ? 0 : (int64_t)draw(both, 12);
    both->now_ms += step;
}

static void run(bool native, enum node_end_rule rule, uint64_t seed) {
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    model->native = native;
    model->rule = rule;
    struct node_options options = {
        .native = native, .ends = rule, .seed = seed, .on_change = on_change, .context = model};
    struct both both = {node_table_open(&options), model, seed, 0};
    assert_non_null(both.table);
    for (int i = 0; i < STEPS; i++) {
        one_step(&both);
        compare_all(both.table, model);
    }
    for (unsigned i = 0; i < KEYS; i++) compare_looks(both.table, model, both.now_ms, i);
    node_table_free(both.table);
    free(model);
    assert_int_equal(memory_pieces, 0);
}

static void test_native(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(true, NODE_ENDS_AFTER, seed);
}

static void test_stock(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(false, (enum node_end_rule)(seed % 3), seed);
}

/* ---- no memory ---- */

struct counts {
    size_t count, used;
    int64_t next_ms;
};

static struct counts counts_of(const struct node_table *table) {
    return (struct counts){node_count(table), node_bytes_used(table), node_next_expiry(table)};
}

/* False: something could not be done, and then nothing of it was done. */
static bool everything(struct node_table *table) {
    static const int64_t floor[NODE_STRIPES] = {0};
    bool all = write_floors(table, floor, true);
    assert_int_equal(node_fences(table, NONCE) != NULL, all);
    for (unsigned i = 0; i + 2 < KEYS; i++) {
        struct counts before = counts_of(table);
        enum node_answer answer = node_acquire(table, &keys[i], 3, tokens[0], 50, i / 3);
        if (answer == NODE_NO_MEMORY) {
            struct counts after = counts_of(table);
            assert_int_equal(after.count, before.count);
            assert_int_equal(after.used, before.used);
            assert_int_equal(after.next_ms, before.next_ms);
            for (unsigned k = i; k < i + 3; k++) assert_int_equal(node_pttl(table, keys[k], 0), -2);
            all = false;
        } else {
            assert_int_equal(answer, i % 3 ? NODE_DENIED : NODE_GRANTED);
        }
        if (i % 3) continue;
        /* what a holder needs takes no memory */
        enum node_answer expected = answer == NODE_GRANTED ? NODE_GRANTED : NODE_ABSENT;
        long left = memory_left;
        memory_left = 0;
        assert_int_equal(node_extend(table, &keys[i], 3, tokens[0], 60, i / 3), expected);
        if (i % 2) assert_int_equal(node_release(table, &keys[i], 3, tokens[0], i / 3), expected);
        memory_left = left;
        if (i % 2) i += 2;
    }
    return all;
}

static void test_every_allocation_fails(void **state) {
    bool all = false;
    long left = 0;
    (void)state;
    for (; !all; left++) {
        struct node_options options = {.native = true};
        memory_left = left;
        struct node_table *table = node_table_open(&options);
        all = table && everything(table);
        memory_left = -1;
        node_table_free(table);
        assert_int_equal(memory_pieces, 0);
        assert_true(left < 1000);
    }
    assert_true(left > 20);
}

static void test_every_allocation_of_a_stock_table_fails(void **state) {
    bool all = false;
    (void)state;
    for (long left = 0; !all; left++) {
        memory_left = left;
        struct node_table *table = node_table_new(NULL, NULL), *copy = node_table_new(NULL, NULL);
        all = table && copy && everything(table);
        if (table && copy && node_table_copy(copy, table))
            assert_int_equal(node_count(copy), node_count(table));
        else
            all = false;
        /* a longer value needs another piece */
        if (table && node_count(table) > 0 &&
            node_set(table, keys[0], tokens[3], 0, 0) == NODE_NO_MEMORY) {
            all = false;
            assert_int_not_equal(node_pttl(table, keys[0], 0), -1);
        }
        memory_left = -1;
        node_table_free(table);
        node_table_free(copy);
        assert_int_equal(memory_pieces, 0);
        assert_true(left < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native),
        cmocka_unit_test(test_stock),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_every_allocation_of_a_stock_table_fails),
    };
    return cmocka_run_group_tests(tests, find_keys, NULL);
}
