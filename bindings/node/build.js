#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
//
// Builds the addon with the C compiler against the library that pkg-config finds.
// usage: build.js               into build/
//        build.js --if-needed   only if the one in the package does not load (what `npm install` runs)
//        build.js --prebuild    into prebuilds/, with the static library inside
// Environment: CC, CFLAGS, PKG_CONFIG, PKG_CONFIG_PATH; REDLOCK_LINK=static puts the library inside.
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const MISSING = `libredlock: the library was not found. Install it with its headers:
    apt-get install libredlock-dev      (RPM: redlock-devel)
or, if it is elsewhere, name the directory of redlock.pc and build again:
    PKG_CONFIG_PATH=DIRECTORY npm rebuild libredlock`;

const words = (text) => (text ?? '').split(/\s+/).filter(Boolean);

function fail(message) {
  console.error(message);
  process.exit(1);
}

function loads() {
  try {
    return Boolean(require('./load.js'));
  } catch {
    return false;
  }
}

function pkgConfig(...asked) {
  try {
    return words(execFileSync(process.env.PKG_CONFIG ?? 'pkg-config', [...asked, 'redlock'], { encoding: 'utf8', stdio: 'pipe' }));
  } catch (error) {
    return fail(`${MISSING}\n${error.code === 'ENOENT' ? 'pkg-config is not installed' : error.stderr.trim()}`);
  }
}

/** Node's own headers, which come with it or with the package node-api-headers. */
function nodeHeaders() {
  const own = path.resolve(process.execPath, '..', '..', 'include', 'node');
  if (fs.existsSync(path.join(own, 'node_api.h'))) return own;
  try {
    return require('node-api-headers').include_dir;
  } catch {
    return fail('libredlock: node_api.h was not found. Install it: npm install node-api-headers, then npm rebuild libredlock');
  }
}

function libraries(inside) {
  if (inside) return pkgConfig('--static', '--libs').map((flag) => (flag === '-lredlock' ? '-l:libredlock.a' : flag));
  return [...pkgConfig('--libs'), ...pkgConfig('--libs-only-L').map((flag) => `-Wl,-rpath,${flag.slice(2)}`)];
}

function build(folder, inside) {
  const file = path.join(__dirname, folder, 'redlock.node');
  fs.mkdirSync(path.dirname(file), { recursive: true });
  // It stays in memory, as the library does: a thread that resolves a name cannot be stopped.
  const flags = ['-std=c11', '-O2', '-fPIC', '-shared', '-fvisibility=hidden', '-Wl,--exclude-libs,ALL', '-Wl,-z,nodelete'];
  const command = [...words(process.env.CC ?? 'cc'), ...flags, ...words(process.env.CFLAGS), `-I${nodeHeaders()}`,
    ...pkgConfig('--cflags'), '-o', file, path.join(__dirname, 'addon.c'), ...libraries(inside)];
  console.log(command.join(' '));
  try {
    execFileSync(command[0], command.slice(1), { stdio: 'inherit' });
  } catch (error) {
    fail(`libredlock: the addon was not built: ${error.code === 'ENOENT' ? `${command[0]} is not installed` : 'see above'}`);
  }
}

const prebuild = process.argv.includes('--prebuild');
if (!process.argv.includes('--if-needed') || !loads())
  build(prebuild ? `prebuilds/${process.platform}-${process.arch}` : 'build', prebuild || process.env.REDLOCK_LINK === 'static');
