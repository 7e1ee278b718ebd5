/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The name of a script: the SHA1 of its text, as SCRIPT LOAD answers it.
 */
#ifndef SERVE_SCRIPT_NAME_H
#define SERVE_SCRIPT_NAME_H

#include "script.h"

/* Writes 40 hexadecimal digits in lower case, and a NUL. False: the digest cannot be computed. */
bool script_name(struct script_bytes text, char sha[SCRIPT_SHA_BYTES + 1]);

#endif
