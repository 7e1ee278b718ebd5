/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The next content of a file. It is written to a file without a name in the same directory, and
 * gets the name as a whole or not at all.
 */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include <stdbool.h>
#include <sys/types.h>

struct draft {
    int fd;
    char *path; /* of the file that it becomes */
    char *directory;
    const char *hidden; /* how the name of an unfinished file begins */
    /* of the unfinished file, where the file system does not support unnamed files; else NULL, and
     * a crash leaves nothing */
    char *name;
    bool fresh;  /* there was no such file */
    bool placed; /* it has the path */
};

/* A fresh file gets the permissions that `mode`, the directory (its default ACL) and the umask
 * give. The next content of another one is its user's alone until it gets others. 0, or -1 with
 * errno, and nothing has to be closed. */
int draft_open(struct draft *draft, const char *path, const char *hidden, mode_t mode);
/* Replaces what is at the path, durably. One caller at a time per path. 0, or -1 with errno. */
int draft_replace(struct draft *draft);
/* The same, but what is at the path stays: -1 with EEXIST. */
int draft_add(struct draft *draft);
/* Removes what is not placed. */
void draft_close(struct draft *draft);

/* Opens a new file next to `path`, for a report that replaces it by rename(2). The name ends in
 * .tmp and cannot be guessed, and links are not followed: other users may be allowed to write in
 * the directory. Returns the name, which the caller frees; NULL with errno. */
char *draft_beside(const char *path, int *fd);

#endif
