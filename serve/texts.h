/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scripts' texts by their names, as SCRIPT LOAD keeps them: the known ones, and those that a
 * worker has compiled and accepted. Their number is bounded: a new one replaces the one unused for
 * longest.
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
/* `sha` may be in upper or lower case. */
bool texts_have(const struct texts *texts, const char *sha);
/* Finds a text and marks it as used. NULL: absent. The result lives until another text is kept or
 * all are dropped. */
const struct text *texts_use(struct texts *texts, const char *sha);
void texts_forget(struct texts *texts);

#endif
