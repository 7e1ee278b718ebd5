/* SPDX-License-Identifier: BSD-2-Clause
 *
 * watch: who leads, and since which term. One line for each change; with --json, one object.
 */
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <redlock.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/votes.h"
#include "frame/commands.h"
#include "config/duration.h"
#include "frame/session.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

#define ANSWER_WITHIN (2000 * MS) /* until a report that is due is given up */

struct watch {
    struct session session;
    const char *name;
    bool known, failed; /* a report was printed; standard output takes no more */
    int state;
    int64_t term;
};

static const char *state_name(int state) {
    static const char *const names[] = {[REDLOCK_LEADER_UNKNOWN] = "unknown",
                                        [REDLOCK_LEADER_NONE] = "none",
                                        [REDLOCK_LEADER_KNOWN] = "leader"};
    return names[state];
}

static int64_t left_ms(const struct redlock_leader *leader) {
    const int64_t left = (leader->sure_until_ns - now_ns()) / MS;
    return left > 0 ? left : 0;
}

static void now_text(char *out, size_t size) {
    char whole[32];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(whole, sizeof whole, "%F %T", &local);
    snprintf(out, size, "%s.%03d", whole, (int)(now.tv_nsec / MS));
}

static int print_json(const struct watch *watch, const struct redlock_leader *leader) {
    char id[REDLOCK_OWNER_BYTES_MAX * 4 + 1];
    json_t *object = json_pack("{s:o, s:s, s:s}", "time", time_json(), "resource", watch->name,
                               "state", state_name(leader->state));
    if (leader->state == REDLOCK_LEADER_KNOWN) {
        json_object_set_new(object, "term", json_integer(leader->term));
        json_object_set_new(
            object, "id", json_string(printable(id, sizeof id, leader->id.data, leader->id.bytes)));
        json_object_set_new(object, "sure_ms", json_integer(left_ms(leader)));
        json_object_set_new(object, "sure_until_ns", json_integer(leader->sure_until_ns));
    }
    return json_print(object);
}

static int print_text(const struct watch *watch, const struct redlock_leader *leader) {
    char at[48], id[REDLOCK_OWNER_BYTES_MAX * 4 + 1], left[64];
    now_text(at, sizeof at);
    switch (leader->state) {
    case REDLOCK_LEADER_NONE: printf("%s %s: no leader\n", at, watch->name); break;
    case REDLOCK_LEADER_UNKNOWN:
        printf(
            "%s %s: not known: too few nodes answer, the leader is not renewed, or what holds the name is no leader\n",
            at, watch->name);
        break;
    default:
        printf("%s %s: %s leads, term %" PRId64 ", sure for %s\n", at, watch->name,
               leader->id.bytes > 0 ? printable(id, sizeof id, leader->id.data, leader->id.bytes)
                                    : "a client without a name",
               leader->term, duration_text(left, sizeof left, left_ms(leader)));
        break;
    }
    return ferror(stdout) ? -1 : 0;
}

/* A renewal is not a change. */
static void on_report(void *context, const struct redlock_leader *leader) {
    struct watch *watch = context;
    const struct settings *settings = watch->session.settings;
    const bool same = watch->known && watch->state == leader->state && watch->term == leader->term;
    if (watch->failed || (same && !settings->verbose) || (watch->known && settings->once)) return;
    watch->state = leader->state;
    watch->term = leader->term;
    watch->known = true;
    const int printed = settings->json ? print_json(watch, leader) : print_text(watch, leader);
    watch->failed = printed != 0 || fflush(stdout) != 0;
}

static int status_of(const struct watch *watch) {
    if (watch->failed) return EXIT_SYSTEM;
    if (!watch->known || watch->state == REDLOCK_LEADER_UNKNOWN) return EXIT_NO_QUORUM;
    return watch->state == REDLOCK_LEADER_KNOWN ? EXIT_OK : EXIT_HELD;
}

/* Until it is stopped; with --once, until the first report. */
static int follow(struct watch *watch) {
    const struct redlock_leader unknown = {.size = sizeof unknown};
    const bool once = watch->session.settings->once;
    const int64_t give_up_at = now_ns() + ANSWER_WITHIN;
    while (!watch->failed && !(once && watch->known)) {
        struct pollfd fd = {.fd = redlock_client_fd(watch->session.client), .events = POLLIN};
        const bool reported = watch->known || now_ns() >= give_up_at;
        if (!watch->known && reported) on_report(watch, &unknown);
        poll(&fd, 1, reported ? -1 : (int)((give_up_at - now_ns()) / MS) + 1);
        if (redlock_process(watch->session.client) != REDLOCK_OK) return EXIT_SYSTEM;
    }
    return status_of(watch);
}

static int watch_leader(struct watch *watch) {
    struct redlock_observer *observer = NULL;
    struct redlock_error error = {0};
    session_connect(&watch->session);
    if (watch->session.mode != REDLOCK_MODE_GUARDED &&
        session_reach_of_records(&watch->session) == REACH_ALL) {
        complain(
            "the nodes carry no record, so leaders have no terms: see 'redlock quorum init'; 'redlock show --watch' shows who holds a lock");
        return EXIT_CONFIG;
    }
    const int status = session_check(&watch->session, watch->name);
    if (status != 0) return status;
    if (redlock_observe_start(watch->session.client, watch->name, strlen(watch->name), on_report,
                              watch, &observer, &error) != REDLOCK_OK) {
        complain("%s", error.text);
        return error.result == REDLOCK_BAD_ARGUMENT ? EXIT_CONFIG : EXIT_SYSTEM;
    }
    const int followed = follow(watch);
    redlock_observe_stop(observer);
    return followed;
}

/* 0, or the exit status after a message: this mode reads no records, and the nodes may have them.
 */
static int check_mode(const struct session *session) {
    if (session->mode != REDLOCK_MODE_CLASSIC) return 0;
    complain(
        "mode classic, set by --mode, REDLOCK_MODE or the configuration file, knows no leaders: terms are in the records of a guarded quorum; add --mode auto if the nodes are one, else 'redlock show --watch' shows who holds a lock");
    return EXIT_CONFIG;
}

int command_watch(struct settings *settings, int argc, char **argv) {
    struct watch watch = {.name = argc == 1 ? argv[0] : NULL};
    int status = EXIT_USAGE_ERROR;
    settings->only_looks = true;
    if (argc != 1)
        complain("redlock watch needs one name; try 'redlock watch --help'");
    else
        status = resource_check(settings, watch.name);
    if (status == 0) status = session_open_named(&watch.session, settings, argc, argv);
    if (status == 0) status = check_mode(&watch.session);
    if (status != 0) {
        session_close(&watch.session);
        refuse_any(settings, status, argc, argv);
        return status;
    }
    status = watch_leader(&watch);
    session_close(&watch.session);
    return status;
}
