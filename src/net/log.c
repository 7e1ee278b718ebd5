/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>

#include "net/conn.h"

void net_log(struct net *net, int level, const char *format, ...) {
    if (!net->handlers.log || level > net->log_level) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    net->handlers.log(net->handlers.context, level, text);
}
