/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In a build with libvalkey: cmake/Codec.cmake maps the names.
 */
#ifndef REDLOCK_LIBVALKEY_H
#define REDLOCK_LIBVALKEY_H

#include <valkey/valkey.h>

#define HIREDIS_MAJOR 1

#endif
