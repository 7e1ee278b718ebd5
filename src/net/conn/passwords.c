/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The password of nodes whose URL has none. It may change at any time, so each connection asks for
 * it before anything else, and forgets it when AUTH is sent. A file may be on a disk that hangs,
 * and the program may ask another machine: a thread does it. All connections that wait meanwhile
 * get the same answer. If it was too old already, AUTH is refused, and the next try asks again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/conn/background.h"
#include "net/conn/conn.h"

struct password_read {
    struct background background;
    char *file; /* NULL: `ask` */
    redlock_password_fn *ask;
    void *context;
    int result;
    struct redlock_error error;
    char password[REDLOCK_PASSWORD_BYTES_MAX + 1];
};

/* ---- reading ---- */

static const char *why_not(int fd, char *password) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) return strerror(errno);
    /* A pipe could be read only once. */
    if (!S_ISREG(status.st_mode)) return "not a plain file";
    size_t bytes = 0;
    ssize_t got;
    while ((got = read(fd, password + bytes, REDLOCK_PASSWORD_BYTES_MAX + 1 - bytes)) > 0)
        bytes += (size_t)got;
    if (got < 0) return strerror(errno);
    const char *end = memchr(password, '\n', bytes);
    size_t line = end ? (size_t)(end - password) : bytes;
    if (line > 0 && password[line - 1] == '\r') line--;
    if (line == 0) return "its first line is empty";
    if (line > REDLOCK_PASSWORD_BYTES_MAX) return "its first line is longer than 65535 bytes";
    if (memchr(password, '\0', line)) return "its first line has a NUL byte";
    password[line] = '\0';
    return NULL;
}

/* `password` has room for the longest one. False: *error has the reason. */
static bool read_file(const char *path, char *password, struct redlock_error *error) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *why = why_not(fd, password);
    if (fd >= 0) close(fd);
    if (!why) return true;
    error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(error->text, sizeof(error->text), "cannot use the password file %s: %s", path, why);
    return false;
}

bool passwords_check(const struct passwords *passwords, struct net_error *error) {
    struct redlock_error found = {0};
    if (!passwords->file) return true;
    char *password = malloc(REDLOCK_PASSWORD_BYTES_MAX + 1);
    const bool good = password && read_file(passwords->file, password, &found);
    if (password) explicit_bzero(password, REDLOCK_PASSWORD_BYTES_MAX + 1);
    free(password);
    if (good) return true;
    error->result = password ? REDLOCK_BAD_ARGUMENT : REDLOCK_NO_MEMORY;
    snprintf(error->text, sizeof(error->text), "%s", password ? found.text : "out of memory");
    return false;
}

static void read_password(struct background *background) {
    struct password_read *read = (struct password_read *)background;
    if (read->file)
        read->result =
            read_file(read->file, read->password, &read->error) ? REDLOCK_OK : REDLOCK_BAD_ARGUMENT;
    else
        read->result =
            read->ask(read->context, read->password, sizeof(read->password), &read->error);
    read->password[REDLOCK_PASSWORD_BYTES_MAX] = '\0';
    if (read->result != REDLOCK_OK || read->password[0] != '\0') return;
    read->result = REDLOCK_BAD_ARGUMENT;
    snprintf(read->error.text, sizeof(read->error.text), "it is empty");
}

static void free_read(struct background *background) {
    struct password_read *read = (struct password_read *)background;
    explicit_bzero(read->password, sizeof(read->password));
    free(read->file);
    free(read);
}

/* ---- the net's side ---- */

static char *copy(const char *text, bool *all) {
    char *made = text ? strdup(text) : NULL;
    *all = *all && (made || !text);
    return made;
}

bool passwords_open(struct passwords *passwords, const struct net_options *options,
                    struct net_error *error) {
    bool all = true;
    *passwords = (struct passwords){.ask = options->password, .context = options->password_context};
    passwords->user = copy(options->user, &all);
    passwords->file = copy(options->password_file, &all);
    if (all) return passwords_check(passwords, error);
    error->result = REDLOCK_NO_MEMORY;
    snprintf(error->text, sizeof(error->text), "out of memory");
    return false;
}

void passwords_close(struct passwords *passwords, bool forked) {
    /* The program's function may use what the program frees next. */
    if (passwords->read) background_drop(&passwords->read->background, passwords->ask, forked);
    free(passwords->user);
    free(passwords->file);
    memset(passwords, 0, sizeof(*passwords));
}

bool passwords_begin(struct net *net) {
    struct passwords *passwords = &net->passwords;
    if (passwords->read) return true;
    struct password_read *read = calloc(1, sizeof(*read));
    if (!read) return false;
    bool all = true;
    read->background = (struct background){.work = read_password, .free = free_read};
    read->file = copy(passwords->file, &all);
    read->ask = passwords->ask;
    read->context = passwords->context;
    if (!all || !background_start(&read->background, net->kick)) {
        free_read(&read->background);
        return false;
    }
    passwords->read = read;
    return true;
}

bool passwords_answers(const struct passwords *passwords, const char **password,
                       const char **failure) {
    const struct password_read *read = passwords->read;
    if (!read || !background_is_done(&read->background)) return false;
    *password = read->password;
    *failure = read->result == REDLOCK_OK ? NULL : read->error.text;
    return true;
}

void passwords_drop(struct passwords *passwords) {
    background_drop(&passwords->read->background, true, false);
    passwords->read = NULL;
}
