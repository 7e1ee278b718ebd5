/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock.h>

void bench_settings_init(struct bench_settings *settings) {
    *settings = (struct bench_settings){.mode = REDLOCK_MODE_CLASSIC,
                                        .ttl_ms = 30000,
                                        .count = 5,
                                        .pairs = 7,
                                        .seconds_ms = 250,
                                        .held = 100000,
                                        .ttls = 1};
}

void bench_settings_free(struct bench_settings *settings) {
    char *owned[] = {settings->nodes, settings->server, settings->module, settings->only,
                     settings->plot};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

#define SETTER(name) OPTION_SETTER(bench_settings, name)
#define SETTER_TEXT(name, field) OPTION_SETTER_TEXT(bench_settings, name, field)
#define SETTER_FLAG(name, field) OPTION_SETTER_FLAG(bench_settings, name, field, true)

SETTER(set_nodes) { return option_list(&s->nodes, value, error, size); }
/* Single is for one node: the library has no mode of that name. */
SETTER(set_mode) {
    const bool single = strcmp(value, "single") == 0, guarded = strcmp(value, "guarded") == 0;
    if (!single && !guarded && strcmp(value, "classic") != 0) {
        snprintf(error, size, "'%.60s' is neither single, classic nor guarded", value);
        return -1;
    }
    s->mode = guarded ? REDLOCK_MODE_GUARDED : REDLOCK_MODE_CLASSIC;
    if (single) s->count = 1;
    return 0;
}
SETTER(set_ttl) { return option_ttl(&s->ttl_ms, value, error, size); }
SETTER(set_count) { return option_number(&s->count, value, 1, REDLOCK_NODES_MAX, error, size); }
SETTER_TEXT(set_server, server)
SETTER_TEXT(set_module, module)
SETTER_TEXT(set_only, only)
SETTER_FLAG(set_list, list)
SETTER(set_pairs) { return option_number(&s->pairs, value, 1, 99, error, size); }
SETTER(set_seconds) {
    return option_duration(&s->seconds_ms, value, 10, 600000,
                           "a measurement takes from 10ms to 10m", error, size);
}
SETTER(set_held) { return option_number(&s->held, value, 1, 10000000, error, size); }
SETTER(set_ttls) { return option_number(&s->ttls, value, 1, 1000000, error, size); }
SETTER_TEXT(set_plot, plot)
SETTER_FLAG(set_json, json)
SETTER_FLAG(set_quiet, quiet)
SETTER_FLAG(set_verbose, verbose)
SETTER_FLAG(set_help, help)

#define OPTION(name, letter, argument, set, help)                                                  \
    { name, letter, argument, BENCH_COMMAND, set, help }
static const struct option_entry entries[] = {
    OPTION("nodes", 'N', "URL[,URL...]", set_nodes,
           "measure on these nodes, not on servers of its own"),
    OPTION("mode", 0, "MODE", set_mode, "single, classic or guarded (classic)"),
    OPTION("ttl", 't', "DURATION", set_ttl, "time to live of the lock (30s)"),
    OPTION("count", 'n', "N", set_count, "how many servers (5)"),
    OPTION("server", 0, "FILE", set_server,
           "the server program (redis-server, else valkey-server)"),
    OPTION("module", 0, "FILE", set_module, "native: this module, not the installed one"),
    OPTION("only", 0, "NAME[,NAME...]", set_only, "measure only these"),
    OPTION("list", 0, NULL, set_list, "list the measurements"),
    OPTION("pairs", 0, "N", set_pairs, "how often, floor and library in turns (7)"),
    OPTION("seconds", 0, "S", set_seconds, "how long each time (0.25)"),
    OPTION("held", 0, "N", set_held, "how many locks are held at once (100000)"),
    OPTION("ttls", 0, "N", set_ttls,
           "held: how many different TTLs they have, --ttl and a little more (1)"),
    OPTION("plot", 0, "FILE", set_plot, "draw the latencies there, as SVG"),
    OPTION("json", 'j', NULL, set_json, "print results as JSON"),
    OPTION("quiet", 'q', NULL, set_quiet, "do not report contention"),
    OPTION("verbose", 'v', NULL, set_verbose, "report what happens"),
    OPTION("help", 'h', NULL, set_help, "this text"),
};
const struct option_table bench_options = {entries, sizeof entries / sizeof entries[0]};
