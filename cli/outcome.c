/* SPDX-License-Identifier: BSD-2-Clause */
#include "outcome.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit_codes.h"
#include "message.h"

enum outcome_kind outcome_of_exit(int status, int conflict) {
    switch (status) {
    case EXIT_NO_QUORUM: return OUTCOME_NO_QUORUM;
    case EXIT_LOST: return OUTCOME_LOST;
    case EXIT_USAGE_ERROR: return OUTCOME_USAGE;
    case EXIT_CONFIG: return OUTCOME_CONFIG;
    default: return status == conflict ? OUTCOME_HELD : OUTCOME_SYSTEM;
    }
}

static json_t *outcome_json(const struct outcome *outcome) {
    static const char *const names[] = {"command",   "not-run", "held",   "no-quorum", "lost",
                                        "cancelled", "usage",   "config", "system"};
    json_t *object = json_object();
    json_object_set_new(object, "outcome", json_string(names[outcome->kind]));
    json_object_set_new(object, "exit", json_integer(outcome->exit));
    json_object_set_new(object, "command_status",
                        outcome->command_status < 0 ? json_null() : json_integer(outcome->command_status));
    json_object_set_new(object, "command_signal",
                        outcome->command_signal == 0 ? json_null() : json_integer(outcome->command_signal));
    return object;
}

static int write_line(const char *path, json_t *object) {
    FILE *file = fopen(path, "we");
    if (file == NULL) return -1;
    int failed = json_dumpf(object, file, JSON_COMPACT) != 0;
    failed |= putc('\n', file) == EOF;
    failed |= fclose(file) != 0;
    return failed ? -1 : 0;
}

int outcome_write(const struct outcome *outcome, const char *path) {
    char *draft = NULL;
    if (asprintf(&draft, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        complain("cannot write the status file: out of memory");
        return -1;
    }
    json_t *object = outcome_json(outcome);
    int result = write_line(draft, object);
    if (result == 0) result = rename(draft, path);
    if (result != 0) {
        complain("cannot write the status file %s: %s", path, strerror(errno));
        unlink(draft);
    }
    json_decref(object);
    free(draft);
    return result;
}
