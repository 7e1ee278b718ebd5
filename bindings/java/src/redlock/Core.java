// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;

/** A client of the library, and the thread that waits for its descriptor. It is freed after all that it keeps. */
final class Core {
    /** What a closed client takes along. */
    interface Kept {
        void close();
    }

    private static final MethodHandles.Lookup HOME = MethodHandles.lookup();
    static final MemorySegment DONE = Native.stub(HOME, "done", Abi.redlock_done_fn);
    private static final MemorySegment CHANGE = Native.stub(HOME, "change", Abi.redlock_change_fn);
    private static final MemorySegment LEADER = Native.stub(HOME, "leader", Abi.redlock_observe_fn);
    /** Locks by address, and observers by number. A lock lives as long as a callback of it runs. */
    private static final Map<Long, Handle> LOCKS = new ConcurrentHashMap<>();
    private static final Map<Long, Observer> OBSERVERS = new ConcurrentHashMap<>();

    final MemorySegment client;
    private final int wake;
    private final MemorySegment fds;
    private final Thread thread = Thread.ofPlatform().daemon().name("redlock").unstarted(this::listen);
    private final Set<Kept> kept = ConcurrentHashMap.newKeySet();
    private final CompletableFuture<Void> unused = new CompletableFuture<>();
    private int users; // what is kept, and calls
    private boolean closed;
    private volatile boolean stopped;

    /** In a turn one thread asks the library what there is: `thread`, or one that closes while `thread` is in a callback. */
    private final ReentrantLock turns = new ReentrantLock(true);
    private final Queue<Runnable> ended = new ConcurrentLinkedQueue<>(); // what came out of redlock_process()
    private volatile boolean submits;

    private final Queue<Handle> submitted = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean gathers = new AtomicBoolean();
    final AtomicInteger flying = new AtomicInteger();

    Core(String nodes, ClientOptions options) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment opened = arena.allocate(ValueLayout.ADDRESS);
            MemorySegment error = error(arena);
            int result = Abi.redlock_client_open(nodes == null ? MemorySegment.NULL : Native.text(arena, nodes), options.in(arena),
                    opened, error);
            check(result, "", error);
            client = opened.get(ValueLayout.ADDRESS, 0);
        }
        wake = Native.eventfd();
        if (wake < 0) {
            Abi.redlock_client_free(client);
            throw RedlockException.of(Abi.REDLOCK_SYSTEM, "", "no descriptor is left", "Raise the limit: ulimit -n");
        }
        fds = Native.pollfds(Arena.ofAuto(), Abi.redlock_client_fd(client), wake);
        thread.start();
    }

    private static MemorySegment error(Arena arena) {
        return arena.allocate(Abi.redlock_error.BYTES, Long.BYTES);
    }

    private static void check(int result, String resource, MemorySegment error) {
        if (result != Abi.REDLOCK_OK) throw RedlockException.of(result, resource, Abi.redlock_error.text(error), "");
    }

    // ---- what is kept --------------------------------------------------------------------------

    synchronized void enter() {
        if (closed) throw new IllegalStateException("the client is closed");
        users++;
    }

    void exit() {
        synchronized (this) {
            if (--users > 0 || !closed) return;
        }
        Native.signal(wake);
        unused.complete(null);
    }

    private void keep(Kept one) {
        kept.add(one);
        boolean late;
        synchronized (this) {
            late = closed;
        }
        if (late) one.close();
    }

    Handle lock(List<String> resources, LockOptions options) {
        String name = String.join(", ", resources);
        enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(ValueLayout.ADDRESS);
            MemorySegment error = error(arena);
            MemorySegment how = options.in(arena);
            Abi.redlock_lock_options.on_change(how, CHANGE);
            check(Abi.redlock_lock_new_multi(client, names(arena, resources), resources.size(), how, made, error), name, error);
            MemorySegment lock = made.get(ValueLayout.ADDRESS, 0);
            Handle handle = new Handle(this, name, lock);
            LOCKS.put(lock.address(), handle);
            keep(handle);
            return handle;
        } catch (Throwable e) {
            exit();
            throw e;
        }
    }

    private static MemorySegment names(Arena arena, List<String> resources) {
        MemorySegment names = arena.allocate(Abi.redlock_bytes.BYTES * Math.max(1, resources.size()), Long.BYTES);
        for (int i = 0; i < resources.size(); i++) {
            byte[] bytes = Native.utf8(resources.get(i));
            MemorySegment name = names.asSlice(i * Abi.redlock_bytes.BYTES, Abi.redlock_bytes.BYTES);
            Abi.redlock_bytes.data(name, Native.bytes(arena, bytes));
            Abi.redlock_bytes.bytes(name, bytes.length);
        }
        return names;
    }

    void free(Handle handle, MemorySegment lock) {
        Abi.redlock_lock_free(lock);
        LOCKS.remove(lock.address(), handle);
        kept.remove(handle);
        exit();
    }

    MemorySegment observe(Observer observer, String resource) {
        byte[] name = Native.utf8(resource);
        if (name.length == 0) throw RedlockException.of(Abi.REDLOCK_BAD_ARGUMENT, "", "the resource is empty", "Give it a name.");
        enter();
        OBSERVERS.put(observer.number, observer);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(ValueLayout.ADDRESS);
            MemorySegment error = error(arena);
            check(Abi.redlock_observe_start(client, Native.bytes(arena, name), name.length, LEADER,
                    MemorySegment.ofAddress(observer.number), made, error), resource, error);
            return made.get(ValueLayout.ADDRESS, 0);
        } catch (Throwable e) {
            OBSERVERS.remove(observer.number);
            exit();
            throw e;
        }
    }

    void watch(Observer observer) {
        keep(observer);
    }

    void stop(Observer observer, MemorySegment watch) {
        Abi.redlock_observe_stop(watch);
        OBSERVERS.remove(observer.number);
        kept.remove(observer);
        exit();
    }

    /** Ends waits, releases what is held, and frees the client. */
    void close() {
        if (Thread.currentThread() == thread) { // it hands out what this would wait for
            Thread.ofPlatform().name("redlock-close").start(this::close);
            return;
        }
        synchronized (this) {
            if (closed) return;
            closed = true;
            if (users == 0) unused.complete(null);
        }
        for (Kept each : kept) each.close();
        while (!unused.isDone() && turn()) {
            // on: `thread` may be in a callback that waits for this thread, as System.exit() does for hooks
        }
        Native.signal(wake);
        turns.lock();
        try {
            stopped = true;
            Abi.redlock_client_free(client);
            Native.close(wake);
        } finally {
            turns.unlock();
        }
    }

    // ---- the thread ----------------------------------------------------------------------------

    private void listen() {
        while (turn()) {
            // on
        }
    }

    private boolean turn() {
        boolean on;
        turns.lock();
        try {
            if (stopped) return false;
            Native.poll(fds);
            on = Abi.redlock_process(client) == Abi.REDLOCK_OK;
        } finally {
            turns.unlock();
        }
        handOut();
        return on;
    }

    /** In `thread` it does meanwhile what the future waits for. */
    <T> T join(CompletableFuture<T> future) {
        if (Thread.currentThread() == thread) handOut(); // the rest of the turn
        while (Thread.currentThread() == thread && !future.isDone() && turn()) {
            // on
        }
        return future.join();
    }

    private void handOut() {
        for (Runnable each; (each = ended.poll()) != null;) {
            try {
                each.run();
            } catch (Throwable e) {
                report(e);
            }
        }
        if (submits) startAll();
        submits = false;
    }

    private void run(Runnable after) {
        if (turns.isHeldByCurrentThread()) {
            ended.add(after);
        } else {
            after.run();
        }
    }

    private static void report(Throwable e) {
        Thread self = Thread.currentThread();
        try {
            self.getUncaughtExceptionHandler().uncaughtException(self, e);
        } catch (Throwable ignored) {
            // as in every thread: what the handler throws goes nowhere
        }
    }

    // No exception may leave a callback: the virtual machine would end.

    private static void done(long context, long lock, int result) {
        try {
            Handle handle = LOCKS.get(lock);
            handle.core.run(() -> handle.finish(result));
        } catch (Throwable e) {
            report(e);
        }
    }

    private static void change(long context, long lock, int change) {
        try {
            Handle handle = LOCKS.get(lock);
            if (change != Abi.REDLOCK_CHANGE_LOST || handle == null) return;
            RedlockException why = handle.explain(Abi.REDLOCK_LOST); // the causes are known now
            handle.core.run(() -> handle.lost(why));
        } catch (Throwable e) {
            report(e);
        }
    }

    private static void leader(long number, long address) {
        try {
            Observer observer = OBSERVERS.get(number);
            if (observer == null) return;
            Leader leader = Leader.read(MemorySegment.ofAddress(address).reinterpret(Abi.redlock_leader.BYTES));
            observer.core.run(() -> observer.report(leader));
        } catch (Throwable e) {
            report(e);
        }
    }

    // ---- operations: many start in one call, and leave in one write to each node -----------------

    /** One virtual thread waits for its carrier, and meanwhile others that were answered with it leave here what they want. No platform
     * thread waits for a carrier: it starts at once what is there. */
    void submit(Handle handle) {
        submitted.add(handle);
        if (Thread.currentThread() == thread) {
            submits = true; // starts when all that ended is handed out
            return;
        }
        if (Thread.currentThread().isVirtual() && flying.get() > 1) {
            if (!gathers.compareAndSet(false, true)) return;
            try {
                Thread.yield();
            } finally {
                gathers.set(false);
            }
        }
        startAll();
    }

    /** Takes no monitor before the start, which might part a virtual thread from its carrier. */
    private void startAll() {
        List<Handle> releases = new ArrayList<>();
        List<Handle> acquisitions = new ArrayList<>();
        for (Handle each; (each = submitted.poll()) != null;) (each.releases ? releases : acquisitions).add(each);
        if (!releases.isEmpty()) start(releases, true, 0);
        while (!acquisitions.isEmpty()) {
            long waitMs = acquisitions.getFirst().waitMs;
            start(acquisitions.stream().filter(each -> each.waitMs == waitMs).toList(), false, waitMs);
            acquisitions.removeIf(each -> each.waitMs == waitMs);
        }
    }

    private void start(List<Handle> handles, boolean release, long waitMs) {
        int count = handles.size();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment locks = arena.allocate(ValueLayout.ADDRESS, count);
            MemorySegment results = arena.allocate(ValueLayout.JAVA_INT, count);
            for (int i = 0; i < count; i++) locks.setAtIndex(ValueLayout.ADDRESS, i, handles.get(i).busy());
            if (release) {
                Abi.redlock_release_many_start(locks, count, results, DONE, MemorySegment.NULL);
            } else {
                int ignored = Abi.redlock_acquire_many_start(locks, count, waitMs, results, DONE, MemorySegment.NULL);
            }
            for (int i = 0; i < count; i++) {
                int result = results.getAtIndex(ValueLayout.JAVA_INT, i);
                if (result != Abi.REDLOCK_OK) handles.get(i).finish(result);
                else handles.get(i).started();
            }
        }
    }
}
