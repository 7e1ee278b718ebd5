// SPDX-License-Identifier: BSD-2-Clause

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;
import redlock.ClientOptions;
import redlock.Lock;
import redlock.LockOptions;
import redlock.Redlock;

/**
 * The binding as one of the peers (bench/peers/README.md has the protocol): workers are platform threads, virtual threads, or chains of
 * futures.
 *
 * <p>usage: Bench threads|virtual|futures cycles WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE (nodes from REDLOCK_NODES)
 */
public final class Bench {
    private final String kind;
    private final String resource;
    private final int workers;
    private final LockOptions options;
    private long opens;
    private long closes;

    private Bench(String[] words) {
        kind = words[0];
        workers = Integer.parseInt(words[2]);
        options = LockOptions.defaults().ttl(Duration.ofMillis(Long.parseLong(words[5]))).maxWait(Duration.ofSeconds(20));
        resource = words[6];
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

    private void count(Counted counted, long from, long to) {
        if (to >= opens && to < closes) counted.add((to - from) / 1000);
    }

    private static long percentile(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(int) ((sorted.length - 1L) * percent / 100)];
    }

    private void block(Redlock client, String name, Counted counted) {
        for (long from = System.nanoTime(); from < closes;) {
            try {
                client.acquire(name, options).close();
                count(counted, from, System.nanoTime());
            } catch (Exception e) {
                counted.failed++;
            }
            from = System.nanoTime();
        }
    }

    private void chain(Redlock client, String name, Counted counted, CompletableFuture<Void> end) {
        long from = System.nanoTime();
        if (from >= closes) {
            end.complete(null);
            return;
        }
        client.acquireAsync(name, options).thenCompose(Lock::closeAsync).whenComplete((none, failure) -> {
            if (failure == null) {
                count(counted, from, System.nanoTime());
            } else {
                counted.failed++;
            }
            chain(client, name, counted, end);
        });
    }

    private void run(Redlock client, List<Counted> parts) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            String name = resource + ":" + i;
            Counted counted = new Counted();
            CompletableFuture<Void> end = new CompletableFuture<>();
            parts.add(counted);
            switch (kind) {
                case "threads" -> threads.add(Thread.ofPlatform().start(() -> block(client, name, counted)));
                case "virtual" -> threads.add(Thread.ofVirtual().start(() -> block(client, name, counted)));
                default -> {
                    ends.add(end);
                    chain(client, name, counted, end);
                }
            }
        }
        for (Thread thread : threads) thread.join();
        for (CompletableFuture<Void> end : ends) end.join();
    }

    public static void main(String[] words) throws Exception {
        Bench bench = new Bench(words);
        try (Redlock client = Redlock.open(System.getenv("REDLOCK_NODES"), ClientOptions.defaults().nodeTimeout(Duration.ofSeconds(5)))) {
            client.acquire("warm", bench.options).close();
            System.out.println("{\"version\": \"0\", \"defaults\": \"\"}");
            if (System.in.read() < 0) return;
            bench.opens = System.nanoTime() + Long.parseLong(words[3]) * 1_000_000;
            bench.closes = bench.opens + Long.parseLong(words[4]) * 1_000_000;
            List<Counted> parts = new ArrayList<>();
            bench.run(client, parts);
            long[] all = parts.stream().flatMapToLong(part -> LongStream.of(part.latencies).limit(part.count)).sorted().toArray();
            int failed = parts.stream().mapToInt(part -> part.failed).sum();
            System.out.printf("{\"cycles\": %d, \"open_us\": %d, \"failed\": %d, \"p50_us\": %d, \"p99_us\": %d, \"max_us\": %d}%n",
                    all.length, (bench.closes - bench.opens) / 1000, failed, percentile(all, 50), percentile(all, 99), percentile(all, 100));
        }
    }
}
