/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "config/nearest.h"
#include "process/message.h"

static const struct verb verbs[] = {
    {COMMAND_QUORUM, "init", "",
     "Make the nodes a guarded quorum; or write its records again when a majority lost its data.",
     "redlock quorum init --never-used --ttl-max 10m"},
    {COMMAND_QUORUM, "status", "", "Show the members, and whether clients can acquire locks.",
     "redlock quorum status --wait=30m"},
    {COMMAND_QUORUM, "add", "URL", "Make a node a member; it votes when it has waited for ttl_max.",
     "redlock quorum add redis://d"},
    {COMMAND_QUORUM, "remove", "MEMBER", "Remove a member, given by its id or its URL.",
     "redlock quorum remove redis://c"},
    {COMMAND_QUORUM, "replace", "MEMBER URL",
     "Add a node, wait until it is intact, and remove a member.",
     "redlock quorum replace redis://c redis://d"},
    {COMMAND_QUORUM, "set-ttl-max", "DURATION",
     "Change the longest TTL of a lock; making it shorter takes as long as the present one.",
     "redlock quorum set-ttl-max 5m"},
};
static const size_t verbs_count = sizeof verbs / sizeof verbs[0];

const struct verb *verb_named(const struct command *command, const char *name) {
    for (size_t i = 0; i < verbs_count; i++) {
        if ((verbs[i].command & command->bit) != 0 && strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

const struct verb *verb_wanted(const struct command *command, const char *name) {
    const struct verb *found = verb_named(command, name);
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < verbs_count; i++) {
        if ((verbs[i].command & command->bit) != 0) nearest_offer(&nearest, verbs[i].name);
    }
    if (found != NULL) return found;
    if (nearest.best != NULL) {
        complain("redlock %s has no command '%.60s'; did you mean '%s'?", command->name, name,
                 nearest.best);
    } else {
        complain("redlock %s has no command '%.60s'; try 'redlock help %s'", command->name, name,
                 command->name);
    }
    return NULL;
}

bool has_verbs(const struct command *command) {
    for (size_t i = 0; i < verbs_count; i++)
        if ((verbs[i].command & command->bit) != 0) return true;
    return false;
}

const char *option_help_for(const struct command *command, const struct verb *verb,
                            const char *help) {
    char first[32];
    const size_t length = strcspn(help, ": ");
    if (verb == NULL || help[length] != ':' || length >= sizeof first) return help;
    snprintf(first, sizeof first, "%.*s", (int)length, help);
    const struct verb *meant = verb_named(command, first);
    if (meant == NULL) return help; /* "guarded: ..." */
    return meant == verb ? help + length + 2 : NULL;
}

void verbs_print(const struct command *command) {
    for (size_t i = 0; i < verbs_count; i++) {
        const struct verb *verb = &verbs[i];
        char left[64];
        if ((verb->command & command->bit) == 0) continue;
        snprintf(left, sizeof left, "%s%s%s", verb->name, verb->synopsis[0] != '\0' ? " " : "",
                 verb->synopsis);
        printf("  %-24s %s\n", left, verb->summary);
    }
}
