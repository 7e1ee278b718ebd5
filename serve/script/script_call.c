/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <lauxlib.h>

#define WORDS_MAX 16
/* A server adds its wall clock to a TTL and refuses an overflow. This process has no clock: 2^42 ms
 * end in 2109. */
#define TTL_MS_MAX (INT64_MAX - ((int64_t)1 << 42))

struct words {
    struct bytes at[WORDS_MAX];
    int count;
};

/* The form in which an error that Redis has too reaches the script: as an answer, or as an error of
 * Lua. */
static int fail(lua_State *thread, const struct script_run *run, const char *text) {
    call_push_reply(thread, "err", text, strlen(text));
    return run->is_pcall ? 1 : lua_error(thread);
}

/* A call that this gateway does not support ends the run: a script that hides errors with pcall
 * must not continue as if the call had worked. */
__attribute__((format(printf, 3, 4))) static int refuse(lua_State *thread, struct script_run *run,
                                                        const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->error, sizeof run->error, format, arguments);
    va_end(arguments);
    run->refused = true;
    lua_pushnil(thread);
    return lua_error(thread);
}

void call_push_reply(lua_State *state, const char *field, const char *text, size_t bytes) {
    lua_createtable(state, 0, 1);
    lua_pushlstring(state, text, bytes);
    lua_setfield(state, -2, field);
}

/* redis.error_reply("CODE what happened"): a text of one word is a sentence without a code. */
int call_error_reply(lua_State *thread) {
    if (lua_gettop(thread) != 1 || lua_type(thread, 1) != LUA_TSTRING) {
        const char wrong[] = "ERR wrong number or type of arguments";
        call_push_reply(thread, "err", wrong, sizeof wrong - 1);
        return 1;
    }
    size_t bytes;
    const char *text = lua_tolstring(thread, 1, &bytes);
    if (bytes > 0 && *text == '-') text++, bytes--;
    lua_createtable(thread, 0, 1);
    if (memchr(text, ' ', bytes) == NULL) {
        lua_pushliteral(thread, "ERR ");
        lua_pushlstring(thread, text, bytes);
        lua_concat(thread, 2);
    } else {
        lua_pushlstring(thread, text, bytes);
    }
    lua_setfield(thread, -2, "err");
    return 1;
}

int call_status_reply(lua_State *thread) {
    if (lua_gettop(thread) != 1 || lua_type(thread, 1) != LUA_TSTRING)
        return call_error_reply(thread);
    lua_createtable(thread, 0, 1);
    lua_pushvalue(thread, 1);
    lua_setfield(thread, -2, "ok");
    return 1;
}

static bool is_word(const struct bytes *word, const char *name) {
    return word->bytes == strlen(name) && strncasecmp(word->data, name, word->bytes) == 0;
}

/* As Redis reads integers: no blanks, no plus, no zeros in front. */
static bool read_integer(const struct bytes *word, int64_t *value) {
    const char *at = word->data;
    size_t left = word->bytes;
    const bool negative = left > 0 && *at == '-';
    if (negative) at++, left--;
    if (left == 0 || left > 19) return false;
    if (*at == '0' && (left > 1 || negative)) return false;
    uint64_t sum = 0;
    for (; left > 0; at++, left--) {
        if (*at < '0' || *at > '9') return false;
        sum = sum * 10 + (uint64_t)(*at - '0');
    }
    if (sum > (uint64_t)INT64_MAX + negative) return false;
    *value = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

/* Reads the arguments as bytes, numbers in the form that Redis uses. False: an argument is neither
 * a number nor a string. */
static bool read_words(lua_State *thread, struct words *words) {
    for (int i = 1; i <= words->count; i++) {
        if (lua_type(thread, i) == LUA_TNUMBER) {
            char text[32];
            const int bytes = snprintf(text, sizeof text, "%.17g", lua_tonumber(thread, i));
            lua_pushlstring(thread, text, (size_t)bytes);
            lua_replace(thread, i);
        }
        if (lua_type(thread, i) != LUA_TSTRING) return false;
        words->at[i - 1].data = lua_tolstring(thread, i, &words->at[i - 1].bytes);
    }
    return true;
}

static int ask(lua_State *thread, struct script_run *run, enum key_command command) {
    if (++run->calls > RUN_CALLS_MAX)
        return refuse(thread, run, "ERR the script makes more than %d calls", RUN_CALLS_MAX);
    run->call.command = command;
    run->must = run->must ||
                (run->seen >= SEEN_PRESENT && (command == KEY_DELETE || command == KEY_EXTEND));
    if (command == KEY_DELETE || command == KEY_EXTEND) {
        run->call.value = run->seen == SEEN_VALUE ? run->seen_value : (struct bytes){NULL, 0};
    }
    return lua_yield(thread, 0);
}

/* A command that scripts may call. */
struct command {
    const char *name;
    int least, most; /* words */
    int (*serve)(lua_State *thread, struct script_run *run, const struct words *words,
                 const struct command *command);
    enum key_command asks;
    enum answer_form form;
};

static int plain(lua_State *thread, struct script_run *run, const struct words *words,
                 const struct command *command) {
    if (words->count > 2)
        return refuse(thread, run, "ERR this gateway does not take %s with several keys",
                      command->name);
    return ask(thread, run, command->asks);
}

static int expire(lua_State *thread, struct script_run *run, const struct words *words,
                  const struct command *command) {
    const bool at = is_word(&words->at[0], "pexpireat") || is_word(&words->at[0], "expireat");
    const bool in_seconds = is_word(&words->at[0], "expire") || is_word(&words->at[0], "expireat");
    int64_t ttl;
    if (words->count > 3)
        return refuse(thread, run, "ERR this gateway takes %s without options", command->name);
    if (!read_integer(&words->at[2], &ttl))
        return fail(thread, run, "ERR value is not an integer or out of range");
    const int64_t limit = in_seconds ? TTL_MS_MAX / 1000 : TTL_MS_MAX;
    if (ttl > limit || (in_seconds && ttl < INT64_MIN / 1000)) {
        char text[64];
        snprintf(text, sizeof text, "ERR invalid expire time in '%s' command", command->name);
        return fail(thread, run, text);
    }
    /* A time in the past deletes the key. */
    if (ttl <= 0) return ask(thread, run, KEY_DELETE);
    run->call.ttl_ms = in_seconds ? ttl * 1000 : ttl;
    run->call.until = at;
    return ask(thread, run, command->asks);
}

static int range(lua_State *thread, struct script_run *run, const struct words *words,
                 const struct command *command) {
    if (!read_integer(&words->at[2], &run->range[0]) ||
        !read_integer(&words->at[3], &run->range[1]))
        return fail(thread, run, "ERR value is not an integer or out of range");
    return ask(thread, run, command->asks);
}

/* To a script, this is a Redis with one database. */
static int choose_database(lua_State *thread, struct script_run *run, const struct words *words,
                           const struct command *command) {
    int64_t number;
    (void)command;
    if (!read_integer(&words->at[1], &number))
        return fail(thread, run, "ERR value is not an integer or out of range");
    if (number != 0) return fail(thread, run, "ERR DB index is out of range");
    call_push_reply(thread, "ok", "OK", 2);
    return 1;
}

static int publish(lua_State *thread, struct script_run *run, const struct words *words,
                   const struct command *command) {
    run->call.channel = words->at[1];
    run->call.value = words->at[2];
    return ask(thread, run, command->asks);
}

struct set_options {
    bool nx, xx;
    const struct time_option *time; /* NULL: no time to live is given */
    struct bytes ttl;
    const char *foreign; /* an option of Redis that this gateway does not support */
};

static bool read_options(const struct words *words, struct set_options *options) {
    static const char *const foreign[] = {"GET", "KEEPTTL", "IFEQ", "IFNE", "IFDEQ", "IFDNE"};
    for (int i = 3; i < words->count; i++) {
        const struct bytes *word = &words->at[i];
        const struct time_option *time = time_option_find(*word);
        for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++) {
            if (is_word(word, foreign[k])) options->foreign = foreign[k];
        }
        if (options->foreign != NULL) return true;
        if (is_word(word, "nx")) {
            options->nx = true;
        } else if (is_word(word, "xx")) {
            options->xx = true;
        } else if (time != NULL && (options->time == NULL || options->time == time) &&
                   i + 1 < words->count) {
            options->time = time;
            options->ttl = words->at[++i];
        } else {
            return false;
        }
    }
    return !(options->nx && options->xx);
}

/* NX is how a lock is taken. Without it, a quorum can execute `set` in two cases. The script has
 * read that the key is absent: the key is taken, and no other client may have taken it meanwhile.
 * Or it has read that the key holds this very value: the key is extended. */
static int set(lua_State *thread, struct script_run *run, const struct words *words,
               const struct command *command) {
    struct set_options options = {0};
    int64_t ttl;
    (void)command;
    if (!read_options(words, &options)) return fail(thread, run, "ERR syntax error");
    if (options.foreign != NULL)
        return refuse(thread, run, "ERR this gateway does not take set with %s", options.foreign);
    if (options.time == NULL)
        return refuse(thread, run,
                      "ERR this gateway takes set with PX or EX only: a lock has an end");
    if (!read_integer(&options.ttl, &ttl))
        return fail(thread, run, "ERR value is not an integer or out of range");
    if (ttl <= 0 || ttl > TTL_MS_MAX / options.time->unit_ms) {
        return fail(thread, run, "ERR invalid expire time in 'set' command");
    }
    run->call.value = words->at[2];
    run->call.ttl_ms = ttl * options.time->unit_ms;
    run->call.until = options.time->until;
    if (options.nx) return ask(thread, run, KEY_TAKE);
    run->must = true;
    if (run->seen == SEEN_VALUE && bytes_equal(run->seen_value, run->call.value))
        return ask(thread, run, KEY_EXTEND);
    if (run->seen == SEEN_ABSENT && options.xx) {
        lua_pushboolean(thread, 0);
        return 1;
    }
    if (run->seen == SEEN_ABSENT) return ask(thread, run, KEY_TAKE);
    return refuse(
        thread, run,
        "ERR this gateway takes set without NX only after the script has seen that the key is "
        "absent, or that it holds the same value: a lock is not overwritten");
}

static bool names_key(const struct command *command) {
    return command->serve != choose_database && command->serve != publish;
}

int call_redis(lua_State *thread) {
    static const struct command commands[] = {
        {"get", 2, 2, plain, KEY_GET, FORM_AS_IT_IS},
        {"exists", 2, WORDS_MAX, plain, KEY_EXISTS, FORM_AS_IT_IS},
        {"pttl", 2, 2, plain, KEY_PTTL, FORM_AS_IT_IS},
        {"ttl", 2, 2, plain, KEY_PTTL, FORM_SECONDS},
        {"del", 2, WORDS_MAX, plain, KEY_DELETE, FORM_AS_IT_IS},
        {"unlink", 2, WORDS_MAX, plain, KEY_DELETE, FORM_AS_IT_IS},
        {"expire", 3, WORDS_MAX, expire, KEY_EXTEND, FORM_AS_IT_IS},
        {"pexpire", 3, WORDS_MAX, expire, KEY_EXTEND, FORM_AS_IT_IS},
        {"expireat", 3, WORDS_MAX, expire, KEY_EXTEND, FORM_AS_IT_IS},
        {"pexpireat", 3, WORDS_MAX, expire, KEY_EXTEND, FORM_AS_IT_IS},
        {"getrange", 4, 4, range, KEY_GET, FORM_RANGE},
        {"set", 3, WORDS_MAX, set, KEY_TAKE, FORM_STATUS},
        {"select", 2, 2, choose_database, KEY_GET, FORM_AS_IT_IS},
        {"publish", 3, 3, publish, KEY_PUBLISH, FORM_AS_IT_IS}};
    struct script_run *run = lua_touserdata(thread, lua_upvalueindex(1));
    struct words words = {.count = lua_gettop(thread)};
    run->is_pcall = lua_toboolean(thread, lua_upvalueindex(2));
    run->call = (struct key_call){.command = KEY_GET};
    run->must = false;
    if (words.count == 0)
        return fail(thread, run,
                    "ERR Please specify at least one argument for this redis lib call");
    if (words.count > WORDS_MAX)
        return refuse(thread, run, "ERR the script calls with more than %d arguments", WORDS_MAX);
    if (!read_words(thread, &words))
        return fail(thread, run, "ERR Lua redis lib command arguments must be strings or integers");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct command *command = &commands[i];
        if (!is_word(&words.at[0], command->name)) continue;
        if (words.count < command->least || words.count > command->most)
            return fail(thread, run, "ERR Wrong number of args calling Redis command from script");
        run->form = command->form;
        if (!names_key(command) || bytes_equal(words.at[1], run->key))
            return command->serve(thread, run, &words, command);
        return refuse(thread, run,
                      "ERR the script calls %s on another key than the one it was given",
                      command->name);
    }
    return refuse(thread, run, "ERR the script calls a command that this gateway does not take");
}

static bool learn_change(struct script_run *run, bool done) {
    run->changed = run->changed || done;
    return done || !run->must;
}

bool call_learn(struct script_run *run, const struct answer *answer) {
    const bool none = answer->kind == ANSWER_NIL;
    const int64_t number = answer->kind == ANSWER_INTEGER ? answer->integer : 0;
    const enum seen present = run->seen == SEEN_VALUE ? SEEN_VALUE : SEEN_PRESENT;
    switch (run->call.command) {
    case KEY_GET: run->seen = none ? SEEN_ABSENT : SEEN_VALUE; return true;
    case KEY_EXISTS: run->seen = number == 0 ? SEEN_ABSENT : present; return true;
    case KEY_PTTL: run->seen = number == -2 ? SEEN_ABSENT : present; return true;
    case KEY_PUBLISH: return true;
    case KEY_DELETE: run->seen = SEEN_ABSENT; return learn_change(run, number != 0);
    case KEY_EXTEND:
        run->seen = number == 0 ? SEEN_ABSENT : present;
        if (run->call.until) run->seen = SEEN_NOTHING; /* the time may have passed: a deletion */
        return learn_change(run, number != 0);
    case KEY_TAKE:
        run->seen = none ? SEEN_PRESENT : SEEN_VALUE;
        if (!none) run->seen_value = run->call.value;
        return learn_change(run, !none);
    }
    return true;
}
