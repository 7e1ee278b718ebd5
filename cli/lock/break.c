/* SPDX-License-Identifier: BSD-2-Clause
 *
 * break: an operator ends another client's lock. It shows the holder, asks, and logs who did it and
 * why. The library does the rest, and only for the holder that was shown.
 */
#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/readers.h"
#include "explain/votes.h"
#include "frame/commands.h"
#include "config/duration.h"
#include "frame/session.h"
#include "process/diagnostics.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum { EXIT_DECLINED = 1 };

struct breaking {
    struct session session;
    const struct settings *settings;
    const char *resource;
    struct redlock_view views[REDLOCK_NODES_MAX];
    const struct redlock_view *holder; /* in `views`; NULL: no node has a key */
    size_t votes;                      /* nodes that have the holder's token */
    struct readers readers;            /* of a shared lock */
    struct redlock_break_report report;
    struct redlock_error error;
    int result;
};

/* ---- the holder ---------------------------------------------------------------------------- */

/* The token that most nodes have. A node that does not answer may have it, too: so it need not be a
 * majority. Whether the lock is held is the library's decision. */
static void find_holder(struct breaking *breaking) {
    const size_t count = redlock_client_nodes(breaking->session.client);
    for (size_t i = 0; i < count; i++) {
        const struct redlock_view *view = &breaking->views[i];
        size_t votes = 0;
        if (view->verdict != REDLOCK_VERDICT_GRANTED) continue;
        for (size_t j = 0; j < count; j++) votes += has_same_token(view, &breaking->views[j]);
        if (votes <= breaking->votes) continue;
        breaking->votes = votes;
        breaking->holder = view;
    }
}

/* Those that hold it, as many as fit: "3 readers: web1, token 1234abcd…; and 2 more". */
static void sharers_text(const struct breaking *breaking, char *out, size_t size) {
    enum { READER_BYTES = 800 }; /* of our own ones, whatever the owner */
    const struct readers *readers = &breaking->readers;
    readers_text(readers->total, out, size);
    size_t used = strlen(out), named = 0;
    for (size_t i = 0; i < readers->count && i < READERS_SHOWN; i++) {
        char who[REDLOCK_TOKEN_BYTES_MAX * 9];
        if (!readers->list[i].holds || size - used < READER_BYTES) break;
        reader_text(&readers->list[i], false, who, sizeof who);
        used +=
            (size_t)snprintf(out + used, size - used, "%s%.700s", named++ > 0 ? "; " : ": ", who);
    }
    if (readers->total > (int64_t)named && named > 0)
        snprintf(out + used, size - used, "; and %" PRId64 " more",
                 readers->total - (int64_t)named);
}

static int64_t longest_remaining(const struct breaking *breaking) {
    int64_t longest = 0;
    for (size_t i = 0; i < redlock_client_nodes(breaking->session.client); i++) {
        const struct redlock_view *view = &breaking->views[i];
        if (!has_same_token(view, breaking->holder)) continue;
        if (view->remaining_ms < 0) return -1;
        if (view->remaining_ms > longest) longest = view->remaining_ms;
    }
    return longest;
}

/* A line for each that would lose it. */
static void show_readers(const struct breaking *breaking) {
    const struct readers *readers = &breaking->readers;
    const size_t nodes = redlock_client_nodes(breaking->session.client);
    size_t holders = 0;
    for (size_t i = 0; i < readers->count && i < READERS_SHOWN; i++) {
        const struct reader *reader = &readers->list[i];
        char who[REDLOCK_TOKEN_BYTES_MAX * 9], left[64];
        complain("reader %s, ends in %s, unless it renews (%zu of %zu nodes%s)",
                 reader_text(reader, false, who, sizeof who),
                 duration_text(left, sizeof left, reader->remaining_ms), reader->nodes, nodes,
                 reader->holds ? "" : ": does not hold it");
        holders += reader->holds;
    }
    if (readers->total > (int64_t)holders && readers->count > 0)
        complain("and %" PRId64 " readers more; redlock show --all lists them",
                 readers->total - (int64_t)holders);
}

/* Of a shared lock, all of them lose it: nobody holds the key but they together. */
static void show_sharers(const struct breaking *breaking, const char *left, bool guarded) {
    char count[64];
    complain("'%s' is shared by %s; it ends %s (%zu of %zu nodes)", breaking->resource,
             readers_text(breaking->readers.total, count, sizeof count), left, breaking->votes,
             redlock_client_nodes(breaking->session.client));
    show_readers(breaking);
    complain(
        guarded ? "all readers lose the lock, and are not asked: until its next renewal each works "
                  "on, and is refused only where the fence is checked"
                : "all readers lose the lock, and are not asked: until its next renewal each works "
                  "on, at the same time as the next holder");
}

static void show_holder(struct breaking *breaking) {
    char holder[REDLOCK_TOKEN_BYTES_MAX * 5], left[64] = "never, unless it is released";
    const int64_t remaining_ms = longest_remaining(breaking);
    const bool guarded = session_mode(&breaking->session) == REDLOCK_MODE_GUARDED;
    if (remaining_ms >= 0) {
        char text[48];
        snprintf(left, sizeof left, "in %s, unless it is renewed",
                 duration_text(text, sizeof text, remaining_ms));
    }
    if (is_shared(breaking->holder)) {
        show_sharers(breaking, left, guarded);
        return;
    }
    complain("'%s' is held by %s; it ends %s (%zu of %zu nodes)", breaking->resource,
             holder_text(breaking->holder, false, holder, sizeof holder), left, breaking->votes,
             redlock_client_nodes(breaking->session.client));
    complain(guarded
                 ? "the holder is not asked: until its next renewal it works on, and its writes "
                   "are refused only where the fence is checked"
                 : "the holder is not asked: until its next renewal it works on, at the same "
                   "time as the next holder");
}

/* What never ends and is no token is more likely an application's data than a lock: the name was
 * mistyped, or the key prefix is missing. 0, or the exit status after a message. */
static int check_form(const struct breaking *breaking) {
    if (breaking->settings->lock.any_value || is_token(breaking->holder) ||
        longest_remaining(breaking) >= 0)
        return 0;
    complain("'%s' holds a string without a TTL and without the form of a token, and was left "
             "alone: it looks like data, not like a lock; if it is a lock, add --any-value",
             breaking->resource);
    return EXIT_USAGE_ERROR;
}

/* 0, or the exit status after a message. */
static int confirm(const struct breaking *breaking) {
    char answer[16] = "";
    if (breaking->settings->yes) return 0;
    if (!isatty(STDIN_FILENO)) {
        complain("nothing was changed: standard input is not a terminal, so confirm with --yes");
        return EXIT_USAGE_ERROR;
    }
    fputs("Break it? [y/N] ", diagnostics_stream());
    fflush(diagnostics_stream());
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    complain("nothing was done");
    return EXIT_DECLINED;
}

/* ---- the log ------------------------------------------------------------------------------- */

/* Behind sudo, the user who called it. */
static const char *user_name(void) {
    const char *sudo = getenv("SUDO_USER");
    const struct passwd *entry = getpwuid(getuid());
    if (getuid() == 0 && sudo != NULL && sudo[0] != '\0') return sudo;
    return entry != NULL ? entry->pw_name : "unknown";
}

static const char *what_happened(const struct breaking *breaking) {
    if (breaking->result == REDLOCK_OK) return breaking->report.deleted ? "broke" : "found free";
    return breaking->report.deleted ? "deleted keys of" : "did not break";
}

/* On standard error and in the system log: first what is about to be done, so that a process that
 * is killed leaves a trace, and then what was done. */
static void log_break(const struct breaking *breaking, const char *what) {
    char holder[REDLOCK_TOKEN_BYTES_MAX * 5], user[256], resource[1024], reason[2048];
    char now[32] = "", line[10240];
    const time_t seconds = time(NULL);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) != NULL) strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (is_shared(breaking->holder))
        sharers_text(breaking, holder, sizeof holder);
    else
        holder_text(breaking->holder, false, holder, sizeof holder);
    const char *name = user_name();
    printable(user, sizeof user, name, strlen(name));
    printable(resource, sizeof resource, breaking->resource, strlen(breaking->resource));
    printable(reason, sizeof reason, breaking->settings->lock.reason,
              strlen(breaking->settings->lock.reason));
    snprintf(line, sizeof line, "user %s %s '%s', held by %s; reason: %s", user, what, resource,
             holder, reason);
    complain("%s %s", now, line);
    diagnostics_flush();
    if (breaking->settings->lock.no_syslog) return;
    openlog("redlock", LOG_PID, LOG_AUTH);
    syslog(LOG_NOTICE, "%s", line);
    closelog();
}

/* ---- signals ------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;

static void note_signal(int number) { caught = number; }

static const int held[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[sizeof held / sizeof held[0]];

/* A break that ends halfway has no result and no fence. It is bounded in time, so the first signal
 * of each kind waits for its end; the second one kills. */
static void hold_signals(void) {
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        struct sigaction action = {.sa_handler = note_signal,
                                   .sa_flags = (int)SA_RESETHAND | SA_RESTART};
        sigaction(held[i], NULL, &before[i]);
        /* nohup(1) ignores HUP on purpose. */
        if (before[i].sa_handler != SIG_IGN) sigaction(held[i], &action, NULL);
    }
}

/* To write the result is not bounded in time: nobody may read it. */
static void release_signals(void) {
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) sigaction(held[i], &before[i], NULL);
}

/* ---- the result ---------------------------------------------------------------------------- */

static int status_of(struct breaking *breaking) {
    switch (breaking->result) {
    case REDLOCK_OK: return EXIT_OK;
    case REDLOCK_CONFLICT: return EXIT_HELD;
    case REDLOCK_NO_QUORUM:
        return session_is_refused(&breaking->session) || session_shut_out(&breaking->session, NULL)
                   ? EXIT_CONFIG
                   : EXIT_NO_QUORUM;
    case REDLOCK_BAD_ARGUMENT: return EXIT_USAGE_ERROR;
    case REDLOCK_TWICE_LISTED:
    case REDLOCK_TWO_QUORUMS: return EXIT_CONFIG;
    default: return EXIT_SYSTEM;
    }
}

/* GRANTED and DENIED are about the delete here. */
static const char *node_word(const struct breaking *breaking, size_t node) {
    const int verdict = breaking->report.verdicts[node];
    if (verdict == REDLOCK_VERDICT_GRANTED) return breaking->report.deleted ? "deleted" : "held";
    return verdict == REDLOCK_VERDICT_DENIED ? "other" : verdict_name(verdict);
}

/* Why a node did not take part is its own: a connection that is refused, a missing permission. */
static json_t *node_json(const struct breaking *breaking, const struct redlock_why_report *why,
                         size_t node) {
    struct session *session = (struct session *)&breaking->session;
    const int said = breaking->report.verdicts[node], verdict = why->node[node].verdict;
    const bool answered = said == REDLOCK_VERDICT_GRANTED || said == REDLOCK_VERDICT_DENIED ||
                          said == REDLOCK_VERDICT_ABSENT;
    json_t *object =
        json_pack("{s:s,s:s}", "url", node_url(session, node), "verdict",
                  said == REDLOCK_VERDICT_NONE ? verdict_name(verdict) : node_word(breaking, node));
    if (!answered && verdict != REDLOCK_VERDICT_NONE && verdict != REDLOCK_VERDICT_GRANTED)
        json_object_set_new(object, "reason", json_string(why->node[node].text));
    return object;
}

static void print_json(const struct breaking *breaking, const char *outcome, int status) {
    char text[REDLOCK_TOKEN_BYTES_MAX * 4];
    json_t *object = json_object(), *nodes = json_array();
    struct session *session = (struct session *)&breaking->session;
    printable(text, sizeof text, breaking->resource, strlen(breaking->resource));
    json_object_set_new(object, "resource", json_string(text));
    json_object_set_new(object, "result", json_string(outcome));
    json_object_set_new(object, "exit", json_integer(status));
    const char *reason = breaking->result != REDLOCK_OK         ? breaking->error.text
                         : session->failed.result != REDLOCK_OK ? session->failed.reason
                                                                : last_complaint();
    if (status != EXIT_OK) json_object_set_new(object, "reason", json_string(reason));
    if (breaking->holder != NULL) {
        const int64_t remaining_ms = longest_remaining(breaking);
        owner_text(breaking->holder, text, sizeof text);
        if (text[0] != '\0') json_object_set_new(object, "owner", json_string(text));
        json_object_set_new(object, "kind",
                            json_string(is_shared(breaking->holder) ? "shared" : "exclusive"));
        if (is_shared(breaking->holder))
            json_object_set_new(object, "readers", readers_json(session, &breaking->readers));
        json_object_set_new(object, "remaining_ms",
                            remaining_ms < 0 ? json_null() : json_integer(remaining_ms));
    }
    if (breaking->report.fence > 0)
        json_object_set_new(object, "fence", json_integer(breaking->report.fence));
    if (breaking->report.deleted)
        json_object_set_new(object, "certain", json_boolean(breaking->report.certain));
    if (breaking->report.unlisted)
        json_object_set_new(object, "unlisted", json_integer(breaking->report.unlisted));
    struct redlock_why_report why;
    session_why(session, NULL, breaking->report.verdicts, session->failed.result, &why);
    for (size_t i = 0; i < why.nodes; i++)
        json_array_append_new(nodes, node_json(breaking, &why, i));
    json_object_set_new(object, "nodes", nodes);
    json_print(object);
}

/* It answered, and has no token at all. */
static bool is_foreign(const struct breaking *breaking, size_t node) {
    return breaking->report.verdicts[node] == REDLOCK_VERDICT_WRONGTYPE;
}

/* What the holder may still have: said even with -q, because the break may need repeating. */
static void warn_of_silent(struct breaking *breaking) {
    char left[64] = "", end[128] = ", without end";
    const int64_t remaining_ms = breaking->report.remaining_ms;
    bool uncertain = false;
    struct redlock_why_report why;
    session_why(&breaking->session, NULL, breaking->report.verdicts, REDLOCK_NO_QUORUM, &why);
    if (remaining_ms >= 0)
        snprintf(end, sizeof end, ", for %s after its last renewal",
                 duration_text(left, sizeof left, remaining_ms));
    for (size_t i = 0; i < redlock_client_nodes(breaking->session.client); i++) {
        const int verdict = breaking->report.verdicts[i];
        const char *url = node_url(&breaking->session, i);
        if (!(breaking->report.silent >> i & 1)) continue;
        uncertain = uncertain || !is_foreign(breaking, i);
        if (is_foreign(breaking, i))
            complain("%s has another value under this name, which is not a lock; it was left alone",
                     url);
        else if (verdict == REDLOCK_VERDICT_NONE || why.node[i].obstacle == REDLOCK_OBSTACLE_SILENT)
            complain("%s did not answer and may still have the key%s", url, end);
        else if (verdict == REDLOCK_VERDICT_ABSENT && breaking->result == REDLOCK_OK)
            complain("%s has no such key, but does not vote now, so this proves nothing", url);
        else if (verdict == REDLOCK_VERDICT_ABSENT)
            continue; /* the break is not complete, whatever this node says */
        else if (verdict == REDLOCK_VERDICT_GRANTED)
            complain(
                "%s deleted the key, but has not confirmed since that it is gone, and may have it again%s",
                url, end);
        else
            complain("%s did not confirm that the key is gone (%s), and may still have it%s", url,
                     verdict_name(verdict), end);
    }
    if (breaking->report.unlisted)
        complain("the list of nodes lacks %" PRIu32
                 " of the quorum's members, which may still have the key%s: list all of them "
                 "(redlock quorum status)",
                 breaking->report.unlisted, end);
    uncertain = uncertain || breaking->report.unlisted != 0;
    if (uncertain && breaking->result == REDLOCK_OK)
        complain("if the holder works on nevertheless, break the lock again");
}

static int finish(struct breaking *breaking) {
    const int status = status_of(breaking);
    const bool broken = breaking->result == REDLOCK_OK && breaking->report.deleted;
    const char *outcome = broken                                     ? "broken"
                          : breaking->result == REDLOCK_OK           ? "free"
                          : breaking->result == REDLOCK_CONFLICT     ? "changed"
                          : breaking->result == REDLOCK_NO_QUORUM    ? "no_quorum"
                          : breaking->result == REDLOCK_BAD_ARGUMENT ? "usage"
                                                                     : "system";
    if (breaking->result != REDLOCK_OK) complain("%s", breaking->error.text);
    if (status == EXIT_OK && !breaking->report.deleted && !breaking->settings->quiet)
        complain("'%s' is free: its holder released it meanwhile, or it ended", breaking->resource);
    if (broken || breaking->result == REDLOCK_NO_QUORUM) warn_of_silent(breaking);
    if (breaking->settings->json)
        print_json(breaking, outcome, status);
    else if (breaking->report.fence > 0)
        printf("%" PRId64 "\n", breaking->report.fence);
    return status;
}

/* ---- the command --------------------------------------------------------------------------- */

static size_t nodes_with(const struct breaking *breaking, int verdict) {
    size_t nodes = 0;
    for (size_t i = 0; i < redlock_client_nodes(breaking->session.client); i++)
        nodes += breaking->views[i].verdict == verdict;
    return nodes;
}

/* Tokens of several clients, none on a majority, as dead clients leave them: the keys end by
 * themselves. */
static int report_split(struct breaking *breaking) {
    const size_t count = redlock_client_nodes(breaking->session.client);
    int64_t longest = 0;
    char left[64], end[128] = "one of them never ends: delete it on its node";
    for (size_t i = 0; i < count; i++) {
        const struct redlock_view *view = &breaking->views[i];
        if (view->verdict != REDLOCK_VERDICT_GRANTED || longest < 0) continue;
        if (view->remaining_ms < 0 || view->remaining_ms > longest) longest = view->remaining_ms;
    }
    if (longest >= 0)
        snprintf(end, sizeof end, "they end in %s, unless their clients delete them sooner",
                 duration_text(left, sizeof left, longest));
    complain("nobody holds '%s', and nothing was changed: no token is on a majority, but keys on "
             "%zu of %zu nodes keep it from being taken; %s",
             breaking->resource, nodes_with(breaking, REDLOCK_VERDICT_GRANTED), count, end);
    breaking->holder = NULL;
    if (breaking->settings->json) print_json(breaking, "split", EXIT_HELD);
    return EXIT_HELD;
}

static int report_free(struct breaking *breaking) {
    breaking->holder = NULL;
    if (!breaking->settings->quiet) complain("'%s' is free", breaking->resource);
    if (breaking->settings->json) print_json(breaking, "free", EXIT_OK);
    return EXIT_OK;
}

/* No token is on a majority of the nodes that answered. Whether one may be is the library's
 * decision: it is asked to break the lock of a token that no client has, so it changes nothing.
 * REDLOCK_CONFLICT: a client may hold the lock; OK: none does; else why this is not known. */
static int ask_whether_held(struct breaking *breaking) {
    static const char nobody[] = "redlock break: the token of no client";
    struct redlock_break_options options;
    struct redlock_break_report report;
    redlock_break_options_init(&options);
    redlock_break_report_init(&report);
    options.token = nobody;
    options.token_bytes = sizeof nobody - 1;
    return redlock_break(breaking->session.client, breaking->resource, strlen(breaking->resource),
                         &options, &report, &breaking->error);
}

/* `*over`: the command ends with this exit status, and all is said. Else 0: `holder` is to be
 * asked about, or an exit status after a message. */
static int judge(struct breaking *breaking, enum majority_verdict verdict, bool *over) {
    struct session *session = &breaking->session;
    const size_t count = redlock_client_nodes(session->client),
                 needed = session_votes_needed(session),
                 absent = nodes_with(breaking, REDLOCK_VERDICT_ABSENT),
                 answered = absent + nodes_with(breaking, REDLOCK_VERDICT_GRANTED) +
                            nodes_with(breaking, REDLOCK_VERDICT_WRONGTYPE);
    const bool guarded = session_mode(session) == REDLOCK_MODE_GUARDED;
    if (verdict == MAJORITY_HELD) return 0;
    *over = !guarded && verdict == MAJORITY_FREE;
    if (*over) return report_free(breaking);
    const int result = ask_whether_held(breaking);
    if (result == REDLOCK_CONFLICT && breaking->holder != NULL) return 0;
    const bool several = breaking->votes < answered - absent,
               nobody = result == REDLOCK_OK || (result == REDLOCK_NO_QUORUM &&
                                                 breaking->votes + count - answered < needed);
    *over = nobody && several && absent < needed;
    if (*over) return report_split(breaking);
    *over = result == REDLOCK_OK;
    if (*over) return report_free(breaking);
    if (result == REDLOCK_NO_QUORUM) {
        const int status = session_unseen(session, breaking->views, breaking->resource, result);
        if (nodes_with(breaking, REDLOCK_VERDICT_RECOVERING) > 0)
            complain("reading again does not help: see redlock quorum status");
        return status;
    }
    breaking->result = result;
    *over = true;
    return finish(breaking);
}

/* As judge(). */
static int look(struct breaking *breaking, bool *over) {
    struct session *session = &breaking->session;
    const size_t count = redlock_client_nodes(session->client);
    int result = redlock_peek(session->client, breaking->resource, strlen(breaking->resource),
                              breaking->views, count);
    verdicts_of(session, breaking->views, breaking->report.verdicts);
    if (result != REDLOCK_OK)
        return session_unseen(session, breaking->views, breaking->resource, result);
    session_drop_nonvoters(session, breaking->views);
    verdicts_of(session, breaking->views, breaking->report.verdicts);
    const enum majority_verdict verdict = majority_of(breaking->views, count).verdict;
    if (verdict == MAJORITY_FOREIGN) {
        char what[96];
        complain("'%s': %s", breaking->resource,
                 session_foreign(session, breaking->resource, strlen(breaking->resource), what,
                                 sizeof what));
        return EXIT_USAGE_ERROR;
    }
    find_holder(breaking);
    if (!readers_take(session, breaking->resource, strlen(breaking->resource), breaking->views,
                      count, readers_wanted(session, true), &breaking->readers)) {
        complain("%s", redlock_result_text(REDLOCK_NO_MEMORY));
        return EXIT_SYSTEM;
    }
    return judge(breaking, verdict, over);
}

static int interrupted(struct breaking *breaking, int status) {
    log_break(breaking, "did not break");
    complain("interrupted; nothing was changed");
    if (breaking->settings->json) print_json(breaking, "interrupted", status);
    return status;
}

static int break_it(struct breaking *breaking) {
    struct redlock_break_options options;
    redlock_break_options_init(&options);
    options.token = breaking->holder->token;
    options.token_bytes = breaking->holder->token_bytes;
    if (breaking->holder->token_truncated) options.token = NULL; /* refused, with the reason */
    hold_signals();
    log_break(breaking, "is breaking");
    if (caught != 0) return interrupted(breaking, EXIT_BY_SIGNAL + caught);
    breaking->result =
        redlock_break(breaking->session.client, breaking->resource, strlen(breaking->resource),
                      &options, &breaking->report, &breaking->error);
    log_break(breaking, what_happened(breaking));
    release_signals();
    if (caught != 0) complain("a signal came during the break, which ran to its end");
    return finish(breaking);
}

static int with_session(struct breaking *breaking) {
    bool over = false;
    session_connect(&breaking->session);
    int status = session_check(&breaking->session, breaking->resource);
    if (status == 0) status = look(breaking, &over);
    if (over) return status;
    if (status == 0) status = check_form(breaking);
    if (status == 0) {
        if (!breaking->settings->quiet || !breaking->settings->yes) show_holder(breaking);
        status = confirm(breaking);
    }
    if (status == 0) return break_it(breaking);
    if (breaking->settings->json) {
        const char *outcome = status == EXIT_NO_QUORUM     ? "no_quorum"
                              : status == EXIT_CONFIG      ? "config"
                              : status == EXIT_DECLINED    ? "declined"
                              : status == EXIT_USAGE_ERROR ? "usage"
                                                           : "system";
        breaking->result = REDLOCK_OK; /* the reason is the last message */
        print_json(breaking, outcome, status);
    }
    return status;
}

static int check_arguments(const struct settings *settings, int argc, char **argv) {
    if (argc != 1) {
        complain(argc == 0 ? "redlock break needs a resource; try 'redlock break --help'"
                           : "redlock break takes one resource; try 'redlock break --help'");
        return EXIT_USAGE_ERROR;
    }
    if (settings->lock.reason == NULL ||
        settings->lock.reason[strspn(settings->lock.reason, " \t")] == '\0') {
        complain("say why the lock is broken, for the log: --reason TEXT");
        return EXIT_USAGE_ERROR;
    }
    return resource_check(settings, argv[0]);
}

int command_break(struct settings *settings, int argc, char **argv) {
    struct breaking *breaking = calloc(1, sizeof *breaking);
    if (breaking == NULL) return EXIT_SYSTEM;
    breaking->settings = settings;
    breaking->resource = argc > 0 ? argv[0] : "";
    redlock_break_report_init(&breaking->report);
    settings->only_looks = true;
    int status = check_arguments(settings, argc, argv);
    if (status == 0) status = session_open_named(&breaking->session, settings, argc, argv);
    if (status == 0) {
        status = with_session(breaking);
        readers_free(&breaking->readers);
        session_close(&breaking->session);
    } else if (settings->json) {
        print_json(breaking, status == EXIT_CONFIG ? "config" : "usage", status);
    }
    free(breaking);
    return status;
}
