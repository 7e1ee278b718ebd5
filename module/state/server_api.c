/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/server_api.h"

#include <string.h>

struct server_api server;

/* The first word of the context that OnLoad gets is the address of the function that finds the
 * others. Addresses of functions are copied as bytes: C has no conversion from one to an object's.
 */
typedef int get_api_fn(const char *name, void *pointer);

static get_api_fn *get_api_of(const struct server_ctx *ctx) {
    get_api_fn *get_api;
    _Static_assert(sizeof get_api == sizeof(void *), "addresses of functions and data are alike");
    memcpy(&get_api, ctx, sizeof get_api);
    return get_api;
}

const char *server_api_find(struct server_ctx *ctx) {
    get_api_fn *get_api = get_api_of(ctx);
#define FIND_NEEDED(result, name, parameters)                                                      \
    if (get_api("RedisModule_" #name, &server.name) != SERVER_OK) return #name;
#define FIND_OPTIONAL(result, name, parameters)                                                    \
    if (get_api("RedisModule_" #name, &server.name) != SERVER_OK) server.name = NULL;
    SERVER_NEEDED(FIND_NEEDED)
    SERVER_OPTIONAL(FIND_OPTIONAL)
    return NULL;
}

bool server_number(struct server_ctx *ctx, const char *section, const char *field,
                   unsigned long long *number) {
    int failed = 0;
    struct server_info *info = server.GetServerInfo(ctx, section);
    *number = server.ServerInfoGetFieldUnsigned(info, field, &failed);
    server.FreeServerInfo(ctx, info);
    return failed == 0;
}
