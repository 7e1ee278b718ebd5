// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A client: locks on a majority of its nodes. All methods may be called from any thread.
 *
 * <p>What a future or an observer leads to runs in the client's own thread, as with other clients of Redis: for what blocks, use the
 * future's Async methods.
 */
public final class Redlock implements AutoCloseable {
    private static final Cleaner FORGOTTEN = Cleaner.create();

    private final Core core;
    private final Cleaner.Cleanable forgotten;

    private Redlock(String nodes, ClientOptions options) {
        core = new Core(nodes, options);
        forgotten = FORGOTTEN.register(this, core::close);
    }

    /** On the nodes of REDLOCK_NODES or of /etc/redlock.conf, as the commands do. */
    public static Redlock open() {
        return open(null);
    }

    /** {@link #open(String, ClientOptions)} with the defaults. */
    public static Redlock open(String nodes) {
        return open(nodes, ClientOptions.defaults());
    }

    /** On 1 to 15 nodes, "redis://[user:pass@]host[:port][/db]", "rediss://..." or "unix:///path", separated by commas; null: as
     * {@link #open()}. Returns at once; connections come up in the background. */
    public static Redlock open(String nodes, ClientOptions options) {
        return new Redlock(nodes, options);
    }

    /** Waits for the lock, for ever. */
    public Lock acquire(String resource) throws InterruptedException {
        return acquire(resource, LockOptions.DEFAULTS);
    }

    /** Waits for the lock, at most for {@link LockOptions#maxWait}. An interrupt ends the wait, and leaves nothing on the nodes. */
    public Lock acquire(String resource, LockOptions options) throws InterruptedException {
        return acquire(List.of(resource), options);
    }

    /** One lock on all of the resources, 1 to 64, or on none. */
    public Lock acquire(List<String> resources, LockOptions options) throws InterruptedException {
        if (Thread.interrupted()) throw new InterruptedException();
        Handle handle = core.lock(resources, options);
        int result = handle.acquire(options.waitMs);
        if (result == Abi.REDLOCK_OK) return new Lock(this, handle);
        RedlockException why = handle.explain(result);
        handle.close();
        if (result == Abi.REDLOCK_CANCELLED && Thread.interrupted()) throw new InterruptedException(why.getMessage());
        throw why;
    }

    /** One try; empty if another client has the lock. */
    public Optional<Lock> tryAcquire(String resource, LockOptions options) throws InterruptedException {
        try {
            return Optional.of(acquire(resource, options.maxWait(Duration.ZERO)));
        } catch (RedlockException.Held e) {
            return Optional.empty();
        }
    }

    /** {@link #acquire(String, LockOptions)} without waiting. To cancel the future is to end the acquisition. */
    public CompletableFuture<Lock> acquireAsync(String resource, LockOptions options) {
        return acquireAsync(List.of(resource), options);
    }

    /** {@link #acquire(List, LockOptions)} without waiting. */
    public CompletableFuture<Lock> acquireAsync(List<String> resources, LockOptions options) {
        Handle handle = core.lock(resources, options);
        CompletableFuture<Lock> promise = new CompletableFuture<>();
        handle.acquireAsync(options.waitMs).thenAccept(result -> {
            if (result != Abi.REDLOCK_OK) {
                promise.completeExceptionally(handle.explain(result));
            } else if (!promise.complete(new Lock(this, handle))) {
                handle.close();
            }
        });
        promise.whenComplete((lock, why) -> {
            if (why != null) handle.close();
        });
        return promise;
    }

    /** Waits until it leads. The lock's fence is the term, and observers see `id`. Needs guarded nodes. */
    public Lock elect(String resource, String id, LockOptions options) throws InterruptedException {
        return acquire(resource, options.owner(id).leader());
    }

    /** {@link #elect} without waiting. */
    public CompletableFuture<Lock> electAsync(String resource, String id, LockOptions options) {
        return acquireAsync(resource, options.owner(id).leader());
    }

    /** Reports who leads, from now on and each time that it changes. Takes nothing. */
    public Observer observe(String resource, Consumer<Leader> each) {
        return new Observer(this, core, resource, each);
    }

    /** Ends all waits, releases all locks, and closes the connections. */
    @Override
    public void close() {
        forgotten.clean();
    }
}
