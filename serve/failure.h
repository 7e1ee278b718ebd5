/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reason why an operation failed, as one sentence for a client's log: it names the nodes and
 * the answer of each. It contains no secrets.
 */
#ifndef SERVE_FAILURE_H
#define SERVE_FAILURE_H

#include <stddef.h>

#include <redlock.h>

struct gateway;

/* Writes "NOQUORUM ..." or "ERR ...". `verdicts` are those of the last round, node by node; NULL:
 * no round began. */
void failure_text(const struct gateway *gateway, int result, const int *verdicts, char *out,
                  size_t size);

#endif
