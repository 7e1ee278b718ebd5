/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The names of all keys that may be locks, and which nodes do not let this user see them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>

#include "explain/failure.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "process/message.h"
#include "show.h"

static bool grow(struct listing *listing) {
    if (listing->count < listing->room) return true;
    size_t room = listing->room == 0 ? 64 : listing->room * 2;
    char **names = realloc(listing->names, room * sizeof *names);
    if (names == NULL) return false;
    listing->names = names;
    size_t *bytes = realloc(listing->bytes, room * sizeof *bytes);
    if (bytes == NULL) return false;
    listing->bytes = bytes;
    listing->room = room;
    return true;
}

/* Kept in order, each once: every node reports its own keys. */
static void add_found(void *context, const void *resource, size_t bytes) {
    struct listing *listing = context;
    size_t low = 0, high = listing->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_bytes(resource, bytes, listing->names[middle], listing->bytes[middle]);
        if (order == 0) return;
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (listing->count >= LOCKS_MAX) {
        listing->cut = true;
        return;
    }
    char *copy = malloc(bytes + 1);
    if (copy == NULL || !grow(listing)) {
        free(copy);
        listing->failed = true;
        return;
    }
    memcpy(copy, resource, bytes);
    copy[bytes] = '\0';
    memmove(listing->names + low + 1, listing->names + low,
            (listing->count - low) * sizeof *listing->names);
    memmove(listing->bytes + low + 1, listing->bytes + low,
            (listing->count - low) * sizeof *listing->bytes);
    listing->names[low] = copy;
    listing->bytes[low] = bytes;
    listing->count++;
}

int listing_take(struct session *session, struct listing *listing) {
    *listing = (struct listing){0};
    return redlock_list(session->client, add_found, listing);
}

void listing_free(struct listing *listing) {
    for (size_t i = 0; i < listing->count; i++) free(listing->names[i]);
    free(listing->names);
    free(listing->bytes);
    *listing = (struct listing){0};
}

/* ---- what is not seen -------------------------------------------------------------------- */

static void no_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    (void)context, (void)node, (void)what, (void)resource, (void)bytes;
}

/* A list leaves out keys that cannot be read, so an empty one may mean that none can. Any name
 * shows whether this user may read. */
static void look_for_readers(struct session *session, struct unlisted *unlisted) {
    static const char name[] = "redlock:doctor";
    struct redlock_view views[REDLOCK_NODES_MAX];
    struct denials denials = {.asked = false};
    char commands[300];
    const int result =
        redlock_peek(session->client, name, sizeof name - 1, views, REDLOCK_NODES_MAX);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return;
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        if (views[i].verdict != REDLOCK_VERDICT_NOPERM) continue;
        denied_commands(session, &denials, i, NEED_READ, commands, sizeof commands);
        /* a denied name alone says nothing about the names of locks */
        if (commands[0] == '\0') continue;
        unlisted->verdicts[i] = REDLOCK_VERDICT_NOPERM;
        unlisted->need = NEED_READ;
    }
}

void unlisted_take(struct session *session, const struct listing *listing,
                   struct unlisted *unlisted) {
    struct redlock_walk walk;
    redlock_walk_init(&walk);
    *unlisted = (struct unlisted){.need = NEED_LIST};
    const int result = redlock_scan(session->client, &walk, no_key, NULL);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return;
    memcpy(unlisted->verdicts, walk.verdicts, sizeof unlisted->verdicts);
    unlisted->unseen = session_reads_refused(session, unlisted->verdicts);
    if (unlisted->unseen || listing->count > 0) return;
    look_for_readers(session, unlisted);
    unlisted->unseen = session_reads_refused(session, unlisted->verdicts);
}

void unlisted_text(struct session *session, const struct unlisted *unlisted, char *out,
                   size_t size) {
    struct denials denials = {.asked = false};
    char text[400];
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < redlock_client_nodes(session->client) && used < size; i++)
        if (unlisted->verdicts[i] == REDLOCK_VERDICT_NOPERM)
            used += (size_t)snprintf(
                out + used, size - used, "%s is left out: %s\n", node_url(session, i),
                denied_text(session, &denials, i, unlisted->need, NULL, text, sizeof text));
}

/* The others are enough: what a majority holds is on one of them. */
void unlisted_report(struct session *session, const struct unlisted *unlisted) {
    char text[2000], *rest = NULL;
    unlisted_text(session, unlisted, text, sizeof text);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        complain("%s", line);
}
