/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of one run, shared by its files: its steps (script_run.c), its Lua state
 * (script_state.c), its calls of redis.call (script_call.c), and what its text shows
 * (script_text.c).
 */
#ifndef SERVE_SCRIPT_RUN_H
#define SERVE_SCRIPT_RUN_H

#include "interpreter.h"

#include <lua.h>
#include <stdalign.h>

#define RUN_ERROR_BYTES 2048
#define RUN_INPUTS_MAX 1024
#define RUN_INPUT_BYTES_MAX ((size_t)128 * 1024)
#define RUN_CALLS_MAX 64

/* The memory of one Lua state: a block that is handed out from one end and dropped as a whole. A
 * run therefore costs one malloc(), and its state needs no closing. The memory of a script is
 * bounded, and so is the total that it can allocate over time, since only the piece that was handed
 * out last can be returned. */
struct arena {
    char *bytes;
    size_t used;
    size_t size;
};

/* The memory of a script, in addition to its own code and its inputs. */
#define ARENA_ROOM_BYTES ((size_t)64 * 1024)

/* The parts of Lua's library that a text names. A run gets only these, since opening them costs
 * more than the run. */
struct script_uses {
    bool base;
    bool string;
    bool table;
    bool math;
};

/* What the script has observed of its key, or has done to it. */
enum seen { SEEN_NOTHING, SEEN_ABSENT, SEEN_PRESENT, SEEN_VALUE };

/* The form in which the script gets the answer to a call. */
enum answer_form { FORM_AS_IT_IS, FORM_SECONDS, FORM_STATUS, FORM_RANGE };

struct script_run {
    /* its memory returns there; the arena is behind the struct */
    alignas(max_align_t) struct scripts *scripts;
    size_t block_bytes;
    struct arena arena;
    size_t inputs_end; /* end of code and inputs in the arena; they stay when the run restarts */
    char sha[SCRIPT_SHA_BYTES + 1];
    struct script_uses uses;
    struct bytes code, key;
    struct bytes *arguments;
    size_t argument_count;

    lua_State *state;
    lua_State *thread; /* the script's, which stops in redis.call; NULL: it has not begun */
    unsigned begun, calls;

    struct key_call call; /* the call in which it stopped */
    enum answer_form form;
    int64_t range[2]; /* FORM_RANGE: the first and the last byte, as getrange has them */
    bool is_pcall;    /* redis.pcall: an error is an answer */
    bool must;        /* the call must work, since the script has seen that it can */
    bool changed;     /* an earlier call may have changed the key: the run cannot restart */
    enum seen seen;
    struct bytes seen_value;

    bool refused; /* `error` holds the reason, which replaces any error of Lua */
    char error[RUN_ERROR_BYTES];
};

/* NULL: the arena is full. The result is aligned for any type. */
void *arena_take(struct arena *arena, size_t bytes);
/* Makes the state, its globals, and the thread with the script's code, in a fresh arena. False: out
 * of memory. */
bool state_open(struct script_run *run);
/* Compiles into *code, which the caller frees. False: `error` holds the reason. */
bool state_compile(const char *text, size_t bytes, char **code, size_t *code_bytes, char *error,
                   size_t error_size);

/* redis.call and redis.pcall: a C function with the run and whether it is pcall as upvalues. */
int call_redis(lua_State *thread);
int call_error_reply(lua_State *thread);
int call_status_reply(lua_State *thread);
/* Updates what the run knows of its key from the answer to its call, which must not be an error.
 * False: the answer contradicts what the script has seen: another client has changed the key. */
bool call_learn(struct script_run *run, const struct answer *answer);
/* Pushes {err=text} or {ok=text}. */
void call_push_reply(lua_State *state, const char *field, const char *text, size_t bytes);

/* ---- script_text.c ---- */

/* The text must be one that Lua compiles. False: it is refused, and `error` holds the reason in one
 * sentence. */
bool script_text_judge(const char *text, size_t bytes, struct script_uses *uses, char *error,
                       size_t error_size);

/* NULL-terminated: the functions of each part that a script may call. */
extern const char *const script_base_names[];
extern const char *const script_string_names[];
extern const char *const script_table_names[];
extern const char *const script_math_names[];

#endif
