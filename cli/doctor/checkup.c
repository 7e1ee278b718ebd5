/* SPDX-License-Identifier: BSD-2-Clause */
#include "checkup.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "explain/denials.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "process/boottime.h"

#define SAMPLE_GAP (100 * MS)
#define SAMPLES_MAX 1000
#define JUMP_MIN (20 * MS)
#define CONNECTIONS_MORE 5
#define TRIALS_MAX 3

bool is_served(const struct examined *node) {
    return node->info.verdict == REDLOCK_VERDICT_GRANTED;
}

bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

bool only_examines(const char *denied) {
    return (has_word(denied, "set") && has_word(denied, "del") && has_word(denied, "pexpire")) ||
           (has_word(denied, "redlock.lock") && has_word(denied, "redlock.unlock") &&
            has_word(denied, "redlock.extend"));
}

/* ---- clocks ---- */

/* Our wall clock minus CLOCK_BOOTTIME: the wall clock is displayed, CLOCK_BOOTTIME measures. */
static int64_t wall_minus_boot(void) {
    struct timespec wall;
    int64_t before = now_ns();
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (before + (now_ns() - before) / 2);
}

static struct clock_sample sample_of(const struct redlock_server *info) {
    if (info->answered_ns < 0) return (struct clock_sample){.taken = false};
    int64_t round_trip = info->answered_ns - info->asked_ns;
    return (struct clock_sample){.taken = true,
                                 .middle_ns = info->asked_ns + round_trip / 2,
                                 .round_trip_ns = round_trip,
                                 .clock_ns = info->clock_us < 0 ? -1 : info->clock_us * 1000};
}

/* The quickest sample is the most exact: its error is at most half its round trip. */
static struct clock_sample quickest(const struct clock_sample *samples, size_t count) {
    struct clock_sample best = {.taken = false};
    for (size_t i = 0; i < count; i++) {
        if (!samples[i].taken || samples[i].clock_ns < 0) continue;
        if (!best.taken || samples[i].round_trip_ns < best.round_trip_ns) best = samples[i];
    }
    return best;
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void measure_pings(struct examined *node, const struct clock_sample *samples, size_t count) {
    int64_t times[SAMPLES_MAX];
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (samples[i].taken) times[taken++] = samples[i].round_trip_ns;
    }
    node->ping_min_ns = node->ping_median_ns = -1;
    if (taken == 0) return;
    qsort(times, taken, sizeof times[0], compare_times);
    node->ping_min_ns = times[0];
    node->ping_median_ns = times[taken / 2];
}

/* All samples show the same microsecond, and more than one was taken. */
static int64_t frozen_over(const struct clock_sample *samples, size_t count,
                           struct clock_sample before) {
    struct clock_sample first = before;
    int64_t over_ns = 0;
    for (size_t i = 0; i < count; i++) {
        if (!samples[i].taken || samples[i].clock_ns < 0) continue;
        if (!first.taken) first = samples[i];
        if (samples[i].clock_ns != first.clock_ns) return 0;
        over_ns = samples[i].middle_ns - first.middle_ns -
                  (samples[i].round_trip_ns + first.round_trip_ns) / 2;
    }
    return over_ns > 0 ? over_ns : 0;
}

struct step {
    int64_t ns, error_ns; /* of the server's clock against ours, from one sample to the next */
};

static int compare_steps(const void *a, const void *b) {
    int64_t left = ((const struct step *)a)->ns, right = ((const struct step *)b)->ns;
    return left < right ? -1 : left > right;
}

/* The step that is furthest from the median, by more than what is uncertain of both. The median is
 * what a clock that runs too fast or too slow, or stands still, moves each time, which is not a
 * jump. A jump and the one back cancel in measure_clock(). */
static int64_t largest_jump(const struct clock_sample *samples, size_t count) {
    struct step steps[SAMPLES_MAX];
    struct clock_sample last = {.taken = false};
    size_t steps_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!samples[i].taken || samples[i].clock_ns < 0) continue;
        if (last.taken)
            steps[steps_count++] = (struct step){
                .ns = samples[i].clock_ns - last.clock_ns - (samples[i].middle_ns - last.middle_ns),
                .error_ns = (samples[i].round_trip_ns + last.round_trip_ns) / 2};
        last = samples[i];
    }
    if (steps_count < 3) return 0;
    qsort(steps, steps_count, sizeof steps[0], compare_steps);
    const struct step usual = steps[steps_count / 2];
    const struct step ends[2] = {steps[0], steps[steps_count - 1]};
    int64_t largest = 0;
    for (size_t i = 0; i < 2; i++) {
        int64_t jump = ends[i].ns - usual.ns;
        if (llabs(jump) - ends[i].error_ns - usual.error_ns < JUMP_MIN) continue;
        if (llabs(jump) > llabs(largest)) largest = jump;
    }
    return largest;
}

static void measure_clock(struct examined *node, const struct clock_sample *samples, size_t count,
                          struct clock_sample before, int64_t wall) {
    struct clock_sample best = quickest(samples, count),
                        late = quickest(samples + count / 2, count - count / 2);
    struct clock_sample early = before.taken ? before : quickest(samples, count / 2);
    node->offset_known = best.taken;
    if (best.taken) {
        node->offset_ns = best.clock_ns - (best.middle_ns + wall);
        node->offset_error_ns = best.round_trip_ns / 2;
    }
    node->frozen_over_ns = frozen_over(samples, count, before);
    node->jump_ns = largest_jump(samples, count);
    node->last = late;
    node->change_known = early.taken && late.taken;
    if (!node->change_known) return;
    node->change_over_ns = late.middle_ns - early.middle_ns;
    node->change_ns = late.clock_ns - early.clock_ns - node->change_over_ns;
    node->change_error_ns = (early.round_trip_ns + late.round_trip_ns) / 2;
}

/* samples[node * count + i] */
static int take_samples(struct session *session, size_t nodes, struct clock_sample *samples,
                        size_t count) {
    struct redlock_server infos[REDLOCK_NODES_MAX];
    int64_t next = now_ns();
    for (size_t i = 0; i < count; i++, next += SAMPLE_GAP) {
        session_live_until(session, next);
        for (size_t node = 0; node < nodes; node++) infos[node].size = sizeof infos[node];
        int result = redlock_server_info(session->client, REDLOCK_SERVER_INFO_CLOCK, infos, nodes);
        if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return result;
        for (size_t node = 0; node < nodes; node++)
            samples[node * count + i] = sample_of(&infos[node]);
    }
    return REDLOCK_OK;
}

/* ---- passwords ---- */

/* Writes the node's URL without its user, after the text that is there. */
static void append_anonymous(char *nodes, size_t size, const char *url) {
    size_t used = strlen(nodes);
    const char *host = strstr(url, "://"), *user_end = strchr(url, '@');
    if (host == NULL) return;
    host += strlen("://");
    int scheme = (int)(host - url);
    if (user_end != NULL) host = user_end + 1;
    snprintf(nodes + used, size - used, "%s%.*s%s", used > 0 ? "," : "", scheme, url, host);
}

/* A connection without a password shows whether the server requires one. That needs no permission,
 * and no user must send us a secret. */
static void knock(struct session *session, struct checkup *checkup) {
    const struct node_settings *login = &session->settings->client.node;
    const bool have_none = strchr(session->nodes, '@') == NULL && login->password_file == NULL &&
                           login->password_command == NULL;
    for (size_t i = 0; i < checkup->count; i++) {
        checkup->nodes[i].password = have_none && is_served(&checkup->nodes[i]) ? 0 : -1;
    }
    if (have_none) return;
    char nodes[REDLOCK_NODES_MAX * 400] = "";
    for (size_t i = 0; i < checkup->count; i++)
        append_anonymous(nodes, sizeof nodes, checkup->nodes[i].status.url);
    struct settings stranger = *session->settings;
    stranger.client.nodes = nodes;
    stranger.client.node = (struct node_settings){.user = NULL};
    stranger.verbose = false;
    stranger.client.mode = REDLOCK_MODE_CLASSIC; /* it checks the password only, not the records */
    stranger.confirm = false;
    stranger.client.quorum_id = stranger.file.quorum_id = NULL;
    stranger.client.allow_replicas = -1;
    struct session door;
    if (session_open(&door, &stranger) != 0) return;
    session_connect(&door);
    for (size_t i = 0; i < checkup->count && redlock_client_nodes(door.client) == checkup->count;
         i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(door.client, i, &status) != REDLOCK_OK) continue;
        if (status.verdict == REDLOCK_VERDICT_AUTH) checkup->nodes[i].password = 1;
        if (status.verdict == REDLOCK_VERDICT_GRANTED) checkup->nodes[i].password = 0;
    }
    session_close(&door);
}

/* ---- further connections ---- */

/* Next to the first one: a load balancer gives each to another server. The first one has lived all
 * the time, so a server that restarted meanwhile does not count. */
static void connect_again(struct session *session, struct checkup *checkup) {
    struct session others[CONNECTIONS_MORE];
    struct settings classic = *session->settings; /* whichever process answers, whatever it has */
    size_t opened = 0;
    classic.verbose = false;
    classic.client.mode = REDLOCK_MODE_CLASSIC;
    classic.confirm = false;
    classic.client.quorum_id = classic.file.quorum_id = NULL;
    classic.client.allow_replicas = -1;
    while (opened < CONNECTIONS_MORE && session_open(&others[opened], &classic) == 0) opened++;
    for (size_t k = 0; k < opened; k++) {
        session_connect(&others[k]);
        for (size_t i = 0; i < checkup->count; i++) {
            struct examined *node = &checkup->nodes[i];
            struct redlock_node_status own = {.size = sizeof own}, other = {.size = sizeof other};
            if (redlock_client_node(session->client, i, &own) != REDLOCK_OK ||
                redlock_client_node(others[k].client, i, &other) != REDLOCK_OK)
                continue;
            if (is_served(node) && other.run_id[0] != '\0' &&
                strcmp(own.run_id, node->status.run_id) == 0 &&
                strcmp(own.run_id, other.run_id) != 0)
                memcpy(node->other_run_id, other.run_id, sizeof node->other_run_id);
        }
    }
    for (size_t k = 0; k < opened; k++) session_close(&others[k]);
}

/* ---- a lock ---- */

static bool is_refused(const struct tried *tried, size_t nodes) {
    for (size_t i = 0; i < nodes; i++)
        for (size_t step = 0; step < TRIAL_STEPS; step++)
            if (tried[i].denied[step][0] != '\0' || tried[i].unknown[step][0] != '\0') return true;
    return false;
}

/* Not with a user that only examines, not where no majority could give it, and not with a SETNX
 * scheme, whose keys have no TTL. */
static void try_lock(struct session *session, struct checkup *checkup) {
    struct tried tried[REDLOCK_NODES_MAX];
    size_t served = 0;
    for (size_t i = 0; i < checkup->count; i++) {
        if (!is_served(&checkup->nodes[i])) continue;
        served++;
        if (only_examines(checkup->nodes[i].info.denied)) return;
        if (checkup->nodes[i].status.scheme != REDLOCK_SCHEME_SET) return;
    }
    if (served < quorum_of(checkup->count)) return;
    /* an answer may be late once */
    for (int tries = 0; tries < TRIALS_MAX; tries++) {
        memset(tried, 0, sizeof tried);
        checkup->trial_result =
            trial_take(session->settings, checkup->membership.quorum.ttl_ms_allowed, tried);
        const bool late =
            checkup->trial_result == REDLOCK_NO_QUORUM || checkup->trial_result == REDLOCK_EXPIRED;
        if (!late || is_refused(tried, checkup->count)) break;
    }
    checkup->tried = checkup->trial_result != REDLOCK_SYSTEM;
    for (size_t i = 0; i < checkup->count; i++) checkup->nodes[i].tried = tried[i];
}

/* ---- all of it ---- */

static void set_cure(struct examined *node) {
    if (node->why.cure == NULL) return;
    snprintf(node->cure, sizeof node->cure, "%s.", node->why.cure);
    node->cure[0] = (char)toupper((unsigned char)node->cure[0]);
}

static int ask_all(struct session *session, struct checkup *checkup) {
    struct redlock_server infos[REDLOCK_NODES_MAX];
    struct redlock_why_report why;
    int verdicts[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < checkup->count; i++) infos[i].size = sizeof infos[i];
    int result =
        redlock_server_info(session->client, REDLOCK_SERVER_INFO_ALL, infos, checkup->count);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return result;
    for (size_t i = 0; i < checkup->count; i++) {
        struct examined *node = &checkup->nodes[i];
        node->info = infos[i];
        if (is_served(node)) (void)own_keys_take(session, i, NULL, node->keys);
        node->status.size = sizeof node->status;
        result = redlock_client_node(session->client, i, &node->status);
        if (result != REDLOCK_OK) return result;
        verdicts[i] = infos[i].verdict;
    }
    session_why(session, NULL, verdicts, REDLOCK_NO_QUORUM, &why);
    for (size_t i = 0; i < checkup->count; i++) {
        checkup->nodes[i].why = why.node[i];
        set_cure(&checkup->nodes[i]);
    }
    return REDLOCK_OK;
}

int checkup_take(struct session *session, const struct checkup *before, struct checkup *checkup) {
    const size_t samples_count = (size_t)session->settings->look.samples;
    *checkup = (struct checkup){.count = redlock_client_nodes(session->client),
                                .mode_open = session->mode_open,
                                .guarded_meant = session->settings->file.ttl_max_ms > 0,
                                .pinned = session->quorum != NULL,
                                .allow_replicas = session->allow_replicas != 0,
                                .node_timeout_ms = session->settings->client.node_timeout_ms,
                                .tls_certificate = session->settings->client.tls.cert_file != NULL};
    if (checkup->node_timeout_ms == 0)
        checkup->node_timeout_ms = 50; /* the library's own, for any TTL from 1s up */
    struct clock_sample *samples = calloc(checkup->count * samples_count, sizeof *samples);
    if (samples == NULL) return REDLOCK_NO_MEMORY;
    session_connect(session);
    checkup->guarded = session->mode == REDLOCK_MODE_GUARDED;
    int result = REDLOCK_OK;
    bool two; /* the records are asked for their quorums below */
    if (checkup->guarded && membership_peek_at_any(session, &checkup->membership, &two) != 0)
        result = REDLOCK_SYSTEM;
    if (result == REDLOCK_OK)
        result = take_samples(session, checkup->count, samples, samples_count);
    if (result == REDLOCK_OK) result = ask_all(session, checkup);
    if (result == REDLOCK_OK) knock(session, checkup);
    if (result == REDLOCK_OK) connect_again(session, checkup);
    if (result == REDLOCK_OK) try_lock(session, checkup);
    int64_t wall = wall_minus_boot();
    for (size_t i = 0; i < checkup->count && result == REDLOCK_OK; i++) {
        const struct clock_sample none = {.taken = false}, *own = samples + i * samples_count;
        measure_pings(&checkup->nodes[i], own, samples_count);
        measure_clock(&checkup->nodes[i], own, samples_count,
                      before != NULL ? before->nodes[i].last : none, wall);
    }
    free(samples);
    return result;
}
