// SPDX-License-Identifier: BSD-2-Clause

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Locks on Spring Data as peers: ShedLock, and Spring Integration's registry in both of its kinds. Their defaults, but for the
 * times. ../README.md has the protocol. The registry's locks belong to a thread: everything here is done by one.
 *
 * <p>usage: Peer shedlock|shedlock-safe|PUB_SUB_LOCK|SPIN_LOCK URL
 */
public final class Peer {
    /** What a kind of lock does. An exception is a failure. */
    private interface Kind {
        /** False: another client holds it. */
        boolean acquire(String resource, long ttlMs, long waitMs) throws Exception;

        /** False: the lock is lost. */
        boolean extend(String resource, long ttlMs) throws Exception;

        void release(String resource) throws Exception;

        /** Holds by the client's own renewal. */
        default boolean hold(String resource, long ttlMs, long holdMs) throws Exception {
            throw new UnsupportedOperationException("it does not renew by itself");
        }

        String greeting();
    }

    private static final String FIXED = "ADDED:time@host:UUID";

    private static final class Shed implements Kind {
        private final RedisLockProvider provider;
        private final Map<String, SimpleLock> locks = new HashMap<>();

        Shed(LettuceConnectionFactory server, boolean safe) {
            RedisLockProvider.Builder builder = new RedisLockProvider.Builder(server);
            provider = (safe ? builder.safeUpdate(true) : builder).build();
        }

        /** It never waits: a scheduled job that is not alone is skipped. */
        @Override
        public boolean acquire(String resource, long ttlMs, long waitMs) throws InterruptedException {
            long end = System.nanoTime() + waitMs * 1_000_000;
            while (true) {
                var got = provider.lock(new LockConfiguration(Instant.now(), resource, Duration.ofMillis(ttlMs), Duration.ZERO));
                got.ifPresent(lock -> locks.put(resource, lock));
                if (got.isPresent() || System.nanoTime() >= end) return got.isPresent();
                Thread.sleep(20);
            }
        }

        @Override
        public boolean extend(String resource, long ttlMs) {
            var got = locks.get(resource).extend(Duration.ofMillis(ttlMs), Duration.ZERO);
            got.ifPresent(lock -> locks.put(resource, lock));
            return got.isPresent();
        }

        @Override
        public void release(String resource) {
            locks.get(resource).unlock();
        }

        @Override
        public String greeting() {
            return "\"name\": \"ShedLock\", \"version\": \"7.10.1\", \"key\": \"job-lock:default:R\", \"token\": \"" + FIXED
                    + "\", \"defaults\": {\"ttl\": \"none: it is always said\", \"tries\": 1, \"drift\": \"none\"}";
        }
    }

    private static final class Registry implements Kind {
        private static final Duration EXPIRE = Duration.ofSeconds(60);
        private final LettuceConnectionFactory server;
        private final RedisLockRegistry.RedisLockType type;
        private final RedisLockRegistry registry;

        Registry(LettuceConnectionFactory server, String type) {
            this.server = server;
            this.type = RedisLockRegistry.RedisLockType.valueOf(type);
            registry = make(EXPIRE);
        }

        private RedisLockRegistry make(Duration expire) {
            RedisLockRegistry made = new RedisLockRegistry(server, "registry", expire);
            made.setRedisLockType(type);
            return made;
        }

        private DistributedLock lock(String resource) {
            return registry.obtain(resource);
        }

        @Override
        public boolean acquire(String resource, long ttlMs, long waitMs) throws InterruptedException {
            return lock(resource).tryLock(Duration.ofMillis(waitMs), Duration.ofMillis(ttlMs));
        }

        @Override
        public boolean extend(String resource, long ttlMs) {
            registry.renewLock(resource, Duration.ofMillis(ttlMs));
            return true;
        }

        @Override
        public void release(String resource) {
            lock(resource).unlock();
        }

        @Override
        public boolean hold(String resource, long ttlMs, long holdMs) throws Exception {
            ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
            scheduler.initialize();
            RedisLockRegistry renewed = make(Duration.ofMillis(ttlMs));
            renewed.setRenewalTaskScheduler(scheduler);
            DistributedLock lock = renewed.obtain(resource);
            if (!lock.tryLock()) return false;
            Thread.sleep(holdMs);
            lock.unlock(); // throws if the lock was lost
            renewed.destroy();
            scheduler.shutdown();
            return true;
        }

        @Override
        public String greeting() {
            return "\"name\": \"Spring Integration's " + type + "\", \"version\": \"7.1.0\", \"key\": \"registry:R\", "
                    + "\"token\": \"UUID of the registry\", \"defaults\": {\"ttl_ms\": " + EXPIRE.toMillis()
                    + ", \"tries\": \"no limit\", \"drift\": \"none\"}";
        }
    }

    private static String no(String why) {
        String plain = why == null ? "it does not say" : why.replaceAll("[\"\\\\\\p{Cntrl}]", " ");
        return "{\"ok\": false, \"why\": \"" + plain + "\"}";
    }

    private static String said(boolean ok) {
        return ok ? "{\"ok\": true}" : no(null);
    }

    /** Not atomic on purpose: only the lock keeps others out between the reading and the writing. */
    private static void addOne(Path file) throws IOException, InterruptedException {
        long number = Long.parseLong(Files.readString(file).trim());
        Thread.sleep(2);
        Files.writeString(file, Long.toString(number + 1));
    }

    private static boolean took(Kind kind, String resource, long ttlMs, long waitMs) {
        try {
            return kind.acquire(resource, ttlMs, waitMs);
        } catch (Exception e) {
            return false;
        }
    }

    /** Between its turns it does something else for a while, as ours do. */
    private static String count(Kind kind, String resource, Path file, long openMs, long ttlMs)
            throws IOException, InterruptedException {
        long turns = 0;
        long failed = 0;
        long closes = System.nanoTime() + openMs * 1_000_000;
        for (long left = openMs; left > 0; left = (closes - System.nanoTime()) / 1_000_000) {
            if (took(kind, resource, ttlMs, Math.min(left, 1000))) {
                addOne(file);
                turns++;
                try {
                    kind.release(resource);
                } catch (Exception e) {
                    // it has counted, whether or not the server knows that it is over
                }
            } else {
                failed++;
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(10, 70));
        }
        return "{\"turns\": " + turns + ", \"failed\": " + failed + "}";
    }

    private static String obey(Kind kind, String[] words) throws IOException, InterruptedException {
        if (words[0].equals("count"))
            return count(kind, words[1], Path.of(words[2]), Math.round(Double.parseDouble(words[3]) * 1000), Long.parseLong(words[4]));
        try {
            switch (words[0]) {
                case "acquire":
                    return said(kind.acquire(words[1], Long.parseLong(words[2]), Long.parseLong(words[3])));
                case "extend":
                    return said(kind.extend(words[1], Long.parseLong(words[2])));
                case "hold":
                    return said(kind.hold(words[1], Long.parseLong(words[2]), Math.round(Double.parseDouble(words[3]) * 1000)));
                case "release":
                    kind.release(words[1]);
                    return "{\"ok\": true}";
                default:
                    return no("no such command: " + String.join(" ", words));
            }
        } catch (Exception e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            return no(cause.toString());
        }
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        URI url = URI.create(words[1]);
        LettuceConnectionFactory server = new LettuceConnectionFactory(url.getHost(), url.getPort());
        server.afterPropertiesSet();
        server.start();
        boolean sheds = words[0].startsWith("shedlock");
        Kind kind = sheds ? new Shed(server, words[0].endsWith("safe")) : new Registry(server, words[0]);
        System.out.println("{\"ready\": true, " + kind.greeting() + "}");
        System.out.flush();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("quit"); line = commands.readLine()) {
            if (line.isBlank()) continue;
            System.out.println(obey(kind, line.trim().split("\\s+")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0); // what waits for its threads to end takes seconds
    }
}
