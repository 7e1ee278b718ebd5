/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SERVE_PASSWORD_H
#define SERVE_PASSWORD_H

#include <stddef.h>

/* The first line of the file, of 1 to 512 bytes, to be freed by password_free(). NULL: `why`, of
 * `size` bytes, says why. */
char *password_read(const char *path, char *why, size_t size);
void password_free(char *password); /* overwrites it; NULL is fine */

#endif
