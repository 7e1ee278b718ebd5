/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The calls of a script, as far as its text shows them. Every use of `redis` must be a call whose
 * command is a literal, and one that a quorum can answer. The run judges what the text does not
 * show (a value, a key from a variable), and it allows no other command either. A text that
 * deceives this reader therefore gains nothing. This check refuses a script that cannot be served
 * before it has done half of its work.
 */
#include "script_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "script_lexer.h"

/* The list leaves out every function that reaches beyond the run, hides a call from this reader, or
 * can work for long without counted Lua instructions: string.rep of an empty string, patterns,
 * table.sort. */
const char *const script_base_names[] = {"assert", "error",  "ipairs",   "next",
                                         "pairs",  "select", "tonumber", "tostring",
                                         "type",   "unpack", NULL};
const char *const script_string_names[] = {"byte",    "char", "format", "len", "lower",
                                           "reverse", "sub",  "upper",  NULL};
const char *const script_table_names[] = {"concat", "getn", "insert", "remove", NULL};
const char *const script_math_names[] = {"abs", "ceil", "floor", "fmod", "huge", "max",
                                         "min", "modf", "pow",   "sqrt", NULL};

static const char *const commands[] = {"get",       "getrange", "exists", "pttl",    "ttl",
                                       "del",       "unlink",   "set",    "pexpire", "expire",
                                       "pexpireat", "expireat", "select", "publish", NULL};
#define TAKEN                                                                                                       \
    "it takes get, getrange, exists, pttl, ttl, del, unlink, pexpire, expire, pexpireat, expireat and set with NX " \
    "and PX or EX, on one key; publish; and select 0"

/* Redis has these and this gateway does not. A name that neither has is an error at run time, with
 * the same text. */
static const char *const absent_names[] = {
    "_G",        "_VERSION", "bit",      "cjson",        "cmsgpack", "collectgarbage",
    "coroutine", "debug",    "dofile",   "gcinfo",       "getfenv",  "getmetatable",
    "io",        "load",     "loadfile", "loadstring",   "module",   "newproxy",
    "os",        "package",  "pcall",    "print",        "rawequal", "rawget",
    "rawset",    "require",  "setfenv",  "setmetatable", "struct",   "xpcall",
    NULL};
static const char *const absent_functions[] = {
    "dump",   "find",       "gfind", "gmatch",  "gsub",     "match", "rep",
    "random", "randomseed", "sort",  "foreach", "foreachi", "maxn",  NULL};

#define ALIASES_MAX 8

struct reader {
    struct lexer lexer;
    struct script_uses *uses;
    char aliases[ALIASES_MAX][TOKEN_TEXT_MAX + 1];
    size_t alias_count;
    char *error;
    size_t error_size;
};

static bool listed(const char *const *names, const struct token *token) {
    for (; *names != NULL; names++) {
        if (token->bytes == strlen(*names) && strcmp(token->text, *names) == 0) return true;
    }
    return false;
}

__attribute__((format(printf, 3, 4))) static bool refuse(struct reader *reader, unsigned line,
                                                         const char *format, ...) {
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(reader->error, reader->error_size,
             "this gateway does not run the script: line %u %s; " TAKEN, line, what);
    return false;
}

/* Foreign bytes in our sentence: an error is one line of text. */
static const char *shown(const struct token *token, char *text, size_t size) {
    size_t i = 0;
    for (; i + 1 < size && i < token->bytes && i < TOKEN_TEXT_MAX; i++) {
        const char c = token->text[i];
        text[i] = c < ' ' || c > '~' ? '?' : c;
    }
    text[i] = '\0';
    return text;
}

/* Reads the arguments of a call, after its name and comma, and counts them by their commas: 0 if
 * the last one may stand for any number of values. */
static unsigned count_arguments(struct lexer ahead) {
    unsigned count = 1, depth = 0;
    struct token token, last = {.kind = TOKEN_END, .line = 0};
    while ((token = lexer_next(&ahead)).kind != TOKEN_END) {
        if (depth == 0 && token_is(&token, ")")) break;
        if (token_is(&token, "(") || token_is(&token, "{") || token_is(&token, "[")) depth++;
        if (token_is(&token, ")") || token_is(&token, "}") || token_is(&token, "]")) depth--;
        if (depth == 0 && token_is(&token, ",")) count++;
        last = token;
    }
    return token_is(&last, ")") || token_is(&last, "...") ? 0 : count;
}

/* Reads the rest after the name of a command in redis.call( ... ). */
static bool judge_arguments(struct reader *reader, const struct token *name) {
    char text[TOKEN_TEXT_MAX + 1];
    struct lexer ahead = reader->lexer;
    struct token token = lexer_next(&ahead);
    if (!token_is(&token, ",")) return true;
    if (strcasecmp(name->text, "select") == 0 || strcasecmp(name->text, "publish") == 0)
        return true;
    const bool is_set = strcasecmp(name->text, "set") == 0;
    const unsigned count = is_set ? count_arguments(ahead) : 0;
    token = lexer_next(&ahead);
    const struct token after = lexer_peek(&ahead);
    if (token.kind == TOKEN_STRING && (token_is(&after, ",") || token_is(&after, ")"))) {
        return refuse(reader, token.line, "names the key '%s', where it must be one of KEYS",
                      shown(&token, text, sizeof text));
    }
    if (count != 0 && count < 4)
        return refuse(reader, name->line, "calls set without PX or EX: a lock has an end");
    return true;
}

/* The reader is past redis.call, redis.pcall or an alias. */
static bool judge_call(struct reader *reader, const char *called, unsigned line) {
    char text[TOKEN_TEXT_MAX + 1];
    struct token token = lexer_next(&reader->lexer);
    const bool opened = token_is(&token, "(");
    if (opened) token = lexer_next(&reader->lexer);
    if (opened && token_is(&token, ")")) return true; /* an error at run time, in Redis's words */
    if (!opened && token.kind != TOKEN_STRING) {
        return refuse(reader, line,
                      "uses %s other than by calling it with a command that is written out",
                      called);
    }
    const struct token after = lexer_peek(&reader->lexer);
    if (token.kind != TOKEN_STRING ||
        (opened && !token_is(&after, ",") && !token_is(&after, ")"))) {
        return refuse(reader, token.line,
                      "calls a command that is computed, not written out: '%s' ...",
                      shown(&token, text, sizeof text));
    }
    const char *const *known = commands;
    while (*known != NULL &&
           !(token.bytes == strlen(*known) && strcasecmp(token.text, *known) == 0))
        known++;
    if (*known == NULL)
        return refuse(reader, token.line, "calls '%s'", shown(&token, text, sizeof text));
    return opened ? judge_arguments(reader, &token) : true;
}

/* The reader is past `redis`. */
static bool judge_redis(struct reader *reader, unsigned line) {
    char text[TOKEN_TEXT_MAX + 1];
    struct token token = lexer_next(&reader->lexer);
    const bool bracket = token_is(&token, "[");
    if (!bracket && !token_is(&token, ".")) {
        return refuse(reader, line, "uses redis other than by redis.call and redis.pcall");
    }
    token = lexer_next(&reader->lexer);
    const struct token member = token;
    if (bracket) {
        const struct token close = lexer_next(&reader->lexer);
        if (token.kind != TOKEN_STRING || !token_is(&close, "]")) {
            return refuse(reader, line, "uses redis[...] with a name that is not written out");
        }
    }
    if (strcmp(member.text, "call") == 0) return judge_call(reader, "redis.call", line);
    if (strcmp(member.text, "pcall") == 0) return judge_call(reader, "redis.pcall", line);
    token = lexer_peek(&reader->lexer);
    const bool reply =
        strcmp(member.text, "error_reply") == 0 || strcmp(member.text, "status_reply") == 0;
    if (reply && !token_is(&token, "=")) return true;
    return refuse(reader, line, "uses redis.%s", shown(&member, text, sizeof text));
}

/* The reader is past `return`: a table can be an answer here, a table in a table cannot. */
static bool judge_return(struct reader *reader, unsigned line) {
    struct lexer ahead = reader->lexer;
    struct token token = lexer_next(&ahead);
    if (!token_is(&token, "{")) return true;
    while ((token = lexer_next(&ahead)).kind != TOKEN_END && !token_is(&token, "}")) {
        if (token_is(&token, "{"))
            return refuse(reader, line, "returns a table in a table, which is not an answer here");
    }
    return true;
}

/* Reads `local NAME = redis.call` or redis.pcall, followed by nothing that changes its meaning. The
 * name is remembered, and every use of it is judged as a call. Otherwise leaves the reader where it
 * is. */
static bool take_alias(struct reader *reader) {
    struct lexer ahead = reader->lexer;
    const struct token name = lexer_next(&ahead);
    struct token token = lexer_next(&ahead);
    if (name.kind != TOKEN_NAME || name.bytes > TOKEN_TEXT_MAX || !token_is(&token, "="))
        return false;
    token = lexer_next(&ahead);
    if (!token_is_name(&token, "redis")) return false;
    token = lexer_next(&ahead);
    if (!token_is(&token, ".")) return false;
    const struct token member = lexer_next(&ahead);
    if (!token_is_name(&member, "call") && !token_is_name(&member, "pcall")) return false;
    token = lexer_peek(&ahead);
    if (token.kind == TOKEN_STRING || (token.kind == TOKEN_SYMBOL && !token_is(&token, ";")))
        return false;
    if (token_is_name(&token, "and") || token_is_name(&token, "or")) return false;
    if (reader->alias_count == ALIASES_MAX) return false;
    memcpy(reader->aliases[reader->alias_count++], name.text, sizeof name.text);
    reader->lexer = ahead;
    return true;
}

static bool judge_name(struct reader *reader, const struct token *token, bool is_field) {
    struct script_uses *uses = reader->uses;
    if (is_field) {
        uses->string = uses->string || listed(script_string_names, token);
        if (!listed(absent_functions, token)) return true;
        return refuse(reader, token->line, "uses the function %s, which does not exist",
                      token->text);
    }
    if (strcmp(token->text, "redis") == 0) return judge_redis(reader, token->line);
    if (strcmp(token->text, "return") == 0) return judge_return(reader, token->line);
    for (size_t i = 0; i < reader->alias_count; i++) {
        const char *alias = reader->aliases[i];
        if (token_is_name(token, alias)) return judge_call(reader, alias, token->line);
    }
    if (listed(absent_names, token))
        return refuse(reader, token->line, "uses %s, which does not exist", token->text);
    uses->base = uses->base || listed(script_base_names, token);
    uses->string = uses->string || strcmp(token->text, "string") == 0;
    uses->table = uses->table || strcmp(token->text, "table") == 0;
    uses->math = uses->math || strcmp(token->text, "math") == 0;
    return true;
}

/* An alias is known from its declaration on, as in Lua. */
bool script_text_judge(const char *text, size_t bytes, struct script_uses *uses, char *error,
                       size_t error_size) {
    struct reader reader = {.uses = uses, .error = error, .error_size = error_size};
    bool after_dot = false;
    *uses = (struct script_uses){0};
    lexer_start(&reader.lexer, text, bytes);
    while (true) {
        const struct token token = lexer_next(&reader.lexer);
        if (token.kind == TOKEN_END) return true;
        if (token_is_name(&token, "local") && take_alias(&reader)) continue;
        if (token.kind == TOKEN_NAME && !judge_name(&reader, &token, after_dot)) return false;
        /* Of `a.b` and `a:b`. The text of a call that a judge above has read ends in neither. */
        after_dot = token_is(&token, ".") || token_is(&token, ":");
    }
}
