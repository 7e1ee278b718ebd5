/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Splits a Lua 5.1 text into tokens. Comments, white space, the kind of quotes and the escapes in
 * them make no difference. It is meant for a text that Lua has compiled. On any other text it ends,
 * and does not report where the text is wrong.
 */
#ifndef SERVE_SCRIPT_LEXER_H
#define SERVE_SCRIPT_LEXER_H

#include <stdbool.h>
#include <stddef.h>

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_STRING, TOKEN_NUMBER, TOKEN_SYMBOL };

#define TOKEN_TEXT_MAX 32

struct token {
    enum token_kind kind;
    unsigned line;
    /* The text of a name, a string or a symbol; cut when it is longer than any that matters here.
     */
    char text[TOKEN_TEXT_MAX + 1];
    size_t bytes; /* before the cut */
};

/* A value type: a copy marks a position to return to. */
struct lexer {
    const char *at;
    const char *end;
    unsigned line;
};

void lexer_start(struct lexer *lexer, const char *text, size_t bytes);
struct token lexer_next(struct lexer *lexer);
struct token lexer_peek(const struct lexer *lexer);

bool token_is(const struct token *token, const char *symbol);
bool token_is_name(const struct token *token, const char *name);
#endif
