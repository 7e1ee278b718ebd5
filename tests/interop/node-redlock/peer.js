// SPDX-License-Identifier: BSD-2-Clause
//
// node-redlock 5 on the same locks: its defaults. ../README.md has the protocol. usage: node peer.js URL ...
"use strict";
const { serve } = require("../redlock5.js");
const { fail, packages } = require("../speaking.js");
const { default: Redlock } = packages("redlock");

serve("node-redlock", "redlock", packages("ioredis"), Redlock).catch(fail);
