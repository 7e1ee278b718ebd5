/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The next content of a file. It is written to a hidden file, and then replaces the file as a whole
 * or not at all.
 */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include <stdbool.h>

struct draft {
    int fd;
    char *target; /* absolute, without symbolic links */
    char *directory;
    /* of the hidden file, where the file system does not support unnamed files; else NULL, and a
     * crash leaves nothing */
    char *name;
    bool fresh; /* there was no such file */
    bool replaced;
};

/* `file` may be absent, and may be a link to a file. 0, or -1 after a message. */
int draft_open(struct draft *draft, const char *file);
/* Writes to disk, with the permissions of the file that it will replace. 0, or -1 with errno. */
int draft_sync(struct draft *draft);
/* Replaces the target, durably. One caller at a time per target. 0, or -1 with errno. */
int draft_replace(struct draft *draft);
void draft_close(struct draft *draft);

/* Opens a new file next to `path`, for a report that replaces it by rename(2). The name ends in
 * .tmp and cannot be guessed, and links are not followed: other users may be allowed to write in
 * the directory. Returns the name, which the caller frees; NULL with errno. */
char *draft_beside(const char *path, int *fd);

#endif
