/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands/commands.h"

#include <string.h>

static const struct server_docs_version docs_version = {1, sizeof(struct server_history),
                                                        sizeof(struct server_key_spec),
                                                        sizeof(struct server_argument)};

/* So ACL rules about keys, CLIENT TRACKING and COMMAND GETKEYS find the keys. */
static struct server_key_spec key_spec(const struct command *command) {
    struct server_key_spec spec = {.flags = command->key_flags, .begin_type = SERVER_BEGIN_INDEX};
    spec.begin.index.pos = 1;
    if (command->keys == ONE_KEY) {
        spec.find_type = SERVER_FIND_RANGE;
        spec.find.range.keystep = 1;
    } else {
        spec.find_type = SERVER_FIND_KEYNUM;
        spec.find.keynum.firstkey = 1;
        spec.find.keynum.keystep = 1;
    }
    return spec;
}

static int describe(struct server_command *added, const struct command *command) {
    struct server_key_spec specs[2] = {{0}, {0}};
    if (command->keys != NO_KEYS) specs[0] = key_spec(command);
    const struct server_docs docs = {.version = &docs_version,
                                     .summary = command->summary,
                                     .complexity = command->complexity,
                                     .since = "0.1.0",
                                     .arity = command->arity,
                                     .key_specs = command->keys == NO_KEYS ? NULL : specs};
    return server.SetCommandInfo(added, &docs);
}

static int add(struct server_ctx *ctx, const struct command *command) {
    /* The position of one key is said here too, for servers without SetCommandInfo(); that of
     * several the command says itself (getkeys-api). */
    int key = command->keys == ONE_KEY;
    if (server.CreateCommand(ctx, command->name, command->run, command->flags, key, key, key) !=
        SERVER_OK) {
        server.Log(ctx, "warning", "the server refuses the command %s", command->name);
        return SERVER_ERR;
    }
    if (!server.GetCommand || !server.SetCommandInfo) return SERVER_OK;
    struct server_command *added = server.GetCommand(ctx, command->name);
    if (!added || describe(added, command) != SERVER_OK) {
        server.Log(ctx, "warning", "the server refuses the description of %s", command->name);
        return SERVER_ERR;
    }
    if (server.AddACLCategory && server.SetCommandACLCategories)
        server.SetCommandACLCategories(added, "redlock");
    return SERVER_OK;
}

int commands_add(struct server_ctx *ctx) {
    const struct command *const groups[] = {lock_commands,  share_commands, look_commands,
                                            turn_commands,  slot_commands,  record_commands,
                                            server_commands};
    if (server.AddACLCategory && server.SetCommandACLCategories)
        server.AddACLCategory(ctx, "redlock");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (const struct command *command = groups[i]; command->name; command++)
            if (add(ctx, command) != SERVER_OK) return SERVER_ERR;
    return SERVER_OK;
}
