/* SPDX-License-Identifier: BSD-2-Clause */
#include "note.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int note_send(int socket, enum note_kind kind, int value, const struct outcome *outcome) {
    struct note note;
    memset(&note, 0, sizeof note);
    note.kind = kind;
    note.value = value;
    if (outcome != NULL) note.outcome = *outcome;
    int flags = MSG_NOSIGNAL | (kind == NOTE_RESULT ? 0 : MSG_DONTWAIT);
    return send(socket, &note, sizeof note, flags) == (ssize_t)sizeof note ? 0 : -1;
}

int note_read(int socket, struct note *note) {
    ssize_t got;
    do {
        got = recv(socket, note, sizeof *note, MSG_DONTWAIT);
        /* the holder left some of our notes unread; its own last notes come after that */
    } while (got < 0 && errno == ECONNRESET);
    if (got == (ssize_t)sizeof *note) return 1;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    return -1;
}
