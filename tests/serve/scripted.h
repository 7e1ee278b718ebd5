/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs of scripts for tests: on a key in memory, whose clock stands still, or step by step with the
 * test's own answers.
 */
#ifndef TESTS_SCRIPTED_H
#define TESTS_SCRIPTED_H

#include "script/interpreter.h"

struct key_now {
    bool there;
    char value[128];
    size_t bytes;
    int64_t pttl; /* -1: without end */
};

/* What Redis would do to the key, and answer. */
struct answer key_serve(struct key_now *key, const struct key_call *call);
void key_fill(struct key_now *key, const char *value, int64_t pttl);

struct ending {
    struct answer value;
    char text[1024]; /* of value.bytes, which end with the run */
    unsigned calls, changes;
};
/* Loads and runs the text on `key`, named "resource". NULL-terminated arguments. A text that is
 * refused ends with that error, and without a call. */
struct ending script_ending(struct scripts *scripts, const char *text, const char *const *arguments,
                            struct key_now *key);

/* The same where the text is known by heart, without the interpreter. False: it is not, or the
 * arguments are for that. */
bool known_ending(const char *text, const char *const *arguments, struct key_now *key,
                  struct ending *ending);
/* As SCRIPT LOAD: names the text, and keeps it if it is taken. `sha` gets 40 digits and a NUL. */
bool script_load(struct scripts *scripts, const char *text, size_t bytes, char *sha, char *error,
                 size_t error_size);

struct bytes text_bytes(const char *text);
#endif
