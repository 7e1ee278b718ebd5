// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;

/** A lock of the library, apart from the object that the program has. It is never freed while an operation is under way. */
final class Handle implements Core.Kept {
    final Core core;
    final String name;
    final CompletableFuture<RedlockException> loss = new CompletableFuture<>();
    private MemorySegment lock; // null: freed
    private CompletableFuture<Integer> under; // the operation under way; null: none
    private volatile boolean cancelled; // it is to end
    private boolean blocks; // a thread is in the library for it, or is about to be
    private boolean closing;
    private boolean dropped; // freed as soon as nothing is under way

    /** What Core is to start. */
    volatile boolean releases;
    volatile long waitMs;

    Handle(Core core, String name, MemorySegment lock) {
        this.core = core;
        this.name = name;
        this.lock = lock;
    }

    /** null: the lock is freed, or another operation is under way. */
    private synchronized CompletableFuture<Integer> begin() {
        if (lock == null || dropped || under != null) return null;
        core.flying.incrementAndGet();
        under = new CompletableFuture<>();
        return under;
    }

    /** For the operation under way, which keeps it: nothing changes it meanwhile. */
    MemorySegment busy() {
        return lock;
    }

    int finish(int result) {
        CompletableFuture<Integer> over;
        boolean gone;
        int said;
        synchronized (this) {
            over = under;
            under = null;
            cancelled = false;
            gone = dropped;
            said = gone && !closing ? Abi.REDLOCK_CANCELLED : result;
        }
        core.flying.decrementAndGet();
        if (gone) free();
        over.complete(said);
        return said;
    }

    @Override
    public void close() {
        synchronized (this) {
            dropped = true;
        }
        if (!cancel()) free();
    }

    void free() {
        MemorySegment gone;
        synchronized (this) {
            gone = lock;
            lock = null;
        }
        if (gone != null) core.free(this, gone);
    }

    /** Ends an acquisition. False: nothing is under way. The library cannot cancel what it does not have yet: what others start is
     * cancelled in started(), and a thread that blocks is a few instructions away from the library, or from the end. */
    boolean cancel() {
        for (;; Thread.yield()) {
            synchronized (this) {
                if (under == null || lock == null) return false;
                cancelled = true;
                boolean has = !blocks || Abi.redlock_lock_state(lock) == Abi.REDLOCK_STATE_ACQUIRING;
                Abi.redlock_cancel(lock);
                if (has) return true;
            }
        }
    }

    /** The library has the operation. */
    void started() {
        if (cancelled) cancel();
    }

    /** False: it is cancelled before it begins. */
    private synchronized boolean blocks(boolean now) {
        blocks = now && !cancelled;
        return blocks;
    }

    // ---- acquire -------------------------------------------------------------------------------

    CompletableFuture<Integer> acquireAsync(long wait) {
        CompletableFuture<Integer> done = begin();
        if (done == null) return CompletableFuture.completedFuture(Abi.REDLOCK_CANCELLED);
        waitMs = wait;
        core.submit(this);
        return done;
    }

    /** A platform thread does the input and output itself; a virtual one leaves its carrier to others. An interrupt cancels, and the
     * thread remains interrupted. */
    int acquire(long wait) {
        if (Thread.currentThread().isVirtual()) return await(acquireAsync(wait));
        if (begin() == null) return Abi.REDLOCK_CANCELLED;
        int result = Abi.REDLOCK_CANCELLED;
        int said;
        try {
            result = new Interruption(this).acquire(wait);
        } finally {
            said = finish(result);
        }
        return said;
    }

    private int await(CompletableFuture<Integer> done) {
        try {
            return done.get();
        } catch (InterruptedException e) {
            cancel();
            int result = done.join();
            Thread.currentThread().interrupt();
            return result;
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        }
    }

    /** The virtual machine "closes" this when the thread that is inside is interrupted. */
    private static final class Interruption extends AbstractInterruptibleChannel {
        private final Handle handle;

        Interruption(Handle handle) {
            this.handle = handle;
        }

        @Override
        protected void implCloseChannel() {
            handle.cancel();
        }

        int acquire(long wait) {
            try {
                begin();
                return handle.blocks(true) ? Abi.redlock_acquire(handle.busy(), wait) : Abi.REDLOCK_CANCELLED;
            } finally {
                handle.blocks(false); // before end(), which waits for the thread that interrupts
                try {
                    end(true);
                } catch (AsynchronousCloseException e) {
                    // The caller looks at the thread's state.
                }
            }
        }
    }

    // ---- while it is held ----------------------------------------------------------------------

    /** Starts `operation` on the lock, whose `done` is Core.DONE. */
    CompletableFuture<Void> operate(ToIntFunction<MemorySegment> operation) {
        synchronized (this) {
            if (closing || lock == null) return CompletableFuture.failedFuture(notHeld());
        }
        CompletableFuture<Integer> done = begin();
        if (done == null) return CompletableFuture.failedFuture(explain(Abi.REDLOCK_BUSY));
        int started = Abi.REDLOCK_CANCELLED;
        try {
            started = operation.applyAsInt(busy());
        } finally {
            if (started != Abi.REDLOCK_OK) finish(started);
        }
        return done.thenAccept(result -> {
            if (result != Abi.REDLOCK_OK) throw explain(result);
        });
    }

    synchronized long ask(ToLongFunction<MemorySegment> question) {
        return lock == null || closing ? 0 : question.applyAsLong(lock);
    }

    synchronized String token() {
        if (lock == null || closing) return "";
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment token = arena.allocate(Abi.REDLOCK_TOKEN_BYTES_MAX);
            long bytes = Abi.redlock_token_copy(lock, token, Abi.REDLOCK_TOKEN_BYTES_MAX);
            return new String(token.asSlice(0, bytes).toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
        }
    }

    void lost(RedlockException why) {
        synchronized (this) {
            if (closing) return;
        }
        loss.complete(why);
    }

    RedlockException notHeld() {
        RedlockException why = loss.getNow(null);
        String sentence = why != null ? why.sentence() : "lost: the lock is not held";
        return RedlockException.of(Abi.REDLOCK_LOST, name, sentence, why != null ? why.cure() : "");
    }

    synchronized RedlockException explain(int result) {
        if (lock == null) return RedlockException.of(result, name, "cancelled: the client is closed", "");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment why = arena.allocate(Abi.redlock_why_report.BYTES, Long.BYTES);
            Abi.redlock_why_report.size(why, Abi.redlock_why_report.BYTES);
            if (Abi.redlock_why(core.client, lock, result, MemorySegment.NULL, why) != Abi.REDLOCK_OK)
                return RedlockException.of(result, name, Result.of(result).toString(), "");
            return RedlockException.of(Abi.redlock_why_report.result(why), name, Abi.redlock_why_report.sentence(why),
                    Abi.redlock_why_report.cure(why));
        }
    }

    // ---- release -------------------------------------------------------------------------------

    /** Not a result of the library: there is nothing to release. */
    static final int RELEASED = 1;

    /** The operation that a release comes after; null: the lock is released already, or it is being released. */
    private synchronized CompletableFuture<Integer> last() {
        if (closing || lock == null) return null;
        closing = true;
        return under != null ? under : CompletableFuture.completedFuture(Abi.REDLOCK_OK);
    }

    int release() {
        if (Thread.currentThread().isVirtual()) return core.join(releaseAsync());
        CompletableFuture<Integer> before = last();
        if (before == null) return RELEASED;
        core.join(before);
        int result = begin() == null ? Abi.REDLOCK_OK : finish(Abi.redlock_release(busy()));
        free();
        return result;
    }

    CompletableFuture<Integer> releaseAsync() {
        CompletableFuture<Integer> before = last();
        if (before == null) return CompletableFuture.completedFuture(RELEASED);
        return before.thenCompose(over -> {
            CompletableFuture<Integer> done = begin();
            if (done == null) return CompletableFuture.completedFuture(Abi.REDLOCK_OK);
            releases = true;
            core.submit(this);
            return done;
        }).whenComplete((result, none) -> free());
    }
}
