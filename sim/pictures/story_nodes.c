/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The faults of nodes and the changes of their keys, in sentences. The same event on several nodes
 * at once is one sentence.
 */
#include "story.h"

#include <inttypes.h>
#include <stdio.h>

#include "phrase.h"
#include "redlock.h"

/* The owners of the keys that these nodes lost, or that ended there, at this time. Marks them as
 * described. `event` NULL: only that. */
static void add_keys_gone(struct story *story, size_t index, rl_mask nodes, enum history_kind kind,
                          struct story_event *event) {
    const struct history *history = story->history;
    rl_ns at = history->records[index].at;
    uint32_t owners = 0;
    size_t from = index;
    while (from > 0 && history->records[from - 1].at == at) from--;
    for (size_t i = from; i < history->count && history->records[i].at == at; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != kind || record->node < 0 || !(nodes & rl_bit((unsigned)record->node)))
            continue;
        story->described[i] = 1;
        int owner = story_owner(story, record->token);
        if (owners & (1u << (owner + 1))) continue;
        owners |= 1u << (owner + 1);
        if (event)
            story_say(event, "%s %s's key", kind == HISTORY_KEY_LOST ? "; gone is" : "; that ends",
                      story_client(story, owner));
    }
}

static struct story_event *describe(struct story *story, size_t index, rl_mask nodes,
                                    const char *label) {
    struct story_event *event = story_add(story, index, label);
    event->client = -1;
    event->nodes = nodes;
    return event;
}

/* The marker that readers stand behind was set as the first of them was listed. */
static bool is_of_readers(const struct story *story, size_t index) {
    const struct history_record *key = &story->history->records[index];
    uint32_t set = 0;
    for (size_t i = 0; i < index; i++) {
        const struct history_record *record = &story->history->records[i];
        if (record->node != key->node || record->resource != key->resource) continue;
        if (record->kind == HISTORY_KEY_SET) set = record->token;
        if (record->kind == HISTORY_READER_LISTED && set == key->token) return true;
    }
    return false;
}

static void describe_key(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes =
        story_same_on(story, index, record->kind == HISTORY_KEY_FOREIGN ? 0 : STORY_TOGETHER);
    const struct phrase_nodes list = phrase_nodes(nodes);
    if (record->kind == HISTORY_KEY_FOREIGN) {
        add_keys_gone(story, index, nodes, HISTORY_KEY_DELETED, NULL);
        add_keys_gone(story, index, nodes, HISTORY_KEY_SET, NULL);
        bool sets = record->token != 0;
        story_say(describe(story, index, nodes, sets ? "set by a stranger" : "stranger's DEL"),
                  "Somebody outside the protocol %s the key on %s.", sets ? "sets" : "deletes",
                  list.text);
        return;
    }
    bool lost = record->kind == HISTORY_KEY_LOST;
    if (is_of_readers(story, index)) {
        story_say(describe(story, index, nodes, lost ? "readers' key lost" : "readers' key ends"),
                  lost ? "The readers' key is lost on %s." : "The readers' key ends on %s.",
                  list.text);
        return;
    }
    int owner = story_owner(story, record->token);
    const char *name = story_client(story, owner);
    char label[40];
    snprintf(label, sizeof label, lost ? "%s's key lost" : "%s's key ends", name);
    story_say(describe(story, index, nodes, label),
              lost ? "%s's key is lost on %s." : "%s's key ends on %s.",
              owner < 0 ? "The stranger" : name, list.text);
}

static void describe_clock(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = story_same_on(story, index, 0);
    const struct phrase_nodes list = phrase_nodes(nodes);
    const struct phrase_time step = phrase_step(record->value);
    struct story_event *event;
    if (record->kind == HISTORY_NODE_CLOCK) {
        char label[40];
        snprintf(label, sizeof label, "clock %s", step.text);
        event = describe(story, index, nodes, label);
        story_say(event, "The wall clock of %s steps by %s", list.text, step.text);
    } else if (record->value == 0) {
        event = describe(story, index, nodes, "clock stops");
        story_say(event, "The wall clock of %s stands still", list.text);
    } else if (record->value == 1000000) {
        event = describe(story, index, nodes, "clock runs");
        story_say(event, "The wall clock of %s runs as it should again", list.text);
    } else {
        event = describe(story, index, nodes, "clock off rate");
        story_say(event, "The wall clock of %s now runs at %" PRId64 " millionths of the true rate",
                  list.text, record->value);
    }
    add_keys_gone(story, index, nodes, HISTORY_KEY_EXPIRED, event);
    story_say(event, ".");
}

static const char *mode_word(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_READONLY: return "READONLY";
    case REDLOCK_VERDICT_OOM: return "OOM";
    case REDLOCK_VERDICT_LOADING: return "LOADING";
    case REDLOCK_VERDICT_MISCONF: return "MISCONF";
    case REDLOCK_VERDICT_BUSY: return "BUSY";
    default: return "an error";
    }
}

static void describe_mode(struct story *story, size_t index) {
    int verdict = story->history->records[index].result;
    rl_mask nodes = story_same_on(story, index, 0);
    if (verdict == REDLOCK_VERDICT_GRANTED)
        story_say(describe(story, index, nodes, "normal again"), "Writes work again on %s.",
                  phrase_nodes(nodes).text);
    else
        story_say(describe(story, index, nodes, mode_word(verdict)),
                  "From now, writes are answered with %s by %s.", mode_word(verdict),
                  phrase_nodes(nodes).text);
}

/* Events of a node that may take keys with them: "Node 3 ... ; gone is A's key." */
static void describe_befallen(struct story *story, size_t index, const char *label,
                              const char *before, const char *after) {
    rl_mask nodes = story_same_on(story, index, 0);
    struct story_event *event = describe(story, index, nodes, label);
    story_say(event, "%s%s%s", before, phrase_nodes(nodes).text, after);
    add_keys_gone(story, index, nodes, HISTORY_KEY_LOST, event);
    story_say(event, ".");
}

static void describe_cut(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = story_same_on(story, index, 0);
    const char *client = story_client(story, record->client);
    const struct phrase_nodes list = phrase_nodes(nodes);
    bool cut = record->kind == HISTORY_CUT;
    const char *words = !cut                 ? "reached again by"
                        : record->value == 1 ? "hears nothing of"
                        : record->value == 2 ? "no answers to"
                                             : "cut off from";
    char label[40];
    snprintf(label, sizeof label, "%s %s", words, client);
    struct story_event *event = describe(story, index, nodes, label);
    if (!cut)
        story_say(event, "%s and %s can reach each other again.", client, list.text);
    else if (record->value == 3)
        story_say(event, "The network between %s and %s is cut.", client, list.text);
    else if (record->value == 1)
        story_say(event, "The way from %s to %s is cut; the way back is whole.", client, list.text);
    else
        story_say(event, "The way back to %s from %s is cut: requests arrive, answers do not.",
                  client, list.text);
}

static void describe_black_hole(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = story_same_on(story, index, 0);
    const char *client = story_client(story, record->client);
    char label[40];
    snprintf(label, sizeof label, "black hole for %s", client);
    struct story_event *event = describe(story, index, nodes, label);
    story_say(
        event,
        "Nothing passes any more on the connections of %s to %s, and neither end learns that; "
        "new ones work.",
        client, phrase_nodes(nodes).text);
}

/* Where the members can change, each node reports them at the beginning. */
static void describe_members(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    rl_mask nodes = story_same_on(story, index, STORY_TOGETHER);
    char label[40];
    if (record->at == 0 || record->message == 0) return;
    snprintf(label, sizeof label, "epoch %" PRId64, record->value);
    story_say(describe(story, index, nodes, label),
              "The members of epoch %" PRId64 " are %s, by the record of %s.", record->value,
              phrase_nodes((rl_mask)record->until).text, phrase_nodes(nodes).text);
}

static void describe_eligibility(struct story *story, size_t index) {
    if (story->history->records[index].at == 0) return;
    bool intact = story->history->records[index].result != 0;
    rl_mask nodes = story_same_on(story, index, STORY_TOGETHER);
    story_say(describe(story, index, nodes, intact ? "votes again" : "does not vote"),
              intact ? "Intact again, with the fences of a majority: %s."
                     : "No vote from now on, until it is brought back: %s.",
              phrase_nodes(nodes).text);
}

static void describe_restart(struct story *story, size_t index) {
    switch (story->history->records[index].value) {
    case 0:
        describe_befallen(story, index, "back, empty", "Restart of ", ", without any data");
        break;
    case 1:
        describe_befallen(story, index, "back, all data", "Restart of ", ", with all its data");
        break;
    default:
        describe_befallen(story, index, "back, less 1 s", "Restart of ",
                          ", without its last second of data");
        break;
    }
}

/* What befalls nodes, in one sentence each: `before` the nodes, and then what they lost. */
static const struct befallen {
    uint8_t kind;
    const char *label, *before;
} befallen[] = {
    {HISTORY_NODE_CRASH, "crashes", "Crash of "},
    {HISTORY_NODE_EVICT, "evicts a key", "Memory is short: eviction on "},
    {HISTORY_NODE_FAILOVER, "replica takes over", "A replica that lags takes over for "},
    {HISTORY_NODE_SPLIT, "replica takes over",
     "A replica that lags takes over; whoever is connected stays with the old "},
    {HISTORY_NODE_OLD_ENDS, "the old one ends", "The end of what lived on of "},
    {HISTORY_NODE_DEMOTED, "demoted",
     "A replica that lags is promoted; its replica, with its data, is now "},
    {HISTORY_NODE_REPLICA, "first replica", "A first replica connects to "},
    {HISTORY_NODE_PROMOTED, "promoted again", "A master again, the same process as before: "},
    {HISTORY_NODE_PAUSE, "stops", "The process stands still (SIGSTOP) on "},
    {HISTORY_NODE_RESUME, "goes on", "The process goes on, with what waited in its socket, on "},
};

void story_node_event(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (story->described[index] || record->node < 0) return;
    switch (record->kind) {
    case HISTORY_NODE_RESTART: describe_restart(story, index); break;
    case HISTORY_NODE_POLICY:
        if (record->value != 0)
            describe_befallen(story, index, "may evict",
                              "CONFIG SET maxmemory-policy volatile-random on ", "");
        else
            describe_befallen(story, index, "keeps its keys",
                              "CONFIG SET maxmemory-policy noeviction on ", "");
        break;
    case HISTORY_NODE_FLUSH:
        describe_befallen(story, index, record->value ? "SWAPDB" : "FLUSHALL",
                          record->value ? "SWAPDB on " : "FLUSHALL on ", "");
        break;
    case HISTORY_NODE_NATIVE:
        if (record->at == 0) break; /* the verdict names the mode */
        describe_befallen(story, index, record->value ? "native" : "stock",
                          record->value ? "Now a native node: " : "Now a stock node: ", "");
        break;
    case HISTORY_NODE_MEMBERS: describe_members(story, index); break;
    case HISTORY_NODE_ELIGIBILITY: describe_eligibility(story, index); break;
    case HISTORY_NODE_CLOCK:
    case HISTORY_NODE_RATE: describe_clock(story, index); break;
    case HISTORY_NODE_MODE: describe_mode(story, index); break;
    case HISTORY_CUT:
    case HISTORY_HEALED: describe_cut(story, index); break;
    case HISTORY_BLACK_HOLE: describe_black_hole(story, index); break;
    default:
        for (size_t i = 0; i < sizeof befallen / sizeof befallen[0]; i++)
            if (befallen[i].kind == record->kind)
                describe_befallen(story, index, befallen[i].label, befallen[i].before, "");
        break;
    }
}

/* Keys that no other event explained. */
void story_key_event(struct story *story, size_t index) {
    const struct history_record *record = &story->history->records[index];
    if (story->described[index] || record->node < 0) return;
    if (record->kind == HISTORY_KEY_LOST || record->kind == HISTORY_KEY_EXPIRED ||
        record->kind == HISTORY_KEY_FOREIGN)
        describe_key(story, index);
}
