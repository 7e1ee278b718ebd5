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
#include <sys/xattr.h>
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
    if (asprintf(&prefix, "%s/.redlock-gate", draft->directory) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    char *name = drawn_name(prefix);
    free(prefix);
    return name;
}

/* A new file gets the permissions that the directory (its default ACL) and the umask give. The next
 * content of an old one is hidden until it has those of the old one. */
static int create(struct draft *draft) {
    struct stat status;
    draft->fresh = lstat(draft->target, &status) != 0 && errno == ENOENT;
    const mode_t mode = draft->fresh ? 0666 : 0600;
    draft->fd = open(draft->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (draft->fd >= 0) return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -1;
    char *name = hidden_name(draft);
    if (name == NULL) return -1;
    draft->fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode);
    if (draft->fd >= 0) {
        draft->name = name;
        return 0;
    }
    int error = errno;
    free(name);
    errno = error;
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

/* ---- permissions ---- */

#define ACL_NAME "system.posix_acl_access"
/* The kernel's format, in little-endian order: a version, then entries of tag, rights and id. */
#define ACL_HEADER_BYTES 4
#define ACL_ENTRY_BYTES 8
#define ACL_RIGHTS_AT 2
#define ACL_OWNING_GROUP 0x04

/* The attribute is one that a file does not have, or that its file system does not know. */
static bool is_absent(int error) { return error == ENODATA || error == EOPNOTSUPP; }

/* The owning group is another one than the one that had these rights. */
static void deny_owning_group(unsigned char *acl, size_t bytes) {
    for (size_t at = ACL_HEADER_BYTES; at + ACL_ENTRY_BYTES <= bytes; at += ACL_ENTRY_BYTES)
        if (acl[at] == ACL_OWNING_GROUP && acl[at + 1] == 0)
            acl[at + ACL_RIGHTS_AT] = acl[at + ACL_RIGHTS_AT + 1] = 0;
}

/* Mode bits alone cannot say it: with an ACL the group's bits are its mask, and the new file may
 * have an ACL that it got from the directory. */
static int take_acl(const struct draft *draft, bool owned) {
    unsigned char acl[65536]; /* no attribute is longer */
    const ssize_t bytes = getxattr(draft->target, ACL_NAME, acl, sizeof acl);
    if (bytes < 0) {
        if (!is_absent(errno)) return -1;
        return fremovexattr(draft->fd, ACL_NAME) == 0 || is_absent(errno) ? 0 : -1;
    }
    if (!owned) deny_owning_group(acl, (size_t)bytes);
    return fsetxattr(draft->fd, ACL_NAME, acl, (size_t)bytes, 0);
}

static int take_permissions(const struct draft *draft) {
    struct stat old;
    if (stat(draft->target, &old) != 0) {
        if (errno != ENOENT || draft->fresh) return errno == ENOENT ? 0 : -1;
        mode_t mask = umask(0);
        umask(mask);
        return fchmod(draft->fd, 0666 & ~mask);
    }
    /* Keeps the owner of another user's file if permitted; else no other group gets the access that
     * the old group had. The mode comes last: an ACL that is taken away leaves its mask there. */
    const bool owned = fchown(draft->fd, old.st_uid, old.st_gid) == 0;
    if (take_acl(draft, owned) != 0) return -1;
    if (fgetxattr(draft->fd, ACL_NAME, NULL, 0) >= 0) return 0;
    return fchmod(draft->fd, old.st_mode & (owned ? 0777 : 0707));
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

/* Gives the file a name at last, since only rename(2) can replace. What has that name already is
 * not ours, and stays. */
static int give_name(struct draft *draft) {
    char own[64];
    if (draft->name != NULL) return 0;
    char *name = hidden_name(draft);
    if (name == NULL) return -1;
    snprintf(own, sizeof own, "/proc/self/fd/%d", draft->fd);
    if (linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
        draft->name = name;
        return 0;
    }
    int error = errno;
    free(name);
    errno = error;
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
    char *draft = drawn_name(path);
    if (draft == NULL) return NULL;
    *fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd >= 0) return draft;
    int error = errno;
    free(draft);
    errno = error;
    return NULL;
}
