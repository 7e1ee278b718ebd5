/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `redlock run` is three processes. The front is what the shell started: it passes signals on,
 * lends the terminal and returns the status. The holder, in a process group of its own so that
 * neither ^C nor ^Z reaches it, takes the lock, renews it, and is parent of the command. Front and
 * holder see each other die: the socket between them closes.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <sys/types.h>

#include "outcome.h"
#include "settings.h"
#include "signals.h"

enum note_kind {
    NOTE_TAKEN,   /* to the front: the lock is ours; shall the command start? */
    NOTE_STARTED, /* to the front: value is its process group */
    NOTE_STOPPED, /* to the front: value is the signal that stopped it */
    NOTE_RESULT,  /* to the front: outcome */
    NOTE_START,   /* to the holder: value 1 lends the terminal. A job stopped while waiting does not
                     answer */
    NOTE_SIGNAL   /* to the holder: value is for the command */
};

struct note {
    enum note_kind kind;
    int value;
    struct outcome outcome;
};

/* A result is waited for; the others are dropped when the other side does not read. */
int note_send(int socket, enum note_kind kind, int value, const struct outcome *outcome);
/* 1: a note; 0: none yet; -1: the other side is gone. */
int note_read(int socket, struct note *note);

struct run_plan {
    const struct settings *settings;
    const char *resource;
    char *const *argv;
    const char *owner;
    const struct inherited_signals *inherited;
    pid_t front;
    int socket;   /* the holder's end */
    int terminal; /* -1: none */
};

/* The holder's whole life; returns what to exit with. */
int holder_main(const struct run_plan *plan);

#endif
