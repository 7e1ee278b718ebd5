/* SPDX-License-Identifier: BSD-2-Clause
 *
 * wait: until resources are free. It takes nothing, so the answer is a hint.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/votes.h"
#include "explain/waiting.h"
#include "frame/commands.h"
#include "frame/session.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/progress.h"

#define SLICE_MS 1000 /* between two looks at what this command reports */
#define FIRST_SLICE_MS 400
/* As in run. */
#define REPORT_ANYBODY_AFTER (2000 * MS)
#define REPORT_AFTER (500 * MS)
#define REPORT_AGAIN (10000 * MS)

struct wait {
    struct session *session;
    int64_t begun_ns, deadline_ns, report_at;
    struct wait_holder holder;
    bool unseen; /* this user may not look: `views` have the nodes' refusals */
    struct redlock_view views[REDLOCK_NODES_MAX];
};

static void show_line(struct wait *wait, const char *resource) {
    struct redlock_view views[REDLOCK_NODES_MAX];
    struct session *session = wait->session;
    if (!wait_line_may(session->settings, getpgrp())) {
        forget_passing();
        return;
    }
    const int result =
        redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX);
    if (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM)
        wait_holder_set(&wait->holder, views, redlock_client_nodes(session->client));
    wait_line_write(&wait->holder, resource, -1, wait->begun_ns);
}

static void report(struct wait *wait, const char *resource) {
    if (now_ns() < wait->report_at) return;
    wait->report_at = now_ns() + REPORT_AGAIN;
    const bool reported = report_waiting(wait->session, NULL, resource, WAIT_SETS_LIMIT);
    if (reported && !wait->session->settings->verbose) wait->report_at = NEVER;
}

/* This user may not look, and waiting does not change that. */
static bool cannot_look(struct wait *wait, const char *resource) {
    const int result = redlock_peek(wait->session->client, resource, strlen(resource), wait->views,
                                    REDLOCK_NODES_MAX);
    int verdicts[REDLOCK_NODES_MAX];
    verdicts_of(wait->session, wait->views, verdicts);
    wait->unseen = result == REDLOCK_NO_QUORUM && session_reads_refused(wait->session, verdicts);
    return wait->unseen;
}

/* OK, or why it is not free in time. */
static int await_one(struct wait *wait, const char *resource, bool *waited) {
    const size_t bytes = strlen(resource);
    int result = redlock_await_free(wait->session->client, resource, bytes, 0);
    if (result == REDLOCK_NO_QUORUM && cannot_look(wait, resource)) return result;
    for (int64_t slice_ms = FIRST_SLICE_MS; result == REDLOCK_HELD || result == REDLOCK_NO_QUORUM;
         slice_ms = SLICE_MS) {
        const int64_t left_ms =
            wait->deadline_ns == NEVER ? SLICE_MS : (wait->deadline_ns - now_ns() + MS - 1) / MS;
        *waited = true;
        if (left_ms <= 0 || session_waits_in_vain(wait->session, NULL)) break;
        result = redlock_await_free(wait->session->client, resource, bytes,
                                    left_ms < slice_ms ? left_ms : slice_ms);
        if (result == REDLOCK_OK) break;
        if (result == REDLOCK_NO_QUORUM && cannot_look(wait, resource)) break;
        show_line(wait, resource);
        report(wait, resource);
    }
    return result;
}

/* Until each of them was free in one pass over all. */
static int await_all(struct wait *wait, int count, char **resources, const char **failed) {
    int result = REDLOCK_OK;
    for (bool waited = true; waited && result == REDLOCK_OK;) {
        waited = false;
        for (int i = 0; i < count && result == REDLOCK_OK; i++) {
            *failed = resources[i];
            result = await_one(wait, resources[i], &waited);
        }
        if (count == 1) break;
    }
    return result;
}

/* Of `resources`, `failed` (NULL: none) is the one that the reason is about. */
static int failure(struct session *session, int count, char **resources, const char *failed,
                   int status) {
    if (!session->settings->json) return status;
    json_t *object = failure_json(session, NULL, failed, status), *name;
    set_resources(object, count, resources);
    if ((name = json_object_get(object, "resource")) != NULL) {
        json_object_set(object, "failed", name);
        json_object_del(object, "resource");
    }
    json_print(object);
    return status;
}

static int wait_with(struct session *session, int count, char **resources, int64_t begun) {
    const struct settings *settings = session->settings;
    const bool endless =
        settings->wait_ms == WAIT_UNSET || settings->wait_ms == REDLOCK_WAIT_FOREVER;
    struct wait wait = {.session = session,
                        .begun_ns = begun,
                        .deadline_ns = endless ? NEVER : begun + settings->wait_ms * MS,
                        .report_at = settings->quiet     ? NEVER
                                     : settings->verbose ? begun + REPORT_AFTER
                                                         : begun + REPORT_ANYBODY_AFTER};
    struct progress progress;
    const char *failed = resources[0];
    progress_begin(&progress, settings->verbose, false); /* ^C erases the line */
    const int result = await_all(&wait, count, resources, &failed);
    progress_end();
    if (result != REDLOCK_OK)
        return failure(session, count, resources, failed,
                       wait.unseen && result == REDLOCK_NO_QUORUM
                           ? session_unseen(session, wait.views, failed, result)
                           : session_failure(session, NULL, failed, result));
    if (settings->json) {
        json_t *object = json_pack("{s:s}", "result", "ok");
        set_resources(object, count, resources);
        json_print(object);
    }
    return EXIT_OK;
}

int command_wait(struct settings *settings, int argc, char **argv) {
    struct session session = {.settings = settings};
    int status = EXIT_OK;
    if (argc == 0) {
        complain("redlock wait needs a resource; try 'redlock wait --help'");
        return failure(&session, argc, argv, NULL, EXIT_USAGE_ERROR);
    }
    for (int i = 0; i < argc; i++) {
        if ((status = resource_check(settings, argv[i])) != 0)
            return failure(&session, argc, argv, argv[i], status);
    }
    settings->only_looks = true;
    if ((status = session_open_named(&session, settings, argc, argv)) != 0)
        return failure(&session, argc, argv, NULL, status);
    const int64_t begun = now_ns(); /* the time to connect is part of the wait */
    session_connect(&session);
    status = session_check(&session, argv[0]);
    status = status != 0 ? failure(&session, argc, argv, NULL, status)
                         : wait_with(&session, argc, argv, begun);
    session_close(&session);
    return status;
}
