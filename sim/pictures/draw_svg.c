/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A self-contained picture: title and source above the rows, a sentence for every event below.
 */
#include <stdarg.h>
#include <string.h>

#include "draw_layout.h"
#include "phrase.h"

#define MARGIN 12
#define TEXT 14
#define LINE 20

void draw_text(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        switch (*at) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        case '\n': fputc(' ', out); break;
        default:
            if (*at >= ' ') fputc(*at, out);
        }
    }
}

void draw_parts(FILE *out, const char *markup, ...) {
    va_list arguments;
    va_start(arguments, markup);
    fputs(markup, out);
    for (const char *text; (text = va_arg(arguments, const char *));) {
        draw_text(out, text);
        fputs(va_arg(arguments, const char *), out);
    }
    va_end(arguments);
}

/* ---- text that wraps ------------------------------------------------------------------------- */

struct column {
    FILE *out; /* NULL: only measures */
    int x, y, width;
};

/* How many bytes of the text fit into a line; ends at a space or a line break where there is
 * one. */
static size_t line_length(const char *text, size_t most) {
    size_t length = strcspn(text, "\n");
    if (length <= most) return length;
    size_t cut = most;
    while (cut > 0 && text[cut] != ' ') cut--;
    return cut > 0 ? cut : most;
}

static void put_line(struct column *column, int indent, const char *text, size_t length,
                     const char *attributes) {
    char line[512];
    if (length >= sizeof line) length = sizeof line - 1;
    memcpy(line, text, length);
    line[length] = '\0';
    if (column->out != NULL) {
        fprintf(column->out, "<text x=\"%d\" y=\"%d\" %s>", column->x + indent, column->y,
                attributes);
        draw_parts(column->out, "", line, "</text>\n", NULL);
    }
    column->y += LINE;
}

static void put(struct column *column, int indent, const char *text, int font,
                const char *attributes) {
    size_t most = (size_t)((column->width - indent) * 100 / (font * 54));
    while (*text != '\0') {
        size_t length = line_length(text, most);
        put_line(column, indent, text, length, attributes);
        text += length;
        while (*text == ' ' || *text == '\n') text++;
    }
}

/* ---- the parts ------------------------------------------------------------------------------- */

static void put_head(struct column *column, const struct picture *picture) {
    char title[400];
    snprintf(title, sizeof title, "%s: %s", picture->name, picture->title);
    column->y += 8;
    put(column, 0, title, 20, "font-size=\"20\" font-weight=\"700\"");
    column->y += 4;
    put(column, 0, picture->verdict, 15,
        picture->breaks ? "font-size=\"15\" font-weight=\"700\" style=\"fill:var(--red)\""
                        : "font-size=\"15\" font-weight=\"700\" style=\"fill:var(--good)\"");
    for (int i = 0; i < DRAW_SOURCES_MAX && picture->sources[i] != NULL; i++) {
        char source[400];
        snprintf(source, sizeof source, "Source: %s", picture->sources[i]);
        put(column, 0, source, 12, "font-size=\"12\" style=\"fill:var(--soft)\"");
    }
}

static bool reports_of_wakes(const struct history *history) {
    for (size_t i = 0; i < history->count; i++)
        if (draw_wake(&history->records[i])) return true;
    return false;
}

static void put_sentences(struct column *column, const struct draw_layout *layout) {
    const struct picture *picture = layout->picture;
    for (size_t i = 0; i < layout->story.count; i++) {
        const struct story_event *event = &layout->story.events[i];
        char number[24];
        snprintf(number, sizeof number, "%zu", i + 1);
        int y = column->y;
        if (column->out != NULL) {
            fprintf(column->out,
                    "<circle cx=\"%d\" cy=\"%d\" r=\"8\" fill=\"var(--ink)\"/><text class=\"n\" "
                    "x=\"%d\" y=\"%d\">%s</text>",
                    column->x + 8, y - 5, column->x + 8, y - 1, number);
            fprintf(
                column->out,
                "<text x=\"%d\" y=\"%d\" font-size=\"13\" style=\"fill:var(--soft)\">%s</text>\n",
                column->x + 26, y, phrase_time(event->at).text);
        }
        put(column, 110, event->text, TEXT, "font-size=\"14\"");
    }
    for (size_t i = 0; i < picture->violations_count; i++) {
        char sentence[400];
        snprintf(sentence, sizeof sentence, "%s: %s", check_rule_name(picture->violations[i].rule),
                 picture->violations[i].text);
        put(column, 0, sentence, TEXT, "font-size=\"14\" class=\"r\"");
    }
    put(column, 0,
        "Solid arrows: requests; dashed: answers; a red cross: lost. Tick: granted; cross in a "
        "circle: refused. Hatched: stopped. Crossed: not running. Dotted edge: cut off. Time is "
        "compressed; a zigzag on the axis stands for 200 ms or more.",
        12, "font-size=\"12\" style=\"fill:var(--soft)\"");
    if (reports_of_wakes(picture->history))
        put(column, 0,
            "Dotted arrows: what a node tells without being asked, a hint for those who wait.", 12,
            "font-size=\"12\" style=\"fill:var(--soft)\"");
}

static void put_description(FILE *out, const struct picture *picture) {
    draw_parts(out, "<title id=\"title\">", picture->name, ": ", picture->title,
               "</title>\n<desc id=\"desc\">", picture->verdict, ". ", picture->prose, "</desc>\n",
               NULL);
}

static void open_svg(FILE *out, int width, int height) {
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rl\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\" aria-labelledby=\"title desc\">\n",
        width, height, width, height);
}

int draw_plot_width(const struct draw_layout *layout) { return layout->right + 6; }

void draw_plot(FILE *out, const struct draw_layout *layout) {
    open_svg(out, draw_plot_width(layout), layout->height);
    put_description(out, layout->picture);
    draw_styles(out);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"var(--bg)\"/>\n", draw_plot_width(layout),
            layout->height);
    draw_rows(out, layout);
    fputs("</svg>\n", out);
}

void draw_thumbnail(FILE *out, const struct picture *picture) {
    struct draw_layout layout;
    draw_layout_make(&layout, picture, false);
    draw_plot(out, &layout);
    draw_layout_free(&layout);
}

void draw_svg(FILE *out, const struct picture *picture) {
    struct draw_layout layout;
    draw_layout_make(&layout, picture, true);
    int inner = layout.right + 6 < 820 ? 820 : layout.right + 6;
    int prose = inner < 900 ? inner : 900;
    struct column head = {NULL, MARGIN, MARGIN + 12, inner}, tail = {NULL, MARGIN, 0, inner};
    put_head(&head, picture);
    int paragraph = head.y + 4;
    struct column text = {NULL, MARGIN, paragraph, prose};
    put(&text, 0, picture->prose, TEXT, "");
    int rows_y = text.y;
    tail.y = rows_y + layout.height + LINE;
    int sentences = tail.y;
    put_sentences(&tail, &layout);

    int width = inner + 2 * MARGIN, height = tail.y;
    open_svg(out, width, height);
    put_description(out, picture);
    draw_styles(out);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"var(--bg)\"/>\n", width, height);
    head = (struct column){out, MARGIN, MARGIN + 12, inner};
    put_head(&head, picture);
    text = (struct column){out, MARGIN, paragraph, prose};
    put(&text, 0, picture->prose, TEXT, "font-size=\"14\"");
    fprintf(out, "<g transform=\"translate(%d %d)\">\n", MARGIN, rows_y);
    draw_rows(out, &layout);
    fputs("</g>\n", out);
    tail = (struct column){out, MARGIN, sentences, inner};
    put_sentences(&tail, &layout);
    fputs("</svg>\n", out);
    draw_layout_free(&layout);
}
