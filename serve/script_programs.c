/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The known texts. The file keeps the form that Lua has compiled, which a run reads in a
 * microsecond.
 */
#include "script_run.h"

#include <assert.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#define BLOCK_BYTES ((size_t)96 * 1024)
#define BLOCKS_KEPT 8

struct script {
    TAILQ_ENTRY(script) used; /* the one unused for longest first */
    char sha[SCRIPT_SHA_BYTES + 1];
    char *code;
    struct script_program program;
};

struct scripts {
    TAILQ_HEAD(script_queue, script) used;
    void *by_sha; /* a tree of <search.h> */
    size_t count, count_max, text_bytes_max;
    struct script_run *blocks[BLOCKS_KEPT];
    size_t block_count;
};

static int compare(const void *a, const void *b) {
    const struct script *one = a, *other = b;
    return strcasecmp(one->sha, other->sha);
}

static struct script *find(const struct scripts *scripts, const char *sha) {
    struct script key;
    if (strnlen(sha, SCRIPT_SHA_BYTES + 1) != SCRIPT_SHA_BYTES) return NULL;
    memcpy(key.sha, sha, sizeof key.sha);
    struct script *const *found = tfind(&key, &scripts->by_sha, compare);
    return found != NULL ? *found : NULL;
}

static void forget(struct scripts *scripts, struct script *script) {
    tdelete(script, &scripts->by_sha, compare);
    TAILQ_REMOVE(&scripts->used, script, used);
    scripts->count--;
    free(script->code);
    free(script);
}

struct scripts *scripts_new(size_t count_max, size_t text_bytes_max) {
    assert(count_max > 0);
    struct scripts *scripts = calloc(1, sizeof *scripts);
    if (scripts == NULL) return NULL;
    scripts->count_max = count_max;
    scripts->text_bytes_max = text_bytes_max;
    TAILQ_INIT(&scripts->used);
    return scripts;
}

void scripts_flush(struct scripts *scripts) {
    while (!TAILQ_EMPTY(&scripts->used)) forget(scripts, TAILQ_FIRST(&scripts->used));
}

void scripts_free(struct scripts *scripts) {
    if (scripts == NULL) return;
    scripts_flush(scripts);
    while (scripts->block_count > 0) free(scripts->blocks[--scripts->block_count]);
    free(scripts);
}

static void touch(struct scripts *scripts, struct script *script) {
    TAILQ_REMOVE(&scripts->used, script, used);
    TAILQ_INSERT_TAIL(&scripts->used, script, used);
}

static bool refuse(char *error, size_t error_size, const char *why) {
    snprintf(error, error_size, "%s", why);
    return false;
}

static bool keep(struct scripts *scripts, const char *sha, const struct script_program *program,
                 char *code) {
    struct script *script = calloc(1, sizeof *script);
    if (script == NULL) return false;
    memcpy(script->sha, sha, SCRIPT_SHA_BYTES);
    script->program = *program;
    script->code = code;
    if (tsearch(script, &scripts->by_sha, compare) == NULL) {
        free(script);
        return false;
    }
    TAILQ_INSERT_TAIL(&scripts->used, script, used);
    scripts->count++;
    if (scripts->count > scripts->count_max) forget(scripts, TAILQ_FIRST(&scripts->used));
    return true;
}

bool scripts_load(struct scripts *scripts, const char *sha, const char *text, size_t bytes,
                  char *error, size_t error_size) {
    struct script_program program = {0};
    char *code = NULL;
    if (bytes > scripts->text_bytes_max) {
        snprintf(error, error_size, "the script is too long: this gateway takes %zu bytes",
                 scripts->text_bytes_max);
        return false;
    }
    struct script *known = find(scripts, sha);
    if (known != NULL) {
        touch(scripts, known);
        return true;
    }
    if (bytes > 0 && text[0] == LUA_SIGNATURE[0])
        return refuse(error, error_size, "this gateway takes scripts as text only");
    if (bytes > 1 && memcmp(text, "#!", 2) == 0)
        return refuse(error, error_size, "this gateway takes scripts without a #! line");
    if (!state_compile(text, bytes, &code, &program.code.bytes, error, error_size)) return false;
    program.code.data = code;
    if (!script_text_judge(text, bytes, &program.uses, error, error_size)) {
        free(code);
        return false;
    }
    if (keep(scripts, sha, &program, code)) return true;
    free(code);
    return refuse(error, error_size, "out of memory");
}

bool scripts_has(const struct scripts *scripts, const char *sha) {
    return find(scripts, sha) != NULL;
}

const struct script_program *script_program(struct scripts *scripts, const char *sha) {
    struct script *script = find(scripts, sha);
    if (script == NULL) return NULL;
    touch(scripts, script);
    return &script->program;
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
