/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The latencies as a picture: a panel for each measurement, the share of cycles that were done from
 * left to right, stretched towards the end where the slow ones are, and the time they took upwards,
 * each line ten times the one below.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum {
    COLUMNS = 3,
    PANEL_W = 330,
    PANEL_H = 230,
    LEFT = 52,
    RIGHT = 16,
    TOP = 34,
    BOTTOM = 26,
    HEAD = 64,
    EDGE = 12
};

/* Drawn so far as there are enough cycles to know: x is log10(1 / (1 - share)). */
static const struct {
    double share;
    const char *label;
} shares[] = {{0, "0"},       {0.5, "50 %"},     {0.9, "90 %"},
              {0.99, "99 %"}, {0.999, "99.9 %"}, {0.9999, "99.99 %"}};
enum { SHARES = sizeof shares / sizeof shares[0], STEPS = 120 };
static const double nines_max = 4;

struct panel {
    FILE *out;
    const struct result *result;
    int x, y;            /* of its plot's upper left corner */
    int decade, decades; /* of ns: the axis begins at 10^decade */
};

static double nines_of(double share) { return -log10(1 - share); }
static double across(const struct panel *panel, double nines) {
    return panel->x + nines / nines_max * (PANEL_W - LEFT - RIGHT);
}
static double up(const struct panel *panel, double ns) {
    double share = (log10(ns < 1 ? 1 : ns) - panel->decade) / panel->decades;
    return panel->y + (1 - share) * (PANEL_H - TOP - BOTTOM);
}

/* The floor and the library, or the library alone: more lines would want a legend each. */
static bool has_lines(const struct result *result) {
    const enum kind kind = result->measure->kind;
    return kind != KIND_GATEWAY && kind != KIND_HANDOVER && result->sides <= 2 &&
           result->latency[0] != NULL && result->latency[0]->count > 0;
}
static size_t colour_of(const struct panel *panel, size_t side) {
    return panel->result->sides == 1 ? 1 : side;
}

static void find_decades(struct panel *panel) {
    double least = INFINITY, most = 0;
    for (size_t side = 0; side < panel->result->sides; side++) {
        const struct histogram *latency = panel->result->latency[side];
        if (latency->count == 0) continue;
        if ((double)latency->least < least) least = (double)latency->least;
        double last = histogram_percentile_ns(latency, 1 - 1e-4);
        if (last > most) most = last;
    }
    panel->decade = (int)floor(log10(least < 1 ? 1 : least));
    panel->decades = (int)ceil(log10(most < 10 ? 10 : most)) - panel->decade;
    if (panel->decades < 1) panel->decades = 1;
}

static void time_text(double ns, char *out, size_t size) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    while (ns >= 999.5 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(out, size, ns >= 99.5 ? "%.0f %s" : "%.3g %s", ns, units[unit]);
}

static void draw_axes(const struct panel *panel) {
    char text[24];
    const double right = across(panel, nines_max), low = panel->y + PANEL_H - TOP - BOTTOM;
    fprintf(panel->out, "<text class=\"b\" x=\"%d\" y=\"%d\">%s</text>\n", panel->x, panel->y - 19,
            panel->result->measure->name);
    fprintf(panel->out, "<text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", panel->x, panel->y - 6,
            panel->result->measure->summary);
    for (int i = 0; i <= panel->decades; i++) {
        double ns = pow(10, panel->decade + i), y = up(panel, ns);
        time_text(ns, text, sizeof text);
        fprintf(
            panel->out,
            "<path class=\"l\" d=\"M%d %.1fH%.1f\"/><text class=\"s e\" x=\"%d\" y=\"%.1f\">%s</text>\n",
            panel->x, y, right, panel->x - 6, y + 4, text);
    }
    for (size_t i = 0; i < SHARES; i++) {
        double x = across(panel, nines_of(shares[i].share));
        fprintf(
            panel->out,
            "<path class=\"l\" d=\"M%.1f %dV%.1f\"/><text class=\"s m\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            x, panel->y, low, x, low + 15, shares[i].label);
    }
}

/* A dash pattern in addition to the colour, for readers who do not see colours. */
static void draw_line(const struct panel *panel, size_t side) {
    const struct histogram *latency = panel->result->latency[side];
    const char *begin = "M";
    if (latency->count == 0) return;
    fprintf(panel->out, "<path class=\"c c%zu\" d=\"", colour_of(panel, side));
    for (int step = 0; step <= STEPS; step++) {
        double nines = nines_max * step / STEPS, share = 1 - pow(10, -nines);
        if (nines > 0 && pow(10, nines) > (double)latency->count)
            break; /* fewer cycles than one in so many */
        fprintf(panel->out, "%s%.1f %.1f", begin, across(panel, nines),
                up(panel, histogram_percentile_ns(latency, share)));
        begin = "L";
    }
    fputs("\"/>\n", panel->out);
}

/* The table's: the median of the medians of all rounds. That of all cycles together may differ, and
 * two numbers for one thing would puzzle the reader. */
static double median_ns(const struct result *result, size_t side) {
    return result_spread(result, side, FIGURE_P50).median * 1e3;
}

static void draw_median(const struct panel *panel, size_t side) {
    char text[24];
    const double ns = median_ns(panel->result, side), x = across(panel, nines_of(0.5));
    const bool above = panel->result->sides == 1 || ns > median_ns(panel->result, 1 - side);
    time_text(ns, text, sizeof text);
    fprintf(
        panel->out,
        "<circle class=\"d%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/><text class=\"w\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
        colour_of(panel, side), x, up(panel, ns), x + 5, up(panel, ns) + (above ? -6 : 14), text);
}

static void draw_panel(const struct panel *panel) {
    const size_t sides = panel->result->sides;
    draw_axes(panel);
    for (size_t side = 0; side < sides; side++) draw_line(panel, side);
    for (size_t side = 0; side < sides; side++) draw_median(panel, side);
}

/* The simulator's colours: of the palette of Okabe and Ito, which colour-blind people can tell
 * apart. */
static void draw_styles(FILE *out) {
    fputs(
        "<style>"
        ".rl{--bg:#fff;--ink:#1a1a1a;--soft:#5c5c5c;--line:#d9d9d4;--c0:#e69f00;--c1:#0072b2}"
        "@media(prefers-color-scheme:dark){.rl{--bg:#16181b;--ink:#ececec;--soft:#a5a8ad;--line:#3a3d42;--c0:#f2b233;"
        "--c1:#4aa8e0}}"
        ".rl text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}"
        ".rl .w{font-size:11px;paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}"
        ".rl .b{font-size:12px;font-weight:700}"
        ".rl .s{font-size:10px;fill:var(--soft)}"
        ".rl .e{text-anchor:end}.rl .m{text-anchor:middle}"
        ".rl .l{stroke:var(--line);fill:none}"
        ".rl .c{fill:none;stroke-width:2;stroke-linejoin:round}"
        ".rl .c0{stroke:var(--c0);stroke-dasharray:5 3}.rl .c1{stroke:var(--c1)}"
        ".rl .d0{fill:var(--c0)}.rl .d1{fill:var(--c1)}"
        "</style>\n",
        out);
}

static void draw_head(FILE *out, int width, int height) {
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rl\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
        "role=\"img\" aria-labelledby=\"title desc\">\n"
        "<title id=\"title\">redlock bench: latencies</title>\n"
        "<desc id=\"desc\">For each measurement, the share of the cycles by duration, floor and library; time on a logarithmic axis.</desc>\n",
        width, height, width, height);
    draw_styles(out);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"var(--bg)\"/>\n", width, height);
    fprintf(
        out,
        "<text x=\"%d\" y=\"28\" font-size=\"18\" font-weight=\"700\">How long a cycle takes</text>\n",
        EDGE);
    fprintf(
        out,
        "<path class=\"c c0\" d=\"M%d 45h26\"/><text class=\"s\" x=\"%d\" y=\"49\">floor: the least any client "
        "must do</text>"
        "<path class=\"c c1\" d=\"M%d 45h26\"/><text class=\"s\" x=\"%d\" y=\"49\">library; number: the "
        "median</text>\n",
        EDGE, EDGE + 32, EDGE + 220, EDGE + 252);
}

static void draw(FILE *out, const struct result *results, size_t count) {
    int panels = 0;
    for (size_t i = 0; i < count; i++) panels += has_lines(&results[i]);
    const int columns = panels < COLUMNS ? (panels > 1 ? panels : 2) : COLUMNS,
              rows = (panels + columns - 1) / columns;
    draw_head(out, columns * PANEL_W + 2 * EDGE, HEAD + rows * PANEL_H + EDGE);
    int at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!has_lines(&results[i])) continue;
        struct panel panel = {.out = out,
                              .result = &results[i],
                              .x = EDGE + at % columns * PANEL_W + LEFT,
                              .y = HEAD + at / columns * PANEL_H + TOP};
        find_decades(&panel);
        draw_panel(&panel);
        at++;
    }
    fputs("</svg>\n", out);
}

static int refuse(const char *file) {
    complain("cannot write %s: %s", file, strerror(errno));
    return EXIT_SYSTEM;
}

int plot_try(const char *file) {
    FILE *out = fopen(file, "ae");
    return out != NULL && fclose(out) == 0 ? 0 : refuse(file);
}

int plot_write(const char *file, const struct result *results, size_t count) {
    FILE *out = fopen(file, "we");
    if (out == NULL) return refuse(file);
    draw(out, results, count);
    const int failed = ferror(out);
    return fclose(out) == 0 && !failed ? 0 : refuse(file);
}
