/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table and the JSON. Where there is a floor, a ratio is the median of the ratios pair by pair:
 * what slows the machine down for a while slows both of a pair down.
 */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const struct {
    const char *key;
    const char *words; /* where two sides stand next to each other */
    const char *column;
} figure_names[FIGURES] = {
    [FIGURE_RATE] = {"per_s", "a second", "PER S"},
    [FIGURE_P50] = {"p50_us", "p50, us", "P50 ms"},
    [FIGURE_P99] = {"p99_us", "p99, us", "P99 ms"},
    [FIGURE_MAX] = {"max_us", "longest, us", "MAX ms"},
    [FIGURE_CPU] = {"cpu_us", "CPU of each, us", "CPU us"},
    [FIGURE_SERVERS] = {"server_cpu_us", NULL, "SERVER us"},
    [FIGURE_FEWEST] = {"turns_fewest", NULL, "FEWEST"},
    [FIGURE_MOST] = {"turns_most", NULL, "MOST"},
    [FIGURE_EVENNESS] = {"evenness", NULL, "EVEN"},
    [FIGURE_QUEUE] = {"longest_wait_over_queue", NULL, "X QUEUE"},
    [FIGURE_SPLITS] = {"splits_per_hold", NULL, "SPLITS"},
    [FIGURE_BYTES] = {"bytes_per_lock", NULL, "BYTES"},
    [FIGURE_LOST] = {"lost", NULL, "LOST"},
    [FIGURE_SHARE] = {"cpu_percent", NULL, "CPU %"},
};

static bool is_latency(enum figure figure) {
    return figure == FIGURE_P50 || figure == FIGURE_P99 || figure == FIGURE_MAX;
}

static void number(double value, char *out, size_t size) {
    if (isnan(value)) {
        snprintf(out, size, "-");
    } else if (fabs(value) >= 1000 || value == floor(value)) {
        snprintf(out, size, "%.0f", value);
    } else {
        snprintf(out, size,
                 fabs(value) >= 100  ? "%.1f"
                 : fabs(value) >= 10 ? "%.2f"
                                     : "%.3f",
                 value);
    }
}

/* ---- two sides next to each other ---------------------------------------------------------------
 */

static void print_pair(const struct result *result, enum figure figure) {
    char first[24], second[24];
    const struct spread ratio = result_ratio(result, 1, 0, figure);
    number(result_spread(result, 0, figure).median, first, sizeof first);
    number(result_spread(result, 1, figure).median, second, sizeof second);
    printf("  %-18s %12s %12s   %6.2f   %.2f to %.2f\n", figure_names[figure].words, first, second,
           ratio.median, ratio.least, ratio.most);
}

static void column_name(const struct measure *measure, size_t side, char *out, size_t size) {
    measure_side_name(measure, side, out, size);
    for (char *at = out; *at != '\0'; at++) *at = (char)toupper((unsigned char)*at);
}

static void print_beside(const struct result *result) {
    printf("\n%s: %s; %zu node%s\n", result->measure->name, result->measure->summary, result->nodes,
           result->nodes == 1 ? "" : "s");
    char first[24], second[24];
    column_name(result->measure, 0, first, sizeof first);
    column_name(result->measure, 1, second, sizeof second);
    printf("  %-18s %12s %12s   %6s   %s\n", measure_unit(result->measure), first, second, "RATIO",
           "FROM, OVER PAIRS");
    for (enum figure figure = FIGURE_RATE; figure <= FIGURE_CPU; figure++)
        print_pair(result, figure);
}

/* ---- a line for each measurement ------------------------------------------------------------- */

static void print_columns(const struct result *result) {
    const struct measure *measure = result->measure;
    printf("\n%-14s", measure->kind == KIND_DISTINCT ? "RESOURCES" : measure_unit(measure));
    for (enum figure figure = FIGURE_RATE; figure < FIGURES; figure++) {
        if (figure_applies(measure, figure)) printf(" %7s", figure_names[figure].column);
    }
    printf(measure->kind == KIND_DISTINCT ? " %8s %8s\n" : "\n", "PER S", "CPU");
}

static void print_line(const struct result *result, size_t side) {
    char text[24];
    const struct measure *measure = result->measure;
    measure_side_name(measure, side, text, sizeof text);
    const bool of_floor = measure->kind == KIND_CONTENDED && side == 0;
    printf("%-14s", measure->kind == KIND_DISTINCT ? text : of_floor ? "its floor" : measure->name);
    for (enum figure figure = FIGURE_RATE; figure < FIGURES; figure++) {
        if (!figure_applies(measure, figure)) continue;
        double value = result_spread(result, side, figure).median;
        number(is_latency(figure) ? value / 1e3 : value, text, sizeof text);
        printf(" %7s", text);
    }
    if (measure->kind == KIND_DISTINCT) {
        printf("  x%-7.2f x%-7.2f", result_ratio(result, side, 0, FIGURE_RATE).median,
               result_ratio(result, side, 0, FIGURE_CPU).median);
    }
    putchar('\n');
}

/* The bars of the native node, pair by pair. */
static void print_natives(const struct result *result) {
    printf("\n%s: %s; %zu nodes of each kind\n", result->measure->name, result->measure->summary,
           result->nodes);
    printf("  %-10s", "");
    for (enum figure figure = FIGURE_RATE; figure <= FIGURE_SERVERS; figure++)
        printf(" %9s", figure_names[figure].column);
    putchar('\n');
    for (size_t side = 0; side < result->sides; side++) {
        char text[24];
        printf("  %-10s", native_side_name(side));
        for (enum figure figure = FIGURE_RATE; figure <= FIGURE_SERVERS; figure++) {
            double value = result_spread(result, side, figure).median;
            number(is_latency(figure) ? value / 1e3 : value, text, sizeof text);
            printf(" %9s", text);
        }
        putchar('\n');
    }
    for (size_t i = 0; i < NATIVE_RATIOS; i++) {
        const struct native_ratio *ratio = &native_ratios[i];
        const struct spread spread =
            result_ratio(result, NATIVE_NATIVE, ratio->over, ratio->figure);
        printf("  native / %-8s %-22s %6.2f   %.2f to %.2f\n", native_side_name(ratio->over),
               ratio->words, spread.median, spread.least, spread.most);
    }
}

static void print_alone(const struct result *result, bool first) {
    if (first) print_columns(result);
    const bool contended = result->measure->kind == KIND_CONTENDED;
    if (contended) print_line(result, 1);
    for (size_t side = 0; side < result->sides - contended; side++) print_line(result, side);
}

static const char *mode_words(const struct bench *bench) {
    if (bench->mode == REDLOCK_MODE_GUARDED) return "guarded";
    return bench->settings->count == 1 && bench->own ? "single" : "classic";
}

void report_print(const struct bench *bench, const struct result *results, size_t count) {
    printf("redlock %s, %s mode, %s; %lld pairs of %.3g s; %ld processors for all of it\n",
           redlock_version(), mode_words(bench),
           bench->own ? "servers of its own" : "the servers of -N",
           (long long)bench->settings->pairs, (double)bench->settings->seconds_ms / 1e3,
           sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < count; i++) {
        if (results[i].measure->kind == KIND_NATIVE) {
            print_natives(&results[i]);
        } else if (measure_is_pair(results[i].measure)) {
            print_beside(&results[i]);
        } else {
            print_alone(&results[i],
                        i == 0 || results[i - 1].measure->kind != results[i].measure->kind);
        }
    }
}

/* ---- for machines ---------------------------------------------------------------------------- */

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *spread_json(struct spread spread) {
    json_t *object = json_object();
    json_object_set_new(object, "median", real(spread.median));
    json_object_set_new(object, "min", real(spread.least));
    json_object_set_new(object, "max", real(spread.most));
    return object;
}

/* An object that begins with the side's name. */
static json_t *named_side(const struct result *result, size_t side) {
    char name[32];
    measure_side_name(result->measure, side, name, sizeof name);
    return json_pack("{s:s}", "side", name);
}

static json_t *side_json(const struct result *result, size_t side) {
    json_t *object = named_side(result, side);
    for (enum figure figure = FIGURE_RATE; figure < FIGURES; figure++) {
        if (!figure_applies(result->measure, figure)) continue;
        json_object_set_new(object, figure_names[figure].key,
                            spread_json(result_spread(result, side, figure)));
    }
    return object;
}

/* Of the library to the floor, or of each count of resources to the first. */
static json_t *ratios_json(const struct result *result, size_t side) {
    json_t *object = named_side(result, side);
    for (enum figure figure = FIGURE_RATE; figure <= FIGURE_CPU; figure++) {
        json_object_set_new(object, figure_names[figure].key,
                            spread_json(result_ratio(result, side, 0, figure)));
    }
    return object;
}

static json_t *native_ratio_json(const struct result *result, const struct native_ratio *ratio) {
    json_t *object = json_object();
    json_object_set_new(object, "side", json_string(native_side_name(NATIVE_NATIVE)));
    json_object_set_new(object, "over", json_string(native_side_name(ratio->over)));
    json_object_set_new(
        object, figure_names[ratio->figure].key,
        spread_json(result_ratio(result, NATIVE_NATIVE, ratio->over, ratio->figure)));
    return object;
}

static json_t *result_json(const struct result *result) {
    json_t *object = json_object(), *sides = json_array(), *ratios = json_array();
    json_object_set_new(object, "name", json_string(result->measure->name));
    json_object_set_new(object, "summary", json_string(result->measure->summary));
    json_object_set_new(object, "unit", json_string(measure_unit(result->measure)));
    json_object_set_new(object, "nodes", json_integer((json_int_t)result->nodes));
    json_object_set_new(object, "rounds", json_integer((json_int_t)result->rounds));
    for (size_t side = 0; side < result->sides; side++)
        json_array_append_new(sides, side_json(result, side));
    const bool native = result->measure->kind == KIND_NATIVE;
    for (size_t side = 1; side < result->sides && !native; side++)
        json_array_append_new(ratios, ratios_json(result, side));
    for (size_t i = 0; native && i < NATIVE_RATIOS; i++)
        json_array_append_new(ratios, native_ratio_json(result, &native_ratios[i]));
    json_object_set_new(object, "sides", sides);
    json_object_set_new(object, "ratios", ratios);
    return object;
}

void report_json(const struct bench *bench, const struct result *results, size_t count) {
    json_t *object = json_object(), *list = json_array();
    json_object_set_new(object, "version", json_string(redlock_version()));
    json_object_set_new(object, "mode", json_string(mode_words(bench)));
    json_object_set_new(object, "own_servers", json_boolean(bench->own));
    json_object_set_new(object, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(object, "pairs", json_integer(bench->settings->pairs));
    json_object_set_new(object, "seconds", json_real((double)bench->settings->seconds_ms / 1e3));
    json_object_set_new(object, "ttl_ms", json_integer(bench->settings->ttl_ms));
    json_object_set_new(object, "held", json_integer(bench->settings->held));
    json_object_set_new(object, "ttls", json_integer(bench->settings->ttls));
    for (size_t i = 0; i < count; i++) json_array_append_new(list, result_json(&results[i]));
    json_object_set_new(object, "measurements", list);
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(7));
    putchar('\n');
    json_decref(object);
}
