/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_run.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "element.h"

/* Another client may change the key while a script runs here, which cannot happen inside a Redis.
 * The script then restarts. */
#define TRIES_MAX 4

/* An error or a status is one line. */
static void make_line(char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' || text[i] == '\n') text[i] = ' ';
    }
}

/* In Redis's form: the error, the script, and the line. */
static void fill_error(struct script_run *run, const char *code, const char *text, size_t bytes) {
    lua_Debug where = {.currentline = -1};
    const bool found =
        lua_getstack(run->thread, 0, &where) != 0 && lua_getinfo(run->thread, "Sl", &where) != 0;
    if (found && *where.what == 'C' && lua_getstack(run->thread, 1, &where) != 0)
        lua_getinfo(run->thread, "Sl", &where);
    const int shown = bytes < RUN_ERROR_BYTES / 2 ? (int)bytes : RUN_ERROR_BYTES / 2;
    snprintf(run->error, sizeof run->error, "%s%.*s script: %s, on @user_script:%d.", code, shown,
             text, run->sha, where.currentline);
}

static enum program_step end_with_error(struct script_run *run, struct answer *result) {
    const size_t bytes = strlen(run->error);
    make_line(run->error, bytes);
    *result = (struct answer){.kind = ANSWER_ERROR, .bytes = {run->error, bytes}};
    return PROGRAM_ENDS;
}

static enum program_step end_without_memory(struct script_run *run, struct answer *result) {
    snprintf(run->error, sizeof run->error, "ERR the script takes more than %zu KiB of memory",
             ARENA_ROOM_BYTES / 1024);
    return end_with_error(run, result);
}

struct exchange {
    struct script_run *run;
    const struct answer *answer;
    struct answer *result;
};

/* Replaces the value on top by a part of it: the first and the last byte count from 0, or from -1
 * backwards. */
static void take_range(lua_State *state, const int64_t range[2]) {
    size_t count = 0;
    const char *text = lua_tolstring(state, -1, &count);
    int64_t bytes = (int64_t)count, first = range[0], last = range[1];
    if (first < 0) first = first < -bytes ? 0 : first + bytes;
    if (last < 0) last = last < -bytes ? 0 : last + bytes;
    if (last >= bytes) last = bytes - 1;
    if ((range[0] < 0 && range[1] < 0 && range[0] > range[1]) || first > last)
        lua_pushliteral(state, "");
    else
        lua_pushlstring(state, text + first, (size_t)(last - first + 1));
}

/* The answer for the script. Everything that may need memory runs inside lua_cpcall(). */
static int push_answer(lua_State *state) {
    struct exchange *exchange = lua_touserdata(state, 1);
    struct script_run *run = exchange->run;
    const struct answer *answer = exchange->answer;
    const struct bytes bytes = answer->bytes;
    if (answer->kind == ANSWER_NIL && run->form == FORM_RANGE)
        lua_pushliteral(state, "");
    else if (answer->kind == ANSWER_NIL)
        lua_pushboolean(state, 0);
    else if (answer->kind == ANSWER_ERROR)
        call_push_reply(state, "err", bytes.data, bytes.bytes);
    else if (run->form == FORM_STATUS)
        call_push_reply(state, "ok", "OK", 2);
    else if (answer->kind == ANSWER_STATUS)
        call_push_reply(state, "ok", bytes.data, bytes.bytes);
    else if (answer->kind == ANSWER_INTEGER && run->form == FORM_SECONDS && answer->integer >= 0)
        lua_pushnumber(state, (lua_Number)((answer->integer + 500) / 1000));
    else if (answer->kind == ANSWER_INTEGER)
        lua_pushnumber(state, (lua_Number)answer->integer);
    else
        lua_pushlstring(state, bytes.data, bytes.bytes);
    if (run->call.command == KEY_GET && run->seen == SEEN_VALUE &&
        lua_type(state, -1) == LUA_TSTRING) {
        run->seen_value.data = lua_tolstring(state, -1, &run->seen_value.bytes);
        if (run->form == FORM_RANGE) take_range(state, run->range);
    }
    lua_settop(run->thread, 0);
    lua_xmove(state, run->thread, 1);
    return 0;
}

static bool read_field(lua_State *state, const char *field, struct bytes *bytes) {
    lua_pushstring(state, field);
    lua_rawget(state, -2);
    const bool found = lua_type(state, -1) == LUA_TSTRING;
    if (found) bytes->data = lua_tolstring(state, -1, &bytes->bytes);
    lua_pop(state, 1);
    return found;
}

/* A copy, since a Lua string must not be changed. */
static struct bytes line_of(struct script_run *run, struct bytes bytes) {
    if (memchr(bytes.data, '\n', bytes.bytes) == NULL &&
        memchr(bytes.data, '\r', bytes.bytes) == NULL)
        return bytes;
    const size_t length = bytes.bytes < sizeof run->error ? bytes.bytes : sizeof run->error;
    memcpy(run->error, bytes.data, length);
    make_line(run->error, length);
    return (struct bytes){run->error, length};
}

/* The value on top, which is not a table. */
static struct answer plain_value(lua_State *state) {
    struct answer value = {.kind = ANSWER_NIL};
    lua_Number number;
    switch (lua_type(state, -1)) {
    case LUA_TBOOLEAN: return lua_toboolean(state, -1) ? answer_integer(1) : value;
    case LUA_TNUMBER:
        /* A number that does not fit an integer becomes what Redis's conversion makes of it on
         * common machines. */
        number = lua_tonumber(state, -1);
        return answer_integer(number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN);
    case LUA_TSTRING:
        value.kind = ANSWER_BYTES;
        value.bytes.data = lua_tolstring(state, -1, &value.bytes.bytes);
        return value;
    default: return value;
    }
}

/* The elements of the table on top, as far as its first nil, as Redis takes them. */
static struct answer read_array(lua_State *state) {
    struct answer array = {.kind = ANSWER_ARRAY}, elements[ELEMENTS_MAX];
    size_t bytes = 0, count = 0;
    while (true) {
        lua_rawgeti(state, -1, (int)count + 1);
        if (lua_isnil(state, -1)) break;
        if (count == ELEMENTS_MAX || lua_istable(state, -1)) luaL_error(state, "table");
        elements[count] = plain_value(state);
        bytes += ELEMENT_HEAD_BYTES + elements[count++].bytes.bytes;
        lua_pop(state, 1);
    }
    char *packed = lua_newuserdata(state, bytes + 1);
    array.integer = (int64_t)count;
    array.bytes = (struct bytes){packed, bytes};
    for (size_t i = 0; i < count; i++) packed += element_pack(packed, &elements[i]);
    return array;
}

static int read_result(lua_State *state) {
    struct exchange *exchange = lua_touserdata(state, 1);
    struct answer *result = exchange->result;
    *result = (struct answer){.kind = ANSWER_NIL};
    lua_xmove(exchange->run->thread, state, 1);
    if (!lua_istable(state, -1)) {
        *result = plain_value(state);
        return 0;
    }
    result->kind = read_field(state, "err", &result->bytes)  ? ANSWER_ERROR
                   : read_field(state, "ok", &result->bytes) ? ANSWER_STATUS
                                                             : ANSWER_ARRAY;
    if (result->kind == ANSWER_ARRAY)
        *result = read_array(state);
    else
        result->bytes = line_of(exchange->run, result->bytes);
    return 0;
}

static enum program_step end_with_result(struct script_run *run, struct answer *result) {
    struct exchange exchange = {.run = run, .result = result};
    lua_settop(run->thread, 1);
    const int status = lua_cpcall(run->state, read_result, &exchange);
    if (status == 0) return PROGRAM_ENDS;
    if (status == LUA_ERRMEM) return end_without_memory(run, result);
    snprintf(run->error, sizeof run->error,
             "ERR the script returns a table in a table, or one of more than %d elements",
             ELEMENTS_MAX);
    return end_with_error(run, result);
}

/* The error is on top of the thread's stack. */
static int read_error(lua_State *state) {
    struct exchange *exchange = lua_touserdata(state, 1);
    struct bytes text = {"nil", 3};
    const char *code = "ERR ";
    lua_xmove(exchange->run->thread, state, 1);
    if (lua_type(state, -1) == LUA_TTABLE) {
        code = read_field(state, "err", &text) ? "" : code;
    } else if (lua_isstring(state, -1)) {
        text.data = lua_tolstring(state, -1, &text.bytes);
    } else if (!lua_isnil(state, -1)) {
        text.data = lua_isboolean(state, -1) ? (lua_toboolean(state, -1) ? "true" : "false")
                                             : luaL_typename(state, -1);
        text.bytes = strlen(text.data);
    }
    fill_error(exchange->run, code, text.data, text.bytes);
    return 0;
}

static enum program_step resume(struct script_run *run, int answers, struct key_call *call,
                                struct answer *result) {
    struct exchange exchange = {.run = run};
    const int status = lua_resume(run->thread, answers);
    if (status == 0) return end_with_result(run, result);
    if (status == LUA_YIELD) {
        *call = run->call;
        return PROGRAM_CALLS;
    }
    if (run->refused) return end_with_error(run, result);
    if (status == LUA_ERRMEM || lua_cpcall(run->state, read_error, &exchange) != 0)
        return end_without_memory(run, result);
    return end_with_error(run, result);
}

static enum program_step begin(struct script_run *run, struct key_call *call,
                               struct answer *result) {
    run->arena.used = run->inputs_end;
    run->begun++;
    run->calls = 0;
    run->seen = SEEN_NOTHING;
    if (!state_open(run)) return end_without_memory(run, result);
    return resume(run, 0, call, result);
}

enum program_step script_run_step(struct script_run *run, const struct answer *answer,
                                  struct key_call *call, struct answer *result) {
    struct exchange exchange = {.run = run, .answer = answer};
    if (run->refused) return end_with_error(run, result);
    if (run->thread == NULL) return begin(run, call, result);
    assert(answer != NULL);
    if (answer->kind == ANSWER_ERROR && !run->is_pcall) {
        fill_error(run, "", answer->bytes.data, answer->bytes.bytes);
        return end_with_error(run, result);
    }
    if (answer->kind == ANSWER_ERROR) {
        /* The effect of the call is not known. */
        run->changed = run->changed || run->call.command >= KEY_DELETE;
        run->seen = SEEN_NOTHING;
    } else if (!call_learn(run, answer)) {
        if (!run->changed && run->begun < TRIES_MAX) return begin(run, call, result);
        snprintf(run->error, sizeof run->error,
                 "ERR the key was changed by another client while the script ran");
        return end_with_error(run, result);
    }
    if (lua_cpcall(run->state, push_answer, &exchange) != 0) return end_without_memory(run, result);
    return resume(run, 1, call, result);
}
