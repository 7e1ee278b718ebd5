/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top without a screen: all rows, nothing cut. The observer's mutex is held.
 */
#ifndef TOP_TEXT_H
#define TOP_TEXT_H

#include "look.h"

void top_print(const struct top_observer *observer);
/* One object on one line. False: no memory. */
bool top_print_json(const struct top_observer *observer);
/* The same object without any part of a token, and with what the model says in words; free(3) it.
 * NULL: no memory. */
char *top_json(const struct top_observer *observer);

#endif
