/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Pages: one picture with its sentences, and the gallery of all. No script; text wraps, a wide
 * picture scrolls in its box.
 */
#include "draw_layout.h"
#include "phrase.h"

#include <string.h>

static void open_page(FILE *out, const char *title, const char *style) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    draw_text(out, title);
    fputs(
        "</title>\n<style>\n"
        ":root{color-scheme:light "
        "dark;--bg:#fff;--ink:#1a1a1a;--soft:#5c5c5c;--line:#d9d9d4;--red:#c3001b;--good:#14703a;--card:#f7f7f4}\n"
        "@media(prefers-color-scheme:dark){:root{--bg:#16181b;--ink:#ececec;--soft:#a5a8ad;--line:#3a3d42;--red:#"
        "ff6b74;--good:#66d18f;--card:#1d2024}}\n"
        "*{box-sizing:border-box}\n"
        "body{margin:0 auto;padding:16px;max-width:1500px;background:var(--bg);color:var(--ink);"
        "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;overflow-wrap:anywhere}\n"
        "h1{font-size:1.4rem;line-height:1.25;margin:.2em 0}\n"
        "a{color:inherit}\n.soft{color:var(--soft);font-size:.875rem}\n.breaks{color:var(--red);font-weight:700}\n."
        "holds{color:var(--good);font-weight:700}\n",
        out);
    fputs(style, out);
    fputs("</style>\n</head>\n<body>\n", out);
}

static void close_page(FILE *out) { fputs("</body>\n</html>\n", out); }

static void put_element(FILE *out, const char *tag, const char *class, const char *text) {
    fprintf(out, class != NULL ? "<%s class=\"%s\">" : "<%s>", tag, class);
    draw_text(out, text);
    fprintf(out, "</%s>\n", tag);
}

/* A blank line separates paragraphs. */
static void put_prose(FILE *out, const char *prose) {
    while (*prose != '\0') {
        const char *end = strstr(prose, "\n\n");
        size_t length = end != NULL ? (size_t)(end - prose) : strlen(prose);
        char paragraph[4096];
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, prose);
        put_element(out, "p", "prose", paragraph);
        prose += length;
        while (*prose == '\n') prose++;
    }
}

static void put_source(FILE *out, const char *source) {
    const char *link = strstr(source, "https://");
    fputs("<p class=\"soft\">Source: ", out);
    if (link == NULL) {
        draw_text(out, source);
    } else {
        char before[400];
        snprintf(before, sizeof before, "%.*s", (int)(link - source), source);
        draw_parts(out, "", before, "<a href=\"", link, "\">", link, "</a>", NULL);
    }
    fputs("</p>\n", out);
}

static void put_events(FILE *out, const struct draw_layout *layout) {
    const struct picture *picture = layout->picture;
    for (size_t i = 0; i < picture->violations_count; i++) {
        draw_parts(out, "<p class=\"breaks\">", check_rule_name(picture->violations[i].rule), ": ",
                   picture->violations[i].text, "</p>\n", NULL);
    }
    fputs("<ol>\n", out);
    for (size_t i = 0; i < layout->story.count; i++) {
        draw_parts(out, "<li><span class=\"soft\">", phrase_time(layout->story.events[i].at).text,
                   "</span> ", layout->story.events[i].text, "</li>\n", NULL);
    }
    fputs("</ol>\n", out);
}

/* The marks as draw_rows.c and draw_arrows.c draw them. */
static void put_legend(FILE *out) {
    static const char *const marks[][2] = {
        {"<path d=\"M1 8H21M16 4l5 4l-5 4\"/>", "request"},
        {"<path d=\"M1 8H21M16 4l5 4l-5 4\" stroke-dasharray=\"4 3\"/>", "answer"},
        {"<path d=\"M7 4l8 8m0 -8l-8 8\" style=\"stroke:var(--red)\"/>", "lost on the way"},
        {"<path d=\"M6 8l4 4l7 -8\" style=\"stroke:var(--good)\"/>", "granted"},
        {"<circle cx=\"11\" cy=\"8\" r=\"7\"/><path d=\"M8 5l6 6m0 -6l-6 6\"/>", "refused"},
        {"<path d=\"M1 14L9 2M7 14L15 2M13 14L21 2\"/>", "stopped"},
        {"<path d=\"M1 14L13 2M9 14L21 2M1 2L13 14M9 2L21 14\"/>", "not running"},
        {"<path d=\"M1 8H21\" stroke-dasharray=\"2 2\" stroke-width=\"3\"/>", "cut off"},
        {"<path d=\"M1 8H7l3 -5l3 10l3 -5H21\"/>", "200 ms or more left out"},
    };
    fputs("<ul class=\"legend\">\n", out);
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        fprintf(out, "<li><svg viewBox=\"0 0 22 16\" aria-hidden=\"true\">%s</svg>%s</li>\n",
                marks[i][0], marks[i][1]);
    fputs("</ul>\n", out);
}

/* The first request of a guarded client looks like a refusal, and is half of one. */
static void put_guarded_note(FILE *out) {
    fputs(
        "<p class=\"soft\">Guarded and native: nodes refuse the first request of a client, although they "
        "take its key. Its fencing token is too low, because the client does not know the "
        "highest one yet. The refusal names it, and the next request raises the token under "
        "the same key.</p>\n",
        out);
}

/* One run: its result, the picture, the sentences. */
static void put_run(FILE *out, const struct picture *picture) {
    struct draw_layout layout;
    draw_layout_make(&layout, picture, true);
    fputs("<section class=\"run\">\n", out);
    put_element(out, "p", picture->breaks ? "breaks" : "holds", picture->verdict);
    if (picture->why[0] != '\0') put_element(out, "p", "prose", picture->why);
    /* The keyboard can reach a box that scrolls. */
    fprintf(
        out,
        "<div class=\"picture\" style=\"--width:%dpx\" tabindex=\"0\" role=\"region\" aria-label=\"Picture; scrolls sideways\">\n",
        draw_plot_width(&layout));
    draw_plot(out, &layout);
    fputs("</div>\n", out);
    if (strncmp(picture->verdict, "classic:", 8) != 0) put_guarded_note(out);
    put_events(out, &layout);
    fputs("</section>\n", out);
    draw_layout_free(&layout);
}

void draw_html(FILE *out, const struct picture *pictures, size_t count) {
    char title[400];
    snprintf(title, sizeof title, "%s: %s", pictures[0].name, pictures[0].title);
    open_page(
        out, title,
        /* One below the other: what decides mostly happens in the second half of a picture. */
        ".runs{display:grid;gap:20px;grid-template-columns:minmax(0,1fr)}\n"
        ".legend{display:flex;flex-wrap:wrap;gap:2px 16px;padding:0;list-style:none;color:var(--soft);font-size:.875rem}\n"
        ".legend svg{width:22px;height:16px;margin-right:5px;vertical-align:-2px;fill:none;stroke:var(--soft);stroke-width:1.6}\n"
        ".picture{overflow-x:auto;border:1px solid var(--line);border-radius:8px;margin:12px "
        "0;-webkit-overflow-scrolling:touch}\n"
        /* A picture shrinks before it scrolls, but only as far as it can be read. */
        ".picture svg{display:block;width:100%;height:auto;max-width:var(--width);min-width:calc(var(--width)*.64)}\n"
        ".prose{max-width:46em}\nol{padding-left:2.2em;columns:30em;column-gap:3em}\nli{margin:.25em 0;break-inside:avoid}\n"
        "li::marker{font-weight:700}\n");
    put_element(out, "h1", NULL, title);
    put_prose(out, pictures[0].prose);
    put_legend(out);
    fputs("<div class=\"runs\">\n", out);
    for (size_t i = 0; i < count; i++) put_run(out, &pictures[i]);
    fputs("</div>\n", out);
    for (int i = 0; i < DRAW_SOURCES_MAX && pictures[0].sources[i] != NULL; i++)
        put_source(out, pictures[0].sources[i]);
    close_page(out);
}

/* ---- the gallery ----------------------------------------------------------------------------- */

void draw_gallery_open(FILE *out) {
    open_page(
        out, "Every attack on Redlock, replayed",
        ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));gap:14px;"
        "padding:0;list-style:none}\n"
        ".card{border:1px solid var(--line);border-radius:8px;background:var(--card);padding:10px}\n"
        ".card a{text-decoration:none;display:block}\n.card "
        "img{width:100%;height:150px;object-fit:contain;object-position:left top;display:block}\n"
        ".card b{display:block;margin-top:6px}\n.card p{margin:.2em 0}\n");
    put_element(out, "h1", NULL, "Every attack on Redlock, replayed");
    put_element(
        out, "p", NULL,
        "Each picture is a run of the unchanged library in a simulated world. Client rows show who "
        "believes to hold the lock, node rows whose key each server holds, red what must never "
        "be.");
    fputs("<ul class=\"cards\">\n", out);
}

void draw_gallery_entry(FILE *out, const struct picture *pictures, size_t count) {
    const struct picture *picture = &pictures[0];
    draw_parts(out, "<li class=\"card\"><a href=\"", picture->name,
               ".html\"><img loading=\"lazy\" alt=\"\" src=\"", picture->name, ".thumb.svg\">",
               NULL);
    put_element(out, "b", NULL, picture->name);
    put_element(out, "span", NULL, picture->title);
    fputs("</a>", out);
    for (size_t i = 0; i < count; i++)
        put_element(out, "p", pictures[i].breaks ? "breaks" : "holds", pictures[i].verdict);
    fputs("</li>\n", out);
}

void draw_gallery_later(FILE *out, const char *name, const char *title, const char *when) {
    fputs("<li class=\"card\">", out);
    put_element(out, "b", NULL, name);
    put_element(out, "span", NULL, title);
    put_element(out, "p", "soft", when);
    fputs("</li>\n", out);
}

void draw_gallery_close(FILE *out) {
    fputs("</ul>\n", out);
    close_page(out);
}
