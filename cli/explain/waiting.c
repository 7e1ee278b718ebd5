/* SPDX-License-Identifier: BSD-2-Clause */
#include "waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <redlock/admin.h>

#include "failure.h"
#include "config/duration.h"
#include "majority.h"
#include "membership.h"
#include "process/boottime.h"
#include "process/message.h"
#include "votes.h"

#define FIRST_AFTER (400 * MS) /* a shorter wait shows nothing */
#define EVERY (1000 * MS)

enum { NAME_COLUMNS_MIN = 12 };

/* ---- text --------------------------------------------------------------------------------- */

static const char *ordinal_end(int64_t number) {
    if (number % 100 >= 11 && number % 100 <= 13) return "th";
    return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

static char *place_text(int64_t ahead, char *out, size_t size) {
    out[0] = '\0';
    if (ahead == 0) snprintf(out, size, ", next in the queue");
    if (ahead > 0)
        snprintf(out, size, ", %" PRId64 "%s in the queue", ahead + 1, ordinal_end(ahead + 1));
    return out;
}

/* In tenths of a second also below one second, so that the line does not change its form. */
static char *left_text(int64_t ends_ns, char *out, size_t size) {
    const int64_t ms = (ends_ns - now_ns()) / MS;
    if (ends_ns == NEVER) {
        snprintf(out, size, ", without an end");
    } else if (ms < 1000) {
        snprintf(out, size, ", 0.%d s left", ms > 0 ? (int)(ms / 100) : 0);
    } else {
        char text[64];
        snprintf(out, size, ", %s left", duration_text(text, sizeof text, ms));
    }
    return out;
}

static char *waited_text(int64_t begun_ns, char *out, size_t size) {
    const int64_t ms = (now_ns() - begun_ns) / MS;
    if (ms >= 120000) return duration_text(out, size, ms);
    snprintf(out, size, "%d s", (int)(ms / 1000));
    return out;
}

/* Cuts a text to so many bytes: no character has more columns than bytes. */
static void cut(char *text, size_t columns) {
    static const char more[] = "…";
    if (strlen(text) <= columns) return;
    size_t end = columns >= sizeof more ? columns + 1 - sizeof more : 0;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
    strcpy(text + end, columns >= sizeof more ? more : "");
}

/* What is known of the holder, in two parts: the first one may be cut. */
static void holder_texts(const struct wait_holder *holder, char *who, size_t who_size, char *rest,
                         size_t size) {
    who[0] = rest[0] = '\0';
    if (!holder->known) return;
    switch (holder->verdict) {
    case MAJORITY_HELD:
        snprintf(who, who_size, ": held by %s",
                 holder_name(holder->owner, holder->shared, "another client"));
        left_text(holder->ends_ns, rest, size);
        break;
    case MAJORITY_FREE: snprintf(rest, size, ": free"); break;
    case MAJORITY_SPLIT: snprintf(rest, size, ": several clients try"); break;
    case MAJORITY_FOREIGN: snprintf(rest, size, ": the key is not a lock"); break;
    case MAJORITY_UNKNOWN:
        snprintf(rest, size, ": %zu of %zu nodes answer, %zu needed", holder->answered,
                 holder->nodes, quorum_of(holder->nodes));
        break;
    }
}

static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

void wait_line_write(const struct wait_holder *holder, const char *resource, int64_t ahead,
                     int64_t begun_ns) {
    char name[1024], place[64], waited[64], who[1024], rest[128];
    const size_t columns = passing_columns();
    if (columns == 0) return;
    printable(name, sizeof name, resource, strlen(resource));
    place_text(ahead, place, sizeof place);
    waited_text(begun_ns, waited, sizeof waited);
    holder_texts(holder, who, sizeof who, rest, sizeof rest);
    const size_t fixed = strlen("waiting  for ''") + strlen(waited) + strlen(place) + strlen(rest),
                 room = columns > fixed ? columns - fixed : 0,
                 least = lesser(strlen(name), NAME_COLUMNS_MIN);
    /* The reader knows the name, so it gives way first. */
    cut(name, room > strlen(who) + least ? room - strlen(who) : least);
    cut(who, room > strlen(name) ? room - strlen(name) : 0);
    report_passing("waiting %s for '%s'%s%s%s", waited, name, place, who, rest);
}

void wait_holder_set(struct wait_holder *holder, const struct redlock_view *views, size_t count) {
    const struct majority majority = majority_of(views, count);
    *holder = (struct wait_holder){.known = true,
                                   .verdict = majority.verdict,
                                   .ends_ns = NEVER,
                                   .nodes = count,
                                   .answered = majority.answered};
    if (majority.verdict != MAJORITY_HELD) return;
    owner_text(&views[majority.holder], holder->owner, sizeof holder->owner);
    holder->shared = is_shared(&views[majority.holder]);
    if (majority.remaining_ms >= 0) holder->ends_ns = now_ns() + majority.remaining_ms * MS;
}

/* ---- the line ------------------------------------------------------------------------------ */

/* A terminal that is not that of this session has no jobs. */
bool wait_line_may(const struct settings *settings, pid_t job) {
    if (settings->quiet || passing_columns() == 0) return false;
    const pid_t foreground = tcgetpgrp(STDERR_FILENO);
    return foreground < 0 || foreground == job;
}

void wait_line_begin(struct wait_line *line, struct session *session, struct redlock_lock *lock,
                     const char *resource, int64_t wait_ms, pid_t job) {
    *line = (struct wait_line){.session = session,
                               .lock = lock,
                               .resource = resource,
                               .job = job,
                               .begun_ns = now_ns(),
                               .next_ns = NEVER};
    if (session->settings->quiet || wait_ms == 0 || passing_columns() == 0) return;
    int result =
        redlock_lock_new(session->client, resource, strlen(resource), NULL, &line->look, NULL);
    if (result == REDLOCK_OK) line->next_ns = line->begun_ns + FIRST_AFTER;
}

int64_t wait_line_due(const struct wait_line *line) {
    return line->look != NULL ? line->next_ns : NEVER;
}

static void draw(struct wait_line *line) {
    struct redlock_wait_status status;
    redlock_wait_status_init(&status);
    line->next_ns = now_ns() + EVERY;
    if (redlock_lock_state(line->lock) != REDLOCK_STATE_ACQUIRING ||
        redlock_lock_wait_status(line->lock, &status) != REDLOCK_OK)
        return;
    wait_line_write(&line->holder, line->resource, status.ahead, line->begun_ns);
    line->shown = true;
}

static void on_looked(void *context, struct redlock_lock *look, int result) {
    struct wait_line *line = context;
    (void)look;
    if (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM)
        wait_holder_set(&line->holder, line->views, redlock_client_nodes(line->session->client));
    draw(line);
}

void wait_line_step(struct wait_line *line) {
    if (now_ns() < wait_line_due(line)) return;
    if (!wait_line_may(line->session->settings, line->job)) {
        /* In the background it belongs to the shell; this job comes back to a new line. */
        if (line->shown) forget_passing();
        line->shown = false;
        line->next_ns = now_ns() + EVERY;
        return;
    }
    line->next_ns = NEVER;
    if (redlock_peek_start(line->look, line->views, REDLOCK_NODES_MAX, on_looked, line) !=
        REDLOCK_OK)
        draw(line);
}

void wait_line_end(struct wait_line *line) {
    if (line->look == NULL) return;
    if (line->shown && wait_line_may(line->session->settings, line->job)) {
        end_passing();
    } else if (line->shown) {
        forget_passing();
    }
    redlock_lock_free(line->look);
    line->look = NULL;
}

/* ---- the report ---------------------------------------------------------------------------- */

static bool still_waits(struct redlock_lock *lock) {
    return lock == NULL || redlock_lock_state(lock) == REDLOCK_STATE_ACQUIRING;
}

/* Readable keys do not prove that nodes vote: in guarded mode their records do. */
static bool report_no_quorum(struct session *session, struct redlock_lock *lock,
                             const char *resource, const char *limit) {
    struct membership membership;
    if (session_mode(session) != REDLOCK_MODE_GUARDED || membership_peek(session, &membership) != 0)
        return false;
    const bool votes = membership.state <= MEMBERSHIP_DEGRADED && membership.unaccepted[0] == '\0';
    if (votes || !still_waits(lock)) return false;
    session_failure(session, NULL, resource, REDLOCK_NO_QUORUM);
    complain("waiting for a majority that votes%s", limit);
    return true;
}

/* Such nodes show who holds the lock, and give it to nobody. */
static bool report_refused(struct session *session, struct redlock_lock *lock, const char *resource,
                           const char *limit) {
    if (lock == NULL || !still_waits(lock) || !session_writes_refused(session, lock)) return false;
    session_failure(session, lock, resource, REDLOCK_NO_QUORUM);
    complain("waiting for a majority that takes writes%s", limit);
    return true;
}

bool report_waiting(struct session *session, struct redlock_lock *lock, const char *resource,
                    const char *limit) {
    if (report_no_quorum(session, lock, resource, limit)) return true;
    if (report_refused(session, lock, resource, limit)) return true;
    struct redlock_view views[REDLOCK_NODES_MAX];
    int result =
        redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX);
    struct majority majority = majority_of(views, redlock_client_nodes(session->client));
    /* The peek took time, and the lock may have been acquired meanwhile. */
    if (!still_waits(lock)) return false;
    if (result == REDLOCK_NO_QUORUM) {
        session_unseen(session, views, resource, result);
        int verdicts[REDLOCK_NODES_MAX];
        verdicts_of(session, views, verdicts);
        if (session_reads_refused(session, verdicts))
            complain("waiting for the lock all the same; its holder cannot be shown");
        else
            complain("waiting for a majority to answer%s", limit);
        return true;
    }
    if (result == REDLOCK_OK && majority.verdict == MAJORITY_FOREIGN) {
        char what[120];
        complain("waiting for '%.100s': %s. Delete the key, or choose another name", resource,
                 session_foreign(session, resource, strlen(resource), what, sizeof what));
        return true;
    }
    if (result == REDLOCK_OK && majority.verdict == MAJORITY_HELD && majority.remaining_ms < 0) {
        complain("waiting for '%.100s': its key has no TTL, so it never ends. Delete the key, or "
                 "choose another name",
                 resource);
        return true;
    }
    if (!session->settings->verbose) return false;
    if (result != REDLOCK_OK || majority.verdict != MAJORITY_HELD) {
        complain("waiting for '%.100s'", resource);
        return true;
    }
    char owner[256], left[64];
    owner_text(&views[majority.holder], owner, sizeof owner);
    complain("waiting for '%.100s': held by %s, for %s more unless renewed", resource,
             holder_name(owner, is_shared(&views[majority.holder]), "another"),
             duration_text(left, sizeof left, majority.remaining_ms));
    return true;
}
