// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.BiConsumer;

/** How a client reaches its nodes. Immutable: each method returns changed options. */
public final class ClientOptions {
    /** How strong locks are: safety.md. */
    public enum Mode {
        /** Redlock as other clients know it. */
        CLASSIC(Abi.REDLOCK_MODE_CLASSIC),
        /** Nodes carry a record, and each lock has a fencing token. */
        GUARDED(Abi.REDLOCK_MODE_GUARDED),
        /** Classic until a node shows a record, then guarded for good. */
        AUTO(Abi.REDLOCK_MODE_AUTO);

        private final int number;

        Mode(int number) {
            this.number = number;
        }
    }

    private static final ClientOptions DEFAULTS = new ClientOptions((to, arena) -> { });

    private final BiConsumer<MemorySegment, Arena> fill;

    private ClientOptions(BiConsumer<MemorySegment, Arena> fill) {
        this.fill = fill;
    }

    /** Those of redlock.h. */
    public static ClientOptions defaults() {
        return DEFAULTS;
    }

    private ClientOptions with(BiConsumer<MemorySegment, Arena> more) {
        return new ClientOptions(fill.andThen(more));
    }

    private interface Text {
        void set(MemorySegment options, MemorySegment text);
    }

    private ClientOptions text(Text field, Object value) {
        return with((to, arena) -> field.set(to, Native.text(arena, value.toString())));
    }

    MemorySegment in(Arena arena) {
        MemorySegment options = arena.allocate(Abi.redlock_client_options.BYTES, Long.BYTES);
        Abi.redlock_client_options_fill(options, Abi.redlock_client_options.BYTES);
        fill.accept(options, arena);
        Abi.redlock_client_options.queue(options, 1);
        return options;
    }

    /** At least 1 ms unless it is 0: what the caller gives is never cut to "the default". */
    static long millis(Duration duration) {
        if (duration.isNegative()) throw new IllegalArgumentException("a negative duration: " + duration);
        if (duration.getSeconds() > Long.MAX_VALUE / 1000 - 1) throw new IllegalArgumentException("too long a duration: " + duration);
        return duration.isZero() ? 0 : Math.max(1, duration.toMillis());
    }

    /** AUTO, unless {@link #quorum} is given. */
    public ClientOptions mode(Mode mode) {
        return with((to, arena) -> Abi.redlock_client_options.mode(to, mode.number));
    }

    /** The quorum's id, 16 hex digits: no node of another quorum counts. */
    public ClientOptions quorum(String id) {
        return text(Abi.redlock_client_options::quorum, id);
    }

    /** Before each resource: key = prefix + resource. */
    public ClientOptions keyPrefix(String prefix) {
        return text(Abi.redlock_client_options::key_prefix, prefix);
    }

    /** How long a try waits for a node: min(50 ms, TTL/20), at least 5 ms. */
    public ClientOptions nodeTimeout(Duration timeout) {
        long ms = millis(timeout);
        return with((to, arena) -> Abi.redlock_client_options.node_timeout_ms(to, ms));
    }

    /** Connect, TLS and AUTH together: 1 s. */
    public ClientOptions connectTimeout(Duration timeout) {
        long ms = millis(timeout);
        return with((to, arena) -> Abi.redlock_client_options.connect_timeout_ms(to, ms));
    }

    /** The login at nodes whose URL has no password; the file is read anew for each connection. */
    public ClientOptions login(String user, Path passwordFile) {
        return text(Abi.redlock_client_options::user, user).text(Abi.redlock_client_options::password_file, passwordFile);
    }

    /** PEM; without it, the system's store. */
    public ClientOptions tlsCa(Path file) {
        return text(Abi.redlock_client_options::tls_ca_file, file);
    }

    /** The client's certificate and its key, PEM. */
    public ClientOptions tlsCertificate(Path certificate, Path key) {
        return text(Abi.redlock_client_options::tls_cert_file, certificate).text(Abi.redlock_client_options::tls_key_file, key);
    }
}
