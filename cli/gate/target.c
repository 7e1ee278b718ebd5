/* SPDX-License-Identifier: BSD-2-Clause */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "process/message.h"

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

int target_open(struct draft *draft, const char *file) {
    char *path = resolve(file);
    if (path == NULL) {
        complain("%s cannot be replaced: %s", file,
                 errno == EINVAL ? "not a plain file" : strerror(errno));
        return -1;
    }
    const int result = draft_open(draft, path, ".redlock-gate", 0666);
    if (result != 0) complain("cannot write next to %s: %s", path, strerror(errno));
    free(path);
    return result;
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
    const ssize_t bytes = getxattr(draft->path, ACL_NAME, acl, sizeof acl);
    if (bytes < 0) {
        if (!is_absent(errno)) return -1;
        return fremovexattr(draft->fd, ACL_NAME) == 0 || is_absent(errno) ? 0 : -1;
    }
    if (!owned) deny_owning_group(acl, (size_t)bytes);
    return fsetxattr(draft->fd, ACL_NAME, acl, (size_t)bytes, 0);
}

static int take_permissions(const struct draft *draft) {
    struct stat old;
    if (stat(draft->path, &old) != 0) {
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

int target_sync(const struct draft *draft) {
    return take_permissions(draft) == 0 ? fsync(draft->fd) : -1;
}
