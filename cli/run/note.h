/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the front and the holder of `redlock run` send each other (run.h). */
#ifndef CLI_NOTE_H
#define CLI_NOTE_H

#include "outcome.h"

enum note_kind {
    NOTE_TAKEN,   /* to the front: the lock is taken; may the command start? */
    NOTE_STARTED, /* to the front: value is the command's process group */
    NOTE_STOPPED, /* to the front: value is the signal that stopped the command */
    NOTE_ENDED,   /* to the front: the command has; others that it started have not */
    NOTE_RESULT,  /* to the front: outcome */
    /* to the holder: value 1 lends the terminal. A job that is stopped while it waits does not
     * answer */
    NOTE_START,
    NOTE_SIGNAL /* to the holder: value is a signal for the command */
};

struct note {
    enum note_kind kind;
    int value;
    struct outcome outcome;
};

/* Waits to send a result; other notes are dropped when the other side does not read. */
int note_send(int socket, enum note_kind kind, int value, const struct outcome *outcome);
/* 1: a note; 0: none yet; -1: the other side has closed the socket. */
int note_read(int socket, struct note *note);

#endif
