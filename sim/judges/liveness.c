/* SPDX-License-Identifier: BSD-2-Clause
 *
 * LIVENESS: after FAULTS_END, a client acquires a lock that is wanted and free within
 * history->liveness_bound.
 *
 * The judge counts the time in which at least one living client has an ACQUIRE open and no client's
 * validity of the resource runs. An ACQUIRED resets the count to 0. Time in which no client wants
 * it, or one holds it, does not count. A client that gives up and begins anew does not reset the
 * count: many short tries that never win are a livelock too. Validity ends where a release begins,
 * else at `until`, also after LOST and after a crash: the keys live on until then. The bound must
 * have room for the time that they live longer (drift, late SETs).
 *
 * A client that finds two quorums is refused at once. It never waits, so the count misses it. So
 * also: when the run ends, no client was refused so in its last acquisition after FAULTS_END.
 */
#include "judges.h"

struct wanted {
    bool open[JUDGE_CLIENTS];
    unsigned count;
    size_t first;               /* the ACQUIRE that made it wanted */
    rl_ns until[JUDGE_CLIENTS]; /* each client's validity */
    rl_ns free_from;            /* no validity runs from here on */
    rl_ns marked;               /* counted up to this time */
    rl_ns waited;
    bool reported;
    bool late[JUDGE_CLIENTS]; /* the client's last acquisition began after FAULTS_END */
    /* index of the NOT_ACQUIRED of such an acquisition, plus one; 0: it has acquired since */
    size_t refused[JUDGE_CLIENTS];
};

struct watch {
    struct report *report;
    const struct history_record *records;
    bool faults_ended;
    struct wanted resources[JUDGE_RESOURCES];
};

static void count_up(struct watch *watch, unsigned resource, size_t index) {
    struct wanted *wanted = &watch->resources[resource];
    rl_ns at = watch->records[index].at;
    rl_ns from = wanted->marked > wanted->free_from ? wanted->marked : wanted->free_from;
    if (watch->faults_ended && wanted->count > 0 && at > from) wanted->waited += at - from;
    wanted->marked = at;
    if (wanted->waited <= watch->report->history->liveness_bound || wanted->reported) return;
    wanted->reported = true;
    judge_found(
        watch->report, CHECK_LIVENESS, wanted->first, index, at - wanted->waited, at,
        "%s was free and wanted for %s after the faults had ended, and by %s nobody had acquired it; %s may be "
        "taken up",
        judge_resource((int)resource).text, judge_ms(wanted->waited).text, judge_ms(at).text,
        judge_ms(watch->report->history->liveness_bound).text);
}

static void stop_wanting(struct wanted *wanted, int client) {
    if (!wanted->open[client]) return;
    wanted->open[client] = false;
    wanted->count--;
}

/* How the client's last acquisition ended. */
static void note_try(struct watch *watch, size_t index) {
    const struct history_record *record = &watch->records[index];
    struct wanted *wanted = &watch->resources[record->resource];
    int client = record->client;
    if (record->kind == HISTORY_ACQUIRE) wanted->late[client] = watch->faults_ended;
    if (record->kind == HISTORY_ACQUIRED) wanted->refused[client] = 0;
    if (record->kind == HISTORY_NOT_ACQUIRED && wanted->late[client])
        wanted->refused[client] = record->result == JUDGE_TWO_QUORUMS ? index + 1 : 0;
}

static void judge_refused(struct watch *watch, size_t index) {
    for (int i = 0; i < JUDGE_RESOURCES * JUDGE_CLIENTS; i++) {
        int resource = i / JUDGE_CLIENTS, client = i % JUDGE_CLIENTS;
        size_t last = watch->resources[resource].refused[client];
        if (last == 0) continue;
        judge_found(
            watch->report, CHECK_LIVENESS, last - 1, index, watch->records[last - 1].at,
            watch->records[index].at,
            "%s was refused %s at %s, after the faults had ended, and never acquired it again",
            judge_client(client).text, judge_resource(resource).text,
            judge_ms(watch->records[last - 1].at).text);
    }
}

static void count_all(struct watch *watch, size_t index) {
    for (unsigned resource = 0; resource < JUDGE_RESOURCES; resource++)
        count_up(watch, resource, index);
}

static void begin(struct wanted *wanted, int client, size_t index) {
    if (wanted->open[client]) return;
    if (wanted->count == 0 && wanted->waited == 0) wanted->first = index;
    wanted->open[client] = true;
    wanted->count++;
}

static void now_until(struct wanted *wanted, int client, rl_ns until) {
    wanted->until[client] = wanted->free_from = until;
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
        if (wanted->until[i] > wanted->free_from) wanted->free_from = wanted->until[i];
}

static void step_of_lock(struct watch *watch, size_t index) {
    const struct history_record *record = &watch->records[index];
    struct wanted *wanted = &watch->resources[record->resource];
    count_up(watch, (unsigned)record->resource, index);
    note_try(watch, index);
    switch (record->kind) {
    case HISTORY_ACQUIRE: begin(wanted, record->client, index); break;
    case HISTORY_ACQUIRED:
        wanted->waited = 0;
        stop_wanting(wanted, record->client);
        now_until(wanted, record->client, record->until);
        break;
    case HISTORY_NOT_ACQUIRED: stop_wanting(wanted, record->client); break;
    case HISTORY_RELEASE:
        if (wanted->until[record->client] > record->at)
            now_until(wanted, record->client, record->at);
        break;
    default: /* RENEWED, EXTENDED */ now_until(wanted, record->client, record->until); break;
    }
}

static void step(struct watch *watch, size_t index) {
    const struct history_record *record = &watch->records[index];
    switch (record->kind) {
    case HISTORY_ACQUIRE:
    case HISTORY_ACQUIRED:
    case HISTORY_NOT_ACQUIRED:
    case HISTORY_RENEWED:
    case HISTORY_RELEASE: step_of_lock(watch, index); break;
    case HISTORY_EXTENDED:
        if (record->result == JUDGE_OK) step_of_lock(watch, index);
        break;
    case HISTORY_CLIENT_CRASH:
        count_all(watch, index);
        for (unsigned i = 0; i < JUDGE_RESOURCES; i++) {
            stop_wanting(&watch->resources[i], record->client);
            watch->resources[i].refused[record->client] = 0;
        }
        break;
    case HISTORY_FAULTS_END:
        count_all(watch, index);
        watch->faults_ended = true;
        break;
    case HISTORY_END:
        count_all(watch, index);
        judge_refused(watch, index);
        break;
    default: break;
    }
}

void judge_liveness(struct report *report) {
    if (report->history->liveness_bound <= 0) return; /* no bound was promised */
    struct watch watch = {.report = report, .records = report->history->records};
    for (size_t i = 0; i < report->history->count; i++) step(&watch, i);
}
