#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# with_certificates.sh COMMAND... - runs it with REDLOCK_TEST_CERTIFICATES naming a directory that holds:
# ca.pem; server.{pem,key} for localhost and 127.0.0.1; elsewhere.{pem,key} for another name; client.{pem,key};
# stranger.pem, a CA that signed none of them. The directory lives as long as the command.
# Exits 77, which ctest counts as skipped, when the redis-server in PATH was built without TLS.
set -eu
if redis-server --tls-port none 2>&1 | grep -q 'Bad directive'; then
    echo "this redis-server knows no TLS" >&2
    exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/redlock-certificates-XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

authority() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
        -keyout "$dir/$1.key" -out "$dir/$1.pem"
}
certificate() { # NAME ALTERNATIVE-NAMES
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$dir/$1.key" -out "$dir/$1.csr"
    printf 'subjectAltName=%s\n' "$2" > "$dir/$1.ext"
    openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -set_serial "$(date +%s%N)" -days 2 \
        -extfile "$dir/$1.ext" -out "$dir/$1.pem"
}
{
    authority ca
    authority stranger
    certificate server DNS:localhost,IP:127.0.0.1
    certificate elsewhere DNS:elsewhere.example
    certificate client DNS:client.example
} > "$dir/openssl.log" 2>&1 || { cat "$dir/openssl.log" >&2; exit 1; }

REDLOCK_TEST_CERTIFICATES=$dir "$@"
