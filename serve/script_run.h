/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One run, as its parts see it: its steps (script_run.c), the Lua state that it lives in
 * (script_state.c), and what becomes of redis.call (script_call.c).
 */
#ifndef SERVE_SCRIPT_RUN_H
#define SERVE_SCRIPT_RUN_H

#include "script_arena.h"
#include "script_programs.h"
#include "script_text.h"

#include <lua.h>
#include <stdalign.h>

#define RUN_ERROR_BYTES 2048
#define RUN_INPUTS_MAX 1024
#define RUN_INPUT_BYTES_MAX ((size_t)128 * 1024)
#define RUN_CALLS_MAX 64

/* What the script has seen of its key, or has made of it. */
enum key_state { KEY_UNKNOWN, KEY_ABSENT, KEY_PRESENT, KEY_HOLDS };

/* How the answer to a call is told to the script. */
enum answer_form { FORM_AS_IT_IS, FORM_SECONDS, FORM_STATUS };

struct script_run {
    alignas(max_align_t) struct scripts
        *scripts; /* where its memory goes back to; behind the struct is the arena */
    size_t block_bytes;
    struct arena arena;
    size_t inputs_end; /* in the arena: code and inputs are in front of it, and stay when the run
                          begins again */
    char sha[SCRIPT_SHA_BYTES + 1];
    struct script_uses uses;
    struct script_bytes code, key;
    struct script_bytes *arguments;
    size_t argument_count;

    lua_State *state;
    lua_State *thread; /* the script's, which stops in redis.call; NULL: it has not begun */
    unsigned begun, calls;

    struct script_call call; /* the one it stopped in */
    enum answer_form form;
    bool is_pcall; /* redis.pcall: an error is an answer */
    bool must; /* the script takes for granted that the call works, since it has seen that it can */
    bool changed; /* the key may have been changed by a call before: the run cannot begin again as
                     if it had not */
    enum key_state key_state;
    struct script_bytes key_holds;

    bool refused; /* `error` says why, and no error of Lua's matters */
    char error[RUN_ERROR_BYTES];
};

/* The state, its globals, and the thread with the script's code; an arena without any before.
 * False: out of memory. */
bool state_open(struct script_run *run);
/* Compiles into *code, which is to be freed. False: `error` says why. */
bool state_compile(const char *text, size_t bytes, char **code, size_t *code_bytes, char *error,
                   size_t error_size);

/* redis.call and redis.pcall: a C function with the run and whether it is pcall as upvalues. */
int call_redis(lua_State *thread);
int call_error_reply(lua_State *thread);
int call_status_reply(lua_State *thread);
/* What the run knows of its key by the answer to its call, which is no error. False: after what the
 * script has seen before, the key has been changed by somebody else. */
bool call_learn(struct script_run *run, const struct script_value *answer);
/* Pushes {err=text} or {ok=text}. */
void call_push_reply(lua_State *state, const char *field, const char *text, size_t bytes);

/* Memory for runs, a few blocks of which are kept for the next ones (script_programs.c). NULL:
 * there is none. */
struct script_run *script_block_take(struct scripts *scripts, size_t bytes);
void script_block_give(struct script_run *run);
struct script_program {
    struct script_bytes code;
    struct script_uses uses;
};
/* NULL: no such script. */
const struct script_program *script_program(struct scripts *scripts, const char *sha);
#endif
