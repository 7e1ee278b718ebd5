/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The known texts, and the memory of runs. Of a text it keeps the form that Lua has compiled, which
 * a run reads in a microsecond.
 */
#include "script_run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script_cache.h"

#define BLOCK_BYTES ((size_t)96 * 1024)
#define BLOCKS_KEPT 8
/* The maximum that the compiled code takes in a state, in addition to its kept size. */
#define CODE_FACTOR 6

struct script {
    struct script_entry entry;
    struct bytes code; /* stored behind the struct */
    struct script_uses uses;
};

struct scripts {
    struct script_cache cache;
    size_t text_bytes_max;
    struct script_run *blocks[BLOCKS_KEPT];
    size_t block_count;
};

/* ---- texts ---- */

struct scripts *scripts_new(size_t count_max, size_t text_bytes_max) {
    struct scripts *scripts = calloc(1, sizeof *scripts);
    if (scripts == NULL) return NULL;
    cache_open(&scripts->cache, count_max);
    scripts->text_bytes_max = text_bytes_max;
    return scripts;
}

void scripts_flush(struct scripts *scripts) { cache_clear(&scripts->cache); }

void scripts_free(struct scripts *scripts) {
    if (scripts == NULL) return;
    scripts_flush(scripts);
    while (scripts->block_count > 0) free(scripts->blocks[--scripts->block_count]);
    free(scripts);
}

bool scripts_has(const struct scripts *scripts, const char *sha) {
    return cache_find(&scripts->cache, sha) != NULL;
}

static bool refuse(char *error, size_t error_size, const char *why) {
    snprintf(error, error_size, "%s", why);
    return false;
}

static bool keep(struct scripts *scripts, const char *sha, const struct script_uses *uses,
                 struct bytes code) {
    struct script *script = malloc(sizeof *script + code.bytes);
    if (script == NULL) return false;
    memcpy(script + 1, code.data, code.bytes);
    script->code = (struct bytes){(char *)(script + 1), code.bytes};
    script->uses = *uses;
    return cache_keep(&scripts->cache, sha, &script->entry);
}

bool scripts_load(struct scripts *scripts, const char *sha, const char *text, size_t bytes,
                  char *error, size_t error_size) {
    struct script_uses uses;
    char *code = NULL;
    size_t code_bytes = 0;
    if (bytes > scripts->text_bytes_max) {
        snprintf(error, error_size, "the script is too long: this gateway takes %zu bytes",
                 scripts->text_bytes_max);
        return false;
    }
    if (cache_use(&scripts->cache, sha) != NULL) return true;
    if (bytes > 0 && text[0] == LUA_SIGNATURE[0])
        return refuse(error, error_size, "this gateway takes scripts as text only");
    if (bytes > 1 && memcmp(text, "#!", 2) == 0)
        return refuse(error, error_size, "this gateway takes scripts without a #! line");
    if (!state_compile(text, bytes, &code, &code_bytes, error, error_size)) return false;
    bool kept = script_text_judge(text, bytes, &uses, error, error_size);
    if (kept && !keep(scripts, sha, &uses, (struct bytes){code, code_bytes}))
        kept = refuse(error, error_size, "out of memory");
    free(code);
    return kept;
}

/* ---- runs ---- */

/* A block of the usual size is kept, so that it is not returned to the kernel and allocated again
 * each time. */
static struct script_run *take_block(struct scripts *scripts, const struct bytes *code,
                                     size_t inputs, size_t count) {
    /* Each piece is rounded up to 16 bytes; in a state it has a head of 24 and a place in a
     * table. */
    const size_t kept = code->bytes + inputs + (count + 2) * (16 + sizeof(struct bytes));
    const size_t state = CODE_FACTOR * code->bytes + inputs + (count + 2) * 64 + ARENA_ROOM_BYTES;
    const size_t bytes = sizeof(struct script_run) + kept + state;
    const size_t size = bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes;
    struct script_run *run = size == BLOCK_BYTES && scripts->block_count > 0
                                 ? scripts->blocks[--scripts->block_count]
                                 : malloc(size);
    if (run == NULL) return NULL;
    *run = (struct script_run){.scripts = scripts,
                               .block_bytes = size,
                               .arena = {.bytes = (char *)(run + 1), .size = kept + state}};
    return run;
}

void script_run_free(struct script_run *run) {
    if (run == NULL) return;
    struct scripts *scripts = run->scripts;
    if (run->block_bytes == BLOCK_BYTES && scripts->block_count < BLOCKS_KEPT)
        scripts->blocks[scripts->block_count++] = run;
    else
        free(run);
}

static struct bytes copy_in(struct arena *arena, struct bytes bytes) {
    char *copy = arena_take(arena, bytes.bytes);
    assert(copy != NULL); /* the block is large enough for it */
    if (bytes.bytes > 0) memcpy(copy, bytes.data, bytes.bytes);
    return (struct bytes){copy, bytes.bytes};
}

struct script_run *script_run_new(struct scripts *scripts, const char *sha, struct bytes key,
                                  const struct bytes *arguments, size_t count) {
    const struct script *script = cache_use(&scripts->cache, sha);
    if (script == NULL) return NULL;
    size_t inputs = key.bytes;
    bool much = count > RUN_INPUTS_MAX;
    for (size_t i = 0; i < count && !much; i++) {
        much = arguments[i].bytes > RUN_INPUT_BYTES_MAX ||
               (inputs += arguments[i].bytes) > RUN_INPUT_BYTES_MAX;
    }
    if (much || inputs > RUN_INPUT_BYTES_MAX) count = inputs = 0, key.bytes = 0, much = true;
    struct script_run *run = take_block(scripts, &script->code, inputs, count);
    if (run == NULL) return NULL;
    memcpy(run->sha, script->entry.sha, sizeof run->sha);
    run->uses = script->uses;
    run->code = copy_in(&run->arena, script->code);
    run->key = copy_in(&run->arena, key);
    run->arguments = arena_take(&run->arena, (count + 1) * sizeof *run->arguments);
    assert(run->arguments != NULL);
    run->argument_count = count;
    for (size_t i = 0; i < count; i++) run->arguments[i] = copy_in(&run->arena, arguments[i]);
    run->inputs_end = run->arena.used;
    run->refused = much;
    if (much)
        snprintf(run->error, sizeof run->error,
                 "ERR a script takes at most %d arguments of %zu bytes together", RUN_INPUTS_MAX,
                 RUN_INPUT_BYTES_MAX);
    return run;
}
