// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import static redlock.ClientOptions.millis;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;

/** A lock that is held, and renewed, until it is closed or lost. All methods may be called from any thread. */
public final class Lock implements AutoCloseable {
    private static final Cleaner FORGOTTEN = Cleaner.create();

    private final Redlock client; // a lock keeps its client
    private final Handle handle;
    private final Cleaner.Cleanable forgotten;

    Lock(Redlock client, Handle handle) {
        this.client = client;
        this.handle = handle;
        forgotten = FORGOTTEN.register(this, handle::close);
    }

    private void join(CompletableFuture<Void> operation) {
        try {
            handle.core.join(operation);
        } catch (CompletionException e) {
            throw e.getCause() instanceof RedlockException why ? why : e;
        }
    }

    /** The client that it was acquired with. */
    public Redlock client() {
        return client;
    }

    /** The resources, separated by commas. */
    public String name() {
        return handle.name;
    }

    /** The fencing token, for the resource that the lock protects: each later holder has a higher one. 0: classic mode, or not held. */
    public long fence() {
        return handle.ask(Abi::redlock_fence);
    }

    /** What the nodes keep under the resource; empty: not held. */
    public String token() {
        return handle.token();
    }

    /** For how long the lock is surely ours; zero: it is not. Asks no node. */
    public Duration validity() {
        return Duration.ofMillis(handle.ask(Abi::redlock_validity_ms));
    }

    /** Which slot is held, from 1; 0: none. */
    public int slot() {
        return (int) handle.ask(Abi::redlock_slot);
    }

    /** Completes with the reason, before validity ends, if the lock is lost; not if it is closed. */
    public CompletionStage<RedlockException> loss() {
        return handle.loss.minimalCompletionStage();
    }

    /** Throws {@link RedlockException.Lost} unless the lock is held now. Asks no node. */
    public void ensureHeld() {
        if (handle.loss.isDone() || handle.ask(Abi::redlock_validity_ms) == 0) throw handle.notHeld();
    }

    /** Makes what is left of the lock's life at least `ttl`. A renewed lock does not need it. */
    public void extend(Duration ttl) {
        join(extendAsync(ttl));
    }

    /** {@link #extend} without waiting. */
    public CompletableFuture<Void> extendAsync(Duration ttl) {
        long ms = millis(ttl);
        if (ms > Abi.REDLOCK_TTL_MS_MAX || ms > 0 && ms < Abi.REDLOCK_TTL_MS_MIN)
            return CompletableFuture.failedFuture(RedlockException.of(Abi.REDLOCK_BAD_ARGUMENT, name(), "ttl_ms is " + ms
                    + "; it must be between " + Abi.REDLOCK_TTL_MS_MIN + " and " + Abi.REDLOCK_TTL_MS_MAX, ""));
        return handle.operate(lock -> Abi.redlock_extend_start(lock, ms, Core.DONE, MemorySegment.NULL));
    }

    /** Makes an exclusive lock a shared one, without a gap. */
    public void downgrade() {
        join(downgradeAsync());
    }

    /** {@link #downgrade} without waiting. */
    public CompletableFuture<Void> downgradeAsync() {
        return handle.operate(lock -> Abi.redlock_downgrade_start(lock, Core.DONE, MemorySegment.NULL));
    }

    /** Releases the lock and waits until a majority has confirmed that. Throws {@link RedlockException.Lost} if it was lost before. Does
     * nothing the second time. */
    @Override
    public void close() {
        over(handle.release());
    }

    /** {@link #close} without waiting. */
    public CompletableFuture<Void> closeAsync() {
        return handle.releaseAsync().thenAccept(this::over);
    }

    private void over(int result) {
        if (result == Handle.RELEASED) return;
        forgotten.clean();
        if (result == Abi.REDLOCK_LOST || handle.loss.isDone()) throw handle.notHeld();
    }
}
