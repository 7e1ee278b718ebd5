/* SPDX-License-Identifier: BSD-2-Clause */
#include "draft.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"

/* The real path, so that all names of a file mean one gate; for a new file, that of its directory.
 */
static char *resolve(const char *file) {
    struct stat status;
    char *found = realpath(file, NULL);
    if (found != NULL) {
        if (stat(found, &status) == 0 && S_ISREG(status.st_mode)) return found;
        free(found);
        errno = EINVAL; /* a directory, a device, a pipe */
        return NULL;
    }
    if (errno != ENOENT || lstat(file, &status) == 0) return NULL;
    const char *slash = strrchr(file, '/'), *base = slash == NULL ? file : slash + 1;
    char *parent = slash == NULL ? strdup(".") : strndup(file, (size_t)(slash - file) + 1);
    if (parent == NULL) return NULL;
    char *directory = realpath(parent, NULL), *joined = NULL;
    int error = errno;
    if (directory != NULL) {
        error = *base == '\0' ? ENOENT : ENOMEM;
        if (*base == '\0' || asprintf(&joined, "%s/%s", directory, base) < 0) joined = NULL;
    }
    free(directory);
    free(parent);
    errno = error;
    return joined;
}

static int create(struct draft *draft) {
    draft->fd = open(draft->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (draft->fd >= 0) return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -1;
    if (asprintf(&draft->name, "%s.XXXXXX", draft->target) < 0) {
        draft->name = NULL;
        return -1;
    }
    draft->fd = mkostemp(draft->name, O_CLOEXEC);
    if (draft->fd >= 0) return 0;
    free(draft->name);
    draft->name = NULL;
    return -1;
}

int draft_open(struct draft *draft, const char *file) {
    *draft = (struct draft){.fd = -1, .target = resolve(file)};
    if (draft->target == NULL) {
        complain("%s cannot be replaced: %s", file,
                 errno == EINVAL ? "not a plain file" : strerror(errno));
        return -1;
    }
    const char *slash = strrchr(draft->target, '/');
    draft->directory =
        strndup(draft->target, slash == draft->target ? 1 : (size_t)(slash - draft->target));
    if (draft->directory != NULL && create(draft) == 0) return 0;
    complain("cannot write next to %s: %s", draft->target, strerror(errno));
    draft_close(draft);
    return -1;
}

static int take_permissions(const struct draft *draft) {
    struct stat old;
    if (stat(draft->target, &old) != 0) {
        mode_t mask = umask(0);
        umask(mask);
        return errno == ENOENT ? fchmod(draft->fd, 0666 & ~mask) : -1;
    }
    /* Keeps the owner of another user's file if permitted; else no other group gets the access that
     * the old group had. */
    int given = fchown(draft->fd, old.st_uid, old.st_gid);
    return fchmod(draft->fd, old.st_mode & (given == 0 ? 0777 : 0707));
}

int draft_sync(struct draft *draft) { return take_permissions(draft) == 0 ? fsync(draft->fd) : -1; }

static int sync_directory(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd), error = errno;
    close(fd);
    errno = error;
    return result;
}

/* Gives the file a name at last, since only rename(2) can replace. One name is enough: one caller
 * at a time gets here, and a file that a dead process left there is not in use. */
static int give_name(struct draft *draft) {
    char own[64];
    if (draft->name != NULL) return 0;
    if (asprintf(&draft->name, "%s.fence.new", draft->target) < 0) {
        draft->name = NULL;
        return -1;
    }
    snprintf(own, sizeof own, "/proc/self/fd/%d", draft->fd);
    unlink(draft->name);
    if (linkat(AT_FDCWD, own, AT_FDCWD, draft->name, AT_SYMLINK_FOLLOW) == 0) return 0;
    free(draft->name);
    draft->name = NULL;
    return -1;
}

int draft_replace(struct draft *draft) {
    if (give_name(draft) != 0 || rename(draft->name, draft->target) != 0) return -1;
    free(draft->name);
    draft->name = NULL;
    draft->replaced = true;
    return sync_directory(draft->directory);
}

void draft_close(struct draft *draft) {
    if (draft->name != NULL) unlink(draft->name);
    if (draft->fd >= 0) close(draft->fd);
    free(draft->name);
    free(draft->target);
    free(draft->directory);
    *draft = (struct draft){.fd = -1};
}

char *draft_beside(const char *path, int *fd) {
    uint64_t number;
    char *draft = NULL;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return NULL;
    if (asprintf(&draft, "%s.%016" PRIx64 ".tmp", path, number) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    *fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd >= 0) return draft;
    int error = errno;
    free(draft);
    errno = error;
    return NULL;
}
