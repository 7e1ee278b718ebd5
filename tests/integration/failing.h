/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Allocations that fail on purpose. Two ways to do it: failing_wrap.c (the linker's --wrap: what
 * the library's own objects call, hiredis included) and failing_everywhere.c (our own malloc: what
 * OpenSSL, uriparser, hiredis and the C library allocate inside, too).
 */
#ifndef TESTS_FAILING_H
#define TESTS_FAILING_H

#include <stdbool.h>

enum failing_how { FAIL_ONE, FAIL_ALL_LATER };

/* From now on, the nth allocation fails (and with FAIL_ALL_LATER every one after it). */
void failing_begin(unsigned long nth, enum failing_how how);
void failing_end(void);
/* Whether one has failed since failing_begin(). */
bool failing_hit(void);
/* Allocations made and not freed, since the program began. */
long failing_live(void);
/* False where the C library and others keep memory for later: then only growth from run to run
 * tells of a leak. */
bool failing_live_is_exact(void);
#endif
