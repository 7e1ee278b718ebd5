/* SPDX-License-Identifier: BSD-2-Clause */
#include "look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/denials.h"
#include "explain/failure.h"
#include "explain/votes.h"
#include "process/boottime.h"
#include "process/message.h"

enum {
    BATCH = 64,               /* resources of one survey ... */
    BATCH_BYTES = 256 * 1024, /* ... and how much their names weigh; one may weigh more */
    STEPS_MOST = 100000,      /* of the walk of one look, if it has no limit of time */
    NEW_MOST = 2 /* resources for each row that one look asks for although it does not know them */
};

void top_observer_init(struct top_observer *observer, size_t rows_max) {
    pthread_mutex_init(&observer->mutex, NULL);
    top_model_init(&observer->model, redlock_client_nodes(observer->session.client), rows_max);
    observer->model.quorum.mode =
        observer->session.mode; /* the first page is drawn before a look */
    observer->result = REDLOCK_OK;
    observer->model.every_value = session_lists_every_value(&observer->session);
}

void top_observer_free(struct top_observer *observer) {
    top_model_free(&observer->model);
    free(observer->detail.resource);
    readers_free(&observer->detail.readers);
    pthread_mutex_destroy(&observer->mutex);
    session_close(&observer->session);
}

/* ---- nodes ---- */

static void look_at_node(struct top_observer *observer, size_t node,
                         const struct redlock_server *server) {
    struct top_node *to = &observer->model.nodes[node];
    struct redlock_node_status status = {.size = sizeof status};
    if (redlock_client_node(observer->session.client, node, &status) != REDLOCK_OK) return;
    const bool answered =
        server->verdict == REDLOCK_VERDICT_GRANTED && server->answered_ns > server->asked_ns;
    printable(to->url, sizeof to->url, status.url, strlen(status.url));
    if (status.verdict == REDLOCK_VERDICT_RECOVERING && to->verdict != REDLOCK_VERDICT_RECOVERING)
        to->recoveries++;
    to->verdict = status.verdict;
    to->reason[0] = '\0';
    /* Connected, but it has not answered now. */
    if (to->verdict == REDLOCK_VERDICT_GRANTED && server->verdict != REDLOCK_VERDICT_GRANTED)
        to->verdict = server->verdict;
    if (to->verdict != REDLOCK_VERDICT_GRANTED)
        node_reason(&observer->session, node, to->verdict, to->reason, sizeof to->reason);
    printable(to->version, sizeof to->version, status.version, strlen(status.version));
    to->recovering_ms = status.verdict == REDLOCK_VERDICT_RECOVERING ? status.recovering_ms : -1;
    to->reconnects = server->reconnects;
    if (answered && server->clock_us >= 0)
        top_model_clock(&observer->model, node, (server->asked_ns + server->answered_ns) / 2,
                        server->clock_us);
    top_model_trip(&observer->model, node,
                   answered ? (server->answered_ns - server->asked_ns) / 1000 : -1);
}

static void look_at_quorum(struct top_observer *observer, struct top_quorum *quorum) {
    struct redlock_member members[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) redlock_member_init(&members[i]);
    redlock_quorum_status_init(&quorum->status);
    quorum->mode = session_mode(&observer->session);
    quorum->two_quorums = quorum->unaccepted = false;
    if (quorum->mode != REDLOCK_MODE_GUARDED) return;
    const int result =
        redlock_quorum_peek(observer->session.client, &quorum->status, members, REDLOCK_NODES_MAX);
    quorum->two_quorums = result == REDLOCK_TWO_QUORUMS;
    quorum->unaccepted = result == REDLOCK_NO_QUORUM && quorum->status.known &&
                         quorum->status.intact >= quorum->status.votes_needed;
}

static int look_at_nodes(struct top_observer *observer) {
    struct redlock_server servers[REDLOCK_NODES_MAX];
    struct top_quorum quorum;
    const size_t count = observer->model.nodes_count;
    for (size_t i = 0; i < count; i++) redlock_server_init(&servers[i]);
    int result =
        redlock_server_info(observer->session.client, REDLOCK_SERVER_INFO_CLOCK, servers, count);
    look_at_quorum(observer, &quorum);
    pthread_mutex_lock(&observer->mutex);
    for (size_t i = 0; i < count; i++) look_at_node(observer, i, &servers[i]);
    observer->model.quorum = quorum;
    pthread_mutex_unlock(&observer->mutex);
    return result;
}

/* ---- what this user may not see ---- */

static void note_refusal(uint32_t *nodes, size_t node, int verdict) {
    const uint32_t bit = UINT32_C(1) << node;
    if (verdict == REDLOCK_VERDICT_NOPERM)
        *nodes |= bit;
    else if (verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT)
        *nodes &= ~bit;
}

/* Nodes are asked which command it is when one begins to refuse, not with each look. That a name is
 * denied says nothing of the others: a lock of another prefix. */
static void explain_refusals(struct top_observer *observer) {
    const uint32_t refused = observer->unlisted | observer->unread;
    struct denials denials = {.asked = false};
    char commands[100], texts[REDLOCK_NODES_MAX][160] = {{0}};
    if (refused == observer->told) return;
    observer->told = refused;
    for (size_t i = 0; i < observer->model.nodes_count; i++) {
        if ((refused & UINT32_C(1) << i) == 0) continue;
        const bool lists = (observer->unlisted & UINT32_C(1) << i) == 0;
        denied_commands(&observer->session, &denials, i, lists ? NEED_READ : NEED_LIST, commands,
                        sizeof commands);
        if (commands[0] != '\0' || !lists)
            denied_text(&observer->session, &denials, i, lists ? NEED_READ : NEED_LIST, NULL,
                        texts[i], sizeof texts[i]);
    }
    pthread_mutex_lock(&observer->mutex);
    for (size_t i = 0; i < observer->model.nodes_count; i++)
        memcpy(observer->model.nodes[i].unlisted, texts[i], sizeof texts[i]);
    pthread_mutex_unlock(&observer->mutex);
}

/* ---- locks ---- */

/* One more question, for those that have the marker. */
static int count_readers(struct top_observer *observer, struct top_row **rows, size_t count) {
    struct redlock_bytes resources[BATCH];
    struct top_row *shared[BATCH];
    const size_t nodes = observer->model.nodes_count;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i]->shared) continue;
        resources[found] = (struct redlock_bytes){rows[i]->resource, rows[i]->bytes};
        shared[found++] = rows[i];
    }
    if (found == 0) return REDLOCK_OK;
    struct redlock_readers_view *counts = calloc(found * nodes, sizeof *counts);
    if (counts == NULL) return REDLOCK_NO_MEMORY;
    int result = redlock_readers(observer->session.client, resources, found, 0, NULL, NULL, counts);
    if (result == REDLOCK_NO_QUORUM) result = REDLOCK_OK;
    pthread_mutex_lock(&observer->mutex);
    for (size_t i = 0; i < found && result == REDLOCK_OK; i++)
        top_model_saw_readers(&observer->model, shared[i], counts + i * nodes);
    pthread_mutex_unlock(&observer->mutex);
    free(counts);
    return result;
}

static int survey(struct top_observer *observer, struct top_row **rows, size_t count) {
    const size_t nodes = observer->model.nodes_count;
    struct redlock_bytes resources[BATCH];
    struct redlock_view *views = calloc(count * nodes, sizeof *views);
    struct redlock_queue_view *queues = calloc(count * nodes, sizeof *queues);
    int result = REDLOCK_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        resources[i] = (struct redlock_bytes){rows[i]->resource, rows[i]->bytes};
    if (views != NULL && queues != NULL)
        result = redlock_survey(observer->session.client, resources, count, views, queues);
    if (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM) {
        const int64_t now = now_ns();
        for (size_t i = 0; i < count * nodes; i++)
            note_refusal(&observer->unread, i % nodes, views[i].verdict);
        pthread_mutex_lock(&observer->mutex);
        for (size_t i = 0; i < count; i++)
            top_model_saw(&observer->model, rows[i], views + i * nodes, queues + i * nodes, now);
        pthread_mutex_unlock(&observer->mutex);
        result = count_readers(observer, rows, count);
    }
    free(views);
    free(queues);
    return result;
}

/* Asks for all known rows, or for all unknown ones. */
static int survey_rows(struct top_observer *observer, bool known, size_t *asked) {
    struct top_row *rows[TOP_ROWS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < observer->model.rows_count; i++)
        if (observer->model.rows[i]->known == known) rows[count++] = observer->model.rows[i];
    for (size_t at = 0, batch; at < count; at += batch) {
        size_t bytes = rows[at]->bytes;
        for (batch = 1; batch < BATCH && at + batch < count; batch++)
            if ((bytes += rows[at + batch]->bytes) > BATCH_BYTES) break;
        int result = survey(observer, rows + at, batch);
        if (result != REDLOCK_OK) return result;
    }
    *asked += count;
    return REDLOCK_OK;
}

struct finder {
    struct top_observer *observer;
    bool failed;
};

static void on_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    struct finder *finder = context;
    struct top_observer *observer = finder->observer;
    pthread_mutex_lock(&observer->mutex);
    if (!top_model_found(&observer->model, node, what, resource, bytes)) finder->failed = true;
    pthread_mutex_unlock(&observer->mutex);
}

/* Steps and questions in turn: most names on a server may be no locks, and then make room for
 * others. */
static int walk(struct top_observer *observer, int64_t walk_ms) {
    const int64_t until = walk_ms > 0 ? now_ns() + walk_ms * MS : NEVER;
    struct finder finder = {observer, false};
    size_t asked = 0;
    for (int steps = 0; steps < STEPS_MOST && now_ns() < until; steps++) {
        if (walk_ms > 0 && asked >= NEW_MOST * observer->model.rows_max) break;
        observer->model.walk.effort = top_model_effort(&observer->model);
        int result = redlock_scan(observer->session.client, &observer->model.walk, on_key, &finder);
        for (size_t i = 0; i < observer->model.nodes_count; i++)
            note_refusal(&observer->unlisted, i, observer->model.walk.verdicts[i]);
        if (finder.failed || result == REDLOCK_NO_MEMORY) return REDLOCK_NO_MEMORY;
        if (survey_rows(observer, false, &asked) != REDLOCK_OK) return REDLOCK_NO_MEMORY;
        pthread_mutex_lock(&observer->mutex);
        bool complete = top_model_stepped(&observer->model);
        pthread_mutex_unlock(&observer->mutex);
        if (complete || result != REDLOCK_OK) break;
    }
    return REDLOCK_OK;
}

static void look_at_detail(struct top_observer *observer) {
    struct top_detail *detail = &observer->detail;
    struct redlock_view views[REDLOCK_NODES_MAX];
    struct redlock_queue_view queues[REDLOCK_NODES_MAX];
    const struct redlock_bytes resource = {detail->resource, detail->bytes};
    if (detail->resource == NULL) return;
    int result = redlock_survey(observer->session.client, &resource, 1, views, queues);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return;
    struct readers readers, before;
    if (!readers_take(&observer->session, resource.data, resource.bytes, views,
                      observer->model.nodes_count, READERS_ASKED, &readers))
        return;
    pthread_mutex_lock(&observer->mutex);
    before = detail->readers;
    detail->readers = readers;
    memcpy(detail->views, views, observer->model.nodes_count * sizeof views[0]);
    memcpy(detail->queues, queues, observer->model.nodes_count * sizeof queues[0]);
    detail->seen = true;
    pthread_mutex_unlock(&observer->mutex);
    readers_free(&before);
}

/* A quarter of the time belongs to the walk, so that servers mostly rest. */
static int64_t walk_ms(int64_t interval_ms) {
    const int64_t ms = interval_ms / 4;
    return ms > 1000 ? 1000 : ms;
}

int top_look(struct top_observer *observer, int64_t interval_ms) {
    size_t asked = 0;
    int result = look_at_nodes(observer);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return result;
    int locks = survey_rows(observer, true, &asked);
    if (locks == REDLOCK_OK) locks = walk(observer, walk_ms(interval_ms));
    if (locks != REDLOCK_OK) return locks;
    explain_refusals(observer);
    look_at_detail(observer);
    pthread_mutex_lock(&observer->mutex);
    top_model_looked(&observer->model, now_ns());
    observer->result = result;
    pthread_mutex_unlock(&observer->mutex);
    return result;
}
