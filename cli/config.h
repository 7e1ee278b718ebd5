/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The configuration file: `name = value` lines, the long options' names as keys.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "settings.h"

/* Reads the file named by REDLOCK_CONFIG, else /etc/redlock.conf, which may be absent. 0, or -1
 * with "FILE:LINE: what is wrong" in `error`. */
int config_load(struct settings *settings, char *error, size_t error_size);
/* Warns of a password in it that others can read. */
void config_check_secrecy(const struct settings *settings);

#endif
