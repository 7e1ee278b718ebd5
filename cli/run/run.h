/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `redlock run` is three processes: the front, the holder and the command. The shell starts the
 * front, which passes signals on, lends the terminal and returns the status. The holder takes the
 * lock, renews it, and is the parent of the command. It has a process group of its own, so that
 * neither ^C nor ^Z reaches it. Front and holder notice each other's death, because the socket
 * between them closes. A holder that is stopped is still there: so the front ends the command and
 * the holder, when the validity that the holder has proved last is over. Both are subreapers:
 * whatever the command starts stays below the holder, and below the front when the holder is
 * killed.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame/settings.h"
#include "note.h"
#include "process/signals.h"

/* In memory that both have: a note could stay unread, or be dropped. */
struct run_watch {
    /* When the front ends the command: just before the validity is over. NEVER: there is no
     * command, or it runs on without the lock, or the holder has sent KILL */
    _Atomic int64_t kill_at;
    /* The same if the holder is stopped: the more it has left unreaped, the longer the end takes.
     */
    _Atomic int64_t kill_stopped_at;
    _Atomic pid_t group; /* of the command; 0: none yet, or it has ended */
    /* The command starts before this time or not at all. The child itself looks, right before exec:
     * whatever has stood still until then. */
    _Atomic int64_t start_before;
    atomic_bool ended; /* by the front, at kill_at */
};

struct run_plan {
    const struct settings *settings;
    const char *resource;
    char *const *argv;
    const char *owner;
    const struct inherited_signals *inherited;
    struct run_watch *watch;
    pid_t front;
    int socket;   /* the holder's end */
    int terminal; /* -1: none */
    bool elects;  /* the lock's holder is a leader: redlock elect */
};

/* front.c: runs the command under the lock and returns the exit status. `elects`: in a term,
 * and again in a later one when the lock was lost, unless --once. */
int run_supervised(struct settings *settings, const char *resource, char **command, bool elects);

/* holder.c: the holder's main function; returns its exit status. */
int holder_main(const struct run_plan *plan);

#endif
