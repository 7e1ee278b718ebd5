/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The interpreter: scripts as lock clients send them ("if it is my value, delete it", "if it is my
 * value, let it live longer") are run as they are, in Lua 5.1 as Redis does. So it does not matter
 * how one is written. A script is refused, before it runs, when its text calls anything but the few
 * commands that a quorum can answer, or calls in a way that cannot be seen in the text.
 *
 * No I/O and no clock here: a run stops at each call, and goes on when it is given the answer. The
 * gateway does not link this: its worker does (script_worker.c), and tests.
 */
#ifndef SERVE_SCRIPT_PROGRAMS_H
#define SERVE_SCRIPT_PROGRAMS_H

#include "script.h"

/* Compiled texts by their names. Bounded: the one unused for longest makes room. */
struct scripts;
struct scripts *scripts_new(size_t count_max, size_t text_bytes_max);
void scripts_free(struct scripts *scripts);
/* Keeps a text under its name, `sha`. False: it is refused, and `error` says why in one
 * sentence. */
bool scripts_load(struct scripts *scripts, const char *sha, const char *text, size_t bytes,
                  char *error, size_t error_size);
/* `sha` in either case of letters. */
bool scripts_has(const struct scripts *scripts, const char *sha);
void scripts_flush(struct scripts *scripts);

/* One run of one script on one key. Bounded in memory (64 KiB beside what it is given), in
 * instructions (10,000, fewer where much is given) and in calls (64). An answer that cannot be
 * after what the script has seen (its key is gone when it extends, taken when it found it absent)
 * tells that the key was changed by another meanwhile, which inside of a Redis cannot happen: the
 * run begins again, by itself, a few times and only if it has changed nothing before. */
struct script_run;
/* NULL: out of memory, or no such script. Key and arguments are copied. Freed before `scripts` are;
 * the script's text may be forgotten earlier. */
struct script_run *script_run_new(struct scripts *scripts, const char *sha, struct script_bytes key,
                                  const struct script_bytes *arguments, size_t count);
/* Goes on: with `answer` NULL at first, then with the answer to the call. CALLS: *call says what is
 * wanted. ENDS: *result is what the script returns, or an error. What they point to lives until the
 * next step or script_run_free().
 */
enum script_step script_run_step(struct script_run *run, const struct script_value *answer,
                                 struct script_call *call, struct script_value *result);
void script_run_free(struct script_run *run);

#endif
