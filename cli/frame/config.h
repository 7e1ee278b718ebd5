/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The configuration file of a command: the long options' names as keys.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "settings.h"

/* Reads the file that REDLOCK_CONFIG names, else /etc/redlock.conf, which may be absent; with the
 * profile of the settings, else of REDLOCK_PROFILE, which must be there. Returns 0,
 * or below with "FILE:LINE: what is wrong" in `error`. */
int config_load(struct settings *settings, char *error, size_t error_size);
const char *config_path(void); /* of that file */
/* Warns if other users can read a password in it, or the file of node-password-file. */
void config_check_secrecy(const struct settings *settings);

#endif
