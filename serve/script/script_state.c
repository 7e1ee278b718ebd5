/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Each run has its own Lua state. It takes 2 us in an arena, against 50 us with luaL_newstate() and
 * luaL_openlibs(). Nothing of one run remains for the next one.
 */
#include "script_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#define NAME "@user_script" /* the name that Redis uses in its errors */

/* ---- memory ---- */

/* Sizes are checked against the arena first, so this cannot wrap. */
static size_t rounded(size_t bytes) {
    return (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

void *arena_take(struct arena *arena, size_t bytes) {
    if (bytes > arena->size || rounded(bytes) > arena->size - arena->used) return NULL;
    void *piece = arena->bytes + arena->used;
    arena->used += rounded(bytes);
    return piece;
}

/* A lua_Alloc. */
static void *arena_lua(void *opaque, void *piece, size_t bytes_old, size_t bytes) {
    struct arena *arena = opaque;
    if (piece == NULL) return bytes == 0 ? NULL : arena_take(arena, bytes);
    if ((char *)piece + rounded(bytes_old) == arena->bytes + arena->used) {
        const size_t used = arena->used;
        arena->used = (size_t)((char *)piece - arena->bytes);
        if (bytes == 0) return NULL;
        if (arena_take(arena, bytes) != NULL) return piece;
        arena->used = used;
        return NULL;
    }
    if (bytes == 0) return NULL;
    if (bytes <= bytes_old) return piece;
    void *moved = arena_take(arena, bytes);
    if (moved != NULL) memcpy(moved, piece, bytes_old);
    return moved;
}

/* ---- a state ---- */

/* Instructions of one run. Typical scripts need about 30. */
#define INSTRUCTIONS_MAX 10000
#define INSTRUCTIONS_MIN 500

/* One instruction may read all of an argument (a comparison, a sum of two numbers in text form).
 * Large arguments therefore reduce the count, so that a run's time is bounded as well. */
static int instructions(const struct script_run *run) {
    const size_t given = INSTRUCTIONS_MAX / (1 + run->inputs_end / 4096);
    return given < INSTRUCTIONS_MIN ? INSTRUCTIONS_MIN : (int)given;
}

static void count_over(lua_State *thread, lua_Debug *where) {
    (void)where;
    luaL_error(thread, "the script does not end");
}

static int absent_global(lua_State *thread) {
    const char *name = lua_type(thread, 2) == LUA_TSTRING ? lua_tostring(thread, 2) : "?";
    return luaL_error(thread, "Script attempted to access nonexistent global variable '%s'", name);
}

static int new_global(lua_State *thread) {
    return luaL_error(thread, "Attempt to modify a readonly table");
}

/* Lua's own version shows the addresses of tables. */
static int to_string(lua_State *thread) {
    luaL_checkany(thread, 1);
    switch (lua_type(thread, 1)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        lua_tostring(thread, 1);
        lua_pushvalue(thread, 1);
        break;
    case LUA_TBOOLEAN: lua_pushstring(thread, lua_toboolean(thread, 1) ? "true" : "false"); break;
    default: lua_pushstring(thread, luaL_typename(thread, 1));
    }
    return 1;
}

/* Lua's own version walks all positions down to the given one, however large it is. */
static int table_insert(lua_State *thread) {
    luaL_checktype(thread, 1, LUA_TTABLE);
    const int end = (int)lua_objlen(thread, 1) + 1;
    const int count = lua_gettop(thread);
    if (count != 2 && count != 3)
        return luaL_error(thread, "wrong number of arguments to 'insert'");
    const int position = count == 3 ? luaL_checkint(thread, 2) : end;
    luaL_argcheck(thread, position >= 1 && position <= end, 2, "position out of bounds");
    for (int i = end; i > position; i--) {
        lua_rawgeti(thread, 1, i - 1);
        lua_rawseti(thread, 1, i);
    }
    lua_pushvalue(thread, count);
    lua_rawseti(thread, 1, position);
    return 0;
}

/* Lua's own version counts the results in an int, and checks for overflow in a way that compilers
 * optimise away. It takes some huge counts for small ones, and writes beyond its stack. Here the
 * difference of two ints fits. */
static int unpack(lua_State *thread) {
    luaL_checktype(thread, 1, LUA_TTABLE);
    const int64_t first = luaL_optint(thread, 2, 1);
    const int64_t last =
        lua_isnoneornil(thread, 3) ? (int64_t)lua_objlen(thread, 1) : luaL_checkint(thread, 3);
    if (first > last) return 0;
    const int64_t count = last - first + 1;
    if (count >= LUAI_MAXCSTACK || !lua_checkstack(thread, (int)count))
        return luaL_error(thread, "too many results to unpack");
    for (int64_t i = first; i <= last; i++) lua_rawgeti(thread, 1, (int)i);
    return (int)count;
}

static void open_library(lua_State *state, lua_CFunction open) {
    lua_pushcfunction(state, open);
    lua_pushliteral(state, "");
    lua_call(state, 1, 0);
}

/* Copies the named functions from the table on top to the one below it. */
static void copy_named(lua_State *state, const char *const *names) {
    for (; *names != NULL; names++) {
        lua_getfield(state, -1, *names);
        lua_setfield(state, -3, *names);
    }
}

/* Adds to the environment on top: a table of the library's functions that a script may call. */
static void give_library(lua_State *state, const char *library, lua_CFunction open,
                         const char *const *names) {
    open_library(state, open);
    lua_newtable(state);
    lua_getglobal(state, library);
    copy_named(state, names);
    lua_pop(state, 1);
    lua_setfield(state, -2, library);
}

static void give_function(lua_State *state, const char *name, lua_CFunction function) {
    lua_pushcfunction(state, function);
    lua_setfield(state, -2, name);
}

static void give_libraries(lua_State *state, const struct script_uses *uses) {
    if (uses->base) {
        open_library(state, luaopen_base);
        lua_pushvalue(state, LUA_GLOBALSINDEX);
        copy_named(state, script_base_names);
        lua_pop(state, 1);
        give_function(state, "tostring", to_string);
        give_function(state, "unpack", unpack);
    }
    if (uses->table) {
        give_library(state, "table", luaopen_table, script_table_names);
        lua_getfield(state, -1, "table");
        give_function(state, "insert", table_insert);
        lua_pop(state, 1);
    }
    if (uses->math) give_library(state, "math", luaopen_math, script_math_names);
    if (uses->string) give_library(state, "string", luaopen_string, script_string_names);
    /* Strings have fields, as in Redis: an absent field is nil and not an error. */
    lua_pushliteral(state, "");
    lua_createtable(state, 0, 1);
    if (uses->string) {
        lua_getfield(state, -3, "string");
    } else {
        lua_newtable(state);
    }
    lua_setfield(state, -2, "__index");
    lua_setmetatable(state, -2);
    lua_pop(state, 1);
}

static void give_redis(lua_State *state, struct script_run *run) {
    lua_createtable(state, 0, 4);
    lua_pushlightuserdata(state, run);
    lua_pushboolean(state, 0);
    lua_pushcclosure(state, call_redis, 2);
    lua_setfield(state, -2, "call");
    lua_pushlightuserdata(state, run);
    lua_pushboolean(state, 1);
    lua_pushcclosure(state, call_redis, 2);
    lua_setfield(state, -2, "pcall");
    give_function(state, "error_reply", call_error_reply);
    give_function(state, "status_reply", call_status_reply);
    lua_setfield(state, -2, "redis");
}

static void give_words(lua_State *state, const char *name, const struct bytes *words,
                       size_t count) {
    lua_createtable(state, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(state, words[i].data, words[i].bytes);
        lua_rawseti(state, -2, (int)i + 1);
    }
    lua_setfield(state, -2, name);
}

static int prepare(lua_State *state) {
    struct script_run *run = lua_touserdata(state, 1);
    lua_State *thread = lua_newthread(state);
    if (luaL_loadbuffer(state, run->code.data, run->code.bytes, NAME) != 0) return lua_error(state);
    lua_createtable(state, 0, 16);
    give_libraries(state, &run->uses);
    give_redis(state, run);
    give_words(state, "KEYS", &run->key, 1);
    give_words(state, "ARGV", run->arguments, run->argument_count);
    lua_createtable(state, 0, 2);
    give_function(state, "__index", absent_global);
    give_function(state, "__newindex", new_global);
    lua_setmetatable(state, -2);
    lua_setfenv(state, -2);
    lua_xmove(state, thread, 1);
    lua_sethook(thread, count_over, LUA_MASKCOUNT, instructions(run));
    run->thread = thread;
    return 0;
}

/* The collector is off: the arena is dropped as a whole, so it would find nothing to do. */
static lua_State *new_state(struct arena *arena) {
    lua_State *state = lua_newstate(arena_lua, arena);
    if (state != NULL) lua_gc(state, LUA_GCSTOP, 0);
    return state;
}

bool state_open(struct script_run *run) {
    run->thread = NULL;
    run->state = new_state(&run->arena);
    return run->state != NULL && lua_cpcall(run->state, prepare, run) == 0;
}

struct compilation {
    const char *text;
    size_t bytes;
    char *code;
    size_t code_bytes, capacity;
    const char *wrong;
};

static int keep_code(lua_State *state, const void *piece, size_t bytes, void *opaque) {
    struct compilation *work = opaque;
    (void)state;
    if (bytes > work->capacity - work->code_bytes) {
        const size_t capacity = (work->capacity + bytes) * 2;
        char *code = realloc(work->code, capacity);
        if (code == NULL) return 1;
        work->code = code;
        work->capacity = capacity;
    }
    if (bytes > 0) memcpy(work->code + work->code_bytes, piece, bytes);
    work->code_bytes += bytes;
    return 0;
}

static int compile(lua_State *state) {
    struct compilation *work = lua_touserdata(state, 1);
    const int status = luaL_loadbuffer(state, work->text, work->bytes, NAME);
    if (status == LUA_ERRSYNTAX) {
        work->wrong =
            lua_tostring(state, -1); /* stays: there is no collector, and the arena outlives this */
        return 0;
    }
    if (status != 0) return lua_error(state);
    if (lua_dump(state, keep_code, work) != 0) work->wrong = "out of memory";
    return 0;
}

bool state_compile(const char *text, size_t bytes, char **code, size_t *code_bytes, char *error,
                   size_t error_size) {
    struct compilation work = {.text = text, .bytes = bytes};
    const size_t size = ARENA_ROOM_BYTES + 16 * bytes;
    struct arena arena = {.bytes = malloc(size), .size = size};
    lua_State *state = arena.bytes != NULL ? new_state(&arena) : NULL;
    if (arena.bytes == NULL)
        work.wrong = "out of memory";
    else if (state == NULL || lua_cpcall(state, compile, &work) != 0)
        work.wrong = "the script needs too much memory";
    if (work.wrong != NULL) {
        snprintf(error, error_size, "Error compiling script (new function): %s", work.wrong);
        for (; *error != '\0'; error++) { /* an error is one line */
            if ((unsigned char)*error < ' ') *error = ' ';
        }
        free(work.code);
    } else {
        *code = work.code;
        *code_bytes = work.code_bytes;
    }
    free(arena.bytes);
    return work.wrong == NULL;
}
