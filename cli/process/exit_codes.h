/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exit status of every command; part of the interface (docs/man/redlock.1, EXIT STATUS).
 */
#ifndef CLI_EXIT_CODES_H
#define CLI_EXIT_CODES_H

enum exit_code {
    EXIT_OK = 0,
    EXIT_USAGE_ERROR = 64, /* the command line is wrong */
    EXIT_NO_QUORUM = 69,   /* too few nodes answered */
    EXIT_SYSTEM = 71,      /* fork, memory, a file: this machine failed */
    EXIT_HELD = 75,        /* another client holds the lock, or the wait ended; -E changes it */
    EXIT_CONFIG = 78,      /* nodes, TLS files, passwords, the configuration file */
    /* the lock was lost while the command ran; for extend and release: not held with this token */
    EXIT_LOST = 80,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128
};

#endif
