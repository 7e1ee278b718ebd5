/* SPDX-License-Identifier: BSD-2-Clause */
#include "config_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/lines.h"
#include "process/exit_codes.h"
#include "process/message.h"

static int fail(const struct draft *draft, const char *what) {
    complain("%s %s: %s", what, draft->path, strerror(errno));
    return EXIT_SYSTEM;
}

static int refuse_existing(const char *path) {
    complain("%s exists: --force replaces it, or give another name", path);
    return EXIT_USAGE_ERROR;
}

int config_draft_open(struct draft *draft, const char *path, bool replaces) {
    struct stat status;
    const bool exists = lstat(path, &status) == 0;
    if (exists && !replaces) return refuse_existing(path);
    if (exists && !S_ISREG(status.st_mode)) {
        complain("%s cannot be replaced: not a plain file", path);
        return EXIT_USAGE_ERROR;
    }
    /* Nobody else may read it before it is known whether it has a password. */
    if (draft_open(draft, path, ".redlock-config", 0600) == 0) return 0;
    complain("cannot write %s: %s", path, strerror(errno));
    return EXIT_SYSTEM;
}

/* " ;" begins a comment, and blanks at the ends are stripped (config/lines.h). */
static bool can_be_read_back(const char *name, const char *value) {
    return strstr(value, " ;") == NULL && strpbrk(value, "\r\n\t") == NULL && value[0] != ' ' &&
           value[0] != '\0' && value[strlen(value) - 1] != ' ' &&
           strlen(name) + strlen(" = ") + strlen(value) <= CONFIG_LINE_BYTES_MAX;
}

/* False after a message. */
static bool put(FILE *file, const char *name, const char *value) {
    if (!can_be_read_back(name, value)) {
        complain("the value of '%s' cannot be written into a configuration file", name);
        return false;
    }
    fprintf(file, "%s = %s\n", name, value);
    return true;
}

/* A client starts elsewhere, so the path must be absolute. */
static bool put_path(FILE *file, const char *name, const char *path) {
    if (path == NULL) return true;
    char *absolute = realpath(path, NULL);
    const bool done = put(file, name, absolute != NULL ? absolute : path);
    free(absolute);
    return done;
}

static bool put_nodes(FILE *file, const char *nodes) {
    static const char separators[] = ", \t\n";
    for (const char *at = nodes + strspn(nodes, separators); *at != '\0';) {
        const size_t length = strcspn(at, separators);
        char *url = strndup(at, length);
        const bool done = url != NULL && put(file, "nodes", url);
        free(url);
        if (!done) return false;
        at += length;
        at += strspn(at, separators);
    }
    return true;
}

static bool put_all(FILE *file, const struct session *session, const char *quorum,
                    int64_t ttl_max_ms) {
    const struct settings *settings = session->settings;
    char ttl_max[32];
    snprintf(ttl_max, sizeof ttl_max, "%" PRId64 "ms", ttl_max_ms);
    fputs(
        "# Written by redlock quorum init. Each client of this quorum gets a copy, as\n"
        "# /etc/redlock.conf or as the file that REDLOCK_CONFIG names.\n"
        "#\n"
        "# Mode and quorum are explicit: if all records were lost, mode auto could not know that\n"
        "# these servers were a quorum, and would lock as classic.\n\n",
        file);
    if (!put_nodes(file, session->nodes)) return false;
    fprintf(file, "mode = guarded\nquorum = %s\n", quorum);
    fprintf(file, "# For quorum init after a loss of all data, which must wait that long.\n");
    if (!put(file, "ttl-max", ttl_max)) return false;
    /* The default is longer than this quorum allows. */
    if (ttl_max_ms < SETTINGS_TTL_MS && !put(file, "ttl", ttl_max)) return false;
    if (session->allow_replicas) fputs("allow-replicas = yes\n", file);
    return (settings->client.node.user == NULL ||
            put(file, "node-user", settings->client.node.user)) &&
           put_path(file, "node-password-file", settings->client.node.password_file) &&
           (settings->client.node.password_command == NULL ||
            put(file, "node-password-command", settings->client.node.password_command)) &&
           put_path(file, "tls-ca-file", settings->client.tls.ca_file) &&
           put_path(file, "tls-cert-file", settings->client.tls.cert_file) &&
           put_path(file, "tls-key-file", settings->client.tls.key_file) &&
           (settings->client.tls.server_name == NULL ||
            put(file, "tls-server-name", settings->client.tls.server_name));
}

int config_draft_finish(struct draft *draft, bool replaces, const struct session *session,
                        const char *quorum, int64_t ttl_max_ms) {
    const bool has_password = strchr(session->nodes, '@') != NULL;
    const mode_t mask = umask(0);
    umask(mask);
    const int copy = fcntl(draft->fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (file == NULL) return fail(draft, "cannot write");
    const bool is_valid = put_all(file, session, quorum, ttl_max_ms);
    const bool is_written = fclose(file) == 0;
    if (!is_valid) return EXIT_USAGE_ERROR;
    if (!is_written || (!has_password && fchmod(draft->fd, 0666 & ~mask) != 0) ||
        fsync(draft->fd) != 0)
        return fail(draft, "cannot write");
    if ((replaces ? draft_replace(draft) : draft_add(draft)) == 0) return 0;
    if (draft->placed) return fail(draft, "cannot sync the directory of");
    return errno == EEXIST ? refuse_existing(draft->path) : fail(draft, "cannot write");
}
