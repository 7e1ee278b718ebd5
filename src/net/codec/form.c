/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/codec/form.h"

#include <assert.h>
#include <pthread.h>

/* Initialisers in a row, without braces: four forms for stock nodes, four for native ones. */
#define ANY(form) form, form, form, form
#define BY_MODE(classic, guarded) classic, classic, guarded, guarded
#define FOUR(one, several, guarded_one, guarded_several) one, several, guarded_one, guarded_several
#define NATIVE(form) form, form, form, form
#define NATIVE_BY_MODE(classic, guarded) classic, guarded, classic, guarded
#define NATIVE_FOUR(classic, guarded, one_classic, one_guarded)                                    \
    classic, guarded, one_classic, one_guarded
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

static struct piece pieces[NET_OPS_COUNT * FORM_VARIANTS][FORM_PIECES_MAX];

/* The '|' is there for the reader of the table. */
static void cut(const char *at, struct piece *piece) {
    const struct piece *last = piece + FORM_PIECES_MAX - 1;
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
}

static void cut_all(void) {
    for (unsigned op = 0; op < NET_OPS_COUNT; op++)
        for (unsigned i = 0; i < FORM_VARIANTS; i++)
            if (forms[op][i].text) cut(forms[op][i].text, pieces[op * FORM_VARIANTS + i]);
}

const struct piece *form_pieces(const struct form *form) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, cut_all);
    return pieces[form - &forms[0][0]];
}
