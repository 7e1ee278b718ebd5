/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top: nodes and locks, live or as text. A program of its own (cli/process/sibling.h).
 */
#include <stdio.h>

#include "explain/votes.h"
#include "frame/commands.h"
#include "frame/program.h"
#include "live.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "text.h"
#include "words.h"

enum { ROWS_MAX = 1000 }; /* a screen's worth many times over; a look asks the nodes for each */

static int status_of(struct top_observer *observer, int result) {
    if (result == REDLOCK_OK) return top_lacks_sight(&observer->model) ? EXIT_CONFIG : EXIT_OK;
    if (result != REDLOCK_NO_QUORUM) {
        complain("%s", redlock_result_text(result));
        return EXIT_SYSTEM;
    }
    return session_shut_out(&observer->session, NULL) ? EXIT_CONFIG : EXIT_NO_QUORUM;
}

static int print(struct top_observer *observer, int result) {
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return result;
    if (!observer->session.settings->json)
        top_print(observer);
    else if (!top_print_json(observer))
        return REDLOCK_NO_MEMORY;
    fflush(stdout);
    return result;
}

static int look_once(struct top_observer *observer) {
    session_connect(&observer->session);
    return status_of(observer, print(observer, top_look(observer, 0)));
}

static int stream(struct top_observer *observer, int64_t interval_ms) {
    int result = REDLOCK_OK;
    session_connect(&observer->session);
    while (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM) {
        const int64_t began = now_ns();
        result = print(observer, top_look(observer, interval_ms));
        if (ferror(stdout)) return EXIT_OK; /* main() reports it */
        session_live_until(&observer->session, began + interval_ms * MS);
    }
    return status_of(observer, result);
}

static int command_top(struct settings *settings, int argc, char **argv) {
    if (argc > 0) {
        complain("top takes no operands, but got '%.60s'; 'redlock show %.60s' shows one lock",
                 argv[0], argv[0]);
        return EXIT_USAGE_ERROR;
    }
    static struct top_observer observer;
    const int64_t interval_ms = settings->look.interval_ms;
    settings->only_looks = true;
    int status = session_open(&observer.session, settings);
    if (status != 0) {
        refuse_any(settings, status, 0, NULL);
        return status;
    }
    top_observer_init(&observer, ROWS_MAX);
    status = settings->once   ? look_once(&observer)
             : settings->json ? stream(&observer, interval_ms)
                              : top_live(&observer, interval_ms);
    top_observer_free(&observer);
    return status;
}

static int dispatch(int argc, char **argv) {
    static const struct command command = {"top",
                                           COMMAND_TOP,
                                           "[options]",
                                           "Watch nodes, locks and waiters as they change.",
                                           "redlock top --once",
                                           false,
                                           command_top,
                                           refuse_any};
    return program_run(&command, argc, argv);
}

int main(int argc, char **argv) { return program_main(dispatch, argc, argv); }
