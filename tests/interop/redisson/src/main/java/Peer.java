// SPDX-License-Identifier: BSD-2-Clause

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson as a peer: its defaults, with a client for each server, as RedissonRedLock wants it; on one server its RLock.
 * ../README.md has the protocol. Its locks belong to a thread: everything here is done by one.
 *
 * <p>usage: Peer URL...
 */
public final class Peer {
    private final List<RedissonClient> clients;
    private final Map<String, RLock> locks = new HashMap<>();

    private Peer(List<RedissonClient> clients) {
        this.clients = clients;
    }

    private static RedissonClient connect(String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        return Redisson.create(config);
    }

    @SuppressWarnings("deprecation") // what replaces it asks one deployment only
    private RLock newLock(String name) {
        RLock[] all = clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
        return all.length == 1 ? all[0] : new RedissonRedLock(all);
    }

    private RLock lock(String resource) {
        return locks.computeIfAbsent(resource, this::newLock);
    }

    private static String no(String why) {
        String plain = why == null ? "it does not say" : why.replaceAll("[\"\\\\\\p{Cntrl}]", " ");
        return "{\"ok\": false, \"why\": \"" + plain + "\"}";
    }

    private String acquire(String resource, long ttlMs, long waitMs) throws InterruptedException {
        try {
            return lock(resource).tryLock(waitMs, ttlMs, TimeUnit.MILLISECONDS) ? "{\"ok\": true}" : no("tryLock() is false");
        } catch (RuntimeException e) {
            return no(e.getMessage());
        }
    }

    private String release(String resource) {
        try {
            lock(resource).unlock();
            return "{\"ok\": true}";
        } catch (RuntimeException e) {
            return no(e.getMessage());
        }
    }

    /** Not atomic on purpose: only the lock keeps others out between the reading and the writing. */
    private static void addOne(Path file) throws IOException, InterruptedException {
        long number = Long.parseLong(Files.readString(file).trim());
        Thread.sleep(2);
        Files.writeString(file, Long.toString(number + 1));
    }

    /** One that answers nothing throws, and a string in place of its hash does. */
    private static boolean lockWithin(RLock lock, long waitMs, long ttlMs) throws InterruptedException {
        try {
            return lock.tryLock(waitMs, ttlMs, TimeUnit.MILLISECONDS);
        } catch (RuntimeException e) {
            return false;
        }
    }

    /** Between its turns it does something else for a while, as ours do. */
    private String count(String resource, Path file, long openMs, long ttlMs) throws IOException, InterruptedException {
        RLock lock = newLock(resource);
        long turns = 0;
        long failed = 0;
        long closes = System.nanoTime() + openMs * 1_000_000;
        for (long left = openMs; left > 0; left = (closes - System.nanoTime()) / 1_000_000) {
            if (lockWithin(lock, left, ttlMs)) {
                addOne(file);
                turns++;
                try {
                    lock.unlock();
                } catch (RuntimeException e) {
                    // whether a majority deleted it is no matter of the count
                }
            } else {
                failed++;
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(10, 70));
        }
        return "{\"turns\": " + turns + ", \"failed\": " + failed + "}";
    }

    private String obey(String[] words) throws IOException, InterruptedException {
        switch (words[0]) {
            case "acquire":
                return acquire(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
            case "extend":
                return "{\"unsupported\": true}";
            case "release":
                return release(words[1]);
            case "count":
                return count(words[1], Path.of(words[2]), Math.round(Double.parseDouble(words[3]) * 1000), Long.parseLong(words[4]));
            default:
                return no("no such command: " + String.join(" ", words));
        }
    }

    private void greet() {
        Config config = clients.get(0).getConfig();
        System.out.printf("{\"ready\": true, \"name\": \"Redisson\", \"version\": \"%s\", \"key\": \"R\", "
                + "\"token\": \"none: a hash with one field, client's UUID:thread's number, that counts reentries\", "
                + "\"defaults\": {\"lock_watchdog_ms\": %d, \"node_timeout_ms\": %d, \"retries\": %d, \"drift\": \"none\", "
                + "\"asks\": \"one node after the other\"}}%n", RedissonClient.class.getPackage().getImplementationVersion(),
                config.getLockWatchdogTimeout(), config.useSingleServer().getTimeout(), config.useSingleServer().getRetryAttempts());
        System.out.flush();
    }

    public static void main(String[] urls) throws IOException, InterruptedException {
        Peer peer;
        try {
            peer = new Peer(Arrays.stream(urls).map(Peer::connect).toList());
        } catch (RuntimeException e) { // it wants every server to answer at the start; and its threads would live on
            System.err.println("peer: " + e);
            Runtime.getRuntime().halt(1);
            return;
        }
        peer.greet();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("quit"); line = commands.readLine()) {
            if (line.isBlank()) continue;
            System.out.println(peer.obey(line.trim().split("\\s+")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0); // what waits for its threads to end takes seconds
    }
}
