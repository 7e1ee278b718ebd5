/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripted.h"

#include "script/known.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WORDS_MAX = 64 };

struct bytes text_bytes(const char *text) {
    return (struct bytes){text, strlen(text)};
}

bool script_load(struct scripts *scripts, const char *text, size_t bytes, char *sha, char *error,
                 size_t error_size) {
    const bool named = script_name((struct bytes){text, bytes}, sha);
    assert(named);
    return named && scripts_load(scripts, sha, text, bytes, error, error_size);
}

static struct answer integer(int64_t value) {
    return (struct answer){.kind = ANSWER_INTEGER, .integer = value};
}

void key_fill(struct key_now *key, const char *value, int64_t pttl) {
    *key = (struct key_now){.there = value != NULL, .pttl = pttl};
    if (value == NULL) return;
    key->bytes = strlen(value);
    assert(key->bytes < sizeof key->value);
    memcpy(key->value, value, key->bytes);
}

/* The key's clock stands still; a time of day counts from the real one. */
static int64_t length_of(const struct key_call *call) {
    return call->until ? call->ttl_ms - (int64_t)time(NULL) * 1000 : call->ttl_ms;
}

static struct answer take(struct key_now *key, const struct key_call *call) {
    if (key->there) return (struct answer){.kind = ANSWER_NIL};
    assert(call->value.bytes < sizeof key->value && call->ttl_ms > 0);
    key->there = length_of(call) > 0;
    key->bytes = call->value.bytes;
    memcpy(key->value, call->value.data, key->bytes);
    key->pttl = length_of(call);
    return (struct answer){.kind = ANSWER_STATUS, .bytes = {"OK", 2}};
}

struct answer key_serve(struct key_now *key, const struct key_call *call) {
    const bool there = key->there;
    switch (call->command) {
    case KEY_PUBLISH: return integer(0);
    case KEY_GET:
        if (!there) return (struct answer){.kind = ANSWER_NIL};
        return (struct answer){.kind = ANSWER_BYTES, .bytes = {key->value, key->bytes}};
    case KEY_EXISTS: return integer(there);
    case KEY_PTTL: return integer(there ? key->pttl : -2);
    case KEY_DELETE: key->there = false; return integer(there);
    case KEY_EXTEND:
        assert(call->ttl_ms > 0);
        if (there) key->pttl = length_of(call);
        key->there = there && length_of(call) > 0;
        return integer(there);
    case KEY_TAKE: return take(key, call);
    }
    return integer(0);
}

static void note_end(struct ending *ending) {
    const size_t bytes = ending->value.bytes.bytes;
    if (ending->value.kind == ANSWER_NIL || ending->value.kind == ANSWER_INTEGER) return;
    assert(bytes < sizeof ending->text);
    if (bytes > 0) memcpy(ending->text, ending->value.bytes.data, bytes);
    ending->value.bytes.data = NULL;
}

static size_t read_arguments(const char *const *arguments, struct bytes words[WORDS_MAX]) {
    size_t count = 0;
    for (; arguments != NULL && arguments[count] != NULL; count++)
        words[count] = text_bytes(arguments[count]);
    return count;
}

static void note_call(struct ending *ending, const struct key_call *call) {
    ending->calls++;
    ending->changes += call->command >= KEY_DELETE;
}

bool known_ending(const char *text, const char *const *arguments, struct key_now *key,
                  struct ending *ending) {
    static struct known_run run;
    struct bytes words[WORDS_MAX];
    char sha[SCRIPT_SHA_BYTES + 1];
    const struct known known = known_find(text_bytes(text));
    const size_t count = read_arguments(arguments, words);
    if (!script_name(text_bytes(text), sha) || !known_begin(&run, &known, sha, words, count))
        return false;
    struct answer answer, *given = NULL;
    struct key_call call;
    *ending = (struct ending){.calls = 0};
    while (known_step(&run, given, &call, &ending->value) == PROGRAM_CALLS) {
        note_call(ending, &call);
        answer = key_serve(key, &call);
        given = &answer;
    }
    note_end(ending);
    return true;
}

struct ending script_ending(struct scripts *scripts, const char *text, const char *const *arguments,
                            struct key_now *key) {
    struct ending ending = {.value = {.kind = ANSWER_ERROR}};
    struct bytes words[WORDS_MAX];
    char sha[SCRIPT_SHA_BYTES + 1], error[512];
    if (!script_load(scripts, text, strlen(text), sha, error, sizeof error)) {
        snprintf(ending.text, sizeof ending.text, "ERR %s", error);
        ending.value.bytes.bytes = strlen(ending.text);
        return ending;
    }
    const size_t count = read_arguments(arguments, words);
    struct script_run *run = script_run_new(scripts, sha, text_bytes("resource"), words, count);
    assert(run != NULL);
    struct answer answer, *given = NULL;
    struct key_call call;
    while (script_run_step(run, given, &call, &ending.value) == PROGRAM_CALLS) {
        note_call(&ending, &call);
        answer = key_serve(key, &call);
        given = &answer;
    }
    note_end(&ending);
    script_run_free(run);
    return ending;
}
