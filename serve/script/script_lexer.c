/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_lexer.h"

#include <string.h>

void lexer_start(struct lexer *lexer, const char *text, size_t bytes) {
    *lexer = (struct lexer){.at = text, .end = text + bytes, .line = 1};
}

/* Beyond the end there are NULs, which are part of no token. */
static char look(const struct lexer *lexer, size_t ahead) {
    return (size_t)(lexer->end - lexer->at) > ahead ? lexer->at[ahead] : '\0';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

static void add(struct token *token, char c) {
    if (token->bytes < TOKEN_TEXT_MAX) token->text[token->bytes] = c;
    token->bytes++;
}

/* One byte on; CR LF and LF CR are one line end, as Lua has it. */
static char take(struct lexer *lexer) {
    const char c = look(lexer, 0);
    if (lexer->at == lexer->end) return c;
    lexer->at++;
    if (!is_line_end(c)) return c;
    const char next = look(lexer, 0);
    if (is_line_end(next) && next != c) lexer->at++;
    lexer->line++;
    return '\n';
}

/* The `=`s between two brackets of a long string or comment that opens here; -1: none opens. */
static int long_level(const struct lexer *lexer, char bracket) {
    if (look(lexer, 0) != bracket) return -1;
    int level = 0;
    while (look(lexer, (size_t)level + 1) == '=') level++;
    return look(lexer, (size_t)level + 1) == bracket ? level : -1;
}

static void take_long(struct lexer *lexer, int level, struct token *token) {
    lexer->at += level + 2;
    /* A line end right after the bracket does not count. */
    if (is_line_end(look(lexer, 0))) take(lexer);
    while (lexer->at < lexer->end) {
        if (long_level(lexer, ']') == level) {
            lexer->at += level + 2;
            return;
        }
        add(token, take(lexer));
    }
}

static void take_escape(struct lexer *lexer, struct token *token) {
    static const char letters[] = "abfnrtv", bytes[] = "\a\b\f\n\r\t\v";
    const char c = look(lexer, 0);
    if (is_digit(c)) {
        unsigned value = 0;
        for (int i = 0; i < 3 && is_digit(look(lexer, 0)); i++)
            value = value * 10 + (unsigned)(take(lexer) - '0');
        add(token, (char)(unsigned char)value);
        return;
    }
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    take(lexer);
    add(token, letter != NULL ? bytes[letter - letters] : is_line_end(c) ? '\n' : c);
}

static void take_quoted(struct lexer *lexer, struct token *token) {
    const char quote = take(lexer);
    while (lexer->at < lexer->end) {
        const char c = take(lexer);
        if (c == quote) return;
        if (c == '\\') {
            take_escape(lexer, token);
        } else {
            add(token, c);
        }
    }
}

static void skip_blank(struct lexer *lexer) {
    while (lexer->at < lexer->end) {
        const char c = look(lexer, 0);
        if (c == '-' && look(lexer, 1) == '-') {
            lexer->at += 2;
            const int level = long_level(lexer, '[');
            struct token ignored = {0};
            if (level >= 0) take_long(lexer, level, &ignored);
            while (level < 0 && lexer->at < lexer->end && !is_line_end(*lexer->at)) lexer->at++;
        } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
            take(lexer);
        } else {
            return;
        }
    }
}

/* As Lua does: digits and points, an exponent's sign, then anything that looks like a word. */
static void take_number(struct lexer *lexer, struct token *token) {
    while (is_digit(look(lexer, 0)) || look(lexer, 0) == '.') add(token, take(lexer));
    const char c = look(lexer, 0);
    if (c == 'e' || c == 'E') {
        add(token, take(lexer));
        if (look(lexer, 0) == '+' || look(lexer, 0) == '-') add(token, take(lexer));
    }
    while (is_word(look(lexer, 0))) add(token, take(lexer));
}

static void take_symbol(struct lexer *lexer, struct token *token) {
    static const char *const longer[] = {"...", "..", "==", "~=", "<=", ">="};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++) {
        const size_t bytes = strlen(longer[i]);
        if ((size_t)(lexer->end - lexer->at) < bytes || memcmp(lexer->at, longer[i], bytes) != 0)
            continue;
        for (size_t k = 0; k < bytes; k++) add(token, take(lexer));
        return;
    }
    add(token, take(lexer));
}

struct token lexer_next(struct lexer *lexer) {
    skip_blank(lexer);
    struct token token = {.kind = TOKEN_END, .line = lexer->line};
    if (lexer->at == lexer->end) return token;
    const char c = look(lexer, 0);
    const int level = long_level(lexer, '[');
    if (level >= 0) {
        token.kind = TOKEN_STRING;
        take_long(lexer, level, &token);
    } else if (c == '"' || c == '\'') {
        token.kind = TOKEN_STRING;
        take_quoted(lexer, &token);
    } else if (is_digit(c) || (c == '.' && is_digit(look(lexer, 1)))) {
        token.kind = TOKEN_NUMBER;
        take_number(lexer, &token);
    } else if (is_word(c)) {
        token.kind = TOKEN_NAME;
        while (is_word(look(lexer, 0))) add(&token, take(lexer));
    } else {
        token.kind = TOKEN_SYMBOL;
        take_symbol(lexer, &token);
    }
    token.text[token.bytes < TOKEN_TEXT_MAX ? token.bytes : TOKEN_TEXT_MAX] = '\0';
    return token;
}

struct token lexer_peek(const struct lexer *lexer) {
    struct lexer ahead = *lexer;
    return lexer_next(&ahead);
}

/* A cut text is longer than any text that callers compare with. */
static bool says(const struct token *token, enum token_kind kind, const char *text) {
    return token->kind == kind && token->bytes == strlen(text) &&
           memcmp(token->text, text, token->bytes) == 0;
}

bool token_is(const struct token *token, const char *symbol) {
    return says(token, TOKEN_SYMBOL, symbol);
}
bool token_is_name(const struct token *token, const char *name) {
    return says(token, TOKEN_NAME, name);
}
