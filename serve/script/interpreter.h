/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The interpreter. It runs scripts as lock clients send them ("if it is my value, delete it", "if
 * it is my value, let it live longer"), in Lua 5.1 as Redis does. So the way in which a script is
 * written does not matter. A script is refused before it runs in two cases: its text calls a
 * command that a quorum cannot answer, or it calls in a way that the text does not show.
 *
 * This file has no I/O and no clock: a run stops at each call, and continues when it gets the
 * answer. The gateway does not link this: its worker does (script_main.c), and tests.
 */
#ifndef SERVE_INTERPRETER_H
#define SERVE_INTERPRETER_H

#include "script_name.h"

/* Compiled texts by their names. Their number is bounded: a new one replaces the one unused for
 * longest. */
struct scripts;
struct scripts *scripts_new(size_t count_max, size_t text_bytes_max);
void scripts_free(struct scripts *scripts);
/* Keeps a text under its name, `sha`. False: the text is refused, and `error` holds the reason in
 * one sentence. */
bool scripts_load(struct scripts *scripts, const char *sha, const char *text, size_t bytes,
                  char *error, size_t error_size);
/* `sha` may be in upper or lower case. */
bool scripts_has(const struct scripts *scripts, const char *sha);
void scripts_flush(struct scripts *scripts);

/* One run of one script on one key. Its memory is bounded (64 KiB in addition to its inputs), its
 * instructions are (10,000; fewer with large inputs), and its calls are (64). An answer may
 * contradict what the script has seen: its key is gone when it extends, or is taken after the
 * script found it absent. Then another client has changed the key meanwhile, which cannot happen
 * inside a Redis. The run then restarts by itself, a few times, and only if it has changed nothing
 * before. */
struct script_run;
/* NULL: out of memory, or the script does not exist. Key and arguments are copied. Free the run
 * before `scripts`; the script's text may be dropped earlier. */
struct script_run *script_run_new(struct scripts *scripts, const char *sha, struct bytes key,
                                  const struct bytes *arguments, size_t count);
/* Continues: with `answer` NULL at first, then with the answer to the call. CALLS: *call is the
 * next call. ENDS: *result is what the script returns, or an error. What they point to lives until
 * the next step or script_run_free(). */
enum program_step script_run_step(struct script_run *run, const struct answer *answer,
                                  struct key_call *call, struct answer *result);
void script_run_free(struct script_run *run);

#endif
