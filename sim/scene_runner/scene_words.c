/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Recognises sentences: one table entry at a time, word by word.
 */
#include "scene.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 40

struct words {
    char text[160];
    const char *word[WORDS_MAX];
    size_t count;
};

#define SENTENCE(name, sentence) sentence,
const char *const scene_option_sentences[] = {SCENE_OPTIONS(SENTENCE)};
const char *const scene_step_sentences[] = {SCENE_STEPS(SENTENCE)};
const char *const scene_claim_sentences[] = {SCENE_CLAIMS(SENTENCE)};
#undef SENTENCE

static bool cut_words(struct words *words, const char *text) {
    *words = (struct words){.count = 0};
    size_t used = 0;
    while (*text != '\0') {
        while (*text == ' ' || *text == '\t') text++;
        size_t length = strcspn(text, " \t");
        if (length == 0) break;
        const char *next = text + length;
        while (length > 1 && strchr(",:;", text[length - 1]) != NULL) length--;
        bool possessive = length > 2 && text[length - 2] == '\'' && text[length - 1] == 's';
        if (possessive) length -= 2;
        if (words->count + 2 > WORDS_MAX || used + length + 4 > sizeof words->text) return false;
        words->word[words->count++] = words->text + used;
        memcpy(words->text + used, text, length);
        used += length + 1;
        if (possessive) {
            words->word[words->count++] = words->text + used;
            memcpy(words->text + used, "'s", 2);
            used += 3;
        }
        text = next;
    }
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

bool scene_duration(const char *word, rl_ns *span) {
    static const struct {
        const char *unit;
        rl_ns thousandth;
    } units[] = {
        {"us", 1}, {"ms", RL_MS / 1000}, {"s", RL_MS}, {"m", 60 * RL_MS}, {"h", 3600 * RL_MS}};
    if (!isdigit((unsigned char)*word)) return false;
    int64_t value = 0;
    int digits = 0, decimals = -1;
    for (; isdigit((unsigned char)*word) || (*word == '.' && decimals < 0); word++) {
        if (*word == '.') {
            decimals = 0;
            continue;
        }
        if (++digits > 12) return false;
        value = value * 10 + (*word - '0');
        if (decimals >= 0) decimals++;
    }
    if (decimals > 3) return false;
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++) value *= 10;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(word, units[i].unit) != 0) continue;
        if (value > RL_NEVER / 4 / units[i].thousandth) return false;
        *span = value * units[i].thousandth;
        return true;
    }
    return false;
}

static bool read_step(const char *word, rl_ns *span) {
    if (*word != '+' && *word != '-') return false;
    if (!scene_duration(word + 1, span)) return false;
    if (*word == '-') *span = -*span;
    return true;
}

static bool read_number(const char *word, int64_t *number) {
    char *end;
    if (!isdigit((unsigned char)*word) || strlen(word) > 15) return false;
    *number = strtoll(word, &end, 10);
    return *end == '\0';
}

static bool read_client(const char *word, unsigned *clients) {
    if (word[0] < 'A' || word[0] >= 'A' + WORLD_CLIENTS_MAX || word[1] != '\0') return false;
    *clients |= 1u << (word[0] - 'A');
    return true;
}

/* "3", "1-3" */
static bool read_nodes_word(const char *word, rl_mask *nodes) {
    char *end;
    if (!isdigit((unsigned char)*word)) return false;
    long first = strtol(word, &end, 10), last = first;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    if (*end != '\0' || first < 1 || last < first || last > RL_NODES_MAX) return false;
    for (long i = first; i <= last; i++) *nodes |= rl_bit((unsigned)i - 1);
    return true;
}

static bool read_nodes(const struct words *words, size_t *at, rl_mask *nodes) {
    if (*at + 1 >= words->count) return false;
    bool all = strcmp(words->word[*at], "all") == 0 && strcmp(words->word[*at + 1], "nodes") == 0;
    if (all) {
        *nodes = rl_all(RL_NODES_MAX);
        *at += 2;
        return true;
    }
    if (strcmp(words->word[*at], "node") != 0 && strcmp(words->word[*at], "nodes") != 0)
        return false;
    size_t next = *at + 1;
    while (next < words->count && read_nodes_word(words->word[next], nodes)) next++;
    if (next == *at + 1) return false;
    *at = next;
    return true;
}

struct named {
    const char *name;
    int value;
};

/* `prefix`: what the names begin with, and the word does not. */
static bool read_named(const char *word, const char *prefix, const struct named *names,
                       size_t count, int64_t *number) {
    size_t i = 0;
    while (i < count && strcmp(word, names[i].name + strlen(prefix)) != 0) i++;
    if (i == count) return false;
    *number = names[i].value;
    return true;
}

/* ---- one sentence ---------------------------------------------------------------------------- */

/* `choices`, of this length: words between bars. */
static bool is_one_of(const char *choices, size_t length, const char *word) {
    const char *end = choices + length;
    while (choices < end) {
        size_t one = strcspn(choices, "| ");
        if (strlen(word) == one && memcmp(choices, word, one) == 0) return true;
        choices += one + 1;
    }
    return false;
}

static bool is_slot(const char *at, size_t length, const char *slot) {
    return strlen(slot) == length && memcmp(at, slot, length) == 0;
}

/* Matches one word of the table's sentence, moving on in `words`. */
static bool match_word(const char *pattern, size_t length, const struct words *words, size_t *at,
                       struct scene_line *line) {
#define NAMED(name, value, text) {#name, value},
    static const struct named results[] = {REDLOCK_RESULTS(NAMED)},
                              verdicts[] = {REDLOCK_VERDICTS(NAMED)};
#undef NAMED
    if (is_slot(pattern, length, "NODES")) return read_nodes(words, at, &line->nodes);
    if (*at >= words->count) return false;
    const char *word = words->word[*at];
    if (is_slot(pattern, length, "CLIENTS")) {
        while (*at < words->count && read_client(words->word[*at], &line->clients)) ++*at;
        return *at == words->count;
    }
    ++*at;
    if (is_slot(pattern, length, "CLIENT")) return read_client(word, &line->clients);
    if (is_slot(pattern, length, "NUMBER")) return read_number(word, &line->number);
    if (is_slot(pattern, length, "STEP")) return read_step(word, &line->span);
    if (is_slot(pattern, length, "RESULT"))
        return read_named(word, "REDLOCK_", results, sizeof results / sizeof results[0],
                          &line->number);
    if (is_slot(pattern, length, "VERDICT"))
        return read_named(word, "REDLOCK_VERDICT_", verdicts, sizeof verdicts / sizeof verdicts[0],
                          &line->number);
    if (is_slot(pattern, length, "DURATION")) {
        line->span2 = line->span;
        return scene_duration(word, &line->span);
    }
    return is_one_of(pattern, length, word);
}

static bool match_sentence(const char *sentence, const struct words *words,
                           struct scene_line *line) {
    size_t at = 0;
    while (*sentence != '\0') {
        size_t length = strcspn(sentence, " ");
        if (!match_word(sentence, length, words, &at, line)) return false;
        sentence += length;
        while (*sentence == ' ') sentence++;
    }
    return at == words->count;
}

int scene_match(const char *text, const char *const *table, size_t count, struct scene_line *line,
                char *why, size_t size) {
    struct words words;
    if (!cut_words(&words, text)) {
        snprintf(why, size, "more words than a sentence can have");
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        struct scene_line found = {.line = line->line, .at = line->at, .kind = (int)i};
        if (!match_sentence(table[i], &words, &found)) continue;
        snprintf(found.words, sizeof found.words, "%s", text);
        *line = found;
        return (int)i;
    }
    snprintf(why, size, "unknown words: '%.100s' (redlock sim --words lists the sentences)", text);
    return -1;
}
