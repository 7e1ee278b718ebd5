/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a script calls, as far as its text shows it. Every use of `redis` must be a call whose
 * command is written out, and a command that a quorum can answer; what cannot be seen here (a
 * value, a key from a variable) is judged by the run, which lets through no other command either.
 * So a text that deceives this reader gains nothing: it is here so that a script which could not be
 * served is refused before it has done half of its work.
 */
#ifndef SERVE_SCRIPT_TEXT_H
#define SERVE_SCRIPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Parts of Lua's library that a text names: a run is given no others, since opening them costs more
 * than the run. */
struct script_uses {
    bool base;
    bool string;
    bool table;
    bool math;
};

/* The text is one that Lua compiles. False: it is refused, and `error` says why in one sentence. */
bool script_text_judge(const char *text, size_t bytes, struct script_uses *uses, char *error,
                       size_t error_size);

/* NULL-terminated: the functions of each part that a script may call. */
extern const char *const script_base_names[];
extern const char *const script_string_names[];
extern const char *const script_table_names[];
extern const char *const script_math_names[];
#endif
