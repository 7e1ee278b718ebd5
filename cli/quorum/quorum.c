/* SPDX-License-Identifier: BSD-2-Clause
 *
 * quorum: the operator's commands on the members of a guarded quorum. Each one shows what it finds
 * and what it will do, asks, and finishes what an interrupted command has left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_draft.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/membership.h"
#include "explain/votes.h"
#include "frame/commands.h"
#include "frame/config.h"
#include "config/duration.h"
#include "config/nearest.h"
#include "held_locks.h"
#include "process/boottime.h"
#include "process/diagnostics.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/progress.h"
#include "refusing_members.h"

/* An added node is intact ttl_max after it was registered; drift and a busy machine add to that. */
#define OTHER_CHANGE_WITHIN (3000 * MS)
/* How long init looks for locks on servers that have other data, too. */
#define LOOK_FOR_LOCKS_MS 3000
#define NEW_MEMBER_WITHIN_MS(ttl_max_ms) (3 * (ttl_max_ms) + 15000)

enum { EXIT_DEGRADED = 1, EXIT_DECLINED = 1 };

struct task {
    struct settings *settings;
    struct session session;
    struct membership membership;
    struct progress progress;
    struct redlock_quorum_options options;
    char reason[600]; /* why it failed, for JSON; "": the last message says that */
    bool printed;     /* the quorum, as JSON */
};

struct action {
    const char *name;
    int operands;
    const char *wants;
    int (*act)(struct task *task, char **operands);
};

/* ---- looking ----------------------------------------------------------------------------- */

/* CONFIG: another try would fail, too. */
static int no_quorum(struct task *task) {
    return session_is_refused(&task->session) || session_must_be_corrected(&task->session)
               ? EXIT_CONFIG
               : EXIT_NO_QUORUM;
}

static int status_of(struct task *task) {
    if (task->membership.unaccepted[0] != '\0')
        return session_shut_out(&task->session, NULL) ? EXIT_CONFIG : EXIT_NO_QUORUM;
    switch (task->membership.state) {
    case MEMBERSHIP_INTACT: return EXIT_OK;
    case MEMBERSHIP_DEGRADED: return EXIT_DEGRADED;
    case MEMBERSHIP_LOST:
    case MEMBERSHIP_ABSENT: break;
    }
    return no_quorum(task);
}

static int open_and_peek(struct task *task) {
    int status = session_open(&task->session, task->settings);
    if (status != 0) return status;
    session_connect(&task->session);
    return membership_peek(&task->session, &task->membership);
}

static bool too_few_intact(const struct redlock_quorum_status *quorum) {
    return quorum->known && quorum->intact < quorum->votes_needed;
}

/* For a command that changes the quorum. While another one writes its change, a majority may not be
 * intact. */
static int open_for_change(struct task *task) {
    const int64_t until = now_ns() + OTHER_CHANGE_WITHIN;
    int status = open_and_peek(task);
    while (status == 0 && too_few_intact(&task->membership.quorum) && now_ns() < until) {
        session_live_until(&task->session, now_ns() + OTHER_CHANGE_WITHIN / 20);
        status = membership_peek(&task->session, &task->membership);
    }
    return status;
}

static void print_json(struct task *task) {
    json_t *object = membership_json(&task->session, &task->membership);
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
    task->printed = true;
}

/* What is said after it is advice. */
static void keep_reason(struct task *task) {
    if (task->reason[0] == '\0')
        snprintf(task->reason, sizeof task->reason, "%s", last_complaint());
}

static int report_failure(struct task *task, int status) {
    if (status == EXIT_OK || task->printed || !task->settings->json) return status;
    json_t *object =
        command_failure_json(&task->session, status == EXIT_DECLINED ? "declined" : NULL, status);
    if (task->reason[0] != '\0') json_object_set_new(object, "reason", json_string(task->reason));
    json_print(object);
    return status;
}

static int act_status(struct task *task, char **operands) {
    (void)operands;
    const int64_t wait_ms = task->settings->quorum.await_ms;
    task->settings->only_looks =
        wait_ms == WAIT_UNSET; /* a user that waits for nodes to come back also helps */
    int status = open_and_peek(task);
    if (status == 0 && wait_ms != WAIT_UNSET) {
        int64_t until = wait_ms == REDLOCK_WAIT_FOREVER ? NEVER : now_ns() + wait_ms * MS;
        progress_begin(&task->progress, task->settings->verbose, false);
        status = membership_await(&task->session, &task->membership, NULL, until, progress_report,
                                  &task->progress);
        progress_end();
    }
    if (status != 0) return status;
    if (task->settings->json) {
        print_json(task);
    } else if (!task->settings->quiet) {
        membership_print(&task->session, &task->membership, true, stdout);
        fflush(stdout);
    }
    const bool none_grants =
        refusals_warn(&task->session, &task->membership, NULL, task->settings->quiet);
    status = status_of(task);
    return none_grants && status <= EXIT_DEGRADED ? EXIT_NO_QUORUM : status;
}

/* ---- before a change and after it --------------------------------------------------------- */

static void show_membership(struct task *task, bool advises) {
    if (!task->settings->quiet || !task->settings->yes)
        membership_print(&task->session, &task->membership, advises, diagnostics_stream());
}

static int confirm(struct task *task) {
    char answer[16] = "";
    if (task->settings->yes) return 0;
    if (!isatty(STDIN_FILENO)) {
        complain("nothing was changed: standard input is not a terminal, so confirm with --yes");
        return EXIT_USAGE_ERROR;
    }
    fputs("Go on? [y/N] ", diagnostics_stream());
    fflush(diagnostics_stream());
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    complain("nothing was done");
    return EXIT_DECLINED;
}

static int failure(struct task *task, int result, const struct redlock_error *error) {
    complain("%s", error->text);
    keep_reason(task);
    switch (result) {
    case REDLOCK_NO_QUORUM: return no_quorum(task);
    case REDLOCK_CONFLICT: return EXIT_HELD;
    case REDLOCK_BAD_ARGUMENT: return EXIT_USAGE_ERROR;
    case REDLOCK_TWICE_LISTED:
    case REDLOCK_TWO_QUORUMS: return EXIT_CONFIG;
    default: return EXIT_SYSTEM;
    }
}

/* What each client is to know, as shell code. The mode and the quorum are explicit: if all records
 * were lost, mode auto could not tell. A password must not be printed. */
static int print_exports(struct task *task) {
    char *nodes = membership_nodes(&task->session, &task->membership);
    if (nodes == NULL) return EXIT_SYSTEM;
    print_export("REDLOCK_NODES", nodes);
    print_export("REDLOCK_MODE", "guarded");
    print_export("REDLOCK_QUORUM", task->membership.quorum.id);
    if (strchr(task->session.nodes, '@') != NULL && !task->settings->quiet) {
        complain("passwords are left out of this list");
    }
    free(nodes);
    return EXIT_OK;
}

static int finish(struct task *task, const char *what) {
    int status = membership_peek(&task->session, &task->membership);
    if (status != 0) return status;
    if (!task->settings->quiet) {
        complain("%s", what);
        membership_print(&task->session, &task->membership, true, diagnostics_stream());
    }
    if (!task->settings->json) return print_exports(task);
    print_json(task);
    return EXIT_OK;
}

/* The library would refuse the node, too, but only after the operator has agreed. 0, or the exit
 * status after a message. */
static int must_be_fit(struct task *task, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    struct redlock_why_report why;
    int major = 0, minor = 0;
    if (redlock_client_node(task->session.client, node, &status) != REDLOCK_OK) return EXIT_SYSTEM;
    switch (status.verdict) {
    case REDLOCK_VERDICT_GRANTED:
    case REDLOCK_VERDICT_RECOVERING:
    case REDLOCK_VERDICT_FOREIGN:
    case REDLOCK_VERDICT_UNACCEPTED:
    case REDLOCK_VERDICT_NO_RECORD: return 0;
    case REDLOCK_VERDICT_CONNECTING:             /* the library waits for it */
    case REDLOCK_VERDICT_TWICE_LISTED: return 0; /* the library names both */
    default: break;
    }
    const bool known = sscanf(status.version, "%d.%d", &major, &minor) == 2;
    const bool old = known && (major < 6 || (major == 6 && minor < 2));
    session_why(&task->session, NULL, NULL, REDLOCK_NO_QUORUM, &why);
    complain("nothing is done: %s: %s%s", status.url, old ? "OLD-VERSION: " : "",
             why.node[node].text);
    keep_reason(task);
    if (why.node[node].obstacle == REDLOCK_OBSTACLE_SILENT) complain("%s", why.node[node].cure);
    const bool refused =
        status.verdict == REDLOCK_VERDICT_AUTH || status.verdict == REDLOCK_VERDICT_TLS;
    return refused ? EXIT_CONFIG : EXIT_NO_QUORUM;
}

/* ---- init --------------------------------------------------------------------------------- */

static bool wants_other_ttl_max(const struct task *task) {
    const int64_t wanted_ms = task->settings->ttl_max_ms;
    return wanted_ms != 0 && wanted_ms != task->membership.quorum.ttl_ms_max;
}

/* The quorum works, and has the requested settings. */
static bool is_made_already(struct task *task) {
    const struct membership *membership = &task->membership;
    if (membership->state > MEMBERSHIP_DEGRADED || task->settings->quorum.floor != 0) return false;
    if (wants_other_ttl_max(task)) return false;
    const size_t nodes = redlock_client_nodes(task->session.client);
    for (size_t i = 0; i < nodes; i++) {
        if (member_named(&task->session, membership, node_url(&task->session, i)) < 0) return false;
    }
    return membership->quorum.members == nodes;
}

static int64_t longest(int64_t a, int64_t b) { return a > b ? a : b; }

/* The known bound on the remaining time of earlier locks; 0: unknown. The library checks every
 * record itself. */
static int64_t known_ttl_max(const struct task *task) {
    int64_t given = longest(task->settings->ttl_max_ms, task->settings->file.ttl_max_ms);
    return longest(given, task->membership.quorum.ttl_ms_max);
}

static void announce_wait(const struct task *task) {
    char most[64];
    const int64_t known_ms = known_ttl_max(task);
    duration_text(most, sizeof most, known_ms > 0 ? known_ms : REDLOCK_QUORUM_TTL_MS_MAX);
    if (task->options.never_used) {
        complain(
            "by --never-used you assert that no lock was ever held on these servers, so it is ready at once");
    } else if (known_ms > 0) {
        complain(
            "it first waits until locks that may be held there have ended: the longest ttl_max that is known, %s",
            most);
    } else if (!task->settings->yes) {
        complain(
            "it first waits until locks that may be held there have ended, and how long they last is unknown: no record can be read, and there is neither --ttl-max nor ttl-max in the configuration file. It would wait for %s. If a "
            "quorum of these servers ever had a longer ttl_max, two clients would hold a lock: answer no, and give it",
            most);
    }
}

static const char *node_names(struct task *task, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < redlock_client_nodes(task->session.client) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "",
                                 node_url(&task->session, i));
    return out;
}

static void announce_init(struct task *task) {
    char most[64];
    const size_t nodes = redlock_client_nodes(task->session.client);
    const int64_t known_ms = known_ttl_max(task), given_ms = task->options.ttl_ms_max;
    duration_text(most, sizeof most,
                  given_ms > 0   ? given_ms
                  : known_ms > 0 ? known_ms
                                 : REDLOCK_QUORUM_TTL_MS_MAX);
    if (task->membership.quorum.known) {
        complain(
            "fewer than a majority of this quorum is intact. Init writes its records again on all %zu nodes, under the same id, with ttl_max %s, and fencing tokens continue above all that can still be read",
            nodes, most);
    } else {
        char names[1500];
        complain("a new quorum of %zu nodes will be made, with ttl_max %s: %s", nodes, most,
                 node_names(task, names, sizeof names));
    }
    announce_wait(task);
}

/* A ttl_max that is given for a new quorum says nothing about the locks that clients hold on these
 * servers in mode classic. */
static void wait_for_held(struct task *task) {
    struct held held;
    char left[64];
    if (task->options.never_used || task->options.ttl_ms_max == 0) return;
    held_longest(&task->session, LOOK_FOR_LOCKS_MS, &held);
    if (held.remaining_ms > known_ttl_max(task)) {
        complain("the lock '%s' is held for %s more: init waits for that, too", held.resource,
                 duration_text(left, sizeof left, held.remaining_ms));
        task->options.ttl_ms_max_before =
            held.remaining_ms < REDLOCK_TTL_MS_MAX ? held.remaining_ms : REDLOCK_TTL_MS_MAX;
    }
    if (!held.complete)
        complain("warning: not every key on these servers could be looked at (redlock top does the "
                 "same): a classic lock may last longer than init waits");
}

/* No node carries a record: what there is to know of them is their names. */
static bool all_are_new(struct task *task) {
    return !task->membership.quorum.known && session_reach_of_records(&task->session) == REACH_ALL;
}

static int init(struct task *task) {
    struct redlock_error error;
    bool two = false;
    int status = session_open(&task->session, task->settings);
    if (status != 0) return status;
    session_connect(&task->session);
    if ((status = membership_peek_at_any(&task->session, &task->membership, &two)) != 0)
        return status;
    const bool made = is_made_already(task);
    if (made && task->membership.state == MEMBERSHIP_INTACT)
        return finish(task, "nothing to do: the quorum is there");
    if (two || !all_are_new(task)) show_membership(task, false);
    if (two)
        complain(
            "there are records of two quorums: init takes over only what an interrupted init has left");
    if (!made && task->membership.state <= MEMBERSHIP_DEGRADED && wants_other_ttl_max(task)) {
        char most[64];
        complain(
            "ttl_max is fixed at %s, and init does not change it: redlock quorum set-ttl-max does",
            duration_text(most, sizeof most, task->membership.quorum.ttl_ms_max));
        return EXIT_HELD;
    }
    if (!made && task->membership.state <= MEMBERSHIP_DEGRADED) {
        complain(
            "a majority of this quorum is intact, and nodes that lost their data come back by themselves: init is "
            "for new servers, and for a majority that lost its data; redlock quorum add and remove change members");
        return EXIT_HELD;
    }
    if (made) {
        complain(
            "a majority is intact; if an init was interrupted before all were, it is finished");
    } else {
        const size_t nodes = redlock_client_nodes(task->session.client);
        for (size_t i = 0; i < nodes; i++)
            if ((status = must_be_fit(task, i)) != 0) return status;
        announce_init(task);
        wait_for_held(task);
        if (nodes < 3) complain("warning: %s", what_few_survive(nodes));
    }
    if ((status = confirm(task)) != 0) return status;
    /* A user has read how long it waits, and agreed. With --yes there is no such user, and the
     * library refuses. */
    if (!task->settings->yes && known_ttl_max(task) == 0)
        task->options.ttl_ms_max = REDLOCK_QUORUM_TTL_MS_MAX;
    progress_begin(&task->progress, task->settings->verbose, true);
    int result = redlock_quorum_init(task->session.client, &task->options, &error);
    progress_end();
    if (made && result == REDLOCK_CONFLICT) {
        return finish(
            task,
            "nothing to do: the quorum is there, and nodes that lost their data come back by themselves");
    }
    return result == REDLOCK_OK ? finish(task, "the quorum is made")
                                : failure(task, result, &error);
}

static int act_init(struct task *task, char **operands) {
    const struct settings *settings = task->settings;
    struct draft draft;
    (void)operands;
    if (settings->quorum.write_config == NULL) return init(task);
    int status = config_draft_open(&draft, settings->quorum.write_config, settings->quorum.force);
    if (status != 0) return status;
    status = init(task);
    if (status == EXIT_OK)
        status =
            config_draft_finish(&draft, settings->quorum.force, &task->session,
                                task->membership.quorum.id, task->membership.quorum.ttl_ms_max);
    if (status == EXIT_OK && !settings->quiet)
        complain("the configuration is written: REDLOCK_CONFIG=%s redlock run ...",
                 settings->quorum.write_config);
    draft_close(&draft);
    return status;
}

/* ---- one change --------------------------------------------------------------------------- */

/* Locks can be acquired, and the change can be finished, only if enough of the future members stay
 * intact. 0, or the exit status after a message. */
static int enough_after(struct task *task, size_t members, size_t intact) {
    const struct membership *membership = &task->membership;
    const enum reach reach = session_reach_of_records(&task->session);
    const size_t needed = quorum_of(members);
    if (membership->state == MEMBERSHIP_ABSENT) {
        complain(
            reach == REACH_NONE ? "no node answers: start them"
            : reach == REACH_SOME
                ? "no record of a quorum can be read: first start or correct the nodes that cannot be asked"
                : "no record of a quorum can be read: bring the servers back, or if all of them are new: redlock quorum init");
        return no_quorum(task);
    }
    if (intact >= needed) return 0;
    complain(
        "nothing is done: of %zu members %zu would have to be intact and listed, and %zu would be. Bring the others "
        "back first%s",
        members, needed, intact,
        membership->quorum.members == 1 ? "; or redlock quorum init a new set of servers" : "");
    keep_reason(task);
    for (size_t i = 0; i < membership->quorum.members; i++) {
        const struct redlock_member *member = &membership->members[i];
        if (member->node < 0)
            complain("%s is a member that is not listed: a server that lost its record is "
                     "recognised by that URL alone",
                     member->url);
    }
    return no_quorum(task);
}

static int add_node(struct task *task, size_t node) {
    struct redlock_error error;
    progress_begin(&task->progress, task->settings->verbose, true);
    int result = redlock_quorum_add(task->session.client, node, &task->options, &error);
    progress_end();
    return result == REDLOCK_OK ? 0 : failure(task, result, &error);
}

/* A server that was a member before keeps its old record. An interrupted add has made it a member
 * again on the other nodes but not on itself: it is added once more. */
static int give_place(struct task *task, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    if (redlock_client_node(task->session.client, node, &status) != REDLOCK_OK) return 0;
    return status.verdict == REDLOCK_VERDICT_FOREIGN ? add_node(task, node) : 0;
}

static int remove_member(struct task *task, const char *id) {
    struct redlock_error error;
    progress_begin(&task->progress, task->settings->verbose, true);
    int result = redlock_quorum_remove(task->session.client, id, &task->options, &error);
    progress_end();
    return result == REDLOCK_OK ? 0 : failure(task, result, &error);
}

/* Any change finishes an earlier one: here the removal of a member that is gone already. 0, or the
 * exit status. */
static int settle(struct task *task, const char *name) {
    struct redlock_node_status status = {.size = sizeof status};
    struct redlock_error error;
    size_t node;
    const char *id = "ffffffffffffffff"; /* an id that no node has, if the id is not known */
    bool listed = list_has(task->session.nodes, name, &node);
    if (listed && redlock_client_node(task->session.client, node, &status) == REDLOCK_OK &&
        status.node_id[0] != '\0') {
        id = status.node_id;
    }
    progress_begin(&task->progress, task->settings->verbose, true);
    int result = redlock_quorum_remove(task->session.client, id, &task->options, &error);
    progress_end();
    int looked = membership_peek(&task->session, &task->membership);
    if (looked != 0 || result == REDLOCK_OK || task->membership.quorum.settled) return looked;
    return failure(task, result, &error);
}

/* An added member votes after it has waited. */
static int await_member(struct task *task, const char *url) {
    int status = membership_peek(&task->session, &task->membership);
    int at = member_named(&task->session, &task->membership, url);
    if (status != 0 || at < 0) return status;
    char id[sizeof task->membership.members[0].id];
    memcpy(id, task->membership.members[at].id, sizeof id);
    const int64_t until = now_ns() + NEW_MEMBER_WITHIN_MS(task->membership.quorum.ttl_ms_max) * MS;
    progress_begin(&task->progress, task->settings->verbose, true);
    status = membership_await(&task->session, &task->membership, id, until, progress_report,
                              &task->progress);
    progress_end();
    at = member_named(&task->session, &task->membership, url);
    if (status != 0 || (at >= 0 && is_intact(&task->membership.members[at]))) return status;
    complain("%s is a member, but not intact yet; `redlock quorum status --wait` waits for that",
             url);
    return no_quorum(task);
}

/* The nodes of this client, and the new one behind them unless the list has it: its index. 0, or
 * the exit status. */
static int list_with(struct task *task, const char *url, size_t *node) {
    const char *nodes = find_nodes(task->settings);
    char *joined = NULL;
    if (nodes == NULL || list_has(nodes, url, node)) return 0;
    if (asprintf(&joined, "%s,%s", nodes, url) < 0) return EXIT_SYSTEM;
    free(task->settings->client.nodes);
    task->settings->client.nodes = joined;
    return 0;
}

static int act_add(struct task *task, char **operands) {
    size_t node = 0;
    char most[64];
    int status = list_with(task, operands[0], &node);
    if (status == 0) status = open_for_change(task);
    if (status != 0) return status;
    const struct membership *membership = &task->membership;
    const char *url = node_url(&task->session, node);
    show_membership(task, true);
    const bool is_member = member_named(&task->session, membership, url) >= 0;
    if (is_member && membership->quorum.settled) {
        complain("%s is a member already", url);
        if ((status = give_place(task, node)) != 0) return status;
    } else {
        const size_t members = membership->quorum.members + !is_member;
        if ((status = enough_after(task, members, membership->quorum.intact)) != 0) return status;
        if ((status = must_be_fit(task, node)) != 0) return status;
        complain("%s becomes a member: %zu members then, of which %zu must be intact", url, members,
                 quorum_of(members));
        complain("it votes when it has waited for ttl_max, %s",
                 duration_text(most, sizeof most, membership->quorum.ttl_ms_max));
        if ((status = confirm(task)) != 0) return status;
        if ((status = add_node(task, node)) != 0) return status;
    }
    status = await_member(task, url);
    int printed = finish(task, "the node is a member");
    return status != 0 ? status : printed;
}

static void warn_of_few(size_t members) {
    if (members < 3)
        complain("warning: %s%s", what_few_survive(members),
                 members == 1 ? ". A quorum of one node cannot grow again" : "");
}

static int act_remove(struct task *task, char **operands) {
    char shown[SHOWN_BYTES];
    int status = open_for_change(task);
    if (status != 0) return status;
    const struct membership *membership = &task->membership;
    show_membership(task, true);
    int at = member_named(&task->session, membership, operands[0]);
    if (at < 0 && membership->quorum.known && !membership->quorum.settled) {
        complain("%s is not a member; the change that was begun is finished",
                 shown_name(operands[0], shown, sizeof shown));
        if ((status = confirm(task)) != 0 || (status = settle(task, operands[0])) != 0)
            return status;
        return finish(task, "the change is finished");
    }
    if (membership->state == MEMBERSHIP_ABSENT) return enough_after(task, 0, 0);
    if (at < 0) {
        complain("no member has the id or the URL %s; the table names them",
                 shown_name(operands[0], shown, sizeof shown));
        return EXIT_USAGE_ERROR;
    }
    const struct redlock_member *member = &membership->members[at];
    const size_t members = membership->quorum.members - 1;
    if (members == 0) {
        complain("the last member cannot be removed");
        return EXIT_USAGE_ERROR;
    }
    if ((status = enough_after(task, members, membership->quorum.intact - is_intact(member))) != 0)
        return status;
    complain("%s (%s) is no longer a member: %zu members then, of which %zu must be intact",
             member_url(&task->session, member), member->id, members, quorum_of(members));
    warn_of_few(members);
    (void)refusals_warn(&task->session, membership, member, false);
    if ((status = confirm(task)) != 0) return status;
    if ((status = remove_member(task, member->id)) != 0) return status;
    return finish(task, "the member is removed");
}

/* ---- replace: one add and one remove ------------------------------------------------------- */

struct replacement {
    const char *old_name, *url; /* of the new member */
    size_t node;
    int old_at, new_at; /* -1: not a member */
    bool adds_first;
};

/* If all members are up, the add comes first. If a member is dead, the remove comes first, so that
 * the quorum does not grow while it has a dead member: of three with one dead, four would need
 * three. */
static int plan_replacement(struct task *task, struct replacement *plan) {
    char shown[SHOWN_BYTES];
    const struct membership *membership = &task->membership;
    plan->url = node_url(&task->session, plan->node);
    plan->old_at = member_named(&task->session, membership, plan->old_name);
    plan->new_at = member_named(&task->session, membership, plan->url);
    if (plan->old_at >= 0 && plan->old_at == plan->new_at) {
        complain(
            "%s is both the old and the new one; name the member to remove and the node to add",
            plan->url);
        return EXIT_USAGE_ERROR;
    }
    if (plan->old_at < 0 && plan->new_at < 0 &&
        !list_has(task->session.nodes, plan->old_name, NULL)) {
        complain(
            "no member has the id or the URL %s; if it was removed already: redlock quorum add %s",
            shown_name(plan->old_name, shown, sizeof shown), plan->url);
        return EXIT_USAGE_ERROR;
    }
    const bool old_intact = plan->old_at >= 0 && is_intact(&membership->members[plan->old_at]);
    const size_t members = membership->quorum.members, intact = membership->quorum.intact;
    int status = 0;
    plan->adds_first = plan->new_at < 0 && (old_intact || plan->old_at < 0);
    if (plan->adds_first)
        status = enough_after(task, members + 1, intact);
    else if (plan->old_at >= 0 && plan->new_at < 0)
        status = enough_after(task, members - 1, intact - old_intact);
    else if (membership->state == MEMBERSHIP_ABSENT)
        status = enough_after(task, members, intact);
    return status == 0 && plan->new_at < 0 ? must_be_fit(task, plan->node) : status;
}

static void announce_replacement(struct task *task, const struct replacement *plan) {
    const struct redlock_member *old =
        plan->old_at >= 0 ? &task->membership.members[plan->old_at] : NULL;
    if (plan->adds_first) complain("%s becomes a member", plan->url);
    if (plan->adds_first && old != NULL)
        complain("when it is intact, %s is removed", member_url(&task->session, old));
    if (plan->adds_first || old == NULL) return;
    if (plan->new_at >= 0)
        complain("%s is a member already, so nothing is added, and the quorum has one member less",
                 plan->url);
    complain("%s is removed", member_url(&task->session, old));
    if (plan->new_at < 0)
        complain("then %s becomes a member", plan->url);
    else
        warn_of_few(task->membership.quorum.members - 1);
}

static int replace(struct task *task, const struct replacement *plan) {
    char id[sizeof task->membership.members[0].id] = "";
    const bool removes = plan->old_at >= 0;
    int status = 0;
    if (removes) memcpy(id, task->membership.members[plan->old_at].id, sizeof id);
    const bool old_intact = removes && is_intact(&task->membership.members[plan->old_at]);
    if (plan->adds_first)
        status = add_node(task, plan->node);
    else if (plan->new_at >= 0)
        status = give_place(task, plan->node);
    if (status == 0 && (plan->adds_first || (plan->new_at >= 0 && old_intact)))
        status = await_member(task, plan->url);
    if (status == 0 && removes) status = remove_member(task, id);
    if (status == 0 && !removes && !plan->adds_first && !task->membership.quorum.settled)
        status = settle(task, plan->old_name);
    if (status == 0 && !plan->adds_first && plan->new_at < 0) status = add_node(task, plan->node);
    if (status == 0 && !plan->adds_first) status = await_member(task, plan->url);
    return status;
}

static int act_replace(struct task *task, char **operands) {
    char shown[SHOWN_BYTES];
    struct replacement plan = {.old_name = operands[0]};
    int status = list_with(task, operands[1], &plan.node);
    if (status == 0) status = open_for_change(task);
    if (status != 0) return status;
    show_membership(task, true);
    if ((status = plan_replacement(task, &plan)) != 0) return status;
    announce_replacement(task, &plan);
    if (plan.old_at < 0 && plan.new_at >= 0) {
        complain("%s is a member already, and %s is not", plan.url,
                 shown_name(plan.old_name, shown, sizeof shown));
    } else if ((status = confirm(task)) != 0) {
        return status;
    }
    status = replace(task, &plan);
    if (status == 0) return finish(task, "the member is replaced");
    complain(
        "the member is not replaced, or not in full: run the command again when that is fixed");
    return status;
}

/* ---- ttl_max ------------------------------------------------------------------------------- */

static int parse_ttl_max(const char *text, int64_t *ttl_ms) {
    char error[200];
    if (duration_parse(text, ttl_ms, error, sizeof error) != 0) {
        complain("'%.60s': %s", text, error);
        return EXIT_USAGE_ERROR;
    }
    if (*ttl_ms >= REDLOCK_TTL_MS_MIN && *ttl_ms <= REDLOCK_TTL_MS_MAX) return 0;
    complain("'%.60s': a ttl_max is from 10ms to 24h", text);
    return EXIT_USAGE_ERROR;
}

static void announce_ttl_max(const struct task *task, int64_t ttl_ms) {
    const struct redlock_quorum_status *quorum = &task->membership.quorum;
    char now[64], then[64];
    duration_text(now, sizeof now, quorum->ttl_ms_max);
    duration_text(then, sizeof then, ttl_ms);
    if (!quorum->settled)
        complain("first, the change that was begun is finished, which takes up to %s", now);
    if (ttl_ms == quorum->ttl_ms_max) {
        complain("ttl_max is %s then", then);
        return;
    }
    if (ttl_ms > quorum->ttl_ms_max) {
        complain(
            "ttl_max is raised from %s to %s, which takes a few round trips. A node that loses its data then waits for %s before it votes",
            now, then, then);
        return;
    }
    complain(
        "ttl_max is lowered from %s to %s, which takes a little more than %s: until the locks that are held have ended, nodes that lose their data wait for %s",
        now, then, now, now);
    complain(
        "clients keep to %s at once: they refuse a longer --ttl, and renew locks that they hold with %s",
        then, then);
}

/* After a power cut no record may be left that names it, and init waits for that of the file. */
static int refuse_for_init(struct task *task, int64_t ttl_ms) {
    char most[64], waits[64];
    const int64_t file_ms = task->settings->file.ttl_max_ms;
    if (file_ms == 0 || ttl_ms <= file_ms || ttl_ms <= task->membership.quorum.ttl_ms_max) return 0;
    complain(
        "nothing is done: ttl-max in %s is %s. When all records are lost, redlock quorum init waits for that, and a lock of %s could have two holders: first write ttl-max = %" PRId64
        "ms there",
        config_path(), duration_text(waits, sizeof waits, file_ms),
        duration_text(most, sizeof most, ttl_ms), ttl_ms);
    keep_reason(task);
    return EXIT_CONFIG;
}

/* The file names none. */
static void remind_of_init(const struct task *task, int64_t ttl_ms) {
    char most[64];
    if (task->settings->quiet || task->settings->file.ttl_max_ms != 0) return;
    complain(
        "where init runs after a power cut (ttl-max in the configuration file, redlock-quorum-init@.service), give it at least %s",
        duration_text(most, sizeof most, ttl_ms));
}

static int act_set_ttl_max(struct task *task, char **operands) {
    struct redlock_error error;
    int64_t ttl_ms = 0;
    char text[100], most[64];
    int status = parse_ttl_max(operands[0], &ttl_ms);
    if (status == 0) status = open_for_change(task);
    if (status != 0) return status;
    const struct redlock_quorum_status *quorum = &task->membership.quorum;
    show_membership(task, true);
    status = enough_after(task, quorum->members, quorum->intact);
    if (status != 0) return status;
    duration_text(most, sizeof most, ttl_ms);
    if (quorum->settled && quorum->ttl_ms_max == ttl_ms) {
        snprintf(text, sizeof text, "nothing to do: ttl_max is %s", most);
        return finish(task, text);
    }
    if ((status = refuse_for_init(task, ttl_ms)) != 0) return status;
    announce_ttl_max(task, ttl_ms);
    if ((status = confirm(task)) != 0) return status;
    const bool raised = ttl_ms > quorum->ttl_ms_max;
    progress_begin(&task->progress, task->settings->verbose, true);
    int result = redlock_quorum_set_ttl_max(task->session.client, ttl_ms, &task->options, &error);
    progress_end();
    if (result != REDLOCK_OK) return failure(task, result, &error);
    if (raised) remind_of_init(task, ttl_ms);
    snprintf(text, sizeof text, "ttl_max is %s", most);
    return finish(task, text);
}

/* ---- the command --------------------------------------------------------------------------- */

static const struct action actions[] = {
    {"init", 0, "no operand; name nodes with -N", act_init},
    {"status", 0, "no operand; give a limit with --wait=30s", act_status},
    {"add", 1, "the URL of a node", act_add},
    {"remove", 1, "the id or the URL of a member", act_remove},
    {"replace", 2, "the id or the URL of a member, and the URL of a node", act_replace},
    {"set-ttl-max", 1, "a duration, such as 10s", act_set_ttl_max},
};
static const size_t actions_count = sizeof actions / sizeof actions[0];

static const struct action *find_action(const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < actions_count; i++) {
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
        nearest_offer(&nearest, actions[i].name);
    }
    if (nearest.best != NULL) {
        complain("redlock quorum has no command '%.60s'; did you mean '%s'?", name, nearest.best);
    } else {
        complain("redlock quorum has no command '%.60s'; try 'redlock quorum --help'", name);
    }
    return NULL;
}

/* An option without an effect is a misunderstanding. */
static bool options_fit(const struct settings *settings, const struct action *action) {
    const char *only = NULL, *of = "init";
    if (settings->ttl_max_ms != 0) only = "--ttl-max";
    if (settings->quorum.floor != 0) only = "--floor";
    if (settings->quorum.never_used) only = "--never-used";
    if (settings->quorum.force) only = "--force";
    if (settings->quorum.write_config != NULL) only = "--write-config";
    if (only == NULL && settings->quorum.await_ms != WAIT_UNSET) only = "--wait", of = "status";
    if (only != NULL && strcmp(action->name, of) != 0) {
        complain("%s is for 'redlock quorum %s'", only, of);
        return false;
    }
    if (settings->quorum.force && settings->quorum.write_config == NULL) {
        complain("--force is for --write-config");
        return false;
    }
    if (settings->client.mode != REDLOCK_MODE_CLASSIC && settings->client.mode != MODE_SINGLE)
        return true; /* it is guarded in any case */
    complain("redlock quorum needs guarded mode: classic nodes carry no record of their quorum");
    return false;
}

static void set_options(struct task *task) {
    redlock_quorum_options_init(&task->options);
    const struct settings *settings = task->settings;
    task->options.ttl_ms_max =
        settings->ttl_max_ms > 0 ? settings->ttl_max_ms : settings->file.ttl_max_ms;
    task->options.ttl_ms_max_before = settings->file.ttl_max_ms;
    task->options.fence_floor = task->settings->quorum.floor;
    task->options.never_used = task->settings->quorum.never_used;
    task->options.progress = progress_report;
    task->options.progress_context = &task->progress;
}

static int find_and_act(struct task *task, struct settings *settings, int argc, char **argv) {
    if (argc == 0) {
        complain(
            "redlock quorum needs a command: init, status, add, remove, replace or set-ttl-max");
        return EXIT_USAGE_ERROR;
    }
    const struct action *action = find_action(argv[0]);
    if (action == NULL) return EXIT_USAGE_ERROR;
    if (argc - 1 != action->operands) {
        complain("redlock quorum %s takes %s", action->name, action->wants);
        return EXIT_USAGE_ERROR;
    }
    if (!options_fit(settings, action)) return EXIT_USAGE_ERROR;
    settings->client.mode = REDLOCK_MODE_GUARDED;
    set_options(task);
    return action->act(task, argv + 1);
}

int command_quorum(struct settings *settings, int argc, char **argv) {
    struct task *task = calloc(1, sizeof *task);
    if (task == NULL) return EXIT_SYSTEM;
    task->settings = settings;
    task->session.settings = settings;
    int status = report_failure(task, find_and_act(task, settings, argc, argv));
    if (task->session.client != NULL) session_close(&task->session);
    free(task);
    return status;
}
