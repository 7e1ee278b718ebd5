/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Golden traces of the operator's machine. The nodes are registers that do what they are asked:
 * half a millisecond after the question it takes effect, and half a millisecond later it is
 * answered. The inputs are what operators begin and what happens to nodes; the whole conversation
 * is written anew and compared byte for byte with the file.
 *
 *   # ...                                a comment
 *   given nodes=4 members=3 ttl_max=2s   before the first input; members=0: no node has a record
 *   1ms A adds node4                     an input; indented lines are what followed, and generated
 *
 * Inputs: A|B adds nodeN | removes nodeN | sets T (ttl_max) | inits [never-used] [pinned]
 * [ttl_max=T] | A|B stops | draws nothing (has no random numbers from now on) |
 * nodeN down | up | restarts (empty, another run_id) | reboots (with its data) | flushed |
 * unfit (it may evict, for example) | renamed N (it is the server of nodeN, by another name) |
 * twice (the client has noticed that) | copies nodeN (its data are a copy) | behind M (its record
 * is of an epoch before, with M members) | begun E (by an init of its quorum, at epoch E) |
 * promoted F (other data, with that fence) | joined (another quorum, where it votes) | recovers
 * (clients have made it intact) | forgets (which change made its epoch) | mute (its next answer is
 * lost) | slow T (that comes so much later) | was (its data are those of the former member that it
 * was) | left E (by the init of another quorum, at epoch E) | claimed (a client's guard has found
 * that it lost its data) | waits T (and keeps the time waited there) | contended (from now on a
 * guard writes there before each write of an operator) | fences F | bare (its fences are deleted,
 * its record is not) | until: nothing but time.
 */
#include <stdlib.h>
#include <string.h>

#include "core/membership_inside.h"
#include "trace.h"

enum { NODES = 7, OPERATORS = 2, QUEUE = 256, QUORUM_ID = 0xaa };
#define HALF (RL_MS / 2)

struct node {
    bool up, mute, contended, unfit, twice, bare;
    rl_ns slow;
    unsigned process;  /* names its run_id */
    unsigned promoted; /* names its replication id */
    bool has_record;
    struct rl_record record;
    int64_t fence;
    char url[16];
};

/* What is under way: a question's effect at a node, then its answer. */
struct letter {
    bool used, done;
    rl_ns at;
    unsigned number, operator_, node;
    uint32_t question;
    enum { TO_NODE, TO_OPERATOR } way;
    enum rl_membership_ask what;
    uint64_t expected;
    struct rl_record record; /* to be written, or that was read */
    bool has_record, failed, raises, unfit;
    int64_t fence;
    unsigned process, promoted;
};

struct operator_ {
    bool runs;
    struct rl_membership machine;
    rl_ns wake_at;
    enum rl_membership_state reported;
    uint64_t random;
    bool gathers, draws_nothing;
};

static struct world {
    const char *name;
    unsigned line;
    struct text text;
    unsigned nodes, members;
    rl_ns ttl_max, now;
    struct node node[NODES];
    struct operator_ operators[OPERATORS];
    struct letter letters[QUEUE];
    unsigned letters_count;
    int64_t floor;
} world;

static void wrong(const char *what, const char *word) {
    fprintf(stderr, "%s:%u: %s: %s\n", world.name, world.line, what, word ? word : "(nothing)");
    exit(2);
}

static rl_ns parse_time(const char *word) {
    char *end;
    double value = word ? strtod(word, &end) : 0;
    if (word == NULL || end == word) wrong("not a time", word);
    double unit = strcmp(end, "ms") == 0 ? 1e6 : strcmp(end, "s") == 0 ? 1e9 : 0;
    if (unit == 0) wrong("a time ends in ms or s", word);
    return (rl_ns)(value * unit + 0.5);
}

/* ---- words ---- */

static void say(unsigned operator_, const char *mark) {
    text_add(&world.text, "    ");
    text_ms(&world.text, world.now);
    text_add(&world.text, " %c %s ", 'A' + (int)operator_, mark);
}

static void members_text(const struct rl_record *record) {
    text_add(&world.text, "{");
    for (unsigned i = 0; i < record->members_count; i++)
        text_add(&world.text, "%s%s.%u", i ? " " : "", record->members[i].url,
                 (unsigned)record->members[i].incarnation.number);
    text_add(&world.text, "}");
}

static const char *change_url(const struct rl_change *change) {
    static char text[RL_URL_BYTES];
    snprintf(text, sizeof text, "%s", change->url);
    if (change->kind == RL_CHANGE_REMOVE)
        snprintf(text, sizeof text, "node%u", (unsigned)change->id);
    if (change->kind == RL_CHANGE_TTL_MAX)
        snprintf(text, sizeof text, "%ldms", (long)change->ttl_ms);
    return text;
}

static const char *const change_kinds[] = {
    [RL_CHANGE_ADD] = "add", [RL_CHANGE_REMOVE] = "remove", [RL_CHANGE_TTL_MAX] = "ttl_max"};

/* What the new record says that the one before did not. */
static void difference(const struct rl_record *new, const struct rl_record *old) {
    static const struct rl_record none;
    if (!old) old = &none;
    if (new->epoch != old->epoch || new->members_count != old->members_count) {
        text_add(&world.text, " epoch %u ", (unsigned)new->epoch);
        members_text(new);
    }
    if (new->eligibility != old->eligibility)
        text_add(&world.text, new->eligibility == RL_RECORD_INTACT ? " intact" : " recovering");
    if (new->ballot != old->ballot &&new->ballot)
        text_add(&world.text, " ballot %u", (unsigned)(new->ballot >> 16));
    if (new->accepted_ballot != old->accepted_ballot &&new->accepted_ballot)
        text_add(&world.text, " accepts %s %s", change_kinds[new->accepted.kind],
                 change_url(&new->accepted));
    if (new->settled != old->settled)
        text_add(&world.text, new->settled ? " settled" : " unsettled");
    if (new->ttl_max_ms != old->ttl_max_ms || new->ttl_next_ms != old->ttl_next_ms)
        text_add(&world.text, " ttl_max %ldms", (long)new->ttl_max_ms);
    if (rl_record_ttl_pending(new) && new->ttl_next_ms != old->ttl_next_ms)
        text_add(&world.text, ", then %ldms", (long)new->ttl_next_ms);
}

static void report_text(const struct rl_membership_actions *actions) {
    static const char *const texts[] = {[RL_REPORT_WRITING] = "writing records",
                                        [RL_REPORT_WAITING] = "waiting for locks of before",
                                        [RL_REPORT_ASKING] = "asking the members",
                                        [RL_REPORT_SWITCHING] = "writing the change to all",
                                        [RL_REPORT_GATHERING] = "waiting for a majority",
                                        [RL_REPORT_SETTLING] = "waiting for locks of before"};
    text_add(&world.text, "%s", texts[actions->report]);
    if (actions->left >= 0) text_add(&world.text, ", "), text_ms(&world.text, actions->left);
    text_add(&world.text, "\n");
}

/* A problem names the change that is in the way. */
static void result_text(const struct rl_problem *problem) {
    text_add(&world.text, "%s", problem->kind ? rl_problem_name(problem->kind) : "done");
    if (problem->change.kind)
        text_add(&world.text, ": %s %s", change_kinds[problem->change.kind],
                 change_url(&problem->change));
    text_add(&world.text, "\n");
}

/* ---- letters ---- */

static void post(const struct letter *letter) {
    for (unsigned i = 0; i < QUEUE; i++) {
        if (world.letters[i].used) continue;
        world.letters[i] = *letter;
        world.letters[i].used = true;
        world.letters[i].number = world.letters_count++;
        return;
    }
    wrong("too many letters", NULL);
}

static struct letter *next_letter(void) {
    struct letter *first = NULL;
    for (unsigned i = 0; i < QUEUE; i++) {
        struct letter *letter = &world.letters[i];
        if (!letter->used) continue;
        if (!first || letter->at < first->at ||
            (letter->at == first->at && letter->number < first->number))
            first = letter;
    }
    return first;
}

static void run_id(char to[RL_RUN_ID_BYTES], unsigned process) {
    snprintf(to, RL_RUN_ID_BYTES, "process%u", process);
}

static void replid(char to[RL_RUN_ID_BYTES], unsigned promoted) {
    if (promoted)
        snprintf(to, RL_RUN_ID_BYTES, "r%u", promoted);
    else
        snprintf(to, RL_RUN_ID_BYTES, "r");
}

static void ask(unsigned who, const struct rl_membership_actions *actions) {
    struct rl_membership *m = &world.operators[who].machine;
    for (unsigned i = 0; i < world.nodes; i++) {
        const struct rl_guard_node *at = &m->view.node[i];
        if (!(actions->nodes & rl_bit(i))) continue;
        struct letter letter = {.at = world.now + HALF,
                                .operator_ = who,
                                .node = i,
                                .question = actions->question,
                                .way = TO_NODE,
                                .what = actions->ask,
                                .expected = at->expected,
                                .record = at->writing,
                                .raises = actions->ask == RL_ASK_WRITE && at->floor != NULL,
                                .fence = m->view.floor[0]};
        post(&letter);
    }
}

/* Nodes that get the same are told of in one line. */
static void report_writes(const struct rl_membership *m, unsigned who, rl_mask nodes) {
    for (unsigned i = 0; i < world.nodes; i++) {
        static struct text whole;
        char first[1024], other[1024];
        rl_mask same = 0;
        if (!(nodes & rl_bit(i))) continue;
        whole = world.text;
        for (unsigned k = i; k < world.nodes; k++) {
            const struct rl_guard_node *at = &m->view.node[k];
            if (!(nodes & rl_bit(k))) continue;
            world.text.used = 0;
            difference(&at->writing, at->has_record ? &at->record : NULL);
            if (at->floor) text_add(&world.text, " fences to %ld", (long)m->view.floor[0]);
            if (world.text.used == 0) text_add(&world.text, " as it is");
            snprintf(k == i ? first : other, sizeof first, "%.1023s", world.text.data);
            if (k == i || strcmp(first, other) == 0) same |= rl_bit(k);
        }
        world.text = whole;
        say(who, "->");
        text_nodes(&world.text, same);
        text_add(&world.text, " write:%s\n", first);
        nodes &= (rl_mask)~same;
    }
}

static void report_ask(unsigned who, const struct rl_membership_actions *actions) {
    struct rl_membership *m = &world.operators[who].machine;
    if (actions->ask == RL_ASK_WRITE) {
        report_writes(m, who, actions->nodes);
        return;
    }
    say(who, "->");
    text_nodes(&world.text, actions->nodes);
    text_add(&world.text, actions->ask == RL_ASK_READ ? " read\n"
                          : actions->kept             ? " kept fences\n"
                                                      : " fences\n");
}

static void step(unsigned who, struct rl_membership_event event) {
    struct operator_ *op = &world.operators[who];
    struct rl_membership_actions actions;
    if (!op->runs) return;
    if (!op->draws_nothing) event.random = op->random += UINT64_C(0x9e3779b97f4a7c15);
    event.wall_us = 100 + world.now / 1000; /* a clock that began 100 us before the world */
    for (unsigned i = 0; i < world.nodes; i++)
        if (world.node[i].up) event.ready |= rl_bit(i);
    for (unsigned i = 0; i < world.nodes; i++)
        if (world.node[i].twice) event.twice |= rl_bit(i);
    rl_membership_step(&op->machine, &event, world.now, &actions);
    if (op->machine.state != op->reported) {
        say(who, "..");
        text_add(&world.text, "%s\n", rl_membership_state_name(op->machine.state));
        op->reported = op->machine.state;
    }
    if (actions.report) say(who, "=="), report_text(&actions);
    op->wake_at = actions.wake_at;
    if (actions.over) {
        op->runs = false;
        say(who, "==");
        result_text(&op->machine.problem);
        return;
    }
    if (actions.ask == RL_ASK_GATHER) {
        step(who, (struct rl_membership_event){.type = RL_MEMBERSHIP_GATHERED});
    } else if (actions.ask != RL_ASK_NOTHING && actions.nodes) {
        report_ask(who, &actions);
        ask(who, &actions);
    }
}

/* The node's one rule: a write is done if the nonce is the one that the writer read. */
static void at_node(struct letter letter) {
    struct node *node = &world.node[letter.node];
    letter.way = TO_OPERATOR;
    letter.at += HALF + node->slow;
    node->slow = 0;
    letter.process = node->process;
    letter.promoted = node->promoted;
    letter.unfit = node->unfit;
    letter.failed = !node->up || node->mute;
    if (letter.what == RL_ASK_READ) {
        letter.has_record = node->has_record;
        letter.record = node->record;
    } else if (letter.what == RL_ASK_WRITE && node->up) {
        if (node->contended) node->record.waited_ms++, node->record.nonce += 50;
        letter.done = letter.expected == (node->has_record ? node->record.nonce : 0);
        if (letter.done) {
            node->record = letter.record;
            node->has_record = true;
            if (letter.raises && letter.fence > node->fence) node->fence = letter.fence;
            if (letter.raises) node->bare = false;
        }
    } else {
        letter.has_record = node->has_record && !node->bare;
        letter.fence = node->fence;
    }
    if (node->up) node->mute = false;
    post(&letter);
}

static void at_operator(const struct letter *letter) {
    static const enum rl_membership_event_type types[] = {[RL_ASK_READ] = RL_MEMBERSHIP_RECORD,
                                                          [RL_ASK_WRITE] = RL_MEMBERSHIP_WRITTEN,
                                                          [RL_ASK_FENCES] = RL_MEMBERSHIP_FENCES};
    static int64_t fences[RL_STRIPES];
    char process[RL_RUN_ID_BYTES], data_of[RL_RUN_ID_BYTES];
    run_id(process, letter->process);
    replid(data_of, letter->promoted);
    for (unsigned i = 0; i < RL_STRIPES; i++) fences[i] = letter->fence;
    struct rl_membership_event event = {.type = types[letter->what],
                                        .node = (uint8_t)letter->node,
                                        .question = letter->question,
                                        .run_id = process,
                                        .replid = data_of,
                                        .done = letter->done,
                                        .unfit = letter->unfit,
                                        .fences =
                                            letter->has_record || letter->fence > 0 ? fences : NULL,
                                        .record = letter->has_record ? &letter->record : NULL};
    if (letter->failed) event.type = RL_MEMBERSHIP_FAILED;
    if (!world.operators[letter->operator_].runs) return;
    bool stale = letter->question != world.operators[letter->operator_].machine.question;
    if (!stale && letter->failed) {
        say(letter->operator_, "<-");
        text_add(&world.text, "node%u does not answer\n", letter->node + 1);
    } else if (!stale && letter->what == RL_ASK_WRITE && !letter->done) {
        say(letter->operator_, "<-");
        text_add(&world.text, "node%u refuses: another has written there\n", letter->node + 1);
    }
    step(letter->operator_, event);
}

/* Everything due by then, in the order of time; answers before timers. */
static void run_until(rl_ns until) {
    for (unsigned turns = 0;; turns++) {
        struct letter *letter = next_letter();
        unsigned who = 0;
        for (unsigned i = 0; i < OPERATORS; i++)
            if (world.operators[i].runs &&
                (!world.operators[who].runs ||
                 world.operators[i].wake_at < world.operators[who].wake_at))
                who = i;
        rl_ns wake = world.operators[who].runs ? world.operators[who].wake_at : RL_NEVER;
        rl_ns at = letter && letter->at <= wake ? letter->at : wake;
        if (turns > 100000) wrong("it goes on for ever", NULL);
        if (at == RL_NEVER || at > until) break;
        if (at > world.now) world.now = at;
        if (letter && letter->at <= wake) {
            struct letter one = *letter;
            letter->used = false;
            if (one.way == TO_NODE)
                at_node(one);
            else
                at_operator(&one);
        } else {
            step(who, (struct rl_membership_event){.type = RL_MEMBERSHIP_TICK});
        }
    }
    if (until != RL_NEVER) world.now = until;
}

/* ---- inputs ---- */

static bool setting(char *word, const char *name, char **value) {
    size_t n = strlen(name);
    if (!word || strncmp(word, name, n) != 0 || word[n] != '=') return false;
    *value = word + n + 1;
    return true;
}

static void given(char *words) {
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        char *v;
        if (setting(word, "nodes", &v))
            world.nodes = (unsigned)atoi(v);
        else if (setting(word, "members", &v))
            world.members = (unsigned)atoi(v);
        else if (setting(word, "ttl_max", &v))
            world.ttl_max = parse_time(v);
        else
            wrong("nothing that can be given", word);
    }
    if (world.nodes < 1 || world.nodes > NODES || world.members > NODES)
        wrong("so many nodes there are not", NULL);
}

static struct rl_record record_of(unsigned node) {
    struct rl_record record = {.format = RL_RECORD_FORMAT,
                               .quorum_id = QUORUM_ID,
                               .node_id = node + 1,
                               .epoch = 1,
                               .begun = 1,
                               .settled = true,
                               .members_count = (uint8_t)world.members,
                               .eligibility = RL_RECORD_INTACT,
                               .replid = "r",
                               .nonce = 100 + node,
                               .ttl_max_ms = world.ttl_max / RL_MS,
                               .ttl_next_ms = world.ttl_max / RL_MS};
    run_id(record.run_id, world.node[node].process);
    for (unsigned i = 0; i < world.members; i++) {
        struct rl_member *member = &record.members[i];
        member->id = i + 1;
        snprintf(member->url, sizeof member->url, "%.15s", world.node[i].url);
        member->incarnation.number = 1;
        run_id(member->incarnation.run_id, world.node[i].process);
    }
    return record;
}

static void begin_world(void) {
    for (unsigned i = 0; i < world.nodes; i++) world.node[i].up = true;
    for (unsigned i = 0; i < NODES; i++) {
        world.node[i].process = i + 1;
        snprintf(world.node[i].url, sizeof world.node[i].url, "node%u", i + 1);
    }
    for (unsigned i = 0; i < world.members; i++) {
        world.node[i].has_record = true;
        world.node[i].fence = 10;
        world.node[i].record = record_of(i);
    }
}

static unsigned node_number(const char *word) {
    unsigned node = word && strncmp(word, "node", 4) == 0 ? (unsigned)atoi(word + 4) : 0;
    if (node < 1 || node > world.nodes) wrong("no such node", word);
    return node - 1;
}

/* A client has brought it back. */
static void recovers(struct node *node, unsigned index) {
    static uint64_t losses = 500;
    const struct rl_record *newest = NULL;
    for (unsigned i = 0; i < world.nodes; i++) {
        const struct node *other = &world.node[i];
        if (i == index || !other->has_record || other->record.eligibility != RL_RECORD_INTACT)
            continue;
        if (!newest || other->record.epoch > newest->epoch) newest = &other->record;
        if (other->fence > node->fence) node->fence = other->fence;
    }
    if (!newest) wrong("nothing to recover from", NULL);
    uint64_t id = 0, nonce = node->has_record ? node->record.nonce + 1 : 1000 + index;
    for (unsigned i = 0; i < newest->members_count; i++)
        if (strcmp(newest->members[i].url, node->url) == 0) id = newest->members[i].id;
    node->record = *newest;
    node->record.node_id = id;
    node->record.nonce = nonce;
    node->record.loss = ++losses;
    node->record.ballot = node->record.accepted_ballot = 0;
    run_id(node->record.run_id, node->process);
    replid(node->record.replid, node->promoted);
    for (unsigned i = 0; i < world.nodes; i++)
        for (unsigned k = 0; k < world.node[i].record.members_count; k++) {
            struct rl_member *member = &world.node[i].record.members[k];
            if (member->id != id) continue;
            member->incarnation.number++;
            run_id(member->incarnation.run_id, node->process);
        }
    node->has_record = true;
}

/* By an init of another quorum, which came to nothing: of its first, or a later epoch. */
static void left_by_other(struct node *node, unsigned index, const char *epoch) {
    node->record = record_of(index);
    node->record.quorum_id = QUORUM_ID + 1;
    node->record.epoch = node->record.begun = (uint32_t)atoi(epoch ? epoch : "1");
    node->record.eligibility = RL_RECORD_RECOVERING;
    node->record.loss = rl_loss_of_init(QUORUM_ID + 1, node->record.epoch);
    node->has_record = true;
}

/* By a client's guard, as a node that lost its data. */
static void claimed(struct node *node, unsigned index) {
    if (!node->has_record) node->record = record_of(index);
    node->has_record = true;
    node->record.eligibility = RL_RECORD_RECOVERING;
    node->record.loss = 70 + index;
    node->record.nonce += 50;
    run_id(node->record.run_id, node->process);
    for (unsigned i = 0; i < node->record.members_count; i++)
        if (node->record.members[i].id == node->record.node_id)
            rl_incarnation_follow(&node->record.members[i].incarnation, node->record.run_id);
}

/* By an init of its own quorum that came to nothing, on the server that it is now. */
static void begun(struct node *node, const char *epoch) {
    node->record.epoch = node->record.begun = (uint32_t)atoi(epoch ? epoch : "1");
    node->record.eligibility = RL_RECORD_RECOVERING;
    node->record.loss = rl_loss_of_init(QUORUM_ID, node->record.epoch);
    node->record.members_count = (uint8_t)world.nodes;
    node->record.nonce += 50;
    run_id(node->record.run_id, node->process);
}

/* The record is from before a change that all others have, and lists so many members. */
static void is_behind(struct node *node, const char *members) {
    const unsigned saved = world.members;
    for (unsigned i = 0; i < world.nodes; i++)
        if (&world.node[i] != node) world.node[i].record.epoch++;
    world.members = (unsigned)atoi(members ? members : "1");
    const struct rl_record wide = record_of((unsigned)(node - world.node));
    node->record = wide;
    world.members = saved;
}

static void copies(struct node *node, unsigned of) {
    node->record = world.node[of].record;
    node->has_record = true;
    run_id(node->record.run_id, node->process);
}

static void node_input(unsigned index, const char *what, const char *value) {
    struct node *node = &world.node[index];
    if (strcmp(what, "down") == 0)
        node->up = false;
    else if (strcmp(what, "up") == 0)
        node->up = true;
    else if (strcmp(what, "mute") == 0)
        node->mute = true;
    else if (strcmp(what, "slow") == 0)
        node->slow = parse_time(value);
    else if (strcmp(what, "was") == 0)
        node->record.node_id = 70 + index, node->record.epoch = 1;
    else if (strcmp(what, "left") == 0)
        left_by_other(node, index, value);
    else if (strcmp(what, "claimed") == 0)
        claimed(node, index);
    else if (strcmp(what, "waits") == 0)
        node->record.waited_ms = parse_time(value) / RL_MS, node->record.nonce += 50;
    else if (strcmp(what, "contended") == 0)
        node->contended = true;
    else if (strcmp(what, "flushed") == 0 || strcmp(what, "restarts") == 0) {
        node->has_record = false;
        node->fence = 0;
        if (what[0] == 'r') node->process += 10;
    } else if (strcmp(what, "reboots") == 0)
        node->process += 10;
    else if (strcmp(what, "unfit") == 0)
        node->unfit = true;
    else if (strcmp(what, "renamed") == 0)
        node->process = (unsigned)atoi(value ? value : "0");
    else if (strcmp(what, "twice") == 0)
        node->twice = true;
    else if (strcmp(what, "begun") == 0)
        begun(node, value);
    else if (strcmp(what, "behind") == 0)
        is_behind(node, value);
    else if (strcmp(what, "copies") == 0)
        copies(node, node_number(value));
    else if (strcmp(what, "promoted") == 0)
        node->promoted++, node->fence = atoi(value ? value : "0");
    else if (strcmp(what, "joined") == 0) {
        left_by_other(node, index, value);
        node->record.eligibility = RL_RECORD_INTACT;
        node->record.loss = 0;
    } else if (strcmp(what, "recovers") == 0)
        recovers(node, index);
    else if (strcmp(what, "forgets") == 0)
        memset(&node->record.accepted, 0, sizeof node->record.accepted);
    else if (strcmp(what, "bare") == 0)
        node->bare = true, node->fence = 0;
    else if (strcmp(what, "fences") == 0)
        node->fence = atoi(value ? value : "0");
    else
        wrong("that does not happen to a node", what);
}

static void operator_input(unsigned who, const char *what, char *rest) {
    struct operator_ *op = &world.operators[who];
    struct rl_membership_wish wish = {.nodes = world.nodes,
                                      .ttl_max_ms_default = 60000,
                                      .drift_ppm = 0,
                                      .drift_fixed = 2 * RL_MS,
                                      .answer_timeout = 1000 * RL_MS};
    if (strcmp(what, "stops") == 0) {
        op->runs = false;
        return;
    }
    if (strcmp(what, "draws") == 0) {
        op->draws_nothing = true;
        return;
    }
    if (op->runs) wrong("it is at work", what);
    if (strcmp(what, "inits") == 0) {
        wish.kind = RL_MEMBERSHIP_INIT;
        for (char *v; rest; rest = strtok(NULL, " ")) {
            if (strcmp(rest, "never-used") == 0)
                wish.never_used = true;
            else if (strcmp(rest, "pinned") == 0)
                wish.pinned = (wish.quorum_id = QUORUM_ID) != 0;
            else if (setting(rest, "ttl_max", &v))
                wish.ttl_max_ms = parse_time(v) / RL_MS;
            else
                wrong("an init takes never-used and ttl_max", rest);
        }
    } else if (strcmp(what, "sets") == 0) {
        wish.kind = RL_MEMBERSHIP_SET_TTL_MAX;
        wish.ttl_max_ms = parse_time(rest) / RL_MS;
    } else {
        unsigned node = node_number(rest);
        wish.kind = strcmp(what, "adds") == 0 ? RL_MEMBERSHIP_ADD : RL_MEMBERSHIP_REMOVE;
        if (wish.kind == RL_MEMBERSHIP_REMOVE && strcmp(what, "removes") != 0)
            wrong("an operator does not do that", what);
        wish.node = node;
        wish.id = node + 1;
        for (unsigned i = 0; i < world.node[0].record.members_count; i++)
            if (strcmp(world.node[0].record.members[i].url, world.node[node].url) == 0)
                wish.id = world.node[0].record.members[i].id;
    }
    rl_membership_init(&op->machine, &wish);
    for (unsigned i = 0; i < world.nodes; i++)
        memcpy(op->machine.view.node[i].url, world.node[i].url, sizeof world.node[i].url);
    op->runs = true;
    op->reported = RL_MEMBERSHIP_IDLE;
    op->random = who + 1;
    step(who, (struct rl_membership_event){.type = RL_MEMBERSHIP_BEGIN});
}

static void input(char *word) {
    char *what = strtok(NULL, " "), *rest = strtok(NULL, " ");
    if (word && strcmp(word, "until") == 0) return;
    if (!word || !what) wrong("no input", word);
    if (strcmp(word, "A") == 0 || strcmp(word, "B") == 0)
        operator_input(word[0] == 'B', what, rest);
    else
        node_input(node_number(word), what, rest);
}

static void replay(char *source) {
    bool begun = false;
    for (char *next, *line = source; *line != '\0'; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        world.line++;
        if (line[0] == ' ') continue; /* generated */
        char copy[256];
        snprintf(copy, sizeof copy, "%.255s", line);
        if (length == 0 || line[0] == '#') {
            text_add(&world.text, "%s\n", line);
        } else if (strncmp(copy, "given ", 6) == 0) {
            given(copy + 6);
            text_add(&world.text, "%s\n", line);
        } else {
            if (!begun) begin_world();
            begun = true;
            rl_ns at = parse_time(strtok(copy, " "));
            if (at < world.now) wrong("time goes backwards", line);
            run_until(at);
            text_add(&world.text, "%s\n", line);
            input(strtok(NULL, " "));
        }
    }
    run_until(RL_NEVER);
    for (unsigned i = 0; i < world.nodes; i++) {
        const struct node *node = &world.node[i];
        text_add(&world.text, "    node%u at the end:", i + 1);
        if (node->has_record)
            difference(&node->record, NULL),
                text_add(&world.text, ", fences %ld", (long)node->fence);
        else
            text_add(&world.text, " nothing");
        text_add(&world.text, "\n");
    }
}

static char data[65536], wanted[65536];

/* 0: as the file says; 1: not so; 2: it cannot be read, or written. */
static int check(const char *name, bool update) {
    FILE *file = fopen(name, "rb");
    if (!file) return perror(name), 2;
    size_t n = fread(data, 1, sizeof data - 1, file);
    fclose(file);
    data[n] = '\0';
    memcpy(wanted, data, sizeof wanted);
    memset(&world, 0, sizeof world);
    world.name = name;
    world.ttl_max = 2000 * RL_MS;
    replay(data);
    if (strcmp(wanted, world.text.data) == 0) return 0;
    if (!update) {
        text_show_difference(stderr, name, wanted, world.text.data);
        return 1;
    }
    file = fopen(name, "wb");
    if (!file || fwrite(world.text.data, 1, world.text.used, file) != world.text.used ||
        fclose(file) != 0)
        return perror(name), 2;
    return 0;
}

/* Without a file: all of them. */
int main(int argc, char **argv) {
    return text_main(argc, argv, SOURCE_DIR "/tests/core/membership/*.trace", check);
}
