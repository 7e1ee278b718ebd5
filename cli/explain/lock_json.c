/* SPDX-License-Identifier: BSD-2-Clause */
#include "lock_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frame/commands.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "votes.h"

/* A failure that is not a result of the library. */
static const char *status_name(int status) {
    switch (status) {
    case EXIT_USAGE_ERROR: return "usage";
    case EXIT_NO_QUORUM: return "no_quorum";
    case EXIT_HELD: return "conflict";
    case EXIT_CONFIG: return "config";
    case EXIT_LOST: return "lost";
    default: return status > EXIT_BY_SIGNAL ? "cancelled" : "system";
    }
}

static json_t *nodes_json(struct session *session, struct redlock_lock *lock, bool failed) {
    json_t *nodes = json_array();
    struct redlock_why_report why;
    int verdicts[REDLOCK_NODES_MAX] = {0};
    const int *kept = session->failed.verdicts;
    if (lock != NULL) redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX);
    session_why(session, lock, kept, session->failed.result, &why);
    for (size_t i = 0; i < why.nodes; i++) {
        const struct redlock_why_node *part = &why.node[i];
        const int verdict = kept != NULL ? kept[i] : failed ? part->verdict : verdicts[i];
        json_t *node =
            json_pack("{s:s,s:s}", "url", node_url(session, i), "verdict", verdict_name(verdict));
        if (failed && verdict != REDLOCK_VERDICT_NONE && verdict != REDLOCK_VERDICT_GRANTED)
            json_object_set_new(
                node, "reason", /* kept: the node may be in another state since */
                json_string(part->verdict == verdict ? part->text : redlock_verdict_text(verdict)));
        json_array_append_new(nodes, node);
    }
    return nodes;
}

json_t *bytes_json(const void *bytes, size_t count) {
    json_t *text = json_stringn(bytes, count);
    if (text != NULL) return text;
    const size_t size = count * 4 + 1;
    char *escaped = malloc(size);
    if (escaped == NULL) return NULL;
    text = json_string(printable(escaped, size, bytes, count));
    free(escaped);
    return text;
}

static json_t *text_json(const char *text) { return bytes_json(text, strlen(text)); }

static void set_name(json_t *object, const char *resource) {
    json_object_set_new(object, "resource", text_json(resource));
}

json_t *lock_json(struct session *session, struct redlock_lock *lock, const char *resource) {
    json_t *object = json_object();
    const int64_t fence = lock != NULL ? redlock_fence(lock) : 0;
    set_name(object, resource);
    json_object_set_new(object, "result", json_string("ok"));
    if (fence > 0) json_object_set_new(object, "fence", json_integer(fence));
    const unsigned slot = lock != NULL ? redlock_slot(lock) : 0;
    if (slot > 0) {
        char *held = slot_name(resource, slot);
        json_object_set_new(object, "slot", json_integer(slot));
        json_object_set_new(object, "slots", json_integer(session->settings->slots));
        if (held != NULL) json_object_set_new(object, "slot_resource", text_json(held));
        free(held);
    }
    json_object_set_new(object, "nodes", nodes_json(session, lock, false));
    return object;
}

json_t *failure_json(struct session *session, struct redlock_lock *lock, const char *resource,
                     int status) {
    json_t *object = json_object();
    const int result = session->failed.result;
    const bool known = result != REDLOCK_OK;
    if (resource != NULL) set_name(object, resource);
    json_object_set_new(object, "result",
                        json_string(known ? result_name(result) : status_name(status)));
    json_object_set_new(object, "reason",
                        json_string(known                     ? session->failed.reason
                                    : status > EXIT_BY_SIGNAL ? "interrupted by a signal"
                                                              : last_complaint()));
    json_object_set_new(object, "exit", json_integer(status));
    if (session->failed.owner[0] != '\0')
        json_object_set_new(object, "owner", json_string(session->failed.owner));
    if (session->failed.remaining_ms >= 0 && result == REDLOCK_HELD)
        json_object_set_new(object, "remaining_ms", json_integer(session->failed.remaining_ms));
    if (session->client != NULL)
        json_object_set_new(object, "nodes", nodes_json(session, lock, true));
    return object;
}

json_t *command_failure_json(struct session *session, const char *result, int status) {
    json_t *object = failure_json(session, NULL, NULL, status);
    if (result != NULL) json_object_set_new(object, "result", json_string(result));
    return object;
}

void set_resources(json_t *object, int count, char **resources) {
    json_t *names = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(names, text_json(resources[i]));
    json_object_set_new(object, "resources", names);
}

json_t *time_json(void) {
    struct timespec now;
    struct tm utc;
    char text[48], whole[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(whole, sizeof whole, "%FT%T", &utc);
    snprintf(text, sizeof text, "%s.%03ldZ", whole, now.tv_nsec / 1000000);
    return json_string(text);
}

int json_print(json_t *object) {
    int result = json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    return result;
}

void refuse_wait(const struct settings *settings, int status, int argc, char **argv) {
    struct session none = {.settings = settings};
    if (!settings->json) return;
    json_t *object = command_failure_json(&none, NULL, status);
    set_resources(object, argc, argv);
    json_print(object);
}

void refuse_lock(const struct settings *settings, int status, int argc, char **argv) {
    struct session none = {.settings = settings};
    if (settings->json) json_print(failure_json(&none, NULL, argc > 0 ? argv[0] : NULL, status));
}

void refuse_any(const struct settings *settings, int status, int argc, char **argv) {
    (void)argc;
    (void)argv;
    refuse_lock(settings, status, 0, NULL);
}
