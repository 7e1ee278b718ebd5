/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock exporter: what looks at the nodes find, as metrics for Prometheus. A program of its own
 * (process/sibling.h).
 */
#include <signal.h>

#include <event2/event.h>

#include "frame/program.h"
#include "http/address.h"
#include "http/notify.h"
#include "look/watcher.h"
#include "process/diagnostics.h"
#include "process/exit_codes.h"
#include "process/message.h"

/* Outside of the ports that the list of Prometheus' exporters allocates: those from 9100 to 9999
 * are all taken. */
#define LISTEN "127.0.0.1:16390"

static void on_signal(evutil_socket_t number, short what, void *base) {
    (void)number;
    (void)what;
    event_base_loopbreak(base);
}

static void on_failure(void *context, const char *text) {
    (void)context;
    complain("%s", text);
}

static int out_of_memory(void) {
    complain("the event loop cannot run: out of memory");
    return EXIT_SYSTEM;
}

static int serve_pages(struct http *http, const struct settings *settings) {
    const char *name = settings->web.listen != NULL ? settings->web.listen : LISTEN;
    char text[ADDRESS_TEXT_BYTES];
    const char *error = http_open(http, name);
    if (error != NULL) {
        complain("--listen %s: %s", name, error);
        /* Another process may end, an address may come up: a service manager tries again. */
        return http->is_taken ? EXIT_SYSTEM : EXIT_CONFIG;
    }
    if (!settings->quiet)
        complain("metrics on http://%s/metrics", address_of(http_socket(http), text, sizeof text));
    notify_manager("READY=1");
    return event_base_dispatch(http->base) < 0 ? out_of_memory() : EXIT_OK;
}

static int run(struct event_base *base, struct watcher *watcher, const struct settings *settings) {
    static const int numbers[] = {SIGTERM, SIGINT};
    struct event *signals[2];
    struct http http = {.base = base, .fails = on_failure};
    http.pages[0] = (struct http_pages){watcher, watcher_begin, watcher_metrics, watcher_end};
    if (settings->web.page) http.pages[1] = (struct http_pages){watcher, NULL, watcher_page, NULL};
    int status = EXIT_OK;
    for (int i = 0; i < 2; i++) {
        signals[i] = evsignal_new(base, numbers[i], on_signal, base);
        if (signals[i] == NULL || event_add(signals[i], NULL) != 0) status = EXIT_SYSTEM;
    }
    status = status == EXIT_OK ? serve_pages(&http, settings) : out_of_memory();
    notify_manager("STOPPING=1");
    http_close(&http);
    for (int i = 0; i < 2; i++)
        if (signals[i] != NULL) event_free(signals[i]);
    return status;
}

static int command_exporter(struct settings *settings, int argc, char **argv) {
    if (argc > 0) {
        complain(
            "redlock exporter takes no operand, but got '%.60s'; try 'redlock exporter --help'",
            argv[0]);
        return EXIT_USAGE_ERROR;
    }
    struct watcher *watcher = NULL;
    int status = watcher_open(settings, &watcher);
    if (status != 0) return status;
    diagnostics_never_wait();
    signal(SIGPIPE, SIG_IGN);
    struct event_base *base = event_base_new();
    status = base != NULL ? run(base, watcher, settings) : EXIT_SYSTEM;
    if (base != NULL) event_base_free(base);
    watcher_close(watcher);
    return status;
}

static int dispatch(int argc, char **argv) {
    static const struct command command = {
        "exporter",
        COMMAND_EXPORTER,
        "[options]",
        "Serve metrics of the nodes and their locks to Prometheus.",
        "redlock exporter --listen 127.0.0.1:16390",
        false,
        command_exporter,
        NULL};
    return program_run(&command, argc, argv);
}

int main(int argc, char **argv) { return program_main(dispatch, argc, argv); }
