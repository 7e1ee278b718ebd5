/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock serve: the gateway of serve/, with nodes and limits as the command line says. A program
 * of its own (sibling.h).
 */
#include "../serve/serve.h"

#include <redlock/admin.h>

#include "explain/votes.h"
#include "frame/program.h"
#include "frame/session.h"
#include "look/watcher.h"
#include "process/diagnostics.h"
#include "process/exit_codes.h"
#include "process/message.h"

/* Once a majority votes, the quorum is known without a wait. */
static bool find_quorum_status(struct session *session, size_t voting,
                               struct redlock_quorum_status *quorum) {
    struct redlock_member members[REDLOCK_NODES_MAX];
    quorum->size = sizeof *quorum;
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    return session_mode(session) == REDLOCK_MODE_GUARDED &&
           voting >= quorum_of(redlock_client_nodes(session->client)) &&
           redlock_quorum_peek(session->client, quorum, members, REDLOCK_NODES_MAX) == REDLOCK_OK;
}

static void report_ready(void *context, const char *addresses) {
    struct session *session = context;
    const size_t nodes = redlock_client_nodes(session->client);
    struct redlock_quorum_status quorum = {0};
    size_t voting = 0;
    if (session->settings->quiet) return;
    for (size_t i = 0; i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        voting += status.verdict == REDLOCK_VERDICT_GRANTED;
    }
    const bool known = find_quorum_status(session, voting, &quorum);
    complain("serving on %s: %s mode%s%s, %zu of %zu nodes vote", addresses,
             mode_name(session_mode(session)), known ? ", quorum " : "", quorum.id, voting, nodes);
    session_warn(session);
}

static int serve(struct session *session, const struct http_pages *pages) {
    const struct settings *settings = session->settings;
    const struct serve_options options = {
        .client = session->client,
        .ttl_ms = settings->ttl_ms,
        .connect_timeout_ms = settings->client.connect_timeout_ms,
        .listen = settings->serve.listen,
        .socket_mode = (unsigned)settings->serve.socket_mode,
        .password_file = settings->serve.password_file,
        .metrics = settings->serve.metrics,
        .pages = pages,
        .connections_max = (size_t)settings->serve.connections,
        .client_bytes_max = (size_t)settings->serve.client_memory_mib << 20,
        .lock_bytes_max = (size_t)settings->serve.lock_memory_mib << 20,
        .scripts = (enum serve_scripts)settings->serve.scripts,
        .busy_poll = settings->serve.busy_poll,
        .verbose = settings->verbose,
        .ready = report_ready,
        .ready_context = session,
        .say = complain};
    diagnostics_never_wait();
    switch (serve_run(&options)) {
    case SERVE_OK: return EXIT_OK;
    case SERVE_CONFIG: return EXIT_CONFIG;
    case SERVE_SYSTEM: break;
    }
    return EXIT_SYSTEM;
}

/* The page looks at the nodes by a client and a thread of its own: clients of the gateway do not
 * notice. */
static int serve_with_page(struct session *session) {
    struct watcher *watcher = NULL;
    int status = watcher_open(session->settings, &watcher);
    if (status != 0) return status;
    const struct http_pages pages = {watcher, watcher_begin, watcher_page, watcher_end};
    status = serve(session, &pages);
    watcher_close(watcher);
    return status;
}

static int command_serve(struct settings *settings, int argc, char **argv) {
    if (argc > 0) {
        complain("redlock serve takes no operand, but got '%.60s'; try 'redlock serve --help'",
                 argv[0]);
        return EXIT_USAGE_ERROR;
    }
    if (settings->web.page && settings->serve.metrics == NULL) {
        complain("the page is at the address of the metrics: add --metrics 127.0.0.1:16391");
        return EXIT_USAGE_ERROR;
    }
    struct session session;
    int status = session_open(&session, settings);
    if (status != 0) return status;
    status = settings->web.page ? serve_with_page(&session) : serve(&session, NULL);
    session_close(&session);
    return status;
}

static int dispatch(int argc, char **argv) {
    static const struct command command = {
        "serve",
        COMMAND_SERVE,
        "[options]",
        "Run a Redis-protocol gateway for locks: any client, any language.",
        "redlock serve --listen 127.0.0.1:6390",
        false,
        command_serve,
        NULL};
    return program_run(&command, argc, argv);
}

int main(int argc, char **argv) { return program_main(dispatch, argc, argv); }
