/* SPDX-License-Identifier: BSD-2-Clause */
#include "known.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "script_lexer.h"

/* As for the interpreter's runs: if another client changes the key meanwhile, the run restarts. */
enum { TRIES_MAX = 4, TEXT_BYTES_MAX = 1024, TTL_DIGITS_MAX = 13 };

/* ---- the text ---- */

/* For other texts it is not certain that Lua reads them as our lexer does. */
static bool is_plain(struct bytes text) {
    if (text.bytes > TEXT_BYTES_MAX) return false;
    for (size_t i = 0; i < text.bytes; i++) {
        const char c = text.data[i], next = i + 1 < text.bytes ? text.data[i + 1] : ' ';
        if (c != '\t' && c != '\n' && (c < ' ' || c > '~')) return false;
        if (c == '\\' || (c == '[' && (next == '[' || next == '='))) return false;
    }
    return true;
}

/* Behind a name and a bracket there are only the names of commands in upper or lower case, here. */
static bool same_token(const struct token *one, const struct token *other, bool any_case) {
    if (one->kind != other->kind || one->bytes != other->bytes || one->bytes > TOKEN_TEXT_MAX)
        return false;
    return any_case ? strcasecmp(one->text, other->text) == 0
                    : memcmp(one->text, other->text, one->bytes) == 0;
}

/* Lua does not accept a bracket on the next line as a call. */
static bool matches(struct bytes text, const struct known_program *program,
                    unsigned lines[KNOWN_CALLS_MAX]) {
    struct lexer here, there;
    struct token last = {.kind = TOKEN_END}, callee = last, token, known;
    unsigned calls = 0;
    lexer_start(&here, text.data, text.bytes);
    lexer_start(&there, program->text, strlen(program->text));
    do {
        token = lexer_next(&here);
        known = lexer_next(&there);
        const bool opens = token_is(&token, "(");
        const bool commands = token_is(&last, "(") &&
                              (token_is_name(&callee, "call") || token_is_name(&callee, "pcall"));
        if (!same_token(&token, &known, commands) || (opens && token.line != last.line))
            return false;
        if (commands && calls == KNOWN_CALLS_MAX) return false;
        if (commands) lines[calls++] = last.line;
        if (opens) callee = last;
        last = token;
    } while (token.kind != TOKEN_END);
    return true;
}

struct known known_find(struct bytes text) {
    struct known known = {.program = NULL};
    if (!is_plain(text)) return known;
    const struct known_program *program;
    for (size_t i = 0; known.program == NULL && (program = known_program_at(i)) != NULL; i++) {
        if (matches(text, program, known.lines)) known.program = program;
    }
    return known;
}

/* ---- a run ---- */

/* A number in its plain form: no leading zero, no sign, and far below the limits of a server. */
static bool read_ttl(struct bytes word, int64_t *ttl_ms) {
    *ttl_ms = 0;
    if (word.bytes == 0 || word.bytes > TTL_DIGITS_MAX || word.data[0] == '0') return false;
    for (size_t i = 0; i < word.bytes; i++) {
        if (word.data[i] < '0' || word.data[i] > '9') return false;
        *ttl_ms = *ttl_ms * 10 + (word.data[i] - '0');
    }
    return true;
}

bool known_begin(struct known_run *run, const struct known *known, const char *sha,
                 const struct bytes *arguments, size_t count) {
    run->known = *known;
    run->sha = sha;
    run->ttl_ms = 0;
    if (known->program == NULL || count < (known->program->has_ttl ? 2 : 1)) return false;
    run->value = arguments[0];
    run->adds = count > 2 && arguments[2].bytes == 1 && arguments[2].data[0] == '0';
    return !known->program->has_ttl || read_ttl(arguments[1], &run->ttl_ms);
}

static enum program_step ask(struct known_run *run, enum key_command command,
                             struct key_call *call) {
    const bool takes = command == KEY_TAKE;
    run->call = (struct key_call){.command = command};
    if (takes) run->call.value = run->value;
    if (takes || command == KEY_EXTEND) run->call.ttl_ms = run->ttl_ms;
    *call = run->call;
    return PROGRAM_CALLS;
}

static enum program_step begin(struct known_run *run, struct key_call *call) {
    run->begun++;
    run->step = 0;
    return ask(run, run->known.program->first, call);
}

/* In Redis's form: the error, the script, and the line. */
static enum program_step fail_in_call(struct known_run *run, unsigned number,
                                      const struct answer *answer, struct answer *result) {
    const size_t most = 1024; /* as of the interpreter's runs */
    snprintf(run->error, sizeof run->error, "%.*s script: %s, on @user_script:%u.",
             (int)(answer->bytes.bytes < most ? answer->bytes.bytes : most), answer->bytes.data,
             run->sha, run->known.lines[number]);
    for (char *at = run->error; *at != '\0'; at++) { /* an error is one line */
        if (*at == '\r' || *at == '\n') *at = ' ';
    }
    *result = answer_error(run->error);
    return PROGRAM_ENDS;
}

/* `answer` is that to the branch's call, where it has one. */
static enum program_step finish(const struct known_branch *branch, const struct answer *answer,
                                struct answer *result) {
    switch (branch->outcome) {
    case KNOWN_ANSWER: *result = *answer; break;
    case KNOWN_NUMBER: *result = answer_integer(branch->number); break;
    case KNOWN_FLAG: *result = answer_integer(answer->kind != ANSWER_NIL); break;
    case KNOWN_POSITIVE: *result = answer_integer(answer->integer > 0 ? answer->integer : 0); break;
    case KNOWN_OK: *result = (struct answer){.kind = ANSWER_STATUS, .bytes = {"OK", 2}}; break;
    case KNOWN_ERROR: *result = answer_error("ERR ERROR"); break;
    }
    return PROGRAM_ENDS;
}

/* The script has read its key. */
static enum program_step choose(struct known_run *run, const struct answer *answer,
                                struct key_call *call, struct answer *result) {
    const struct known_program *program = run->known.program;
    const bool asks = program->first == KEY_EXISTS;
    const bool absent = asks ? answer->integer == 0 : answer->kind == ANSWER_NIL;
    const bool same = asks || bytes_equal(answer->bytes, run->value);
    run->branch = absent ? &program->absent : same ? &program->same : &program->other;
    run->step = 1;
    switch (run->branch->act) {
    case KNOWN_NOTHING: break;
    case KNOWN_DELETE: return ask(run, KEY_DELETE, call);
    case KNOWN_EXTEND: return ask(run, KEY_EXTEND, call);
    case KNOWN_TAKE:
    case KNOWN_TRY: return ask(run, KEY_TAKE, call);
    case KNOWN_PTTL:
    case KNOWN_TTL:
    case KNOWN_EXTEND_LEFT: return ask(run, KEY_PTTL, call);
    }
    return finish(run->branch, NULL, result);
}

enum program_step known_step(struct known_run *run, const struct answer *answer,
                             struct key_call *call, struct answer *result) {
    if (answer == NULL) {
        run->begun = 0;
        run->changed = false;
        return begin(run, call);
    }
    const bool is_error = answer->kind == ANSWER_ERROR;
    if (run->step == 0)
        return is_error ? fail_in_call(run, 0, answer, result) : choose(run, answer, call, result);
    const struct known_branch *branch = run->branch;
    if (is_error && branch->quiet) return finish(branch, answer, result);
    if (is_error) return fail_in_call(run, branch->call + run->step - 1, answer, result);
    if (branch->act == KNOWN_EXTEND_LEFT && run->step == 1) {
        /* redis-py: the time that is left is added, or only read. */
        if (answer->integer < 0) {
            *result = answer_integer(0);
            return PROGRAM_ENDS;
        }
        run->step = 2;
        ask(run, KEY_EXTEND, call);
        if (run->adds) run->call.ttl_ms += answer->integer;
        *call = run->call;
        return PROGRAM_CALLS;
    }
    const bool done = answer->kind == ANSWER_STATUS || answer->integer != 0;
    const bool changes = run->call.command >= KEY_DELETE;
    if (changes && branch->act != KNOWN_TRY && !done) {
        /* The script relies on what it has read from the key, which another client has changed
         * meanwhile. */
        if (!run->changed && run->begun < TRIES_MAX) return begin(run, call);
        *result = answer_error("ERR the key was changed by another client while the script ran");
        return PROGRAM_ENDS;
    }
    run->changed = run->changed || (changes && done);
    if (branch->act != KNOWN_TTL || answer->integer < 0) return finish(branch, answer, result);
    const struct answer seconds = answer_integer((answer->integer + 500) / 1000);
    return finish(branch, &seconds, result);
}
