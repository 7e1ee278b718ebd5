/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why an operation failed, as one sentence that a client's log can hold: which nodes, and what each
 * said. No secrets.
 */
#ifndef SERVE_FAILURE_H
#define SERVE_FAILURE_H

#include <stddef.h>

#include <redlock.h>

struct gateway;

/* "NOQUORUM ..." or "ERR ...". `verdicts` of the last round, node by node; NULL: none was begun. */
void failure_text(const struct gateway *gateway, int result, const int *verdicts, char *out,
                  size_t size);

#endif
