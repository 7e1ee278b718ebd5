/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/codec/form.h"

#include <assert.h>
#include <pthread.h>

/* Initialisers in a row, without braces: four forms for stock nodes, four for native ones,
 * and perhaps two with a command that stands for a script. */
#define ANY(form) form, form, form, form
#define BY_MODE(classic, guarded) classic, classic, guarded, guarded
#define FOUR(one, several, guarded_one, guarded_several) one, several, guarded_one, guarded_several
#define NATIVE(form) form, form, form, form
#define NATIVE_BY_MODE(classic, guarded) classic, guarded, classic, guarded
#define NATIVE_FOUR(classic, guarded, one_classic, one_guarded)                                    \
    classic, guarded, one_classic, one_guarded
#define OR_ONE_COMMAND(delex, delifeq) , delex, delifeq
#define AS_STOCK                                                                                   \
    {.replies = 0}, {.replies = 0}, {.replies = 0}, { .replies = 0 }

#define WRITTEN(words, number, repeated, first, second)                                            \
    {                                                                                              \
        .text = (words), .script = NODE_SCRIPTS_ALL, .replies = (number), .each = (repeated),      \
        .shape = {                                                                                 \
            SHAPE_##first,                                                                         \
            SHAPE_##second                                                                         \
        }                                                                                          \
    }
#define RUN(name, more, words, meaning, first)                                                     \
    {                                                                                              \
        .text = (words), .verdicts = (meaning), .script = NODE_##name, .more_keys = (more),        \
        .replies = 1, .shape = {                                                                   \
            SHAPE_##first,                                                                         \
            SHAPE_##first                                                                          \
        }                                                                                          \
    }
#define COMMANDS(replies, text, first, second) WRITTEN(text, replies, false, first, second)
#define EACH(replies, text, first, second) WRITTEN(text, replies, true, first, second)
#define OWN(first) WRITTEN(NULL, 1, false, first, first)
#define SCRIPT(name, more, text, verdicts) RUN(name, more, text, verdicts, VERDICTS)
#define SCRIPT_ANSWERS(name, more, text, first) RUN(name, more, text, NULL, first)
#define OWN_SCRIPT(name, verdicts) RUN(name, 0, NULL, verdicts, VERDICTS)
#define COMMAND(text, verdicts) RUN(SCRIPTS_ALL, 0, text, verdicts, VERDICTS)
#define OWN_COMMAND(verdicts) COMMAND(NULL, verdicts)

#define ROW(name, subject, flags, forms, native)                                                   \
    [NET_##name] = {forms, native}, /* NOLINT(bugprone-macro-parentheses) */

const struct form forms[NET_OPS_COUNT][FORM_VARIANTS] = {NET_OPS(ROW)};

/* Of all texts, one after the other: each page that a program touches costs its start. */
static struct piece pieces[PIECES_MAX];
static uint16_t first_piece[NET_OPS_COUNT * FORM_VARIANTS];

/* The '|' is there for the reader of the table. Returns where the next text's pieces go. */
static struct piece *cut(const char *at, struct piece *piece) {
    const struct piece *last = pieces + PIECES_MAX - 1;
    (void)last; /* asserted */
    for (; *at != '\0'; at += *at == ' ') {
        const char *word = at;
        assert(piece < last);
        if (*at == ';') {
            at++;
            *piece++ = (struct piece){.what = PIECE_NEXT_COMMAND};
            continue;
        }
        while ((unsigned char)*at > ' ' && *at != ';') at++;
        if (*word == '%')
            *piece++ = (struct piece){.what = word[1]};
        else if (*word != '|')
            *piece++ = (struct piece){word, (uint8_t)(at - word), PIECE_WORD};
    }
    piece->what = PIECE_END;
    return piece + 1;
}

static void cut_all(void) {
    const char *before = NULL; /* of an operation's forms, most have the text of the one before */
    const struct form *form = &forms[0][0];
    struct piece *next = pieces, *latest = pieces;
    for (unsigned i = 0; i < NET_OPS_COUNT * FORM_VARIANTS; i++) {
        const char *text = form[i].text;
        if (!text) continue;
        if (text != before) next = cut(text, latest = next);
        before = text;
        first_piece[i] = (uint16_t)(latest - pieces);
    }
}

const struct piece *form_pieces(const struct form *form) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, cut_all);
    return pieces + first_piece[form - &forms[0][0]];
}
