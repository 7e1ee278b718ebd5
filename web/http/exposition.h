/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Numbers in the text format that Prometheus reads, and those that several programs show: with the
 * same names, and from one place.
 */
#ifndef WEB_EXPOSITION_H
#define WEB_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

struct evbuffer;

void exposition_head(struct evbuffer *out, const char *name, const char *type, const char *help);
/* A metric without labels, with its head. */
void exposition_number(struct evbuffer *out, const char *name, const char *type, uint64_t value,
                       const char *help);
void exposition_real(struct evbuffer *out, const char *name, const char *type, double value,
                     const char *help);
/* A series of a metric whose head is written. `text` needs no escapes. */
void exposition_labelled(struct evbuffer *out, const char *name, const char *label,
                         const char *text, uint64_t value);
/* The value of a label: any bytes, with the escapes that the format requires. */
void exposition_escape(const char *text, char *out, size_t size);

struct exposition_node {
    char url[1024]; /* escaped; without its password */
    int verdict;    /* enum redlock_verdict */
};
/* Whether each node votes, and its verdict. */
void exposition_nodes(struct evbuffer *out, const struct exposition_node *nodes, size_t count);

#endif
