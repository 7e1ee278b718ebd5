/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rows: bars, arrows, marks, the violation, and last the words, so that nothing lies over them.
 */
#include "draw_layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "phrase.h"

#define COLOURS 6

/* Colours from the palette of Okabe and Ito, which colour-blind people can tell apart; letters and
 * patterns besides. */
void draw_styles(FILE *out) {
    fputs(
        "<style>"
        ".rl{--bg:#fff;--ink:#1a1a1a;--soft:#5c5c5c;--line:#d9d9d4;--row:#f3f3ef;--red:#c3001b;--good:#14703a;"
        "--c0:#0072b2;--c1:#e69f00;--c2:#009e73;--c3:#cc79a7;--c4:#56b4e9;--c5:#a6761d;--cx:#777;--t0:#fff;--t1:#000}"
        "@media(prefers-color-scheme:dark){.rl{--bg:#16181b;--ink:#ececec;--soft:#a5a8ad;--line:#3a3d42;--row:#212429;"
        "--red:#ff6b74;--good:#66d18f;--c0:#4aa8e0;--c1:#f2b233;--c2:#2fcf9c;--c3:#e6a1c6;--c4:#8fd0f5;--c5:#cfa055;"
        "--cx:#999;--t0:#000}}"
        ".rl text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}"
        ".rl .w{font-size:11px;paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}"
        ".rl .n{font-size:10px;font-weight:700;text-anchor:middle;fill:var(--bg)}"
        ".rl .b{font-size:12px;font-weight:700}"
        ".rl .s{font-size:11px;fill:var(--soft)}"
        ".rl .r{fill:var(--red);font-weight:700}"
        "</style>\n",
        out);
}

static void draw_patterns(FILE *out) {
    fputs(
        "<defs><pattern id=\"p1\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><circle "
        "cx=\"2\" cy=\"2\" r=\"1\" fill=\"#000\" fill-opacity=\".35\"/></pattern><pattern "
        "id=\"p2\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><path d=\"M1 0V5\" "
        "stroke=\"#000\" stroke-opacity=\".3\"/></pattern><pattern id=\"p3\" width=\"5\" "
        "height=\"5\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 1H5\" stroke=\"#000\" "
        "stroke-opacity=\".3\"/></pattern><pattern id=\"ps\" width=\"7\" height=\"7\" "
        "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"7\" "
        "height=\"7\" fill=\"var(--bg)\" fill-opacity=\".55\"/><path d=\"M2 0V7\" "
        "stroke=\"var(--ink)\" stroke-opacity=\".6\" stroke-width=\"2\"/></pattern><pattern "
        "id=\"pd\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" "
        "height=\"6\" fill=\"var(--bg)\" fill-opacity=\".7\"/><path d=\"M0 0L6 6M6 0L0 6\" "
        "stroke=\"var(--ink)\" stroke-opacity=\".45\"/></pattern><pattern id=\"pv\" width=\"9\" "
        "height=\"9\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\"><path "
        "d=\"M1 0V9\" stroke=\"var(--red)\" stroke-opacity=\".35\" stroke-width=\"2\"/></pattern>"
        "</defs>\n",
        out);
}

struct draw_colour draw_colour(int client) {
    struct draw_colour colour = {"var(--cx)"};
    if (client >= 0) snprintf(colour.name, sizeof colour.name, "var(--c%d)", client % COLOURS);
    return colour;
}

static void rectangle(FILE *out, int x, int y, int width, int height, const char *rest) {
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" %s/>", x, y,
            width < 1 ? 1 : width, height, rest);
}

/* ---- ground ---------------------------------------------------------------------------------- */

static void draw_row_ground(FILE *out, const struct draw_layout *layout,
                            const struct draw_row *row) {
    rectangle(out, layout->left, row->bar_y, layout->right - layout->left, row->bar_h,
              "rx=\"3\" fill=\"var(--row)\"");
    if (!layout->words) return;
    int y = row->bar_y + 15;
    if (row->kind == DRAW_NODE) {
        fprintf(out, "<text class=\"b\" x=\"8\" y=\"%d\">node %d</text>\n", y, row->index + 1);
        return;
    }
    const struct story_names *names = &layout->picture->names;
    fprintf(out, "<text class=\"b\" x=\"8\" y=\"%d\">", y);
    if (row->kind == DRAW_CLIENT)
        draw_parts(out, "client ", names->clients[row->index], "</text>\n", NULL);
    else
        draw_parts(out, "data of ", names->resources[row->index], "</text>\n", NULL);
}

static void draw_break(FILE *out, int x, int y) {
    fprintf(
        out,
        "<path d=\"M%d %dl4 -5l2 10l4 -5\" fill=\"none\" stroke=\"var(--bg)\" stroke-width=\"5\"/>",
        x - 5, y);
    fprintf(
        out,
        "<path d=\"M%d %dl3 -5l4 10l3 -5\" fill=\"none\" stroke=\"var(--soft)\" stroke-width=\"1.5\"/>\n",
        x - 5, y);
}

/* The time of every numbered event, as far as there is room, and a mark where much time is left
 * out. */
static void draw_axis(FILE *out, const struct draw_layout *layout) {
    int y = layout->axis_y + 6;
    fprintf(out, "<path d=\"M%d %dH%d\" stroke=\"var(--soft)\"/>\n", layout->left, y,
            layout->right);
    for (size_t i = 1; i < layout->columns; i++) {
        if (layout->times[i] - layout->times[i - 1] >= 200 * RL_MS)
            draw_break(out, (layout->xs[i] + layout->xs[i - 1]) / 2, y);
    }
    int free_x = 0, last_x = -1;
    for (size_t i = 0; i < layout->story.count; i++) {
        int x = draw_x(layout, layout->story.events[i].at);
        if (x == last_x) continue;
        last_x = x;
        fprintf(out, "<path d=\"M%d %dV%d\" stroke=\"var(--line)\" stroke-dasharray=\"2 3\"/>", x,
                y, layout->bottom);
        fprintf(out, "<path d=\"M%d %dv-5\" stroke=\"var(--soft)\"/>", x, y);
        if (x < free_x) continue;
        const struct phrase_time time = phrase_time(layout->story.events[i].at);
        fprintf(out, "<text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", x - 2, y - 8, time.text);
        free_x = x + draw_text_width(time.text, 11) + 8;
    }
}

/* ---- spans ---------------------------------------------------------------------------------- */

static void draw_owned(FILE *out, const struct draw_layout *layout, const struct draw_span *span,
                       int x, int width, int y, int height) {
    char rest[96];
    snprintf(rest, sizeof rest, "rx=\"%d\" fill=\"%s\"%s", span->kind == DRAW_HOLDS ? 4 : 2,
             draw_colour(span->client).name, span->kind == DRAW_KEY ? " fill-opacity=\".8\"" : "");
    rectangle(out, x, y, width, height, rest);
    int pattern = span->client < 0 ? 0 : span->client % 4;
    if (pattern != 0) {
        snprintf(rest, sizeof rest, "fill=\"url(#p%d)\"", pattern);
        rectangle(out, x, y, width, height, rest);
    }
    if (span->torn) {
        int end = x + width;
        fprintf(
            out,
            "<path d=\"M%d %dl3 3l-6 5l6 5l-6 5l3 3\" fill=\"none\" stroke=\"var(--red)\" stroke-width=\"2.5\"/>",
            end, y);
    }
    const char *letter = span->shared       ? "readers"
                         : span->client < 0 ? "stranger"
                                            : layout->picture->names.clients[span->client];
    const char *after = span->kind == DRAW_HOLDS ? " holds it" : span->shared ? "' key" : "'s key";
    int inset = span->kind == DRAW_KEY ? 11 : 6; /* past the tick of the vote */
    bool whole = width > draw_text_width(letter, 12) + draw_text_width(after, 12) + inset + 6;
    if (!layout->words || width < draw_text_width(letter, 12) + inset + 2) return;
    fprintf(out, "<text class=\"b\" x=\"%d\" y=\"%d\" style=\"fill:var(--%s)\">", x + inset,
            y + height - 6, span->client == 0 ? "t0" : "t1");
    draw_text(out, letter);
    if (whole) fputs(after, out);
    fputs("</text>\n", out);
}

static void draw_cut(FILE *out, const struct draw_layout *layout, const struct draw_span *span,
                     int x, int width) {
    const struct draw_row *row = &layout->rows[span->row];
    /* On the side from which the messages come. */
    int y = span->client < layout->upper_clients ? row->bar_y - 1 : row->bar_y + row->bar_h + 1;
    fprintf(
        out,
        "<path d=\"M%d %dh%d\" stroke=\"var(--ink)\" stroke-width=\"3\" stroke-dasharray=\"1 4\" "
        "stroke-opacity=\".8\"/>\n",
        x, y, width);
}

static void draw_span(FILE *out, const struct draw_layout *layout, const struct draw_span *span) {
    const struct draw_row *row = &layout->rows[span->row];
    int x = draw_x(layout, span->from);
    int width = (span->open && span->until >= layout->times[layout->columns - 1]
                     ? layout->right
                     : draw_x(layout, span->until)) -
                x;
    int resources = (int)layout->picture->history->resources;
    int height = row->bar_h / resources,
        y = row->bar_y + height * (span->resource > 0 ? span->resource : 0);
    const struct draw_colour colour = draw_colour(span->client);
    char rest[128];
    switch (span->kind) {
    case DRAW_ASKING:
        snprintf(rest, sizeof rest,
                 "rx=\"4\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"3 2\"",
                 colour.name);
        rectangle(out, x, y + 4, width, height - 8, rest);
        break;
    case DRAW_HOLDS: draw_owned(out, layout, span, x, width, y, height); break;
    case DRAW_KEY: draw_owned(out, layout, span, x, width, y + 2, height - 4); break;
    case DRAW_DOWN:
        rectangle(out, x, row->bar_y, width, row->bar_h, "fill=\"url(#pd)\" stroke=\"var(--ink)\"");
        break;
    case DRAW_STOPPED:
        rectangle(out, x, row->bar_y - 2, width, row->bar_h + 4,
                  "fill=\"url(#ps)\" stroke=\"var(--ink)\"");
        break;
    case DRAW_CUT: draw_cut(out, layout, span, x, width); break;
    case DRAW_VALUE:
        snprintf(rest, sizeof rest, "rx=\"2\" fill=\"%s\" fill-opacity=\".45\"", colour.name);
        rectangle(out, x, row->bar_y, width, row->bar_h, rest);
        if (layout->words)
            fprintf(out, "<text class=\"b\" x=\"%d\" y=\"%d\">%" PRId64 "</text>\n", x + 5,
                    row->bar_y + 16, span->value);
        break;
    }
    fputc('\n', out);
}

static void draw_spans(FILE *out, const struct draw_layout *layout) {
    /* Bars first, then the faults of the whole row over them. */
    static const enum draw_span_kind order[] = {DRAW_VALUE, DRAW_KEY,     DRAW_ASKING, DRAW_HOLDS,
                                                DRAW_DOWN,  DRAW_STOPPED, DRAW_CUT};
    for (size_t kind = 0; kind < sizeof order / sizeof order[0]; kind++) {
        for (size_t i = 0; i < layout->spans_count; i++) {
            if (layout->spans[i].kind == order[kind]) draw_span(out, layout, &layout->spans[i]);
        }
    }
}

/* ---- the violation --------------------------------------------------------------------------- */

static int y_of_record(const struct draw_layout *layout, const struct history_record *record) {
    int row = record->client >= 0 ? draw_row_of(layout, DRAW_CLIENT, record->client)
                                  : draw_row_of(layout, DRAW_NODE, record->node);
    bool at_register = record->kind == HISTORY_WRITE || record->kind == HISTORY_READ ||
                       record->kind == HISTORY_WRITE_REFUSED;
    if (at_register && draw_row_of(layout, DRAW_REGISTER, record->resource) >= 0)
        row = draw_row_of(layout, DRAW_REGISTER, record->resource);
    return row < 0 ? layout->top : layout->rows[row].bar_y + layout->rows[row].bar_h / 2;
}

static void draw_violation(FILE *out, const struct draw_layout *layout,
                           const struct check_violation *violation) {
    bool follows = violation->rule != layout->picture->violations[0].rule;
    if (violation->until > violation->from) {
        if (follows) return; /* one band shows it; the sentences name the others */
        int x = draw_x(layout, violation->from), width = draw_x(layout, violation->until) - x;
        int y = layout->words ? layout->axis_y + 9 : 0;
        rectangle(out, x, y, width, layout->bottom - y, "fill=\"var(--red)\" fill-opacity=\".10\"");
        rectangle(out, x, y, width, layout->bottom - y,
                  "fill=\"url(#pv)\" stroke=\"var(--red)\" stroke-width=\"2\"");
        return;
    }
    const struct history_record *records = layout->picture->history->records;
    const struct history_record *both[] = {&records[violation->first], &records[violation->second]};
    for (int i = 0; i < 2; i++) {
        fprintf(
            out,
            "<circle cx=\"%d\" cy=\"%d\" r=\"15\" fill=\"none\" stroke=\"var(--red)\" stroke-width=\"3\"/>\n",
            draw_x(layout, both[i]->at), y_of_record(layout, both[i]));
    }
}

/* The first broken rule in words, above the place where it breaks. */
static void draw_caption(FILE *out, const struct draw_layout *layout) {
    const struct picture *picture = layout->picture;
    if (picture->violations_count == 0 || !layout->words) return;
    const struct check_violation *violation = &picture->violations[0];
    rl_ns at = violation->until > violation->from ? violation->from
                                                  : picture->history->records[violation->second].at;
    int x = draw_x(layout, at), width = draw_text_width(violation->text, 13);
    if (x + width > layout->right) x = layout->right - width;
    if (x < 8) x = 8;
    fprintf(out, "<text class=\"r\" font-size=\"13\" x=\"%d\" y=\"13\">", x);
    draw_parts(out, "", violation->text, "</text>\n", NULL);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void draw_labels(FILE *out, const struct draw_layout *layout) {
    for (size_t i = 0; i < layout->labels_count; i++) {
        const struct draw_label *label = &layout->labels[i];
        const struct draw_row *row = &layout->rows[label->row];
        int y = row->words_y;
        fprintf(
            out,
            "<circle cx=\"%d\" cy=\"%d\" r=\"8\" fill=\"var(--ink)\" stroke=\"var(--bg)\"/><text "
            "class=\"n\" x=\"%d\" y=\"%d\">%zu</text>",
            label->x, y - 4, label->x, y, label->event + 1);
        const char *words = layout->story.events[label->event].label;
        if (words[0] != '\0') {
            fprintf(out, "<text class=\"w\" x=\"%d\" y=\"%d\">", label->x + 11, y);
            draw_parts(out, "", words, "</text>", NULL);
        }
        fputc('\n', out);
    }
}

void draw_rows(FILE *out, const struct draw_layout *layout) {
    const struct picture *picture = layout->picture;
    draw_patterns(out);
    for (int i = 0; i < layout->rows_count; i++) draw_row_ground(out, layout, &layout->rows[i]);
    if (layout->words) draw_axis(out, layout);
    for (size_t i = 0; i < picture->violations_count; i++)
        draw_violation(out, layout, &picture->violations[i]);
    draw_spans(out, layout);
    for (size_t i = 1; i < layout->story.exchanges_count && layout->words; i++)
        draw_exchange(out, layout, &layout->story.exchanges[i]);
    for (size_t i = 0; i < picture->history->count && layout->words; i++)
        if (draw_wake(&picture->history->records[i]))
            draw_hint(out, layout, &picture->history->records[i]);
    if (layout->words) draw_labels(out, layout);
    draw_caption(out, layout);
}
