// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import static redlock.ClientOptions.millis;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.function.BiConsumer;

/** How a lock is taken. Immutable: each method returns changed options. */
public final class LockOptions {
    static final LockOptions DEFAULTS = new LockOptions((to, arena) -> { }, Abi.REDLOCK_WAIT_FOREVER);

    private final BiConsumer<MemorySegment, Arena> fill;
    final long waitMs;

    private LockOptions(BiConsumer<MemorySegment, Arena> fill, long waitMs) {
        this.fill = fill;
        this.waitMs = waitMs;
    }

    /** An exclusive lock, renewed, with a TTL of 30 s; to acquire it is to wait for ever. */
    public static LockOptions defaults() {
        return DEFAULTS;
    }

    private LockOptions with(BiConsumer<MemorySegment, Arena> more) {
        return new LockOptions(fill.andThen(more), waitMs);
    }

    MemorySegment in(Arena arena) {
        MemorySegment options = arena.allocate(Abi.redlock_lock_options.BYTES, Long.BYTES);
        Abi.redlock_lock_options_fill(options, Abi.redlock_lock_options.BYTES);
        fill.accept(options, arena);
        return options;
    }

    /** How long the nodes keep the lock if its holder is gone: 10 ms to 24 h. */
    public LockOptions ttl(Duration ttl) {
        long ms = millis(ttl);
        return with((to, arena) -> Abi.redlock_lock_options.ttl_ms(to, ms));
    }

    /** For how long to wait for the lock at most. */
    public LockOptions maxWait(Duration wait) {
        return new LockOptions(fill, millis(wait));
    }

    /** For how long to hold the lock at most; validity ends then. */
    public LockOptions maxHold(Duration hold) {
        if (hold.isZero()) throw new IllegalArgumentException("a hold of no time: it must be longer than 0");
        long ms = millis(hold);
        return with((to, arena) -> Abi.redlock_lock_options.hold_ms_max(to, ms));
    }

    /** Without renewal the lock ends with its TTL, or with that of {@link Lock#extend}. */
    public LockOptions renew(boolean renew) {
        return with((to, arena) -> Abi.redlock_lock_options.renew(to, renew ? 1 : 0));
    }

    /** A shared (read) lock: any number of them at a time, and no exclusive one meanwhile. */
    public LockOptions shared() {
        return with((to, arena) -> Abi.redlock_lock_options.shared(to, 1));
    }

    /** One of 1 to 64 slots of the resource, whichever is free. All clients give the same number. */
    public LockOptions slots(int slots) {
        if (slots < 1) throw new IllegalArgumentException("slots is " + slots + "; it must be between 1 and 64");
        return with((to, arena) -> Abi.redlock_lock_options.slots(to, slots));
    }

    /** A text that `redlock show` shows, of at most 128 bytes. */
    public LockOptions owner(String owner) {
        byte[] bytes = Native.utf8(owner);
        return with((to, arena) -> {
            Abi.redlock_lock_options.owner(to, Native.bytes(arena, bytes));
            Abi.redlock_lock_options.owner_bytes(to, bytes.length);
        });
    }

    LockOptions leader() {
        return with((to, arena) -> Abi.redlock_lock_options.leader(to, 1));
    }
}
