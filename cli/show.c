/* SPDX-License-Identifier: BSD-2-Clause
 *
 * show: each node's holder and the decision of the majority, for our locks and for any `SET key
 * token NX PX ttl`.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>

#include "commands.h"
#include "duration.h"
#include "exit_codes.h"
#include "majority.h"
#include "message.h"
#include "session.h"

#define HEAD_BYTES 8

/* A token proves ownership of a lock: it is never printed whole unless the user asks, and of a
 * short one less than half. */
static char *token_text(const struct redlock_view *view, bool whole, char *out, size_t size) {
    size_t shown = view->token_bytes;
    if (!whole) shown = shown / 2 < HEAD_BYTES ? shown / 2 : HEAD_BYTES;
    printable(out, size, view->token, shown);
    size_t used = strlen(out);
    if (!whole || view->token_truncated) snprintf(out + used, size - used, "…");
    return out;
}

static char *holder_text(const struct redlock_view *view, bool whole, char *out, size_t size) {
    char owner[REDLOCK_TOKEN_BYTES_MAX * 4], token[REDLOCK_TOKEN_BYTES_MAX * 4 + 8];
    owner_text(view, owner, sizeof owner);
    token_text(view, whole, token, sizeof token);
    if (owner[0] != '\0') {
        snprintf(out, size, "%s, token %s", owner, token);
    } else {
        snprintf(out, size, "token %s", token);
    }
    return out;
}

static char *end_text(int64_t remaining_ms, char *out, size_t size) {
    char text[64];
    if (remaining_ms < 0) {
        snprintf(out, size, "never ends: the key has no TTL");
    } else {
        snprintf(out, size, "ends in %s", duration_text(text, sizeof text, remaining_ms));
    }
    return out;
}

static void print_node(struct session *session, size_t node, const struct redlock_view *view) {
    char holder[REDLOCK_TOKEN_BYTES_MAX * 9], end[96];
    const char *url = node_url(session, node);
    switch (view->verdict) {
    case REDLOCK_VERDICT_GRANTED:
        printf("  %s  %s, %s\n", url,
               holder_text(view, session->settings->tokens, holder, sizeof holder),
               end_text(view->remaining_ms, end, sizeof end));
        break;
    case REDLOCK_VERDICT_ABSENT: printf("  %s  free\n", url); break;
    default: printf("  %s  %s\n", url, redlock_verdict_text(view->verdict)); break;
    }
}

static void print_majority(struct session *session, const char *name,
                           const struct redlock_view *views, size_t count) {
    struct majority majority = majority_of(views, count);
    char holder[REDLOCK_TOKEN_BYTES_MAX * 9], end[96];
    switch (majority.verdict) {
    case MAJORITY_HELD:
        printf(
            "%s: held by %s, %s (%zu of %zu nodes)\n", name,
            holder_text(&views[majority.holder], session->settings->tokens, holder, sizeof holder),
            end_text(majority.remaining_ms, end, sizeof end), majority.votes, count);
        break;
    case MAJORITY_FREE: printf("%s: free\n", name); break;
    case MAJORITY_SPLIT: printf("%s: split: no majority for any holder\n", name); break;
    case MAJORITY_FOREIGN: printf("%s: " FOREIGN_TEXT "\n", name); break;
    case MAJORITY_UNKNOWN:
        printf("%s: unknown: %zu of %zu nodes answered, %zu are needed\n", name, majority.answered,
               count, quorum_of(count));
        break;
    }
}

static json_t *bytes_json(const void *bytes, size_t count) {
    json_t *text = json_stringn(bytes, count);
    if (text != NULL) return text;
    size_t size = count * 4 + 1;
    char *escaped = malloc(size);
    if (escaped == NULL) return json_null();
    text = json_string(printable(escaped, size, bytes, count));
    free(escaped);
    return text;
}

static json_t *view_json(struct session *session, const struct redlock_view *view) {
    json_t *object = json_object();
    json_object_set_new(object, "verdict",
                        json_string(view->verdict == REDLOCK_VERDICT_GRANTED
                                        ? "held"
                                        : verdict_name(view->verdict)));
    if (view->verdict != REDLOCK_VERDICT_GRANTED) return object;
    char text[REDLOCK_TOKEN_BYTES_MAX * 4 + 8];
    owner_text(view, text, sizeof text);
    if (text[0] != '\0') json_object_set_new(object, "owner", json_string(text));
    json_object_set_new(
        object, "token",
        json_string(token_text(view, session->settings->tokens, text, sizeof text)));
    json_object_set_new(object, "remaining_ms",
                        view->remaining_ms < 0 ? json_null() : json_integer(view->remaining_ms));
    return object;
}

static json_t *resource_json(struct session *session, const char *resource, size_t bytes,
                             const struct redlock_view *views, size_t count) {
    static const char *const names[] = {"held", "free", "split", "unknown", "foreign"};
    struct majority majority = majority_of(views, count);
    json_t *object = json_object(), *nodes = json_array();
    json_object_set_new(object, "resource", bytes_json(resource, bytes));
    json_object_set_new(object, "verdict", json_string(names[majority.verdict]));
    if (majority.verdict == MAJORITY_HELD) {
        json_t *holder = view_json(session, &views[majority.holder]);
        json_object_set_new(holder, "remaining_ms",
                            majority.remaining_ms < 0 ? json_null()
                                                      : json_integer(majority.remaining_ms));
        json_object_del(holder, "verdict");
        json_object_update(object, holder);
        json_decref(holder);
    }
    for (size_t i = 0; i < count; i++) {
        json_t *node = view_json(session, &views[i]);
        json_object_set_new(node, "url", json_string(node_url(session, i)));
        json_array_append_new(nodes, node);
    }
    json_object_set_new(object, "nodes", nodes);
    return object;
}

/* A key on a node that does not vote is not a lock. Returns how many other nodes reported their
 * key. */
static size_t count_voters(struct session *session, struct redlock_view *views, size_t count) {
    size_t reported = 0;
    for (size_t i = 0; i < count; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        bool votes = redlock_client_node(session->client, i, &status) != REDLOCK_OK ||
                     status.verdict == REDLOCK_VERDICT_GRANTED;
        if (!votes) views[i].verdict = status.verdict;
        reported += views[i].verdict == REDLOCK_VERDICT_GRANTED ||
                    views[i].verdict == REDLOCK_VERDICT_ABSENT ||
                    views[i].verdict == REDLOCK_VERDICT_WRONGTYPE;
    }
    return reported;
}

/* A value of another form is most likely a cached string, unless a node did not answer. */
static bool is_lock(const struct redlock_view *views, size_t count) {
    size_t keys = 0;
    for (size_t i = 0; i < count; i++) {
        if (views[i].verdict != REDLOCK_VERDICT_GRANTED) continue;
        if (is_token(&views[i])) return true;
        keys++;
    }
    return keys == 0;
}

/* `hidden`, if not NULL, counts keys that are not locks, which are not shown then. */
static int show_one(struct session *session, const char *resource, size_t bytes, json_t *all,
                    size_t *hidden) {
    const size_t count = redlock_client_nodes(session->client);
    struct redlock_view *views = calloc(count, sizeof *views);
    if (views == NULL) return EXIT_SYSTEM;
    int result = redlock_peek(session->client, resource, bytes, views, count);
    if (result == REDLOCK_OK && session->mode == REDLOCK_MODE_GUARDED &&
        count_voters(session, views, count) < quorum_of(count)) {
        result = REDLOCK_NO_QUORUM;
    }
    int status = EXIT_OK;
    if (hidden != NULL && !is_lock(views, count)) {
        ++*hidden;
        free(views);
        return EXIT_OK;
    }
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) {
        status = session_unseen(session, views, resource, result);
    } else if (all != NULL) {
        json_array_append_new(all, resource_json(session, resource, bytes, views, count));
    } else {
        char name[1024];
        print_majority(session, printable(name, sizeof name, resource, bytes), views, count);
        for (size_t i = 0; i < count; i++) print_node(session, i, &views[i]);
    }
    if (result == REDLOCK_NO_QUORUM) {
        fflush(stdout);
        status = session_unseen(session, views, resource, result);
    }
    free(views);
    return status;
}

/* ---- all there is -------------------------------------------------------------------- */

enum { LOCKS_MAX = 1000000 };

struct found {
    char **names;
    size_t *bytes;
    size_t count, room;
    bool failed, cut;
};

static bool grow(struct found *found) {
    if (found->count < found->room) return true;
    size_t room = found->room == 0 ? 64 : found->room * 2;
    char **names = realloc(found->names, room * sizeof *names);
    if (names == NULL) return false;
    found->names = names;
    size_t *bytes = realloc(found->bytes, room * sizeof *bytes);
    if (bytes == NULL) return false;
    found->bytes = bytes;
    found->room = room;
    return true;
}

static int compare_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

/* Kept in order, each once: every node reports its own keys. */
static void add_found(void *context, const void *resource, size_t bytes) {
    struct found *found = context;
    size_t low = 0, high = found->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_bytes(resource, bytes, found->names[middle], found->bytes[middle]);
        if (order == 0) return;
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (found->count >= LOCKS_MAX) {
        found->cut = true;
        return;
    }
    char *copy = malloc(bytes + 1);
    if (copy == NULL || !grow(found)) {
        free(copy);
        found->failed = true;
        return;
    }
    memcpy(copy, resource, bytes);
    copy[bytes] = '\0';
    memmove(found->names + low + 1, found->names + low,
            (found->count - low) * sizeof *found->names);
    memmove(found->bytes + low + 1, found->bytes + low,
            (found->count - low) * sizeof *found->bytes);
    found->names[low] = copy;
    found->bytes[low] = bytes;
    found->count++;
}

/* The others are enough; but the list lacks what only this node holds. */
static void report_left_out(struct session *session) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        if (status.verdict == REDLOCK_VERDICT_PROTOCOL)
            complain("%s is left out: %s", status.url, status.text);
    }
}

/* With a SETNX scheme, a lock's value is a number: no form of a token. */
static bool lists_every_value(struct session *session) {
    struct redlock_node_status status = {.size = sizeof status};
    return session->settings->all ||
           (redlock_client_node(session->client, 0, &status) == REDLOCK_OK &&
            status.scheme != REDLOCK_SCHEME_SET);
}

static int show_all(struct session *session, json_t *all) {
    struct found found = {0};
    int result = redlock_list(session->client, add_found, &found);
    int status = result == REDLOCK_OK ? EXIT_OK
                                      : session_failure(session, NULL, "the list of locks", result);
    report_left_out(session);
    if (found.cut) {
        complain("there are more than %d locks: the list is not complete", LOCKS_MAX);
        status = EXIT_SYSTEM;
    }
    if (found.failed) {
        complain("out of memory: the list is not complete");
        status = EXIT_SYSTEM;
    }
    size_t hidden = 0;
    for (size_t i = 0; i < found.count; i++) {
        int one = show_one(session, found.names[i], found.bytes[i], all,
                           lists_every_value(session) ? NULL : &hidden);
        if (status == EXIT_OK) status = one;
        free(found.names[i]);
    }
    const bool speaks = all == NULL && !session->settings->quiet;
    if (found.count == hidden && status == EXIT_OK && speaks) complain("no locks");
    if (hidden > 0 && speaks)
        complain(hidden == 1 ? "%zu other key does not have the form of a lock; --all shows it"
                             : "%zu other keys do not have the form of a lock; --all shows them",
                 hidden);
    free(found.names);
    free(found.bytes);
    return status;
}

int command_show(struct settings *settings, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        int status = resource_check(settings, argv[i]);
        if (status != 0) return status;
    }
    struct session session;
    settings->only_looks = true;
    int status = session_open(&session, settings);
    if (status != 0) return status;
    session_connect(&session);
    if ((status = session_check(&session, argc > 0 ? argv[0] : "the list of locks")) != 0) {
        session_close(&session);
        return status;
    }
    json_t *all = settings->json ? json_array() : NULL;
    if (argc == 0) status = show_all(&session, all);
    for (int i = 0; i < argc; i++) {
        int one = show_one(&session, argv[i], strlen(argv[i]), all, NULL);
        if (status == EXIT_OK) status = one;
    }
    if (all != NULL) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(all);
    }
    session_close(&session);
    return status;
}
