/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/form.h"

#define ANY(form)                                                                                  \
    { form, form, form, form }
#define BY_MODE(classic, guarded)                                                                  \
    { classic, classic, guarded, guarded }
#define FOUR(one, several, guarded_one, guarded_several)                                           \
    { one, several, guarded_one, guarded_several }

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

/* A row is in braces already. */
#define ROW(name, subject, flags, forms)                                                           \
    [NET_##name] = forms, /* NOLINT(bugprone-macro-parentheses) */

const struct form forms[NET_OPS_COUNT][4] = {NET_OPS(ROW)};
