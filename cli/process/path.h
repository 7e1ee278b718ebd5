/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The list of directories in which commands are found.
 */
#ifndef CLI_PATH_H
#define CLI_PATH_H

#include <stddef.h>

/* 0, and the file that a name stands for, by PATH if it has no slash; else the errno of execvp(3).
 */
int find_in_path(const char *name, char *program, size_t size);
/* Puts a directory at the head of PATH, for this process and the commands that it starts. */
int search_first_in(const char *directory);

#endif
