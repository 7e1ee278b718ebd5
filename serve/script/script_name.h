/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The name of a script. Scripts run in Lua 5.1, as in Redis, in a separate process (workers.h).
 */
#ifndef SERVE_SCRIPT_NAME_H
#define SERVE_SCRIPT_NAME_H

#include "key_call.h"

#define SCRIPT_SHA_BYTES 40
/* The name of a script: the SHA1 of its text, as SCRIPT LOAD answers it. Writes 40 hexadecimal
 * digits in lower case, and a NUL. False: the digest cannot be computed. Workers do not have this.
 */
bool script_name(struct bytes text, char sha[SCRIPT_SHA_BYTES + 1]);

#endif
