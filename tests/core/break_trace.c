/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Golden traces of the machine that breaks a lock. The nodes have a key and a fence, and do what
 * they are asked: half a millisecond after the request it takes effect, and half a millisecond
 * later it is answered. The inputs are what the operator asks for and what happens to nodes; the
 * whole conversation is written anew and compared byte for byte with the file.
 *
 *   # ...                               a comment
 *   given nodes=5 guarded impatient     before the first input; impatient: repeats nothing
 *   0ms nodes 1-3 hold A fence 7        an input; indented lines are what followed, and generated
 *
 * Inputs: nodes N-M hold LETTER [fence F] | are free | are silent (they do nothing and do not
 * answer) | answer | are deaf (what they do is not answered) | lose their data (they do not vote
 * from then on) | cannot raise | recover | are unread (their record is being read again) | are
 * read; breaks [LETTER] (with a letter: only that token);
 * until: nothing but time.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/break.h"
#include "trace.h"

enum { QUEUE = 256, TEXT = 65536 };
#define HALF (RL_MS / 2)
#define TIMEOUT (100 * RL_MS)
#define PATIENCE (300 * RL_MS)

struct node {
    char key; /* 0: none */
    int64_t fence;
    bool silent, deaf, lost, cannot_raise, unread;
    rl_ns lost_at;
};

/* A request on its way to a node, and then its answer. */
struct letter {
    bool used, done;
    rl_ns at;
    unsigned number, node;
    enum rl_break_event_type what;
    char token;
    int64_t fence;
    uint32_t round;
    enum rl_vote vote;
};

struct stage {
    unsigned nodes, letters;
    bool guarded, impatient;
    char named;
    bool runs;
    struct node node[RL_NODES_MAX];
    struct letter queue[QUEUE];
    struct rl_break machine;
    rl_ns now, wake_at;
    char *out;
    size_t used;
};

/* ---- text ---- */

static void put(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct stage *stage, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(stage->out + stage->used, TEXT - stage->used, format, arguments);
    va_end(arguments);
    stage->used += (size_t)length;
    if (stage->used >= TEXT) abort();
}

static void put_time(struct stage *stage) {
    put(stage, "    %" PRId64 "%sms ", stage->now / RL_MS, stage->now % RL_MS ? ".5" : "");
}

static void put_nodes(struct stage *stage, const char *what, rl_mask nodes) {
    if (nodes == 0) return;
    put_time(stage);
    put(stage, "-> %s", what);
    for (unsigned i = 0; i < stage->nodes; i++)
        if (nodes & rl_bit(i)) put(stage, " %u", i + 1);
}

/* ---- steps ---- */

static void post(struct stage *stage, rl_mask nodes, enum rl_break_event_type what, char token,
                 const struct rl_break_actions *actions) {
    for (unsigned i = 0; i < stage->nodes; i++) {
        struct letter *letter = stage->queue;
        if (!(nodes & rl_bit(i))) continue;
        while (letter->used) letter++;
        *letter = (struct letter){.used = true,
                                  .at = stage->now + HALF,
                                  .number = ++stage->letters,
                                  .node = i,
                                  .what = what,
                                  .token = token,
                                  .fence = actions->fence,
                                  .round = actions->round};
    }
}

/* 'A' is 2, 'B' is 3; the named token is RL_BREAK_WISHED. */
static uint8_t number_of(const struct stage *stage, char token) {
    return token == stage->named ? RL_BREAK_WISHED : (uint8_t)(RL_BREAK_WISHED + 1 + token - 'A');
}

static char letter_of(const struct stage *stage, uint8_t number) {
    return number == RL_BREAK_WISHED ? stage->named : (char)('A' + number - RL_BREAK_WISHED - 1);
}

static rl_mask lost_since(const struct stage *stage, rl_ns since) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < stage->nodes; i++)
        if (stage->node[i].lost || stage->node[i].lost_at > since) nodes |= rl_bit(i);
    return nodes;
}

static void step(struct stage *stage, struct rl_break_event event) {
    struct rl_break_actions actions;
    const enum rl_break_state before = stage->machine.state;
    event.ready = event.members = rl_all(stage->nodes);
    for (unsigned i = 0; i < stage->nodes; i++)
        if (stage->node[i].unread) event.unread |= rl_bit(i);
    event.voters = event.ready & (rl_mask) ~(lost_since(stage, stage->now) | event.unread);
    if (stage->guarded) event.voided = lost_since(stage, stage->machine.raised_at);
    event.quorum = (uint8_t)rl_quorum(stage->nodes);
    rl_break_step(&stage->machine, &event, stage->now, &actions);
    stage->wake_at = actions.wake_at;
    if (stage->machine.state != before) {
        put_time(stage);
        put(stage, ".. %s%s%s\n", rl_break_state_name(stage->machine.state),
            actions.over ? ": " : "",
            actions.over ? rl_break_outcome_name(stage->machine.outcome) : "");
    }
    const char token = actions.token ? letter_of(stage, actions.token) : '-';
    put_nodes(stage, "read", actions.read);
    if (actions.read) put(stage, "\n");
    put_nodes(stage, "raise", actions.raise);
    if (actions.raise) put(stage, ": to %" PRId64 ", delete %c\n", actions.fence, token);
    put_nodes(stage, "delete", actions.remove);
    if (actions.remove) put(stage, ": %c\n", token);
    post(stage, actions.read, RL_BREAK_READ, '-', &actions);
    post(stage, actions.raise, RL_BREAK_RAISED, token, &actions);
    post(stage, actions.remove, RL_BREAK_DELETED, token, &actions);
    if (!actions.over) return;
    rl_mask silent = rl_break_silent(&stage->machine, rl_all(stage->nodes));
    if (stage->machine.token != 0) put_nodes(stage, "no report from", silent);
    if (stage->machine.token != 0 && silent) put(stage, "\n");
}

/* ---- nodes ---- */

static enum rl_vote delete_key(struct node *node, char token) {
    if (node->key == 0) return RL_VOTE_ABSENT;
    if (node->key != token) return RL_VOTE_DENIED;
    node->key = 0;
    return RL_VOTE_GRANTED;
}

static void execute(struct stage *stage, struct letter *letter) {
    struct node *node = &stage->node[letter->node];
    letter->done = true;
    letter->at += HALF;
    if (node->silent) {
        letter->used = false;
    } else if (letter->what == RL_BREAK_READ) {
        letter->vote = node->key ? RL_VOTE_GRANTED : RL_VOTE_ABSENT;
        letter->token = node->key;
    } else if (letter->what == RL_BREAK_RAISED) {
        bool raises = !node->lost && !node->cannot_raise && node->fence < letter->fence;
        if (raises) node->fence = letter->fence;
        letter->vote = raises                             ? delete_key(node, letter->token)
                       : node->lost || node->cannot_raise ? RL_VOTE_FAILED
                                                          : RL_VOTE_STALE;
        letter->fence = letter->vote == RL_VOTE_STALE ? node->fence : 0;
    } else {
        letter->vote = delete_key(node, letter->token);
    }
    if (node->deaf) letter->used = false;
}

static void deliver(struct stage *stage, struct letter *letter) {
    static const char *const words[] = {
        [RL_BREAK_RAISED] = "fence, key", [RL_BREAK_DELETED] = "key"};
    struct rl_break_event event = {.type = letter->what,
                                   .node = (uint8_t)letter->node,
                                   .vote = letter->vote,
                                   .fence = letter->fence,
                                   .round = letter->round};
    letter->used = false;
    put_time(stage);
    put(stage, "<- %u ", letter->node + 1);
    if (letter->what == RL_BREAK_READ && letter->vote == RL_VOTE_GRANTED)
        put(stage, "has %c\n", letter->token);
    else if (letter->what == RL_BREAK_READ)
        put(stage, "is free\n");
    else
        put(stage, "%s %s\n", words[letter->what], rl_vote_name(letter->vote));
    if (letter->what == RL_BREAK_READ && letter->vote == RL_VOTE_GRANTED)
        event.token = number_of(stage, letter->token);
    step(stage, event);
}

static struct letter *next_letter(struct stage *stage) {
    struct letter *next = NULL;
    for (unsigned i = 0; i < QUEUE; i++) {
        struct letter *letter = &stage->queue[i];
        if (!letter->used) continue;
        if (!next || letter->at < next->at ||
            (letter->at == next->at && letter->number < next->number))
            next = letter;
    }
    return next;
}

static void run_until(struct stage *stage, rl_ns until) {
    for (;;) {
        struct letter *letter = next_letter(stage);
        rl_ns at = letter ? letter->at : RL_NEVER;
        if (stage->runs && stage->wake_at < at) at = stage->wake_at;
        if (at > until) break;
        stage->now = at;
        if (letter && letter->at == at && !letter->done)
            execute(stage, letter);
        else if (letter && letter->at == at)
            deliver(stage, letter);
        else
            step(stage, (struct rl_break_event){.type = RL_BREAK_TICK});
    }
    stage->now = until;
}

/* ---- inputs ---- */

static bool befall(struct node *node, rl_ns now, const char *what) {
    char key;
    int64_t fence = node->fence;
    if (sscanf(what, "hold %c fence %" SCNd64, &key, &fence) >= 1) {
        node->key = key;
        node->fence = fence;
    } else if (strcmp(what, "are free") == 0) {
        node->key = 0;
    } else if (strcmp(what, "are silent") == 0 || strcmp(what, "answer") == 0) {
        node->silent = *what != 'a' || what[1] == 'r';
        node->deaf = false;
    } else if (strcmp(what, "are deaf") == 0) {
        node->deaf = true;
    } else if (strcmp(what, "lose their data") == 0) {
        *node = (struct node){.lost = true, .lost_at = now};
    } else if (strcmp(what, "cannot raise") == 0) {
        node->cannot_raise = true;
    } else if (strcmp(what, "recover") == 0) {
        node->lost = node->cannot_raise = false;
    } else if (strcmp(what, "are unread") == 0 || strcmp(what, "are read") == 0) {
        node->unread = strcmp(what, "are unread") == 0;
    } else {
        return false;
    }
    return true;
}

static bool input(struct stage *stage, const char *text) {
    unsigned first, last;
    int used = 0;
    if (strcmp(text, "until") == 0) return true;
    if (strncmp(text, "breaks", 6) == 0) {
        stage->named = text[6] == ' ' ? text[7] : '\0';
        stage->runs = true;
        rl_break_init(&stage->machine,
                      &(struct rl_break_wish){.nodes = (uint8_t)stage->nodes,
                                              .guarded = stage->guarded,
                                              .named = stage->named != '\0',
                                              .answer_timeout = TIMEOUT,
                                              .patience = stage->impatient ? 0 : PATIENCE});
        step(stage, (struct rl_break_event){.type = RL_BREAK_BEGIN});
        return true;
    }
    if (sscanf(text, "nodes %u-%u %n", &first, &last, &used) < 2 || first < 1 ||
        last > stage->nodes)
        return false;
    for (unsigned i = first - 1; i < last; i++)
        if (!befall(&stage->node[i], stage->now, text + used)) return false;
    const bool known = strstr(text, "read") != NULL || strstr(text, "lose") != NULL;
    if (stage->runs && known)
        step(stage, (struct rl_break_event){.type = RL_BREAK_NODES, .node = RL_NODES_MAX});
    return true;
}

/* ---- files ---- */

static char *read_file(const char *path) {
    static char text[TEXT];
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* False: the line cannot be read. */
static bool play_line(struct stage *stage, const char *line) {
    int64_t ms;
    int used = 0;
    put(stage, "%s\n", line);
    if (line[0] == '#' || line[0] == '\0') return true;
    if (sscanf(line, "given nodes=%u", &stage->nodes) == 1) {
        stage->guarded = strstr(line, "guarded") != NULL;
        stage->impatient = strstr(line, "impatient") != NULL;
        return stage->nodes >= 1 && stage->nodes <= RL_NODES_MAX;
    }
    if (sscanf(line, "%" SCNd64 "ms %n", &ms, &used) < 1 || ms * RL_MS < stage->now) return false;
    return input(stage, line + used);
}

/* The time of an input comes before it in the output: what happens until then. */
static bool play(struct stage *stage, char *text) {
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int64_t ms;
        if (isspace((unsigned char)*line)) continue;
        if (sscanf(line, "%" SCNd64 "ms", &ms) == 1) run_until(stage, ms * RL_MS);
        if (!play_line(stage, line)) return fprintf(stderr, "unknown: %s\n", line), false;
    }
    return true;
}

static int check(const char *path, bool update) {
    static char wanted[TEXT], out[TEXT];
    static struct stage stage;
    char *text = read_file(path);
    if (!text) return fprintf(stderr, "%s cannot be read\n", path), 2;
    strcpy(wanted, text);
    stage = (struct stage){.out = out, .wake_at = RL_NEVER};
    if (!play(&stage, text)) return 2;
    if (strcmp(wanted, out) == 0) return 0;
    if (!update) {
        text_show_difference(stderr, path, wanted, out);
        return 1;
    }
    FILE *file = fopen(path, "w");
    if (!file || fputs(out, file) < 0 || fclose(file) != 0) return 2;
    return 0;
}

int main(int argc, char **argv) {
    return text_main(argc, argv, SOURCE_DIR "/tests/core/break/*.trace", check);
}
