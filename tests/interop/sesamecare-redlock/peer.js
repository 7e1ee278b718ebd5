// SPDX-License-Identifier: BSD-2-Clause
//
// @sesamecare-oss/redlock, which continues node-redlock 5: its defaults. ../README.md has the protocol. usage: node peer.js URL ...
"use strict";
const { serve } = require("../redlock5.js");
const { fail, packages, sleep } = require("../speaking.js");
const { Redis } = packages("ioredis");
const { Redlock } = packages("@sesamecare-oss/redlock");

serve("@sesamecare-oss/redlock", "@sesamecare-oss/redlock", Redis, Redlock, (redlock) => ({
  hold: (resource, ttlMs, holdMs) =>
    redlock.using([resource], ttlMs, { automaticExtensionThreshold: ttlMs / 2 }, async (signal) => {
      await sleep(holdMs);
      if (signal.aborted) throw signal.error;
    }),
})).catch(fail);
