/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file's next content: written out of sight, then in its place whole, or never seen.
 */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

struct draft {
    int fd;
    char *target; /* absolute, no symbolic link */
    char *directory;
    char *name; /* where the file system knows no files without a name; else NULL, and a crash
                   leaves nothing */
};

/* `file` may be absent, and may be a link to a file. 0, or -1 after a message. */
int draft_open(struct draft *draft, const char *file);
/* To disk, with the permissions of the file it is to replace. 0, or -1 with errno. */
int draft_sync(struct draft *draft);
/* In the target's place, durably. Only for one at a time on this target. 0, or -1 with errno. */
int draft_replace(struct draft *draft);
void draft_close(struct draft *draft);

#endif
