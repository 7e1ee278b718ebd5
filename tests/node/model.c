/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_guarded.h"

struct reported {
    bool exists;
    int64_t expires_ms;
    size_t token_bytes;
    char token[1024];
};

struct model {
    struct node_table *table, *snapshot;
    struct reported reported[REQUEST_KEYS];
};

static _Noreturn void die(const char *why) {
    fprintf(stderr, "model: %s\n", why);
    abort();
}

static unsigned number_of(struct node_bytes key) {
    for (uint8_t i = 0; i < REQUEST_KEYS; i++) {
        struct node_bytes known = request_key(i);
        if (known.bytes == key.bytes && memcmp(known.data, key.data, key.bytes) == 0) return i;
    }
    die("told of a key that nobody named");
}

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    struct reported *reported = &((struct model *)context)->reported[number_of(key)];
    bool same = reported->token_bytes == token.bytes &&
                memcmp(reported->token, token.data, token.bytes) == 0;
    if (token.bytes > sizeof(reported->token)) die("told of a token that nobody named");
    if (change == NODE_CHANGE_SET) {
        reported->exists = true;
        reported->token_bytes = token.bytes;
        memcpy(reported->token, token.data, token.bytes);
    } else if (!reported->exists || !same) {
        die("told that a key changes which does not exist, or with another token");
    } else if (change != NODE_CHANGE_EXTENDED) {
        if (reported->expires_ms != expires_ms) die("told of another end than before");
        reported->exists = false;
    }
    reported->expires_ms = expires_ms;
}

bool model_reported_all(struct model *model, int64_t now_ms) {
    for (uint8_t i = 0; i < REQUEST_KEYS; i++) {
        const struct reported *reported = &model->reported[i];
        int64_t left = node_pttl(model->table, request_key(i), now_ms);
        if (reported->exists != (left != -2)) return false;
        if (!reported->exists) continue;
        if (left != (reported->expires_ms == INT64_MAX ? -1 : reported->expires_ms - now_ms))
            return false;
        struct node_bytes token = node_get(model->table, request_key(i), now_ms);
        if (token.bytes != reported->token_bytes) return false;
        if (token.bytes && memcmp(token.data, reported->token, token.bytes) != 0) return false;
    }
    return true;
}

struct model *model_new(enum node_end_rule ends) {
    struct model *model = calloc(1, sizeof(*model));
    if (!model) die("no memory");
    struct node_options options = {.ends = ends, .on_change = on_change, .context = model};
    model->table = node_table_open(&options);
    model->snapshot = node_table_new(NULL, NULL);
    if (!model->table || !model->snapshot) die("no memory");
    return model;
}

void model_free(struct model *model) {
    node_table_free(model->table);
    node_table_free(model->snapshot);
    free(model);
}

void model_reset(struct model *model) {
    node_flush_all(model->table);
    node_flush_all(model->snapshot);
}

size_t model_count(const struct model *model) {
    return node_count(model->table) + node_lists(model->table) + model_guarded_count(model->table);
}
int64_t model_next_end(const struct model *model) { return node_next_expiry(model->table); }

static void answer_integer(struct answer *answer, long long number) {
    answer_line(answer, "(%lld)", number);
}

/* What the script returns for it; `denied` differs between the scripts. */
static void answer_script(struct answer *answer, enum node_answer what, long long denied) {
    switch (what) {
    case NODE_GRANTED: answer_integer(answer, 1); break;
    case NODE_DENIED: answer_integer(answer, denied); break;
    case NODE_ABSENT: answer_integer(answer, 0); break;
    case NODE_WRONGTYPE: answer_line(answer, "WRONGTYPE"); break;
    case NODE_NO_MEMORY: die("no memory");
    case NODE_STALE:
    case NODE_GONE: die("a fence in classic mode");
    }
}

static void answer_status(struct answer *answer, enum node_answer what) {
    answer_line(answer, "%s", what == NODE_GRANTED ? "OK" : "nil");
}

static void answer_value(struct model *model, struct node_bytes key, int64_t now_ms,
                         const char *absent, struct answer *answer) {
    struct node_bytes value = node_get(model->table, key, now_ms);
    if (value.data)
        answer_bytes(answer, value);
    else
        answer_line(answer, "%s",
                    node_pttl(model->table, key, now_ms) == -2 ? absent : "WRONGTYPE");
}

static void restore(struct model *model, int64_t now_ms, struct answer *answer) {
    if (!node_table_copy(model->table, model->snapshot)) die("no memory");
    /* a server leaves out what has ended when it reads its snapshot */
    for (uint8_t i = 0; i < REQUEST_KEYS; i++)
        (void)node_pttl(model->table, request_key(i), now_ms);
    node_lists_expire(model->table, now_ms, true);
    answer_line(answer, "OK");
}

static void set_other_type(struct model *model, struct node_bytes key, int64_t now_ms,
                           struct answer *answer) {
    answer_integer(answer, node_delete(model->table, key, now_ms));
    if (node_set_other_type(model->table, key, now_ms) != NODE_GRANTED) die("no memory");
    answer_integer(answer, 1);
}

static void share(struct node_table *table, const struct request *request, int64_t now_ms,
                  struct answer *answer) {
    const struct node_share what = {.key = request_key(request->keys[0]),
                                    .reader = request_token(request->token),
                                    .ttl_ms = request->number};
    int64_t fence = -1;
    if (request->op == REQUEST_SHARE_EXTEND) {
        answer_script(answer, node_share_extend(table, &what, now_ms), -1);
    } else if (request->op == REQUEST_SHARE_RELEASE) {
        answer_script(answer, node_share_release(table, &what, now_ms), -1);
    } else {
        if (node_share(table, &what, now_ms, &fence) == NODE_NO_MEMORY) die("no memory");
        answer_integer(answer, fence);
    }
}

struct listed {
    struct reader {
        struct node_bytes token;
        int64_t expires_ms;
    } reader[REQUEST_TOKENS];
    size_t count;
};

static void list_reader(void *context, struct node_bytes token, int64_t expires_ms) {
    struct listed *listed = context;
    if (listed->count == REQUEST_TOKENS) die("more readers than tokens");
    listed->reader[listed->count++] = (struct reader){token, expires_ms};
}

/* As a sorted set: by end, then by bytes. */
static int in_order(const void *a, const void *b) {
    const struct reader *x = a, *y = b;
    if (x->expires_ms != y->expires_ms) return x->expires_ms < y->expires_ms ? -1 : 1;
    const size_t both = x->token.bytes < y->token.bytes ? x->token.bytes : y->token.bytes;
    const int order = both ? memcmp(x->token.data, y->token.data, both) : 0;
    return order ? order : (x->token.bytes > y->token.bytes) - (x->token.bytes < y->token.bytes);
}

static void list_readers(struct node_table *table, struct node_bytes key, int64_t now_ms,
                         struct answer *answer) {
    struct listed listed = {.count = 0};
    int64_t count = 1;
    enum node_answer given = node_readers_count(table, key, now_ms, &count);
    if (given != NODE_GRANTED) {
        answer_script(answer, given, -1);
        return;
    }
    answer_integer(answer, count);
    node_readers(table, key, now_ms, list_reader, &listed);
    qsort(listed.reader, listed.count, sizeof(listed.reader[0]), in_order);
    for (size_t i = 0; i < listed.count; i++) {
        answer_integer(answer, listed.reader[i].expires_ms - now_ms);
        answer_bytes(answer, listed.reader[i].token);
    }
}

void model_resolve(const struct model *model, struct request *request) {
    if (request_is_guarded(request->op)) model_guarded_resolve(model->table, request);
}

void model_do(struct model *model, const struct request *request, int64_t now_ms,
              struct answer *answer) {
    struct node_table *table = model->table;
    struct node_bytes keys[REQUEST_KEYS_MAX], key, token = request_token(request->token);
    size_t count = request->keys_count;
    int64_t number = request->number;
    for (size_t i = 0; i < count; i++) keys[i] = request_key(request->keys[i]);
    key = keys[0];
    switch (request->op) {
    case REQUEST_SET_NX:
        answer_status(answer, node_acquire(table, &key, 1, token, number, now_ms));
        break;
    case REQUEST_ACQUIRE_MANY:
        answer_script(answer, node_acquire(table, keys, count, token, number, now_ms), 0);
        break;
    case REQUEST_EXTEND:
        answer_script(answer, node_extend(table, keys, count, token, number, now_ms), -1);
        break;
    case REQUEST_RELEASE:
        answer_script(answer, node_release(table, keys, count, token, now_ms), -1);
        break;
    case REQUEST_SHARE:
    case REQUEST_SHARE_EXTEND:
    case REQUEST_SHARE_RELEASE: share(table, request, now_ms, answer); break;
    case REQUEST_READERS: list_readers(table, key, now_ms, answer); break;
    case REQUEST_PTTL: answer_integer(answer, node_pttl(table, key, now_ms)); break;
    case REQUEST_GET: answer_value(model, key, now_ms, "nil", answer); break;
    case REQUEST_PEEK_VALUE:
        answer_integer(answer, node_pttl(table, key, now_ms));
        answer_value(model, key, now_ms, "=", answer);
        break;
    case REQUEST_SET: answer_status(answer, node_set(table, key, token, 0, now_ms)); break;
    case REQUEST_SET_PX: answer_status(answer, node_set(table, key, token, number, now_ms)); break;
    case REQUEST_DEL: answer_integer(answer, node_delete(table, key, now_ms)); break;
    case REQUEST_PEXPIRE: answer_integer(answer, node_pexpire(table, key, number, now_ms)); break;
    case REQUEST_OTHER_TYPE: set_other_type(model, key, now_ms, answer); break;
    case REQUEST_FLUSHALL:
        node_flush_all(table);
        answer_line(answer, "OK");
        break;
    case REQUEST_EXPIRE_DUE:
        node_expire_due(table, now_ms);
        node_lists_expire(table, now_ms, false);
        answer_line(answer, "%zu left", model_count(model));
        break;
    case REQUEST_SNAPSHOT:
        if (!node_table_copy(model->snapshot, table)) die("no memory");
        answer_line(answer, "OK");
        break;
    case REQUEST_RESTORE: restore(model, now_ms, answer); break;
    case REQUEST_CLOCK_STEP:
    case REQUEST_CLOCK_TO_END: break;
    default: model_guarded_do(table, request, now_ms, answer);
    }
}
