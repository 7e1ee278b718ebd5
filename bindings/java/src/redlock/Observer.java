// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Reports who leads until it is closed. */
public final class Observer implements AutoCloseable, Core.Kept {
    private static final AtomicLong NUMBERS = new AtomicLong();

    final Redlock client; // an observer keeps it
    final Core core;
    final long number = NUMBERS.incrementAndGet();
    private final Consumer<Leader> each;
    private MemorySegment watch; // null: stopped

    Observer(Redlock client, Core core, String resource, Consumer<Leader> each) {
        this.client = client;
        this.core = core;
        this.each = each;
        synchronized (this) {
            watch = core.observe(this, resource);
        }
        core.watch(this);
    }

    void report(Leader leader) {
        synchronized (this) {
            if (watch == null) return;
        }
        each.accept(leader);
    }

    @Override
    public void close() {
        MemorySegment gone;
        synchronized (this) {
            gone = watch;
            watch = null;
        }
        if (gone != null) core.stop(this, gone);
    }
}
