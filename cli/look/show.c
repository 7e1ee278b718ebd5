/* SPDX-License-Identifier: BSD-2-Clause
 *
 * show: each node's holder and the decision of the majority, for our locks and for any `SET key
 * token NX PX ttl`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "frame/commands.h"
#include "config/duration.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "show.h"

/* Who has it: `readers` of a shared lock, or the one in the token. */
static char *whose_text(const struct redlock_view *view, int64_t readers, bool whole, char *out,
                        size_t size) {
    char text[64];
    if (!is_shared(view)) return holder_text(view, whole, out, size);
    snprintf(out, size, "shared by %s", readers_text(readers, text, sizeof text));
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

int64_t sight_readers(const struct sight *sight, size_t node) {
    const struct redlock_readers_view *view = &sight->readers.views[node];
    return view->verdict == REDLOCK_VERDICT_GRANTED ? view->readers : -1;
}

void sight_print_node(struct session *session, const struct sight *sight, size_t node, FILE *out) {
    char holder[REDLOCK_TOKEN_BYTES_MAX * 9], end[96];
    const struct redlock_view *view = &sight->views[node];
    const char *url = node_url(session, node);
    switch (view->verdict) {
    case REDLOCK_VERDICT_GRANTED:
        fprintf(out, "  %s  %s, %s\n", url,
                whose_text(view, sight_readers(sight, node), session->settings->look.tokens, holder,
                           sizeof holder),
                end_text(view->remaining_ms, end, sizeof end));
        break;
    case REDLOCK_VERDICT_ABSENT: fprintf(out, "  %s  free\n", url); break;
    default: fprintf(out, "  %s  %s\n", url, redlock_verdict_text(view->verdict)); break;
    }
}

void sight_print_head(struct session *session, const struct sight *sight, FILE *out) {
    const struct redlock_view *views = sight->views;
    const size_t count = sight->count;
    const struct majority majority = majority_of(views, count);
    char name[1024], holder[REDLOCK_TOKEN_BYTES_MAX * 9], end[96];
    printable(name, sizeof name, sight->resource, sight->bytes);
    switch (majority.verdict) {
    case MAJORITY_HELD:
        fprintf(out, "%s: %s%s, %s (%zu of %zu nodes)\n", name,
                is_shared(&views[majority.holder]) ? "" : "held by ",
                whose_text(&views[majority.holder], sight->readers.total,
                           session->settings->look.tokens, holder, sizeof holder),
                end_text(majority.remaining_ms, end, sizeof end), majority.votes, count);
        break;
    case MAJORITY_FREE: fprintf(out, "%s: free\n", name); break;
    case MAJORITY_SPLIT: fprintf(out, "%s: split: no majority for any holder\n", name); break;
    case MAJORITY_FOREIGN:
        fprintf(out, "%s: %s\n", name, foreign_text(sight->type, holder, sizeof holder));
        break;
    case MAJORITY_UNKNOWN:
        fprintf(out, "%s: unknown: %zu of %zu nodes answered, %zu are needed\n", name,
                majority.answered, count, quorum_of(count));
        break;
    }
}

void sight_print(struct session *session, const struct sight *sight, FILE *out) {
    sight_print_head(session, sight, out);
    for (size_t i = 0; i < sight->count; i++) sight_print_node(session, sight, i, out);
    readers_print(session, &sight->readers, sight->count, out);
}

/* A value of another form is most likely a cached string, unless a node did not answer. */
bool sight_is_lock(const struct sight *sight) {
    size_t keys = 0;
    for (size_t i = 0; i < sight->count; i++) {
        if (sight->views[i].verdict != REDLOCK_VERDICT_GRANTED) continue;
        if (is_token(&sight->views[i])) return true;
        keys++;
    }
    return keys == 0;
}

void sight_take(struct session *session, const char *resource, size_t bytes, bool named,
                struct sight *sight) {
    *sight = (struct sight){.resource = resource,
                            .bytes = bytes,
                            .count = redlock_client_nodes(session->client),
                            .readers = {.total = -1}};
    sight->result = redlock_peek(session->client, resource, bytes, sight->views, REDLOCK_NODES_MAX);
    if (sight->result == REDLOCK_OK) session_drop_nonvoters(session, sight->views);
    const struct majority majority = majority_of(sight->views, sight->count);
    if (sight->result == REDLOCK_OK && majority.answered < quorum_of(sight->count))
        sight->result = REDLOCK_NO_QUORUM;
    if (majority.verdict == MAJORITY_FOREIGN &&
        redlock_key_type(session->client, resource, bytes, sight->type, sizeof sight->type) !=
            REDLOCK_OK)
        sight->type[0] = '\0';
    const bool seen = sight->result == REDLOCK_OK || sight->result == REDLOCK_NO_QUORUM;
    if (seen && !readers_take(session, resource, bytes, sight->views, sight->count,
                              readers_wanted(session, named), &sight->readers))
        sight->result = REDLOCK_NO_MEMORY;
}

void sight_free(struct sight *sight) { readers_free(&sight->readers); }

/* `hidden`, if not NULL, counts keys that are not locks, which are not shown then. `told`: the
 * status of a failure that was reported for another key; 0: none. */
static int show_one(struct session *session, const char *resource, size_t bytes, bool named,
                    json_t *all, size_t *hidden, int *told) {
    struct sight sight;
    sight_take(session, resource, bytes, named, &sight);
    if (hidden != NULL && !sight_is_lock(&sight)) {
        sight_free(&sight);
        ++*hidden;
        return EXIT_OK;
    }
    const bool seen = sight.result == REDLOCK_OK || sight.result == REDLOCK_NO_QUORUM;
    if (seen && all != NULL) json_array_append_new(all, sight_json(session, &sight));
    if (seen && all == NULL) sight_print(session, &sight, stdout);
    sight_free(&sight);
    if (sight.result == REDLOCK_OK) return EXIT_OK;
    fflush(stdout);
    /* in a list, what keeps the nodes from voting is said once */
    if (told != NULL && *told != 0 && session_shut_out(session, NULL)) return *told;
    const int status = session_unseen(session, sight.views, resource, sight.result);
    if (told != NULL) *told = status;
    return status;
}

/* ---- all there is -------------------------------------------------------------------- */

/* The others are enough; but the list lacks what only this node holds. */
static void report_left_out(struct session *session) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        if (status.verdict == REDLOCK_VERDICT_PROTOCOL)
            complain("%s is left out: %s", status.url, status.text);
    }
}

/* A node that lost its data reports no key, and that proves nothing. */
static bool majority_votes(struct session *session) {
    struct redlock_view views[REDLOCK_NODES_MAX] = {0};
    const size_t count = redlock_client_nodes(session->client);
    for (size_t i = 0; i < count; i++) views[i].verdict = REDLOCK_VERDICT_ABSENT;
    session_drop_nonvoters(session, views);
    return majority_of(views, count).answered >= quorum_of(count);
}

static int show_all(struct session *session, json_t *all) {
    struct listing listing;
    struct unlisted unlisted;
    int result = listing_take(session, &listing);
    report_left_out(session); /* before the node is connected again */
    unlisted_take(session, &listing, &unlisted);
    if (unlisted.unseen && result == REDLOCK_OK) result = REDLOCK_NO_QUORUM;
    int status = EXIT_OK;
    if (result != REDLOCK_OK)
        status = unlisted.unseen
                     ? session_unlisted(session, unlisted.verdicts, unlisted.need, result)
                     : session_failure(session, NULL, "the list of locks", result);
    else
        unlisted_report(session, &unlisted);
    if (listing.cut) {
        complain("there are more than %d locks: the list is not complete", LOCKS_MAX);
        status = EXIT_SYSTEM;
    }
    if (listing.failed) {
        complain("out of memory: the list is not complete");
        status = EXIT_SYSTEM;
    }
    size_t hidden = 0;
    int told = 0;
    for (size_t i = 0; i < listing.count; i++) {
        int one = show_one(session, listing.names[i], listing.bytes[i], false, all,
                           session_lists_every_value(session) ? NULL : &hidden, &told);
        if (status == EXIT_OK) status = one;
    }
    const bool speaks = all == NULL && !session->settings->quiet;
    if (listing.count == hidden && status == EXIT_OK && !majority_votes(session))
        status = session_failure(session, NULL, "the list of locks", REDLOCK_NO_QUORUM);
    if (listing.count == hidden && status == EXIT_OK && speaks) complain("no locks");
    if (hidden > 0 && speaks)
        complain(hidden == 1 ? "%zu other key does not have the form of a lock; --all shows it"
                             : "%zu other keys do not have the form of a lock; --all shows them",
                 hidden);
    listing_free(&listing);
    return status;
}

static int show_once(struct session *session, int count, char **resources) {
    int status = EXIT_OK;
    json_t *all = session->settings->json ? json_array() : NULL;
    if (count == 0) status = show_all(session, all);
    for (int i = 0; i < count; i++) {
        int one = show_one(session, resources[i], strlen(resources[i]), true, all, NULL, NULL);
        if (status == EXIT_OK) status = one;
    }
    if (all != NULL) {
        json_print(all);
    }
    return status;
}

static int show(struct settings *settings, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        int status = resource_check(settings, argv[i]);
        if (status == 0) continue;
        refuse_any(settings, status, 0, NULL);
        return status;
    }
    struct session session;
    settings->only_looks = true;
    int status = session_open_named(&session, settings, argc, argv);
    if (status != 0) {
        refuse_any(settings, status, 0, NULL);
        return status;
    }
    session_connect(&session);
    status = session_check(&session, argc > 0 ? argv[0] : "the list of locks");
    if (status == 0)
        status = settings->look.watch_ms > 0 ? show_watch(&session, argc, argv)
                                             : show_once(&session, argc, argv);
    session_close(&session);
    return status;
}

/* The names of all slots of each resource; NULL: no memory. */
static char **slots_of(int64_t slots, int argc, char **argv) {
    char **names = calloc((size_t)argc * (size_t)slots + 1, sizeof *names);
    size_t count = 0;
    for (int i = 0; names != NULL && i < argc; i++) {
        for (unsigned slot = 1; slot <= slots; slot++)
            if ((names[count] = slot_name(argv[i], slot)) != NULL) count++;
    }
    return names;
}

static void free_names(char **names) {
    for (char **name = names; name != NULL && *name != NULL; name++) free(*name);
    free(names);
}

int command_show(struct settings *settings, int argc, char **argv) {
    if (settings->slots == 0 || argc == 0) return show(settings, argc, argv);
    char **names = slots_of(settings->slots, argc, argv);
    int count = 0, status = EXIT_SYSTEM;
    while (names != NULL && names[count] != NULL) count++;
    if (count == argc * settings->slots)
        status = show(settings, count, names);
    else
        complain("out of memory");
    free_names(names);
    return status;
}
