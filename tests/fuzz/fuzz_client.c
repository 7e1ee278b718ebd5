/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as what servers say to the whole client, by the public header: play.h. No lock is
 * reported as held when fewer than a majority of the nodes can have granted it, none is valid for
 * longer than its TTL, each call comes to an end, and no text has the password.
 */
#include "must.h"
#include "play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    play(data, size);
    return 0;
}
