/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The known texts. The file keeps the form that Lua has compiled, which a run reads in a
 * microsecond.
 */
#include "script_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script_cache.h"

#define BLOCK_BYTES ((size_t)96 * 1024)
#define BLOCKS_KEPT 8

struct script {
    struct script_entry entry;
    struct script_program program; /* its code is stored behind the struct */
};

struct scripts {
    struct script_cache cache;
    size_t text_bytes_max;
    struct script_run *blocks[BLOCKS_KEPT];
    size_t block_count;
};

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

const struct script_program *script_program(struct scripts *scripts, const char *sha) {
    const struct script *script = cache_use(&scripts->cache, sha);
    return script != NULL ? &script->program : NULL;
}

static bool refuse(char *error, size_t error_size, const char *why) {
    snprintf(error, error_size, "%s", why);
    return false;
}

static bool keep(struct scripts *scripts, const char *sha, const struct script_uses *uses,
                 struct script_bytes code) {
    struct script *script = malloc(sizeof *script + code.bytes);
    if (script == NULL) return false;
    memcpy(script + 1, code.data, code.bytes);
    script->program.code = (struct script_bytes){(char *)(script + 1), code.bytes};
    script->program.uses = *uses;
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
    if (kept && !keep(scripts, sha, &uses, (struct script_bytes){code, code_bytes}))
        kept = refuse(error, error_size, "out of memory");
    free(code);
    return kept;
}

/* A block of the usual size is kept, so that it is not returned to the kernel and allocated again
 * each time. */
struct script_run *script_block_take(struct scripts *scripts, size_t bytes) {
    const size_t size = bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes;
    struct script_run *run = size == BLOCK_BYTES && scripts->block_count > 0
                                 ? scripts->blocks[--scripts->block_count]
                                 : malloc(size);
    if (run == NULL) return NULL;
    memset(run, 0, sizeof *run);
    run->scripts = scripts;
    run->block_bytes = size;
    return run;
}

void script_block_give(struct script_run *run) {
    struct scripts *scripts = run->scripts;
    if (run->block_bytes == BLOCK_BYTES && scripts->block_count < BLOCKS_KEPT) {
        scripts->blocks[scripts->block_count++] = run;
    } else {
        free(run);
    }
}
