/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The settings of `redlock bench`: defaults, then the command line. It reads no configuration file,
 * because bench loads only servers that were named to it.
 */
#ifndef BENCH_PROGRAM_OPTIONS_H
#define BENCH_PROGRAM_OPTIONS_H

#include <stdbool.h>

#include "frame/options.h"

struct bench_settings {
    char *nodes; /* -N, joined by commas; NULL: servers of its own */
    char *server, *module, *only, *plot;
    int mode; /* enum redlock_mode */
    int64_t ttl_ms, count;
    int64_t pairs, seconds_ms;
    int64_t held, ttls; /* how many locks at once, and with how many different TTLs */
    bool list, json, quiet, verbose, help;
};

void bench_settings_init(struct bench_settings *settings);
void bench_settings_free(struct bench_settings *settings);

enum { BENCH_COMMAND = 1 }; /* the only command in the table */
extern const struct option_table bench_options;

#endif
