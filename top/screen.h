/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The terminal of redlock top. The only place that knows ncurses; a build without it has
 * no_screen.c instead.
 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "page.h"

/* A key is a byte of the input, or one of these. */
enum top_key {
    TOP_KEY_NONE = 0,
    TOP_KEY_ENTER = '\n',
    TOP_KEY_ESCAPE = 27,
    TOP_KEY_BACKSPACE = 127,
    TOP_KEY_UP = 1000,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_RESIZED,
    TOP_KEY_GONE /* the terminal is closed */
};

/* Takes the terminal. False: `error` has the reason and the cure. Signals that end the process must
 * have handlers by then: ncurses installs its own for those that have none. */
bool top_screen_open(char *error, size_t size);
/* Gives it back as it was. */
void top_screen_close(void);
/* Whether it shows UTF-8. */
bool top_screen_is_ascii(void);
void top_screen_size(size_t *width, size_t *height);
void top_screen_draw(const struct top_page *page);
/* Waits for at most that long. */
int top_screen_key(int wait_ms);

#endif
