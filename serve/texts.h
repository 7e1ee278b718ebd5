/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scripts' texts by their names, as SCRIPT LOAD keeps them: those that are known by heart, or
 * that a worker has compiled and judged. Bounded: the one unused for longest makes room.
 */
#ifndef SERVE_TEXTS_H
#define SERVE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "known.h"
#include "script.h"

struct texts;
struct text {
    struct script_bytes bytes;
    struct known known;
};

struct texts *texts_new(size_t count_max);
void texts_free(struct texts *texts);
/* Copies the text. False: out of memory. */
bool texts_keep(struct texts *texts, const char *sha, struct script_bytes text);
/* `sha` in either case of letters. */
bool texts_have(const struct texts *texts, const char *sha);
/* It is used: NULL where there is none, else what is kept, until another is kept or all are
 * forgotten. */
const struct text *texts_use(struct texts *texts, const char *sha);
void texts_forget(struct texts *texts);

#endif
