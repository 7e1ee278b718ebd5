/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In place of screen.c where ncurses was missing when redlock was built. */
#include <stdio.h>

#include "screen.h"

bool top_screen_open(char *error, size_t size) {
    snprintf(
        error, size,
        "this redlock was built without ncurses: top has only --once and --json; for the live view, install "
        "libncurses-dev and build it again");
    return false;
}

void top_screen_close(void) {}

bool top_screen_is_ascii(void) { return true; }

void top_screen_size(size_t *width, size_t *height) {
    *width = 80;
    *height = 24;
}

void top_screen_draw(const struct top_page *page) { (void)page; }

int top_screen_key(int wait_ms) {
    (void)wait_ms;
    return TOP_KEY_GONE;
}
