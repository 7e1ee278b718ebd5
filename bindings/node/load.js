// SPDX-License-Identifier: BSD-2-Clause
//
// The addon: the one that build.js made, or else the one in the package, which contains the library.
'use strict';
const fs = require('fs');
const path = require('path');

const FILES = ['build', `prebuilds/${process.platform}-${process.arch}`].map((folder) => path.join(__dirname, folder, 'redlock.node'));

function load() {
  const reasons = [];
  for (const file of FILES.filter((file) => fs.existsSync(file))) {
    try {
      return require(file);
    } catch (error) {
      reasons.push(error.message);
    }
  }
  const reason = reasons[0] ?? `the package has none for ${process.platform} on ${process.arch}`;
  throw new Error(`libredlock: the addon does not load: ${reason}\nTo build it: node ${path.join(__dirname, 'build.js')}`);
}

module.exports = load();
