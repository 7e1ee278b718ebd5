/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boottime.h"
#include "diagnostics.h"
#include "exit_codes.h"
#include "message.h"

#define AGAIN_AFTER (10000 * MS)

/* Other commands read signals from a descriptor, so that no handler finds something half done. Here
 * the library promises that the process may end at any time: the next run of the command finishes
 * what it finds. */
static void interrupted(int signal) {
    static const char text[] = "redlock: interrupted; nothing is broken: run it again to finish\n";
    end_passing_from_handler();
    diagnostics_write_from_handler(text, sizeof text - 1);
    _exit(EXIT_BY_SIGNAL + signal);
}

/* A command that only looks ends by the signal, but on a line of its own. */
static void stopped(int signal) {
    end_passing_from_handler();
    raise(signal);
}

static void handle_signals(void (*handler)(int)) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old, action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
        /* nohup(1) ignores HUP on purpose. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(signals[i], &action, NULL);
    }
}

void progress_begin(struct progress *progress, bool verbose, bool changes) {
    *progress = (struct progress){.verbose = verbose};
    handle_signals(changes ? interrupted : stopped);
}

void progress_report(void *context, const char *text, int64_t left_ms) {
    struct progress *progress = context;
    char left[48] = "";
    if (left_ms >= 0) snprintf(left, sizeof left, ", %" PRId64 " s left", (left_ms + 999) / 1000);
    if (isatty(STDERR_FILENO)) {
        report_passing("%s%s", text, left);
        return;
    }
    bool is_new = strncmp(progress->last, text, sizeof progress->last - 1) != 0;
    if (!progress->verbose || (!is_new && now_ns() - progress->reported_at < AGAIN_AFTER)) return;
    snprintf(progress->last, sizeof progress->last, "%s", text);
    progress->reported_at = now_ns();
    complain("%s%s", text, left);
}

void progress_end(void) {
    end_passing();
    handle_signals(SIG_DFL);
}
