/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The actions and faults of clients, in sentences.
 */
#include "story.h"

#include <inttypes.h>
#include <stdio.h>

#include "net/net.h"
#include "phrase.h"
#include "redlock.h"

/* A word for the picture. */
static const char *result_word(int result) {
    switch (result) {
    case REDLOCK_OK: return "ok";
    case REDLOCK_HELD: return "held";
    case REDLOCK_NO_QUORUM: return "no quorum";
    case REDLOCK_EXPIRED: return "too late";
    case REDLOCK_LOST: return "lost";
    case REDLOCK_CANCELLED: return "cancelled";
    case REDLOCK_TWICE_LISTED: return "listed twice";
    default: return "failed";
    }
}

/* The nodes that a client sends `op` to at this very time; marks those records as described. */
static rl_mask sent_now(struct story *story, size_t index, int op) {
    const struct history *history = story->history;
    const struct history_record *record = &history->records[index];
    rl_mask nodes = 0;
    for (size_t i = index; i < history->count && history->records[i].at == record->at; i++) {
        const struct history_record *sent = &history->records[i];
        if (sent->kind != HISTORY_SENT || sent->client != record->client || sent->op != op ||
            story->described[i])
            continue;
        nodes |= rl_bit((unsigned)sent->node);
        story->described[i] = 1;
    }
    return nodes;
}

/* The nodes whose answer `verdict` about `token` the client has received by now. */
static rl_mask answered_by(const struct story *story, size_t index, int verdict, uint32_t token) {
    const struct history *history = story->history;
    rl_mask nodes = 0;
    for (size_t i = 0; i <= index; i++) {
        const struct history_record *answer = &history->records[i];
        if (answer->kind != HISTORY_ANSWERED || answer->client != history->records[index].client)
            continue;
        if (answer->op != NET_ACQUIRE || answer->result != verdict || answer->token != token)
            continue;
        nodes |= rl_bit((unsigned)answer->node);
    }
    return nodes;
}

static size_t last_of(const struct story *story, size_t index, enum history_kind kind) {
    const struct history_record *records = story->history->records;
    for (size_t i = index; i > 0; i--) {
        if (records[i - 1].kind == kind && records[i - 1].client == records[index].client)
            return i - 1;
    }
    return 0;
}

/* The token of the last try that this acquisition made; 0: it made none. */
static uint32_t last_token(const struct story *story, size_t index) {
    const struct history_record *records = story->history->records;
    size_t since = last_of(story, index, HISTORY_ACQUIRE);
    for (size_t i = index; i > since; i--) {
        const struct history_record *record = &records[i - 1];
        if (record->kind == HISTORY_SENT && record->op == NET_ACQUIRE &&
            record->client == records[index].client)
            return record->token;
    }
    return 0;
}

static void describe_acquired(struct story *story, size_t index, const char *client,
                              const char *resource) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = answered_by(story, index, REDLOCK_VERDICT_GRANTED, record->token);
    struct story_event *event = story_add(story, index, "holds it");
    story_say(event, "%s holds %s%s until %s", client, resource,
              record->result ? " as a reader" : "", phrase_time(record->until).text);
    if (nodes != 0) story_say(event, ": %s granted it", phrase_nodes(nodes).text);
    if (rl_count(nodes) > 1) story_say(event, ", a majority");
    story_say(event, ".");
}

static void describe_not_acquired(struct story *story, size_t index, const char *client,
                                  const char *resource) {
    const struct history_record *record = &story->history->records[index];
    uint32_t token = last_token(story, index);
    rl_mask granted = answered_by(story, index, REDLOCK_VERDICT_GRANTED, token);
    rl_mask denied = answered_by(story, index, REDLOCK_VERDICT_DENIED, token);
    char label[40];
    snprintf(label, sizeof label, "not won: %s", result_word(record->result));
    struct story_event *event = story_add(story, index, label);
    story_say(event, "%s does not get %s: %s", client, resource,
              redlock_result_text(record->result));
    if (denied != 0) story_say(event, ". Refused by %s", phrase_nodes(denied).text);
    if (granted != 0)
        story_say(event, "%s by %s", denied != 0 ? ", granted" : ". Granted",
                  phrase_nodes(granted).text);
    story_say(event, ".");
}

/* What a client asks for, and of which nodes. */
static void describe_request(struct story *story, size_t index, const char *client,
                             const char *resource) {
    enum history_kind kind = (enum history_kind)story->history->records[index].kind;
    int op = kind == HISTORY_ACQUIRE  ? NET_ACQUIRE
             : kind == HISTORY_EXTEND ? NET_EXTEND
                                      : NET_RELEASE;
    rl_mask mask = sent_now(story, index, op);
    const struct phrase_nodes nodes = phrase_nodes(mask);
    if (kind == HISTORY_ACQUIRE && story->history->records[index].token != 0)
        story_say(story_add(story, index, "takes over"), "%s takes over %s by the token.", client,
                  resource);
    else if (kind == HISTORY_ACQUIRE && mask == 0)
        story_say(story_add(story, index, "asks"), "%s wants %s.", client, resource);
    else if (kind == HISTORY_ACQUIRE)
        story_say(story_add(story, index, "asks"), "%s asks %s for %s.", client, nodes.text,
                  resource);
    else if (kind == HISTORY_EXTEND)
        story_say(story_add(story, index, "extends"), "%s asks for more time on %s%s%s.", client,
                  resource, mask ? ", of " : "", mask ? nodes.text : "");
    else if (mask == 0)
        story_say(story_add(story, index, "releases"), "%s releases %s.", client, resource);
    else
        story_say(story_add(story, index, "releases"),
                  "%s releases %s: asks %s to delete the key if it is still its own.", client,
                  resource, nodes.text);
}

/* An extension or a release that has ended; `what` names it. */
static void describe_end(struct story *story, size_t index, const char *what, const char *client) {
    const struct history_record *record = &story->history->records[index];
    char label[40];
    snprintf(label, sizeof label, "%s: %s", what, result_word(record->result));
    struct story_event *event = story_add(story, index, label);
    story_say(event, "%s's %s is over: %s", client, what, redlock_result_text(record->result));
    if (record->kind == HISTORY_EXTENDED && record->result == REDLOCK_OK)
        story_say(event, "; it holds until %s", phrase_time(record->until).text);
    story_say(event, ".");
}

static void describe_register(struct story *story, size_t index, const char *client,
                              const char *resource) {
    const struct history_record *record = &story->history->records[index];
    char label[40];
    const char *verb = record->kind == HISTORY_READ    ? "reads"
                       : record->kind == HISTORY_WRITE ? "writes"
                                                       : "refused:";
    snprintf(label, sizeof label, "%s %s %" PRId64, client, verb, record->value);
    struct story_event *event = story_add(story, index, label);
    event->client = -1;
    event->resource = record->resource;
    if (record->kind == HISTORY_READ)
        story_say(event, "%s reads %" PRId64 " from what %s protects.", client, record->value,
                  resource);
    else if (record->kind == HISTORY_WRITE)
        story_say(event, "%s's write arrives: what %s protects is now %" PRId64 ".", client,
                  resource, record->value);
    else
        story_say(event, "%s's write to what %s protects is refused: its fencing token is too old.",
                  client, resource);
}

static void describe_lost(struct story *story, size_t index, const char *client,
                          const char *resource) {
    const struct history_record *records = story->history->records;
    size_t from = last_of(story, index, HISTORY_ACQUIRED),
           renewed = last_of(story, index, HISTORY_RENEWED),
           extended = last_of(story, index, HISTORY_EXTENDED);
    if (renewed > from) from = renewed;
    if (extended > from && records[extended].result == REDLOCK_OK) from = extended;
    rl_ns left = records[from].until - records[index].at;
    struct story_event *event = story_add(story, index, "told: lost");
    story_say(event, "%s is told that %s is lost", client, resource);
    if (left > 0) story_say(event, ", %s before its validity ends", phrase_time(left).text);
    story_say(event, ".");
}

static void describe_operate(struct story *story, size_t index, const char *client) {
    const struct history_record *record = &story->history->records[index];
    static const char *const words[] = {"changes", "inits",           "adds",
                                        "removes", "sets ttl_max to", "breaks"};
    const char *word = words[record->value >= 1 && record->value <= 5 ? record->value : 0];
    char node[32] = "", label[64];
    if (record->node >= 0) snprintf(node, sizeof node, "node %d", record->node + 1);
    if (record->value == 4) snprintf(node, sizeof node, "%s", phrase_time(record->until).text);
    snprintf(label, sizeof label, "%s %s", word, node);
    story_say(story_add(story, index, label), "%s begins: %s %s.", client, word,
              node[0]              ? node
              : record->value == 5 ? "the lock"
                                   : "the quorum");
}

static void describe_broken(struct story *story, size_t index, const char *client,
                            const char *resource) {
    const struct history_record *record = &story->history->records[index];
    struct story_event *event = story_add(story, index, "broken");
    story_say(event, "%s has broken the lock on %s: a majority of the nodes does not have its key",
              client, resource);
    if (record->value > 0)
        story_say(event, ". What it protects has seen the fence %" PRId64, record->value);
    story_say(event, ".");
}

/* That the time of a leader has grown is no news. */
static void describe_observed(struct story *story, size_t index, const char *client,
                              const char *resource) {
    const struct history_record *record = &story->history->records[index], *before = NULL;
    for (size_t i = 0; i < index; i++) {
        const struct history_record *other = &story->history->records[i];
        if (other->kind == HISTORY_OBSERVED && other->client == record->client &&
            other->resource == record->resource)
            before = other;
    }
    if (before && before->value == record->value && before->token == record->token) return;
    if (record->value > 0)
        story_say(story_add(story, index, "reports a leader"),
                  "%s reports who leads %s, under term %" PRId64 ".", client, resource,
                  record->value);
    else
        story_say(story_add(story, index, record->result ? "reports none" : "does not know"),
                  record->result ? "%s reports no leader of %s."
                                 : "%s does not know any more who leads %s.",
                  client, resource);
}

static void describe_operated(struct story *story, size_t index, const char *client) {
    const struct history_record *record = &story->history->records[index];
    const size_t began = last_of(story, index, HISTORY_OPERATE);
    const bool ok = record->result == REDLOCK_OK;
    if (began < index && story->history->records[began].value == 5) {
        /* BROKEN says the same */
        if (index > 0 && record[-1].kind == HISTORY_BROKEN && record[-1].client == record->client)
            return;
        story_say(story_add(story, index, ok ? "was free" : "not broken"),
                  "%s's break is over: %s.", client,
                  ok                                   ? "the lock was free"
                  : record->result == REDLOCK_CONFLICT ? "another client has the lock"
                                                       : redlock_result_text(record->result));
        return;
    }
    story_say(story_add(story, index, ok ? "changed" : "not changed"),
              "%s's change of the quorum is over: %s.", client,
              redlock_result_text(record->result));
}

static void describe_renewed(struct story *story, size_t index, const char *client,
                             const char *resource) {
    const struct history_record *record = &story->history->records[index];
    const struct phrase_time until = phrase_time(record->until);
    /* The first record after a stop, before any message: its clock had stopped too. */
    if (index > 0 && record[-1].kind == HISTORY_RESUME && record[-1].client == record->client)
        story_say(story_add(story, index, "still holds it"),
                  "By %s's clock no time has passed: it believes to hold %s until %s.", client,
                  resource, until.text);
    else
        story_say(story_add(story, index, "renewed"), "%s holds %s until %s now: renewed.", client,
                  resource, until.text);
}

static void describe_clock(struct story *story, size_t index, const char *client) {
    const struct phrase_time step = phrase_step(story->history->records[index].value);
    char label[40];
    snprintf(label, sizeof label, "clock %s", step.text);
    story_say(story_add(story, index, label), "%s's wall clock steps by %s.", client, step.text);
}

void story_client_event(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (record->client < 0) return;
    const char *client = story_client(story, record->client);
    const char *resource = record->resource < 0 ? "" : story->names.resources[record->resource];
    switch (record->kind) {
    case HISTORY_ACQUIRE:
    case HISTORY_EXTEND:
    case HISTORY_RELEASE: describe_request(story, index, client, resource); break;
    case HISTORY_ACQUIRED: describe_acquired(story, index, client, resource); break;
    case HISTORY_NOT_ACQUIRED: describe_not_acquired(story, index, client, resource); break;
    case HISTORY_RELEASED:
        if (record->result != REDLOCK_OK) describe_end(story, index, "release", client);
        break;
    case HISTORY_EXTENDED: describe_end(story, index, "extension", client); break;
    case HISTORY_READ:
    case HISTORY_WRITE:
    case HISTORY_WRITE_REFUSED: describe_register(story, index, client, resource); break;
    case HISTORY_RENEWED: describe_renewed(story, index, client, resource); break;
    case HISTORY_UNSURE:
        story_say(story_add(story, index, "unsure"),
                  "%s could not renew %s; some validity is left, and it tries again.", client,
                  resource);
        break;
    case HISTORY_LOST: describe_lost(story, index, client, resource); break;
    case HISTORY_CANCEL:
        story_say(story_add(story, index, "cancels"), "%s gives up asking for %s.", client,
                  resource);
        break;
    case HISTORY_PAUSE:
        story_say(story_add(story, index, "stops"), "%s stops running.", client);
        break;
    case HISTORY_RESUME:
        story_say(story_add(story, index, "goes on"), "%s runs again.", client);
        break;
    case HISTORY_CLIENT_CRASH:
        story_say(story_add(story, index, "crashes"), "%s crashes, for good.", client);
        break;
    case HISTORY_OPERATE: describe_operate(story, index, client); break;
    case HISTORY_BREAK:
        story_say(story_add(story, index, "begins to delete"),
                  "%s begins to delete the keys of %s's holder.", client, resource);
        break;
    case HISTORY_BROKEN: describe_broken(story, index, client, resource); break;
    case HISTORY_OBSERVED: describe_observed(story, index, client, resource); break;
    case HISTORY_OPERATED: describe_operated(story, index, client); break;
    case HISTORY_CLIENT_CLOCK: describe_clock(story, index, client); break;
    default: break;
    }
}
