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

static const char *result_text(int result) {
    switch (result) {
#define RESULT_CASE(name, value, text)                                                             \
    case value: return text;
        REDLOCK_RESULTS(RESULT_CASE)
#undef RESULT_CASE
    default: return "?";
    }
}

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

static void describe_acquire(struct story *story, size_t index, const char *client,
                             const char *resource) {
    rl_mask nodes = sent_now(story, index, NET_ACQUIRE);
    struct story_event *event = story_add(story, index, "asks");
    event->client = story->history->records[index].client;
    char list[PHRASE_NODES_BYTES];
    if (nodes == 0) {
        snprintf(event->text, sizeof event->text, "%s wants %s.", client, resource);
    } else {
        snprintf(event->text, sizeof event->text, "%s asks %s for %s.", client,
                 phrase_nodes(nodes, list, sizeof list), resource);
    }
}

static void describe_acquired(struct story *story, size_t index, const char *client,
                              const char *resource) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = answered_by(story, index, REDLOCK_VERDICT_GRANTED, record->token);
    char list[PHRASE_NODES_BYTES], until[PHRASE_TIME_BYTES];
    struct story_event *event = story_add(story, index, "holds it");
    event->client = record->client;
    struct phrase phrase;
    phrase_begin(&phrase, event->text, sizeof event->text);
    phrase_add(&phrase, "%s holds %s until %s", client, resource,
               phrase_time(record->until, until, sizeof until));
    if (nodes != 0) phrase_add(&phrase, ": %s granted it", phrase_nodes(nodes, list, sizeof list));
    if (rl_count(nodes) > 1) phrase_add(&phrase, ", a majority");
    phrase_add(&phrase, ".");
}

static void describe_not_acquired(struct story *story, size_t index, const char *client,
                                  const char *resource) {
    const struct history_record *record = &story->history->records[index];
    uint32_t token = last_token(story, index);
    rl_mask granted = answered_by(story, index, REDLOCK_VERDICT_GRANTED, token);
    rl_mask denied = answered_by(story, index, REDLOCK_VERDICT_DENIED, token);
    char label[40], list[PHRASE_NODES_BYTES];
    snprintf(label, sizeof label, "not won: %s", result_word(record->result));
    struct story_event *event = story_add(story, index, label);
    event->client = record->client;
    struct phrase phrase;
    phrase_begin(&phrase, event->text, sizeof event->text);
    phrase_add(&phrase, "%s does not get %s: %s", client, resource, result_text(record->result));
    if (denied != 0)
        phrase_add(&phrase, ". Refused by %s", phrase_nodes(denied, list, sizeof list));
    if (granted != 0)
        phrase_add(&phrase, "%s by %s", denied != 0 ? ", granted" : ". Granted",
                   phrase_nodes(granted, list, sizeof list));
    phrase_add(&phrase, ".");
}

static void describe_release(struct story *story, size_t index, const char *client,
                             const char *resource) {
    rl_mask nodes = sent_now(story, index, NET_RELEASE);
    struct story_event *event = story_add(story, index, "releases");
    event->client = story->history->records[index].client;
    char list[PHRASE_NODES_BYTES];
    struct phrase phrase;
    phrase_begin(&phrase, event->text, sizeof event->text);
    phrase_add(&phrase, "%s releases %s", client, resource);
    if (nodes != 0)
        phrase_add(&phrase, ": asks %s to delete the key if it is still its own",
                   phrase_nodes(nodes, list, sizeof list));
    phrase_add(&phrase, ".");
}

/* An acquisition, extension or release that has ended; `verb` names it. */
static void describe_end(struct story *story, size_t index, const char *label, const char *format,
                         const char *client) {
    const struct history_record *record = &story->history->records[index];
    char words[40];
    snprintf(words, sizeof words, "%s: %s", label, result_word(record->result));
    struct story_event *event = story_add(story, index, words);
    event->client = record->client;
    struct phrase phrase;
    phrase_begin(&phrase, event->text, sizeof event->text);
    phrase_add(&phrase, "%s's %s: %s", client, format, result_text(record->result));
    char until[PHRASE_TIME_BYTES];
    if (record->kind == HISTORY_EXTENDED && record->result == REDLOCK_OK) {
        phrase_add(&phrase, "; it holds until %s", phrase_time(record->until, until, sizeof until));
    }
    phrase_add(&phrase, ".");
}

static struct story_event *describe(struct story *story, size_t index, const char *label) {
    struct story_event *event = story_add(story, index, label);
    event->client = story->history->records[index].client;
    return event;
}

static void describe_extend(struct story *story, size_t index, const char *client,
                            const char *resource) {
    rl_mask nodes = sent_now(story, index, NET_EXTEND);
    struct story_event *event = describe(story, index, "extends");
    char list[PHRASE_NODES_BYTES];
    struct phrase phrase;
    phrase_begin(&phrase, event->text, sizeof event->text);
    phrase_add(&phrase, "%s asks for more time on %s", client, resource);
    if (nodes != 0) phrase_add(&phrase, ", of %s", phrase_nodes(nodes, list, sizeof list));
    phrase_add(&phrase, ".");
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
    event->resource = record->resource;
    if (record->kind == HISTORY_READ) {
        snprintf(event->text, sizeof event->text, "%s reads %" PRId64 " from what %s protects.",
                 client, record->value, resource);
    } else if (record->kind == HISTORY_WRITE) {
        snprintf(event->text, sizeof event->text,
                 "%s's write arrives: what %s protects is now %" PRId64 ".", client, resource,
                 record->value);
    } else {
        snprintf(event->text, sizeof event->text,
                 "%s's write to what %s protects is refused: its fencing token is too old.", client,
                 resource);
    }
}

/* ", 1 s": the validity that is left when a client learns of a loss; "" when none is. */
static void describe_margin(const struct story *story, size_t index, char *words, size_t size) {
    const struct history_record *records = story->history->records;
    size_t from = last_of(story, index, HISTORY_ACQUIRED),
           renewed = last_of(story, index, HISTORY_RENEWED);
    size_t extended = last_of(story, index, HISTORY_EXTENDED);
    if (renewed > from) from = renewed;
    if (extended > from && records[extended].result == REDLOCK_OK) from = extended;
    words[0] = '\0';
    char left[PHRASE_TIME_BYTES - 2];
    rl_ns until = records[from].until;
    if (until > records[index].at)
        snprintf(words, size, ", %s", phrase_time(until - records[index].at, left, sizeof left));
}

static void describe_operate(struct story *story, size_t index, const char *client) {
    const struct history_record *record = &story->history->records[index];
    static const char *const words[] = {"changes", "inits", "adds", "removes"};
    const char *word = words[record->value >= 1 && record->value <= 3 ? record->value : 0];
    char node[16] = "";
    if (record->node >= 0) snprintf(node, sizeof node, "node %d", record->node + 1);
    char label[40];
    snprintf(label, sizeof label, "%s %s", word, node);
    struct story_event *event = describe(story, index, label);
    snprintf(event->text, sizeof event->text, "%s begins: %s %s.", client, word,
             node[0] ? node : "the quorum");
}

static void describe_state(struct story *story, size_t index, const char *client,
                           const char *resource) {
    const struct history_record *record = &story->history->records[index];
    char words[PHRASE_TIME_BYTES], label[40];
    struct story_event *event;
    switch (record->kind) {
    case HISTORY_RENEWED:
        phrase_time(record->until, words, sizeof words);
        if (index > 0 && record[-1].kind == HISTORY_RESUME && record[-1].client == record->client) {
            /* The first record after a stop, before any message: its clock had stopped too. */
            event = describe(story, index, "still holds it");
            snprintf(event->text, sizeof event->text,
                     "By %s's clock no time has passed: it believes to hold %s until %s.", client,
                     resource, words);
            break;
        }
        event = describe(story, index, "renewed");
        snprintf(event->text, sizeof event->text, "%s holds %s until %s now: renewed.", client,
                 resource, words);
        break;
    case HISTORY_UNSURE:
        event = describe(story, index, "unsure");
        snprintf(event->text, sizeof event->text,
                 "%s could not renew %s; some validity is left, and it tries again.", client,
                 resource);
        break;
    case HISTORY_LOST:
        event = describe(story, index, "told: lost");
        describe_margin(story, index, words, sizeof words);
        snprintf(event->text, sizeof event->text, "%s is told that %s is lost%s%s.", client,
                 resource, words, words[0] != '\0' ? " before its validity ends" : "");
        break;
    case HISTORY_CANCEL:
        event = describe(story, index, "cancels");
        snprintf(event->text, sizeof event->text, "%s gives up asking for %s.", client, resource);
        break;
    case HISTORY_PAUSE:
        event = describe(story, index, "stops");
        snprintf(event->text, sizeof event->text, "%s stops running.", client);
        break;
    case HISTORY_RESUME:
        event = describe(story, index, "goes on");
        snprintf(event->text, sizeof event->text, "%s runs again.", client);
        break;
    case HISTORY_CLIENT_CRASH:
        event = describe(story, index, "crashes");
        snprintf(event->text, sizeof event->text, "%s crashes, for good.", client);
        break;
    case HISTORY_OPERATE: describe_operate(story, index, client); break;
    case HISTORY_OPERATED:
        snprintf(label, sizeof label, record->result == REDLOCK_OK ? "changed" : "not changed");
        event = describe(story, index, label);
        snprintf(event->text, sizeof event->text, "%s's change of the quorum is over: %s.", client,
                 redlock_result_text(record->result));
        break;
    case HISTORY_CLIENT_CLOCK:
        snprintf(label, sizeof label, "clock %s", phrase_step(record->value, words, sizeof words));
        event = describe(story, index, label);
        snprintf(event->text, sizeof event->text, "%s's wall clock steps by %s.", client,
                 phrase_step(record->value, words, sizeof words));
        break;
    default: break;
    }
}

void story_client_event(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (record->client < 0) return;
    const char *client = story_client(story, record->client);
    const char *resource = record->resource < 0 ? "" : story->names.resources[record->resource];
    switch (record->kind) {
    case HISTORY_ACQUIRE: describe_acquire(story, index, client, resource); break;
    case HISTORY_ACQUIRED: describe_acquired(story, index, client, resource); break;
    case HISTORY_NOT_ACQUIRED: describe_not_acquired(story, index, client, resource); break;
    case HISTORY_RELEASE: describe_release(story, index, client, resource); break;
    case HISTORY_RELEASED:
        if (record->result != REDLOCK_OK)
            describe_end(story, index, "release", "release is over", client);
        break;
    case HISTORY_EXTEND: describe_extend(story, index, client, resource); break;
    case HISTORY_EXTENDED:
        describe_end(story, index, "extension", "extension is over", client);
        break;
    case HISTORY_READ:
    case HISTORY_WRITE:
    case HISTORY_WRITE_REFUSED: describe_register(story, index, client, resource); break;
    default: describe_state(story, index, client, resource); break;
    }
}
