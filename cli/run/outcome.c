/* SPDX-License-Identifier: BSD-2-Clause */
#include "outcome.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/diagnostics.h"
#include "process/draft.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum outcome_kind outcome_of_exit(int status, int conflict) {
    switch (status) {
    case EXIT_NO_QUORUM: return OUTCOME_NO_QUORUM;
    case EXIT_LOST: return OUTCOME_LOST;
    case EXIT_USAGE_ERROR: return OUTCOME_USAGE;
    case EXIT_CONFIG: return OUTCOME_CONFIG;
    case EXIT_CANNOT_RUN:
    case EXIT_NOT_FOUND: return OUTCOME_NOT_RUN;
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
                        outcome->command_status < 0 ? json_null()
                                                    : json_integer(outcome->command_status));
    json_object_set_new(object, "command_signal",
                        outcome->command_signal == 0 ? json_null()
                                                     : json_integer(outcome->command_signal));
    if (outcome->left_running > 0)
        json_object_set_new(object, "left_running", json_integer(outcome->left_running));
    json_t *facts = json_loads(outcome->facts, 0, NULL);
    if (facts != NULL) json_object_update_missing(object, facts);
    json_decref(facts);
    return object;
}

static int write_line(FILE *file, json_t *object) {
    if (file == NULL) return -1;
    int failed = json_dumpf(object, file, JSON_COMPACT) != 0;
    failed |= putc('\n', file) == EOF;
    failed |= fclose(file) != 0;
    return failed ? -1 : 0;
}

static int replace_file(const char *path, json_t *object) {
    int fd;
    char *draft = draft_beside(path, &fd);
    if (draft == NULL) return -1;
    FILE *file = fdopen(fd, "w");
    if (file == NULL) close(fd);
    int result = write_line(file, object);
    if (result == 0) result = rename(draft, path);
    int error = errno;
    if (result != 0) unlink(draft);
    free(draft);
    errno = error;
    return result;
}

/* /dev/null, a named pipe, a link: replacing anything but a plain file would destroy it. A file
 * that is mounted, as in a container, cannot be replaced. */
static bool is_replaceable(const char *path) {
    struct statx status;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) != 0) return true;
    return S_ISREG(status.stx_mode) && (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0;
}

/* A link may lead to a file that is not there yet, or to where none can be. An errno. */
static int try_in_place(const char *path) {
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0) return 0;
    const int fd =
        errno == ENOENT ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666) : -1;
    if (fd < 0) return errno;
    char *target = realpath(path, NULL);
    if (target != NULL) unlink(target);
    free(target);
    close(fd);
    return 0;
}

static int try_file(const char *path) {
    int fd;
    struct stat status;
    if (path[0] == '\0') return ENOENT;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return EISDIR;
    if (!is_replaceable(path)) return try_in_place(path);
    char *draft = draft_beside(path, &fd);
    if (draft == NULL) return errno;
    close(fd);
    unlink(draft);
    free(draft);
    return 0;
}

int outcome_check(const char *path) {
    const int error = path != NULL ? try_file(path) : 0;
    if (error == 0) return 0;
    complain("cannot write the status file '%s': %s%s", path, strerror(error),
             error == ENOENT ? "; make its directory first" : "");
    return EXIT_USAGE_ERROR;
}

/* /dev/stdout may lead to a file that holds the command's output. */
static int write_in_place(const char *path, json_t *object) {
    bool shared = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    /* Not fopen(3), which waits for the reader of a named pipe. */
    const int fd = open(
        path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (shared ? O_APPEND : O_TRUNC), 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "a");
    if (fd >= 0 && file == NULL) close(fd);
    return write_line(file, object);
}

void outcome_reason(struct outcome *outcome, const char *reason) {
    json_t *facts = json_pack("{s:s}", "reason", reason);
    char *text = facts != NULL ? json_dumps(facts, JSON_COMPACT) : NULL;
    if (text != NULL && strlen(text) < sizeof outcome->facts) strcpy(outcome->facts, text);
    free(text);
    json_decref(facts);
}

void outcome_print(const struct outcome *outcome) {
    json_t *object = outcome_json(outcome);
    char *text = json_dumps(object, JSON_COMPACT);
    if (text != NULL) {
        fprintf(diagnostics_stream(), "%s\n", text);
        fflush(diagnostics_stream());
    }
    free(text);
    json_decref(object);
}

int outcome_write(const struct outcome *outcome, const char *path) {
    json_t *object = outcome_json(outcome);
    int result = is_replaceable(path) ? replace_file(path, object) : write_in_place(path, object);
    if (result != 0) complain("cannot write the status file %s: %s", path, strerror(errno));
    json_decref(object);
    return result;
}
