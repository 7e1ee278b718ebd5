// SPDX-License-Identifier: BSD-2-Clause
/** Distributed locks held on a majority of independent Redis or Valkey servers. */
module redlock {
    exports redlock;
}
