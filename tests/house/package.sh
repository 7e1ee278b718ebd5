#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What `cmake --install` puts into a prefix is enough to build and run a program of somebody else, found by pkg-config
# and by CMake, shared and static, also after the prefix was moved.
# usage: package.sh BUILD_DIR C_COMPILER VERSION [SANITIZERS]
set -euo pipefail
build=$1 compiler=$2 version=$3 sanitize=${4:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

flags=()
if [ -n "$sanitize" ]; then flags=("-fsanitize=$sanitize"); fi
if grep -q -- --coverage "$build/CMakeCache.txt"; then flags+=(--coverage); fi

cmake --install "$build" --prefix "$scratch/first" > "$scratch/install.log"
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
libdir=$(dirname "$(find "$prefix" -name 'libredlock.so')")
export PKG_CONFIG_PATH=$libdir/pkgconfig

cat > "$scratch/consumer.c" <<'C'
#include <redlock.h>
#include <stdio.h>
/* Names that the library uses inside, and that belong to the program all the same. */
int fail(void), gather(void), call_done(void), tls_read(void);
int fail(void) { return -6; }
int gather(void) { return fail(); }
int call_done(void) { return gather(); }
int tls_read(void) { return call_done(); }
int main(void) {
    struct redlock_client *client = NULL;
    struct redlock_error error;
    int result = redlock_client_open("gopher://nowhere", NULL, &client, &error);
    printf("%s %d\n", redlock_version(), result);
    return result == REDLOCK_BAD_ARGUMENT && result == tls_read() ? 0 : 1;
}
C
expect() { # what, command...
    local said
    said=$("${@:2}")
    [ "$said" = "$version -6" ] || { echo "$1: said '$said', not '$version -6'"; exit 1; }
    echo "$1: works"
}

[ "$(pkg-config --modversion redlock)" = "$version" ]
read -ra shared <<< "$(pkg-config --cflags --libs redlock)"
"$compiler" "${flags[@]}" -o "$scratch/pc-shared" "$scratch/consumer.c" "${shared[@]}" "-Wl,-rpath,$libdir"
expect "pkg-config, shared" "$scratch/pc-shared"
[[ $(ldd "$scratch/pc-shared") == *libredlock.so.* ]] || { echo "pkg-config, shared: not linked to the shared library"; exit 1; }
# Who links the shared library need not know what it is made of.
if [[ ${shared[*]} == *hiredis* ]]; then echo "pkg-config --libs names hiredis"; exit 1; fi

read -ra static <<< "$(pkg-config --static --cflags --libs redlock)"
"$compiler" "${flags[@]}" -o "$scratch/pc-static" "$scratch/consumer.c" "${static[@]/#-lredlock/-l:libredlock.a}"
expect "pkg-config, static" "$scratch/pc-static"
if [[ $(ldd "$scratch/pc-static") == *libredlock* ]]; then echo "pkg-config, static: linked to the shared library"; exit 1; fi

mkdir "$scratch/consumer"
cat > "$scratch/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(consumer C)
if(STATIC)
  find_package(redlock ${WANTED} REQUIRED COMPONENTS static)
  set(library redlock::static)
else()
  find_package(redlock ${WANTED} REQUIRED)
  set(library redlock::redlock)
endif()
add_executable(consumer ../consumer.c)
target_link_libraries(consumer PRIVATE ${library})
CMAKE
for static in OFF ON; do
    if ! { cmake -G Ninja -S "$scratch/consumer" -B "$scratch/cmake-$static" -DSTATIC=$static "-DWANTED=${version%.*}" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="${flags[*]}" \
        && cmake --build "$scratch/cmake-$static"; } > "$scratch/cmake.log" 2>&1; then
        cat "$scratch/cmake.log"
        exit 1
    fi
    expect "find_package, static $static" "$scratch/cmake-$static/consumer"
done

installed=$("$prefix/bin/redlock" --version)
[[ $installed == *"$version"* ]] || { echo "redlock --version says '$installed', not $version"; exit 1; }
for page in man1/redlock.1 man1/redlock-run.1 man1/redlock-extend.1 man5/redlock.conf.5; do
    [ -s "$prefix/share/man/$page" ] || { echo "share/man/$page is not installed"; exit 1; }
done
bash -n "$prefix/share/bash-completion/completions/redlock"
for file in zsh/site-functions/_redlock fish/vendor_completions.d/redlock.fish; do
    [ -s "$prefix/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
done
echo "the command line, its manual pages and its completions are there"

module=$libdir/redlock/redlock.so
[ "$(stat -c %a "$module")" = 755 ] || { echo "redlock.so has mode $(stat -c %a "$module"), not 755: no server loads it"; exit 1; }
# A server does not load what a sanitizer or the coverage is built into.
if [ ${#flags[@]} -eq 0 ]; then
    "$prefix/bin/redlock" up -n 1 -q --native -- "$prefix/bin/redlock" run x -- true
    echo "servers load the installed module"
    "$prefix/bin/redlock" up -n 1 -q -- "$prefix/bin/redlock" top --once > "$scratch/top.log"
    # From another directory than redlock's.
    "$prefix/bin/redlock" bench -q -n 1 --pairs 1 --seconds 0.01 --only gateway,native-1 > "$scratch/bench.log"
    echo "redlock top is found, and redlock bench finds the gateway and the module"
fi
