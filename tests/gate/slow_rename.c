/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Preloaded: rename(2) waits until the file that RENAME_WAITS_FOR names is there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int rename(const char *from, const char *to) {
    const char *go = getenv("RENAME_WAITS_FOR");
    while (go != NULL && access(go, F_OK) != 0) usleep(1000);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
