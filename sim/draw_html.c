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

static void put_legend(FILE *out) {
    fputs("<p class=\"soft\">Solid arrows are requests, dashed ones answers; a red cross: lost. A "
          "tick: granted; a cross in a circle: refused. Hatched: stopped. Crossed: not running. "
          "Dotted edge: cut off. Time is compressed, so that milliseconds and seconds can both be "
          "seen; a zigzag on the axis stands for 200 ms or more.</p>\n",
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
    fputs(
        "<div class=\"picture\" tabindex=\"0\" role=\"region\" aria-label=\"Picture; scrolls sideways\">\n",
        out);
    draw_plot(out, &layout);
    fputs("</div>\n", out);
    put_events(out, &layout);
    fputs("</section>\n", out);
    draw_layout_free(&layout);
}

void draw_html(FILE *out, const struct picture *pictures, size_t count) {
    char title[400];
    snprintf(title, sizeof title, "%s: %s", pictures[0].name, pictures[0].title);
    open_page(
        out, title,
        ".runs{display:grid;gap:20px;grid-template-columns:repeat(auto-fit,minmax(min(620px,100%),1fr))}\n"
        ".run{min-width:0}\n"
        ".picture{overflow-x:auto;border:1px solid var(--line);border-radius:8px;margin:12px "
        "0;-webkit-overflow-scrolling:touch}\n"
        ".picture "
        "svg{display:block}\n.prose{max-width:46em}\nol{padding-left:2.2em;max-width:52em}\nli{margin:.25em 0}\n"
        "li::marker{font-weight:700}\n");
    put_element(out, "h1", NULL, title);
    put_prose(out, pictures[0].prose);
    fputs("<div class=\"runs\">\n", out);
    for (size_t i = 0; i < count; i++) put_run(out, &pictures[i]);
    fputs("</div>\n", out);
    put_legend(out);
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
