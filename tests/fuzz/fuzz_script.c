/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any text as a script, any answers to its calls. An input is the text, a NUL, a byte for each
 * answer, a NUL, and the arguments with NULs between them.
 */
#include "script/element.h"
#include "script/known.h"
#include "script/script_run.h" /* a refusal, which a script cannot feign there */
#include "scripted.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX (4 * 65)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* Reads every byte, for the sanitizer to see. */
static void touch(struct bytes bytes) {
    for (size_t i = 0; i < bytes.bytes; i++) (void)*(const volatile char *)&bytes.data[i];
}

static struct bytes cut(const char **at, const char *end) {
    struct bytes piece = {*at, 0};
    const char *nul = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;
    piece.bytes = (size_t)((nul != NULL ? nul : end) - *at);
    *at = nul != NULL ? nul + 1 : end;
    return piece;
}

/* Without a byte for it the answer is what a key would give; a byte gives what none would. */
static struct answer answer(struct key_now *key, const struct key_call *call,
                            struct bytes *choices) {
    static const char *const texts[] = {"", "mine", "ERR it is\nso", "OK", "another's"};
    const unsigned char choice = choices->bytes > 0 ? (unsigned char)*choices->data : 0;
    if (choices->bytes > 0) choices->data++, choices->bytes--;
    if (choice < 64 && call->value.bytes < sizeof key->value) return key_serve(key, call);
    struct answer value = {.kind = (enum answer_kind)(choice % 5),
                           .integer = (int64_t)choice - 130};
    value.bytes = text_bytes(texts[choice / 5 % 5]);
    return value;
}

static void check_call(const struct key_call *call) {
    touch(call->value);
    must(call->command <= KEY_TAKE, "no such call");
    must(call->command != KEY_TAKE || (call->value.data != NULL && call->ttl_ms > 0),
         "a take without value or end");
    must(call->command != KEY_EXTEND || call->ttl_ms > 0, "an extension to the past");
}

static void check_result(const struct script_run *one, const struct answer *result) {
    must(result->kind <= ANSWER_ARRAY, "no such result");
    /* The run has stopped what the reader of texts should have. */
    must(!one->refused || strstr(one->error, "calls a command") == NULL,
         "a command was not seen in the text");
    if (result->kind == ANSWER_NIL || result->kind == ANSWER_INTEGER) return;
    touch(result->bytes);
    if (result->kind == ANSWER_ARRAY)
        must(elements_are_whole(result), "other elements than the array says");
    if (result->kind == ANSWER_ARRAY || result->kind == ANSWER_BYTES || result->bytes.bytes == 0)
        return;
    must(memchr(result->bytes.data, '\n', result->bytes.bytes) == NULL, "an error of two lines");
}

static void run(struct scripts *scripts, const char *sha, struct bytes choices, const char *at,
                const char *end) {
    struct bytes arguments[16];
    size_t count = 0;
    while (at < end && count < 16) arguments[count++] = cut(&at, end);
    struct script_run *one = script_run_new(scripts, sha, text_bytes("k"), arguments, count);
    must(one != NULL, "no run of a script that is loaded");
    struct key_now key;
    key_fill(&key, choices.bytes % 2 == 0 ? "mine" : NULL, 5000);
    struct key_call call;
    struct answer given, result, *next = NULL;
    unsigned steps = 0;
    while (script_run_step(one, next, &call, &result) == PROGRAM_CALLS) {
        must(++steps < STEPS_MAX, "too many calls");
        check_call(&call);
        given = answer(&key, &call, &choices);
        next = &given;
    }
    check_result(one, &result);
    script_run_free(one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct scripts *scripts;
    if (scripts == NULL) scripts = scripts_new(4, 16384);
    const char *at = (const char *)data, *end = at + size;
    const struct bytes text = cut(&at, end), choices = cut(&at, end);
    char sha[SCRIPT_SHA_BYTES + 1], error[512] = "";
    const bool known = known_find(text).program != NULL;
    if (!script_load(scripts, text.data, text.bytes, sha, error, sizeof error)) {
        must(*error != '\0' && strpbrk(error, "\r\n") == NULL, "a refusal without a sentence");
        must(!known, "known by heart, and no script");
        return 0;
    }
    must(scripts_has(scripts, sha), "loaded and not there");
    run(scripts, sha, choices, at, end);
    return 0;
}
