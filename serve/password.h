/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SERVE_PASSWORD_H
#define SERVE_PASSWORD_H

#include <stddef.h>

/* Returns the first line of the file, 1 to 512 bytes; the caller frees it with password_free().
 * NULL: `why`, of `size` bytes, holds the reason. */
char *password_read(const char *path, char *why, size_t size);
void password_free(char *password); /* overwrites it first; NULL is allowed */

#endif
