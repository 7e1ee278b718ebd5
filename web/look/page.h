/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The page for a browser, page.html, which is inside the program.
 */
#ifndef WEB_PAGE_H
#define WEB_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct http_reply;

extern const unsigned char page_text[];
extern const size_t page_text_bytes;

/* Writes the page. False: it cannot. */
bool page_write(struct http_reply *reply);
/* Headers that keep what is written from other origins and from caches. */
void page_confine(struct http_reply *reply);
/* Whether a browser may ask for this host: an address, localhost, or the name of this machine. By
 * any other name, a foreign page could reach this one (DNS rebinding) and read it. */
bool page_is_host(const char *host);

#endif
