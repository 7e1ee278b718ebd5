/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock bench: a program of its own (cli/process/sibling.h).
 */
#include <jansson.h>
#include <stdio.h>

#include "bench.h"
#include "frame/arguments.h"
#include "frame/program.h"
#include "process/exit_codes.h"
#include "process/message.h"

static const struct command command = {
    "bench",
    BENCH_COMMAND,
    "[options]",
    "Measure what locks cost, and compare with the least they could cost.",
    "redlock bench --only blocking",
    false,
    NULL,
    NULL};

/* With --json, as every command whose start is refused. */
static void report_refusal(int status) {
    json_t *object =
        json_pack("{s:s,s:s,s:i}", "result", "system", "reason", last_complaint(), "exit", status);
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
}

static int run(const struct bench_settings *settings, int argc, char **argv) {
    const int status = program_check_descriptors();
    if (status == EXIT_OK) return bench_main(settings, argc, argv);
    if (settings->json) report_refusal(status);
    return status;
}

static int dispatch(int argc, char **argv) {
    struct bench_settings settings;
    bench_settings_init(&settings);
    const int first = arguments_read(&command, &bench_options, &settings, argc, argv);
    int status = first < 0 ? EXIT_USAGE_ERROR : EXIT_OK;
    if (status == EXIT_OK && settings.help) {
        arguments_help(&command, &bench_options, NULL);
    } else if (status == EXIT_OK) {
        status = run(&settings, argc - first, argv + first);
    }
    bench_settings_free(&settings);
    return status;
}

int main(int argc, char **argv) { return program_main(dispatch, argc, argv); }
