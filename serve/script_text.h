/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The calls of a script, as far as its text shows them. Every use of `redis` must be a call whose
 * command is a literal, and one that a quorum can answer. The run judges what the text does not
 * show (a value, a key from a variable), and it allows no other command either. A text that
 * deceives this reader therefore gains nothing. This check refuses a script that cannot be served
 * before it has done half of its work.
 */
#ifndef SERVE_SCRIPT_TEXT_H
#define SERVE_SCRIPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The parts of Lua's library that a text names. A run gets only these, since opening them costs
 * more than the run. */
struct script_uses {
    bool base;
    bool string;
    bool table;
    bool math;
};

/* The text must be one that Lua compiles. False: it is refused, and `error` holds the reason in one
 * sentence. */
bool script_text_judge(const char *text, size_t bytes, struct script_uses *uses, char *error,
                       size_t error_size);

/* NULL-terminated: the functions of each part that a script may call. */
extern const char *const script_base_names[];
extern const char *const script_string_names[];
extern const char *const script_table_names[];
extern const char *const script_math_names[];
#endif
