// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Who leads, as an observer knows it. Term, id and sureUntilNs (of CLOCK_BOOTTIME) are set if the leader is KNOWN. */
public record Leader(State state, long term, String id, long sureUntilNs) {
    /** What is known. */
    public enum State {
        /** Too few nodes answer, or the time of the last answer has passed. */
        UNKNOWN,
        /** Nobody leads. */
        NONE,
        /** The terms that one observer reports never fall. */
        KNOWN
    }

    static Leader read(MemorySegment leader) {
        MemorySegment id = Abi.redlock_leader.id(leader);
        byte[] bytes = Abi.redlock_bytes.data(id).reinterpret(Abi.redlock_bytes.bytes(id)).toArray(ValueLayout.JAVA_BYTE);
        State state = switch (Abi.redlock_leader.state(leader)) {
            case Abi.REDLOCK_LEADER_KNOWN -> State.KNOWN;
            case Abi.REDLOCK_LEADER_NONE -> State.NONE;
            default -> State.UNKNOWN;
        };
        return new Leader(state, Abi.redlock_leader.term(leader), new String(bytes, StandardCharsets.UTF_8),
                Abi.redlock_leader.sure_until_ns(leader));
    }

    /** For how long no other client leads, unless this leader resigned. */
    public Duration sureFor() {
        return Duration.ofNanos(Math.max(0, sureUntilNs - Abi.redlock_now_ns()));
    }
}
