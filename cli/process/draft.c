/* SPDX-License-Identifier: BSD-2-Clause */
#include "draft.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* "PREFIX.0123456789abcdef.tmp": nobody else draws it. NULL with errno. */
static char *drawn_name(const char *prefix) {
    uint64_t number;
    char *name = NULL;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return NULL;
    if (asprintf(&name, "%s.%016" PRIx64 ".tmp", prefix, number) >= 0) return name;
    errno = ENOMEM;
    return NULL;
}

/* The name does not contain that of the file, which may be as long as a name can be. */
static char *hidden_name(const struct draft *draft) {
    char *prefix = NULL;
    if (asprintf(&prefix, "%s/%s", draft->directory, draft->hidden) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    char *name = drawn_name(prefix);
    free(prefix);
    return name;
}

static void free_keeping_errno(char *name) {
    const int error = errno;
    free(name);
    errno = error;
}

/* Returns the descriptor, and the name in *name, which this function owned before; -1 with errno.
 */
static int create_named(char *drawn, mode_t mode, char **name) {
    const int fd =
        drawn == NULL ? -1 : open(drawn, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0)
        *name = drawn;
    else
        free_keeping_errno(drawn);
    return fd;
}

static int create(struct draft *draft, mode_t mode) {
    struct stat status;
    draft->fresh = lstat(draft->path, &status) != 0 && errno == ENOENT;
    if (!draft->fresh) mode = 0600;
    draft->fd = open(draft->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (draft->fd >= 0) return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -1;
    draft->fd = create_named(hidden_name(draft), mode, &draft->name);
    return draft->fd >= 0 ? 0 : -1;
}

int draft_open(struct draft *draft, const char *path, const char *hidden, mode_t mode) {
    const char *slash = strrchr(path, '/');
    *draft = (struct draft){.fd = -1, .path = strdup(path), .hidden = hidden};
    draft->directory =
        slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (draft->path != NULL && draft->directory != NULL && create(draft, mode) == 0) return 0;
    const int error = errno;
    draft_close(draft);
    errno = error;
    return -1;
}

static int sync_directory(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd), error = errno;
    close(fd);
    errno = error;
    return result;
}

/* Never replaces. */
static int link_as(const struct draft *draft, const char *name) {
    char own[64];
    if (draft->name != NULL) return link(draft->name, name);
    snprintf(own, sizeof own, "/proc/self/fd/%d", draft->fd);
    return linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* Gives the file a name at last, since only rename(2) can replace. What has that name already is
 * not ours, and stays. */
static int give_name(struct draft *draft) {
    if (draft->name != NULL) return 0;
    char *name = hidden_name(draft);
    if (name == NULL) return -1;
    if (link_as(draft, name) == 0) {
        draft->name = name;
        return 0;
    }
    free_keeping_errno(name);
    return -1;
}

int draft_replace(struct draft *draft) {
    if (give_name(draft) != 0 || rename(draft->name, draft->path) != 0) return -1;
    free(draft->name);
    draft->name = NULL;
    draft->placed = true;
    return sync_directory(draft->directory);
}

int draft_add(struct draft *draft) {
    if (link_as(draft, draft->path) != 0) return -1;
    draft->placed = true;
    return sync_directory(draft->directory);
}

void draft_close(struct draft *draft) {
    if (draft->name != NULL) unlink(draft->name);
    if (draft->fd >= 0) close(draft->fd);
    free(draft->name);
    free(draft->path);
    free(draft->directory);
    *draft = (struct draft){.fd = -1};
}

char *draft_beside(const char *path, int *fd) {
    char *name = NULL;
    *fd = create_named(drawn_name(path), 0666, &name);
    return name;
}
