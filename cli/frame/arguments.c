/* SPDX-License-Identifier: BSD-2-Clause */
#include "arguments.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "config/duration.h"
#include "config/nearest.h"
#include "process/message.h"
#include "verbs.h"

#define ENTRIES_MAX 100
#define LONG_BASE 256

static const struct option_entry *find_letter(const struct command *command,
                                              const struct option_table *table, int letter) {
    for (size_t i = 0; i < table->count; i++) {
        const struct option_entry *entry = &table->entries[i];
        if ((entry->commands & command->bit) != 0 && entry->letter == letter) return entry;
    }
    return NULL;
}

static bool is_optional(const struct option_entry *entry) {
    return entry->argument != NULL && entry->argument[0] == '[';
}

/* Room for "+:" and two characters an option. */
static void build(const struct command *command, const struct option_table *table,
                  struct option *longs, char *letters) {
    size_t count = 0;
    assert(table->count < ENTRIES_MAX);
    if (command->runs_another) *letters++ = '+';
    *letters++ = ':';
    for (size_t i = 0; i < table->count; i++) {
        const struct option_entry *entry = &table->entries[i];
        if ((entry->commands & command->bit) == 0) continue;
        int has = entry->argument == NULL ? no_argument
                  : is_optional(entry)    ? optional_argument
                                          : required_argument;
        longs[count++] = (struct option){entry->name, has, NULL, LONG_BASE + (int)i};
        if (entry->letter == 0) continue;
        *letters++ = (char)entry->letter;
        if (entry->argument != NULL) *letters++ = ':';
        assert(!is_optional(entry)); /* a letter's would need a second colon; there is none yet */
    }
    longs[count] = (struct option){0};
    *letters = '\0';
}

static void unknown_option(const struct command *command, const struct option_table *table,
                           const char *word) {
    char name[64];
    snprintf(name, sizeof name, "%s", word + (strncmp(word, "--", 2) == 0 ? 2 : 0));
    name[strcspn(name, "=")] = '\0';
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < table->count; i++) {
        if ((table->entries[i].commands & command->bit) != 0)
            nearest_offer(&nearest, table->entries[i].name);
    }
    if (nearest.best != NULL && word[1] == '-') {
        complain("unknown option '--%s' of 'redlock %s'; did you mean '--%s'?", name, command->name,
                 nearest.best);
    } else if (command->bit == COMMAND_BEFORE) {
        complain(
            "option '%.60s' is unknown, or stands after the command, as in 'redlock run %.60s'; "
            "try 'redlock help'",
            word, word);
    } else {
        complain("unknown option '%.60s' of 'redlock %s'; try 'redlock %s --help'", word,
                 command->name, command->name);
    }
}

/* getopt_long() takes the beginning of a long option for the option. But the full name of another
 * command's option is meant as that one. */
static bool is_of_another(const struct option_table *table, const char *word, int what) {
    if (what < LONG_BASE) return false;
    const char *name = word + strlen("--");
    const size_t length = strcspn(name, "=");
    if (length == strlen(table->entries[what - LONG_BASE].name)) return false;
    for (size_t i = 0; i < table->count; i++) {
        const char *whole = table->entries[i].name;
        if (strlen(whole) == length && strncmp(whole, name, length) == 0) return true;
    }
    return false;
}

static void refuse(const struct command *command, const struct option_table *table, int what,
                   char **argv) {
    const char *word = argv[optind - 1];
    char letter[] = {'-', (char)optopt, '\0'};
    const char *name = optopt > 0 && optopt < LONG_BASE ? letter : word;
    if (is_of_another(table, word, optopt)) {
        unknown_option(command, table, word);
    } else if (what == ':') {
        complain("option '%.60s' of 'redlock %s' needs a value; try 'redlock %s --help'", name,
                 command->name, command->name);
    } else if (optopt >= LONG_BASE) {
        complain("option '%.60s' of 'redlock %s' takes no value", word, command->name);
    } else {
        unknown_option(command, table, name);
    }
}

/* "--watch 1s": getopt_long() would leave the word to the operands, and 1s would be a resource. */
static bool lacks_equals(const struct option_entry *entry, const char *next) {
    char reason[256];
    int64_t ms;
    if (!is_optional(entry) || next == NULL || optarg != NULL) return false;
    if (duration_parse(next, &ms, reason, sizeof reason) != 0) return false;
    complain("'%.20s' after --%s looks like its value: write --%s=%.20s, or put an operand of that "
             "name before --%s",
             next, entry->name, entry->name, next, entry->name);
    return true;
}

int arguments_read(const struct command *command, const struct option_table *table, void *settings,
                   int argc, char **argv) {
    struct option longs[ENTRIES_MAX];
    char letters[2 * ENTRIES_MAX + 3];
    build(command, table, longs, letters);
    opterr = 0;
    optind = 0; /* glibc: also forgets an earlier reading */
    int what;
    while ((what = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (what == '?' || what == ':') {
            refuse(command, table, what, argv);
            return -1;
        }
        const char *word = argv[optind - (optarg != NULL && optarg == argv[optind - 1] ? 2 : 1)];
        if (is_of_another(table, word, what)) {
            unknown_option(command, table, word);
            return -1;
        }
        const struct option_entry *entry = what >= LONG_BASE ? &table->entries[what - LONG_BASE]
                                                             : find_letter(command, table, what);
        if (lacks_equals(entry, argv[optind])) return -1;
        char reason[256];
        if (entry->set(settings, optarg, reason, sizeof reason) != 0) {
            complain("--%s: %s", entry->name, reason);
            return -1;
        }
    }
    return optind;
}

char **arguments_command(const struct settings *settings, const char *name, const char *what,
                         char **operands) {
    char **words = operands + 1;
    const bool has_dashes = *words != NULL && strcmp(*words, "--") == 0;
    if (has_dashes) words++;
    if (settings->dashes_first && !has_dashes && operands[0][0] != '-') {
        complain("'%.60s' was taken as %s, because it follows '--': redlock %s %s -- COMMAND",
                 operands[0], what, name, what);
        return NULL;
    }
    if (*words == NULL) {
        complain("redlock %s needs a command after %s '%.60s'; try 'redlock %s --help'", name, what,
                 operands[0], name);
        return NULL;
    }
    if (has_dashes || words[0][0] != '-') return words;
    complain("'%.60s' stands after %s '%.60s': options come before it, and '--' before a COMMAND "
             "that begins with '-'",
             words[0], what, operands[0]);
    return NULL;
}

static void print_usage(const struct command *command, const struct verb *verb) {
    if (verb != NULL) {
        printf("usage: redlock %s %s [options]%s%s\n\n%s\n\n", command->name, verb->name,
               verb->synopsis[0] != '\0' ? " " : "", verb->synopsis, verb->summary);
        return;
    }
    printf("usage: redlock %s %s\n\n%s\n\n", command->name, command->synopsis, command->summary);
    if (!has_verbs(command)) return;
    printf("Commands:\n");
    verbs_print(command);
    printf("Each has its own help: redlock help %s NAME.\n\n", command->name);
}

void arguments_help(const struct command *command, const struct option_table *table,
                    const char *name) {
    const struct verb *verb = name != NULL ? verb_named(command, name) : NULL;
    print_usage(command, verb);
    printf("Options:\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct option_entry *entry = &table->entries[i];
        const char *help = option_help_for(command, verb, entry->help);
        if ((entry->commands & command->bit) == 0 || help == NULL) continue;
        char left[64], letter[8] = "    ";
        if (entry->letter != 0) snprintf(letter, sizeof letter, "-%c, ", entry->letter);
        char value[32] = "";
        if (is_optional(entry)) {
            snprintf(value, sizeof value, "[=%s", entry->argument + 1);
        } else if (entry->argument != NULL) {
            snprintf(value, sizeof value, " %s", entry->argument);
        }
        snprintf(left, sizeof left, "%s--%s%s", letter, entry->name, value);
        printf("  %-34s %s\n", left, help);
    }
    printf("\nExample: %s\n", verb != NULL ? verb->example : command->example);
    printf("Durations: 500ms, 30s, 2m, 1h, or plain seconds. The manual: man redlock-%s\n",
           command->name);
}
