/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Pictures of a history: one row per client and per node, time to the right. Drawing reads only the
 * history and the violations that its judges found. The same history gives the same bytes on every
 * machine.
 */
#ifndef SIM_DRAW_H
#define SIM_DRAW_H

#include <stdio.h>

#include "judges/check.h"
#include "history/history.h"
#include "story.h"

#define DRAW_SOURCES_MAX 4

struct picture {
    const char *name;                      /* "RESTART-EMPTY" */
    const char *title;                     /* one line */
    const char *sources[DRAW_SOURCES_MAX]; /* NULL after the last */
    const char *prose;                     /* paragraphs, a blank line between */
    const char *verdict; /* "classic: two holders from 301 ms to 9898 ms, as published" */
    const char *why;     /* a sentence that explains it; "" when there is none */
    bool breaks;         /* the verdict is a broken rule */
    struct story_names names;
    const struct history *history;
    const struct check_violation *violations;
    size_t violations_count;
};

void draw_svg(FILE *out, const struct picture *picture); /* complete: title, rows, sentences */
void draw_thumbnail(FILE *out, const struct picture *picture); /* rows only, without text */
/* A self-contained page: the results of one scene, one picture after the other. */
void draw_html(FILE *out, const struct picture *pictures, size_t count);

/* The page of all pictures: open, one entry each, close. Entries link to NAME.html and show
 * NAME.thumb.svg. */
void draw_gallery_open(FILE *out);
void draw_gallery_entry(FILE *out, const struct picture *pictures, size_t count);
/* A scenario without a picture yet; `when` says what it waits for. */
void draw_gallery_later(FILE *out, const char *name, const char *title, const char *when);
void draw_gallery_close(FILE *out);

/* Writes text for XML: markup escaped, control characters left out. */
void draw_text(FILE *out, const char *text);
/* Markup and text in turn, markup first and last, then NULL. */
#if defined(__GNUC__)
__attribute__((sentinel))
#endif
void draw_parts(FILE *out, const char *markup, ...);

#endif
