// SPDX-License-Identifier: BSD-2-Clause

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import redlock.ClientOptions;
import redlock.Leader;
import redlock.Lock;
import redlock.LockOptions;
import redlock.Observer;
import redlock.Redlock;
import redlock.RedlockException;
import redlock.Result;

/** The jar on real servers: each method `public static` without parameters is a case. usage: Cases NAME */
public final class Cases {
    private static final LockOptions USUAL = LockOptions.defaults().ttl(Duration.ofSeconds(30)).maxWait(Duration.ofSeconds(20));
    private static final LockOptions ONE_TRY = USUAL.maxWait(Duration.ZERO);
    private static final Duration LONG = Duration.ofSeconds(20);

    private Cases() {}

    public static void main(String[] words) throws Exception {
        Cases.class.getMethod(words[0]).invoke(null);
        System.out.println(words[0] + ": ok");
    }

    // ---- what cases are made of ----------------------------------------------------------------

    private static void check(boolean holds, Object seen) {
        if (!holds) throw new AssertionError("seen: " + seen);
    }

    private static void same(Object expected, Object seen) {
        if (!expected.equals(seen)) throw new AssertionError("expected: " + expected + ", seen: " + seen);
    }

    private static void until(BooleanSupplier holds, String what) throws InterruptedException {
        for (long end = System.nanoTime() + LONG.toNanos(); !holds.getAsBoolean(); Thread.sleep(10))
            if (System.nanoTime() > end) throw new AssertionError("in vain: " + what);
    }

    private interface Doing {
        void run() throws Exception;
    }

    private static <E extends Throwable> E fails(Class<E> kind, Doing doing) {
        try {
            doing.run();
        } catch (Throwable e) {
            if (kind.isInstance(e)) return kind.cast(e);
            throw new AssertionError("expected: " + kind + ", seen: " + e, e);
        }
        throw new AssertionError("expected: " + kind + ", seen: no failure");
    }

    /** Of another program's, with its own connections. */
    private static boolean isFree(String resource) {
        try (Redlock other = Redlock.open(); Lock lock = other.acquire(resource, ONE_TRY)) {
            return true;
        } catch (RedlockException e) {
            return false;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static final class Servers implements AutoCloseable {
        private final Path place = Files.createTempDirectory("redlock-java");
        private final List<Process> running = new ArrayList<>();

        Servers(int count) throws IOException, InterruptedException {
            for (int i = 0; i < count; i++)
                running.add(new ProcessBuilder("redis-server", "--port", "0", "--unixsocket", socket(i).toString(), "--save", "",
                        "--dir", place.toString()).redirectErrorStream(true).redirectOutput(place.resolve("log" + i).toFile()).start());
            for (int i = 0; i < count; i++) {
                Path socket = socket(i);
                until(() -> Files.exists(socket), "redis-server");
            }
        }

        private Path socket(int i) {
            return place.resolve(i + ".sock");
        }

        String nodes() {
            return IntStream.range(0, running.size()).mapToObj(i -> "unix://" + socket(i)).collect(Collectors.joining(","));
        }

        void kill(int i) throws InterruptedException {
            running.get(i).destroyForcibly().waitFor();
        }

        @Override
        public void close() throws IOException, InterruptedException {
            for (int i = 0; i < running.size(); i++) kill(i);
            try (Stream<Path> files = Files.list(place)) {
                for (Path each : files.toList()) Files.deleteIfExists(each);
            }
            Files.delete(place);
        }
    }

    // ---- on `redlock up --mode classic` --------------------------------------------------------

    public static void basics() throws Exception {
        try (Redlock client = Redlock.open()) {
            Lock lock = client.acquire("a", USUAL.owner("näme"));
            check(lock.token().matches("[0-9a-f]{40}:näme"), lock.token());
            check(lock.validity().compareTo(Duration.ofSeconds(20)) > 0, lock.validity());
            same(0L, lock.fence());
            same(0, lock.slot());
            same("a", lock.name());
            lock.ensureHeld();
            check(client.tryAcquire("a", USUAL).isEmpty(), "a second holder");
            RedlockException.Held held = fails(RedlockException.Held.class, () -> client.acquire("a", USUAL.maxWait(Duration.ofMillis(50))));
            same(Result.HELD, held.result());
            check(held.getMessage().startsWith("a: held by another"), held.getMessage());
            lock.extend(Duration.ofMinutes(1));
            check(lock.validity().compareTo(Duration.ofSeconds(50)) > 0, lock.validity());
            lock.close();
            lock.close();
            same(Duration.ZERO, lock.validity());
            same("", lock.token());
            fails(RedlockException.Lost.class, lock::ensureHeld);
            fails(RedlockException.Lost.class, () -> lock.extend(LONG));
            check(isFree("a"), "held after close()");
            RedlockException bad = fails(RedlockException.class, () -> client.acquire("a", USUAL.ttl(Duration.ofMillis(3))));
            same(Result.BAD_ARGUMENT, bad.result());
            check(bad.sentence().contains("ttl_ms"), bad.sentence());
            fails(RedlockException.class, () -> client.acquire(List.of(), USUAL));
        }
        fails(RedlockException.class, () -> Redlock.open("http://a"));
        same(Result.BAD_ARGUMENT, fails(RedlockException.class, () -> Redlock.open(" ")).result());
    }

    public static void kinds() throws Exception {
        try (Redlock client = Redlock.open()) {
            try (Lock both = client.acquire(List.of("x", "y"), USUAL)) {
                same("x, y", both.name());
                check(!isFree("x") && !isFree("y"), "free");
            }
            try (Lock one = client.acquire("book", USUAL.shared()); Lock two = client.acquire("book", USUAL.shared())) {
                fails(RedlockException.Held.class, () -> client.acquire("book", ONE_TRY));
                one.ensureHeld();
                two.ensureHeld();
            }
            try (Lock one = client.acquire("seat", USUAL.slots(2)); Lock two = client.acquire("seat", USUAL.slots(2))) {
                same(3, one.slot() + two.slot());
                check(client.tryAcquire("seat", USUAL.slots(2)).isEmpty(), "a third of two");
            }
            try (Lock writer = client.acquire("book", USUAL)) {
                check(client.tryAcquire("book", USUAL.shared()).isEmpty(), "a reader next to the writer");
                writer.downgrade();
                client.acquire("book", USUAL.shared()).close();
            }
            try (Lock brief = client.acquire("brief", USUAL.ttl(Duration.ofMillis(300)).renew(false))) {
                same(Result.LOST, brief.loss().toCompletableFuture().get(20, TimeUnit.SECONDS).result());
            } catch (RedlockException.Lost e) {
                check(isFree("brief"), "held");
                return;
            }
            throw new AssertionError("close() of a lost lock was silent");
        }
    }

    public static void futures() throws Exception {
        try (Redlock client = Redlock.open()) {
            Lock lock = client.acquireAsync("f", USUAL).get();
            CompletableFuture<Lock> cancelled = client.acquireAsync("f", USUAL);
            CompletableFuture<Lock> late = client.acquireAsync("f", USUAL).orTimeout(50, TimeUnit.MILLISECONDS);
            Thread.sleep(100);
            cancelled.cancel(true);
            fails(CancellationException.class, cancelled::get);
            same(TimeoutException.class, fails(CompletionException.class, late::join).getCause().getClass());
            CompletableFuture<Lock> next = client.acquireAsync("f", USUAL);
            lock.closeAsync().get();
            // Neither of those that gave up has it now, or gets in its way.
            next.thenCompose(Lock::closeAsync).get(5, TimeUnit.SECONDS);
            check(isFree("f"), "held by one that gave up");
            CompletionException why = fails(CompletionException.class, () -> {
                try (Lock again = client.acquire("f", USUAL)) {
                    client.acquireAsync("f", ONE_TRY).join();
                }
            });
            same(RedlockException.Held.class, why.getCause().getClass());
            same("the caller's", fails(CompletionException.class, () -> client.acquireAsync("f", USUAL).thenCompose(Lock::closeAsync).thenRun(() -> {
                throw new IllegalStateException("the caller's");
            }).join()).getCause().getMessage());
            // In the client's own thread: what blocks there ends, and close() too.
            client.acquireAsync("g", USUAL).thenAccept(Lock::close).get(5, TimeUnit.SECONDS);
            client.acquireAsync("g", USUAL).thenAccept(held -> {
                held.extendAsync(Duration.ofMinutes(1));
                held.close();
                fails(RedlockException.Lost.class, () -> held.extend(LONG));
            }).get(5, TimeUnit.SECONDS);
            client.acquireAsync("g", USUAL).thenAccept(held -> client.close()).get(5, TimeUnit.SECONDS);
            until(() -> isFree("g"), "the release of g");
        }
    }

    public static void interrupts() throws Exception {
        try (Redlock client = Redlock.open()) {
            Lock lock = client.acquire("i", USUAL);
            for (Thread.Builder kind : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
                for (int delay : new int[] {0, 0, 0, 1, 1, 5, 100}) {
                    CompletableFuture<Boolean> ended = new CompletableFuture<>();
                    Thread thread = kind.unstarted(() -> {
                        try {
                            client.acquire("i", USUAL).close();
                            ended.complete(false);
                        } catch (InterruptedException e) {
                            ended.complete(!Thread.currentThread().isInterrupted());
                        } catch (RuntimeException e) {
                            ended.completeExceptionally(e);
                        }
                    });
                    thread.start();
                    Thread.sleep(delay);
                    thread.interrupt();
                    same(true, ended.get(5, TimeUnit.SECONDS));
                }
            }
            Thread.currentThread().interrupt();
            lock.close(); // is not interrupted
            check(Thread.interrupted(), "the interrupt is gone");
            check(isFree("i"), "an interrupted waiter has it");
        }
    }

    /** The common pool is busy: no interrupt may need it, at whatever moment it comes. */
    public static void starved() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        for (int i = 0; i < 300; i++) ForkJoinPool.commonPool().execute(() -> {
            try {
                end.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        try (Redlock client = Redlock.open(); Redlock other = Redlock.open(); Lock lock = other.acquire("p", USUAL)) {
            lock.ensureHeld();
            AtomicInteger interrupted = new AtomicInteger();
            for (int round = 0; round < 400; round++) {
                CountDownLatch begins = new CountDownLatch(1);
                Thread waiter = (round % 2 == 0 ? Thread.ofPlatform() : Thread.ofVirtual()).start(() -> {
                    begins.countDown();
                    fails(InterruptedException.class, () -> client.acquire("p", LockOptions.defaults()));
                    interrupted.incrementAndGet();
                });
                begins.await();
                long at = System.nanoTime() + ThreadLocalRandom.current().nextLong(120_000);
                while (System.nanoTime() < at) Thread.onSpinWait();
                waiter.interrupt();
                check(waiter.join(LONG), "round " + round);
            }
            same(400, interrupted.get());
            for (int round = 0; round < 20; round++) { // and no close() of a client may
                Redlock brief = Redlock.open();
                Thread waiter = Thread.ofPlatform().start(() -> fails(RuntimeException.class,
                        () -> brief.acquire("p", LockOptions.defaults())));
                Thread.sleep(round % 4);
                brief.close();
                check(waiter.join(LONG), "closed, round " + round);
            }
        } finally {
            end.countDown();
        }
    }

    /** The only carrier computes: a platform thread waits for no virtual one. */
    public static void computing() throws Exception {
        same("1", System.getProperty("jdk.virtualThreadScheduler.maxPoolSize"));
        try (Redlock client = Redlock.open(); Lock busy = client.acquire("busy", USUAL)) {
            busy.ensureHeld();
            Lock mine = client.acquire("mine", USUAL);
            for (int i = 0; i < 2; i++) client.acquireAsync("busy", LockOptions.defaults()); // so that virtual threads gather
            CountDownLatch computes = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            Thread.ofVirtual().start(() -> {
                Thread.ofVirtual().start(() -> {
                    try (Lock theirs = client.acquire("v", USUAL)) {
                        theirs.ensureHeld();
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                });
                Thread.ofVirtual().start(() -> {
                    computes.countDown();
                    while (end.getCount() > 0) Thread.onSpinWait();
                });
            });
            computes.await();
            try {
                client.acquireAsync("free", USUAL).get(10, TimeUnit.SECONDS).closeAsync().get(10, TimeUnit.SECONDS);
                mine.closeAsync().get(10, TimeUnit.SECONDS);
            } finally {
                end.countDown();
            }
            until(() -> isFree("v"), "the virtual thread's turn");
        }
    }

    /** What the library would take for something else. */
    public static void mistakes() throws Exception {
        try (Redlock client = Redlock.open()) {
            for (String text : List.of("a\ud800", "\udc00a")) {
                fails(IllegalArgumentException.class, () -> client.acquire(text, USUAL));
                fails(IllegalArgumentException.class, () -> client.observe(text, leader -> { }));
                fails(IllegalArgumentException.class, () -> USUAL.owner(text));
                fails(IllegalArgumentException.class, () -> Redlock.open(text));
            }
            for (ClientOptions options : List.of(ClientOptions.defaults().keyPrefix("a\0b"), ClientOptions.defaults().keyPrefix("\ud800")))
                fails(IllegalArgumentException.class, () -> Redlock.open(System.getenv("REDLOCK_NODES"), options));
            fails(IllegalArgumentException.class, () -> Redlock.open(System.getenv("REDLOCK_NODES") + "\0,redis://other"));
            Duration endless = Duration.ofSeconds(Long.MAX_VALUE);
            check(fails(IllegalArgumentException.class, () -> USUAL.ttl(endless)).getMessage().contains("too long a duration"), "ttl");
            fails(IllegalArgumentException.class, () -> USUAL.maxWait(endless));
            fails(IllegalArgumentException.class, () -> USUAL.slots(0));
            fails(IllegalArgumentException.class, () -> USUAL.maxHold(Duration.ZERO));
            fails(RedlockException.class, () -> client.acquire("m", USUAL.ttl(Duration.ZERO)));
            check(fails(RedlockException.class, () -> client.observe("", leader -> { })).sentence().contains("empty"), "observe");
            try (Lock lock = client.acquire("m\0n", USUAL)) { // is a name
                RedlockException tooLong = fails(RedlockException.class, () -> lock.extend(Duration.ofDays(9999)));
                check(tooLong.sentence().contains("ttl_ms"), tooLong.sentence());
            }
        }
    }

    /** With one carrier: a virtual thread that waits must leave it to the others. */
    public static void carriers() throws Exception {
        same("1", System.getProperty("jdk.virtualThreadScheduler.maxPoolSize"));
        try (Redlock client = Redlock.open()) {
            CountDownLatch waiting = new CountDownLatch(1);
            SynchronousQueue<Lock> handed = new SynchronousQueue<>();
            Lock lock = client.acquire("c", USUAL);
            Thread waiter = Thread.ofVirtual().start(() -> {
                waiting.countDown();
                try (Lock next = client.acquire("c", USUAL)) {
                    next.ensureHeld();
                    handed.put(next);
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
            waiting.await();
            Thread.sleep(200);
            Thread other = Thread.ofVirtual().start(lock::close);
            check(other.join(Duration.ofSeconds(5)), "the carrier is taken");
            same("c", handed.take().name());
            check(waiter.join(Duration.ofSeconds(5)), "the waiter has not ended");
            AtomicInteger turns = new AtomicInteger();
            List<Thread> many = IntStream.range(0, 300).mapToObj(i -> Thread.ofVirtual().start(() -> {
                try (Lock held = client.acquire("c" + i % 100, USUAL)) {
                    held.ensureHeld();
                    turns.incrementAndGet();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            })).toList();
            for (Thread each : many) each.join();
            same(300, turns.get());
        }
    }

    public static void closing() throws Exception {
        Redlock client = Redlock.open();
        Lock lock = client.acquire("k", USUAL);
        AtomicReference<Throwable> ended = new AtomicReference<>();
        List<Thread> waiters = Stream.of(Thread.ofPlatform(), Thread.ofVirtual()).map(kind -> kind.start(() ->
            ended.accumulateAndGet(fails(RedlockException.class, () -> client.acquire("k", USUAL)), (before, now) -> now))).toList();
        CompletableFuture<Lock> future = client.acquireAsync("k", USUAL);
        Thread.sleep(100);
        client.close();
        client.close();
        for (Thread each : waiters) check(each.join(Duration.ofSeconds(5)), "a waiter outlives its client");
        same(Result.CANCELLED, ((RedlockException) ended.get()).result());
        fails(CompletionException.class, future::join);
        fails(RedlockException.Lost.class, lock::ensureHeld);
        lock.close();
        fails(IllegalStateException.class, () -> client.acquire("k", USUAL));
        check(isFree("k"), "held by a client that is closed");
    }

    /** As System.exit() in a callback does, which waits for a hook that closes the client. */
    public static void hooked() throws Exception {
        Redlock client = Redlock.open();
        client.acquire("kept", USUAL);
        CompletableFuture<Boolean> closed = new CompletableFuture<>();
        client.acquireAsync("k", USUAL).thenAccept(lock -> {
            try {
                closed.complete(Thread.ofPlatform().start(client::close).join(Duration.ofSeconds(10)));
            } catch (InterruptedException e) {
                closed.completeExceptionally(e);
            }
        });
        check(closed.get(), "close() waits for a callback that waits for it");
        check(isFree("k") && isFree("kept"), "held by a client that is closed");
    }

    public static void forgotten() throws Exception {
        Redlock client = Redlock.open();
        client.acquire("one", USUAL);
        Redlock.open().acquire("two", USUAL); // with its client
        client.acquireAsync("three", USUAL);
        Lock kept = client.acquire("four", USUAL);
        for (String each : List.of("one", "two", "three")) {
            until(() -> {
                System.gc();
                return isFree(each);
            }, "the release of " + each);
        }
        kept.ensureHeld();
        check(!isFree("four"), "a lock in use is collected");
        kept.close();
    }

    /** Exits with a lock, a waiter and an observer's thread: the virtual machine ends. */
    public static void exits() throws Exception {
        Redlock client = Redlock.open();
        client.acquire("e", USUAL);
        Thread.ofPlatform().daemon().start(() -> fails(Throwable.class, () -> client.acquire("e", LockOptions.defaults())));
        client.acquireAsync("e", LockOptions.defaults());
        Thread.sleep(100);
    }

    // ---- on `redlock up --mode guarded` --------------------------------------------------------

    public static void guarded() throws Exception {
        try (Redlock client = Redlock.open(System.getenv("REDLOCK_NODES"), ClientOptions.defaults().mode(ClientOptions.Mode.GUARDED))) {
            Lock first = client.acquire("fenced", USUAL);
            check(first.fence() > 0, first.fence());
            first.close();
            try (Lock second = client.acquireAsync("fenced", USUAL).get()) {
                check(second.fence() > first.fence() && second.fence() > 0, second.fence());
            }
            LinkedBlockingQueue<Leader> seen = new LinkedBlockingQueue<>();
            Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
                System.out.println(e.getMessage());
                throw new IllegalStateException("a handler's");
            });
            AtomicInteger reports = new AtomicInteger();
            Observer observer = client.observe("helm", leader -> {
                seen.add(leader);
                reports.incrementAndGet();
                throw new IllegalStateException("an observer's"); // goes to the handler, and nowhere else
            });
            Lock helm = client.elect("helm", "host1", USUAL);
            Leader leader = next(seen, Leader.State.KNOWN);
            same(helm.fence(), leader.term());
            same("host1", leader.id());
            check(leader.sureFor().compareTo(Duration.ZERO) > 0, leader.sureFor());
            helm.close();
            next(seen, Leader.State.NONE);
            observer.close();
            observer.close();
            int before = reports.get();
            client.elect("helm", "host2", USUAL).close();
            same(before, reports.get());
            client.observe("helm", each -> { }); // the client's close() ends it
        }
    }

    private static Leader next(LinkedBlockingQueue<Leader> seen, Leader.State state) throws InterruptedException {
        for (;;) {
            Leader leader = seen.poll(20, TimeUnit.SECONDS);
            check(leader != null, "no leader that is " + state);
            if (leader.state() == state) return leader;
        }
    }

    // ---- on servers of its own -----------------------------------------------------------------

    public static void loss() throws Exception {
        try (Servers servers = new Servers(5); Redlock client = Redlock.open(servers.nodes())) {
            Lock lock = client.acquire("l", USUAL.ttl(Duration.ofSeconds(3)));
            CompletableFuture<Long> when = new CompletableFuture<>();
            CompletableFuture<RedlockException> lost = lock.loss().thenApply(why -> {
                when.complete(System.nanoTime());
                return why;
            }).toCompletableFuture();
            servers.kill(0);
            servers.kill(1);
            Thread.sleep(4000);
            lock.ensureHeld();
            check(!lost.isDone(), "lost with three of five");
            servers.kill(2);
            long ends = 0;
            for (long left; (left = lock.validity().toNanos()) > 0; Thread.sleep(5)) ends = System.nanoTime() + left;
            RedlockException why = lost.get(5, TimeUnit.SECONDS);
            same(Result.LOST, why.result());
            check(why.sentence().contains("2.sock"), why.sentence());
            check(when.get() < ends, "reported " + (when.get() - ends) + " ns after the end of validity");
            same(why.sentence(), fails(RedlockException.Lost.class, lock::ensureHeld).sentence());
            fails(RedlockException.Lost.class, lock::close);
            lock.close();
            lock.closeAsync().get();
            RedlockException.NoQuorum none = fails(RedlockException.NoQuorum.class, () -> client.acquire("l", ONE_TRY));
            check(none.sentence().contains("2 of 5"), none.sentence());
        }
    }

    public static void soak() throws Exception {
        long seconds = Long.parseLong(System.getenv().getOrDefault("REDLOCK_SOAK_S", "4"));
        try (Servers servers = new Servers(3)) {
            churn(servers.nodes(), 2_000_000_000L);
            Thread.sleep(500);
            System.gc();
            long files = descriptors();
            long memory = residentKb();
            churn(servers.nodes(), seconds * 1_000_000_000L);
            until(() -> {
                System.gc();
                return descriptors() <= files;
            }, "descriptors: " + files + ", then " + descriptors());
            System.out.println("resident: " + memory + " kB, then " + residentKb() + " kB");
            check(residentKb() < memory + 64_000, residentKb() + " kB after " + memory + " kB");
        }
    }

    private static void churn(String nodes, long nanoseconds) throws InterruptedException {
        long end = System.nanoTime() + nanoseconds;
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            threads.add((i % 2 == 0 ? Thread.ofPlatform() : Thread.ofVirtual()).start(() -> {
                try {
                    while (System.nanoTime() < end) oneClient(nodes, Math.min(end, System.nanoTime() + 300_000_000));
                } catch (Throwable e) {
                    failure.set(e);
                }
            }));
        }
        for (Thread each : threads) each.join();
        if (failure.get() != null) throw new AssertionError(failure.get());
    }

    /** The client is closed with whatever is left, or forgotten. */
    private static void oneClient(String nodes, long end) throws InterruptedException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        Redlock client = Redlock.open(nodes);
        while (System.nanoTime() < end) {
            String name = "s" + random.nextInt(6);
            LockOptions options = USUAL.ttl(Duration.ofMillis(random.nextInt(100, 2000))).maxWait(Duration.ofMillis(random.nextInt(30)));
            try {
                switch (random.nextInt(7)) {
                    case 0 -> client.acquire(name, options);
                    case 1 -> client.acquireAsync(name, options).cancel(true);
                    case 2 -> client.acquireAsync(name, options).thenCompose(Lock::closeAsync);
                    case 3 -> interrupted(client, name, options);
                    case 4 -> {
                        Lock lock = client.acquire(name, options);
                        lock.extendAsync(Duration.ofSeconds(1));
                        lock.closeAsync();
                        lock.close();
                    }
                    default -> client.acquire(name, options).close();
                }
            } catch (RedlockException e) {
                check(e.result() != Result.SYSTEM && e.result() != Result.BAD_ARGUMENT, e);
            }
        }
        if (random.nextInt(4) > 0) client.close();
    }

    private static void interrupted(Redlock client, String name, LockOptions options) throws InterruptedException {
        Thread.currentThread().interrupt();
        try {
            client.acquire(name, options).close();
        } catch (InterruptedException e) {
            return;
        } finally {
            Thread.interrupted();
        }
    }

    private static long descriptors() {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.count();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static long residentKb() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(line -> line.startsWith("VmRSS:")).mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
