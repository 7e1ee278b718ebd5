// SPDX-License-Identifier: BSD-2-Clause

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson as one of the peers: its defaults, with a client for each node, as RedissonRedLock wants it. Workers are
 * threads, many in flight too. ../README.md has the protocol.
 *
 * <p>usage: Peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE (nodes from REDLOCK_NODES)
 */
public final class Peer {
    private static final long LONG_ENOUGH_MS = 20_000;

    private final List<RedissonClient> clients;
    private final String resource;
    private final int workers;
    private long opens;
    private long closes;

    private Peer(List<RedissonClient> clients, int workers, String resource) {
        this.clients = clients;
        this.workers = workers;
        this.resource = resource;
    }

    /** Of the clock that all processes share: on Linux it is CLOCK_MONOTONIC. */
    private static long nowUs() {
        return System.nanoTime() / 1000;
    }

    @SuppressWarnings("deprecation") // what replaces it asks one deployment only
    private RLock lock(String name) {
        return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }

    /** No lease time: the lock is renewed by Redisson's watchdog, as redlock renews its own. */
    private static boolean acquire(RLock lock, long waitMs) {
        try {
            return lock.tryLock(waitMs, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            return false;
        }
    }

    private static final class Counted {
        private long[] latencies = new long[4096];
        private int count;
        private int failed;

        private void add(long latency) {
            if (count == latencies.length) latencies = Arrays.copyOf(latencies, 2 * count);
            latencies[count++] = latency;
        }
    }

    private void cycle(int number, Counted counted) {
        RLock lock = lock(resource + ":" + number);
        long from = nowUs();
        while (from < closes) {
            boolean wentWell = acquire(lock, LONG_ENOUGH_MS);
            if (wentWell) lock.unlock();
            long to = nowUs();
            if (!wentWell) {
                counted.failed++;
            } else if (to >= opens && to < closes) {
                counted.add(to - from);
            }
            from = to;
        }
    }

    private String runCycles() throws InterruptedException {
        List<Counted> parts = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            int number = i;
            Counted counted = new Counted();
            parts.add(counted);
            threads.add(new Thread(() -> cycle(number, counted)));
        }
        run(threads);
        long[] sorted = parts.stream().flatMapToLong(part -> LongStream.of(part.latencies).limit(part.count)).sorted()
                .toArray();
        int failed = parts.stream().mapToInt(part -> part.failed).sum();
        return String.format("{\"cycles\": %d, \"open_us\": %d, \"failed\": %d, \"p50_us\": %d, \"p99_us\": %d, "
                + "\"max_us\": %d}", sorted.length, closes - opens, failed, percentile(sorted, 50),
                percentile(sorted, 99), percentile(sorted, 100));
    }

    private static long percentile(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(int) ((sorted.length - 1L) * percent / 100)];
    }

    private static void run(List<Thread> threads) throws InterruptedException {
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
    }

    private void stand(List<String> turns) {
        RLock lock = lock(resource);
        long asked = nowUs();
        for (long now = asked; now < closes; now = nowUs()) {
            if (!acquire(lock, (closes - now) / 1000 + 1)) continue; // it goes on waiting
            long got = nowUs();
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                return;
            }
            turns.add("[" + asked + ", " + got + ", " + nowUs() + "]");
            lock.unlock();
            asked = nowUs();
        }
        turns.add("[" + asked + ", " + nowUs() + "]");
    }

    private String runHolds() throws InterruptedException {
        List<List<String>> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            List<String> turns = new ArrayList<>();
            all.add(turns);
            threads.add(new Thread(() -> stand(turns)));
        }
        run(threads);
        return all.stream().map(Object::toString).collect(Collectors.joining(", ", "{\"workers\": [", "]}"));
    }

    private static RedissonClient connect(String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        return Redisson.create(config);
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        List<RedissonClient> clients = Arrays.stream(System.getenv("REDLOCK_NODES").split(",")).map(Peer::connect).toList();
        Peer peer = new Peer(clients, Integer.parseInt(words[1]), words[5]);
        Config config = clients.get(0).getConfig();
        String version = RedissonClient.class.getPackage().getImplementationVersion();
        System.out.printf("{\"version\": \"%s\", \"defaults\": \"waits for a message of the release; lock watchdog %d ms, "
                + "no lease time; one node after the other; in flight: threads\"}%n", version,
                config.getLockWatchdogTimeout());
        if (new BufferedReader(new InputStreamReader(System.in)).readLine() != null) {
            peer.opens = nowUs() + Long.parseLong(words[2]) * 1000;
            peer.closes = peer.opens + Long.parseLong(words[3]) * 1000;
            System.out.println(words[0].equals("holds") ? peer.runHolds() : peer.runCycles());
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // what waits for its threads to end takes seconds
    }
}
