/* SPDX-License-Identifier: BSD-2-Clause */
#include "plot.h"

#include <stdio.h>

static uint64_t received(const struct fleet_counts *counts, int node, int from, int to) {
    return counts->until[node][to] - counts->until[node][from];
}

double fleet_mean(const struct fleet_counts *counts, int from, int to) {
    uint64_t sum = 0;
    for (int node = 0; node < FLEET_NODES; node++)
        sum += received(counts, node, from * 10, to * 10);
    return (double)sum / FLEET_NODES / (to - from);
}

double fleet_peak(const struct fleet_counts *counts, int from, int to) {
    uint64_t most = 0;
    for (int node = 0; node < FLEET_NODES; node++)
        for (int tenth = from * 10; tenth + 10 <= to * 10; tenth++) {
            const uint64_t second = received(counts, node, tenth, tenth + 10);
            if (second > most) most = second;
        }
    return (double)most;
}

/* ---- the picture ---- */

enum { LEFT = 60, TOP = 40, WIDTH = 880, HEIGHT = 220 };

static double x_of(const struct fleet_phase *phases, double second) {
    return LEFT + (second - phases[0].at) * WIDTH / (FLEET_SECONDS - phases[0].at);
}

static void head(FILE *out, const char *title) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>%s</title>\n"
            "<style>text{fill:#222}path{fill:none;stroke:#1664a8}line{stroke:#888}"
            ".bound{stroke:#b03020;stroke-dasharray:6 4}svg{background:#fff}"
            "@media(prefers-color-scheme:dark){svg{background:#161b22}text{fill:#ddd}"
            "path{stroke:#6cb6ff}line{stroke:#777}.bound{stroke:#ff8070}}</style>\n",
            LEFT + WIDTH + 20, TOP + HEIGHT + 52, title);
    fprintf(out, "<text x=\"%d\" y=\"18\">%s</text>\n", LEFT, title);
}

static void level(FILE *out, double value, double top, const char *kind, const char *text) {
    const double y = TOP + HEIGHT - value * HEIGHT / top;
    fprintf(out, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", kind, LEFT,
            LEFT + WIDTH, y, y);
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n", LEFT - 6, y + 4,
            value);
    fprintf(out, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT + 4, y - 4, text);
}

/* The node that received most in each second. */
static void curve(FILE *out, const struct fleet_counts *counts, const struct fleet_phase *phases,
                  double top) {
    fputs("<path d=\"", out);
    for (int second = phases[0].at; second < FLEET_SECONDS; second++)
        fprintf(out, "%c%.1f %.1f", second == phases[0].at ? 'M' : 'L', x_of(phases, second + 0.5),
                TOP + HEIGHT - fleet_peak(counts, second, second + 1) * HEIGHT / top);
    fputs("\"/>\n", out);
}

bool fleet_plot(const struct fleet_counts *counts, const struct fleet_phase *phases, double bound,
                const char *title, const char *file) {
    FILE *out = fopen(file, "w");
    const double peak = fleet_peak(counts, phases[0].at, FLEET_SECONDS);
    const double top = (peak > bound ? peak : bound) * 1.1;
    if (!out) return false;
    head(out, title);
    level(out, 0, top, "axis", "");
    level(out, bound, top, "bound", "three times the steady rate");
    level(out, peak, top, "axis", "the worst second");
    for (int i = 0; phases[i].name; i++) {
        const double x = x_of(phases, phases[i].at);
        fprintf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", x, x, TOP + HEIGHT,
                TOP + HEIGHT + 14 * (1 + i % 3));
        fprintf(out, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", x + 3,
                TOP + HEIGHT + 14 * (1 + i % 3), phases[i].name);
    }
    curve(out, counts, phases, top);
    fputs("</svg>\n", out);
    return fclose(out) == 0;
}
