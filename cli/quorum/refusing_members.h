/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Members that are intact and refuse every new lock all the same: their record is in order, and
 * the server takes no write.
 */
#ifndef CLI_REFUSING_MEMBERS_H
#define CLI_REFUSING_MEMBERS_H

#include "explain/membership.h"

/* Warns of such members, with the cure, and says so if too few others would be left to grant a
 * lock: then it returns true. `leaves`: a member that is about to be removed. `quiet`: it does not
 * warn. */
bool refusals_warn(struct session *session, const struct membership *membership,
                   const struct redlock_member *leaves, bool quiet);

#endif
