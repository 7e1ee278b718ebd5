/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processes below a process, by descent: its children, their children and so on, whatever group
 * or session they have moved to. For a subreaper this includes those whose parents have ended.
 */
#ifndef CLI_DESCENT_H
#define CLI_DESCENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One look at them. Zombies do not count: they do nothing. */
struct descent {
    size_t living;
    size_t refused; /* of the living: kill(2) is not permitted */
    int error;      /* then, of the first: errno */
    /* The first that was refused; if none was, the first of the living. */
    pid_t pid;
    uid_t user;
    char name[17];
};

/* Children of the root that are not meant, nor what is below them. */
struct spared {
    pid_t *list;
    size_t count;
};

/* Sends the signal, which may be 0, to everything below `root`, but not to the root. Members of
 * `group` (0: none) have got it by their group: for them it is only found out whether it was
 * permitted. A process that is started meanwhile may be missed. */
struct descent descent_signal(pid_t root, int signal, pid_t group, const struct spared *spared);
/* Sends KILL until several looks find nothing that it could end, so that no fork gets away; but not
 * longer than until that time. */
struct descent descent_kill(pid_t root, const struct spared *spared, int64_t until_ns);
/* The children that this process has now. Free the list. */
struct spared descent_children(void);

/* "pid 123 (sleep, uid 0)", "pid 123 (sleep, uid 0) and 2 more": `count` processes. Returns out. */
char *descent_text(const struct descent *descent, size_t count, char *out, size_t size);

#endif
