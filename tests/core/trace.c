/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Replays the inputs of a golden trace through the real machines, writes the whole conversation
 * anew and compares it byte for byte with the file.
 *
 *   # ...                         a comment
 *   given nodes=5 ttl=30s ...     the terms; before the first input
 *   0.4ms node2 granted           an input; indented lines are what the machines did, and are
 * generated
 *
 * Inputs: start | adopt | nodeN granted/denied/absent/failed | nodeN unlocked/kept/empty/mute
 * (answers to a release) | nodeN hint 20ms | nodeN connecting/down/up | wake | tick | cancel |
 * extend 20s | release. "resumed" before an input: the process was stopped, no timer fired since
 * the last line. A node is ready when it is up and owes no answer. After a win the lease starts at
 * once, as the client does it.
 *
 * "given guarded=1": nodeN stale 17 (17 is the fence it has; none: it does not say) | nodeN reading
 * (its record is read again), recovering, intact (it may vote), removed (it is no longer a member).
 * members 4: the newest list that was read has that many. The hint for a proposal is the time in
 * microseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

struct play {
    const char *name;
    unsigned line;
    struct text text;
    struct rl_terms terms;
    struct rl_retry_rules retry;
    struct rl_lease_rules hold;
    struct rl_rates rates;
    struct rl_acquire acquire;
    struct rl_lease lease;
    struct rl_lease_work work;
    bool leased;
    rl_ns now, wake_at, reported_wake_at;
    const char *reported_state;
    rl_mask down, settled, voided, foreign;
    bool owes[RL_NODES_MAX];
    unsigned owes_release[RL_NODES_MAX];
};

static void wrong(const struct play *play, const char *what, const char *word) {
    fprintf(stderr, "%s:%u: %s: %s\n", play->name, play->line, what, word ? word : "(nothing)");
    exit(2);
}

static rl_ns parse_time(const struct play *play, const char *word) {
    char *end;
    double value = word ? strtod(word, &end) : 0;
    if (word == NULL || end == word) wrong(play, "not a time", word);
    double unit = strcmp(end, "ms") == 0 ? 1e6 : strcmp(end, "s") == 0 ? 1e9 : 0;
    if (unit == 0) wrong(play, "a time ends in ms or s", word);
    return (rl_ns)(value * unit + 0.5);
}

static bool split_setting(char *word, const char *name, char **value) {
    size_t n = strlen(name);
    if (strncmp(word, name, n) != 0 || word[n] != '=') return false;
    *value = word + n + 1;
    return true;
}

static void given(struct play *play, char *words) {
    unsigned members = 0; /* as many as nodes */
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        char *v;
        if (split_setting(word, "nodes", &v))
            play->terms.nodes = (uint8_t)atoi(v);
        else if (split_setting(word, "members", &v))
            members = (unsigned)atoi(v);
        else if (split_setting(word, "guarded", &v))
            play->terms.guarded = atoi(v) != 0;
        else if (split_setting(word, "confirm", &v))
            play->terms.confirm = atoi(v) != 0;
        else if (split_setting(word, "ttl", &v))
            play->terms.ttl = parse_time(play, v);
        else if (split_setting(word, "node_timeout", &v))
            play->terms.node_timeout = parse_time(play, v);
        else if (split_setting(word, "validity_min", &v))
            play->terms.validity_min = parse_time(play, v);
        else if (split_setting(word, "retries", &v))
            play->retry.retries_max = (uint32_t)atoi(v);
        else if (split_setting(word, "deadline", &v))
            play->retry.deadline = parse_time(play, v);
        else if (split_setting(word, "renew", &v))
            play->hold.renew_every = parse_time(play, v);
        else if (split_setting(word, "hold_max", &v))
            play->hold.hold_max = parse_time(play, v);
        else if (split_setting(word, "renewals", &v))
            play->hold.renewals_max = (uint32_t)atoi(v);
        else if (split_setting(word, "margin", &v))
            play->hold.lost_margin = parse_time(play, v);
        else
            wrong(play, "unknown setting", word);
    }
    play->terms.quorum = (uint8_t)rl_quorum(members ? members : play->terms.nodes);
}

/* ---- what the machines did, as text ---- */

static struct trace_context context_of(const struct play *play) {
    return (struct trace_context){
        .tries = play->acquire.tries,
        .guarded = play->terms.guarded,
        .validity = play->leased ? rl_lease_validity(&play->lease, play->now) : 0,
        .left = play->lease.validity_end - play->now,
    };
}

static void report_state(struct play *play) {
    const char *state = play->leased ? rl_lease_state_name(play->lease.state)
                                     : rl_acquire_state_name(play->acquire.state);
    if (state == play->reported_state && play->wake_at == play->reported_wake_at) return;
    play->reported_state = state;
    play->reported_wake_at = play->wake_at;
    trace_state(&play->text, state, play->wake_at);
}

static void owe(struct play *play, const struct rl_actions *actions) {
    rl_mask votes = actions->acquire | actions->extend | actions->catch_up | actions->repair |
                    actions->raise | actions->confirm;
    for (unsigned node = 0; node < play->terms.nodes; node++) {
        if (votes & rl_bit(node)) {
            if (play->owes[node]) wrong(play, "two requests at once to one node", NULL);
            play->owes[node] = true;
        }
        if (actions->release & rl_bit(node)) play->owes_release[node]++;
    }
}

static void report(struct play *play, const struct rl_actions *actions) {
    const struct trace_context context = context_of(play);
    if (actions->acquire != 0 && !actions->fresh_token)
        wrong(play, "a try without a fresh token", NULL);
    trace_actions(&play->text, actions, &context);
    owe(play, actions);
    play->wake_at = actions->wake_at;
}

/* ---- the machines ---- */

static rl_mask ready(const struct play *play) {
    rl_mask mask = rl_all(play->terms.nodes) & (rl_mask)~play->down;
    for (unsigned node = 0; node < play->terms.nodes; node++)
        if (play->owes[node] || play->owes_release[node] != 0) mask &= (rl_mask)~rl_bit(node);
    return mask;
}

static void step_lease(struct play *play, struct rl_event *event) {
    struct rl_actions actions;
    rl_lease_step(&play->lease, event, play->now, &actions);
    report(play, &actions);
    if (actions.outcome == RL_OUTCOME_OK)
        text_add(&play->text, "    == released\n");
    else if (actions.outcome != RL_OUTCOME_NONE)
        text_add(&play->text, "    == release: %s\n", rl_outcome_name(actions.outcome));
}

static void step_acquire(struct play *play, struct rl_event *event) {
    struct rl_actions actions;
    rl_acquire_step(&play->acquire, event, play->now, &actions);
    report(play, &actions);
    if (actions.outcome == RL_OUTCOME_NONE) return;
    if (actions.outcome != RL_OUTCOME_OK) {
        text_add(&play->text, "    == over: %s, after %u %s\n", rl_outcome_name(actions.outcome),
                 (unsigned)play->acquire.tries, play->acquire.tries == 1 ? "try" : "tries");
        return;
    }
    const struct rl_attempt *attempt = &play->acquire.attempt;
    text_add(&play->text, "    == won with ");
    text_nodes(&play->text, attempt->tally.granted);
    if (play->terms.guarded) text_add(&play->text, ", fence %lld", (long long)attempt->fence);
    struct rl_event start = rl_lease_start(attempt);
    start.ready = ready(play);
    start.voided = play->voided;
    start.foreign = play->foreign;
    play->leased = true;
    rl_lease_step(&play->lease, &start, play->now, &actions);
    const struct trace_context context = context_of(play);
    trace_validity(&play->text, &context);
    report(play, &actions);
}

static void step(struct play *play, struct rl_event *event) {
    event->ready = ready(play);
    event->settled = play->settled;
    event->voided = play->voided;
    event->foreign = play->foreign;
    if (play->terms.guarded) event->fence_hint = play->now / 1000;
    if (play->leased)
        step_lease(play, event);
    else
        step_acquire(play, event);
    report_state(play);
}

static void run_until(struct play *play, rl_ns at) {
    for (unsigned ticks = 0; play->wake_at <= at; ticks++) {
        if (ticks > 10000) wrong(play, "the timer fires for ever", NULL);
        if (play->wake_at > play->now) play->now = play->wake_at;
        text_add(&play->text, "    (");
        text_ms(&play->text, play->now);
        text_add(&play->text, ")\n");
        struct rl_event tick = {.type = RL_EVENT_TICK};
        step(play, &tick);
    }
    play->now = at;
}

/* An answer: which vote it is. */
static bool is_vote(const char *word, bool release, enum rl_vote *vote) {
    static const struct {
        const char *vote, *unlock;
        enum rl_vote is;
    } words[] = {{"granted", "unlocked", RL_VOTE_GRANTED},
                 {"denied", "kept", RL_VOTE_DENIED},
                 {"absent", "empty", RL_VOTE_ABSENT},
                 {"stale", "", RL_VOTE_STALE},
                 {"failed", "mute", RL_VOTE_FAILED}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, release ? words[i].unlock : words[i].vote) != 0) continue;
        *vote = words[i].is;
        return true;
    }
    return false;
}

/* Whether it may be asked, and whether that is known. */
static bool is_eligibility(struct play *play, rl_mask node, const char *word) {
    bool down = strcmp(word, "down") == 0, connecting = strcmp(word, "connecting") == 0;
    bool reading = strcmp(word, "reading") == 0, recovering = strcmp(word, "recovering") == 0;
    bool up = strcmp(word, "up") == 0 || strcmp(word, "intact") == 0;
    bool removed = strcmp(word, "removed") == 0;
    if (!down && !connecting && !reading && !recovering && !up && !removed) return false;
    play->down = up ? play->down & (rl_mask)~node : play->down | node;
    play->settled = connecting || reading ? play->settled & (rl_mask)~node : play->settled | node;
    play->voided = recovering || removed ? play->voided | node : play->voided & (rl_mask)~node;
    play->foreign = removed ? play->foreign | node : play->foreign & (rl_mask)~node;
    return true;
}

static void node_input(struct play *play, const char *who, const char *what, const char *value) {
    unsigned node = (unsigned)atoi(who + 4) - 1;
    if (node >= play->terms.nodes || what == NULL) wrong(play, "no such node", who);
    struct rl_event event = {.type = RL_EVENT_NODES, .node = (uint8_t)node};
    if (is_vote(what, false, &event.vote)) {
        if (!play->owes[node]) wrong(play, "that node was asked nothing", who);
        event.type = RL_EVENT_VOTE;
        event.fence = event.vote == RL_VOTE_STALE && value ? strtoll(value, NULL, 10) : 0;
        play->owes[node] = false;
    } else if (is_vote(what, true, &event.vote)) {
        if (play->owes_release[node] == 0) wrong(play, "that node was sent no release", who);
        event.type = RL_EVENT_UNLOCKED;
        play->owes_release[node]--;
    } else if (strcmp(what, "hint") == 0) {
        event.type = RL_EVENT_HINT;
        event.remaining = parse_time(play, value);
    } else if (strcmp(what, "needs") == 0) { /* so many ppm of each TTL, by what was measured */
        play->rates.ppm[node] = value ? (uint32_t)strtoul(value, NULL, 10) : 0;
        play->rates.fast = (play->rates.fast & (rl_mask)~rl_bit(node)) |
                           (play->rates.ppm[node] ? rl_bit(node) : 0);
    } else if (!is_eligibility(play, rl_bit(node), what)) {
        wrong(play, "a node does not say that", what);
    }
    step(play, &event);
}

static void input(struct play *play, char *word) {
    struct rl_event event = {.type = RL_EVENT_TICK};
    bool resumed = word && strcmp(word, "resumed") == 0;
    if (resumed) word = strtok(NULL, " ");
    char *value = word ? strtok(NULL, " ") : NULL;
    if (word == NULL) wrong(play, "no input", word);
    if (strncmp(word, "node", 4) == 0) {
        node_input(play, word, value, strtok(NULL, " "));
        return;
    }
    bool known = true;
    if (strcmp(word, "members") == 0) {
        event.type = RL_EVENT_NODES;
        play->terms.quorum = (uint8_t)rl_quorum((unsigned)atoi(value ? value : ""));
    } else if (strcmp(word, "start") == 0)
        event.type = RL_EVENT_START, event.seed = 1;
    else if (strcmp(word, "adopt") == 0) {
        event.type = RL_EVENT_START;
        event.asked = rl_all(play->terms.nodes);
        play->leased = true;
    } else if (strcmp(word, "wake") == 0)
        event.type = RL_EVENT_WAKE;
    else if (strcmp(word, "cancel") == 0)
        event.type = RL_EVENT_CANCEL;
    else if (strcmp(word, "release") == 0)
        event.type = RL_EVENT_RELEASE;
    else if (strcmp(word, "extend") == 0)
        event.type = RL_EVENT_EXTEND, event.ttl = parse_time(play, value);
    else
        known = strcmp(word, "tick") == 0;
    if (!known) wrong(play, "unknown input", word);
    step(play, &event);
}

static void replay(struct play *play, char *source) {
    bool begun = false;
    for (char *next, *line = source; *line != '\0'; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        play->line++;
        if (line[0] == ' ') continue; /* generated */
        text_add(&play->text, "%s\n", line);
        if (length == 0 || line[0] == '#') continue;
        char copy[256];
        snprintf(copy, sizeof copy, "%s", line);
        if (strncmp(copy, "given ", 6) == 0) {
            if (begun) wrong(play, "given comes first", line);
            given(play, copy + 6);
            continue;
        }
        if (!begun) {
            begun = true;
            play->settled = rl_all(play->terms.nodes);
            rl_acquire_init(&play->acquire, &play->terms, &play->retry);
            rl_lease_init(&play->lease, &play->work, &play->terms, &play->hold);
        }
        rl_ns at = parse_time(play, strtok(copy, " "));
        if (at < play->now) wrong(play, "time goes backwards", line);
        char *word = strtok(NULL, " ");
        if (word && strcmp(word, "resumed") == 0) {
            play->now = at;
        } else {
            /* Timers due before the input belong above its line. */
            play->text.used -= length + 1;
            run_until(play, at);
            text_add(&play->text, "%s\n", line);
        }
        input(play, word);
    }
}

static char *read_file(const char *name) {
    static char data[65536];
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        exit(2);
    }
    size_t n = fread(data, 1, sizeof data - 1, file);
    fclose(file);
    data[n] = '\0';
    return data;
}

static int check(const char *name, bool update) {
    static struct play play;
    static char wanted[65536];
    char *source = read_file(name);
    memcpy(wanted, source, sizeof wanted);
    memset(&play, 0, sizeof play);
    play.name = name;
    play.wake_at = RL_NEVER;
    play.terms = (struct rl_terms){.nodes = 5,
                                   .quorum = (uint8_t)rl_quorum(5),
                                   .ttl = 30000 * RL_MS,
                                   .drift_ppm = 10000,
                                   .drift_fixed = 2 * RL_MS,
                                   .rates = &play.rates,
                                   .node_timeout = 50 * RL_MS,
                                   .validity_min = RL_MS};
    play.retry = (struct rl_retry_rules){.retries_max = UINT32_MAX,
                                         .deadline = RL_NEVER,
                                         .delay_min = 50 * RL_MS,
                                         .delay_max = 250 * RL_MS,
                                         .connect_timeout = 1000 * RL_MS};
    play.hold = (struct rl_lease_rules){.renew_every = 10000 * RL_MS, .lost_margin = 1000 * RL_MS};
    replay(&play, source);
    if (strcmp(wanted, play.text.data) == 0) return 0;
    if (!update) {
        text_show_difference(stderr, name, wanted, play.text.data);
        return 1;
    }
    FILE *file = fopen(name, "wb");
    bool failed = file == NULL || fwrite(play.text.data, 1, play.text.used, file) != play.text.used;
    if (file != NULL && fclose(file) != 0) failed = true;
    if (failed) perror(name);
    return failed ? 2 : 0;
}

/* Without files: all traces, as the mutants run it. */
int main(int argc, char **argv) {
    return text_main(argc, argv, SOURCE_DIR "/tests/core/traces/*.trace", check);
}
